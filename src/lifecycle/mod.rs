//! The kernel: one table of transitions per lifecycle, and the check that reads it. Pure.
//!
//! A lifecycle is an enum of states, an enum of commands and one `const` table of [`Edge`]s. Statements are not
//! generated from the table; a test tries every (state, command) against the real ones.

pub mod describe;
pub mod outbox;
pub mod submission;

use std::fmt::{Debug, Display};

/// Who may give a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The worker that holds the claim.
    Worker,
    /// The daemon on its own account: sweep, retention.
    System,
    /// A person at the command line, with a reason.
    Operator,
}

/// One row of a lifecycle's table.
#[derive(Debug, Clone, Copy)]
pub struct Edge<S: 'static, C: 'static> {
    /// State before.
    pub from: S,
    /// What is asked.
    pub command: C,
    /// State after.
    pub to: S,
    /// Who may ask.
    pub who: &'static [Who],
    /// What must hold, in words.
    pub guard: &'static str,
    /// What else happens in the same transaction, in words.
    pub with: &'static str,
}

/// A command that the table does not allow in this state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{command} is not possible while {from}; possible: {}", if legal.is_empty() { "nothing, the state is final".to_owned() } else { legal.join(", ") })]
pub struct NotPossible {
    /// What was asked.
    pub command: String,
    /// The state it was asked in.
    pub from: String,
    /// The commands this state allows.
    pub legal: Vec<String>,
}

/// The state that `command` leads to from `from`.
///
/// # Errors
/// [`NotPossible`], which names the commands that would be.
pub fn next<S, C>(table: &[Edge<S, C>], from: S, command: C) -> Result<S, NotPossible>
where
    S: Copy + PartialEq + Display,
    C: Copy + PartialEq + Display,
{
    table.iter().find(|e| e.from == from && e.command == command).map(|e| e.to).ok_or_else(|| NotPossible {
        command: command.to_string(),
        from: from.to_string(),
        legal: table.iter().filter(|e| e.from == from).map(|e| e.command.to_string()).collect(),
    })
}

#[cfg(test)]
mod checks {
    use super::{Debug, Display, Edge, next};

    /// Asks a table for every (state, command): it has the pair once, or refuses it with the state's legal commands.
    pub(super) fn every_pair<S, C>(table: &[Edge<S, C>], states: &[S], commands: &[C])
    where
        S: Copy + PartialEq + Debug + Display,
        C: Copy + PartialEq + Display,
    {
        for from in states.iter().copied() {
            let of_state: Vec<&Edge<S, C>> = table.iter().filter(|edge| edge.from == from).collect();
            for command in commands.iter().copied() {
                let found: Vec<S> =
                    of_state.iter().filter(|edge| edge.command == command).map(|edge| edge.to).collect();
                match next(table, from, command) {
                    Ok(to) => assert_eq!(found, [to], "{from} {command}"),
                    Err(refusal) => {
                        assert_eq!(found, [], "{from} {command}");
                        let legal: Vec<String> =
                            of_state.iter().map(|edge| edge.command.to_string()).collect();
                        assert_eq!(refusal.legal, legal, "{from} {command}");
                    }
                }
            }
        }
    }

    /// A table in one line for each edge, to compare with what the pages say.
    pub(super) fn lines<S: Display, C: Display>(table: &[Edge<S, C>]) -> Vec<String> {
        table.iter().map(|edge| format!("{} {} {}", edge.from, edge.command, edge.to)).collect()
    }
}
