//! `scan-tree`: what the screener starts for each repository. It gives its rights away, reads a tree from its standard input, and says
//! what the rules find; no configuration, no database, no journal.

use std::io::{self, Write as _};

use super::{CliError, Exit};
use crate::gateway::confined::child;
use crate::screening::tier1::wire;

/// Arguments of `scan-tree`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Scans a tree. For a process with one thread.
pub(super) fn run() -> Result<Exit, CliError> {
    child::confine()?;
    let answer = wire::answer(&child::question()?).map_err(io::Error::other)?;
    io::stdout().lock().write_all(&answer)?;
    Ok(Exit::Done)
}
