//! `gc run`: one run of the collector. A timer starts it once a day; whoever interrupts it leaves the rest to the next.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Office;
use crate::cli::{CliError, Exit, output, setup};
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::ports::Clock as _;
use crate::retention::collector::{Collector, Ended, RunError};
use crate::retention::counts::Counts;

/// Time between two lines of progress at a terminal.
const PROGRESS: Duration = Duration::from_secs(5);

/// Arguments of `gc run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the collector once.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let collector = Collector {
        store: office.store.clone(),
        objects: office.objects()?,
        rng: Arc::new(Rng::from_system()),
        actor: office.actor.clone(),
        grace: office.config.retention.grace,
        rest: office.config.retention.rest,
        clock: Arc::new(SystemClock),
        progress: progress(),
    };
    let stop = stopped()?;
    let (exit, document, line) = match collector.run(&stop).await {
        Ok(Ended::Done(run, counts)) => {
            (Exit::Done, done("done", run, &counts), format!("run {run} is done: {}", counts.words()))
        }
        Ok(Ended::Stopped(run, counts)) => {
            let line = format!("run {run} was stopped: {}. The next one goes on from here", counts.words());
            (Exit::Done, done("stopped", run, &counts), line)
        }
        Ok(Ended::Busy(run)) => {
            let line = format!(
                "run {} by {} is at work since {}: nothing was done",
                run.id,
                run.actor,
                crate::routing::explain::at(run.started_at)
            );
            (Exit::FoundWanting, json!({"outcome": "busy", "run": run}), line)
        }
        Err(RunError::Database(error)) => return Err(setup::database(error)),
        Err(error @ RunError::Store(_)) => {
            return Err(CliError::new(Exit::Unavailable, error)
                .remedy("what was done stands, the next run goes on; maple-router gc status, and rb-013"));
        }
        Err(error @ RunError::Lost) => return Err(CliError::new(Exit::FoundWanting, error)),
    };
    output::either(args.json, &document, || format!("{line}\n"))?;
    Ok(exit)
}

fn done(outcome: &str, run: i64, counts: &Counts) -> serde_json::Value {
    json!({"outcome": outcome, "run": run, "counts": counts})
}

/// A line now and then, for a person who waits at a terminal.
fn progress() -> Arc<dyn Fn(&Counts) + Send + Sync> {
    let last = Mutex::new(SystemClock.monotonic());
    let shown = std::io::stderr().is_terminal();
    Arc::new(move |counts| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.monotonic();
        if shown && now.saturating_duration_since(*last) >= PROGRESS {
            *last = now;
            // Nobody looks: the work goes on.
            drop(output::note(&format!("so far: {}", counts.words())));
        }
    })
}

/// Cancelled by SIGINT or SIGTERM.
pub(in crate::cli) fn stopped() -> Result<CancellationToken, CliError> {
    let (stop, mut interrupt, mut terminate) =
        (CancellationToken::new(), signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let token = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        token.cancel();
    });
    Ok(stop)
}
