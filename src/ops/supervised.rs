//! Rebuilds an event source whenever it ends: the source is never given up, only paused (1 s to 60 s, full jitter).
//!
//! A source that merely falls silent looks the same here as one without messages; an overdue canary asks for a new source
//! through [`Rebuild`]. Messages that the old one handed out, or had received, stay in work beside the new one, so a rebuild
//! costs no delivery attempts. If we die in the middle, nothing is lost: a source contains only messages that were not
//! acked. A message is never dropped, and a loss never reported twice.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures::FutureExt;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;
use tokio::task::{JoinSet, unconstrained};
use tokio::time::Sleep;

use crate::ports::{EventSource, Incoming, SourceError};

/// Ceiling of the first pause.
const REST_MIN: Duration = Duration::from_secs(1);
/// Ceiling of every later pause.
const REST_MAX: Duration = Duration::from_secs(60);

/// An event of the stream, for journal, metrics and the breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The source is finished; another is built after `rest`.
    Lost {
        /// Why.
        error: SourceError,
        /// The pause before the next one.
        rest: Duration,
    },
    /// A new source was asked for through [`Rebuild`].
    Discarded,
    /// A new source is open; its first message, or the next loss, shows whether it works.
    Opened,
    /// The first message after a loss.
    Flowing,
}

/// Makes a source.
pub type Open = Box<dyn FnMut() -> BoxFuture<'static, Result<Box<dyn EventSource>, SourceError>> + Send>;

/// Asks a [`Supervised`] source to discard its stream and build a new one.
#[derive(Debug, Clone)]
pub struct Rebuild(Arc<Notify>);

impl Rebuild {
    /// Asks for a new source; returns at once. Messages in work can still be answered. Without effect while there is no
    /// source anyway.
    pub fn ask(&self) {
        self.0.notify_one();
    }
}

/// A source that is built again whenever it ends. Its `next` never fails.
pub struct Supervised {
    open: Open,
    report: Box<dyn FnMut(Report) + Send>,
    phase: Phase,
    policy: ExponentialBuilder,
    rests: ExponentialBackoff,
    rng: StdRng,
    lost: bool,
    rebuild: Rebuild,
    /// Messages that earlier sources had received and not handed out; delivered first.
    kept: VecDeque<Incoming>,
    /// Earlier sources, until everything they handed out is answered.
    leaving: JoinSet<bool>,
}

enum Phase {
    Opening(BoxFuture<'static, Result<Box<dyn EventSource>, SourceError>>),
    Running(Box<dyn EventSource>),
    Resting(Pin<Box<Sleep>>),
    /// No event is taken until a resume.
    Paused,
    /// No event is taken any more; the last source may still wait for answers.
    Quiet(Option<Box<dyn EventSource>>),
}

impl Supervised {
    /// A source over `open`; `seed` spreads the pauses of several instances; `report` is called in `next`, must not block.
    pub fn new(mut open: Open, seed: u64, report: impl FnMut(Report) + Send + 'static) -> Self {
        let policy =
            ExponentialBuilder::new().with_min_delay(REST_MIN).with_max_delay(REST_MAX).without_max_times();
        let phase = Phase::Opening(open());
        Self {
            open,
            report: Box::new(report),
            phase,
            rests: policy.build(),
            policy,
            rng: StdRng::seed_from_u64(seed),
            lost: false,
            rebuild: Rebuild(Arc::new(Notify::new())),
            kept: VecDeque::new(),
            leaving: JoinSet::new(),
        }
    }

    /// Returns the handle to ask for a new source.
    #[must_use]
    pub fn rebuild(&self) -> Rebuild {
        self.rebuild.clone()
    }

    fn lose(&mut self, error: SourceError) {
        let ceiling = self.rests.next().unwrap_or(REST_MAX);
        let rest = ceiling.mul_f64(self.rng.random());
        self.lost = true;
        self.replace(Phase::Resting(Box::pin(tokio::time::sleep(rest))));
        (self.report)(Report::Lost { error, rest });
    }

