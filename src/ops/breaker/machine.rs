//! When a dependency is treated as down, and when no longer: a state machine. Time and chance are arguments.
//!
//! One fault only makes suspicious: a kept connection may have died long ago, so a probe has to confirm it. A refusal
//! that is about us ("relay denied") is no fault of the connection, and cannot be told from one recipient's own
//! trouble by looking at it once: it counts by distinct submission, an acceptance resets the count, and it ends by a
//! trial with a real submission. Invariant: nothing here does I/O.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use backon::BackoffBuilder;
use uuid::Uuid;

/// Consecutive faults, failed probes among them, after which a dependency is treated as down.
const FAULTS: u32 = 3;
/// Distinct submissions denied in a row after which the relay is.
const DENIALS: usize = 5;
/// Between two probes while suspicious.
const SUSPICION: Duration = Duration::from_secs(1);
/// Shortest pause between two probes, or trials, while open.
const SHORTEST: Duration = Duration::from_secs(1);
/// Longest one.
const LONGEST: Duration = Duration::from_secs(30);
/// Recipients remembered whose denial is their own; beyond it the memory starts anew.
const EXCUSED: usize = 64;

/// Why it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It does not answer, or not as it should. A probe can tell when it does.
    Unreachable,
    /// It answers, and denies us. Only a real submission can tell when it no longer does.
    Denied,
}

/// Where the breaker stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// All is well.
    Closed,
    /// A fault was met; probes tell whether it is an outage.
    Suspect {
        /// Faults and failed probes so far.
        faults: u32,
        /// A probe of ours was among them.
        confirmed: bool,
        /// What the first fault said.
        what: String,
        /// When to probe next.
        next_probe: Instant,
    },
    /// It is treated as down.
    Open {
        /// Since when.
        since: Instant,
        /// Why.
        cause: Cause,
        /// What the first fault said.
        what: String,
        /// When to probe, or to let one claim try.
        next_probe: Instant,
        /// Probes and trials so far.
        tries: u32,
    },
    /// One claim at a time may try.
    Trial {
        /// Open since.
        since: Instant,
        /// What the first denial said.
        what: String,
        /// Trials so far.
        tries: u32,
    },
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Work met a fault of the connection.
    Fault(&'a str),
    /// Work was denied, for a reason that seems to be about us.
    Denied {
        /// Whose work.
        submission: Uuid,
        /// To whom; stays in memory.
        recipients: &'a [String],
        /// What was said.
        what: &'a str,
    },
    /// Work came through, without anything that is about us.
    Passed {
        /// To whom it was accepted; may be nobody.
        accepted: &'a [String],
    },
    /// A probe failed.
    ProbeFailed(&'a str),
    /// A probe did not.
    ProbeWorked,
    /// The pause before a trial is over.
    TrialDue,
}

/// A change that others have to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is treated as down from now on.
    Opened(Cause, String),
    /// One claim at a time may try.
    Ajar,
    /// The trial has failed: it stays down.
    ShutAgain,
    /// It is well again, after so long.
    Closed(Duration),
}

/// What is to be done next, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Nothing, until something happens.
    Wait,
    /// Probe at this time.
    Probe(Instant),
    /// Let one claim try from this time on.
    Trial(Instant),
}

/// See the module's header.
#[derive(Debug, Clone)]
pub struct Machine {
    state: State,
    /// Submissions denied in a row, with their recipients.
    denied: Vec<(Uuid, Vec<String>)>,
    /// Recipients whose denial was proved to be their own.
    excused: BTreeSet<String>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { state: State::Closed, denied: Vec::new(), excused: BTreeSet::new() }
    }
}

