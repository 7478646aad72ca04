//! Possible next steps: the protocol's own, and faults from a bounded store.

use std::sync::Mutex;

use maple_router::routing::table::Status;
use stateright::{Model, Property};

use super::laws;
use super::liveness::Graph;
use super::protocol::{Protocol, Rule};
use super::world::{Attachment, DELIVERIES, Form, Left, Outcome, Spool, Step, WORKERS, World, has};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The protocol: each of these goes on by itself.
    Receive(usize),
    Find(usize),
    AskAgain(usize),
    GoOn(usize),
    AskFence(usize),
    Dot(usize, [Outcome; DELIVERIES]),
    Record(usize),
    Release(usize, bool),
    Fail(usize),
    Settle(usize, bool),
    TakeBack,
    Unspool,
    TimePasses,
    Scan,
    /// Repairs what `Hide` broke.
    Show,
    /// Faults, and what people do.
    Crash(usize),
    ForceStop(usize),
    Slow(usize),
    Stop(usize),
    LoseEvent,
    RepeatEvent,
    Reload(Form),
    Rescan(Attachment),
    Hide,
    Outage(usize),
    LoseRelayAnswer(usize),
    LoseClaimAnswer(usize),
    LoseRecordAnswer(usize),
    Refuse(usize),
    Replay {
        force: bool,
    },
}

/// The model: the protocol, where it starts, and the graph of what was seen.
pub(crate) struct Routing {
    pub(crate) protocol: Protocol,
    pub(crate) starts: Vec<Form>,
    pub(crate) left: Left,
    pub(crate) graph: Mutex<Graph>,
}

impl Routing {
    /// The protocol's own steps. None of them needs luck.
    fn goes_on(&self, world: &World, actions: &mut Vec<Action>) {
        let row = &world.row;
        for (w, worker) in world.workers.iter().enumerate() {
            match worker.step {
                Step::Idle => {
                    if world.events > 0 {
                        actions.push(Action::Receive(w));
                    }
                    let seen = world.seen();
                    let findable = !self.protocol.is_blind(world)
                        && (row.due && seen == Attachment::Clean || seen == Attachment::Infected);
                    if row.status == Status::Received && findable && self.protocol.holds(Rule::Orphans) {
                        actions.push(Action::Find(w));
                    }
                }
                Step::Asking => actions.push(Action::AskAgain(w)),
                Step::Claimed => actions.push(Action::GoOn(w)),
                Step::AtFence => actions.push(Action::AskFence(w)),
                Step::AtDot => {
                    outcomes(worker.keys).for_each(|outcomes| actions.push(Action::Dot(w, outcomes)));
                }
                Step::Recording => actions.push(Action::Record(w)),
                Step::Releasing { refund } => actions.push(Action::Release(w, refund)),
                Step::Failing => actions.push(Action::Fail(w)),
                Step::Settling { ack } => actions.push(Action::Settle(w, ack)),
            }
        }
        let may_take_back = self.protocol.holds(Rule::Stuck) && !self.protocol.is_blind(world);
        if row.status == Status::Processing && world.is_untouched() && may_take_back {
            actions.push(Action::TakeBack);
        }
        if world.spool.is_some() {
            actions.push(Action::Unspool);
        }
        if row.status == Status::Received && !row.due {
            actions.push(Action::TimePasses);
        }
        if world.attachment == Attachment::Pending {
            actions.push(Action::Scan);
        }
        if world.hidden {
            actions.push(Action::Show);
        }
    }

