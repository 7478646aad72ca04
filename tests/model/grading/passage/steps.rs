//! The steps and laws of [`super`].

use maple_router::grading::intake::{self, Heard, Known, Taken};
use maple_router::grading::job::decide::MOST_RETRIES;
use maple_router::grading::job::table::{Command as JobCommand, Job as JobTable, State as JobState};
use maple_router::grading::table::{ADMIN, Command, Grading, State};
use maple_router::kernel::{Transition, Who};
use stateright::{Model, Property};

use super::super::search::Protocol as _;
use super::super::{
    G1, G1_BACK, G2, G2_ONCE, G3, G3_LOST, G4, G4_ENDS, G6, G6_REVIEW, G6_TOLD, G7, G7_MARKED, G8_CANCEL, G9,
    G9_GOES, G10,
};
use super::{
    Action, Attempt, Broken, END, End, Fault, Grader, Job, LATE, Main, NO_MESSAGE, PLACES, Pass, Passage,
    Person, Rule, Topic, Transport, World, at, says,
};

impl Passage {
    /// An attempt's state after a transition, with what belongs to the same transaction.
    fn arrive(self, attempt: &mut Attempt, to: State) {
        attempt.state = to;
        match to {
            State::Completed if self.has(Rule::FinalTogether) => attempt.finals += 1,
            State::ReviewPending => {
                attempt.entry = self.has(Rule::EntryTogether);
                attempt.owes = !attempt.entry;
            }
            State::Failed => attempt.told = self.has(Rule::FailureTells),
            State::Completed => attempt.owes = true,
            State::Pending | State::Queued | State::Processing | State::Error | State::Retrying => {}
        }
    }

    /// A command of the main side's own.
    fn command(self, attempt: &mut Attempt, command: Command, to: State, by: Who) -> Option<()> {
        let step = Transition::<Grading>::leading(attempt.state, command, to, by).ok()?;
        self.arrive(attempt, step.to());
        Some(())
    }

    fn publish(self, world: &mut World, number: u8) -> Option<()> {
        let together = self.has(Rule::PublishTogether);
        let attempt = world.attempt_mut(number)?;
        let is_first = !attempt.published;
        attempt.published = true;
        if together || !is_first {
            self.command(attempt, Command::RequestPublished, State::Queued, Who::WORKER)?;
            attempt.published = false;
        }
        if is_first {
            world.grades[usize::from(number)] = 1;
        }
        Some(())
    }

    /// One callback: the row is locked, its event inserted, and what follows written.
    fn take(self, world: &mut World, number: u8, place: u8) -> Option<()> {
        let end = world.ends[usize::from(number)];
        // What rests until this is taken in looks again.
        if world.pass == Pass::Rested {
            world.pass = Pass::Due;
        }
        let message = world.callback(number, place);
        message.waits -= 1;
        let was_taken = message.taken;
        if was_taken && self.has(Rule::EventOnce) {
            return Some(());
        }
        let said = match says(place, end) {
            None if !self.has(Rule::Valid) => Some(Heard::Result { review: false }),
            None if !self.has(Rule::Bury) => {
                message.waits += 1;
                return Some(());
            }
            said => said,
        };
        message.taken = true;
        let is_invalid = place == END && end == Some(End::Unreadable);
        world.broken.twice |= was_taken;
        let Some(heard) = said else { return Some(()) };
        let attempt = world.attempt_mut(number)?;
        let mut known = attempt.known();
        if !self.has(Rule::EndStays) && known.state == State::Failed {
            known.state = State::Processing;
        }
        if !self.has(Rule::Newer) {
            known = Known { heard: (0, 0), ..known };
        }
        let Ok(taken) = intake::take(known, at(place), heard) else {
            world.broken.early = true;
            return Some(());
        };
        let is_end = place == END;
        match taken {
            Taken::Moves(ways) => {
                attempt.has_ai |= matches!(heard, Heard::Result { .. });
                attempt.is_invalid |= is_invalid;
                for way in ways {
                    self.arrive(attempt, way.to());
                }
                if !is_end {
                    attempt.heard = place + 1;
                }
            }
            Taken::Noted => attempt.heard = place + 1,
            Taken::Old => {}
            Taken::Late if self.has(Rule::LateMarked) => attempt.late = true,
            Taken::Late => {
                attempt.has_ai = true;
                world.broken.unmarked = true;
            }
            Taken::Second => {
                attempt.twin = true;
                if !self.has(Rule::FirstWins) {
                    attempt.finals += 1;
                }
            }
        }
        Some(())
    }

