//! Stops: a graceful one finishes what is being sent and gives the rest back unspent; a kill leaves a row that says
//! what was about to happen.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene, binary};

const SLOW: Duration = Duration::from_secs(2);

/// One connection, busy with a slow mail of the first submission; the others wait behind it.
async fn busy(source: Source, others: usize) -> (Scene, Uuid, Vec<Uuid>) {
    let forms =
        [Form::new("slow").mail_to("slow@y.test"), Form::new("f").mail_to("a@x.test").mail_to("b@x.test")];
    let scene =
        Scene::with(StageOptions::of(source), &forms, "[smtp]\nlanes = 1\n[routing]\nmax_in_flight = 4")
            .await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("slow@y.test").delay(SLOW));
    let slow = scene.submit(&SubmissionSeed::of("slow")).await.id;
    on_their_way(&scene, 1).await;
    let mut waiting = Vec::new();
    for _ in 0..others {
        waiting.push(scene.submit(&SubmissionSeed::of("f")).await.id);
    }
    (scene, slow, waiting)
}

/// Waits until the relay has this many mails with their final dot: an intent is recorded before, and a stop may come between.
async fn on_their_way(scene: &Scene, mails: u64) {
    scene.until("the final dots", async || scene.stage.relay.counters().dots >= mails).await;
}

async fn claimed(scene: &Scene, ids: &[Uuid]) -> usize {
    let mut claimed = 0;
    for id in ids {
        claimed += usize::from(scene.row(*id).await.status == "processing");
    }
    claimed
}

async fn a_stop_finishes_what_is_being_sent_and_gives_the_rest_back_unspent(source: Source) {
    // Three fit beside the slow one, of which at least two are claimed (claims gather under a backlog); the others are not.
    let (mut scene, slow, waiting) = busy(source, 5).await;
    scene.until("two claims", async || claimed(&scene, &waiting).await >= 2).await;
    let status = scene.router.stop().await.expect("stops");
    assert_eq!(status.code(), Some(0), "{}", scene.router.log());
    assert_eq!(scene.ended(slow).await.status, "routed");
    for id in &waiting {
        let row = scene.row(*id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "{row:?}");
        assert_eq!(row.ledger.get("claim"), None, "{row:?}");
        let entries = row.ledger["deliveries"].as_object().into_iter().flatten();
        assert!(entries.into_iter().all(|(_, entry)| *entry == json!({"state": "open"})), "{row:?}");
        assert_eq!(scene.audited(*id).await, Vec::<String>::new());
    }
    assert_eq!(scene.stage.relay.counters().mails, 1, "nothing new was begun");
    // The events were given back: the next router routes them, and no attempt is missing.
    scene.router = scene.stage.router(binary(), "next", "").await.expect("a router");
    scene.router.ready().await.expect("ready");
    for id in waiting {
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    }
    scene.stop().await;
}

/// Several, each on a connection of its own: a free connection is no reason to start the next action.
async fn a_stop_between_two_actions_keeps_what_is_sent_and_sends_the_rest_later(source: Source) {
    let form = Form::new("f").mail_to("slow@y.test").mail_to("b@x.test");
    let mut scene = Scene::with(StageOptions::of(source), &[form], "[smtp]\nlanes = 8").await;
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("slow@y.test").delay(SLOW));
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(scene.submit(&SubmissionSeed::of("f")).await.id);
    }
    on_their_way(&scene, 6).await;
    assert!(scene.router.stop().await.expect("stops").success(), "{}", scene.router.log());
    for id in &ids {
        let row = scene.row(*id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "{row:?}");
        assert_eq!(row.entry("1|slow@y.test")["state"], "accepted", "{row:?}");
        assert_eq!(row.entry("2|b@x.test"), &json!({"state": "open"}), "{row:?}");
    }
    scene.stage.relay.clear_rules();
    scene.router = scene.stage.router(binary(), "next", "").await.expect("a router");
    scene.router.ready().await.expect("ready");
    for id in &ids {
        assert_eq!(scene.ended(*id).await.status, "routed");
    }
    assert_eq!(scene.stage.relay.mails().len(), 2 * ids.len(), "the first action once");
    scene.stop().await;
}

