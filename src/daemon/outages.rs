//! The breakers of this daemon: each with its probe, and the gate's state for `/-/ready`.
//!
//! If we die, the next start begins with closed breakers and an open gate. Never decides what an outage is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;

use crate::db::contract::{self, Broken, ContractOptions, StartDecision};
use crate::db::pool::Pool;
use crate::gateway::happyfox::HelpDeskClient;
use crate::gateway::signed_url::{UrlSigner, try_to_sign};
use crate::gateway::smtp::{SmtpSettings, offer};
use crate::kernel::tasks::Tasks;
use crate::ops::breaker::{Breaker, Finding, Probe};
use crate::ops::dependency::Dependency;
use crate::ops::gate::{GateWatch, Shut};
use crate::ops::http::Readiness;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::routing::outages::{Outages, Probers};

/// Interval at which the database is compared with its contract without a reason (protocol, "Outages").
const EVERY: Duration = Duration::from_secs(60);
/// Delay between a reason to ask and the question: one cause makes many calls fail at once.
const A_MOMENT: Duration = Duration::from_millis(500);

/// Inputs of the probes.
pub(super) struct Dependencies {
    pub(super) pool: Pool,
    pub(super) smtp: SmtpSettings,
    /// Envelope sender of our mails.
    pub(super) sender: String,
    pub(super) signer: Arc<UrlSigner>,
    pub(super) help_desk: Option<Arc<HelpDeskClient>>,
    /// Requirements on the database.
    pub(super) contract: ContractOptions,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) rng: Arc<Rng>,
}

/// Starts the gate's keepers: a prober for each breaker, and the reporter of its state. All end with the set.
pub(super) fn keep(
    probers: Probers,
    dependencies: Dependencies,
    outages: &Outages,
    readiness: &Arc<Readiness>,
) -> Tasks {
    let Dependencies { pool, smtp, sender, signer, help_desk, contract, clock, rng } = dependencies;
    let looking = Looking { pool: pool.clone(), options: Arc::new(contract), clock, rng };
    let postgres: Probe = Box::new(move || {
        let pool = pool.clone();
        Box::pin(async move { pool.ask().await.map_err(|error| error.to_string()) })
    });
    let relay: Probe = Box::new(move || {
        let (smtp, sender) = (smtp.clone(), sender.clone());
        Box::pin(async move { offer(&smtp, &sender).await.map_err(|fault| fault.reply.reply) })
    });
    let signing: Probe = Box::new(move || {
        let signer = Arc::clone(&signer);
        Box::pin(async move {
            match try_to_sign(&signer).await {
                Err(error) if error.is_transient() => Err(error.to_string()),
                // The signer answers; the error is for the submissions it concerns.
                Ok(()) | Err(_) => Ok(()),
            }
        })
    });
    let holding = {
        let (looking, breaker) = (looking.clone(), outages.contract.clone());
        let probe: Probe = Box::new(move || {
            let (looking, breaker) = (looking.clone(), breaker.clone());
            Box::pin(async move { looking.probe(&breaker).await })
        });
        probe
    };
    let mut tasks = Tasks::new();
    tasks.spawn("probe of postgres", |_| probers.postgres.run(postgres));
    tasks.spawn("probe of the relay", |_| probers.relay.run(relay));
    tasks.spawn("probe of the signer", |_| probers.signer.run(signing));
    if let Some(client) = help_desk {
        let asking: Probe = Box::new(move || {
            let client = Arc::clone(&client);
            Box::pin(async move {
                client.probe().await.map(|_| ()).map_err(|unanswered| unanswered.fault.reply.reply)
            })
        });
        tasks.spawn("probe of the help desk", |_| probers.help_desk.run(asking));
    }
    tasks.spawn("probe of the contract", |_| probers.contract.run(holding));
    tasks.spawn("contract", |_| looking.again_and_again(outages.clone()));
    tasks.spawn("readiness", |_| tell(outages.gate.watch(), Arc::clone(readiness)));
    tasks
}

/// Compares the database with its contract.
#[derive(Clone)]
struct Looking {
    pool: Pool,
    options: Arc<ContractOptions>,
    clock: Arc<dyn Clock>,
    rng: Arc<Rng>,
}

impl Looking {
    /// Says whether the contract holds, as far as known. A database that cannot be asked has a breaker of its own:
    /// it refutes nothing, and ends nothing either.
    async fn probe(&self, breaker: &Breaker) -> Result<(), String> {
        self.clock.sleep(A_MOMENT).await;
        let lines = contract::inspect_essentials(&self.pool, &self.options).await;
        if let Some(Broken { what, remedy }) = contract::broken(&lines) {
            breaker.found(&Finding { what: what.clone(), remedy });
            return Err(what);
        }
        if breaker.is_open() && contract::verdict(&lines) != StartDecision::Start {
            return Err("the database could not be asked".to_owned());
        }
        Ok(())
    }

    /// Looks every minute, and when the database answers again after a fault: it may have been restored, or be another one.
    async fn again_and_again(self, outages: Outages) {
        loop {
            let pause = self.rng.with(|rng| EVERY.mul_f64(rng.random_range(0.9..=1.1)));
            tokio::select! {
                () = self.clock.sleep(pause) => {}
                () = outages.postgres.over_again() => {}
            }
            if outages.contract.is_open() {
                continue;
            }
            let lines = contract::inspect_essentials(&self.pool, &self.options).await;
            if let Some(broken) = contract::broken(&lines) {
                outages.contract.fault(&broken.what);
            }
        }
    }
}

/// Tells `/-/ready` why nothing is taken. Deliberate: the daemon is well, and waits.
async fn tell(mut watch: GateWatch, readiness: Arc<Readiness>) {
    let mut reported: BTreeSet<Shut> = BTreeSet::new();
    loop {
        let reasons: BTreeSet<Shut> = watch.changed().await.into_iter().collect();
        for gone in reported.difference(&reasons) {
            readiness.clear(gone.label());
        }
        for reason in &reasons {
            readiness.hold(reason.label(), why(*reason));
        }
        reported = reasons;
    }
}

fn why(reason: Shut) -> String {
    match reason {
        Shut::Breaker(Dependency::CONTRACT) => {
            "deliberately waiting until the database is again what the data contract says, see `maple-router check`: nothing is \
             claimed, no attempt is spent"
                .to_owned()
        }
        Shut::Breaker(dependency) => {
            format!(
                "deliberately waiting until {} works again: nothing is claimed, no attempt is spent",
                dependency.label()
            )
        }
        Shut::Paused => {
            "deliberately paused by an operator: see `maple-router status`; `maple-router resume` ends it"
                .to_owned()
        }
    }
}
