//! People and runs: a submission of a form whose mode changes, its birth by trigger or by a pass, two runs, two admins, readiness, the
//! sweep that refuses, and routing. What the jobs do is one step an edge here.

mod steps;

use super::search::Protocol;
use super::table::{Actor, State, Track, Trigger};
use super::{S1, S3, S4, S5, S6, S9, S9_CURRENT};

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// A person's command is an edge of the table.
    Table,
    /// A person's edges are not the screener's.
    Role,
    /// A command names the version that was seen.
    Version,
    /// Who escalated does not approve.
    FourEyes,
    /// A waived block is a bar.
    Waived,
    /// NEEDS_REVIEW opens a desk entry.
    ReviewTells,
    /// One run of a number, with one birth.
    OneBirth,
    /// One run is current: a rescreen takes that from the one before.
    OneCurrent,
    /// A run that is not current is left as it is.
    CurrentFence,
    /// Without a run the gate of an enforced form is shut.
    GateShut,
    /// The gate compares with the finalize that bears, not with an earlier `created_at`.
    SinceFinalize,
    /// A pass bears what the trigger swallowed.
    BirthPass,
    /// Readiness asks the current run.
    ReadCurrent,
    /// It is asked again before the first mail.
    ReadyAtBegin,
    /// Infected is not ready, whatever screening says.
    Infected,
    /// A form that is enforced again is enforced since then.
    Since,
    /// A rescreen replays what was refused.
    Replay,
    /// A rescreen and a refusal lock the submission first.
    SubjectLock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mode {
    Off,
    Shadow,
    Enforced,
}

/// Whether a form is enforced since before a submission's two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Since {
    created: bool,
    finalized: bool,
}

impl Since {
    const NEVER: Self = Self { created: false, finalized: false };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Run {
    track: Track,
    births: u8,
    is_current: bool,
    is_enforced: bool,
    is_waived: bool,
    escalated_by: Option<u8>,
    /// The desk has an open entry `screening`.
    entry: bool,
}

/// What an admin has on the screen: a run, at a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Seen {
    run: u8,
    version: u8,
}

