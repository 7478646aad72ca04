//! The consumer of a queue: messages, one transaction each; one that cannot be taken in stops none of the others.
//!
//! A message that the database refuses is put back for a pause that grows, and buried once too often.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::journal;
use super::queue::{Buried, Queue, is_the_messages};
use crate::db::DbError;
use crate::kernel::jobs::listener::Listener;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Messages of one look.
const PAGE: usize = 64;
/// Interval of looks where none is there and none is notified.
const POLL: Duration = Duration::from_secs(1);
/// Pause after a look that failed.
const REST: Duration = Duration::from_secs(5);
/// Takes after which a message that the database refuses is buried.
const MOST_TRIES: i32 = 5;

/// A side's way to take a message in.
pub(super) trait Intake: Sync {
    /// The queue.
    fn queue(&self) -> &Queue;

    /// Takes a message in, and removes it; false where another consumer has it, or had it.
    ///
    /// # Errors
    /// [`DbError`]: it is there as before.
    fn take_in(&self, id: Uuid) -> impl Future<Output = Result<bool, DbError>> + Send;
}

/// Takes messages in until `stop`; `listener` is notified of them.
pub(super) async fn run<I: Intake>(
    intake: &I,
    clock: &dyn Clock,
    listener: &Listener,
    stop: &CancellationToken,
) {
    while !stop.is_cancelled() {
        let taken = match intake.queue().page(PAGE).await {
            Ok(ids) => all(intake, &ids, stop).await,
            Err(error) => {
                let queue = intake.queue().name();
                tracing::debug!(%queue, "messages are looked for again: {}", scrub(&error.to_string()));
                stop.run_until_cancelled(clock.sleep(REST)).await;
                continue;
            }
        };
        if taken == 0 {
            tokio::select! {
                () = stop.cancelled() => {}
                () = listener.notifications() => {}
                () = clock.sleep(POLL) => {}
            }
        }
    }
}

/// Takes in what it can. Returns how many.
async fn all<I: Intake>(intake: &I, ids: &[Uuid], stop: &CancellationToken) -> usize {
    let mut taken = 0;
    for id in ids {
        if stop.is_cancelled() {
            break;
        }
        match intake.take_in(*id).await {
            Ok(is_taken) => taken += usize::from(is_taken),
            Err(error) => {
                let said = scrub(&error.to_string());
                if is_the_messages(&error) {
                    taken += usize::from(refused(intake.queue(), *id, &said).await);
                } else {
                    tracing::debug!(message = %id, "a message is taken in again: {said}");
                }
            }
        }
    }
    taken
}

/// Puts a message back that the database refuses, or buries it. Returns whether it was buried.
async fn refused(queue: &Queue, id: Uuid, said: &str) -> bool {
    let name = queue.name();
    let tries = queue.put_back(id).await.unwrap_or_default();
    if tries < MOST_TRIES {
        tracing::warn!(message = %id, tries, "{name} {id} cannot be taken in, it is tried again: {said}");
        return false;
    }
    // The database's words may repeat the message's.
    let detail = format!("refused {tries} times");
    let is_buried = queue.bury_refused(id, &detail).await.is_ok();
    if is_buried {
        journal::buried(name, id, Buried::Refused, &detail);
    }
    is_buried
}
