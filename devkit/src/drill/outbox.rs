//! Red meddles with the outbox: events that do not get out, and one that nobody can take.

use anyhow::{Context as _, Result, ensure};
use uuid::Uuid;

use super::Step;
use super::world::{Promise, World};
use crate::forms::SubmissionSeed;

pub(super) const STEPS: &[Step] = &[
    Step { name: "outbox-cut-off", play: |world| Box::pin(cut_off(world)) },
    Step { name: "outbox-row-locked", play: |world| Box::pin(locked(world)) },
    Step { name: "outbox-poison", play: |world| Box::pin(poison(world)) },
];

/// The topic is away: events wait, and nothing else does.
async fn cut_off(world: &mut World) -> Result<()> {
    world.stage.broker.down().await;
    let ids = [world.seed(SubmissionSeed::of("contact"), false).await?];
    world.journal("outbox_stalled", "").await?;
    world.explain(ids[0], &["outbox"]).await?;
    world.slack("outbox", Promise { failing: "subscription", ..Promise::default() }).await?;
    world.alert("MapleRouterOutboxStalled").await?;
    world.become_all(&ids, "routed").await?;
    world.stage.broker.up().await?;
    world.journal("outbox_flowing", "").await?;
    world.slack_over("outbox").await?;
    delivered(world, ids[0]).await
}

async fn delivered(world: &World, id: Uuid) -> Result<()> {
    let eyes = world.stage.database.superuser().await?;
    let sql = "SELECT bool_and(state = 'delivered') FROM router.outbox WHERE entity_id = $1";
    let so = async || Ok(eyes.query_one(sql, &[&id]).await?.get::<_, Option<bool>>(0) == Some(true));
    world.until("its event is delivered", so).await
}

/// A session sits on a row that is due.
async fn locked(world: &mut World) -> Result<()> {
    let red = world.stage.database.superuser().await?;
    let sql = "INSERT INTO router.outbox (kind, payload, state, available_at)
        VALUES ('canary', '{}', 'retry_wait', now() + interval '3 s') RETURNING id";
    let id: i64 = red.query_one(sql, &[]).await?.get(0);
    red.batch_execute(&format!("BEGIN; SELECT FROM router.outbox WHERE id = {id} FOR UPDATE")).await?;
    world.alert("MapleRouterOutboxOverdue").await?;
    red.batch_execute("ROLLBACK").await?;
    let sql = "SELECT state = 'delivered' FROM router.outbox WHERE id = $1";
    let so = async || Ok(red.query_one(sql, &[&id]).await?.get::<_, bool>(0));
    world.until("the row is delivered", so).await
}

/// A row that no topic takes is alone in its misfortune; mended, it goes out.
async fn poison(world: &mut World) -> Result<()> {
    let id = world.seed(SubmissionSeed::of("contact").attachment("a.pdf", "pending"), false).await?;
    let sql = format!(
        "INSERT INTO router.outbox (kind, entity_id, payload)
         VALUES (repeat('x', 2000), '{id}', jsonb_build_object('submission_id', '{id}'))"
    );
    world.tamper(&sql).await?;
    let healthy = [world.seed(SubmissionSeed::of("contact"), false).await?];
    world.become_all(&healthy, "routed").await?;
    world.journal("dead_letter", "unreadable").await?;
    world.alert("MapleRouterDeadLetters").await?;
    world.slack("unreadable", Promise { kind: "unreadable", ..Promise::default() }).await?;
    let letters = "maple-router dlq list --kind unreadable --json";
    let listed = world.shell(letters).await?.json()?;
    let ours = |letter: &&serde_json::Value| letter["submission_id"] == id.to_string();
    let letter = listed.as_array().and_then(|all| all.iter().find(ours)).context("its record")?;
    let letter = letter["id"].as_str().context("an id")?.to_owned();
    let shown = world.shell(&format!("maple-router dlq show {letter}")).await?;
    ensure!(shown.code == Some(0) && shown.out.contains("outbox"), "{shown:?}");
    world.explain(id, &["given up", "maple-router dlq redrive"]).await?;
    world
        .tamper(&format!("UPDATE router.outbox SET kind = 'routing.ready' WHERE entity_id = '{id}'"))
        .await?;
    let redriven = world.shell(&format!("maple-router dlq redrive {letter} --reason drill")).await?;
    ensure!(redriven.code == Some(0), "{redriven:?}");
    delivered(world, id).await?;
    world.say("  redriven  after the row was mended, and delivered");
    Ok(())
}
