//! The model of an upload: one session, two workers of its commit, a remover, the object store, and how many faults are left. Every
//! order of their steps is tried; each step is one transaction, or one effect at the store.
//!
//! States change by the product's own table. What the schema's trigger does at a commit and at an end is retold here, as
//! `tests/uploads/schema.rs` sees the real one do it.

use std::collections::BTreeSet;

use maple_router::kernel::{Transition, Who};
use maple_router::uploads::table::{CLIENT, Command, State, Upload};
use stateright::{Checker, HasDiscoveries, Model, Property};

const OBJECT_HAS_ROW: &str = "U1: every object has a row";
const BLOB_HAS_OBJECT: &str = "U2: every blob has its object";
const COMMITTED_IS_PROVEN: &str = "U3: what is committed was proven";
const NOTHING_IS_FORGOTTEN: &str = "U4: what has ended has its objects due";
const ENDS: &str = "U5: an upload that nobody touches comes to its end";
const COMMITTED_AFTER_DEATH: &str = "an upload is committed by the second worker";
const REMOVED_AND_LATE: &str = "a worker goes on after the removal";

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rule {
    /// The final object's row stands before the object.
    Plan,
    /// It is written only while the lease is ours.
    PlanFence,
    /// A commit is written only while the lease is ours, and only from a state that has the edge.
    CommitFence,
    /// The multipart upload is given up before the object is deleted.
    AbortFirst,
    /// The session's object goes before the final one.
    SourceFirst,
    /// An end makes the objects due.
    DueAtEnd,
    /// A commit compares before it keeps.
    Proof,
    /// Leases run out.
    Expiry,
}

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    Claimed,
    Assembled,
    Proven,
    Planned,
    Kept,
}

/// Where the remover stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Removal {
    Idle,
    Taken,
    GivenUp,
    Deleted,
}

/// The parts at the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Parts {
    None,
    Open,
    Sent,
    Gone,
}

/// A row of `content.staging`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Staged {
    Absent,
    Needed,
    Due,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    state: State,
    /// The worker that has the lease; of a dead one, nobody's number.
    lease: Option<u8>,
    session_row: Staged,
    blob_row: Staged,
    blob: bool,
    parts: Parts,
    object: bool,
    final_object: bool,
    /// Whether what came is what was declared.
    honest: bool,
    works: [Work; 2],
    removal: Removal,
    /// Deaths, leases that run out early, ends asked for: each a fault.
    faults: u8,
    was_removed: bool,
}

/// A worker that is gone has the lease.
const DEAD: u8 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Start,
    Send,
    Complete,
    Claim(u8),
    Assemble(u8),
    Prove(u8),
    Plan(u8),
    Keep(u8),
    Settle(u8),
    Die(u8),
    LeaseOver,
    End,
    TakeRemoval,
    GiveUp,
    Delete,
    ForgetRow,
    CollectFinal,
}

#[derive(Debug, Clone, Copy)]
struct Uploads {
    without: Option<Rule>,
    faults: u8,
}

impl Uploads {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn step(&self, world: &mut World, command: Command, by: Who) -> bool {
        match Transition::<Upload>::of(world.state, command, by) {
            Ok(edge) => {
                world.state = edge.to();
                true
            }
            Err(_) => false,
        }
    }

    /// What the trigger does when an upload has come to nothing.
    fn ends(&self, world: &mut World) {
        world.lease = None;
        if self.has(Rule::DueAtEnd) {
            for row in [&mut world.session_row, &mut world.blob_row] {
                if *row == Staged::Needed {
                    *row = Staged::Due;
                }
            }
        }
    }