    /// The scheduler's pass: what is due is failed under its lock, and the grader told.
    fn sweep(self, world: &mut World) -> Option<()> {
        let (number, attempt) = world.current()?;
        let is_seen = self.has(Rule::EveryPhase) || attempt.state != State::Queued;
        let is_reviewed = attempt.state == State::ReviewPending && !self.has(Rule::NotInReview);
        let has_looked = world.pass == Pass::Looked;
        let waits = world.waits(number) && self.has(Rule::IntakeFirst) && !has_looked;
        world.pass = if waits { Pass::Rested } else { Pass::Done };
        if waits || !is_seen || !attempt.state.is_timed() && !is_reviewed {
            return Some(());
        }
        if !has_looked && !self.has(Rule::WaitsUnderLock) {
            world.pass = Pass::Looked;
            return Some(());
        }
        let to = if is_reviewed { State::Failed } else { intake::time_out(attempt.state).ok()?.to() };
        self.arrive(world.attempt_mut(number)?, to);
        if attempt.state != State::Pending {
            if self.has(Rule::CancelByMessage) {
                world.cancels[usize::from(number)] = 1;
            } else if let Some(job) = world.job_mut(number) {
                job.cancelled = true;
            }
        }
        Some(())
    }

    /// A job's move, and the callback that it writes.
    fn move_job(self, world: &mut World, number: u8, command: JobCommand, place: u8) -> Option<()> {
        let job = world.job_mut(number)?;
        job.state = Transition::<JobTable>::of(job.state, command, Who::WORKER).ok()?.to();
        world.callback(number, place).waits += 1;
        if !self.has(Rule::CallbackOnly)
            && job_is(world, number, JobState::Processing)
            && let Some(attempt) = world.attempt_mut(number).filter(|attempt| attempt.state == State::Queued)
        {
            attempt.state = State::Processing;
        }
        Some(())
    }

    /// `job::decide::after`, without its pause: all retries but one were made.
    fn decide(self, world: &mut World, number: u8) -> Option<()> {
        let job = world.job(number)?;
        let retries = MOST_RETRIES - u32::from(!job.has_retried);
        let is_final = job.error != Some(Fault::Answer) || retries >= MOST_RETRIES;
        if is_final || self.is_stopped(world, number) {
            let invalid = job.error == Some(Fault::Invalid);
            world.ends[usize::from(number)] = Some(End::Error { invalid });
            return self.move_job(world, number, JobCommand::GaveUp, END);
        }
        world.job_mut(number)?.has_retried = true;
        self.move_job(world, number, JobCommand::Retry, 2)
    }

    fn fail(self, world: &mut World, number: u8, error: Option<Fault>) -> Option<()> {
        let job = world.job_mut(number)?;
        (job.calls, job.error) = (false, error);
        let place = if job.has_retried { 4 } else { 1 };
        self.move_job(world, number, JobCommand::TryFailed, place)
    }

    fn at_main(self, world: &mut World, step: Main) -> Option<()> {
        match step {
            Main::Submit => world.attempts[0] = Some(Attempt::BORN),
            Main::Publish(number) => return self.publish(world, number),
            Main::Compare(number) => {
                let attempt = world.attempt_mut(number)?;
                return self.command(attempt, Command::AutoGraded, State::Completed, Who::WORKER);
            }
            Main::RefuseJob(number) => {
                world.faults -= 1;
                let attempt = world.attempt_mut(number)?;
                return self.command(attempt, Command::InvalidJob, State::Failed, Who::WORKER);
            }
            Main::PayDebt(number) => {
                let attempt = world.attempt_mut(number)?;
                attempt.owes = false;
                if attempt.state == State::ReviewPending {
                    attempt.entry = true;
                } else {
                    attempt.finals += 1;
                }
            }
            Main::Take(number, place) => return self.take(world, number, place),
            Main::Sweep => return self.sweep(world),
            Main::Claim => {
                world.broken.mail |= !world.may_be_mailed();
                world.mailed = true;
            }
            Main::Down => {
                world.faults -= 1;
                world.is_down = true;
            }
            Main::Up => world.is_down = false,
            Main::Tick => {
                let (_, attempt) = world.current()?;
                let is_slow = attempt.state.is_timed() && world.pass == Pass::Done && world.age >= LATE;
                world.broken.slow |= is_slow;
                world.age += 1;
                world.pass = Pass::Due;
            }
        }
        Some(())
    }

