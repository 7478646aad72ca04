//! The lifecycles as people and programs read them: a list, a table, a diagram. Made from the tables that the check reads,
//! so that the two cannot differ. Pure.

use serde::Serialize;

use super::{Lifecycle, Word};

/// The origin of a birth, as Mermaid writes it.
pub(crate) const BIRTH: &str = "[*]";

/// One lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    /// The lifecycle's name, as commands take it.
    pub name: &'static str,
    /// The entity that has this lifecycle, in words.
    pub about: &'static str,
    /// All states; the first is the initial one.
    pub states: Vec<String>,
    /// States without an outgoing edge.
    pub finals: Vec<String>,
    /// All transitions.
    pub transitions: Vec<Transition>,
}

/// One transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transition {
    /// State before.
    pub from: String,
    /// The command.
    pub command: String,
    /// State after.
    pub to: String,
    /// The roles that may give the command.
    pub who: Vec<&'static str>,
    /// The guard, in words.
    pub guard: &'static str,
    /// The rest of the transaction, in words.
    pub with: &'static str,
}

/// The table of `L`, as people read it.
#[must_use]
pub fn describe<L: Lifecycle>() -> Described {
    let words = |states: &mut dyn Iterator<Item = &L::State>| states.map(ToString::to_string).collect();
    let is_final = |state: &&L::State| L::TABLE.iter().all(|edge| edge.from != Some(**state));
    Described {
        name: L::NAME,
        about: L::ABOUT,
        states: words(&mut L::State::ALL.iter()),
        finals: words(&mut L::State::ALL.iter().filter(is_final)),
        transitions: L::TABLE
            .iter()
            .map(|edge| Transition {
                from: edge.from.map_or_else(|| BIRTH.to_owned(), |from| from.to_string()),
                command: edge.command.to_string(),
                to: edge.to.to_string(),
                who: edge.who.iter().map(|who| who.label()).collect(),
                guard: edge.guard,
                with: edge.with,
            })
            .collect(),
    }
}

impl Described {
    /// A state diagram in Mermaid; commands that lead the same way share an arrow.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut text = "stateDiagram-v2\n".to_owned();
        if self.transitions.iter().all(|edge| edge.from != BIRTH) {
            text.extend(self.states.first().map(|first| format!("    {BIRTH} --> {first}\n")));
        }
        let mut drawn: Vec<(&str, &str)> = Vec::new();
        for Transition { from, to, .. } in &self.transitions {
            if drawn.contains(&(from, to)) {
                continue;
            }
            drawn.push((from, to));
            let same = self.transitions.iter().filter(|other| other.from == *from && other.to == *to);
            let commands: Vec<&str> = same.map(|other| other.command.as_str()).collect();
            text.push_str(&format!("    {from} --> {to}: {}\n", commands.join(", ")));
        }
        text.extend(self.finals.iter().map(|last| format!("    {last} --> {BIRTH}\n")));
        text
    }
}
