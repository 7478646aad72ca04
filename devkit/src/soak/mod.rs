//! `make soak`: three daemons under load for a long time, killed, frozen and stopped every few seconds, their database,
//! broker and relay restarted, a share of the mails refused, deferred, dropped; then everything is counted from outside.
//!
//! And the outages in real time ([`outage`]). Reading order: `world` is what runs, `load` who submits, `chaos` who disturbs,
//! `memory` how much the daemons use, `witness` what is read at the end, `verdict` what it must be, `report` how it is
//! shown. Nothing is judged by a daemon's word: only rows, audit rows, a log of every status change that a trigger of the
//! witness wrote, the receiver's count, and what Slack was given.
//!
//! Files (configuration, logs, report) stay in one directory; everything else ends with the process, however it ends.

mod chaos;
mod load;
mod memory;
pub mod outage;
mod report;
mod verdict;
mod witness;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::stage::Source;

use load::Load;
use report::Report;
use world::World;

/// Submissions of a whole run of [`FULL_RUN`]; shorter runs have their share.
const SUBMISSIONS: u64 = 20_000;
const FULL_RUN: u64 = 20 * 60;
/// Longest time for open submissions after the load, before they count as lost. Longer than a claim lives.
const DRAIN: Duration = Duration::from_secs(180);
/// Between two looks at how much memory the daemons hold.
const MEMORY_SAMPLED: Duration = Duration::from_secs(1);

/// Settings of a soak.
#[derive(Debug, Clone)]
pub struct Options {
    /// `maple-router`.
    pub binary: PathBuf,
    /// Directory for configuration, logs and the report; emptied first.
    pub dir: PathBuf,
    /// Length of the load, in seconds.
    pub seconds: u64,
    /// Submissions; a share of 20,000 by the time where absent.
    pub submissions: Option<u64>,
    /// Seed of the disturbances.
    pub seed: u64,
    /// Source of events.
    pub source: Source,
}

impl Options {
    fn submissions(&self) -> u64 {
        self.submissions.unwrap_or_else(|| (SUBMISSIONS * self.seconds / FULL_RUN).max(1))
    }
}

/// Runs the soak and prints its report; returns whether everything is as it must be.
///
/// # Errors
/// A part cannot be started, or the end cannot be read.
pub async fn run(options: Options) -> Result<bool> {
    let world = Arc::new(World::open(&options).await?);
    witness::watch(&world.stage.database).await?;
    let load = Load::new(options.submissions(), Duration::from_secs(options.seconds), options.seed);
    world.say(&format!(
        "soak: {} submissions over {} s (seed {}), three daemons: {}",
        options.submissions(),
        options.seconds,
        options.seed,
        options.binary.display()
    ));
    world.bad_relay(options.seed);

    let over = CancellationToken::new();
    let mut fleet = JoinSet::new();
    for (place, slot) in chaos::SLOTS.iter().enumerate() {
        let (world, over) = (Arc::clone(&world), over.clone());
        fleet.spawn(async move { chaos::keep(*slot, &world, options.seed + place as u64, &over).await });
    }
    let parts = tokio::spawn(chaos::restart_parts(Arc::clone(&world), options.seed, over.clone()));
    let sampling = tokio::spawn(sample_memory(Arc::clone(&world)));
    let submitted = load.submit(&world).await?;
    world.say(&format!("load is over: {} submitted; waiting for what is left", submitted.len()));
    over.cancel();
    parts.await.context("the restarts of the parts")??;
    let mut daemons = Vec::new();
    while let Some(kept) = fleet.join_next().await {
        daemons.push(kept.context("a daemon's keeper")??);
    }
    let drained = witness::drained(&world, DRAIN).await?;
    sampling.abort();
    for daemon in daemons {
        chaos::stop(daemon, &world).await;
    }
    let evidence = witness::gather(&world, submitted, drained).await?;
    let report = Report::of(&options, &world, evidence);
    report.write(&options.dir)?;
    world.say(&report.text());
    Ok(report.is_good())
}

/// Samples every daemon that lives, for ever.
async fn sample_memory(world: Arc<World>) {
    loop {
        let at = world.elapsed();
        world.notes().lives.iter_mut().for_each(|life| life.sample(at));
        tokio::time::sleep(MEMORY_SAMPLED).await;
    }
}
