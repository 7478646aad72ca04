//! Tests of assess.rs.

use proptest::prelude::*;

use super::*;
use crate::grading::core::band::Band;
use crate::grading::core::review::Priority;

fn score(tenths: u8) -> Score {
    Score::from_tenths(tenths).expect("a score")
}

/// A sample of these scores, whose words are its name.
fn sample(skill: Skill, tenths: [u8; 4], name: &str) -> Sample {
    let one = |(criterion, tenths): (&Criterion, u8)| {
        (*criterion, score(tenths), name.to_owned(), vec![format!("quote {name}")])
    };
    Sample {
        criteria: skill.criteria().iter().zip(tenths).map(one).collect(),
        strengths: vec![name.to_owned()],
        weaknesses: Vec::new(),
        suggestions: Vec::new(),
        injection: false,
        model: name.to_owned(),
    }
}

/// An essay in English of three paragraphs, as long as it has to be.
fn essay() -> String {
    let words =
        ["river", "garden", "window", "teacher", "winter", "market", "doctor", "bridge", "summer", "music"];
    let sentence = |at: usize| {
        let (one, other) = (words[at % 10], words[(at * 3 + at / 10) % 10]);
        format!("In year {at} I think that the {one} and the {other} were good for all of us.")
    };
    let sentences: Vec<String> = (0..18).map(sentence).collect();
    sentences.chunks(6).map(|of| of.join(" ")).collect::<Vec<_>>().join("\n\n")
}

fn work() -> Work {
    Work {
        text: essay(),
        task: Some(Task::Essay),
        prompt: "Describe how technology changes education, and whether schools profit by it.".to_owned(),
        known: Vec::new(),
        word_count: 270,
        no_speech: false,
        injection: false,
        pronunciation: None,
    }
}

fn rules() -> Rules {
    Rules {
        bands: Bands::default(),
        thresholds: Thresholds::default(),
        spot_check: 0,
        calibrated: true,
        prompt_version: "writing-1".to_owned(),
        rubric_version: "1".to_owned(),
        digest: [0; 32],
    }
}

fn writing(samples: &[[u8; 4]]) -> Assessed {
    let names = ["one", "two", "three", "four"];
    let samples: Vec<_> =
        samples.iter().zip(names).map(|(of, name)| sample(Skill::Writing, *of, name)).collect();
    assess(Skill::Writing, &work(), &samples, &rules()).expect("fit")
}

#[test]
fn a_criterion_is_the_median_and_the_whole_is_ours() {
    let found = writing(&[[70, 70, 70, 70], [75, 70, 75, 70], [100, 0, 75, 75]]);
    let of: Vec<u8> = found.result.criteria_scores.iter().map(|it| it.score.tenths()).collect();
    assert_eq!((of, found.result.overall_score.tenths()), (vec![75, 70, 75, 70], 75)); // 7.25
    assert_eq!(found.overall, [score(70), score(75), score(65)]);
    assert_eq!((found.result.band, found.result.grading_mode), (Band::B2, GradingMode::Auto));
    assert!(found.result.indicative && !found.result.is_late);
    let two = writing(&[[70, 70, 70, 70], [75, 75, 75, 75]]);
    assert_eq!(two.result.overall_score.tenths(), 75, "an even number: the mean to a half");
}

#[test]
fn words_come_from_the_nearest_sample_alone() {
    let found = writing(&[[20, 20, 20, 20], [70, 70, 70, 70], [75, 75, 75, 75]]).result;
    assert_eq!(found.feedback.strengths, ["two"]);
    assert!(found.criteria_scores.iter().all(|it| it.feedback == "two" && it.evidence == ["quote two"]));
    assert_eq!(found.model, "one,three,two");
    let same = [sample(Skill::Writing, [70; 4], "one"), sample(Skill::Writing, [70; 4], "one")];
    assert_eq!(assess(Skill::Writing, &work(), &same, &rules()).expect("fit").result.model, "one");
}

