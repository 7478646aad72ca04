//! A grader's own: one job, two workers that die, lose their lease and come back late, samples that are paid for and recorded once, answers
//! that are none, whoever grades being away, content that kills its worker, a `cancel`, and a request that comes twice.
//!
//! A job is its own work: each move by the product's table ends the claim, and what follows is claimed anew. A call and the record of its
//! answer are two steps, whatever happens between them.

mod steps;

use maple_router::grading::job::table::State;

use super::search::Protocol;
use super::{G2_JOB, G4_ENDS, G4_RESTS, G5, G5_END, G6_WHOLE, G8, G8_CANCEL, G8_FREE, G8_PAID};

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// A job is moved only with the token of the lease.
    TokenFence,
    /// A job's end and its callback are one transaction.
    EndTogether,
    /// A request that is known makes no other job.
    RequestOnce,
    /// Leases run out.
    Expiry,
    /// A job that was claimed too often in a state is given up on, whoever died.
    Poison,
    /// What follows from a failed try is somebody's work.
    ErrorIsWork,
    /// There is a last retry.
    Bounded,
    /// Whoever grades being away is no failed try.
    OutageFree,
    /// A claim that somebody came back from makes no poison.
    ReturnedFree,
    /// While they are away nothing is claimed to ask them.
    GateShut,
    /// What was answered is recorded, and not asked again.
    StepKept,
    /// Of two answers to one question the recorded one counts, whoever brought it.
    ReadBack,
    /// A job is complete when each sample is on record.
    EverySample,
    /// No call begins after the `cancel`.
    CancelHeeded,
}

/// Samples of an answer.
const SAMPLES: usize = 2;
/// Claims in one state after which a job is poison.
const CLAIMS: u8 = 3;
/// The holder of a lease is dead.
const DEAD: u8 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lease {
    None,
    Held(u8),
}

/// Why a try has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Cause {
    /// An answer that is none; away, only without a rule.
    Retryable,
    Final,
}

/// A row of `grading.jobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Job {
    state: State,
    lease: Lease,
    /// Claims since the job was made, which is a claim's token, and in this state.
    token: u8,
    claims: u8,
    retries: u8,
    cause: Option<Cause>,
    cancelled: bool,
}

/// Samples, each by the token of whose it is.
type Samples = [Option<u8>; SAMPLES];

/// A worker's claim, as the worker knows it, with the samples that it has in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    token: u8,
    state: State,
    hand: Samples,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    Claimed(Claim),
    /// A call has begun, and is paid for.
    Called(Claim, u8),
    Answered(Claim, u8),
    /// Only without a rule: a job has ended, and its callback is not yet written.
    Owes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    job: Job,
    /// Those on record.
    samples: Samples,
    works: [Work; 2],
    is_away: bool,
    /// Content that kills whoever asks about it.
    kills: bool,
    cancel: bool,
    /// Callbacks of the end, tries that failed of themselves, calls, and what excuses one more of them.
    ends: u8,
    failures: u8,
    calls: u8,
    excused: u8,
    jobs: u8,
    faults: u8,
    is_stale_change: bool,
    is_call_after_cancel: bool,
    is_half: bool,
    is_unearned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Claim(u8),
    /// What the state asks for, where that is no call.
    Move(u8),
    Call(u8, u8),
    Answer(u8),
    Record(u8),
    /// A claim that whoever grades does not answer.
    LetGo(u8),
    PayDebt(u8),
    TakeBack,
    Return,
    // Faults.
    AnswerNothing(u8),
    Die(u8),
    LeaseOver,
    GoAway,
    Cancel,
    ComeAgain,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Jobs {
    without: Option<Rule>,
    faults: u8,
    /// Retries that were made before.
    spent: u8,
}

/// Half of the retries were made, so that there are fewer worlds.
pub(super) const BASE: Jobs = Jobs { without: None, faults: 3, spent: 2 };
/// None was.
pub(super) const TRIES: Jobs = Jobs { faults: 4, spent: 0, ..BASE };

