//! One time for everybody: the monotonic clock of every simulated process and the clock of the database move
//! together, and only when a sequence says so.
//!
//! The database reads its time from a file (see `history.rs`), which is replaced in the same breath as the
//! processes' clock moves, so that neither is ever ahead of the other.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use maple_router::ports::Clock;
use tokio::sync::oneshot;

/// The clock. Cheap to clone; all clones are the same clock.
#[derive(Debug, Clone)]
pub(crate) struct SimClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    base: Instant,
    epoch: Timestamp,
    file: PathBuf,
    state: Mutex<State>,
    /// Count of readings and waits: every active task looks at the clock, so a quiet clock is a quiet world.
    asked: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    elapsed: Duration,
    sleepers: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
    count: u64,
}

impl SimClock {
    /// A clock that tells the database its time through `file`.
    #[expect(clippy::disallowed_methods, reason = "an instant to count from; only differences are used")]
    pub(crate) fn new(file: &Path) -> Self {
        let epoch = "2026-11-01T08:00:00Z".parse().expect("a timestamp");
        let (state, asked) = (Mutex::default(), AtomicU64::new(0));
        let clock =
            Self(Arc::new(Shared { base: Instant::now(), epoch, file: file.to_owned(), state, asked }));
        clock.advance(Duration::ZERO);
        clock
    }

    /// Moves time on and wakes every sleeper that is due.
    pub(crate) fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.elapsed += by;
        let now = self.0.epoch.checked_add(state.elapsed).expect("a time");
        let fresh = self.0.file.with_extension("fresh");
        fs::write(&fresh, now.to_string()).expect("the database's clock");
        fs::rename(&fresh, &self.0.file).expect("the database's clock");
        let until = (state.elapsed, u64::MAX);
        let later = state.sleepers.split_off(&until);
        for (_, sleeper) in std::mem::replace(&mut state.sleepers, later) {
            // A sleeper that does not wait any more is not woken.
            sleeper.send(()).ok();
        }
    }

    /// Simulated time since the clock was made.
    pub(crate) fn elapsed(&self) -> Duration {
        self.state().elapsed
    }

    /// Number of readings and waits so far.
    pub(crate) fn asked(&self) -> u64 {
        self.0.asked.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimClock {
    fn monotonic(&self) -> Instant {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        self.0.base + self.state().elapsed
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        if pause.is_zero() {
            return futures::future::ready(()).boxed();
        }
        let (wake, woken) = oneshot::channel();
        state.count += 1;
        let due = (state.elapsed + pause, state.count);
        state.sleepers.insert(due, wake);
        // A sleeper that is dropped with the clock never wakes.
        async move {
            if woken.await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}
