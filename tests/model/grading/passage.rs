//! The passage of a submission: up to two attempts, publication, both queues, intake, the scheduler and its clock, reviewers, release,
//! regrade, routing's claim, and a grader whose job moves by the product's table, one callback a move. Its leases are [`super::jobs`]'s.
//!
//! Messages come in any order. From a topic they come twice, or later than the next pass, for a fault each; so do a failed try, an answer
//! that is none, an outage of the main side, and a grader's database that is set back, whose job then says everything again. A regrade and
//! a release are of the same few. What progress an attempt hears of after its regrade is not kept: it is old, which is looked at.

mod steps;

use maple_router::grading::intake::{self, Heard, Known, Progress, Taken};
use maple_router::grading::job::table::State as JobState;
use maple_router::grading::table::State;
use maple_router::kernel::NotPossible;

use super::search::Protocol;
use super::{
    G1, G1_BACK, G2, G2_ONCE, G3, G3_LOST, G4, G4_ENDS, G4_RESTS, G6, G6_REVIEW, G6_TOLD, G7, G7_MARKED,
    G8_CANCEL, G9, G9_GOES, G10,
};

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// What comes after an end moves nothing.
    EndStays,
    /// Progress that is not newer than what is known says nothing.
    Newer,
    /// An event's id is taken in once.
    EventOnce,
    /// Of two results the first stays the final one.
    FirstWins,
    /// A review is of what was seen: a state that it has not left since.
    Version,
    /// A request is in the queue when its attempt is QUEUED.
    PublishTogether,
    /// Nothing is timed out while a callback of it waits.
    IntakeFirst,
    /// That is asked under the lock, and not before.
    WaitsUnderLock,
    /// A person may take their time.
    NotInReview,
    /// The deadline runs in every phase, not only while the grader works.
    EveryPhase,
    /// There is a scheduler.
    Scheduler,
    /// A message that cannot be read is buried, and waits no more.
    Bury,
    /// A result is looked through before it is taken in.
    Valid,
    /// The final result is of the transaction that completes.
    FinalTogether,
    /// So is the entry of what is to be reviewed.
    EntryTogether,
    /// So is the entry of what has failed.
    FailureTells,
    /// Progress is made of final results, and not of whatever there is.
    Counted,
    /// A result that came late is marked.
    LateMarked,
    /// A grader heeds the deadline that its request names: a `cancel` may come before it.
    GraderDeadline,
    /// Routing's claim asks the gate.
    GateAtClaim,
    /// A gated form's submission without an attempt waits.
    GateShut,
    /// The gate asks for an end, and not for a result.
    GateByEnd,
    /// A regrade keeps the release.
    ReleaseKept,
    /// The main side tells the grader, and stops no job itself.
    CancelByMessage,
    /// The grader tells the main side, and moves no attempt itself.
    CallbackOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Transport {
    /// A message is a row that is taken in once.
    Postgres,
    /// It comes at least once.
    Topic,
}

/// What the form's profile says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Form {
    /// Compared with a key.
    has_key: bool,
    gate: bool,
    /// Without a grade it is mailed all the same.
    sends: bool,
}

/// Its mail waits, whatever becomes of it.
const HELD: [Form; 1] = [Form { has_key: false, gate: true, sends: false }];
const OTHERS: [Form; 3] = [
    Form { has_key: false, gate: true, sends: true },
    Form { has_key: false, gate: false, sends: false },
    Form { has_key: true, gate: true, sends: false },
];

/// A row of `assessment.submissions`, with its results and entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Attempt {
    state: State,
    /// The newest progress: a callback's place, from 1.
    heard: u8,
    has_ai: bool,
    finals: u8,
    is_invalid: bool,
    late: bool,
    twin: bool,
    /// Of review, and of a failure.
    entry: bool,
    told: bool,
    released: bool,
    /// Only without a rule: moved, and what belongs to it not yet written; and a request before its attempt is QUEUED.
    owes: bool,
    published: bool,
}

/// A row of `grading.jobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Job {
    state: JobState,
    has_retried: bool,
    /// A call has begun, and nobody has answered yet.
    calls: bool,
    cancelled: bool,
    error: Option<Fault>,
}

/// What is wrong with a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// An answer that is none: another try may succeed.
    Answer,
    /// No job at all.
    Invalid,
}

/// What a job says last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Result {
        review: bool,
    },
    Error {
        invalid: bool,
    },
    /// A result that is not of its schema.
    Unreadable,
}

