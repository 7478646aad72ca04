//! Tier 2: one job, two workers, the judge's answers, its bars and its outage. The lease is told by its holder alone: a worker that is
//! not the holder is stale.

mod steps;

use super::search::Protocol;
use super::table::{Actor, State, Track, Trigger};
use super::{S2, S3, S5, S6, S6_RESTS, S6_TRIED};

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// A settlement is written only by the lease's holder.
    LeaseFence,
    /// An answer without a score is none.
    NoDefault,
    /// An answer without the request's nonce is none: content that speaks as the judge.
    Nonce,
    /// A score beyond 100 is none.
    Range,
    /// A score near the bar is asked for twice, and the lower counts.
    Lower,
    /// A verdict is found again by the content's digest.
    CacheDigest,
    /// And by the model.
    CacheModel,
    /// Each bar alone keeps a pass from passing.
    Privilege,
    Finding,
    Waived,
    Injection,
    Uncalibrated,
    ForceReview,
    /// Whether a model is calibrated is asked of the verdict's, not of the one that is configured now.
    VerdictsModel,
    /// Bars are read in the settlement's transaction, not before the judge is asked.
    BarsAtSettle,
    /// An outage spends no try.
    Unspent,
    /// An outage has an end for the run: a person.
    Patience,
    /// So have answers that are none.
    Exhausted,
    /// NEEDS_REVIEW opens a desk entry.
    ReviewTells,
}

const TRIES: u8 = 2;
/// Patience: claims that meet an outage.
const WAITS: u8 = 2;

/// What stands before the judge is asked: of the content, or of tier 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Bar {
    None,
    Privilege,
    Finding,
    Waived,
    Markers,
}

/// Two models: one is calibrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Judge {
    Calibrated,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Score {
    /// Below 60.
    Low,
    /// 60 to 79.
    Mid,
    /// 75 to 84, of which this is one above 79.
    Near,
    High,
}

/// What comes back from the judge's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Low,
    Mid,
    Near,
    High,
    /// High, and the judge saw an injection.
    Marked,
    NoScore,
    Echo,
    Beyond,
}

impl Answer {
    const ALL: [Self; 8] =
        [Self::Low, Self::Mid, Self::Near, Self::High, Self::Marked, Self::NoScore, Self::Echo, Self::Beyond];
}

