//! The daemon's look at grading, once a minute: what happened comes to the metrics, and people are notified of attempts that were too late, of
//! messages that nobody takes or could take in, of reviews that wait too long, and of a grader that people no longer agree with.
//!
//! It changes nothing. If we die, the next look begins with what comes after it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::card::{DRIFT, JUDGE, MESSAGES, REVIEW, STALLED, TIMED_OUT};
use super::core::review::Priority;
use super::link::Arrivals;
use super::metrics::{
    DISAGREEMENT, JOBS, JobLabel, QUEUE_DEPTH, QueueLabel, RETRIES, REVIEW_AGE, REVIEW_PENDING,
    STAGE_SECONDS, SUBMISSIONS, TIMEOUTS,
};
use super::store::GradingStore;
use super::store::watched::{Drift, Measured, Standing};
use super::table::State;
use crate::db::DbError;
use crate::ops::alerting::message::span;
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(60);
/// Time for which a message may wait before nobody takes it, it seems.
const STALLED_AFTER: Duration = Duration::from_secs(300);
/// Time for which an attempt may wait for a person.
const REVIEW_AFTER: Duration = Duration::from_secs(3 * 86_400);
/// Reviews of a week from which on their difference says something, and the difference.
const FEWEST_REVIEWS: u64 = 20;
const FARTHEST: f64 = 1.0;

/// Tools of a look.
#[derive(Debug)]
pub struct GradingWatch {
    /// The attempts, as the daemon's role.
    pub store: GradingStore,
    /// The knowledge of messages to this side, where a topic carries them.
    pub arrivals: Option<Arrivals>,
    /// The clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// The notifier.
    pub incidents: Incidents,
}

impl GradingWatch {
    /// Looks once a minute until `stop`, wherever schema assessment is there.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut seen = None;
        while !stop.is_cancelled() {
            if let Ok(true) = self.store.is_there().await
                && let Err(error) = self.look(&mut seen).await
            {
                // The breaker reports a database that does not answer.
                tracing::debug!("grading is looked at again: {}", scrub(&error.to_string()));
            }
            stop.run_until_cancelled(self.clock.sleep(INTERVAL)).await;
        }
    }

    /// One look: how things stand, and what happened since `seen`; nothing at the first look.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn look(&self, seen: &mut Option<Timestamp>) -> Result<(), DbError> {
        let (measured, until) = self.store.measured(*seen).await?;
        if seen.is_some() {
            count(&measured);
        }
        *seen = Some(until);
        let standing = self.store.standing().await?;
        show(&standing);
        let drift = self.store.drift().await?;
        self.tell(&standing, &measured, drift);
        Ok(())
    }

    fn tell(&self, standing: &Standing, measured: &Measured, drift: Drift) {
        let (late, sample) = measured.timeouts;
        let timed_out = sample.filter(|_| late > 0).map(|sample| {
            let what = format!(
                "{late} submissions were not graded in time, e.g. {sample}: they have no grade, and where their form waits for it, no mail."
            );
            Incident::new(
                TIMED_OUT,
                what,
                &["maple-router grading list --state FAILED", "systemctl status maple-router-grader"],
            )
        });
        for (key, incident) in [
            (TIMED_OUT, timed_out),
            (STALLED, stalled(standing).or_else(|| self.out_of_reach())),
            (MESSAGES, dead(standing)),
            (REVIEW, reviews(standing)),
            (JUDGE, slow(standing)),
            (DRIFT, drifted(drift)),
        ] {
            match incident {
                Some(incident) => self.incidents.raise(incident),
                None => self.incidents.resolve(key),
            }
        }
    }
}

impl GradingWatch {
    fn out_of_reach(&self) -> Option<Incident> {
        let lost = self.arrivals.as_ref()?.lost_for(self.clock.monotonic());
        (lost >= STALLED_AFTER).then(|| {
            let what = format!(
                "what the grader sends has not come over its topic for {}: no result is taken in, and no deadline acted on.",
                span(lost)
            );
            Incident::new(STALLED, what, &["maple-router check", "maple-router provision --dry-run"])
        })
    }
}

