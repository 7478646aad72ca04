//! A run's states and edges as the contract tables them, and its record: what S1 and S4 are judged by.
//!
//! The contract's table is retold here; it is replaced by the product's own once that is there (`Track::step` is the only reader).

/// `screening.submissions.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum State {
    Received,
    VendorApproved,
    Tier1Scanning,
    Tier1Failed,
    Tier2Scanning,
    AutoApproved,
    NeedsReview,
    Tier3Review,
    Published,
    Rejected,
}

impl State {
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Tier1Failed | Self::Rejected | Self::Published)
    }

    /// Judged as `screened_out` by claim and sweep.
    pub(super) fn is_out(self) -> bool {
        matches!(self, Self::Tier1Failed | Self::Rejected)
    }
}

/// What an event names as its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Trigger {
    VendorAutoVerify,
    NonVendorSubmission,
    Tier1Pass,
    Tier1Fail,
    Tier2Pass,
    Tier2Concerns,
    Tier2Unavailable,
    Tier2Fail,
    AdminEscalate,
    AdminReject,
    ReviewerApprove,
    ReviewerReject,
    PublishComplete,
}

/// Who may walk an edge: the screener's role (system and worker), or a person by `decide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Actor {
    Screener,
    Person,
}

/// Every edge but the birth.
const TABLE: [(State, Trigger, Actor, State); 14] = {
    use Actor::{Person, Screener};
    use State::*;
    use Trigger::*;
    [
        (Received, VendorAutoVerify, Screener, VendorApproved),
        (Received, NonVendorSubmission, Screener, Tier1Scanning),
        (Tier1Scanning, Tier1Pass, Screener, Tier2Scanning),
        (Tier1Scanning, Tier1Fail, Screener, Tier1Failed),
        (Tier2Scanning, Tier2Pass, Screener, AutoApproved),
        (Tier2Scanning, Tier2Concerns, Screener, NeedsReview),
        (Tier2Scanning, Tier2Unavailable, Screener, NeedsReview),
        (Tier2Scanning, Tier2Fail, Screener, Rejected),
        (NeedsReview, AdminEscalate, Person, Tier3Review),
        (NeedsReview, AdminReject, Person, Rejected),
        (Tier3Review, ReviewerApprove, Person, Published),
        (Tier3Review, ReviewerReject, Person, Rejected),
        (AutoApproved, PublishComplete, Screener, Published),
        (VendorApproved, PublishComplete, Screener, Published),
    ]
};

/// A run's state and the record of how it came there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Track {
    pub(super) state: State,
    /// Transitions that were committed, the birth among them; a person's version.
    pub(super) moves: u8,
    /// Rows of `submission_state_events`.
    pub(super) events: u8,
    /// Where it was published from.
    from: Option<State>,
}

impl Track {
    /// A run that was just born.
    pub(super) const BORN: Self = Self { state: State::Received, moves: 1, events: 1, from: None };

    /// An edge with its event; whether the table has it.
    pub(super) fn step(&mut self, trigger: Trigger, by: Actor) -> bool {
        let edge =
            TABLE.iter().find(|(from, what, who, _)| (*from, *what, *who) == (self.state, trigger, by));
        if let Some((.., to)) = edge {
            self.force(*to);
            self.events += 1;
        }
        edge.is_some()
    }

    /// A state that is written without the table and without an event: for models without a rule.
    pub(super) fn force(&mut self, to: State) {
        if to == State::Published {
            self.from = Some(self.state);
        }
        self.state = to;
        self.moves += 1;
    }

    /// S1, told from the record and not from the table.
    pub(super) fn is_lawfully_published(&self) -> bool {
        let approved = [State::AutoApproved, State::VendorApproved, State::Tier3Review].map(Some);
        self.state != State::Published || approved.contains(&self.from)
    }
}
