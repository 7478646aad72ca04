//! A worker that lost its claim still records what the relay accepted. Such a fact may come between the next
//! worker's claim and its intent: the open deliveries are then others, and a closed one is not sent again.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use devkit::submission::Row;
use serde_json::json;
use uuid::Uuid;

use crate::harness::Scene;

/// A submission to `destination` that is claimed and waits for the only connection, and the one that uses it.
async fn claimed(source: Source, destination: &str) -> (Scene, Uuid, Uuid) {
    let forms = [Form::new("f").mail_to(destination), Form::new("slow").mail_to("slow@y.test")];
    let scene = Scene::with(StageOptions::of(source), &forms, "[smtp]\nlanes = 1").await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("slow@y.test").delay(Duration::from_secs(2)));
    let slow = scene.submit(&SubmissionSeed::of("slow")).await.id;
    scene.await_row(slow, "begun", |row| !row.entry("1|slow@y.test")["begun"].is_null()).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.await_row(id, "claim", |row| row.status == "processing").await;
    (scene, slow, id)
}

/// The fact of a's delivery under an older claim.
async fn a_was_accepted_before(scene: &Scene, id: Uuid) {
    let fact = json!({"state": "accepted", "nonce": "n", "token": "older"});
    let sql = "UPDATE submissions SET routing_result =
               jsonb_set(routing_result, '{deliveries,1|a@x.test}', $2) WHERE id = $1 AND status = 'processing'";
    assert_eq!(scene.backend.execute(sql, &[&id, &fact]).await.expect("merged"), 1);
}

/// Waits for its end, without the law that every fact is at this relay: that one is made up.
async fn routed(scene: &Scene, slow: Uuid, id: Uuid) -> Row {
    assert_eq!(scene.ended(slow).await.status, "routed");
    let row = scene.await_row(id, "end", |row| row.status != "processing").await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    assert_eq!(row.entry("1|a@x.test")["token"], "older", "a fact stays: {row:?}");
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.nacked), (2, 0), "{stats:?}");
    row
}

fn recipients(scene: &Scene) -> Vec<String> {
    scene.stage.relay.mails().iter().flat_map(|mail| mail.recipients.clone()).collect()
}

async fn a_late_fact_before_begin_takes_its_recipient_out_and_the_others_are_sent_to(source: Source) {
    let (scene, slow, id) = claimed(source, "a@x.test, b@x.test").await;
    a_was_accepted_before(&scene, id).await;
    let row = routed(&scene, slow, id).await;
    assert_eq!(row.entry("1|b@x.test")["state"], "accepted", "{row:?}");
    assert_eq!(recipients(&scene), ["slow@y.test", "b@x.test"]);
    assert_eq!(scene.audited(id).await, ["email_sent", "submission_routed"]);
    scene.stop().await;
}

async fn a_late_fact_that_was_all_there_was_to_do_routes_without_a_send(source: Source) {
    let (scene, slow, id) = claimed(source, "a@x.test").await;
    a_was_accepted_before(&scene, id).await;
    routed(&scene, slow, id).await;
    assert_eq!(recipients(&scene), ["slow@y.test"]);
    assert_eq!(scene.audited(id).await, ["submission_routed"]);
    scene.stop().await;
}

devkit::with_either_source!(
    a_late_fact_before_begin_takes_its_recipient_out_and_the_others_are_sent_to,
    a_late_fact_that_was_all_there_was_to_do_routes_without_a_send,
);
