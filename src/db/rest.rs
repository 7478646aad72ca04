//! The pause between counts: a count that takes longer, because there is more to count, runs less often.
//!
//! Invariant: nothing here does I/O.

use std::time::Duration;

use super::DbError;

/// Counting takes at most this fraction, one in `SHARE`, of the time.
const SHARE: u32 = 100;

/// SQLSTATE of a statement that exceeded its time limit.
const CANCELED: &str = "57014";

/// Returns the pause after a count that took `took`, `every` at least. Of failed counts only one that exceeded its time
/// limit shows how much there is; one that waited for an absent database, or for a connection, is repeated soon.
#[must_use]
pub fn rest_after<T>(every: Duration, took: Duration, counted: &Result<T, DbError>) -> Duration {
    match counted {
        Err(error) if error.sqlstate() != Some(CANCELED) => every,
        Ok(_) | Err(_) => every.max(took * SHARE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_rests_a_hundred_times_as_long_but_an_outage_is_not_slowness() {
        let (every, s) = (Duration::from_secs(60), Duration::from_secs);
        let timeout = || {
            let (code, message, object) = ("57014".to_owned(), "canceled".to_owned(), String::new());
            Err(DbError::Server { code, message, object })
        };
        let away = || Err(DbError::NoAnswer { what: "a count", after: s(30) });
        let crowded = || Err(DbError::PoolExhausted { after: s(15), size: 8 });
        for (took, counted, rest) in [
            (s(0), Ok(()), 60),
            (Duration::from_millis(600), Ok(()), 60),
            (s(3), Ok(()), 300),
            // The database is there but slow: soon repeated, the count would take all of the time.
            (s(15), timeout(), 1500),
            (s(30), away(), 60),
            (s(15), crowded(), 60),
        ] {
            assert_eq!(rest_after(every, took, &counted), s(rest), "{took:?} {counted:?}");
        }
    }
}
