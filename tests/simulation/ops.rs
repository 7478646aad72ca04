//! What can happen: operations, the points at which a process can die, and how proptest puts sequences together.
//!
//! Besides single operations there are fragments, a few operations that only together reach a rare place (an infection
//! between claim and begin, a worker that wakes after its claim was given to another). Each step has a switch that
//! shrinks to "off", so that a failing fragment loses what it does not need.

use std::fmt;

use proptest::prelude::*;
use proptest::sample::select;

/// Submissions of a sequence.
pub(crate) const SUBMISSIONS: usize = 4;
/// Daemons that run side by side.
pub(crate) const DAEMONS: usize = 2;

/// A whole sequence. Its `Debug` is the Rust that makes it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Story {
    /// `routing.in_doubt = "hold"`
    pub(crate) hold: bool,
    /// What was submitted.
    pub(crate) submissions: Vec<Sub>,
    /// What happens to it.
    pub(crate) steps: Vec<Op>,
}

impl fmt::Display for Story {
    /// As the Rust that makes it again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hold, submissions, steps } = self;
        writeln!(f, "Story {{\n    hold: {hold},\n    submissions: vec!{submissions:?},\n    steps: vec![")?;
        for step in steps {
            writeln!(f, "        {step:?},")?;
        }
        f.write_str("    ],\n}")
    }
}

/// A submission: its form, and its attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sub(pub(crate) FormKind, pub(crate) Files);

/// What a form does at first; a reload may replace all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FormKind {
    /// One action to one recipient.
    One,
    /// One action to three recipients.
    Many,
    /// Two actions, the first to two recipients.
    Two,
    /// A mail and a HappyFox ticket.
    Mixed,
}

/// Attachments of a submission, by what the scan said of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Files {
    None,
    Clean,
    Pending,
    Infected,
}

/// A named transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Tx {
    Claim,
    Begin,
    Record,
    Fail,
    Release,
    Heartbeat,
    SweepStuck,
    SweepOrphans,
    SweepInfected,
    MergeFacts,
}

impl Tx {
    pub(crate) const ALL: [Self; 10] = [
        Self::Claim,
        Self::Begin,
        Self::Record,
        Self::Fail,
        Self::Release,
        Self::Heartbeat,
        Self::SweepStuck,
        Self::SweepOrphans,
        Self::SweepInfected,
        Self::MergeFacts,
    ];

    /// Its name in the product.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Begin => "begin",
            Self::Record => "record",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::Heartbeat => "heartbeat",
            Self::SweepStuck => "sweep_stuck",
            Self::SweepOrphans => "sweep_orphans",
            Self::SweepInfected => "sweep_infected",
            Self::MergeFacts => "merge_facts",
        }
    }
}

/// A stage of the dialogue with the relay, named after what the relay has just received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum At {
    Connect,
    Mail,
    Rcpt,
    Data,
    Body,
    /// The final dot; nothing is stored.
    Dot,
    /// The mail is stored, its 250 is not written.
    Stored,
    /// The 250 is written.
    Replied,
}

impl At {
    pub(crate) const ALL: [Self; 8] = [
        Self::Connect,
        Self::Mail,
        Self::Rcpt,
        Self::Data,
        Self::Body,
        Self::Dot,
        Self::Stored,
        Self::Replied,
    ];
}

/// Where a process can be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Point {
    /// COMMIT was sent and does not arrive.
    Before(Tx),
    /// COMMIT stands, its answer does not arrive.
    After(Tx),
    /// The relay has read this much.
    Smtp(At),
    /// The ack was about to be handed in.
    BeforeAck,
    /// The ack was handed in.
    AfterAck,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(tx) => write!(f, "{} commit sent", tx.name()),
            Self::After(tx) => write!(f, "{} commit answered", tx.name()),
            Self::Smtp(at) => write!(f, "smtp {}", format!("{at:?}").to_lowercase()),
            Self::BeforeAck => f.write_str("before ack"),
            Self::AfterAck => f.write_str("after ack"),
        }
    }
}

impl Point {
    pub(crate) fn all() -> Vec<Self> {
        let database = Tx::ALL.into_iter().flat_map(|tx| [Self::Before(tx), Self::After(tx)]);
        let relay = At::ALL.into_iter().map(Self::Smtp);
        database.chain(relay).chain([Self::BeforeAck, Self::AfterAck]).collect()
    }
}