/// A message: how often it waits, whether it is on its way for longer than anybody can see, and whether its event was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Message {
    waits: u8,
    away: bool,
    taken: bool,
}

const NO_MESSAGE: Message = Message { waits: 0, away: false, taken: false };

/// A job's callbacks: two tries of two each, the planning of the second between them, and the end.
const PLACES: usize = 6;
const END: u8 = 5;

/// The scheduler in this tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pass {
    Due,
    /// Only without the lock: it has looked, and not yet written.
    Looked,
    Done,
    /// A callback waited.
    Rested,
}

/// Laws that a step breaks, and not a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Broken {
    end_changed: bool,
    older: bool,
    twice: bool,
    timeout: bool,
    early: bool,
    slow: bool,
    call: bool,
    unmarked: bool,
    mail: bool,
    foreign: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    form: Form,
    attempts: [Option<Attempt>; 2],
    jobs: [Option<Job>; 2],
    /// `grade` and `cancel`, and that a `cancel` was taken in.
    grades: [u8; 2],
    cancels: [u8; 2],
    heeded: [bool; 2],
    callbacks: [[Message; PLACES]; 2],
    ends: [Option<End>; 2],
    /// Ticks of the current attempt: its deadline has passed in the third.
    age: u8,
    pass: Pass,
    is_down: bool,
    mailed: bool,
    /// Reviewers who have the review on the screen: two have looked at once.
    reviewers: u8,
    faults: u8,
    broken: Broken,
}

/// Ticks in which the deadline has passed: one for a pass, one to see that it was there.
const LATE: u8 = 2;
const LAST: u8 = 3;

