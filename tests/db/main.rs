//! The room `db` against a real PostgreSQL, as the role production has.

mod contract;
mod migrations;
mod online;
mod outbox;
mod pool;
mod pooling;
mod readiness;
mod sessions;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::config::Database;
use maple_router::db::contract::ContractOptions;
use maple_router::db::{Pool, PoolOptions};
use maple_router::ports::Clock;

/// The real clock: these tests measure a real server.
#[derive(Debug)]
struct RealClock;

impl Clock for RealClock {
    #[allow(clippy::disallowed_methods, reason = "real time is what is meant")]
    fn monotonic(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, pause: std::time::Duration) -> futures::future::BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(pause))
    }
}

async fn database(variant: Variant) -> TestDatabase {
    Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database")
}

/// Options with what the cards look at.
fn contract_options() -> ContractOptions {
    ContractOptions { checks: maple_router::daemon::checks(), ..ContractOptions::default() }
}

fn options() -> PoolOptions {
    PoolOptions::new(Arc::new(RealClock))
}

/// Settings with short limits, as `forms_app`.
fn settings(db: &TestDatabase) -> Database {
    Database {
        url: db.url_as("forms_app"),
        max_connections: 2,
        lock_timeout: Duration::from_millis(300),
        statement_timeout: Duration::from_millis(1500),
        ..Database::default()
    }
}

fn pool(db: &TestDatabase) -> Pool {
    Pool::new(&settings(db), options()).expect("a pool")
}
