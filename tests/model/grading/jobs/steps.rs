//! The steps and laws of [`super`].

use maple_router::grading::job::decide::MOST_RETRIES;
use maple_router::grading::job::table::{Command, Job as Table, State};
use maple_router::kernel::{Transition, Who};
use stateright::{Model, Property};

use super::super::search::Protocol as _;
use super::super::{G2_JOB, G4_ENDS, G5, G5_END, G6_WHOLE, G8, G8_CANCEL, G8_FREE, G8_PAID};
use super::{Action, CLAIMS, Cause, Claim, DEAD, Job, Jobs, Lease, Rule, SAMPLES, Work, World};

impl Jobs {
    /// One fenced transaction: the move, its callback, and the end of the claim.
    fn move_job(self, world: &mut World, claim: Claim, command: Command, cause: Option<Cause>) -> Work {
        let is_ours = world.is_ours(claim);
        if !is_ours && self.has(Rule::TokenFence) {
            return Work::Idle;
        }
        let Ok(step) = Transition::<Table>::of(world.job.state, command, Who::WORKER) else {
            return Work::Idle;
        };
        world.is_stale_change |= !is_ours;
        world.job.state = step.to();
        world.job.lease = Lease::None;
        world.job.claims = 0;
        if cause.is_some() {
            world.job.cause = cause;
        }
        world.job.retries += u8::from(step.to() == State::Retrying);
        if !step.to().is_final() {
            return Work::Idle;
        }
        let is_whole = claim.next_sample().is_none() && claim.hand == world.samples;
        world.is_half |= step.to() == State::Completed && !is_whole;
        if !self.has(Rule::EndTogether) {
            return Work::Owes;
        }
        world.ends += 1;
        Work::Idle
    }

    /// `job::decide::after`, without its pause.
    fn decide(self, world: &World) -> Command {
        let is_cancelled = world.job.cancelled && self.has(Rule::CancelHeeded);
        let is_last = u32::from(world.job.retries) >= MOST_RETRIES && self.has(Rule::Bounded);
        if is_cancelled || is_last || world.job.cause != Some(Cause::Retryable) {
            Command::GaveUp
        } else {
            Command::Retry
        }
    }

    /// What the state asks for.
    fn work(self, world: &mut World, claim: Claim) -> Work {
        match claim.state {
            State::Queued => self.move_job(world, claim, Command::PickedUp, None),
            State::Retrying => self.move_job(world, claim, Command::RetryDue, None),
            State::Error => {
                let command = self.decide(world);
                self.move_job(world, claim, command, None)
            }
            State::Processing if claim.next_sample().is_some() => {
                let is_earned = world.job.cancelled || world.excused + 1 >= CLAIMS;
                world.is_unearned |= world.is_ours(claim) && !is_earned;
                self.move_job(world, claim, Command::TryFailed, Some(Cause::Final))
            }
            State::Processing => self.move_job(world, claim, Command::Complete, None),
            State::Completed | State::Failed => Work::Idle,
        }
    }

    fn take_back(world: &mut World) {
        world.job.lease = Lease::None;
    }

    fn faults(world: &World, actions: &mut Vec<Action>) {
        for worker in 0..2 {
            match world.works[usize::from(worker)] {
                Work::Idle => continue,
                Work::Called(..) if world.kills => continue,
                Work::Called(..) => actions.push(Action::AnswerNothing(worker)),
                Work::Claimed(_) | Work::Answered(..) | Work::Owes => {}
            }
            actions.push(Action::Die(worker));
        }
        if matches!(world.job.lease, Lease::Held(holder) if holder != DEAD) {
            actions.push(Action::LeaseOver);
        }
        if !world.is_away && !world.job.state.is_final() {
            actions.push(Action::GoAway);
        }
        actions.push(Action::ComeAgain);
    }
}

