//! Callbacks, one transaction each: one that cannot be taken in stops none of the others.

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{MainTools, REST};
use crate::grading::journal;
use crate::grading::queue::{Buried, MOST_TRIES, POLL, is_the_messages};
use crate::kernel::jobs::listener::Listener;
use crate::scrub::scrub;

/// Callbacks of one look.
const PAGE: usize = 64;

/// Takes callbacks in until `stop`.
pub(super) async fn run(tools: &MainTools, listener: &Listener, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let taken = match tools.callbacks.page(PAGE).await {
            Ok(ids) => all(tools, &ids, stop).await,
            Err(error) => {
                tracing::debug!("callbacks are looked for again: {}", scrub(&error.to_string()));
                stop.run_until_cancelled(tools.clock.sleep(REST)).await;
                continue;
            }
        };
        if taken == 0 {
            tokio::select! {
                () = stop.cancelled() => {}
                () = listener.notifications() => {}
                () = tools.clock.sleep(POLL) => {}
            }
        }
    }
}

/// Takes in what it can. Returns how many.
async fn all(tools: &MainTools, ids: &[Uuid], stop: &CancellationToken) -> usize {
    let mut taken = 0;
    for id in ids {
        if stop.is_cancelled() {
            break;
        }
        match tools.store.take_callback(&tools.callbacks, *id, &tools.bands).await {
            Ok(Some(what)) => {
                taken += 1;
                journal::taken(*id, &what);
            }
            Ok(None) => {}
            Err(error) => {
                let said = scrub(&error.to_string());
                if !is_the_messages(&error) {
                    tracing::debug!(callback = %id, "a callback is taken in again: {said}");
                    continue;
                }
                taken += usize::from(refused(tools, *id, &said).await);
            }
        }
    }
    taken
}

/// A callback that the database refuses: put back, and buried once too often. Returns whether it was buried.
async fn refused(tools: &MainTools, id: Uuid, said: &str) -> bool {
    let tries = tools.callbacks.put_back(id).await.unwrap_or_default();
    if tries < MOST_TRIES {
        tracing::warn!(callback = %id, tries, "callback {id} cannot be taken in, it is tried again: {said}");
        return false;
    }
    // What the database says may repeat what stands in the message.
    let detail = format!("refused {tries} times");
    match tools.store.bury_callback(&tools.callbacks, id, Buried::Refused, &detail).await {
        Ok(()) => {
            journal::buried(tools.callbacks.name(), id, Buried::Refused, &detail);
            true
        }
        Err(_) => false,
    }
}
