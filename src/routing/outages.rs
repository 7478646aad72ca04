//! Reports of the routing to the breakers, and their verdicts (protocol, "Outages").
//!
//! If we die, nothing is lost: decisions that were not recorded are made anew. No wait here is longer than the claim allows,
//! and none comes while there is a fact to record.

pub mod blame;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use self::blame::{Blame, RelayNews, Tally};
use super::claims::Claim;
use crate::db::batch::Refused;
use crate::db::{DbError, DbErrorKind};
use crate::ops::breaker::machine::Cause;
use crate::ops::breaker::{Beside, Breaker, Prober, Tell};
use crate::ops::dependency::Dependency;
use crate::ops::gate::Gate;
use crate::ops::incident::Incidents;
use crate::ops::rng::Rng;
use crate::ops::set_aside::{Refusal, SetAside};
use crate::ports::{Clock, Creation, Fault, Outcome, Stage};

/// Longest wait of a worker for the verdict whether a fault is an outage. Two probes that hang take less.
const VERDICT: Duration = Duration::from_secs(20);
/// Remainder of a claim that such a wait leaves.
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
    /// The contract with the database: open while the database answers and does not match it.
    pub contract: Breaker,
    /// The help desk. It has a gate of its own: mails do not wait for it.
    pub help_desk: Breaker,
    /// Shut while the help desk is out.
    pub help_desk_gate: Gate,
    /// Rows that refuse a write.
    pub set_aside: SetAside,
    clock: Arc<dyn Clock>,
}

/// The tasks that probe; each must run.
#[derive(Debug)]
pub struct Probers {
    /// Prober of the database.
    pub postgres: Prober,
    /// Prober of the relay.
    pub relay: Prober,
    /// Prober of the signer.
    pub signer: Prober,
    /// Prober of the contract with the database.
    pub contract: Prober,
    /// Prober of the help desk.
    pub help_desk: Prober,
}

impl Outages {
    /// Closed breakers before `gate`, and the tasks that probe for them.
    #[must_use]
    pub fn new(gate: Gate, incidents: &Incidents, clock: Arc<dyn Clock>, rng: &Arc<Rng>) -> (Self, Probers) {
        let breaker = |dependency, tell: Tell| {
            let (gate, incidents) = (gate.clone(), incidents.clone());
            let beside = Beside { gate, incidents, clock: Arc::clone(&clock), rng: Arc::clone(rng) };
            Breaker::new(dependency, tell, beside)
        };
        let (postgres, of_postgres) = breaker(Dependency::POSTGRES, |_, said| {
            let what = format!("PostgreSQL cannot be reached ({said})");
            (what, &["maple-router check"], "look at the database server, and at the network to it")
        });
        let (relay, of_relay) = breaker(Dependency::RELAY, |cause, said| match cause {
            Cause::Unreachable => {
                let what = format!("the mail relay does not take mail ({said})");
                (what, &["systemctl status postfix", "maple-router check"], "")
            }
            Cause::Denied => {
                let what = format!("the mail relay denies our mails one after the other ({said})");
                let ask: &[&str] = &["postconf mynetworks smtpd_relay_restrictions"];
                (what, ask, "is this host in mynetworks of its Postfix?")
            }
        });
        let (signer, of_signer) = breaker(Dependency::SIGNER, |_, said| {
            let what = format!("links to attachments cannot be signed ({said})");
            (what, &["maple-router check"], "the lines signing and link tell more")
        });
        let (contract, of_contract) = breaker(Dependency::CONTRACT, |_, said| {
            let what = format!("the database answers, and is not what the data contract says ({said})");
            (what, &["maple-router check"], "nothing is sent meanwhile; as the owner of the tables")
        });
        let help_desk_gate = Gate::new();
        let beside = Beside {
            gate: help_desk_gate.clone(),
            incidents: incidents.clone(),
            clock: Arc::clone(&clock),
            rng: Arc::clone(rng),
        };
        let tell: Tell = |_, said| {
            let what = format!("the help desk takes no tickets ({said})");
            (
                what,
                &["maple-router check"],
                "mails go on; a 401 or 403 is about happyfox-api-key and happyfox-auth-code",
            )
        };
        let (help_desk, of_help_desk) = Breaker::new(Dependency::HELP_DESK, tell, beside);
        let probers = Probers {
            postgres: of_postgres,
            relay: of_relay,
            signer: of_signer,
            contract: of_contract,
            help_desk: of_help_desk,
        };
        let set_aside = SetAside::new(Arc::clone(&clock), Some(incidents.clone()));
        let all =
            Self { gate, postgres, relay, signer, contract, help_desk, help_desk_gate, set_aside, clock };
        (all, probers)
    }

