//! The model of collection: one blob and whoever refers to it, two collectors, a person who recalls its links, a hold, the object store,
//! and how many faults are left. Every order of their steps is tried; each step is one transaction, or one effect at the store. Where two
//! transactions wait for each other, the look under the locks is a step, and the commit another.
//!
//! What a run does with a blob is decided by the product's own functions. What the schema's triggers and functions do is retold here.
//! Time is no number: a deadline has passed when a run looks, and a lease runs out whenever it is worst.

use std::collections::BTreeSet;

use maple_router::kernel::{Transition, Who};
use maple_router::retention::decide::{Known, mark, sweep};
use maple_router::retention::store::swept::Gone;
use maple_router::retention::table::{Blob, Command, State};
use stateright::{Checker, HasDiscoveries, Model, Property};

const REFERRED_IS_THERE: &str = "C1: what is referred to has its object";
const DELETED_WAS_MARKED: &str =
    "C2: a run deletes what it has marked, after its whole mark, while its lease lives";
const HELD_STAYS: &str = "C3: what was held before its sweep has its object";
const OBJECT_HAS_ROW: &str = "C4: every object has a row that brings it to its end";
const GARBAGE_GOES: &str = "C5: what nobody needs is gone after two runs that nothing disturbs";
const NO_OTHER_IS_HIT: &str = "C6: a deletion hits the object that a row means, or none";
const NOBODY_IS_STUCK: &str = "C7: whoever is in the middle of something can go on";
const LATE_RUN: &str = "a run comes to its sweep after another has taken its place";
const TAKEN_BACK: &str = "a blob is referred to again while a run wants to sweep it";
const DEBT_IS_PAID: &str = "a run pays what an earlier one owes";
const LEFT_ALONE: &str = "another object has the name, and is left alone";
const RECALLED_GOES: &str = "a blob is recalled, and collected by its new name";
const HELD_IN_TIME: &str = "a hold keeps what a run has marked";

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rule {
    /// Whoever takes a reference locks the blob, which lives from then on.
    Lock,
    /// Deleted is final.
    Final,
    /// Mark and sweep ask what refers to it, attachments included that are older than these references.
    References,
    /// A run sweeps what it has marked itself.
    OwnMark,
    /// It sweeps once its mark is complete.
    WholeMark,
    /// It sweeps while its lease lives.
    Lease,
    /// The store is asked after the blob's state is committed.
    Intent,
    /// A run pays first what earlier ones owe.
    Debts,
    /// Another object that cannot be deleted stops nobody.
    Refused,
    /// Nor does one whose generation cannot be read: its blob alone is not marked.
    Unreadable,
    /// A sweep asks for holds.
    Hold,
    /// A hold waits for removals that are under way.
    HoldWaits,
    /// Mark and sweep ask for recalls.
    Recall,
    /// A recall is written down before its copy is made.
    RecallFirst,
    /// Whoever carries a recall out goes by the generation that its row has.
    Seen,
    /// An attachment is referred to under its own lock, so that one which is being removed is not.
    Attachment,
    /// An object's old name is not referred to any more.
    OldName,
    /// What is deleted is named by its generation.
    Generation,
    /// A generation that is known is not written over by one that was read before.
    Known,
}

/// An object's name: its own, and the one that a recall gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    First,
    Second,
}

/// Generations: of what never was there, of the blob's own object, of its copy, and of what somebody else wrote.
const NONE: u8 = 0;
const OURS: u8 = 1;
const COPY: u8 = 2;
const THEIRS: u8 = 3;

/// A request that the store carries out later than anybody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Delete(Name, u8),
    Copy(u8),
}

/// What a deletion met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Answer {
    Done,
    Absent,
    Changed,
}

/// The row of a recall, with the generation that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Recall {
    None,
    Planned(Option<u8>),
    Moved(u8),
    Done,
}

