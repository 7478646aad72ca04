//! The final result, of the grader's and a person's. Pure.
//!
//! Where they agree, both count; where they do not, the person is right, and the difference is marked for an audit: it is
//! what calibration drifts by.

use super::band::{Bands, steps};
use super::result::{CriterionScore, Feedback, GradingMode, GradingResult, VERSION};
use super::score::{Score, to_half};
use crate::kernel::words;

/// Farthest that scores which agree are apart, in tenths.
const AGREED_TENTHS: u8 = 5;
/// Farthest that their bands are apart, in steps.
const AGREED_STEPS: u8 = 1;

words! {
    /// How a final result is made.
    Merge {
        /// 0.4 of the grader's and 0.6 of the person's, where they agree.
        Weighted = "weighted",
        /// The person's, always.
        Human = "human",
    }
}

/// Whether the grader and a person agree.
#[must_use]
pub fn agree(ai: &GradingResult, human: &GradingResult) -> bool {
    ai.overall_score.apart(human.overall_score).tenths() <= AGREED_TENTHS
        && steps(ai.band, human.band) <= AGREED_STEPS
}

/// 0.4 of the grader's score and 0.6 of the person's, rounded half up to 0.5.
#[must_use]
pub fn weighed(ai: Score, human: Score) -> Score {
    to_half(4 * u64::from(ai.tenths()) + 6 * u64::from(human.tenths()), 10).unwrap_or(human)
}

/// Makes the final result. Each criterion is the person's where the person gave it. What is said of the whole is the person's,
/// too; where they agree, a list that the person left empty is the grader's. The band is that of the score, nobody has to
/// look at it any more, and it is marked for an audit where the two do not agree, however it is made.
#[must_use]
pub fn merge(ai: &GradingResult, human: &GradingResult, how: Merge, bands: &Bands) -> GradingResult {
    let agreed = agree(ai, human);
    let both = match how {
        Merge::Weighted => agreed,
        Merge::Human => false,
    };
    let overall_score =
        if both { weighed(ai.overall_score, human.overall_score) } else { human.overall_score };
    let named = if both { ai } else { human };
    GradingResult {
        v: VERSION,
        overall_score,
        band: bands.of(overall_score),
        confidence: named.confidence,
        criteria_scores: criteria(ai, human),
        feedback: if agreed { filled(&ai.feedback, &human.feedback) } else { human.feedback.clone() },
        review_required: false,
        review_priority: None,
        grading_mode: if both { GradingMode::Hybrid } else { GradingMode::Human },
        audit_flag: !agreed,
        is_late: false,
        indicative: ai.indicative || human.indicative,
        model: named.model.clone(),
        prompt_version: named.prompt_version.clone(),
        rubric_version: human.rubric_version.clone(),
    }
}

fn criteria(ai: &GradingResult, human: &GradingResult) -> Vec<CriterionScore> {
    let is_given = |of: &CriterionScore| human.criteria_scores.iter().any(|it| it.criterion == of.criterion);
    let left = ai.criteria_scores.iter().filter(|of| !is_given(of));
    let mut all: Vec<CriterionScore> = human.criteria_scores.iter().chain(left).cloned().collect();
    all.sort_by_key(|it| it.criterion);
    all
}

