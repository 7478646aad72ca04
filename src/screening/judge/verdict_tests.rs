use serde_json::{Map, Value, json};

use super::*;
use crate::ports::InvalidAnswer as Wrong;

pub(super) const N: &str = "0123456789abcdef";
pub(super) const PLACES: [&str; 3] = ["message", "scripts/ü.sh", "evil\u{202e}place"];

fn concern() -> Value {
    json!({"code": "spam", "severity": "low", "place": "message:3", "note": "Sells something."})
}

pub(super) fn good() -> Value {
    json!({"nonce": N, "score": 92, "concerns": [concern()], "injection": false})
}

fn completion(text: &str) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "org/judge-1:free",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": null, "tool_calls": [], "audio": null},
            "logprobs": null,
            "finish_reason": "stop",
            "stop_reason": null,
        }],
        "usage": {"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": 730},
    })
}

fn said_in(body: &Value) -> Result<Reading<Verdict>, Wrong> {
    read(body.to_string().as_bytes(), N, &PLACES)
}

pub(super) fn said(text: &str) -> Result<Verdict, Wrong> {
    said_in(&completion(text)).map(|reading| reading.verdict)
}

/// A good answer but for one key.
fn with(key: &str, value: &Value) -> String {
    let mut answer = good();
    answer[key] = value.clone();
    answer.to_string()
}

/// One concern, good but for one key.
fn with_concern(key: &str, value: &Value) -> String {
    let mut concern = concern();
    concern[key] = value.clone();
    with("concerns", &json!([concern]))
}

fn without(from: &Value, key: &str) -> Value {
    let kept = from.as_object().into_iter().flatten().filter(|(name, _)| *name != key);
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
}

#[test]
fn a_good_answer_is_what_it_says() {
    let reading = said_in(&completion(&good().to_string())).expect("good");
    assert_eq!(reading.model, "org/judge-1:free");
    assert_eq!((reading.prompt_tokens, reading.completion_tokens), (Some(700), Some(30)));
    let Verdict { score, concerns, injection } = reading.verdict;
    assert_eq!((score.get(), injection), (92, false));
    let [Concern { code: Code::Spam, severity: Severity::Low, place, note }] = &concerns[..] else {
        panic!("{concerns:?}")
    };
    assert_eq!((place.as_str(), note.as_str()), ("message:3", "Sells something."));
    for score in [0, 1, 59, 60, 79, 80, 99, 100] {
        assert_eq!(said(&with("score", &json!(score))).expect("good").score.get(), score);
    }
    assert!(said(&format!(" \n{:#}\r\n\t", good())).is_ok(), "white space is no text");
    assert!(said(&with("concerns", &json!([]))).expect("good").concerns.is_empty());
    assert_eq!(said(&with("concerns", &json!(vec![concern(); 10]))).expect("good").concerns.len(), 10);
    let uncounted = without(&completion(&good().to_string()), "usage");
    assert_eq!(said_in(&uncounted).expect("good").prompt_tokens, None);
}

