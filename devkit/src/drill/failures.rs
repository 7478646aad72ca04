//! Red makes submissions fail, one way after the other. Each is alerted once per cause, with commands that show it.

use anyhow::Result;

use super::Step;
use super::world::{Promise, World};
use crate::forms::SubmissionSeed;
use crate::smtp::{Rule, Stage as At};

pub(super) const STEPS: &[Step] = &[
    Step { name: "refused-recipient", play: |world| Box::pin(refused(world)) },
    Step { name: "attempts-spent", play: |world| Box::pin(exhausted(world)) },
    Step { name: "lost-at-the-dot", play: |world| Box::pin(in_doubt(world)) },
    Step { name: "form-without-actions", play: |world| Box::pin(no_actions(world)) },
    Step { name: "damaged-ledger", play: |world| Box::pin(damaged(world)) },
    Step { name: "failed-without-a-reason", play: |world| Box::pin(unknown(world)) },
    Step { name: "infected-attachment", play: |world| Box::pin(infected(world)) },
    Step { name: "never-ready", play: |world| Box::pin(unready(world)) },
];

async fn refused(world: &mut World) -> Result<()> {
    world.stage.relay.rule(Rule::at(At::Rcpt).to("gone@refused.test").reply("550 5.1.1 no such user"));
    let ids = world.submit("press", 12).await?;
    world.become_all(&ids, "failed").await?;
    world.journal("action_refused", "550").await?;
    world.alert("MapleRouterSubmissionsFailed").await?;
    world.alert("MapleRouterManyFailures").await?;
    world.slack("refused", Promise { submissions: &ids, ..Promise::default() }).await?;
    world.explain(ids[0], &["FAILED (refused)", "550 5.1.1", "accepted", "replay"]).await?;
    world.stage.relay.clear_rules();
    let mended = world.shell(&format!("maple-router replay {} --reason drill", ids[0])).await?;
    anyhow::ensure!(mended.code == Some(0), "{mended:?}");
    world.become_all(&ids[..1], "routed").await?;
    world.say("  replayed  after the mailbox was mended, and routed");
    Ok(())
}

async fn exhausted(world: &mut World) -> Result<()> {
    world.stage.relay.rule(Rule::at(At::Rcpt).to("@slow.test").reply("452 4.2.2 mailbox full"));
    let ids = world.submit("slow", 8).await?;
    world.journal("action_deferred", "452").await?;
    world.alert("MapleRouterManyDeferrals").await?;
    world.become_all(&ids, "failed").await?;
    world.slack("exhausted", Promise { submissions: &ids, ..Promise::default() }).await?;
    world.explain(ids[0], &["FAILED (exhausted)", "attempts 5 of 5", "452 4.2.2"]).await?;
    world.stage.relay.clear_rules();
    Ok(())
}

/// Under `hold`, so that somebody has to decide.
async fn in_doubt(world: &mut World) -> Result<()> {
    let path = world.router.config().to_owned();
    let before = std::fs::read_to_string(&path)?;
    std::fs::write(&path, before.replace("[routing]\n", "[routing]\nin_doubt = \"hold\"\n"))?;
    world.router.signal("HUP").await?;
    world.journal("reloaded", "in_doubt").await?;
    world.stage.relay.rule(Rule::at(At::AfterDot).to("@doubt.test").disconnect());
    let ids = world.submit("doubt", 4).await?;
    world.journal("action_unknown", "").await?;
    world.alert("MapleRouterInDoubt").await?;
    world.become_all(&ids, "failed").await?;
    world.slack("in_doubt", Promise { submissions: &ids, ..Promise::default() }).await?;
    world.explain(ids[0], &["FAILED (in_doubt)", "perhaps delivered"]).await?;
    world.stage.relay.clear_rules();
    std::fs::write(&path, before)?;
    world.router.signal("HUP").await
}

async fn no_actions(world: &mut World) -> Result<()> {
    let ids = world.submit("nobody", 1).await?;
    world.slack("no_actions", Promise { submissions: &ids, ..Promise::default() }).await?;
    world.explain(ids[0], &["FAILED (no_actions)", "add actions to the form"]).await
}

async fn damaged(world: &mut World) -> Result<()> {
    let id = world.seed(SubmissionSeed::of("contact"), false).await?;
    let sql = format!(
        "UPDATE submissions SET routing_result = '{{\"v\": 1, \"attempts\": \"many\", \"deliveries\": 7}}' WHERE id = '{id}'"
    );
    world.tamper(&sql).await?;
    world.stage.publish(id, "finalized")?;
    world.slack("ledger_damaged", Promise { submissions: &[id], ..Promise::default() }).await?;
    world.explain(id, &["FAILED (ledger_damaged)", "audit log"]).await
}

async fn unknown(world: &mut World) -> Result<()> {
    let ledger = serde_json::json!({"v": 1, "attempts": 1, "finished": {"token": "red", "at": "2026-11-01T10:00:00Z", "status": "failed"}});
    let id = world.seed(SubmissionSeed::of("contact").status("failed").ledger(ledger), false).await?;
    world.slack("unknown", Promise { submissions: &[id], ..Promise::default() }).await?;
    world.explain(id, &["FAILED", "no reason"]).await
}

/// Once met by the router, once failed by the scan worker itself.
async fn infected(world: &mut World) -> Result<()> {
    let seed = || SubmissionSeed::of("contact").attachment("a.pdf", "infected");
    let met = world.seed(seed(), true).await?;
    let by_scanner = world.seed(seed().status("failed"), false).await?;
    world.become_all(&[met, by_scanner], "failed").await?;
    world.slack("infected", Promise { submissions: &[met, by_scanner], ..Promise::default() }).await?;
    world.explain(met, &["FAILED (infected)", "malware", "rb-008"]).await?;
    world.explain(by_scanner, &["FAILED", "the scan worker failed it"]).await?;
    let tried = world.shell(&format!("maple-router replay {met} --reason drill")).await?;
    anyhow::ensure!(tried.code == Some(1), "a replay is refused: {tried:?}");
    world.say("  refused   a replay of it");
    Ok(())
}

async fn unready(world: &mut World) -> Result<()> {
    let old = std::time::Duration::from_secs(2 * 3600);
    let id = world.seed(SubmissionSeed::of("contact").attachment("a.pdf", "pending").age(old), false).await?;
    world.journal("unready", "").await?;
    world.slack("unready", Promise { submissions: &[id], ..Promise::default() }).await?;
    world.alert("MapleRouterUnready").await?;
    world.explain(id, &["still to be scanned", "scan worker"]).await?;
    world
        .tamper(&format!("UPDATE attachments SET clamav_status = 'clean' WHERE submission_id = '{id}'"))
        .await?;
    world.slack_over("ready").await
}
