//! Deadlines: twice in 30 s it is looked for attempts that are too late, so that each is failed at most 30 s after its deadline.

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{LOOK, MainTools};
use crate::grading::journal;
use crate::scrub::scrub;

/// Attempts of one page.
const PAGE: i64 = 500;

/// Looks until `stop`.
pub(super) async fn run(tools: &MainTools, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        pass(tools, stop).await;
        stop.run_until_cancelled(tools.clock.sleep(LOOK)).await;
    }
}

/// One look, page by page: one that cannot be failed stops none of the others.
async fn pass(tools: &MainTools, stop: &CancellationToken) {
    let mut behind = (Timestamp::UNIX_EPOCH, Uuid::nil());
    loop {
        let due = match tools.store.due(behind, PAGE).await {
            Ok(due) => due,
            Err(error) => {
                tracing::debug!("deadlines are looked for again: {}", scrub(&error.to_string()));
                return;
            }
        };
        for (_, id) in &due {
            if stop.is_cancelled() {
                return;
            }
            match tools.store.time_out(*id, tools.rng.uuid()).await {
                Ok(Some(row)) => journal::timed_out(&row),
                Ok(None) => {}
                Err(error) => {
                    let said = scrub(&error.to_string());
                    tracing::warn!(request = %id, "attempt {id}: its deadline has passed, and it cannot be failed, it is tried again: {said}");
                }
            }
        }
        match due.last() {
            Some(last) if i64::try_from(due.len()).is_ok_and(|found| found == PAGE) => behind = *last,
            Some(_) | None => return,
        }
    }
}
