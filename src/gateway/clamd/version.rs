//! clamd's answer to VERSION: its engine, and the signatures that it has.
//!
//! Pure.

use jiff::civil::DateTime;

use super::classify::NoAnswer;

/// Number of a database that clamd cannot read any more.
const UNREADABLE: u32 = u32::MAX;

/// What clamd says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Version of the engine, e.g. `1.4.6`.
    pub engine: String,
    /// The official signatures.
    pub database: Database,
}

/// State of the official signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// They are loaded.
    Official {
        /// Number of the daily database.
        number: u32,
        /// Time at which it was made, in the time zone of clamd's host.
        date: DateTime,
    },
    /// There are none: only local signatures are loaded.
    None,
    /// clamd has lost its engine, after a failed reload; it scans nothing until it is restarted.
    Broken,
}

/// Reads the answer without its end.
pub(super) fn version(line: &[u8]) -> Result<Version, NoAnswer> {
    read(line).ok_or(NoAnswer::NotClamd)
}

fn read(line: &[u8]) -> Option<Version> {
    let text = str::from_utf8(line).ok()?.strip_prefix("ClamAV ")?;
    let mut parts = text.splitn(3, '/');
    let engine = parts.next()?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || b".-+~".contains(&b);
    if engine.is_empty() || engine.len() > 40 || !engine.bytes().all(fits) {
        return None;
    }
    let database = match (parts.next(), parts.next()) {
        (None, _) => Database::None,
        (Some(_), None) => return None,
        (Some(number), Some(date)) => match (number.parse().ok()?, made(date)) {
            (UNREADABLE, _) => Database::Broken,
            (number, Some(date)) => Database::Official { number, date },
            (_, None) => return None,
        },
    };
    Some(Version { engine: engine.to_owned(), database })
}

/// A date as asctime(3) writes it: `Wed Nov  4 08:27:03 2026`.
fn made(date: &str) -> Option<DateTime> {
    let words: Vec<&str> = date.split_ascii_whitespace().collect();
    DateTime::strptime("%a %b %d %H:%M:%S %Y", words.join(" ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_databases_state_is_told() {
        let of = |database| Ok(Version { engine: "1.4.6".to_owned(), database });
        let date: DateTime = "2026-11-04T08:27:03".parse().expect("a date");
        for (line, expected) in [
            (&b"ClamAV 1.4.6"[..], of(Database::None)),
            (b"ClamAV 1.4.6/27812/Wed Nov  4 08:27:03 2026", of(Database::Official { number: 27_812, date })),
            (b"ClamAV 1.4.6/27812/Wed Nov 04 08:27:03 2026", of(Database::Official { number: 27_812, date })),
            (b"ClamAV 1.4.6/4294967295/invalid timestamp", of(Database::Broken)),
            (b"ClamAV 1.4.6/27812/invalid timestamp", Err(NoAnswer::NotClamd)),
            (b"ClamAV 1.4.6/27812", Err(NoAnswer::NotClamd)),
            (b"ClamAV 1.4.6/x/Wed Nov  4 08:27:03 2026", Err(NoAnswer::NotClamd)),
            (b"ClamAV ", Err(NoAnswer::NotClamd)),
            (b"ClamAV 1.4\n6", Err(NoAnswer::NotClamd)),
            (b"PONG", Err(NoAnswer::NotClamd)),
            (b"", Err(NoAnswer::NotClamd)),
            (b"ClamAV \xff", Err(NoAnswer::NotClamd)),
        ] {
            assert_eq!(version(line), expected, "{:?}", String::from_utf8_lossy(line));
        }
    }
}
