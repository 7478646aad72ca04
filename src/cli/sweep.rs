//! `sweep --once`: one pass of the sweep, out of process.
//!
//! No worker runs beside it, so submissions found are announced by events; without Pub/Sub, waiting rows are only counted:
//! the daemon hands them on. If we die in the middle, finished work stands and the next pass does the rest.

use std::sync::Arc;

use serde::Serialize;

use super::setup::{self, Setup};
use super::{CliError, Context, Exit, announce, output};
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::ops::set_aside::SetAside;
use crate::parts;
use crate::ports::Clock;
use crate::routing::pause::PauseBoard;
use crate::routing::store::sweep::SweepBounds;
use crate::routing::upkeep::sweep::{Outlet, SweepReport, Sweeper};
use crate::scrub::scrub;

/// Arguments of `sweep`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One pass; the daemon sweeps by itself
    #[arg(long, required = true)]
    pub(super) once: bool,
    /// Only count what would be found
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// The report (interfaces page, `sweep --once`).
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    counts: SweepReport,
    /// Nothing was changed.
    dry_run: bool,
    /// Failures of the pass.
    warnings: Vec<String>,
}

/// Makes one pass.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let paused = setup.pauses().read().await.map_err(setup::pauses)?;
    let all_paused = paused.of_all().is_some();
    let store = setup.writing_store()?.with_pauses(PauseBoard::of(paused));
    let bounds = SweepBounds::from(&setup.config);
    let mut warnings = Vec::new();
    if all_paused {
        warnings.push("everything is paused: nothing is handed on until `maple-router resume`".to_owned());
    }
    let counts = if args.dry_run {
        let found = store.sweep_count(&bounds).await.map_err(setup::database)?;
        let unready = store.unready(&bounds).await.map_err(setup::database)?;
        SweepReport {
            stuck: found.stuck,
            orphans: found.orphans,
            infected: found.infected,
            never_ready: unready.count,
            alerts: 0,
        }
    } else {
        let events = match announce::republisher(&setup.config).await {
            Ok(events) => Some(events),
            Err(why) => {
                let waiting = store.sweep_count(&bounds).await.map_err(setup::database)?.orphans;
                warnings.push(format!(
                    "left to the daemon's own sweep: {waiting} that wait without an event, because {why}"
                ));
                None
            }
        };
        let rng = Arc::new(Rng::from_system());
        let (outlet, aside) = (Outlet { queue: None, events }, SetAside::new(Arc::new(SystemClock), None));
        let sweeper = Sweeper::new(store, bounds, outlet, Arc::clone(&rng), aside);
        let mut counts = sweeper.pass(|| !all_paused).await.map_err(setup::database)?;
        counts.alerts = alerts(&setup, &rng, &mut warnings).await?;
        if let Some(why) = sweeper.unpublished() {
            warnings.push(format!(
                "not every submission that was found could be announced ({why}): the daemon's own sweep finds the rest"
            ));
        }
        counts
    };
    tell(&Report { counts, dry_run: args.dry_run, warnings }, args.json)?;
    Ok(Exit::Done)
}

/// Notifies people of every failure not yet notified; failed notices wait for the next pass.
async fn alerts(setup: &Setup, rng: &Arc<Rng>, warnings: &mut Vec<String>) -> Result<u64, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let aside = SetAside::new(Arc::clone(&clock), None);
    let people =
        parts::alert_sender(&setup.config, setup.pool.clone(), clock, Arc::clone(rng), aside.clone())
            .map_err(|error| CliError::new(Exit::BadConfig, error))?;
    let Some(mut people) = people else {
        warnings.push("nobody is alerted: slack.webhook_file is not configured".to_owned());
        return Ok(0);
    };
    let time = Arc::new(SystemClock);
    let late = parts::late_infections(&setup.config, setup.pool.clone(), time, Arc::clone(rng), aside)
        .map_err(|error| CliError::new(Exit::BadConfig, error))?;
    late.look().await.map_err(setup::database)?;
    people.failures.push(late);
    match people.pass().await {
        Ok(sent) => Ok(u64::try_from(sent).unwrap_or(u64::MAX)),
        Err(error) => {
            warnings.push(format!("not everybody was notified: {}", scrub(&error.to_string())));
            Ok(0)
        }
    }
}

fn tell(report: &Report, json: bool) -> Result<(), CliError> {
    if json {
        return output::json(report);
    }
    for warning in &report.warnings {
        output::note(&format!("warning: {warning}"))?;
    }
    let SweepReport { stuck, orphans, infected, never_ready, alerts } = report.counts;
    let mut text = String::new();
    if report.dry_run {
        text.push_str("nothing was changed; a pass would find\n");
    }
    let would = if report.dry_run { "would be " } else { "" };
    for (count, what) in [
        (stuck, format!("stuck: claims that nobody ends, {would}taken back or failed")),
        (orphans, format!("orphans: ready and due, {would}handed on")),
        (infected, format!("infected: {would}failed")),
        (never_ready, "never ready: only counted".to_owned()),
        (
            alerts,
            if report.dry_run { "alerts: not looked for".to_owned() } else { "alerts raised".to_owned() },
        ),
    ] {
        text.push_str(&format!("{count:>6}  {what}\n"));
    }
    output::page(&text)
}
