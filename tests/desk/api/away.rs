//! Without the schema, and without a database.

use std::time::Duration;

use devkit::postgres::Variant;
use maple_router::config::Role;
use maple_router::db::migrations::online::{self, FinalizedColumn, Patience};
use reqwest::Method;
use serde_json::{Value, json};

use super::bench::{Answered, Api};
use crate::harness::Bench;

fn silent(_: &str) {}

#[tokio::test]
async fn without_its_tables_the_queue_says_what_brings_them_and_comes_back_with_them() {
    let api = Api::new().await;
    let seen = api.pending().await;
    // The desk's credentials go with 004: one who is known all the same sees the API's own answers.
    api.bench.eyes.batch_execute("ALTER TABLE router.grey_queue RENAME TO elsewhere").await.expect("renamed");
    for path in ["", "/summary", "/changes", &format!("/{}", seen.id), &format!("/{}/transitions", seen.id)] {
        let answer = api.get("vera", &format!("/api/grey-queue{path}")).await;
        assert_eq!(answer.refused(), (503, "not_installed"), "{path}");
        assert!(answer.body["remedy"].as_str().expect("a remedy").contains("migrate --router"));
    }
    let refused = api.give("rita", seen, "assign", json!({})).await;
    assert_eq!(refused.refused(), (503, "not_installed"));
    let bulk = json!({"command": "dismiss", "reason": "so", "items": [{"id": seen.id, "version": 1}]});
    assert_eq!(api.post("rita", "/api/grey-queue/bulk", bulk).await.refused(), (503, "not_installed"));
    api.bench.eyes.batch_execute("ALTER TABLE router.elsewhere RENAME TO grey_queue").await.expect("back");
    api.done("rita", seen, "assign", json!({})).await;
}

/// `migrate --router --back 004` while the desk is open, and `migrate --router` again.
#[tokio::test]
async fn taken_back_the_schema_is_missed_and_applied_again_it_serves() {
    const SECOND: Duration = Duration::from_secs(1);
    let patience =
        Patience { lock: SECOND, index: Duration::from_secs(60), tries: 40, drain: Duration::ZERO };
    let bench = Bench::with(Variant { audit_readable: true, ..Variant::default() }).await;
    let mut owner = bench.db.owner().await.expect("the owner");
    let column = FinalizedColumn::Is(None);
    online::migrate(&mut owner, &column, patience, &silent).await.expect("applied");
    let mut api = Api::on(bench, |_| ()).await;
    let seen = api.pending().await;
    api.done("rita", seen, "assign", json!({})).await;
    online::back(&mut owner, "004", true, patience, &silent).await.expect("taken back");
    let missed = api.get("rita", "/api/grey-queue").await;
    assert_eq!(missed.refused(), (503, "not_installed"));
    assert!(missed.body["remedy"].as_str().expect("a remedy").contains("migrate --router"));
    online::migrate(&mut owner, &column, patience, &silent).await.expect("applied again");
    let gone = api.get("rita", "/api/grey-queue").await;
    assert_eq!(gone.refused(), (401, "unauthenticated"), "whoever was logged in is not any more");
    api.renew("rita", Role::Reviewer).await;
    let seen = api.pending().await;
    api.done("rita", seen, "assign", json!({})).await;
}

#[tokio::test]
async fn a_database_that_goes_away_in_a_decision_leaves_nothing_half_done() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let mut other = api.bench.db.superuser().await.expect("superuser");
    let tx = other.transaction().await.expect("a transaction");
    tx.execute("SELECT 1 FROM router.grey_queue WHERE id = $1 FOR UPDATE", &[&seen.id])
        .await
        .expect("locked");
    let before = api.trace(seen.id).await;
    let start = api
        .ask("rita", Method::POST, &seen.path("/start"))
        .header("idempotency-key", "k1")
        .json(&json!({"version": 1, "remedy": "replay", "reason": "try"}));
    let cut = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        while api.bench.eyes.query_one(waits, &[]).await.expect("activity").get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        api.bench.db.disconnect("forms_app").await.expect("cut");
    };
    let (away, ()) = tokio::join!(Answered::of(start), cut);
    assert_eq!(away.refused(), (503, "database_away"));
    assert!(away.headers.contains_key("retry-after"));
    tx.rollback().await.expect("released");
    assert_eq!(api.trace(seen.id).await, before);
    let again = api
        .ask("rita", Method::POST, &seen.path("/start"))
        .header("idempotency-key", "k1")
        .json(&json!({"version": 1, "remedy": "replay", "reason": "try"}));
    assert_eq!(Answered::of(again).await.status, 202, "the same request, and it is carried out");
    assert_eq!(api.bench.count("router.remedies").await, 1);
}

/// An entry that somebody else has locked for longer than a person waits.
#[tokio::test]
async fn an_entry_that_is_locked_for_long_makes_the_desk_busy_and_nothing_else() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let mut other = api.bench.db.superuser().await.expect("superuser");
    let tx = other.transaction().await.expect("a transaction");
    tx.execute("SELECT 1 FROM router.grey_queue WHERE id = $1 FOR UPDATE", &[&seen.id])
        .await
        .expect("locked");
    let busy = api.give("rita", seen, "assign", json!({})).await;
    assert_eq!(busy.refused(), (503, "busy"));
    let shown = api.get("rita", &seen.path("")).await;
    assert_eq!((shown.status, &shown.body["assignee"]), (200, &Value::Null));
    tx.rollback().await.expect("released");
    api.done("rita", seen, "assign", json!({})).await;
}
