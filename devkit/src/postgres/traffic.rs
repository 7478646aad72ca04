//! Traffic on wires to PostgreSQL, and whether the server has work of theirs: it owes somebody an answer, or has not yet
//! noticed that a client is gone. So a test that waits until nothing goes on knows it, however slow the machine is.
//!
//! Counting only. A session caught in a trap waits for the test and not for the server, and does not count as work; if a
//! wire dies in whatever it did, its count goes with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// The counts of some proxies together. Cheap to clone; all clones are the same counts.
#[derive(Debug, Clone, Default)]
pub struct Traffic(Arc<watch::Sender<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    moved: u64,
    at_work: usize,
}

impl Traffic {
    /// Changes with every message, whatever its direction.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.0.borrow().moved
    }

    /// Wires for which the server works.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.0.borrow().at_work
    }

    /// Waits until the next message, or for so long; says whether there was one.
    pub async fn moves_within(&self, patience: Duration) -> bool {
        let mut counts = self.0.subscribe();
        tokio::time::timeout(patience, counts.changed()).await.is_ok()
    }
}

/// One wire, from the moment its client is there until its server is gone.
#[derive(Debug)]
pub(super) struct Wire {
    traffic: Traffic,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Answers that the server owes: one for each message after which it says that it is ready.
    owed: u64,
    trapped: bool,
    /// The client is gone, and the server ends what it was doing.
    left: bool,
}

impl State {
    fn is_at_work(self) -> bool {
        self.left || (self.owed > 0 && !self.trapped)
    }
}

impl Wire {
    /// Logging in is the first thing to be answered.
    pub(super) fn new(traffic: &Traffic) -> Self {
        let state = State { owed: 1, trapped: false, left: false };
        traffic.0.send_modify(|counts| {
            counts.moved += 1;
            counts.at_work += 1;
        });
        Self { traffic: traffic.clone(), state: Mutex::new(state) }
    }

    /// The client said this.
    pub(super) fn asked(&self, frame: &[u8]) {
        let is_question = matches!(frame.first(), Some(b'Q' | b'S' | b'F'));
        self.change(|state| state.owed += u64::from(is_question));
    }

    /// The server said this.
    pub(super) fn answered(&self, frame: &[u8]) {
        let is_ready = frame.first() == Some(&b'Z');
        self.change(|state| state.owed = state.owed.saturating_sub(u64::from(is_ready)));
    }

    /// Notes whether the session is caught in a trap.
    pub(super) fn trapped(&self, trapped: bool) {
        self.change(|state| state.trapped = trapped);
    }

    pub(super) fn left(&self) {
        self.change(|state| state.left = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        let before = state.is_at_work();
        change(&mut state);
        self.tell(before, state.is_at_work());
    }

    fn tell(&self, before: bool, after: bool) {
        self.traffic.0.send_modify(|counts| {
            counts.moved += 1;
            counts.at_work = counts.at_work + usize::from(after) - usize::from(before);
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let before = self.state().is_at_work();
        self.tell(before, false);
    }
}
