//! For how long a credential counts, and for how much. Pure: the time is the database's, and an argument.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::credential::Kind;
use super::user::Role;

/// Longest life of a session.
pub const SESSION: Duration = Duration::from_secs(12 * 3600);
/// Time without a request after which a session has ended.
pub const IDLE: Duration = Duration::from_secs(3600);
/// Life of a login link, which counts once.
pub const LINK: Duration = Duration::from_secs(600);
/// Longest life of a token of the API, in days.
pub const LONGEST_TOKEN: u32 = 90;
/// Age of `last_used_at` from which a request writes it anew: not every request is a write.
pub const TOUCHED_AFTER: Duration = Duration::from_secs(60);

/// The times of a credential, as its row has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The birth.
    pub created_at: Timestamp,
    /// The end at the latest.
    pub expires_at: Timestamp,
    /// The last request but for the last minute's.
    pub last_used_at: Option<Timestamp>,
    /// Spent, logged out, or ended by an operator.
    pub ended_at: Option<Timestamp>,
}

impl Times {
    /// Whether the credential counts at `now`.
    #[must_use]
    pub fn is_alive(&self, kind: Kind, now: Timestamp) -> bool {
        let open = self.ended_at.is_none() && now < self.expires_at;
        open && match kind {
            Kind::Session => now.duration_since(self.used_at()) < span(IDLE),
            Kind::Link | Kind::Token => true,
        }
    }

    /// Whether a request at `now` has to be written down.
    #[must_use]
    pub fn is_to_be_touched(&self, now: Timestamp) -> bool {
        self.last_used_at.is_none() || now.duration_since(self.used_at()) >= span(TOUCHED_AFTER)
    }

    fn used_at(&self) -> Timestamp {
        self.last_used_at.unwrap_or(self.created_at)
    }
}

/// The role of a request: the user's present one, or less where the credential was made for less.
#[must_use]
pub fn role(cap: Option<Role>, present: Role) -> Role {
    cap.map_or(present, |cap| cap.min(present))
}

/// The life of a token of so many days.
///
/// # Errors
/// The rule that is broken, for people.
pub fn token(days: u32) -> Result<Duration, String> {
    if !(1..=LONGEST_TOKEN).contains(&days) {
        return Err(format!("a token lives from 1 to {LONGEST_TOKEN} days, not {days}"));
    }
    Ok(Duration::from_secs(u64::from(days) * 86_400))
}

fn span(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    const BORN: Times = Times {
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::UNIX_EPOCH,
        last_used_at: None,
        ended_at: None,
    };

    #[test]
    fn a_session_ends_by_its_age_by_rest_and_by_hand() {
        let session = Times { created_at: at(0), expires_at: at(12 * 3600), ..BORN };
        let alive = |times: &Times, now| times.is_alive(Kind::Session, at(now));
        assert!(alive(&session, 0) && alive(&session, 3599));
        assert!(!alive(&session, 3600), "an hour without a request");
        let used = Times { last_used_at: Some(at(43_000)), ..session };
        assert!(alive(&used, 43_199) && !alive(&used, 43_200), "twelve hours in all");
        let ended = Times { ended_at: Some(at(1)), ..session };
        assert!(!alive(&ended, 2));
    }

    #[test]
    fn links_and_tokens_rest_without_harm() {
        let life = Times { created_at: at(0), expires_at: at(86_400 * 90), ..BORN };
        for kind in [Kind::Link, Kind::Token] {
            assert!(life.is_alive(kind, at(86_400 * 89)));
            assert!(!life.is_alive(kind, at(86_400 * 90)));
            assert!(!Times { ended_at: Some(at(0)), ..life }.is_alive(kind, at(1)));
        }
    }

    #[test]
    fn a_use_is_written_once_a_minute() {
        let used = Times { last_used_at: Some(at(0)), ..BORN };
        assert!(BORN.is_to_be_touched(at(0)) && used.is_to_be_touched(at(60)));
        assert!(!used.is_to_be_touched(at(59)) && !used.is_to_be_touched(at(-5)));
    }

    #[test]
    fn a_cap_lowers_and_never_raises() {
        use Role::{Admin, Reviewer, Viewer};
        for (cap, present, role_is) in [
            (None, Admin, Admin),
            (Some(Reviewer), Admin, Reviewer),
            (Some(Admin), Reviewer, Reviewer),
            (Some(Admin), Viewer, Viewer),
        ] {
            assert_eq!(role(cap, present), role_is, "{cap:?} {present:?}");
        }
    }

    #[test]
    fn a_token_lives_at_most_ninety_days() {
        assert_eq!(token(90), Ok(Duration::from_secs(90 * 86_400)));
        assert!(token(0).is_err() && token(91).is_err());
    }
}