/// A verdict of another run, found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Cached {
    None,
    Same,
    OtherDigest,
    OtherModel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Verdict {
    score: Score,
    /// The lowest score that was given for it.
    lowest: Score,
    /// As it is recorded, and as it was.
    by: Judge,
    truly_by: Judge,
    is_marked: bool,
    /// It is an answer, of this content.
    is_valid: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    /// With `force_review` as it was at the claim.
    Claimed(bool),
    /// One score near the bar.
    Again(bool, Verdict),
    Answered(bool, Verdict),
    Recorded(bool, Verdict),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Job {
    Waiting,
    Leased(u8),
    Done,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    run: Track,
    job: Job,
    tries: u8,
    /// Answers that were none.
    invalid: u8,
    works: [Work; 2],
    bar: Bar,
    is_forced: bool,
    model: Judge,
    cached: Cached,
    is_up: bool,
    /// Claims that met the judge away; patience is counted from the run's first.
    waits: u8,
    entry: bool,
    /// Deaths, leases that run out early, outages and their ends, a change of model, of `force_review`.
    faults: u8,
    is_stale_change: bool,
    is_unfounded: bool,
    is_barred_pass: bool,
    is_untried: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Claim(u8),
    Reply(u8, Answer),
    FindCached(u8),
    Record(u8),
    Settle(u8),
    NoReply(u8),
    Publish,
    Die(u8),
    LeaseOver,
    Turn,
    Configure,
    Force,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Tier2 {
    without: Option<Rule>,
    faults: u8,
}

pub(super) const BASE: Tier2 = Tier2 { without: None, faults: 3 };
const DEAD: u8 = 9;

pub(super) fn each_rule(breaks: impl Fn(Rule, &'static str, Tier2)) {
    for (rule, law) in [
        (Rule::LeaseFence, S5),
        (Rule::NoDefault, S2),
        (Rule::Nonce, S2),
        (Rule::Range, S2),
        (Rule::Lower, S2),
        (Rule::CacheDigest, S2),
        (Rule::CacheModel, S3),
        (Rule::Privilege, S3),
        (Rule::Finding, S3),
        (Rule::Waived, S3),
        (Rule::Injection, S3),
        (Rule::Uncalibrated, S3),
        (Rule::ForceReview, S3),
        (Rule::VerdictsModel, S3),
        (Rule::BarsAtSettle, S3),
        (Rule::Unspent, S6_TRIED),
        (Rule::Patience, S6_RESTS),
        (Rule::Exhausted, S6),
        (Rule::ReviewTells, S6),
    ] {
        // Its worlds are searched to the end.
        let faults = if law == S6_RESTS { 2 } else { BASE.faults };
        breaks(rule, law, Tier2 { without: Some(rule), faults });
    }
}

impl World {
    fn set(&mut self, worker: u8, work: Work) {
        self.works[usize::from(worker)] = work;
    }

    fn is_ended(&self) -> bool {
        self.run.state.is_final() || self.entry
    }

    fn is_ours(&self, worker: u8) -> bool {
        self.job == Job::Leased(worker)
    }

    /// A bar that the truth has, whatever rules are there.
    fn is_barred(&self, verdict: Verdict) -> bool {
        self.bar != Bar::None || self.is_forced || verdict.is_marked || verdict.truly_by != Judge::Calibrated
    }
}

impl Tier2 {
    fn has(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// What serde makes of an answer; none: it is invalid.
    fn read(self, by: Judge, answer: Answer) -> Option<Verdict> {
        let of = |score, is_valid| Verdict {
            score,
            lowest: score,
            by,
            truly_by: by,
            is_marked: answer == Answer::Marked,
            is_valid,
        };
        match answer {
            Answer::Low => Some(of(Score::Low, true)),
            Answer::Mid => Some(of(Score::Mid, true)),
            Answer::Near => Some(of(Score::Near, true)),
            Answer::High | Answer::Marked => Some(of(Score::High, true)),
            Answer::NoScore => (!self.has(Rule::NoDefault)).then_some(of(Score::Low, false)),
            Answer::Echo => (!self.has(Rule::Nonce)).then_some(of(Score::High, false)),
            Answer::Beyond => (!self.has(Rule::Range)).then_some(of(Score::High, false)),
        }
    }

    fn find(self, world: &World) -> Option<Verdict> {
        let of = |truly_by, is_valid| Verdict {
            score: Score::High,
            lowest: Score::High,
            by: world.model,
            truly_by,
            is_marked: false,
            is_valid,
        };
        match world.cached {
            Cached::None => None,
            // Of the calibrated model: found as long as that is the one.
            Cached::Same => (world.model == Judge::Calibrated).then_some(of(Judge::Calibrated, true)),
            Cached::OtherDigest => (!self.has(Rule::CacheDigest)).then_some(of(world.model, false)),
            Cached::OtherModel if world.model == Judge::Other => Some(of(Judge::Other, true)),
            Cached::OtherModel => (!self.has(Rule::CacheModel)).then_some(of(Judge::Other, true)),
        }
    }

    /// Whether the settlement sees a bar; `forced` as it was at the claim.
    fn sees_bar(self, world: &World, forced: bool, verdict: Verdict) -> bool {
        let asked = if self.has(Rule::VerdictsModel) { verdict.by } else { world.model };
        let is_forced = if self.has(Rule::BarsAtSettle) { world.is_forced } else { forced };
        let by_content = match world.bar {
            Bar::None => false,
            Bar::Privilege => self.has(Rule::Privilege),
            Bar::Finding => self.has(Rule::Finding),
            Bar::Waived => self.has(Rule::Waived),
            Bar::Markers => self.has(Rule::Injection),
        };
        by_content
            || verdict.is_marked && self.has(Rule::Injection)
            || asked != Judge::Calibrated && self.has(Rule::Uncalibrated)
            || is_forced && self.has(Rule::ForceReview)
    }

    fn review(self, world: &mut World, trigger: Trigger) {
        world.run.step(trigger, Actor::Screener);
        world.job = Job::Done;
        world.entry |= self.has(Rule::ReviewTells);
    }

    fn settle(self, world: &mut World, worker: u8, forced: bool, verdict: Verdict) {
        let is_ours = world.is_ours(worker);
        if !is_ours && self.has(Rule::LeaseFence) || world.run.state != State::Tier2Scanning {
            return;
        }
        world.is_stale_change |= !is_ours;
        let is_barred = world.is_barred(verdict);
        match verdict.score {
            Score::Low => {
                world.is_unfounded |= !verdict.is_valid;
                world.run.step(Trigger::Tier2Fail, Actor::Screener);
                world.job = Job::Done;
            }
            Score::Near | Score::High if !self.sees_bar(world, forced, verdict) => {
                let is_low = matches!(verdict.lowest, Score::Low | Score::Mid);
                world.is_unfounded |= !verdict.is_valid || is_low;
                world.is_barred_pass |= is_barred;
                world.run.step(Trigger::Tier2Pass, Actor::Screener);
                world.job = Job::Done;
            }
            Score::Mid | Score::Near | Score::High => self.review(world, Trigger::Tier2Concerns),
        }
    }

    /// A worker's claim comes to no verdict: by an outage, or by an answer that is none.
    fn no_verdict(self, world: &mut World, worker: u8, is_outage: bool) {
        world.set(worker, Work::Idle);
        if !world.is_ours(worker) {
            return;
        }
        world.job = Job::Waiting;
        if is_outage && self.has(Rule::Unspent) {
            world.tries -= 1;
        }
        world.invalid += u8::from(!is_outage);
        world.waits = (world.waits + u8::from(is_outage)).min(WAITS);
        let is_over = world.waits >= WAITS && self.has(Rule::Patience);
        let is_exhausted = world.tries >= TRIES;
        if is_exhausted {
            world.is_untried |= world.invalid < TRIES;
            world.tries = TRIES;
        }
        if is_exhausted && !self.has(Rule::Exhausted) {
            world.job = Job::Dead;
        } else if is_exhausted || (is_outage && is_over) {
            self.review(world, Trigger::Tier2Unavailable);
        }
    }

    /// The next steps of a worker that is in the middle of something.
    fn steps(self, world: &World, worker: u8) -> Vec<Action> {
        match world.works[usize::from(worker)] {
            Work::Idle => vec![],
            Work::Claimed(_) if self.find(world).is_some() => vec![Action::FindCached(worker)],
            Work::Claimed(_) | Work::Again(..) if world.is_up => {
                Answer::ALL.map(|answer| Action::Reply(worker, answer)).into()
            }
            Work::Claimed(_) | Work::Again(..) => vec![Action::NoReply(worker)],
            Work::Answered(..) => vec![Action::Record(worker)],
            Work::Recorded(..) => vec![Action::Settle(worker)],
        }
    }
}

impl Protocol for Tier2 {
    fn goes_on(&self, world: &World) -> Vec<Action> {
        let mut actions: Vec<Action> = (0..2).flat_map(|worker| self.steps(world, worker)).collect();
        if world.run.state == State::AutoApproved {
            actions.push(Action::Publish);
        }
        match world.job {
            Job::Leased(DEAD) => actions.push(Action::LeaseOver),
            Job::Waiting => {
                let idle = (0..2).filter(|worker| world.works[usize::from(*worker)] == Work::Idle);
                actions.extend(idle.map(Action::Claim));
            }
            Job::Leased(_) | Job::Done | Job::Dead => {}
        }
        actions
    }
}
