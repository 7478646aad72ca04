//! Events of a sequence: operations, and the points at which a process can be caught.

use std::fmt;

use devkit::stage::Source;

/// Submissions of a sequence.
pub(crate) const SUBMISSIONS: usize = 4;
/// Daemons that run side by side.
pub(crate) const DAEMONS: usize = 2;

/// A whole sequence. Its `Debug` is the Rust that makes it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Story {
    /// `routing.in_doubt = "hold"`
    pub(crate) hold: bool,
    /// The submissions.
    pub(crate) submissions: Vec<Sub>,
    /// Operations, in order.
    pub(crate) steps: Vec<Op>,
}

impl fmt::Display for Story {
    /// Prints the Rust that makes the story again.
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

/// A form's first actions; a reload may replace all of it.
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
    AlertLease,
    AlertConfirm,
}

impl Tx {
    pub(crate) const ALL: [Self; 12] = [
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
        Self::AlertLease,
        Self::AlertConfirm,
    ];

    /// The form's name in the product.
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
            Self::AlertLease => "alert_lease",
            Self::AlertConfirm => "alert_confirm",
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

/// A step of a ticket's creation, named after what the help desk has just done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The request's head was read; nothing of the ticket.
    Asked,
    /// The request was read; nothing is made.
    Read,
    /// The ticket is made, and nothing is answered.
    Made,
}

impl Step {
    pub(crate) const ALL: [Self; 3] = [Self::Asked, Self::Read, Self::Made];
}

/// Points at which a process can be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Point {
    /// COMMIT was sent and does not arrive.
    Before(Tx),
    /// COMMIT stands, its answer does not arrive.
    After(Tx),
    /// The relay has read this much.
    Smtp(At),
    /// The help desk has come this far with a ticket.
    Ticket(Step),
    /// Before the ack was passed on; the outbox's status was not committed.
    BeforeAck,
    /// After the ack was passed on; the status was committed.
    AfterAck,
    /// An event was about to be taken from the outbox.
    BeforeTake,
    /// After an event was taken, and its answer was lost.
    AfterTake,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(tx) => write!(f, "{} commit sent", tx.name()),
            Self::After(tx) => write!(f, "{} commit answered", tx.name()),
            Self::Smtp(at) => write!(f, "smtp {}", format!("{at:?}").to_lowercase()),
            Self::Ticket(step) => write!(f, "ticket {}", format!("{step:?}").to_lowercase()),
            Self::BeforeAck => f.write_str("before ack"),
            Self::AfterAck => f.write_str("after ack"),
            Self::BeforeTake => f.write_str("before take"),
            Self::AfterTake => f.write_str("after take"),
        }
    }
}

impl Point {
    pub(crate) fn all(source: Source) -> Vec<Self> {
        let database = Tx::ALL.into_iter().flat_map(|tx| [Self::Before(tx), Self::After(tx)]);
        let relay = At::ALL.into_iter().map(Self::Smtp);
        let desk = Step::ALL.into_iter().map(Self::Ticket);
        database.chain(relay).chain(desk).chain(Self::of_events(source)).collect()
    }

    /// Points at which an event can be caught.
    pub(crate) fn of_events(source: Source) -> Vec<Self> {
        match source {
            Source::Pubsub => vec![Self::BeforeAck, Self::AfterAck],
            Source::Postgres => vec![Self::BeforeAck, Self::AfterAck, Self::BeforeTake, Self::AfterTake],
        }
    }
}

/// Faults of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum How {
    Later,
    Never,
    NotUs,
    Drop,
    Silence,
    Garbage,
}

/// Faults of the help desk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Trouble {
    /// The ticket is made, and the answer to that is lost.
    AnswerLost,
    /// 503 to a creation, and nothing was done.
    Busy,
    /// 503 to a search.
    SearchAway,
    /// No answer to a search.
    SearchSilent,
}

/// Writes that a row refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Refused {
    Nothing,
    Facts,
    Everything,
}

/// An operator's requests beside opening it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Again {
    /// The failed deliveries.
    Plain,
    /// Another mail of this action.
    Force(i32),
    /// By the form as it is now.
    Replan,
}

/// One operation. Daemons and submissions are numbers.
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
    /// A policy that shows attachments to the daemons is dropped, or there again.
    Hide(bool),
    /// The daemon's relay is gone, or back.
    RelayDown(usize, bool),
    /// The help desk misbehaves towards a daemon, so many times.
    Desk(usize, Trouble, u64),
    /// The help desk is gone for a daemon, or back.
    DeskDown(usize, bool),
    CrashAt(usize, Point),
    Crash(usize),
    /// A process at this point stands still until `Resume`.
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
    /// The row takes no fact or no write at all any more, or takes them again.
    Refuse(usize, Refused),
    /// The webhook refuses so many times, with 429 or with 500.
    SlackFault(u64, bool),
    /// Every fault ends, and every caught step goes on.
    Mend,
    /// The next operation follows at once, while this one is still going on.
    Rush,
}

impl Op {
    /// The operation's name in the count.
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
            Self::Hide(true) => "attachments hidden",
            Self::Hide(false) => "attachments shown",
            Self::RelayDown(_, true) => "relay down",
            Self::RelayDown(_, false) => "relay up",
            Self::Desk(_, Trouble::AnswerLost, _) => "ticket answer lost",
            Self::Desk(_, Trouble::Busy, _) => "ticket answered 503",
            Self::Desk(_, Trouble::SearchAway, _) => "search answered 503",
            Self::Desk(_, Trouble::SearchSilent, _) => "search silent",
            Self::DeskDown(_, true) => "help desk down",
            Self::DeskDown(_, false) => "help desk up",
            Self::CrashAt(..) => "crash at",
            Self::Crash(_) => "crash",
            Self::StallAt(..) => "stall at",
            Self::Resume(_) => "resume",
            Self::Advance(_) => "advance",
            Self::Jump(_) => "jump",
            Self::Stop(_) => "stop",
            Self::Sweep(_) => "sweep",
            Self::Replay(..) => "replay",
            Self::Refuse(_, Refused::Facts) => "facts refused",
            Self::Refuse(_, Refused::Everything) => "writes refused",
            Self::Refuse(_, Refused::Nothing) => "writes taken again",
            Self::SlackFault(..) => "slack fault",
            Self::Mend => "mend",
            Self::Rush => "rush",
        }
    }

    pub(crate) const LABELS: [&'static str; 37] = [
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
        "attachments hidden",
        "attachments shown",
        "relay down",
        "relay up",
        "ticket answer lost",
        "ticket answered 503",
        "search answered 503",
        "search silent",
        "help desk down",
        "help desk up",
        "crash at",
        "crash",
        "stall at",
        "resume",
        "advance",
        "jump",
        "stop",
        "sweep",
        "replay",
        "facts refused",
        "writes refused",
        "writes taken again",
        "slack fault",
        "mend",
        "rush",
    ];
}
