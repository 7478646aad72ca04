//! Deadlines: twice in 30 s it is looked for attempts that are too late, so that each is failed at most 30 s after its deadline.

use tokio_util::sync::CancellationToken;

use super::{LOOK, MainTools};
use crate::grading::journal;
use crate::scrub::scrub;

/// Attempts of one look.
const PAGE: i64 = 500;

/// Looks until `stop`.
pub(super) async fn run(tools: &MainTools, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let full = pass(tools, stop).await;
        if !full {
            stop.run_until_cancelled(tools.clock.sleep(LOOK)).await;
        }
    }
}

/// One look. Returns whether there may be more.
async fn pass(tools: &MainTools, stop: &CancellationToken) -> bool {
    let due = match tools.store.due(PAGE).await {
        Ok(due) => due,
        Err(error) => {
            tracing::debug!("deadlines are looked for again: {}", scrub(&error.to_string()));
            return false;
        }
    };
    let mut failed = 0;
    for id in &due {
        if stop.is_cancelled() {
            return false;
        }
        match tools.store.time_out(*id, tools.rng.uuid()).await {
            Ok(Some(row)) => {
                failed += 1;
                journal::timed_out(&row);
            }
            Ok(None) => {}
            // One that cannot be failed stops none of the others.
            Err(error) => {
                let said = scrub(&error.to_string());
                tracing::warn!(request = %id, "attempt {id}: its deadline has passed, and it cannot be failed, it is tried again: {said}");
            }
        }
    }
    // Where none could be failed, the same ones would be found again at once.
    failed > 0 && i64::try_from(due.len()).is_ok_and(|found| found == PAGE)
}
