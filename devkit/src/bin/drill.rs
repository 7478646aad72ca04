//! `make drill`: see [`devkit::drill`]. Exit code 0 only if blue saw everything.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use devkit::drill::{self, Options};

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
    match play(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            if writeln!(io::stderr(), "drill: {error:#}").is_err() {
                // Nobody reads it; the exit code still speaks.
            }
            ExitCode::FAILURE
        }
    }
}

async fn play(arguments: Arguments) -> Result<bool> {
    let Arguments { only, binary, dir, list } = arguments;
    if list {
        writeln!(io::stdout(), "{}", drill::steps().join("\n"))?;
        return Ok(true);
    }
    let binary = match binary {
        Some(binary) => binary.canonicalize().context("the router")?,
        None => {
            let own = std::env::current_exe().context("finding this program's own file")?;
            own.with_file_name("maple-router")
        }
    };
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let dir = dir.unwrap_or_else(|| workspace.join(".drill"));
    drill::run(Options { binary, dir, only, settings: String::new() }).await
}
