//! Red goes for what screens: nobody works, a job that kills its workers, a judge without a verdict, stages that take too long, people who
//! do not decide, a wave that is kept out. The daemon only looks, at rows; here red writes them, since the screener is a process of its own.

use std::time::Duration;

use anyhow::{Result, ensure};
use uuid::Uuid;

use super::Step;
use super::world::{Promise, World};

pub(super) const STEPS: &[Step] = &[
    Step { name: "screener-asleep", play: |world| Box::pin(asleep(world)) },
    Step { name: "screening-poisoned", play: |world| Box::pin(poisoned(world)) },
    Step { name: "judge-silent", play: |world| Box::pin(silent(world)) },
    Step { name: "judge-spent", play: |world| Box::pin(spent(world)) },
    Step { name: "screening-slow", play: |world| Box::pin(slow(world)) },
    Step { name: "reviewers-away", play: |world| Box::pin(away(world)) },
    Step { name: "spam-wave", play: |world| Box::pin(wave(world)) },
];

/// The daemon looks once a minute, at what happened until five seconds ago; what is left of it is waited for as for anything else.
const LOOK: Duration = Duration::from_secs(40);
/// The form that is screened.
const FORM: &str = "screened";

/// A submission of an enforced form, and its run.
async fn screened(world: &World) -> Result<Uuid> {
    let enforce = format!(
        "INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by)
         SELECT '{FORM}', 'fields', n.now, n.now, 'red' FROM (SELECT now() - interval '1 minute' AS now) n ON CONFLICT DO NOTHING"
    );
    world.tamper(&enforce).await?;
    let ids = world.submit(FORM, 1).await?;
    ensure!(ids.len() == 1, "{ids:?}");
    let held = world.shell(&format!("maple-router explain {}", ids[0])).await?;
    ensure!(held.code == Some(0), "{held:?}");
    Ok(ids[0])
}

/// Nothing is screened any more; what waited is routed.
async fn over(world: &World) -> Result<()> {
    world.tamper("DELETE FROM screening.submissions; DELETE FROM screening.forms").await
}

/// `number` events of a submission's run; `since`: one more, so much earlier, that leads into `from`.
async fn events(world: &World, id: Uuid, way: (&str, &str, &str), number: u32, since: &str) -> Result<()> {
    let (from, to, trigger) = way;
    let sql = format!(
        "INSERT INTO screening.submission_state_events (submission_id, from_state, to_state, trigger, actor, actor_type, created_at)
         SELECT r.id, 'RECEIVED', '{from}', 'red', 'red', 'system', now() - interval '{since}' FROM screening.submissions r WHERE r.subject = '{id}'
         UNION ALL
         SELECT r.id, '{from}', '{to}', '{trigger}', 'red', 'worker', clock_timestamp() FROM screening.submissions r, generate_series(1, {number})
         WHERE r.subject = '{id}'"
    );
    world.tamper(&sql).await
}

/// Nobody has worked for eleven minutes.
async fn asleep(world: &mut World) -> Result<()> {
    let id = screened(world).await?;
    let long_ago = "UPDATE screening.submissions SET available_at = now() - interval '11 minutes'";
    world.tamper(long_ago).await?;
    tokio::time::sleep(LOOK).await;
    world.slack("screening_stalled", Promise::default()).await?;
    world.alert("MapleRouterScreeningStalled").await?;
    over(world).await?;
    tokio::time::sleep(LOOK).await;
    world.slack_over("screening").await?;
    world.become_all(&[id], "routed").await
}

/// A job that eight workers did not come back from.
async fn poisoned(world: &mut World) -> Result<()> {
    screened(world).await?;
    world.tamper("UPDATE screening.submissions SET dead_reason = 'poison'").await?;
    tokio::time::sleep(LOOK).await;
    world.slack("screening_dead", Promise::default()).await?;
    world.alert("MapleRouterScreeningDead").await?;
    over(world).await
}

/// The judge has no verdict to give for longer than it is waited for.
async fn silent(world: &mut World) -> Result<()> {
    let id = screened(world).await?;
    events(world, id, ("TIER2_SCANNING", "NEEDS_REVIEW", "tier2-unavailable"), 3, "1 second").await?;
    tokio::time::sleep(LOOK).await;
    world.slack("screening_judge", Promise::default()).await?;
    world.alert("MapleRouterScreeningUnavailable").await?;
    over(world).await
}

/// Nearly all tokens of the day are gone.
async fn spent(world: &mut World) -> Result<()> {
    let spend = "INSERT INTO screening.spent (day, form_id, tokens) VALUES ((now() AT TIME ZONE 'UTC')::date, 'screened', 1950000)";
    world.tamper(spend).await?;
    tokio::time::sleep(LOOK).await;
    world.slack("screening_budget", Promise::default()).await?;
    world.alert("MapleRouterScreeningBudget").await?;
    world.tamper("DELETE FROM screening.spent").await?;
    tokio::time::sleep(LOOK).await;
    world.slack_over("screening").await
}

/// The rules take a minute.
async fn slow(world: &mut World) -> Result<()> {
    let id = screened(world).await?;
    events(world, id, ("TIER1_SCANNING", "TIER2_SCANNING", "tier1-pass"), 20, "1 minute").await?;
    tokio::time::sleep(LOOK).await;
    world.alert("MapleRouterScreeningSlow").await?;
    over(world).await
}

/// Nobody has decided for twenty days, and what was decided took as long.
async fn away(world: &mut World) -> Result<()> {
    let id = screened(world).await?;
    events(world, id, ("NEEDS_REVIEW", "REJECTED", "admin-reject"), 3, "20 days").await?;
    let waits = "SET session_replication_role = replica;
        UPDATE screening.submissions SET state = 'NEEDS_REVIEW', state_since = now() - interval '20 days';
        SET session_replication_role = origin;
        SELECT router.open_entry('screening', 'unavailable', 'screening_run', r.id, r.form_id, 'run', '{}') FROM screening.submissions r";
    world.tamper(waits).await?;
    tokio::time::sleep(LOOK).await;
    world.slack("screening_review", Promise::default()).await?;
    world.alert("MapleRouterScreeningReviewOld").await?;
    world.alert("MapleRouterScreeningReviewSlow").await?;
    over(world).await
}

/// Everything is kept out, where nearly nothing was before.
async fn wave(world: &mut World) -> Result<()> {
    let id = screened(world).await?;
    events(world, id, ("TIER2_SCANNING", "AUTO_APPROVED", "tier2-pass"), 200, "1 second").await?;
    // A look and a little: what is usual has been counted, and is out of the short window.
    tokio::time::sleep(2 * LOOK).await;
    events(world, id, ("TIER1_SCANNING", "TIER1_FAILED", "tier1-fail"), 20, "1 second").await?;
    tokio::time::sleep(LOOK).await;
    world.alert("MapleRouterScreeningRejections").await?;
    over(world).await
}
