//! Disturbances: every few seconds one of the daemons is killed, stopped or frozen, now and then the database, the
//! broker or the relay is restarted, all at random from a seed.
//!
//! The first daemon is only ever frozen: it lives through the whole run, so that its memory can be measured.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use super::world::{STUCK_AFTER, World};
use crate::stage::{Router, Source};

/// A slot for one daemon after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    name: &'static str,
    /// The slot's daemon is neither killed nor stopped.
    steady: bool,
}

/// The three.
pub(super) const SLOTS: [Slot; 3] =
    [Slot { name: "a", steady: true }, Slot { name: "b", steady: false }, Slot { name: "c", steady: false }];

/// Between two disturbances of one daemon, in milliseconds.
const PAUSE: std::ops::Range<u64> = 3_000..13_000;
/// Longest time for a stop: `drain_timeout`, and the last words.
const STOP: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(200);

/// A daemon that runs.
#[derive(Debug)]
pub(super) struct Daemon {
    name: &'static str,
    router: Router,
}

/// Keeps one slot busy with daemons, and disturbs them, until `over`; returns the one that runs then.
pub(super) async fn keep(slot: Slot, world: &World, seed: u64, over: &CancellationToken) -> Result<Daemon> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut generation = 0;
    loop {
        generation += 1;
        let mut daemon = Daemon { name: slot.name, router: world.start(slot.name, generation).await? };
        loop {
            if quiet(&mut daemon, world, rng.random_range(PAUSE), over).await.is_none() {
                // A daemon that ended by itself is reported; the next one replaces it.
                break;
            }
            if over.is_cancelled() {
                return Ok(daemon);
            }
            if !disturb(&mut daemon, slot, world, &mut rng).await? {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..2_000))).await;
    }
}

/// Lets it run for a while; `None` where it has ended, which nobody asked for.
async fn quiet(daemon: &mut Daemon, world: &World, millis: u64, over: &CancellationToken) -> Option<()> {
    let until = world.elapsed() + Duration::from_millis(millis);
    while world.elapsed() < until && !over.is_cancelled() {
        if let Ok(Some(ended)) = daemon.router.end() {
            world.broken(format!("daemon {} ended by itself: {ended}", daemon.name));
            return None;
        }
        tokio::time::sleep(STEP).await;
    }
    Some(())
}

/// Makes one disturbance; returns whether the daemon still runs.
async fn disturb(daemon: &mut Daemon, slot: Slot, world: &World, rng: &mut StdRng) -> Result<bool> {
    let what = if slot.steady { 100 } else { rng.random_range(0..100) };
    if what < 40 {
        world.count("SIGKILL");
        daemon.router.signal("KILL").await?;
        daemon.router.ended().await?;
        return Ok(false);
    }
    if what < 65 {
        world.count("SIGTERM");
        terminate(daemon, world).await;
        return Ok(false);
    }
    let past_the_sweep = rng.random_range(0..100) < 35;
    let millis = if past_the_sweep {
        world.count("SIGSTOP past the sweep");
        u64::try_from(STUCK_AFTER.as_millis())? + rng.random_range(2_000..8_000)
    } else {
        world.count("SIGSTOP, short");
        rng.random_range(300..5_000)
    };
    daemon.router.signal("STOP").await?;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    daemon.router.signal("CONT").await?;
    Ok(true)
}

/// SIGTERM: it must end well, and in time.
async fn terminate(daemon: &mut Daemon, world: &World) {
    let name = daemon.name;
    match tokio::time::timeout(STOP, daemon.router.stop()).await {
        Ok(Ok(ended)) if ended.success() => {}
        Ok(Ok(ended)) => world.broken(format!("daemon {name} ended a stop with {ended}")),
        Ok(Err(error)) => world.broken(format!("daemon {name} did not stop: {error:#}")),
        Err(_) => {
            world.broken(format!("daemon {name} did not stop within {STOP:?}"));
            if let Err(error) = daemon.router.signal("KILL").await {
                world.broken(format!("daemon {name} could not be killed either: {error:#}"));
            }
        }
    }
}

/// The last stop of a daemon.
pub(super) async fn stop(mut daemon: Daemon, world: &World) {
    terminate(&mut daemon, world).await;
}

/// Restarts the database, the broker and the relay one after the other until `over`.
pub(super) async fn restart_parts(world: Arc<World>, seed: u64, over: CancellationToken) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(1_000));
    for round in 0_u64.. {
        let pause = Duration::from_millis(rng.random_range(15_000..35_000));
        if over.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            break;
        }
        let down = Duration::from_millis(rng.random_range(500..5_000));
        match round % 4 {
            0 => {
                world.count("PostgreSQL restarted (immediate)");
                world.cluster.stop().await;
                tokio::time::sleep(down).await;
                world.cluster.start_again().await?;
            }
            1 if world.stage.source() == Source::Pubsub => {
                world.count("broker restarted (keeps its messages)");
                world.stage.broker.down().await;
                tokio::time::sleep(down).await;
                world.stage.broker.up().await?;
            }
            2 => {
                world.count("help desk restarted");
                world.help_desk.stop().await;
                tokio::time::sleep(down).await;
                world.help_desk.restart().await?;
            }
            _ => {
                world.count("relay restarted");
                world.stage.relay.stop().await;
                tokio::time::sleep(down).await;
                world.stage.relay.restart().await?;
            }
        }
    }
    Ok(())
}