fn filled(ai: &Feedback, human: &Feedback) -> Feedback {
    let list =
        |ai: &Vec<String>, human: &Vec<String>| if human.is_empty() { ai.clone() } else { human.clone() };
    Feedback {
        strengths: list(&ai.strengths, &human.strengths),
        weaknesses: list(&ai.weaknesses, &human.weaknesses),
        suggestions: list(&ai.suggestions, &human.suggestions),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grading::core::result::tests::sample;
    use crate::grading::core::skill::{Criterion, Skill};

    fn human(skill: Skill, tenths: u8) -> GradingResult {
        let mut result = sample(skill, tenths);
        (result.grading_mode, result.review_required, result.review_priority) =
            (GradingMode::Human, false, None);
        (result.confidence, result.model, result.prompt_version) = (100, String::new(), String::new());
        result
            .criteria_scores
            .iter_mut()
            .for_each(|it| (it.estimated, it.feedback) = (false, "human's".to_owned()));
        result.feedback = Feedback { weaknesses: vec!["human's".to_owned()], ..Feedback::default() };
        result
    }

    fn merged(ai: u8, person: u8, how: Merge) -> GradingResult {
        merge(&sample(Skill::Speaking, ai), &human(Skill::Speaking, person), how, &Bands::default())
    }

    #[test]
    fn both_count_where_they_agree_and_the_person_where_not() {
        for (ai, person, score, mode, audit) in [
            (70, 70, 70, GradingMode::Hybrid, false),
            (70, 75, 75, GradingMode::Hybrid, false), // 7.3
            (75, 70, 70, GradingMode::Hybrid, false), // 7.2
            (55, 60, 60, GradingMode::Hybrid, false), // one step
            (70, 80, 80, GradingMode::Human, true),
            (80, 70, 70, GradingMode::Human, true),
            (0, 100, 100, GradingMode::Human, true),
        ] {
            let found = merged(ai, person, Merge::Weighted);
            let told = (found.overall_score.tenths(), found.grading_mode, found.audit_flag);
            assert_eq!(told, (score, mode, audit), "{ai} {person}");
            let kept = merged(ai, person, Merge::Human);
            let told = (kept.overall_score.tenths(), kept.grading_mode, kept.audit_flag);
            assert_eq!(told, (person, GradingMode::Human, audit), "{ai} {person}");
        }
    }

    #[test]
    fn two_steps_are_no_agreement_however_near_the_scores() {
        let narrow = Bands { b2: Score::from_tenths(61).expect("a score"), ..Bands::default() };
        let tight = Bands { b1: Score::from_tenths(58).expect("a score"), ..narrow };
        let (mut ai, mut person) = (sample(Skill::Writing, 55), human(Skill::Writing, 60));
        assert!(agree(&ai, &person));
        (ai.band, person.band) =
            (tight.of(ai.overall_score), tight.of(Score::from_tenths(61).expect("a score")));
        assert!(!agree(&ai, &person));
    }

    #[test]
    fn weights_are_four_and_six_and_half_goes_up() {
        for (ai, person, expected) in
            [(0, 100, 60), (100, 0, 40), (67, 70, 70), (75, 70, 70), (50, 58, 55), (57, 58, 60)]
        {
            let score = |tenths| Score::from_tenths(tenths).expect("a score");
            assert_eq!(weighed(score(ai), score(person)).tenths(), expected, "{ai} {person}");
        }
    }

    #[test]
    fn criteria_are_the_persons_where_given() {
        let (ai, mut person) = (sample(Skill::Speaking, 70), human(Skill::Speaking, 75));
        person.criteria_scores.retain(|it| it.criterion == Criterion::Pronunciation);
        let found = merge(&ai, &person, Merge::Weighted, &Bands::default());
        let of: Vec<_> =
            found.criteria_scores.iter().map(|it| (it.criterion, it.score.tenths(), it.estimated)).collect();
        let expected = [
            (Criterion::Fluency, 70, false),
            (Criterion::Pronunciation, 75, false),
            (Criterion::Content, 70, false),
            (Criterion::Vocabulary, 70, false),
        ];
        assert_eq!(of, expected);
    }

    #[test]
    fn what_is_said_of_the_whole_is_the_persons() {
        let agreed = merged(70, 75, Merge::Weighted).feedback;
        assert_eq!((agreed.strengths.len(), agreed.weaknesses), (1, vec!["human's".to_owned()]));
        let not = merged(30, 75, Merge::Weighted).feedback;
        assert_eq!(
            (not.strengths.len(), not.weaknesses.len()),
            (0, 1),
            "nothing of a grade that does not count"
        );
    }

    proptest! {
        #[test]
        fn a_final_result_keeps_every_rule(ai in 0_u8..=20, person in 0_u8..=20, skill in 0_usize..2, how in 0_usize..2) {
            let (skill, how) = (Skill::ALL[skill], Merge::ALL[how]);
            let found = merge(&sample(skill, ai * 5), &human(skill, person * 5), how, &Bands::default());
            prop_assert_eq!(found.check(skill, &Bands::default()), Ok(()));
            prop_assert!(!found.review_required && !found.is_late && found.indicative);
        }
    }
}
