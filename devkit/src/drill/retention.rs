//! Red goes for what removes: a collector that does not run, one that may not, and somebody else who removes objects.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::Step;
use super::uploads::brought;
use super::world::{Promise, World};
use crate::collecting::ACCOUNT;
use crate::google::Right;
use crate::uploading::CONTENT;

pub(super) const STEPS: &[Step] = &[
    Step { name: "collector-asleep", play: |world| Box::pin(asleep(world)) },
    Step { name: "collector-refused", play: |world| Box::pin(refused(world)) },
    Step { name: "object-stolen", play: |world| Box::pin(stolen(world)) },
];

/// The daemon looks once a minute; what is left of it is waited for as for anything else.
const LOOK: Duration = Duration::from_secs(30);

/// A run that does all there is to do.
async fn run(world: &World) -> Result<()> {
    let ran = world.shell("maple-router gc run").await?;
    ensure!(ran.code == Some(0) && ran.out.contains("is done"), "{ran:?}");
    Ok(())
}

/// A file that somebody brings, and that nothing refers to any more.
async fn forsaken(world: &World, name: &str) -> Result<()> {
    brought(world, name).await?;
    world.tamper("UPDATE content.grace SET value = '0'").await?;
    world.tamper("DELETE FROM content.blob_refs WHERE kind = 'upload'").await
}

/// Nobody has collected for four days.
async fn asleep(world: &mut World) -> Result<()> {
    run(world).await?;
    let long_ago = "UPDATE content.gc_runs SET started_at = started_at - interval '4 days', ended_at = ended_at - interval '4 days'";
    world.tamper(long_ago).await?;
    tokio::time::sleep(LOOK).await;
    world.slack("gc_overdue", Promise::default()).await?;
    world.alert("MapleRouterGcOverdue").await?;
    run(world).await?;
    tokio::time::sleep(LOOK).await;
    world.slack_over("collector").await
}

/// The collector may delete nothing any more.
async fn refused(world: &mut World) -> Result<()> {
    forsaken(world, "forsaken.txt").await?;
    world.stage.google.grant(ACCOUNT, CONTENT, &[Right::Create, Right::Get, Right::List, Right::Inspect]);
    let ran = world.shell("maple-router gc run").await?;
    ensure!(ran.code == Some(69), "{ran:?}");
    tokio::time::sleep(LOOK).await;
    world.slack("gc_failed", Promise::default()).await?;
    world.alert("MapleRouterGcFailed").await?;
    world.stage.google.grant(ACCOUNT, CONTENT, &Right::ALL);
    run(world).await?;
    tokio::time::sleep(LOOK).await;
    world.slack_over("collector").await
}

/// Somebody else removes an object before the collector does.
async fn stolen(world: &mut World) -> Result<()> {
    forsaken(world, "stolen.txt").await?;
    for object in world.stage.google.objects(CONTENT) {
        ensure!(world.stage.google.delete_object(CONTENT, &object.name), "it is there");
    }
    run(world).await?;
    tokio::time::sleep(LOOK).await;
    world.slack("gc_objects_lost", Promise::default()).await?;
    world.alert("MapleRouterGcObjectsLost").await?;
    world
        .tamper("UPDATE content.blobs SET gone_at = gone_at - interval '2 days' WHERE gone_at IS NOT NULL")
        .await
}
