//! Mails lost after the relay's acceptance without a notification of people: the cause in closed words, the lease of
//! each notification, and its text.
//!
//! Pure: time and tokens are arguments. A server's own wording is never part of a cause. Bounded: entries past [`MOST`]
//! are only counted, and the notification says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ports::{RelayStatus, Runbook, Story, Unalerted};

/// Largest number of entries kept one by one.
pub const MOST: usize = 10_000;
/// Largest number of entries of one lease, so of one message.
pub const LEASED: usize = 1_000;
/// Prefix of a cause that is only claimed.
const CLAIMED: &str = "claimed ";
/// Cause of the entries that are only counted.
const REST: &str = "beyond";

/// Cause of a lost mail, as far as alerts distinguish causes: refused further on or given up, and the RFC 3463 status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct LostCause {
    expired: bool,
    /// Whether the source is a returned mail, which another recipient could have written.
    claimed: bool,
    dsn: Option<(u8, u16, u16)>,
}

impl LostCause {
    /// Derives the cause from a report of the log or a returned mail. A text that is no RFC 3463 status is left out.
    #[must_use]
    pub fn of(status: RelayStatus, dsn: Option<&str>, claimed: bool) -> Self {
        Self { expired: status == RelayStatus::Expired, claimed, dsn: dsn.and_then(parsed) }
    }

    /// Describes the cause for people.
    #[must_use]
    pub fn words(self) -> String {
        let what = if self.expired {
            "given up by the relay: it waited too long, or was removed by hand"
        } else {
            "refused by a later hop"
        };
        let lost = if self.claimed {
            "a returned mail says (any of its recipients could have written it): mail lost after it was accepted"
        } else {
            "mail lost after it was accepted"
        };
        match self.dsn {
            Some((class, subject, detail)) => {
                let meaning = meaning(subject, detail);
                format!("{lost}: {what} ({class}.{subject}.{detail}, {meaning})")
            }
            None => format!("{lost}: {what}"),
        }
    }
}

/// Parses an RFC 3463 status (`5.1.1`).
fn parsed(dsn: &str) -> Option<(u8, u16, u16)> {
    let mut parts = dsn.split('.');
    let mut number = || {
        let part = parts.next()?;
        let plain = (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| part.parse::<u16>().ok()).flatten()
    };
    let (class, subject, detail) = (number()?, number()?, number()?);
    let class = u8::try_from(class).ok().filter(|class| [2, 4, 5].contains(class))?;
    parts.next().is_none().then_some((class, subject, detail))
}

/// Meaning of a status in RFC 3463.
fn meaning(subject: u16, detail: u16) -> &'static str {
    match (subject, detail) {
        (1, 1) => "no such mailbox",
        (1, 2 | 10) | (4, 4) => "no such mail domain",
        (1, _) => "about the address",
        (2, 1) => "the mailbox is switched off",
        (2, 2) => "the mailbox is full",
        (2, _) => "about the mailbox",
        (3, 4) => "too large for the next system",
        (3, _) => "about the next mail system",
        (4, 1) => "the next system does not answer",
        (4, 6) => "a mail loop",
        (4, 7) => "waited too long",
        (4, _) => "about the network or the way there",
        (5, _) => "about the dialogue with the next system",
        (6, _) => "about the content",
        (7, _) => "against a policy of the next system",
        _ => "for another reason",
    }
}

impl std::fmt::Display for LostCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.claimed { CLAIMED } else { "" })?;
        f.write_str(if self.expired { "expired" } else { "bounced" })?;
        match self.dsn {
            Some((class, subject, detail)) => write!(f, " {class}.{subject}.{detail}"),
            None => Ok(()),
        }
    }
}

impl From<LostCause> for String {
    fn from(cause: LostCause) -> Self {
        cause.to_string()
    }
}

impl From<String> for LostCause {
    fn from(key: String) -> Self {
        let said = key.strip_prefix(CLAIMED);
        let key = said.unwrap_or(&key);
        let (word, dsn) = key.split_once(' ').unwrap_or((key, ""));
        Self { expired: word == "expired", claimed: said.is_some(), dsn: parsed(dsn) }
    }
}

