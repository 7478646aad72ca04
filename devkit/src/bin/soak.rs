//! `make soak`: see [`devkit::soak`]. Exit code 0 only if everything was as it must be.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use devkit::program;
use devkit::soak::{self, Options, outage};
use devkit::stage::Source;

/// Runs three daemons under load for a long time while everything fails around them, and counts what comes of it
#[derive(Debug, Parser)]
struct Arguments {
    /// Length of the load [default: 1200, for an outage 300]
    #[arg(long, env = "SOAK_SECONDS", value_name = "S")]
    seconds: Option<u64>,
    /// Submissions [default: 20,000 in 20 minutes, shorter runs their share]
    #[arg(long, value_name = "N")]
    submissions: Option<u64>,
    /// The same seed, the same disturbances (not at the same moments)
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The router [default: maple-router beside this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Directory for configuration, logs and the report; emptied first [default: .soak in the working tree]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Source of events
    #[arg(long, value_enum, default_value_t = Events::Pubsub)]
    source: Events,
    /// Instead: one part is gone for so long, with the protocol's own timings, and one daemon
    #[arg(long, value_name = "PART")]
    outage: Option<Part>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Part {
    Relay,
    Postgres,
    /// It throttles
    HelpDesk,
}

/// `[source] kind`
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Events {
    /// A subscription
    Pubsub,
    /// The outbox of the database: no broker
    Postgres,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended("soak", play(Arguments::parse()).await)
}

async fn play(arguments: Arguments) -> Result<bool> {
    let Arguments { seconds, submissions, seed, binary, dir, source, outage } = arguments;
    let source = match source {
        Events::Pubsub => Source::Pubsub,
        Events::Postgres => Source::Postgres,
    };
    let binary = program::router(binary)?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    // The daemons get this path in their configuration, and take no relative one.
    let dir = std::path::absolute(dir.unwrap_or_else(|| workspace.join(".soak"))).context("the directory")?;
    let seconds = seconds.unwrap_or(match outage {
        None => 1200,
        Some(Part::Relay | Part::Postgres) => 300,
        // The longest throttle that the help desk has.
        Some(Part::HelpDesk) => 600,
    });
    let options = Options { binary, dir, seconds, submissions, seed, source };
    match outage {
        None => soak::run(options).await,
        Some(Part::Relay) => outage::run(options, outage::Part::Relay).await,
        Some(Part::Postgres) => outage::run(options, outage::Part::Postgres).await,
        Some(Part::HelpDesk) => outage::run(options, outage::Part::HelpDesk).await,
    }
}
