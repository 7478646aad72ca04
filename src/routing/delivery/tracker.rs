//! Reads the relay's log as a story: which queue ids are mails of ours, what became of each for whom, and what that proves
//! about a mail that is perhaps sent (protocol, "Crash, doubt, stop, replay").
//!
//! A queue id is ours when cleanup logged a Message-ID of ours under it; everything else is forgotten at once, so that foreign
//! mail costs nothing. Pure: lines come in, what was [`Seen`] comes out. Memory is bounded: of very many, the oldest are
//! forgotten, and what is forgotten proves nothing. It may be saved and read again, and reading a line twice does no harm.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::Seen;
use crate::ports::{LogEntry, LogLine, QueueListing, RecipientLine, RelayStatus};
use crate::routing::message_id::{self, Origin};

/// Mails followed at once.
const FOLLOWED: usize = 100_000;
/// Mails remembered once nothing more can follow: their lines prove something for a while.
const REMEMBERED: usize = 10_000;
/// Sessions whose mail has no name yet.
const NAMELESS: usize = 4_096;

/// One mail of ours in the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mail {
    origin: Origin,
    message_id: String,
    /// Counts mails of ours as their Message-IDs are logged.
    nth: u64,
    /// Process id of the smtpd whose session it came in by, while that session lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<u32>,
    /// The session it came in by was seen to end.
    #[serde(default)]
    session_ended: bool,
    /// It was in the queue.
    #[serde(default)]
    active: bool,
    /// Nothing is left of it.
    #[serde(default)]
    removed: bool,
    /// Nothing more is expected of it.
    #[serde(default)]
    over: bool,
    /// What was said last of each recipient, by [`normal`] address.
    #[serde(default)]
    recipients: BTreeMap<String, RelayStatus>,
}

/// What is known of all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tracker {
    /// Mails so far.
    count: u64,
    mails: HashMap<String, Mail>,
    /// Queue ids of mails that were over when they were put here, the first one first.
    over: VecDeque<String>,
    /// Queue ids of those that are not, in the order of their Message-IDs.
    #[serde(skip)]
    open: BTreeMap<u64, String>,
    /// Messages that a session gave a queue id, and that have no Message-ID yet; whether that session has ended. It may end
    /// first: cleanup still reads what smtpd has handed on.
    #[serde(skip)]
    nameless: HashMap<String, (u32, bool)>,
    /// Of `mails`, those whose session lasts, by its process id.
    #[serde(skip)]
    sessions: HashMap<u32, Vec<String>>,
}

/// What the log proves about a mail that is perhaps sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// The relay has accepted it for this recipient.
    Found {
        /// Under this queue id.
        queue_id: String,
        /// With this Message-ID.
        message_id: String,
    },
    /// Whatever was sent did not get into the queue.
    Disproved {
        /// The queue ids it had.
        queue_ids: Vec<String>,
    },
    /// More may follow.
    Unclear,
    /// The log does not know it.
    Nothing,
}

