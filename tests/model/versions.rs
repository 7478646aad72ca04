//! The model of a form's versions: two of them, somebody who promotes, somebody who takes out of use, the backend's loader, and a
//! submission that is claimed. Every order of their steps is tried. A step is a look under the locks that the schema takes, or a commit.
//!
//! States change by the product's own table. What the schema's triggers do is retold here, as `tests/forms/schema.rs` sees the real
//! ones do it.

use maple_router::forms::table::{Command, PUBLISHER, State, Version};
use maple_router::kernel::Transition;
use stateright::{Checker, HasDiscoveries, Model, Property};

const CURRENT_IS_PUBLISHED: &str = "V1: what a form follows is published";
const ROWS_ARE_CURRENT: &str = "V2: a managed form's rows are those of what it follows";
const PUBLISHED_IS_ALLOWED: &str = "V3: nothing is published that nobody allowed";
const PUBLISHED_STAYS: &str = "V4: what was published never changes";
const PLAN_IS_ONE: &str = "V5: a plan is of one version, the one that the ledger names";
const BACK: &str = "a form follows the first version again after the second";
const RESTORED: &str = "a version that was taken out of use is followed again";

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rule {
    /// The pointer's guard looks at the version under a lock that whoever takes it out of use waits for.
    Lock,
    /// The pointer names published versions only.
    Published,
    /// What is published was allowed in that transaction.
    Allowed,
    /// Entries are born with their version.
    Born,
    /// At commit a managed form's rows are its version's.
    Demand,
    /// Whoever moves the pointer moves the rows in the same transaction.
    Place,
    /// A claim reads pointer and rows in one statement.
    Snapshot,
    /// The current version is not taken out of use.
    NotCurrent,
}

const N: usize = 2;

/// What somebody is in the middle of, after the look and before the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Busy {
    Idle,
    With(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    states: [State; N],
    /// The content of each, by a number; what was published has its own beside it.
    contents: [u8; N],
    published: [Option<u8>; N],
    allowed: [bool; N],
    current: Option<u8>,
    /// The content that the tables have.
    rows: u8,
    promoter: Busy,
    undertaker: Busy,
    /// What the loader has written and not committed.
    loader: Busy,
    /// What a claim has read of the pointer, before its rows.
    claim: Busy,
    /// A plan: the version that the ledger names, and the content that was pinned.
    plan: Option<(u8, u8)>,
    /// Content that somebody adds to a version later.
    edits: u8,
    was_second: bool,
    was_buried: [bool; N],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Publish(u8, bool),
    Edit(u8),
    LookToPromote(u8),
    Promote,
    LookToBury(u8),
    Bury,
    Restore(u8),
    Load(u8),
    CommitLoad,
    Claim,
    ClaimRows,
}

#[derive(Debug, Clone, Copy)]
struct Versions {
    without: Option<Rule>,
}

/// What a loader has that is no version's.
const OTHER: u8 = 9;

impl Versions {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Whether the row of a version is locked by somebody in the middle of something.
    fn is_locked(&self, world: &World, version: u8) -> bool {
        self.has(Rule::Lock) && [world.promoter, world.undertaker].contains(&Busy::With(version))
    }

    /// Whether the pointer's row is.
    fn pointer_is_locked(world: &World) -> bool {
        world.promoter != Busy::Idle
    }
}

/// The state that a command leads to, by the product's table.
fn moved(from: State, command: Command, to: State) -> Option<State> {
    Transition::<Version>::leading(from, command, to, PUBLISHER).ok().map(Transition::to)
}

fn at<T: Copy>(of: &[T; N], version: u8) -> T {
    of[usize::from(version)]
}

