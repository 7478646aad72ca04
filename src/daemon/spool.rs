//! When the spool is emptied: before anything else is done at the start, and from time to time for what another process
//! of this host left behind when it died.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ops::incident::{Incident, IncidentKey, Incidents};
use crate::routing::spool::{Spool, SpoolError};
use crate::routing::store::Store;
use crate::scrub::scrub;

/// Waits before the spool is tried again at the start.
const AGAIN: Duration = Duration::from_secs(2);

/// Records everything that lies in the spool. What was accepted must be known before anything is sent, so a database
/// that is down again is waited for; a directory that cannot be used is said once, and the daemon goes on without it.
pub(super) async fn empty(spool: &Spool, store: &Store, incidents: &Incidents, stop: &CancellationToken) {
    let prepared = spool.prepare().await;
    if let Err(error) = &prepared {
        tracing::error!(
            "{error}; what the relay accepts during an outage of the database is kept in memory only"
        );
        incidents.raise(unusable(error));
    }
    loop {
        match spool.replay(store).await {
            Ok(_) => return,
            Err(error @ SpoolError::Directory { .. }) => {
                if prepared.is_ok() {
                    tracing::error!("{error}");
                }
                return;
            }
            Err(SpoolError::Database(error)) => {
                tracing::warn!("the spool waits for the database: {}", scrub(&error.to_string()));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// The incident of a state directory that keeps nothing. Database faults have an incident of their own.
fn unusable(error: &SpoolError) -> Incident {
    let what = format!(
        "{}; what the relay accepts during an outage of the database is kept in memory only",
        scrub(&error.to_string())
    );
    Incident::new(IncidentKey::Spool, what, &["maple-router check"])
        .advising("see to [state] dir on this host")
}

/// Looks into the spool every so often.
pub(super) fn keep_empty(
    spool: Spool,
    store: Store,
    incidents: Incidents,
    every: Duration,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut said = String::new();
        loop {
            tokio::time::sleep(every).await;
            let replayed = spool.replay(&store).await;
            let now = match &replayed {
                Ok(_) => String::new(),
                Err(error) => scrub(&error.to_string()),
            };
            match &replayed {
                Ok(_) => incidents.resolve(IncidentKey::Spool),
                Err(error @ SpoolError::Directory { .. }) => incidents.raise(unusable(error)),
                Err(SpoolError::Database(_)) => {}
            }
            if now != said && !now.is_empty() {
                tracing::warn!("the spool was not emptied, it is tried again: {now}");
            }
            said = now;
        }
    })
}
