//! `grading sla`: how long each stage took, from the events, and how many attempts were in time.

use std::time::Duration;

use super::Room;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::store::views::StageTimes;

/// Arguments of `grading sla`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Stages that were left within this time
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = humantime::parse_duration)]
    since: Duration,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Prints the table. Wanting (1) where an attempt of that time came to its end too late.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let times = room.store.sla(args.since.as_secs_f64()).await.map_err(setup::database)?;
    output::either(args.json, &times, || {
        if times.is_empty() { "no attempt left a stage in that time\n".to_owned() } else { text(&times) }
    })?;
    let is_late = |times: &StageTimes| times.stage == "end_to_end" && times.in_time < times.count;
    Ok(if times.iter().any(is_late) { Exit::FoundWanting } else { Exit::Done })
}

fn text(times: &[StageTimes]) -> String {
    let columns = [
        ("SKILL", Side::Left),
        ("STAGE", Side::Left),
        ("ATTEMPTS", Side::Right),
        ("P50", Side::Right),
        ("P95", Side::Right),
        ("IN TIME", Side::Right),
    ];
    let mut table = Table::new(&columns);
    for of in times {
        let in_time =
            if of.stage == "end_to_end" { format!("{} of {}", of.in_time, of.count) } else { String::new() };
        table.row(vec![
            of.skill.clone(),
            of.stage.clone(),
            of.count.to_string(),
            format!("{:.2} s", of.p50),
            format!("{:.2} s", of.p95),
            in_time,
        ]);
    }
    table.text(output::columns())
}
