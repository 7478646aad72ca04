//! What the API's documents look like. The types that are served carry no schema, because the rooms know no surface; tests hold each
//! answer against these.

use jiff::Timestamp;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, SchemaType};
use utoipa::openapi::{RefOr, Schema, Type};
use uuid::Uuid;

use crate::desk::problem::Kind;
use crate::grey_queue::decide::{LONGEST, Verb};
use crate::grey_queue::entry::Resolution;
use crate::grey_queue::table::State as Stage;
use crate::kernel::subject::Remedy;
use crate::web::problem::TYPE_PREFIX;

/// A text.
pub(super) fn text() -> Schema {
    ObjectBuilder::new().schema_type(Type::String).build().into()
}

/// A text of this format.
pub(super) fn text_of(format: SchemaFormat) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build().into()
}

/// A word of a closed set.
pub(super) fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.map(str::to_owned))).build().into()
}

/// A filter's text: PostgreSQL's texts have no NUL.
pub(super) fn filter() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(255))
        .pattern(Some("^[^\\u0000]*$"))
        .build()
        .into()
}

/// A reason that must be given: not only spaces.
pub(super) fn reason() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(LONGEST))
        .pattern(Some("[^\\s]"))
        .build()
        .into()
}

pub(super) fn remedy() -> RefOr<Schema> {
    one_of(Remedy::ALL.iter().map(|remedy| remedy.label()))
}

pub(super) fn remedy_or_none() -> RefOr<Schema> {
    let labels = Remedy::ALL.iter().map(|remedy| json!(remedy.label()));
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .enum_values(Some(labels.chain([Value::Null])))
        .build()
        .into()
}

/// A version: as large as every reader of JSON can count.
pub(super) fn version() -> RefOr<Schema> {
    counted(Type::Integer.into())
}

pub(super) fn version_or_none() -> RefOr<Schema> {
    counted(SchemaType::from_iter([Type::Integer, Type::Null]))
}

fn counted(schema_type: SchemaType) -> RefOr<Schema> {
    let most: i64 = (1 << 53) - 1;
    ObjectBuilder::new().schema_type(schema_type).minimum(Some(1_i64)).maximum(Some(most)).build().into()
}

pub(super) fn state() -> RefOr<Schema> {
    one_of(Stage::ALL.iter().map(|state| state.label()))
}

/// A state of an entry, or of an attempt at grading.
fn any_state() -> RefOr<Schema> {
    let attempts = crate::grading::table::State::ALL.iter().map(|state| state.label());
    one_of(Stage::ALL.iter().map(|state| state.label()).chain(attempts))
}

pub(super) fn verb() -> RefOr<Schema> {
    one_of(Verb::ALL.iter().map(|verb| verb.label()))
}

fn resolution() -> RefOr<Schema> {
    one_of(Resolution::ALL.iter().map(|how| how.label()))
}

pub(super) fn kind() -> RefOr<Schema> {
    let types: Vec<String> = Kind::ALL.iter().map(|kind| format!("{TYPE_PREFIX}{kind}")).collect();
    one_of(types.iter().map(String::as_str))
}

