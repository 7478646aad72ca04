//! Tables grow, cost does not: what the router says to its database touches as many pages beside 60,000 ended submissions
//! and three times as many audit rows as beside a thousand, and no big table is read from end to end.
//!
//! Pages are counted, not time, by PostgreSQL itself, of the statements as they were really sent, for the role that sends
//! them: row-level security keeps statistics from the planner, and what a superuser is shown by EXPLAIN is not what
//! happens. `GROWN=10000000` for the night.

mod fill;
mod forms;
mod grading;
mod judge;
mod plans;
mod retention;
mod review;
mod router;
mod screening;
mod uploads;

use devkit::postgres::{Cluster, ClusterOptions, TestDatabase, Variant};
use maple_router::db::migrations::online::{self, FinalizedColumn, Patience};
use maple_router::db::migrations::{CONTENT, GRADING, SCREENING};
use plans::{Costs, Log};
use router::Router;
use tokio_postgres::Client;

/// Rows of the table that is not grown.
const SMALL: u64 = 1_000;
/// Rounds that leave the choice of plans to PostgreSQL: it plans anew five times, then compares.
const ROUNDS: usize = 7;

fn grown() -> u64 {
    std::env::var("GROWN").ok().map_or(60_000, |rows| rows.parse().expect("GROWN is a number of rows"))
}

/// One database and the eyes on it.
struct Place {
    db: TestDatabase,
    eyes: Client,
}

impl Place {
    async fn new(cluster: &Cluster) -> Self {
        let variant = Variant { audit_readable: true, ..Variant::default() };
        let db = cluster.database(variant).await.expect("a database");
        let eyes = db.superuser().await.expect("superuser");
        let place = Self { db, eyes };
        place.set("auto_explain.log_min_duration = 0").await;
        place
    }

    /// Sets it for whoever says statements, from the next connection on.
    async fn set(&self, what: &str) {
        for role in plans::ROLES {
            // The collector's role is there once schema content is.
            let sql = format!(
                "DO $$ BEGIN IF to_regrole('{role}') IS NOT NULL THEN ALTER ROLE {role} IN DATABASE {} SET {what}; END IF; END $$",
                self.db.name()
            );
            self.eyes.batch_execute(&sql).await.expect("set");
        }
    }

    async fn run(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect("done");
    }

    async fn migrate(&self) {
        let mut owner = self.db.owner().await.expect("the owner");
        let column = FinalizedColumn::Is(None);
        online::migrate(&mut owner, &column, Patience::default(), &|_| {}).await.expect("migrated");
        for upper in [&CONTENT, &SCREENING, &GRADING] {
            online::migrate_upper(&mut owner, upper, Patience::default(), &|_| {}).await.expect("migrated");
        }
        self.set("auto_explain.log_min_duration = 0").await;
        // The contract promises no index on (status, updated_at): schema router has to do without.
        self.run("DROP INDEX submissions_status_updated_at_idx").await;
    }

    /// Returns what everything costs here now, as PostgreSQL plans it round after round.
    async fn costs(&self, log: &mut Log, with_schema: bool, backlog: bool) -> Costs {
        let router = Router::on(&self.db, with_schema, backlog).await;
        for _ in 0..ROUNDS {
            router.round().await;
        }
        log.costs(&self.eyes, self.db.name()).await
    }
}

async fn cluster() -> (Cluster, Log) {
    let options = ClusterOptions { durable: true, settings: plans::settings(), ..ClusterOptions::default() };
    let cluster = Cluster::start(options).await.expect("a cluster");
    let log = Log::of(&cluster.endpoint().socket_dir);
    (cluster, log)
}

