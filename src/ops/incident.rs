//! Incidents: current trouble of the daemon or its dependencies, as opposed to a failed submission.
//!
//! A state, not a stream: one entry per key, so that memory is bounded and nothing is lost while nobody can be notified. The
//! alerter watches the state, and reports once that an entry came and once that it went. If we die, the entries are gone,
//! and lasting trouble raises its own again. This module never waits, and never sends anything itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::kernel::metric::Gauge;
use crate::ports::Runbook;

/// The gauge for dashboards, one series for each key on a card.
pub static INCIDENT_OPEN: Gauge<&str> =
    Gauge::new("maple_router_incident_open", "1 while this is wrong with us or with what we depend on")
        .by(&["incident"]);

/// The subject of an incident; at most one is open for each. The key is on a card, and has a section in the runbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncidentKey {
    label: &'static str,
    ours: bool,
    runbook: &'static str,
}

/// The runbook of the house and of routing; a room that has one of its own names it at its keys.
const RUNBOOK: &str = "rb-009-routing-failure.md";

impl IncidentKey {
    /// A key for trouble with us, or with a dependency.
    #[must_use]
    pub const fn new(label: &'static str) -> Self {
        Self { label, ours: true, runbook: RUNBOOK }
    }

    /// A key for neglect by others: no sign of our death, so that heartbeats go on.
    #[must_use]
    pub const fn of_others(label: &'static str) -> Self {
        Self { label, ours: false, runbook: RUNBOOK }
    }

    /// The same key, with its section in the runbook `file`.
    #[must_use]
    pub const fn in_runbook(self, file: &'static str) -> Self {
        Self { runbook: file, ..self }
    }

    /// Returns whether the incident keeps us from reporting that all is well.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        self.ours
    }

    /// The stable name, for journal and alerts: `breaker_relay`, `stream`, …
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.label
    }

    /// The runbook of the incident; its section has the key's own name.
    #[must_use]
    pub const fn runbook(self) -> Runbook {
        Runbook { file: self.runbook, section: self.label() }
    }
}

/// One incident. Its texts contain no recipient, no field value, no URL, no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// The subject.
    pub key: IncidentKey,
    /// The event, its object, and the consequence, in a sentence or two.
    pub what: String,
    /// Commands to run, each ready for a shell on the daemon's host.
    pub commands: Vec<String>,
    /// Further advice, in words; may be empty.
    pub advice: String,
}

impl Incident {
    /// An incident with the commands that lead on.
    #[must_use]
    pub fn new(key: IncidentKey, what: impl Into<String>, commands: &[&str]) -> Self {
        let commands = commands.iter().map(|command| (*command).to_owned()).collect();
        Self { key, what: what.into(), commands, advice: String::new() }
    }

    /// The same incident with advice.
    #[must_use]
    pub fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }
}

/// The open incidents, by key.
pub type Open = BTreeMap<IncidentKey, Incident>;

/// The handle to raise and resolve incidents. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Incidents(Arc<watch::Sender<Open>>);

impl Incidents {
    /// Returns a handle, and the state for the alerter.
    #[must_use]
    pub fn new() -> (Self, watch::Receiver<Open>) {
        let (open, seen) = watch::channel(Open::new());
        (Self(Arc::new(open)), seen)
    }

    /// Opens an incident. An open one of the same key stays unchanged, since it was reported.
    pub fn raise(&self, incident: Incident) {
        self.0.send_if_modified(|open| {
            let fresh = !open.contains_key(&incident.key);
            if fresh {
                INCIDENT_OPEN.set(incident.key.label, true);
                open.insert(incident.key, incident);
            }
            fresh
        });
    }

    /// Closes an incident; without effect where none is open.
    pub fn resolve(&self, key: IncidentKey) {
        self.0.send_if_modified(|open| {
            let known = open.remove(&key).is_some();
            if known {
                INCIDENT_OPEN.set(key.label, false);
            }
            known
        });
    }

    /// Returns the keys of the open incidents.
    #[must_use]
    pub fn keys(&self) -> Vec<IncidentKey> {
        self.0.borrow().keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_open_for_each_key_whatever_is_raised() {
        let (incidents, mut seen) = Incidents::new();
        let [relay, stream, canary] = ["relay", "stream", "canary"].map(IncidentKey::new);
        incidents.raise(Incident::new(relay, "refused", &["systemctl status postfix"]));
        assert!(seen.has_changed().unwrap());
        assert_eq!(seen.borrow_and_update().len(), 1);
        for n in 0..1_000 {
            incidents.raise(Incident::new(relay, format!("again {n}"), &[]));
        }
        assert!(!seen.has_changed().unwrap(), "known already");
        assert_eq!(seen.borrow()[&relay].what, "refused");
        incidents.raise(Incident::new(stream, "lost", &[]));
        incidents.resolve(relay);
        incidents.resolve(relay);
        assert_eq!(seen.borrow_and_update().keys().copied().collect::<Vec<_>>(), [stream]);
        incidents.resolve(canary);
        assert!(!seen.has_changed().unwrap());
    }
}