    /// Steps that nothing has to go wrong for.
    fn goes_on(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        match world.state {
            State::Initiated => actions.push(Action::Start),
            State::PartsUploading if world.parts == Parts::Open => actions.push(Action::Send),
            State::PartsUploading if world.parts == Parts::Sent => actions.push(Action::Complete),
            State::PartsUploading | State::PendingCommit | State::Committed | State::Aborted => {}
        }
        for worker in 0..2_u8 {
            let next = match world.works[usize::from(worker)] {
                Work::Idle if world.state == State::PendingCommit && world.lease.is_none() => {
                    Action::Claim(worker)
                }
                Work::Idle => continue,
                Work::Claimed => Action::Assemble(worker),
                Work::Assembled => Action::Prove(worker),
                Work::Proven => Action::Plan(worker),
                Work::Planned => Action::Keep(worker),
                Work::Kept => Action::Settle(worker),
            };
            actions.push(next);
        }
        if world.lease == Some(DEAD) && self.has(Rule::Expiry) {
            actions.push(Action::LeaseOver);
        }
        match world.removal {
            Removal::Idle if world.session_row == Staged::Due => actions.push(Action::TakeRemoval),
            Removal::Idle => {}
            Removal::Taken => actions.push(Action::GiveUp),
            Removal::GivenUp => actions.push(Action::Delete),
            Removal::Deleted => actions.push(Action::ForgetRow),
        }
        let source_gone = world.session_row == Staged::Absent || !self.has(Rule::SourceFirst);
        if world.blob_row == Staged::Due && source_gone {
            actions.push(Action::CollectFinal);
        }
        actions
    }
}