/// Steps of the main side: transactions, its outage, and the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Main {
    Submit,
    Publish(u8),
    Compare(u8),
    RefuseJob(u8),
    PayDebt(u8),
    Take(u8, u8),
    Sweep,
    Claim,
    Down,
    Up,
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Person {
    Look,
    Review,
    Release,
    Regrade,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Grader {
    TakeGrade(u8),
    TakeCancel(u8),
    Go(u8),
    Call(u8),
    Stop(u8),
    Answer(u8, End),
    Fail(u8, Fault),
    SetBack(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    DoubleGrade(u8),
    Double(u8, u8),
    Delay(u8, u8),
    Arrive(u8, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Main(Main),
    Person(Person),
    Grader(Grader),
    Topic(Topic),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    without: Option<Rule>,
    transport: Transport,
    forms: &'static [Form],
    faults: u8,
}

pub(super) const POSTGRES: Passage =
    Passage { without: None, transport: Transport::Postgres, forms: &HELD, faults: 2 };
pub(super) const TOPIC: Passage = Passage { transport: Transport::Topic, ..POSTGRES };
/// Forms whose mail goes sooner, or that are compared with a key.
pub(super) const FORMS: Passage = Passage { forms: &OTHERS, faults: 1, ..POSTGRES };

pub(super) fn each_rule(breaks: impl Fn(Rule, &'static str, Passage)) {
    for (rule, law) in [
        (Rule::EndStays, G1),
        (Rule::Newer, G1_BACK),
        (Rule::FirstWins, G2),
        (Rule::Version, G2),
        (Rule::EventOnce, G2_ONCE),
        (Rule::IntakeFirst, G3),
        (Rule::WaitsUnderLock, G3),
        (Rule::NotInReview, G3),
        (Rule::PublishTogether, G3_LOST),
        (Rule::EveryPhase, G4),
        (Rule::Scheduler, G4_ENDS),
        (Rule::Bury, G4_RESTS),
        (Rule::Valid, G6),
        (Rule::FinalTogether, G6),
        (Rule::EntryTogether, G6_REVIEW),
        (Rule::FailureTells, G6_TOLD),
        (Rule::Counted, G7),
        (Rule::GateByEnd, G7),
        (Rule::LateMarked, G7_MARKED),
        (Rule::GraderDeadline, G8_CANCEL),
        (Rule::GateAtClaim, G9),
        (Rule::GateShut, G9),
        (Rule::GateByEnd, G9),
        (Rule::ReleaseKept, G9_GOES),
        (Rule::CancelByMessage, G10),
        (Rule::CallbackOnly, G10),
    ] {
        // Circles are looked for to the end.
        let faults = if law == G4_RESTS { 1 } else { TOPIC.faults };
        breaks(rule, law, Passage { without: Some(rule), faults, ..TOPIC });
    }
}

/// What a callback says, by its place and the end that its job came to.
fn says(place: u8, end: Option<End>) -> Option<Heard> {
    Some(match place {
        0 | 3 => Heard::Progress(Progress::Processing),
        1 | 4 => Heard::Progress(Progress::Error),
        2 => Heard::Progress(Progress::Retrying),
        _ => match end? {
            End::Result { review } => Heard::Result { review },
            End::Error { invalid } => Heard::Error { invalid },
            End::Unreadable => return None,
        },
    })
}

/// A callback's try, and its number.
fn at(place: u8) -> (u32, u32) {
    (1 + u32::from(place) / 3, 1 + u32::from(place))
}

impl World {
    fn attempt(&self, number: u8) -> Option<Attempt> {
        self.attempts[usize::from(number)]
    }

    fn attempt_mut(&mut self, number: u8) -> Option<&mut Attempt> {
        self.attempts[usize::from(number)].as_mut()
    }

    fn job(&self, number: u8) -> Option<Job> {
        self.jobs[usize::from(number)]
    }

    fn job_mut(&mut self, number: u8) -> Option<&mut Job> {
        self.jobs[usize::from(number)].as_mut()
    }

    fn callback(&mut self, number: u8, place: u8) -> &mut Message {
        &mut self.callbacks[usize::from(number)][usize::from(place)]
    }

    /// The attempt that counts, and its number.
    fn current(&self) -> Option<(u8, Attempt)> {
        (0..2).rev().find_map(|number| Some((number, self.attempt(number)?)))
    }

    /// Whether a callback of an attempt is there and was not taken in.
    fn waits(&self, number: u8) -> bool {
        self.callbacks[usize::from(number)].iter().any(|message| message.waits > 0)
    }

    /// Whether an attempt's deadline has passed, by the clock that both sides have.
    fn is_overdue(&self, number: u8) -> bool {
        self.age >= LATE || self.current().is_some_and(|(current, _)| number < current)
    }

    /// Which of the answers the callbacks that wait would have.
    fn comes(&self, wanted: fn(&Result<Taken, NotPossible>) -> bool) -> bool {
        (0..2).any(|number| {
            let Some(attempt) = self.attempt(number) else { return false };
            let known = attempt.known();
            (0_u8..).zip(self.callbacks[usize::from(number)]).any(|(place, message)| {
                let said = says(place, self.ends[usize::from(number)]);
                message.waits > 0
                    && !message.taken
                    && said.is_some_and(|heard| wanted(&intake::take(known, at(place), heard)))
            })
        })
    }

    /// Forgets what makes no difference any more, so that worlds are fewer: of an attempt that was opened again, its progress; of one that
    /// has ended, the scheduler.
    fn forget(&mut self) {
        let Some((current, attempt)) = self.current() else { return };
        if attempt.state.is_final() {
            (self.age, self.pass) = (self.age.min(LATE), Pass::Due);
        }
        if self.mailed {
            for attempt in self.attempts.iter_mut().flatten() {
                attempt.released = false;
            }
        }
        let Some(old) = self.attempt(0).filter(|_| current > 0) else { return };
        for (place, message) in (0..END).zip(&mut self.callbacks[0]) {
            let heard = says(place, None).expect("progress");
            assert_eq!(intake::take(old.known(), at(place), heard), Ok(Taken::Old), "after its end");
            *message = NO_MESSAGE;
        }
    }

    /// What G9 asks, told from the contract's prose and not from the gate.
    fn may_be_mailed(&self) -> bool {
        let is_released = self.attempts.iter().flatten().any(|attempt| attempt.released);
        !self.form.gate
            || is_released
            || self.current().is_some_and(|(_, attempt)| {
                attempt.state == State::Completed || attempt.state == State::Failed && self.form.sends
            })
    }

    /// At rest: ended, or a person's.
    fn is_ended(&self) -> bool {
        let is_graded = self.current().is_some_and(|(_, attempt)| {
            attempt.state.is_final() || attempt.state == State::ReviewPending && attempt.entry
        });
        is_graded && self.jobs.iter().flatten().all(|job| job.state.is_final())
    }
}

impl Attempt {
    const BORN: Self = Self {
        state: State::Pending,
        heard: 0,
        has_ai: false,
        finals: 0,
        is_invalid: false,
        late: false,
        twin: false,
        entry: false,
        told: false,
        released: false,
        owes: false,
        published: false,
    };

    fn known(self) -> Known {
        let heard = self.heard.checked_sub(1).map_or((0, 0), at);
        Known { state: self.state, heard }
    }
}

impl Passage {
    fn has(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// The gate, with the rules that are there.
    fn passes(self, world: &World) -> bool {
        let Some((_, attempt)) = world.current() else {
            return !world.form.gate || !self.has(Rule::GateShut);
        };
        let has_result = attempt.has_ai || attempt.late || attempt.finals > 0;
        !world.form.gate
            || attempt.state == State::Completed
            || attempt.released
            || attempt.state == State::Failed && world.form.sends
            || has_result && !self.has(Rule::GateByEnd)
            || !self.has(Rule::GateAtClaim)
    }

    /// Whether a late result is counted anywhere: in a learner's progress, or as what opens the gate.
    fn counts_late(self, world: &World) -> bool {
        world.current().is_some_and(|(_, attempt)| {
            let has_no_grade = attempt.late && attempt.state != State::Completed;
            let opens = self.passes(world) && !world.may_be_mailed();
            has_no_grade && (!self.has(Rule::Counted) || opens)
        })
    }

    /// Whether a job's next call does not begin.
    fn is_stopped(self, world: &World, number: u8) -> bool {
        let is_overdue = world.is_overdue(number) && self.has(Rule::GraderDeadline);
        is_overdue || world.job(number).is_some_and(|job| job.cancelled)
    }

    fn go_on_at_main(self, world: &World, actions: &mut Vec<Main>) {
        if world.is_down {
            actions.push(Main::Up);
        } else {
            if !world.mailed && self.passes(world) {
                actions.push(Main::Claim);
            }
            let Some((current, attempt)) = world.current() else {
                actions.push(Main::Submit);
                return;
            };
            if attempt.state == State::Pending {
                actions.push(if world.form.has_key {
                    Main::Compare(current)
                } else {
                    Main::Publish(current)
                });
            }
            for number in 0..2 {
                if world.attempt(number).is_some_and(|attempt| attempt.owes) {
                    actions.push(Main::PayDebt(number));
                }
                let callbacks = (0..).zip(world.callbacks[usize::from(number)]);
                let waiting = callbacks.filter(|(_, message)| message.waits > 0);
                actions.extend(waiting.map(|(place, _)| Main::Take(number, place)));
            }
            let looks = matches!(world.pass, Pass::Due | Pass::Looked) && self.has(Rule::Scheduler);
            if looks && world.age >= LATE && !attempt.state.is_final() {
                actions.push(Main::Sweep);
            }
        }
        let has_passed = matches!(world.pass, Pass::Done | Pass::Rested)
            || world.age < LATE
            || world.is_down
            || !self.has(Rule::Scheduler);
        let is_open = world.current().is_some_and(|(_, attempt)| !attempt.state.is_final());
        if has_passed && is_open && world.age < LAST {
            actions.push(Main::Tick);
        }
    }

    fn go_on_at_grader(self, world: &World, actions: &mut Vec<Grader>) {
        for number in 0..2 {
            if world.grades[usize::from(number)] > 0 {
                actions.push(Grader::TakeGrade(number));
            }
            if world.cancels[usize::from(number)] > 0 {
                actions.push(Grader::TakeCancel(number));
            }
            let Some(job) = world.job(number) else { continue };
            match job.state {
                JobState::Queued | JobState::Error | JobState::Retrying => actions.push(Grader::Go(number)),
                JobState::Processing if job.calls => {
                    let ends = [false, true].map(|review| Grader::Answer(number, End::Result { review }));
                    actions.extend(ends);
                }
                JobState::Processing if self.is_stopped(world, number) => actions.push(Grader::Stop(number)),
                JobState::Processing => actions.push(Grader::Call(number)),
                JobState::Completed | JobState::Failed => {}
            }
        }
    }
}

impl Protocol for Passage {
    fn goes_on(&self, world: &World) -> Vec<Action> {
        let (mut at_main, mut at_grader) = (Vec::new(), Vec::new());
        self.go_on_at_main(world, &mut at_main);
        self.go_on_at_grader(world, &mut at_grader);
        let mut actions: Vec<Action> = at_main.into_iter().map(Action::Main).collect();
        actions.extend(at_grader.into_iter().map(Action::Grader));
        for number in 0..2 {
            let callbacks = (0..).zip(world.callbacks[usize::from(number)]);
            let away = callbacks.filter(|(_, message)| message.away);
            actions.extend(away.map(|(place, _)| Action::Topic(Topic::Arrive(number, place))));
        }
        actions
    }
}
