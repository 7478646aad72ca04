//! The gate: whether new work is taken, and why not.
//!
//! Shut means shut for everybody who asks: nothing is received, claimed, begun or enqueued. Ajar means that a single
//! claim at a time may try whether it works again. It opens when the last reason is gone. If we die, the gate is open
//! at the next start, and what still is wrong shuts it again. Never waits for anybody and never decides anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::metrics::Dependency;

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
    pub const fn label(self) -> &'static str {
        match self {
            Self::Breaker(dependency) => dependency.label(),
            Self::Paused => "paused",
        }
    }
}

/// How far the gate is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passage {
    /// Nothing passes.
    Shut,
    /// One at a time, on trial.
    Ajar,
    /// Open.
    Open,
}

type Reasons = BTreeMap<Shut, Passage>;

/// See the module's header. Cheap to clone; all clones are the same gate.
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

    /// Shuts it for `reason`.
    pub fn close(&self, reason: Shut) {
        self.set(reason, Passage::Shut);
    }

    /// Lets one at a time pass, as far as `reason` is concerned.
    pub fn ajar(&self, reason: Shut) {
        self.set(reason, Passage::Ajar);
    }

    /// Takes `reason` away.
    pub fn open(&self, reason: Shut) {
        self.0.send_if_modified(|reasons| reasons.remove(&reason).is_some());
    }

    fn set(&self, reason: Shut, passage: Passage) {
        self.0.send_if_modified(|reasons| reasons.insert(reason, passage) != Some(passage));
    }

    /// How far it is open now.
    #[must_use]
    pub fn passage(&self) -> Passage {
        passage(&self.0.borrow())
    }

    /// Whether anything may pass now, be it one at a time.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.passage() != Passage::Shut
    }

    /// The reasons there are now.
    #[must_use]
    pub fn reasons(&self) -> Vec<Shut> {
        self.0.borrow().keys().copied().collect()
    }

    /// Resolves when anything may pass.
    pub async fn opened(&self) {
        self.until(|passage| passage != Passage::Shut).await;
    }

    /// Resolves when nothing may pass.
    pub async fn shut(&self) {
        self.until(|passage| passage == Passage::Shut).await;
    }

    /// Resolves when the passage is another than `seen`; at once when it is already.
    pub async fn changed_from(&self, seen: Passage) {
        self.until(|passage| passage != seen).await;
    }

    /// To be told of every change of the reasons.
    #[must_use]
    pub fn watch(&self) -> GateWatch {
        GateWatch(self.0.subscribe())
    }

    async fn until(&self, so: impl Fn(Passage) -> bool) {
        // We hold the sender ourselves, so the channel cannot close.
        if self.0.subscribe().wait_for(|reasons| so(passage(reasons))).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// See [`Gate::watch`].
#[derive(Debug)]
pub struct GateWatch(watch::Receiver<Reasons>);

impl GateWatch {
    /// Resolves when the reasons have changed since the last call; the reasons as they are then.
    pub async fn changed(&mut self) -> Vec<Shut> {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.0.borrow_and_update().keys().copied().collect()
    }
}

fn passage(reasons: &Reasons) -> Passage {
    reasons.values().copied().min().unwrap_or(Passage::Open)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const RELAY: Shut = Shut::Breaker(Dependency::Relay);
    const POSTGRES: Shut = Shut::Breaker(Dependency::Postgres);

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
        assert_eq!(gate.passage(), Passage::Open);
    }

    #[test]
    fn ajar_is_as_far_as_the_narrowest_reason_allows() {
        let gate = Gate::new();
        gate.ajar(RELAY);
        assert_eq!((gate.passage(), gate.is_open()), (Passage::Ajar, true));
        gate.close(Shut::Paused);
        assert_eq!((gate.passage(), gate.is_open()), (Passage::Shut, false));
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
        assert!(gate.changed_from(Passage::Open).now_or_never().is_some());
        assert!(gate.changed_from(Passage::Shut).now_or_never().is_none());
    }
}
