//! Slow steps are played beside the rest, on a world of its own: a canary that goes astray, a relay that crawls.

use std::time::Duration;

use anyhow::Result;

use super::Step;
use super::world::{Promise, World};
use crate::smtp::{Rule, Stage as At};

/// Laid over the world's settings: canaries go to a topic nobody is subscribed to, and the relay may take its time.
pub(super) const SETTINGS: &str = r#"
[pubsub]
topic = "elsewhere"
[canary]
interval = "1s"
[smtp]
dot_timeout = "25s"
delivery_deadline = "40s"
[routing]
stuck_after = "60s"
orphan_after = "90s"
claim_deadline = "5m"
drain_timeout = "45s"
"#;

pub(super) const STEPS: &[Step] = &[
    Step { name: "relay-crawls", play: |world| Box::pin(crawls(world)) },
    Step { name: "canary-astray", play: |world| Box::pin(astray(world)) },
];

async fn crawls(world: &mut World) -> Result<()> {
    world.stage.relay.rule(Rule::at(At::Dot).delay(Duration::from_secs(18)));
    let mut ids = Vec::new();
    for _ in 0..14 {
        ids.extend(world.submit("contact", 1).await?);
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
    world.alert("MapleRouterOldestProcessing").await?;
    world.alert("MapleRouterRelaySlow").await?;
    world.stage.relay.clear_rules();
    world.become_all(&ids, "routed").await
}

async fn astray(world: &mut World) -> Result<()> {
    world.alert("MapleRouterCanaryMissing").await?;
    world.slack("canary", Promise { failing: "subscription", ..Promise::default() }).await?;
    world.alert("MapleRouterCanaryOverdue").await
}