#[test]
fn no_text_of_another_shape_is_an_answer() {
    let g = good().to_string();
    let inner = &g[1..g.len() - 1];
    let fields: Vec<Value> = vec![json!(N), json!(92), json!([]), json!(false)];
    let deep = format!(
        "{{\"nonce\":\"{N}\",\"score\":92,\"injection\":false,\"concerns\":{}{}}}",
        "[".repeat(40),
        "]".repeat(40)
    );
    let cases: Vec<(String, Wrong)> = vec![
        // The document.
        (String::new(), Wrong::NoContent),
        (" ".to_owned(), Wrong::NotJson),
        ("null".to_owned(), Wrong::Shape),
        ("92".to_owned(), Wrong::Shape),
        ("\"92\"".to_owned(), Wrong::Shape),
        ("true".to_owned(), Wrong::Shape),
        ("[]".to_owned(), Wrong::Shape),
        ("{}".to_owned(), Wrong::Shape),
        ("{".to_owned(), Wrong::NotJson),
        (format!("[{g}]"), Wrong::Shape),
        (json!(fields).to_string(), Wrong::Shape),
        (json!(g).to_string(), Wrong::Shape),
        (json!({"answer": good()}).to_string(), Wrong::Shape),
        (format!("Sure: {g}"), Wrong::NotJson),
        (format!("{g} I hope this helps."), Wrong::NotJson),
        (format!("```json\n{g}\n```"), Wrong::NotJson),
        (format!("<think>fine</think>{g}"), Wrong::NotJson),
        (format!("{g}{g}"), Wrong::NotJson),
        (format!("{g}\n{g}"), Wrong::NotJson),
        (format!("{g},"), Wrong::NotJson),
        (format!("\u{feff}{g}"), Wrong::NotJson),
        (format!("\u{a0}{g}"), Wrong::NotJson),
        (format!("// fine\n{g}"), Wrong::NotJson),
        (g[..g.len() - 1].to_owned(), Wrong::NotJson),
        (g[..g.len() / 2].to_owned(), Wrong::NotJson),
        (format!("{{{inner},}}"), Wrong::NotJson),
        (g.replace('"', "'"), Wrong::NotJson),
        (g.replace("\"score\"", "score"), Wrong::NotJson),
        (deep, Wrong::TooDeep),
        (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), Wrong::TooLong),
        (with("concerns", &json!(vec!["x".repeat(100); 1000])), Wrong::TooLong),
        // Keys.
        (without(&good(), "nonce").to_string(), Wrong::Shape),
        (without(&good(), "score").to_string(), Wrong::Shape),
        (without(&good(), "concerns").to_string(), Wrong::Shape),
        (without(&good(), "injection").to_string(), Wrong::Shape),
        (with("verdict", &json!("approve")), Wrong::Shape),
        (with("Score", &json!(92)), Wrong::Shape),
        (with("", &json!(null)), Wrong::Shape),
        (format!("{{\"score\":40,{inner}}}"), Wrong::Shape),
        (format!("{{{inner},\"score\":92}}"), Wrong::Shape),
        (format!("{{{inner},\"sc\\u006fre\":92}}"), Wrong::Shape),
        (format!("{{{inner},\"nonce\":\"{N}\"}}"), Wrong::Shape),
        (format!("{{{inner},\"injection\":false}}"), Wrong::Shape),
        (format!("{{{inner},\"concerns\":[]}}"), Wrong::Shape),
        // Nonce.
        (with("nonce", &json!("")), Wrong::Nonce),
        (with("nonce", &json!("0123456789abcdeF")), Wrong::Nonce),
        (with("nonce", &json!(" 0123456789abcdef")), Wrong::Nonce),
        (with("nonce", &json!("0123456789abcdef0")), Wrong::Nonce),
        (with("nonce", &json!(null)), Wrong::Shape),
        (with("nonce", &json!([N])), Wrong::Shape),
        (with("nonce", &json!(123)), Wrong::Shape),
        // Score.
        (with("score", &json!(101)), Wrong::Score),
        (with("score", &json!(-1)), Wrong::Score),
        (with("score", &json!(256 + 92)), Wrong::Score),
        (with("score", &json!(i64::MIN)), Wrong::Score),
        (with("score", &json!(u64::MAX)), Wrong::Shape),
        (with("score", &json!(92.0)), Wrong::Shape),
        (with("score", &json!(91.9)), Wrong::Shape),
        (with("score", &json!("92")), Wrong::Shape),
        (with("score", &json!("92/100")), Wrong::Shape),
        (with("score", &json!(null)), Wrong::Shape),
        (with("score", &json!(true)), Wrong::Shape),
        (with("score", &json!([92])), Wrong::Shape),
        (with("score", &json!({"value": 92})), Wrong::Shape),
        (g.replace("92", "NaN"), Wrong::NotJson),
        (g.replace("92", "Infinity"), Wrong::NotJson),
        (g.replace("92", "9.2e1"), Wrong::Shape),
        (g.replace("92", "92e0"), Wrong::Shape),
        (g.replace("92", "-0"), Wrong::Shape),
        (g.replace("92", "092"), Wrong::NotJson),
        (g.replace("92", "+92"), Wrong::NotJson),
        (g.replace("92", "0x5c"), Wrong::NotJson),
        (g.replace("92", "1e999"), Wrong::NotJson),
        (g.replace("92", ""), Wrong::NotJson),
        // Injection.
        (with("injection", &json!("false")), Wrong::Shape),
        (with("injection", &json!(0)), Wrong::Shape),
        (with("injection", &json!(null)), Wrong::Shape),
        (g.replace("false", "False"), Wrong::NotJson),
        // Concerns.
        (with("concerns", &json!(null)), Wrong::Shape),
        (with("concerns", &json!({})), Wrong::Shape),
        (with("concerns", &json!("none")), Wrong::Shape),
        (with("concerns", &json!(["spam"])), Wrong::Shape),
        (with("concerns", &json!([["spam", "low", "message", "x"]])), Wrong::Shape),
        (with("concerns", &json!([null])), Wrong::Shape),
        (with("concerns", &json!(vec![concern(); 11])), Wrong::Concerns),
        (with("concerns", &json!([without(&concern(), "note")])), Wrong::Shape),
        (with("concerns", &json!([without(&concern(), "code")])), Wrong::Shape),
        (with_concern("extra", &json!(1)), Wrong::Shape),
        (with_concern("code", &json!("fine")), Wrong::Shape),
        (with_concern("code", &json!("Spam")), Wrong::Shape),
        (with_concern("code", &json!("")), Wrong::Shape),
        (with_concern("code", &json!(null)), Wrong::Shape),
        (with_concern("code", &json!({"spam": null})), Wrong::Shape),
        (with_concern("severity", &json!("critical")), Wrong::Shape),
        (with_concern("severity", &json!(3)), Wrong::Shape),
        (with_concern("note", &json!(null)), Wrong::Shape),
        (with_concern("note", &json!(["x"])), Wrong::Shape),
        (with_concern("place", &json!(3)), Wrong::Shape),
        (with_concern("place", &json!("message\u{7}")), Wrong::Place),
        (with_concern("place", &json!("<b>message</b>")), Wrong::Place),
        (with_concern("place", &json!("a\nb")), Wrong::Place),
        (with_concern("place", &json!("x".repeat(201))), Wrong::Place),
        (with_concern("place", &json!("«message»")), Wrong::Place),
        (g.replace("Sells something.", "\\ud800"), Wrong::NotJson),
        (g.replace("Sells something.", "a\u{1}b"), Wrong::NotJson),
    ];
    assert!(cases.len() >= 100, "{}", cases.len());
    for (at, (text, expected)) in cases.iter().enumerate() {
        let cut: String = text.chars().take(120).collect();
        assert_eq!(said(text), Err(*expected), "case {at}: {cut}");
    }
}

