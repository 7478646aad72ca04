//! The simulation of grading: the real workers of both sides, their schemas and the grader's client under sequences of everything that can go
//! wrong, with the clock of the other simulation. After every sequence G1 to G10 are asked of what the database has seen.
//!
//! Two daemons' main sides and two graders, each on a wire of its own that can be caught, cut and killed; a scripted grader over real HTTP that
//! answers well, badly, slowly or not; queues that double and reorder; people who review late and twice, regrade and release; a backend that
//! submits and changes; and the daemon, which claims whenever it likes. Every version of attempts, jobs and results, and every message, is kept
//! by triggers ([`history`]).
//!
//! Not here: speech, whose recordings are fetched as texts are asked about; and a topic between the sides.

mod generate;
mod history;
mod laws;
mod ops;
mod people;
mod side;
mod stories;
mod world;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::run::{WORLDS, number, runtime, shrunk};
use laws::violations;
use ops::{Op, Reached, Story};
use world::World;

/// Asked for where nobody asks for more; a part of them is played, because four processes look each second of the clock, and of their length:
/// of one as long as the night's, a half.
const SEQUENCES: u64 = 150;
const SHARE: u64 = 10;
const LENGTH_SHARE: u64 = 4;
/// Sequences from which on everything that can be reached is.
const ALL_IS_REACHED: u64 = 300;

/// Plays one story in a world that may have seen others, and says what was wrong afterwards.
async fn play(world: &mut World, story: &Story) -> Vec<String> {
    world.set(story).await;
    for (place, op) in story.steps.iter().enumerate() {
        world.carry_out(*op).await;
        if story.steps.get(place + 1) != Some(&Op::Rush) && *op != Op::Rush {
            world.rest().await;
        }
    }
    world.heal().await;
    let quiet = world.quiesce().await;
    let evidence = world.evidence().await;
    world.reached.saw(&evidence);
    let mut wrong = violations(&evidence);
    if !quiet && wrong.is_empty() {
        wrong.push("G4: something is left to do, for ever".to_owned());
    }
    wrong
}

/// Plays stories one after the other in a world of their own, each with a count of its own.
fn hold(stories: &[Story]) -> Vec<Arc<Reached>> {
    let mut counts = Vec::new();
    runtime().block_on(async {
        let mut world = World::new(Arc::default()).await;
        for story in stories {
            world.reached = Arc::default();
            counts.push(Arc::clone(&world.reached));
            let wrong = play(&mut world, story).await;
            assert!(wrong.is_empty(), "{}\n{story}", wrong.join("\n"));
        }
    });
    counts
}

/// Plays a story in a world of its own.
fn holds(story: &Story) -> Arc<Reached> {
    hold(std::slice::from_ref(story)).pop().expect("a count")
}

#[test]
fn every_sequence_keeps_the_laws_of_grading() {
    let sequences = number("SIM_SEQUENCES", SEQUENCES) / SHARE;
    let share = if sequences < ALL_IS_REACHED { LENGTH_SHARE } else { LENGTH_SHARE / 2 };
    let length = usize::try_from(number("SIM_OPS", 30) / share).expect("a number of operations");
    let seed = number("SIM_SEED", u64::from(std::process::id()) << 16);
    // A world takes as long to be made as a sequence.
    let worlds = WORLDS.min(sequences.div_ceil(5));
    let (reached, over) = (Arc::<Reached>::default(), AtomicBool::new(false));
    println!("SIM_SEED={seed}");
    let failures: Vec<String> = std::thread::scope(|scope| {
        let worlds: Vec<_> = (0..worlds)
            .map(|world| {
                // A world takes as long to be made as a sequence.
                let worlds = WORLDS.min(sequences.div_ceil(5));
                let (reached, over) = (Arc::clone(&reached), &over);
                let sequences = (sequences + worlds - 1 - world) / worlds;
                scope.spawn(move || {
                    let runtime = runtime();
                    let mut own = runtime.block_on(World::new(reached));
                    let stories = generate::story(length);
                    shrunk((seed + world, sequences), &stories, over, |story| {
                        runtime.block_on(play(&mut own, story))
                    })
                })
            })
            .collect();
        worlds.into_iter().filter_map(|world| world.join().expect("a world")).collect()
    });
    let (table, rare) = reached.report();
    println!("{table}");
    assert!(failures.is_empty(), "SIM_SEED={seed}\n{}", failures.join("\n\n"));
    assert!(sequences < ALL_IS_REACHED || rare.is_empty(), "reached too rarely: {rare:#?}");
}
