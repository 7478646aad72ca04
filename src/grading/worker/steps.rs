//! Judges and transcriber, whether they answer, and their calls: each asked once, and kept before it counts.
//!
//! One that is away shuts the gate: no try is spent, and one call at a time tries whether it is back. An answer that is none fails the try.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::gateway::judge::{Judge, JudgeError};
use crate::gateway::transcriber::{Transcriber, TranscriberError};
use crate::grading::core::band::Bands;
use crate::grading::core::message::ErrorType;
use crate::grading::core::review::Thresholds;
use crate::grading::job::decide::Failed;
use crate::grading::job::store::StepKind;
use crate::grading::journal::EventName;
use crate::grading::metrics::{CALLS, CallOutcome};
use crate::ops::dependency::Dependency;
use crate::ops::gate::{Gate, Shut};
use crate::ports::Clock;

/// The judges, as a reason of the gate.
pub const GRADER: Dependency = Dependency::new("breaker_grader");
/// The transcriber, as a reason of the gate.
pub const TRANSCRIBER: Dependency = Dependency::new("breaker_transcriber");
/// Pauses for which a job waits whose call was refused.
const REFUSED: u32 = 10;
/// Failures at one job while others were answered, after which they are the job's.
const MOST_FAILURES: u32 = 3;
/// Jobs that are kept in mind.
const JOBS: usize = 1_000;

/// The judges, the transcriber, and the rules of a grade.
#[derive(Debug)]
pub struct Grading {
    /// The clients, one for each sample in turn; empty where none is configured.
    pub judges: Vec<Judge>,
    /// The transcriber; absent where none is configured.
    pub transcriber: Option<Transcriber>,
    /// The models that are asked for, in one name.
    pub models: String,
    /// Samples of a work.
    pub samples: u32,
    /// Tokens a day.
    pub tokens_per_day: u64,
    /// Whether works may leave the host.
    pub may_send: bool,
    /// Whether a scripted stand-in may grade without a person.
    pub allow_scripted: bool,
    /// Thresholds of the bands.
    pub bands: Bands,
    /// Thresholds of the review.
    pub thresholds: Thresholds,
    /// Percent of the sure ones that are looked at.
    pub spot_check: u8,
    /// Works at once.
    pub slots: usize,
    /// Time for which one that is away is not asked.
    pub pause: Duration,
    /// Shut while one is away.
    pub gate: Gate,
    /// Told when the gate was shut.
    pub away: Notify,
    /// Failed calls by job.
    pub faults: Mutex<Faults>,
}

/// Failures that are one job's, told from an outage: others are answered meanwhile.
#[derive(Debug, Default)]
pub struct Faults {
    answers: u64,
    jobs: BTreeMap<Uuid, (u64, u32)>,
}

impl Faults {
    fn answered(&mut self, job: Uuid) {
        self.answers += 1;
        self.jobs.remove(&job);
    }

    /// Whether it is the job's doing.
    fn failed(&mut self, job: Uuid) -> bool {
        if self.jobs.len() >= JOBS && !self.jobs.contains_key(&job) {
            self.jobs.clear();
        }
        let (answers, counted) = self.jobs.entry(job).or_insert((u64::MAX, 0));
        if *counted == 0 || self.answers > *answers {
            *counted += 1;
        }
        *answers = self.answers;
        *counted >= MOST_FAILURES
    }
}

/// Why a step was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Untaken {
    /// The judge or transcriber is away: the job waits, and no try is spent.
    Away(Duration),
    /// The try has failed.
    Failed(Failed),
}

