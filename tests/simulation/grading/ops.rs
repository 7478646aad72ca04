//! Events of a sequence, and how often each was met.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use devkit::grader::Grading;
use devkit::judge::Mishap;
use devkit::postgres::Trap;
use serde_json::json;

use super::laws::Evidence;
use crate::process::Doom;

/// Submissions of a sequence.
pub(super) const SUBMISSIONS: usize = 3;
/// Processes of a side, and of both: first the daemons, then the graders.
pub(super) const TWO: usize = 2;
pub(super) const PROCESSES: usize = 2 * TWO;
/// How often a work is graded.
pub(super) const SAMPLES: u8 = 3;
/// At least so often, over a run that is long enough.
const ENOUGH: u64 = 10;

/// A whole sequence. Its `Display` is the Rust that makes it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Story {
    /// The models were tried, and may grade without a person.
    pub(super) calibrated: bool,
    /// Seconds until an attempt fails.
    pub(super) sla: u64,
    /// The submissions.
    pub(super) submissions: Vec<Content>,
    /// Operations, in order.
    pub(super) steps: Vec<Op>,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calibrated, sla, submissions, steps } = self;
        writeln!(
            f,
            "Story {{\n    calibrated: {calibrated},\n    sla: {sla},\n    submissions: vec!{submissions:?},\n    steps: vec!["
        )?;
        for step in steps {
            writeln!(f, "        {step:?},")?;
        }
        f.write_str("    ],\n}")
    }
}

/// What was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// A letter that everybody grades alike.
    Sure,
    /// A short one, at which samples disagree.
    Unsure,
    /// One that asks its grader for a score.
    Begging,
    /// One whose mail does not wait.
    Free,
    /// One whose mail goes without a grade where there is none.
    Sends,
    /// Answers to a test that has a key.
    Listening,
    /// Answers to one that has none.
    Keyless,
}

/// What the grader says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Good,
    /// In halves.
    Score(u8),
    Injected,
    MissingCriterion,
    TwiceCriterion,
    ForeignCriterion,
    FalseQuote,
    Above,
    Odd,
    UnknownKey,
    WrongNonce,
    Cut,
    Slow,
    HalfBody,
    Disconnect,
    Busy,
    Refuses,
    Page,
}

impl Says {
    pub(super) fn grading(self) -> Grading {
        match self {
            Self::Good => Grading::ByContent,
            Self::Score(halves) => Grading::Scored(f64::from(halves) / 2.0),
            Self::Injected => Grading::Injected,
            Self::MissingCriterion => Grading::MissingCriterion,
            Self::TwiceCriterion => Grading::TwiceCriterion,
            Self::ForeignCriterion => Grading::ForeignCriterion,
            Self::FalseQuote => Grading::FalseQuote,
            Self::Above => Grading::ScoreIs(json!(11)),
            Self::Odd => Grading::ScoreIs(json!(7.3)),
            Self::UnknownKey => Grading::UnknownKey,
            Self::WrongNonce => Grading::WrongNonce,
            Self::Cut => Grading::Cut,
            // Real time: it answers while the sequence does something else.
            Self::Slow => Grading::Mishap(Mishap::Slow(Duration::from_millis(30))),
            Self::HalfBody => Grading::Mishap(Mishap::HalfBody),
            Self::Disconnect => Grading::Mishap(Mishap::Disconnect),
            Self::Busy => Grading::Mishap(Mishap::RetryAfter(20)),
            Self::Refuses => Grading::Mishap(Mishap::Status(401)),
            Self::Page => Grading::Mishap(Mishap::Page),
        }
    }

    /// An answer that is none: it is the try's fault.
    pub(super) fn is_bad(self) -> bool {
        match self {
            Self::MissingCriterion
            | Self::TwiceCriterion
            | Self::ForeignCriterion
            | Self::FalseQuote
            | Self::Above
            | Self::Odd
            | Self::UnknownKey
            | Self::WrongNonce
            | Self::Cut => true,
            Self::Good
            | Self::Score(_)
            | Self::Injected
            | Self::Slow
            | Self::HalfBody
            | Self::Disconnect
            | Self::Busy
            | Self::Refuses
            | Self::Page => false,
        }
    }
}

/// A named transaction of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tx {
    /// A daemon's: an attempt is claimed, moved, moved by a callback, timed out.
    Claim,
    Settle,
    Take,
    TimeOut,
    /// A grader's: a request is taken in, its job claimed and moved, a step kept, the last one kept, a lease made longer.
    Accept,
    JobClaim,
    JobSettle,
    Record,
    Last,
    Extend,
}

