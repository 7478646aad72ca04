//! The gate: whether new work is taken, and why not.
//!
//! A shut gate is shut for every caller: nothing is received, claimed, started or enqueued. A half-open one lets a single
//! claim at a time try whether work succeeds again. The gate opens when the last reason is gone. If we die, the gate is open
//! at the next start, and a lasting fault shuts it again. The gate never waits and never decides anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::dependency::Dependency;

/// Why no new work is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shut {
    /// A dependency is treated as down.
    Breaker(Dependency),
    /// An operator paused everything.
    Paused,
}

impl Shut {
    /// The label used in `/-/ready` and in the journal.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Breaker(dependency) => dependency.label(),
            Self::Paused => "paused",
        }
    }
}

/// The gate state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateState {
    /// No work passes.
    Shut,
    /// One claim at a time passes, on trial.
    HalfOpen,
    /// All work passes.
    Open,
}

type Reasons = BTreeMap<Shut, GateState>;

/// The gate. Cheap to clone; all clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<Reasons>>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// An open gate.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Reasons::new())))
    }

    /// Shuts the gate for `reason`.
    pub fn close(&self, reason: Shut) {
        self.set(reason, GateState::Shut);
    }

    /// Makes the gate half-open, as far as `reason` is concerned.
    pub fn half_open(&self, reason: Shut) {
        self.set(reason, GateState::HalfOpen);
    }

    /// Removes `reason`.
    pub fn open(&self, reason: Shut) {
        self.0.send_if_modified(|reasons| reasons.remove(&reason).is_some());
    }

    fn set(&self, reason: Shut, state: GateState) {
        self.0.send_if_modified(|reasons| reasons.insert(reason, state) != Some(state));
    }

    /// Returns the gate state.
    #[must_use]
    pub fn state(&self) -> GateState {
        state(&self.0.borrow())
    }

    /// Returns whether any work may pass, even one claim at a time.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state() != GateState::Shut
    }

    /// Returns the current reasons.
    #[must_use]
    pub fn reasons(&self) -> Vec<Shut> {
        self.0.borrow().keys().copied().collect()
    }

    /// Resolves when any work may pass.
    pub async fn opened(&self) {
        self.until(|state| state != GateState::Shut).await;
    }

    /// Resolves when no work may pass.
    pub async fn shut(&self) {
        self.until(|state| state == GateState::Shut).await;
    }

    /// Resolves when the gate state differs from `seen`; at once if it does already.
    pub async fn changed_from(&self, seen: GateState) {
        self.until(|state| state != seen).await;
    }

    /// Returns a watch of the reasons.
    #[must_use]
    pub fn watch(&self) -> GateWatch {
        GateWatch(self.0.subscribe())
    }

    async fn until(&self, so: impl Fn(GateState) -> bool) {
        // The gate owns the sender, so the channel cannot close.
        if self.0.subscribe().wait_for(|reasons| so(state(reasons))).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A watch of the gate's reasons ([`Gate::watch`]).
#[derive(Debug)]
pub struct GateWatch(watch::Receiver<Reasons>);

impl GateWatch {
    /// Resolves when the reasons have changed since the last call; returns the current ones.
    pub async fn changed(&mut self) -> Vec<Shut> {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.0.borrow_and_update().keys().copied().collect()
    }
}

fn state(reasons: &Reasons) -> GateState {
    reasons.values().copied().min().unwrap_or(GateState::Open)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const RELAY: Shut = Shut::Breaker(Dependency::RELAY);
    const POSTGRES: Shut = Shut::Breaker(Dependency::POSTGRES);

    #[test]
    fn it_opens_when_the_last_reason_is_gone() {
        let gate = Gate::new();
        assert!(gate.is_open());
        gate.close(RELAY);
        gate.close(POSTGRES);
        gate.close(Shut::Paused);
        assert_eq!(gate.reasons(), [POSTGRES, RELAY, Shut::Paused]);
        gate.open(RELAY);
        gate.open(Shut::Paused);
        assert!(!gate.is_open());
        gate.open(POSTGRES);
        assert_eq!(gate.state(), GateState::Open);
    }

    #[test]
    fn ajar_is_as_far_as_the_narrowest_reason_allows() {
        let gate = Gate::new();
        gate.half_open(RELAY);
        assert_eq!((gate.state(), gate.is_open()), (GateState::HalfOpen, true));
        gate.close(Shut::Paused);
        assert_eq!((gate.state(), gate.is_open()), (GateState::Shut, false));
        gate.open(Shut::Paused);
        gate.close(RELAY);
        assert!(!gate.is_open());
    }

    #[tokio::test]
    async fn whoever_waits_is_told_at_once_and_whoever_comes_late_does_not_wait() {
        let gate = Gate::new();
        assert!(gate.opened().now_or_never().is_some());
        assert!(gate.shut().now_or_never().is_none());
        let (other, mut watch) = (gate.clone(), gate.watch());
        let waiting = tokio::spawn(async move { other.shut().await });
        gate.close(RELAY);
        waiting.await.unwrap();
        assert_eq!(watch.changed().await, [RELAY]);
        gate.close(RELAY);
        assert!(watch.changed().now_or_never().is_none(), "nothing has changed");
        assert!(gate.changed_from(GateState::Open).now_or_never().is_some());
        assert!(gate.changed_from(GateState::Shut).now_or_never().is_none());
    }
}