impl Model for Jobs {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let state = Transition::<Table>::birth(Command::Accept, Who::SYSTEM).expect("a birth").to();
        let job = Job {
            state,
            lease: Lease::None,
            token: 0,
            claims: 0,
            retries: self.spent,
            cause: None,
            cancelled: false,
        };
        let world = |kills| World {
            job,
            samples: [None; SAMPLES],
            works: [Work::Idle; 2],
            is_away: false,
            kills,
            cancel: true,
            ends: 0,
            failures: self.spent,
            calls: 0,
            excused: 0,
            jobs: 1,
            faults: self.faults,
            is_stale_change: false,
            is_call_after_cancel: false,
            is_half: false,
            is_unearned: false,
        };
        vec![world(false), world(true)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.goes_on(world));
        if world.cancel && !world.job.state.is_final() {
            actions.push(Action::Cancel);
        }
        if world.faults > 0 {
            Self::faults(world, actions);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        let work = |worker: u8| last.works[usize::from(worker)];
        match action {
            Action::Claim(worker) => {
                let job = &mut world.job;
                job.lease = Lease::Held(worker);
                // Counted no further than the rules look, so that a model without one has an end.
                (job.token, job.claims) = ((job.token + 1) % 32, (job.claims + 1).min(CLAIMS));
                let claim = Claim { token: job.token, state: job.state, hand: world.samples };
                world.set(worker, Work::Claimed(claim));
            }
            Action::Move(worker) => {
                let Work::Claimed(claim) = work(worker) else { return None };
                let then = self.work(&mut world, claim);
                world.set(worker, then);
            }
            Action::Call(worker, sample) => {
                let Work::Claimed(claim) = work(worker) else { return None };
                world.is_call_after_cancel |= world.job.cancelled;
                world.calls = (world.calls + 1).min(16);
                world.set(worker, Work::Called(claim, sample));
            }
            Action::Answer(worker) => {
                let Work::Called(claim, sample) = work(worker) else { return None };
                world.set(worker, Work::Answered(claim, sample));
            }
            Action::Record(worker) => {
                let Work::Answered(mut claim, sample) = work(worker) else { return None };
                let place = usize::from(sample);
                // By job and number, the first: no token is asked for.
                if self.has(Rule::StepKept) {
                    world.samples[place].get_or_insert(claim.token);
                }
                let kept = world.samples[place].filter(|_| self.has(Rule::ReadBack));
                claim.hand[place] = kept.or(Some(claim.token));
                let is_done = !self.has(Rule::EverySample) || claim.next_sample().is_none();
                let then = if is_done {
                    self.move_job(&mut world, claim, Command::Complete, None)
                } else if world.is_ours(claim) {
                    Work::Claimed(claim)
                } else {
                    Work::Idle
                };
                world.set(worker, then);
            }
            Action::LetGo(worker) => {
                let Work::Claimed(claim) = work(worker) else { return None };
                let then = if self.has(Rule::OutageFree) {
                    if world.is_ours(claim) {
                        world.job.lease = Lease::None;
                        world.job.claims -= u8::from(self.has(Rule::ReturnedFree));
                    }
                    Work::Idle
                } else {
                    self.move_job(&mut world, claim, Command::TryFailed, Some(Cause::Retryable))
                };
                world.set(worker, then);
            }
            Action::PayDebt(worker) => {
                world.ends += 1;
                world.set(worker, Work::Idle);
            }
            Action::TakeBack => Self::take_back(&mut world),
            Action::Return => world.is_away = false,
            Action::AnswerNothing(worker) => {
                let Work::Called(claim, _) = work(worker) else { return None };
                world.faults -= 1;
                world.excused += 1;
                world.failures += u8::from(world.is_ours(claim));
                let then = self.move_job(&mut world, claim, Command::TryFailed, Some(Cause::Retryable));
                world.set(worker, then);
            }
            Action::Die(worker) => {
                let at_content = matches!(work(worker), Work::Called(..)) && world.kills;
                world.faults = world.faults.checked_sub(u8::from(!at_content))?;
                world.excused = (world.excused + 1).min(16);
                world.set(worker, Work::Idle);
                if world.job.lease == Lease::Held(worker) {
                    world.job.lease = Lease::Held(DEAD);
                }
            }
            Action::LeaseOver => {
                world.faults -= 1;
                world.excused += 1;
                Self::take_back(&mut world);
            }
            Action::GoAway => {
                world.faults -= 1;
                world.is_away = true;
            }
            Action::Cancel => {
                world.cancel = false;
                world.job.cancelled = true;
            }
            Action::ComeAgain => {
                world.faults -= 1;
                if !self.has(Rule::RequestOnce) {
                    world.jobs += 1;
                }
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(G2_JOB, |_, world: &World| world.jobs == 1),
            Property::always(G4_ENDS, |model: &Self, world: &World| {
                world.job.state.is_final() || !model.goes_on(world).is_empty()
            }),
            Property::always(G5, |_, world: &World| !world.is_stale_change),
            Property::always(G5_END, |_, world: &World| world.ends == u8::from(world.job.state.is_final())),
            Property::always(G6_WHOLE, |_, world: &World| !world.is_half),
            Property::always(G8, |_, world: &World| u32::from(world.job.retries) <= MOST_RETRIES),
            Property::always(G8_FREE, |_, world: &World| {
                world.job.retries <= world.failures && !world.is_unearned
            }),
            Property::always(G8_PAID, |_, world: &World| {
                usize::from(world.calls) <= SAMPLES + usize::from(world.excused)
            }),
            Property::always(G8_CANCEL, |_, world: &World| !world.is_call_after_cancel),
            Property::sometimes("QUEUED", |_, world: &World| world.job.state == State::Queued),
            Property::sometimes("PROCESSING", |_, world: &World| world.job.state == State::Processing),
            Property::sometimes("ERROR", |_, world: &World| world.job.state == State::Error),
            Property::sometimes("RETRYING", |_, world: &World| world.job.state == State::Retrying),
            Property::sometimes("COMPLETED", |_, world: &World| world.job.state == State::Completed),
            Property::sometimes("FAILED", |_, world: &World| world.job.state == State::Failed),
            Property::sometimes("every retry was made", |_, world: &World| {
                u32::from(world.job.retries) == MOST_RETRIES
            }),
            Property::sometimes("a retry completes", |_, world: &World| {
                world.job.state == State::Completed && u32::from(world.job.retries) == MOST_RETRIES
            }),
            Property::sometimes(
                "a stale worker's answer comes beside another's lease",
                |_, world: &World| world.is_overtaken(),
            ),
            Property::sometimes("what kills its workers is given up on", |_, world: &World| {
                world.kills && world.job.state == State::Failed && !world.job.cancelled
            }),
            Property::sometimes("whoever grades is away, and the job is claimed", |_, world: &World| {
                world.is_away && world.works.iter().any(|work| matches!(work, Work::Claimed(_)))
            }),
        ]
    }
}