macro_rules! documents {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $member:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(ToSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        pub(in crate::desk::api) struct $name { $($(#[$of])* $member: $type),* }
    )*};
}

mod assessments;
mod screening;

pub(super) use assessments::{AssessmentOrTold, CriterionGiven, FeedbackGiven, Graded, Ticket};
pub(super) use screening::{
    Rescreened, ScreenedForms, ScreeningJobs, ScreeningRuns, ScreeningStory, ScreeningTimes,
    ScreeningWaivers, run_state,
};

documents! {
    /// Why a request was refused (RFC 9457).
    Problem {
        /// Its kind.
        #[schema(schema_with = kind)]
        r#type: String,
        /// The same sentence for every problem of the kind.
        title: String,
        /// The HTTP status.
        status: u16,
        /// What happened, to what.
        detail: String,
        /// What to do next.
        remedy: String,
        /// `version_conflict`: the entry's state now, or the attempt's.
        #[schema(required = false, schema_with = any_state)]
        state: Option<String>,
        /// `version_conflict`, `precondition_failed`: the version now.
        #[schema(required = false, nullable = false)]
        version: Option<i64>,
        /// `version_conflict`: who changed it.
        #[schema(required = false, nullable = false)]
        by: Option<String>,
        /// `version_conflict`: when.
        #[schema(required = false, nullable = false)]
        at: Option<Timestamp>,
        /// `not_possible`: the commands that the state has.
        #[schema(required = false, nullable = false)]
        legal: Option<Vec<String>>,
        /// `open_twin`: the entry that is open.
        #[schema(required = false, nullable = false)]
        entry: Option<Uuid>,
        /// `guard`: of a grade, the rule that it breaks.
        #[schema(required = false, nullable = false)]
        rule: Option<String>,
        /// `guard`: the member that is at fault.
        #[schema(required = false, nullable = false)]
        field: Option<String>,
        /// `evidence_missing`: what would prove it.
        #[schema(required = false, nullable = false)]
        missing: Option<Vec<String>>,
        /// `selection_changed`: how many were seen.
        #[schema(required = false, nullable = false)]
        expected: Option<u64>,
        /// `selection_changed`: how many match now.
        #[schema(required = false, nullable = false)]
        matched: Option<u64>,
    }

    /// What an entry is about.
    Subject {
        /// `submission`, `dead_letter`.
        kind: String,
        /// Its id.
        id: Uuid,
    }

    /// That somebody asked the security team.
    Escalation {
        /// What they ask.
        reason: String,
        /// When.
        at: Timestamp,
        /// Who.
        #[schema(required = true)]
        by: Option<String>,
        /// When the security team was told; absent until that is confirmed.
        #[schema(required = true)]
        notified_at: Option<Timestamp>,
    }

    /// That somebody rejected it.
    Rejection {
        /// Why.
        reason: String,
        /// Who.
        by: String,
    }

    /// That it is resolved.
    Resolved {
        /// How.
        #[schema(schema_with = resolution)]
        how: String,
        /// By whom; absent where evidence became sufficient by itself.
        #[schema(required = true)]
        by: Option<String>,
    }

    /// Its remedy.
    Job {
        /// Which.
        #[schema(schema_with = remedy)]
        remedy: String,
        /// Who asked for it; absent where it was the policy.
        #[schema(required = true)]
        requested_by: Option<String>,
        /// Attempts that are over.
        attempts: u32,
        /// When the present attempt was carried out; absent before.
        #[schema(required = true)]
        carried_out_at: Option<Timestamp>,
        /// The next look, or the next attempt.
        next_at: Timestamp,
        /// Somebody looks at it right now.
        leased: bool,
    }

    /// An entry.
    Entry {
        /// Its id.
        id: Uuid,
        /// Raised by everything that happens to it: what a decision names.
        version: i64,
        /// Its state.
        #[schema(schema_with = state)]
        state: String,
        /// `failed`, `infected`, `late_infection`, `bounced`, `dead_letter`, `screening`, `screening_job`, `grading`, `grading_failed`,
        /// `grading_message`.
        cause: String,
        /// The cause's own word.
        reason: String,
        /// Whose it is: `operations`, `security`, `screening`, `grading`.
        queue: String,
        /// What it is about.
        subject: Subject,
        /// The submission's form.
        #[schema(required = true)]
        form_id: Option<String>,
        /// Codes, domains and counts; no address.
        #[schema(value_type = Object)]
        detail: serde_json::Value,
        /// How many events it stands for.
        #[schema(minimum = 1)]
        occurrences: i32,
        /// When the first of them was.
        opened_at: Timestamp,
        /// When the last of them was.
        seen_at: Timestamp,
        /// Since when it is in its state.
        state_since: Timestamp,
        /// When it expires, unless somebody takes it; absent until planned.
        #[schema(required = true)]
        expires_at: Option<Timestamp>,
        /// When it was closed.
        #[schema(required = true)]
        closed_at: Option<Timestamp>,
        /// Who reviews it.
        #[schema(required = true)]
        assignee: Option<String>,
        /// Since when.
        #[schema(required = true)]
        assigned_at: Option<Timestamp>,
        /// That the security team was asked.
        #[schema(required = true)]
        escalation: Option<Escalation>,
        /// That it was rejected.
        #[schema(required = true)]
        rejection: Option<Rejection>,
        /// That it is resolved.
        #[schema(required = true)]
        resolution: Option<Resolved>,
        /// Its remedy, once there was one.
        #[schema(required = true)]
        job: Option<Job>,
    }

    /// Whether an entry could be resolved now.
    Evidence {
        /// Nothing is left to do.
        sufficient: bool,
        /// What is missing, one sentence each.
        missing: Vec<String>,
    }

    /// Where more is to be found.
    Links {
        /// The entry in the API.
        #[schema(rename = "self")]
        own: String,
        /// Its page.
        page: String,
        /// The command that explains its subject.
        explain: String,
    }

    /// An entry of a list. Its subject is not looked at, so nothing is said of evidence.
    EntryItem {
        #[serde(flatten)]
        #[schema(inline)]
        entry: Entry,
        /// What it is, in a sentence.
        headline: String,
        /// Where more is to be found.
        links: Links,
    }

    /// An entry, with the evidence about its subject.
    EntryView {
        #[serde(flatten)]
        #[schema(inline)]
        entry: Entry,
        /// What it is, in a sentence.
        headline: String,
        /// Whether it could be resolved now, as of a moment ago.
        evidence: Evidence,
        /// Where more is to be found.
        links: Links,
    }

    /// A page of the list.
    Page {
        /// The entries.
        items: Vec<EntryItem>,
        /// Where the next page begins; absent at the end.
        #[schema(required = true)]
        next_cursor: Option<String>,
        /// The database's time of the look.
        as_of: Timestamp,
    }

    /// Open entries that share state, queue and cause.
    Depth {
        /// Their state.
        #[schema(schema_with = state)]
        state: String,
        /// Their queue.
        queue: String,
        /// Their cause.
        cause: String,
        /// How many there are.
        count: i64,
        /// For how long the first of them is in its state, in seconds.
        oldest_seconds: f64,
    }

    /// How many entries are open.
    Summary {
        /// All of them.
        open: i64,
        /// By state, queue and cause.
        items: Vec<Depth>,
    }

    /// A line of an entry's history.
    Moved {
        /// The entry's version after it.
        version: i64,
        /// When.
        at: Timestamp,
        /// The command.
        command: String,
        /// State before; absent at birth.
        #[schema(required = true)]
        from: Option<String>,
        /// State after.
        to: String,
        /// Who: a role and a name, or the daemon.
        by: String,
        /// Why.
        #[schema(required = true)]
        reason: Option<String>,
        /// More: the assignee, the remedy, the resolution.
        #[schema(value_type = Object)]
        metadata: serde_json::Value,
    }

    /// What happened to an entry.
    History {
        /// Oldest first.
        items: Vec<Moved>,
    }

    /// A command of a state, and whether you may give it.
    Possible {
        /// The command.
        #[schema(schema_with = verb)]
        command: String,
        /// The state it leads to at once.
        #[schema(schema_with = state)]
        to: String,
        /// Whether you may give it.
        allowed: bool,
        /// Why not.
        #[schema(required = true)]
        why_not: Option<String>,
        /// What must be said with it.
        requires: Vec<String>,
    }

    /// What may be done with an entry.
    Transitions {
        /// The version that a decision names.
        version: i64,
        /// Its state.
        #[schema(schema_with = state)]
        state: String,
        /// The commands that the state has.
        items: Vec<Possible>,
    }

    /// An entry that was changed.
    ChangedItem {
        /// The entry.
        id: Uuid,
        /// Its version now.
        version: i64,
        /// Its state now.
        #[schema(schema_with = state)]
        state: String,
    }

    /// An entry that was not.
    SkippedItem {
        /// The entry.
        id: Uuid,
        /// Why.
        why: String,
        /// The type of the problem that a single decision would have been answered with.
        #[schema(schema_with = kind)]
        r#type: String,
    }

    /// What became of a bulk.
    Report {
        /// How many were meant.
        matched: u64,
        /// Those that were changed.
        changed: Vec<ChangedItem>,
        /// Those that were not.
        skipped: Vec<SkippedItem>,
    }
}
