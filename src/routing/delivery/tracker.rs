//! Follows our mails through the relay's log: their queue ids, their status for each recipient, and proofs about a mail
//! that is perhaps sent (protocol, "Crash, doubt, stop, replay").
//!
//! A queue id is followed when cleanup logged a Message-ID of ours under it; every other is forgotten at once, so that
//! foreign mail costs nothing. `ours` proves that a mail is really ours, `sessions` that one was not taken. A mail not
//! proved to be ours counts only where our own 250 named the queue id (`status`), and proves nothing about a doubt.
//!
//! Pure: lines come in, reports ([`Seen`]) come out. Memory is bounded: of very many mails the oldest are forgotten, and
//! a forgotten mail proves nothing. A tracker may be saved and read again, and reading a line twice does no harm.

mod ours;
mod sessions;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

pub use self::ours::Ours;
use self::sessions::Sessions;
use super::Seen;
use crate::ports::{LogEntry, LogLine, QueueListing, RecipientLine, RelayStatus};
use crate::routing::submission::message_id;
use crate::routing::submission::message_id::Origin;

/// Largest number of mails followed at once.
const FOLLOWED: usize = 100_000;
/// Number of mails remembered after their last line: those lines prove something for a while.
const REMEMBERED: usize = 10_000;
/// Largest number of messages without a Message-ID.
const NAMELESS: usize = 4_096;

/// One mail of ours in the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mail {
    origin: Origin,
    message_id: String,
    /// Number of the mail, in the order of logged Message-IDs.
    nth: u64,
    /// Session the mail came in by, as long as that may prove something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<u64>,
    /// Whether the mail was submitted on this host and by SMTP, or is derived from one that was.
    #[serde(default)]
    local: bool,
    /// Whether the envelope sender has our token for the mail.
    #[serde(default)]
    token: bool,
    /// Whether the mail was in the queue.
    #[serde(default)]
    active: bool,
    /// Number of recipients in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
    /// Whether the mail has left the queue.
    #[serde(default)]
    removed: bool,
    /// Whether no further line is expected.
    #[serde(default)]
    over: bool,
    /// Last status of each recipient, by [`normal`] address.
    #[serde(default)]
    recipients: BTreeMap<String, RelayStatus>,
}

/// Origin of a message without a Message-ID yet.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Came {
    /// As [`Mail::by`].
    by: Option<u64>,
    /// As [`Mail::local`].
    local: bool,
}

/// State of all followed mails.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tracker {
    #[serde(skip)]
    ours: Ours,
    /// Number of mails so far.
    count: u64,
    mails: HashMap<String, Mail>,
    /// Queue ids of mails whose last line was read, the first one first.
    over: VecDeque<String>,
    /// Queue ids of the other mails, in the order of their Message-IDs.
    #[serde(skip)]
    open: BTreeMap<u64, String>,
    /// Messages that have a queue id and no Message-ID yet. Their session may end first: cleanup still reads smtpd's
    /// output.
    nameless: HashMap<String, Came>,
    sessions: Sessions,
}

/// Proof by the log about a mail that is perhaps sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// The relay has accepted it for this recipient.
    Found {
        /// Under this queue id.
        queue_id: String,
        /// With this Message-ID.
        message_id: String,
    },
    /// No send of the mail got into the queue.
    Disproved {
        /// The queue ids of those sends.
        queue_ids: Vec<String>,
    },
    /// More lines may follow.
    Unclear,
    /// The log has no such mail.
    Nothing,
}

impl Tracker {
    /// Number of Message-IDs of ours logged so far; the mails of higher numbers were logged later, hence sent later.
    #[must_use]
    pub fn log_position(&self) -> u64 {
        self.count
    }

    /// Completes a tracker that was saved and read.
    #[must_use]
    pub fn restored(mut self, ours: Ours) -> Self {
        self.ours = ours;
        let open = self.mails.iter().filter(|(_, mail)| !mail.over);
        self.open = open.map(|(id, mail)| (mail.nth, id.clone())).collect();
        self
    }

