//! `run`: the daemon, until a signal stops it.
//!
//! SIGTERM and SIGINT drain; a second one ends at once. Unfinished submissions stay in `processing`. SIGHUP reads
//! the configuration again: keys that need no restart change, and a bad file changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{CliError, Context, Exit};
use crate::config::Config;
use crate::config::reload::{self, Reload};
use crate::daemon::{self, DaemonError, Reloads};
use crate::journal;
use crate::ops::clock::SystemClock;
use crate::ops::log_rate::{self, LogRate};
use crate::ops::telemetry::{self, EventName, Telemetry};
use crate::ops::{metrics, systemd};
use crate::ports::Clock as _;
use crate::scrub::scrub;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the daemon.
pub(super) async fn run(ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    let loaded = ctx.config()?;
    let clock = Arc::new(SystemClock);
    let rate = LogRate::new(Arc::<SystemClock>::clone(&clock));
    let telemetry =
        telemetry::init(&loaded.config.log, ctx.env.get("RUST_LOG").map(String::as_str), Some(rate))?;
    let stop = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hup = signal(SignalKind::hangup())?;
    let (current, config) = watch::channel(Arc::new(loaded.config.clone()));
    let ready = CancellationToken::new();
    let reloader = Reloader { ctx, telemetry, current };
    let reloads = Reloads { config, ready: ready.clone() };
    let mut daemon = tokio::spawn(daemon::run(loaded.config, reloads, stop.clone()));
    loop {
        tokio::select! {
            ended = &mut daemon => {
                reloader.telemetry.tell_left_out();
                return ended?.map(|()| Exit::Done).map_err(refused);
            }
            () = clock.sleep(log_rate::WINDOW) => {
                reloader.telemetry.tell_left_out();
                continue;
            }
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {
                // Before the daemon is ready there is nothing to reload, and a stop is not undone by one.
                if ready.is_cancelled() && !stop.is_cancelled() {
                    reloader.reload();
                } else {
                    tracing::warn!("SIGHUP counts once the daemon is ready: nothing was read again");
                }
                continue;
            }
        }
        if stop.is_cancelled() {
            tracing::error!("asked to stop a second time: what is being sent is left in doubt");
            return Ok(Exit::FoundWanting);
        }
        stop.cancel();
    }
}

/// Reads the configuration again.
struct Reloader<'a> {
    ctx: &'a Context,
    telemetry: Telemetry,
    /// The configuration in force.
    current: watch::Sender<Arc<Config>>,
}

impl Reloader<'_> {
    /// Reads the file again. A file with a fault is not used in part: either every live key changes, or none.
    fn reload(&self) {
        systemd::reloading();
        let read = self.read();
        metrics::RELOAD_OK.set((), read.is_ok());
        match read {
            Ok(Reload { config, applied, waiting }) => {
                let (changed, restart) = (list(&applied), list(&waiting));
                self.current.send_replace(Arc::new(config));
                journal!(
                    info,
                    EventName::Reloaded,
                    changed,
                    needs_restart = restart,
                    "the configuration was read again: {}{}",
                    if applied.is_empty() {
                        "nothing changes".to_owned()
                    } else {
                        format!("{changed} now in force")
                    },
                    if waiting.is_empty() {
                        String::new()
                    } else {
                        format!("; {restart} only after a restart")
                    }
                );
            }
            Err(why) => journal!(
                error,
                EventName::ReloadFailed,
                "the configuration was read again and is not used, the old one stays in force: {}",
                scrub(&why)
            ),
        }
        systemd::ready();
    }

    fn read(&self) -> Result<Reload, String> {
        let read = self.ctx.config().map_err(|error| error.to_string())?;
        let merged = reload::merge(&self.current.borrow(), &read.config).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("it holds together only after a restart: {}", problems.join("; "))
        })?;
        self.telemetry.set_level(&merged.config.log.level).map_err(|error| error.to_string())?;
        Ok(merged)
    }
}

fn list(keys: &BTreeSet<String>) -> String {
    keys.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Ends the verb for an error of the daemon, which ends by itself only when something must be mended first.
fn refused(error: DaemonError) -> CliError {
    tracing::error!("{error}");
    let exit = match error {
        DaemonError::Part(_)
        | DaemonError::Contract(_)
        | DaemonError::Source(_)
        | DaemonError::Subscription { .. } => Exit::BadConfig,
        DaemonError::Http(_) | DaemonError::Metrics(_) | DaemonError::Watchdog(_) => Exit::Unavailable,
    };
    CliError::new(exit, error)
}
