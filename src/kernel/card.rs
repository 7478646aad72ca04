//! The card of a room: what it brings to the house. Daemon, `check`, metrics and tests read a list of cards; none of them names
//! a room.

use super::describe::Described;

/// See the module's header.
#[derive(Debug, Clone, Copy)]
pub struct Card {
    /// The room's name: that of its folder, of its section of the configuration and of its line of `check`.
    pub name: &'static str,
    /// The lifecycles of the room.
    pub lifecycles: &'static [fn() -> Described],
    /// Kinds of the outbox's rows that it takes for itself; nobody else delivers them. Its migration brings an index of those that
    /// wait, or a backlog of theirs would be read again and again by those who look for others.
    pub kinds: &'static [&'static str],
    /// Its named transactions, whose times are measured.
    pub transactions: &'static [&'static str],
    /// Describes its metrics and makes every series exist, at 0.
    pub metrics: fn(),
}
