//! `screening sla`: how long each stage took, against what is promised.

use std::time::Duration;

use serde::Serialize;

use super::Room;
use crate::cli::filters::duration;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::screening::store::views::StageTimes;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// Targets of P50 and P95 by stage, in seconds. Five and ten business days of a person are taken as seven and fourteen.
const TARGETS: [(&str, f64, f64); 5] = [
    ("tier 1", 0.5, 1.0),
    ("tier 2", 15.0, 30.0),
    ("publish", 5.0, 10.0),
    ("end to end", 30.0, 60.0),
    ("human review", 7.0 * DAY, 14.0 * DAY),
];

/// Arguments of `screening sla`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Time that is looked back
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "24h")]
    since: Duration,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Document {
    since_seconds: f64,
    stages: Vec<Stage>,
    ok: bool,
}

#[derive(Debug, Serialize)]
struct Stage {
    #[serde(flatten)]
    times: StageTimes,
    target_p50: f64,
    target_p95: f64,
    /// `ok`, `missed`, or nothing without runs.
    p50_is: Option<&'static str>,
    p95_is: Option<&'static str>,
}

/// Prints the table.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let times = room.store.sla(args.since).await.map_err(setup::database)?;
    let stages: Vec<Stage> = times.into_iter().filter_map(judged).collect();
    let ok = stages.iter().all(|stage| stage.p95_is != Some(MISSED));
    let document = Document { since_seconds: args.since.as_secs_f64(), stages, ok };
    output::either(args.json, &document, || text(&document.stages))?;
    Ok(if ok { Exit::Done } else { Exit::FoundWanting })
}

const MISSED: &str = "missed";

fn judged(times: StageTimes) -> Option<Stage> {
    let (_, target_p50, target_p95) = *TARGETS.iter().find(|(stage, ..)| *stage == times.stage)?;
    let met = |took: Option<f64>, target: f64| took.map(|took| if took <= target { "ok" } else { MISSED });
    let (p50_is, p95_is) = (met(times.p50, target_p50), met(times.p95, target_p95));
    Some(Stage { times, target_p50, target_p95, p50_is, p95_is })
}

fn text(stages: &[Stage]) -> String {
    let columns = [
        ("STAGE", Side::Left),
        ("RUNS", Side::Right),
        ("P50", Side::Right),
        ("TARGET", Side::Right),
        ("P95", Side::Right),
        ("TARGET", Side::Right),
        ("", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for stage in stages {
        let verdict = match (stage.p50_is, stage.p95_is) {
            (_, Some(MISSED)) => "P95 missed",
            (Some(MISSED), _) => "P50 missed",
            (Some(_), Some(_)) => "ok",
            (None, _) | (_, None) => "no runs",
        };
        let took = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), span);
        table.row(vec![
            stage.times.stage.clone(),
            stage.times.runs.to_string(),
            took(stage.times.p50),
            span(stage.target_p50),
            took(stage.times.p95),
            span(stage.target_p95),
            verdict.to_owned(),
        ]);
    }
    table.text(output::columns())
}

/// `0.420s`, `90m`, `3d`.
fn span(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.3}s");
    }
    let whole = Duration::try_from_secs_f64(seconds.round()).unwrap_or_default();
    crate::cli::layout::span(whole.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_ok_up_to_its_target() {
        for (stage, p50, p95, expected) in [
            ("tier 1", Some(0.5), Some(1.0), (Some("ok"), Some("ok"))),
            ("tier 1", Some(0.6), Some(1.01), (Some(MISSED), Some(MISSED))),
            ("tier 2", Some(16.0), Some(30.0), (Some(MISSED), Some("ok"))),
            ("publish", None, None, (None, None)),
            ("human review", Some(6.9 * DAY), Some(14.1 * DAY), (Some("ok"), Some(MISSED))),
        ] {
            let times = StageTimes { stage: stage.to_owned(), runs: 1, p50, p95 };
            let judged = judged(times).expect("a stage");
            assert_eq!((judged.p50_is, judged.p95_is), expected, "{stage} {p50:?} {p95:?}");
        }
        let unknown = StageTimes { stage: "lunch".to_owned(), runs: 1, p50: None, p95: None };
        assert!(judged(unknown).is_none());
    }
}
