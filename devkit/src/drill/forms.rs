//! Red goes for versions of forms: their policy, what is published, and the tables behind them.

use std::fs;

use anyhow::{Result, ensure};

use super::Step;
use super::policy::{POLICY, write};
use super::world::{Promise, World};

pub(super) const STEPS: &[Step] = &[
    Step { name: "policy-broken", play: |world| Box::pin(broken(world)) },
    Step { name: "form-refused", play: |world| Box::pin(refused(world)) },
    Step { name: "form-behind-its-version", play: |world| Box::pin(behind(world)) },
];

/// A form of the drill's own.
const FORM: &str = "drill-rooms";

/// Somebody mends the policy, and forgets a bracket.
async fn broken(world: &mut World) -> Result<()> {
    write(world.stage.dir(), "package maple.publish\nallow if {\n")?;
    reloaded(world).await?;
    world.slack("policy_away", Promise { failing: "policy", ..Promise::default() }).await?;
    world.alert("MapleRouterPolicyAway").await?;
    write(world.stage.dir(), POLICY)?;
    reloaded(world).await?;
    world.slack_over("policy").await
}

/// The daemon looks once a minute, and after a reload.
async fn reloaded(world: &World) -> Result<()> {
    world.router.signal("HUP").await
}

/// Loads a version that sends to somebody, and tries to publish it. Returns whether it was published.
async fn publish(world: &World, to: &str) -> Result<bool> {
    let text = format!(
        "id: {FORM}\nname: Rooms\nactions:\n  - {{type: email_raw, destination: '{to}'}}\nsamples:\n  - {{name: usual}}\n"
    );
    fs::write(world.stage.dir().join("rooms.yaml"), text)?;
    let loaded = world.shell("maple-router forms load ./rooms.yaml --json").await?;
    let said: serde_json::Value = serde_json::from_str(&loaded.out)?;
    let digest = said["digest"].as_str().unwrap_or_default().to_owned();
    let published = world.shell(&format!("maple-router forms publish {FORM} --expect {digest}")).await?;
    Ok(published.code == Some(0))
}

/// Somebody tries to publish a form without an address.
async fn refused(world: &mut World) -> Result<()> {
    // An increase needs a look before it, and the daemon looks once a minute.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    ensure!(!publish(world, "nobody").await?, "a form without an address was published");
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    world.journal("form_quarantined", FORM).await?;
    world.alert("MapleRouterFormQuarantined").await
}

/// Somebody writes a managed form's row while the guard is off.
async fn behind(world: &mut World) -> Result<()> {
    ensure!(publish(world, "rooms@example.org").await?, "the form is right");
    let promoted = world.shell(&format!("maple-router forms promote {FORM}")).await?;
    ensure!(promoted.code == Some(0), "{promoted:?}");
    let guard = |how: &str| format!("ALTER TABLE actions {how} TRIGGER content_managed");
    let set = |to: &str| format!("UPDATE actions SET destination = '{to}' WHERE form_id = '{FORM}'");
    for sql in [guard("DISABLE"), set("red@example.org"), guard("ENABLE")] {
        world.tamper(&sql).await?;
    }
    reloaded(world).await?;
    world.slack("forms_drift", Promise { failing: "versions", ..Promise::default() }).await?;
    world.alert("MapleRouterFormsDrift").await?;
    world.tamper(&set("rooms@example.org")).await?;
    reloaded(world).await?;
    world.slack_over("forms").await
}
