//! Incidents: what is wrong right now with us or with what we depend on, as opposed to a submission that failed.
//!
//! A state, not a stream: one entry per key, so that memory is bounded whatever happens and nothing is lost while
//! nobody can be told. Whoever alerts watches the state, says once that an entry came and once that it went. If we
//! die, the entries are gone, and what still is wrong raises its own again. Never waits, never sends anything itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::metrics::{self, Dependency};
use crate::ports::Runbook;

/// What an incident is about; at most one is open for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IncidentKey {
    /// A dependency is treated as down.
    Breaker(Dependency),
    /// The event stream is lost and could not be built anew yet.
    Stream,
    /// A canary event is overdue: events may not come through.
    Canary,
    /// Facts lie in the state directory, because the database did not take them.
    Spool,
    /// Submissions are not ready for too long.
    Unready,
    /// Events wait in the outbox, and nobody delivers them.
    Outbox,
    /// Returned mails cannot be read.
    Bounces,
    /// The relay's queue is too long: mails are sent slowly.
    RelayQueue,
    /// The relay's log cannot be read, or has lost lines.
    RelayLog,
    /// Rows refuse a write that all others take.
    SetAside,
}

impl IncidentKey {
    /// Every key there can be.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let breakers = Dependency::ALL.iter().copied().map(Self::Breaker);
        breakers
            .chain([Self::Stream, Self::Canary, Self::Spool, Self::Unready, Self::Outbox, Self::Bounces])
            .chain([Self::RelayQueue, Self::RelayLog, Self::SetAside])
            .collect()
    }

    /// A stable name, for journal and alerts: `breaker_relay`, `stream`, …
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Breaker(Dependency::Postgres) => "breaker_postgres",
            Self::Breaker(Dependency::Relay) => "breaker_relay",
            Self::Breaker(Dependency::Signer) => "breaker_signer",
            Self::Breaker(Dependency::Pubsub) => "breaker_pubsub",
            Self::Breaker(Dependency::Contract) => "breaker_contract",
            Self::Stream => "stream",
            Self::Canary => "canary",
            Self::Spool => "spool",
            Self::Unready => "unready",
            Self::Outbox => "outbox",
            Self::Bounces => "bounces",
            Self::RelayQueue => "relay_queue",
            Self::RelayLog => "relay_log",
            Self::SetAside => "set_aside",
        }
    }

    /// The runbook that goes with it; its section has the key's own name.
    #[must_use]
    pub const fn runbook(self) -> Runbook {
        Runbook { file: "rb-009-routing-failure.md", section: self.label() }
    }
}

/// One thing that is wrong. Its texts hold no recipient, no field value, no URL, no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// What it is about.
    pub key: IncidentKey,
    /// What happened, to what, and what follows, in a sentence or two.
    pub what: String,
    /// What to run: a shell on the daemon's host takes each as it stands.
    pub commands: Vec<String>,
    /// What else there is to know, in words; may be empty.
    pub advice: String,
}

impl Incident {
    /// An incident with the commands that lead on.
    #[must_use]
    pub fn new(key: IncidentKey, what: impl Into<String>, commands: &[&str]) -> Self {
        let commands = commands.iter().map(|command| (*command).to_owned()).collect();
        Self { key, what: what.into(), commands, advice: String::new() }
    }

    /// The same with a word of advice.
    #[must_use]
    pub fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }
}

/// What is open, by key.
pub type Open = BTreeMap<IncidentKey, Incident>;

/// The handle for those who find something wrong. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Incidents(Arc<watch::Sender<Open>>);

impl Incidents {
    /// A handle, and the state for the one who alerts.
    #[must_use]
    pub fn new() -> (Self, watch::Receiver<Open>) {
        let (open, seen) = watch::channel(Open::new());
        (Self(Arc::new(open)), seen)
    }

    /// Opens an incident. One that is open already stays as it is: it is the same, and was told of.
    pub fn raise(&self, incident: Incident) {
        self.0.send_if_modified(|open| {
            let fresh = !open.contains_key(&incident.key);
            if fresh {
                metrics::incident_open(incident.key, true);
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
                metrics::incident_open(key, false);
            }
            known
        });
    }

    /// What is open now.
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
        let relay = IncidentKey::Breaker(Dependency::Relay);
        incidents.raise(Incident::new(relay, "refused", &["systemctl status postfix"]));
        assert!(seen.has_changed().unwrap());
        assert_eq!(seen.borrow_and_update().len(), 1);
        for n in 0..1_000 {
            incidents.raise(Incident::new(relay, format!("again {n}"), &[]));
        }
        assert!(!seen.has_changed().unwrap(), "told of already");
        assert_eq!(seen.borrow()[&relay].what, "refused");
        incidents.raise(Incident::new(IncidentKey::Stream, "lost", &[]));
        incidents.resolve(relay);
        incidents.resolve(relay);
        assert_eq!(seen.borrow_and_update().keys().copied().collect::<Vec<_>>(), [IncidentKey::Stream]);
        incidents.resolve(IncidentKey::Canary);
        assert!(!seen.has_changed().unwrap());
    }

    #[test]
    fn every_key_has_a_name_of_its_own() {
        let all = IncidentKey::all();
        let names: std::collections::BTreeSet<_> = all.iter().map(|key| key.label()).collect();
        assert_eq!(names.len(), all.len());
    }
}
