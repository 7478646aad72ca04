//! `make grading-load`: see [`devkit::grading_load`]. Exit code 0 only if every count was right.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use devkit::grading_load::{self, Options};
use devkit::program;
use tokio::signal::unix::{SignalKind, signal};

/// Grades requests among killed graders, listening by the key, and through a throttled grader; measures what the schemas cost the routing
#[derive(Debug, Parser)]
struct Arguments {
    /// The program [default: target/release/maple-router]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Requests that are graded while graders are killed; 0: none
    #[arg(long, default_value_t = 1_000)]
    requests: u64,
    /// Listening submissions that are graded by the key; 0: none
    #[arg(long, default_value_t = 10_000)]
    listening: u64,
    /// Minutes for which the grader answers 429; 0: it never does
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Submissions that are routed in a turn; the first third is not counted
    #[arg(long, default_value_t = 24_000)]
    routed: u32,
    /// Rounds of turns: without the schemas, beside them, and graded without a gate; medians are shown; 0: none
    #[arg(long, default_value_t = 5)]
    turns: u32,
    /// Report where PostgreSQL spends its time in the last turn, by statement (pg_stat_statements)
    #[arg(long)]
    statements: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended("grading-load", run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<bool> {
    let Arguments { binary, requests, listening, minutes, routed, turns, statements } = arguments;
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the working tree")?;
    let binary = binary.unwrap_or_else(|| tree.join("target/release/maple-router"));
    let throttled = Duration::try_from_secs_f64(minutes * 60.0)?;
    let options = Options { binary, requests, listening, throttled, routed, turns, statements };
    let mut term = signal(SignalKind::terminate())?;
    // An early end drops these values, and the processes end with them.
    tokio::select! {
        done = grading_load::run(&options) => done,
        _ = term.recv() => bail!("ended by SIGTERM"),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted")
        }
    }
}
