//! The rules over a repository's files, in a confined process of their own: what reads a stranger's files has neither the judge's key nor
//! the database, and what ends it ends nothing else.

use std::time::Duration;

use crate::gateway::confined::{Confined, ConfinedError};
use crate::screening::tier1::wire::{self, WireError};
use crate::screening::tier1::{Report, Ruleset, Tree};

/// The verb that scans; it is not for people.
pub(super) const VERB: &str = "scan-tree";
/// Time for a scan, with the start of a process and the compilation of its rules.
const WALL: Duration = Duration::from_secs(40);

/// What scans trees.
#[derive(Debug, Clone)]
pub struct Trees(Confined);

/// Why a tree was not scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The process gave no answer.
    #[error(transparent)]
    Confined(#[from] ConfinedError),
    /// It gave one that is not believed.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl Trees {
    /// Scans by processes of the program that runs.
    #[must_use]
    pub fn own() -> Self {
        Self(Confined::own(WALL))
    }

    /// Scans by processes of another program: a test is not the one that scans.
    #[must_use]
    pub fn by(confined: Confined) -> Self {
        Self(confined)
    }

    /// What the rules find in a tree; `extra` is the operator's document that they were compiled with.
    ///
    /// # Errors
    /// [`TreeError`]: nothing is known of the tree.
    pub async fn scan(&self, tree: &Tree, rules: &Ruleset, extra: &str) -> Result<Report, TreeError> {
        let answer = self.0.ask(VERB, wire::question(tree, extra)).await?;
        Ok(wire::report(&answer, rules)?)
    }
}