/// How a relay behaves badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum How {
    Later,
    Never,
    NotUs,
    Drop,
    Silence,
    Garbage,
}

/// What an operator asks for beside opening it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Again {
    /// What failed.
    Plain,
    /// Another mail of this action.
    Force(i32),
    /// By the form as it is now.
    Replan,
}

/// One thing that happens. Daemons and submissions are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// A new one, with its event; from now on the number means it.
    Submit(usize, FormKind, Files),
    Deliver(usize),
    Redeliver(usize),
    Lose(usize),
    Reorder,
    ForgetAck,
    Flip(usize, Files),
    Reload(FormKind, usize),
    /// The relay of a daemon misbehaves, to one recipient or to all, so many times.
    Fault(usize, At, How, Option<usize>, u64),
    /// The daemon's next connection to come there is lost.
    CutAt(usize, Point),
    /// The daemon's database is gone, or back.
    Outage(usize, bool),
    /// The daemon's relay is gone, or back.
    RelayDown(usize, bool),
    CrashAt(usize, Point),
    Crash(usize),
    /// Whoever comes there stands still until `Resume`.
    StallAt(usize, Point),
    Resume(usize),
    /// Time passes for everybody, heartbeats and timers with it.
    Advance(u64),
    /// Time passes while every process is asleep.
    Jump(u64),
    Stop(usize),
    /// A pass of the sweep, besides those that its timer makes.
    Sweep(usize),
    /// An operator opens it again.
    Replay(usize, Again),
    /// The next operation follows at once, while this one is still going on.
    Rush,
}

impl Op {
    /// Its name in the count.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Submit(..) => "submit",
            Self::Deliver(_) => "deliver",
            Self::Redeliver(_) => "redeliver",
            Self::Lose(_) => "lose",
            Self::Reorder => "reorder",
            Self::ForgetAck => "forget ack",
            Self::Flip(..) => "flip attachment",
            Self::Reload(..) => "reload forms",
            Self::Fault(..) => "smtp fault",
            Self::CutAt(..) => "cut the database at",
            Self::Outage(_, true) => "database down",
            Self::Outage(_, false) => "database up",
            Self::RelayDown(_, true) => "relay down",
            Self::RelayDown(_, false) => "relay up",
            Self::CrashAt(..) => "crash at",
            Self::Crash(_) => "crash",
            Self::StallAt(..) => "stall at",
            Self::Resume(_) => "resume",
            Self::Advance(_) => "advance",
            Self::Jump(_) => "jump",
            Self::Stop(_) => "stop",
            Self::Sweep(_) => "sweep",
            Self::Replay(..) => "replay",
            Self::Rush => "rush",
        }
    }

    pub(crate) const LABELS: [&'static str; 24] = [
        "submit",
        "deliver",
        "redeliver",
        "lose",
        "reorder",
        "forget ack",
        "flip attachment",
        "reload forms",
        "smtp fault",
        "cut the database at",
        "database down",
        "database up",
        "relay down",
        "relay up",
        "crash at",
        "crash",
        "stall at",
        "resume",
        "advance",
        "jump",
        "stop",
        "sweep",
        "replay",
        "rush",
    ];
}

fn files() -> impl Strategy<Value = Files> {
    prop_oneof![4 => Just(Files::None), 2 => Just(Files::Clean), 3 => Just(Files::Pending), 1 => Just(Files::Infected)]
}

fn form() -> impl Strategy<Value = FormKind> {
    select(vec![FormKind::One, FormKind::Many, FormKind::Two, FormKind::Mixed])
}

fn stage() -> impl Strategy<Value = At> {
    select(At::ALL.to_vec())
}

fn database_point() -> impl Strategy<Value = Point> {
    let likely = [Tx::Claim, Tx::Begin, Tx::Record, Tx::Release];
    select(likely.into_iter().flat_map(|tx| [Point::Before(tx), Point::After(tx)]).collect::<Vec<_>>())
}

fn point() -> impl Strategy<Value = Point> {
    prop_oneof![
        4 => database_point(),
        4 => stage().prop_map(Point::Smtp),
        1 => select(vec![Point::BeforeAck, Point::AfterAck]),
    ]
}

fn stall_point() -> impl Strategy<Value = Point> {
    prop_oneof![database_point(), stage().prop_map(Point::Smtp)]
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        6 => Just(How::Later), 3 => Just(How::Never), 2 => Just(How::NotUs), 4 => Just(How::Drop),
        1 => Just(How::Silence), 1 => Just(How::Garbage),
    ]
}

