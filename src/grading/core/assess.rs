//! Samples of a model become one result. Pure.
//!
//! Each sample was asked for by itself. A criterion's score is their median: one sample that is far off moves nothing but the
//! confidence. Words come from one sample alone, the nearest to the result: mixed, they would contradict each other. Scores of
//! the whole are ours, never a model's.

use std::fmt;

use super::band::Bands;
use super::confidence::{self, Parts, capped};
use super::key::Marked;
use super::result::{
    CriterionScore, EVIDENCE_CHARS, FEEDBACK_CHARS, Feedback, GradingMode, GradingResult, ITEM_CHARS,
    MOST_BYTES, MOST_EVIDENCE, MOST_ITEMS, NAME_BYTES, VERSION,
};
use super::review::{Asked, Flag, Routing, Thresholds};
use super::score::{Score, mean_to_half, median};
use super::skill::{Criterion, Skill, Task};

/// Name of a model where none was asked.
const NO_MODEL: &str = "none";

/// One answer of a model; its quotes are known to be the work's.
#[derive(Clone, PartialEq, Eq)]
pub struct Sample {
    /// Every criterion of the skill once: score, feedback, quotes.
    pub criteria: Vec<(Criterion, Score, String, Vec<String>)>,
    /// Strengths.
    pub strengths: Vec<String>,
    /// Weaknesses.
    pub weaknesses: Vec<String>,
    /// Advice.
    pub suggestions: Vec<String>,
    /// The work speaks to whoever grades.
    pub injection: bool,
    /// The model that answered.
    pub model: String,
}

/// A work to be graded.
#[derive(Clone, PartialEq, Eq)]
pub struct Work {
    /// The text, or the transcript.
    pub text: String,
    /// The task of the text; none of a transcript.
    pub task: Option<Task>,
    /// The question.
    pub prompt: String,
    /// Texts that are known: whoever hands one in has not written it.
    pub known: Vec<String>,
    /// Words of the text.
    pub word_count: u32,
    /// Nobody speaks: no model has to be asked.
    pub no_speech: bool,
    /// A marker of an injection was found.
    pub injection: bool,
    /// A provider's score of pronunciation; without one it is estimated.
    pub pronunciation: Option<Score>,
}

/// The rules of a grade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Thresholds of the bands.
    pub bands: Bands,
    /// Thresholds of the review.
    pub thresholds: Thresholds,
    /// Percent of the sure ones that are looked at.
    pub spot_check: u8,
    /// These models, with this prompt and rubric, were measured.
    pub calibrated: bool,
    /// The prompt's version.
    pub prompt_version: String,
    /// The rubric's version.
    pub rubric_version: String,
    /// Of the work: draws the spot check.
    pub digest: [u8; 32],
}

/// A result, and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessed {
    /// The result.
    pub result: GradingResult,
    /// Parts of its confidence.
    pub parts: Parts,
    /// Faults of the work, each once.
    pub flags: Vec<Flag>,
    /// The routing to a person.
    pub routing: Routing,
    /// Each sample's score of the whole.
    pub overall: Vec<Score>,
}

/// Why samples make no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The skill is graded by a key.
    #[error("a key decides here, not a model")]
    Keyed,
    /// No sample, and somebody speaks.
    #[error("no sample to grade by")]
    NoSample,
    /// A sample has not every criterion of the skill once, or a score that is no multiple of 0.5.
    #[error("sample {sample} has not the skill's criteria, each once and by halves")]
    Criteria {
        /// Which, from 0.
        sample: usize,
    },
}

