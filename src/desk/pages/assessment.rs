//! A work that waits for a person's grade: what was asked, the work, what the grader says, and the form. Pure.

use jiff::Timestamp;
use uuid::Uuid;

/// Key of the form: its id in the page, the end of its path, and the name of its draft.
pub const FORM: &str = "review";
/// Scores that can be given: 0 to 10 by 0.5.
const HALVES: u8 = 20;

/// An attempt at grading, for whoever may see it.
#[derive(Clone)]
pub struct AssessmentView {
    /// The submission.
    pub submission: Uuid,
    /// The attempt's number.
    pub attempt: u32,
    /// `writing`, `speaking`, …
    pub skill: String,
    /// Its state, as the lifecycle calls it.
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// How sure the grader was.
    pub confidence: Option<u8>,
    /// The question, where the form is graded still.
    pub question: Option<QuestionView>,
    /// What was written.
    pub work: Option<String>,
    /// What was heard.
    pub transcript: Option<String>,
    /// The results that may be shown, the grader's first.
    pub results: Vec<ResultView>,
    /// The grader's result is shown after the reader's own.
    pub is_blind: bool,
    /// The form; absent where the reader cannot grade it now.
    pub form: Option<GradeForm>,
    /// Why there is no form.
    pub not_now: Option<String>,
    /// Who was first.
    pub first: Option<FirstView>,
    /// What was typed into a form that is not offered any more.
    pub lost: Vec<(String, String)>,
}

/// Shows no words.
impl std::fmt::Debug for AssessmentView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AssessmentView").field("submission", &self.submission).finish_non_exhaustive()
    }
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionView {
    /// Its name.
    pub name: String,
    /// The question.
    pub prompt: String,
    /// Version of the rubric.
    pub rubric: String,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultView {
    /// Whose it is.
    pub title: &'static str,
    /// The score of the whole.
    pub score: String,
    /// Its band.
    pub band: String,
    /// The model, or nothing.
    pub model: String,
    /// By criterion.
    pub criteria: Vec<CriterionView>,
    /// What is good.
    pub strengths: Vec<String>,
    /// What is not.
    pub weaknesses: Vec<String>,
    /// What to do next.
    pub suggestions: Vec<String>,
}

/// A score by one criterion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriterionView {
    /// The criterion.
    pub name: String,
    /// The score.
    pub score: String,
    /// What is said of it.
    pub feedback: String,
    /// Quotes from the work.
    pub evidence: Vec<String>,
    /// It is guessed.
    pub is_estimated: bool,
}

/// The form, posted to `/entries/ID/review`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GradeForm {
    /// The attempt's version.
    pub version: i64,
    /// Its idempotency key.
    pub idempotency_key: String,
    /// The criteria, in their order.
    pub criteria: Vec<CriterionField>,
    /// One a line.
    pub strengths: String,
    /// One a line.
    pub weaknesses: String,
    /// One a line.
    pub suggestions: String,
    /// Why.
    pub reason: String,
    /// What is wrong, and the anchor of its field.
    pub error: Option<(String, String)>,
}

/// The fields of a criterion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriterionField {
    /// The criterion, as the API spells it.
    pub key: String,
    /// The score that was chosen.
    pub score: String,
    /// What was typed.
    pub feedback: String,
}

/// Who was first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstView {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The attempt's state now.
    pub state: String,
}

/// A field with several lines.
pub(super) struct Lines<'a> {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) text: &'a str,
}

impl CriterionField {
    /// The scores that can be given, each with whether it was chosen.
    pub(super) fn scores(&self) -> Vec<(String, bool)> {
        let score = |halves: u8| format!("{}.{}", halves / 2, halves % 2 * 5);
        (0..=HALVES).map(score).map(|score| (score.clone(), score == self.score)).collect()
    }

    /// Anchor of its score.
    #[must_use]
    pub fn anchor(key: &str) -> String {
        format!("{FORM}-{key}")
    }
}

impl GradeForm {
    pub(super) fn lists(&self) -> [Lines<'_>; 3] {
        let lines = |name, label, text| Lines { name, label, text };
        [
            lines("strengths", "Strengths, one a line (not required)", &self.strengths),
            lines("weaknesses", "Weaknesses, one a line (not required)", &self.weaknesses),
            lines("suggestions", "Suggestions, one a line (not required)", &self.suggestions),
        ]
    }

    /// What is wrong with the field of this anchor.
    pub(super) fn wrong(&self, anchor: &str) -> Option<&str> {
        self.error.as_ref().filter(|(at, _)| at == anchor).map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_go_from_0_to_10_by_halves() {
        let field =
            CriterionField { key: "content".to_owned(), score: "7.5".to_owned(), feedback: String::new() };
        let scores = field.scores();
        assert_eq!((scores.len(), scores[0].0.as_str(), scores[20].0.as_str()), (21, "0.0", "10.0"));
        let chosen: Vec<_> = scores.iter().filter(|(_, chosen)| *chosen).collect();
        assert_eq!(chosen, [&("7.5".to_owned(), true)]);
    }
}