/// Where somebody stands who carries a recall out, with the generation that they go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Carry {
    /// The attachments were read; the blob is not locked yet.
    Plan,
    Look(Option<u8>),
    Copy(u8),
    Move(u8),
    Delete(u8),
    Close,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    /// It looks for what is owed: by earlier runs, or by its own sweep.
    Owing {
        earlier: bool,
    },
    Asking {
        earlier: bool,
        name: Name,
        generation: u8,
    },
    Told {
        earlier: bool,
        how: Gone,
    },
    Recalls,
    Recalling(Carry),
    Marking,
    /// A generation was read, before the mark's transaction.
    Read(u8),
    Marked,
    Sweeping,
    /// Its sweep is decided under the locks, and not committed.
    Decided,
    Ending,
}

/// The run without an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Open {
    /// Its collector.
    of: u8,
    is_leased: bool,
    is_sweeping: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Hold {
    None,
    /// It was placed before the sweep.
    Early,
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    state: State,
    marked: Option<i64>,
    name: Name,
    /// As the row knows it.
    generation: Option<u8>,
    gone: Option<Gone>,
    references: u8,
    /// An attachment names it that is older than references are.
    is_old: bool,
    /// References that may still be born.
    births: u8,
    /// Somebody has looked at the blob, and is about to refer to it.
    taker: bool,
    hold: Hold,
    /// Holds that may still be placed.
    holds: u8,
    recall: Recall,
    person: Option<Carry>,
    open: Option<Open>,
    works: [Work; 2],
    /// The store, by name.
    objects: [Option<u8>; 2],
    late: Option<Request>,
    /// Deaths, lost and late answers, leases that run out early, objects that somebody writes.
    faults: u8,
    /// What the rules keep from happening: a sweep against C2, a hit against C6, a reference that nobody can end, and an attachment by
    /// the old name, with a blob of its own.
    is_unlawful: bool,
    is_hit: bool,
    is_leaked: bool,
    is_stray: bool,
}

/// The open run's collector is dead.
const DEAD: u8 = 9;
/// A run that has ended.
const ENDED: i64 = 0;
/// Runs after which nothing is left.
const RUNS: u8 = 2;
/// Who is no collector.
const PERSON: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Look,
    Refer,
    Unrefer,
    PurgeOld,
    ReferToOldName,
    PlaceHold,
    LiftHold,
    Begin(u8),
    LookForOwed(u8),
    Delete(u8),
    Record(u8),
    LookForRecalls(u8),
    Recall,
    CarryOn(u8),
    ReadGeneration(u8),
    Mark(u8),
    Turn(u8),
    Decide(u8),
    Sweep(u8),
    End(u8),
    CarryOutLate,
    LeaseOver,
    Die(u8),
    LoseAnswer(u8),
    ComeLate(u8),
    Overwrite(Name),
}

#[derive(Debug, Clone, Copy)]
struct Collection {
    without: Option<Rule>,
    /// Whether its generation is known from the beginning; of what came another way than by an upload it is not.
    is_adopted: bool,
    births: u8,
    holds: u8,
    recalls: bool,
    faults: u8,
}

fn run_of(collector: u8) -> i64 {
    i64::from(collector) + 1
}

/// The state that a command leads to, by the product's table.
fn moved(from: State, command: Command, to: State) -> State {
    Transition::<Blob>::leading(from, command, to, Who::SYSTEM).expect("an edge").to()
}

impl World {
    fn object(&self, name: Name) -> Option<u8> {
        self.objects[name as usize]
    }

    fn is_referenced(&self) -> bool {
        self.references > 0 || self.is_leaked
    }

    /// As it is judged by a run, which looks for attachments as well.
    fn is_needed(&self) -> bool {
        self.is_referenced() || self.is_old
    }

    fn is_owed(&self) -> bool {
        self.state == State::Deleted && self.gone.is_none()
    }

    fn is_recalled(&self) -> bool {
        matches!(self.recall, Recall::Planned(_) | Recall::Moved(_))
    }

    /// Nobody is in the middle of something.
    fn is_quiet(&self) -> bool {
        self.works == [Work::Idle; 2] && self.person.is_none() && !self.taker
    }

    /// Nothing is left to collect, nor to be carried out.
    fn is_clean(&self) -> bool {
        let is_gone = self.state == State::Deleted && self.gone.is_some();
        let is_left = self.object(Name::First) == Some(OURS) || self.object(Name::Second) == Some(COPY);
        is_gone && !is_left && !self.is_recalled()
    }

