//! Reads the relay's log as a story: which queue ids are mails of ours, what became of each for whom, and what that proves
//! about a mail that is perhaps sent (protocol, "Crash, doubt, stop, replay").
//!
//! A queue id is followed when cleanup logged a Message-ID of ours under it; everything else is forgotten at once, so that
//! foreign mail costs nothing. Whether that mail is really ours, `ours` says; that one was not taken, `sessions`. What is not
//! proved to be ours counts only where our own 250 named the queue id (`status`), and proves nothing about a doubt.
//!
//! Pure: lines come in, what was [`Seen`] comes out. Memory is bounded: of very many, the oldest are forgotten, and what is
//! forgotten proves nothing. It may be saved and read again, and reading a line twice does no harm.

mod ours;
mod sessions;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

pub use self::ours::Ours;
use self::sessions::Sessions;
use super::Seen;
use crate::ports::{LogEntry, LogLine, QueueListing, RecipientLine, RelayStatus};
use crate::routing::message_id::{self, Origin};

/// Mails followed at once.
const FOLLOWED: usize = 100_000;
/// Mails remembered once nothing more can follow: their lines prove something for a while.
const REMEMBERED: usize = 10_000;
/// Mails that have no name yet.
const NAMELESS: usize = 4_096;

/// One mail of ours in the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mail {
    origin: Origin,
    message_id: String,
    /// Counts mails of ours as their Message-IDs are logged.
    nth: u64,
    /// The session it came in by, as long as that may prove something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<u64>,
    /// It was handed in on this host and by SMTP, or was made of one that was.
    #[serde(default)]
    local: bool,
    /// Its envelope sender carries our token for it.
    #[serde(default)]
    token: bool,
    /// It was in the queue.
    #[serde(default)]
    active: bool,
    /// How many recipients it had then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
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

/// How a message came in that has no name yet.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Came {
    /// See [`Mail::by`].
    by: Option<u64>,
    /// See [`Mail::local`].
    local: bool,
}

/// What is known of all of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tracker {
    #[serde(skip)]
    ours: Ours,
    /// Mails so far.
    count: u64,
    mails: HashMap<String, Mail>,
    /// Queue ids of mails that were over when they were put here, the first one first.
    over: VecDeque<String>,
    /// Queue ids of those that are not, in the order of their Message-IDs.
    #[serde(skip)]
    open: BTreeMap<u64, String>,
    /// Messages that have a queue id and no Message-ID yet. Their session may end first: cleanup still reads what smtpd has
    /// handed on.
    nameless: HashMap<String, Came>,
    sessions: Sessions,
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
    pub fn restored(mut self, ours: Ours) -> Self {
        self.ours = ours;
        let open = self.mails.iter().filter(|(_, mail)| !mail.over);
        self.open = open.map(|(id, mail)| (mail.nth, id.clone())).collect();
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

    /// The queue ids under which mails of `origin` are known.
    #[must_use]
    pub fn ids_of(&self, origin: Origin) -> Vec<String> {
        self.of(origin).map(|(id, _)| id.clone()).collect()
    }

    /// What is proved about the mail of `origin` for `recipient`, given what is in the relay's queue and that everything
    /// logged before the queue was looked at has been read. Mails of strangers prove nothing. `after`: the [`mark`](Self::mark) at the time it was begun, if it
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
        for (id, mail) in self.of(origin).filter(|(_, mail)| mail.local) {
            let in_queue = queued(id);
            let is_taken = mail.active || in_queue.is_some();
            let is_proved = mail.token || in_queue.is_some_and(|mail| self.ours.proves(&mail.sender, origin));
            if is_taken && !is_proved {
                // Where its sender was logged it is somebody else's.
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
            // All that it had when it was taken are known, and they are not among them.
            let not_for_them = mail.count.is_some_and(|count| usize::try_from(count) == Ok(named.len()));
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
        let came = self.nameless.remove(id).unwrap_or_default();
        let Some(origin) = message_id::parse(message_id) else {
            if let Some(by) = came.by {
                self.sessions.settle(by, id, false);
            }
            return;
        };
        // Read a second time: it is known, and everything that was learnt since stands.
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
        let seen = mail.seen(id, recipient, said.status, line, &said.text);
        vec![Seen { dsn: said.dsn.clone(), relay: said.relay.clone(), ..seen }]
    }

    /// `next` was made of `id`: it came from where that came from. What was said of it before counts from now on.
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

    /// What is left of its recipients has waited too long.
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

    /// Whether what was handed on is in this relay again under another queue id (a content filter, a forwarding): then that
    /// one tells the end.
    fn goes_on(&self, id: &str, text: &str) -> bool {
        let Some(mail) = self.mails.get(id) else { return false };
        let next = ["queued as ", "forwarded as "].iter().find_map(|words| text.split(words).nth(1));
        let next =
            next.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default());
        next.is_some_and(|next| {
            next != id && self.mails.get(next).is_some_and(|other| other.origin == mail.origin && other.local)
        })
    }

    /// A message has its queue id. One that comes again is another mail.
    fn came(&mut self, id: &str, came: Came) {
        self.forget(id);
        if self.nameless.len() >= NAMELESS {
            // Whoever fills it up sends no Message-IDs; a mail that loses its session by this proves less.
            self.nameless.clear();
        }
        self.nameless.insert(id.to_owned(), came);
    }

    /// Nothing more is expected of them, unless one turns up in the queue.
    fn are_over(&mut self, ids: &[String]) {
        ids.iter().for_each(|id| self.is_over(id));
    }

    /// It is in the queue; also one of which nothing more was expected.
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
    /// What is said of one of its recipients.
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
