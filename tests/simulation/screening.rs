//! The simulation of screening: the real workers, schema and judge's client under sequences of everything that can go wrong, with
//! the clock of the other simulation. After every sequence S1 to S9 are asked of what the database has seen.
//!
//! Two screeners, each on a wire of its own that can be caught, cut and killed; a judge over real HTTP that answers well, badly or
//! not; people who decide, late and twice; a backend that changes what was submitted; and the daemon, which claims whenever it
//! likes. Every version of every run is kept by a trigger ([`history`]).

mod generate;
mod history;
mod laws;
mod ops;
mod screener;
mod stories;
mod world;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::run::{SEQUENCES, WORLDS, number, runtime, shrunk};
use laws::violations;
use ops::{Op, Reached, Story};
use world::World;

/// One for so many sequences of the other simulation: each costs as much as several of those.
const SHARE: u64 = 10;
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
    let evidence = world.evidence(story).await;
    world.reached.saw(&evidence);
    let mut wrong = violations(&evidence);
    if !quiet && wrong.is_empty() {
        wrong.push("S6: something is left to do, for ever".to_owned());
    }
    wrong
}

/// Plays a story in a world of its own.
fn holds(story: &Story) -> Arc<Reached> {
    let reached = Arc::<Reached>::default();
    runtime().block_on(async {
        let mut world = World::new(Arc::clone(&reached)).await;
        let wrong = play(&mut world, story).await;
        assert!(wrong.is_empty(), "{}\n{story}", wrong.join("\n"));
    });
    reached
}

#[test]
fn every_sequence_keeps_the_laws_of_screening() {
    let sequences = number("SIM_SEQUENCES", SEQUENCES) / SHARE;
    let length = usize::try_from(number("SIM_OPS", 30)).expect("a number of operations");
    let seed = number("SIM_SEED", u64::from(std::process::id()) << 16);
    let (reached, over) = (Arc::<Reached>::default(), AtomicBool::new(false));
    println!("SIM_SEED={seed}");
    let failures: Vec<String> = std::thread::scope(|scope| {
        let worlds: Vec<_> = (0..WORLDS)
            .map(|world| {
                let (reached, over) = (Arc::clone(&reached), &over);
                let sequences = (sequences + WORLDS - 1 - world) / WORLDS;
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