    fn decide_as(self, world: &mut World, step: Person) -> Option<()> {
        match step {
            Person::Look => world.reviewers = 2,
            Person::Review => {
                world.reviewers -= 1;
                let (number, _) = world.current()?;
                let attempt = world.attempt_mut(number)?;
                let done = self.command(attempt, Command::Reviewed, State::Completed, ADMIN);
                // Whoever was not first gets 409.
                if done.is_some() {
                    attempt.entry = false;
                } else if !self.has(Rule::Version) {
                    attempt.finals += 1;
                }
            }
            Person::Release => {
                world.faults -= 1;
                let (number, _) = world.current()?;
                world.attempt_mut(number)?.released = true;
            }
            Person::Regrade => {
                world.faults -= 1;
                let (_, old) = world.current()?;
                let released = old.released && self.has(Rule::ReleaseKept);
                world.attempts[1] = Some(Attempt { released, ..Attempt::BORN });
                (world.age, world.pass) = (0, Pass::Due);
            }
        }
        Some(())
    }

    fn at_grader(self, world: &mut World, step: Grader) -> Option<()> {
        match step {
            Grader::TakeGrade(number) => {
                world.grades[usize::from(number)] -= 1;
                let Some(job) = world.job(number) else {
                    let state = Transition::<JobTable>::birth(JobCommand::Accept, Who::SYSTEM).ok()?.to();
                    let job = Job { state, has_retried: false, calls: false, cancelled: false, error: None };
                    world.jobs[usize::from(number)] = Some(job);
                    return Some(());
                };
                // It is known: what was said last is said again.
                if let Some(place) = last_of(job) {
                    let message = world.callback(number, place);
                    message.waits = (message.waits + 1).min(2);
                }
            }
            Grader::TakeCancel(number) => {
                world.cancels[usize::from(number)] -= 1;
                world.heeded[usize::from(number)] = true;
                if let Some(job) = world.job_mut(number).filter(|job| !job.state.is_final()) {
                    job.cancelled = true;
                }
            }
            Grader::Go(number) => {
                let job = world.job(number)?;
                return match job.state {
                    JobState::Queued => self.move_job(world, number, JobCommand::PickedUp, 0),
                    JobState::Retrying => self.move_job(world, number, JobCommand::RetryDue, 3),
                    JobState::Error => self.decide(world, number),
                    JobState::Processing | JobState::Completed | JobState::Failed => None,
                };
            }
            Grader::Call(number) => {
                world.broken.call |= world.heeded[usize::from(number)];
                world.job_mut(number)?.calls = true;
            }
            Grader::Stop(number) => return self.fail(world, number, None),
            Grader::Answer(number, end) => {
                world.faults -= u8::from(end == End::Unreadable);
                world.job_mut(number)?.calls = false;
                world.ends[usize::from(number)] = Some(end);
                return self.move_job(world, number, JobCommand::Complete, END);
            }
            Grader::Fail(number, fault) => {
                world.faults -= 1;
                return self.fail(world, number, Some(fault));
            }
            Grader::SetBack(number) => {
                world.faults -= 1;
                world.jobs[usize::from(number)] = None;
                world.ends[usize::from(number)] = None;
                // Another job's callbacks have other ids.
                world.callbacks[usize::from(number)] = [NO_MESSAGE; PLACES];
                world.grades[usize::from(number)] += 1;
            }
        }
        Some(())
    }

    fn at_topic(world: &mut World, step: Topic) -> Option<()> {
        match step {
            Topic::DoubleGrade(number) => {
                world.faults -= 1;
                world.grades[usize::from(number)] += 1;
            }
            Topic::Double(number, place) => {
                world.faults -= 1;
                world.callback(number, place).waits += 1;
            }
            Topic::Delay(number, place) => {
                world.faults -= 1;
                let message = world.callback(number, place);
                message.waits -= 1;
                message.away = true;
            }
            Topic::Arrive(number, place) => {
                let message = world.callback(number, place);
                message.waits += 1;
                message.away = false;
            }
        }
        Some(())
    }

