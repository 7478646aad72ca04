//! Events from PostgreSQL alone, over a wire that can be cut: the outbox that schema `router` fills by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use devkit::forms::Form;
use devkit::postgres::{Cluster, CuttingProxy, TestDatabase, Variant};
use futures::FutureExt as _;
use maple_router::config::Config;
use maple_router::db::PoolOptions;
use maple_router::kernel::jobs::listener::Listener;
use maple_router::kernel::jobs::retries::Retries;
use maple_router::kernel::jobs::{IDLE, Settings};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::ops::set_aside::SetAside;
use maple_router::ops::supervised::Open;
use maple_router::outbox::CHANNEL;
use maple_router::outbox::parts::OutboxParts;
use maple_router::outbox::source::OutboxSource;
use maple_router::outbox::store::OutboxStore;
use maple_router::parts;
use maple_router::ports::EventSource;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::rig::Rig;
use crate::supervised::Rebuilt;

const SHARE: usize = 50;

/// A database, a backend that submits, and the way of the instances to it.
pub(crate) struct Place {
    pub(crate) wire: CuttingProxy,
    pub(crate) eyes: Client,
    pub(crate) config: Config,
    backend: Client,
    _database: TestDatabase,
}

impl Place {
    pub(crate) async fn new(router: bool) -> Self {
        let cluster = Cluster::shared().await.unwrap();
        let database = cluster.database(Variant { router, ..Variant::default() }).await.unwrap();
        devkit::forms::load_into(&database, &[Form::new("f").mail_to("a@x.test")]).await.unwrap();
        let wire = CuttingProxy::start(&database).await.unwrap();
        let mut config = Config::default();
        config.database.url = wire.url_as("forms_app");
        config.database.max_connections = 4;
        config.database.connect_timeout = Duration::from_secs(2);
        Self {
            wire,
            config,
            eyes: database.superuser().await.unwrap(),
            backend: database.client_as("forms_app").await.unwrap(),
            _database: database,
        }
    }

    /// Commits what finalize does: no client publishes anything.
    pub(crate) async fn submit(&self, count: usize) -> BTreeSet<Uuid> {
        let sql =
            "INSERT INTO submissions (form_id) SELECT 'f' FROM generate_series(1, $1::bigint) RETURNING id";
        let rows = self.backend.query(sql, &[&i64::try_from(count).unwrap()]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn count(&self, sql: &str) -> usize {
        usize::try_from(self.eyes.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)).unwrap()
    }
}

/// The outbox by itself.
pub(crate) struct Outbox(Place);

impl Outbox {
    fn source(place: &Config) -> OutboxSource {
        let clock = Arc::new(SystemClock);
        let store = OutboxStore::new(parts::pool(place, clock.clone()).unwrap(), "maple-router@test");
        let settings = Settings {
            most: SHARE,
            lease: Duration::from_secs(4),
            poll: Duration::from_millis(200),
            retries: Retries {
                max_attempts: 3,
                min: Duration::from_millis(100),
                max: Duration::from_millis(800),
                doublings: 1,
            },
            idle: IDLE,
        };
        let rng = Arc::new(Rng::seeded(Uuid::new_v4().as_u64_pair().0));
        let listener = Listener::start(CHANNEL, place.database.clone(), PoolOptions::new(clock.clone()));
        let set_aside = SetAside::new(clock.clone(), None);
        let parts = OutboxParts { store, others: Vec::new(), settings, clock, rng, set_aside };
        OutboxSource::open(&parts, listener, None)
    }
}

impl Rig for Outbox {
    const NAME: &'static str = "outbox";
    const SHARE: usize = SHARE;
    const LEASE: Duration = Duration::from_secs(4);
    const REPEATS_EXHAUSTED: bool = false;
    const PAUSES: bool = true;

    async fn set_up() -> Self {
        Self(Place::new(true).await)
    }

    async fn open(&self) -> Box<dyn EventSource> {
        Box::new(Self::source(&self.0.config))
    }

    async fn announce(&self, count: usize) -> BTreeSet<Uuid> {
        self.0.submit(count).await
    }

    async fn announce_garbage(&self) -> bool {
        let sql = "INSERT INTO router.outbox (kind, payload) VALUES ('routing.ready', '[]')";
        self.0.backend.execute(sql, &[]).await.unwrap() == 1
    }

    async fn leased(&self) -> usize {
        self.0.count("SELECT count(*) FROM router.outbox WHERE state = 'delivering'").await
    }

    async fn left(&self) -> usize {
        self.0
            .count("SELECT count(*) FROM router.outbox WHERE state NOT IN ('delivered', 'dead_letter')")
            .await
    }

    async fn set_aside(&self) -> usize {
        let sql = "SELECT count(*) FROM router.outbox o JOIN router.dead_letters d
                     ON d.message_id LIKE 'outbox:' || o.id || ':%' AND d.payload IS NOT NULL
                   WHERE o.state = 'dead_letter'";
        self.0.count(sql).await
    }

    async fn away(&mut self) {
        self.0.wire.sever(true);
    }

    async fn back(&mut self) {
        self.0.wire.sever(false);
    }
}

impl Rebuilt for Outbox {
    const SUPERVISED: &'static str = "outbox, supervised";

    fn opener(&self) -> Open {
        let config = self.0.config.clone();
        Box::new(move || {
            let config = config.clone();
            async move { Ok(Box::new(Self::source(&config)) as Box<dyn EventSource>) }.boxed()
        })
    }
}