/// `submissions.status`, and how far its claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    Unfinished,
    Received,
    Claimed,
    Begun,
    Routed,
    Refused { infected: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    mode: Mode,
    /// The form is enforced since before the submission was created, and since before its finalize; and each was so once.
    since: Since,
    first: Since,
    runs: [Option<Run>; 2],
    row: Row,
    /// Passes that have looked for what has no run; the sweep, for what is to be refused.
    passes: u8,
    sweep: bool,
    admins: [Option<Seen>; 2],
    /// Tier 1 blocks the content; a block was waived since.
    blocks: bool,
    waiver: bool,
    infected: bool,
    rescreens: u8,
    /// Swallowed births, changes of the form, late infections.
    faults: u8,
    is_stale_change: bool,
    is_alone: bool,
    is_unready: bool,
    is_superseded_published: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Escalate,
    Approve,
    Reject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Finalize { swallowed: bool },
    LookForOrphan,
    Bear,
    Advance(u8, Trigger),
    WorkerApproves(u8),
    Look(u8),
    Decide(u8, Command),
    Waive,
    Rescreen,
    Claim,
    Begin,
    Mail,
    LookToRefuse,
    Refuse,
    SetMode(Mode),
    FindVirus,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct People {
    without: Option<Rule>,
    faults: u8,
}

/// Hosts whose passes look at once.
const PASSES: u8 = 2;

pub(super) const BASE: People = People { without: None, faults: 2 };

pub(super) fn each_rule(breaks: impl Fn(Rule, &'static str, People)) {
    for (rule, law) in [
        (Rule::Table, S1),
        (Rule::Role, S3),
        (Rule::FourEyes, S3),
        (Rule::Waived, S3),
        (Rule::OneBirth, S4),
        (Rule::Version, S5),
        (Rule::ReviewTells, S6),
        (Rule::BirthPass, S6),
        (Rule::OneCurrent, S6),
        (Rule::Since, S6),
        (Rule::Replay, S6),
        (Rule::SubjectLock, S6),
        (Rule::GateShut, S9),
        (Rule::SinceFinalize, S9),
        (Rule::ReadCurrent, S9),
        (Rule::ReadyAtBegin, S9),
        (Rule::Infected, S9),
        (Rule::CurrentFence, S9_CURRENT),
    ] {
        breaks(rule, law, People { without: Some(rule), ..BASE });
    }
}

impl World {
    fn run(&self, number: u8) -> Option<Run> {
        self.runs[usize::from(number)]
    }

    fn run_mut(&mut self, number: u8) -> Option<&mut Run> {
        self.runs[usize::from(number)].as_mut()
    }

    /// The last of those that are current: one, with the rule.
    fn current(&self) -> Option<Run> {
        self.runs.iter().rev().flatten().find(|run| run.is_current).copied()
    }

    /// What S9 asks, told from the contract's prose and not from the predicate.
    fn may_be_mailed(&self) -> bool {
        let enforced = self.current().filter(|run| run.is_enforced);
        let is_gated = enforced.is_some() || self.mode == Mode::Enforced && self.since.finalized;
        let is_published = enforced.is_some_and(|run| run.track.state == State::Published);
        !self.infected && (!is_gated || is_published)
    }

    fn is_out(&self) -> bool {
        self.current().is_some_and(|run| run.is_enforced && run.track.state.is_out())
    }

    /// At rest: routed, or refused for what still holds, or a person was told.
    fn is_ended(&self) -> bool {
        let is_settled = match self.row {
            Row::Routed => true,
            Row::Refused { infected } => infected || self.is_out(),
            Row::Unfinished | Row::Received | Row::Claimed | Row::Begun => false,
        };
        let run = self.current();
        let is_told = run.is_some_and(|run| run.entry && !run.track.state.is_final());
        let has_run_ended = run.is_none_or(|run| run.track.state.is_final());
        is_told || is_settled && has_run_ended
    }
}

impl People {
    fn has(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// `is_ready`, with the rules that are there.
    fn is_ready(self, world: &World) -> bool {
        let mut enforced = world.runs.iter().flatten().filter(|run| run.is_current && run.is_enforced);
        let published = |run: &Run| run.track.state == State::Published;
        let passes = if self.has(Rule::ReadCurrent) {
            enforced.clone().all(published)
        } else {
            world.runs.iter().flatten().any(published) || enforced.clone().all(published)
        };
        let has_run = enforced.next().is_some() || !self.has(Rule::GateShut);
        let is_clean = !world.infected || !self.has(Rule::Infected);
        let since = world.since;
        let is_since = if self.has(Rule::SinceFinalize) { since.finalized } else { since.created };
        let is_gated = world.mode == Mode::Enforced && is_since;
        world.row != Row::Unfinished && is_clean && passes && (has_run || !is_gated)
    }

    /// Whether a run may be written at all.
    fn is_open(self, run: Run) -> bool {
        run.is_current || !self.has(Rule::CurrentFence)
    }

    fn bear(world: &mut World, number: u8) {
        world.runs[usize::from(number)] = Some(Run {
            track: Track::BORN,
            births: 1,
            is_current: true,
            is_enforced: world.mode == Mode::Enforced,
            is_waived: false,
            escalated_by: None,
            entry: false,
        });
    }

    /// The edges that a run's jobs walk from where it is.
    fn edges(self, world: &World, run: Run) -> Vec<Trigger> {
        let is_blocked = world.blocks && !(run.is_waived || world.waiver);
        let is_barred = run.is_waived && self.has(Rule::Waived);
        match run.track.state {
            State::Received => vec![Trigger::NonVendorSubmission],
            State::Tier1Scanning if is_blocked => vec![Trigger::Tier1Fail],
            State::Tier1Scanning => vec![Trigger::Tier1Pass],
            State::Tier2Scanning if is_barred => vec![Trigger::Tier2Concerns, Trigger::Tier2Fail],
            State::Tier2Scanning => {
                vec![Trigger::Tier2Pass, Trigger::Tier2Concerns, Trigger::Tier2Fail]
            }
            State::AutoApproved => vec![Trigger::PublishComplete],
            State::VendorApproved
            | State::Tier1Failed
            | State::NeedsReview
            | State::Tier3Review
            | State::Published
            | State::Rejected => Vec::new(),
        }
    }

    /// A person's command, in one transaction under the run's lock; nothing: 409.
    fn decide(self, world: &mut World, admin: u8, seen: Seen, command: Command) -> Option<()> {
        let run = world.run(seen.run)?;
        let is_stale = run.track.moves != seen.version;
        if is_stale && self.has(Rule::Version) || !self.is_open(run) {
            return None;
        }
        if command == Command::Approve && run.escalated_by == Some(admin) && self.has(Rule::FourEyes) {
            return None;
        }
        let is_review = run.track.state == State::NeedsReview;
        let trigger = match command {
            Command::Escalate => Trigger::AdminEscalate,
            Command::Approve => Trigger::ReviewerApprove,
            Command::Reject if is_review => Trigger::AdminReject,
            Command::Reject => Trigger::ReviewerReject,
        };
        let written = world.run_mut(seen.run)?;
        if !written.track.step(trigger, Actor::Person) {
            if self.has(Rule::Table) || !(command == Command::Approve && is_review) {
                return None;
            }
            written.track.force(State::Published);
            written.track.events += 1;
        }
        match command {
            Command::Escalate => written.escalated_by = Some(admin),
            Command::Approve | Command::Reject => written.entry = false,
        }
        world.is_stale_change |= is_stale;
        world.is_alone |= command == Command::Approve && run.escalated_by == Some(admin);
        world.is_superseded_published |= command == Command::Approve && !run.is_current;
        Some(())
    }
}

impl Protocol for People {
    fn goes_on(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        if world.row == Row::Unfinished {
            actions.push(Action::Finalize { swallowed: false });
        } else if world.runs[0].is_none()
            && world.mode != Mode::Off
            && world.passes < PASSES
            && self.has(Rule::BirthPass)
        {
            actions.push(Action::LookForOrphan);
        }
        if world.passes > 0 {
            actions.push(Action::Bear);
        }
        for number in 0..2 {
            if let Some(run) = world.run(number).filter(|run| self.is_open(*run)) {
                let edges = self.edges(world, run).into_iter();
                actions.extend(edges.map(|trigger| Action::Advance(number, trigger)));
            }
        }
        match world.row {
            Row::Received if self.is_ready(world) => actions.push(Action::Claim),
            Row::Claimed => actions.push(Action::Begin),
            Row::Begun => actions.push(Action::Mail),
            Row::Received | Row::Unfinished | Row::Routed | Row::Refused { .. } => {}
        }
        if world.sweep {
            actions.push(Action::Refuse);
        } else if world.row == Row::Received && (world.infected || world.is_out()) {
            actions.push(if self.has(Rule::SubjectLock) { Action::Refuse } else { Action::LookToRefuse });
        }
        actions
    }
}
