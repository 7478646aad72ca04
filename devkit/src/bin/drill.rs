//! `make drill`: see [`devkit::drill`]. Exit code 0 only if blue saw everything.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use devkit::drill::{self, Options};
use devkit::program;

/// Plays red's steps against a real maple-router, and looks whether blue sees each of them
#[derive(Debug, Parser)]
struct Arguments {
    /// Only steps with one of these in their names
    #[arg(value_name = "STEP")]
    only: Vec<String>,
    /// The router [default: maple-router beside this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Working directory, emptied first [default: .drill in the working tree]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Only name the steps
    #[arg(long)]
    list: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended("drill", play(Arguments::parse()).await)
}

async fn play(arguments: Arguments) -> Result<bool> {
    let Arguments { only, binary, dir, list } = arguments;
    if list {
        writeln!(io::stdout(), "{}", drill::steps().join("\n"))?;
        return Ok(true);
    }
    let asked = binary.map(|asked| asked.canonicalize()).transpose().context("the router")?;
    let binary = program::router(asked)?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let dir = dir.unwrap_or_else(|| workspace.join(".drill"));
    drill::run(Options { binary, dir, only, settings: String::new() }).await
}
