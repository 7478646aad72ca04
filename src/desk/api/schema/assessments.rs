//! What the documents of `/api/assessments` look like.

use jiff::Timestamp;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use utoipa::openapi::{RefOr, Schema, Type};
use uuid::Uuid;

use super::one_of;
use crate::grading::core::result::{FEEDBACK_CHARS, ITEM_CHARS, MOST_ITEMS};
use crate::grading::core::skill::Criterion;
use crate::grading::learner::Standing;
use crate::grading::table::State;

/// A state of an attempt.
pub(in crate::desk::api) fn attempt_state() -> RefOr<Schema> {
    one_of(State::ALL.iter().map(|state| state.label()))
}

fn standing() -> RefOr<Schema> {
    one_of(Standing::ALL.iter().map(|standing| standing.label()))
}

fn criterion() -> RefOr<Schema> {
    one_of(Criterion::ALL.iter().map(|criterion| criterion.label()))
}

/// 0 to 10 by halves, each as a number.
fn score() -> RefOr<Schema> {
    let halves = (0..=20).map(|halves| json!(f64::from(halves) / 2.0));
    ObjectBuilder::new().schema_type(Type::Number).enum_values(Some(halves)).build().into()
}

documents! {
    /// What was asked.
    AssessmentQuestion {
        /// Its name.
        id: String,
        /// The question.
        prompt: String,
        /// Version of the rubric.
        rubric: String,
    }

    /// An attempt, as a person who grades sees it.
    Assessment {
        /// The attempt.
        id: Uuid,
        /// The submission.
        submission: Uuid,
        /// The attempt's number, from 1.
        attempt: u32,
        /// The form.
        form_id: String,
        /// What is graded.
        skill: String,
        /// Its state.
        #[schema(schema_with = attempt_state)]
        state: String,
        /// Raised by each transition: what a review names.
        version: i64,
        /// How much a person is wanted.
        #[schema(required = true)]
        priority: Option<String>,
        /// How sure the grader was, 0 to 100.
        #[schema(required = true)]
        confidence: Option<u8>,
        /// When it fails unless it is graded; a review has no end.
        deadline: Timestamp,
        /// Since when it is in its state.
        state_since: Timestamp,
        /// When it ended.
        #[schema(required = true)]
        ended_at: Option<Timestamp>,
        /// The criteria that a review scores by.
        criteria: Vec<String>,
        /// What was asked.
        #[schema(required = true)]
        question: Option<AssessmentQuestion>,
        /// What was written.
        #[schema(required = true)]
        work: Option<String>,
        /// What was heard.
        #[schema(required = true)]
        transcript: Option<String>,
        /// The grader's result.
        #[schema(required = true, value_type = Option<Object>)]
        ai: Option<Value>,
        /// The person's.
        #[schema(required = true, value_type = Option<Object>)]
        human: Option<Value>,
        /// The final one.
        #[schema(required = true, value_type = Option<Object>)]
        last: Option<Value>,
        /// The grader's result is shown after the person's own alone.
        is_blind: bool,
    }

    /// What a learner is told.
    LearnerTold {
        /// The submission.
        submission: Uuid,
        /// The attempt's number, from 1.
        attempt: u32,
        /// How it stands.
        #[schema(schema_with = standing)]
        state: String,
        /// The same in a sentence.
        words: String,
        /// Since when.
        at: Timestamp,
        /// The grade, once it is final; with `isLate` one that came after the attempt had failed, and counts nowhere.
        #[schema(required = true, value_type = Option<Object>)]
        result: Option<Value>,
    }

    /// A person's score by one criterion.
    CriterionGiven {
        /// The criterion.
        #[schema(schema_with = criterion)]
        criterion: String,
        /// The score.
        #[schema(schema_with = score)]
        score: f64,
        /// What to say of it.
        #[schema(required = false, max_length = 2000)]
        feedback: String,
    }

    /// What to say of the whole.
    FeedbackGiven {
        /// What is good.
        #[schema(max_items = 10)]
        strengths: Vec<String>,
        /// What is not.
        #[schema(max_items = 10)]
        weaknesses: Vec<String>,
        /// What to do next.
        #[schema(max_items = 10)]
        suggestions: Vec<String>,
    }

    /// The final grade, in numbers.
    Graded {
        /// The attempt.
        id: Uuid,
        /// The submission.
        submission: Uuid,
        /// The attempt's state.
        #[schema(schema_with = attempt_state)]
        state: String,
        /// The attempt's version.
        version: i64,
        /// The person's score.
        human_score: f64,
        /// The final score.
        score: f64,
        /// Its band.
        band: String,
        /// `hybrid` or `human`.
        mode: String,
        /// It is marked for an audit.
        audit: bool,
        /// The entry that was resolved.
        entry: Uuid,
    }

    /// A ticket.
    Ticket {
        /// The ticket: once, for this submission.
        ticket: String,
        /// The path that spends it.
        url: String,
        /// When it has ended.
        expires_at: Timestamp,
        /// Seconds until then.
        expires_in: u32,
    }
}

/// What a person sees, or a learner.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(in crate::desk::api) enum AssessmentOrTold {
    /// A person.
    Person(Box<Assessment>),
    /// A learner.
    Learner(LearnerTold),
}

/// Bounds that the schema above writes out.
const _: () = assert!(FEEDBACK_CHARS == 2_000 && ITEM_CHARS == 500 && MOST_ITEMS == 10);
