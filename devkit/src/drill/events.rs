//! Red speaks to the topic: poison, forgeries, silence.

use std::time::Duration;

use anyhow::Result;
use uuid::Uuid;

use super::Step;
use super::world::{Promise, World};
use crate::forms::SubmissionSeed;
use crate::stage::{DEAD_TOPIC, TOPIC};

pub(super) const STEPS: &[Step] = &[
    Step { name: "poison-event", play: |world| Box::pin(poison(world)) },
    Step { name: "forged-event", play: |world| Box::pin(forged(world)) },
    Step { name: "events-lost", play: |world| Box::pin(lost(world)) },
    Step { name: "events-given-up", play: |world| Box::pin(premature(world)) },
];

async fn poison(world: &mut World) -> Result<()> {
    world.stage.broker.publish(TOPIC, "no JSON at all", [("type", "routing.ready"), ("v", "1")])?;
    world.journal("poison", "").await?;
    world.journal("dead_letter", "").await?;
    world.alert("MapleRouterDeadLetters").await?;
    world.slack("unreadable", Promise { kind: "unreadable", ..Promise::default() }).await?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "an id that nobody has")]
async fn forged(world: &mut World) -> Result<()> {
    world.stage.publish(Uuid::new_v4(), "finalized")?;
    world.slack("unknown_submission", Promise { kind: "unknown_submission", ..Promise::default() }).await?;
    let closed = world.shell("maple-router dlq discard --kind unknown_submission --reason drill").await?;
    anyhow::ensure!(closed.code == Some(0), "{closed:?}");
    Ok(())
}

/// Submissions of an hour ago that nobody announced, because the triggers are switched off: found, and late.
async fn lost(world: &mut World) -> Result<()> {
    let mut ids = Vec::new();
    world.tamper("ALTER TABLE submissions DISABLE TRIGGER USER").await?;
    for _ in 0..8 {
        let old = SubmissionSeed::of("contact").age(Duration::from_secs(3600));
        ids.push(world.seed(old, false).await?);
    }
    world.tamper("ALTER TABLE submissions ENABLE TRIGGER USER").await?;
    world.journal("orphan", "").await?;
    world.alert("MapleRouterOrphans").await?;
    world.become_all(&ids, "routed").await?;
    world.alert("MapleRouterSLOBurnFast").await?;
    world.alert("MapleRouterSLOBurnSlow").await
}

/// Pub/Sub gives up on what is still open.
async fn premature(world: &mut World) -> Result<()> {
    let waiting = SubmissionSeed::of("contact").attachment("a.pdf", "pending");
    let id = world.seed(waiting, false).await?;
    for _ in 0..6 {
        let data = serde_json::json!({"submission_id": id}).to_string();
        let attributes =
            [("type", "routing.ready"), ("v", "1"), ("CloudPubSubDeadLetterSourceDeliveryCount", "5")];
        world.stage.broker.publish(DEAD_TOPIC, data.into_bytes(), attributes)?;
    }
    world.alert("MapleRouterPrematureDeadLetters").await?;
    world.explain(id, &["RECEIVED", "still to be scanned"]).await
}
