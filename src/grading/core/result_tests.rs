//! Tests of result.rs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// A result that keeps every rule.
pub(in crate::grading::core) fn sample(skill: Skill, tenths: u8) -> GradingResult {
    let overall_score = Score::from_tenths(tenths).expect("a score");
    let one = |criterion: &Criterion| CriterionScore {
        criterion: *criterion,
        score: overall_score,
        feedback: "WORDS of feedback".to_owned(),
        evidence: vec!["WORDS of the work".to_owned()],
        estimated: *criterion == Criterion::Pronunciation,
    };
    GradingResult {
        v: VERSION,
        overall_score,
        band: Bands::default().of(overall_score),
        confidence: if skill.is_keyed() { 100 } else { 72 },
        criteria_scores: skill.criteria().iter().map(one).collect(),
        feedback: Feedback { strengths: vec!["WORDS".to_owned()], ..Feedback::default() },
        review_required: !skill.is_keyed(),
        review_priority: (!skill.is_keyed()).then_some(Priority::Medium),
        grading_mode: GradingMode::Auto,
        audit_flag: false,
        is_late: false,
        indicative: true,
        model: "model/large:1".to_owned(),
        prompt_version: "writing-3".to_owned(),
        rubric_version: "1".to_owned(),
    }
}

fn check(skill: Skill, change: impl FnOnce(&mut GradingResult)) -> Result<(), Broken> {
    let mut result = sample(skill, 70);
    change(&mut result);
    result.check(skill, &Bands::default())
}

#[test]
fn a_result_that_keeps_every_rule_passes() {
    for skill in Skill::ALL {
        assert_eq!(check(*skill, |_| {}), Ok(()), "{skill}");
    }
    assert_eq!(
        check(Skill::Reading, |it| (it.overall_score, it.model) =
            (Score::from_tenths(67).expect("a score"), String::new())),
        Ok(())
    );
    assert_eq!(check(Skill::Writing, |it| it.criteria_scores.reverse()), Ok(()), "in any order");
}

/// Each rule, and what breaks it alone.
type Breaks = (Broken, fn(&mut GradingResult));

#[test]
fn every_rule_is_enforced() {
    let score = |tenths| Score::from_tenths(tenths).expect("a score");
    assert_eq!(check(Skill::Writing, |it| it.overall_score = score(65)), Err(Broken::Overall));
    assert_eq!(check(Skill::Writing, |it| it.criteria_scores[0].score = score(71)), Err(Broken::Halves));
    let breaks: [Breaks; 19] = [
        (Broken::Version, |it| it.v = 2),
        (Broken::Confidence, |it| it.confidence = 101),
        (Broken::Criteria, |it| it.criteria_scores.truncate(3)),
        (Broken::Criteria, |it| it.criteria_scores.push(it.criteria_scores[0].clone())),
        (Broken::Criteria, |it| it.criteria_scores[0].criterion = Criterion::LexicalResource),
        (Broken::Criteria, |it| it.criteria_scores[0].criterion = Criterion::Fluency),
        (Broken::Band, |it| it.band = Band::B1),
        (Broken::Priority, |it| it.review_priority = None),
        (Broken::Priority, |it| it.review_required = false),
        (Broken::Review, |it| it.grading_mode = GradingMode::Human),
        (Broken::Estimated, |it| it.criteria_scores[0].estimated = true),
        (Broken::Bounds, |it| it.criteria_scores[0].feedback = "ư".repeat(2001)),
        (Broken::Bounds, |it| it.criteria_scores[0].evidence = vec!["a".to_owned(); 6]),
        (Broken::Bounds, |it| it.criteria_scores[0].evidence = vec!["ư".repeat(301)]),
        (Broken::Bounds, |it| it.criteria_scores[0].evidence = vec![" ".to_owned()]),
        (Broken::Bounds, |it| it.feedback.suggestions = vec![String::new(); 11]),
        (Broken::Names, |it| it.model = "a model".to_owned()),
        (Broken::Names, |it| it.prompt_version = String::new()),
        (Broken::Names, |it| it.rubric_version = "1".repeat(129)),
    ];
    for (at, (broken, change)) in breaks.into_iter().enumerate() {
        assert_eq!(check(Skill::Writing, change), Err(broken), "{at}");
    }
    for list in [0, 1, 2] {
        let too_long = |it: &mut GradingResult| {
            let of = &mut it.feedback;
            *[&mut of.strengths, &mut of.weaknesses, &mut of.suggestions][list] = vec!["ư".repeat(501)];
        };
        assert_eq!(check(Skill::Speaking, too_long), Err(Broken::Bounds));
    }
    let sure = |it: &mut GradingResult| it.confidence = 85;
    assert_eq!(check(Skill::Speaking, sure), Err(Broken::Estimated));
    assert_eq!(check(Skill::Listening, sure), Err(Broken::Confidence));
    let scored = sample(Skill::Writing, 70).criteria_scores;
    assert_eq!(check(Skill::Reading, |it| it.criteria_scores = scored), Err(Broken::Criteria));
    let long = |it: &mut GradingResult| {
        it.criteria_scores.iter_mut().for_each(|it| it.feedback = "ưx".repeat(1000));
        it.feedback.strengths = vec!["ưx".repeat(250); 10];
        it.feedback.weaknesses = it.feedback.strengths.clone();
        it.feedback.suggestions = it.feedback.strengths.clone();
    };
    assert_eq!(check(Skill::Writing, long), Err(Broken::TooLarge));
}

