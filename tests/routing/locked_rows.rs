//! One row that cannot be had, because somebody has it locked or because it cannot be written, is waited for alone:
//! nobody else's claim or heartbeat stops for it.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use uuid::Uuid;

use crate::harness::{Scene, stage_of};

const LOCK: &str = "SELECT FROM submissions WHERE id = $1 FOR UPDATE";

/// A row of one form that takes no write once it is claimed: nothing of it can be begun, recorded or given back.
const STUBBORN: &str = "CREATE FUNCTION stubborn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF OLD.form_id = 'stubborn' AND OLD.status = 'processing' AND NEW.routing_result IS DISTINCT FROM OLD.routing_result
    THEN RAISE EXCEPTION 'no'; END IF;
    RETURN NEW; END $$;
  CREATE TRIGGER stubborn BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION stubborn()";

fn form() -> Form {
    Form::new("f").mail_to("a@x.test")
}

fn log_has(scene: &Scene, text: &str) -> bool {
    scene.router.log().contains(text)
}

async fn a_row_somebody_has_locked_stops_no_other_claim_and_is_claimed_when_it_is_free(source: Source) {
    let scene = Scene::of(source, &[form()]).await;
    let mut other = scene.stage.database.client_as("forms_app").await.expect("forms_app");
    let locked = scene.unannounced(&SubmissionSeed::of("f")).await.id;
    let lock = other.transaction().await.expect("a transaction");
    lock.query_one(LOCK, &[&locked]).await.expect("locked");
    scene.publish(locked);
    for _ in 0..3 {
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    let row = scene.row(locked).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "still locked: {row:?}");
    assert!(!log_has(&scene, "could be claimed"), "nobody waited for the lock:\n{}", scene.router.log());
    lock.rollback().await.expect("unlocked");
    let row = scene.ended(locked).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.nacked), (4, 0), "waited for here: {stats:?}");
    scene.stop().await;
}

/// The key-share lock of a foreign key, kept for as long as the backend's transaction lasts.
async fn an_attachment_being_inserted_does_not_hold_up_its_submission(source: Source) {
    let scene = Scene::of(source, &[form()]).await;
    let mut other = scene.stage.database.client_as("forms_app").await.expect("forms_app");
    let id = scene.unannounced(&SubmissionSeed::of("f")).await.id;
    let insertion = other.transaction().await.expect("a transaction");
    let sql = "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) VALUES ($1, 'n', 'b', 'o')";
    insertion.execute(sql, &[&id]).await.expect("inserted");
    scene.publish(id);
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    insertion.rollback().await.expect("rolled back");
    scene.stop().await;
}

async fn a_row_that_cannot_be_written_stops_no_other_claim(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[form()]).await;
    let (bad, broken) = (Uuid::from_u128(1), SubmissionSeed::of("f").id(Uuid::from_u128(1)));
    let trigger = format!(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
         CREATE TRIGGER broken BEFORE UPDATE ON submissions FOR EACH ROW WHEN (NEW.id = '{bad}')
         EXECUTE FUNCTION broken()"
    );
    stage.database.alter(&trigger).await.expect("a trigger");
    // All rows are there before the router is, so that they are claimed together.
    let app = stage.database.client_as("forms_app").await.expect("forms_app");
    let mut ids = Vec::new();
    for place in 0..6 {
        let seed = if place == 0 { broken.clone() } else { SubmissionSeed::of("f") };
        ids.push(seed.insert(&app).await.expect("a row").id);
        stage.publish(ids[place], "finalized").expect("published");
    }
    let scene = Scene::on(stage, "").await;
    for id in &ids[1..] {
        let row = scene.ended(*id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    }
    assert!(log_has(&scene, "set aside, because it cannot be claimed"), "it is named");
    assert!(!log_has(&scene, "nothing could be claimed"), "the others of its batch are, at once");
    let row = scene.row(bad).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "{row:?}");
    scene.stage.database.alter("DROP TRIGGER broken ON submissions").await.expect("mended");
    assert_eq!(scene.ended(bad).await.attempts(), 1);
    scene.stop().await;
}

