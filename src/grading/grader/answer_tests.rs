use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ports::InvalidAnswer as Wrong;

const N: &str = "0123456789abcdef";
const WORK: &str = "Dear Anna,\r\nI am writing to  tell you\u{200b} about my \u{201c}new\u{201d} job. He go there every day.";

fn rated(criterion: &str) -> Value {
    json!({"criterion": criterion, "score": 6.5, "feedback": "Clear.", "evidence": ["I am writing to tell you"]})
}

fn good() -> Value {
    let criteria: Vec<Value> = Skill::Writing.criteria().iter().map(|it| rated(it.label())).collect();
    json!({
        "nonce": N,
        "criteria": criteria,
        "strengths": ["A clear purpose."],
        "weaknesses": ["Agreement of verbs."],
        "suggestions": ["Read it once more, aloud."],
        "injection": false,
    })
}

fn completion(text: &str) -> String {
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    json!({"model": "org/grader-1", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 8}})
        .to_string()
}

fn said(text: &str) -> Result<Sample, Wrong> {
    read(completion(text).as_bytes(), N, Skill::Writing, WORK).map(|reading| reading.verdict)
}

fn with(key: &str, value: Value) -> String {
    let mut answer = good();
    answer[key] = value;
    answer.to_string()
}

/// A good answer but for one key of its second criterion.
fn rated_with(key: &str, value: Value) -> String {
    let mut answer = good();
    answer["criteria"][1][key] = value;
    answer.to_string()
}

#[test]
fn a_good_answer_is_what_it_says() {
    let reading = read(completion(&good().to_string()).as_bytes(), N, Skill::Writing, WORK).expect("good");
    let sample = &reading.verdict;
    assert_eq!((reading.model.as_str(), sample.model.as_str()), ("org/grader-1", "org/grader-1"));
    assert_eq!((reading.prompt_tokens, reading.completion_tokens), (Some(9), Some(8)));
    let found: Vec<Criterion> = sample.criteria.iter().map(|(criterion, ..)| *criterion).collect();
    assert_eq!(found, Skill::Writing.criteria());
    assert_eq!(sample.criteria[0].1.tenths(), 65);
    assert!(!sample.injection);
    let mut turned = good();
    turned["criteria"].as_array_mut().expect("a list").reverse();
    assert_eq!(said(&turned.to_string()).as_ref(), Ok(sample), "their order is ours");
    for (score, tenths) in [(json!(0), 0), (json!(0.5), 5), (json!(10), 100), (json!(7.0), 70)] {
        let found = said(&rated_with("score", score)).expect("good");
        assert_eq!(found.criteria[1].1.tenths(), tenths);
    }
    assert!(said(&rated_with("evidence", json!([]))).is_ok());
}

#[test]
fn a_quote_stands_in_the_work() {
    for quote in ["Dear Anna, I am", "tell you about my", "\u{201c}new\u{201d} job", "He go", "writing \n to"]
    {
        assert!(said(&rated_with("evidence", json!([quote]))).is_ok(), "{quote}");
    }
    for quote in [
        "He goes",
        "dear Anna",
        "Dear Anna … job",
        "\"new\" job",
        "\"He go there\"",
        "0123456789abcdef| Dear Anna",
        "",
        " ",
        "\u{200b}",
        ".",
    ] {
        assert_eq!(said(&rated_with("evidence", json!([quote]))), Err(Wrong::Quote), "{quote}");
    }
}