#[test]
fn a_persons_result_needs_no_model_and_is_a_mean_all_the_same() {
    let human = |it: &mut GradingResult| {
        (it.grading_mode, it.review_required, it.review_priority) = (GradingMode::Human, false, None);
        (it.model, it.prompt_version, it.confidence) = (String::new(), String::new(), 100);
    };
    assert_eq!(check(Skill::Speaking, human), Ok(()));
    let other = |it: &mut GradingResult| {
        human(it);
        it.overall_score = Score::from_tenths(65).expect("a score");
    };
    assert_eq!(check(Skill::Speaking, other), Err(Broken::Overall));
    let both = |it: &mut GradingResult| {
        other(it);
        it.grading_mode = GradingMode::Hybrid;
    };
    assert_eq!(check(Skill::Speaking, both), Ok(()));
}

#[test]
fn a_fault_and_a_debug_print_repeat_no_text() {
    let result = sample(Skill::Speaking, 70);
    assert!(!format!("{result:?} {:?}", result.feedback).contains("WORDS"));
    assert!(format!("{result:?}").contains("Pronunciation"));
}

#[test]
fn it_is_read_as_it_was_written_and_nothing_else_is() {
    let result = sample(Skill::Writing, 75);
    let written = serde_json::to_value(&result).expect("JSON");
    assert_eq!(serde_json::from_value::<GradingResult>(written.clone()).expect("a result"), result);
    assert_eq!((&written["overallScore"], &written["v"]), (&json!(7.5), &json!(1)));
    let keyed = serde_json::to_value(sample(Skill::Reading, 67)).expect("JSON");
    assert_eq!((&keyed["reviewPriority"], &keyed["overallScore"]), (&Value::Null, &json!(6.7)));
    for key in written.as_object().expect("an object").keys() {
        let mut without = written.clone();
        without.as_object_mut().expect("an object").remove(key);
        assert!(serde_json::from_value::<GradingResult>(without).is_err(), "{key} is missing");
    }
    for (at, value) in [
        ("/overallScore", json!("7.5")),
        ("/overallScore", json!(7.55)),
        ("/confidence", json!(-1)),
        ("/reviewPriority", json!("Low")),
        ("/feedback", json!([[], [], []])),
        ("/criteriaScores/0", json!(["fluency", 7, "", [], false])),
        ("/feedback/strengths", json!(null)),
    ] {
        let mut other = written.clone();
        *other.pointer_mut(at).expect("a member") = value;
        assert!(serde_json::from_value::<GradingResult>(other).is_err(), "{at}");
    }
    for at in ["", "/feedback", "/criteriaScores/0"] {
        let mut more = written.clone();
        more.pointer_mut(at)
            .and_then(Value::as_object_mut)
            .expect("an object")
            .insert("more".into(), json!(1));
        assert!(serde_json::from_value::<GradingResult>(more).is_err(), "{at}");
    }
}

#[test]
fn a_digest_is_of_all_of_it() {
    let result = sample(Skill::Writing, 75);
    assert_eq!((result.digest(), result.digest().len()), (result.clone().digest(), 64));
    let again: GradingResult = serde_json::from_slice(&result.canonical()).expect("a result");
    assert_eq!(again.digest(), result.digest());
    let other = GradingResult { rubric_version: "2".to_owned(), ..result.clone() };
    assert_ne!(other.digest(), result.digest());
}

fn keys(of: &Value) -> BTreeSet<String> {
    of.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn the_schema_is_the_documents() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let written = serde_json::to_value(sample(Skill::Speaking, 75)).expect("JSON");
    for (schema_at, document_at) in [
        ("", ""),
        ("/properties/feedback", "/feedback"),
        ("/properties/criteriaScores/items", "/criteriaScores/0"),
    ] {
        let of = schema.pointer(schema_at).expect("a schema");
        let required: BTreeSet<String> = of["required"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let document = keys(written.pointer(document_at).expect("a member"));
        assert_eq!((keys(&of["properties"]), required), (document.clone(), document), "{schema_at}");
    }
    let labels = |at: &str| {
        let of = schema.pointer(at).and_then(Value::as_array).expect("a list");
        of.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(labels("/properties/band/enum"), Band::ALL.iter().map(|it| it.label()).collect::<Vec<_>>());
    assert_eq!(
        labels("/properties/reviewPriority/enum"),
        Priority::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()
    );
    assert_eq!(
        labels("/properties/gradingMode/enum"),
        GradingMode::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()
    );
    assert_eq!(
        labels("/properties/criteriaScores/items/properties/criterion/enum"),
        Criterion::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()
    );
}

#[test]
fn the_schema_allows_nothing_additional_and_has_our_bounds() {
    fn objects(of: &Value) -> usize {
        let inner = match of {
            Value::Object(members) => members.values().map(objects).sum(),
            Value::Array(items) => items.iter().map(objects).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        };
        if of["type"] == "object" {
            assert_eq!(of["additionalProperties"], json!(false), "{of}");
            inner + 1
        } else {
            inner
        }
    }
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    assert_eq!(objects(&schema), 3);
    let criterion = "/properties/criteriaScores/items/properties";
    for (at, bound) in [
        (format!("{criterion}/feedback/maxLength"), FEEDBACK_CHARS),
        (format!("{criterion}/evidence/maxItems"), MOST_EVIDENCE),
        (format!("{criterion}/evidence/items/maxLength"), EVIDENCE_CHARS),
        ("/$defs/items/maxItems".to_owned(), MOST_ITEMS),
        ("/$defs/items/items/maxLength".to_owned(), ITEM_CHARS),
        ("/$defs/name/maxLength".to_owned(), NAME_BYTES),
        ("/properties/v/const".to_owned(), usize::from(VERSION)),
    ] {
        assert_eq!(schema.pointer(&at), Some(&json!(bound)), "{at}");
    }
}
