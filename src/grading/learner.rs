//! The learner's view of an attempt: how it stands, in plain words, and the grade once it is final. Pure.
//!
//! **Invariant: while a person has the last word nothing of a grade is told**, neither the grader's nor a draft; and of the grader's alone only
//! what came late, which counts nowhere. Confidence, model and audit are no matter of the learner's.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::core::band::Band;
use super::core::result::{CriterionScore, Feedback, GradingMode, GradingResult};
use super::core::score::Score;
use super::table::State;
use crate::kernel::words;

words! {
    /// An event as a learner's stream calls it.
    Event {
        /// It goes on.
        Progress = "grading.progress",
        /// A teacher looks at it.
        ReviewPending = "grading.review_pending",
        /// There is a grade.
        Completed = "grading.completed",
        /// There is none yet, and one is owed.
        Failed = "grading.failed",
    }
}

words! {
    /// How an attempt stands, as a learner needs to know it.
    Standing {
        /// It is here.
        Received = "received",
        /// It waits for its turn.
        Queued = "queued",
        /// It is being graded.
        Grading = "grading",
        /// A teacher has the last word.
        Waiting = "waiting",
        /// There is a grade.
        Graded = "graded",
        /// There is none yet.
        Failed = "failed",
    }
}

impl Standing {
    /// How an attempt in this state stands.
    #[must_use]
    pub const fn of(state: State) -> Self {
        match state {
            State::Pending => Self::Received,
            State::Queued => Self::Queued,
            // That a try failed and another follows is the grader's matter.
            State::Processing | State::Error | State::Retrying => Self::Grading,
            State::ReviewPending => Self::Waiting,
            State::Completed => Self::Graded,
            State::Failed => Self::Failed,
        }
    }

    /// The event that tells of it.
    #[must_use]
    pub const fn event(self) -> Event {
        match self {
            Self::Received | Self::Queued | Self::Grading => Event::Progress,
            Self::Waiting => Event::ReviewPending,
            Self::Graded => Event::Completed,
            Self::Failed => Event::Failed,
        }
    }

    /// The same in a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Received => "Your work has arrived.",
            Self::Queued => "Your work waits for its turn.",
            Self::Grading => "Your work is being graded.",
            Self::Waiting => "A teacher looks at your work. You see the grade when that is done.",
            Self::Graded => "Your work is graded.",
            Self::Failed => {
                "Your work could not be graded in time. You are still owed a grade, and somebody takes care of it."
            }
        }
    }
}

/// A grade as a learner sees it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Grade {
    /// The score of the whole.
    pub overall_score: Score,
    /// Its band.
    pub band: Band,
    /// The band is one skill's.
    pub indicative: bool,
    /// By criterion.
    pub criteria_scores: Vec<CriterionScore>,
    /// Of the whole.
    pub feedback: Feedback,
    /// Whose it is.
    pub grading_mode: GradingMode,
    /// It came too late, and counts nowhere.
    pub is_late: bool,
}

/// Shows no words.
impl std::fmt::Debug for Grade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grade").field("score", &self.overall_score).finish_non_exhaustive()
    }
}

impl Grade {
    /// The learner's part of a result.
    #[must_use]
    pub fn of(result: GradingResult, is_late: bool) -> Self {
        let GradingResult {
            overall_score, band, indicative, criteria_scores, feedback, grading_mode, ..
        } = result;
        Self { overall_score, band, indicative, criteria_scores, feedback, grading_mode, is_late }
    }
}

/// The learner's view of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// The submission.
    pub submission: Uuid,
    /// The number of the attempt.
    pub attempt: u32,
    /// How it stands.
    pub state: Standing,
    /// The same in a sentence.
    pub words: &'static str,
    /// Since when.
    pub at: Timestamp,
    /// The grade; only where it is final, or came late to what has failed.
    pub result: Option<Grade>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_event_and_a_grade_only_where_it_has_ended() {
        for (state, standing, event) in [
            (State::Pending, "received", "grading.progress"),
            (State::Queued, "queued", "grading.progress"),
            (State::Processing, "grading", "grading.progress"),
            (State::Error, "grading", "grading.progress"),
            (State::Retrying, "grading", "grading.progress"),
            (State::ReviewPending, "waiting", "grading.review_pending"),
            (State::Completed, "graded", "grading.completed"),
            (State::Failed, "failed", "grading.failed"),
        ] {
            let found = Standing::of(state);
            assert_eq!((found.label(), found.event().label()), (standing, event), "{state}");
            assert!(found.words().ends_with('.'), "{state}");
        }
    }
}
