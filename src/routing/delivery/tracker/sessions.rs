//! Clients' sessions with the relay, and their proofs about messages.
//!
//! The summary at the end of a session proves that a message was *not* taken: it counts as many messages taken as are
//! known by name, and says why the last one was not (cut off in its content), or that the client had read every reply
//! (QUIT). The number alone does not do: Postfix 3.7.11 was seen to take a message, to fail to write its 250, and not to
//! count it, without another word; and it logs no more of a refused one. A session with a missing line, or perhaps one,
//! proves nothing. Pure; bounded: of very many sessions, the oldest are forgotten.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::ports::SessionSummary;

/// Largest number of sessions that may still prove something.
pub(super) const MOST: usize = 1_024;
/// Largest number of messages of one session: further ones are not known by name, so that the session proves nothing.
pub(super) const OF_ONE: usize = 1_024;

/// A client's session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Session {
    /// Queue ids given and not seen in the queue, of our mails or without a Message-ID.
    left: BTreeSet<String>,
    /// Number of our mails that were.
    taken: u32,
    /// Whether the last message was cut off in its content.
    cut: bool,
    /// smtpd's summary at the end.
    summary: Option<SessionSummary>,
}

/// Sessions still open, and those with messages left.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Sessions {
    /// Number of sessions so far.
    #[serde(rename = "begun")]
    opened: u64,
    /// Sessions by number: the first one first.
    known: BTreeMap<u64, Session>,
    /// Numbers of the open sessions, by process id of smtpd.
    lasting: HashMap<u32, u64>,
}

impl Sessions {
    /// Opens a session, which ends the process's former one, although no end was logged; returns the ids left of that.
    pub(super) fn begin(&mut self, process: u32) -> Vec<String> {
        let left = self.end(process, None);
        if self.known.len() >= MOST
            && let Some((oldest, _)) = self.known.pop_first()
        {
            self.lasting.retain(|_, lasting| *lasting != oldest);
        }
        self.opened += 1;
        self.known.insert(self.opened, Session::default());
        self.lasting.insert(process, self.opened);
        left
    }

    /// Notes a queue id given by the session. Returns the session's number, where its start was logged.
    pub(super) fn gave(&mut self, process: u32, id: &str) -> Option<u64> {
        let by = *self.lasting.get(&process)?;
        let session = self.known.get_mut(&by)?;
        if session.left.len() < OF_ONE {
            session.left.insert(id.to_owned());
        }
        Some(by)
    }

    /// Notes that the last message of the session was cut off.
    pub(super) fn cut(&mut self, process: u32) {
        if let Some(session) = self.lasting.get(&process).and_then(|by| self.known.get_mut(by)) {
            session.cut = true;
        }
    }

    /// Ends the session; returns the queue ids it has left. Without a summary it proves nothing.
    pub(super) fn end(&mut self, process: u32, summary: Option<SessionSummary>) -> Vec<String> {
        let Some(by) = self.lasting.remove(&process) else { return Vec::new() };
        let Some(session) = self.known.get_mut(&by) else { return Vec::new() };
        session.summary = summary;
        let left: Vec<String> = session.left.iter().cloned().collect();
        if left.is_empty() || summary.is_none() {
            self.known.remove(&by);
        }
        left
    }

    /// Removes a message that turned out to be in the queue, or a stranger's.
    pub(super) fn settle(&mut self, by: u64, id: &str, taken: bool) {
        let Some(session) = self.known.get_mut(&by) else { return };
        if session.left.remove(id) && taken {
            session.taken += 1;
        }
        if session.left.is_empty() && session.summary.is_some() {
            self.known.remove(&by);
        }
    }

    /// Whether the session is open, and may give more queue ids.
    pub(super) fn lasts(&self, by: u64) -> bool {
        self.lasting.values().any(|lasting| *lasting == by)
    }

    /// Whether the messages that a session has left were not taken.
    pub(super) fn proves(&self, by: u64) -> bool {
        let Some(session) = self.known.get(&by) else { return false };
        let exact = |summary: &SessionSummary| {
            !summary.chunked && (session.cut || summary.quit) && summary.taken == session.taken
        };
        session.left.len() < OF_ONE && session.summary.as_ref().is_some_and(exact)
    }

    /// Lines are missing: sessions in progress prove nothing.
    pub(super) fn forget_all(&mut self) {
        self.known.clear();
        self.lasting.clear();
    }

    /// Number of known sessions, and the largest number of messages left of one.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.known.len(), self.known.values().map(|session| session.left.len()).max().unwrap_or_default())
    }
}
