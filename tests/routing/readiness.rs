//! Submissions that are not complete and clean are not sent: before the claim, and between claim and send.

use std::time::Duration;

use devkit::forms::{Form, Seeded, SubmissionSeed, scan};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use devkit::submission::Row;
use serde_json::json;
use uuid::Uuid;

use crate::harness::Scene;

fn form() -> Form {
    Form::new("f").mail_to("a@x.test")
}

/// Writes what the scan worker does.
async fn set_status(scene: &Scene, attachment: Uuid, status: &str) {
    let scanner = scene.stage.database.client_as("forms_scanner").await.expect("the scanner");
    scan(&scanner, attachment, status).await.expect("set");
}

/// Waits until an event for it was dropped (again).
async fn dropped(scene: &Scene, id: Uuid, times: usize, reason: &str) -> Row {
    let is_drop = |line: &serde_json::Value| line["event"] == "dropped" && line["reason"] == reason;
    scene
        .await_row(id, "drop", |_| scene.journal(id).iter().filter(|line| is_drop(line)).count() >= times)
        .await
}

async fn a_pending_attachment_drops_the_event_and_the_scan_brings_it_back(source: Source) {
    let scene = Scene::of(source, &[form()]).await;
    let seed = SubmissionSeed::of("f").attachment("a.pdf", "pending").attachment("b.pdf", "pending");
    let Seeded { id, attachments } = scene.unannounced(&seed).await;
    // Too early: schema router alone would not announce it yet.
    scene.publish(id);
    let row = dropped(&scene, id, 1, "not_clean").await;
    assert_eq!((row.status.as_str(), &row.ledger), ("received", &json!({})), "untouched");
    assert_eq!(scene.settled().await.acked, 1, "dropped is acked: its scan brings it back");
    set_status(&scene, attachments[0], "clean").await;
    scene.publish(id);
    dropped(&scene, id, 2, "not_clean").await;
    set_status(&scene, attachments[1], "clean").await;
    scene.stage.announce(id, "scan_clean").expect("published");
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.stop().await;
}

async fn an_infected_attachment_fails_the_submission_and_nothing_is_sent(source: Source) {
    let scene = Scene::of(source, &[form()]).await;
    // An infected attachment decides, whatever the others still are.
    let seed = SubmissionSeed::of("f").attachment("a.pdf", "pending").attachment("b.exe", "infected");
    let id = scene.submit(&seed).await.id;
    let row = scene.ended(id).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("infected"), 0),
        "{row:?}"
    );
    assert_eq!(scene.audited(id).await, ["submission_route_failed"]);
    let line = scene.await_line("failure", |line| line["event"] == "failed").await;
    assert!(line["message"].to_string().contains("rb-008"), "names the runbook: {line}");
    assert_eq!(scene.stage.relay.mails().len(), 0);
    assert_eq!(scene.settled().await.forwarded, 0, "infected is acked, the row tells the rest");
    scene.stop().await;
}

/// One connection, busy with a slow mail: `waiting` is claimed and has no intent yet.
async fn claimed_and_waiting(source: Source, seed: &SubmissionSeed) -> (Scene, Uuid, Seeded) {
    let forms = [form(), Form::new("slow").mail_to("slow@y.test")];
    let scene = Scene::with(StageOptions::of(source), &forms, "[smtp]\nlanes = 1").await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("slow@y.test").delay(Duration::from_secs(3)));
    let slow = scene.submit(&SubmissionSeed::of("slow")).await.id;
    scene.await_row(slow, "begun", |row| !row.entry("1|slow@y.test")["begun"].is_null()).await;
    let waiting = scene.submit(seed).await;
    let row = scene.await_row(waiting.id, "claim", |row| row.status == "processing").await;
    assert_eq!(row.entry("1|a@x.test")["begun"], json!(null), "{row:?}");
    (scene, slow, waiting)
}

async fn an_attachment_that_turns_infected_after_the_claim_is_caught_before_the_send(source: Source) {
    let seed = SubmissionSeed::of("f").attachment("a.pdf", "clean");
    let (scene, slow, waiting) = claimed_and_waiting(source, &seed).await;
    set_status(&scene, waiting.attachments[0], "infected").await;
    let row = scene.ended(waiting.id).await;
    assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("infected")), "{row:?}");
    let released = scene.journal(waiting.id).iter().any(|line| line["event"] == "released");
    assert!(!released, "it fails there and then, not when its event comes again");
    assert_eq!(row.entry("1|a@x.test")["begun"], json!(null), "{row:?}");
    assert_eq!(scene.ended(slow).await.status, "routed");
    let mails = scene.stage.relay.mails();
    assert!(mails.len() == 1 && mails[0].recipients == ["slow@y.test"], "nothing for the infected one");
    scene.stop().await;
}

async fn an_attachment_that_becomes_pending_after_the_claim_costs_no_attempt(source: Source) {
    let seed = SubmissionSeed::of("f").attachment("a.pdf", "clean");
    let (scene, _, waiting) = claimed_and_waiting(source, &seed).await;
    set_status(&scene, waiting.attachments[0], "pending").await;
    let row = scene.await_row(waiting.id, "release", |row| row.status == "received").await;
    assert_eq!(row.attempts(), 0, "refunded: {row:?}");
    assert_eq!(row.ledger.get("claim"), None, "{row:?}");
    assert_eq!(row.entry("1|a@x.test"), &json!({"state": "open"}), "{row:?}");
    dropped(&scene, waiting.id, 1, "not_clean").await;
    set_status(&scene, waiting.attachments[0], "clean").await;
    scene.publish(waiting.id);
    let row = scene.ended(waiting.id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.stop().await;
}

async fn a_backend_that_inserts_before_finalize_is_waited_for(source: Source) {
    let stage = crate::harness::stage_of(StageOptions::of(source), &[form()]).await;
    stage
        .database
        .alter("ALTER TABLE submissions ADD COLUMN finalized_at timestamptz")
        .await
        .expect("a column");
    let scene = Scene::on(stage, "[readiness]\nfinalized_column = \"finalized_at\"").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = dropped(&scene, id, 1, "not_finalized").await;
    assert_eq!((row.status.as_str(), &row.ledger), ("received", &json!({})), "untouched");
    let finalize = "UPDATE submissions SET finalized_at = now() WHERE id = $1";
    scene.backend.execute(finalize, &[&id]).await.expect("finalized");
    scene.publish(id);
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.stop().await;
}

devkit::with_either_source!(
    a_pending_attachment_drops_the_event_and_the_scan_brings_it_back,
    an_infected_attachment_fails_the_submission_and_nothing_is_sent,
    an_attachment_that_turns_infected_after_the_claim_is_caught_before_the_send,
    an_attachment_that_becomes_pending_after_the_claim_costs_no_attempt,
    a_backend_that_inserts_before_finalize_is_waited_for,
);
