//! Events of a sequence, and how often each was met.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use devkit::judge::Mode;
use devkit::postgres::Trap;
use serde_json::json;

use super::laws::Evidence;
use crate::process::Doom;

/// Submissions of a sequence.
pub(super) const SUBMISSIONS: usize = 3;
/// Screeners that run side by side.
pub(super) const SCREENERS: usize = 2;
/// At least so often, over a run that is long enough.
const ENOUGH: u64 = 10;

/// A whole sequence. Its `Display` is the Rust that makes it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Story {
    /// The judge was tried, and may approve.
    pub(super) calibrated: bool,
    /// The submissions.
    pub(super) submissions: Vec<Content>,
    /// Operations, in order.
    pub(super) steps: Vec<Op>,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calibrated, submissions, steps } = self;
        writeln!(
            f,
            "Story {{\n    calibrated: {calibrated},\n    submissions: vec!{submissions:?},\n    steps: vec!["
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
    /// Nothing is wrong with it.
    Plain,
    /// A rule blocks it.
    Blocked,
    /// It talks to its judge, and asks for a score.
    Talking,
    /// The backend has authenticated its caller, who is trusted.
    Vouched,
    /// It only says that the caller is trusted.
    Boasting,
}

/// What the judge says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Score(u8),
    Injected(u8),
    Contradicting(u8),
    Flips(u8, u8),
    Obeys,
    EchoObject,
    NoScore,
    Above,
    Prose,
    WrongNonce,
    Cut,
    HalfBody,
    Disconnect,
    Busy,
    Refuses,
}

impl Says {
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::Score(score) => Mode::Scored(score),
            Self::Injected(score) => Mode::Injected(score),
            Self::Contradicting(score) => Mode::Contradicting(score),
            Self::Flips(one, other) => Mode::Flips(one, other),
            Self::Obeys => Mode::Obeys,
            Self::EchoObject => Mode::EchoObject,
            Self::NoScore => Mode::NoScore,
            Self::Above => Mode::ScoreIs(json!(101)),
            Self::Prose => Mode::Prose,
            Self::WrongNonce => Mode::WrongNonce,
            Self::Cut => Mode::Cut,
            Self::HalfBody => Mode::HalfBody,
            Self::Disconnect => Mode::Disconnect,
            Self::Busy => Mode::RetryAfter(20),
            Self::Refuses => Mode::Status(401),
        }
    }

    /// Scores that a valid answer of this kind may have. A judge that was talked round gives what the content asks for.
    pub(super) fn scores(self) -> Vec<u8> {
        match self {
            Self::Score(score) | Self::Injected(score) | Self::Contradicting(score) => vec![score],
            Self::Flips(one, other) => vec![one, other],
            Self::Obeys => vec![47, 92, 100],
            Self::EchoObject
            | Self::NoScore
            | Self::Above
            | Self::Prose
            | Self::WrongNonce
            | Self::Cut
            | Self::HalfBody
            | Self::Disconnect
            | Self::Busy
            | Self::Refuses => Vec::new(),
        }
    }
}

/// What a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Escalate,
    Reject,
    Approve,
    Decline,
}

impl Verb {
    pub(super) fn trigger(self) -> &'static str {
        match self {
            Self::Escalate => "admin-escalate",
            Self::Reject => "admin-reject",
            Self::Approve => "reviewer-approve",
            Self::Decline => "reviewer-reject",
        }
    }
}

/// A named transaction of a screener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tx {
    Claim,
    Record,
    Settle,
    Extend,
}

/// A point at which a screener can be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    /// Its COMMIT is sent, and not received.
    Before(Tx),
    /// Its COMMIT is done, and it does not know.
    After(Tx),
}

impl Point {
    pub(super) const ALL: [Self; 8] = [
        Self::Before(Tx::Claim),
        Self::After(Tx::Claim),
        Self::Before(Tx::Record),
        Self::After(Tx::Record),
        Self::Before(Tx::Settle),
        Self::After(Tx::Settle),
        Self::Before(Tx::Extend),
        Self::After(Tx::Extend),
    ];

    pub(super) fn trap(self) -> Trap {
        match self {
            Self::Before(Tx::Claim) => Trap::TakenSent("screening_claim"),
            Self::After(Tx::Claim) => Trap::TakenAnswered("screening_claim"),
            Self::Before(Tx::Record) => Trap::CommitSent("screening_record"),
            Self::After(Tx::Record) => Trap::CommitAnswered("screening_record"),
            Self::Before(Tx::Settle) => Trap::CommitSent("screening_settle"),
            Self::After(Tx::Settle) => Trap::CommitAnswered("screening_settle"),
            Self::Before(Tx::Extend) => Trap::CommitSent("screening_extend"),
            Self::After(Tx::Extend) => Trap::CommitAnswered("screening_extend"),
        }
    }
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// Another submission takes this place.
    Submit(usize, Content),
    /// The backend writes other words into a submission that nobody has claimed.
    Change(usize, Content),
    /// The judge answers so from now on.
    Judge(Says),
    /// It answers so often so, and then as before.
    Next(Says, usize),
    /// The judge is gone, or back.
    Away(bool),
    /// The form wants a person for each run, or not.
    Force(bool),
    /// A person decides; twice: two people by what both have seen.
    Decide(usize, Verb, bool),
    /// A person decides by what was seen earlier.
    DecideLate(usize, Verb),
    Rescreen(usize),
    Redrive(usize),
    /// The submission is emptied.
    Purge(usize),
    /// The daemon claims it, if it may.
    Claim(usize),
    CrashAt(usize, Point),
    CutAt(usize, Point),
    StallAt(usize, Point),
    Resume(usize),
    Crash(usize),
    Stop(usize),
    /// A screener's wire to the database is severed, or mended.
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
            Self::Change(..) => "change",
            Self::Judge(_) => "judge",
            Self::Next(..) => "next answers",
            Self::Away(_) => "judge away",
            Self::Force(_) => "force review",
            Self::Decide(_, _, false) => "decide",
            Self::Decide(_, _, true) => "decide twice",
            Self::DecideLate(..) => "decide late",
            Self::Rescreen(_) => "rescreen",
            Self::Redrive(_) => "redrive",
            Self::Purge(_) => "purge",
            Self::Claim(_) => "claim",
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

/// Everything that must be met: the table's edges between states, and what people and daemon were answered.
const WAYS: [&str; 20] = [
    "RECEIVED > TIER1_SCANNING",
    "RECEIVED > VENDOR_APPROVED",
    "TIER1_SCANNING > TIER1_FAILED",
    "TIER1_SCANNING > TIER2_SCANNING",
    "TIER2_SCANNING > AUTO_APPROVED",
    "TIER2_SCANNING > NEEDS_REVIEW",
    "TIER2_SCANNING > REJECTED",
    "NEEDS_REVIEW > TIER3_REVIEW",
    "NEEDS_REVIEW > REJECTED",
    "TIER3_REVIEW > PUBLISHED",
    "TIER3_REVIEW > REJECTED",
    "AUTO_APPROVED > PUBLISHED",
    "VENDOR_APPROVED > PUBLISHED",
    "given up: content_changed",
    "patience is over",
    "closed: purged",
    "closed: superseded",
    "decided: stale",
    "decided: changed",
    "claimed",
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

    /// Counts the ways that a sequence's runs went.
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
