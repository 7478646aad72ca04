//! `make upload-load`: see [`devkit::upload_load`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use devkit::{program, upload_load};

/// Measures how fast a file comes in, is verified and scanned, and what memory that takes
#[derive(Debug, Parser)]
struct Arguments {
    /// The router [default: maple-router beside this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Size of the file
    #[arg(long, default_value_t = 200)]
    mebibytes: usize,
    /// Rounds; medians are shown
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    program::ended("upload-load", run(arguments).await)
}

async fn run(arguments: Arguments) -> anyhow::Result<bool> {
    let binary = program::router(arguments.binary)?;
    upload_load::run(&binary, arguments.mebibytes, arguments.rounds.max(1)).await
}
