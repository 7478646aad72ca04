//! The parts of [`relay`](super::relay) and [`source`](super::source).

use std::sync::Arc;

use super::journal::Told;
use super::store::OutboxStore;
use super::table::{Outbox, State};
use crate::kernel::jobs::{Parts, Settings};
use crate::kernel::rows::Kinds;
use crate::ops::chance::Chance;
use crate::ops::set_aside::SetAside;
use crate::ports::Clock;

/// See the module's header.
#[derive(Debug, Clone)]
pub struct OutboxParts {
    /// The rows.
    pub store: OutboxStore,
    /// Kinds that other rooms take for themselves; every other one is delivered, known or not, so that none lies there unseen.
    pub others: Vec<&'static str>,
    /// The measure in which they are taken.
    pub settings: Settings,
    /// Measures.
    pub clock: Arc<dyn Clock>,
    /// Spreads the pauses, makes the fences.
    pub rng: Arc<Chance>,
    /// Hears of rows whose settlement the database refuses.
    pub set_aside: SetAside,
}

impl OutboxParts {
    /// For a consumer of the rows.
    #[must_use]
    pub fn jobs(&self) -> Parts<Outbox> {
        Parts {
            rows: (*self.store).clone(),
            from: State::Pending,
            kinds: Kinds::AllBut(self.others.clone()),
            settings: self.settings,
            clock: Arc::clone(&self.clock),
            rng: Arc::clone(&self.rng),
            observer: Arc::new(Told { set_aside: self.set_aside.clone() }),
        }
    }
}
