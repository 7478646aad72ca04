//! Requests graded by three processes that die of SIGKILL at random moments, while each callback comes twice and in any order. In the end there is
//! one final result for each, and no call was paid for but those that were needed, and one for each death.

use std::time::Duration;

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::{Options, PATIENCE, SAMPLES, STEP, Scene, counted};
use crate::bench::now;
use crate::grader::Grading;
use crate::judge::Mishap;
use crate::postgres::Cluster;
use crate::program::say;
use crate::screening_load::worker::Worker;

/// Processes that grade.
const GRADERS: usize = 3;
/// Time that an answer takes.
const ANSWER: Duration = Duration::from_millis(20);
/// Milliseconds between two deaths, of whichever.
const BETWEEN: std::ops::Range<u64> = 400..2_500;

/// Each callback is there twice, each copy for itself somewhere in the next three seconds. The copies are the superuser's.
const DOUBLED: &str = "
CREATE FUNCTION public.load_shuffles() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN NEW.available_at := clock_timestamp() + random() * interval '3 seconds'; RETURN NEW; END $$;
CREATE FUNCTION public.load_doubles() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF pg_trigger_depth() = 1 THEN
    INSERT INTO mq.grading_callback (message_id, payload) VALUES (gen_random_uuid(), NEW.payload);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER load_shuffles BEFORE INSERT ON mq.grading_callback FOR EACH ROW EXECUTE FUNCTION public.load_shuffles();
CREATE TRIGGER load_doubles AFTER INSERT ON mq.grading_callback FOR EACH ROW EXECUTE FUNCTION public.load_doubles()";

pub(super) async fn all(options: &Options, cluster: &Cluster) -> Result<bool> {
    let scene = Scene::open(cluster).await?.calibrated(options).await?;
    scene.eyes.batch_execute(DOUBLED).await?;
    scene.grader.grade(Grading::Mishap(Mishap::Slow(ANSWER)));
    let mut router = scene.router(options).await?;
    let mut rng = StdRng::seed_from_u64(1);
    let mut graders: Vec<Worker> =
        (0..GRADERS).map(|of| scene.grader(options, &format!("grader-{of}"))).collect::<Result<_>>()?;
    let began = now();
    scene.letters(options.requests).await?;
    let mut kills = 0_u64;
    let mut next = Duration::from_secs(1);
    while scene.done().await? < options.requests {
        ensure!(began.elapsed() < PATIENCE, "{} of {} are graded", scene.done().await?, options.requests);
        if began.elapsed() >= next {
            let of = rng.random_range(0..GRADERS);
            graders.swap_remove(of).kill().await?;
            kills += 1;
            graders.push(scene.grader(options, &format!("grader-{}", GRADERS as u64 + kills))?);
            next = began.elapsed() + Duration::from_millis(rng.random_range(BETWEEN));
        }
        for grader in &mut graders {
            grader.lives()?;
        }
        tokio::time::sleep(STEP).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    // What came twice is taken in as well.
    while scene.count("SELECT count(*) FROM mq.grading_callback").await? > 0 {
        ensure!(began.elapsed() < PATIENCE, "callbacks are left");
        tokio::time::sleep(STEP).await;
    }
    let paid = scene.paid();
    let needed = options.requests * SAMPLES;
    say(&format!(
        "{} requests, {GRADERS} graders that died {kills} times of SIGKILL, callbacks doubled and shuffled, answers scripted and {} ms slow: \
         all ended in {seconds:.0} s; {paid} calls, {needed} needed, {} for {kills} deaths",
        options.requests,
        ANSWER.as_millis(),
        paid.saturating_sub(needed),
    ));
    let results = "SELECT count(*) FROM assessment.results WHERE kind";
    let counts = [
        ("final results", scene.count(&format!("{results} = 'final'")).await?, options.requests),
        (
            "the grader's results",
            scene.count(&format!("{results} = 'ai' AND NOT dup AND NOT is_late")).await?,
            options.requests,
        ),
        ("second and late results", scene.count(&format!("{results} = 'ai' AND (dup OR is_late)")).await?, 0),
        (
            "attempts graded without a person",
            scene.count("SELECT count(*) FROM assessment.submissions WHERE state = 'COMPLETED'").await?,
            options.requests,
        ),
        (
            "jobs",
            scene.count("SELECT count(*) FROM grading.jobs WHERE state = 'COMPLETED'").await?,
            options.requests,
        ),
        ("dead messages", scene.count("SELECT count(*) FROM mq.grading_dlq").await?, 0),
        ("calls beyond one for each death", paid.saturating_sub(needed + kills), 0),
        ("calls too few", needed.saturating_sub(paid), 0),
    ];
    router.stop().await?;
    Ok(counted(&counts))
}
