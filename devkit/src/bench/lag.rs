//! Routing lag at a steady rate: submissions are inserted each by itself, as the backend does it, into tables that have some
//! already, and their events follow at once; a submission's lag is in its row (`updated_at` minus `created_at`, both the
//! database's clock, so it includes the commit of the insert). For the queues, the backend adds a job instead of an event.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use serde::Serialize;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use super::arena::Arena;
use super::contestant::Contestant;
use super::receiver::Kind;
use super::running::Running;
use super::shape::{self, FORM, Shape};
use super::summary::{percentile, shared};
use super::{meter, now};
use crate::forms::SubmissionSeed;

/// After the last submission: a contestant slower than the rate still ends.
const PATIENCE: Duration = Duration::from_secs(300);

/// Submitting clients, each one submission after the other: a single client does not come to 500 a second.
pub(crate) const PEOPLE: usize = 8;

const ADD_JOB: &str = "SELECT FROM graphile_worker.add_job('route', json_build_object('id', $1::uuid))";

/// Result of one rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Lag {
    pub(super) who: String,
    /// Submissions a second that were asked for, and that came.
    pub(super) asked: u32,
    pub(super) came: f64,
    pub(super) submissions: usize,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    /// Processor seconds of the contestant for 1,000 submissions at this rate.
    pub(super) cpu: f64,
    /// Submissions that each daemon says it routed; empty for what is no router.
    pub(super) shares: Vec<u64>,
    pub(super) load: f64,
    pub(super) wrong: Vec<String>,
}

/// Measures every contestant at every rate.
pub(super) async fn measure(arena: &Arena<'_>, say: &impl Fn(&str)) -> Result<Vec<Lag>> {
    let mut all = Vec::new();
    for rate in &arena.options.lag_rates {
        for contestant in &arena.options.contestants {
            let lag = at_rate(arena, *contestant, *rate).await?;
            say(&line(&lag));
            all.push(lag);
        }
    }
    Ok(all)
}

fn line(lag: &Lag) -> String {
    format!(
        "lag at {}/s (came: {:.0}/s) {:20} p50 {:.1} ms  p99 {:.1} ms  max {:.1} ms  CPU s/1,000: {:.2}  load {:.1}{}{}",
        lag.asked,
        lag.came,
        lag.who,
        lag.p50_ms,
        lag.p99_ms,
        lag.max_ms,
        lag.cpu,
        lag.load,
        shared(&lag.shares),
        lag.wrong.iter().map(|wrong| format!("\n  NOT as it should: {wrong}")).collect::<String>()
    )
}

/// A submission as it comes: five fields.
pub(crate) fn seed(form: &str) -> SubmissionSeed {
    let fields = (0..5).map(|field| format!("field {field}"));
    fields.fold(SubmissionSeed::of(form), |seed, field| seed.field(&field, &"x".repeat(40)))
}

/// Has each of `people` submit one after the other, so many a second all together, until as many have come or `stop`. Returns how
/// many came. Whoever is late does not wait.
pub(crate) async fn steadily<P>(
    people: &[P],
    rate: u32,
    submissions: u32,
    stop: &CancellationToken,
    submit: impl AsyncFn(&P) -> Result<()>,
) -> Result<u32> {
    let (began, submit) = (now(), &submit);
    let people = people.iter().zip(0..).map(|(person, first)| async move {
        let mut came = 0;
        for number in (first..submissions).step_by(people.len()) {
            let due = Duration::from_secs_f64(f64::from(number) / f64::from(rate));
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            if stop.is_cancelled() {
                break;
            }
            submit(person).await?;
            came += 1;
        }
        anyhow::Ok(came)
    });
    Ok(try_join_all(people).await?.into_iter().sum())
}

async fn at_rate(arena: &Arena<'_>, contestant: Contestant, rate: u32) -> Result<Lag> {
    let trial = arena.trial(Some(contestant), Shape::One, Kind::Sink, 0).await?;
    shape::history(&trial.superuser).await?;
    let mut running = Running::start(arena, &trial, contestant).await?;
    let queued = match contestant {
        Contestant::GraphileJs | Contestant::GraphileRs | Contestant::GraphileRsNodelay => true,
        Contestant::Router | Contestant::RouterPostgres | Contestant::RouterPooled | Contestant::Python => {
            false
        }
    };
    let submissions = rate * arena.options.lag_seconds;
    let mut people = Vec::new();
    for _ in 0..PEOPLE {
        people.push((
            trial.stage.database.client_as("forms_app").await?,
            trial.stage.database.superuser().await?,
        ));
    }
    let before = running.cpu_seconds()?;
    let began = now();
    let submit = async |(backend, queue): &(Client, Client)| {
        let seeded = seed(FORM).insert(backend).await?;
        if queued {
            queue.execute(ADD_JOB, &[&seeded.id]).await?;
        } else {
            trial.stage.announce(seeded.id, "finalized")?;
        }
        Ok(())
    };
    steadily(&people, rate, submissions, &CancellationToken::new(), submit).await?;
    let came = f64::from(submissions) / began.elapsed().as_secs_f64();
    let waiting = now();
    let open = "SELECT EXISTS (SELECT FROM submissions WHERE status IN ('received', 'processing'))";
    while trial.superuser.query_one(open, &[]).await?.get(0) {
        running.still_runs()?;
        if waiting.elapsed() > PATIENCE {
            // Missing submissions are reported below.
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let cpu = (running.cpu_seconds()? - before) * 1_000.0 / f64::from(submissions.max(1));
    let shares = running.shares().await?;
    running.stop().await?;
    let sql = "SELECT extract(epoch FROM updated_at - created_at)::float8 * 1000 FROM submissions
        WHERE status = 'routed' AND created_at > now() - interval '1 hour'";
    let mut lags: Vec<f64> = trial.superuser.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect();
    lags.sort_by(f64::total_cmp);
    let mut wrong = Vec::new();
    let taken = trial.receiver.taken(submissions as usize).await?;
    if lags.len() != submissions as usize || taken != submissions as usize {
        wrong.push(format!("{} routed and {taken} mails, not {submissions}", lags.len()));
    }
    let at = |share| percentile(&lags, share).unwrap_or(f64::NAN);
    Ok(Lag {
        who: contestant.party(arena.options.daemons),
        asked: rate,
        came,
        submissions: lags.len(),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        max_ms: at(1.0),
        cpu,
        shares,
        load: meter::load(),
        wrong,
    })
}
