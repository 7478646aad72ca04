//! A database with schema `router`, the store under test as `forms_app`, and eyes that see everything.

use std::sync::Arc;
use std::time::Duration;

use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::config::Config;
use maple_router::db::{Pool, PoolOptions};
use maple_router::kernel::jobs::retries::Retries;
use maple_router::kernel::jobs::{IDLE, Settings};
use maple_router::kernel::rows::Kinds;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::ops::set_aside::SetAside;
use maple_router::outbox::parts::OutboxParts;
use maple_router::outbox::store::OutboxStore;
use maple_router::outbox::table::State;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A lease that nothing here outlives.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// Gives up after three failures, and hardly waits in between.
pub(crate) const RETRIES: Retries =
    Retries { max_attempts: 3, min: Duration::from_millis(10), max: Duration::from_millis(50), doublings: 1 };

/// Rows of whatever kind.
pub(crate) const ALL: Kinds = Kinds::AllBut(Vec::new());

/// A database, a store on it, and eyes.
pub(crate) struct Bench {
    pub(crate) db: TestDatabase,
    pub(crate) store: OutboxStore,
    pub(crate) eyes: Client,
}

/// A transition as it is recorded: from, to, command, who, actor.
pub(crate) type Recorded = (String, String, String, String, String);

impl Bench {
    pub(crate) async fn new() -> Self {
        let variant = Variant { router: true, ..Variant::default() };
        let cluster = Cluster::shared().await.expect("a cluster");
        let db = cluster.database(variant).await.expect("a database");
        let mut config = Config::default();
        config.database.url = db.url_as("forms_app");
        let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
        let eyes = db.superuser().await.expect("superuser");
        Self { store: OutboxStore::new(pool, "maple-router@test"), eyes, db }
    }

    /// A row in `state`, leased under the nil token where it is being delivered.
    pub(crate) async fn row(&self, state: State) -> i64 {
        let sql = "INSERT INTO router.outbox (kind, entity_id, payload, state, attempts, claims, lease_token, leased_until,
            delivered_at, available_at)
            SELECT 'routing.ready', $2, jsonb_build_object('submission_id', $2::uuid), s.state, CASE WHEN delivering THEN 1 ELSE 0 END, 1,
            CASE WHEN delivering THEN $3::uuid END, CASE WHEN delivering THEN now() + interval '1 hour' END,
            CASE WHEN s.state = 'delivered' THEN now() END, now() - interval '1 s'
            FROM (SELECT $1::text AS state, $1::text = 'delivering' AS delivering) AS s RETURNING id";
        self.eyes
            .query_one(sql, &[&state.label(), &Uuid::new_v4(), &Uuid::nil()])
            .await
            .expect("a row")
            .get(0)
    }

    /// The whole row.
    pub(crate) async fn look(&self, id: i64) -> Value {
        let sql = "SELECT to_jsonb(o) FROM router.outbox o WHERE o.id = $1";
        self.eyes.query_one(sql, &[&id]).await.expect("the row").get(0)
    }

    pub(crate) async fn state(&self, id: i64) -> State {
        let row = self.look(id).await;
        State::parse(row["state"].as_str().unwrap_or_default()).expect("a state")
    }

    /// Records about a row, in order.
    pub(crate) async fn recorded(&self, id: i64) -> Vec<Recorded> {
        let sql = "SELECT from_state, to_state, command, actor_type, actor FROM router.transitions
            WHERE lifecycle = 'outbox' AND entity_id = $1::bigint::text ORDER BY id";
        let rows = self.eyes.query(sql, &[&id]).await.expect("transitions");
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))).collect()
    }

    /// The commands recorded of a row, in order.
    pub(crate) async fn commands(&self, id: i64) -> Vec<String> {
        self.recorded(id).await.into_iter().map(|recorded| recorded.2).collect()
    }

    pub(crate) async fn alter(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect("altered");
    }

    /// Parts of a consumer that polls all the time.
    pub(crate) fn parts(&self) -> OutboxParts {
        let poll = Duration::from_millis(50);
        OutboxParts {
            store: self.store.clone(),
            settings: Settings { most: 1_000, lease: LEASE, poll, retries: RETRIES, idle: IDLE },
            clock: Arc::new(SystemClock),
            rng: Arc::new(Rng::seeded(7)),
            others: Vec::new(),
            set_aside: SetAside::new(Arc::new(SystemClock), None),
        }
    }

    /// Waits until `holds` of every row but those given up on.
    pub(crate) async fn until(&self, what: &str, count: &str) {
        let waiting = async {
            loop {
                let done: bool = self.eyes.query_one(count, &[]).await.expect("a look").get(0);
                if done {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            let rows = "SELECT COALESCE(jsonb_agg(to_jsonb(o)), '[]') FROM router.outbox o";
            let rows: Value = self.eyes.query_one(rows, &[]).await.expect("rows").get(0);
            panic!("not {what}: {rows:#}");
        }
    }
}
