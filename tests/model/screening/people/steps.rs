//! The steps and laws of [`super`].

use stateright::{Model, Property};

use super::super::search::Protocol;
use super::super::table::{Actor, State, Trigger};
use super::super::{S1, S3, S4, S5, S6, S9, S9_CURRENT};
use super::{Action, BASE, Command, Mode, People, Row, Rule, Seen, Since, World};

impl Model for People {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let world = |mode, since, blocks| World {
            mode,
            since: Since { created: since, finalized: since },
            first: Since { created: since, finalized: since },
            runs: [None; 2],
            row: Row::Unfinished,
            passes: 0,
            sweep: false,
            admins: [None; 2],
            blocks,
            waiver: false,
            infected: false,
            rescreens: 1,
            faults: self.faults,
            is_stale_change: false,
            is_alone: false,
            is_unready: false,
            is_superseded_published: false,
        };
        let modes =
            [(Mode::Off, false), (Mode::Shadow, false), (Mode::Enforced, false), (Mode::Enforced, true)];
        modes
            .into_iter()
            .flat_map(|(mode, since)| [world(mode, since, false), world(mode, since, true)])
            .collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.goes_on(world));
        for number in 0..2 {
            if world.run(number).is_some_and(|run| run.track.state == State::Tier3Review) {
                actions.push(Action::WorkerApproves(number));
            }
        }
        let has_entry = world.runs.iter().flatten().any(|run| run.entry);
        for admin in 0..2 {
            if world.admins[usize::from(admin)].is_some() {
                let commands = [Command::Escalate, Command::Approve, Command::Reject];
                actions.extend(commands.map(|command| Action::Decide(admin, command)));
            } else if has_entry {
                actions.push(Action::Look(admin));
            }
        }
        if world.blocks && !world.waiver && world.current().is_some() {
            actions.push(Action::Waive);
        }
        if world.rescreens > 0 && world.mode != Mode::Off && world.runs[0].is_some() {
            actions.push(Action::Rescreen);
        }
        if world.faults == 0 {
            return;
        }
        if world.row == Row::Unfinished {
            actions.push(Action::Finalize { swallowed: true });
        }
        if world.row != Row::Routed {
            let modes = [Mode::Off, Mode::Shadow, Mode::Enforced].into_iter();
            actions.extend(modes.filter(|mode| *mode != world.mode).map(Action::SetMode));
            if !world.infected {
                actions.push(Action::FindVirus);
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        match action {
            Action::Finalize { swallowed } => {
                world.row = Row::Received;
                world.faults -= u8::from(swallowed);
                world.since.finalized |= world.mode == Mode::Enforced;
                world.first.finalized |= world.since.finalized;
                if !swallowed && world.mode != Mode::Off {
                    Self::bear(&mut world, 0);
                }
            }
            Action::LookForOrphan => world.passes += 1,
            Action::Bear => {
                world.passes -= 1;
                if world.mode == Mode::Off {
                    return Some(world);
                }
                match world.run_mut(0) {
                    None => Self::bear(&mut world, 0),
                    Some(_) if self.has(Rule::OneBirth) => {}
                    Some(run) => run.births += 1,
                }
            }
            Action::Advance(number, trigger) => {
                let (waiver, blocks) = (world.waiver, world.blocks);
                let tells = self.has(Rule::ReviewTells);
                let run = world.run_mut(number)?;
                run.track.step(trigger, Actor::Screener);
                run.is_waived |= trigger == Trigger::Tier1Pass && waiver && blocks;
                run.entry |= trigger == Trigger::Tier2Concerns && tells;
                let run = *run;
                world.is_alone |= trigger == Trigger::Tier2Pass && run.is_waived;
                world.is_superseded_published |= trigger == Trigger::PublishComplete && !run.is_current;
            }
            Action::WorkerApproves(number) => {
                // The edge's trigger refuses, where it is there.
                if self.has(Rule::Role) {
                    return None;
                }
                world.run_mut(number)?.track.step(Trigger::ReviewerApprove, Actor::Person);
                world.is_alone = true;
            }
            Action::Look(admin) => {
                let number = (0..2).rev().find(|number| world.run(*number).is_some_and(|run| run.entry))?;
                let version = world.run(number)?.track.moves;
                world.admins[usize::from(admin)] = Some(Seen { run: number, version });
            }
            Action::Decide(admin, command) => {
                let seen = world.admins[usize::from(admin)].take()?;
                // The loser gets 409, and has to look again.
                let _refused = self.decide(&mut world, admin, seen, command).is_none();
            }
            Action::Waive => world.waiver = true,
            Action::Rescreen => {
                world.rescreens -= 1;
                if self.has(Rule::OneCurrent) {
                    let closes = self.has(Rule::CurrentFence);
                    let old = world.run_mut(0)?;
                    old.is_current = false;
                    old.entry &= !closes;
                }
                Self::bear(&mut world, 1);
                if world.row == (Row::Refused { infected: false }) && self.has(Rule::Replay) {
                    world.row = Row::Received;
                }
            }
            Action::Claim => world.row = Row::Claimed,
            Action::Begin => {
                let goes = self.is_ready(last) || !self.has(Rule::ReadyAtBegin);
                world.row = if goes { Row::Begun } else { Row::Received };
                world.is_unready |= goes && !last.may_be_mailed();
            }
            Action::Mail => world.row = Row::Routed,
            Action::LookToRefuse => world.sweep = true,
            Action::Refuse => {
                world.sweep = false;
                if world.row == Row::Received {
                    world.row = Row::Refused { infected: world.infected };
                }
            }
            Action::SetMode(mode) => {
                world.faults -= 1;
                world.mode = mode;
                let keeps = mode == Mode::Enforced && !self.has(Rule::Since);
                world.since = if keeps { world.first } else { Since::NEVER };
            }
            Action::FindVirus => {
                world.faults -= 1;
                world.infected = true;
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(S1, |_, world: &World| {
                world.runs.iter().flatten().all(|run| run.track.is_lawfully_published())
            }),
            Property::always(S3, |_, world: &World| !world.is_alone),
            Property::always(S4, |_, world: &World| {
                world.runs.iter().flatten().all(|run| run.births == 1 && run.track.moves == run.track.events)
            }),
            Property::always(S5, |_, world: &World| !world.is_stale_change),
            Property::always(S6, |model: &Self, world: &World| {
                world.is_ended() || !model.goes_on(world).is_empty()
            }),
            Property::always(S9, |_, world: &World| !world.is_unready),
            Property::always(S9_CURRENT, |_, world: &World| !world.is_superseded_published),
            Property::sometimes("a second admin has what the first has changed", |_, world: &World| {
                world
                    .admins
                    .into_iter()
                    .flatten()
                    .any(|seen| world.run(seen.run).is_some_and(|run| run.track.moves > seen.version))
            }),
            Property::sometimes("a waived block is approved by people and mailed", |_, world: &World| {
                world.row == Row::Routed
                    && world.current().is_some_and(|run| {
                        run.is_waived && run.is_enforced && run.track.state == State::Published
                    })
            }),
            Property::sometimes(
                "a run of a claimed submission is not current any more",
                |_, world: &World| world.row == Row::Claimed && world.runs[1].is_some(),
            ),
            Property::sometimes("what was swallowed is born by a pass and published", |_, world: &World| {
                world.row == Row::Received && world.faults < BASE.faults && world.passes > 0
            }),
            Property::sometimes("a shadow run's rejection is mailed", |_, world: &World| {
                world.row == Row::Routed
                    && world.current().is_some_and(|run| !run.is_enforced && run.track.state.is_out())
            }),
            Property::sometimes("a run is closed unmailed for a virus", |_, world: &World| {
                world.row == (Row::Refused { infected: true })
                    && world.current().is_some_and(|run| run.track.state == State::Published)
            }),
        ]
    }
}
