//! A bounded journal: a repeated line is written a few times, then counted, and once a minute a line reports the count.
//!
//! Lines are counted by their call site. Exempt are events of the closed vocabulary (each submission's story), errors that
//! name a submission, and lines quieter than `info`, which an operator asked for. If we die, the counts of the last minute
//! are gone.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::ports::Clock;

/// Interval at which [`LogRate::tell`] is to be called.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Lines of one call site within the first window.
const FREE: u32 = 3;
/// The target of the counts' lines; never counted itself.
const TARGET: &str = "maple_router::ops::log_rate";

/// The counts of the journal. Clones count together.
#[derive(Clone)]
pub struct LogRate(Arc<Counts>);

struct Counts {
    clock: Arc<dyn Clock>,
    /// One entry for each call site with recent lines: never more than the program has.
    sites: Mutex<HashMap<Identifier, CallSite>>,
}

/// The lines of one call site in this window.
#[derive(Debug)]
struct CallSite {
    since: Instant,
    written: u32,
    left_out: u64,
    level: Level,
    /// The last line that was left out.
    words: String,
}

impl CallSite {
    fn new(now: Instant, level: Level) -> Self {
        Self { since: now, written: 0, left_out: 0, level, words: String::new() }
    }

    /// Returns whether one more line may be written.
    fn admits(&mut self, now: Instant) -> bool {
        let over = now.saturating_duration_since(self.since) >= WINDOW;
        if over && self.left_out == 0 {
            *self = Self::new(now, self.level);
        }
        if self.written < FREE {
            self.written += 1;
            return true;
        }
        self.left_out += 1;
        false
    }

    /// Returns the count since the last call; the site stays silent as long as lines keep coming.
    fn take(&mut self, now: Instant) -> Option<(Level, u64, String)> {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out == 0 {
            return None;
        }
        (self.since, self.written) = (now, FREE);
        Some((self.level, left_out, std::mem::take(&mut self.words)))
    }
}

impl LogRate {
    /// A journal without any counts.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Counts { clock, sites: Mutex::default() }))
    }

    /// Writes the counts since the last call; to be called once per [`WINDOW`], and at the end.
    pub fn tell(&self) {
        for (level, count, words) in self.take() {
            if level == Level::INFO {
                tracing::info!(target: TARGET, left_out = count, "{count} more like this: {words}");
            } else {
                tracing::warn!(target: TARGET, left_out = count, "{count} more like this: {words}");
            }
        }
    }

    fn take(&self) -> Vec<(Level, u64, String)> {
        let now = self.0.clock.monotonic();
        let mut sites = self.0.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let reported = sites.values_mut().filter_map(|site| site.take(now)).collect();
        sites.retain(|_, site| now.saturating_duration_since(site.since) < WINDOW);
        reported
    }
}

/// Returns whether a line is always written.
fn is_exempt(metadata: &Metadata<'_>) -> bool {
    let has = |name: &str| metadata.fields().field(name).is_some();
    *metadata.level() > Level::INFO
        || has("event")
        || *metadata.level() == Level::ERROR && has("submission_id")
        || metadata.target() == TARGET
}

impl<S: Subscriber> Layer<S> for LogRate {
    fn event_enabled(&self, event: &Event<'_>, _ctx: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if is_exempt(metadata) {
            return true;
        }
        let now = self.0.clock.monotonic();
        let mut sites = self.0.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let site = sites.entry(metadata.callsite()).or_insert_with(|| CallSite::new(now, *metadata.level()));
        let admitted = site.admits(now);
        if !admitted {
            let mut words = Words::default();
            event.record(&mut words);
            site.words = words.0;
        }
        admitted
    }
}

/// The message of an event.
#[derive(Default)]
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::journal;
    use crate::ops::telemetry::EventName;

    #[derive(Debug, Clone)]
    struct Moved(Arc<Mutex<Instant>>);

    impl Clock for Moved {
        fn monotonic(&self) -> Instant {
            *self.0.lock().expect("lock")
        }

        fn sleep(&self, _pause: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    /// Collects the written lines.
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Page {
        fn on_event(&self, event: &Event<'_>, _ctx: Context<'_, S>) {
            let mut words = Words::default();
            event.record(&mut words);
            self.0.lock().expect("lock").push(words.0);
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the first")]
    fn what_repeats_is_counted_and_a_story_is_whole() {
        let clock = Moved(Arc::new(Mutex::new(Instant::now())));
        let (rate, page) = (LogRate::new(Arc::new(clock.clone())), Page::default());
        let subscriber = tracing_subscriber::registry().with(rate.clone()).with(page.clone());
        let written = || std::mem::take(&mut *page.0.lock().expect("lock"));
        let pass = |seconds| *clock.0.lock().expect("lock") += Duration::from_secs(seconds);
        let speak = |n: u32| {
            for i in 0..n {
                tracing::warn!("the database is away ({i})");
            }
        };
        tracing::subscriber::with_default(subscriber, || {
            speak(100);
            tracing::warn!("another cause");
            let first = ["the database is away (0)", "the database is away (1)", "the database is away (2)"];
            assert_eq!(written(), [&first[..], &["another cause"]].concat());
            // While lines keep coming, one line a minute.
            for minute in 1..4 {
                pass(60);
                rate.tell();
                let count = if minute == 1 { 97 } else { 50 };
                let last = if minute == 1 { 99 } else { 49 };
                let expected = format!("{count} more like this: the database is away ({last})");
                assert_eq!(written(), [expected], "minute {minute}");
                speak(50);
                assert!(written().is_empty());
            }
            pass(60);
            rate.tell();
            // After a minute without a line, the next is news again.
            pass(60);
            rate.tell();
            written();
            speak(1);
            assert_eq!(written(), ["the database is away (0)"]);
            for n in 0..50 {
                journal!(info, EventName::Reloaded, submission_id = n, "reloaded");
                tracing::error!(submission_id = n, "not recorded");
                tracing::debug!("asked for");
            }
            assert_eq!(written().len(), 150);
            assert!(rate.take().is_empty());
        });
    }
}
