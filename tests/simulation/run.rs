//! Runs sequences: some worlds side by side, each with a proptest runner of its own, and one count of what was reached.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use devkit::stage::Source;
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::checks::{Evidence, violations};
use crate::coverage::Coverage;
use crate::generate;
use crate::history;
use crate::ops::{Op, Story};
use crate::tickets;
use crate::world::World;

/// Worlds side by side. More than there are processors: each mostly waits.
pub(crate) const WORLDS: u64 = 6;

pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Plays one story in a world that may have seen others, and says what was wrong afterwards.
pub(crate) async fn play(world: &mut World, story: &Story) -> Vec<String> {
    world.set(story).await;
    world.coverage.sequence(story.steps.len());
    for (place, op) in story.steps.iter().enumerate() {
        world.carry_out(*op).await;
        if story.steps.get(place + 1) != Some(&Op::Rush) && *op != Op::Rush {
            world.rest().await;
        }
    }
    world.heal().await;
    let quiet = world.quiesce().await;
    let evidence = Evidence {
        records: history::read(&world.eyes).await,
        mails: world.mails(),
        tickets: world.tickets(),
        calls: world.desk.calls(),
        alerts: world.alerts(),
        unclean_since: world.unclean_since.iter().copied().collect(),
        hold: story.hold,
    };
    world.coverage.tickets(tickets::ways(&evidence));
    let mut wrong = violations(&evidence);
    if !quiet && wrong.is_empty() {
        wrong.push("P2: something is left to do, for ever".to_owned());
    }
    wrong
}

/// A runtime of one thread: a crash is exact there, and so is quiet, also because one more does all that may block.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(1).build().expect("a runtime")
}

/// Plays a story of `stories.rs` with either source, each in a world of its own.
pub(crate) fn holds(story: &Story) {
    holds_and(story, |_| Vec::new());
}

/// The same, and what else must be right afterwards.
pub(crate) fn holds_and(story: &Story, also: impl Fn(&World) -> Vec<String>) {
    for source in [Source::Pubsub, Source::Postgres] {
        runtime().block_on(async {
            let mut world = World::new(source, Arc::default()).await;
            let mut wrong = play(&mut world, story).await;
            wrong.extend(also(&world));
            assert!(wrong.is_empty(), "{source:?}: {}", wrong.join("\n"));
        });
    }
}

/// Runs one world's share of `sequences`, drawn by `seed`; returns the shrunk failure, if there is one. `over`: somebody has one.
#[expect(clippy::print_stdout, reason = "a failure is shown before it is shrunk, which takes its time")]
pub(crate) fn shrunk<S: std::fmt::Debug + std::fmt::Display>(
    (seed, sequences): (u64, u64),
    stories: &impl Strategy<Value = S>,
    over: &AtomicBool,
    play: impl FnMut(&S) -> Vec<String>,
) -> Option<String> {
    let config = Config {
        cases: u32::try_from(sequences).expect("a number of sequences"),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        // Milliseconds.
        max_shrink_time: 150_000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let play = std::cell::RefCell::new(play);
    let failed = std::cell::Cell::new(false);
    // A story that shrinking tries more than once is played once.
    let played = std::cell::RefCell::new(HashMap::<String, Vec<String>>::new());
    let ended = runner.run(stories, |story| {
        if over.load(Ordering::SeqCst) && !failed.get() {
            return Ok(());
        }
        let known = played.borrow().get(&story.to_string()).cloned();
        let wrong = known.unwrap_or_else(|| play.borrow_mut()(&story));
        if wrong.is_empty() && !failed.get() {
            return Ok(());
        }
        played.borrow_mut().insert(story.to_string(), wrong.clone());
        if wrong.is_empty() {
            return Ok(());
        }
        if !failed.replace(true) {
            println!("{}\nshrinking {story}", wrong.join("\n"));
        }
        over.store(true, Ordering::SeqCst);
        Err(TestCaseError::fail(wrong.join("\n")))
    });
    match ended {
        Ok(()) => None,
        Err(TestError::Fail(why, story)) => Some(format!("{why}\n\n{story}")),
        Err(TestError::Abort(why)) => Some(format!("the run was given up: {why}")),
    }
}

/// One world's share of the sequences.
fn share(
    source: Source,
    (seed, sequences): (u64, u64),
    length: usize,
    coverage: Arc<Coverage>,
    over: &AtomicBool,
) -> Option<String> {
    let runtime = runtime();
    let mut world = runtime.block_on(World::new(source, coverage));
    let stories = generate::story(source, length);
    shrunk((seed, sequences), &stories, over, |story| runtime.block_on(play(&mut world, story)))
}

/// Sequences of a run that nobody asks for more, within what a suite of every day may take. `make nightly` asks for 5,000.
pub(crate) const SEQUENCES: u64 = 100;
/// Sequences from which on everything that can be reached is.
const ALL_IS_REACHED: u64 = 500;

#[test]
fn every_sequence_keeps_the_properties() {
    sequences(Source::Pubsub, number("SIM_SEQUENCES", SEQUENCES));
}

/// A sixth of them, because only what carries the events is another.
#[test]
fn every_sequence_keeps_the_properties_without_a_broker() {
    sequences(Source::Postgres, number("SIM_SEQUENCES", SEQUENCES) / 6);
}

#[expect(clippy::print_stdout, reason = "a failure is played again from what is printed")]
fn sequences(source: Source, sequences: u64) {
    let length = number("SIM_OPS", 30);
    let seed = number("SIM_SEED", u64::from(std::process::id()) << 16);
    let (coverage, over) = (Arc::<Coverage>::default(), AtomicBool::new(false));
    let length = usize::try_from(length).expect("a number of operations");
    println!("SIM_SEED={seed}");
    let failures: Vec<String> = std::thread::scope(|scope| {
        let worlds: Vec<_> = (0..WORLDS)
            .map(|world| {
                let (coverage, over) = (Arc::clone(&coverage), &over);
                let sequences = (sequences + WORLDS - 1 - world) / WORLDS;
                scope.spawn(move || share(source, (seed + world, sequences), length, coverage, over))
            })
            .collect();
        worlds.into_iter().filter_map(|world| world.join().expect("a world")).collect()
    });
    let (table, rare) = coverage.report(source);
    println!("{table}");
    assert!(failures.is_empty(), "SIM_SEED={seed}\n{}", failures.join("\n\n"));
    assert!(sequences < ALL_IS_REACHED || rare.is_empty(), "reached too rarely: {rare:#?}");
}

/// The sequences of a seed are the same every time, whatever becomes of them.
#[test]
fn a_seed_makes_the_same_sequences() {
    let make = || {
        let mut runner =
            TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
        generate::story(Source::Pubsub, 30).new_tree(&mut runner).expect("a story").current()
    };
    let story = make();
    assert_eq!(story, make());
    assert!(story.steps.len() >= 30);
}
