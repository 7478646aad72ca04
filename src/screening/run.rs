//! A run as its row has it. Pure.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::kernel::words;

words! {
    /// What is screened.
    Profile {
        /// What somebody entered into a form.
        Fields = "fields",
        /// A repository that a submission names.
        Git = "git",
    }
}

words! {
    /// Reasons why no machine approves a run alone; each sends it to a person.
    Bar {
        /// It asks for rights that reach far.
        HighPrivilege = "high_privilege",
        /// A rule wants a person to look.
        ReviewFinding = "review_finding",
        /// A rule that blocks, or wants a person to look, was waived.
        WaivedBlock = "waived_block",
        /// It speaks to whoever judges it.
        InjectionMarker = "injection_marker",
        /// The model was not tried with this prompt, or failed its trial.
        UncalibratedJudge = "uncalibrated_judge",
        /// The form wants a person for each.
        ForceReview = "force_review",
        /// The judge's score and its concerns contradict each other.
        Contradiction = "contradiction",
    }
}

/// A run of screening.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The submission.
    pub subject: Uuid,
    /// Its number among the submission's runs, from 1.
    pub run: u32,
    /// Whether it is the latest.
    pub is_current: bool,
    /// Whether the submission waits for it.
    pub is_enforced: bool,
    /// The form.
    pub form_id: String,
    /// What is screened.
    pub profile: Profile,
    /// Whether the form wants a person for each.
    pub force_review: bool,
    /// SHA-256 of the submission as it was when the run began to look.
    pub digest: Option<String>,
    /// SHA-256 of what was scanned.
    pub content: Option<String>,
    /// Version of the rules.
    pub ruleset: Option<String>,
    /// Whom the origin was proven to be.
    pub origin: Option<String>,
    /// The judge's score.
    pub score: Option<u8>,
    /// Labels of [`Bar`].
    pub bars: Vec<String>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// Since when it is in its state.
    pub state_since: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it was closed without an end: its submission was emptied, or failed otherwise.
    pub closed_at: Option<Timestamp>,
    /// Why its job was given up on.
    pub dead_reason: Option<String>,
    /// Number of its job's present claim; never given twice.
    pub attempt: u32,
    /// Claims of its state from which somebody came back.
    pub returned: u32,
}
