//! What the mission tells the breakers, and what it hears from them (protocol, "Outages").
//!
//! If we die, nothing is lost: what was not recorded is decided anew. Never waits longer than the claim allows, and
//! never while there is a fact to record.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::blame::{self, Blame, RelayNews, Tally};
use super::claims::Claim;
use crate::db::{DbError, DbErrorKind};
use crate::ops::breaker::{Breaker, Prober};
use crate::ops::chance::Chance;
use crate::ops::gate::Gate;
use crate::ops::incident::Incidents;
use crate::ops::metrics::Dependency;
use crate::ops::set_aside::SetAside;
use crate::ports::{Clock, Outcome};

/// How long a worker waits to learn whether a fault is an outage. Two probes that hang take less.
const VERDICT: Duration = Duration::from_secs(20);
/// What must remain of a claim after such a wait.
const KEPT: Duration = Duration::from_secs(30);

/// The breakers, and the gate they shut.
#[derive(Debug, Clone)]
pub struct Outages {
    /// Whether new work is taken.
    pub gate: Gate,
    /// The database.
    pub postgres: Breaker,
    /// The mail relay.
    pub relay: Breaker,
    /// The signer of links.
    pub signer: Breaker,
    /// The contract with the database: open while that answers and is not what it was.
    pub contract: Breaker,
    /// Rows that refuse a write.
    pub set_aside: SetAside,
    clock: Arc<dyn Clock>,
}

/// The tasks that probe; each must run.
#[derive(Debug)]
pub struct Probers {
    /// For the database.
    pub postgres: Prober,
    /// For the relay.
    pub relay: Prober,
    /// For the signer.
    pub signer: Prober,
    /// For the contract with the database.
    pub contract: Prober,
}

impl Outages {
    /// Closed breakers before `gate`, and the tasks that probe for them.
    #[must_use]
    pub fn new(
        gate: Gate,
        incidents: &Incidents,
        clock: Arc<dyn Clock>,
        chance: &Arc<Chance>,
    ) -> (Self, Probers) {
        let breaker = |dependency| {
            let (gate, incidents) = (gate.clone(), incidents.clone());
            Breaker::new(dependency, gate, incidents, Arc::clone(&clock), Arc::clone(chance))
        };
        let (postgres, of_postgres) = breaker(Dependency::Postgres);
        let (relay, of_relay) = breaker(Dependency::Relay);
        let (signer, of_signer) = breaker(Dependency::Signer);
        let (contract, of_contract) = breaker(Dependency::Contract);
        let probers =
            Probers { postgres: of_postgres, relay: of_relay, signer: of_signer, contract: of_contract };
        let set_aside = SetAside::new(Arc::clone(&clock), Some(incidents.clone()));
        (Self { gate, postgres, relay, signer, contract, set_aside, clock }, probers)
    }

    /// Breakers that never open, for where nobody probes.
    #[must_use]
    pub fn idle(clock: Arc<dyn Clock>, chance: &Arc<Chance>) -> Self {
        let breaker = |dependency| Breaker::idle(dependency, Arc::clone(&clock), Arc::clone(chance));
        Self {
            gate: Gate::new(),
            postgres: breaker(Dependency::Postgres),
            relay: breaker(Dependency::Relay),
            signer: breaker(Dependency::Signer),
            contract: breaker(Dependency::Contract),
            set_aside: SetAside::new(Arc::clone(&clock), None),
            clock,
        }
    }

    /// The same, sharing the rows set aside with others.
    #[must_use]
    pub fn setting_aside(self, set_aside: SetAside) -> Self {
        Self { set_aside, ..self }
    }

    /// Tells of a fault of the database: one of the connection, or one that may mean that the database is not what it was.
    /// Whether it is that, or one row's own trouble, the contract's probe finds out by looking at the catalogs.
    pub fn database(&self, error: &DbError) {
        match error.kind() {
            DbErrorKind::Unreachable => self.postgres.fault(&error.to_string()),
            // What cannot be explained may stem from it as well: a policy that takes rows from an UPDATE raises no error.
            DbErrorKind::Contract | DbErrorKind::Bug => self.contract.fault(&error.to_string()),
            DbErrorKind::Busy => {}
        }
    }

    /// The same under a claim that has nothing to record; where the database may not be what it was, it is waited for whether
    /// that is so: what is given back then stays here.
    pub async fn database_under(&self, claim: &Claim, error: &DbError) {
        self.database(error);
        if error.kind() == DbErrorKind::Contract {
            self.verdict(claim, &self.contract).await;
        }
    }

    /// Whether the database is known to be of no use now, be it that it does not answer or that it is not what it was.
    #[must_use]
    pub fn is_database_out(&self) -> bool {
        self.postgres.is_open() || self.contract.is_open()
    }

    /// Tells what a send met, and enters into `tally` whom its open deliveries blame. Where that is a dependency, it is
    /// waited for whether it is really out.
    pub async fn sent(&self, claim: &Claim, recipients: &[String], outcomes: &[Outcome], tally: &mut Tally) {
        let those = |places: &[usize]| -> Vec<String> {
            places.iter().filter_map(|place| recipients.get(*place).cloned()).collect()
        };
        match blame::relay_news(outcomes) {
            RelayNews::Passed { accepted } => self.relay.passed(&those(&accepted)),
            RelayNews::Lost(what) => self.relay.fault(&what),
            RelayNews::Denied { recipients, what } => self.relay.denied(claim.id, &those(&recipients), &what),
            RelayNews::Nothing => {}
        }
        self.judge(claim, outcomes.iter(), tally).await;
    }

    /// The same for what was decided without a send.
    pub async fn decided(&self, claim: &Claim, outcomes: &[(String, Outcome)], tally: &mut Tally) {
        let outcomes = || outcomes.iter().map(|(_, outcome)| outcome);
        if let Some(what) = blame::signer_fault(outcomes()) {
            self.signer.fault(&what);
        }
        self.judge(claim, outcomes(), tally).await;
    }

    async fn judge<'a>(
        &self,
        claim: &Claim,
        outcomes: impl Iterator<Item = &'a Outcome> + Clone,
        tally: &mut Tally,
    ) {
        let fact = outcomes.clone().any(|outcome| matches!(outcome, Outcome::Accepted { .. }));
        // Each is waited for once, however many deliveries blame it.
        for blamed in outcomes.filter_map(blame::blame).collect::<BTreeSet<_>>() {
            let breaker = match blamed {
                Blame::Relay => &self.relay,
                Blame::Signer => &self.signer,
                Blame::Postgres => &self.postgres,
                Blame::Itself => {
                    tally.itself();
                    continue;
                }
            };
            // A claim that no heartbeat may touch is held back by its fence, though the database answers.
            let out = blamed == Blame::Postgres && self.contract.is_open()
                || if fact { breaker.is_open() } else { self.verdict(claim, breaker).await };
            if out { tally.outage() } else { tally.itself() }
        }
    }

    /// Whether the dependency is out, as far as can be known in time. A stop ends the wait in favour of the submission:
    /// at a shutdown of the host the relay goes first.
    async fn verdict(&self, claim: &Claim, breaker: &Breaker) -> bool {
        let left = claim.deadline().saturating_duration_since(self.clock.monotonic());
        tokio::select! {
            biased;
            open = breaker.verdict() => open,
            () = claim.given_up() => true,
            () = self.clock.sleep(VERDICT.min(left.saturating_sub(KEPT))) => false,
        }
    }
}
