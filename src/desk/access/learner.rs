//! How learners prove themselves, who are no users of the desk: by a ticket, which their backend gets for one submission and which is spent at
//! once, and then by a cookie for that submission alone, which this desk signs. Pure; randomness and time are arguments.
//!
//! The cookie is not kept anywhere: its end is signed with it. So is its submission, which is in the path.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::{HeaderMap, Method, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rand::RngExt;
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;
use uuid::Uuid;

use super::credential::DeskKey;
use crate::ops::rng::Rng;

/// Name of the cookie. Its prefix has browsers take it only with `Secure`.
pub const COOKIE: &str = "__Secure-assessment";
/// Route of a submission's grade.
pub const GRADE: &str = "/api/assessments/{submission}";
/// Route of its events.
pub const EVENTS: &str = "/api/assessments/{submission}/events";
/// The parameter with a ticket.
pub const TICKET: &str = "ticket";
/// Life of a cookie, in seconds.
pub const LIFE: i64 = 1_800;

/// What is signed with the cookie's end and submission.
const SIGNED: &str = "assessment";
/// Longest text that is looked at.
const LONGEST: usize = 128;

/// What a learner's request brings. No log shows it.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// A ticket, still to be spent.
    Ticket(String),
    /// Cookies, one of which may count.
    Cookies(Vec<String>),
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ticket(_) => "Ticket(<redacted>)",
            Self::Cookies(_) => "Cookies(<redacted>)",
        })
    }
}

/// The proof of a learner's request for a route; none where the route is not for learners, or there is none. Where people are answered as
/// well, theirs comes first: `is_persons`.
#[must_use]
pub fn presented(
    method: &Method,
    template: &str,
    query: Option<&str>,
    headers: &HeaderMap,
    is_persons: bool,
) -> Option<Proof> {
    if method != Method::GET && method != Method::HEAD {
        return None;
    }
    let is_stream = template == EVENTS;
    if !is_stream && (template != GRADE || is_persons) {
        return None;
    }
    let ticket =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).find(|(name, _)| name == TICKET);
    if let (true, Some((_, text))) = (is_stream, ticket) {
        return Some(Proof::Ticket(text.into_owned()));
    }
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let own: Vec<String> =
        pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned()).collect();
    (!own.is_empty()).then_some(Proof::Cookies(own))
}

/// A ticket: 256 random bits.
#[must_use]
pub fn ticket(rng: &Rng) -> String {
    let random: [u8; 32] = rng.with(RngExt::random);
    URL_SAFE_NO_PAD.encode(random)
}

/// What is kept of a ticket.
#[must_use]
pub fn digest(ticket: &str) -> Vec<u8> {
    Sha256::digest(ticket.as_bytes()).to_vec()
}

/// The header that sets the cookie of a submission's learner from `now` on.
#[must_use]
pub fn set_cookie(key: &DeskKey, submission: Uuid, now: Timestamp) -> String {
    let until = now.as_second().saturating_add(LIFE);
    let signature = URL_SAFE_NO_PAD.encode(signed(key, submission, until));
    format!(
        "{COOKIE}={until}.{signature}; Path={}; Max-Age={LIFE}; Secure; HttpOnly; SameSite=Strict",
        path(submission)
    )
}

/// Whether one of these cookies is the submission's, and has not ended.
#[must_use]
pub fn is_learner(key: &DeskKey, submission: Uuid, now: Timestamp, cookies: &[String]) -> bool {
    cookies.iter().any(|text| {
        let Some((until, signature)) = text.split_once('.').filter(|_| text.len() <= LONGEST) else {
            return false;
        };
        let (Ok(until), Ok(signature)) = (until.parse::<i64>(), URL_SAFE_NO_PAD.decode(signature)) else {
            return false;
        };
        let is_signed = verify_slices_are_equal(&signed(key, submission, until), &signature).is_ok();
        is_signed && now.as_second() < until
    })
}

/// The path of a submission's grade.
#[must_use]
pub fn path(submission: Uuid) -> String {
    GRADE.replace("{submission}", &submission.to_string())
}

fn signed(key: &DeskKey, submission: Uuid, until: i64) -> Vec<u8> {
    key.signed(SIGNED, format!("{submission}\n{until}").as_bytes()).bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> DeskKey {
        DeskKey::new("0123456789abcdef0123456789abcdef").expect("a key")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn value(set: &str) -> String {
        set.split(';').next().and_then(|pair| pair.split_once('=')).expect("a pair").1.to_owned()
    }

    #[test]
    fn a_cookie_is_one_submissions_for_half_an_hour() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let set = set_cookie(&key(), one, at(0));
        assert!(
            set.starts_with("__Secure-assessment=") && set.contains("; HttpOnly; SameSite=Strict"),
            "{set}"
        );
        assert!(set.contains(&format!("; Path=/api/assessments/{one};")), "{set}");
        let cookie = value(&set);
        let counts = |key: &DeskKey, submission, now, text: &str| {
            is_learner(key, submission, at(now), &[text.to_owned()])
        };
        assert!(counts(&key(), one, 0, &cookie) && counts(&key(), one, 1_799, &cookie));
        assert!(!counts(&key(), one, 1_800, &cookie), "it has ended");
        assert!(!counts(&key(), other, 0, &cookie), "another's");
        let strange = DeskKey::new("another secret that is long enough").expect("a key");
        assert!(!counts(&strange, one, 0, &cookie), "another desk's");
        let (until, signature) = cookie.split_once('.').expect("two parts");
        let longer = format!("{}.{signature}", until.parse::<i64>().expect("a number") + 1);
        for bad in ["", ".", "1.", &longer, &format!("{cookie}A"), &cookie[1..], signature] {
            assert!(!counts(&key(), one, 0, bad), "{bad}");
        }
        assert!(is_learner(&key(), one, at(0), &["x".to_owned(), cookie]), "one of several");
    }

    #[test]
    fn a_ticket_opens_the_stream_alone_and_a_persons_proof_comes_first_for_the_grade() {
        let none = HeaderMap::new();
        let cookie =
            HeaderMap::from_iter([(header::COOKIE, "a=b; __Secure-assessment=c".parse().expect("a value"))]);
        let get = |template, query, headers: &HeaderMap, persons| {
            presented(&Method::GET, template, query, headers, persons)
        };
        let (ticket, cookies) =
            (Some(Proof::Ticket("t".to_owned())), Some(Proof::Cookies(vec!["c".to_owned()])));
        assert_eq!(get(EVENTS, Some("ticket=t"), &none, false), ticket);
        assert_eq!(get(EVENTS, Some("ticket=t"), &cookie, true), ticket);
        assert_eq!(get(EVENTS, None, &cookie, true), cookies);
        assert_eq!(get(GRADE, None, &cookie, false), cookies);
        assert_eq!(get(GRADE, None, &cookie, true), None);
        assert_eq!(get(GRADE, Some("ticket=t"), &none, false), None);
        assert_eq!(get("/api/grey-queue", None, &cookie, false), None);
        assert_eq!(get(EVENTS, None, &none, false), None);
        assert_eq!(presented(&Method::POST, EVENTS, Some("ticket=t"), &cookie, false), None);
        assert_eq!(format!("{ticket:?} {cookies:?}").matches("<redacted>").count(), 2);
    }

    #[test]
    fn what_is_kept_of_a_ticket_is_its_sha_256() {
        assert_eq!(
            hex::encode(digest("a")),
            "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
        );
        let rng = Rng::seeded(1);
        assert!(ticket(&rng).len() == 43 && ticket(&rng) != ticket(&rng));
    }
}
