//! What the documents of `/api/screening` look like.

use jiff::Timestamp;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use uuid::Uuid;

use super::one_of;
use crate::screening::table::State;

/// A state of a run.
pub(in crate::desk::api) fn run_state() -> RefOr<Schema> {
    one_of(State::ALL.iter().map(|state| state.label()))
}

documents! {
    /// A run of screening.
    ScreeningRun {
        /// Its id.
        id: Uuid,
        /// Its state.
        #[schema(schema_with = run_state)]
        state: String,
        /// Raised by each change.
        version: i64,
        /// The submission.
        subject: Uuid,
        /// Its number among the submission's runs, from 1.
        run: u32,
        /// Whether it is the latest.
        is_current: bool,
        /// Whether the submission waits for it.
        is_enforced: bool,
        /// The form.
        form_id: String,
        /// `fields` or `git`.
        profile: String,
        /// Whether the form wants a person for each.
        force_review: bool,
        /// SHA-256 of the submission as it was when the run began to look.
        #[schema(required = true)]
        digest: Option<String>,
        /// SHA-256 of what was scanned.
        #[schema(required = true)]
        content: Option<String>,
        /// Version of the rules.
        #[schema(required = true)]
        ruleset: Option<String>,
        /// Whom the origin was proven to be.
        #[schema(required = true)]
        origin: Option<String>,
        /// The judge's score.
        #[schema(required = true)]
        score: Option<u8>,
        /// Why no machine approves it alone.
        bars: Vec<String>,
        /// When it was opened.
        created_at: Timestamp,
        /// Since when it is in its state.
        state_since: Timestamp,
        /// When it ended.
        #[schema(required = true)]
        ended_at: Option<Timestamp>,
        /// When it was closed without an end.
        #[schema(required = true)]
        closed_at: Option<Timestamp>,
        /// Why its job was given up on.
        #[schema(required = true)]
        dead_reason: Option<String>,
        /// Number of its job's present claim.
        attempt: u32,
        /// Claims of its state from which somebody came back.
        returned: u32,
    }

    /// Runs.
    ScreeningRuns {
        /// The latest first.
        items: Vec<ScreeningRun>,
    }

    /// An event of a run.
    ScreeningEvent {
        /// Its id.
        id: Uuid,
        /// State before; absent at birth.
        #[schema(required = true)]
        from_state: Option<String>,
        /// State after.
        to_state: String,
        /// The trigger.
        trigger: String,
        /// Whoever pulled it.
        actor: String,
        /// `system`, `worker` or `admin`.
        actor_type: String,
        /// Codes and counts.
        metadata: Value,
        /// When.
        created_at: Timestamp,
    }

    /// What a rule found.
    ScreeningFinding {
        /// The rule.
        rule: String,
        /// `block`, `review` or `note`.
        severity: String,
        /// Field or file, and line.
        place: String,
        /// How often.
        times: i64,
        /// Why it does not block.
        #[schema(required = true)]
        waived: Option<String>,
    }

    /// What the judge was concerned about.
    ScreeningConcern {
        /// Its kind.
        code: String,
        /// `low`, `medium` or `high`.
        severity: String,
        /// Field or file.
        place: String,
        /// The judge's words, scrubbed.
        note: String,
    }

    /// An answer of the judge.
    ScreeningVerdict {
        /// Its model, as it says.
        model: String,
        /// The score.
        score: i64,
        /// Whether what it judged speaks to whoever judges it.
        injection: bool,
        /// What it was concerned about.
        concerns: Vec<ScreeningConcern>,
        /// When.
        created_at: Timestamp,
    }

    /// A run and all that is known of it.
    ScreeningStory {
        /// The run.
        #[schema(inline)]
        #[serde(flatten)]
        view: ScreeningRun,
        /// Its events, in order.
        events: Vec<ScreeningEvent>,
        /// What the rules found.
        findings: Vec<ScreeningFinding>,
        /// What the judge said.
        verdicts: Vec<ScreeningVerdict>,
    }

    /// A form that is screened.
    ScreenedForm {
        /// The form.
        form_id: String,
        /// `fields` or `git`.
        profile: String,
        /// Submissions created since then have a run.
        since: Timestamp,
        /// Submissions created since then wait for theirs.
        #[schema(required = true)]
        enforced_since: Option<Timestamp>,
        /// No run is approved without a person.
        force_review: bool,
        /// Whoever said so.
        set_by: String,
    }

    /// Forms that are screened.
    ScreenedForms {
        /// The forms.
        items: Vec<ScreenedForm>,
    }

    /// A job of screening.
    ScreeningJob {
        /// The run.
        submission_id: Uuid,
        /// `tier1-scan`, `tier2-scan` or `publish`.
        job_type: String,
        /// `pending`, `waiting`, `running` or `dead`.
        status: String,
        /// Number of its claims.
        attempt: i64,
        /// When it is due.
        available_at: Timestamp,
        /// Why it was given up on.
        #[schema(required = true)]
        dead_reason: Option<String>,
        /// The form.
        form_id: String,
        /// The run's state.
        #[schema(schema_with = run_state)]
        state: String,
        /// Since when.
        state_since: Timestamp,
    }

    /// Jobs.
    ScreeningJobs {
        /// The longest due first.
        items: Vec<ScreeningJob>,
    }

    /// A rule that does not block in a form.
    ScreeningWaiver {
        /// Its number.
        id: i64,
        /// The form.
        form_id: String,
        /// The rule.
        rule: String,
        /// The place; absent: everywhere.
        #[schema(required = true)]
        place: Option<String>,
        /// `false_positive`, `used_in_tests` or `will_fix`.
        reason: String,
        /// Why.
        why: String,
        /// Whoever said so.
        actor: String,
        /// When.
        at: Timestamp,
    }

    /// Waivers.
    ScreeningWaivers {
        /// Those that stand.
        items: Vec<ScreeningWaiver>,
    }

    /// How long a stage took, in seconds.
    ScreeningStage {
        /// The stage.
        stage: String,
        /// Runs that left it.
        runs: i64,
        /// The median; absent without runs.
        #[schema(required = true)]
        p50: Option<f64>,
        /// The 95th percentile.
        #[schema(required = true)]
        p95: Option<f64>,
    }

    /// The document's table.
    ScreeningTimes {
        /// The stages.
        items: Vec<ScreeningStage>,
    }

    /// Another run.
    Rescreened {
        /// The submission.
        submission_id: Uuid,
        /// The run.
        run_id: Uuid,
        /// Whether it had failed as screened out, and is open again.
        replayed: bool,
    }
}
