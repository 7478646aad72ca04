//! Red goes for uploads: their door, their scanner, their buckets, and what somebody brings.

use std::net::TcpListener;

use anyhow::{Context as _, Result, ensure};

use super::Step;
use super::world::{Promise, World};
use crate::clamd::eicar;
use crate::google::Right;
use crate::stage::Answer;
use crate::uploading::{CONTENT, OF_CONTENT, OF_STAGING, STAGING, grant};

pub(super) const STEPS: &[Step] = &[
    Step { name: "uploads-shut", play: |world| Box::pin(shut(world)) },
    Step { name: "scanner-blind", play: |world| Box::pin(blind(world)) },
    Step { name: "upload-infected", play: |world| Box::pin(infected(world)) },
    Step { name: "upload-unscannable", play: |world| Box::pin(unscannable(world)) },
    Step { name: "content-bucket-closed", play: |world| Box::pin(closed(world)) },
    Step { name: "staging-kept", play: |world| Box::pin(kept(world)) },
];

/// Somebody brings a file of this name, and waits no longer than so many seconds.
async fn bring(world: &World, name: &str, content: &[u8], limit: u32) -> Result<Answer> {
    std::fs::write(world.stage.dir().join(name), content)?;
    let who = "--form contact --owner drill --content-type text/plain";
    world.shell(&format!("timeout {limit} maple-router upload ./{name} {who}")).await
}

/// A file that nothing is wrong with.
pub(super) async fn brought(world: &World, name: &str) -> Result<()> {
    let answer = bring(world, name, name.as_bytes(), 40).await?;
    ensure!(answer.code == Some(0) && answer.out.contains("is committed"), "{name}: {answer:?}");
    Ok(())
}

async fn restarted(world: &mut World) -> Result<()> {
    world.start_again().await?;
    world.router.ready().await
}

/// Somebody else has the API's address.
async fn shut(world: &mut World) -> Result<()> {
    world.router.stop().await?;
    let taken = TcpListener::bind(("127.0.0.1", world.uploading.port)).context("the API's address")?;
    restarted(world).await?;
    world.slack("uploads_unavailable", Promise::default()).await?;
    world.alert("MapleRouterUploadsUnavailable").await?;
    drop(taken);
    world.slack_over("uploads").await
}

/// The host comes up without its scanner. Files are kept, and judged when it is back.
async fn blind(world: &mut World) -> Result<()> {
    world.router.stop().await?;
    world.uploading.clamd.stop().await?;
    restarted(world).await?;
    world.journal("scanner_doubted", "").await?;
    world.slack("scanner_doubted", Promise { failing: "scanner", ..Promise::default() }).await?;
    world.alert("MapleRouterScannerDoubted").await?;
    brought(world, "unjudged.txt").await?;
    world
        .tamper(
            "UPDATE content.blobs SET created_at = now() - interval '2 hours' WHERE verdict = 'unscanned'",
        )
        .await?;
    world.slack("unscanned", Promise { failing: "scanner", ..Promise::default() }).await?;
    world.alert("MapleRouterUnscanned").await?;
    world.uploading.clamd.up().await?;
    world.journal("scanner_believed", "").await?;
    world.journal("upload_scanned", "").await?;
    world.slack_over("verdict").await
}

/// Somebody brings a virus.
async fn infected(world: &mut World) -> Result<()> {
    // An increase needs a look before it.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let answer = bring(world, "virus.txt", &eicar(), 40).await?;
    ensure!(answer.code == Some(1) && answer.out.contains("infected"), "{answer:?}");
    world.journal("upload_infected", "").await?;
    world.alert("MapleRouterUploadInfected").await
}

/// A file that the scanner cannot open.
async fn unscannable(world: &mut World) -> Result<()> {
    brought(world, "locked.txt").await?;
    let judged = |verdict: &str| {
        format!(
            "UPDATE content.blobs SET verdict = '{verdict}', signature = 'Heuristics.Encrypted.PDF', scanned_at = now(), scan_due_at = NULL
             WHERE verdict IN ('clean', 'unscannable')"
        )
    };
    world.tamper(&judged("unscannable")).await?;
    world.slack("unscannable", Promise::default()).await?;
    world.alert("MapleRouterUnscannable").await?;
    world.tamper(&judged("clean")).await?;
    world.slack_over("judged").await
}

/// The daemon may write no longer where files are kept.
async fn closed(world: &mut World) -> Result<()> {
    let account = world.stage.google.service_account_email().to_owned();
    let reads: Vec<Right> = OF_CONTENT.into_iter().filter(|right| *right != Right::Create).collect();
    world.stage.google.grant(&account, CONTENT, &reads);
    bring(world, "waits.txt", b"waits.txt", 8).await?;
    world.journal("upload_waits", "storage.objects.create").await?;
    world.slack("uploads_store", Promise { failing: "upload_buckets", ..Promise::default() }).await?;
    world.alert("MapleRouterUploadsStore").await?;
    grant(&world.stage.google);
    brought(world, "waits.txt").await?;
    world.slack_over("object store").await
}

/// The daemon may remove nothing any more.
async fn kept(world: &mut World) -> Result<()> {
    let account = world.stage.google.service_account_email().to_owned();
    let no_end: Vec<Right> = OF_STAGING.into_iter().filter(|right| *right != Right::Delete).collect();
    world.stage.google.grant(&account, STAGING, &no_end);
    brought(world, "kept.txt").await?;
    world.tamper("UPDATE content.staging SET attempts = 20, due_at = now() WHERE due_at IS NOT NULL").await?;
    world.journal("staging_stuck", "").await?;
    world.slack("staging_stuck", Promise { failing: "upload_buckets", ..Promise::default() }).await?;
    world.alert("MapleRouterStagingStuck").await?;
    grant(&world.stage.google);
    world.tamper("UPDATE content.staging SET due_at = now() WHERE due_at IS NOT NULL").await?;
    world.slack_over("removed").await
}
