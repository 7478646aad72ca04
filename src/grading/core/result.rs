//! The result: a grade as a document. Pure.
//!
//! It is made by one side, stored and shown by the other, and made by people, too: whoever takes one in checks it by
//! [`GradingResult::check`]. A fault names the rule that is broken and repeats nothing: a result quotes the work.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::band::{Band, Bands};
use super::confidence::MOST_OF_ESTIMATED;
use super::is_plain;
use super::review::Priority;
use super::score::{Score, mean_to_half};
use super::skill::{Criterion, Skill};
use crate::kernel::words;

/// The document's JSON Schema, as it is served.
pub const SCHEMA: &str = include_str!("result.schema.json");
/// The document's version.
pub const VERSION: u8 = 1;
/// Longest document, in bytes: with a transcript it fits into a message.
pub const MOST_BYTES: usize = 32 * 1024;
/// Longest feedback on a criterion, in characters.
pub const FEEDBACK_CHARS: usize = 2_000;
/// Most quotes of a criterion, and the longest, in characters.
pub const MOST_EVIDENCE: usize = 5;
/// See [`MOST_EVIDENCE`].
pub const EVIDENCE_CHARS: usize = 300;
/// Most strengths, weaknesses and suggestions each, and the longest, in characters.
pub const MOST_ITEMS: usize = 10;
/// See [`MOST_ITEMS`].
pub const ITEM_CHARS: usize = 500;
/// Longest name of a model, a prompt or a rubric, in bytes.
pub const NAME_BYTES: usize = 128;

words! {
    /// Whose grade it is.
    GradingMode {
        /// The grader's, or the key's.
        Auto = "auto",
        /// A person's.
        Human = "human",
        /// Both's, weighed.
        Hybrid = "hybrid",
    }
}

/// A grade.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the document has them")]
pub struct GradingResult {
    /// [`VERSION`].
    pub v: u8,
    /// The score of the whole.
    pub overall_score: Score,
    /// Its band.
    pub band: Band,
    /// How sure it is, 0 to 100.
    pub confidence: u8,
    /// Every criterion of the skill once; none where a key decides.
    #[serde(deserialize_with = "super::objects")]
    pub criteria_scores: Vec<CriterionScore>,
    /// Of the whole.
    #[serde(deserialize_with = "super::object")]
    pub feedback: Feedback,
    /// A person looks at it before the learner does.
    pub review_required: bool,
    /// How much that person is wanted; exactly where one is.
    #[serde(deserialize_with = "Option::deserialize")]
    pub review_priority: Option<Priority>,
    /// Whose grade it is.
    pub grading_mode: GradingMode,
    /// It is marked for an audit.
    pub audit_flag: bool,
    /// It came after its attempt had failed.
    pub is_late: bool,
    /// The band is one skill's: bands are set for four.
    pub indicative: bool,
    /// The models that were asked, in one name; may be blank where none was.
    pub model: String,
    /// The prompt that they were asked by; may be blank where none was.
    pub prompt_version: String,
    /// The rubric that was graded by.
    pub rubric_version: String,
}

/// A score by one criterion.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CriterionScore {
    /// The criterion.
    pub criterion: Criterion,
    /// A multiple of 0.5.
    pub score: Score,
    /// Feedback on it.
    pub feedback: String,
    /// Quotes from the work.
    pub evidence: Vec<String>,
    /// Guessed from what does not have it: a transcript has no pronunciation.
    pub estimated: bool,
}

/// Feedback on the whole.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Feedback {
    /// Strengths.
    pub strengths: Vec<String>,
    /// Weaknesses.
    pub weaknesses: Vec<String>,
    /// Advice.
    pub suggestions: Vec<String>,
}

/// A rule that a result breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Broken {
    /// Another version.
    #[error("v is not 1")]
    Version,
    /// Confidence above 100, or below it where a key decided.
    #[error("confidence is not 0 to 100, or not 100 where a key decided")]
    Confidence,
    /// A criterion is missing, there twice, or another skill's.
    #[error("criteriaScores are not the skill's criteria, each once")]
    Criteria,
    /// A criterion's score is no multiple of 0.5.
    #[error("a criterion's score is not a multiple of 0.5")]
    Halves,
    /// The whole is not the mean of its criteria, or no multiple of 0.5 at all.
    #[error("overallScore is not the mean of the criteria, rounded half up to 0.5")]
    Overall,
    /// The band is not the score's.
    #[error("band is not that of overallScore")]
    Band,
    /// A priority without a review, or a review without one.
    #[error("reviewPriority is not there exactly where reviewRequired is")]
    Priority,
    /// A person's grade, or a final one, cannot wait for a person.
    #[error("only a result of gradingMode auto can require a review")]
    Review,
    /// Something other than pronunciation is estimated, or an estimate is too sure.
    #[error("estimated is only pronunciation, with a confidence of at most 84")]
    Estimated,
    /// A text or a list is too long, or a quote is blank.
    #[error("a text or a list is too long, or a quote is blank")]
    Bounds,
    /// A name is not plain.
    #[error("model, promptVersion or rubricVersion is blank or not plain")]
    Names,
    /// The whole is too long.
    #[error("the result is longer than 32 KiB")]
    TooLarge,
}

