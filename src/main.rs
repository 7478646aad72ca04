//! The binary: parse, make a runtime, run the verb, turn its end into an exit code.
//!
//! Holds nothing worth testing alone: verbs are in [`maple_router::cli`], the daemon behind `run` in the library.

use std::process::ExitCode;

use clap::Parser;
use maple_router::cli::{Cli, CliError};
use tokio::runtime::{Builder, Runtime};

/// A submission makes thousands of small allocations, on one thread and given back on another, which is where it is fastest.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ended = runtime(&cli).map_err(CliError::from).and_then(|runtime| runtime.block_on(cli.run()));
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.report();
            error.exit().into()
        }
    }
}

/// Two workers for the daemon, so that a long computation never holds up a heartbeat; one thread for every other verb.
fn runtime(cli: &Cli) -> std::io::Result<Runtime> {
    if cli.is_daemon() {
        Builder::new_multi_thread().worker_threads(2).enable_all().build()
    } else {
        Builder::new_current_thread().enable_all().build()
    }
}