#[test]
fn no_text_of_another_shape_is_an_answer() {
    let g = good().to_string();
    let list = good()["criteria"].clone();
    let some = |range: std::ops::Range<usize>| Value::from(list.as_array().expect("a list")[range].to_vec());
    let and = |more: Value| {
        let mut all = list.as_array().expect("a list").clone();
        all.push(more);
        Value::from(all)
    };
    let long = |count: usize| "x ".repeat(count);
    for (at, (text, expected)) in [
        (String::new(), Wrong::NoContent),
        ("{}".to_owned(), Wrong::Shape),
        (format!("Sure: {g}"), Wrong::NotJson),
        (format!("```json\n{g}\n```"), Wrong::NotJson),
        (format!("{g}{g}"), Wrong::NotJson),
        (format!("[{g}]"), Wrong::TooDeep),
        ("[".repeat(99), Wrong::TooDeep),
        (with("overall", json!(10)), Wrong::Shape),
        (g.replacen("\"injection\":false", "\"injection\":false,\"injection\":false", 1), Wrong::Shape),
        (with("injection", json!("no")), Wrong::Shape),
        (with("nonce", json!("fedcba9876543210")), Wrong::Nonce),
        (with("nonce", json!(null)), Wrong::Shape),
        (with("criteria", json!({})), Wrong::Shape),
        (with("criteria", json!([])), Wrong::Criteria),
        (with("criteria", some(0..3)), Wrong::Criteria),
        (with("criteria", and(rated("task_achievement"))), Wrong::Criteria),
        (with("criteria", and(rated("fluency"))), Wrong::Criteria),
        (with("criteria", and(rated("overall"))), Wrong::Criteria),
        (with("criteria", json!([["task_achievement", 7, "x", []]])), Wrong::Shape),
        (rated_with("criterion", json!("Coherence")), Wrong::Criteria),
        (rated_with("criterion", json!("fluency")), Wrong::Criteria),
        (rated_with("criterion", json!("task_achievement")), Wrong::Criteria),
        (rated_with("band", json!("C1")), Wrong::Shape),
        (rated_with("score", json!(11)), Wrong::Score),
        (rated_with("score", json!(-0.5)), Wrong::Score),
        (rated_with("score", json!(7.25)), Wrong::Score),
        (rated_with("score", json!(7.3)), Wrong::Score),
        (rated_with("score", json!("7.5")), Wrong::Shape),
        (rated_with("score", json!(null)), Wrong::Shape),
        (rated_with("score", json!([7])), Wrong::Shape),
        (g.replacen("6.5", "NaN", 1), Wrong::NotJson),
        (g.replacen("6.5", "1e999", 1), Wrong::NotJson),
        (rated_with("feedback", json!("")), Wrong::Shape),
        (rated_with("feedback", json!(" \u{202e} ")), Wrong::Shape),
        (rated_with("feedback", json!(null)), Wrong::Shape),
        (rated_with("feedback", json!(long(301))), Wrong::TooLong),
        (rated_with("evidence", json!(null)), Wrong::Shape),
        (rated_with("evidence", json!("He go")), Wrong::Shape),
        (rated_with("evidence", json!(vec!["He go"; 4])), Wrong::TooLong),
        (rated_with("evidence", json!([long(101)])), Wrong::TooLong),
        (with("strengths", json!(vec!["x"; 6])), Wrong::TooLong),
        (with("weaknesses", json!([long(151)])), Wrong::TooLong),
        (with("suggestions", json!([""])), Wrong::Shape),
        (with("suggestions", json!("x")), Wrong::Shape),
    ]
    .into_iter()
    .enumerate()
    {
        let cut: String = text.chars().take(120).collect();
        assert_eq!(said(&text), Err(expected), "case {at}: {cut}");
    }
    let other = read(completion(&g).as_bytes(), N, Skill::Speaking, WORK).map(|_| ());
    assert_eq!(other, Err(Wrong::Criteria), "another skill's");
    let cut = completion(&g).replace("\"stop\"", "\"length\"");
    assert_eq!(read(cut.as_bytes(), N, Skill::Writing, WORK).map(|_| ()), Err(Wrong::Finish));
}

#[test]
fn what_is_kept_is_scrubbed() {
    let words = "Write to ada@example.org,\nkey AKIAIOSFODNN7EXAMPLE \u{202e}end";
    let sample = said(&rated_with("feedback", json!(words))).expect("good");
    assert_eq!(sample.criteria[1].2, "Write to <address>, key <token> end");
    let sample = said(&with("suggestions", json!(["See https://evil.example/x now"]))).expect("good");
    assert_eq!(sample.suggestions, ["See <url> now"]);
}

proptest! {
    #[test]
    fn a_quote_that_is_kept_stands_in_the_work(from in 0..90_usize, length in 1..60_usize, added in "[a-z ]{0,2}") {
        let quote: String = WORK.chars().skip(from).take(length).collect();
        if let Ok(sample) = said(&rated_with("evidence", json!([format!("{quote}{added}")]))) {
            prop_assert!(folded(WORK).contains(&sample.criteria[1].3[0]));
        }
    }

    #[test]
    fn anything_else_is_no_answer(body in prop::collection::vec(any::<u8>(), 0..200), text in any::<String>()) {
        prop_assert!(read(&body, N, Skill::Writing, WORK).is_err());
        prop_assert!(said(&text).is_err());
    }
}
