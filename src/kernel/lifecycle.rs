//! A lifecycle: an enum of states, an enum of commands and one table of edges. Pure.
//!
//! The table is what the check ([`Transition`](super::Transition)), the diagram, the documentation and the generic test read.
//! Statements are not generated from it: `lifecycle_holds` tries every (state, command, who) against the real ones.

use std::fmt::{self, Debug};

use super::Word;

/// A thing that lives by a table.
pub trait Lifecycle: Copy + Eq + Debug + Send + Sync + 'static {
    /// The states it can be in.
    type State: Word;
    /// The commands that can be given.
    type Command: Word;
    /// As it is asked for, and as it stands in the transition log.
    const NAME: &'static str;
    /// The thing that lives so, in words.
    const ABOUT: &'static str;
    /// Every edge there is.
    const TABLE: &'static [Edge<Self::State, Self::Command>];
}

/// A role: on whose account a command is given. The kernel's own are below; a room adds those of its people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Who(&'static str);

impl Who {
    /// The worker that holds the claim.
    pub const WORKER: Self = Self("worker");
    /// The daemon on its own account: sweep, timers, retention.
    pub const SYSTEM: Self = Self("system");
    /// A person at the command line, with a reason.
    pub const OPERATOR: Self = Self("operator");

    /// A role of a room's own.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self(name)
    }

    /// As it stands in the transition log.
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The clock of an edge that nobody asks for, in the order in which they fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// `leased_until` has passed: whoever had it is gone.
    Lease,
    /// `available_at` has passed.
    Due,
    /// `expires_at` has passed.
    Expiry,
}

/// One row of a table. Two edges may share state and command where a guard decides which way it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge<S: 'static, C: 'static> {
    /// State before; absent at birth.
    pub from: Option<S>,
    /// The command.
    pub command: C,
    /// State after.
    pub to: S,
    /// The roles that may give it.
    pub who: &'static [Who],
    /// The guard, in words.
    pub guard: &'static str,
    /// The rest of the transaction, in words.
    pub with: &'static str,
    /// Its clock, where nobody asks.
    pub timer: Option<Timer>,
}

impl<S: Copy, C: Copy> Edge<S, C> {
    /// From a state to a state.
    #[must_use]
    pub const fn new(
        from: S,
        command: C,
        to: S,
        who: &'static [Who],
        guard: &'static str,
        with: &'static str,
    ) -> Self {
        Self { from: Some(from), command, to, who, guard, with, timer: None }
    }

    /// The beginning.
    #[must_use]
    pub const fn birth(
        command: C,
        to: S,
        who: &'static [Who],
        guard: &'static str,
        with: &'static str,
    ) -> Self {
        Self { from: None, command, to, who, guard, with, timer: None }
    }

    /// Fired by `timer`.
    #[must_use]
    pub const fn on(mut self, timer: Timer) -> Self {
        self.timer = Some(timer);
        self
    }
}
