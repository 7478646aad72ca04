//! The protocol over the model's row: what each statement of the store writes, and what the worker does with the answer.
//! Decisions come from [`super::product`]; only the writes are retold here, and the real ones are tested against
//! PostgreSQL in `tests/store`.

use maple_router::routing::decide::Verdict;
use maple_router::routing::submission::ledger::{DeliveryState, FailReason};
use maple_router::routing::table::Status;

use super::product::{self, Claim, Shape};
use super::world::{Attachment, DELIVERIES, Outcome, Row, Step, Token, Worker, World, has};

/// A rule of the protocol that can be switched off, to see that its loss is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The plan is pinned at the first claim.
    Pin,
    /// Transitions need the claim's token.
    TokenFence,
    /// No final dot without a recent touch.
    DotFence,
    /// Attempts are bounded.
    Budget,
    /// A stop, or a claim that began nothing, costs no attempt.
    Refund,
    /// A possible send costs its attempt, whoever gives the claim back.
    Spent,
    /// The sweep records standing intents as in doubt.
    Doubt,
    /// The verdict is read from the row.
    VerdictFromLedger,
    /// `begin` asks whether the attachment is clean.
    ReadyAtBegin,
    /// Claim, `begin` and sweep ask whether the attachment can be seen.
    Contract,
    /// `begin` asks whether its deliveries are open.
    OpenAtBegin,
    /// Submissions with facts in one's own state directory are not claimed.
    Spooled,
    /// The end of a claim and its audit row are one transaction.
    AuditWithEnd,
    /// The sweep hands on what no event names.
    Orphans,
    /// The sweep takes back what nobody works on.
    Stuck,
    /// A ticket that may exist is looked for before it is made again.
    Search,
}

/// The protocol at its bounds, perhaps with one rule gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocol {
    pub(crate) shape: Shape,
    /// `in_doubt = "hold"` rather than `"resend"`.
    pub(crate) hold: bool,
    pub(crate) max_attempts: u8,
    /// Resets that give an attempt back (`decide::REFUNDED_RESETS`, or fewer: the model starts that much further on).
    pub(crate) refunded_resets: u8,
    /// The rule that is switched off.
    pub(crate) without: Option<Rule>,
}

/// The end of a record.
enum Recorded {
    Continue,
    Concluded { ack: bool },
    Stale,
}

