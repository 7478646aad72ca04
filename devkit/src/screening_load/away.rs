//! The judge is away while thousands of runs wait for it: fails where one is approved, rejected or paid for meanwhile, or does not come to
//! its end when the judge is back. How often people were notified is printed.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio_postgres::Client;

use super::{AT_ONCE, Judged, Options, PATIENCE, STEP, in_state, judged, stage, submitted};
use crate::bench::now;
use crate::postgres::Cluster;
use crate::program::say;
use crate::slack::SlackMessage;

/// Time between two looks at what must not happen.
const LOOK: Duration = Duration::from_secs(5);
/// Words of the message that people get.
const TOLD: &str = "jobs of screening wait";

/// What stands while nobody answers.
struct Waiting {
    decided: i64,
    tokens: i64,
    attempts: i32,
}

/// Plays it; fails where anything was decided without a judge, or did not come to its end.
pub(super) async fn outage(options: &Options, cluster: &Cluster) -> Result<()> {
    let (stage, eyes) = stage(cluster).await?;
    let Judged { mut judge, mut screener } = judged(options, &stage).await?;
    let tried = waiting(&eyes).await?.tokens;
    judge.away().await;
    let mut router = stage.router(&options.binary, "router", "[screening]\nmode = \"on\"\n").await?;
    router.ready().await?;
    let began = now();
    for from in (0..options.away).step_by(usize::try_from(AT_ONCE)?) {
        submitted(&eyes, from + 1, options.away.min(from + AT_ONCE)).await?;
    }
    let mut most = 0;
    while began.elapsed() < options.away_for {
        let seen = waiting(&eyes).await?;
        ensure!(seen.decided == 0, "{} runs were decided about without a judge", seen.decided);
        ensure!(seen.tokens == tried, "{} tokens were spent on a judge that is away", seen.tokens - tried);
        most = most.max(seen.attempts);
        screener.lives()?;
        tokio::time::sleep(LOOK).await;
    }
    let waited = in_state(&eyes, "TIER2_SCANNING").await?;
    ensure!(waited == options.away, "{waited} of {} runs wait for the judge", options.away);
    let told = || stage.slack.messages().iter().filter(|message| is_told(message)).count();
    let messages = told();
    judge.back().await?;
    let back = now();
    while in_state(&eyes, "PUBLISHED").await? < options.away {
        screener.lives()?;
        ensure!(back.elapsed() < PATIENCE, "{} runs are published", in_state(&eyes, "PUBLISHED").await?);
        tokio::time::sleep(STEP).await;
    }
    say(&format!(
        "{} runs, the judge away for {} minutes: 0 approved, 0 rejected, 0 tokens, at most {most} attempts of one; {messages} messages; {} \
         once it was back: {:.1} s until all were published, {:.0}/s",
        options.away,
        options.away_for.as_secs() / 60,
        told() - messages,
        back.elapsed().as_secs_f64(),
        options.away as f64 / back.elapsed().as_secs_f64(),
    ));
    router.stop().await?;
    Ok(())
}

async fn waiting(eyes: &Client) -> Result<Waiting> {
    let sql = "SELECT (SELECT count(*) FROM screening.submissions WHERE state NOT IN ('RECEIVED', 'TIER1_SCANNING', 'TIER2_SCANNING')),
      (SELECT COALESCE(sum(tokens), 0)::bigint FROM screening.spent), (SELECT COALESCE(max(attempts), 0) FROM screening.submissions)";
    let row = eyes.query_one(sql, &[]).await?;
    Ok(Waiting { decided: row.get(0), tokens: row.get(1), attempts: row.get(2) })
}

fn is_told(message: &SlackMessage) -> bool {
    message.visible_text().contains(TOLD)
}
