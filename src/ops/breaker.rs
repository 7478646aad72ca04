//! The breaker of one dependency: faults in, probes out, the gate shut and opened, one incident told (protocol,
//! "Outages"). What follows from what is decided in [`machine`]; this is the shell around it.
//!
//! If we die, the breaker is closed at the next start, and what still is wrong opens it again within seconds. Never
//! blocks whoever reports a fault, and never knows what is behind its probe.

pub mod machine;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use rand::RngExt;
use tokio::sync::watch;
use uuid::Uuid;

use self::machine::{Cause, Change, Event, Machine, Task};
use super::chance::Chance;
use super::gate::{Gate, Shut};
use super::incident::{Incident, IncidentKey, Incidents};
use super::metrics::{self, Dependency};
use super::telemetry::EventName;
use crate::journal;
use crate::ports::Clock;
use crate::scrub::scrub;

/// A probe without an answer by then has failed.
const PROBE_LIMIT: Duration = Duration::from_secs(8);
/// The gate opens at a random time within this after the breaker closed, so that several processes do not all start
/// in the same moment.
const SPREAD: Duration = Duration::from_secs(3);

/// Asks the dependency whether it works; the error is for people.
pub type Probe = Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// See the module's header. Cheap to clone; all clones are the same breaker.
#[derive(Debug, Clone)]
pub struct Breaker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dependency: Dependency,
    gate: Gate,
    incidents: Incidents,
    clock: Arc<dyn Clock>,
    chance: Arc<Chance>,
    machine: watch::Sender<Machine>,
    watched: bool,
    /// What a probe knows better than whoever met the fault.
    found: Mutex<Option<Finding>>,
}

/// What is wrong with a dependency that answers, and what mends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which objects, and what is wrong with them.
    pub what: String,
    /// What mends it; may be empty.
    pub remedy: String,
}

impl Breaker {
    /// A closed breaker, and the task that probes for it. Without the task running a suspicion is never resolved.
    #[must_use]
    pub fn new(
        dependency: Dependency,
        gate: Gate,
        incidents: Incidents,
        clock: Arc<dyn Clock>,
        chance: Arc<Chance>,
    ) -> (Self, Prober) {
        let breaker = Self::over(dependency, gate, incidents, clock, chance, true);
        (breaker.clone(), Prober(breaker))
    }

    /// A breaker that never opens, for where nobody probes.
    #[must_use]
    pub fn idle(dependency: Dependency, clock: Arc<dyn Clock>, chance: Arc<Chance>) -> Self {
        let (gate, (incidents, _)) = (Gate::new(), Incidents::new());
        Self::over(dependency, gate, incidents, clock, chance, false)
    }

    fn over(
        dependency: Dependency,
        gate: Gate,
        incidents: Incidents,
        clock: Arc<dyn Clock>,
        chance: Arc<Chance>,
        watched: bool,
    ) -> Self {
        let (machine, found) = (watch::Sender::new(Machine::default()), Mutex::default());
        Self(Arc::new(Inner { dependency, gate, incidents, clock, chance, machine, watched, found }))
    }

    /// What a probe has just found: an incident that opens next tells that, rather than what the first fault said.
    pub fn found(&self, finding: &Finding) {
        let finding = Finding { what: scrub(&finding.what), remedy: scrub(&finding.remedy) };
        *self.0.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(finding);
    }

    /// Work met a fault of the connection. Returns at once; [`Self::verdict`] waits for what it means.
    pub fn fault(&self, what: &str) {
        self.on(Event::Fault(&scrub(what)));
    }

    /// Work of a submission was denied for a reason that seems to be about us.
    pub fn denied(&self, submission: Uuid, recipients: &[String], what: &str) {
        self.on(Event::Denied { submission, recipients, what: &scrub(what) });
    }

    /// Work came through.
    pub fn passed(&self, accepted: &[String]) {
        self.on(Event::Passed { accepted });
    }

