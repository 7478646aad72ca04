//! Listening by the key: a flood, and some that come one by one. No grader takes part.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{AT_ONCE, Options, PATIENCE, STEP, Scene, counted};
use crate::bench::{now, percentile};
use crate::postgres::Cluster;
use crate::program::say;

/// Seconds in which the flood is to be graded, and milliseconds for 95 of 100 that come one by one.
const PROMISED_SECONDS: f64 = 60.0;
const PROMISED_MS: f64 = 50.0;
/// Submissions that come one by one, and the time between two.
const SINGLE: u32 = 300;
const BETWEEN: Duration = Duration::from_millis(50);

/// Answers of which three of five are right: `$n` is replaced.
const ANSWERS: &str = "
WITH s AS (INSERT INTO submissions (form_id) SELECT 'listening' FROM generate_series(1, $n) RETURNING id)
INSERT INTO submission_fields (submission_id, field_key, field_value, position)
SELECT s.id, f.k, f.v, f.n FROM s, (VALUES ('q1', 'Nine', 1), ('q2', ' tea ', 2), ('q3', 'PARIS', 3), ('q4', 'blue', 4), ('q5', '8', 5)) AS f (k, v, n)";

/// From its opening to its grade, milliseconds of those that were opened since.
const TOOK: &str =
    "SELECT (extract(epoch FROM a.ended_at - a.created_at) * 1000)::float8 FROM assessment.submissions a
WHERE a.state = 'COMPLETED' ORDER BY a.created_at DESC LIMIT $1";

pub(super) async fn all(options: &Options, cluster: &Cluster) -> Result<bool> {
    let scene = Scene::open(cluster).await?;
    let mut router = scene.router(options).await?;
    let began = now();
    for from in (0..options.listening).step_by(usize::try_from(AT_ONCE)?) {
        let some = AT_ONCE.min(options.listening - from);
        scene.eyes.batch_execute(&ANSWERS.replace("$n", &some.to_string())).await?;
    }
    let submitted = began.elapsed().as_secs_f64();
    while scene.done().await? < options.listening {
        ensure!(began.elapsed() < PATIENCE, "{} of {} are graded", scene.done().await?, options.listening);
        tokio::time::sleep(STEP).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    say(&format!(
        "{} listening submissions, handed in within {submitted:.1} s: all graded {seconds:.1} s after the first was ({:.0}/s), while their \
         mails were routed; {PROMISED_SECONDS} s are promised",
        options.listening,
        options.listening as f64 / seconds,
    ));
    // Their mails are not to stand in the way of what is looked at next.
    while scene.count("SELECT count(*) FROM submissions WHERE status IN ('received', 'processing')").await?
        > 0
    {
        ensure!(began.elapsed() < PATIENCE, "they are not all routed");
        tokio::time::sleep(STEP).await;
    }
    let mut times = tokio::time::interval(BETWEEN);
    for _ in 0..SINGLE {
        times.tick().await;
        scene.eyes.batch_execute(&ANSWERS.replace("$n", "1")).await?;
    }
    let all = options.listening + u64::from(SINGLE);
    while scene.done().await? < all {
        ensure!(began.elapsed() < PATIENCE, "{} of {all} are graded", scene.done().await?);
        tokio::time::sleep(STEP).await;
    }
    let rows = scene.eyes.query(TOOK, &[&i64::from(SINGLE)]).await?;
    let mut took: Vec<f64> = rows.iter().map(|row| row.get(0)).collect();
    took.sort_by(f64::total_cmp);
    let (middle, most) =
        (percentile(&took, 0.5).unwrap_or_default(), percentile(&took, 0.95).unwrap_or_default());
    say(&format!(
        "{SINGLE} one by one, {} a second: graded {middle:.0} ms after they were opened (p50), {most:.0} ms (p95; {PROMISED_MS} are promised)",
        1_000 / BETWEEN.as_millis(),
    ));
    let right = "SELECT count(*) FROM assessment.results WHERE kind = 'final' AND score = 6.0";
    let counts = [
        ("final results of 6.0", scene.count(right).await?, all),
        ("results", scene.count("SELECT count(*) FROM assessment.results").await?, all),
        ("requests", scene.count("SELECT count(*) FROM mq.grading_request").await?, 0),
        ("seconds beyond those promised", (seconds - PROMISED_SECONDS).max(0.0).ceil() as u64, 0),
    ];
    router.stop().await?;
    Ok(counted(&counts))
}
