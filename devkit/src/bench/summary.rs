//! Results of one trial, and of many. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

/// One trial of a contestant or a limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Run {
    pub(super) who: String,
    pub(super) shape: String,
    pub(super) receiver: String,
    pub(super) round: usize,
    pub(super) submissions: usize,
    /// From the first event that could be had to the last row routed, by the database's clock.
    pub(super) seconds: f64,
    /// Processor seconds of the contestant, its children included, between its being ready and the last event settled.
    pub(super) cpu: Option<f64>,
    /// PostgreSQL's processor seconds in that time.
    pub(super) postgres_cpu: Option<f64>,
    /// The receiver's.
    pub(super) receiver_cpu: Option<f64>,
    /// The benchmark's own: the broker, and the reader of the rows.
    pub(super) bench_cpu: Option<f64>,
    /// KiB of WAL that PostgreSQL wrote in that time.
    pub(super) wal_kib: Option<f64>,
    /// Most memory of the contestant since its start; of several daemons that of the largest.
    pub(super) peak_mib: Option<f64>,
    /// Submissions that each daemon says it routed; empty for what is no router.
    pub(super) shares: Vec<u64>,
    /// Share of the machine that everybody else used meanwhile, 0 to 1.
    pub(super) others: f64,
    /// Load average of the last minute, at the end.
    pub(super) load: f64,
    /// Events that came more than once.
    pub(super) redelivered: usize,
    /// PostgreSQL's time by statement, if it was asked for.
    pub(super) statements: Vec<String>,
    /// Violations; a trial with any does not count.
    pub(super) wrong: Vec<String>,
}

impl Run {
    /// Submissions a second.
    pub(super) fn rate(&self) -> f64 {
        self.submissions as f64 / self.seconds
    }

    fn per_thousand(&self, seconds: Option<f64>) -> Option<f64> {
        seconds.map(|seconds| seconds * 1_000.0 / self.submissions as f64)
    }

    /// One line for the reader.
    pub(super) fn line(&self) -> String {
        let figure = |name: &str, value: Option<f64>, unit: &str| {
            value.map_or_else(String::new, |value| format!("  {name} {value:.2}{unit}"))
        };
        let cpu = self.per_thousand(self.cpu);
        format!(
            "{:7} {:5} {:2} {:20} {:8.0}/s in {:6.2} s{}{}{}{}{}{}  others {:.0} %, load {:.1}{}{}",
            self.receiver,
            self.shape,
            self.round,
            self.who,
            self.rate(),
            self.seconds,
            figure("CPU s/1,000:", cpu, ""),
            figure("postgres", self.per_thousand(self.postgres_cpu), ""),
            figure("receiver", self.per_thousand(self.receiver_cpu), ""),
            figure("bench", self.per_thousand(self.bench_cpu), ""),
            figure("WAL", self.wal_kib.map(|kib| kib / self.submissions as f64), " KiB"),
            figure("peak", self.peak_mib, " MiB"),
            self.others * 100.0,
            self.load,
            shared(&self.shares),
            if self.redelivered > 0 {
                format!("  ({} events came again)", self.redelivered)
            } else {
                String::new()
            }
        )
    }
}

/// How several daemons shared the work, in words for the end of a line.
pub(super) fn shared(shares: &[u64]) -> String {
    if shares.len() < 2 {
        return String::new();
    }
    format!("  routed {}", shares.iter().map(u64::to_string).collect::<Vec<_>>().join(" + "))
}

/// Medians of all verified trials of one party in one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Medians {
    pub(super) who: String,
    pub(super) shape: String,
    pub(super) receiver: String,
    /// Verified trials.
    pub(super) trials: usize,
    /// Submissions of each.
    pub(super) submissions: usize,
    /// Submissions a second.
    pub(super) rate: f64,
    pub(super) slowest: f64,
    pub(super) fastest: f64,
    /// Processor seconds for 1,000 submissions.
    pub(super) cpu: Option<f64>,
    pub(super) postgres_cpu: Option<f64>,
    pub(super) receiver_cpu: Option<f64>,
    pub(super) bench_cpu: Option<f64>,
    /// KiB of WAL for one submission.
    pub(super) wal_kib: Option<f64>,
    /// The largest of all trials, not a median.
    pub(super) peak_mib: Option<f64>,
    pub(super) others: f64,
    pub(super) load: f64,
}

