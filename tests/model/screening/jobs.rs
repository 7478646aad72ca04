//! Jobs and leases: the three jobs of one run, two workers that die, lose their lease and come back late, results that are lost, sent
//! twice or late, content that kills its scanner, a redrive, and a purge.
//!
//! A job's own transient error costs a fault, as a death does; what kills its scanner costs none.

mod steps;

use super::search::Protocol;
use super::table::{Actor, State, Track, Trigger};
use super::{S2, S4, S5, S5_PURGED, S6, S6_RESTS, S6_TRIED};

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// A settlement is written only with the token of the lease.
    TokenFence,
    /// It is written only from its job's state, in a run that is not closed.
    StateFence,
    /// A transition's event is of its transaction.
    EventTogether,
    /// So is the next job.
    NextTogether,
    /// Giving up opens a desk entry.
    DeadLetterTells,
    /// Each giving up has a key of its own, so that one after a redrive opens an entry again.
    FreshKey,
    /// A job that was claimed too often is given up, whoever died.
    Poison,
    /// A lease that ran out gives its try back.
    Refund,
    /// Leases run out.
    Expiry,
    /// A result is not recorded in a run that a purge has closed, though it needs no token.
    ClosedIsClosed,
    /// Of two results of an attempt the first stays.
    FirstWins,
    /// The settlement goes by the result on record.
    ReadBack,
    /// An attempt's number is never given back.
    AttemptKept,
}

const TRIES: u8 = 2;
const CLAIMS: u8 = 3;
/// Claims of a job before and after its redrive.
const ATTEMPTS: usize = 6;
/// The holder of a lease is dead.
const DEAD: u8 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Tier1,
    Tier2,
    Publish,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Tier1, Self::Tier2, Self::Publish];

    /// The state that its settlement leads from.
    fn state(self) -> State {
        match self {
            Self::Tier1 => State::Tier1Scanning,
            Self::Tier2 => State::Tier2Scanning,
            Self::Publish => State::AutoApproved,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Is {
    Absent,
    Waiting,
    Leased(u8),
    Done,
    Dead,
}

/// A row of `screening.jobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Job {
    is: Is,
    token: u8,
    attempt: u8,
    /// Since the last redrive: claims, tries that count, and errors that were met.
    claims: u8,
    tries: u8,
    errors: u8,
    /// A giving up was told of.
    told: bool,
}

/// A worker's claim, as the worker knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Claim {
    kind: Kind,
    token: u8,
    attempt: u8,
}