impl Protocol {
    pub(crate) fn holds(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    pub(super) fn attempts_allowed(&self) -> u32 {
        if self.holds(Rule::Budget) { u32::from(self.max_attempts) } else { u32::MAX }
    }

    /// Whether a write that needs `token` may be done; the witness notes a write that should not have been.
    pub(super) fn fence(&self, world: &World, token: Token) -> bool {
        world.is_claimed_by(token) || !self.holds(Rule::TokenFence) && world.row.status == Status::Processing
    }

    /// Whether decisions wait because the attachment cannot be seen.
    pub(crate) fn is_blind(&self, world: &World) -> bool {
        world.hidden && self.holds(Rule::Contract)
    }

    /// `Store::claim` for one row, by worker `w`, which has an event or was sent by the sweep.
    pub(crate) fn claim(&self, world: &mut World, w: usize) {
        let token = World::token_of(w);
        if self.is_blind(world) {
            // The answer is an error: a worker with an event keeps it, and one that waits for an answer asks again.
            if world.workers[w].step != Step::Asking {
                world.idle(w, true);
            }
            return;
        }
        if has_spooled(world, w) && self.holds(Rule::Spooled) {
            return world.idle(w, true);
        }
        if world.is_claimed_by(token) {
            return self.take_up(world, w);
        }
        if let Some((by, Some(reason))) = world.row.finished
            && by == token
        {
            world.workers[w].step = Step::Settling { ack: reason != FailReason::Exhausted };
            return;
        }
        match product::claim(self.shape, &world.row, world.seen(), self.attempts_allowed()) {
            Claim::Drop => world.idle(w, false),
            Claim::Wait => world.idle(w, true),
            Claim::Fail(reason) => {
                if reason == FailReason::Exhausted {
                    self.fail_open(&mut world.row);
                }
                self.end(world, token, Some(reason), false);
                world.workers[w].step = Step::Settling { ack: reason != FailReason::Exhausted };
            }
            Claim::Take => {
                self.take(world, token);
                self.take_up(world, w);
            }
        }
    }

    fn take(&self, world: &mut World, token: Token) {
        let row = &mut world.row;
        let pinned = if self.holds(Rule::Pin) { row.plan } else { None };
        let plan = pinned.unwrap_or(world.form);
        if product::lacks_deliveries(self.shape, row, plan) {
            row.expanded = Some(plan);
        }
        row.plan = (!self.shape.plan(plan).is_empty()).then_some(plan);
        let most = if self.holds(Rule::Budget) { self.max_attempts } else { u8::MAX };
        row.attempts = (row.attempts + 1).min(most);
        row.status = Status::Processing;
        row.claim = Some(token);
        row.due = true;
        world.witness.tries += 1;
    }

    /// The worker has the claim, and the ledger as it stands.
    fn take_up(&self, world: &mut World, w: usize) {
        let (row, worker) = (&world.row, &mut world.workers[w]);
        (worker.step, worker.slow) = (Step::Claimed, false);
        (worker.plan, worker.knows) = (row.plan, row.entries);
        (worker.keys, worker.outcomes, worker.repeated) = (0, [Outcome::Nothing; DELIVERIES], false);
    }

    /// The ledger as the worker knows it.
    fn known(world: &World, w: usize) -> Row {
        let worker = &world.workers[w];
        let row = World::new(world.form, world.left).row;
        Row { plan: worker.plan, expanded: world.row.expanded, entries: worker.knows, ..row }
    }

    /// `Worker::carry_out` up to the intent, or to the record of a claim that has nothing to try.
    pub(crate) fn go_on(&self, world: &mut World, w: usize) {
        let known = Self::known(world, w);
        let Some(order) = product::next_action(self.shape, &known, world.workers[w].tried) else {
            world.workers[w].step = Step::Recording;
            return;
        };
        world.workers[w].tried |= 1 << order;
        if world.workers[w].stopping {
            let refund = world.workers[w].tally.is_unspent();
            world.workers[w].step = Step::Releasing { refund };
            return;
        }
        let token = World::token_of(w);
        if self.shape == Shape::Tickets && self.holds(Rule::Search) && self.found(world, w, order) {
            return;
        }
        let (send, hold) = product::open_deliveries(self.shape, &known, order, token, self.hold);
        for d in (0..DELIVERIES).filter(|d| has(hold, *d)) {
            world.workers[w].outcomes[d] = Outcome::OnHold;
        }
        if send == 0 {
            world.workers[w].step = Step::Recording;
            return;
        }
        self.begin(world, w, order, send);
    }

    /// `Tickets::resolve`, once for each action of a claim: a ticket that is there is recorded as made, and nothing is sent. The
    /// help desk's index is up to date; a creation under way is not in it, however.
    fn found(&self, world: &mut World, w: usize, order: i32) -> bool {
        if world.workers[w].asked >> order & 1 == 1 {
            return false;
        }
        world.workers[w].asked |= 1 << order;
        let wanted = product::looked_for(self.shape, &Self::known(world, w), order, World::token_of(w));
        let mut is_found = false;
        for d in (0..DELIVERIES).filter(|d| has(wanted, *d)) {
            let generation = world.row.generation[d];
            if world.relay[d][usize::from(generation)] > 0 {
                let worker = &mut world.workers[w];
                worker.outcomes[d] = Outcome::Accepted;
                (worker.generation, worker.keys, worker.step) = (generation, 0, Step::Recording);
                worker.tried &= !(1 << order);
                is_found = true;
            } else {
                let making = |worker: &Worker| worker.step == Step::AtDot && has(worker.keys, d);
                world.witness.overtaken[d] |= world.workers.iter().any(making);
            }
        }
        is_found
    }

    /// `Store::begin`.
    fn begin(&self, world: &mut World, w: usize, order: i32, keys: u8) {
        let token = World::token_of(w);
        let sending: Vec<usize> = (0..DELIVERIES).filter(|d| has(keys, *d)).collect();
        let open = sending.iter().all(|d| world.row.entries[*d].state == DeliveryState::Open);
        if !self.fence(world, token) {
            world.workers[w].step = Step::Settling { ack: true };
            return;
        }
        if self.is_blind(world) {
            world.workers[w].step = Step::Releasing { refund: world.workers[w].tally.is_unspent() };
            return;
        }
        if world.seen() != Attachment::Clean && self.holds(Rule::ReadyAtBegin) {
            world.workers[w].step = match world.seen() {
                Attachment::Infected => Step::Failing,
                Attachment::Pending | Attachment::Clean => {
                    Step::Releasing { refund: world.workers[w].tally.is_unspent() }
                }
            };
            return;
        }
        if !open && self.holds(Rule::OpenAtBegin) {
            let worker = &mut world.workers[w];
            worker.tried &= !(1 << order);
            (worker.step, worker.outcomes) = (Step::Recording, [Outcome::Nothing; DELIVERIES]);
            return;
        }
        world.witness.intent_after_fact |=
            sending.iter().any(|d| world.row.entries[*d].state == DeliveryState::Accepted);
        world.witness.intent_unclean |= world.attachment != Attachment::Clean;
        world.witness.intent_hidden |= world.hidden;
        world.witness.intent_spooled |= has_spooled(world, w);
        for d in &sending {
            world.row.entries[*d].intent = Some(token);
        }
        let generation = world.row.generation[sending[0]];
        let worker = &mut world.workers[w];
        (worker.step, worker.slow, worker.keys, worker.generation) = (Step::AtFence, false, keys, generation);
    }

    /// Asks the fence before the final dot.
    pub(crate) fn ask_fence(&self, world: &mut World, w: usize) {
        let worker = &mut world.workers[w];
        if worker.slow && self.holds(Rule::DotFence) {
            for d in (0..DELIVERIES).filter(|d| has(worker.keys, *d)) {
                worker.outcomes[d] = Outcome::Deferred;
            }
            worker.tally.itself();
            worker.step = Step::Recording;
        } else {
            worker.step = Step::AtDot;
        }
    }

    /// The relay cannot be reached, and the breaker knows: what stays open is not to blame.
    pub(crate) fn outage(world: &mut World, w: usize) {
        let worker = &mut world.workers[w];
        for d in (0..DELIVERIES).filter(|d| has(worker.keys, *d)) {
            worker.outcomes[d] = Outcome::Deferred;
        }
        worker.tally.outage();
        worker.step = Step::Recording;
    }

    /// The relay answers to the dot.
    pub(crate) fn dot(world: &mut World, w: usize, outcomes: [Outcome; DELIVERIES]) {
        let worker = &mut world.workers[w];
        for d in (0..DELIVERIES).filter(|d| has(worker.keys, *d)) {
            worker.outcomes[d] = outcomes[d];
            if outcomes[d] == Outcome::Deferred {
                worker.tally.itself();
            }
            if outcomes[d] == Outcome::Accepted {
                let copies = &mut world.relay[d][usize::from(worker.generation)];
                *copies = (*copies + 1).min(3);
            }
        }
        worker.step = Step::Recording;
    }

    /// `Store::record`, and what the worker makes of its answer. With `answer_lost` it commits and is repeated.
    pub(crate) fn record(&self, world: &mut World, w: usize, answer_lost: bool) {
        let token = World::token_of(w);
        let (outcomes, repeated) = (world.workers[w].outcomes, world.workers[w].repeated);
        if !repeated {
            for d in (0..DELIVERIES).filter(|d| outcomes[*d] == Outcome::Accepted) {
                Self::merge(&mut world.row, d, token, world.workers[w].generation);
            }
        }
        let recorded = self.conclude(world, w, &outcomes);
        if answer_lost {
            world.workers[w].repeated = true;
            return;
        }
        self.answered(world, w, &recorded);
    }

    fn conclude(&self, world: &mut World, w: usize, outcomes: &[Outcome; DELIVERIES]) -> Recorded {
        let token = World::token_of(w);
        if !self.fence(world, token) {
            return Recorded::Stale;
        }
        for (d, outcome) in outcomes.iter().enumerate() {
            Self::outcome(&mut world.row.entries[d], *outcome, token);
        }
        let tried = world.workers[w].tried;
        if product::next_action(self.shape, &world.row, tried).is_some() {
            return Recorded::Continue;
        }
        let judged = if self.holds(Rule::VerdictFromLedger) {
            world.row
        } else {
            let mut memory = Self::known(world, w);
            for (entry, outcome) in memory.entries.iter_mut().zip(outcomes) {
                Self::outcome(entry, *outcome, token);
                if *outcome == Outcome::Accepted {
                    entry.state = DeliveryState::Accepted;
                }
            }
            Row { attempts: world.row.attempts, ..memory }
        };
        let refund = world.workers[w].tally.refunds();
        match product::verdict(self.shape, &judged, self.attempts_allowed(), refund) {
            Verdict::Routed => self.end(world, token, None, true),
            Verdict::Failed(reason) => {
                self.fail_open(&mut world.row);
                self.end(world, token, Some(reason), true);
                if matches!(reason, FailReason::Exhausted | FailReason::NoActions) {
                    return Recorded::Concluded { ack: false };
                }
            }
            Verdict::Release => {
                self.release(world, token, refund);
                return Recorded::Concluded { ack: false };
            }
        }
        Recorded::Concluded { ack: true }
    }

    fn answered(&self, world: &mut World, w: usize, recorded: &Recorded) {
        match recorded {
            Recorded::Continue => self.take_up(world, w),
            Recorded::Concluded { ack } => world.workers[w].step = Step::Settling { ack: *ack },
            Recorded::Stale => {
                // The row of an earlier try that may stand is asked how the claim ended; what it does not say comes again.
                let ack = match world.row.finished {
                    Some((by, reason)) if world.workers[w].repeated && by == World::token_of(w) => {
                        !matches!(reason, Some(FailReason::Exhausted | FailReason::NoActions))
                    }
                    Some(_) | None => !world.workers[w].repeated,
                };
                world.workers[w].step = Step::Settling { ack };
            }
        }
    }
}

/// Whether facts lie in the state directory of worker `w`'s daemon.
fn has_spooled(world: &World, w: usize) -> bool {
    world.spool.is_some_and(|spool| usize::from(spool.host) == w)
}
