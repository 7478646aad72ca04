//! Schema `router` beside Pub/Sub: the relay dies between the claim of an event, the topic server's answer and the
//! status. An event may be published twice; its submission is routed once, and every recipient has one mail.

use devkit::postgres::Trap;
use devkit::stage::{Source, Stage, StageOptions};
use devkit::trap::Fate;
use serde_json::Value;

use crate::harness::{PATIENCE, Scene, options};
use crate::points::{TRIES, TooLate, in_time, meet};

/// Only the relay publishes.
const ALONE: &str = "[routing]\nrepublish = false\n";

/// Point of death, fate of the step under way, and how often the event is published in the end.
const POINTS: &[(&str, Trap, Fate, u64)] = &[
    ("not taken", Trap::TakenSent("outbox_claim"), Fate::Cut, 1),
    ("taken", Trap::TakenAnswered("outbox_claim"), Fate::Cut, 1),
    ("published, not marked", Trap::CommitSent("outbox_settle"), Fate::Cut, 2),
    ("published, marked after the end", Trap::CommitSent("outbox_settle"), Fate::Release, 1),
    ("marked", Trap::CommitAnswered("outbox_settle"), Fate::Cut, 1),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_relay_repeats_events_and_nobody_is_mailed_twice() {
    let all = POINTS.iter().map(async |point| {
        // A point met too late says nothing about the relay.
        for _ in 0..TRIES {
            if killed_at(*point).await.is_ok() {
                return;
            }
        }
        panic!("{}: the machine is too slow", point.0);
    });
    futures::future::join_all(all).await;
}

async fn killed_at((name, trap, fate, published): (&str, Trap, Fate, u64)) -> Result<(), TooLate> {
    let variant = StageOptions::of(Source::Postgres).variant;
    let stage = Stage::start(StageOptions { variant, ..options(Source::Pubsub) }).await.expect("a stage");
    let mut scene = Scene::with(stage, 1, ALONE).await;
    let trapped = scene.daemons[0].wire.trap(trap, 1);
    let id = scene.submit_alone().await;
    if let Err(nobody) = trapped.hit(PATIENCE).await {
        panic!("{name}: {nobody}\n{}", scene.logs());
    }
    let is_published = matches!(trap, Trap::CommitSent(_) | Trap::CommitAnswered(_));
    if is_published {
        // Only the relay is to be in the middle of anything.
        scene.ended(id).await;
        scene.settled().await;
    }
    let before = scene.stage.events().await.expect("stats").acked;
    scene.kill(0).await;
    in_time(&trapped)?;
    assert_eq!(before, u64::from(is_published), "{name}: the server has it");
    meet(trapped, fate);
    scene.one_more().await;

    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{name}: {row:?}");
    let is_delivered = async || outbox(&scene).await["state"] == "delivered";
    scene.until("delivered row", is_delivered).await;
    let acked = async || scene.stage.events().await.expect("stats").acked >= published;
    scene.until("acks", acked).await;
    scene.settled().await;
    let stats = scene.stage.events().await.expect("stats");
    assert_eq!(stats.acked, published, "{name}: {stats:?}\n{}", scene.logs());
    let event = outbox(&scene).await;
    assert!(event["message_id"].is_string(), "{name}: {event}");
    assert_eq!(event["attempts"].as_u64(), Some(1), "{name}: a lost lease costs none: {event}");
    assert_eq!(scene.copies(id).into_values().collect::<Vec<_>>(), [1, 1, 1], "{name}");
    let routed = scene.audit(id).await.iter().filter(|line| line.action == "submission_routed").count();
    assert_eq!(routed, 1, "{name}");
    scene.daemons.remove(0);
    scene.stop().await;
    Ok(())
}

/// The one row of the outbox.
async fn outbox(scene: &Scene) -> Value {
    let sql = "SELECT to_jsonb(o) FROM router.outbox o";
    scene.eyes.query_one(sql, &[]).await.expect("one event").get(0)
}
