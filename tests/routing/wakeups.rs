//! Events in a race: an event that came after the row was read may report what the read did not see, so the row is
//! read again. Nothing else would bring these submissions back.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed, scan};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::harness::{Scene, stage_of};

const DEBUG: &str = "[log]\nlevel = \"debug\"";

/// Writes to submissions of one form wait in their transaction until the gate is open.
const GATE: &str = "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$;
  CREATE TRIGGER gate BEFORE UPDATE ON submissions FOR EACH ROW WHEN (NEW.form_id = 'gated') EXECUTE FUNCTION gate()";

async fn gate(keeper: &Client, acts: &str) {
    keeper.batch_execute(acts).await.expect("the gate");
}

/// Waits until a claim stands before the closed gate: it has read its rows and is writing them.
async fn await_claim_at_the_gate(scene: &Scene) {
    let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
               AND application_name = 'maple-router:claim' AND wait_event_type = 'Lock')";
    scene
        .until("claim at the gate", async || scene.eyes.query_one(sql, &[]).await.expect("asked").get(0))
        .await;
}

async fn await_received(scene: &Scene, id: Uuid, times: usize) {
    let received = || scene.journal(id).iter().filter(|line| line["event"] == "received").count();
    scene.until("event received", async || received() >= times).await;
}

async fn an_event_that_comes_while_the_claim_is_being_written_is_not_acked_with_the_one_before(
    source: Source,
) {
    let forms = [Form::new("gated").mail_to("x@x.test"), Form::new("f").mail_to("a@x.test")];
    let stage = stage_of(StageOptions::of(source), &forms).await;
    stage.database.alter(GATE).await.expect("a gate");
    let keeper = stage.database.superuser().await.expect("superuser");
    let scene = Scene::on(stage, DEBUG).await;
    gate(&keeper, "SELECT pg_advisory_lock(7)").await;
    // The first claim keeps the second waiting until both of its submissions are there.
    let infected = SubmissionSeed::of("gated").attachment("a.exe", "infected");
    let first = scene.submit(&infected).await.id;
    await_claim_at_the_gate(&scene).await;
    let seed = SubmissionSeed::of("f").attachment("a.pdf", "pending");
    let (beside, scanned) = (scene.submit(&infected).await.id, scene.unannounced(&seed).await);
    scene.publish(scanned.id);
    await_received(&scene, beside, 1).await;
    await_received(&scene, scanned.id, 1).await;
    // Lets the first through; the keeper is the next in line, so the second meets a closed gate again.
    gate(&keeper, "SELECT pg_advisory_unlock(7); SELECT pg_advisory_lock(7)").await;
    await_claim_at_the_gate(&scene).await;
    // The claim has read "pending". Now the scan commits, and publishes.
    scan(&scene.backend, scanned.attachments[0], "clean").await.expect("marked");
    scene.stage.announce(scanned.id, "scan_clean").expect("published");
    await_received(&scene, scanned.id, 2).await;
    gate(&keeper, "SELECT pg_advisory_unlock(7)").await;
    let row = scene.ended(scanned.id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    let dropped = scene.journal(scanned.id).iter().filter(|line| line["reason"] == "not_clean").count();
    assert_eq!(dropped, 1, "the event before was: this test has met the race");
    for id in [first, beside] {
        assert_eq!(scene.ended(id).await.reason(), Some("infected"));
    }
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.nacked), (4, 0), "{stats:?}");
    scene.stop().await;
}

async fn an_event_that_comes_while_a_claim_is_being_lost_is_not_acked_with_it(source: Source) {
    let forms = [Form::new("f").mail_to("a@x.test"), Form::new("slow").mail_to("slow@y.test")];
    let extra = format!("{DEBUG}\n[smtp]\nlanes = 1");
    let scene = Scene::with(StageOptions::of(source), &forms, &extra).await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("slow@y.test").delay(Duration::from_secs(2)));
    let slow = scene.submit(&SubmissionSeed::of("slow")).await.id;
    scene.await_row(slow, "begun", |row| !row.entry("1|slow@y.test")["begun"].is_null()).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.await_row(id, "claim", |row| row.status == "processing").await;
    // Another host's sweep of a claim that looks dead, and the event that it publishes.
    let reset =
        "UPDATE submissions SET status = 'received', routing_result = routing_result - 'claim' WHERE id = $1";
    scene.backend.execute(reset, &[&id]).await.expect("taken back");
    scene.publish(id);
    await_received(&scene, id, 2).await;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{row:?}");
    assert!(scene.journal(id).iter().any(|line| line["event"] == "stale_settle"), "the first claim was lost");
    assert_eq!(scene.stage.relay.mails().len(), 2, "one each");
    scene.stop().await;
}

devkit::with_either_source!(
    an_event_that_comes_while_the_claim_is_being_written_is_not_acked_with_the_one_before,
    an_event_that_comes_while_a_claim_is_being_lost_is_not_acked_with_it,
);