    /// Faults, and what people wish, each of which costs one.
    fn faults(self, world: &World, actions: &mut Vec<Action>) {
        if let Some((number, attempt)) = world.current() {
            let waits = world.form.gate && !world.mailed && attempt.state != State::Completed;
            if waits && !attempt.released {
                actions.push(Action::Person(Person::Release));
            }
            if number == 0 && attempt.state == State::Failed {
                actions.push(Action::Person(Person::Regrade));
            }
        }
        if !world.is_down && world.current().is_some() {
            actions.push(Action::Main(Main::Down));
        }
        for number in 0..2 {
            let pending = world.attempt(number).is_some_and(|attempt| attempt.state == State::Pending);
            if pending && !world.is_down {
                actions.push(Action::Main(Main::RefuseJob(number)));
            }
            let callbacks = world.callbacks[usize::from(number)];
            let is_quiet = callbacks.iter().all(|message| message.waits == 0 && !message.away);
            match world.job(number) {
                Some(job) if job.state == JobState::Processing && job.calls => {
                    actions.push(Action::Grader(Grader::Answer(number, End::Unreadable)));
                    let faults = [Fault::Answer, Fault::Invalid].map(|fault| Grader::Fail(number, fault));
                    actions.extend(faults.map(Action::Grader));
                }
                Some(job) if job.state.is_final() && is_quiet => {
                    actions.push(Action::Grader(Grader::SetBack(number)));
                }
                Some(_) | None => {}
            }
            if self.transport == Transport::Postgres {
                continue;
            }
            if world.grades[usize::from(number)] == 1 {
                actions.push(Action::Topic(Topic::DoubleGrade(number)));
            }
            for (place, message) in (0..).zip(callbacks) {
                if message.waits == 1 && !message.away {
                    let topic = [Topic::Double(number, place), Topic::Delay(number, place)];
                    actions.extend(topic.map(Action::Topic));
                }
            }
        }
    }
}

fn job_is(world: &World, number: u8, state: JobState) -> bool {
    world.job(number).is_some_and(|job| job.state == state)
}

/// The place of what a job said last.
fn last_of(job: Job) -> Option<u8> {
    match (job.state, job.has_retried) {
        (JobState::Queued, _) => None,
        (JobState::Processing, false) => Some(0),
        (JobState::Processing, true) => Some(3),
        (JobState::Error, false) => Some(1),
        (JobState::Error, true) => Some(4),
        (JobState::Retrying, _) => Some(2),
        (JobState::Completed | JobState::Failed, _) => Some(END),
    }
}

/// The laws of a step, told from its two worlds.
fn judge(last: &World, action: Action, world: &mut World) {
    for number in 0..2 {
        let Some((before, after)) = last.attempt(number).zip(world.attempt(number)) else { continue };
        let is_timeout = action == Action::Main(Main::Sweep)
            && after.state == State::Failed
            && before.state != after.state;
        world.broken.end_changed |= before.state.is_final() && before.state != after.state;
        world.broken.older |= after.heard < before.heard;
        world.broken.timeout |= is_timeout && (!before.state.is_timed() || last.waits(number));
    }
    world.broken.foreign |= match action {
        Action::Grader(_) => last.attempts != world.attempts,
        Action::Main(_) | Action::Person(_) | Action::Topic(_) => last.jobs != world.jobs,
    };
}

impl Model for Passage {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let world = |form| World {
            form,
            attempts: [None; 2],
            jobs: [None; 2],
            grades: [0; 2],
            cancels: [0; 2],
            heeded: [false; 2],
            callbacks: [[NO_MESSAGE; PLACES]; 2],
            ends: [None; 2],
            age: 0,
            pass: Pass::Due,
            is_down: false,
            mailed: false,
            reviewers: 0,
            faults: self.faults,
            broken: Broken::default(),
        };
        self.forms.iter().copied().map(world).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.goes_on(world));
        if world.reviewers > 0 {
            actions.push(Action::Person(Person::Review));
        } else if world.current().is_some_and(|(_, attempt)| attempt.entry) {
            actions.push(Action::Person(Person::Look));
        }
        if world.faults > 0 {
            self.faults(world, actions);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        match action {
            Action::Main(step) => self.at_main(&mut world, step)?,
            Action::Person(step) => self.decide_as(&mut world, step)?,
            Action::Grader(step) => self.at_grader(&mut world, step)?,
            Action::Topic(step) => Self::at_topic(&mut world, step)?,
        }
        judge(last, action, &mut world);
        world.forget();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = laws();
        properties.extend(reached());
        properties
    }
}

fn every(world: &World, holds: impl Fn(&Attempt) -> bool) -> bool {
    world.attempts.iter().flatten().all(holds)
}

