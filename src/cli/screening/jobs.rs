//! `screening jobs`.

use super::Room;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;
use crate::screening::store::views::JobView;
use crate::screening::table::JobType;

/// Jobs that are shown.
const MOST: usize = 1000;

/// Arguments of `screening jobs`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only of this type: tier1-scan, tier2-scan, publish
    #[arg(long = "type", value_name = "TYPE", value_parser = job_type)]
    job: Option<JobType>,
    /// Only those that were given up on
    #[arg(long)]
    dead: bool,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

fn job_type(text: &str) -> Result<JobType, String> {
    let known: Vec<&str> = JobType::ALL.iter().map(|job| job.label()).collect();
    JobType::parse(text).ok_or_else(|| format!("there is no such type; known are {}", known.join(", ")))
}

/// Prints the jobs.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let mut jobs =
        room.store.jobs(args.job.map(JobType::label), args.dead, MOST + 1).await.map_err(setup::database)?;
    let more = jobs.len() > MOST;
    jobs.truncate(MOST);
    output::either(args.json, &jobs, || text(&jobs, args.dead))?;
    if more {
        output::note(&format!("only the first {MOST} are shown"))?;
    }
    Ok(Exit::Done)
}

fn text(jobs: &[JobView], dead: bool) -> String {
    if jobs.is_empty() {
        return if dead { "no job was given up on\n" } else { "no job waits\n" }.to_owned();
    }
    let columns = [
        ("RUN", Side::Left),
        ("TYPE", Side::Left),
        ("STATUS", Side::Left),
        ("CLAIMS", Side::Right),
        ("DUE", Side::Left),
        ("FORM", Side::Left),
        ("WHY", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for job in jobs {
        table.row(vec![
            job.submission_id.to_string(),
            job.job_type.clone(),
            job.status.clone(),
            job.attempt.to_string(),
            at(job.available_at),
            one_line(&job.form_id),
            job.dead_reason.clone().unwrap_or_default(),
        ]);
    }
    let mut text = table.text(output::columns());
    if jobs.iter().any(|job| job.dead_reason.is_some()) {
        text.push_str(
            "what was given up on is tried again from its entry (review resolve --remedy redrive): maple-router review list --cause \
             screening_job\n",
        );
    }
    text
}
