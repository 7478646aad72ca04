//! `make screening-load`: see [`devkit::screening_load`]. Exit code 0 only if everything came to where it must.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use devkit::program;
use devkit::screening_load::{self, Options};
use tokio::signal::unix::{SignalKind, signal};

/// Measures what rules and judge come to with the database, and what schema screening costs the routing of other forms
#[derive(Debug, Parser)]
struct Arguments {
    /// The program [default: target/release/maple-router]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Runs that the rules look at
    #[arg(long, default_value_t = 20_000)]
    runs: u64,
    /// Runs that a judge approves
    #[arg(long, default_value_t = 1_000)]
    approved: u64,
    /// Approved runs that come a second
    #[arg(long, default_value_t = 20)]
    rate: u64,
    /// Submissions that are routed in a turn; the first third is not counted
    #[arg(long, default_value_t = 24_000)]
    routed: u32,
    /// Pairs of turns, one without schema screening and one with it; medians are shown
    #[arg(long, default_value_t = 5)]
    turns: u32,
    /// Runs that wait while the judge is away; 0: it never is
    #[arg(long, default_value_t = 0)]
    away: u64,
    /// Minutes for which it is away: people are notified after ten
    #[arg(long, default_value_t = 12)]
    minutes: u64,
    /// Report where PostgreSQL spends its time while the rules look, by statement (pg_stat_statements)
    #[arg(long)]
    statements: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended("screening-load", run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<bool> {
    let Arguments { binary, runs, approved, rate, routed, turns, away, minutes, statements } = arguments;
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the working tree")?;
    let binary = binary.unwrap_or_else(|| tree.join("target/release/maple-router"));
    let away_for = Duration::from_secs(minutes * 60);
    let options = Options { binary, runs, approved, rate, routed, turns, away, away_for, statements };
    let mut term = signal(SignalKind::terminate())?;
    // An early end drops these values, and the processes end with them.
    tokio::select! {
        done = screening_load::run(&options) => done,
        _ = term.recv() => bail!("ended by SIGTERM"),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted")
        }
    }
}
