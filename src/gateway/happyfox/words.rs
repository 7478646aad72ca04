//! The help desk's words, made fit to be kept: one line, without addresses, at most 500 characters.
//!
//! Pure. Words are text from outside: nothing in them is trusted, and nothing here can fail.

use serde_json::Value;

use crate::ports::{Fault, Reply, Stage};
use crate::scrub::scrub;

/// Longest text kept of an answer, in characters (data contract, "The ledger").
const LONGEST: usize = 500;

/// A fault in our own words, of this ticket alone.
#[must_use]
pub(super) fn of_ticket(stage: Stage, words: &str) -> Fault {
    Fault { stage, reply: Reply { reply: fit(words), ..Reply::default() }, about_us: false }
}

/// A fault in our own words that concerns us or the help desk.
#[must_use]
pub(super) fn of_ours(stage: Stage, words: &str) -> Fault {
    Fault { about_us: true, ..of_ticket(stage, words) }
}

/// The [`Reply`] of an answer: `lead` in our words, then the help desk's own.
#[must_use]
pub(super) fn said(status: u16, lead: &str, body: &str) -> Reply {
    let theirs = theirs(body);
    let text = if theirs.is_empty() { lead.to_owned() } else { format!("{lead}: {theirs}") };
    Reply { code: Some(status), enhanced: None, reply: fit(&text) }
}

/// What a body says: the texts of a JSON document with their keys; of a page only that it is one.
fn theirs(body: &str) -> String {
    let body = body.trim();
    if is_page(body) {
        return "a page (HTML) instead of JSON".to_owned();
    }
    match serde_json::from_str::<Value>(body) {
        Ok(value) => {
            let mut texts = Vec::new();
            gather("", &value, &mut texts);
            texts.join("; ")
        }
        Err(_) => body.to_owned(),
    }
}

/// Says whether a body is a page for browsers.
#[must_use]
pub(super) fn is_page(body: &str) -> bool {
    body.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

fn gather(key: &str, value: &Value, texts: &mut Vec<String>) {
    // Enough for the longest text that is kept.
    if texts.len() > LONGEST {
        return;
    }
    let mut text = |text: &str| {
        texts.push(if key.is_empty() { text.to_owned() } else { format!("{key}: {text}") });
    };
    match value {
        Value::Null => {}
        Value::String(said) => text(said),
        Value::Bool(_) | Value::Number(_) => text(&value.to_string()),
        Value::Array(items) => items.iter().for_each(|item| gather(key, item, texts)),
        Value::Object(entries) => entries.iter().for_each(|(key, item)| gather(key, item, texts)),
    }
}

/// Scrubs a text, makes one line of it and cuts it.
#[must_use]
pub(super) fn fit(text: &str) -> String {
    cut(scrub(text).trim(), LONGEST)
}

/// At most `longest` printable characters of a text, at a blank where one is near the end.
#[must_use]
pub(super) fn cut(text: &str, longest: usize) -> String {
    let mut chars = text.chars().map(|c| if is_printable(c) { c } else { ' ' });
    let mut line: String = chars.by_ref().take(longest).collect();
    if chars.next().is_some()
        && let Some(blank) = line.rfind(' ')
    {
        line.truncate(blank);
    }
    line.truncate(line.trim_end().len());
    line
}

/// Neither a control character nor one that only changes how others look (such characters forge log lines).
#[must_use]
pub(super) fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_out_of_documents_scrubbed_and_cut() {
        for (body, expected) in [
            (r#"{"error": "Category is invalid"}"#, "said no: error: Category is invalid"),
            (
                r#"{"error": {"email": ["Enter a valid address: a@b"]}}"#,
                "said no: email: Enter a valid address: <address>",
            ),
            (
                r#"[{"subject": ["required"]}, {"t-cf-3": "required"}]"#,
                "said no: subject: required; t-cf-3: required",
            ),
            ("<!DOCTYPE html><h1>Log in, a@b</h1>", "said no: a page (HTML) instead of JSON"),
            ("plain\r\nwords\u{202e}", "said no: plain  words"),
            ("", "said no"),
            ("null", "said no"),
        ] {
            assert_eq!(said(400, "said no", body).reply, expected, "{body}");
        }
        let long = said(400, "said no", &"word ".repeat(1000)).reply;
        assert!(long.chars().count() <= 500 && long.ends_with("word"), "{long}");
        let unbroken = said(400, "no", &"x".repeat(100_000)).reply;
        assert!(unbroken.chars().count() <= 500, "{unbroken}");
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(said(400, "no", &deep).reply.chars().count() <= 500, "what is too deep is no document");
    }
}