    fn goes_wrong(world: &World, actions: &mut Vec<Action>) {
        let left = &world.left;
        if left.in_all == 0 {
            return;
        }
        for (w, worker) in world.workers.iter().enumerate() {
            let (idle, settling) = (worker.step == Step::Idle, matches!(worker.step, Step::Settling { .. }));
            if left.crashes > 0 && !idle {
                actions.push(Action::Crash(w));
            }
            if left.slownesses > 0 && !worker.slow && !idle && !settling {
                actions.push(Action::Slow(w));
            }
            if left.stops > 0 && !worker.stopping && !idle && !settling {
                actions.push(Action::Stop(w));
                let facts = worker.outcomes.contains(&Outcome::Accepted);
                if world.spool.is_none() && worker.step == Step::Recording && facts {
                    actions.push(Action::ForceStop(w));
                }
            }
            let facts = worker.step == Step::Recording && worker.outcomes.contains(&Outcome::Accepted);
            if left.refusals > 0 && facts && !worker.repeated && world.spool.is_none() {
                actions.push(Action::Refuse(w));
            }
            if left.outages > 0 && worker.step == Step::AtFence {
                actions.push(Action::Outage(w));
            }
            if left.answers > 0 {
                match worker.step {
                    Step::Idle if world.events > 0 => actions.push(Action::LoseClaimAnswer(w)),
                    Step::Recording => {
                        if !worker.repeated {
                            actions.push(Action::LoseRecordAnswer(w));
                        }
                        let telling =
                            |d: usize| matches!(worker.outcomes[d], Outcome::Accepted | Outcome::Deferred);
                        if !worker.repeated && (0..DELIVERIES).any(|d| has(worker.keys, d) && telling(d)) {
                            actions.push(Action::LoseRelayAnswer(w));
                        }
                    }
                    Step::Idle | Step::Asking | Step::Claimed | Step::AtFence | Step::AtDot => {}
                    Step::Releasing { .. } | Step::Failing | Step::Settling { .. } => {}
                }
            }
        }
        if left.events > 0 {
            if world.events > 0 {
                actions.push(Action::LoseEvent);
            }
            if world.events < 2 {
                actions.push(Action::RepeatEvent);
            }
        }
        if left.reloads > 0 {
            let others = [Form::First, Form::Second, Form::WithoutActions].into_iter();
            actions.extend(others.filter(|form| *form != world.form).map(Action::Reload));
        }
        if left.rescans > 0 && world.attachment == Attachment::Clean {
            actions.extend([Action::Rescan(Attachment::Pending), Action::Rescan(Attachment::Infected)]);
        }
        if left.hidings > 0 && !world.hidden {
            actions.push(Action::Hide);
        }
        if left.replays > 0 {
            match world.row.status {
                Status::Failed => {
                    actions.extend([Action::Replay { force: false }, Action::Replay { force: true }]);
                }
                Status::Routed => actions.push(Action::Replay { force: true }),
                Status::Received | Status::Processing | Status::Purged => {}
            }
        }
    }

    /// Whether one of the protocol's own steps changes anything.
    pub(crate) fn has_a_way_on(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        self.goes_on(world, &mut actions);
        actions.into_iter().any(|action| self.after(world, action).is_some())
    }

    fn after(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        if action.is_fault() {
            world.left.in_all -= 1;
        }
        self.apply(&mut world, action);
        world.tidy();
        (world != *last).then_some(world)
    }

    fn apply(&self, world: &mut World, action: Action) {
        let protocol = &self.protocol;
        match action {
            Action::Receive(w) => {
                world.events -= 1;
                world.workers[w].event = true;
                protocol.claim(world, w);
            }
            Action::Find(w) | Action::AskAgain(w) => protocol.claim(world, w),
            Action::GoOn(w) => protocol.go_on(world, w),
            Action::AskFence(w) => protocol.ask_fence(world, w),
            Action::Dot(w, answers) => Protocol::dot(world, w, answers),
            Action::Record(w) => protocol.record(world, w, false),
            Action::Release(w, refund) => protocol.give_back(world, w, refund),
            Action::Fail(w) => protocol.fail(world, w),
            Action::Settle(w, ack) => world.idle(w, !ack),
            Action::TakeBack => protocol.take_back(world),
            Action::Unspool => Protocol::unspool(world),
            Action::TimePasses => world.row.due = true,
            Action::Scan => world.attachment = Attachment::Clean,
            Action::Crash(w) => {
                world.left.crashes -= 1;
                leaves_unnotified(world, w);
                world.idle(w, true);
            }
            Action::ForceStop(w) => {
                world.left.stops -= 1;
                spooled(world, w);
            }
            // Recording goes on without its slot until the claim ends; then the facts are left and the row untouched.
            Action::Refuse(w) => {
                world.left.refusals -= 1;
                spooled(world, w);
            }
            Action::Slow(w) => {
                world.left.slownesses -= 1;
                world.workers[w].slow = true;
                leaves_unnotified(world, w);
            }
            Action::Stop(w) => {
                world.left.stops -= 1;
                world.workers[w].stopping = true;
            }
            Action::LoseEvent => {
                world.left.events -= 1;
                world.events -= 1;
            }
            Action::RepeatEvent => {
                world.left.events -= 1;
                world.events += 1;
            }
            Action::Reload(form) => {
                world.left.reloads -= 1;
                world.form = form;
            }
            Action::Rescan(attachment) => {
                world.left.rescans -= 1;
                world.attachment = attachment;
            }
            Action::Show => world.hidden = false,
            Action::Hide => {
                world.left.hidings -= 1;
                world.hidden = true;
            }
            Action::Outage(w) => {
                world.left.outages -= 1;
                Protocol::outage(world, w);
            }
            Action::LoseRelayAnswer(w) => {
                world.left.answers -= 1;
                leaves_unnotified(world, w);
                let worker = &mut world.workers[w];
                if protocol.holds(Rule::Spent) {
                    worker.tally.itself();
                }
                worker.perhaps_sent = true;
                for d in (0..DELIVERIES).filter(|d| has(worker.keys, *d)) {
                    if matches!(worker.outcomes[d], Outcome::Accepted | Outcome::Deferred) {
                        worker.outcomes[d] = Outcome::Unknown;
                    }
                }
            }
            Action::LoseClaimAnswer(w) => {
                world.left.answers -= 1;
                world.events -= 1;
                world.workers[w].event = true;
                protocol.claim(world, w);
                if world.workers[w].step != Step::Idle {
                    world.workers[w].step = Step::Asking;
                }
            }
            Action::LoseRecordAnswer(w) => {
                world.left.answers -= 1;
                protocol.record(world, w, true);
            }
            Action::Replay { force } => {
                world.left.replays -= 1;
                protocol.replay(world, force);
            }
        }
    }
}

