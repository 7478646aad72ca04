//! Metrics: each is declared once, with its name, its description, its kind and its closed labels, is listed on a card, and
//! is counted through its own declaration.
//!
//! A card's metrics exist at 0 from the start ([`Metric::start`]), so that a rate over the first minute is right and an
//! alert on a missing series never fires by mistake. Counting never fails and never blocks. A restart resets all.

use std::time::Duration;

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::Word;

/// The labels of a metric's series: none, a member of a closed set, or one member of each of two sets.
pub trait Labels: Copy + 'static {
    /// Every combination that exists from the start.
    fn all() -> Vec<Self>;

    /// The values of the labels, in the order of their names.
    fn values(self) -> Vec<&'static str>;
}

impl Labels for () {
    fn all() -> Vec<Self> {
        vec![()]
    }

    fn values(self) -> Vec<&'static str> {
        Vec::new()
    }
}

impl<W: Word> Labels for W {
    fn all() -> Vec<Self> {
        W::ALL.to_vec()
    }

    fn values(self) -> Vec<&'static str> {
        vec![self.label()]
    }
}

/// Labels that others declare: their series exist from [`Histogram::touch`] or [`Gauge::set`] on.
impl Labels for &'static str {
    fn all() -> Vec<Self> {
        Vec::new()
    }

    fn values(self) -> Vec<&'static str> {
        vec![self]
    }
}

impl<A: Labels, B: Labels> Labels for (A, B) {
    fn all() -> Vec<Self> {
        A::all().into_iter().flat_map(|a| B::all().into_iter().map(move |b| (a, b))).collect()
    }

    fn values(self) -> Vec<&'static str> {
        [self.0.values(), self.1.values()].concat()
    }
}

/// A value that a gauge can show.
pub trait Amount {
    /// The value as Prometheus takes it.
    fn amount(self) -> f64;
}

impl Amount for u64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of rows, and seconds since 1970, are far below 2^52"
    )]
    fn amount(self) -> f64 {
        self as f64
    }
}

impl Amount for usize {
    #[expect(clippy::cast_precision_loss, reason = "counts of what is in memory are far below 2^52")]
    fn amount(self) -> f64 {
        self as f64
    }
}

impl Amount for bool {
    fn amount(self) -> f64 {
        f64::from(u8::from(self))
    }
}

impl Amount for Duration {
    fn amount(self) -> f64 {
        self.as_secs_f64()
    }
}

/// A declared metric, as a card lists it.
pub trait Metric: Sync {
    /// The full name.
    fn name(&self) -> &'static str;

    /// Describes the metric, and makes its series exist at 0.
    fn start(&self);

    /// The buckets of a histogram.
    fn buckets(&self) -> Option<&'static [f64]> {
        None
    }
}

/// A declaration: a [`Counter`], a [`Gauge`] or a [`Histogram`].
pub struct Declared<K, L: 'static = ()> {
    name: &'static str,
    about: &'static str,
    labels: &'static [&'static str],
    from_the_start: fn() -> Vec<L>,
    kind: K,
}

/// The kind of a counter.
#[derive(Clone, Copy)]
pub struct Counts;
/// The kind of a gauge.
#[derive(Clone, Copy)]
pub struct Shows;
/// The kind of a histogram, with its buckets in seconds.
#[derive(Clone, Copy)]
pub struct Measures(&'static [f64]);

/// A number that only grows.
pub type Counter<L = ()> = Declared<Counts, L>;
/// A number that goes up and down.
pub type Gauge<L = ()> = Declared<Shows, L>;
/// A distribution of durations.
pub type Histogram<L = ()> = Declared<Measures, L>;

impl Counter {
    /// A counter of one series.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self::alone(name, about, Counts)
    }
}

impl Gauge {
    /// A gauge of one series.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self::alone(name, about, Shows)
    }
}

impl Histogram {
    /// A histogram of one series in these buckets, in seconds.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str, buckets: &'static [f64]) -> Self {
        Self::alone(name, about, Measures(buckets))
    }
}

impl<K: Copy> Declared<K> {
    const fn alone(name: &'static str, about: &'static str, kind: K) -> Self {
        Self { name, about, labels: &[], from_the_start: <() as Labels>::all, kind }
    }

    /// A series for each of `L`, under labels of these names.
    #[must_use]
    pub const fn by<L: Labels>(self, labels: &'static [&'static str]) -> Declared<K, L> {
        let Self { name, about, kind, .. } = self;
        Declared { name, about, labels, from_the_start: L::all, kind }
    }
}

impl<K: Copy, L: Labels> Declared<K, L> {
    /// The same metric, with only these series from the start.
    #[must_use]
    pub const fn only(self, from_the_start: fn() -> Vec<L>) -> Self {
        let Self { name, about, labels, kind, .. } = self;
        Self { name, about, labels, from_the_start, kind }
    }

    /// The unit, which Prometheus has in the name.
    fn unit(&self) -> Unit {
        if self.name.contains("_seconds") { Unit::Seconds } else { Unit::Count }
    }

    fn labelled(&self, of: L) -> Vec<Label> {
        let values = of.values().into_iter();
        self.labels.iter().zip(values).map(|(name, value)| Label::from_static_parts(name, value)).collect()
    }
}

impl<L: Labels> Counter<L> {
    /// Adds `more` to the series.
    pub fn add(&self, of: L, more: u64) {
        counter!(self.name, self.labelled(of)).increment(more);
    }
}

impl<L: Labels> Gauge<L> {
    /// Sets the value of the series.
    pub fn set(&self, of: L, to: impl Amount) {
        gauge!(self.name, self.labelled(of)).set(to.amount());
    }
}

impl<L: Labels> Histogram<L> {
    /// Records one duration.
    pub fn record(&self, of: L, took: Duration) {
        histogram!(self.name, self.labelled(of)).record(took);
    }

    /// Makes the series exist.
    pub fn touch(&self, of: L) {
        drop(histogram!(self.name, self.labelled(of)));
    }
}

impl<L: Labels> Metric for Counter<L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn start(&self) {
        describe_counter!(self.name, self.unit(), self.about);
        (self.from_the_start)().into_iter().for_each(|of| self.add(of, 0));
    }
}

impl<L: Labels> Metric for Gauge<L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn start(&self) {
        describe_gauge!(self.name, self.unit(), self.about);
        (self.from_the_start)().into_iter().for_each(|of| self.set(of, false));
    }
}

impl<L: Labels> Metric for Histogram<L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn start(&self) {
        describe_histogram!(self.name, self.unit(), self.about);
        (self.from_the_start)().into_iter().for_each(|of| self.touch(of));
    }

    fn buckets(&self) -> Option<&'static [f64]> {
        Some(self.kind.0)
    }
}
