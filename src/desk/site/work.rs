//! A work that waits for a person's grade, as its entry's page shows it to those who grade.
//!
//! The access log has a line before anything of the work is read.

use super::Site;
use crate::desk::access::{Role, Visitor};
use crate::desk::grades::Assessment;
use crate::desk::pages::assessment::{
    AssessmentView, CriterionField, CriterionView, GradeForm, QuestionView, ResultView,
};
use crate::desk::pages::entry::SubjectView;
use crate::desk::problem::Problem;
use crate::grading::core::result::GradingResult;
use crate::grading::subject::ATTEMPT;
use crate::grading::table::State as Stage;
use crate::grey_queue::entry::Entry;
use crate::grey_queue::table::State as EntryState;

/// The work of an entry; `None` where there is none.
///
/// # Errors
/// [`Problem`]: it cannot be recorded that it is shown, or the database gives no answer.
pub(super) async fn of(
    site: &Site,
    visitor: &Visitor,
    entry: &Entry,
) -> Result<Option<AssessmentView>, Problem> {
    let Some(shown) = site.grades.shown(visitor, entry.subject.id).await? else { return Ok(None) };
    let not_now = not_now(entry, visitor, &shown);
    let form = not_now.is_none().then(|| GradeForm {
        version: shown.version,
        idempotency_key: site.key(),
        criteria: shown
            .criteria
            .iter()
            .map(|key| CriterionField {
                key: (*key).to_owned(),
                score: String::new(),
                feedback: String::new(),
            })
            .collect(),
        strengths: String::new(),
        weaknesses: String::new(),
        suggestions: String::new(),
        reason: String::new(),
        error: None,
    });
    let results = [
        ("The grader's result", &shown.ai),
        ("The person's result", &shown.human),
        ("The final result", &shown.last),
    ];
    let results =
        results.into_iter().filter_map(|(title, result)| Some(view(title, result.as_ref()?))).collect();
    Ok(Some(AssessmentView {
        submission: shown.submission,
        attempt: shown.attempt,
        skill: shown.skill.label().to_owned(),
        state: shown.state,
        since: shown.state_since,
        confidence: shown.confidence,
        question: shown.question.map(|asked| QuestionView {
            name: asked.id,
            prompt: asked.prompt,
            rubric: asked.rubric,
        }),
        work: shown.work,
        transcript: shown.transcript,
        results,
        is_blind: shown.is_blind,
        form,
        not_now,
        first: None,
        lost: Vec::new(),
    }))
}

/// Why this visitor cannot grade it now.
fn not_now(entry: &Entry, visitor: &Visitor, shown: &Assessment) -> Option<String> {
    if shown.state != Stage::ReviewPending.label() {
        return Some("It waits for nobody's grade now.".to_owned());
    }
    let others = entry.assignee.as_deref().filter(|name| *name != visitor.user);
    match entry.state {
        EntryState::Pending => None,
        EntryState::UnderReview if visitor.role >= Role::Security => None,
        EntryState::UnderReview => others.map(|name| {
            format!("It is under review by {name}. Whoever has it grades it; it can be taken over.")
        }),
        EntryState::Escalated if visitor.role >= Role::Security => None,
        EntryState::Escalated => Some("It is escalated: security decides, or gives it back.".to_owned()),
        EntryState::Processing
        | EntryState::Retrying
        | EntryState::Resolved
        | EntryState::Rejected
        | EntryState::Failed
        | EntryState::Expired
        | EntryState::Dismissed => Some("Its entry is not open.".to_owned()),
    }
}

fn view(title: &'static str, result: &GradingResult) -> ResultView {
    let criteria = result.criteria_scores.iter().map(|given| CriterionView {
        name: given.criterion.label().to_owned(),
        score: given.score.to_string(),
        feedback: given.feedback.clone(),
        evidence: given.evidence.clone(),
        is_estimated: given.estimated,
    });
    ResultView {
        title,
        score: result.overall_score.to_string(),
        band: result.band.label().to_owned(),
        model: result.model.replace(',', ", "),
        criteria: criteria.collect(),
        strengths: result.feedback.strengths.clone(),
        weaknesses: result.feedback.weaknesses.clone(),
        suggestions: result.feedback.suggestions.clone(),
    }
}

/// That something is graded, for whoever may not see it.
pub(super) fn closed() -> SubjectView {
    SubjectView::Away("A learner's work, which is shown to those who grade: roles instructor, reviewer, security and admin.".to_owned())
}

/// Whether a visitor is shown works.
pub(super) fn may_see(visitor: &Visitor) -> bool {
    visitor.role >= Role::Instructor
}

/// Whether an entry is about a work.
pub(super) fn is_work(entry: &Entry) -> bool {
    entry.subject.kind == ATTEMPT
}
