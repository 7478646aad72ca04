//! The other source: the outbox of the very database, as schema `router` fills it and `outbox::source` reads it, in
//! simulated time. A sequence's changes to events are changes to rows, as any client could make them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::config::{Config, Pooling};
use maple_router::db::Pool;
use maple_router::ops::rng::Rng;
use maple_router::ops::set_aside::SetAside;
use maple_router::outbox::parts::OutboxParts;
use maple_router::outbox::source::OutboxSource;
use maple_router::outbox::store::OutboxStore;
use maple_router::parts;
use maple_router::ports::Clock;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::clock::SimClock;

/// Rows pending at once.
const MOST: usize = 64;

/// Due times in simulated time, committed with the rows, so that no clock of the server's own comes in.
pub(crate) const IN_SIMULATED_TIME: &str =
    "ALTER TABLE router.outbox ALTER available_at SET DEFAULT sim.now(),
  ALTER created_at SET DEFAULT sim.clock_timestamp();
ALTER TABLE router.transitions ALTER at SET DEFAULT sim.clock_timestamp()";

/// Deletes all events and transitions, for the next sequence.
pub(crate) const FORGET: &str = "TRUNCATE router.outbox, router.transitions, router.dead_letters";

/// A process's own reading of the clock: when it is dead it never wakes, whatever of it still waits.
#[derive(Debug, Clone)]
pub(crate) struct MortalClock {
    clock: SimClock,
    dead: Arc<AtomicBool>,
}

impl MortalClock {
    pub(crate) fn new(clock: &SimClock) -> Self {
        Self { clock: clock.clone(), dead: Arc::default() }
    }

    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }
}

impl Clock for MortalClock {
    fn monotonic(&self) -> Instant {
        self.clock.monotonic()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        let (slept, dead) = (self.clock.sleep(pause), Arc::clone(&self.dead));
        async move {
            slept.await;
            if dead.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}

/// The source of one process, on its pool and its wire.
pub(crate) fn source(config: &Config, pool: &Pool, clock: Arc<dyn Clock>, rng: Arc<Rng>) -> OutboxSource {
    let name = config.routing.worker_name.as_deref().unwrap_or("maple-router");
    let listener = parts::outbox_listener(config, Pooling::Session, Arc::clone(&clock)).expect("a listener");
    let store = OutboxStore::new(pool.clone(), name);
    let settings = parts::outbox_settings(config, MOST);
    let set_aside = SetAside::new(Arc::clone(&clock), None);
    let parts = OutboxParts { store, others: Vec::new(), settings, clock, rng, set_aside };
    OutboxSource::open(&parts, listener, None)
}

/// Writes one more event that names the submission.
pub(crate) async fn publish(backend: &Client, submission: Uuid) {
    let sql = "WITH w AS (INSERT INTO router.outbox (kind, entity_id, payload) VALUES ('routing.ready', $1,
                 jsonb_build_object('submission_id', $1::uuid, 'reason', 'finalized')) RETURNING id)
               SELECT pg_notify('maple_router_outbox', '') FROM w";
    backend.execute(sql, &[&submission]).await.expect("an event");
}

/// Makes taken events come again, answered or not. Returns whether there were any.
pub(crate) async fn redeliver(backend: &Client, submission: Uuid) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM router.outbox WHERE entity_id = $1 AND claims > 0)";
    let taken: bool = backend.query_one(sql, &[&submission]).await.expect("an answer").get(0);
    if taken {
        publish(backend, submission).await;
    }
    taken
}

/// Every event that names it and that nobody holds is gone, for ever.
pub(crate) async fn lose(backend: &Client, submission: Uuid) -> bool {
    let sql = "DELETE FROM router.outbox WHERE entity_id = $1 AND state <> 'delivering'";
    backend.execute(sql, &[&submission]).await.expect("gone") > 0
}

/// Makes the waiting events come in another order, and at once.
pub(crate) async fn reorder(backend: &Client) -> bool {
    let sql =
        "WITH o AS (UPDATE router.outbox SET available_at = sim.now() - make_interval(secs => 0.001 * id)
                 WHERE state IN ('pending', 'retry_wait') RETURNING id)
               SELECT count(*) > 1, pg_notify('maple_router_outbox', '') FROM o";
    backend.query_one(sql, &[]).await.expect("an answer").get(0)
}

/// Whether any event is not done with.
pub(crate) async fn is_open(eyes: &Client) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM router.outbox WHERE state <> 'delivered')";
    eyes.query_one(sql, &[]).await.expect("an answer").get(0)
}