impl Model for Uploads {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let world = |honest| World {
            state: State::Initiated,
            lease: None,
            session_row: Staged::Needed,
            blob_row: Staged::Absent,
            blob: false,
            parts: Parts::None,
            object: false,
            final_object: false,
            honest,
            works: [Work::Idle; 2],
            removal: Removal::Idle,
            faults: self.faults,
            was_removed: false,
        };
        vec![world(true), world(false)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.goes_on(world));
        if world.faults == 0 {
            return;
        }
        for worker in 0..2_u8 {
            if world.works[usize::from(worker)] != Work::Idle {
                actions.push(Action::Die(worker));
            }
        }
        if world.lease.is_some_and(|lease| lease != DEAD) {
            actions.push(Action::LeaseOver);
        }
        if !world.state.is_ended() {
            actions.push(Action::End);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        let ours = |world: &World, worker: u8| world.lease == Some(worker);
        match action {
            Action::Start => {
                world.parts = Parts::Open;
                self.step(&mut world, Command::StartParts, CLIENT);
            }
            Action::Send => world.parts = Parts::Sent,
            Action::Complete => {
                self.step(&mut world, Command::CompleteParts, CLIENT);
            }
            Action::Claim(worker) => {
                self.step(&mut world, Command::Claim, Who::WORKER);
                world.lease = Some(worker);
                world.works[usize::from(worker)] = Work::Claimed;
            }
            Action::Assemble(worker) => {
                if world.parts == Parts::Sent {
                    world.parts = Parts::Gone;
                    world.object = true;
                }
                // Where the store has neither, nothing comes of it: the settlement is fenced like any other.
                world.works[usize::from(worker)] = if world.object { Work::Assembled } else { Work::Idle };
                if !world.object && ours(&world, worker) && self.step_to(&mut world, State::Aborted) {
                    self.ends(&mut world);
                }
            }
            Action::Prove(worker) => {
                let read = world.object;
                if read && (world.honest || !self.has(Rule::Proof)) {
                    world.works[usize::from(worker)] = Work::Proven;
                } else {
                    world.works[usize::from(worker)] = Work::Idle;
                    if read && ours(&world, worker) && self.step_to(&mut world, State::Aborted) {
                        self.ends(&mut world);
                    } else if ours(&world, worker) {
                        world.lease = None;
                    }
                }
            }
            Action::Plan(worker) => {
                let may = ours(&world, worker) || !self.has(Rule::PlanFence);
                if may {
                    if self.has(Rule::Plan) && world.blob_row == Staged::Absent && !world.blob {
                        world.blob_row = Staged::Needed;
                    }
                    world.works[usize::from(worker)] = Work::Planned;
                } else {
                    world.works[usize::from(worker)] = Work::Idle;
                }
            }
            Action::Keep(worker) => {
                // Kept before: the object there is the same. Without its source nothing is made.
                if world.object {
                    world.final_object = true;
                }
                world.works[usize::from(worker)] = if world.final_object { Work::Kept } else { Work::Idle };
                if !world.final_object && ours(&world, worker) {
                    world.lease = None;
                }
            }
            Action::Settle(worker) => {
                world.works[usize::from(worker)] = Work::Idle;
                let fenced = ours(&world, worker);
                if fenced && self.step_to(&mut world, State::Committed)
                    || !fenced && !self.has(Rule::CommitFence)
                {
                    world.state = State::Committed;
                    world.blob = true;
                    world.blob_row = Staged::Absent;
                    self.ends(&mut world);
                    if world.session_row == Staged::Needed {
                        world.session_row = Staged::Due;
                    }
                }
            }
            Action::Die(worker) => {
                world.faults -= 1;
                world.works[usize::from(worker)] = Work::Idle;
                if ours(&world, worker) {
                    world.lease = Some(DEAD);
                }
            }
            Action::LeaseOver => {
                if world.lease != Some(DEAD) {
                    world.faults -= 1;
                }
                world.lease = None;
            }
            Action::End => {
                world.faults -= 1;
                self.step(&mut world, Command::Abort, CLIENT);
                self.ends(&mut world);
            }
            Action::TakeRemoval => world.removal = Removal::Taken,
            Action::GiveUp => {
                if self.has(Rule::AbortFirst) {
                    world.parts = Parts::Gone;
                }
                world.removal = Removal::GivenUp;
            }
            Action::Delete => {
                world.object = false;
                world.was_removed = true;
                world.removal = Removal::Deleted;
            }
            Action::ForgetRow => {
                world.session_row = Staged::Absent;
                world.removal = Removal::Idle;
            }
            Action::CollectFinal => {
                world.final_object = false;
                world.blob_row = Staged::Absent;
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(OBJECT_HAS_ROW, |_, world: &World| {
                (!world.object || world.session_row != Staged::Absent)
                    && (!world.final_object || world.blob || world.blob_row != Staged::Absent)
            }),
            Property::always(BLOB_HAS_OBJECT, |_, world: &World| !world.blob || world.final_object),
            Property::always(COMMITTED_IS_PROVEN, |_, world: &World| {
                world.state != State::Committed || world.honest
            }),
            Property::always(NOTHING_IS_FORGOTTEN, |_, world: &World| {
                !world.state.is_ended() || ![world.session_row, world.blob_row].contains(&Staged::Needed)
            }),
            // Steps go on until there are none: no circle, since each of them brings something nearer to its end.
            Property::always(ENDS, |model: &Self, world: &World| {
                !model.goes_on(world).is_empty()
                    || world.state.is_ended() && world.session_row == Staged::Absent && !world.object
            }),
            Property::sometimes(COMMITTED_AFTER_DEATH, |_, world: &World| {
                world.state == State::Committed && world.faults == 0 && world.blob
            }),
            Property::sometimes(REMOVED_AND_LATE, |_, world: &World| {
                world.was_removed && world.works.iter().any(|work| *work != Work::Idle)
            }),
        ]
    }
}

impl Uploads {
    /// The edge of a commit to one of its two ends.
    fn step_to(&self, world: &mut World, to: State) -> bool {
        let Ok(edge) = Transition::<Upload>::leading(world.state, Command::Commit, to, Who::WORKER) else {
            return false;
        };
        world.state = edge.to();
        true
    }
}

#[test]
fn every_order_of_an_upload_is_right() {
    let checker = Uploads { without: None, faults: 4 }
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let mut found = checker.discoveries();
    for property in checker.model().properties() {
        let path = found.remove(property.name).map(stateright::Path::into_actions);
        let broken = property.expectation.discovery_is_failure() == path.is_some();
        assert!(!broken, "{}: {path:#?}", property.name);
    }
    println!("{} worlds, {} deep", checker.unique_state_count(), checker.max_depth());
    assert!(checker.unique_state_count() >= 1000, "{} worlds", checker.unique_state_count());
}

/// Without any one of the rules there is a world that breaks the law it stands for.
#[test]
fn no_rule_of_an_upload_can_be_spared() {
    for (rule, law) in [
        (Rule::Plan, OBJECT_HAS_ROW),
        (Rule::PlanFence, NOTHING_IS_FORGOTTEN),
        (Rule::CommitFence, BLOB_HAS_OBJECT),
        (Rule::AbortFirst, OBJECT_HAS_ROW),
        (Rule::SourceFirst, OBJECT_HAS_ROW),
        (Rule::DueAtEnd, NOTHING_IS_FORGOTTEN),
        (Rule::Proof, COMMITTED_IS_PROVEN),
        (Rule::Expiry, ENDS),
    ] {
        let until = HasDiscoveries::AnyOf(BTreeSet::from([law]));
        let model = Uploads { without: Some(rule), faults: 3 };
        let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
        assert!(checker.discoveries().contains_key(law), "without {rule:?} {law:?} still holds");
    }
}
