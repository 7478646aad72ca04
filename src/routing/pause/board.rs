//! The pauses in force, shared by all parts of a daemon.

use std::sync::{Arc, PoisonError, RwLock};

use super::Pauses;

/// Pauses as all parts of a daemon see them at one moment. Cheap to clone; all clones share their state.
#[derive(Debug, Clone, Default)]
pub struct PauseBoard(Arc<RwLock<Arc<Pauses>>>);

impl PauseBoard {
    /// Makes a board with these pauses.
    #[must_use]
    pub fn of(pauses: Pauses) -> Self {
        let board = Self::default();
        board.set(pauses);
        board
    }

    /// The pauses in force now.
    #[must_use]
    pub fn now(&self) -> Arc<Pauses> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the pauses.
    pub fn set(&self, pauses: Pauses) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pauses);
    }
}