fn again() -> impl Strategy<Value = Again> {
    prop_oneof![3 => Just(Again::Plain), 1 => (1..3_i32).prop_map(Again::Force), 1 => Just(Again::Replan)]
}

fn fault(daemon: usize) -> impl Strategy<Value = Op> {
    let to = prop_oneof![Just(None), (0..3_usize).prop_map(Some)];
    // Once the 250 is written nothing is left to spoil.
    let at = select(At::ALL[..7].to_vec());
    (at, how(), to, 1..4_u64).prop_map(move |(at, how, to, times)| Op::Fault(daemon, at, how, to, times))
}

fn single() -> impl Strategy<Value = Op> {
    let (sub, daemon) = (0..SUBMISSIONS, 0..DAEMONS);
    prop_oneof![
        6 => (sub.clone(), form(), files()).prop_map(|(sub, form, files)| Op::Submit(sub, form, files)),
        9 => sub.clone().prop_map(Op::Deliver),
        5 => sub.clone().prop_map(Op::Redeliver),
        2 => sub.clone().prop_map(Op::Lose),
        2 => Just(Op::Reorder),
        1 => Just(Op::ForgetAck),
        4 => (sub.clone(), files()).prop_map(|(sub, to)| Op::Flip(sub, to)),
        2 => (form(), 0..4_usize).prop_map(|(form, other)| Op::Reload(form, other)),
        8 => daemon.clone().prop_flat_map(fault),
        3 => (daemon.clone(), database_point()).prop_map(|(daemon, at)| Op::CutAt(daemon, at)),
        2 => (daemon.clone(), any::<bool>()).prop_map(|(daemon, down)| Op::Outage(daemon, down)),
        2 => (daemon.clone(), any::<bool>()).prop_map(|(daemon, down)| Op::RelayDown(daemon, down)),
        8 => (daemon.clone(), point()).prop_map(|(daemon, at)| Op::CrashAt(daemon, at)),
        1 => daemon.clone().prop_map(Op::Crash),
        4 => (daemon.clone(), stall_point()).prop_map(|(daemon, at)| Op::StallAt(daemon, at)),
        3 => daemon.clone().prop_map(Op::Resume),
        12 => prop_oneof![3 => 1..20_u64, 3 => 20..90_u64, 1 => 100..700_u64].prop_map(Op::Advance),
        1 => (100..1300_u64).prop_map(Op::Jump),
        3 => daemon.clone().prop_map(Op::Stop),
        4 => daemon.prop_map(Op::Sweep),
        3 => (sub, again()).prop_map(|(sub, again)| Op::Replay(sub, again)),
        4 => Just(Op::Rush),
    ]
}

