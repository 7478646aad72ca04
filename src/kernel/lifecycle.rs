//! A lifecycle: an enum of states, an enum of commands and one table of edges. Pure.
//!
//! The check ([`Transition`](super::Transition)), the diagram, the documentation and the generic test read the table.
//! Statements are not generated from it: `lifecycle_holds` tries every (state, command, who) against the real ones.

use std::fmt::{self, Debug};

use super::Word;

/// An entity whose states follow a table.
pub trait Lifecycle: Copy + Eq + Debug + Send + Sync + 'static {
    /// The states.
    type State: Word;
    /// The commands.
    type Command: Word;
    /// The lifecycle's name in commands and in the transition log.
    const NAME: &'static str;
    /// The entity that has this lifecycle, in words.
    const ABOUT: &'static str;
    /// Every edge.
    const TABLE: &'static [Edge<Self::State, Self::Command>];
}

/// The role on whose account a command is given. The kernel's own are below; a room adds those of its people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Who(&'static str);

impl Who {
    /// The worker that has the claim.
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

    /// The role's name in the transition log.
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

/// The clock of an edge that fires by itself; the order of variants is the order of firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// `leased_until` has passed: the worker is gone.
    Lease,
    /// `available_at` has passed.
    Due,
    /// `expires_at` has passed.
    Expiry,
}

/// One row of a table. Two edges may share state and command where a guard decides between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge<S: 'static, C: 'static> {
    /// State before; absent at birth.
    pub from: Option<S>,
    /// The command.
    pub command: C,
    /// State after.
    pub to: S,
    /// The roles that may give the command.
    pub who: &'static [Who],
    /// The guard, in words.
    pub guard: &'static str,
    /// The rest of the transaction, in words.
    pub with: &'static str,
    /// The clock that fires the edge; absent where somebody asks for it.
    pub timer: Option<Timer>,
}

/// Declares a table, in the order of its edges: `FROM COMMAND -> TO [roles] on TIMER: "guard", "effect";`. At birth `_` stands
/// for the state before; an edge that somebody asks for has no timer.
#[macro_export]
macro_rules! edges {
    ($State:ident, $Command:ident: $($from:tt $command:ident -> $to:ident [$($who:expr),+] $(on $timer:ident)?:
        $guard:literal, $with:literal;)+) => {
        &[$($crate::kernel::Edge {
            from: $crate::edges!(@from $State $from),
            command: $Command::$command,
            to: $State::$to,
            who: &[$($who),+],
            guard: $guard,
            with: $with,
            timer: $crate::edges!(@timer $($timer)?),
        }),+]
    };
    (@from $State:ident _) => { None };
    (@from $State:ident $from:ident) => { Some($State::$from) };
    (@timer) => { None };
    (@timer $timer:ident) => { Some($crate::kernel::Timer::$timer) };
}
