//! `gc status`: what waits to be collected, what is kept, and the latest runs. Reads only, as the daemon's role.

use serde_json::json;

use crate::cli::setup::{self, Setup};
use crate::cli::{CliError, Context, Exit, output};
use crate::parts;
use crate::retention::counts::Counts;
use crate::retention::store::holds::Rule;
use crate::retention::store::runs::Run;
use crate::retention::store::watched::Standing;
use crate::routing::explain::at;

/// Runs that are shown.
const RUNS: usize = 5;

/// Arguments of `gc status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Shows how collection stands.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let store = parts::retention_store(&setup.config, setup.pool.clone());
    if !store.is_there().await.map_err(setup::database)? {
        return Err(CliError::new(
            Exit::BadConfig,
            anyhow::anyhow!("schema content has no retention: nothing is ever removed"),
        )
        .remedy("as the owner: maple-router migrate --content"));
    }
    let standing = store.standing().await.map_err(setup::database)?;
    let runs = store.runs(RUNS).await.map_err(setup::database)?;
    let rules = store.rules().await.map_err(setup::database)?;
    let document = json!({
        "tombstoned": standing.tombstoned, "eligible_for_gc": standing.eligible, "owed": standing.owed, "holds": standing.holds,
        "recalls": standing.recalls, "rules": rules, "runs": runs,
    });
    output::either(args.json, &document, || text(&standing, &runs, &rules))?;
    Ok(Exit::Done)
}

fn text(standing: &Standing, runs: &[Run], rules: &[Rule]) -> String {
    let mut text = format!(
        "{} blobs have no reference, {} are marked, {} deleted ones still have their object\n{} holds, {} recalls under way\n",
        standing.tombstoned, standing.eligible, standing.owed, standing.holds, standing.recalls
    );
    if rules.is_empty() {
        text.push_str("no form says how long it keeps: submissions end by retention_expires_at alone\n");
    }
    for rule in rules {
        text.push_str(&format!("{}\n", super::super::retention::words(rule)));
    }
    if runs.is_empty() {
        text.push_str("no run yet: systemctl list-timers maple-router-gc.timer\n");
    }
    for run in runs {
        let counts = Counts::read(&run.counts).words();
        let trouble = run.trouble.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        text.push_str(&format!(
            "run {} of {}: {}{trouble}: {counts}\n",
            run.id,
            at(run.started_at),
            run.state
        ));
    }
    text
}
