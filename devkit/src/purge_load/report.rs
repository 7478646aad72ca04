//! What is printed: a line for each turn, and in the end how turns beside a purge compare with those without.

use super::collector::Purge;
use crate::bench::median;

/// What one turn came to.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) submissions: u32,
    /// Submissions a second.
    pub(super) came: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    /// Processor seconds of the router for 1,000 submissions.
    pub(super) router_cpu: f64,
    /// The same of the backends of PostgreSQL that serve it.
    pub(super) backends_cpu: f64,
    /// Most memory of the router so far.
    pub(super) router_mib: f64,
    pub(super) purge: Option<Purge>,
    pub(super) wrong: Vec<String>,
}

impl Turn {
    /// The turn in a line.
    pub(super) fn line(&self) -> String {
        let what = if self.purge.is_some() { "beside a purge" } else { "no purge" };
        let mut line = format!(
            "{what}, {} submissions, {:.0}/s came; lag p50 {:.1} ms  p99 {:.1} ms  max {:.1} ms; CPU s/1,000: router {:.3}, \
             its backends {:.3}; router at most {:.1} MiB",
            self.submissions,
            self.came,
            self.p50_ms,
            self.p99_ms,
            self.max_ms,
            self.router_cpu,
            self.backends_cpu,
            self.router_mib
        );
        if let Some(purge) = &self.purge {
            line += &format!("; {} purged in {:.0} s, {:.0}/s", purge.purged, purge.seconds, speed(&[purge]));
            if let Some(last) = purge.seen.last() {
                line += &format!("; gc at most {:.1} MiB", last.peak_mib);
            }
            if let Some((first, last)) = tenths(&[purge]) {
                line += &format!(", {first:.1} in its first tenth, {last:.1} in its last");
            }
        }
        line
    }
}

/// All turns: medians without and beside a purge, their ratios, and the collector's memory.
pub(super) fn summary(turns: &[Turn], rows: u64) -> String {
    let (beside, without): (Vec<&Turn>, Vec<&Turn>) = turns.iter().partition(|turn| turn.purge.is_some());
    let mut lines = vec![format!(
        "medians (lowest to highest) of {} turns without a purge, {} beside it:",
        without.len(),
        beside.len()
    )];
    type Figure = (&'static str, fn(&Turn) -> f64);
    let figures: [Figure; 4] = [
        ("lag p50, ms", |turn| turn.p50_ms),
        ("lag p99, ms", |turn| turn.p99_ms),
        ("CPU s/1,000 of the router", |turn| turn.router_cpu),
        ("CPU s/1,000 of its backends", |turn| turn.backends_cpu),
    ];
    for (what, figure) in figures {
        let of = |turns: &[&Turn]| turns.iter().map(|turn| figure(turn)).collect::<Vec<f64>>();
        lines.push(compared(what, &of(&without), &of(&beside)));
    }
    let purges: Vec<&Purge> = beside.iter().filter_map(|turn| turn.purge.as_ref()).collect();
    let purged: u64 = purges.iter().map(|purge| purge.purged).sum();
    lines.push(format!("  purged {purged} of {rows}, {:.0}/s", speed(&purges)));
    lines.push(match tenths(&purges) {
        Some((first, last)) => format!(
            "  peak memory of gc: {first:.1} MiB in the first tenth of the purge, {last:.1} MiB in the last: {:.3}",
            last / first
        ),
        None => "  peak memory of gc: it was not seen at both ends of the purge".to_owned(),
    });
    lines.join("\n")
}

fn compared(what: &str, without: &[f64], beside: &[f64]) -> String {
    match (median(without), median(beside)) {
        (Some(base), Some(value)) => format!(
            "  {what:28} {base:.3} ({}) without, {value:.3} ({}) beside: {:.3}",
            spread(without),
            spread(beside),
            value / base
        ),
        (None, _) | (_, None) => format!("  {what:28} nothing to compare"),
    }
}

fn spread(values: &[f64]) -> String {
    let (lowest, highest) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    format!("{lowest:.3} to {highest:.3}")
}

/// Purged rows a second, over all these runs.
fn speed(purges: &[&Purge]) -> f64 {
    let seconds: f64 = purges.iter().map(|purge| purge.seconds).sum();
    purges.iter().map(|purge| purge.purged as f64).sum::<f64>() / seconds
}

/// Most memory that was seen in the first tenth of what all these runs purged, one after the other, and in the last.
fn tenths(purges: &[&Purge]) -> Option<(f64, f64)> {
    let all = purges.iter().map(|purge| purge.purged as f64).sum::<f64>();
    let (mut before, mut first, mut last) = (0.0, None::<f64>, None::<f64>);
    for purge in purges {
        for seen in &purge.seen {
            let (at, most) = (before + seen.purged as f64, |known: Option<f64>| {
                known.map_or(seen.peak_mib, |mib| mib.max(seen.peak_mib))
            });
            if at <= all * 0.1 {
                first = Some(most(first));
            }
            if at >= all * 0.9 {
                last = Some(most(last));
            }
        }
        before += purge.purged as f64;
    }
    first.zip(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::purge_load::collector::Seen;

    fn purge(seen: &[(u64, f64)]) -> Purge {
        let seen: Vec<Seen> =
            seen.iter().map(|(purged, peak_mib)| Seen { purged: *purged, peak_mib: *peak_mib }).collect();
        Purge { purged: 500, seconds: 5.0, seen, ..Purge::default() }
    }

    #[test]
    fn both_ends_of_a_purge_are_looked_at_over_all_its_runs() {
        let (one, other) = (
            purge(&[(0, 10.0), (100, 12.0), (101, 99.0)]),
            purge(&[(0, 99.0), (399, 99.0), (400, 11.0), (480, 13.0)]),
        );
        assert_eq!(tenths(&[&one, &other]), Some((12.0, 13.0)));
        assert_eq!(speed(&[&one, &other]), 100.0);
        assert_eq!(tenths(&[&purge(&[])]), None);
    }
}
