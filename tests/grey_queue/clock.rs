//! A clock that is a day off for a while. Times are the database's: the host's are read nowhere (`clippy.toml`). The
//! statements of `forms_app` are told another time here; triggers and the superuser are not.

use maple_router::grey_queue::store::GreyQueueStore;
use maple_router::grey_queue::table::State;
use maple_router::kernel::jobs::works::Work as _;
use maple_router::kernel::rows::Kinds;
use uuid::Uuid;

use crate::course::{LEASE, attempt, begun, look, settle, take};
use crate::harness::{Bench, pool_at};
use crate::upkeep::upkeep;

const SHIFTED: &str = "CREATE SCHEMA shifted; GRANT USAGE ON SCHEMA shifted TO PUBLIC;
    CREATE TABLE shifted.clock (ahead interval NOT NULL); INSERT INTO shifted.clock VALUES ('0');
    GRANT SELECT ON shifted.clock TO PUBLIC;
    CREATE FUNCTION shifted.now() RETURNS timestamptz LANGUAGE sql STABLE AS
      $$SELECT pg_catalog.now() + (SELECT ahead FROM shifted.clock)$$;
    CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
      $$SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM shifted.clock)$$;
    DO $$BEGIN EXECUTE format('ALTER ROLE forms_app IN DATABASE %I SET search_path = shifted, pg_catalog, public',
      current_database()); END$$";

/// A bench whose clock can be moved.
async fn movable() -> Bench {
    let mut bench = Bench::new().await;
    bench.eyes.batch_execute(SHIFTED).await.expect("a clock");
    // A session has its search path from its start.
    bench.store = GreyQueueStore::new(pool_at(&bench.db.url_as("forms_app")), "maple-router@test");
    bench
}

async fn off(bench: &Bench, by: &str) {
    let sql = format!("UPDATE shifted.clock SET ahead = '{by}'");
    bench.eyes.batch_execute(&sql).await.expect("moved");
}

/// Whether the statements see the moved clock at all.
async fn hours_off(bench: &Bench) -> i64 {
    let (_, seen) = bench.store.changed_since(None, 0).await.expect("asked");
    let real: jiff::Timestamp =
        bench.eyes.query_one("SELECT clock_timestamp()", &[]).await.expect("asked").get(0);
    (seen.duration_since(real).as_secs() + 1_800).div_euclid(3_600)
}

#[tokio::test]
async fn a_clock_that_is_a_day_off_for_a_pass_expires_nothing_unwarned() {
    for (by, hours) in [("1 day", 24), ("-1 day", -24)] {
        let bench = movable().await;
        let (upkeep, _) = upkeep(&bench);
        let entry = bench.pending().await;
        let soon = format!(
            "UPDATE router.grey_queue SET expiry_planned_at = now() + interval '12 hours' WHERE id = '{}'",
            entry.id
        );
        bench.eyes.batch_execute(&soon).await.expect("soon");
        off(&bench, by).await;
        assert_eq!(hours_off(&bench).await, hours);
        upkeep.once().await.expect("a pass");
        assert_eq!(bench.store.wake(10).await.expect("woken").lapsed, 0, "{by}: nobody was warned");
        off(&bench, "0").await;
        upkeep.once().await.expect("a pass");
        assert_eq!(bench.store.wake(10).await.expect("woken").lapsed, 0, "{by}: still nobody was");
        assert_eq!(bench.entry(entry.id).await.state, State::Pending, "{by}");
        assert_eq!(bench.chain(entry.id).await, ["open Pending"], "{by}");
    }
}

/// A day ahead, a lease that holds looks over: another worker takes the attempt, and the first is still at it.
#[tokio::test]
async fn a_clock_that_is_a_day_ahead_has_no_remedy_carried_out_twice() {
    let bench = movable().await;
    let entry = begun(&bench).await;
    let first = take(&bench).await;
    off(&bench, "1 day").await;
    assert_eq!(bench.store.wake(10).await.expect("woken").expired, 1, "its lease looks over");
    assert!(look(&bench).await);
    let ending = attempt(&bench).run(&first).await;
    assert!(!settle(&bench, &first, ending).await);
    off(&bench, "0").await;
    assert!(look(&bench).await);
    assert_eq!(bench.remedies(entry.subject.id).await.len(), 1);
    let now = bench.entry(entry.id).await;
    assert_eq!((now.state, now.job.expect("a job").attempts), (State::Processing, 0), "no attempt is spent");
    assert_eq!(bench.chain(entry.id).await, ["open Pending", "start Processing"]);
}

/// A day behind, a remedy looks as if it was carried out a day before: the look that comes late forgives it.
#[tokio::test]
async fn a_clock_that_was_a_day_behind_spends_no_attempt_and_has_no_remedy_carried_out_twice() {
    let bench = movable().await;
    let entry = begun(&bench).await;
    let first = take(&bench).await;
    off(&bench, "-1 day").await;
    assert_eq!(bench.store.wake(10).await.expect("woken").expired, 0);
    let ending = attempt(&bench).run(&first).await;
    assert!(settle(&bench, &first, ending).await);
    off(&bench, "0").await;
    let kinds = Kinds::AllBut(Vec::new());
    let again =
        bench.store.claim(State::Processing, &kinds, 1, LEASE, Uuid::new_v4()).await.expect("claimed");
    let ending = attempt(&bench).run(&again[0]).await;
    assert!(settle(&bench, &again[0], ending).await);
    assert_eq!(bench.remedies(entry.subject.id).await.len(), 1);
    let now = bench.entry(entry.id).await;
    assert_eq!((now.state, now.job.expect("a job").attempts), (State::Processing, 0), "no attempt is spent");
}