#[tokio::test]
async fn what_is_said_costs_the_same_beside_all_that_have_ended() {
    let rows = grown();
    let (cluster, mut log) = cluster().await;
    let (small, large) = (Place::new(&cluster).await, Place::new(&cluster).await);
    fill::ended(&small.db, &small.eyes, SMALL).await;
    fill::ended(&large.db, &large.eyes, rows).await;

    let before = small.costs(&mut log, false, false).await;
    let after = large.costs(&mut log, false, false).await;
    judge::print("without schema router", &before, &after);
    let without = judge::faults(&before, &after, &[judge::OF_EVERYTHING, judge::BY_SCHEMA_ROUTER].concat());

    for (place, rows) in [(&small, SMALL), (&large, rows)] {
        place.migrate().await;
        fill::delivered(&place.eyes, rows / 10).await;
        fill::decided(&place.eyes, rows / 10).await;
        fill::brought(&place.eyes, rows / 2).await;
        fill::ruled(&place.eyes, rows / 20).await;
        fill::screened(&place.eyes, rows / 5).await;
        fill::graded(&place.eyes, rows / 5).await;
    }
    let before = small.costs(&mut log, true, false).await;
    let after = large.costs(&mut log, true, false).await;
    judge::print("with schema router", &before, &after);
    let with_router = [judge::OF_EVERYTHING, judge::BY_THE_BACKENDS_INDEX].concat();
    let with = judge::faults(&before, &after, &with_router);
    let unsaid = judge::unsaid(&after);
    assert!(without.is_empty(), "without schema router: {without:#?}");
    assert!(with.is_empty(), "with schema router: {with:#?}");
    assert!(unsaid.is_empty(), "a round (tests/grown/router.rs) says every statement; not these: {unsaid:?}");

    // The check itself works: without the indexes the growth is seen.
    for (index, _) in judge::NEEDED {
        large.run(&format!("DROP INDEX {index}")).await;
    }
    Router::on(&large.db, true, false).await.round().await;
    let lacking = log.costs(&large.eyes, large.db.name()).await;
    let faults = judge::faults(&before, &lacking, &with_router);
    for (index, seen_by) in judge::NEEDED {
        assert!(faults.iter().any(|fault| fault.starts_with(seen_by)), "without {index}: {faults:#?}");
    }
}

/// A tenth as many.
#[tokio::test]
async fn a_pass_and_a_take_are_bounded_beside_all_that_are_open() {
    let rows = grown() / 10;
    let (cluster, mut log) = cluster().await;
    let (small, large) = (Place::new(&cluster).await, Place::new(&cluster).await);
    for (place, rows) in [(&small, SMALL), (&large, rows)] {
        fill::open(&place.db, &place.eyes, rows).await;
        place.migrate().await;
        fill::waiting(&place.eyes, rows).await;
    }
    let before = small.costs(&mut log, true, true).await;
    let after = large.costs(&mut log, true, true).await;
    judge::print("open", &before, &after);
    let faults = judge::faults(
        &before,
        &after,
        &[judge::OF_EVERYTHING, judge::BY_THE_BACKENDS_INDEX, judge::OF_ALL_THAT_IS_OPEN].concat(),
    );
    assert!(faults.is_empty(), "{faults:#?}");
}

/// What autovacuum has seen between two bursts is an outbox in which nothing waited. The planner must have no choice then but
/// the order of the rows: what costs it nothing for one row costs the whole backlog again for each few.
#[tokio::test]
async fn a_burst_after_a_quiet_spell_is_taken_in_small_steps() {
    const BURST: u64 = 20_000;
    let (cluster, mut log) = cluster().await;
    let place = Place::new(&cluster).await;
    fill::open(&place.db, &place.eyes, SMALL).await;
    place.migrate().await;
    fill::bursts(&place.eyes, 10 * BURST, BURST).await;
    let costs = place.costs(&mut log, true, true).await;
    for name in ["outbox_claim", "outbox_waits", "outbox_expire", "outbox_fall_due", "outbox_settle"] {
        let cost = &costs[name];
        let rows = judge::most_rows(&cost.plan);
        assert!(rows <= SMALL, "{name} looks at {rows} rows: {:#}", cost.plan);
    }
}
