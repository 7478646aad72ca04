//! The lifecycles as people and programs read them: a list, a table, a diagram. Made from the tables that the check reads,
//! so that nothing else can be told. Pure.

use std::fmt::Display;

use serde::Serialize;

use super::{Edge, Who, outbox, submission};

/// Every lifecycle there is.
pub const NAMES: [&str; 2] = ["submission", "outbox"];

/// One lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    /// As it is asked for.
    pub name: &'static str,
    /// What lives so.
    pub about: &'static str,
    /// Its states; the first is where it begins.
    pub states: Vec<String>,
    /// States that nothing leads out of.
    pub finals: Vec<String>,
    /// Its transitions.
    pub transitions: Vec<Transition>,
}

/// One transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transition {
    /// State before.
    pub from: String,
    /// What is asked.
    pub command: String,
    /// State after.
    pub to: String,
    /// Who may ask.
    pub who: Vec<&'static str>,
    /// What must hold.
    pub guard: &'static str,
    /// What else happens in the same transaction.
    pub with: &'static str,
}

/// Each of [`NAMES`].
#[must_use]
pub fn all() -> Vec<Described> {
    vec![
        describe(
            NAMES[0],
            "the status of a submission, from its arrival to its retention's end",
            &submission::Status::ALL,
            submission::TABLE,
        ),
        describe(
            NAMES[1],
            "an event that must leave the database, from the transaction that wrote it to its delivery",
            &outbox::State::ALL,
            outbox::TABLE,
        ),
    ]
}

fn describe<S, C>(name: &'static str, about: &'static str, states: &[S], table: &[Edge<S, C>]) -> Described
where
    S: Copy + PartialEq + Display,
    C: Display,
{
    let is_final = |state: &&S| table.iter().all(|edge| edge.from != **state);
    Described {
        name,
        about,
        states: states.iter().map(ToString::to_string).collect(),
        finals: states.iter().filter(is_final).map(ToString::to_string).collect(),
        transitions: table
            .iter()
            .map(|edge| Transition {
                from: edge.from.to_string(),
                command: edge.command.to_string(),
                to: edge.to.to_string(),
                who: edge.who.iter().map(|who| label(*who)).collect(),
                guard: edge.guard,
                with: edge.with,
            })
            .collect(),
    }
}

fn label(who: Who) -> &'static str {
    match who {
        Who::Worker => "worker",
        Who::System => "system",
        Who::Operator => "operator",
    }
}

impl Described {
    /// A state diagram in Mermaid; commands that lead the same way share an arrow.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut text = "stateDiagram-v2\n".to_owned();
        text.extend(self.states.first().map(|first| format!("    [*] --> {first}\n")));
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
        text.extend(self.finals.iter().map(|last| format!("    {last} --> [*]\n")));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_described_and_every_transition_is_drawn() {
        let all = all();
        assert_eq!(all.iter().map(|lifecycle| lifecycle.name).collect::<Vec<_>>(), NAMES);
        for lifecycle in all {
            let drawn = lifecycle.mermaid();
            assert!(drawn.starts_with("stateDiagram-v2\n    [*] --> "), "{drawn}");
            for Transition { from, to, command, who, guard, .. } in &lifecycle.transitions {
                let arrow = format!("    {from} --> {to}: ");
                let line = drawn.lines().find(|line| line.starts_with(&arrow)).expect("an arrow");
                assert!(line[arrow.len()..].split(", ").any(|drawn| drawn == command), "{line}: {command}");
                assert!(!who.is_empty() && !guard.is_empty(), "{command}");
            }
            assert!(!lifecycle.finals.is_empty(), "{drawn}");
        }
    }
}
