//! Many submissions share commits; what a crash could leave in doubt stays as bounded as if they did not.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage};
use devkit::stage::{Source, StageOptions};

use crate::harness::{Scene, stage_of};

const MANY: usize = 40;
const FIRST: usize = 4;
const CONNECTIONS: i64 = 2;

/// Rows of mails that are being sent, locked by somebody else from then on.
const HOLD: &str = "SELECT s.id FROM submissions s WHERE EXISTS
  (SELECT FROM jsonb_each(s.routing_result->'deliveries') AS d WHERE d.value ? 'begun') FOR UPDATE SKIP LOCKED";

/// Sent mails cannot be recorded, whatever can be recorded of others; `taking` is the relay's time for a mail.
/// Returns how many are in doubt then.
async fn in_doubt(source: Source, taking: Duration) -> i64 {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    // A record that the database refused would give its permit back: here each waits for its row, however slow the machine is.
    let patient = "[database]\nlock_timeout = \"9s\"\nstatement_timeout = \"10s\"\n";
    let scene = Scene::on(stage, &format!("[smtp]\nlanes = {CONNECTIONS}\n{patient}")).await;
    let locker = scene.stage.database.superuser().await.expect("a connection");
    // Long enough for its row to be locked meanwhile.
    scene.stage.relay.rule(Rule::at(Stage::Dot).delay(taking));
    // The first mails measure how long a send takes.
    let mut ids = Vec::new();
    for _ in 0..FIRST {
        ids.push(scene.submit(&SubmissionSeed::of("f")).await.id);
    }
    for id in &ids {
        scene.ended(*id).await;
    }
    locker.batch_execute("BEGIN").await.expect("a transaction");
    for _ in FIRST..MANY {
        ids.push(scene.submit(&SubmissionSeed::of("f")).await.id);
    }
    for _ in 0..300 {
        locker.query(HOLD, &[]).await.expect("locked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let intents = "SELECT count(*) FROM submissions, jsonb_each(routing_result->'deliveries') AS d
                    WHERE d.value ? 'begun'";
    let in_doubt: i64 = scene.eyes.query_one(intents, &[]).await.expect("counted").get(0);
    locker.batch_execute("ROLLBACK").await.expect("let go");
    for id in &ids {
        let row = scene.ended(*id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    }
    assert_eq!(scene.stage.relay.mails().len(), MANY);
    scene.stop().await;
    in_doubt
}

async fn no_more_is_in_doubt_than_twice_the_connections(source: Source) {
    let in_doubt = in_doubt(source, Duration::from_millis(300)).await;
    assert!((CONNECTIONS + 1..=2 * CONNECTIONS).contains(&in_doubt), "{in_doubt} are in doubt");
}

/// A relay on a crowded machine is not always fast, and has no more in doubt than a slow one then.
async fn beside_a_fast_relay_no_more_is_in_doubt_than_eight_times_the_connections(source: Source) {
    for _ in 0..5 {
        let in_doubt = in_doubt(source, Duration::from_millis(10)).await;
        assert!((CONNECTIONS + 1..=8 * CONNECTIONS).contains(&in_doubt), "{in_doubt} are in doubt");
        if in_doubt > 2 * CONNECTIONS {
            return;
        }
    }
    panic!("never more than twice the connections: the relay was not taken for fast");
}

/// Writes that recorded nothing but intents, of submissions of this form that come to a relay that is known, so many at once.
async fn begun_apart(source: Source, form: Form, at_once: usize) -> f64 {
    let stage = stage_of(StageOptions::of(source), &[form]).await;
    let scene = Scene::on(stage, &format!("[smtp]\nlanes = {CONNECTIONS}\n")).await;
    scene.stage.relay.rule(Rule::at(Stage::Dot).delay(Duration::from_millis(20)));
    for _ in 0..FIRST {
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        scene.ended(id).await;
    }
    let begins = "maple_router_db_transaction_seconds_count{name=\"begin\"}";
    let begun = async || scene.router.metric(begins).await.expect("metrics").expect("the series");
    let before = begun().await;
    for _ in (FIRST..MANY).step_by(at_once) {
        let mut ids = Vec::new();
        for _ in 0..at_once {
            ids.push(scene.submit(&SubmissionSeed::of("f")).await.id);
        }
        for id in &ids {
            assert_eq!(scene.ended(*id).await.status, "routed");
        }
    }
    let after = begun().await;
    scene.stop().await;
    after - before
}

/// A relay on a crowded machine is not always fast enough for that.
async fn beside_a_fast_relay_no_more_is_claimed_than_intents_can_be_recorded_with(source: Source) {
    for _ in 0..5 {
        if begun_apart(source, Form::new("f").mail_to("a@x.test"), MANY - FIRST).await < 0.5 {
            return;
        }
    }
    panic!("there were always intents with a write of their own");
}

/// One submission after another, so that no write is shared: the record of the mail before has the intent.
async fn beside_a_fast_relay_a_mail_after_another_has_its_intent_with_the_outcomes_before_it(source: Source) {
    let three = || Form::new("f").mail_to("a@x.test").mail_to("b@x.test").mail_to("c@x.test");
    // A relay on a crowded machine is not always fast.
    for _ in 0..5 {
        if begun_apart(source, three(), 1).await < 0.5 {
            return;
        }
    }
    panic!("there were always intents with a write of their own");
}

devkit::with_either_source!(
    beside_a_fast_relay_no_more_is_claimed_than_intents_can_be_recorded_with,
    beside_a_fast_relay_a_mail_after_another_has_its_intent_with_the_outcomes_before_it,
    no_more_is_in_doubt_than_twice_the_connections,
    beside_a_fast_relay_no_more_is_in_doubt_than_eight_times_the_connections
);