    /// Whether the dependency is treated as down.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.machine.borrow().is_open()
    }

    /// Whether this submission was denied in the outage that lasts, and so is a poor trial.
    #[must_use]
    pub fn was_denied(&self, submission: Uuid) -> bool {
        self.0.machine.borrow().was_denied(submission)
    }

    /// Resolves when it is known whether a fault is an outage: whether the breaker is open.
    pub async fn verdict(&self) -> bool {
        self.wait_until(|machine| !machine.is_suspect()).await;
        self.is_open()
    }

    /// Resolves when a fault, or an outage, is over; never while there is none.
    pub async fn over_again(&self) {
        self.wait_until(|machine| machine.is_suspect() || machine.is_open()).await;
        self.wait_until(|machine| !machine.is_suspect() && !machine.is_open()).await;
    }

    /// Resolves when the breaker closes; never while it is not open.
    pub async fn recovered(&self) {
        if !self.is_open() {
            std::future::pending::<()>().await;
        }
        self.wait_until(|machine| !machine.is_open()).await;
    }

    async fn wait_until(&self, so: impl Fn(&Machine) -> bool) {
        // We hold the sender ourselves, so the channel cannot close.
        if self.0.machine.subscribe().wait_for(|machine| so(machine)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// State and what follows from it change together: nobody sees the one without the other.
    fn on(&self, event: Event<'_>) {
        let inner = &*self.0;
        if !inner.watched {
            return;
        }
        let (now, chance) = (inner.clock.monotonic(), inner.draw());
        inner.machine.send_if_modified(|machine| {
            let before = machine.state().clone();
            if let Some(change) = machine.on(event, now, chance) {
                inner.follow(&change);
            }
            *machine.state() != before
        });
    }
}

impl Inner {
    fn draw(&self) -> f64 {
        self.chance.with(|rng| rng.random_range(0.0..=1.0))
    }

    fn follow(&self, change: &Change) {
        let (name, shut) = (self.dependency.label(), Shut::Breaker(self.dependency));
        match change {
            Change::Opened(cause, said) => {
                self.gate.close(shut);
                metrics::breaker_open(self.dependency, true);
                let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
                let said = found.as_ref().map_or(said, |finding| &finding.what);
                let (what, commands, advice) = told(self.dependency, *cause, said);
                let advice = match found.as_ref().map(|finding| finding.remedy.as_str()) {
                    Some(remedy) if !remedy.is_empty() => format!("{advice}: {remedy}"),
                    Some(_) | None => advice.to_owned(),
                };
                journal!(
                    error,
                    EventName::BreakerOpen,
                    dependency = name,
                    reason = said.as_str(),
                    "{what}; nothing is claimed until it works again, and no attempt is spent"
                );
                let key = IncidentKey::Breaker(self.dependency);
                self.incidents.raise(Incident::new(key, what, commands).advising(advice));
            }
            Change::Ajar => {
                self.gate.ajar(shut);
                tracing::info!(dependency = name, "one submission tries whether {name} works again");
            }
            Change::ShutAgain => {
                self.gate.close(shut);
                tracing::warn!(dependency = name, "{name} does not work yet");
            }
            Change::Closed(after) => {
                metrics::breaker_open(self.dependency, false);
                journal!(
                    info,
                    EventName::BreakerClosed,
                    dependency = name,
                    open_seconds = after.as_secs(),
                    "{name} works again after {} s: work is taken up slowly",
                    after.as_secs()
                );
                self.incidents.resolve(IncidentKey::Breaker(self.dependency));
            }
        }
    }
}

/// What an open breaker means, what to run, and what else there is to know.
fn told(dependency: Dependency, cause: Cause, said: &str) -> (String, &'static [&'static str], &'static str) {
    match (dependency, cause) {
        (Dependency::Postgres, _) => (
            format!("PostgreSQL cannot be reached ({said})"),
            &["maple-router check"],
            "look at the database server, and at the network to it",
        ),
        (Dependency::Relay, Cause::Unreachable) => (
            format!("the mail relay does not take mail ({said})"),
            &["systemctl status postfix", "maple-router check"],
            "",
        ),
        (Dependency::Relay, Cause::Denied) => (
            format!("the mail relay denies our mails one after the other ({said})"),
            &["postconf mynetworks smtpd_relay_restrictions"],
            "is this host in mynetworks of its Postfix?",
        ),
        (Dependency::Signer, _) => (
            format!("links to attachments cannot be signed ({said})"),
            &["maple-router check"],
            "the lines signing and link tell more",
        ),
        (Dependency::Pubsub, _) => (
            format!("Pub/Sub does not answer ({said})"),
            &["maple-router check"],
            "the line subscription tells more",
        ),
        (Dependency::Contract, _) => (
            format!("the database answers, and is not what the data contract says ({said})"),
            &["maple-router check"],
            "nothing is sent meanwhile; as the owner of the tables",
        ),
    }
}

/// Probes for one breaker, and opens the gate again.
#[derive(Debug)]
pub struct Prober(Breaker);