#[test]
fn samples_that_agree_on_a_good_work_need_nobody() {
    let found = writing(&[[70; 4]; 3]);
    assert_eq!(
        found.parts,
        Parts { consistency: Some(100), rules: Some(100), originality: Some(100), length: Some(100) }
    );
    assert_eq!((found.result.confidence, found.result.review_required), (100, false));
    assert_eq!((found.flags.len(), found.result.review_priority), (0, None));
    let apart = writing(&[[20; 4], [70; 4], [100; 4]]);
    assert!(apart.result.confidence < 85 && apart.result.review_required);
}

#[test]
fn every_sign_is_a_flag_and_every_flag_is_critical() {
    let samples = [sample(Skill::Writing, [70; 4], "one"), sample(Skill::Writing, [70; 4], "two")];
    let mut injected = samples.clone();
    injected[1].injection = true;
    let vietnamese =
        "Ngày nay ngày càng có nhiều bạn trẻ chuyển đến thành phố lớn sau khi học xong. ".repeat(5);
    for (work, samples, flag) in [
        (work(), &injected, Flag::Injection),
        (Work { injection: true, ..work() }, &samples, Flag::Injection),
        (Work { prompt: essay(), ..work() }, &samples, Flag::CopiedPrompt),
        (Work { known: vec!["-".to_owned(), essay()], ..work() }, &samples, Flag::CopiedPrompt),
        (Work { text: vietnamese, ..work() }, &samples, Flag::OtherLanguage),
        (Work { no_speech: true, ..work() }, &samples, Flag::NoSpeech),
    ] {
        let found = assess(Skill::Writing, &work, samples, &rules()).expect("fit");
        assert_eq!(found.parts.originality == Some(100), flag != Flag::CopiedPrompt, "{flag}");
        assert_eq!(
            (found.flags, found.result.review_priority),
            (vec![flag], Some(Priority::Critical)),
            "{flag}"
        );
    }
}

#[test]
fn pronunciation_without_a_providers_score_is_estimated_and_heard_by_a_person() {
    let samples = [sample(Skill::Speaking, [80; 4], "one"), sample(Skill::Speaking, [80; 4], "two")];
    let spoken = Work { task: None, ..work() };
    let found = assess(Skill::Speaking, &spoken, &samples, &rules()).expect("fit");
    let estimated = |of: &Assessed| {
        of.result.criteria_scores.iter().filter(|it| it.estimated).map(|it| it.criterion).collect::<Vec<_>>()
    };
    assert_eq!(estimated(&found), [Criterion::Pronunciation]);
    assert_eq!((found.parts.rules, found.parts.length, found.parts.overall()), (None, None, 100));
    assert_eq!((found.result.confidence, found.result.review_priority), (84, Some(Priority::Medium)));
    let heard = Work { pronunciation: Some(score(52)), ..spoken };
    let found = assess(Skill::Speaking, &heard, &samples, &rules()).expect("fit");
    assert_eq!(
        (estimated(&found), found.result.confidence, found.result.review_required),
        (vec![], 100, false)
    );
    assert_eq!(found.result.criteria_scores[1].score.tenths(), 50);
}

#[test]
fn silence_is_worth_nothing_and_a_person_hears_it() {
    let silent = Work { text: String::new(), task: None, word_count: 0, no_speech: true, ..work() };
    let found = assess(Skill::Speaking, &silent, &[], &rules()).expect("fit");
    assert_eq!(
        (found.result.overall_score, found.result.review_priority),
        (Score::MIN, Some(Priority::Critical))
    );
    assert_eq!((found.result.confidence, found.result.model.as_str()), (0, NO_MODEL));
    assert_eq!(found.result.check(Skill::Speaking, &Bands::default()), Ok(()));
}

