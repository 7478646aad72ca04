//! `make demo`: see [`devkit::demo`]. Exit code 0 only if every submission ended as it should, 130 when interrupted.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use devkit::demo::{self, Ending, Options};
use devkit::program;
use devkit::stage::Source;

/// Shows what becomes of a dozen submissions, on a real maple-router process
#[derive(Debug, Parser)]
struct Arguments {
    /// Leave everything running and print the addresses, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// The router [default: maple-router beside this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Directory for configuration, log and mails; emptied first [default: .demo in the working tree]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Source of events
    #[arg(long, value_enum, default_value_t = Events::Pubsub)]
    source: Events,
    /// Milliseconds between two stories
    #[arg(long, value_name = "MS", default_value_t = 1_500)]
    pace: u64,
}

/// `[source] kind`
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Events {
    /// A subscription
    Pubsub,
    /// The outbox of the database: no broker
    Postgres,
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match options(Arguments::parse()) {
        Ok(options) => demo::run(options).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(Ending::AsExpected) => ExitCode::SUCCESS,
        Ok(Ending::NotAsExpected) => ExitCode::FAILURE,
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error) => program::failed("demo", &error),
    }
}

fn options(arguments: Arguments) -> Result<Options> {
    let Arguments { keep, binary, dir, source, pace } = arguments;
    let source = match source {
        Events::Pubsub => Source::Pubsub,
        Events::Postgres => Source::Postgres,
    };
    let binary = program::router(binary)?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let dir = dir.unwrap_or_else(|| workspace.join(".demo"));
    Ok(Options { binary, dir, keep, source, pace: Duration::from_millis(pace) })
}
