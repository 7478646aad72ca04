//! Effects of the store's statements on the row: facts, other outcomes, ends, releases, what the sweep takes back, replays.

use maple_router::routing::decide::StuckDecision;
use maple_router::routing::submission::ledger::{DeliveryState, FailReason};
use maple_router::routing::table::Status;

use super::product;
use super::protocol::{Protocol, Rule};
use super::world::{Attachment, DELIVERIES, Entry, GONE, Outcome, Row, Spool, Step, Token, World, has};

impl Protocol {
    /// `Draft::merge`: whoever brings it. A fact of a former generation, or a second one, is kept beside the entry.
    pub(super) fn merge(row: &mut Row, d: usize, token: Token, generation: u8) {
        let ended = matches!(row.status, Status::Routed | Status::Failed);
        let former = generation != row.generation[d];
        let entry = &mut row.entries[d];
        if former || entry.state == DeliveryState::Accepted {
            return;
        }
        let doubted = entry.doubted || entry.doubt || entry.intent.is_some_and(|by| by != token);
        *entry =
            Entry { state: DeliveryState::Accepted, by: token, doubted, late: ended, ..Entry::default() };
    }

    /// `Draft::note`: a delivery that has a fact keeps it.
    pub(super) fn outcome(entry: &mut Entry, outcome: Outcome, token: Token) {
        if entry.state != DeliveryState::Open || matches!(outcome, Outcome::Nothing | Outcome::Accepted) {
            return;
        }
        (entry.intent, entry.by) = (None, token);
        match outcome {
            Outcome::Refused => entry.state = DeliveryState::Failed,
            Outcome::OnHold => (entry.state, entry.on_hold) = (DeliveryState::Failed, true),
            Outcome::Unknown => entry.doubt = true,
            Outcome::Deferred | Outcome::Nothing | Outcome::Accepted => {}
        }
    }

    pub(super) fn fail_open(&self, row: &mut Row) {
        let open = product::exhausted(self.shape, row);
        for d in (0..DELIVERIES).filter(|d| has(open, *d)) {
            row.entries[d].state = DeliveryState::Failed;
        }
    }

    /// `FINISH`, or the refusal of a claim: a terminal transition and its audit row.
    pub(super) fn end(&self, world: &mut World, token: Token, reason: Option<FailReason>, of_a_claim: bool) {
        world.witness.stale_change |= of_a_claim && !world.is_claimed_by(token);
        let row = &mut world.row;
        row.status = if reason.is_none() { Status::Routed } else { Status::Failed };
        (row.claim, row.due, row.finished) = (None, true, Some((token, reason)));
        world.witness.ends += 1;
        if self.holds(Rule::AuditWithEnd) {
            world.witness.audits += 1;
        }
    }

    /// `Store::fail` after a `begin` that met an infected attachment.
    pub(crate) fn fail(&self, world: &mut World, w: usize) {
        let token = World::token_of(w);
        if self.fence(world, token) {
            self.end(world, token, Some(FailReason::Infected), true);
        }
        world.workers[w].step = Step::Settling { ack: true };
    }

    /// `Store::release` by worker `w`.
    pub(crate) fn give_back(&self, world: &mut World, w: usize, refund: bool) {
        let token = World::token_of(w);
        let mine = self.fence(world, token);
        if mine {
            self.release(world, token, refund);
        }
        world.workers[w].step = Step::Settling { ack: !mine };
    }

    /// `RELEASE`.
    pub(super) fn release(&self, world: &mut World, token: Token, refund: bool) {
        world.witness.stale_change |= !world.is_claimed_by(token);
        world.witness.refunded_sent |= refund && world.workers[usize::from(token) - 1].perhaps_sent;
        let row = &mut world.row;
        (row.status, row.claim, row.due) = (Status::Received, None, false);
        for entry in row.entries.iter_mut().filter(|entry| entry.state == DeliveryState::Open) {
            if let Some(by) = entry.intent.take() {
                entry.doubt |= by != token;
            }
        }
        self.refund(world, refund);
    }

    pub(super) fn refund(&self, world: &mut World, refund: bool) {
        if refund {
            world.witness.tries = world.witness.tries.saturating_sub(1);
            if self.holds(Rule::Refund) {
                world.row.attempts = world.row.attempts.saturating_sub(1);
            }
        }
    }

    /// `Store::sweep_stuck` for a row that nobody has touched for `stuck_after`.
    pub(crate) fn take_back(&self, world: &mut World) {
        let infected = world.seen() == Attachment::Infected;
        let (attempts, resets) = (self.attempts_allowed(), self.refunded_resets);
        let decision = product::stuck(self.shape, &world.row, infected, attempts, resets);
        let sent = product::perhaps_sent(self.shape, &world.row);
        let began =
            world.row.entries.iter().any(|entry| entry.intent.is_some() && entry.intent == world.row.claim);
        world.witness.refunded_sent |= began && matches!(decision, StuckDecision::Reset { refund: true });
        if decision != StuckDecision::Leave {
            for d in (0..DELIVERIES).filter(|d| has(sent, *d)) {
                world.row.entries[d].intent = None;
                world.row.entries[d].doubt |= self.holds(Rule::Doubt);
            }
        }
        match decision {
            StuckDecision::Leave => {}
            StuckDecision::Fail(reason) => {
                if reason == FailReason::Exhausted {
                    self.fail_open(&mut world.row);
                }
                self.end(world, GONE, Some(reason), false);
            }
            StuckDecision::Reset { refund } => {
                let row = &mut world.row;
                (row.status, row.claim, row.due) = (Status::Received, None, true);
                row.resets = (row.resets + 1).min(self.refunded_resets);
                self.refund(world, refund);
            }
        }
    }

    /// An operator's replay of what failed, or by force of action 1.
    pub(crate) fn replay(&self, world: &mut World, force: bool) {
        let infected = world.attachment == Attachment::Infected;
        let forced = force.then_some(1);
        if let Some(row) = product::replayed(self.shape, &world.row, infected, forced) {
            world.row = row;
            (world.witness.ends, world.witness.audits, world.witness.tries) = (0, 0, 0);
        }
    }

    /// Facts in a state directory are recorded by its daemon, whoever has the claim.
    pub(crate) fn unspool(world: &mut World) {
        let Some(Spool { token, facts, generation, .. }) = world.spool.take() else { return };
        for d in (0..DELIVERIES).filter(|d| has(facts, *d)) {
            Self::merge(&mut world.row, d, token, generation);
        }
    }
}
