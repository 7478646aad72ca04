//! The breaker's state machine: when a dependency is treated as down, and when no longer. Time and randomness are arguments.
//!
//! One fault raises only a suspicion: a kept connection may have died long ago, so a probe has to confirm it. A refusal that
//! is about us ("relay denied") is no fault of the connection, and a single one looks the same as one recipient's own
//! trouble: refusals count by distinct submission, an acceptance resets the count, and the outage ends by a trial with a
//! real submission, rather one that was not denied yet. Invariant: nothing here does I/O.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use backon::BackoffBuilder;
use uuid::Uuid;

/// Consecutive faults, failed probes included, after which a dependency is treated as down.
const FAULTS: u32 = 3;
/// Distinct submissions denied in a row after which the relay is treated as down.
const DENIALS: usize = 5;
/// Pause between two probes while suspicious.
const SUSPICION: Duration = Duration::from_secs(1);
/// Shortest pause between two probes, or trials, while open.
const SHORTEST: Duration = Duration::from_secs(1);
/// Longest pause between two probes, or trials.
const LONGEST: Duration = Duration::from_secs(30);
/// Recipients remembered whose denial is their own; a full memory starts anew.
const EXCUSED: usize = 64;
/// Submissions remembered that were denied while open; of more, the oldest is forgotten.
const TRIED: usize = 64;

/// Why the breaker is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The dependency does not answer, or not properly. A probe shows when it does.
    Unreachable,
    /// The dependency answers, and denies us. Only a real submission shows when it no longer does.
    Denied,
}

/// The breaker's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// All is well.
    Closed,
    /// A fault was met; probes decide whether it is an outage.
    Suspect {
        /// Faults and failed probes so far.
        faults: u32,
        /// Whether a probe of ours was among them.
        confirmed: bool,
        /// The first fault's text.
        what: String,
        /// Time of the next probe.
        next_probe: Instant,
    },
    /// The dependency is treated as down.
    Open {
        /// Start of the outage.
        since: Instant,
        /// Why it is open.
        cause: Cause,
        /// The first fault's text.
        what: String,
        /// Time of the next probe, or of the next trial.
        next_probe: Instant,
        /// Probes and trials so far.
        tries: u32,
    },
    /// One claim at a time may try.
    Trial {
        /// Start of the outage.
        since: Instant,
        /// The first denial's text.
        what: String,
        /// Trials so far.
        tries: u32,
    },
}

/// An event that may change the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Work met a fault of the connection.
    Fault(&'a str),
    /// Work was denied, for a reason that seems to be about us.
    Denied {
        /// The submission of the work.
        submission: Uuid,
        /// The recipients; stored in memory only.
        recipients: &'a [String],
        /// The reply.
        what: &'a str,
    },
    /// Work succeeded, without anything that is about us.
    Passed {
        /// Recipients that were accepted; may be none.
        accepted: &'a [String],
    },
    /// A probe failed.
    ProbeFailed(&'a str),
    /// A probe succeeded.
    ProbeWorked,
    /// The pause before a trial is over.
    TrialDue,
}

/// A change for other parts to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The dependency is treated as down from now on.
    Opened(Cause, String),
    /// One claim at a time may try.
    HalfOpen,
    /// The trial has failed: the breaker stays open.
    ShutAgain,
    /// The dependency works again, after an outage of this length.
    Closed(Duration),
}

/// The next action, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Nothing, until the next event.
    Wait,
    /// Probe at this time.
    Probe(Instant),
    /// Let one claim try from this time on.
    Trial(Instant),
}

/// The state machine of one breaker.
#[derive(Debug, Clone)]
pub struct Machine {
    state: State,
    /// Submissions denied in a row, with their recipients.
    denied: Vec<(Uuid, Vec<String>)>,
    /// Submissions denied since the breaker opened.
    tried: VecDeque<Uuid>,
    /// Recipients whose denial proved to be their own.
    excused: BTreeSet<String>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { state: State::Closed, denied: Vec::new(), tried: VecDeque::new(), excused: BTreeSet::new() }
    }
}