/// The middle value, or the mean of the two in the middle; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

/// The value that this share of the values (0 to 1) does not exceed (nearest rank); `None` of nothing.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Medians by party, in the order in which they first ran. Unverified trials do not count.
pub(super) fn medians(runs: &[Run], shape: &str, receiver: &str) -> Vec<Medians> {
    let mut order: Vec<&str> = Vec::new();
    let mut by: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    let here = |run: &&Run| run.shape == shape && run.receiver == receiver && run.wrong.is_empty();
    for run in runs.iter().filter(here) {
        if !order.contains(&run.who.as_str()) {
            order.push(&run.who);
        }
        by.entry(&run.who).or_default().push(run);
    }
    order.into_iter().filter_map(|who| of(by.get(who)?)).collect()
}

fn of(runs: &[&Run]) -> Option<Medians> {
    let first = runs.first()?;
    let rates: Vec<f64> = runs.iter().map(|run| run.rate()).collect();
    let middle = |pick: &dyn Fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| pick(run)).collect();
        median(&values)
    };
    Some(Medians {
        who: first.who.clone(),
        shape: first.shape.clone(),
        receiver: first.receiver.clone(),
        trials: runs.len(),
        submissions: first.submissions,
        rate: median(&rates)?,
        slowest: rates.iter().copied().fold(f64::INFINITY, f64::min),
        fastest: rates.iter().copied().fold(0.0, f64::max),
        cpu: middle(&|run| run.per_thousand(run.cpu)),
        postgres_cpu: middle(&|run| run.per_thousand(run.postgres_cpu)),
        receiver_cpu: middle(&|run| run.per_thousand(run.receiver_cpu)),
        bench_cpu: middle(&|run| run.per_thousand(run.bench_cpu)),
        wal_kib: middle(&|run| Some(run.wal_kib? / run.submissions as f64)),
        peak_mib: runs.iter().filter_map(|run| run.peak_mib).reduce(f64::max),
        others: middle(&|run| Some(run.others))?,
        load: middle(&|run| Some(run.load))?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A verified trial of 1,000 submissions.
    pub(in crate::bench) fn run(who: &str, round: usize, seconds: f64) -> Run {
        Run {
            who: who.to_owned(),
            shape: "one".to_owned(),
            receiver: "sink".to_owned(),
            round,
            submissions: 1_000,
            seconds,
            cpu: Some(seconds / 2.0),
            postgres_cpu: None,
            receiver_cpu: None,
            bench_cpu: None,
            wal_kib: None,
            peak_mib: Some(10.0 + seconds),
            shares: Vec::new(),
            others: 0.0,
            load: 1.0,
            redelivered: 0,
            statements: Vec::new(),
            wrong: Vec::new(),
        }
    }

    #[test]
    fn what_one_daemon_did_is_not_told() {
        assert_eq!(shared(&[152, 148]), "  routed 152 + 148");
        assert_eq!((shared(&[300]), shared(&[])), (String::new(), String::new()));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let cases: [(&[f64], Option<f64>); 4] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[4.0, 1.0, 2.0, 30.0], Some(3.0)),
        ];
        for (values, expected) in cases {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(100.0));
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(percentile(&values, 1.0), Some(200.0));
        assert_eq!(percentile(&[7.0], 0.5), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn rounds_that_were_not_verified_do_not_count() {
        let mut runs = vec![run("a", 1, 1.0), run("b", 1, 4.0), run("a", 2, 2.0), run("a", 3, 0.1)];
        runs[3].wrong.push("mails: 1, not 2".to_owned());
        let all = medians(&runs, "one", "sink");
        let names: Vec<&str> = all.iter().map(|medians| medians.who.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((all[0].trials, all[0].rate, all[0].slowest), (2, 750.0, 500.0));
        assert_eq!((all[0].cpu, all[0].peak_mib), (Some(0.75), Some(12.0)));
        assert!(medians(&runs, "many", "sink").is_empty());
    }
}
