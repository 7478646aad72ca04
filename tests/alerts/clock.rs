//! A clock that moves only when a test moves it, and knows who sleeps on it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::ports::Clock;
use std::sync::Arc;
use tokio::sync::watch;

/// The clock of the module's header.
#[derive(Debug)]
pub(crate) struct MockClock {
    start: Instant,
    ahead: watch::Sender<Duration>,
    asleep: Arc<Mutex<BTreeMap<u64, Duration>>>,
}

/// A sleeper; gone when its future is dropped.
struct Asleep(Arc<Mutex<BTreeMap<u64, Duration>>>, u64);

impl Drop for Asleep {
    fn drop(&mut self) {
        self.0.lock().expect("sleepers").remove(&self.1);
    }
}

impl MockClock {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            ahead: watch::channel(Duration::ZERO).0,
            asleep: Arc::default(),
        })
    }

    /// Waits until so many sleep, and none of them is due.
    pub(crate) async fn settled(&self, tasks: usize) {
        // Tasks woken by something else than this clock get to run first.
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        for _ in 0..60_000 {
            let now = *self.ahead.borrow();
            {
                let asleep = self.asleep.lock().expect("sleepers");
                if asleep.len() >= tasks && asleep.values().all(|due| *due > now) {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{tasks} tasks do not come to rest");
    }

    /// Moves on by `by`, stopping wherever one of `tasks` wants to wake up.
    pub(crate) async fn advance(&self, by: Duration, tasks: usize) {
        let target = *self.ahead.borrow() + by;
        loop {
            self.settled(tasks).await;
            let next = self.asleep.lock().expect("sleepers").values().min().copied();
            let next = next.filter(|next| *next <= target);
            self.ahead.send_replace(next.unwrap_or(target));
            if next.is_none() {
                return self.settled(tasks).await;
            }
        }
    }
}

impl Clock for MockClock {
    fn monotonic(&self) -> Instant {
        self.start + *self.ahead.borrow()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        let mut ahead = self.ahead.subscribe();
        let asleep = Arc::clone(&self.asleep);
        async move {
            let due = *ahead.borrow() + pause;
            let id = {
                let mut all = asleep.lock().expect("sleepers");
                let id = all.keys().max().map_or(0, |last| last + 1);
                all.insert(id, due);
                id
            };
            let _here = Asleep(asleep, id);
            ahead.wait_for(|now| *now >= due).await.map(drop).expect("the clock lives");
        }
        .boxed()
    }
}