impl Machine {
    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Treated as down; during a trial still.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. } | State::Trial { .. })
    }

    /// Nobody knows yet.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        matches!(self.state, State::Suspect { .. })
    }

    /// What is to be done next.
    #[must_use]
    pub fn task(&self) -> Task {
        match &self.state {
            State::Closed | State::Trial { .. } => Task::Wait,
            State::Suspect { next_probe, .. } | State::Open { cause: Cause::Unreachable, next_probe, .. } => {
                Task::Probe(*next_probe)
            }
            State::Open { cause: Cause::Denied, next_probe, .. } => Task::Trial(*next_probe),
        }
    }

    /// Takes in what happened at `now`; `chance` is from 0 to 1 and spreads probes.
    pub fn on(&mut self, event: Event<'_>, now: Instant, chance: f64) -> Option<Change> {
        match event {
            Event::Fault(what) => self.fault(what, now, chance),
            Event::Denied { submission, recipients, what } => {
                self.denied(submission, recipients, what, now, chance)
            }
            Event::Passed { accepted } => self.passed(accepted, now),
            Event::ProbeFailed(what) => self.probe_failed(what, now, chance),
            Event::ProbeWorked => self.probe_worked(now),
            Event::TrialDue => self.trial_due(),
        }
    }

    fn fault(&mut self, what: &str, now: Instant, chance: f64) -> Option<Change> {
        match &mut self.state {
            State::Closed => {
                let what = what.to_owned();
                self.state = State::Suspect { faults: 1, confirmed: false, what, next_probe: now };
                None
            }
            State::Suspect { faults, .. } => {
                *faults = faults.saturating_add(1);
                self.open_if_confirmed(now, chance)
            }
            State::Open { .. } => None,
            State::Trial { .. } => self.shut_again(now, chance),
        }
    }

    fn probe_failed(&mut self, what: &str, now: Instant, chance: f64) -> Option<Change> {
        match &mut self.state {
            State::Closed => self.fault(what, now, chance),
            State::Suspect { faults, confirmed, next_probe, .. } => {
                *faults = faults.saturating_add(1);
                *confirmed = true;
                *next_probe = now + SUSPICION;
                self.open_if_confirmed(now, chance)
            }
            State::Open { next_probe, tries, .. } => {
                *tries = tries.saturating_add(1);
                *next_probe = now + pause(*tries, chance);
                None
            }
            State::Trial { .. } => None,
        }
    }

    /// Faults alone are hearsay: many sends lose their connections at once when the relay is only restarted.
    fn open_if_confirmed(&mut self, now: Instant, chance: f64) -> Option<Change> {
        match &self.state {
            State::Suspect { faults, confirmed: true, what, .. } if *faults >= FAULTS => {
                let what = what.clone();
                Some(self.open(Cause::Unreachable, what, now, chance))
            }
            State::Suspect { .. } | State::Closed | State::Open { .. } | State::Trial { .. } => None,
        }
    }

    fn open(&mut self, cause: Cause, what: String, now: Instant, chance: f64) -> Change {
        let next_probe = now + pause(0, chance);
        self.state = State::Open { since: now, cause, what: what.clone(), next_probe, tries: 0 };
        Change::Opened(cause, what)
    }

    fn denied(
        &mut self,
        submission: Uuid,
        recipients: &[String],
        what: &str,
        now: Instant,
        chance: f64,
    ) -> Option<Change> {
        match &self.state {
            State::Closed | State::Suspect { .. } => {
                let their_own = recipients.iter().all(|recipient| self.excused.contains(recipient));
                if their_own || self.denied.iter().any(|(known, _)| *known == submission) {
                    return None;
                }
                self.denied.push((submission, recipients.to_vec()));
                (self.denied.len() >= DENIALS).then(|| self.open(Cause::Denied, what.to_owned(), now, chance))
            }
            State::Open { .. } => None,
            State::Trial { .. } => self.shut_again(now, chance),
        }
    }

    /// In suspicion and in an outage a late success proves nothing: it may stem from a connection that is older.
    fn passed(&mut self, accepted: &[String], now: Instant) -> Option<Change> {
        for recipient in accepted {
            self.excused.remove(recipient);
        }
        match self.state {
            State::Closed | State::Suspect { .. } => {
                if !accepted.is_empty() {
                    self.denied.clear();
                }
                None
            }
            State::Open { .. } => None,
            State::Trial { since, .. } => {
                if !accepted.is_empty() {
                    self.excuse(accepted);
                }
                Some(self.close(since, now))
            }
        }
    }

    /// Others are accepted: that these were denied is their own trouble, until they are accepted themselves.
    fn excuse(&mut self, accepted: &[String]) {
        if self.excused.len() >= EXCUSED {
            self.excused.clear();
        }
        let denied = self.denied.drain(..).flat_map(|(_, recipients)| recipients);
        self.excused.extend(denied.filter(|recipient| !accepted.contains(recipient)).take(EXCUSED));
    }

    fn probe_worked(&mut self, now: Instant) -> Option<Change> {
        match self.state {
            State::Suspect { .. } => {
                self.state = State::Closed;
                None
            }
            State::Open { since, cause: Cause::Unreachable, .. } => Some(self.close(since, now)),
            State::Closed | State::Open { cause: Cause::Denied, .. } | State::Trial { .. } => None,
        }
    }

    fn trial_due(&mut self) -> Option<Change> {
        match &self.state {
            State::Open { cause: Cause::Denied, since, what, tries, .. } => {
                self.state = State::Trial { since: *since, what: what.clone(), tries: *tries };
                Some(Change::Ajar)
            }
            State::Open { cause: Cause::Unreachable, .. }
            | State::Closed
            | State::Suspect { .. }
            | State::Trial { .. } => None,
        }
    }

    fn shut_again(&mut self, now: Instant, chance: f64) -> Option<Change> {
        let State::Trial { since, what, tries } = &self.state else { return None };
        let tries = tries.saturating_add(1);
        self.state = State::Open {
            since: *since,
            cause: Cause::Denied,
            what: what.clone(),
            next_probe: now + pause(tries, chance),
            tries,
        };
        Some(Change::ShutAgain)
    }

    fn close(&mut self, since: Instant, now: Instant) -> Change {
        self.state = State::Closed;
        self.denied.clear();
        Change::Closed(now.saturating_duration_since(since))
    }
}