fn laws() -> Vec<Property<Passage>> {
    vec![
        Property::always(G1, |_, world: &World| !world.broken.end_changed),
        Property::always(G1_BACK, |_, world: &World| !world.broken.older),
        Property::always(G2, |_, world: &World| every(world, |attempt| attempt.finals <= 1)),
        Property::always(G2_ONCE, |_, world: &World| !world.broken.twice),
        Property::always(G3, |_, world: &World| !world.broken.timeout),
        Property::always(G3_LOST, |_, world: &World| !world.broken.early),
        Property::always(G4, |_, world: &World| !world.broken.slow),
        Property::always(G4_ENDS, |model: &Passage, world: &World| {
            world.is_ended() || !model.goes_on(world).is_empty()
        }),
        Property::always(G6, |_, world: &World| {
            every(world, |attempt| {
                attempt.state != State::Completed || attempt.finals > 0 && !attempt.is_invalid
            })
        }),
        Property::always(G6_REVIEW, |_, world: &World| {
            every(world, |attempt| attempt.state != State::ReviewPending || attempt.has_ai && attempt.entry)
        }),
        Property::always(G6_TOLD, |_, world: &World| {
            every(world, |attempt| attempt.state != State::Failed || attempt.told)
        }),
        Property::always(G7, |model: &Passage, world: &World| !model.counts_late(world)),
        Property::always(G7_MARKED, |_, world: &World| !world.broken.unmarked),
        Property::always(G8_CANCEL, |_, world: &World| !world.broken.call),
        Property::always(G9, |_, world: &World| !world.broken.mail),
        Property::always(G9_GOES, |model: &Passage, world: &World| {
            world.mailed || !world.may_be_mailed() || !model.goes_on(world).is_empty()
        }),
        Property::always(G10, |_, world: &World| !world.broken.foreign),
    ]
}

fn some(world: &World, state: State) -> bool {
    !every(world, |attempt| attempt.state != state)
}

/// Every state, every answer of the intake, and what the laws are about.
fn reached() -> Vec<Property<Passage>> {
    vec![
        Property::sometimes("PENDING", |_, world: &World| some(world, State::Pending)),
        Property::sometimes("QUEUED", |_, world: &World| some(world, State::Queued)),
        Property::sometimes("PROCESSING", |_, world: &World| some(world, State::Processing)),
        Property::sometimes("ERROR", |_, world: &World| some(world, State::Error)),
        Property::sometimes("RETRYING", |_, world: &World| some(world, State::Retrying)),
        Property::sometimes("REVIEW_PENDING", |_, world: &World| some(world, State::ReviewPending)),
        Property::sometimes("COMPLETED", |_, world: &World| some(world, State::Completed)),
        Property::sometimes("FAILED", |_, world: &World| some(world, State::Failed)),
        Property::sometimes("a callback moves", |_, world: &World| {
            world.comes(|taken| matches!(taken, Ok(Taken::Moves(_))))
        }),
        Property::sometimes("a callback implies two steps that nobody heard of", |_, world: &World| {
            world.comes(|taken| matches!(taken, Ok(Taken::Moves(ways)) if ways.len() == 3))
        }),
        Property::sometimes("a callback is noted", |_, world: &World| {
            world.comes(|taken| matches!(taken, Ok(Taken::Noted)))
        }),
        Property::sometimes("a callback is old", |_, world: &World| {
            world.comes(|taken| matches!(taken, Ok(Taken::Old)))
        }),
        Property::sometimes("a callback is late", |_, world: &World| {
            world.comes(|taken| matches!(taken, Ok(Taken::Late)))
        }),
        Property::sometimes("a callback is a second one", |_, world: &World| {
            world.comes(|taken| matches!(taken, Ok(Taken::Second)))
        }),
        Property::sometimes("the scheduler rests for the intake", |_, world: &World| {
            world.pass == Pass::Rested && world.faults == 0
        }),
        Property::sometimes("a second reviewer is too late", |_, world: &World| {
            world.reviewers > 0 && some(world, State::Completed)
        }),
        Property::sometimes("a late result stands beside the regrade's own", |_, world: &World| {
            let [Some(first), Some(second)] = world.attempts else { return false };
            first.late && second.state == State::Completed
        }),
        Property::sometimes("a person takes their time", |_, world: &World| {
            world.age > LATE && some(world, State::ReviewPending)
        }),
        Property::sometimes("a deadline passes before the request is published", |_, world: &World| {
            world.current().is_some_and(|(number, attempt)| {
                attempt.state == State::Failed
                    && world.age >= LATE
                    && world.cancels[usize::from(number)] == 0
                    && world.grades[usize::from(number)] == 0
                    && world.job(number).is_none()
            })
        }),
    ]
}
