//! The line of `systemctl status`: the daemon's activity, what it waits for, and the counts. Pure.
//!
//! Contains names of dependencies and numbers only; a dependency's reply is cut short, and scrubbed by the caller.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use super::tally::Tally;

/// Longest text of one cause, in characters.
const CAUSE: usize = 120;

/// The stage of the daemon's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Some dependency has not answered yet.
    Starting,
    /// Events are taken.
    Routing,
    /// Sends under way are finished.
    Stopping,
}

/// A dependency that keeps work from being taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// `postgres`, `relay`, …
    pub name: &'static str,
    /// The dependency's reply; scrubbed.
    pub said: String,
    /// Duration of the wait.
    pub lasting: Duration,
    /// Whether its breaker is open; otherwise it has not answered yet.
    pub breaker: bool,
}

/// The operators' pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Paused {
    /// A pause of everything, and its end, where one is set.
    pub all: Option<Option<Timestamp>>,
    /// Number of paused forms.
    pub forms: usize,
    /// Number of paused destination domains.
    pub destinations: usize,
}

/// The inputs of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The stage.
    pub stage: Stage,
    /// The waits, in a fixed order.
    pub waits: Vec<Wait>,
    /// The pauses.
    pub paused: Paused,
    /// The counts.
    pub tally: Tally,
}

/// The line in two parts: a change of the first is reported at once, one of the second now and then.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The activity, and what it waits for.
    pub what: String,
    /// The counts.
    pub counts: String,
}

impl Line {
    /// Returns the whole line.
    #[must_use]
    pub fn text(&self) -> String {
        if self.counts.is_empty() { self.what.clone() } else { format!("{}: {}", self.what, self.counts) }
    }
}

/// Returns the whole line of a stopping daemon.
#[must_use]
pub fn stopping(tally: Tally) -> String {
    line(&Facts { stage: Stage::Stopping, waits: Vec::new(), paused: Paused::default(), tally }).text()
}

/// Returns the line for these facts.
#[must_use]
pub fn line(facts: &Facts) -> Line {
    let Facts { stage, waits, paused, tally } = facts;
    let mut what = Vec::new();
    for wait in waits {
        what.push(match (wait.breaker, stage) {
            (true, Stage::Starting) => format!("breaker open, {}", waiting(wait)),
            (true, Stage::Routing | Stage::Stopping) => {
                format!("breaker open: {} for {}", wait.name, rough(wait.lasting))
            }
            (false, _) => waiting(wait),
        });
    }
    if let Some(until) = paused.all {
        let until = until.map_or_else(|| "resumed".to_owned(), |until| until.to_string());
        what.push(format!("paused: all until {until}"));
    }
    match stage {
        Stage::Starting if what.is_empty() => what.push("starting".to_owned()),
        Stage::Routing if what.is_empty() => what.push("routing".to_owned()),
        Stage::Stopping => what = vec!["stopping".to_owned()],
        Stage::Starting | Stage::Routing => {}
    }
    if paused.forms + paused.destinations > 0 && *stage == Stage::Routing {
        let (forms, destinations) = (paused.forms, paused.destinations);
        what.push(format!("paused: {forms} forms, {destinations} destinations"));
    }
    let counts = match stage {
        Stage::Starting => String::new(),
        Stage::Routing => format!(
            "{} in flight, {} waiting; {} routed, {} failed since start",
            tally.in_flight,
            tally.waiting,
            grouped(tally.routed),
            grouped(tally.failed)
        ),
        Stage::Stopping => format!("{} in flight are finished, the rest goes back", tally.in_flight),
    };
    Line { what: what.join("; "), counts }
}

fn waiting(wait: &Wait) -> String {
    let mut said: String = wait.said.chars().take(CAUSE).collect();
    if said.len() < wait.said.len() {
        said.push('…');
    }
    format!("waiting for {} for {}: {said}", wait.name, rough(wait.lasting))
}

/// Returns a rounded duration, so that the line does not change with every second.
fn rough(duration: Duration) -> String {
    match duration.as_secs() {
        0..60 => format!("{} s", duration.as_secs() / 10 * 10),
        60..3600 => format!("{} min", duration.as_secs() / 60),
        more => format!("{} h {} min", more / 3600, more % 3600 / 60),
    }
}

/// Returns 1204 as 1,204.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        // Writing to a String cannot fail.
        write!(text, "{digit}").unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(stage: Stage) -> Facts {
        let tally = Tally { in_flight: 3, waiting: 12, routed: 1204, failed: 3 };
        Facts { stage, waits: Vec::new(), paused: Paused::default(), tally }
    }

    fn wait(name: &'static str, seconds: u64, breaker: bool) -> Wait {
        Wait { name, said: "connection refused".to_owned(), lasting: Duration::from_secs(seconds), breaker }
    }

    #[test]
    fn the_line_says_what_it_does_and_what_it_waits_for() {
        let until = "2026-11-22T08:00:00Z".parse().expect("a time");
        let counts = "3 in flight, 12 waiting; 1,204 routed, 3 failed since start";
        type Change = fn(&mut Facts, Timestamp);
        let table: &[(Stage, Change, &str)] = &[
            (Stage::Routing, |_, _| {}, "routing: COUNTS"),
            (Stage::Starting, |_, _| {}, "starting"),
            (
                Stage::Starting,
                |f, _| f.waits = vec![wait("postgres", 12, false), wait("relay", 75, true)],
                "waiting for postgres for 10 s: connection refused; \
                 breaker open, waiting for relay for 1 min: connection refused",
            ),
            (
                Stage::Routing,
                |f, _| f.waits = vec![wait("relay", 200, true), wait("signer", 3 * 3600 + 60, true)],
                "breaker open: relay for 3 min; breaker open: signer for 3 h 1 min: COUNTS",
            ),
            (
                Stage::Routing,
                |f, until| f.paused.all = Some(Some(until)),
                "paused: all until 2026-11-22T08:00:00Z: COUNTS",
            ),
            (Stage::Routing, |f, _| f.paused.all = Some(None), "paused: all until resumed: COUNTS"),
            (
                Stage::Routing,
                |f, _| (f.paused.forms, f.paused.destinations) = (2, 1),
                "routing; paused: 2 forms, 1 destinations: COUNTS",
            ),
            (
                Stage::Stopping,
                |f, _| f.waits = vec![wait("relay", 200, true)],
                "stopping: 3 in flight are finished, the rest goes back",
            ),
        ];
        for (stage, change, expected) in table {
            let mut facts = facts(*stage);
            change(&mut facts, until);
            assert_eq!(line(&facts).text(), expected.replace("COUNTS", counts));
        }
    }

    #[test]
    fn numbers_are_grouped_and_long_stories_cut() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), text);
        }
        let mut facts = facts(Stage::Starting);
        facts.waits = vec![Wait { said: "ä".repeat(500), ..wait("relay", 0, false) }];
        let text = line(&facts).text();
        assert!(text.ends_with("ä…") && text.chars().count() < CAUSE + 40, "{text}");
    }
}
