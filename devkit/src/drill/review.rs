//! Red lets the review queue rot: entries that nobody decides about, remedies that help nobody, a trigger that is off, a desk that
//! does not open and one that somebody tries to get into.

use std::net::TcpListener;

use anyhow::{Context as _, Result, ensure};
use uuid::Uuid;

use super::Step;
use super::world::{Promise, World};
use crate::smtp::{Rule, Stage as At};

pub(super) const STEPS: &[Step] = &[
    Step { name: "review-forgotten", play: |world| Box::pin(forgotten(world)) },
    Step { name: "review-in-vain", play: |world| Box::pin(in_vain(world)) },
    Step { name: "review-trigger-off", play: |world| Box::pin(trigger_off(world)) },
    Step { name: "desk-shut", play: |world| Box::pin(desk_shut(world)) },
    Step { name: "desk-besieged", play: |world| Box::pin(besieged(world)) },
];

/// An entry of its own, about nothing that anybody would mend.
async fn entry(world: &World) -> Result<Uuid> {
    let red = world.stage.database.superuser().await?;
    let sql = "SELECT router.open_entry('failed', 'refused', 'submission', (
        SELECT id FROM submissions WHERE status = 'failed' LIMIT 1), 'press', gen_random_uuid()::text, '{}')";
    Ok(red.query_one(sql, &[]).await?.get(0))
}

/// Submissions that fail, because a recipient is refused for good.
async fn refused(world: &mut World, count: usize) -> Result<()> {
    world.stage.relay.rule(Rule::at(At::Rcpt).to("gone@refused.test").reply("550 5.1.1 no such user"));
    let failed = world.submit("press", count).await?;
    world.become_all(&failed, "failed").await?;
    world.stage.relay.clear_rules();
    Ok(())
}

async fn close(world: &World) -> Result<()> {
    world.tamper("UPDATE router.grey_queue SET state = 'Dismissed' WHERE closed_at IS NULL").await
}

/// Nobody decides, then the security team does not answer.
async fn forgotten(world: &mut World) -> Result<()> {
    refused(world, 1).await?;
    let id = entry(world).await?;
    let old = |days: u32| {
        format!("UPDATE router.grey_queue SET state_since = now() - interval '{days} days' WHERE id = '{id}'")
    };
    world.tamper(&old(4)).await?;
    world.alert("MapleRouterReviewOld").await?;
    let escalate = format!(
        "UPDATE router.grey_queue SET state = 'Escalated', assignee = 'anna', escalated_at = now(), escalation_reason = 'odd',
         escalated_by = 'anna' WHERE id = '{id}'"
    );
    world.tamper(&escalate).await?;
    world.tamper(&old(1)).await?;
    world.slack("review_escalated", Promise::default()).await?;
    world.alert("MapleRouterReviewEscalatedOld").await?;
    close(world).await
}

/// A remedy that has failed as often as it may, and an entry that nobody took.
async fn in_vain(world: &mut World) -> Result<()> {
    refused(world, 2).await?;
    let id = entry(world).await?;
    let spent = format!(
        "UPDATE router.grey_queue SET state = 'Retrying', remedy = 'replay', attempts = 9, available_at = now() + interval '1 day'
         WHERE id = '{id}'"
    );
    world.tamper(&spent).await?;
    world.slack("review_failed", Promise::default()).await?;
    world.alert("MapleRouterReviewFailed").await?;
    let over = "UPDATE router.grey_queue SET expiry_planned_at = now() - interval '2 days', expiry_warned_at = now() - interval '1 day',
        expires_at = now() - interval '1 hour' WHERE state = 'Pending'";
    world.tamper(over).await?;
    world.journal("review_expired", "").await?;
    world.alert("MapleRouterReviewExpired").await?;
    close(world).await
}

/// Failures open no entry; the next daemon to start finds them.
async fn trigger_off(world: &mut World) -> Result<()> {
    let switch = |how: &str| format!("ALTER TABLE submissions {how} TRIGGER router_failed");
    world.tamper(&switch("DISABLE")).await?;
    refused(world, 1).await?;
    world.router.stop().await?;
    world.start_again().await?;
    world.router.ready().await?;
    world.journal("review_reconciled", "").await?;
    world.slack("review_reconciled", Promise { failing: "grey_queue", ..Promise::default() }).await?;
    world.alert("MapleRouterReviewUnopened").await?;
    world.tamper(&switch("ENABLE")).await?;
    close(world).await?;
    world.router.stop().await?;
    world.start_again().await?;
    world.router.ready().await
}

/// Somebody else has the desk's address.
async fn desk_shut(world: &mut World) -> Result<()> {
    world.router.stop().await?;
    let taken = TcpListener::bind(("127.0.0.1", world.desk)).context("the desk's address")?;
    world.start_again().await?;
    world.router.ready().await?;
    world.slack("desk", Promise { failing: "desk", ..Promise::default() }).await?;
    world.alert("MapleRouterDeskUnavailable").await?;
    drop(taken);
    world.slack_over("desk").await
}

/// Somebody tries links.
async fn besieged(world: &mut World) -> Result<()> {
    let (client, host) = (reqwest::Client::new(), format!("desk.localhost:{}", world.desk));
    // An increase needs a look before it.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    // Refusals take their time, so the tries are sent at once.
    let tries = (0..30).map(|n| {
        let url = format!("http://127.0.0.1:{}/login/{n:064}", world.desk);
        let asked = client.post(url).header("host", &host).header("sec-fetch-site", "same-origin");
        asked.header("content-type", "application/x-www-form-urlencoded").body("to=%2Fqueue").send()
    });
    for answer in futures::future::join_all(tries).await {
        let answer = answer.context("the desk")?;
        ensure!(!answer.status().is_success(), "a link that nobody made let somebody in");
    }
    world.journal("desk_login_refused", "").await?;
    world.alert("MapleRouterDeskLoginsRefused").await
}
