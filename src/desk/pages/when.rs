//! Times for people: an age in words, the same absolutely in UTC. Pure; `now` is the database's.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const TWO_DAYS: i64 = 2 * DAY;

/// Ages from here on are given as a date.
const OLD: i64 = 90 * DAY;

/// For `datetime=`: `2026-11-23T20:02:02Z`.
#[must_use]
pub fn machine(at: &Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `23 Nov 2026, 20:02:02 UTC`.
#[must_use]
pub fn absolute(at: &Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%-d %b %Y, %H:%M:%S UTC").to_string()
}

/// `5 min ago`, `in 3 h`, `23 Nov 2026`. The script says the same in the same words.
#[must_use]
pub fn relative(at: &Timestamp, now: &Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    if seconds.abs() >= OLD {
        return at.to_zoned(TimeZone::UTC).strftime("%-d %b %Y").to_string();
    }
    match (span(seconds.abs()), seconds) {
        (None, _) => "just now".to_owned(),
        (Some(span), 0..) => format!("{span} ago"),
        (Some(span), _) => format!("in {span}"),
    }
}

/// `4 d`: how long something has been so, or lasts.
#[must_use]
pub fn age(at: &Timestamp, now: &Timestamp) -> String {
    span((now.as_second() - at.as_second()).abs()).unwrap_or_else(|| "< 1 min".to_owned())
}

/// The largest unit that fits, rounded down; `None` below a minute.
fn span(seconds: i64) -> Option<String> {
    let (unit, words) = match seconds {
        // Two days are told in hours: an end that is near is worth them.
        TWO_DAYS.. => (DAY, "d"),
        HOUR.. => (HOUR, "h"),
        MINUTE.. => (MINUTE, "min"),
        _ => return None,
    };
    Some(format!("{} {words}", seconds / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    #[test]
    fn ages_are_told_in_the_largest_unit_that_fits() {
        let now = at("2026-11-23T20:00:00Z");
        for (then, told) in [
            ("2026-11-23T20:00:00Z", "just now"),
            ("2026-11-23T19:59:01Z", "just now"),
            ("2026-11-23T19:59:00Z", "1 min ago"),
            ("2026-11-23T19:00:01Z", "59 min ago"),
            ("2026-11-23T19:00:00Z", "1 h ago"),
            ("2026-11-21T20:00:01Z", "47 h ago"),
            ("2026-11-21T20:00:00Z", "2 d ago"),
            ("2026-11-25T12:30:00Z", "in 40 h"),
            ("2026-08-25T20:00:01Z", "89 d ago"),
            ("2026-08-25T20:00:00Z", "25 Aug 2026"),
            ("2026-11-23T20:00:30Z", "just now"),
            ("2026-11-23T23:00:00Z", "in 3 h"),
            ("2027-04-01T00:00:00Z", "1 Apr 2027"),
        ] {
            assert_eq!(relative(&at(then), &now), told, "{then}");
        }
        assert_eq!(age(&at("2026-11-21T10:00:00Z"), &now), "2 d");
        assert_eq!(age(&now, &now), "< 1 min");
    }

    #[test]
    fn a_time_is_absolute_as_well() {
        let then = at("2026-11-03T09:05:07.123Z");
        assert_eq!(machine(&then), "2026-11-03T09:05:07Z");
        assert_eq!(absolute(&then), "3 Nov 2026, 09:05:07 UTC");
    }
}
