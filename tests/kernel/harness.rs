//! A database with parcels in it, and eyes.

use std::sync::Arc;
use std::time::Duration;

use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::config::Config;
use maple_router::db::{DbError, Pool, PoolOptions};
use maple_router::kernel::jobs::listener::Listener;
use maple_router::kernel::jobs::retries::Retries;
use maple_router::kernel::jobs::works::{self, Bounds};
use maple_router::kernel::jobs::{Consumer, ConsumerParts, IDLE, Observer, Settings};
use maple_router::kernel::rows::{Kinds, Row, Rows, Woken, Write};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::gate::Gate;
use maple_router::ops::rng::Rng;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::parcels::{MIGRATION, Pack, Parcel, Ship, State};
use crate::shop::{MARKS, Shop};

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A lease that a killed worker leaves behind.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// Claims after which a parcel is given up on.
pub(crate) const POISON: u32 = 5;

pub(crate) struct Bench {
    pub(crate) db: TestDatabase,
    pub(crate) rows: Rows<Parcel>,
    pub(crate) eyes: Client,
}

/// Rows on the database behind `url`.
pub(crate) fn rows(url: &str) -> Rows<Parcel> {
    let mut config = Config::default();
    config.database.url = url.to_owned();
    let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
    Rows::new(pool, "maple-router@test")
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let variant = Variant { router: true, ..Variant::default() };
        let cluster = Cluster::shared().await.expect("a cluster");
        let db = cluster.database(variant).await.expect("a database");
        let eyes = db.superuser().await.expect("superuser");
        eyes.batch_execute(&format!("{MIGRATION};{MARKS}")).await.expect("the room's migration");
        Self { rows: rows(&db.url_as("forms_app")), eyes, db }
    }

    pub(crate) async fn order(&self, address: &str) -> i64 {
        let sql = "INSERT INTO router.parcels (address) VALUES ($1) RETURNING id";
        self.eyes.query_one(sql, &[&address]).await.expect("a parcel").get(0)
    }

    /// The whole row.
    pub(crate) async fn look(&self, id: i64) -> Value {
        let sql = "SELECT to_jsonb(o) FROM router.parcels o WHERE o.id = $1";
        self.eyes.query_one(sql, &[&id]).await.expect("the row").get(0)
    }

    pub(crate) async fn state(&self, id: i64) -> State {
        State::parse(self.look(id).await["state"].as_str().expect("text")).expect("a state")
    }

    /// From, to, command, who, in order.
    pub(crate) async fn log(&self, id: i64) -> Vec<[String; 4]> {
        let sql = "SELECT from_state, to_state, command, actor_type FROM router.transitions
            WHERE lifecycle = 'parcel' AND entity_id = $1::bigint::text ORDER BY id";
        let rows = self.eyes.query(sql, &[&id]).await.expect("transitions");
        rows.iter().map(|row| [row.get(0), row.get(1), row.get(2), row.get(3)]).collect()
    }

    pub(crate) async fn alter(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect("altered");
    }

    /// Waits until the statement, which answers a boolean, says so.
    pub(crate) async fn until(&self, what: &str, so: &str) {
        let waiting = async {
            while !self.eyes.query_one(so, &[]).await.expect("a look").get::<_, bool>(0) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            let rows = "SELECT COALESCE(jsonb_agg(to_jsonb(o)), '[]') FROM router.parcels o";
            let rows: Value = self.eyes.query_one(rows, &[]).await.expect("rows").get(0);
            panic!("not {what}: {rows:#}");
        }
    }
}

/// Both jobs of one process.
pub(crate) struct Working {
    pub(crate) stop: CancellationToken,
    pub(crate) jobs: [JoinHandle<bool>; 2],
}

/// Counts nothing: the log tells.
#[derive(Debug)]
struct Silent;

impl Observer<Parcel> for Silent {
    fn claimed(&self, _: usize) {}
    fn woken(&self, _: Woken) {}
    fn settled(&self, _: &Row<Parcel>, _: &Write<Parcel>, _: bool) {}
    fn written(&self, _: &[&Row<Parcel>], _: &[(&Row<Parcel>, &DbError)]) {}
}

impl Working {
    pub(crate) fn start(rows: &Rows<Parcel>, shop: Shop, gate: Gate) -> Self {
        let (shop, stop) = (Arc::new(shop), CancellationToken::new());
        let bounds = Bounds { poison: POISON, drain: Duration::from_secs(5), gate };
        let packing = consumer(rows, State::Ordered);
        let shipping = consumer(rows, State::Packed);
        let jobs = [
            tokio::spawn(works::run(
                packing,
                Arc::new(Pack(Arc::clone(&shop))),
                bounds.clone(),
                stop.clone(),
            )),
            tokio::spawn(works::run(shipping, Arc::new(Ship(shop)), bounds, stop.clone())),
        ];
        Self { stop, jobs }
    }

    /// Returns whether everything was written in time.
    pub(crate) async fn stop(self) -> bool {
        self.stop.cancel();
        let [pack, ship] = self.jobs;
        pack.await.expect("ends") && ship.await.expect("ends")
    }
}

fn consumer(rows: &Rows<Parcel>, from: State) -> Consumer<Parcel> {
    let retries = Retries {
        max_attempts: 3,
        min: Duration::from_millis(10),
        max: Duration::from_millis(50),
        doublings: 1,
    };
    let settings = Settings { most: 16, lease: LEASE, poll: Duration::from_millis(100), retries, idle: IDLE };
    let parts = ConsumerParts {
        rows: rows.clone(),
        from,
        kinds: Kinds::Only(vec![from.label()]),
        settings,
        clock: Arc::new(SystemClock),
        rng: Arc::new(Rng::from_system()),
        observer: Arc::new(Silent),
    };
    Consumer::start(parts, Listener::silent())
}