impl GradingResult {
    /// Checks it against every rule, for this skill and these bands.
    ///
    /// # Errors
    /// The first rule that is [`Broken`].
    pub fn check(&self, skill: Skill, bands: &Bands) -> Result<(), Broken> {
        let is_auto = self.grading_mode == GradingMode::Auto;
        let rule = |holds: bool, broken: Broken| if holds { Ok(()) } else { Err(broken) };
        rule(self.v == VERSION, Broken::Version)?;
        let is_sure = self.confidence == 100 || !(skill.is_keyed() && is_auto);
        rule(self.confidence <= 100 && is_sure, Broken::Confidence)?;
        self.check_scores(skill)?;
        rule(bands.of(self.overall_score) == self.band, Broken::Band)?;
        rule(self.review_required == self.review_priority.is_some(), Broken::Priority)?;
        rule(is_auto || !self.review_required, Broken::Review)?;
        let mut estimated = self.criteria_scores.iter().filter(|it| it.estimated).peekable();
        let is_unsure = estimated.peek().is_none() || !is_auto || self.confidence <= MOST_OF_ESTIMATED;
        rule(estimated.all(|it| it.criterion == Criterion::Pronunciation) && is_unsure, Broken::Estimated)?;
        rule(self.is_bounded(), Broken::Bounds)?;
        let is_named = |name: &str| is_plain(name, NAME_BYTES);
        // A key and a person have no model, and no prompt.
        let needless = |name: &str| name.is_empty() && (skill.is_keyed() || !is_auto);
        let of_model = [&self.model, &self.prompt_version].into_iter().all(|it| is_named(it) || needless(it));
        rule(of_model && is_named(&self.rubric_version), Broken::Names)?;
        rule(self.canonical().len() <= MOST_BYTES, Broken::TooLarge)
    }

    fn check_scores(&self, skill: Skill) -> Result<(), Broken> {
        let mut found: Vec<Criterion> = self.criteria_scores.iter().map(|it| it.criterion).collect();
        found.sort_unstable();
        if found != skill.criteria() {
            return Err(Broken::Criteria);
        }
        if skill.is_keyed() {
            return Ok(());
        }
        let scores: Vec<Score> = self.criteria_scores.iter().map(|it| it.score).collect();
        if !scores.iter().all(|score| score.is_half()) {
            return Err(Broken::Halves);
        }
        let holds = match self.grading_mode {
            GradingMode::Auto | GradingMode::Human => mean_to_half(&scores) == Some(self.overall_score),
            // Weighed as a whole; its criteria are the person's.
            GradingMode::Hybrid => self.overall_score.is_half(),
        };
        if holds { Ok(()) } else { Err(Broken::Overall) }
    }

    fn is_bounded(&self) -> bool {
        let fits = |text: &String, most: usize| text.chars().count() <= most;
        let quotes = |quotes: &[String]| {
            quotes.len() <= MOST_EVIDENCE
                && quotes.iter().all(|quote| fits(quote, EVIDENCE_CHARS) && !quote.trim().is_empty())
        };
        let items =
            |items: &Vec<String>| items.len() <= MOST_ITEMS && items.iter().all(|it| fits(it, ITEM_CHARS));
        let Feedback { strengths, weaknesses, suggestions } = &self.feedback;
        self.criteria_scores.iter().all(|it| fits(&it.feedback, FEEDBACK_CHARS) && quotes(&it.evidence))
            && [strengths, weaknesses, suggestions].into_iter().all(items)
    }

    /// Its bytes in the one order of members that it has.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        // Writing to memory what has only texts for keys cannot fail; nothing would not be a result of any digest.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// SHA-256 of its bytes, in hexadecimal digits: two results of the same are the same.
    #[must_use]
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.canonical()))
    }
}

impl fmt::Debug for GradingResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GradingResult")
            .field("overall_score", &self.overall_score)
            .field("band", &self.band)
            .field("confidence", &self.confidence)
            .field("criteria_scores", &self.criteria_scores)
            .field("review_priority", &self.review_priority)
            .field("grading_mode", &self.grading_mode)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CriterionScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriterionScore")
            .field("criterion", &self.criterion)
            .field("score", &self.score)
            .field("estimated", &self.estimated)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Feedback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feedback")
            .field("strengths", &self.strengths.len())
            .field("weaknesses", &self.weaknesses.len())
            .field("suggestions", &self.suggestions.len())
            .finish()
    }
}

#[cfg(test)]
#[path = "result_tests.rs"]
pub(in crate::grading::core) mod tests;
