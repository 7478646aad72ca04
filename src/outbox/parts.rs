//! The parts of [`relay`](super::relay) and [`source`](super::source).

use std::sync::Arc;

use super::journal::JournalObserver;
use super::store::OutboxStore;
use super::table::{Outbox, State};
use crate::kernel::jobs::{ConsumerParts, Settings};
use crate::kernel::rows::Kinds;
use crate::ops::rng::Rng;
use crate::ops::set_aside::SetAside;
use crate::ports::Clock;

/// The dependencies of the outbox's consumers.
#[derive(Debug, Clone)]
pub struct OutboxParts {
    /// The rows.
    pub store: OutboxStore,
    /// Kinds that other rooms claim; every other kind is delivered, known or not, so that no row stays unseen.
    pub others: Vec<&'static str>,
    /// The bounds within which rows are claimed.
    pub settings: Settings,
    /// The clock of pauses and leases.
    pub clock: Arc<dyn Clock>,
    /// Spreads the pauses, makes the fences.
    pub rng: Arc<Rng>,
    /// Receives rows whose settlement the database refuses.
    pub set_aside: SetAside,
}

impl OutboxParts {
    /// The parts of a consumer of the rows.
    #[must_use]
    pub fn jobs(&self) -> ConsumerParts<Outbox> {
        ConsumerParts {
            rows: (*self.store).clone(),
            from: State::Pending,
            kinds: Kinds::AllBut(self.others.clone()),
            settings: self.settings,
            clock: Arc::clone(&self.clock),
            rng: Arc::clone(&self.rng),
            observer: Arc::new(JournalObserver { set_aside: self.set_aside.clone() }),
        }
    }
}