    /// Somebody else wrote over what was to be copied: each run tells it, and people decide.
    fn is_for_people(&self) -> bool {
        matches!(self.recall, Recall::Planned(Some(seen)) if self.object(Name::First) != Some(seen))
    }

    /// Whether a row still names what stands there.
    fn has_row(&self, name: Name) -> bool {
        self.name == name && self.gone.is_none() || self.is_recalled()
    }

    /// Whether a row says that this is what is to go.
    fn is_meant(&self, name: Name, generation: u8) -> bool {
        let by_recall = match self.recall {
            Recall::Planned(seen) => seen == Some(generation),
            Recall::Moved(seen) => seen == generation,
            Recall::None | Recall::Done => false,
        };
        name == self.name && self.generation == Some(generation) || name == Name::First && by_recall
    }

    fn work(&self, collector: u8) -> Work {
        self.works[usize::from(collector)]
    }

    fn set(&mut self, collector: u8, work: Work) {
        self.works[usize::from(collector)] = work;
    }

    /// Its process is over. What its run marked was marked by a run that has ended, or will be.
    fn leave(&mut self, collector: u8) {
        self.set(collector, Work::Idle);
        if self.marked == Some(run_of(collector)) {
            self.marked = Some(ENDED);
        }
    }

    fn carry(&self, who: u8) -> Option<Carry> {
        if who == PERSON {
            return self.person;
        }
        match self.work(who) {
            Work::Recalling(carry) => Some(carry),
            Work::Idle
            | Work::Owing { .. }
            | Work::Asking { .. }
            | Work::Told { .. }
            | Work::Recalls
            | Work::Marking
            | Work::Read(_)
            | Work::Marked
            | Work::Sweeping
            | Work::Decided
            | Work::Ending => None,
        }
    }

    /// Goes on with a recall, or lets it be: a run marks then.
    fn set_carry(&mut self, who: u8, carry: Option<Carry>) {
        if who == PERSON {
            self.person = carry;
        } else {
            self.set(who, carry.map_or(Work::Marking, Work::Recalling));
        }
    }

    /// What somebody is about to ask of the store.
    fn request(&self, who: u8) -> Option<Request> {
        match self.carry(who) {
            Some(Carry::Copy(generation)) => return Some(Request::Copy(generation)),
            Some(Carry::Delete(generation)) => return Some(Request::Delete(Name::First, generation)),
            Some(Carry::Plan | Carry::Look(_) | Carry::Move(_) | Carry::Close) | None => {}
        }
        match self.works.get(usize::from(who)) {
            Some(Work::Asking { name, generation, .. }) => Some(Request::Delete(*name, *generation)),
            Some(_) | None => None,
        }
    }

    /// No answer: a recall is left to the next, and a run that was told nothing of a whole page ends.
    fn give_up(&mut self, who: u8) {
        if self.carry(who).is_some() {
            self.set_carry(who, None);
        } else {
            self.set(who, Work::Ending);
        }
    }

    /// A reference, by the trigger that locks the blob: it lives from then on.
    fn revive(&mut self) {
        match self.state {
            State::Live => {}
            State::Tombstoned | State::Eligible => {
                self.state = moved(self.state, Command::Undelete, State::Live);
            }
            // Refused, but for a model without that rule.
            State::Deleted => self.state = State::Live,
        }
        self.marked = None;
    }

    /// The last reference gone.
    fn bury(&mut self) {
        if self.state == State::Live && !self.is_referenced() {
            self.state = moved(self.state, Command::DeleteRequest, State::Tombstoned);
        }
    }

    /// A copy of one generation, to a name that has no object; one that is there already is ours where its bytes are the same.
    fn copy(&mut self, generation: u8) -> bool {
        let is_source = self.object(Name::First) == Some(generation);
        if is_source && self.object(Name::Second).is_none() {
            self.objects[Name::Second as usize] = Some(COPY);
        }
        is_source && self.object(Name::Second) == Some(COPY)
    }
}

impl Collection {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Whether somebody in the middle of a transaction has the blob's lock.
    fn is_locked(&self, world: &World) -> bool {
        world.taker && self.has(Rule::Lock) || world.works.contains(&Work::Decided)
    }