/// A second between heartbeats; the inequalities of the protocol hold.
const BEATING: &str = "[smtp]
lanes = 1
[database]
lock_timeout = \"200ms\"
statement_timeout = \"500ms\"
[routing]
heartbeat = \"1s\"";

async fn a_locked_row_stops_no_other_heartbeat_and_is_not_taken_for_lost(source: Source) {
    let forms = [form(), Form::new("slow").mail_to("slow@y.test")];
    let scene = Scene::with(StageOptions::of(source), &forms, BEATING).await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("slow@y.test").delay(Duration::from_secs(6)));
    let sending = scene.submit(&SubmissionSeed::of("slow")).await.id;
    scene.await_row(sending, "begun", |row| !row.entry("1|slow@y.test")["begun"].is_null()).await;
    let locked = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.await_row(locked, "claim", |row| row.status == "processing").await;
    let mut other = scene.stage.database.client_as("forms_app").await.expect("forms_app");
    let lock = other.transaction().await.expect("a transaction");
    lock.query_one(LOCK, &[&locked]).await.expect("locked");
    let untouched = scene.row(locked).await;
    let mut last = scene.row(sending).await;
    for beat in 1..=2 {
        let touched = scene.await_row(sending, "heartbeat", |row| row.updated_at != last.updated_at).await;
        assert_eq!(touched.status, "processing", "beat {beat}: this test has come too late: {touched:?}");
        last = touched;
    }
    assert_eq!(scene.row(locked).await, untouched, "it was locked all the time");
    assert!(!log_has(&scene, "could not be touched"), "{}", scene.router.log());
    lock.rollback().await.expect("unlocked");
    for id in [sending, locked] {
        assert_eq!(scene.ended(id).await.status, "routed");
        let claims = scene.journal(id).iter().filter(|line| line["event"] == "claimed").count();
        assert_eq!(claims, 1, "it was ours all the time:\n{}", scene.router.log());
    }
    scene.stop().await;
}

async fn what_cannot_be_written_keeps_neither_its_connection_nor_its_slot_from_others(source: Source) {
    let forms = [Form::new("stubborn").mail_to("s@x.test"), Form::new("f").mail_to("a@x.test")];
    let extra = "[smtp]\nlanes = 1\n[routing]\nmax_in_flight = 4";
    let scene = Scene::with(StageOptions::of(source), &forms, extra).await;
    scene.stage.database.alter(STUBBORN).await.expect("a trigger of somebody else's");
    let mut stubborn = Vec::new();
    // More of them than there are slots.
    for _ in 0..6 {
        let id = scene.submit(&SubmissionSeed::of("stubborn")).await.id;
        scene.await_row(id, "claim", |row| row.status == "processing").await;
        stubborn.push(id);
    }
    let mut others = Vec::new();
    for _ in 0..5 {
        others.push(scene.submit(&SubmissionSeed::of("f")).await.id);
    }
    for id in others {
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    for id in &stubborn {
        assert_eq!(scene.row(*id).await.status, "processing", "it is still tried");
    }
    scene.stage.database.alter("DROP TRIGGER stubborn ON submissions").await.expect("it gives in");
    for id in stubborn {
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    assert_eq!(scene.stage.relay.mails().len(), 11);
    scene.stop().await;
}

devkit::with_either_source!(
    a_row_somebody_has_locked_stops_no_other_claim_and_is_claimed_when_it_is_free,
    an_attachment_being_inserted_does_not_hold_up_its_submission,
    a_row_that_cannot_be_written_stops_no_other_claim,
    a_locked_row_stops_no_other_heartbeat_and_is_not_taken_for_lost,
    what_cannot_be_written_keeps_neither_its_connection_nor_its_slot_from_others,
);
