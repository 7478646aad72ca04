//! The breaker of one dependency: faults in, probes out, the gate shut and opened, one incident raised (protocol,
//! "Outages"). [`machine`] decides; this is the shell around it.
//!
//! If we die, the breaker is closed at the next start, and a lasting fault opens it again within seconds. A breaker never
//! blocks a caller that reports a fault, and never knows how its probe works.

pub mod machine;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use rand::RngExt;
use tokio::sync::watch;
use uuid::Uuid;

use self::machine::{Cause, Change, Event, Machine, Task};
use super::dependency::{BREAKER_OPEN, Dependency};
use super::gate::{Gate, Shut};
use super::incident::{Incident, Incidents};
use super::rng::Rng;
use super::telemetry::EventName;
use crate::journal;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time after which a probe without an answer has failed.
const PROBE_LIMIT: Duration = Duration::from_secs(8);
/// The gate opens at a random time within this after the breaker closed, so that several processes do not all start in the
/// same moment.
const SPREAD: Duration = Duration::from_secs(3);

/// Probes the dependency; the error is for people.
pub type Probe = Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Makes an open breaker's meaning, commands and advice from the cause and the first fault's text.
pub type Tell = fn(Cause, &str) -> (String, &'static [&'static str], &'static str);

/// The breaker of one dependency. Cheap to clone; all clones are the same breaker.
#[derive(Debug, Clone)]
pub struct Breaker(Arc<Inner>);

/// The objects that breakers share.
#[derive(Debug, Clone)]
pub struct Beside {
    /// The gate, shut by every open breaker.
    pub gate: Gate,
    /// The incidents, among which an open breaker raises its own.
    pub incidents: Incidents,
    /// The clock of probes.
    pub clock: Arc<dyn Clock>,
    /// Spreads probes, so that several processes do not all ask in the same moment.
    pub rng: Arc<Rng>,
}

#[derive(Debug)]
struct Inner {
    dependency: Dependency,
    /// Makes the incident's texts; absent: there is no probe, and the breaker never opens.
    tell: Option<Tell>,
    beside: Beside,
    machine: watch::Sender<Machine>,
    /// The latest probe's finding, more precise than the fault's text.
    found: Mutex<Option<Finding>>,
}

/// The trouble of a dependency that answers, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The objects, and their trouble.
    pub what: String,
    /// The remedy; may be empty.
    pub remedy: String,
}

impl Breaker {
    /// Returns a closed breaker, and the task that probes for it. Without the task a suspicion is never resolved.
    #[must_use]
    pub fn new(dependency: Dependency, tell: Tell, beside: Beside) -> (Self, Prober) {
        let breaker = Self::over(dependency, Some(tell), beside);
        (breaker.clone(), Prober(breaker))
    }

    /// Returns a breaker that never opens, for where there is no probe.
    #[must_use]
    pub fn idle(dependency: Dependency, clock: Arc<dyn Clock>, rng: Arc<Rng>) -> Self {
        let (gate, (incidents, _)) = (Gate::new(), Incidents::new());
        Self::over(dependency, None, Beside { gate, incidents, clock, rng })
    }

    fn over(dependency: Dependency, tell: Option<Tell>, beside: Beside) -> Self {
        let (machine, found) = (watch::Sender::new(Machine::default()), Mutex::default());
        Self(Arc::new(Inner { dependency, tell, beside, machine, found }))
    }

    /// Records a probe's finding: an incident that opens next reports it, rather than the first fault's text.
    pub fn found(&self, finding: &Finding) {
        let finding = Finding { what: scrub(&finding.what), remedy: scrub(&finding.remedy) };
        *self.0.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(finding);
    }

    /// Reports that work met a fault of the connection. Returns at once; [`Self::verdict`] waits for the result.
    pub fn fault(&self, what: &str) {
        self.on(Event::Fault(&scrub(what)));
    }

    /// Reports that a submission's work was denied for a reason that seems to be about us.
    pub fn denied(&self, submission: Uuid, recipients: &[String], what: &str) {
        self.on(Event::Denied { submission, recipients, what: &scrub(what) });
    }

    /// Reports that work succeeded; `accepted` may be empty.
    pub fn passed(&self, accepted: &[String]) {
        self.on(Event::Passed { accepted });
    }