#[test]
fn no_other_completion_has_an_answer() {
    let good = completion(&good().to_string());
    let changed = |pointer: &str, value: Value| {
        let mut body = good.clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        body.pointer_mut(parent).expect("there")[key] = value;
        body.to_string()
    };
    let text = good.to_string();
    let choice = good["choices"][0].clone();
    let call = json!([{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let message = "/choices/0/message";
    let cases = [
        (String::new(), Wrong::Envelope),
        ("<html>".to_owned(), Wrong::Envelope),
        ("[]".to_owned(), Wrong::Envelope),
        ("{}".to_owned(), Wrong::Envelope),
        (json!({"error": {"message": "x"}}).to_string(), Wrong::Envelope),
        (format!("data: {text}\n\ndata: [DONE]\n\n"), Wrong::Envelope),
        (format!("{text}{text}"), Wrong::Envelope),
        (text[..text.len() - 2].to_owned(), Wrong::Envelope),
        (text.replace("\"model\"", "\"model\":\"other\",\"model\""), Wrong::Envelope),
        (text.replace("\"content\"", "\"content\":\"x\",\"content\""), Wrong::Envelope),
        (text.replace("\"choices\"", "\"choices\":[],\"choices\""), Wrong::Envelope),
        (without(&good, "choices").to_string(), Wrong::Envelope),
        (changed("/choices", json!(null)), Wrong::Envelope),
        (changed("/choices", json!({"0": choice})), Wrong::Envelope),
        (changed("/choices", json!([["stop", choice["message"]]])), Wrong::Envelope),
        (changed("/choices", json!([])), Wrong::Choices),
        (changed("/choices", json!([choice, choice])), Wrong::Choices),
        (
            changed(
                "/extra",
                serde_json::from_str(&format!("{}{}", "[".repeat(40), "]".repeat(40))).expect("JSON"),
            ),
            Wrong::TooDeep,
        ),
        (without(&good, "model").to_string(), Wrong::Envelope),
        (changed("/model", json!("")), Wrong::Model),
        (changed("/model", json!("two words")), Wrong::Model),
        (changed("/model", json!("m".repeat(129))), Wrong::Model),
        (changed("/model", json!(null)), Wrong::Envelope),
        (changed("/usage", json!("many")), Wrong::Envelope),
        (changed("/usage", json!({"prompt_tokens": -1})), Wrong::Envelope),
        (changed("/choices/0/finish_reason", json!("length")), Wrong::Finish),
        (changed("/choices/0/finish_reason", json!("content_filter")), Wrong::Finish),
        (changed("/choices/0/finish_reason", json!("tool_calls")), Wrong::Finish),
        (changed("/choices/0/finish_reason", json!("STOP")), Wrong::Finish),
        (changed("/choices/0/finish_reason", json!(null)), Wrong::Finish),
        (changed(&format!("{message}/tool_calls"), call), Wrong::ToolCall),
        (changed(&format!("{message}/function_call"), json!({"name": "f"})), Wrong::ToolCall),
        (changed(&format!("{message}/refusal"), json!("I cannot")), Wrong::Refusal),
        (changed(&format!("{message}/role"), json!("user")), Wrong::Envelope),
        (changed(&format!("{message}/content"), json!(null)), Wrong::NoContent),
        (changed(&format!("{message}/content"), json!("")), Wrong::NoContent),
        (changed(&format!("{message}/content"), json!([{"type": "text", "text": "x"}])), Wrong::Envelope),
        (changed(&format!("{message}/content"), json!({"nonce": N, "score": 92})), Wrong::Envelope),
        (changed(message, json!(null)), Wrong::Envelope),
    ];
    for (at, (body, expected)) in cases.iter().enumerate() {
        let found = read(body.as_bytes(), N, &PLACES).map(|reading| reading.verdict);
        assert_eq!(found, Err(*expected), "case {at}");
    }
    assert_eq!(read(b"\xff{}", N, &PLACES).map(|_| ()), Err(Wrong::Envelope));
    assert!(read(text.as_bytes(), N, &PLACES).is_ok());
}

#[test]
fn a_place_is_one_that_was_asked_about_or_elsewhere() {
    for (place, expected) in [
        ("message", "message"),
        ("message:12", "message:12"),
        ("message:12-15", "message:12-15"),
        ("scripts/ü.sh:3", "scripts/ü.sh:3"),
        ("message:12345678901234567890", ELSEWHERE),
        ("evil\u{202e}place", ELSEWHERE),
        ("AKIAIOSFODNN7EXAMPLE", ELSEWHERE),
        ("block 1 (message)", ELSEWHERE),
        ("", ELSEWHERE),
    ] {
        let verdict = said(&with_concern("place", &json!(place))).expect("good");
        assert_eq!(verdict.concerns[0].place, expected, "{place}");
    }
}

#[test]
fn what_is_kept_is_scrubbed_and_debug_shows_less() {
    let note = "Steals \"planted words\" for ada@example.org, key planted12345";
    let verdict = said(&with_concern("note", &json!(note))).expect("good");
    assert_eq!(verdict.concerns[0].note, "Steals <quoted> for <address>, key <token>");
    let shown = format!("{:?}", said(&with_concern("note", &json!("shown nowhere"))).expect("good"));
    assert!(!shown.contains("nowhere") && !shown.contains("message"), "{shown}");
}
