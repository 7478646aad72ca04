//! The breakers of this daemon: each with its probe, and the gate's word to whoever asks.
//!
//! If we die, the next start begins with closed breakers and an open gate. Never decides what an outage is.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::db::pool::Pool;
use crate::gateway::signed_url::{UrlSigner, try_to_sign};
use crate::gateway::smtp::{SmtpSettings, offer};
use crate::ops::breaker::Probe;
use crate::ops::gate::{Gate, GateWatch, Shut};
use crate::ops::http::Readiness;
use crate::routing::outages::Probers;

/// What is probed.
pub(super) struct Dependencies {
    pub(super) pool: Pool,
    pub(super) smtp: SmtpSettings,
    /// Envelope sender of our mails.
    pub(super) sender: String,
    pub(super) signer: Arc<UrlSigner>,
}

/// Starts what keeps the gate: a prober for each breaker, and the one who tells of it. They end with the set.
pub(super) fn keep(
    probers: Probers,
    dependencies: Dependencies,
    gate: &Gate,
    readiness: &Arc<Readiness>,
) -> JoinSet<()> {
    let Dependencies { pool, smtp, sender, signer } = dependencies;
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
                // It answers; what it says is for the submissions it concerns.
                Ok(()) | Err(_) => Ok(()),
            }
        })
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(probers.postgres.run(postgres));
    tasks.spawn(probers.relay.run(relay));
    tasks.spawn(probers.signer.run(signing));
    tasks.spawn(tell(gate.watch(), Arc::clone(readiness)));
    tasks
}

/// Tells `/-/ready` why nothing is taken. Deliberate: the daemon is well, and waits.
async fn tell(mut watch: GateWatch, readiness: Arc<Readiness>) {
    let mut told: BTreeSet<Shut> = BTreeSet::new();
    loop {
        let reasons: BTreeSet<Shut> = watch.changed().await.into_iter().collect();
        for gone in told.difference(&reasons) {
            readiness.clear(gone.label());
        }
        for reason in &reasons {
            readiness.hold(reason.label(), why(*reason));
        }
        told = reasons;
    }
}

fn why(reason: Shut) -> String {
    match reason {
        Shut::Breaker(dependency) => {
            format!(
                "deliberately waiting until {} works again: nothing is claimed, no attempt is spent",
                dependency.as_str()
            )
        }
        Shut::Paused => {
            "deliberately paused by an operator: see `maple-router status`; `maple-router resume` ends it"
                .to_owned()
        }
    }
}
