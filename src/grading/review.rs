//! A person's review of an attempt: the person's own result, and the final one. Pure.

use serde::Deserialize;

use super::core::band::Bands;
use super::core::merge::{Merge, merge};
use super::core::result::{Broken, CriterionScore, Feedback, GradingMode, GradingResult, VERSION};
use super::core::score::{Score, mean_to_half};
use super::core::skill::{Criterion, Skill};

/// A person's word on a work: scores by criterion, and feedback on the whole.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PersonsReview {
    /// Every criterion of the skill once.
    pub criteria_scores: Vec<PersonsScore>,
    /// Feedback on the whole.
    #[serde(default)]
    pub feedback: Feedback,
}

/// Shows no words.
impl std::fmt::Debug for PersonsReview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PersonsReview").field("criteria", &self.criteria_scores.len()).finish_non_exhaustive()
    }
}

/// A person's score by one criterion.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PersonsScore {
    /// The criterion.
    pub criterion: Criterion,
    /// A multiple of 0.5.
    pub score: Score,
    /// Feedback on it.
    #[serde(default)]
    pub feedback: String,
}

/// The person's own result and the final one.
///
/// # Errors
/// [`Broken`]: the rule that the review breaks.
pub fn reviewed(
    skill: Skill,
    said: &PersonsReview,
    ai: &GradingResult,
    how: Merge,
    bands: &Bands,
) -> Result<(GradingResult, GradingResult), Broken> {
    let mut criteria: Vec<CriterionScore> = said
        .criteria_scores
        .iter()
        .map(|given| CriterionScore {
            criterion: given.criterion,
            score: given.score,
            feedback: given.feedback.clone(),
            evidence: Vec::new(),
            estimated: false,
        })
        .collect();
    criteria.sort_by_key(|given| given.criterion);
    let scores: Vec<Score> = criteria.iter().map(|given| given.score).collect();
    let overall = mean_to_half(&scores).ok_or(Broken::Criteria)?;
    let human = GradingResult {
        v: VERSION,
        overall_score: overall,
        band: bands.of(overall),
        confidence: 100,
        criteria_scores: criteria,
        feedback: said.feedback.clone(),
        review_required: false,
        review_priority: None,
        grading_mode: GradingMode::Human,
        audit_flag: false,
        is_late: false,
        indicative: true,
        model: String::new(),
        prompt_version: String::new(),
        rubric_version: ai.rubric_version.clone(),
    };
    human.check(skill, bands)?;
    let last = merge(ai, &human, how, bands);
    last.check(skill, bands)?;
    Ok((human, last))
}
