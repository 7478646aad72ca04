//! Beside the delivery: old rows go, the backlog is measured, and people are notified when nobody delivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::ops::incident::{Incidents, Open};
use maple_router::ops::metrics;
use maple_router::outbox::card::STALLED;
use maple_router::outbox::table::State;
use maple_router::outbox::upkeep::Upkeep;
use maple_router::ports::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::harness::{Bench, PATIENCE};

/// A minute is a third of a second.
const FASTER: u32 = 180;

#[derive(Debug)]
struct Hasty(Instant);

impl Clock for Hasty {
    fn monotonic(&self) -> Instant {
        self.0 + self.0.elapsed() * FASTER
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(pause / FASTER).boxed()
    }
}

struct Kept {
    relay: watch::Sender<Option<String>>,
    open: watch::Receiver<Open>,
    on_purpose: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn keep(bench: &Bench) -> Kept {
    let (incidents, open) = Incidents::new();
    let relay = watch::Sender::new(None);
    let (on_purpose, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
    let upkeep = Upkeep {
        store: bench.store.clone(),
        every: Duration::from_secs(60),
        keep: Duration::from_secs(7 * 86_400),
        clock: Arc::new(Hasty(Instant::now())),
        incidents,
        relay: Some(relay.subscribe()),
        on_purpose: Box::new({
            let on_purpose = Arc::clone(&on_purpose);
            move || on_purpose.load(Ordering::Relaxed)
        }),
    };
    tokio::spawn({
        let stop = stop.clone();
        async move { upkeep.run(&stop).await }
    });
    Kept { relay, open, on_purpose, stop }
}

impl Kept {
    async fn until(&mut self, open: bool) -> String {
        let waiting = self.open.wait_for(|all| all.contains_key(&STALLED) == open);
        let all = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("kept up");
        all.get(&STALLED).map(|incident| incident.what.clone()).unwrap_or_default()
    }

    /// Waits for longer than it takes to notice anything.
    async fn stays(&self, open: bool) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(self.open.borrow().contains_key(&STALLED), open);
    }
}

#[test]
fn old_rows_go_page_by_page_and_the_others_are_measured() {
    let recorder = metrics::recorder(maple_router::daemon::ROOMS).expect("buckets are sound");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    ::metrics::with_local_recorder(&recorder, || {
        metrics::start(maple_router::daemon::ROOMS);
        runtime.block_on(async {
            let bench = Bench::new().await;
            let rows = "INSERT INTO router.outbox (kind, payload, state, delivered_at)
                SELECT 'canary', '{}', 'delivered', now() - make_interval(days => CASE WHEN n <= 2500 THEN 8 ELSE 6 END)
                FROM generate_series(1, 2510) n";
            bench.alter(rows).await;
            for state in State::ALL {
                bench.row(*state).await;
            }
            bench.alter("UPDATE router.outbox SET available_at = now() - interval '100 s' WHERE state = 'pending'").await;
            // Not due: a pause before the next try is no delay, however old the row is.
            let pausing = "UPDATE router.outbox SET available_at = now() + interval '1 h', created_at = now() - interval '1 h'
                WHERE state = 'retry_wait'";
            bench.alter(pausing).await;
            let kept = keep(&bench);
            bench.until("pruned", "SELECT count(*) = 15 FROM router.outbox").await;
            let left = "SELECT count(*) = 11 FROM router.outbox WHERE state = 'delivered'";
            bench.until("left what is young", left).await;
            drop(kept);
        });
    });
    let text = recorder.handle().render();
    let value = |series: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("maple_router_{series} ")));
        line.unwrap_or_else(|| panic!("no {series}:\n{text}")).parse().expect("a number")
    };
    for state in ["pending", "delivering", "retry_wait", "dead_letter"] {
        assert_eq!(value(&format!("outbox_depth{{state=\"{state}\"}}")), 1.0, "{state}");
    }
    assert!(value("outbox_oldest_age_seconds{state=\"pending\"}") >= 100.0, "{text}");
    assert_eq!(value("outbox_oldest_age_seconds{state=\"retry_wait\"}"), 0.0);
}

#[tokio::test]
async fn people_are_notified_of_a_topic_that_is_away_and_that_it_is_back() {
    let bench = Bench::new().await;
    let mut kept = keep(&bench);
    kept.relay.send_replace(Some("NOT_FOUND: no such topic".to_owned()));
    let text = kept.until(true).await;
    assert!(text.starts_with("events wait in the outbox: they cannot be published (NOT_FOUND"), "{text}");
    // The incident's text changes, the incident stays the same.
    kept.relay.send_replace(Some("UNAVAILABLE".to_owned()));
    kept.stays(true).await;
    kept.relay.send_replace(None);
    kept.until(false).await;
}

#[tokio::test]
async fn people_are_notified_of_rows_that_nobody_delivers_unless_that_is_wanted() {
    let bench = Bench::new().await;
    let id = bench.row(State::Pending).await;
    let overdue = format!("UPDATE router.outbox SET available_at = now() - interval '6 min' WHERE id = {id}");
    bench.alter(&overdue).await;
    let mut kept = keep(&bench);
    kept.on_purpose.store(true, Ordering::Relaxed);
    kept.stays(false).await;
    kept.on_purpose.store(false, Ordering::Relaxed);
    let text = kept.until(true).await;
    assert!(text.contains("1 are to be delivered, the first of them for 6 min"), "{text}");
    bench
        .alter(&format!("UPDATE router.outbox SET state = 'delivered', delivered_at = now() WHERE id = {id}"))
        .await;
    kept.until(false).await;
    // A database without the schema is none that anything waits in.
    bench.alter(&overdue).await;
    bench
        .alter(&format!("UPDATE router.outbox SET state = 'pending', delivered_at = NULL WHERE id = {id}"))
        .await;
    kept.until(true).await;
    bench.alter("DROP SCHEMA router CASCADE").await;
    kept.until(false).await;
}