impl Model for Versions {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            states: [State::Draft; N],
            contents: [1, 2],
            published: [None; N],
            allowed: [false; N],
            current: None,
            rows: OTHER,
            promoter: Busy::Idle,
            undertaker: Busy::Idle,
            loader: Busy::Idle,
            claim: Busy::Idle,
            plan: None,
            edits: 1,
            was_second: false,
            was_buried: [false; N],
        }]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Action>) {
        for version in [0, 1] {
            actions.extend([
                Action::Publish(version, true),
                Action::Publish(version, false),
                Action::Edit(version),
                Action::LookToPromote(version),
                Action::LookToBury(version),
                Action::Restore(version),
            ]);
        }
        actions.extend([1, 2, OTHER].map(Action::Load));
        actions.extend([Action::Promote, Action::Bury, Action::CommitLoad, Action::Claim, Action::ClaimRows]);
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = *before;
        match action {
            Action::Publish(version, allowed) => {
                if self.is_locked(before, version) || (!allowed && self.has(Rule::Allowed)) {
                    return None;
                }
                let place = usize::from(version);
                world.states[place] = moved(world.states[place], Command::Publish, State::Published)?;
                world.allowed[place] = allowed;
                world.published[place] = Some(world.contents[place]);
            }
            Action::Edit(version) => {
                if self.has(Rule::Born) || world.edits == 0 {
                    return None;
                }
                world.edits -= 1;
                world.contents[usize::from(version)] += 3;
            }
            Action::LookToPromote(version) => {
                let published = at(&world.states, version) == State::Published;
                if world.promoter != Busy::Idle
                    || self.is_locked(before, version)
                    || (self.has(Rule::Published) && !published)
                {
                    return None;
                }
                world.promoter = Busy::With(version);
            }
            Action::Promote => {
                let Busy::With(version) = world.promoter else { return None };
                // Rows that somebody has written and not committed are waited for.
                if world.loader != Busy::Idle && self.has(Rule::Place) {
                    return None;
                }
                world.promoter = Busy::Idle;
                world.was_second |= version == 1;
                world.current = Some(version);
                if self.has(Rule::Place) {
                    world.rows = at(&world.contents, version);
                }
            }
            Action::LookToBury(version) => {
                let current = world.current == Some(version) && self.has(Rule::NotCurrent);
                if world.undertaker != Busy::Idle || self.is_locked(before, version) || current {
                    return None;
                }
                moved(at(&world.states, version), Command::Tombstone, State::Tombstoned)?;
                world.undertaker = Busy::With(version);
            }
            Action::Bury => {
                let Busy::With(version) = world.undertaker else { return None };
                let place = usize::from(version);
                world.undertaker = Busy::Idle;
                world.states[place] = moved(world.states[place], Command::Tombstone, State::Tombstoned)?;
                world.was_buried[place] = true;
            }
            Action::Restore(version) => {
                if self.is_locked(before, version) {
                    return None;
                }
                let place = usize::from(version);
                world.states[place] = moved(world.states[place], Command::Restore, State::Published)?;
            }
            Action::Load(content) => {
                // The loader's rows and the promoter's are the same rows: one waits for the other.
                if world.loader != Busy::Idle || (Self::pointer_is_locked(before) && self.has(Rule::Place)) {
                    return None;
                }
                world.loader = Busy::With(content);
            }
            Action::CommitLoad => {
                let Busy::With(content) = world.loader else { return None };
                world.loader = Busy::Idle;
                let wanted = world.current.map(|version| at(&world.contents, version));
                if self.has(Rule::Demand) && wanted.is_some_and(|wanted| wanted != content) {
                    // It is refused, and nothing of it is left.
                    return Some(world);
                }
                world.rows = content;
            }
            Action::Claim => {
                let version = world.current?;
                if world.claim != Busy::Idle || world.plan.is_some() {
                    return None;
                }
                if self.has(Rule::Snapshot) {
                    world.plan = Some((version, world.rows));
                } else {
                    world.claim = Busy::With(version);
                }
            }
            Action::ClaimRows => {
                let Busy::With(version) = world.claim else { return None };
                world.claim = Busy::Idle;
                world.plan = Some((version, world.rows));
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(CURRENT_IS_PUBLISHED, |_, world: &World| {
                world.current.is_none_or(|version| at(&world.states, version) == State::Published)
            }),
            Property::always(ROWS_ARE_CURRENT, |_, world: &World| {
                world.current.is_none_or(|version| at(&world.contents, version) == world.rows)
            }),
            Property::always(PUBLISHED_IS_ALLOWED, |_, world: &World| {
                (0..N).all(|place| world.states[place] != State::Published || world.allowed[place])
            }),
            Property::always(PUBLISHED_STAYS, |_, world: &World| {
                (0..N).all(|place| {
                    world.published[place].is_none_or(|content| content == world.contents[place])
                })
            }),
            Property::always(PLAN_IS_ONE, |_, world: &World| {
                world.plan.is_none_or(|(version, rows)| at(&world.published, version) == Some(rows))
            }),
            Property::sometimes(BACK, |_, world: &World| world.was_second && world.current == Some(0)),
            Property::sometimes(RESTORED, |_, world: &World| {
                world.current.is_some_and(|version| at(&world.was_buried, version))
            }),
        ]
    }
}

fn broken(without: Option<Rule>) -> Vec<&'static str> {
    let checker = Versions { without }.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut broken: Vec<&'static str> =
        checker.discoveries().into_keys().filter(|name| name.starts_with('V')).collect();
    broken.sort_unstable();
    broken
}

#[test]
fn every_order_of_steps_keeps_every_law() {
    let checker = Versions { without: None }.checker().spawn_bfs().join();
    println!("versions: {} worlds", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn each_rule_that_is_left_out_breaks_its_law() {
    for (rule, law) in [
        (Rule::Lock, CURRENT_IS_PUBLISHED),
        (Rule::Published, CURRENT_IS_PUBLISHED),
        (Rule::NotCurrent, CURRENT_IS_PUBLISHED),
        (Rule::Allowed, PUBLISHED_IS_ALLOWED),
        (Rule::Born, PUBLISHED_STAYS),
        (Rule::Demand, ROWS_ARE_CURRENT),
        (Rule::Place, ROWS_ARE_CURRENT),
        (Rule::Snapshot, PLAN_IS_ONE),
    ] {
        assert!(broken(Some(rule)).contains(&law), "{rule:?}: {:?}", broken(Some(rule)));
    }
}