impl Grading {
    /// Half-opens the gate when whoever is away has been left alone for a while.
    pub(super) async fn probe(&self, clock: &dyn Clock, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            stop.run_until_cancelled(self.away.notified()).await;
            stop.run_until_cancelled(clock.sleep(self.pause)).await;
            for reason in self.gate.reasons() {
                if !self.gate.is_open() {
                    self.gate.half_open(reason);
                }
            }
        }
    }

    /// Records that the judge or transcriber has answered.
    pub(super) fn answered(&self, job: Uuid, kind: StepKind) {
        CALLS.add((kind, CallOutcome::Answered), 1);
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).answered(job);
        self.is_back();
    }

    fn is_back(&self) {
        let reasons = self.gate.reasons();
        if !reasons.is_empty() {
            crate::journal!(
                info,
                EventName::GraderBack,
                "whoever grades answers again: what waits is worked on"
            );
            reasons.into_iter().for_each(|reason| self.gate.open(reason));
        }
    }

    fn is_away(&self, who: Dependency, said: &str, refused: bool) {
        const THEN: &str = "jobs wait for it, and their deadlines run on (rb-015)";
        if self.gate.is_open() {
            if refused {
                crate::journal!(error, EventName::GraderRefuses, "{said}; {THEN}");
            } else {
                crate::journal!(warn, EventName::GraderAway, "{said}; {THEN}");
            }
        }
        self.gate.close(Shut::Breaker(who));
        self.away.notify_one();
    }

    fn fails_at(&self, job: Uuid) -> bool {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).failed(job)
    }

    /// The consequence of a judge's answer that is no sample.
    pub(super) fn unanswered(&self, job: Uuid, error: &JudgeError) -> Untaken {
        let failed = |code: &str, retryable: bool| {
            Untaken::Failed(Failed {
                kind: ErrorType::Model,
                code: code.to_owned(),
                retryable,
                retry_after: None,
            })
        };
        let outcome = match error {
            JudgeError::Unavailable { .. } => CallOutcome::Away,
            JudgeError::Refused { .. } => CallOutcome::Refused,
            JudgeError::TooLarge => CallOutcome::Unfit,
            JudgeError::Invalid(_) => CallOutcome::Invalid,
        };
        CALLS.add((StepKind::Sample, outcome), 1);
        match error {
            JudgeError::Unavailable { .. } | JudgeError::Refused { .. } if self.fails_at(job) => {
                failed("no_answer", true)
            }
            JudgeError::Unavailable { retry_after, .. } => {
                self.is_away(GRADER, &error.to_string(), false);
                Untaken::Away(retry_after.unwrap_or(self.pause))
            }
            JudgeError::Refused { .. } => {
                self.is_away(GRADER, &error.to_string(), true);
                Untaken::Away(self.pause * REFUSED)
            }
            JudgeError::TooLarge => failed("too_large", false),
            JudgeError::Invalid(reason) => {
                self.is_back();
                failed(reason.label(), true)
            }
        }
    }

    /// The consequence of a transcriber's answer that is no text.
    pub(super) fn unheard(&self, job: Uuid, error: &TranscriberError) -> Untaken {
        let failed = |code: &str, retryable: bool| {
            Untaken::Failed(Failed {
                kind: ErrorType::Transcription,
                code: code.to_owned(),
                retryable,
                retry_after: None,
            })
        };
        let outcome = match error {
            TranscriberError::Unavailable { .. } => CallOutcome::Away,
            TranscriberError::Refused { .. } => CallOutcome::Refused,
            TranscriberError::TooLarge | TranscriberError::TooLong | TranscriberError::Audio(_) => {
                CallOutcome::Unfit
            }
            TranscriberError::Invalid(_) => CallOutcome::Invalid,
        };
        CALLS.add((StepKind::Transcribe, outcome), 1);
        match error {
            TranscriberError::Unavailable { .. } | TranscriberError::Refused { .. } if self.fails_at(job) => {
                failed("no_answer", true)
            }
            TranscriberError::Unavailable { retry_after, .. } => {
                self.is_away(TRANSCRIBER, &error.to_string(), false);
                Untaken::Away(retry_after.unwrap_or(self.pause))
            }
            TranscriberError::Refused { .. } => {
                self.is_away(TRANSCRIBER, &error.to_string(), true);
                Untaken::Away(self.pause * REFUSED)
            }
            TranscriberError::TooLarge => failed("too_large", false),
            TranscriberError::TooLong => failed("too_long", false),
            TranscriberError::Invalid(reason) => {
                self.is_back();
                failed(reason.label(), true)
            }
            TranscriberError::Audio(fault) => failed(fault.label(), false),
        }
    }
}

/// SHA-256 of texts, each with its length before it.
pub(super) fn digest_of(texts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_at_which_a_judge_fails_while_it_answers_others_is_told_from_an_outage() {
        let (mut faults, bad, good) = (Faults::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        assert!(!faults.failed(bad));
        assert!(!faults.failed(bad), "nobody is answered: an outage");
        faults.answered(good);
        assert!(!faults.failed(bad));
        faults.answered(good);
        assert!(faults.failed(bad));
        faults.answered(bad);
        assert!(!faults.failed(bad), "it was answered after all");
    }

    #[test]
    fn texts_are_not_confused_with_their_neighbours() {
        assert_ne!(digest_of(&["ab", "c"]), digest_of(&["a", "bc"]));
        assert_eq!(digest_of(&["a"]), digest_of(&["a"]));
    }
}
