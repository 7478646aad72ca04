//! Waiting for a connection or for the rate limit may take longer than a claim lives: then nothing is started, no
//! attempt is spent, and the submission comes again until it is sent.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use serde_json::json;
use uuid::Uuid;

use crate::harness::Scene;

/// A claim that leaves a second for waiting; the inequalities of the protocol hold.
const BRIEF: &str = "[log]
level = \"debug\"
[database]
lock_timeout = \"200ms\"
statement_timeout = \"500ms\"
[routing]
heartbeat = \"1s\"
claim_deadline = \"4s\"
[smtp]
connect_timeout = \"300ms\"
command_timeout = \"300ms\"
dot_timeout = \"2500ms\"
delivery_deadline = \"3s\"
";

async fn scene(source: Source, smtp: &str) -> Scene {
    let form = Form::new("f").mail_to("a@x.test");
    Scene::with(StageOptions::of(source), &[form], &format!("{BRIEF}{smtp}")).await
}

async fn burst(scene: &Scene, n: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for _ in 0..n {
        ids.push(scene.unannounced(&SubmissionSeed::of("f")).await.id);
    }
    ids.iter().for_each(|id| scene.publish(*id));
    ids
}

/// All are routed at their first attempt, each sent once under one intent; and some had to wait too long before.
async fn all_are_routed(scene: &Scene, ids: &[Uuid]) {
    let mut released = 0;
    for id in ids {
        let row = scene.ended(*id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
        assert_eq!(row.entry("1|a@x.test")["doubted"], json!(null), "{row:?}");
        let journal = scene.journal(*id);
        let count = |event: &str| journal.iter().filter(|line| line["event"] == event).count();
        assert_eq!(count("begun"), 1, "{journal:?}");
        released += count("released");
    }
    assert!(released > 0, "nobody waited too long, so this test shows nothing");
    assert_eq!(scene.stage.relay.counters().transactions, u64::try_from(ids.len()).expect("few"));
    assert_eq!(scene.settled().await.forwarded, 0);
}

async fn waiting_too_long_for_the_rate_limit_spends_no_attempt(source: Source) {
    let scene = scene(source, "max_per_minute = 60").await;
    let ids = burst(&scene, 5).await;
    all_are_routed(&scene, &ids).await;
    scene.stop().await;
}

async fn waiting_too_long_for_a_connection_spends_no_attempt(source: Source) {
    let scene = scene(source, "lanes = 1").await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).delay(Duration::from_millis(1500)));
    let ids = burst(&scene, 3).await;
    all_are_routed(&scene, &ids).await;
    scene.stop().await;
}

/// The rate limit's next permit is a minute away, the claim lives for four seconds.
async fn a_rate_limit_that_would_last_too_long_is_not_waited_for(source: Source) {
    let scene = scene(source, "max_per_minute = 1").await;
    let first = burst(&scene, 1).await[0];
    assert_eq!(scene.ended(first).await.status, "routed");
    let id = burst(&scene, 1).await[0];
    let back = scene.await_row(id, "release", |row| row.ledger.get("next_attempt_at").is_some());
    let row = tokio::time::timeout(Duration::from_secs(20), back)
        .await
        .expect("long before the rate limit allows it");
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "refunded: {row:?}");
    assert_eq!(row.entry("1|a@x.test"), &json!({"state": "open"}), "{row:?}");
    assert_eq!(scene.stage.relay.mails().len(), 1, "no other send");
    scene.stop().await;
}

devkit::with_either_source!(
    waiting_too_long_for_the_rate_limit_spends_no_attempt,
    waiting_too_long_for_a_connection_spends_no_attempt,
    a_rate_limit_that_would_last_too_long_is_not_waited_for,
);
