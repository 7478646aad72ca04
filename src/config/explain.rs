//! Words for people about a configuration that cannot be read: the expected form, the likely meaning, the position.
//!
//! Pure.

use std::collections::BTreeMap;

use serde_json::{Map as JsonMap, Value as Json};

/// Expectation of serde, in words for people.
pub(super) fn expected(message: &str) -> String {
    let tail = message.rsplit_once("expected ").map_or(message, |(_, tail)| tail);
    let words = match tail {
        "a duration" => "a duration such as \"90s\", \"20min\" or \"7d\"",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "usize" => "a whole number, 0 or more",
        "a boolean" => "true or false",
        "a sequence" => "a list such as [\"a\", \"b\"]",
        "path string" => "a path in quotes",
        "a map" => "a section of its own for each name, such as [desk.users.alice]",
        other
            if message.contains("timestamp") || message.contains("offset") || other.contains("datetime") =>
        {
            "a time with its offset, such as 2026-11-01T00:00:00Z"
        }
        other => other,
    };
    words.to_owned()
}

/// The nearest known name: in the same section if one is near, else anywhere, else the list of names.
pub(super) fn hint(section: &str, key: &str, known: &BTreeMap<String, JsonMap<String, Json>>) -> String {
    let near = |candidate: &str| strsim::normalized_damerau_levenshtein(candidate, key);
    let best = |names: &[(String, f64)], at_least: f64| {
        let near_enough = names.iter().filter(|(_, near)| *near >= at_least);
        near_enough.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(name, _)| name.clone())
    };
    let siblings: Vec<(String, f64)> = match known.get(section) {
        Some(keys) => keys.keys().map(|name| (name.clone(), near(name))).collect(),
        None => known.keys().map(|name| (format!("[{name}]"), near(name))).collect(),
    };
    let elsewhere: Vec<(String, f64)> = known
        .iter()
        .flat_map(|(section, keys)| keys.keys().map(move |key| (section, key)))
        .map(|(section, key)| (format!("{key}` in section [{section}]"), near(key)))
        .collect();
    // The very name in another section beats a similar one here: the key was put under the wrong heading.
    if let Some(name) = best(&elsewhere, 1.0) {
        format!("did you mean `{name}?")
    } else if let Some(name) = best(&siblings, 0.5) {
        format!("did you mean `{name}`?")
    } else if let Some(name) = best(&elsewhere, 0.75) {
        format!("did you mean `{name}?")
    } else {
        let names: Vec<String> = siblings.into_iter().map(|(name, _)| name).collect();
        format!("known here: {}", names.join(", "))
    }
}

/// The unknown key that serde names, and the keys that it knows instead.
pub(super) fn unknown_field(message: &str) -> Option<(String, Vec<String>)> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2).map(str::to_owned);
    Some((quoted.next()?, quoted.collect()))
}

/// The nearest of few names, else all of them.
pub(crate) fn nearest(key: &str, known: &[String]) -> String {
    let near = |name: &String| strsim::normalized_damerau_levenshtein(name, key);
    let best = known.iter().max_by(|a, b| near(a).total_cmp(&near(b))).filter(|name| near(name) >= 0.5);
    best.map_or_else(|| format!("known here: {}", known.join(", ")), |name| format!("did you mean `{name}`?"))
}

/// A TOML error without the line it quotes: "line 3, column 5: reason".
pub(super) fn without_source_line(error: &config::ConfigError) -> String {
    let text = error.to_string();
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let line = first.find("line ").map_or(first, |at| &first[at..]);
    match lines.rfind(|line| !line.contains('|')) {
        Some(reason) if reason != first => format!("{line}: {}", reason.trim()),
        _ => line.to_owned(),
    }
}