    /// What a run knows of the blob under its lock.
    fn known(&self, world: &World, to_sweep: bool) -> Known {
        let asks = |rule| !to_sweep || self.has(rule);
        Known {
            state: world.state,
            is_referenced: world.is_needed() && self.has(Rule::References),
            is_held: world.hold != Hold::None && asks(Rule::Hold),
            is_recalled: world.is_recalled() && self.has(Rule::Recall),
            is_due: true,
            marked: world.marked,
        }
    }

    /// What the blob's trigger asks of a sweep, whoever writes.
    fn guard(&self, world: &World, collector: u8, known: Known) -> bool {
        let by = if self.has(Rule::OwnMark) { world.marked } else { Some(run_of(collector)) };
        let lives = world.open.is_some_and(|open| {
            Some(run_of(open.of)) == by
                && (open.is_sweeping || !self.has(Rule::WholeMark))
                && (open.is_leased || !self.has(Rule::Lease))
        });
        lives && !known.is_referenced && !known.is_held && !known.is_recalled
    }

    /// A deletion at the store.
    fn delete(&self, world: &mut World, name: Name, generation: u8) -> Answer {
        match world.object(name) {
            None => Answer::Absent,
            Some(there) if there != generation && self.has(Rule::Generation) => Answer::Changed,
            Some(there) => {
                world.is_hit |= !world.is_meant(name, there);
                world.objects[name as usize] = None;
                Answer::Done
            }
        }
    }

    fn carry_out(&self, world: &mut World, request: Request) {
        match request {
            Request::Delete(name, generation) => {
                self.delete(world, name, generation);
            }
            Request::Copy(generation) => {
                world.copy(generation);
            }
        }
    }

    /// The next step of a recall; nothing: it is done, or comes to nothing.
    fn carry_on(&self, world: &mut World, carry: Carry) -> Option<Carry> {
        match carry {
            Carry::Plan => {
                // An attachment that was read and is gone meanwhile is referred to for ever.
                if world.references == 0 {
                    if !self.has(Rule::Attachment) && world.state != State::Deleted {
                        world.is_leaked = true;
                        world.revive();
                    }
                    return None;
                }
                if self.has(Rule::RecallFirst) {
                    world.recall = Recall::Planned(None);
                }
                Some(Carry::Look(None))
            }
            Carry::Look(known) => {
                let looked = known.or(world.object(Name::First))?;
                let generation = match world.recall {
                    Recall::Planned(Some(seen)) if self.has(Rule::Seen) => seen,
                    Recall::Planned(_) => {
                        world.recall = Recall::Planned(Some(looked));
                        looked
                    }
                    Recall::Moved(_) | Recall::Done if self.has(Rule::Seen) => return None,
                    Recall::None | Recall::Moved(_) | Recall::Done => looked,
                };
                Some(Carry::Copy(generation))
            }
            Carry::Copy(generation) => world.copy(generation).then_some(Carry::Move(generation)),
            Carry::Move(generation) => {
                let seen = match world.recall {
                    Recall::Planned(seen) => seen,
                    Recall::None => Some(generation),
                    Recall::Moved(_) | Recall::Done => None,
                };
                if let Some(seen) = seen {
                    world.recall = Recall::Moved(seen);
                    (world.name, world.generation) = (Name::Second, Some(COPY));
                }
                Some(Carry::Delete(generation))
            }
            Carry::Delete(generation) => {
                self.delete(world, Name::First, generation);
                Some(Carry::Close)
            }
            Carry::Close => {
                if let Recall::Moved(_) = world.recall {
                    world.recall = Recall::Done;
                }
                None
            }
        }
    }

    /// The next step of a recall by its row.
    fn from_row(recall: Recall) -> Option<Carry> {
        match recall {
            Recall::Planned(seen) => Some(Carry::Look(seen)),
            Recall::Moved(seen) => Some(Carry::Delete(seen)),
            Recall::None | Recall::Done => None,
        }
    }

