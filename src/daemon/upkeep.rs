//! Timed tasks beside the routing: the heartbeat of live claims, the sweep, and the upkeep of the outbox.
//!
//! If we die, claims are no longer touched and another daemon's sweep takes them back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::reload;
use crate::config::{Config, SweepBy};
use crate::gateway::pubsub::PubsubSettings;
use crate::kernel::tasks::Task;
use crate::ops::gate::Gate;
use crate::ops::incident::Incidents;
use crate::ops::set_aside::Writing;
use crate::outbox::store::OutboxStore;
use crate::outbox::upkeep::Upkeep;
use crate::ports::Clock;
use crate::routing::claims::LiveClaims;
use crate::routing::outages::named;
use crate::routing::upkeep::sweep::{Outlet, Republisher, Sweeper};
use crate::routing::worker::Worker;
use crate::scrub::scrub;

/// Touches live claims; one that is not confirmed may send no more (protocol, "Sweep").
pub(super) fn heartbeat(worker: &Arc<Worker>, live: &LiveClaims, every: Duration) -> Task {
    let (worker, live) = (Arc::clone(worker), live.clone());
    Task::again("claims' heartbeat", move |_| beat(Arc::clone(&worker), live.clone(), every))
}

async fn beat(worker: Arc<Worker>, live: LiveClaims, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let claims = live.all();
        if claims.is_empty() {
            continue;
        }
        let before = worker.clock.monotonic();
        match worker.store.heartbeat(&claims).await {
            Ok(heartbeat) => {
                live.heartbeat(&claims, &heartbeat, before);
                worker.outages.set_aside.note(
                    Writing::Touch,
                    heartbeat.confirmed,
                    &named(&heartbeat.refused),
                );
            }
            Err(error) => {
                worker.outages.database(&error);
                tracing::warn!(
                    claims = claims.len(),
                    "claims could not be touched, the fence holds them back in time: {}",
                    scrub(&error.to_string())
                );
            }
        }
    }
}

/// Inputs of the sweep beside the configuration.
pub(super) struct Sweeping {
    /// Topic for the events of recovered submissions; absent where there is no Pub/Sub.
    pub(super) pubsub: Option<PubsubSettings>,
    pub(super) worker: Arc<Worker>,
    /// Channel for recovered submissions.
    pub(super) find: mpsc::Sender<Uuid>,
    pub(super) incidents: Incidents,
}

impl Sweeping {
    /// Recovers what crashes and lost events leave behind, until `stop` (protocol, "Sweep"); restarts at each reload.
    pub(super) fn start(self, mut reloads: watch::Receiver<Arc<Config>>, stop: CancellationToken) -> Task {
        Task::spawn("sweep", |_| async move {
            let worker = &self.worker;
            while !stop.is_cancelled() {
                let config = Arc::clone(&reloads.borrow_and_update());
                let events = match &self.pubsub {
                    Some(pubsub) if config.routing.republish => republisher(pubsub).await,
                    Some(_) | None => None,
                };
                let outlet = Outlet { queue: Some(self.find.clone()), events };
                let bounds = (&*config).into();
                let (store, rng) = (worker.store.clone(), Arc::clone(&worker.rng));
                let sweeper = Sweeper::new(store, bounds, outlet, rng, worker.outages.set_aside.clone())
                    .telling(self.incidents.clone())
                    .blaming(worker.outages.clone())
                    .only_counting(config.routing.sweep == SweepBy::Timer);
                let (gate, every) = (&worker.outages.gate, config.routing.sweep_interval);
                tokio::select! {
                    () = sweeper.run(&*worker.clock, every, || gate.is_open(), &stop) => {}
                    () = reload::changed(&mut reloads) => {}
                }
            }
        })
    }
}

async fn republisher(pubsub: &PubsubSettings) -> Option<Republisher> {
    match Republisher::open(pubsub).await {
        Ok(republisher) => Some(republisher),
        Err(error) => {
            tracing::warn!(
                "events of found submissions are not published again: {}; they are claimed on this host",
                scrub(&error.to_string())
            );
            None
        }
    }
}

/// Inputs of the outbox's upkeep beside the configuration.
pub(super) struct Keeping {
    pub(super) store: OutboxStore,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) incidents: Incidents,
    /// Health of the relay, where one publishes.
    pub(super) relay: Option<Receiver>,
    /// Gate that defers deliveries on purpose, where they go to the routing of this process.
    pub(super) gate: Option<Gate>,
}

type Receiver = watch::Receiver<Option<String>>;

impl Keeping {
    /// Looks after the outbox, wherever there is one, until it is aborted; restarts with every reload.
    pub(super) async fn run(self, mut reloads: watch::Receiver<Arc<Config>>) {
        let never = CancellationToken::new();
        loop {
            let config = Arc::clone(&reloads.borrow_and_update());
            let gate = self.gate.clone();
            let upkeep = Upkeep {
                store: self.store.clone(),
                every: config.routing.sweep_interval,
                keep: config.outbox.keep,
                clock: Arc::clone(&self.clock),
                incidents: self.incidents.clone(),
                relay: self.relay.clone(),
                on_purpose: Box::new(move || gate.as_ref().is_some_and(|gate| !gate.is_open())),
            };
            tokio::select! {
                () = upkeep.run(&never) => {}
                () = reload::changed(&mut reloads) => {}
            }
        }
    }
}
