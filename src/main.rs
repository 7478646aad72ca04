//! The binary: parses, makes a runtime, runs the verb, turns its end into an exit code.
//!
//! Verbs are in [`maple_router::cli`], the daemon behind `run` in the library; nothing here is worth testing alone.

use std::process::ExitCode;

use clap::Parser;
use maple_router::cli::{Cli, CliError};
use tokio::runtime::{Builder, Runtime};

/// A submission makes thousands of small allocations, often freed on another thread: jemalloc is fastest at that.
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

/// Two workers for the daemon, so that a long computation never delays a heartbeat; one thread for every other verb.
fn runtime(cli: &Cli) -> std::io::Result<Runtime> {
    if cli.is_daemon() {
        Builder::new_multi_thread().worker_threads(2).enable_all().build()
    } else {
        Builder::new_current_thread().enable_all().build()
    }
}
