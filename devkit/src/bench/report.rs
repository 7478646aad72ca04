//! The benchmark's output: Markdown for people, JSON for programs. Pure, but for the file.

use anyhow::Result;
use serde_json::json;

use super::arena::Arena;
use super::lag::Lag;
use super::shape::Shape;
use super::summary::{Medians, Run, medians};

/// Writes everything as JSON: each trial, the medians, the lags.
pub(super) fn write_json(arena: &Arena<'_>, runs: &[Run], lags: &[Lag]) -> Result<()> {
    let all: Vec<Medians> =
        settings(runs).iter().flat_map(|(receiver, shape)| medians(runs, shape, receiver)).collect();
    let report = json!({
        "setting": arena.setting,
        "daemons": arena.options.daemons,
        "router_settings": arena.options.router_settings,
        "runs": runs,
        "medians": all,
        "lags": lags,
    });
    std::fs::write(arena.options.out.join("bench.json"), serde_json::to_vec_pretty(&report)?)?;
    Ok(())
}

/// Receivers and shapes that were played, in order.
pub(super) fn settings(runs: &[Run]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for run in runs {
        let setting = (run.receiver.clone(), run.shape.clone());
        if !found.contains(&setting) {
            found.push(setting);
        }
    }
    found
}

/// The tables.
pub(super) fn text(setting: &str, runs: &[Run], lags: &[Lag]) -> String {
    let mut out = format!("\n{setting}\n");
    for (receiver, shape) in settings(runs) {
        let all = medians(runs, &shape, &receiver);
        let submissions = all.first().map_or(0, |medians| medians.submissions);
        out.push_str(&format!(
            "\n### {}, to {receiver} ({submissions} submissions a round, medians)\n\n{}",
            words(&shape),
            table(&all)
        ));
        let ratios = ratios(&all);
        if !ratios.is_empty() {
            out.push_str(&format!("\n{ratios}"));
        }
    }
    if !lags.is_empty() {
        out.push_str(&format!("\n### Routing lag\n\n{}", lag_table(lags)));
    }
    let wrong = runs.iter().map(|run| &run.wrong).chain(lags.iter().map(|lag| &lag.wrong));
    let wrong = wrong.filter(|wrong| !wrong.is_empty()).count();
    if wrong > 0 {
        out.push_str(&format!("\n{wrong} rounds were NOT verified and do not count; see above.\n"));
    }
    out
}

fn words(shape: &str) -> &'static str {
    Shape::ALL.into_iter().find(|known| known.to_string() == shape).map_or("an unknown shape", Shape::words)
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn table(all: &[Medians]) -> String {
    let mut out = "| who | rounds | rate /s | slowest, fastest | CPU s/1,000 | PostgreSQL | receiver | bench | WAL KiB | peak MiB | others % | load |\n\
                   | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for m in all {
        out.push_str(&format!(
            "| {} | {} | {:.0} | {:.0}, {:.0} | {} | {} | {} | {} | {} | {} | {:.0} | {:.1} |\n",
            m.who,
            m.trials,
            m.rate,
            m.slowest,
            m.fastest,
            cell(m.cpu, 3),
            cell(m.postgres_cpu, 3),
            cell(m.receiver_cpu, 3),
            cell(m.bench_cpu, 3),
            cell(m.wal_kib, 1),
            cell(m.peak_mib, 1),
            m.others * 100.0,
            m.load
        ));
    }
    out
}

/// The router's rate and processor time over everybody else's.
fn ratios(all: &[Medians]) -> String {
    let routers: Vec<&Medians> = all.iter().filter(|m| m.who.starts_with("router")).collect();
    let rest: Vec<&Medians> = all.iter().filter(|m| !m.who.starts_with("router")).collect();
    if routers.is_empty() || rest.is_empty() {
        return String::new();
    }
    let mut out = "| rate over (CPU over) |".to_owned();
    out.extend(rest.iter().map(|m| format!(" {} |", m.who)));
    out.push_str("\n| --- |");
    out.push_str(&" ---: |".repeat(rest.len()));
    out.push('\n');
    for router in routers {
        out.push_str(&format!("| {} |", router.who));
        for other in &rest {
            out.push_str(&format!(" {:.2}", router.rate / other.rate));
            if let (Some(own), Some(theirs)) = (router.cpu, other.cpu) {
                out.push_str(&format!(" ({:.2})", own / theirs));
            }
            out.push_str(" |");
        }
        out.push('\n');
    }
    out
}

fn lag_table(lags: &[Lag]) -> String {
    let mut out =
        "| who | asked /s | came /s | submissions | p50 ms | p99 ms | max ms | CPU s/1,000 | load |\n\
                   | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for lag in lags.iter().filter(|lag| lag.wrong.is_empty()) {
        out.push_str(&format!(
            "| {} | {} | {:.0} | {} | {:.1} | {:.1} | {:.1} | {:.2} | {:.1} |\n",
            lag.who,
            lag.asked,
            lag.came,
            lag.submissions,
            lag.p50_ms,
            lag.p99_ms,
            lag.max_ms,
            lag.cpu,
            lag.load
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::run;
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_and_the_router_is_compared_with_the_others() {
        let mut limit = run("limit-combined", 1, 0.5);
        (limit.cpu, limit.peak_mib) = (None, None);
        let runs = [limit, run("router", 1, 1.0), run("python", 1, 4.0)];
        let all = medians(&runs, "one", "sink");
        assert_eq!(table(&all).lines().count(), 5);
        let ratios = ratios(&all);
        assert!(ratios.ends_with("| router | 0.50 | 4.00 (0.25) |\n"), "{ratios}");
    }

    #[test]
    fn without_anybody_else_there_is_no_ratio() {
        assert_eq!(ratios(&medians(&[run("router", 1, 1.0)], "one", "sink")), "");
    }
}
