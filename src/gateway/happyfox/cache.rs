//! The directory, kept for an hour. Whoever misses something asks again, but only one at a time, and those who waited take
//! what that one got, an outage too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::directory::Directory;
use crate::ports::{Clock, Unanswered};

/// How long a directory is believed while nothing is missed.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(3600);
/// How old a directory may be at the beginning of what misses something in it: a form that names what does not exist costs the
/// help desk a look in so many seconds, and not one for each submission.
pub(super) const MISSED_AFTER: Duration = Duration::from_secs(5);

/// The kept directory.
#[derive(Default)]
pub(super) struct Cache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Option<(Arc<Directory>, Instant)>,
    failed: Option<(Unanswered, Instant)>,
}

impl Cache {
    /// The directory, asked for after `oldest` (absent: whenever); `load` gets it where there is none.
    ///
    /// # Errors
    /// Those of `load`, whoever it ran for.
    pub(super) async fn since(
        &self,
        oldest: Option<Instant>,
        clock: &dyn Clock,
        load: impl Future<Output = Result<Directory, Unanswered>>,
    ) -> Result<Arc<Directory>, Unanswered> {
        let came = clock.monotonic();
        let mut state = self.state.lock().await;
        if let Some((directory, asked)) = &state.kept
            && oldest.is_none_or(|oldest| *asked >= oldest)
        {
            return Ok(directory.clone());
        }
        if let Some((why, failed)) = &state.failed
            && *failed > came
        {
            return Err(why.clone());
        }
        let asked = clock.monotonic();
        match load.await {
            Ok(directory) => {
                let directory = Arc::new(directory);
                state.kept = Some((directory.clone(), asked));
                Ok(directory)
            }
            Err(why) => {
                state.failed = Some((why.clone(), clock.monotonic()));
                Err(why)
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use futures::future::{BoxFuture, join_all};

    use super::*;
    use crate::gateway::happyfox::words::of_ours;
    use crate::ports::Stage;

    #[derive(Debug)]
    struct Still(Instant, std::sync::Mutex<Duration>);

    impl Still {
        fn advance(&self, by: Duration) {
            *self.1.lock().expect("a clock") += by;
        }
    }

    impl Clock for Still {
        fn monotonic(&self) -> Instant {
            self.0 + *self.1.lock().expect("a clock")
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            std::future::pending().boxed()
        }
    }

    fn still() -> Still {
        Still(Instant::now(), std::sync::Mutex::default())
    }

    #[tokio::test]
    async fn a_storm_asks_once_and_an_outage_is_everybodys() {
        let (cache, clock, asked) = (Cache::default(), still(), AtomicUsize::new(0));
        let load = |answer: Result<Directory, Unanswered>| {
            let (asked, clock) = (&asked, &clock);
            async move {
                asked.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                clock.advance(Duration::from_secs(1));
                answer
            }
        };
        let out = || Err(Unanswered { fault: of_ours(Stage::Get, "out"), wait: None });
        let found = join_all((0..50).map(|_| cache.since(None, &clock, load(out())))).await;
        assert!(found.iter().all(Result::is_err));
        assert_eq!(asked.load(Ordering::SeqCst), 1);

        let found =
            join_all((0..50).map(|_| cache.since(None, &clock, load(Ok(Directory::default()))))).await;
        assert!(found.iter().all(Result::is_ok));
        assert_eq!(asked.load(Ordering::SeqCst), 2, "an outage is not kept");

        let now = clock.monotonic();
        let missed =
            join_all((0..50).map(|_| cache.since(Some(now), &clock, load(Ok(Directory::default())))));
        assert!(missed.await.iter().all(Result::is_ok));
        assert_eq!(asked.load(Ordering::SeqCst), 3, "a miss asks once for all");
    }
}