/// A few operations that reach what chance alone hardly would.
fn fragment() -> impl Strategy<Value = Vec<Op>> {
    let drawn = (0..SUBMISSIONS, 0..DAEMONS, form(), stall_point(), any::<bool>());
    let sweeps = select(vec![Tx::SweepStuck, Tx::SweepOrphans, Tx::SweepInfected]);
    (drawn, sweeps).prop_flat_map(|((sub, daemon, form, at, before), sweep)| {
        let other = (daemon + 1) % DAEMONS;
        let half = move |tx| if before { Point::Before(tx) } else { Point::After(tx) };
        let both = |op: fn(usize, At, How, Option<usize>, u64) -> Op, how, times| {
            [op(0, At::Rcpt, how, None, times), op(1, At::Rcpt, how, None, times)]
        };
        let later = |times| both(Op::Fault, How::Later, times);
        let [never_0, never_1] = both(Op::Fault, How::Never, 1);
        let (submit, scanned) = (Op::Submit(sub, form, Files::None), Op::Submit(sub, form, Files::Clean));
        // Only this daemon is there to take it, and stands between its claim and its begin.
        let between = [
            Op::Outage(daemon, false),
            Op::Outage(other, true),
            Op::StallAt(daemon, Point::After(Tx::Claim)),
            scanned,
        ];
        let again = [Op::Resume(daemon), Op::Outage(other, false)];
        let all = vec![
            // A fact outlives the database, and the process that knows it; the next one dies while it records it.
            vec![
                Op::Outage(other, true),
                Op::StallAt(daemon, Point::Smtp(At::Stored)),
                submit,
                Op::Outage(daemon, true),
                Op::Resume(daemon),
                Op::Crash(daemon),
                Op::Rush,
                Op::CrashAt(daemon, half(Tx::MergeFacts)),
                Op::Outage(other, false),
            ],
            // A process dies while it touches its claims.
            vec![
                Op::StallAt(daemon, Point::Smtp(At::Stored)),
                submit,
                Op::CrashAt(daemon, half(Tx::Heartbeat)),
                Op::Advance(130),
            ],
            // A process dies while it sweeps, with something to sweep.
            vec![
                Op::Submit(sub, form, Files::Infected),
                Op::Lose(sub),
                Op::CrashAt(0, half(sweep)),
                Op::CrashAt(1, half(sweep)),
                Op::Sweep(daemon),
            ],
            // Infected between claim and begin.
            [&between[..], &[Op::Flip(sub, Files::Infected), Op::CrashAt(daemon, half(Tx::Fail))], &again]
                .concat(),
            [&between[..], &[Op::Flip(sub, Files::Infected), Op::CutAt(daemon, half(Tx::Fail))], &again]
                .concat(),
            // Not clean any more between claim and begin: given back.
            [&between[..], &[Op::Flip(sub, Files::Pending), Op::CrashAt(daemon, half(Tx::Release))], &again]
                .concat(),
            [&between[..], &[Op::Flip(sub, Files::Pending)], &again, &[Op::Flip(sub, Files::Clean)]].concat(),
            // A worker sleeps until its claim has gone to another, and wakes.
            vec![
                Op::StallAt(daemon, at),
                submit,
                Op::Jump(900),
                Op::Advance(70),
                Op::Redeliver(sub),
                Op::Resume(daemon),
            ],
            // Attempts run out.
            [&later(6)[..], &[submit], &[15, 45, 60, 85].map(Op::Advance)].concat(),
            // Ended, and opened again.
            vec![submit, Op::Replay(sub, Again::Force(1)), Op::Redeliver(sub)],
            vec![never_0, never_1, submit, Op::Replay(sub, Again::Plain), Op::Redeliver(sub)],
            vec![submit, Op::Reload(form, 1), Op::Replay(sub, Again::Replan), Op::Redeliver(sub)],
            // Events that wait, in another order.
            vec![Op::Outage(0, true), Op::Outage(1, true), submit, Op::Deliver(other), Op::Reorder],
            // A stop in the middle of a send.
            vec![Op::StallAt(daemon, at), submit, Op::Rush, Op::Stop(daemon)],
        ];
        // The first ones lead to where nothing else does, so they come three times as often.
        select([&all[..6], &all[..6], &all[..]].concat())
    })
}

/// Whoever takes it dies at a certain point: so that every point is reached often.
fn death() -> impl Strategy<Value = Vec<Op>> {
    let point = prop_oneof![select(Point::all()), select(At::ALL.to_vec()).prop_map(Point::Smtp)];
    (0..SUBMISSIONS, form(), point, any::<bool>()).prop_map(|(sub, form, point, later)| {
        let mut ops =
            vec![Op::Outage(0, false), Op::Outage(1, false), Op::CrashAt(0, point), Op::CrashAt(1, point)];
        if later {
            ops.extend([0, 1].map(|daemon| Op::Fault(daemon, At::Rcpt, How::Later, None, 1)));
        }
        ops.push(Op::Submit(sub, form, Files::None));
        ops
    })
}

/// Sequences of at least `length` operations.
pub(crate) fn story(length: usize) -> impl Strategy<Value = Story> {
    let chunk = prop_oneof![12 => single().prop_map(|op| vec![op]), 2 => fragment(), 1 => death()];
    let chunks = proptest::collection::vec(chunk, length);
    // The longest fragment has nine.
    let switches = proptest::collection::vec(proptest::bool::weighted(1.0), length * 9);
    let submission = (form(), files()).prop_map(|(form, files)| Sub(form, files));
    let submissions = proptest::collection::vec(submission, SUBMISSIONS);
    let hold = proptest::bool::weighted(0.25);
    // The switches come first: what is not needed goes before what is needed becomes simpler.
    (switches, chunks, hold, submissions).prop_map(|(switches, chunks, hold, submissions)| {
        let steps = chunks.into_iter().flatten().zip(switches).filter_map(|(op, on)| on.then_some(op));
        Story { hold, submissions, steps: steps.collect() }
    })
}
