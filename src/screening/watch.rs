//! The daemon's look at screening, once a minute: what the screener did comes to the metrics, and people are notified of jobs that were
//! given up on, of jobs that nobody works on, of a judge that has no verdict to give, and of runs that wait too long for a person.
//!
//! It makes runs that nobody has made, and entries of what nobody would hear of; it works on none. If we die, the next look begins with
//! what comes after it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::card::{BUDGET, DEAD, REVIEW, STALLED, UNAVAILABLE};
use super::judge::budget::Budget;
use super::metrics::{
    DECISIONS, JOBS, JUDGE_TOKENS, JUDGE_TOKENS_LIMIT, JobOutcome, QUEUE_DEPTH, QUEUE_OLDEST, RECEIVED,
    REVIEW_OLDEST, STAGE_SECONDS, TIER1_SECONDS, TIER2_SECONDS,
};
use super::store::ScreeningStore;
use super::store::watched::{Measured, Standing};
use crate::db::DbError;
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(60);
/// Time for which a job may be due before nobody works on it, it seems.
const STALLED_AFTER: Duration = Duration::from_secs(600);
/// Time for which a run may wait for a person: the document's ten business days.
const REVIEW_AFTER: Duration = Duration::from_secs(14 * 86_400);
/// Runs made, and entries opened, in one look.
const MOST: i32 = 1_000;

/// What a look needs.
#[derive(Debug)]
pub struct ScreeningWatch {
    /// The runs, as the daemon's role.
    pub store: ScreeningStore,
    /// The clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// Who is notified.
    pub incidents: Incidents,
    /// The judge's tokens of a day; absent without a judge.
    pub budget: Option<Budget>,
}

impl ScreeningWatch {
    /// Looks once a minute until `stop`, wherever schema screening is there.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut seen = None;
        while !stop.is_cancelled() {
            if let Ok(true) = self.store.is_there().await
                && let Err(error) = self.look(&mut seen).await
            {
                // The breaker reports a database that does not answer.
                tracing::debug!("screening is looked at again: {}", scrub(&error.to_string()));
            }
            stop.run_until_cancelled(self.clock.sleep(INTERVAL)).await;
        }
    }

    /// One look: how things stand, and what happened since `seen`; nothing at the first look.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn look(&self, seen: &mut Option<Timestamp>) -> Result<(), DbError> {
        self.store.births(MOST).await?;
        self.store.reconcile(MOST).await?;
        let (measured, until) = self.store.measured(*seen).await?;
        if seen.is_some() {
            count(&measured);
        }
        *seen = Some(until);
        let standing = self.store.standing().await?;
        show(&standing);
        JUDGE_TOKENS_LIMIT.set((), self.budget.map_or(0, |budget| budget.day));
        self.tell(&standing, &measured);
        Ok(())
    }

    fn tell(&self, standing: &Standing, measured: &Measured) {
        let dead = standing.dead_sample.filter(|_| standing.dead > 0).map(|sample| {
            let what = format!(
                "{} screening jobs were given up on; the latest is of submission {sample}. Their submissions wait until a person decides.",
                standing.dead
            );
            Incident::new(DEAD, what, &["maple-router screening jobs --dead", "maple-router review list --cause screening_job"])
        });
        let stalled = standing
            .queues
            .iter()
            .filter(|queue| queue.oldest >= STALLED_AFTER)
            .max_by_key(|queue| queue.oldest);
        let stalled = stalled.map(|queue| {
            let sample = queue.sample.map_or_else(String::new, |sample| format!(", e.g. submission {sample}"));
            let what = format!(
                "{} {} jobs of screening wait, the oldest for {}{sample}: nobody works on them, or the judge is away.",
                queue.depth,
                queue.job,
                crate::ops::alerting::message::span(queue.oldest)
            );
            Incident::new(STALLED, what, &["systemctl status maple-router-screener", "maple-router screening jobs"])
        });
        let unavailable = (measured.unavailable > 0).then(|| {
            let what = format!(
                "{} submissions had no verdict to be had, and wait for people instead.",
                measured.unavailable
            );
            Incident::new(
                UNAVAILABLE,
                what,
                &["maple-router review list --cause screening", "maple-router check"],
            )
        });
        let review = (standing.review_oldest >= REVIEW_AFTER).then(|| {
            let what = format!(
                "{} submissions wait for a person's screening, the oldest for {}.",
                standing.review,
                crate::ops::alerting::message::span(standing.review_oldest)
            );
            Incident::new(REVIEW, what, &["maple-router review list --cause screening"])
        });
        for (key, incident) in [
            (DEAD, dead),
            (STALLED, stalled),
            (UNAVAILABLE, unavailable),
            (BUDGET, self.budget.and_then(|budget| nearly_spent(standing, budget))),
            (REVIEW, review),
        ] {
            match incident {
                Some(incident) => self.incidents.raise(incident),
                None => self.incidents.resolve(key),
            }
        }
    }
}

/// The judge's tokens where nine in ten are gone: what comes after them waits for the next day, or for people.
fn nearly_spent(standing: &Standing, budget: Budget) -> Option<Incident> {
    let is_near = |spent: u64, most: u64| spent > 0 && spent.saturating_mul(10) >= most.saturating_mul(9);
    let form = standing.dearest.as_ref().filter(|(_, spent)| is_near(*spent, budget.form));
    let (whose, spent, most) = match form {
        _ if is_near(standing.tokens, budget.day) => (String::new(), standing.tokens, budget.day),
        Some((form, spent)) => (format!(" of form {form}"), *spent, budget.form),
        None => return None,
    };
    let what = format!(
        "{spent} of the {most} tokens a day that the judge may cost{whose} are spent: runs wait for tomorrow (UTC), and for people after screening.patience."
    );
    Some(Incident::new(BUDGET, what, &["maple-router screening jobs", "maple-router screening forms"]))
}

fn show(standing: &Standing) {
    for queue in &standing.queues {
        QUEUE_DEPTH.set(queue.job, queue.depth);
        QUEUE_OLDEST.set(queue.job, queue.oldest);
    }
    REVIEW_OLDEST.set((), standing.review_oldest);
    JUDGE_TOKENS.set((), standing.tokens);
}

fn count(measured: &Measured) {
    RECEIVED.add((), measured.received);
    for (verdict, count) in &measured.decisions {
        DECISIONS.add(*verdict, *count);
    }
    for (job, done, dead) in &measured.jobs {
        JOBS.add((*job, JobOutcome::Done), *done);
        JOBS.add((*job, JobOutcome::Failed), *dead);
    }
    for (stage, took) in &measured.stages {
        STAGE_SECONDS.record(*stage, *took);
    }
    measured.tier1.iter().for_each(|took| TIER1_SECONDS.record((), *took));
    measured.tier2.iter().for_each(|took| TIER2_SECONDS.record((), *took));
}