    /// Number of mails with further lines expected.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.open.len()
    }

    /// Takes one line, and returns its reports on our recipients.
    pub fn read(&mut self, line: &LogLine) -> Vec<Seen> {
        match &line.entry {
            LogEntry::SessionBegan { session } => {
                let left = self.sessions.begin(*session);
                self.are_over(&left);
                Vec::new()
            }
            LogEntry::Cut { session } => {
                self.sessions.cut(*session);
                Vec::new()
            }
            LogEntry::SessionEnded { session, summary } => {
                let left = self.sessions.end(*session, *summary);
                self.are_over(&left);
                Vec::new()
            }
            LogEntry::Received { id, session, client } => {
                let by = self.sessions.gave(*session, id);
                let local = client.is_some_and(|client| self.ours.is_local(client));
                self.came(id, Came { by, local });
                Vec::new()
            }
            LogEntry::PickedUp { id, original } => {
                let original = original.as_ref().and_then(|original| self.mails.get(original));
                let local = original.is_some_and(|original| original.local);
                self.came(id, Came { by: None, local });
                Vec::new()
            }
            LogEntry::MessageId { id, message_id } => {
                self.named(id, message_id);
                Vec::new()
            }
            LogEntry::Active { id, sender, recipients } => {
                self.is_active(id);
                let Self { ours, mails, .. } = self;
                if let Some(mail) = mails.get_mut(id) {
                    mail.token = ours.proves(sender, mail.origin);
                    mail.count = Some(*recipients);
                }
                Vec::new()
            }
            LogEntry::Forwarded { id, to, next } => self.inherit(line, id, to, next),
            LogEntry::Lost { .. } => {
                self.sessions.forget_all();
                self.nameless.clear();
                Vec::new()
            }
            LogEntry::Recipient { id, line: said } => self.said(line, id, said),
            LogEntry::Expired { id, why } => self.expired(line, id, why),
            LogEntry::Removed { id } => {
                if let Some(mail) = self.is_active(id) {
                    mail.removed = true;
                    self.is_over(id);
                }
                Vec::new()
            }
        }
    }

    /// Returns the queue ids of the known mails of `origin`.
    #[must_use]
    pub fn ids_of(&self, origin: Origin) -> Vec<String> {
        self.of(origin).map(|(id, _)| id.clone()).collect()
    }

    /// Proof about the mail of `origin` for `recipient`, given the relay's queue; everything logged before the queue was
    /// listed must have been read. Mails of strangers prove nothing. `after`: the [`log_position`](Self::log_position)
    /// when the intent was recorded, if known; mails logged before prove nothing about a later send.
    #[must_use]
    pub fn evidence(
        &self,
        origin: Origin,
        recipient: &str,
        after: Option<u64>,
        listing: Option<&QueueListing>,
    ) -> Evidence {
        let recipient = normal(recipient);
        let queued = |id: &str| listing.and_then(|listing| listing.found.iter().find(|mail| mail.id == id));
        let (mut unclear, mut disproved) = (false, Vec::new());
        for (id, mail) in self.of(origin).filter(|(_, mail)| mail.local) {
            let in_queue = queued(id);
            let is_taken = mail.active || in_queue.is_some();
            let is_proved = mail.token || in_queue.is_some_and(|mail| self.ours.proves(&mail.sender, origin));
            if is_taken && !is_proved {
                // A mail with a logged sender is a stranger's.
                unclear |= mail.count.is_none() && after.is_some_and(|after| mail.nth > after);
                continue;
            }
            let waiting = in_queue.iter().flat_map(|mail| &mail.recipients).map(|to| normal(to));
            let named: BTreeSet<String> = mail.recipients.keys().cloned().chain(waiting).collect();
            if named.contains(&recipient) {
                return Evidence::Found { queue_id: id.clone(), message_id: mail.message_id.clone() };
            }
            if after.is_some_and(|after| mail.nth <= after) {
                continue;
            }
            let looked = listing.is_some_and(|listing| listing.complete);
            let never_in = !is_taken && looked && mail.by.is_some_and(|by| self.sessions.proves(by));
            // All recipients of the taken mail are known, and this one is not among them.
            let not_for_them = mail.count.is_some_and(|count| usize::try_from(count) == Ok(named.len()));
            match (never_in || not_for_them, after) {
                (true, Some(_)) => disproved.push(id.clone()),
                // The mail may stem from an earlier send.
                (true, None) => {}
                (false, _) => unclear = true,
            }
        }
        match (unclear, disproved.is_empty()) {
            (true, _) => Evidence::Unclear,
            (false, false) => Evidence::Disproved { queue_ids: disproved },
            (false, true) => Evidence::Nothing,
        }
    }

    fn of(&self, origin: Origin) -> impl Iterator<Item = (&String, &Mail)> {
        self.mails.iter().filter(move |(_, mail)| mail.origin == origin)
    }

    fn named(&mut self, id: &str, message_id: &str) {
        let came = self.nameless.remove(id).unwrap_or_default();
        let Some(origin) = message_id::parse(message_id) else {
            if let Some(by) = came.by {
                self.sessions.settle(by, id, false);
            }
            return;
        };
        // Read a second time: the mail is known, and everything learnt since stands.
        if self.mails.get(id).is_some_and(|mail| mail.origin == origin) {
            return;
        }
        self.forget(id);
        self.make_room();
        self.count += 1;
        let session_ended = came.by.is_some_and(|by| !self.sessions.lasts(by));
        let mail = Mail {
            origin,
            message_id: message_id.to_owned(),
            nth: self.count,
            by: came.by,
            local: came.local,
            token: self.ours.senders.is_none(),
            active: false,
            count: None,
            removed: false,
            over: false,
            recipients: BTreeMap::new(),
        };
        self.open.insert(self.count, id.to_owned());
        self.mails.insert(id.to_owned(), mail);
        if session_ended {
            // Unless the mail turns up in the queue.
            self.is_over(id);
        }
    }

    fn said(&mut self, line: &LogLine, id: &str, said: &RecipientLine) -> Vec<Seen> {
        if said.status == RelayStatus::Delivered && self.goes_on(id, &said.text) {
            return Vec::new();
        }
        let Some(mail) = self.is_active(id) else { return Vec::new() };
        let recipient = said.original.as_deref().unwrap_or(&said.to);
        mail.recipients.insert(normal(recipient), said.status);
        let seen = mail.seen(id, recipient, said.status, line, &said.text);
        vec![Seen { dsn: said.dsn.clone(), relay: said.relay.clone(), ..seen }]
    }

    /// Gives `next`, made of `id`, that mail's origin. Earlier lines about `next` count from now on.
    fn inherit(&mut self, line: &LogLine, id: &str, to: &str, next: &str) -> Vec<Seen> {
        let Some(mail) = self.is_active(id) else { return Vec::new() };
        mail.recipients.insert(normal(to), RelayStatus::Delivered);
        let (origin, local) = (mail.origin, mail.local);
        let Some(made) = self.mails.get_mut(next).filter(|made| made.origin == origin && !made.local) else {
            return Vec::new();
        };
        made.local = local;
        let said = made.recipients.iter().filter(|_| local);
        said.map(|(to, status)| made.seen(next, to, *status, line, "")).collect()
    }

    /// Reports the remaining recipients as expired.
    fn expired(&mut self, line: &LogLine, id: &str, why: &str) -> Vec<Seen> {
        let Some(mail) = self.mails.get_mut(id) else { return Vec::new() };
        let waiting = |status: &RelayStatus| !status.is_final();
        let left = mail.recipients.iter().filter(|(_, status)| waiting(status));
        let all: Vec<Seen> = left.map(|(to, _)| mail.seen(id, to, RelayStatus::Expired, line, why)).collect();
        for status in mail.recipients.values_mut().filter(|status| waiting(status)) {
            *status = RelayStatus::Expired;
        }
        all
    }

    /// Whether a mail handed on is in this relay again under another queue id (a content filter, a forwarding): then the
    /// lines of that id report the end.
    fn goes_on(&self, id: &str, text: &str) -> bool {
        let Some(mail) = self.mails.get(id) else { return false };
        let next = ["queued as ", "forwarded as "].iter().find_map(|words| text.split(words).nth(1));
        let next =
            next.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default());
        next.is_some_and(|next| {
            next != id && self.mails.get(next).is_some_and(|other| other.origin == mail.origin && other.local)
        })
    }

    /// Notes a message's queue id. A queue id that comes again is another mail.
    fn came(&mut self, id: &str, came: Came) {
        self.forget(id);
        if self.nameless.len() >= NAMELESS {
            // A flood of such messages has no Message-IDs; a mail that loses its session by this proves less.
            self.nameless.clear();
        }
        self.nameless.insert(id.to_owned(), came);
    }

    /// Expects nothing more of the mails, unless one turns up in the queue.
    fn are_over(&mut self, ids: &[String]) {
        ids.iter().for_each(|id| self.is_over(id));
    }

    /// Notes that a mail is in the queue; also one of which nothing more was expected.
    fn is_active(&mut self, id: &str) -> Option<&mut Mail> {
        if let Some(by) = self.mails.get_mut(id)?.by.take() {
            self.sessions.settle(by, id, true);
        }
        let mail = self.mails.get_mut(id)?;
        mail.active = true;
        if mail.over && !mail.removed {
            mail.over = false;
            self.open.insert(mail.nth, id.to_owned());
        }
        Some(mail)
    }

    fn is_over(&mut self, id: &str) {
        let Some(mail) = self.mails.get_mut(id) else { return };
        if std::mem::replace(&mut mail.over, true) {
            return;
        }
        self.open.remove(&mail.nth);
        self.over.push_back(id.to_owned());
        if self.over.len() > REMEMBERED
            && let Some(oldest) = self.over.pop_front()
            && self.mails.get(&oldest).is_some_and(|mail| mail.over)
        {
            self.mails.remove(&oldest);
        }
    }

    fn forget(&mut self, id: &str) {
        if let Some(mail) = self.mails.remove(id) {
            self.open.remove(&mail.nth);
            self.over.retain(|over| over != id);
        }
    }

    fn make_room(&mut self) {
        if self.open.len() >= FOLLOWED
            && let Some((_, oldest)) = self.open.pop_first()
        {
            self.mails.remove(&oldest);
        }
    }
}

impl Mail {
    /// Makes a report on one recipient of the mail.
    fn seen(&self, id: &str, recipient: &str, status: RelayStatus, line: &LogLine, text: &str) -> Seen {
        Seen {
            origin: self.origin,
            recipient: recipient.to_owned(),
            status,
            at: line.at,
            queue_id: Some(id.to_owned()),
            proved: self.local && self.token,
            message_id: Some(self.message_id.clone()),
            dsn: None,
            relay: None,
            text: text.to_owned(),
        }
    }
}

/// An address in its compared form: without the quotation that a log may add or leave out, its domain in lower case.
#[must_use]
pub fn normal(address: &str) -> String {
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    let local = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(local);
    let mut plain = String::with_capacity(address.len());
    let mut escaped = false;
    for c in local.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            plain.push(c);
        }
    }
    plain.push('@');
    plain.push_str(&domain.to_ascii_lowercase());
    plain
}

#[cfg(test)]
mod tests;
