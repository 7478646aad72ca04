//! Deadlines: twice in 30 s it is looked for attempts that are too late, so that each is failed at most 30 s after its deadline. Where a topic
//! carries the callbacks, none is failed until what the grader has sent must have come.

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
    let mut rests = false;
    while !stop.is_cancelled() {
        pass(tools, &mut rests, stop).await;
        stop.run_until_cancelled(tools.clock.sleep(LOOK)).await;
    }
}

/// One look, page by page: one that cannot be failed stops none of the others.
async fn pass(tools: &MainTools, rests: &mut bool, stop: &CancellationToken) {
    let mut behind = (Timestamp::UNIX_EPOCH, Uuid::nil());
    loop {
        let due = match tools.store.due(behind, PAGE).await {
            Ok(due) => due,
            Err(error) => {
                tracing::debug!("deadlines are looked for again: {}", scrub(&error.to_string()));
                return;
            }
        };
        if let (Some(link), false) = (&tools.link, due.is_empty()) {
            if !link.has_everything().await {
                if !std::mem::replace(rests, true) {
                    journal::timeouts_rest(due.len());
                }
                return;
            }
            *rests = false;
        }
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