/// Pause after so many tries: exponential, with full jitter above the shortest.
fn pause(tries: u32, chance: f64) -> Duration {
    let ceiling = backon::ExponentialBuilder::default()
        .with_min_delay(SHORTEST)
        .with_max_delay(LONGEST)
        .with_factor(2.0)
        .without_max_times()
        .build()
        .nth(usize::try_from(tries.min(32)).unwrap_or(32))
        .unwrap_or(LONGEST)
        .clamp(SHORTEST, LONGEST);
    SHORTEST + (ceiling - SHORTEST).mul_f64(chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn start() -> Instant {
        Instant::now()
    }

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The state's name, to compare.
    fn name(machine: &Machine) -> &'static str {
        match machine.state() {
            State::Closed => "closed",
            State::Suspect { .. } => "suspect",
            State::Open { cause: Cause::Unreachable, .. } => "open",
            State::Open { cause: Cause::Denied, .. } => "denied",
            State::Trial { .. } => "trial",
        }
    }

    fn deny<'a>(n: u128, recipients: &'a [String]) -> Event<'a> {
        Event::Denied { submission: id(n), recipients, what: "relay access denied" }
    }

    #[test]
    fn the_table_of_a_connection() {
        use Event::{Fault, Passed, ProbeFailed, ProbeWorked};
        let all = names(&["a@x"]);
        let passed = Passed { accepted: &all };
        let table: &[(&str, &[Event<'_>], &str)] = &[
            ("one fault", &[Fault("f")], "suspect"),
            ("a good probe ends the suspicion", &[Fault("f"), ProbeWorked], "closed"),
            ("two bad probes confirm a fault", &[Fault("f"), ProbeFailed("p"), ProbeFailed("p")], "open"),
            ("one bad probe does not", &[Fault("f"), ProbeFailed("p")], "suspect"),
            ("faults and a bad probe do", &[Fault("f"), Fault("f"), ProbeFailed("p")], "open"),
            ("many faults alone do not", &[Fault("f"); 20], "suspect"),
            (
                "a good probe starts the count anew",
                &[Fault("f"), Fault("f"), ProbeWorked, Fault("f")],
                "suspect",
            ),
            ("a success of an older connection ends no suspicion", &[Fault("f"), passed], "suspect"),
            ("a success ends no outage", &[Fault("f"), ProbeFailed("p"), ProbeFailed("p"), passed], "open"),
            (
                "a fault adds nothing to an outage",
                &[Fault("f"), ProbeFailed("p"), ProbeFailed("p"), Fault("f")],
                "open",
            ),
            (
                "a good probe ends an outage",
                &[Fault("f"), ProbeFailed("p"), ProbeFailed("p"), ProbeFailed("p"), ProbeWorked],
                "closed",
            ),
            ("nothing is due", &[Event::TrialDue, ProbeWorked, passed], "closed"),
        ];
        for (what, events, expected) in table {
            let (mut machine, now) = (Machine::default(), start());
            for event in *events {
                machine.on(*event, now, 0.5);
            }
            assert_eq!(name(&machine), *expected, "{what}");
        }
    }

    #[test]
    fn it_tells_once_that_it_opened_why_and_how_long_it_was() {
        let (mut machine, t0) = (Machine::default(), start());
        assert_eq!(machine.on(Event::Fault("refused"), t0, 0.0), None);
        assert_eq!(machine.task(), Task::Probe(t0), "at once");
        assert_eq!(machine.on(Event::ProbeFailed("p"), t0, 0.0), None);
        assert_eq!(machine.task(), Task::Probe(t0 + SECOND));
        let opened = machine.on(Event::ProbeFailed("p"), t0 + SECOND, 0.0);
        assert_eq!(opened, Some(Change::Opened(Cause::Unreachable, "refused".to_owned())));
        assert!(machine.is_open());
        for n in 0..1_000 {
            assert_eq!(machine.on(Event::ProbeFailed("p"), t0 + n * SECOND, 0.0), None);
        }
        assert_eq!(
            machine.on(Event::ProbeWorked, t0 + 3601 * SECOND, 0.0),
            Some(Change::Closed(3600 * SECOND))
        );
        assert_eq!(machine.on(Event::ProbeWorked, t0 + 3602 * SECOND, 0.0), None);
    }

    #[test]
    fn probes_grow_apart_to_half_a_minute_with_full_jitter() {
        let (mut machine, t0) = (Machine::default(), start());
        for event in [Event::Fault("f"), Event::ProbeFailed("p"), Event::ProbeFailed("p")] {
            machine.on(event, t0, 1.0);
        }
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let Task::Probe(at) = machine.task() else { panic!("{machine:?}") };
            pauses.push((at - t0).as_secs());
            machine.on(Event::ProbeFailed("p"), t0, 1.0);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!((pause(9, 0.0), pause(9, 0.5)), (SECOND, SECOND + 29 * SECOND / 2));
    }

    #[test]
    fn five_distinct_submissions_denied_in_a_row_open_it_and_an_acceptance_starts_anew() {
        let (mut machine, now) = (Machine::default(), start());
        let (a, b) = (names(&["a@x"]), names(&["b@x"]));
        for n in 0..4 {
            assert_eq!(machine.on(deny(n, &a), now, 0.0), None);
            assert_eq!(machine.on(deny(n, &a), now, 0.0), None, "the same submission counts once");
        }
        machine.on(Event::Passed { accepted: &b }, now, 0.0);
        for n in 0..4 {
            assert_eq!(machine.on(deny(n, &a), now, 0.0), None, "{n}");
        }
        machine.on(Event::Passed { accepted: &[] }, now, 0.0);
        let opened = machine.on(deny(4, &a), now, 0.0);
        assert_eq!(opened, Some(Change::Opened(Cause::Denied, "relay access denied".to_owned())));
        machine.on(Event::ProbeWorked, now, 0.0);
        assert_eq!(name(&machine), "denied", "that it answers is not the question");
    }

    fn denied(recipients: &[String], now: Instant) -> Machine {
        let mut machine = Machine::default();
        for n in 0..5 {
            machine.on(deny(n, recipients), now, 0.0);
        }
        assert_eq!(name(&machine), "denied");
        machine
    }

    #[test]
    fn a_trial_decides_over_a_denial() {
        let (a, now) = (names(&["a@x"]), start());
        let table: [(&str, Event<'_>, &str, Option<Change>); 5] = [
            ("denied again", deny(9, &a), "denied", Some(Change::ShutAgain)),
            ("no answer", Event::Fault("f"), "denied", Some(Change::ShutAgain)),
            ("accepted", Event::Passed { accepted: &a }, "closed", Some(Change::Closed(Duration::ZERO))),
            (
                "refused for itself",
                Event::Passed { accepted: &[] },
                "closed",
                Some(Change::Closed(Duration::ZERO)),
            ),
            ("a probe says nothing", Event::ProbeWorked, "trial", None),
        ];
        for (what, event, expected, change) in table {
            let mut machine = denied(&a, now);
            assert_eq!(machine.task(), Task::Trial(now + SECOND), "{what}");
            assert_eq!(machine.on(Event::TrialDue, now, 0.0), Some(Change::Ajar), "{what}");
            assert_eq!(machine.on(event, now, 0.0), change, "{what}");
            assert_eq!(name(&machine), expected, "{what}");
        }
    }

    #[test]
    fn trials_grow_apart_too() {
        let (a, now) = (names(&["a@x"]), start());
        let mut machine = denied(&a, now);
        for expected in [1, 2, 4] {
            machine.on(Event::TrialDue, now, 1.0);
            machine.on(deny(9, &a), now, 1.0);
            assert_eq!(machine.task(), Task::Trial(now + 2 * expected * SECOND));
        }
    }

    /// Everything for one recipient is denied, others are not: it opens once and never again.
    #[test]
    fn a_recipient_that_others_prove_to_be_denied_for_itself_opens_nothing_any_more() {
        let (poison, good, now) = (names(&["poison@x"]), names(&["good@x"]), start());
        let mut machine = denied(&poison, now);
        machine.on(Event::TrialDue, now, 0.0);
        machine.on(Event::Passed { accepted: &good }, now, 0.0);
        for n in 10..100 {
            assert_eq!(machine.on(deny(n, &poison), now, 0.0), None);
        }
        // Accepted once, it counts again.
        machine.on(Event::Passed { accepted: &poison }, now, 0.0);
        for n in 100..105 {
            machine.on(deny(n, &poison), now, 0.0);
        }
        assert_eq!(name(&machine), "denied");
    }

    #[test]
    fn what_is_excused_stays_bounded() {
        let now = start();
        let mut machine = Machine::default();
        for n in 0..500_u128 {
            let recipients = names(&[&format!("{n}@x")]);
            for m in 0..5 {
                machine.on(deny(n * 5 + m, &recipients), now, 0.0);
            }
            machine.on(Event::TrialDue, now, 0.0);
            machine.on(Event::Passed { accepted: &names(&["good@x"]) }, now, 0.0);
            assert!(machine.excused.len() <= 2 * EXCUSED);
        }
    }
}
