//! Times as people read them: the day by its name, the zone by its city, the remaining time in words.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats as `Thursday 4 June 2026, 16:03 (Europe/Berlin)`. Seconds are cut, so that "until" never promises too much.
/// In an hour that a zone has twice, its abbreviation shows which of the two is meant: `02:30 CEST (Europe/Berlin)`.
pub(super) fn readable_time(at: Timestamp, zone: &TimeZone) -> String {
    let local = at.to_zoned(zone.clone());
    let twice = zone.to_ambiguous_zoned(local.datetime()).is_ambiguous();
    let abbreviation = local.strftime("%Z").to_string();
    let name = zone.iana_name().map_or_else(|| abbreviation.clone(), ToOwned::to_owned);
    let minute = local.strftime("%A %-d %B %Y, %H:%M");
    if twice { format!("{minute} {abbreviation} ({name})") } else { format!("{minute} ({name})") }
}

/// Formats as `4 June 2026, 16:03`, for a short line.
pub(super) fn short_time(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%-d %B %Y, %H:%M").to_string()
}

/// The time from one instant to another, to the nearest minute, by its two largest units: `7 days`, `6 days and
/// 23 hours`, `1 hour and 5 minutes`, `less than a minute`.
pub(super) fn in_words(from: Timestamp, until: Timestamp) -> String {
    let minutes = (until.duration_since(from).as_secs() + 30).max(0) / 60;
    let named = |count: i64, unit: &str| match count {
        0 => None,
        1 => Some(format!("1 {unit}")),
        count => Some(format!("{count} {unit}s")),
    };
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    let [large, small] = if days > 0 {
        [named(days, "day"), named(hours, "hour")]
    } else {
        [named(hours, "hour"), named(minutes, "minute")]
    };
    match (large, small) {
        (Some(large), Some(small)) => format!("{large} and {small}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "less than a minute".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    #[test]
    fn times_name_their_day_and_their_zone() {
        let zone = |name: &str| TimeZone::get(name).expect("the zone database");
        let cases = [
            ("2026-11-30T13:05:00Z", "Europe/Amsterdam", "Monday 30 November 2026, 14:05 (Europe/Amsterdam)"),
            ("2026-06-04T14:03:59Z", "Europe/Berlin", "Thursday 4 June 2026, 16:03 (Europe/Berlin)"),
            ("2026-06-04T14:03:59Z", "UTC", "Thursday 4 June 2026, 14:03 (UTC)"),
            ("2026-10-25T00:30:00Z", "Europe/Berlin", "Sunday 25 October 2026, 02:30 CEST (Europe/Berlin)"),
            ("2026-10-25T01:30:00Z", "Europe/Berlin", "Sunday 25 October 2026, 02:30 CET (Europe/Berlin)"),
            ("2026-10-25T02:30:00Z", "Europe/Berlin", "Sunday 25 October 2026, 03:30 (Europe/Berlin)"),
        ];
        for (time, name, expected) in cases {
            assert_eq!(readable_time(at(time), &zone(name)), expected);
        }
        assert!(readable_time(Timestamp::MAX, &TimeZone::UTC).ends_with("December 9999, 22:00 (UTC)"));
        assert_eq!(short_time(at("2026-06-04T14:03:59Z"), &zone("Europe/Berlin")), "4 June 2026, 16:03");
    }

    #[test]
    fn what_remains_in_words() {
        let start = at("2026-06-04T14:03:27Z");
        let cases = [
            ("2026-06-11T14:03:27Z", "7 days"),
            ("2026-06-11T14:03:05Z", "7 days"),
            ("2026-06-11T13:03:27Z", "6 days and 23 hours"),
            ("2026-06-05T15:03:27Z", "1 day and 1 hour"),
            ("2026-06-05T14:23:27Z", "1 day"),
            ("2026-06-04T15:08:27Z", "1 hour and 5 minutes"),
            ("2026-06-04T14:04:27Z", "1 minute"),
            ("2026-06-04T14:03:40Z", "less than a minute"),
            ("2026-06-04T14:00:00Z", "less than a minute"),
        ];
        for (until, expected) in cases {
            assert_eq!(in_words(start, at(until)), expected, "{until}");
        }
    }
}
