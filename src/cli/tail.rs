//! `tail`: the ends of all submissions, a line each as they end.
//!
//! Reads only, looking once a second by an index, or by the audit log's key where that may be read; where there is
//! neither, the longer a look takes the rarer it is.

use std::time::Duration;

use super::output::{self, Palette};
use super::setup::{self, Setup};
use super::watch::passes;
use super::{CliError, Context, Exit};
use crate::ops::clock::SystemClock;
use crate::ports::Clock as _;
use crate::queries::tail::Follower;
use crate::routing::explain::at;
use crate::routing::store::ends::{End, Ends};
use crate::routing::submission::text::{bounded, one_line};

/// Shortest interval between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Rest after a look, as a multiple of its time.
const RESTS: u32 = 20;

/// Arguments of `tail`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only of this form
    #[arg(long, value_name = "FORM")]
    pub(super) form: Option<String>,
    /// A JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

/// Follows until a signal ends it.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let ends = Ends::new(setup.pool.clone());
    let ways = ends.ways().await.map_err(setup::database)?;
    if let Some(unknown) = setup.unknown_form(args.form.as_deref()).await {
        output::note(&format!("warning: {unknown}"))?;
    }
    if !ways.indexed && !ways.audited {
        output::note(
            "warning: there is no index on submissions (status, updated_at), and this role may not read the audit log: each look \
             reads all submissions, so there are few",
        )?;
    }
    let mut follower = Follower::new(ends.begin(ways).await.map_err(setup::database)?);
    if !args.json {
        output::note("following what becomes of submissions from now on; Ctrl-C ends it")?;
    }
    let (clock, mut silent) = (SystemClock, false);
    loop {
        let began = clock.monotonic();
        match follower.look(&ends, ways).await {
            Ok(found) => {
                silent = false;
                for end in found.iter().filter(|end| args.form.is_none() || end.form_id == args.form) {
                    if args.json { output::json_line(end)? } else { output::page(&line(end))? }
                }
            }
            Err(error) if !passes(&error) => return Err(setup::database(error)),
            Err(error) => {
                if !std::mem::replace(&mut silent, true) {
                    output::note(&format!("the database does not answer ({error}): waiting for it"))?;
                }
            }
        }
        let took = clock.monotonic().saturating_duration_since(began);
        tokio::time::sleep(EVERY.max(took * RESTS)).await;
    }
}

fn line(end: &End) -> String {
    let palette = Palette::of_stdout();
    let status = format!("{:<6}", one_line(&end.status));
    let painted = if end.status == "routed" { palette.green(&status) } else { palette.red(&status) };
    let form = end.form_id.as_deref().map(|form| bounded(one_line(form), 40)).unwrap_or_default();
    let attempts = end.attempts.as_deref().map(|n| format!("attempt {}", bounded(one_line(n), 10)));
    let reason = end.reason.as_deref().map(|reason| bounded(one_line(reason), 30));
    let facts: Vec<String> = attempts.into_iter().chain(reason).collect();
    format!("{}  {}  {painted}  {form}  {}", at(end.at), end.id, facts.join(", ")).trim_end().to_owned()
}