    fn discard(&mut self) {
        self.lost = true;
        let opening = Phase::Opening((self.open)());
        self.replace(opening);
        (self.report)(Report::Discarded);
    }

    /// Goes on to `phase`. A source that ran until now hands over its received messages; its streams are closed, while
    /// messages in work can still be answered.
    fn replace(&mut self, phase: Phase) {
        if let Phase::Running(mut source) = std::mem::replace(&mut self.phase, phase) {
            while let Some(Ok(message)) = unconstrained(source.next()).now_or_never() {
                self.kept.push_back(message);
            }
            while self.leaving.try_join_next().is_some() {}
            self.leaving.spawn(source.stop(Duration::MAX));
        }
    }

    fn receive(&mut self, message: Incoming) -> Incoming {
        if self.lost {
            self.lost = false;
            self.rests = self.policy.build();
            (self.report)(Report::Flowing);
        }
        message
    }
}

impl EventSource for Supervised {
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
        // The state of the wait is in `phase`, so a dropped future loses nothing.
        async move {
            loop {
                if !matches!(self.phase, Phase::Paused)
                    && let Some(message) = self.kept.pop_front()
                {
                    return Ok(message);
                }
                match &mut self.phase {
                    Phase::Quiet(_) | Phase::Paused => return std::future::pending().await,
                    Phase::Resting(sleep) => {
                        sleep.await;
                        self.phase = Phase::Opening((self.open)());
                    }
                    Phase::Opening(opening) => match opening.await {
                        Ok(source) => {
                            // A request for a new source is fulfilled by this one.
                            let _asked: Option<()> = self.rebuild.0.notified().now_or_never();
                            self.phase = Phase::Running(source);
                            (self.report)(Report::Opened);
                        }
                        Err(error) => self.lose(error),
                    },
                    Phase::Running(source) => {
                        let received = tokio::select! {
                            biased;
                            () = self.rebuild.0.notified() => None,
                            received = source.next() => Some(received),
                        };
                        match received {
                            Some(Ok(message)) => return Ok(self.receive(message)),
                            Some(Err(error)) => self.lose(error),
                            None => self.discard(),
                        }
                    }
                }
            }
        }
        .boxed()
    }

