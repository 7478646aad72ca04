//! The steps and laws of [`super`].

use stateright::{Model, Property};

use super::super::search::Protocol;
use super::super::table::{Actor, State, Track, Trigger};
use super::super::{S1, S2, S4, S5, S5_PURGED, S6, S6_TRIED};
use super::{ATTEMPTS, Action, CLAIMS, Claim, DEAD, Is, Job, Jobs, Kind, Rule, TRIES, Work, World};

impl Model for Jobs {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let absent =
            Job { is: Is::Absent, token: 0, attempt: 0, claims: 0, tries: 0, errors: 0, told: false };
        let world = |kills| World {
            run: Track::BORN,
            is_closed: false,
            jobs: [Job { is: Is::Waiting, ..absent }, absent, absent],
            results: [[None; ATTEMPTS]; 3],
            works: [Work::Idle; 2],
            late: None,
            decided: None,
            entry: false,
            kills,
            faults: self.faults,
            redrives: self.redrives,
            is_stale_change: false,
            is_untried: false,
        };
        vec![world(false), world(true)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.goes_on(world));
        if world.entry && world.redrives > 0 {
            let dead = (0..).zip(&world.jobs).filter(|(_, job)| job.is == Is::Dead);
            actions.extend(dead.map(|(kind, _)| Action::Redrive(kind)));
        }
        if world.faults == 0 {
            return;
        }
        for worker in 0..2 {
            let work = world.works[usize::from(worker)];
            if work != Work::Idle {
                actions.push(Action::Die(worker));
            }
            match work {
                // What kills its scanner answers nothing, not even an error.
                Work::Begun(claim) if world.is_killer(claim) => {}
                Work::Begun(_) => actions.push(Action::Err(worker)),
                Work::Answered(..) => {
                    actions.push(Action::LoseAnswer(worker));
                    if world.late.is_none() {
                        actions.push(Action::ComeLate(worker));
                    }
                }
                Work::Recorded(..) => actions.push(Action::LoseAnswer(worker)),
                Work::Idle | Work::Claimed(_) | Work::Owes { .. } => {}
            }
        }
        let alive = |is| matches!(is, Is::Leased(holder) if holder != DEAD);
        let leased = (0..).zip(&world.jobs).filter(|(_, job)| alive(job.is));
        actions.extend(leased.map(|(kind, _)| Action::LeaseOver(kind)));
        if !world.is_closed {
            actions.push(Action::Purge);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        let work = |worker: u8| last.works[usize::from(worker)];
        match action {
            Action::Claim(worker, kind) => {
                let kind = Kind::ALL[usize::from(kind)];
                let job = world.job(kind);
                job.is = Is::Leased(worker);
                // Counted no further than a rule looks, so that a model without the rule has an end.
                let bound = 2 * CLAIMS;
                assert!(job.token < bound || !self.has(Rule::Poison), "more claims than there may be");
                (job.token, job.attempt) = ((job.token + 1).min(bound), (job.attempt + 1).min(bound));
                job.claims = (job.claims + 1).min(CLAIMS);
                job.tries += 1;
                let claim = Claim { kind, token: job.token, attempt: job.attempt };
                world.set(worker, Work::Claimed(claim));
            }
            Action::Begin(worker) => {
                let Work::Claimed(claim) = work(worker) else { return None };
                world.set(worker, Work::Begun(claim));
                let is_ours = world.job(claim.kind).token == claim.token
                    && matches!(world.job(claim.kind).is, Is::Leased(_));
                if claim.kind == Kind::Tier1 && world.run.state == State::Received {
                    if is_ours && !world.is_closed {
                        world.run.step(Trigger::NonVendorSubmission, Actor::Screener);
                    } else {
                        // Stale before it has begun: it lets go. What was purged, its holder ends.
                        world.set(worker, Work::Idle);
                        if is_ours {
                            world.job(claim.kind).is = Is::Done;
                        }
                    }
                }
            }
            Action::Answer(worker, pass) => {
                let Work::Begun(claim) = work(worker) else { return None };
                world.set(worker, Work::Answered(claim, pass));
            }
            Action::Record(worker) => {
                let Work::Answered(claim, pass) = work(worker) else { return None };
                self.record(&mut world, claim, pass);
                world.set(worker, Work::Recorded(claim, pass));
            }
            Action::Settle(worker) => {
                let Work::Recorded(claim, pass) = work(worker) else { return None };
                let then = self.settle(&mut world, claim, pass);
                world.set(worker, then);
            }
            Action::PayDebt(worker) => {
                let Work::Owes { event, next } = work(worker) else { return None };
                world.run.events += u8::from(event);
                if let Some(kind) = next {
                    world.job(kind).is = Is::Waiting;
                }
                world.set(worker, Work::Idle);
            }
            Action::Err(worker) => {
                let Work::Begun(claim) = work(worker) else { return None };
                world.faults -= 1;
                world.set(worker, Work::Idle);
                let is_closed = world.is_closed;
                let job = world.job(claim.kind);
                if job.token == claim.token && matches!(job.is, Is::Leased(_)) {
                    job.errors += 1;
                    job.is = if is_closed { Is::Done } else { Is::Waiting };
                    if (job.tries >= TRIES || job.claims >= CLAIMS) && !is_closed {
                        self.give_up(&mut world, claim.kind);
                    }
                }
            }
            Action::TakeBack(kind) => self.take_back(&mut world, Kind::ALL[usize::from(kind)]),
            Action::Arrive => {
                let (claim, pass) = world.late.take()?;
                self.record(&mut world, claim, pass);
            }
            Action::Die(worker) => {
                let at_content = matches!(work(worker), Work::Begun(claim) if world.is_killer(claim));
                if !at_content {
                    world.faults = world.faults.checked_sub(1)?;
                }
                world.set(worker, Work::Idle);
                for job in &mut world.jobs {
                    if job.is == Is::Leased(worker) {
                        job.is = Is::Leased(DEAD);
                    }
                }
            }
            Action::LeaseOver(kind) => {
                world.faults -= 1;
                self.take_back(&mut world, Kind::ALL[usize::from(kind)]);
            }
            Action::LoseAnswer(worker) => {
                world.faults -= 1;
                match work(worker) {
                    // Recorded, which the worker does not know: it looks again.
                    Work::Answered(claim, pass) => {
                        self.record(&mut world, claim, pass);
                        world.set(worker, Work::Begun(claim));
                    }
                    // Settled, which the worker does not know: it settles again.
                    Work::Recorded(claim, pass) => {
                        self.settle(&mut world, claim, pass);
                    }
                    Work::Idle | Work::Claimed(_) | Work::Begun(_) | Work::Owes { .. } => return None,
                }
            }
            Action::ComeLate(worker) => {
                let Work::Answered(claim, pass) = work(worker) else { return None };
                world.faults -= 1;
                world.late = Some((claim, pass));
                world.set(worker, Work::Begun(claim));
            }
            Action::Redrive(kind) => {
                world.redrives -= 1;
                world.entry = false;
                let job = world.job(Kind::ALL[usize::from(kind)]);
                job.is = Is::Waiting;
                (job.claims, job.tries, job.errors) = (0, 0, 0);
            }
            Action::Purge => {
                world.faults -= 1;
                world.is_closed = true;
                world.results = [[None; ATTEMPTS]; 3];
                for job in &mut world.jobs {
                    if job.is == Is::Waiting {
                        job.is = Is::Done;
                    }
                }
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(S1, |_, world: &World| world.run.is_lawfully_published()),
            Property::always(S2, |_, world: &World| match world.run.state {
                State::AutoApproved | State::Published if !world.is_closed => {
                    world.decided.is_some_and(|attempt| {
                        world.results[Kind::Tier2 as usize][usize::from(attempt) - 1]
                            .is_some_and(|found| found.pass)
                    })
                }
                State::AutoApproved
                | State::Published
                | State::Received
                | State::VendorApproved
                | State::Tier1Scanning
                | State::Tier1Failed
                | State::Tier2Scanning
                | State::NeedsReview
                | State::Tier3Review
                | State::Rejected => true,
            }),
            Property::always(S4, |_, world: &World| {
                world.owes_event() || world.run.moves == world.run.events
            }),
            Property::always(S5, |_, world: &World| !world.is_stale_change),
            Property::always(S5_PURGED, |_, world: &World| {
                !world.is_closed || world.results == [[None; ATTEMPTS]; 3]
            }),
            Property::always(S6, |model: &Self, world: &World| {
                world.is_ended() || !model.goes_on(world).is_empty()
            }),
            Property::always(S6_TRIED, |_, world: &World| !world.is_untried),
            Property::sometimes("a run is published by its second worker", |_, world: &World| {
                world.run.state == State::Published && world.jobs[1].attempt == 2
            }),
            Property::sometimes(
                "a late worker wants to settle beside another's lease",
                |_, world: &World| world.is_overtaken(),
            ),
            Property::sometimes("what kills its scanner is told of", |_, world: &World| {
                world.kills && world.entry
            }),
            Property::sometimes("a run is published after a redrive", |_, world: &World| {
                world.run.state == State::Published && world.redrives == 0
            }),
            Property::sometimes("a result comes after the end", |_, world: &World| {
                world.run.state.is_final() && world.late.is_some()
            }),
            Property::sometimes("a run is closed under a worker", |_, world: &World| {
                world.is_closed && world.works.iter().any(|work| matches!(work, Work::Recorded(..)))
            }),
        ]
    }
}