impl Tracker {
    /// Mails whose Message-IDs were logged so far: what is counted later was sent later, as far as the log was read then.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.count
    }

    /// The same after it was saved and read.
    #[must_use]
    pub fn restored(mut self) -> Self {
        for (id, mail) in &self.mails {
            if !mail.over {
                self.open.insert(mail.nth, id.clone());
            }
            if let Some(session) = mail.session {
                self.sessions.entry(session).or_default().push(id.clone());
            }
        }
        self
    }

    /// Mails that are not over.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.open.len()
    }

    /// Takes one line, and answers what it says of our recipients.
    pub fn read(&mut self, line: &LogLine) -> Vec<Seen> {
        match &line.entry {
            LogEntry::SessionBegan { session } | LogEntry::SessionEnded { session } => {
                self.end_session(*session);
                Vec::new()
            }
            LogEntry::Received { id, session } => {
                // A queue id that comes again is another mail.
                self.forget(id);
                if self.nameless.len() >= NAMELESS {
                    // Whoever fills it up sends no Message-IDs; a mail that loses its session by this proves less.
                    self.nameless.clear();
                }
                self.nameless.insert(id.clone(), (*session, false));
                Vec::new()
            }
            LogEntry::MessageId { id, message_id } => {
                self.named(id, message_id);
                Vec::new()
            }
            LogEntry::Active { id } => {
                self.is_active(id);
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

    /// The queue ids under which mails of `origin` are known.
    #[must_use]
    pub fn ids_of(&self, origin: Origin) -> Vec<String> {
        self.of(origin).map(|(id, _)| id.clone()).collect()
    }

    /// What is proved about the mail of `origin` for `recipient`, given what is in the relay's queue and that everything
    /// logged before the queue was looked at has been read. `after`: the [`mark`](Self::mark) at the time it was begun, if it
    /// is known; mails logged before prove nothing about one that was sent after.
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
        for (id, mail) in self.of(origin) {
            let in_queue = queued(id);
            let is_queued =
                in_queue.is_some_and(|mail| mail.recipients.iter().any(|to| normal(to) == recipient));
            if mail.recipients.contains_key(&recipient) || is_queued {
                return Evidence::Found { queue_id: id.clone(), message_id: mail.message_id.clone() };
            }
            if after.is_some_and(|after| mail.nth <= after) {
                continue;
            }
            let looked = listing.is_some_and(|listing| listing.complete);
            let never_in = !mail.active && mail.session_ended && looked && in_queue.is_none();
            // Every recipient is named before a mail is removed, and those not named yet are in the queue.
            let not_for_them = mail.removed || (mail.active && in_queue.is_some());
            match (never_in || not_for_them, after) {
                (true, Some(_)) => disproved.push(id.clone()),
                // It may be about an earlier send.
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
        let session = self.nameless.remove(id);
        let Some(origin) = message_id::parse(message_id) else { return };
        // Read a second time: it is known, and everything that was learnt since stands.
        if self.mails.get(id).is_some_and(|mail| mail.origin == origin) {
            return;
        }
        self.forget(id);
        self.make_room();
        self.count += 1;
        let session_ended = session.is_some_and(|(_, ended)| ended);
        let session = session.filter(|(_, ended)| !ended).map(|(session, _)| session);
        if let Some(session) = session {
            self.sessions.entry(session).or_default().push(id.to_owned());
        }
        let mail = Mail {
            origin,
            message_id: message_id.to_owned(),
            nth: self.count,
            session,
            session_ended,
            active: false,
            removed: false,
            over: false,
            recipients: BTreeMap::new(),
        };
        self.open.insert(self.count, id.to_owned());
        self.mails.insert(id.to_owned(), mail);
        if session_ended {
            // Unless it turns up in the queue.
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
        vec![Seen {
            origin: mail.origin,
            recipient: recipient.to_owned(),
            status: said.status,
            at: line.at,
            queue_id: Some(id.to_owned()),
            message_id: Some(mail.message_id.clone()),
            dsn: said.dsn.clone(),
            relay: said.relay.clone(),
            text: said.text.clone(),
        }]
    }

    /// What is left of its recipients has waited too long.
    fn expired(&mut self, line: &LogLine, id: &str, why: &str) -> Vec<Seen> {
        let Some(mail) = self.mails.get_mut(id) else { return Vec::new() };
        let seen = |recipient: &String, mail: &Mail| Seen {
            origin: mail.origin,
            recipient: recipient.clone(),
            status: RelayStatus::Expired,
            at: line.at,
            queue_id: Some(id.to_owned()),
            message_id: Some(mail.message_id.clone()),
            dsn: None,
            relay: None,
            text: why.to_owned(),
        };
        let waiting = |status: &RelayStatus| !status.is_final();
        let all: Vec<Seen> =
            mail.recipients.iter().filter(|(_, s)| waiting(s)).map(|(to, _)| seen(to, mail)).collect();
        for status in mail.recipients.values_mut().filter(|status| waiting(status)) {
            *status = RelayStatus::Expired;
        }
        all
    }

    /// Whether what was handed on is in this relay again under another queue id (a content filter, a forwarding): then that
    /// one tells the end.
    fn goes_on(&self, id: &str, text: &str) -> bool {
        let Some(mail) = self.mails.get(id) else { return false };
        let next = ["queued as ", "forwarded as "].iter().find_map(|words| text.split(words).nth(1));
        let next =
            next.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default());
        next.is_some_and(|next| {
            next != id && self.mails.get(next).is_some_and(|other| other.origin == mail.origin)
        })
    }

    fn end_session(&mut self, session: u32) {
        for (_, ended) in self.nameless.values_mut().filter(|(of, _)| *of == session) {
            *ended = true;
        }
        for id in self.sessions.remove(&session).unwrap_or_default() {
            if let Some(mail) = self.mails.get_mut(&id)
                && mail.session == Some(session)
            {
                mail.session = None;
                mail.session_ended = true;
                if !mail.active {
                    // Unless it turns up in the queue.
                    self.is_over(&id);
                }
            }
        }
    }

    /// It is in the queue; also one of which nothing more was expected.
    fn is_active(&mut self, id: &str) -> Option<&mut Mail> {
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

/// An address as it is compared: the quotation that a log may add or leave out is gone, and its domain in lower case.
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
