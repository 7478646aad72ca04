//! `make desk-load`: see [`devkit::desk_load`].

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use devkit::desk_load::{self, Options};
use devkit::program;

/// Measures the review desk among a million entries, and routing beside a flood of it
#[derive(Debug, Parser)]
struct Arguments {
    /// The router [default: maple-router beside this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Entries, a tenth of them open
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Flood the desk at this port instead, until the input ends
    #[arg(long, value_name = "PORT", requires = "cookie", hide = true)]
    flood: Option<u16>,
    #[arg(long, hide = true)]
    cookie: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended("desk-load", run(Arguments::parse()).await.map(|()| true))
}

async fn run(arguments: Arguments) -> Result<()> {
    if let (Some(port), Some(cookie)) = (arguments.flood, &arguments.cookie) {
        return desk_load::flood(port, cookie).await;
    }
    let binary = program::router(arguments.binary)?;
    desk_load::run(&Options { binary, entries: arguments.entries }).await
}