    /// Returns whether the dependency is treated as down.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.machine.borrow().is_open()
    }

    /// Returns whether this submission was denied in the current outage, and so is a poor trial.
    #[must_use]
    pub fn was_denied(&self, submission: Uuid) -> bool {
        self.0.machine.borrow().was_denied(submission)
    }

    /// Resolves when the suspicion ends; returns whether the breaker is open.
    pub async fn verdict(&self) -> bool {
        self.wait_until(|machine| !machine.is_suspect()).await;
        self.is_open()
    }

    /// Resolves when a suspicion, or an outage, is over; never while there is none.
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
        // The breaker owns the sender, so the channel cannot close.
        if self.0.machine.subscribe().wait_for(|machine| so(machine)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The state and its consequences change together: no reader sees one without the other.
    fn on(&self, event: Event<'_>) {
        let inner = &*self.0;
        let Some(tell) = inner.tell else { return };
        let (now, rng) = (inner.beside.clock.monotonic(), inner.draw());
        inner.machine.send_if_modified(|machine| {
            let before = machine.state().clone();
            if let Some(change) = machine.on(event, now, rng) {
                inner.follow(&change, tell);
            }
            *machine.state() != before
        });
    }
}

impl Inner {
    fn draw(&self) -> f64 {
        self.beside.rng.with(|rng| rng.random_range(0.0..=1.0))
    }

    fn follow(&self, change: &Change, tell: Tell) {
        let (name, shut) = (self.dependency.label(), Shut::Breaker(self.dependency));
        match change {
            Change::Opened(cause, said) => {
                self.beside.gate.close(shut);
                BREAKER_OPEN.set(name, true);
                let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
                let said = found.as_ref().map_or(said, |finding| &finding.what);
                let (what, commands, advice) = tell(*cause, said);
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
                self.beside
                    .incidents
                    .raise(Incident::new(self.dependency.incident(), what, commands).advising(advice));
            }
            Change::HalfOpen => {
                self.beside.gate.half_open(shut);
                tracing::info!(dependency = name, "one submission tries whether {name} works again");
            }
            Change::ShutAgain => {
                self.beside.gate.close(shut);
                tracing::warn!(dependency = name, "{name} does not work yet");
            }
            Change::Closed(after) => {
                BREAKER_OPEN.set(name, false);
                journal!(
                    info,
                    EventName::BreakerClosed,
                    dependency = name,
                    open_seconds = after.as_secs(),
                    "{name} works again after {} s: work is taken up slowly",
                    after.as_secs()
                );
                self.beside.incidents.resolve(self.dependency.incident());
            }
        }
    }
}

/// Probes for one breaker, and opens the gate again.
#[derive(Debug)]
pub struct Prober(Breaker);

impl Prober {
    /// Probes when there is a reason, until it is dropped.
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
                Task::Wait if !open && inner.beside.gate.reasons().contains(&shut) => {
                    inner.beside.clock.sleep(SPREAD.mul_f64(inner.draw())).await;
                    // Under the lock, so that no fault opens the breaker in between.
                    inner.machine.send_if_modified(|machine| {
                        if *machine.state() == machine::State::Closed {
                            inner.beside.gate.open(shut);
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
        self.beside.clock.sleep(at.saturating_duration_since(self.beside.clock.monotonic())).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::ops::clock::SystemClock;
    use crate::ops::gate::GateState;
    use crate::ops::incident::Open;

    struct Bench {
        breaker: Breaker,
        gate: Gate,
        incidents: watch::Receiver<Open>,
        works: Arc<AtomicBool>,
        probes: Arc<AtomicUsize>,
    }

    /// A breaker whose probe works or fails as asked, on a paused clock.
    fn bench(works: bool) -> Bench {
        let (gate, (incidents, seen)) = (Gate::new(), Incidents::new());
        let (clock, rng) = (Arc::new(SystemClock), Arc::new(Rng::seeded(7)));
        let beside = Beside { gate: gate.clone(), incidents, clock, rng };
        let (breaker, prober) =
            Breaker::new(Dependency::RELAY, |_, said| (said.to_owned(), &["maple-router check"], ""), beside);
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
        let incident = &open[&Dependency::RELAY.incident()];
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
        assert_eq!(bench.gate.state(), GateState::Shut);
        bench.gate.opened().await;
        assert_eq!(bench.gate.state(), GateState::HalfOpen, "one at a time");
        bench.breaker.denied(Uuid::from_u128(9), &["a@x".to_owned()], "554 5.7.1 Relay access denied");
        assert_eq!(bench.gate.state(), GateState::Shut);
        bench.gate.opened().await;
        bench.breaker.passed(&["a@x".to_owned()]);
        bench.gate.changed_from(GateState::HalfOpen).await;
        assert_eq!(bench.gate.state(), GateState::Open);
        assert!(bench.incidents.borrow().is_empty());
    }

    #[tokio::test]
    async fn an_idle_breaker_never_opens_and_is_never_in_doubt() {
        let breaker = Breaker::idle(Dependency::RELAY, Arc::new(SystemClock), Arc::new(Rng::seeded(1)));
        for _ in 0..100 {
            breaker.fault("gone");
        }
        assert!(!breaker.verdict().await);
    }
}