#[test]
fn samples_that_make_no_result() {
    let good = sample(Skill::Writing, [70; 4], "one");
    let (mut few, mut twice) = (good.clone(), good.clone());
    few.criteria.truncate(3);
    twice.criteria[1].0 = Criterion::TaskAchievement;
    let tenth = sample(Skill::Writing, [71, 70, 70, 70], "one");
    let spoken = sample(Skill::Speaking, [70; 4], "one");
    for bad in [few, twice, tenth, spoken] {
        let found = assess(Skill::Writing, &work(), &[good.clone(), bad], &rules());
        assert_eq!(found, Err(Unfit::Criteria { sample: 1 }));
    }
    assert_eq!(assess(Skill::Writing, &work(), &[], &rules()), Err(Unfit::NoSample));
    assert_eq!(assess(Skill::Reading, &work(), &[], &rules()), Err(Unfit::Keyed));
}

#[test]
fn a_keys_result_is_sure() {
    let result = keyed(&Marked { correct: 27, total: 40, score: score(68) }, &rules());
    assert_eq!((result.confidence, result.band, result.review_required), (100, Band::B2, false));
    assert_eq!(result.check(Skill::Listening, &Bands::default()), Ok(()));
}

#[test]
fn what_nobody_has_measured_is_reviewed_and_some_of_the_rest() {
    let samples = [sample(Skill::Writing, [70; 4], "one"), sample(Skill::Writing, [70; 4], "two")];
    let unmeasured = Rules { calibrated: false, ..rules() };
    let drawn = Rules { spot_check: 5, ..rules() };
    for (rules, audit) in [(unmeasured, false), (drawn, true)] {
        let found = assess(Skill::Writing, &work(), &samples, &rules).expect("fit").result;
        assert_eq!((found.review_priority, found.audit_flag), (Some(Priority::Medium), audit));
    }
}

#[test]
fn a_models_wordiness_costs_nobody_the_grade() {
    let mut wordy = sample(Skill::Writing, [70; 4], "a model of \"some\" name");
    for of in &mut wordy.criteria {
        (of.2, of.3) = ("\"ư".repeat(9000), vec!["ư".repeat(900); 9]);
    }
    wordy.criteria[0].3 = vec![" ".repeat(400), "quote".to_owned()];
    wordy.strengths = vec!["ư".repeat(900); 90];
    let result = assess(Skill::Writing, &work(), &[wordy], &rules()).expect("fit").result;
    assert_eq!(result.check(Skill::Writing, &Bands::default()), Ok(()));
    assert_eq!(
        (result.model.as_str(), &result.criteria_scores[0].evidence),
        ("a-model-of--some--name", &vec!["quote".to_owned()])
    );
}

#[test]
fn a_debug_print_repeats_no_text() {
    let printed = format!("{:?} {:?}", work(), sample(Skill::Writing, [70; 4], "WORDS"));
    assert!(!printed.contains("river") && !printed.contains("technology") && !printed.contains("WORDS"));
}

proptest! {
    #[test]
    fn every_result_keeps_every_rule(
        scores in prop::collection::vec(prop::array::uniform4(0_u8..=20), 1..5),
        speaking: bool, calibrated: bool, spot_check in 0_u8..=100, digest: [u8; 32],
        text in "(\\PC|\n){0,80}", word_count: u32, heard in prop::option::of(0_u8..=100),
    ) {
        let skill = if speaking { Skill::Speaking } else { Skill::Writing };
        let samples: Vec<Sample> = scores.iter().map(|of| sample(skill, of.map(|it| it * 5), &text)).collect();
        let task = (!speaking).then_some(Task::Email);
        let work = Work { text, task, word_count, pronunciation: heard.map(score), ..work() };
        let rules = Rules { calibrated, spot_check, digest, ..rules() };
        let found = assess(skill, &work, &samples, &rules).expect("fit");
        prop_assert_eq!(found.result.check(skill, &rules.bands), Ok(()));
        prop_assert!(calibrated || found.result.review_required);
    }
}