    /// The mark's transaction, with the generation that was read before it.
    fn mark(&self, world: &mut World, collector: u8, read: Option<u8>) {
        let known = self.known(world, false);
        let Some(transition) = mark(known, run_of(collector)).expect("an edge") else { return };
        world.state = transition.to();
        if transition.to() != State::Eligible {
            world.marked = None;
            return;
        }
        world.marked = Some(run_of(collector));
        if world.generation.is_none() || !self.has(Rule::Known) {
            world.generation = read.or(world.generation);
        }
    }

    /// The sweep, as it is decided under the locks.
    fn decide(&self, world: &mut World, collector: u8) -> Work {
        let run = run_of(collector);
        let mut known = self.known(world, true);
        if !self.has(Rule::OwnMark) {
            known.marked = Some(run);
        }
        let goes = sweep(known, run).expect("an edge").is_some();
        if !goes || !self.guard(world, collector, known) {
            return Work::Ending;
        }
        let ours = world.open.is_some_and(|open| open.of == collector && open.is_sweeping && open.is_leased);
        world.is_unlawful |= !ours || world.marked != Some(run);
        if !self.has(Rule::Intent) {
            self.delete(world, world.name, world.generation.unwrap_or(NONE));
        }
        Work::Decided
    }

    /// The next step of a collector; nothing: it waits for a lock, or there is none.
    fn step(&self, world: &World, collector: u8) -> Option<Action> {
        let is_free = !self.is_locked(world);
        Some(match world.work(collector) {
            Work::Idle if world.open.is_none_or(|open| !open.is_leased) => Action::Begin(collector),
            Work::Idle => return None,
            Work::Owing { .. } => Action::LookForOwed(collector),
            Work::Asking { .. } => Action::Delete(collector),
            Work::Told { .. } => Action::Record(collector),
            Work::Recalls => Action::LookForRecalls(collector),
            Work::Recalling(Carry::Move(_)) if !is_free => return None,
            Work::Recalling(_) => Action::CarryOn(collector),
            Work::Marking
                if world.generation.is_none()
                    && [State::Tombstoned, State::Eligible].contains(&world.state) =>
            {
                Action::ReadGeneration(collector)
            }
            Work::Marking | Work::Read(_) if is_free => Action::Mark(collector),
            Work::Marking | Work::Read(_) => return None,
            Work::Marked if self.has(Rule::WholeMark) => Action::Turn(collector),
            Work::Marked | Work::Sweeping if is_free => Action::Decide(collector),
            Work::Marked | Work::Sweeping => return None,
            Work::Decided => Action::Sweep(collector),
            Work::Ending => Action::End(collector),
        })
    }

    /// Steps that nothing has to go wrong for, and that nobody has to ask for.
    fn goes_on(&self, world: &World) -> Vec<Action> {
        let is_free = !self.is_locked(world);
        let mut actions = Vec::new();
        if world.late.is_some() {
            actions.push(Action::CarryOutLate);
        }
        if world.taker {
            actions.push(Action::Refer);
        }
        match world.person {
            Some(Carry::Plan | Carry::Move(_)) if !is_free => {}
            Some(_) => actions.push(Action::CarryOn(PERSON)),
            None => {}
        }
        if world.references > 0 && is_free {
            actions.push(Action::Unrefer);
        }
        if world.is_old && is_free {
            actions.push(Action::PurgeOld);
        }
        if world.hold != Hold::None {
            actions.push(Action::LiftHold);
        }
        if world.open.is_some_and(|open| open.of == DEAD && open.is_leased) {
            actions.push(Action::LeaseOver);
        }
        actions.extend([0, 1].into_iter().filter_map(|collector| self.step(world, collector)));
        actions
    }

    /// Whether garbage goes once everything has its way: references end, holds are lifted, and runs follow each other.
    fn comes_to_rest(&self, world: &World) -> bool {
        let (mut world, mut runs) = (*world, 0);
        while !(world.is_quiet() && !world.is_needed() && (world.is_clean() || world.is_for_people())) {
            let Some(action) = self.goes_on(&world).first().copied() else { return false };
            runs += u8::from(matches!(action, Action::Begin(_)));
            match self.next_state(&world, action) {
                Some(next) if runs <= RUNS => world = next,
                Some(_) | None => return false,
            }
        }
        true
    }
}

