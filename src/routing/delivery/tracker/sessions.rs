//! What clients' sessions with the relay say about the messages they brought.
//!
//! That a message was *not* taken is proved by what smtpd says at the end of the session that brought it: as many messages were
//! taken as are known by name, and it says why the last one was not (it was cut off in its content), or that the client had
//! read every reply (QUIT). The number alone does not do: Postfix 3.7.11 was seen to take a message, to fail to write its 250,
//! and not to count it, without another word; and it says no more of one that it refused. Where a line of a session is missing,
//! or may be, it proves nothing. Pure; bounded: of very many, the oldest are forgotten.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::ports::SessionSummary;

/// Sessions that may still prove something.
pub(super) const MOST: usize = 1_024;
/// Messages of one session: those beyond are not known by name, so that it proves nothing.
pub(super) const OF_ONE: usize = 1_024;

/// A client's session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Session {
    /// Queue ids it gave that were not seen in the queue, of ours or without a name.
    left: BTreeSet<String>,
    /// Mails of ours that were.
    taken: u32,
    /// The last message was cut off in its content.
    cut: bool,
    /// What smtpd said at its end.
    summary: Option<SessionSummary>,
}

/// Those that last, and those that have left something.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Sessions {
    /// How many there were.
    begun: u64,
    /// By their number: the first one first.
    known: BTreeMap<u64, Session>,
    /// Numbers of those that last, by their process id.
    lasting: HashMap<u32, u64>,
}

impl Sessions {
    /// A session began, so that the one before of this process is over, although its end was not seen: what it has left.
    pub(super) fn begin(&mut self, process: u32) -> Vec<String> {
        let left = self.end(process, None);
        if self.known.len() >= MOST
            && let Some((oldest, _)) = self.known.pop_first()
        {
            self.lasting.retain(|_, lasting| *lasting != oldest);
        }
        self.begun += 1;
        self.known.insert(self.begun, Session::default());
        self.lasting.insert(process, self.begun);
        left
    }

    /// The session gave a message its queue id. Which session that is, where its beginning was seen.
    pub(super) fn gave(&mut self, process: u32, id: &str) -> Option<u64> {
        let by = *self.lasting.get(&process)?;
        let session = self.known.get_mut(&by)?;
        if session.left.len() < OF_ONE {
            session.left.insert(id.to_owned());
        }
        Some(by)
    }

    /// The last message of the session was cut off.
    pub(super) fn cut(&mut self, process: u32) {
        if let Some(session) = self.lasting.get(&process).and_then(|by| self.known.get_mut(by)) {
            session.cut = true;
        }
    }

    /// It gives no more queue ids: what it has left. Without a summary it proves nothing.
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

    /// A message of a session has turned out to be in the queue, or a stranger's.
    pub(super) fn settle(&mut self, by: u64, id: &str, taken: bool) {
        let Some(session) = self.known.get_mut(&by) else { return };
        if session.left.remove(id) && taken {
            session.taken += 1;
        }
        if session.left.is_empty() && session.summary.is_some() {
            self.known.remove(&by);
        }
    }

    /// Whether it may give more queue ids.
    pub(super) fn lasts(&self, by: u64) -> bool {
        self.lasting.values().any(|lasting| *lasting == by)
    }

    /// Whether what a session has left was not taken.
    pub(super) fn proves(&self, by: u64) -> bool {
        let Some(session) = self.known.get(&by) else { return false };
        let exact = |summary: &SessionSummary| {
            !summary.chunked && (session.cut || summary.quit) && summary.taken == session.taken
        };
        session.left.len() < OF_ONE && session.summary.as_ref().is_some_and(exact)
    }

    /// Lines are missing: whatever was going on proves nothing.
    pub(super) fn forget_all(&mut self) {
        self.known.clear();
        self.lasting.clear();
    }

    /// How many are known, and the most that one has left.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.known.len(), self.known.values().map(|session| session.left.len()).max().unwrap_or_default())
    }
}