/// A point at which a process can be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    /// Its COMMIT is sent, and not received.
    Before(Tx),
    /// Its COMMIT is done, and it does not know.
    After(Tx),
}

impl Point {
    pub(super) const ALL: [Self; 20] = [
        Self::Before(Tx::Claim),
        Self::After(Tx::Claim),
        Self::Before(Tx::Settle),
        Self::After(Tx::Settle),
        Self::Before(Tx::Take),
        Self::After(Tx::Take),
        Self::Before(Tx::TimeOut),
        Self::After(Tx::TimeOut),
        Self::Before(Tx::Accept),
        Self::After(Tx::Accept),
        Self::Before(Tx::JobClaim),
        Self::After(Tx::JobClaim),
        Self::Before(Tx::JobSettle),
        Self::After(Tx::JobSettle),
        Self::Before(Tx::Record),
        Self::After(Tx::Record),
        Self::Before(Tx::Last),
        Self::After(Tx::Last),
        Self::Before(Tx::Extend),
        Self::After(Tx::Extend),
    ];

    pub(super) fn tx(self) -> Tx {
        match self {
            Self::Before(tx) | Self::After(tx) => tx,
        }
    }

    /// The first process of the side that comes by.
    pub(super) fn side(self) -> usize {
        match self.tx() {
            Tx::Claim | Tx::Settle | Tx::Take | Tx::TimeOut => 0,
            Tx::Accept | Tx::JobClaim | Tx::JobSettle | Tx::Record | Tx::Last | Tx::Extend => TWO,
        }
    }

    /// The trap, and which of those that come by is caught.
    pub(super) fn trap(self) -> (Trap, u64) {
        let (name, nth) = match self.tx() {
            Tx::Claim => ("grading_claim", 1),
            Tx::Settle => ("grading_settle", 1),
            Tx::Take | Tx::Accept => ("grading_take", 1),
            Tx::TimeOut => ("grading_time_out", 1),
            Tx::JobClaim => ("grading_job_claim", 1),
            Tx::JobSettle => ("grading_job_settle", 1),
            Tx::Record => ("grading_job_record", 1),
            Tx::Last => ("grading_job_record", u64::from(SAMPLES)),
            Tx::Extend => ("grading_job_extend", 1),
        };
        // Those that look first often find nothing.
        let takes = matches!(self.tx(), Tx::Claim | Tx::JobClaim | Tx::Take | Tx::Accept | Tx::TimeOut);
        let trap = match (self, takes) {
            (Self::Before(_), true) => Trap::TakenSent(name),
            (Self::Before(_), false) => Trap::CommitSent(name),
            (Self::After(_), true) => Trap::TakenAnswered(name),
            (Self::After(_), false) => Trap::CommitAnswered(name),
        };
        (trap, nth)
    }
}

/// An operation. Of a point, the process is one of its side; else one of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// Another submission takes this place.
    Submit(usize, Content),
    /// The backend writes other words into a submission that nobody has claimed.
    Change(usize),
    /// The grader answers so from now on.
    Grader(Says),
    /// It answers so often so, and then as before.
    Next(Says, usize),
    /// The grader is gone, or back.
    Away(bool),
    /// A person reviews; twice: two people by what both have seen.
    Review(usize, bool),
    /// A person reviews by what was seen earlier.
    ReviewLate(usize),
    Regrade(usize),
    Release(usize),
    /// The submission is emptied.
    Purge(usize),
    /// The daemon claims it, if it may.
    Claim(usize),
    /// All callbacks of a submission come again, in another order.
    Redeliver(usize),
    /// All requests of a submission come again.
    AskAgain(usize),
    /// A request that waits cannot be read any more.
    Garble(usize),
    /// Callbacks come in another order than they were sent, or not.
    Reorder(bool),
    CrashAt(usize, Point),
    CutAt(usize, Point),
    StallAt(usize, Point),
    Resume(usize),
    Crash(usize),
    Stop(usize),
    /// A process's wire to the database is severed, or mended.
    Outage(usize, bool),
    Advance(u64),
    /// Time passes, and nobody notices before the end of it.
    Jump(u64),
    Mend,
    /// What follows does not wait until nothing moves.
    Rush,
}

