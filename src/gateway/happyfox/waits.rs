//! Waits that a 429 names: in its header, in its words, or not at all.
//!
//! Pure. A date counts from the answer's own `Date`: our clock plays no part.

use std::time::Duration;

use jiff::fmt::rfc2822;

/// Longest wait that is believed: the help desk throttles for no longer.
pub(super) const LONGEST: Duration = Duration::from_secs(600);
/// Shortest wait: a throttle that names none has still refused us.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);

/// The wait that is asked for: the longer of header (`Retry-After`, in seconds or as a date) and words ("wait 540 seconds").
#[must_use]
pub(super) fn asked(retry_after: Option<&str>, date: Option<&str>, body: &str) -> Option<Duration> {
    let header = retry_after.and_then(|text| in_header(text.trim(), date));
    header.max(in_words(body)).map(|wait| wait.clamp(SHORTEST, LONGEST))
}

/// The wait where none is asked for: doubled with each throttle in a row, `in_a_row` of them before this one.
#[must_use]
pub(super) fn unasked(in_a_row: u32) -> Duration {
    SHORTEST.saturating_mul(2_u32.saturating_pow(in_a_row)).min(LONGEST)
}

fn in_header(text: &str, date: Option<&str>) -> Option<Duration> {
    if let Some(seconds) = seconds(text) {
        return Some(seconds);
    }
    let (until, now) = (rfc2822::parse(text).ok()?, rfc2822::parse(date?.trim()).ok()?);
    Some(Duration::try_from(until.timestamp().duration_since(now.timestamp())).unwrap_or_default())
}

/// The longest of all durations that a text names, e.g. `wait 540 seconds`, `in 9.5 minutes`, `540s`.
fn in_words(text: &str) -> Option<Duration> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let words: Vec<String> = words.map(|word| word.trim_matches('.').to_ascii_lowercase()).collect();
    let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let named = |(at, word): (usize, &String)| {
        let split = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let (number, rest) = word.split_at(split);
        let unit = if rest.is_empty() { words.get(at + 1)?.as_str() } else { rest };
        seconds(number)?.checked_mul(unit_in_seconds(unit)?).or(Some(LONGEST))
    };
    words.iter().enumerate().filter_map(named).max()
}

/// Whole seconds, a fraction rounded up; a number too long to be one counts as the longest wait.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let up = u64::from(fraction.bytes().any(|b| b != b'0'));
    Some(whole.parse::<u64>().map_or(LONGEST, |whole| Duration::from_secs(whole.saturating_add(up))))
}

fn unit_in_seconds(unit: &str) -> Option<u32> {
    match unit {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60),
        "h" | "hour" | "hours" => Some(3600),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_header_and_words_counts_and_never_more_than_ten_minutes() {
        let s = |seconds| Some(Duration::from_secs(seconds));
        let (date, later) = ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:30:00 GMT");
        type Case = (Option<&'static str>, Option<&'static str>, &'static str, Option<Duration>);
        let cases: [Case; 24] = [
            (Some("30"), None, "", s(30)),
            (Some(" 30 "), None, "", s(30)),
            (Some("0"), None, "", s(1)),
            (Some("2.1"), None, "", s(3)),
            (Some("36000"), None, "", s(600)),
            (Some("99999999999999999999999999"), None, "", s(600)),
            (Some("18446744073709551615"), None, "", s(600)),
            (Some("-5"), None, "", None),
            (Some("soon"), None, "", None),
            (Some(later), Some(date), "", s(120)),
            (Some(date), Some(later), "", s(1)),
            (Some(later), None, "", None),
            (None, None, "Please wait 540 seconds.", s(540)),
            (None, None, r#"{"error": "wait 35.0 seconds"}"#, s(35)),
            (None, None, "Expected available in 1 second", s(1)),
            (None, None, "wait 10 hours", s(600)),
            (None, None, "wait 99999999999999999999 seconds", s(600)),
            (None, None, "retry in 7s", s(7)),
            (None, None, "too many requests (429)", None),
            (None, None, "wait 5 apples", None),
            (None, None, "wait 540", None),
            (Some("30"), None, "wait 540 seconds", s(540)),
            (Some("540"), None, "wait 30 seconds, or 2 minutes", s(540)),
            (Some("soon"), None, "wait 2 minutes", s(120)),
        ];
        for (retry_after, date, body, expected) in cases {
            assert_eq!(asked(retry_after, date, body), expected, "{retry_after:?} {body}");
        }
    }

    #[test]
    fn a_wait_that_nobody_names_doubles() {
        let waits: Vec<u64> = (0..5).map(|in_a_row| unasked(in_a_row).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16]);
        assert_eq!(unasked(10), LONGEST);
        assert_eq!(unasked(u32::MAX), LONGEST);
    }
}
