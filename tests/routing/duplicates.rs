//! Events lost, repeated, early and late: they say "look", and the row says what is to be done.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{SUBSCRIPTION, Source, StageOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::Scene;

async fn scene(source: Source) -> Scene {
    let form = Form::new("f").mail_to("a@x.test, b@x.test");
    Scene::with(StageOptions::of(source), &[form], "[log]\nlevel = \"debug\"").await
}

fn entries(scene: &Scene, id: Uuid, event: &str) -> Vec<Value> {
    scene.journal(id).into_iter().filter(|line| line["event"] == event).collect()
}

async fn an_event_published_five_times_is_one_routing_and_every_copy_is_acked(source: Source) {
    let scene = scene(source).await;
    // Slow enough that copies meet it while it is being sent.
    scene.stage.relay.rule(Rule::at(At::AfterDot).delay(Duration::from_millis(500)));
    for copies in [2, 5] {
        let id = scene.unannounced(&SubmissionSeed::of("f")).await.id;
        (0..copies).for_each(|_| scene.publish(id));
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
        assert_eq!(entries(&scene, id, "claimed").len(), 1);
        // One more event, when all is over: one that comes before the others are settled is settled with them.
        scene.settled().await;
        scene.publish(id);
        let after = scene.await_row(id, "drop", |_| !entries(&scene, id, "dropped").is_empty()).await;
        assert_eq!(after, row, "nothing is touched");
        assert_eq!(scene.stage.relay.mails().len(), 1);
        scene.stage.relay.forget();
    }
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.nacked, stats.forwarded), (9, 0, 0), "{stats:?}");
    scene.stop().await;
}

async fn copies_of_an_event_whose_submission_is_released_all_come_again_and_cost_one_attempt(source: Source) {
    let scene = scene(source).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("b@x.test").reply("451 4.3.0 later").times(1));
    let id = scene.unannounced(&SubmissionSeed::of("f")).await.id;
    (0..3).for_each(|_| scene.publish(id));
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{row:?}");
    let stats = scene.settled().await;
    assert_eq!(
        (stats.acked, stats.nacked),
        (3, 3),
        "a copy is settled with the first, not before it: {stats:?}"
    );
    scene.stop().await;
}

async fn what_another_worker_holds_and_what_has_ended_is_dropped_untouched(source: Source) {
    let scene = scene(source).await;
    let claimed = json!({
        "v": 1, "attempts": 1,
        "claim": {"token": "theirs", "worker": "other/1", "at": "2026-01-01T00:00:00Z", "deadline": "2036-01-01T00:00:00Z"},
        "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}],
        "deliveries": {"1|a@x.test": {"state": "open", "begun": {"token": "theirs", "at": "2026-01-01T00:00:00Z"}}},
    });
    let table = [
        ("processing", claimed.clone(), "held_elsewhere"),
        ("processing", json!([]), "held_elsewhere"),
        ("routed", json!({}), "finished"),
        ("failed", claimed, "finished"),
        ("failed", json!({"v": 7}), "finished"),
        ("purged", json!({}), "finished"),
    ];
    for (status, ledger, reason) in table {
        let seed = SubmissionSeed::of("f").status(status).ledger(ledger).attachment("a", "infected");
        let id = scene.unannounced(&seed).await.id;
        let before = scene.row(id).await;
        scene.publish(id);
        scene
            .await_row(id, "drop", |_| entries(&scene, id, "dropped").iter().any(|l| l["reason"] == reason))
            .await;
        assert_eq!(scene.row(id).await, before, "{status}: byte by byte");
        assert_eq!(scene.audited(id).await, Vec::<String>::new(), "{status}");
    }
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.nacked), (6, 0), "{stats:?}");
    assert_eq!(scene.stage.relay.counters().transactions, 0);
    scene.stop().await;
}

/// A released submission that is due after `seconds` of database time.
async fn due_in(scene: &Scene, seconds: f64) -> Uuid {
    let id = scene.unannounced(&SubmissionSeed::of("f")).await.id;
    let sql = "UPDATE submissions SET routing_result = jsonb_build_object('v', 1, 'attempts', 1,
               'next_attempt_at', clock_timestamp() + make_interval(secs => $2)) WHERE id = $1";
    scene.backend.execute(sql, &[&id, &seconds]).await.expect("due later");
    scene.publish(id);
    id
}

async fn an_early_event_is_deferred_until_its_submission_is_due(source: Source) {
    let scene = scene(source).await;
    let id = due_in(&scene, 2.5).await;
    let due: f64 = due_of(&scene, id).await;
    scene.await_row(id, "hold", |_| !entries(&scene, id, "held").is_empty()).await;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{row:?}");
    let sql = "SELECT extract(epoch FROM min((e.value->>'at')::timestamptz))::float8
               FROM submissions s, jsonb_each(s.routing_result->'deliveries') e WHERE s.id = $1";
    let sent: f64 = scene.eyes.query_one(sql, &[&id]).await.expect("when").get(0);
    assert!(sent >= due, "not before it is due: {sent} < {due}");
    assert_eq!(scene.settled().await.nacked, 0, "deferred, not given back");
    scene.stop().await;
}

async fn due_of(scene: &Scene, id: Uuid) -> f64 {
    let sql = "SELECT extract(epoch FROM (routing_result->>'next_attempt_at')::timestamptz)::float8
               FROM submissions WHERE id = $1";
    scene.eyes.query_one(sql, &[&id]).await.expect("when").get(0)
}

/// Pub/Sub alone: what is given back five times reaches the dead-letter topic there.
#[tokio::test]
async fn due_within_a_minute_is_deferred_later_is_given_back_and_neither_costs_an_attempt() {
    let scene = scene(Source::Pubsub).await;
    let (soon, late) = (due_in(&scene, 30.0).await, due_in(&scene, 300.0).await);
    let before = (scene.row(soon).await, scene.row(late).await);
    scene.await_row(soon, "hold", |_| !entries(&scene, soon, "held").is_empty()).await;
    scene.await_row(late, "nack", |_| entries(&scene, late, "nacked").len() >= 2).await;
    assert!(entries(&scene, late, "nacked").iter().all(|line| line["reason"] == "not_due"));
    assert_eq!(entries(&scene, soon, "held").len(), 1, "looked at once, then left until due");
    let letters = scene.dead_letters(1).await;
    assert!(String::from_utf8_lossy(&letters[0]).contains(&late.to_string()), "five deliveries were spent");
    let stats = scene.stage.broker.stats(SUBSCRIPTION).expect("stats");
    assert_eq!((stats.outstanding, stats.nacked, stats.acked), (1, 5, 0), "{stats:?}");
    assert_eq!((scene.row(soon).await, scene.row(late).await), before, "byte by byte");
    let Scene { mut router, stage, .. } = scene;
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
    let stats = stage.broker.stats(SUBSCRIPTION).expect("stats");
    assert_eq!((stats.outstanding, stats.backlog), (0, 1), "a stop gives back what was deferred: {stats:?}");
}

devkit::with_either_source!(
    an_event_published_five_times_is_one_routing_and_every_copy_is_acked,
    copies_of_an_event_whose_submission_is_released_all_come_again_and_cost_one_attempt,
    what_another_worker_holds_and_what_has_ended_is_dropped_untouched,
    an_early_event_is_deferred_until_its_submission_is_due,
);
