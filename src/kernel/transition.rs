//! The only way to a new state: a [`Transition`], which only the table makes. Pure.

use super::lifecycle::{Edge, Lifecycle, Who};

/// One edge of a lifecycle's table, asked for by a role that may. A transition is the right to write its state; none can be
/// made for a state that the table does not lead to.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition<L: Lifecycle> {
    edge: &'static Edge<L::State, L::Command>,
    by: Who,
}

/// A command that the table does not allow in this state, or not to this role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{command} is not possible {}{}", while_in(self.from.as_deref()), why(self))]
pub struct NotPossible {
    /// The command.
    pub command: String,
    /// The state in which the command was given; absent before birth.
    pub from: Option<String>,
    /// The role that gave the command.
    pub by: Who,
    /// The roles that may; none, where the state does not have the command.
    pub only: Vec<Who>,
    /// The commands this state allows.
    pub legal: Vec<String>,
}

fn while_in(from: Option<&str>) -> String {
    from.map_or_else(|| "before there is anything".to_owned(), |from| format!("while {from}"))
}

fn why(refusal: &NotPossible) -> String {
    if !refusal.only.is_empty() {
        let may: Vec<&str> = refusal.only.iter().map(|who| who.label()).collect();
        return format!(" for {}: only for {}", refusal.by, may.join(", "));
    }
    if refusal.legal.is_empty() {
        return "; possible: nothing, the state is final".to_owned();
    }
    format!("; possible: {}", refusal.legal.join(", "))
}

impl<L: Lifecycle> Transition<L> {
    /// The edge of `command` in `from`. Where a guard decides between two ways, use [`Self::leading`].
    ///
    /// # Errors
    /// [`NotPossible`], which names the commands that are legal, or the roles that may.
    pub fn of(from: L::State, command: L::Command, by: Who) -> Result<Self, NotPossible> {
        Self::find(Some(from), command, None, by)
    }

    /// The edge of `command` in `from` that leads to `to`, as the guard has decided.
    ///
    /// # Errors
    /// [`NotPossible`], also where the command does not lead there.
    pub fn leading(from: L::State, command: L::Command, to: L::State, by: Who) -> Result<Self, NotPossible> {
        Self::find(Some(from), command, Some(to), by)
    }

    /// The edge to the initial state.
    ///
    /// # Errors
    /// [`NotPossible`].
    pub fn birth(command: L::Command, by: Who) -> Result<Self, NotPossible> {
        Self::find(None, command, None, by)
    }

    fn find(
        from: Option<L::State>,
        command: L::Command,
        to: Option<L::State>,
        by: Who,
    ) -> Result<Self, NotPossible> {
        let of_state = || L::TABLE.iter().filter(|edge| edge.from == from);
        let fits =
            |edge: &&Edge<L::State, L::Command>| edge.command == command && to.is_none_or(|to| edge.to == to);
        let edge = of_state().find(fits);
        if let Some(edge) = edge.filter(|edge| edge.who.contains(&by)) {
            return Ok(Self { edge, by });
        }
        let mut legal: Vec<String> = of_state().map(|edge| edge.command.to_string()).collect();
        legal.dedup();
        Err(NotPossible {
            command: command.to_string(),
            from: from.map(|from| from.to_string()),
            by,
            only: edge.map(|edge| edge.who.to_vec()).unwrap_or_default(),
            legal,
        })
    }

    /// State before; absent at birth.
    #[must_use]
    pub fn from(self) -> Option<L::State> {
        self.edge.from
    }

    /// State after.
    #[must_use]
    pub fn to(self) -> L::State {
        self.edge.to
    }

    /// The command.
    #[must_use]
    pub fn command(self) -> L::Command {
        self.edge.command
    }

    /// The role on whose account the edge is taken.
    #[must_use]
    pub fn by(self) -> Who {
        self.by
    }
}

/// The commands that `by` may give in `from`.
pub fn legal<L: Lifecycle>(from: L::State, by: Who) -> impl Iterator<Item = L::Command> {
    let may = move |edge: &&Edge<L::State, L::Command>| edge.from == Some(from) && edge.who.contains(&by);
    L::TABLE.iter().filter(may).map(|edge| edge.command)
}

#[cfg(test)]
pub(crate) mod checks {
    use super::*;
    use crate::kernel::Word;

    const ALL: [Who; 3] = [Who::WORKER, Who::SYSTEM, Who::OPERATOR];

    /// Asks a table for every (state, command, who): it has the edge, or refuses it with the state's legal commands.
    pub(crate) fn every_triple<L: Lifecycle>() {
        for (from, command) in
            L::State::ALL.iter().flat_map(|from| L::Command::ALL.iter().map(move |command| (*from, *command)))
        {
            let of_state: Vec<_> = L::TABLE.iter().filter(|edge| edge.from == Some(from)).collect();
            let found: Vec<_> = of_state.iter().filter(|edge| edge.command == command).collect();
            let ends = |edge: &&&&Edge<L::State, L::Command>| {
                found.iter().filter(|other| other.to == edge.to).count()
            };
            assert!(found.iter().all(|edge| ends(&edge) == 1), "{from} {command}: an edge stands once");
            for by in ALL {
                match Transition::<L>::of(from, command, by) {
                    Ok(done) => {
                        assert!(found.iter().any(|edge| edge.to == done.to() && edge.who.contains(&by)));
                        assert_eq!((done.from(), done.command(), done.by()), (Some(from), command, by));
                    }
                    Err(refusal) => {
                        assert!(
                            !found.iter().any(|edge| edge.who.contains(&by)),
                            "{from} {command} {by}: {refusal}"
                        );
                        assert_eq!(
                            refusal.only.is_empty(),
                            found.is_empty(),
                            "{from} {command} {by}: {refusal}"
                        );
                        let mut legal: Vec<_> =
                            of_state.iter().map(|edge| edge.command.to_string()).collect();
                        // A command with two ways is named once.
                        legal.dedup();
                        assert_eq!(refusal.legal, legal, "{from} {command}");
                    }
                }
            }
        }
    }

    /// A table in one line for each edge, to compare with what the pages say.
    pub(crate) fn lines<L: Lifecycle>() -> Vec<String> {
        let line = |edge: &Edge<L::State, L::Command>| {
            let from = edge.from.map_or_else(|| "-".to_owned(), |from| from.to_string());
            format!("{from} {} {}", edge.command, edge.to)
        };
        L::TABLE.iter().map(line).collect()
    }
}