/// Makes a result of samples.
///
/// # Errors
/// [`Unfit`].
pub fn assess(skill: Skill, work: &Work, samples: &[Sample], rules: &Rules) -> Result<Assessed, Unfit> {
    if skill.is_keyed() {
        return Err(Unfit::Keyed);
    }
    if let Some(sample) = samples.iter().position(|sample| !sample.is_whole(skill)) {
        return Err(Unfit::Criteria { sample });
    }
    let overall: Vec<Score> = samples.iter().filter_map(Sample::overall).collect();
    let scores = scores(skill, work, samples).ok_or(Unfit::NoSample)?;
    let whole =
        mean_to_half(&scores.iter().map(|(_, score)| *score).collect::<Vec<_>>()).ok_or(Unfit::NoSample)?;
    let nearest =
        samples.iter().zip(&overall).min_by_key(|(_, of)| of.apart(whole)).map(|(sample, _)| sample);
    let is_estimated =
        |criterion: Criterion| criterion == Criterion::Pronunciation && work.pronunciation.is_none();
    let parts = parts(work, &overall);
    let estimated = scores.iter().any(|(criterion, _)| is_estimated(*criterion));
    let confidence = capped(parts.overall(), estimated);
    let flags = flags(work, samples);
    let routing = Routing::of(&Asked {
        confidence,
        flags: &flags,
        calibrated: rules.calibrated,
        thresholds: rules.thresholds,
        spot_check: rules.spot_check,
        digest: &rules.digest,
    });
    let said = |(criterion, score): &(Criterion, Score)| {
        let (feedback, evidence) = nearest.and_then(|sample| sample.said_of(*criterion)).unzip();
        CriterionScore {
            criterion: *criterion,
            score: *score,
            feedback: feedback.cloned().unwrap_or_default(),
            evidence: evidence.cloned().unwrap_or_default(),
            estimated: is_estimated(*criterion),
        }
    };
    let mut result = GradingResult {
        confidence,
        criteria_scores: scores.iter().map(said).collect(),
        feedback: nearest.map(Sample::feedback).unwrap_or_default(),
        review_required: routing.required,
        review_priority: routing.priority,
        audit_flag: routing.audit,
        model: models(samples),
        prompt_version: rules.prompt_version.clone(),
        ..bare(whole, rules)
    };
    fit(&mut result);
    Ok(Assessed { result, parts, flags, routing, overall })
}

/// Makes the result of a key: sure, and by nobody's opinion.
#[must_use]
pub fn keyed(marked: &Marked, rules: &Rules) -> GradingResult {
    bare(marked.score, rules)
}

fn bare(overall_score: Score, rules: &Rules) -> GradingResult {
    GradingResult {
        v: VERSION,
        overall_score,
        band: rules.bands.of(overall_score),
        confidence: 100,
        criteria_scores: Vec::new(),
        feedback: Feedback::default(),
        review_required: false,
        review_priority: None,
        grading_mode: GradingMode::Auto,
        audit_flag: false,
        is_late: false,
        indicative: true,
        model: String::new(),
        prompt_version: String::new(),
        rubric_version: rules.rubric_version.clone(),
    }
}

/// Each criterion's median. Where nobody speaks and no model was asked, nothing is worth anything.
fn scores(skill: Skill, work: &Work, samples: &[Sample]) -> Option<Vec<(Criterion, Score)>> {
    let silent = (samples.is_empty() && work.no_speech).then_some(Score::MIN);
    let score = |criterion: &Criterion| {
        let heard = work.pronunciation.filter(|_| *criterion == Criterion::Pronunciation && silent.is_none());
        let given: Vec<Score> = samples.iter().filter_map(|sample| sample.score_of(*criterion)).collect();
        let score = heard.and_then(|score| mean_to_half(&[score])).or_else(|| median(&given)).or(silent);
        score.map(|score| (*criterion, score))
    };
    if samples.is_empty() && silent.is_none() {
        return None;
    }
    skill.criteria().iter().map(score).collect()
}

fn parts(work: &Work, overall: &[Score]) -> Parts {
    let sources = std::iter::once(&work.prompt).chain(&work.known).map(String::as_str);
    Parts {
        consistency: confidence::consistency(overall),
        rules: work.task.map(|task| confidence::rules(&work.text, task)),
        originality: confidence::originality(&work.text, sources),
        length: work.task.map(|task| confidence::length(work.word_count, task)),
    }
}