/// Worker `w` gives its record up; the acceptances it received lie in its daemon's state directory.
fn spooled(world: &mut World, w: usize) {
    leaves_unnotified(world, w);
    let accepted = (0..DELIVERIES).filter(|d| world.workers[w].outcomes[*d] == Outcome::Accepted);
    let facts = accepted.map(|d| 1 << d).sum();
    let (generation, host) = (world.workers[w].generation, if w == 0 { 0 } else { 1 });
    world.spool = Some(Spool { host, token: World::token_of(w), facts, generation });
    world.idle(w, true);
}

/// Mails of worker `w` that are being sent, or sent and not recorded, may be out without a trace.
fn leaves_unnotified(world: &mut World, w: usize) {
    let worker = &world.workers[w];
    for d in (0..DELIVERIES).filter(|d| has(worker.keys, *d)) {
        let unrecorded_fact =
            worker.step == Step::Recording && worker.outcomes[d] == Outcome::Accepted && !worker.repeated;
        world.witness.unnotified[d] |= unrecorded_fact || worker.step == Step::AtDot;
    }
}

/// Every answer the relay can give to a send of `keys`.
fn outcomes(keys: u8) -> impl Iterator<Item = [Outcome; DELIVERIES]> {
    const EACH: [Outcome; 3] = [Outcome::Accepted, Outcome::Deferred, Outcome::Refused];
    let of = move |d: usize| if has(keys, d) { &EACH[..] } else { &[Outcome::Nothing][..] };
    of(0).iter().flat_map(move |a| of(1).iter().map(|b| [*a, *b]))
}

impl Action {
    /// Whether the step comes from the bounded store of faults.
    fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Crash(_)
                | Self::ForceStop(_)
                | Self::Slow(_)
                | Self::Stop(_)
                | Self::LoseEvent
                | Self::RepeatEvent
                | Self::Reload(_)
                | Self::Rescan(_)
                | Self::Hide
                | Self::Outage(_)
                | Self::LoseRelayAnswer(_)
                | Self::LoseClaimAnswer(_)
                | Self::LoseRecordAnswer(_)
                | Self::Refuse(_)
                | Self::Replay { .. }
        )
    }
}

impl Model for Routing {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        self.starts.iter().map(|form| World::new(*form, self.left)).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.goes_on(world, actions);
        Self::goes_wrong(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let world = self.after(last, action)?;
        if !action.is_fault() {
            self.graph.lock().expect("no panic").step(last, &world);
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        laws::all()
    }
}

const _: () = assert!(WORKERS == 2 && DELIVERIES == 2, "tokens and answers are written out for two");