/// A result, with the token of whoever brought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Found {
    pass: bool,
    token: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    Claimed(Claim),
    /// Tier 1 has committed TIER1_SCANNING; the others begin here.
    Begun(Claim),
    Answered(Claim, bool),
    Recorded(Claim, bool),
    /// Only without a rule: a transition was committed, and its event or the next job not yet.
    Owes {
        event: bool,
        next: Option<Kind>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    run: Track,
    /// Purged: closed without a transition.
    is_closed: bool,
    jobs: [Job; 3],
    results: [[Option<Found>; ATTEMPTS]; 3],
    works: [Work; 2],
    /// A result that the database gets later than anybody waits.
    late: Option<(Claim, bool)>,
    /// The attempt by whose verdict tier 2 passed.
    decided: Option<u8>,
    /// The desk has an open entry `screening_job`.
    entry: bool,
    kills: bool,
    faults: u8,
    redrives: u8,
    is_stale_change: bool,
    is_untried: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Claim(u8, u8),
    Begin(u8),
    Answer(u8, bool),
    Record(u8),
    Settle(u8),
    PayDebt(u8),
    Err(u8),
    TakeBack(u8),
    Arrive,
    Die(u8),
    LeaseOver(u8),
    LoseAnswer(u8),
    ComeLate(u8),
    Redrive(u8),
    Purge,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Jobs {
    without: Option<Rule>,
    faults: u8,
    redrives: u8,
}

pub(super) const BASE: Jobs = Jobs { without: None, faults: 3, redrives: 1 };

pub(super) fn each_rule(breaks: impl Fn(Rule, &'static str, Jobs)) {
    for (rule, law) in [
        (Rule::TokenFence, S5),
        (Rule::StateFence, S5),
        (Rule::EventTogether, S4),
        (Rule::NextTogether, S6),
        (Rule::DeadLetterTells, S6),
        (Rule::FreshKey, S6),
        (Rule::Poison, S6_RESTS),
        (Rule::Expiry, S6),
        (Rule::Refund, S6_TRIED),
        (Rule::ClosedIsClosed, S5_PURGED),
        (Rule::FirstWins, S2),
        (Rule::ReadBack, S2),
        (Rule::AttemptKept, S5),
    ] {
        // Its worlds are searched to the end.
        let faults = if law == S6_RESTS { 2 } else { BASE.faults };
        breaks(rule, law, Jobs { without: Some(rule), faults, ..BASE });
    }
}

impl World {
    fn job(&mut self, kind: Kind) -> &mut Job {
        &mut self.jobs[kind as usize]
    }

    fn found(&mut self, claim: Claim) -> &mut Option<Found> {
        &mut self.results[claim.kind as usize][usize::from(claim.attempt) - 1]
    }

    fn set(&mut self, worker: u8, work: Work) {
        self.works[usize::from(worker)] = work;
    }

    /// Ended, closed by a purge, or told of.
    fn is_ended(&self) -> bool {
        self.run.state.is_final() || self.is_closed || self.entry
    }

    /// A worker wants to settle while the other has a lease.
    fn is_overtaken(&self) -> bool {
        (0..2_u8).any(|worker| {
            matches!(self.works[usize::from(worker)], Work::Recorded(..))
                && self.jobs.iter().any(|job| job.is == Is::Leased(1 - worker))
        })
    }

    fn is_killer(&self, claim: Claim) -> bool {
        self.kills && claim.kind == Kind::Tier1
    }

    fn owes_event(&self) -> bool {
        self.works.iter().any(|work| matches!(work, Work::Owes { event: true, .. }))
    }
}

impl Jobs {
    fn has(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// The result by job and attempt, without a token.
    fn record(self, world: &mut World, claim: Claim, pass: bool) {
        if world.is_closed && self.has(Rule::ClosedIsClosed) {
            return;
        }
        let first_wins = self.has(Rule::FirstWins);
        let found = world.found(claim);
        if found.is_none() || !first_wins {
            *found = Some(Found { pass, token: claim.token });
        }
    }

    fn give_up(self, world: &mut World, kind: Kind) {
        let job = world.job(kind);
        job.is = Is::Dead;
        let is_untried = job.errors < TRIES && job.claims < CLAIMS;
        let opens = self.has(Rule::DeadLetterTells) && (!job.told || self.has(Rule::FreshKey));
        job.told = true;
        world.is_untried |= is_untried;
        world.entry |= opens;
    }

    /// A lease that is over: its try is given back.
    fn take_back(self, world: &mut World, kind: Kind) {
        let is_closed = world.is_closed;
        let job = world.job(kind);
        job.is = Is::Waiting;
        if self.has(Rule::Refund) {
            job.tries -= 1;
        }
        if !self.has(Rule::AttemptKept) {
            job.attempt -= 1;
        }
        if is_closed {
            job.is = Is::Done;
        } else if (job.claims >= CLAIMS && self.has(Rule::Poison)) || job.tries >= TRIES {
            self.give_up(world, kind);
        }
    }

    /// One fenced transaction: transition, event, next job, done.
    fn settle(self, world: &mut World, claim: Claim, answer: bool) -> Work {
        let found = *world.found(claim);
        let pass = found.filter(|_| self.has(Rule::ReadBack)).map_or(answer, |found| found.pass);
        let job = *world.job(claim.kind);
        let is_ours = matches!(job.is, Is::Leased(_)) && job.token == claim.token;
        let is_due = world.run.state == claim.kind.state() && !world.is_closed;
        if !is_ours && self.has(Rule::TokenFence) {
            return Work::Idle;
        }
        if !is_due && self.has(Rule::StateFence) {
            world.job(claim.kind).is = Is::Done;
            return Work::Idle;
        }
        let (trigger, next) = match (claim.kind, pass) {
            (Kind::Tier1, true) => (Trigger::Tier1Pass, Some(Kind::Tier2)),
            (Kind::Tier1, false) => (Trigger::Tier1Fail, None),
            (Kind::Tier2, true) => (Trigger::Tier2Pass, Some(Kind::Publish)),
            (Kind::Tier2, false) => (Trigger::Tier2Fail, None),
            (Kind::Publish, _) => (Trigger::PublishComplete, None),
        };
        let was_step = world.run.step(trigger, Actor::Screener);
        world.is_stale_change |= !is_ours || !is_due || found.is_some_and(|found| found.token != claim.token);
        world.job(claim.kind).is = Is::Done;
        if claim.kind == Kind::Tier2 && pass {
            world.decided = Some(claim.attempt);
        }
        let mut owes = (false, None);
        if was_step && !self.has(Rule::EventTogether) {
            world.run.events -= 1;
            owes.0 = true;
        }
        match next {
            Some(kind) if was_step && self.has(Rule::NextTogether) => world.job(kind).is = Is::Waiting,
            Some(_) if was_step => owes.1 = next,
            Some(_) | None => {}
        }
        if owes == (false, None) { Work::Idle } else { Work::Owes { event: owes.0, next: owes.1 } }
    }

    /// The next steps of a worker that is in the middle of something.
    fn steps(world: &World, worker: u8) -> Vec<Action> {
        match world.works[usize::from(worker)] {
            Work::Idle => vec![],
            Work::Claimed(_) => vec![Action::Begin(worker)],
            // Dying of the content is no fault.
            Work::Begun(claim) if world.is_killer(claim) => vec![Action::Die(worker)],
            Work::Begun(Claim { kind: Kind::Publish, .. }) => vec![Action::Answer(worker, true)],
            Work::Begun(_) => vec![Action::Answer(worker, true), Action::Answer(worker, false)],
            Work::Answered(..) => vec![Action::Record(worker)],
            Work::Recorded(..) => vec![Action::Settle(worker)],
            Work::Owes { .. } => vec![Action::PayDebt(worker)],
        }
    }
}

impl Protocol for Jobs {
    fn goes_on(&self, world: &World) -> Vec<Action> {
        let mut actions: Vec<Action> = (0..2).flat_map(|worker| Self::steps(world, worker)).collect();
        if world.late.is_some() {
            actions.push(Action::Arrive);
        }
        for (kind, job) in (0..).zip(&world.jobs) {
            match job.is {
                Is::Leased(DEAD) if self.has(Rule::Expiry) => actions.push(Action::TakeBack(kind)),
                Is::Waiting => {
                    let idle = (0..2).filter(|worker| world.works[usize::from(*worker)] == Work::Idle);
                    actions.extend(idle.map(|worker| Action::Claim(worker, kind)));
                }
                Is::Absent | Is::Leased(_) | Is::Done | Is::Dead => {}
            }
        }
        actions
    }
}
