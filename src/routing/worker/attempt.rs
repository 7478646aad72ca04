//! One claim on its way through the worker: the context it brought, and the actions tried under it.
//!
//! Invariant: nothing here does I/O. If we die, this state is gone; the row has all that matters.

use std::collections::BTreeSet;

use tokio::sync::OnceCell;

use super::carrier::Permit;
use super::prepare::Decided;
use crate::routing::claims::Claim;
use crate::routing::claims::in_doubt_permits::InDoubtPermit;
use crate::routing::claims::slots::Slot;
use crate::routing::outages::blame::Tally;
use crate::routing::submission::content::SubmissionContent;

/// Context that a claim brings along.
#[derive(Debug, Default)]
pub struct ClaimContext {
    /// Submission content that the mails are made from.
    pub content: Option<SubmissionContent>,
    /// Deliveries of the first mail whose intent is recorded with the claim, and the mail's in-doubt permit.
    pub intents: Option<(Vec<String>, InDoubtPermit)>,
    /// Slot that the work occupies; `None` where slots are not counted.
    pub slot: Option<Slot>,
}

/// One claim under way.
pub(super) struct Attempt<'a> {
    pub(super) claim: &'a Claim,
    /// Actions tried under this claim.
    pub(super) tried: BTreeSet<i32>,
    /// Actions whose files were refused as too large under this claim: they go with links.
    pub(super) too_large: BTreeSet<i32>,
    /// Actions whose doubt was examined under this claim.
    pub(super) asked: BTreeSet<i32>,
    /// Deliveries left open under this claim, and why: decides whether its attempt is spent.
    pub(super) tally: Tally,
    /// Permit of what was sent last, until its record was tried.
    pub(super) permit: Option<Permit>,
    /// The mail that comes next, if its intent was recorded with the claim or with the mail before.
    pub(super) intents: Option<(Vec<String>, InDoubtPermit)>,
    pub(super) content: OnceCell<SubmissionContent>,
    pub(super) slot: Option<Slot>,
}

impl<'a> Attempt<'a> {
    pub(super) fn of(claim: &'a Claim, context: ClaimContext) -> Self {
        let (tried, too_large, asked) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let tally = Tally::default();
        let ClaimContext { content, intents, slot } = context;
        let content = OnceCell::new_with(content);
        Self { claim, tried, too_large, asked, tally, permit: None, intents, content, slot }
    }

    /// Notes in the tally whether a pause kept deliveries of the action open.
    pub(super) fn notice(&mut self, decided: &Decided) {
        if decided.paused {
            self.tally.paused();
        }
    }
}