impl Prober {
    /// Probes when there is reason to, until it is dropped.
    pub async fn run(self, probe: Probe) {
        let breaker = self.0;
        let inner = &*breaker.0;
        let shut = Shut::Breaker(inner.dependency);
        loop {
            let (task, open) = {
                let machine = inner.machine.borrow();
                (machine.task(), machine.is_open())
            };
            match task {
                Task::Probe(at) => {
                    inner.until(at).await;
                    match tokio::time::timeout(PROBE_LIMIT, probe()).await {
                        Ok(Ok(())) => breaker.on(Event::ProbeWorked),
                        Ok(Err(what)) => breaker.on(Event::ProbeFailed(&scrub(&what))),
                        Err(_) => breaker.on(Event::ProbeFailed("no answer to a probe")),
                    }
                }
                Task::Trial(at) => {
                    inner.until(at).await;
                    breaker.on(Event::TrialDue);
                }
                Task::Wait if !open && inner.gate.reasons().contains(&shut) => {
                    inner.clock.sleep(SPREAD.mul_f64(inner.draw())).await;
                    // Under the lock, so that no fault opens it in between.
                    inner.machine.send_if_modified(|machine| {
                        if *machine.state() == machine::State::Closed {
                            inner.gate.open(shut);
                        }
                        false
                    });
                }
                Task::Wait => {
                    let since = (task, open);
                    breaker.wait_until(|machine| (machine.task(), machine.is_open()) != since).await;
                }
            }
        }
    }
}

impl Inner {
    async fn until(&self, at: std::time::Instant) {
        self.clock.sleep(at.saturating_duration_since(self.clock.monotonic())).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::ops::clock::SystemClock;
    use crate::ops::gate::Passage;
    use crate::ops::incident::Open;

    struct Bench {
        breaker: Breaker,
        gate: Gate,
        incidents: watch::Receiver<Open>,
        works: Arc<AtomicBool>,
        probes: Arc<AtomicUsize>,
    }

    /// A breaker whose probe answers as told, on a clock that is paused.
    fn bench(works: bool) -> Bench {
        let (gate, (incidents, seen)) = (Gate::new(), Incidents::new());
        let (clock, chance) = (Arc::new(SystemClock), Arc::new(Chance::seeded(7)));
        let (breaker, prober) = Breaker::new(Dependency::Relay, gate.clone(), incidents, clock, chance);
        let (works, probes) = (Arc::new(AtomicBool::new(works)), Arc::new(AtomicUsize::new(0)));
        let (answer, count) = (Arc::clone(&works), Arc::clone(&probes));
        let probe: Probe = Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
            let works = answer.load(Ordering::SeqCst);
            Box::pin(async move { works.then_some(()).ok_or_else(|| "still refused".to_owned()) })
        });
        tokio::spawn(prober.run(probe));
        Bench { breaker, gate, incidents: seen, works, probes }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_shuts_the_gate_until_it_is_over_and_is_one_incident() {
        let mut bench = bench(false);
        bench.breaker.fault("connection refused");
        assert!(bench.gate.is_open(), "not at the first fault");
        assert!(bench.breaker.verdict().await, "an outage");
        assert!(!bench.gate.is_open());
        let open = bench.incidents.borrow_and_update().clone();
        let incident = &open[&IncidentKey::Breaker(Dependency::Relay)];
        assert!(incident.what.contains("connection refused"), "{incident:?}");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!bench.gate.is_open() && !bench.incidents.has_changed().unwrap(), "one incident");
        let probes = bench.probes.load(Ordering::SeqCst);
        assert!((100..=3600).contains(&probes), "{probes} probes in an hour");
        bench.works.store(true, Ordering::SeqCst);
        bench.breaker.recovered().await;
        assert!(bench.incidents.borrow_and_update().is_empty());
        assert!(!bench.gate.is_open(), "not all at once");
        bench.gate.opened().await;
        assert!(!bench.breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_that_a_probe_does_not_confirm_is_none() {
        let bench = bench(true);
        bench.breaker.fault("connection lost");
        assert!(!bench.breaker.verdict().await);
        assert!(bench.gate.is_open() && bench.incidents.borrow().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn denials_end_by_a_trial() {
        let bench = bench(true);
        for n in 0..5 {
            bench.breaker.denied(Uuid::from_u128(n), &["a@x".to_owned()], "554 5.7.1 Relay access denied");
        }
        assert_eq!(bench.gate.passage(), Passage::Shut);
        bench.gate.opened().await;
        assert_eq!(bench.gate.passage(), Passage::Ajar, "one at a time");
        bench.breaker.denied(Uuid::from_u128(9), &["a@x".to_owned()], "554 5.7.1 Relay access denied");
        assert_eq!(bench.gate.passage(), Passage::Shut);
        bench.gate.opened().await;
        bench.breaker.passed(&["a@x".to_owned()]);
        bench.gate.changed_from(Passage::Ajar).await;
        assert_eq!(bench.gate.passage(), Passage::Open);
        assert!(bench.incidents.borrow().is_empty());
    }

    #[tokio::test]
    async fn an_idle_breaker_never_opens_and_is_never_in_doubt() {
        let breaker = Breaker::idle(Dependency::Relay, Arc::new(SystemClock), Arc::new(Chance::seeded(1)));
        for _ in 0..100 {
            breaker.fault("gone");
        }
        assert!(!breaker.verdict().await);
    }
}