/// Identity of a mail: one delivery of one submission, of one generation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mail {
    /// The submission.
    pub submission_id: Uuid,
    /// Key of the delivery (`1|a@example.org`).
    pub delivery: String,
    /// Generation of the mail.
    pub generation: u32,
}

/// A lost mail without a notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Identity of the mail.
    #[serde(flatten)]
    pub mail: Mail,
    /// Cause of the loss.
    pub cause: LostCause,
    /// Time of the record (database time).
    pub at: Timestamp,
    /// Whether people were notified, and the ledger does not say so yet.
    #[serde(rename = "told", default, skip_serializing_if = "std::ops::Not::not")]
    pub notified: bool,
}

/// State that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Entries kept one by one.
    pub lost: Vec<Lost>,
    /// Number of further entries.
    #[serde(rename = "beyond")]
    pub rest: u64,
}

#[derive(Debug, Clone)]
struct Kept {
    cause: LostCause,
    at: Timestamp,
    lease: Option<(Uuid, Instant)>,
    notified: bool,
}

/// The lost mails, and the leases of their notifications.
#[derive(Debug, Default)]
pub struct Pages {
    kept: BTreeMap<Mail, Kept>,
    rest: u64,
    /// Lease of the entries that are only counted: token, end, number of entries.
    notifying_rest: Option<(Uuid, Instant, u64)>,
    changes: u64,
}

impl Pages {
    /// Takes in a lost mail; one already here stays as it is. Past [`MOST`] the mail is only counted.
    pub fn add(&mut self, lost: Lost) {
        if self.kept.contains_key(&lost.mail) {
            return;
        }
        self.changes += 1;
        if self.kept.len() >= MOST {
            self.rest = self.rest.saturating_add(1);
            return;
        }
        let Lost { mail, cause, at, notified } = lost;
        self.kept.insert(mail, Kept { cause, at, lease: None, notified });
    }

    /// Returns the state that outlives the process; leases do not.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let lost = |(mail, kept): (&Mail, &Kept)| Lost {
            mail: mail.clone(),
            cause: kept.cause,
            at: kept.at,
            notified: kept.notified,
        };
        Snapshot { lost: self.kept.iter().map(lost).collect(), rest: self.rest }
    }

    /// Takes in the state of a former process.
    pub fn restore(&mut self, left: Snapshot) {
        self.rest = self.rest.saturating_add(left.rest);
        for lost in left.lost {
            self.add(lost);
        }
    }

    /// Number of changes that a snapshot would show.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The causes of entries neither notified nor leased, and the number of each.
    #[must_use]
    pub fn causes(&self, now: Instant) -> Vec<Unalerted> {
        let mut causes: BTreeMap<LostCause, u64> = BTreeMap::new();
        for kept in self.kept.values().filter(|kept| kept.is_free(now)) {
            *causes.entry(kept.cause).or_default() += 1;
        }
        let rest = self.rest_is_free(now).then(|| Unalerted { cause: REST.to_owned(), count: self.rest });
        let causes = causes.into_iter().map(|(cause, count)| Unalerted { cause: cause.to_string(), count });
        causes.chain(rest).collect()
    }

    /// Leases the free entries of a cause, the longest known first; and whether there are more.
    pub fn lease(&mut self, cause: &str, token: Uuid, until: Instant, now: Instant) -> (Vec<Lost>, bool) {
        let wanted = |kept: &Kept| kept.is_free(now) && kept.cause.to_string() == cause;
        let mut free: Vec<(Timestamp, Mail)> =
            self.kept.iter().filter(|(_, kept)| wanted(kept)).map(|(m, kept)| (kept.at, m.clone())).collect();
        free.sort();
        let more = free.len() > LEASED;
        free.truncate(LEASED);
        let mut leased = Vec::with_capacity(free.len());
        for (at, mail) in free {
            if let Some(kept) = self.kept.get_mut(&mail) {
                kept.lease = Some((token, until));
                leased.push(Lost { mail, cause: kept.cause, at, notified: false });
            }
        }
        (leased, more)
    }

    /// Leases the entries that are only counted; returns their number.
    pub fn lease_rest(&mut self, cause: &str, token: Uuid, until: Instant, now: Instant) -> Option<u64> {
        let taken = cause == REST && self.rest_is_free(now);
        taken.then(|| {
            self.notifying_rest = Some((token, until, self.rest));
            self.rest
        })
    }

    fn rest_is_free(&self, now: Instant) -> bool {
        self.rest > 0 && self.notifying_rest.is_none_or(|(_, until, _)| until <= now)
    }

    /// Records the notification of people under `token`. Returns how many of the entries are only counted.
    pub fn notified(&mut self, token: Uuid) -> u64 {
        for kept in self.kept.values_mut().filter(|kept| kept.is_leased_by(token)) {
            (kept.notified, kept.lease) = (true, None);
            self.changes += 1;
        }
        let Some((_, _, count)) = self.notifying_rest.take_if(|(owner, ..)| *owner == token) else {
            return 0;
        };
        self.rest = self.rest.saturating_sub(count);
        self.changes += 1;
        count
    }

    /// Ends the leases of `token`, so that another sender may notify.
    pub fn give_back(&mut self, token: Uuid) {
        for kept in self.kept.values_mut().filter(|kept| kept.is_leased_by(token)) {
            kept.lease = None;
        }
        self.notifying_rest.take_if(|(owner, ..)| *owner == token);
    }

    /// Up to `most` mails whose notification is not yet in the ledger.
    #[must_use]
    pub fn unwritten(&self, most: usize) -> Vec<Mail> {
        self.kept.iter().filter(|(_, kept)| kept.notified).map(|(mail, _)| mail.clone()).take(most).collect()
    }

    /// Removes mails that need no notification any more.
    pub fn forget<'a>(&mut self, mails: impl IntoIterator<Item = &'a Mail>) {
        for mail in mails {
            if self.kept.remove(mail).is_some() {
                self.changes += 1;
            }
        }
    }
}

