//! One claim on its way through the worker: what came with it, and what was done under it.
//!
//! Invariant: nothing here does I/O. If we die, it is gone; the row tells what matters.

use std::collections::BTreeSet;

use tokio::sync::OnceCell;

use crate::routing::blame::Tally;
use crate::routing::claims::Claim;
use crate::routing::prepare::Decided;
use crate::routing::slots::Slot;
use crate::routing::store::Dossier;
use crate::routing::unrecorded::Place;

/// What came with a claim.
#[derive(Debug, Default)]
pub struct Luggage {
    /// What its mails are made from.
    pub dossier: Option<Dossier>,
    /// Deliveries of its first mail that are begun already, and their place.
    pub begun: Option<(Vec<String>, Place)>,
    /// What it is carried out in; none: nobody counts.
    pub slot: Option<Slot>,
}

/// One claim on its way.
pub(super) struct Journey<'a> {
    pub(super) claim: &'a Claim,
    /// Actions tried under this claim.
    pub(super) tried: BTreeSet<i32>,
    /// Actions whose doubt was looked into under this claim.
    pub(super) asked: BTreeSet<i32>,
    /// What was left open under this claim, and why: decides whether its attempt is spent.
    pub(super) tally: Tally,
    /// Of the mail that was sent last, until its record was tried.
    pub(super) unrecorded: Option<Place>,
    /// The first mail, if it was begun with the claim.
    pub(super) begun: Option<(Vec<String>, Place)>,
    pub(super) dossier: OnceCell<Dossier>,
    pub(super) slot: Option<Slot>,
}

impl<'a> Journey<'a> {
    pub(super) fn of(claim: &'a Claim, luggage: Luggage) -> Self {
        let (tried, asked, tally) = (BTreeSet::new(), BTreeSet::new(), Tally::default());
        let Luggage { dossier, begun, slot } = luggage;
        let dossier = OnceCell::new_with(dossier);
        Self { claim, tried, asked, tally, unrecorded: None, begun, dossier, slot }
    }

    /// Takes notice of what an action was decided to be.
    pub(super) fn notice(&mut self, decided: &Decided) {
        if decided.paused {
            self.tally.paused();
        }
    }
}
