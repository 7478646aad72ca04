//! Times at which the spool is emptied: first at the start, and from time to time for facts that another process of
//! this host left behind when it died.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::card;
use crate::kernel::tasks::Task;
use crate::ops::incident::{Incident, Incidents};
use crate::routing::spool::{Spool, SpoolError, SpoolPass, Try};
use crate::routing::store::Store;
use crate::scrub::scrub;

/// Pause before the spool is tried again at the start.
const AGAIN: Duration = Duration::from_secs(2);

/// Records everything in the spool. Acceptances must be known before anything is sent, so a database that is down
/// again is waited for; a directory that cannot be used is logged once, and the daemon goes on without it.
pub(super) async fn empty(spool: &Spool, store: &Store, incidents: &Incidents, stop: &CancellationToken) {
    let prepared = spool.prepare().await;
    if let Err(error) = &prepared {
        tracing::error!(
            "{error}; what the relay accepts during an outage of the database is kept in memory only"
        );
        incidents.raise(unusable(error));
    }
    loop {
        match spool.replay(store, Try::Everything).await {
            Ok(pass) => {
                left_behind(&pass).into_iter().for_each(|incident| incidents.raise(incident));
                return;
            }
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
    Incident::new(card::SPOOL, what, &["maple-router check"]).advising("see to [state] dir on this host")
}

/// The incident of facts that cannot be recorded although the database answers.
fn left_behind(pass: &SpoolPass) -> Option<Incident> {
    let (id, why) = pass.example.as_ref()?;
    let what = format!(
        "what the relay has accepted cannot be recorded: {} spool files are refused, {} are set aside as .bad; one of them{}: \
         {why}. This host sends nothing of their submissions meanwhile",
        pass.refused,
        pass.bad,
        id.map(|id| format!(" (submission {id})")).unwrap_or_default()
    );
    let explain = id.map(|id| format!("maple-router explain {id}"));
    let commands = ["maple-router check"].into_iter().chain(explain.as_deref());
    let advice = "mend what refuses them: they are tried every minute, .bad files at each start. Remove a .bad file only when \
                  its mail may be sent again";
    Some(Incident::new(card::SPOOL, what, &commands.collect::<Vec<_>>()).advising(advice))
}

/// Looks into the spool every so often.
pub(super) fn keep_empty(spool: Spool, store: Store, incidents: Incidents, every: Duration) -> Task {
    Task::spawn("spool", |_| async move {
        let mut said = String::new();
        loop {
            tokio::time::sleep(every).await;
            let replayed = spool.replay(&store, Try::Waiting).await;
            let now = match &replayed {
                Ok(_) => String::new(),
                Err(error) => scrub(&error.to_string()),
            };
            match &replayed {
                Ok(pass) => match left_behind(pass) {
                    Some(incident) => incidents.raise(incident),
                    None => incidents.resolve(card::SPOOL),
                },
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