impl Op {
    fn label(self) -> &'static str {
        match self {
            Self::Submit(..) => "submit",
            Self::Change(_) => "change",
            Self::Grader(_) => "grader",
            Self::Next(..) => "next answers",
            Self::Away(_) => "grader away",
            Self::Review(_, false) => "review",
            Self::Review(_, true) => "review twice",
            Self::ReviewLate(_) => "review late",
            Self::Regrade(_) => "regrade",
            Self::Release(_) => "release",
            Self::Purge(_) => "purge",
            Self::Claim(_) => "claim",
            Self::Redeliver(_) => "redeliver",
            Self::AskAgain(_) => "ask again",
            Self::Garble(_) => "garble",
            Self::Reorder(_) => "reorder",
            Self::CrashAt(..) => "crash at",
            Self::CutAt(..) => "cut at",
            Self::StallAt(..) => "stall at",
            Self::Resume(_) => "resume",
            Self::Crash(_) => "crash",
            Self::Stop(_) => "stop",
            Self::Outage(..) => "outage",
            Self::Advance(_) => "advance",
            Self::Jump(_) => "jump",
            Self::Mend => "mend",
            Self::Rush => "rush",
        }
    }
}

/// What was met over a whole run: a simulation that does not come by a way proves nothing about it.
#[derive(Debug, Default)]
pub(super) struct Reached(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sequences: u64,
    happened: BTreeMap<&'static str, u64>,
    caught: BTreeMap<(Point, &'static str), u64>,
    ways: BTreeMap<String, u64>,
}

/// Everything that must be met: the table's edges between states, why attempts fail, and what people and daemon were answered.
const WAYS: [&str; 28] = [
    "PENDING > QUEUED",
    "PENDING > COMPLETED",
    "PENDING > FAILED",
    "QUEUED > PROCESSING",
    "QUEUED > FAILED",
    "PROCESSING > ERROR",
    "PROCESSING > COMPLETED",
    "PROCESSING > REVIEW_PENDING",
    "PROCESSING > FAILED",
    "ERROR > RETRYING",
    "ERROR > FAILED",
    "RETRYING > PROCESSING",
    "RETRYING > FAILED",
    "REVIEW_PENDING > COMPLETED",
    "failed: timeout",
    "failed: gave_up",
    "failed: invalid_input",
    "failed: no_answer_key",
    "skipped",
    "closed",
    "late result",
    "step copied",
    "reviewed: done",
    "reviewed: stale",
    "regraded: done",
    "released: done",
    "claimed",
    "in time",
];

impl Reached {
    pub(super) fn happened(&self, op: Op) {
        *self.lock().happened.entry(op.label()).or_default() += 1;
    }

    pub(super) fn way(&self, way: String) {
        *self.lock().ways.entry(way).or_default() += 1;
    }

    pub(super) fn caught(&self, doom: Doom, point: Point) {
        let doom = match doom {
            Doom::Crash => "crash",
            Doom::Cut => "cut",
            Doom::Stall => "stall",
        };
        *self.lock().caught.entry((point, doom)).or_default() += 1;
    }

    /// Counts the ways that a sequence's attempts went.
    pub(super) fn saw(&self, evidence: &Evidence) {
        self.lock().sequences += 1;
        evidence.ways().into_iter().for_each(|way| self.way(way));
    }

    pub(super) fn times(&self, way: &str) -> u64 {
        self.lock().ways.get(way).copied().unwrap_or_default()
    }

    /// How often somebody died at a point.
    pub(super) fn crashes(&self, point: Point) -> u64 {
        self.lock().caught.get(&(point, "crash")).copied().unwrap_or_default()
    }

    /// The table, and what was met too rarely.
    pub(super) fn report(&self) -> (String, Vec<String>) {
        let counts = self.lock();
        let mut rare = Vec::new();
        let vain = counts.ways.get("waited in vain").copied().unwrap_or_default();
        let mut table =
            format!("{} sequences, {vain} times it was waited for quiet in vain\n", counts.sequences);
        for (label, times) in &counts.happened {
            writeln!(table, "  {label:<32}{times:>8}").expect("text");
        }
        for way in WAYS {
            let times = counts.ways.get(way).copied().unwrap_or_default();
            writeln!(table, "  {way:<32}{times:>8}").expect("text");
            if times < ENOUGH {
                rare.push(format!("{way}: {times}"));
            }
        }
        writeln!(table, "  {:<32}{:>8}{:>8}{:>8}", "caught at", "crash", "cut", "stall").expect("text");
        for point in Point::ALL {
            let of = |doom| counts.caught.get(&(point, doom)).copied().unwrap_or_default();
            let (crash, cut, stall) = (of("crash"), of("cut"), of("stall"));
            writeln!(table, "  {:<32}{crash:>8}{cut:>8}{stall:>8}", format!("{point:?}")).expect("text");
            if crash < ENOUGH {
                rare.push(format!("crash at {point:?}: {crash}"));
            }
        }
        (table, rare)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
