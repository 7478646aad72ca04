//! A grader that answers 429 for minutes: no try is spent, nothing fails, and all is graded when it answers again.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Options, PATIENCE, SAMPLES, STEP, Scene, counted};
use crate::bench::now;
use crate::grader::Grading;
use crate::judge::Mishap;
use crate::postgres::Cluster;
use crate::program::say;

/// Works that wait, and for how many seconds each 429 asks.
const WORKS: u64 = 50;
const RETRY_AFTER: u64 = 20;
/// Time between two looks at what must not happen.
const LOOK: Duration = Duration::from_secs(5);

const RETRIES: &str = "SELECT COALESCE(sum(retries), 0)::bigint FROM grading.jobs";
const FAILED: &str = "SELECT count(*) FROM grading.events WHERE to_state IN ('ERROR', 'FAILED')";

pub(super) async fn all(options: &Options, cluster: &Cluster) -> Result<bool> {
    let scene = Scene::open(cluster).await?.calibrated(options).await?;
    scene.grader.grade(Grading::Mishap(Mishap::RetryAfter(RETRY_AFTER)));
    let mut router = scene.router(options).await?;
    let mut grader = scene.grader(options, "grader")?;
    scene.letters(WORKS).await?;
    let began = now();
    while began.elapsed() < options.throttled {
        grader.lives()?;
        let done = scene.done().await?;
        ensure!(done == 0, "{done} of {WORKS} have ended, and nobody was answered");
        tokio::time::sleep(LOOK.min(options.throttled.saturating_sub(began.elapsed()))).await;
    }
    let refused = scene.paid();
    let spent = scene.count(RETRIES).await?;
    scene.grader.grade(Grading::ByContent);
    let back = now();
    while scene.done().await? < WORKS {
        grader.lives()?;
        ensure!(back.elapsed() < PATIENCE, "{} of {WORKS} are graded", scene.done().await?);
        tokio::time::sleep(STEP).await;
    }
    say(&format!(
        "{WORKS} works, 429 for {} s (scripted, Retry-After {RETRY_AFTER}): {refused} calls meanwhile, {spent} retries; {:.1} s until all were graded \
         once it answered",
        options.throttled.as_secs(),
        back.elapsed().as_secs_f64(),
    ));
    let counts = [
        ("retries", scene.count(RETRIES).await?, 0),
        ("tries that failed", scene.count(FAILED).await?, 0),
        (
            "final results",
            scene.count("SELECT count(*) FROM assessment.results WHERE kind = 'final'").await?,
            WORKS,
        ),
        ("calls that were answered", scene.paid() - refused, WORKS * SAMPLES),
    ];
    router.stop().await?;
    Ok(counted(&counts))
}
