//! Feeds systemd's watchdog with the verdict of [`crate::ops::watchdog`]: from a thread of its own, because the
//! judge of the event loop must not depend on it.
//!
//! A missing proof is logged once, and systemd gets no more signs until it is back; then systemd ends the process, and its
//! pending submissions are in doubt until the sweep takes them back. Without `WatchdogSec=` nothing of this runs.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::db::pool::Pool;
use crate::ops::systemd;
use crate::ops::watchdog::{Counted, Database, Proof, Watch, WatchIntervals, Worker};
use crate::ports::Clock;
use crate::routing::outages::Outages;

/// Shortest interval: below it, an outage of the database may be taken for a standstill before its breaker is open.
const LEAST: Duration = Duration::from_secs(90);
/// Sleep of a task of the event loop, to prove that timers fire.
const BLINK: Duration = Duration::from_millis(1);

/// Proofs of progress, shared with their makers.
#[derive(Debug, Default)]
struct Progress {
    beats: AtomicU64,
    /// A task of the event loop is under way; one at a time.
    turning: AtomicBool,
    /// The receiver's rounds, once there is one.
    rounds: OnceLock<Arc<AtomicU64>>,
    answers: AtomicU64,
}

/// The watchdog; ends with its last owner.
pub(super) struct Watchdog {
    progress: Arc<Progress>,
    asking: Option<JoinHandle<()>>,
    /// The thread ends when this is gone.
    _thread: Option<mpsc::Sender<()>>,
}

impl Watchdog {
    /// Starts the watchdog, where systemd listens. From `stop` on, the receiver need not make its rounds.
    pub(super) fn start(
        pool: Pool,
        outages: Outages,
        clock: Arc<dyn Clock>,
        stop: &CancellationToken,
    ) -> std::io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let Some(limit) = systemd::watchdog_limit() else {
            return Ok(Self { progress, asking: None, _thread: None });
        };
        if limit < LEAST {
            tracing::warn!(
                "WatchdogSec={} is short: a database that hangs may be taken for a standstill of this process; set {} or more",
                limit.as_secs(),
                LEAST.as_secs()
            );
        }
        let intervals = WatchIntervals::of(limit);
        let asking = tokio::spawn(ask(
            Arc::clone(&progress),
            pool,
            outages.clone(),
            Arc::clone(&clock),
            intervals.ask,
        ));
        let judge = Judge {
            handle: Handle::current(),
            progress: Arc::clone(&progress),
            outages,
            clock,
            stop: stop.clone(),
            missing: Vec::new(),
        };
        let (thread, ended) = mpsc::channel();
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || judge.run(intervals, &ended))?;
        Ok(Self { progress, asking: Some(asking), _thread: Some(thread) })
    }

    /// Requires these rounds of the receiver from now on.
    pub(super) fn reading(&self, rounds: Arc<AtomicU64>) {
        // A daemon has one receiver in its life.
        self.progress.rounds.get_or_init(|| rounds);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(asking) = &self.asking {
            asking.abort();
        }
    }
}

/// Asks the database every so often; while its breaker is open, the breaker's own probe does.
async fn ask(progress: Arc<Progress>, pool: Pool, outages: Outages, clock: Arc<dyn Clock>, every: Duration) {
    loop {
        if !outages.postgres.is_open() {
            match pool.ask().await {
                Ok(()) => {
                    progress.answers.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => outages.database(&error),
            }
        }
        clock.sleep(every).await;
    }
}

/// State of the thread.
struct Judge {
    handle: Handle,
    progress: Arc<Progress>,
    outages: Outages,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    /// Proofs missing at the last log line.
    missing: Vec<Proof>,
}

impl Judge {
    /// Looks until the other end of `ended` is gone.
    fn run(mut self, intervals: WatchIntervals, ended: &mpsc::Receiver<()>) {
        let mut watch = Watch::new(intervals);
        loop {
            self.beat();
            if ended.recv_timeout(intervals.look) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let missing = watch.look(self.clock.monotonic(), &self.count());
            if missing.is_empty() {
                systemd::alive();
            }
            self.tell(missing);
        }
    }

    /// Spawns a task on the event loop.
    fn beat(&self) {
        if self.progress.turning.swap(true, Ordering::Relaxed) {
            return;
        }
        let (progress, clock) = (Arc::clone(&self.progress), Arc::clone(&self.clock));
        self.handle.spawn(async move {
            clock.sleep(BLINK).await;
            progress.beats.fetch_add(1, Ordering::Relaxed);
            progress.turning.store(false, Ordering::Relaxed);
        });
    }

    fn count(&self) -> Counted {
        let rounds = self.progress.rounds.get().filter(|_| !self.stop.is_cancelled());
        Counted {
            beats: self.progress.beats.load(Ordering::Relaxed),
            workers: workers(&self.handle.metrics()),
            rounds: rounds.map(|rounds| rounds.load(Ordering::Relaxed)),
            database: if self.outages.postgres.is_open() {
                Database::KnownToBeOut
            } else {
                Database::Answers(self.progress.answers.load(Ordering::Relaxed))
            },
        }
    }

    fn tell(&mut self, missing: Vec<Proof>) {
        if missing == self.missing {
            return;
        }
        if missing.is_empty() {
            tracing::info!("progress is made again: systemd's watchdog is fed");
        } else {
            let what: Vec<String> = missing.iter().map(ToString::to_string).collect();
            tracing::error!(
                "no progress: {}; systemd's watchdog is not fed, so that it restarts this process unless it recovers",
                what.join("; ")
            );
        }
        self.missing = missing;
    }
}

/// The threads of the event loop, as Tokio counts them.
fn workers(metrics: &RuntimeMetrics) -> Vec<Worker> {
    let worker = |n| {
        let moves = metrics.worker_park_unpark_count(n);
        let busy = u64::try_from(metrics.worker_total_busy_duration(n).as_nanos()).unwrap_or(u64::MAX);
        // Parking and waking are counted together: odd means parked. Neither count ever shrinks.
        Worker { parked: moves % 2 == 1, moves: moves.wrapping_add(busy) }
    };
    (0..metrics.num_workers()).map(worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that never yields shows as one thread that neither parks nor moves, while the other goes on.
    #[test]
    fn a_thread_that_is_stuck_in_a_task_is_told_from_one_without_work() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let (stuck, release) = mpsc::channel::<()>();
        let (began, starting) = mpsc::channel();
        runtime.spawn(async move {
            began.send(()).expect("somebody waits");
            assert!(release.recv().is_err(), "nothing is ever sent");
        });
        starting.recv().expect("it runs");
        // Work for the other thread.
        runtime.spawn(async {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let metrics = runtime.handle().metrics();
        std::thread::sleep(Duration::from_millis(300));
        let before = workers(&metrics);
        std::thread::sleep(Duration::from_millis(300));
        let after = workers(&metrics);
        let standing = |n: &usize| !after[*n].parked && before[*n].moves == after[*n].moves;
        assert_eq!((0..2).filter(standing).count(), 1, "{before:?} {after:?}");
        drop(stuck);
        // Without work both threads park.
        let idle = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        std::thread::sleep(Duration::from_millis(300));
        assert!(workers(&idle.handle().metrics()).iter().all(|worker| worker.parked));
        runtime.shutdown_background();
    }
}