fn stalled(standing: &Standing) -> Option<Incident> {
    let of = |name: &str| {
        standing.queues.iter().find(|(queue, _, oldest)| queue == name && *oldest >= STALLED_AFTER)
    };
    let (name, waiting, oldest) = of("request").or_else(|| of("callback"))?;
    let what = format!(
        "{waiting} messages of grading ({name}s) wait, the oldest for {}: nobody takes them.",
        span(*oldest)
    );
    Some(Incident::new(
        STALLED,
        what,
        &["systemctl status maple-router-grader", "maple-router grading messages"],
    ))
}

fn dead(standing: &Standing) -> Option<Incident> {
    let (_, waiting, _) =
        standing.queues.iter().find(|(queue, waiting, _)| queue == "dead" && *waiting > 0)?;
    let what = format!("{waiting} messages of grading could not be taken in by anybody.");
    Some(Incident::new(
        MESSAGES,
        what,
        &["maple-router grading messages --dead", "maple-router review list --cause grading_message"],
    ))
}

fn reviews(standing: &Standing) -> Option<Incident> {
    let (oldest, sample) = standing.review_oldest;
    let sample = sample.filter(|_| oldest >= REVIEW_AFTER)?;
    let waiting: u64 = standing.review.iter().map(|(_, count)| count).sum();
    let what = format!(
        "{waiting} submissions wait for a person's grade, the oldest for {}, {sample}.",
        span(oldest)
    );
    Some(Incident::new(REVIEW, what, &["maple-router review list --cause grading"]))
}

fn slow(standing: &Standing) -> Option<Incident> {
    (standing.half_spent > 0).then(|| {
        let what = format!(
            "{} submissions have spent half of the time in which they are to be graded: the grader is slow, or whoever it asks is away.",
            standing.half_spent
        );
        Incident::new(
            JUDGE,
            what,
            &["journalctl -u maple-router-grader --since -1h", "maple-router grading list --state PROCESSING"],
        )
    })
}

fn drifted(drift: Drift) -> Option<Incident> {
    (drift.reviews >= FEWEST_REVIEWS && drift.mean > FARTHEST).then(|| {
        let what = format!(
            "{} people's grades of the last 7 days are {:.1} points from the grader's on average: it may have to be tried anew.",
            drift.reviews, drift.mean
        );
        Incident::new(DRIFT, what, &["maple-router grading sla --since 7d", "maple-router review list --cause grading"])
    })
}

fn show(standing: &Standing) {
    for label in JobLabel::ALL {
        let state = match label {
            JobLabel::Pending => State::Pending,
            JobLabel::Queued => State::Queued,
            JobLabel::Processing => State::Processing,
            JobLabel::Error => State::Error,
            JobLabel::Retrying => State::Retrying,
        };
        let found = standing.states.iter().find(|(of, _)| *of == state);
        JOBS.set(*label, found.map_or(0, |(_, count)| *count));
    }
    for label in QueueLabel::ALL {
        let found = standing.queues.iter().find(|(queue, ..)| queue == label.label());
        QUEUE_DEPTH.set(*label, found.map_or(0, |(_, waiting, _)| *waiting));
    }
    for priority in Priority::ALL {
        let found = standing.review.iter().find(|(of, _)| of == priority);
        REVIEW_PENDING.set(*priority, found.map_or(0, |(_, count)| *count));
    }
    REVIEW_AGE.set((), standing.review_oldest.0);
}

fn count(measured: &Measured) {
    for (skill, outcome, count) in &measured.outcomes {
        SUBMISSIONS.add((*skill, *outcome), *count);
    }
    RETRIES.add((), measured.retries);
    TIMEOUTS.add((), measured.timeouts.0);
    for (skill, stage, took) in &measured.stages {
        STAGE_SECONDS.record((*skill, *stage), *took);
    }
    for tenths in &measured.disagreements {
        DISAGREEMENT.record((), Duration::from_millis(u64::from(*tenths) * 100));
    }
}