/// P8: the first action may have been delivered, which costs the attempt; that a stop comes before the second one,
/// or while that waits for the only connection, gives nothing back.
async fn a_stop_refunds_nothing_that_may_have_been_delivered(source: Source) {
    let forms =
        [Form::new("f").mail_to("lost@y.test").mail_to("b@x.test"), Form::new("slow").mail_to("slow@y.test")];
    for is_waiting in [false, true] {
        let mut scene = Scene::with(StageOptions::of(source), &forms, "[smtp]\nlanes = 1").await;
        let trapped = scene.stage.relay.trap(Rule::at(At::AfterDot).to("lost@y.test"));
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        trapped.hit(PATIENCE).await.expect("the first mail");
        let busy = scene.stage.relay.trap(Rule::at(At::AfterDot).to("slow@y.test"));
        if is_waiting {
            let slow = scene.submit(&SubmissionSeed::of("slow")).await.id;
            scene.await_row(slow, "claim", |row| row.status == "processing").await;
            trapped.cut();
            busy.hit(PATIENCE).await.expect("the connection is taken");
            scene.await_row(id, "doubt", |row| row.entry("1|lost@y.test")["doubt"] == true).await;
            scene.router.signal("TERM").await.expect("sent");
        } else {
            scene.router.signal("TERM").await.expect("sent");
            scene.await_line("stop", |line| line["event"] == "stopping").await;
            trapped.cut();
        }
        let row = scene.await_row(id, "release", |row| row.status == "received").await;
        busy.release();
        assert!(scene.router.ended().await.expect("ends").success(), "{}", scene.router.log());
        assert_eq!(row.attempts(), 1, "waiting for a connection: {is_waiting}: {row:?}");
        assert_eq!(row.entry("1|lost@y.test")["doubt"], true, "{row:?}");
        assert_eq!(row.entry("2|b@x.test"), &json!({"state": "open"}), "{row:?}");
    }
}

async fn an_idle_router_stops_at_once_by_either_signal(source: Source) {
    for signal in ["TERM", "INT"] {
        let mut scene = Scene::of(source, &[Form::new("f")]).await;
        scene.router.signal(signal).await.expect("sent");
        let ended = tokio::time::timeout(Duration::from_secs(10), scene.router.ended()).await;
        assert_eq!(
            ended.expect("at once").expect("ends").code(),
            Some(0),
            "{signal}\n{}",
            scene.router.log()
        );
        let log = scene.router.log();
        assert!(log.contains("\"stopping\"") && log.contains("\"stopped\""), "{signal}\n{log}");
    }
}

async fn a_kill_after_begin_leaves_a_row_that_says_so(source: Source) {
    let (mut scene, slow, _) = busy(source, 0).await;
    let before = scene.row(slow).await;
    scene.router.signal("KILL").await.expect("sent");
    scene.router.ended().await.expect("ends");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let row = scene.row(slow).await;
    assert_eq!(row, before, "a kill writes nothing");
    assert_eq!((row.status.as_str(), row.attempts()), ("processing", 1), "{row:?}");
    let claim = &row.ledger["claim"];
    assert!(claim["worker"].as_str().is_some_and(|worker| worker.contains('/')), "{row:?}");
    let entry = row.entry("1|slow@y.test");
    assert_eq!((&entry["state"], &entry["begun"]["token"]), (&json!("open"), &claim["token"]), "{row:?}");
    assert_eq!(entry["error"], Value::Null, "begun without an outcome: {row:?}");
    assert_eq!(scene.audited(slow).await, Vec::<String>::new());
    // Another router does not take the row from a worker that may still live.
    scene.router = scene.stage.router(binary(), "next", "").await.expect("a router");
    scene.router.ready().await.expect("ready");
    scene.publish(slow);
    scene.await_line("drop", |line| line["event"] == "dropped" && line["reason"] == "held_elsewhere").await;
    assert_eq!(scene.row(slow).await, before);
    scene.stop().await;
}

/// A second signal means that the operator does not wait: the process ends at once, and the row says what was under way.
async fn a_second_signal_ends_it_at_once_and_the_row_says_what_was_under_way(source: Source) {
    for second in ["TERM", "INT"] {
        let (mut scene, slow, _) = busy(source, 0).await;
        // The intent comes before the dot: only a mail that has ended is out of the new rule's reach.
        assert_eq!(scene.ended(slow).await.status, "routed");
        scene.stage.relay.clear_rules();
        scene.stage.relay.rule(Rule::at(At::AfterDot).delay(Duration::from_secs(15)));
        let stuck = scene.submit(&SubmissionSeed::of("slow")).await.id;
        on_their_way(&scene, 2).await;
        scene.router.signal("TERM").await.expect("sent");
        scene.await_line("stop", |line| line["event"] == "stopping").await;
        assert!(scene.router.end().expect("asked").is_none(), "it waits for what is being sent");
        scene.router.signal(second).await.expect("sent");
        let ended = tokio::time::timeout(Duration::from_secs(10), scene.router.ended()).await;
        assert_eq!(ended.expect("at once").expect("ends").code(), Some(1), "{}", scene.router.log());
        let row = scene.row(stuck).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("processing", 1), "{row:?}");
        assert_eq!(row.entry("1|slow@y.test")["error"], Value::Null, "{row:?}");
    }
}

devkit::with_either_source!(
    a_stop_finishes_what_is_being_sent_and_gives_the_rest_back_unspent,
    a_stop_between_two_actions_keeps_what_is_sent_and_sends_the_rest_later,
    a_stop_refunds_nothing_that_may_have_been_delivered,
    an_idle_router_stops_at_once_by_either_signal,
    a_kill_after_begin_leaves_a_row_that_says_so,
    a_second_signal_ends_it_at_once_and_the_row_says_what_was_under_way,
);
