//! Line `scanner`: whether clamd answers, finds its test file, and has signatures of today.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::config::Config;
use crate::gateway::clamd::{Clamd, ClamdSettings, Database};
use crate::ops::clock::since_epoch;
use crate::ports::CheckLine;

pub(super) const NAME: &str = "scanner";
/// Longest wait for a verdict on the test file: a person waits at the terminal.
const PATIENCE: Duration = Duration::from_secs(10);
/// Age of the official signatures from which they are old: they are made every day.
const DAYS: i64 = 3;
const RESTART: &str =
    "systemctl status clamav-daemon; where a reload of its signatures has failed, restart it (rb-011)";

/// Sends the test file, and asks for the version.
pub(super) async fn line(config: &Config) -> CheckLine {
    let Some(mut settings) = ClamdSettings::new(&config.scan) else {
        return CheckLine::ok(NAME, "off: scan.socket is not set");
    };
    settings.timeout = settings.timeout.min(PATIENCE);
    settings.write_timeout = settings.write_timeout.min(PATIENCE);
    let (clamd, socket) = (Clamd::new(settings.clone()), settings.socket);
    let found = match clamd.self_test().await {
        Ok(found) => found,
        Err(fault) => return CheckLine::fail(NAME, format!("{socket}: {fault}"), RESTART),
    };
    let version = match clamd.version().await {
        Ok(version) => version,
        Err(error) => return CheckLine::fail(NAME, format!("{socket}: {error}"), RESTART),
    };
    let well = format!("the scanner at {socket} finds its test file as {found}: ClamAV {}", version.engine);
    judged(&well, &version.database, today())
}

/// The day by this host's clock.
fn today() -> Date {
    let now = i64::try_from(since_epoch().as_secs())
        .ok()
        .and_then(|now| Timestamp::from_second(now).ok())
        .unwrap_or_default();
    now.to_zoned(TimeZone::UTC).date()
}

/// What the age of the signatures makes of a scanner that finds its test file.
fn judged(well: &str, database: &Database, today: Date) -> CheckLine {
    match database {
        Database::Official { number, date } => {
            let made = date.date();
            let detail = format!("{well}, official signatures {number} of {made}");
            let days = made.until(today).map_or(0, |age| i64::from(age.get_days()));
            if days <= DAYS {
                return CheckLine::ok(NAME, detail);
            }
            let remedy =
                "systemctl status clamav-freshclam: new signatures come every day; then sudo freshclam";
            CheckLine::warn(NAME, format!("{detail}: {days} days old"), remedy)
        }
        Database::None => CheckLine::warn(
            NAME,
            format!(
                "{well}, but no official signatures: it finds what the local ones know, and nothing else"
            ),
            "install clamav-freshclam, or run sudo freshclam once; then restart clamav-daemon",
        ),
        Database::Broken => CheckLine::fail(NAME, format!("{well}, but it has lost its signatures"), RESTART),
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::ports::CheckLevel;

    #[test]
    fn signatures_are_of_today_old_local_or_lost() {
        let today = date(2026, 11, 25);
        let of = |day: Date| Database::Official { number: 27_800, date: day.at(8, 0, 0, 0) };
        for (database, level, word) in [
            (of(today), CheckLevel::Ok, "27800 of 2026-11-25"),
            (of(date(2026, 11, 22)), CheckLevel::Ok, "of 2026-11-22"),
            (of(date(2026, 11, 21)), CheckLevel::Warn, "4 days old"),
            (of(date(2025, 10, 1)), CheckLevel::Warn, "420 days old"),
            // The date is that of clamd's host, which may be ahead.
            (of(date(2026, 11, 26)), CheckLevel::Ok, "of 2026-11-26"),
            (Database::None, CheckLevel::Warn, "no official signatures"),
            (Database::Broken, CheckLevel::Fail, "lost"),
        ] {
            let line = judged("well", &database, today);
            assert_eq!(line.level, level, "{line:?}");
            assert!(line.detail.contains(word), "{word}: {line:?}");
        }
    }

    #[tokio::test]
    async fn without_a_socket_it_is_off_and_a_silent_one_fails() {
        let mut config = Config::default();
        assert_eq!(line(&config).await.level, CheckLevel::Ok);
        config.scan.socket = Some("/nowhere/clamd.ctl".to_owned());
        let said = line(&config).await;
        assert_eq!((said.name, said.level), (NAME, CheckLevel::Fail), "{said:?}");
        assert!(said.remedy.is_some_and(|remedy| remedy.contains("clamav-daemon")));
    }
}
