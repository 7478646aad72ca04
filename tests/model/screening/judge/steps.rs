//! The steps and laws of [`super`].

use stateright::{Model, Property};

use super::super::search::Protocol;
use super::super::table::{Actor, State, Track, Trigger};
use super::super::{S1, S2, S3, S4, S5, S6, S6_TRIED};
use super::{Action, Bar, Cached, DEAD, Job, Judge, Rule, Score, TRIES, Tier2, Verdict, WAITS, Work, World};

impl Model for Tier2 {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut run = Track::BORN;
        run.step(Trigger::NonVendorSubmission, Actor::Screener);
        run.step(Trigger::Tier1Pass, Actor::Screener);
        let world = |bar, model, cached, is_up| World {
            run,
            job: Job::Waiting,
            tries: 0,
            invalid: 0,
            works: [Work::Idle; 2],
            bar,
            is_forced: false,
            model,
            cached,
            is_up,
            waits: 0,
            entry: false,
            faults: self.faults,
            is_stale_change: false,
            is_unfounded: false,
            is_barred_pass: false,
            is_untried: false,
        };
        let bars = [Bar::None, Bar::Privilege, Bar::Finding, Bar::Waived, Bar::Markers];
        let caches = [Cached::None, Cached::Same, Cached::OtherDigest, Cached::OtherModel];
        let models = [Judge::Calibrated, Judge::Other];
        let mut worlds = Vec::new();
        for bar in bars {
            // A judge that none is configured for is one that is away.
            worlds.extend(models.map(|model| world(bar, model, Cached::None, true)));
            worlds.extend(caches.map(|cached| world(bar, Judge::Calibrated, cached, false)));
        }
        worlds
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.goes_on(world));
        if world.faults == 0 {
            return;
        }
        let busy = (0..2).filter(|worker| world.works[usize::from(*worker)] != Work::Idle);
        actions.extend(busy.map(Action::Die));
        if matches!(world.job, Job::Leased(holder) if holder != DEAD) {
            actions.push(Action::LeaseOver);
        }
        if !world.run.state.is_final() {
            actions.extend([Action::Turn, Action::Configure]);
            if !world.is_forced && world.run.state == State::Tier2Scanning {
                actions.push(Action::Force);
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        let work = |worker: u8| last.works[usize::from(worker)];
        match action {
            Action::Claim(worker) => {
                world.job = Job::Leased(worker);
                world.tries += 1;
                world.set(worker, Work::Claimed(world.is_forced));
            }
            Action::Reply(worker, answer) => {
                let read = self.read(world.model, answer);
                let next = match (work(worker), read) {
                    (Work::Claimed(forced), Some(verdict)) if verdict.score == Score::Near => {
                        Work::Again(forced, verdict)
                    }
                    (Work::Claimed(forced), Some(verdict)) => Work::Answered(forced, verdict),
                    (Work::Again(forced, first), Some(second)) => {
                        let lowest = if (second.lowest as u8) < first.lowest as u8 { second } else { first };
                        let counts = if self.has(Rule::Lower) { lowest } else { first };
                        let is_marked = first.is_marked || second.is_marked;
                        // Of two models that of the second call: the worse is named where they differ.
                        let by = if first.by == second.by { first.by } else { Judge::Other };
                        let verdict =
                            Verdict { lowest: lowest.lowest, is_marked, by, truly_by: by, ..counts };
                        Work::Answered(forced, verdict)
                    }
                    (Work::Claimed(_) | Work::Again(..), None) => {
                        self.no_verdict(&mut world, worker, false);
                        return Some(world);
                    }
                    (Work::Idle | Work::Answered(..) | Work::Recorded(..), _) => return None,
                };
                world.set(worker, next);
            }
            Action::FindCached(worker) => {
                let Work::Claimed(forced) = work(worker) else { return None };
                let verdict = self.find(last)?;
                world.set(worker, Work::Answered(forced, verdict));
            }
            Action::Record(worker) => {
                let Work::Answered(forced, verdict) = work(worker) else { return None };
                world.set(worker, Work::Recorded(forced, verdict));
            }
            Action::Settle(worker) => {
                let Work::Recorded(forced, verdict) = work(worker) else { return None };
                self.settle(&mut world, worker, forced, verdict);
                world.set(worker, Work::Idle);
            }
            Action::NoReply(worker) => self.no_verdict(&mut world, worker, true),
            Action::Publish => {
                world.run.step(Trigger::PublishComplete, Actor::Screener);
            }
            Action::Die(worker) => {
                world.faults -= 1;
                world.set(worker, Work::Idle);
                if world.is_ours(worker) {
                    world.job = Job::Leased(DEAD);
                }
            }
            Action::LeaseOver => {
                if world.job != Job::Leased(DEAD) {
                    world.faults -= 1;
                }
                world.job = Job::Waiting;
                world.tries -= 1;
            }
            Action::Turn => {
                world.faults -= 1;
                world.is_up = !world.is_up;
            }
            Action::Configure => {
                world.faults -= 1;
                world.model = if world.model == Judge::Calibrated { Judge::Other } else { Judge::Calibrated };
            }
            Action::Force => {
                world.faults -= 1;
                world.is_forced = true;
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(S1, |_, world: &World| world.run.is_lawfully_published()),
            Property::always(S2, |_, world: &World| !world.is_unfounded),
            Property::always(S3, |_, world: &World| !world.is_barred_pass),
            Property::always(S4, |_, world: &World| world.run.moves == world.run.events),
            Property::always(S5, |_, world: &World| !world.is_stale_change),
            Property::always(S6, |model: &Self, world: &World| {
                world.is_ended() || !model.goes_on(world).is_empty()
            }),
            Property::always(S6_TRIED, |_, world: &World| !world.is_untried),
            Property::sometimes("a verdict comes after the run went to a person", |_, world: &World| {
                world.run.state == State::NeedsReview
                    && world.waits == WAITS
                    && world.works.iter().any(|work| matches!(work, Work::Recorded(..)))
            }),
            Property::sometimes("a run is published after an outage", |_, world: &World| {
                world.run.state == State::Published && world.faults == 0 && world.cached == Cached::None
            }),
            Property::sometimes("answers that are none go to a person", |_, world: &World| {
                world.run.state == State::NeedsReview && world.invalid == TRIES
            }),
            Property::sometimes("a verdict is found again while the judge is away", |_, world: &World| {
                world.run.state == State::Published && !world.is_up
            }),
        ]
    }
}