fn flags(work: &Work, samples: &[Sample]) -> Vec<Flag> {
    let sources = || std::iter::once(&work.prompt).chain(&work.known);
    let stands = |flag: &Flag| match flag {
        Flag::Injection => work.injection || samples.iter().any(|sample| sample.injection),
        Flag::CopiedPrompt => sources().any(|source| confidence::is_copied(&work.text, source)),
        Flag::OtherLanguage => !confidence::is_english(&work.text),
        Flag::NoSpeech => work.no_speech,
    };
    Flag::ALL.iter().copied().filter(stands).collect()
}

/// Names of all models that answered, each once, as one plain name.
fn models(samples: &[Sample]) -> String {
    let mut names: Vec<&str> = samples.iter().map(|sample| sample.model.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let plain = |c: char| if super::is_plain_char(c) { c } else { '-' };
    let name: String = names.join(",").chars().map(plain).take(NAME_BYTES).collect();
    if name.is_empty() { NO_MODEL.to_owned() } else { name }
}

/// Cuts what is said until the result keeps its bounds: a model's wordiness must cost nobody the grade.
fn fit(result: &mut GradingResult) {
    for halved in 0..10 {
        for of in &mut result.criteria_scores {
            cut(&mut of.feedback, FEEDBACK_CHARS >> halved);
            cut_all(&mut of.evidence, MOST_EVIDENCE, EVIDENCE_CHARS >> halved);
        }
        let Feedback { strengths, weaknesses, suggestions } = &mut result.feedback;
        for list in [strengths, weaknesses, suggestions] {
            cut_all(list, MOST_ITEMS, ITEM_CHARS >> halved);
        }
        if result.canonical().len() <= MOST_BYTES {
            return;
        }
    }
}

fn cut_all(texts: &mut Vec<String>, most: usize, chars: usize) {
    for text in texts.iter_mut() {
        cut(text, chars);
    }
    texts.retain(|text| !text.trim().is_empty());
    texts.truncate(most);
}

fn cut(text: &mut String, chars: usize) {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
    }
}

impl Sample {
    fn is_whole(&self, skill: Skill) -> bool {
        let mut found: Vec<Criterion> = self.criteria.iter().map(|(criterion, ..)| *criterion).collect();
        found.sort_unstable();
        found == skill.criteria() && self.criteria.iter().all(|(_, score, ..)| score.is_half())
    }

    /// Its score of the whole: the mean of its criteria, to 0.5.
    #[must_use]
    pub fn overall(&self) -> Option<Score> {
        mean_to_half(&self.criteria.iter().map(|(_, score, ..)| *score).collect::<Vec<_>>())
    }

    fn score_of(&self, of: Criterion) -> Option<Score> {
        self.criteria.iter().find(|(criterion, ..)| *criterion == of).map(|(_, score, ..)| *score)
    }

    fn said_of(&self, of: Criterion) -> Option<(&String, &Vec<String>)> {
        let found = self.criteria.iter().find(|(criterion, ..)| *criterion == of);
        found.map(|(_, _, feedback, evidence)| (feedback, evidence))
    }

    fn feedback(&self) -> Feedback {
        Feedback {
            strengths: self.strengths.clone(),
            weaknesses: self.weaknesses.clone(),
            suggestions: self.suggestions.clone(),
        }
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scores: Vec<_> = self.criteria.iter().map(|(criterion, score, ..)| (criterion, score)).collect();
        f.debug_struct("Sample")
            .field("scores", &scores)
            .field("injection", &self.injection)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("task", &self.task)
            .field("word_count", &self.word_count)
            .field("no_speech", &self.no_speech)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "assess_tests.rs"]
mod tests;