impl Machine {
    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns whether the dependency is treated as down; true during a trial.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. } | State::Trial { .. })
    }

    /// Returns whether a suspicion is unresolved.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        matches!(self.state, State::Suspect { .. })
    }

    /// Returns whether this submission was denied in this outage: a trial with it would hardly show anything new.
    #[must_use]
    pub fn was_denied(&self, submission: Uuid) -> bool {
        self.is_open()
            && (self.tried.contains(&submission) || self.denied.iter().any(|(known, _)| *known == submission))
    }

    /// Returns the next action.
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

    /// Takes in an event at `now`; `rng` is from 0 to 1 and spreads probes.
    pub fn on(&mut self, event: Event<'_>, now: Instant, rng: f64) -> Option<Change> {
        match event {
            Event::Fault(what) => self.fault(what, now, rng),
            Event::Denied { submission, recipients, what } => {
                self.denied(submission, recipients, what, now, rng)
            }
            Event::Passed { accepted } => self.passed(accepted, now),
            Event::ProbeFailed(what) => self.probe_failed(what, now, rng),
            Event::ProbeWorked => self.probe_worked(now),
            Event::TrialDue => self.trial_due(),
        }
    }

    fn fault(&mut self, what: &str, now: Instant, rng: f64) -> Option<Change> {
        match &mut self.state {
            State::Closed => {
                let what = what.to_owned();
                self.state = State::Suspect { faults: 1, confirmed: false, what, next_probe: now };
                None
            }
            State::Suspect { faults, .. } => {
                *faults = faults.saturating_add(1);
                self.open_if_confirmed(now, rng)
            }
            State::Open { .. } => None,
            State::Trial { .. } => self.shut_again(now, rng),
        }
    }

    fn probe_failed(&mut self, what: &str, now: Instant, rng: f64) -> Option<Change> {
        match &mut self.state {
            State::Closed => self.fault(what, now, rng),
            State::Suspect { faults, confirmed, next_probe, .. } => {
                *faults = faults.saturating_add(1);
                *confirmed = true;
                *next_probe = now + SUSPICION;
                self.open_if_confirmed(now, rng)
            }
            State::Open { next_probe, tries, .. } => {
                *tries = tries.saturating_add(1);
                *next_probe = now + pause(*tries, rng);
                None
            }
            State::Trial { .. } => None,
        }
    }

    /// Faults alone prove no outage: many sends lose their connections at once when the relay is only restarted.
    fn open_if_confirmed(&mut self, now: Instant, rng: f64) -> Option<Change> {
        match &self.state {
            State::Suspect { faults, confirmed: true, what, .. } if *faults >= FAULTS => {
                let what = what.clone();
                Some(self.open(Cause::Unreachable, what, now, rng))
            }
            State::Suspect { .. } | State::Closed | State::Open { .. } | State::Trial { .. } => None,
        }
    }

    fn open(&mut self, cause: Cause, what: String, now: Instant, rng: f64) -> Change {
        let next_probe = now + pause(0, rng);
        self.state = State::Open { since: now, cause, what: what.clone(), next_probe, tries: 0 };
        Change::Opened(cause, what)
    }

    fn denied(
        &mut self,
        submission: Uuid,
        recipients: &[String],
        what: &str,
        now: Instant,
        rng: f64,
    ) -> Option<Change> {
        match &self.state {
            State::Closed | State::Suspect { .. } => {
                let their_own = recipients.iter().all(|recipient| self.excused.contains(recipient));
                if their_own || self.denied.iter().any(|(known, _)| *known == submission) {
                    return None;
                }
                self.denied.push((submission, recipients.to_vec()));
                (self.denied.len() >= DENIALS).then(|| self.open(Cause::Denied, what.to_owned(), now, rng))
            }
            State::Open { .. } => {
                self.remember(submission);
                None
            }
            State::Trial { .. } => {
                self.remember(submission);
                self.shut_again(now, rng)
            }
        }
    }

    fn remember(&mut self, submission: Uuid) {
        if !self.was_denied(submission) {
            self.tried.push_back(submission);
        }
        if self.tried.len() > TRIED {
            self.tried.pop_front();
        }
    }

    /// In suspicion and in an outage a late success proves nothing: its connection may be older.
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

    /// Others are accepted: the denial of these is their own trouble, until they are accepted themselves.
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
                Some(Change::HalfOpen)
            }
            State::Open { cause: Cause::Unreachable, .. }
            | State::Closed
            | State::Suspect { .. }
            | State::Trial { .. } => None,
        }
    }

    fn shut_again(&mut self, now: Instant, rng: f64) -> Option<Change> {
        let State::Trial { since, what, tries } = &self.state else { return None };
        let tries = tries.saturating_add(1);
        self.state = State::Open {
            since: *since,
            cause: Cause::Denied,
            what: what.clone(),
            next_probe: now + pause(tries, rng),
            tries,
        };
        Some(Change::ShutAgain)
    }

    fn close(&mut self, since: Instant, now: Instant) -> Change {
        self.state = State::Closed;
        self.denied.clear();
        self.tried.clear();
        Change::Closed(now.saturating_duration_since(since))
    }
}

/// Returns the pause after `tries` attempts: exponential, with full jitter above the shortest.
fn pause(tries: u32, rng: f64) -> Duration {
    let ceiling = backon::ExponentialBuilder::default()
        .with_min_delay(SHORTEST)
        .with_max_delay(LONGEST)
        .with_factor(2.0)
        .without_max_times()
        .build()
        .nth(usize::try_from(tries.min(32)).unwrap_or(32))
        .unwrap_or(LONGEST)
        .clamp(SHORTEST, LONGEST);
    SHORTEST + (ceiling - SHORTEST).mul_f64(rng.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