impl Kept {
    fn is_free(&self, now: Instant) -> bool {
        !self.notified && self.lease.is_none_or(|(_, until)| until <= now)
    }

    fn is_leased_by(&self, token: Uuid) -> bool {
        self.lease.is_some_and(|(owner, _)| owner == token)
    }
}

/// Example of a cause's lost mails, as shown in a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The submission.
    pub submission_id: Uuid,
    /// Forms of all mails of the cause.
    pub forms: BTreeSet<String>,
    /// The report's text, without addresses; may be empty.
    pub said: String,
    /// Age of the record.
    pub ago: String,
}

/// Notification of mails with one cause.
#[must_use]
pub fn story(cause: LostCause, shown: &Shown) -> Story {
    let mut details = Vec::new();
    if !shown.said.is_empty() {
        details.push(format!("one reply: {}", shown.said));
    }
    let form = shown.forms.first().map_or("", String::as_str);
    let others = match shown.forms.len() {
        ..=1 => String::new(),
        2 => " and 1 other form".to_owned(),
        forms => format!(" and {} other forms", forms - 1),
    };
    details.push(format!("form {form}{others}; the oldest was lost {} ago", shown.ago));
    details.push(
        "their submissions stay as they are; once the cause is mended, `replay` with --force-delivery or --force-action \
         sends again"
            .to_owned(),
    );
    let commands = vec![
        format!("maple-router explain {}", shown.submission_id),
        "maple-router list --bounced".to_owned(),
    ];
    Story { what: cause.words(), details, commands, runbook: RUNBOOK }
}

/// Notification of the entries that are only counted.
#[must_use]
pub fn story_of_the_rest() -> Story {
    Story {
        what: "mail lost after it was accepted, too many to be named by cause".to_owned(),
        details: vec!["the ledgers know each of them".to_owned()],
        commands: vec!["maple-router list --bounced".to_owned()],
        runbook: RUNBOOK,
    }
}

const RUNBOOK: Runbook = Runbook { file: "rb-009-routing-failure.md", section: "lost" };

#[cfg(test)]
mod tests;
