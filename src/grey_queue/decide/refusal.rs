//! Why a command changes nothing, in words that name the thing and the remedy.

use uuid::Uuid;

use super::Verb;
use crate::grey_queue::entry::Entry;
use crate::grey_queue::table::State;
use crate::kernel::NotPossible;

/// Why a command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not by this person.
    #[error("{0}")]
    NotAllowed(String),
    /// Not in this state.
    #[error("{verb} is not possible while {state}{}", instead(legal))]
    NotPossible {
        /// The command.
        verb: Verb,
        /// The entry's state.
        state: State,
        /// The commands that the state has.
        legal: Vec<Verb>,
    },
    /// Something that was said, or was not, keeps it.
    #[error("{field}: {why}")]
    Guard {
        /// The field.
        field: &'static str,
        /// What it must be.
        why: String,
    },
    /// Evidence is not sufficient; a remedy brings it, or somebody vouches.
    #[error("evidence is missing: {}; name a remedy, or vouch for it", .0.join("; "))]
    EvidenceMissing(Vec<String>),
    /// The remedy is refused by its own verb.
    #[error("the remedy is not possible: {0}")]
    Remedy(String),
    /// Another entry of the same cause and subject is open.
    #[error("entry {0} of the same cause and subject is open: decide that one")]
    OpenTwin(Uuid),
}

fn instead(legal: &[Verb]) -> String {
    if legal.is_empty() {
        return ": the state is final, or waits for its time".to_owned();
    }
    let labels: Vec<&str> = legal.iter().map(|verb| verb.label()).collect();
    format!("; possible: {}", labels.join(", "))
}

impl Refusal {
    pub(super) fn not_allowed(why: impl Into<String>) -> Self {
        Self::NotAllowed(why.into())
    }

    pub(super) fn guard(field: &'static str, why: impl Into<String>) -> Self {
        Self::Guard { field, why: why.into() }
    }

    pub(super) fn not_possible(entry: &Entry, verb: Verb, legal: &[Verb]) -> Self {
        Self::NotPossible { verb, state: entry.state, legal: legal.to_vec() }
    }
}

/// The table has the edge for other roles; for its states [`verbs`](super::verbs) has been asked before.
impl From<NotPossible> for Refusal {
    fn from(refusal: NotPossible) -> Self {
        Self::NotAllowed(refusal.to_string())
    }
}