pub(super) fn each_rule(breaks: impl Fn(Rule, &'static str, Jobs)) {
    for (rule, law) in [
        (Rule::RequestOnce, G2_JOB),
        (Rule::Expiry, G4_ENDS),
        (Rule::ErrorIsWork, G4_ENDS),
        (Rule::Poison, G4_RESTS),
        (Rule::GateShut, G4_RESTS),
        (Rule::TokenFence, G5),
        (Rule::EndTogether, G5_END),
        (Rule::EverySample, G6_WHOLE),
        (Rule::ReadBack, G6_WHOLE),
        (Rule::Bounded, G8),
        (Rule::OutageFree, G8_FREE),
        (Rule::ReturnedFree, G8_FREE),
        (Rule::StepKept, G8_PAID),
        (Rule::CancelHeeded, G8_CANCEL),
    ] {
        // Its worlds are searched to the end.
        let faults = if law == G4_RESTS { 1 } else { BASE.faults };
        breaks(rule, law, Jobs { without: Some(rule), faults, ..BASE });
    }
}

impl World {
    fn set(&mut self, worker: u8, work: Work) {
        self.works[usize::from(worker)] = work;
    }

    fn is_ours(&self, claim: Claim) -> bool {
        matches!(self.job.lease, Lease::Held(_)) && self.job.token == claim.token
    }

    /// A worker goes on whose lease another has.
    fn is_overtaken(&self) -> bool {
        (0..2_u8).any(|worker| {
            matches!(self.works[usize::from(worker)], Work::Answered(..))
                && self.job.lease == Lease::Held(1 - worker)
        })
    }
}

impl Claim {
    fn next_sample(&self) -> Option<u8> {
        (0_u8..).zip(self.hand).find_map(|(sample, known)| known.is_none().then_some(sample))
    }
}

impl Jobs {
    fn has(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Whether somebody would take the job.
    fn is_claimable(self, world: &World) -> bool {
        let job = world.job;
        let is_shut = world.is_away && job.state == State::Processing && self.has(Rule::GateShut);
        let is_work = job.state != State::Error || self.has(Rule::ErrorIsWork);
        job.lease == Lease::None && !job.state.is_final() && is_work && !is_shut
    }

    fn is_poison(self, world: &World) -> bool {
        world.job.claims >= CLAIMS && self.has(Rule::Poison)
    }

    /// What a worker does next with a claim.
    fn next(self, world: &World, worker: u8, claim: Claim) -> Action {
        if claim.state != State::Processing {
            return Action::Move(worker);
        }
        let is_cancelled = world.job.cancelled && self.has(Rule::CancelHeeded);
        match claim.next_sample() {
            Some(_) if is_cancelled || self.is_poison(world) => Action::Move(worker),
            Some(_) if world.is_away => Action::LetGo(worker),
            Some(sample) => Action::Call(worker, sample),
            None => Action::Move(worker),
        }
    }
}

impl Protocol for Jobs {
    fn goes_on(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        for worker in 0..2 {
            match world.works[usize::from(worker)] {
                // The other one is as good.
                Work::Idle if self.is_claimable(world) => {
                    let is_first = worker == 0 || world.works[0] != Work::Idle;
                    if is_first {
                        actions.push(Action::Claim(worker));
                    }
                }
                Work::Idle => {}
                Work::Claimed(claim) => actions.push(self.next(world, worker, claim)),
                // Nobody lives to hear it.
                Work::Called(..) if world.kills => actions.push(Action::Die(worker)),
                Work::Called(..) => actions.push(Action::Answer(worker)),
                Work::Answered(..) => actions.push(Action::Record(worker)),
                Work::Owes => actions.push(Action::PayDebt(worker)),
            }
        }
        if world.job.lease == Lease::Held(DEAD) && self.has(Rule::Expiry) {
            actions.push(Action::TakeBack);
        }
        if world.is_away {
            actions.push(Action::Return);
        }
        actions
    }
}