impl Model for Collection {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            state: State::Live,
            marked: None,
            name: Name::First,
            generation: (!self.is_adopted).then_some(OURS),
            gone: None,
            references: 1,
            is_old: self.is_adopted,
            births: self.births,
            taker: false,
            hold: Hold::None,
            holds: self.holds,
            recall: Recall::None,
            person: None,
            open: None,
            works: [Work::Idle; 2],
            objects: [Some(OURS), None],
            late: None,
            faults: self.faults,
            is_unlawful: false,
            is_hit: false,
            is_leaked: false,
            is_stray: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.goes_on(world));
        let is_free = !self.is_locked(world);
        if world.births > 0 && !world.taker && is_free {
            let is_there = world.state != State::Deleted || !self.has(Rule::Final);
            if is_there {
                actions.push(Action::Look);
            }
            if world.name == Name::Second && !self.has(Rule::OldName) {
                actions.push(Action::ReferToOldName);
            }
        }
        if world.holds > 0 && (!world.works.contains(&Work::Decided) || !self.has(Rule::HoldWaits)) {
            actions.push(Action::PlaceHold);
        }
        let may_plan = world.recall == Recall::None && world.references > 0;
        if self.recalls && world.person.is_none() && (may_plan || world.is_recalled()) {
            actions.push(Action::Recall);
        }
        if world.faults == 0 {
            return;
        }
        for who in [0, 1, PERSON] {
            let is_there = if who == PERSON { world.person.is_some() } else { world.work(who) != Work::Idle };
            if is_there {
                actions.push(Action::Die(who));
            }
            if world.request(who).is_some() {
                actions.push(Action::LoseAnswer(who));
                if world.late.is_none() {
                    actions.push(Action::ComeLate(who));
                }
            }
        }
        if world.open.is_some_and(|open| open.of != DEAD && open.is_leased) {
            actions.push(Action::LeaseOver);
        }
        actions.push(Action::Overwrite(world.name));
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        match action {
            Action::Look => {
                world.births -= 1;
                world.taker = true;
            }
            Action::Refer => {
                world.taker = false;
                world.references += 1;
                if self.has(Rule::Lock) {
                    world.revive();
                }
            }
            Action::Unrefer => {
                world.references -= 1;
                world.bury();
            }
            Action::PurgeOld => {
                // It is referred to first, and removed with its reference.
                world.is_old = false;
                if world.state != State::Deleted {
                    world.revive();
                    world.bury();
                }
            }
            Action::ReferToOldName => {
                world.births -= 1;
                world.is_stray = true;
            }
            Action::PlaceHold => {
                world.holds -= 1;
                world.hold = if world.state == State::Deleted { Hold::Late } else { Hold::Early };
            }
            Action::LiftHold => world.hold = Hold::None,
            Action::Begin(collector) => {
                world.open = Some(Open { of: collector, is_leased: true, is_sweeping: false });
                world.set(collector, Work::Owing { earlier: true });
            }
            Action::LookForOwed(collector) => {
                let earlier = world.work(collector) == Work::Owing { earlier: true };
                let is_owed = world.is_owed() && world.hold == Hold::None;
                // Another blob's object, which the store keeps, is owed for ever: a page of it alone fails.
                let next = if is_owed && (!earlier || self.has(Rule::Debts)) {
                    let generation = world.generation.unwrap_or(NONE);
                    Work::Asking { earlier, name: world.name, generation }
                } else if earlier && self.has(Rule::Refused) {
                    Work::Recalls
                } else {
                    Work::Ending
                };
                world.set(collector, next);
            }
            Action::Delete(collector) => {
                let Work::Asking { earlier, name, generation } = world.work(collector) else { return None };
                let how = match self.delete(&mut world, name, generation) {
                    Answer::Done => Gone::Deleted,
                    Answer::Absent if earlier && generation != NONE => Gone::Deleted,
                    Answer::Absent => Gone::Missing,
                    Answer::Changed => Gone::Replaced,
                };
                world.set(collector, Work::Told { earlier, how });
            }
            Action::Record(collector) => {
                let Work::Told { earlier, how } = world.work(collector) else { return None };
                if world.is_owed() {
                    world.gone = Some(how);
                }
                world.set(collector, if earlier { Work::Recalls } else { Work::Ending });
            }
            Action::LookForRecalls(collector) => world.set_carry(collector, Self::from_row(world.recall)),
            Action::Recall => world.person = Self::from_row(world.recall).or(Some(Carry::Plan)),
            Action::CarryOn(who) => {
                let carry = world.carry(who)?;
                let next = self.carry_on(&mut world, carry);
                world.set_carry(who, next);
            }
            Action::ReadGeneration(collector) => {
                world.set(collector, Work::Read(world.object(world.name).unwrap_or(NONE)));
            }
            Action::Mark(collector) => {
                let read = if let Work::Read(read) = world.work(collector) { Some(read) } else { None };
                // Another blob, whose generation nobody can read, is on the same page.
                if self.has(Rule::Unreadable) {
                    world.set(collector, Work::Marked);
                    self.mark(&mut world, collector, read);
                } else {
                    world.set(collector, Work::Ending);
                }
            }
            Action::Turn(collector) => match &mut world.open {
                Some(open) if open.of == collector => {
                    (open.is_leased, open.is_sweeping) = (true, true);
                    world.set(collector, Work::Sweeping);
                }
                // Another has its place.
                Some(_) | None => world.leave(collector),
            },
            Action::Decide(collector) => {
                let next = self.decide(&mut world, collector);
                world.set(collector, next);
            }
            Action::Sweep(collector) => {
                world.state = State::Deleted;
                world.set(collector, Work::Owing { earlier: false });
            }
            Action::End(collector) => {
                if world.open.is_some_and(|open| open.of == collector) {
                    world.open = None;
                }
                world.leave(collector);
            }
            Action::CarryOutLate => {
                let late = world.late.take()?;
                self.carry_out(&mut world, late);
            }
            Action::LeaseOver => {
                let open = world.open.as_mut()?;
                open.is_leased = false;
                if open.of != DEAD {
                    world.faults -= 1;
                }
            }
            Action::Die(PERSON) => {
                world.faults -= 1;
                world.person = None;
            }
            Action::Die(collector) => {
                world.faults -= 1;
                if let Some(open) = world.open.as_mut().filter(|open| open.of == collector) {
                    open.of = DEAD;
                }
                world.leave(collector);
            }
            Action::LoseAnswer(who) => {
                world.faults -= 1;
                let request = world.request(who)?;
                self.carry_out(&mut world, request);
                world.give_up(who);
            }
            Action::ComeLate(who) => {
                world.faults -= 1;
                world.late = world.request(who);
                world.give_up(who);
            }
            Action::Overwrite(name) => {
                world.faults -= 1;
                world.objects[name as usize] = Some(THEIRS);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(REFERRED_IS_THERE, |_, world: &World| {
                (!world.is_needed() || world.object(world.name).is_some())
                    && (!world.is_stray || world.object(Name::First).is_some())
            }),
            Property::always(DELETED_WAS_MARKED, |_, world: &World| !world.is_unlawful),
            Property::always(HELD_STAYS, |_, world: &World| {
                world.hold != Hold::Early
                    || world.state != State::Deleted && world.object(world.name).is_some()
            }),
            Property::always(OBJECT_HAS_ROW, |_, world: &World| {
                (world.object(Name::First) != Some(OURS) || world.has_row(Name::First))
                    && (world.object(Name::Second) != Some(COPY) || world.has_row(Name::Second))
            }),
            Property::always(GARBAGE_GOES, |model: &Self, world: &World| {
                !world.is_quiet() || model.comes_to_rest(world)
            }),
            Property::always(NO_OTHER_IS_HIT, |_, world: &World| !world.is_hit),
            Property::always(NOBODY_IS_STUCK, |model: &Self, world: &World| {
                world.is_quiet() || !model.goes_on(world).is_empty()
            }),
            Property::sometimes(LATE_RUN, |_, world: &World| {
                world.works.contains(&Work::Sweeping)
                    && world.open.is_some_and(|open| open.of != DEAD && world.work(open.of) == Work::Marking)
            }),
            Property::sometimes(TAKEN_BACK, |_, world: &World| {
                world.state == State::Live && world.works.contains(&Work::Sweeping)
            }),
            Property::sometimes(DEBT_IS_PAID, |_, world: &World| {
                world.works.contains(&Work::Told { earlier: true, how: Gone::Deleted })
            }),
            Property::sometimes(LEFT_ALONE, |_, world: &World| world.gone == Some(Gone::Replaced)),
        ];
        if self.holds > 0 {
            properties.push(Property::sometimes(HELD_IN_TIME, |_, world: &World| {
                world.state == State::Eligible && world.hold == Hold::Early
            }));
        }
        if self.recalls {
            properties.push(Property::sometimes(RECALLED_GOES, |_, world: &World| {
                world.name == Name::Second && world.gone == Some(Gone::Deleted)
            }));
        }
        properties
    }
}