    /// Closes the streams; their received messages stay leased, for the time after the pause.
    fn pause(&mut self) -> BoxFuture<'_, ()> {
        async move {
            if !matches!(self.phase, Phase::Quiet(_)) {
                self.replace(Phase::Paused);
            }
        }
        .boxed()
    }

    fn resume(&mut self) {
        if matches!(self.phase, Phase::Paused) {
            self.phase = Phase::Opening((self.open)());
        }
    }

    fn quiet(&mut self) -> BoxFuture<'_, ()> {
        async move {
            let last = match std::mem::replace(&mut self.phase, Phase::Quiet(None)) {
                Phase::Running(source) => Some(source),
                Phase::Quiet(source) => source,
                Phase::Opening(_) | Phase::Resting(_) | Phase::Paused => None,
            };
            self.phase = Phase::Quiet(last);
            if let Phase::Quiet(Some(source)) = &mut self.phase {
                source.quiet().await;
            }
            self.kept.clear();
        }
        .boxed()
    }

    fn stop(mut self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool> {
        async move {
            let settled = async {
                self.quiet().await;
                if let Phase::Quiet(Some(source)) = std::mem::replace(&mut self.phase, Phase::Quiet(None)) {
                    self.leaving.spawn(source.stop(Duration::MAX));
                }
                let mut all = true;
                while let Some(stopped) = self.leaving.join_next().await {
                    all &= stopped.unwrap_or(false);
                }
                all
            };
            tokio::time::timeout(timeout, settled).await.unwrap_or(false)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bytes::Bytes;

    use super::*;
    use crate::ports::{Attributes, Settle};

    /// The scripted answer of a source.
    enum Act {
        Give(&'static str),
        Fail,
        Wait,
    }

    struct Scripted(VecDeque<Act>);

    fn ended() -> SourceError {
        SourceError::Ended { subscription: "projects/p/subscriptions/s".to_owned() }
    }

    impl EventSource for Scripted {
        fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
            // Taken at the poll, not at the call: a future that is never polled loses nothing.
            async {
                match self.0.pop_front() {
                    Some(Act::Give(id)) => Ok(Incoming {
                        message_id: id.to_owned(),
                        published_at: None,
                        delivery_attempt: None,
                        attributes: Attributes::new(),
                        data: Bytes::new(),
                        settle: Settle::new(|_| {}),
                    }),
                    Some(Act::Fail) => Err(ended()),
                    Some(Act::Wait) | None => std::future::pending().await,
                }
            }
            .boxed()
        }

        fn quiet(&mut self) -> BoxFuture<'_, ()> {
            self.0.clear();
            futures::future::ready(()).boxed()
        }

        fn stop(self: Box<Self>, _timeout: Duration) -> BoxFuture<'static, bool> {
            futures::future::ready(true).boxed()
        }
    }

    /// A supervised source over scripts: one per opening, `None` for an opening that fails.
    fn supervised(scripts: Vec<Option<Vec<Act>>>) -> (Supervised, Arc<Mutex<Vec<Report>>>) {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&reports);
        let mut scripts = scripts.into_iter();
        let open: Open = Box::new(move || {
            let script = scripts.next().expect("opened more often than scripted");
            let opened = script.map(|acts| Box::new(Scripted(acts.into())) as Box<dyn EventSource>);
            futures::future::ready(opened.ok_or_else(ended)).boxed()
        });
        let mut source = Supervised::new(open, 7, move |report| seen.lock().unwrap().push(report));
        source.policy = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(4))
            .with_max_delay(Duration::from_millis(16))
            .without_max_times();
        source.rests = source.policy.build();
        (source, reports)
    }

    fn names(reports: &Mutex<Vec<Report>>) -> Vec<&'static str> {
        let name = |report: &Report| match report {
            Report::Lost { .. } => "lost",
            Report::Discarded => "discarded",
            Report::Opened => "opened",
            Report::Flowing => "flowing",
        };
        reports.lock().unwrap().iter().map(name).collect()
    }

    #[tokio::test]
    async fn a_source_that_ends_or_cannot_be_opened_is_built_again() {
        let (mut source, reports) = supervised(vec![
            Some(vec![Act::Give("1"), Act::Fail]),
            None,
            Some(vec![Act::Fail]),
            Some(vec![Act::Give("2"), Act::Give("3")]),
        ]);
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(source.next().await.unwrap().message_id);
        }
        assert_eq!(ids, ["1", "2", "3"]);
        let expected = ["opened", "lost", "lost", "opened", "lost", "opened", "flowing"];
        assert_eq!(names(&reports), expected);
    }

    #[tokio::test]
    async fn rests_grow_to_their_ceiling_and_start_anew_after_a_message() {
        let mut scripts: Vec<Option<Vec<Act>>> = (0..40).map(|_| None).collect();
        scripts.push(Some(vec![Act::Give("1"), Act::Fail]));
        scripts.push(Some(vec![Act::Give("2")]));
        let (mut source, reports) = supervised(scripts);
        assert_eq!(source.next().await.unwrap().message_id, "1");
        assert_eq!(source.next().await.unwrap().message_id, "2");
        let rests: Vec<Duration> = reports
            .lock()
            .unwrap()
            .iter()
            .filter_map(|report| match report {
                Report::Lost { rest, .. } => Some(*rest),
                Report::Discarded | Report::Opened | Report::Flowing => None,
            })
            .collect();
        let ms = Duration::from_millis;
        assert_eq!(rests.len(), 41);
        assert!(rests[0] <= ms(4) && rests[1] <= ms(8), "{rests:?}");
        let longest = rests.iter().max().unwrap();
        assert!(*longest > ms(8) && *longest <= ms(16), "{rests:?}");
        assert!(rests[2..].iter().any(|rest| *rest < ms(4)), "the jitter is full: {rests:?}");
        assert!(rests[40] <= ms(4), "{rests:?}");
    }

    #[tokio::test]
    async fn whoever_asks_gets_a_new_source() {
        let (mut source, reports) =
            supervised(vec![Some(vec![Act::Give("1"), Act::Wait]), Some(vec![Act::Give("2")])]);
        let rebuild = source.rebuild();
        rebuild.ask();
        assert_eq!(source.next().await.unwrap().message_id, "1", "without a source nothing is discarded");
        assert!(tokio::time::timeout(Duration::from_millis(20), source.next()).await.is_err());
        rebuild.ask();
        assert_eq!(source.next().await.unwrap().message_id, "2");
        assert_eq!(names(&reports), ["opened", "discarded", "opened", "flowing"]);
    }

    #[tokio::test]
    async fn what_the_old_source_had_received_comes_before_what_the_new_one_has() {
        let (mut source, reports) = supervised(vec![
            Some(vec![Act::Give("1"), Act::Give("2"), Act::Give("3"), Act::Wait]),
            Some(vec![Act::Give("4"), Act::Fail]),
            None,
            Some(vec![Act::Give("5")]),
        ]);
        let mut ids = vec![source.next().await.unwrap().message_id];
        source.rebuild().ask();
        for _ in 0..4 {
            ids.push(source.next().await.unwrap().message_id);
        }
        assert_eq!(ids, ["1", "2", "3", "4", "5"]);
        let expected = ["opened", "discarded", "opened", "flowing", "lost", "lost", "opened", "flowing"];
        assert_eq!(names(&reports), expected);
    }

    #[tokio::test]
    async fn once_quiet_nothing_comes_whatever_it_was_doing() {
        for before_anything_is_open in [Some(vec![Act::Give("1")]), None] {
            let (mut source, _) = supervised(vec![before_anything_is_open]);
            source.quiet().await;
            assert!(tokio::time::timeout(Duration::from_millis(40), source.next()).await.is_err());
            assert!(Box::new(source).stop(Duration::from_secs(1)).await);
        }
        let running = vec![Some(vec![Act::Give("1"), Act::Give("2"), Act::Give("3"), Act::Fail])];
        let (mut source, reports) = supervised(running);
        assert_eq!(source.next().await.unwrap().message_id, "1");
        source.quiet().await;
        source.rebuild().ask();
        assert!(tokio::time::timeout(Duration::from_millis(40), source.next()).await.is_err());
        assert_eq!(names(&reports), ["opened"]);
    }

    #[tokio::test]
    async fn while_paused_nothing_comes_and_nothing_is_lost() {
        let (mut source, reports) = supervised(vec![
            Some(vec![Act::Give("1"), Act::Give("2"), Act::Give("3"), Act::Wait]),
            Some(vec![Act::Give("4")]),
            Some(vec![Act::Give("5")]),
        ]);
        assert_eq!(source.next().await.unwrap().message_id, "1");
        source.pause().await;
        source.pause().await;
        source.rebuild().ask();
        assert!(tokio::time::timeout(Duration::from_millis(40), source.next()).await.is_err());
        source.resume();
        source.resume();
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(source.next().await.unwrap().message_id);
        }
        assert_eq!(ids, ["2", "3", "4"], "what was kept first, and a new stream");
        source.pause().await;
        source.quiet().await;
        source.resume();
        assert!(
            tokio::time::timeout(Duration::from_millis(40), source.next()).await.is_err(),
            "quiet is quiet"
        );
        assert_eq!(names(&reports), ["opened", "opened"], "a pause is no loss");
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_loses_no_rest() {
        let (mut source, _) = supervised(vec![None, Some(vec![Act::Give("1")])]);
        let mut given_up = 0;
        let message = loop {
            match tokio::time::timeout(Duration::from_micros(200), source.next()).await {
                Ok(message) => break message,
                Err(_) => given_up += 1,
            }
            assert!(given_up < 1_000, "the rest starts over at every wait");
        };
        assert_eq!(message.unwrap().message_id, "1");
    }
}