    /// Breakers that never open, for processes without probes.
    #[must_use]
    pub fn idle(clock: Arc<dyn Clock>, rng: &Arc<Rng>) -> Self {
        let breaker = |dependency| Breaker::idle(dependency, Arc::clone(&clock), Arc::clone(rng));
        Self {
            gate: Gate::new(),
            postgres: breaker(Dependency::POSTGRES),
            relay: breaker(Dependency::RELAY),
            signer: breaker(Dependency::SIGNER),
            contract: breaker(Dependency::CONTRACT),
            help_desk: breaker(Dependency::HELP_DESK),
            help_desk_gate: Gate::new(),
            set_aside: SetAside::new(Arc::clone(&clock), None),
            clock,
        }
    }

    /// These breakers, with the rows set aside shared with other holders of `set_aside`.
    #[must_use]
    pub fn setting_aside(self, set_aside: SetAside) -> Self {
        Self { set_aside, ..self }
    }

    /// Reports a fault of the database: one of the connection, or one that may mean that the database does not match its
    /// contract. The contract's probe decides between a mismatch and one row's own trouble by looking at the catalogs.
    pub fn database(&self, error: &DbError) {
        match error.kind() {
            DbErrorKind::Unreachable => self.postgres.fault(&error.to_string()),
            // An unexplained error may stem from it, too: a policy that takes rows from an UPDATE raises no error.
            DbErrorKind::Contract | DbErrorKind::Bug => self.contract.fault(&error.to_string()),
            DbErrorKind::Busy => {}
        }
    }

    /// Reports a fault of the database under a claim that has nothing to record; where it may mean a mismatch, the
    /// contract's verdict is awaited: with the gate shut, a submission given back stays here.
    pub async fn database_under(&self, claim: &Claim, error: &DbError) {
        self.database(error);
        if error.kind() == DbErrorKind::Contract {
            self.verdict(claim, &self.contract).await;
        }
    }

    /// Whether the database is known to be of no use now: unreachable, or in mismatch with its contract.
    #[must_use]
    pub fn is_database_out(&self) -> bool {
        self.postgres.is_open() || self.contract.is_open()
    }

    /// Reports the result of a send, and enters the causes of its open deliveries into `tally`. Where the cause is a
    /// dependency, its breaker's verdict is awaited.
    pub async fn sent(&self, claim: &Claim, recipients: &[String], outcomes: &[Outcome], tally: &mut Tally) {
        let those = |indexes: &[usize]| -> Vec<String> {
            indexes.iter().filter_map(|index| recipients.get(*index).cloned()).collect()
        };
        match blame::relay_news(outcomes) {
            RelayNews::Passed { accepted } => self.relay.passed(&those(&accepted)),
            RelayNews::Lost(what) => self.relay.fault(&what),
            RelayNews::Denied { recipients, what } => self.relay.denied(claim.id, &those(&recipients), &what),
            RelayNews::Nothing => {}
        }
        self.judge(claim, outcomes.iter(), tally).await;
    }

    /// Reports what came of a ticket, and enters the cause of one that stays open into `tally`. What is about us is the help
    /// desk's outage where its breaker finds that too; a throttle is one in any case.
    pub async fn ticket(&self, claim: &Claim, creation: &Creation, tally: &mut Tally) {
        match creation {
            Creation::Created(_) | Creation::Refused(_) | Creation::TooLarge(_) => self.help_desk.passed(&[]),
            Creation::AboutUs(fault) if fault.stage == Stage::Fence => {
                self.judge(claim, [&Outcome::Deferred(fault.clone())].into_iter(), tally).await;
            }
            Creation::AboutUs(fault) => {
                self.help_desk.fault(&blame::text(fault));
                if self.verdict(claim, &self.help_desk).await { tally.outage() } else { tally.itself() }
            }
            Creation::Throttled { fault, .. } => {
                self.help_desk.fault(&blame::text(fault));
                tally.outage();
            }
            Creation::Unknown(fault) => {
                if fault.about_us {
                    self.help_desk.fault(&blame::text(fault));
                }
                tally.itself();
            }
        }
    }

    /// Reports that the help desk did not say what became of a ticket in doubt: an outage in any case, since nothing was sent
    /// and nothing may be before it answers.
    pub fn unanswered(&self, fault: &Fault, tally: &mut Tally) {
        self.help_desk.fault(&blame::text(fault));
        tally.outage();
    }

    /// Reports outcomes decided without a send, as [`Self::sent`] does.
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
        // The verdict on each dependency is awaited once, however many deliveries blame it.
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
            // The fence stops the sends of a claim that no heartbeat may touch, though the database answers.
            let out = blamed == Blame::Postgres && self.contract.is_open()
                || if fact { breaker.is_open() } else { self.verdict(claim, breaker).await };
            if out { tally.outage() } else { tally.itself() }
        }
    }

    /// Whether the dependency is out, as far as can be known in time. A stop ends the wait in favour of the submission: at a
    /// shutdown of the host the relay goes first.
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

/// Rows that refused a write, in the form that [`SetAside`] takes.
#[must_use]
pub fn named(refused: &[Refused<Uuid>]) -> Vec<Refusal> {
    refused.iter().map(|Refused { id, error }| (*id, error.named())).collect()
}
