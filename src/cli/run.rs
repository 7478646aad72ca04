//! `run`: the daemon, until it is told to stop.
//!
//! SIGTERM and SIGINT drain; a second one ends at once. What was not finished stays in `processing`.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{CliError, Context, Exit};
use crate::daemon::{self, DaemonError};
use crate::ops::telemetry;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the daemon.
pub(super) async fn run(ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    let loaded = ctx.config()?;
    telemetry::init(&loaded.config.log, ctx.env.get("RUST_LOG").map(String::as_str))?;
    let stop = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut daemon = tokio::spawn(daemon::run(loaded.config, stop.clone()));
    loop {
        tokio::select! {
            ended = &mut daemon => return ended?.map(|()| Exit::Done).map_err(refused),
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        if stop.is_cancelled() {
            tracing::error!("told to stop a second time: what is being sent is left in doubt");
            return Ok(Exit::FoundWanting);
        }
        stop.cancel();
    }
}

/// The daemon only ends by itself when something must be mended first.
fn refused(error: DaemonError) -> CliError {
    tracing::error!("{error}");
    let exit = match error {
        DaemonError::Part(_)
        | DaemonError::Contract(_)
        | DaemonError::Source(_)
        | DaemonError::SourceKind => Exit::BadConfig,
        DaemonError::Http(_) | DaemonError::Metrics(_) => Exit::Unavailable,
    };
    CliError::new(exit, error)
}