const PROVEN: Collection =
    Collection { without: None, is_adopted: false, births: 1, holds: 1, recalls: false, faults: 3 };
const READ: Collection = Collection { is_adopted: true, ..PROVEN };
const RECALLED: Collection = Collection { holds: 0, recalls: true, faults: 2, ..READ };

#[expect(clippy::print_stdout, reason = "how much was searched is part of the result")]
fn all_is_right(model: Collection) {
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut found = checker.discoveries();
    for property in checker.model().properties() {
        let path = found.remove(property.name).map(stateright::Path::into_actions);
        let broken = property.expectation.discovery_is_failure() == path.is_some();
        assert!(!broken, "{}: {path:#?}", property.name);
    }
    println!("{model:?}: {} worlds, {} deep", checker.unique_state_count(), checker.max_depth());
    assert!(checker.unique_state_count() >= 10_000, "{} worlds", checker.unique_state_count());
}

#[test]
fn every_order_of_runs_is_right() {
    all_is_right(PROVEN);
}

#[test]
fn every_order_of_runs_is_right_where_a_generation_is_read_first() {
    all_is_right(READ);
}

#[test]
fn every_order_of_a_recall_among_runs_is_right() {
    all_is_right(RECALLED);
}

/// Without any one of the rules there is a world that breaks the law it stands for.
#[test]
fn no_rule_of_collection_can_be_spared() {
    let of_runs = [
        (Rule::Lock, REFERRED_IS_THERE),
        (Rule::Final, REFERRED_IS_THERE),
        (Rule::References, REFERRED_IS_THERE),
        (Rule::Intent, REFERRED_IS_THERE),
        (Rule::OwnMark, DELETED_WAS_MARKED),
        (Rule::WholeMark, DELETED_WAS_MARKED),
        (Rule::Lease, DELETED_WAS_MARKED),
        (Rule::Hold, HELD_STAYS),
        (Rule::HoldWaits, HELD_STAYS),
        (Rule::Debts, GARBAGE_GOES),
        (Rule::Refused, GARBAGE_GOES),
        (Rule::Unreadable, GARBAGE_GOES),
        (Rule::Generation, NO_OTHER_IS_HIT),
    ];
    let of_recalls = [
        (Rule::OldName, REFERRED_IS_THERE),
        (Rule::Recall, OBJECT_HAS_ROW),
        (Rule::RecallFirst, OBJECT_HAS_ROW),
        (Rule::Seen, OBJECT_HAS_ROW),
        (Rule::Seen, NO_OTHER_IS_HIT),
        (Rule::Known, OBJECT_HAS_ROW),
        (Rule::Attachment, GARBAGE_GOES),
        (Rule::Generation, NO_OTHER_IS_HIT),
    ];
    let cases = of_runs.map(|case| (READ, case)).into_iter().chain(of_recalls.map(|case| (RECALLED, case)));
    for (model, (rule, law)) in cases {
        let model = Collection { without: Some(rule), faults: 2, ..model };
        let until = HasDiscoveries::AnyOf(BTreeSet::from([law]));
        let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
        let Some(path) = checker.discoveries().remove(law) else {
            panic!("without {rule:?} {law:?} still holds")
        };
        println!("{rule:?}: {law}: {:?}", path.into_actions());
    }
}
