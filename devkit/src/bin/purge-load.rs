//! `make purge-load`: see [`devkit::purge_load`]. Exit code 0 only if everything was routed, mailed and purged as it must be.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use clap::builder::RangedU64ValueParser;
use devkit::program;
use devkit::purge_load::{self, Options};
use tokio::signal::unix::{SignalKind, signal};

/// Measures what a purge of a million ended submissions costs routing beside it, and what memory that takes
#[derive(Debug, Parser)]
struct Arguments {
    /// The router [default: target/release/maple-router]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Submissions that ended three years ago
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Submissions a second that come meanwhile
    #[arg(long, default_value_t = 500, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100_000))]
    rate: u32,
    /// Length of a turn
    #[arg(long, default_value_t = 60, value_parser = RangedU64ValueParser::<u32>::new().range(1..=3_600))]
    seconds: u32,
    /// Pairs of turns, one without a purge and one beside it; medians are shown
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000))]
    turns: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended("purge-load", run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<bool> {
    let Arguments { binary, rows, rate, seconds, turns } = arguments;
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the working tree")?;
    let binary = binary.unwrap_or_else(|| tree.join("target/release/maple-router"));
    let options = Options { binary, rows, rate, seconds, turns };
    let mut term = signal(SignalKind::terminate())?;
    // An early end drops these values, and the processes end with them.
    tokio::select! {
        done = purge_load::run(&options) => done,
        _ = term.recv() => bail!("ended by SIGTERM"),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted")
        }
    }
}
