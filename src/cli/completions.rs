//! `completions SHELL`: a script for the shell, on stdout. Reads no configuration.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, CliError, Exit, output};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(super) fn run(args: &Args) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "maple-router", &mut script);
    output::text(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}
