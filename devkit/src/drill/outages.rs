//! Red takes away what the router depends on. Blue is notified of it once, finds the cause by the command in the message,
//! loses nothing, and is notified of its end.

use std::time::Duration;

use anyhow::Result;
use tonic::Code;

use super::Step;
use super::world::{Promise, World};
use crate::forms::SubmissionSeed;
use crate::google::Mishap;
use crate::smtp::{Rule, Stage as At};
use crate::stage::{BUCKET, SUBSCRIPTION};

pub(super) const STEPS: &[Step] = &[
    Step { name: "relay-down", play: |world| Box::pin(relay_down(world)) },
    Step { name: "relay-denies", play: |world| Box::pin(relay_denies(world)) },
    Step { name: "postgres-down", play: |world| Box::pin(postgres_down(world)) },
    Step { name: "pubsub-down", play: |world| Box::pin(pubsub_down(world)) },
    Step { name: "subscription-refused", play: |world| Box::pin(subscription_refused(world)) },
    Step { name: "signer-down", play: |world| Box::pin(signer_down(world)) },
    Step { name: "help-desk-down", play: |world| Box::pin(help_desk_down(world)) },
    Step { name: "slack-down", play: |world| Box::pin(slack_down(world)) },
];

async fn relay_down(world: &mut World) -> Result<()> {
    world.stage.relay.stop().await;
    let ids = world.submit("contact", 3).await?;
    world.journal("breaker_open", "relay").await?;
    world.slack("breaker_relay", Promise { failing: "relay", ..Promise::default() }).await?;
    world.alert("MapleRouterBreakerOpen").await?;
    world.explain(ids[0], &["RECEIVED", "attempts 0 of 5"]).await?;
    world.alert("MapleRouterOldestReceived").await?;
    world.alert("MapleRouterNoSuccess").await?;
    world.stage.relay.restart().await?;
    world.slack_over("relay").await?;
    world.become_all(&ids, "routed").await
}

async fn relay_denies(world: &mut World) -> Result<()> {
    world.stage.relay.rule(Rule::at(At::Rcpt).to("@denied.test").reply("554 5.7.1 Relay access denied"));
    let ids = world.submit("denied", 6).await?;
    world.journal("breaker_open", "relay").await?;
    world.slack("breaker_relay", Promise::default()).await?;
    world.stage.relay.clear_rules();
    world.slack_over("relay").await?;
    world.become_all(&ids, "routed").await
}

async fn postgres_down(world: &mut World) -> Result<()> {
    world.cluster.stop().await;
    world.journal("breaker_open", "postgres").await?;
    world.slack("breaker_postgres", Promise { failing: "database", ..Promise::default() }).await?;
    world.alert("MapleRouterBreakerOpen").await?;
    world.cluster.start_again().await?;
    world.slack_over("PostgreSQL").await?;
    let ids = world.submit("contact", 2).await?;
    world.become_all(&ids, "routed").await
}

async fn pubsub_down(world: &mut World) -> Result<()> {
    world.stage.broker.down().await;
    let ids = world.submit("contact", 1).await?;
    world.journal("breaker_open", "pubsub").await?;
    world.slack("breaker_pubsub", Promise { failing: "subscription", ..Promise::default() }).await?;
    // Without a single event.
    world.become_all(&ids, "routed").await?;
    world.journal("orphan", "").await?;
    world.stage.broker.up().await?;
    world.slack_over("Pub/Sub").await
}

async fn subscription_refused(world: &mut World) -> Result<()> {
    world.stage.broker.fail_streams(SUBSCRIPTION, Code::PermissionDenied)?;
    world.slack("stream", Promise { failing: "", ..Promise::default() }).await?;
    world.alert("MapleRouterStreamLost").await?;
    world.stage.broker.mend_streams(SUBSCRIPTION)?;
    let ids = world.submit("contact", 1).await?;
    world.become_all(&ids, "routed").await
}

async fn signer_down(world: &mut World) -> Result<()> {
    let with_file = || SubmissionSeed::of("contact").attachment("a.pdf", "clean").bucket(BUCKET);
    world.stage.google.stop_iam().await;
    let waiting = world.seed(with_file(), true).await?;
    world.journal("breaker_open", "signer").await?;
    world.slack("breaker_signer", Promise { failing: "signing", ..Promise::default() }).await?;
    world.stage.google.restart_iam().await?;
    world.slack_over("signed").await?;
    world.become_all(&[waiting], "routed").await?;
    // Slow is not down: nobody is woken, and the trend is seen.
    world.stage.google.iam_script().always(Mishap::Delay(Duration::from_millis(1500)));
    let mut slow = Vec::new();
    for _ in 0..16 {
        slow.push(world.seed(with_file(), true).await?);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    world.alert("MapleRouterSigningSlow").await?;
    world.stage.google.iam_script().clear();
    world.become_all(&slow, "routed").await
}

async fn help_desk_down(world: &mut World) -> Result<()> {
    world.help_desk.stop().await;
    let ids = world.submit("ticketed", 2).await?;
    world.journal("breaker_open", "help_desk").await?;
    world.slack("breaker_help_desk", Promise { failing: "happyfox", ..Promise::default() }).await?;
    world.alert("MapleRouterHelpDeskDown").await?;
    // Its mail is out, and its ticket waits without an attempt.
    world
        .explain(ids[0], &["RECEIVED", "attempts 0 of 5", "accepted", "the ticket waits for the help desk"])
        .await?;
    world.help_desk.restart().await?;
    world.slack_over("help desk").await?;
    world.become_all(&ids, "routed").await?;
    let tickets = world.help_desk.tickets().len();
    anyhow::ensure!(tickets == ids.len(), "{tickets} tickets of {}", ids.len());
    Ok(())
}

async fn slack_down(world: &mut World) -> Result<()> {
    world.stage.slack.down().await;
    world.stage.relay.rule(Rule::at(At::Rcpt).to("gone@refused.test").reply("552 5.2.2 mailbox full"));
    let ids = world.submit("press", 2).await?;
    world.journal("alert_deferred", "").await?;
    world.alert("MapleRouterAlertsNotDelivered").await?;
    world.alert("MapleRouterUnalerted").await?;
    world.stage.slack.up().await?;
    world.slack("refused", Promise { submissions: &ids, ..Promise::default() }).await?;
    world.stage.relay.clear_rules();
    Ok(())
}
