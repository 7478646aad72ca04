//! QUEUED, ERROR and RETRYING: the steps between tries. Each moves the job by what its row says, and tells the main side.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::grading::core::message::{Callback, ErrorType, Failure, Said, Status};
use crate::grading::job::decide::{Failed, Next, after};
use crate::grading::job::row::JobRow;
use crate::grading::job::table::{Command, Job, State};
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::ops::rng::Rng;

/// The end of a job's state, with the callback that tells of it; none where that cannot be written as it is.
pub(super) fn told(
    row: &Row<Job>,
    command: Command,
    to: State,
    said: Said,
    more: Value,
) -> Option<Ending<Job>> {
    let JobRow { request_id, submission_id, try_number, seq, now, .. } = row.columns;
    let callback = Callback {
        request_id,
        submission_id,
        job_id: row.id,
        r#try: try_number,
        seq: seq.saturating_add(1),
        // For people; what comes first is said by try and number.
        event_at: now,
        said,
    };
    let document: Value = serde_json::from_slice(&callback.to_bytes().ok()?).ok()?;
    let mut columns = more;
    if let Some(columns) = columns.as_object_mut() {
        columns.insert("callback".to_owned(), document);
        columns.insert("seq".to_owned(), json!(callback.seq));
    }
    Some(Ending::Done { command, to: Some(to), columns: Some(columns) })
}

/// The same of what has words of ours alone, which can always be written.
fn told_in_codes(row: &Row<Job>, command: Command, to: State, said: Said, more: Value) -> Ending<Job> {
    told(row, command, to, said, more).unwrap_or(Ending::Again)
}

fn failure(failed: &Failed) -> Failure {
    Failure { kind: failed.kind, code: failed.code.clone(), retryable: failed.retryable }
}

/// The end of a try that failed.
pub(super) fn try_failed(row: &Row<Job>, failed: &Failed) -> Ending<Job> {
    crate::grading::journal::try_failed(row, failed);
    let said = Said::Progress { status: Status::Error, error: Some(failure(failed)) };
    let more = json!({
        "error": crate::grading::job::row::written(failed),
        "metadata": {"type": failed.kind.label(), "code": failed.code, "retryable": failed.retryable},
    });
    told_in_codes(row, Command::TryFailed, State::Error, said, more)
}

/// QUEUED: the job begins.
#[derive(Debug, Clone)]
pub(super) struct Begin;

impl Work for Begin {
    type Of = Job;

    fn run<'a>(&'a self, row: &'a Row<Job>) -> BoxFuture<'a, Ending<Job>> {
        let said = Said::Progress { status: Status::Processing, error: None };
        async move { told_in_codes(row, Command::PickedUp, State::Processing, said, json!({})) }.boxed()
    }
}

/// RETRYING: another try begins.
#[derive(Debug, Clone)]
pub(super) struct Again;

impl Work for Again {
    type Of = Job;

    fn run<'a>(&'a self, row: &'a Row<Job>) -> BoxFuture<'a, Ending<Job>> {
        let said = Said::Progress { status: Status::Processing, error: None };
        async move { told_in_codes(row, Command::RetryDue, State::Processing, said, json!({})) }.boxed()
    }
}

/// ERROR: another try, or none.
#[derive(Debug, Clone)]
pub(super) struct AfterError {
    /// Spreads the pauses.
    pub(super) rng: Arc<Rng>,
}

impl Work for AfterError {
    type Of = Job;

    fn run<'a>(&'a self, row: &'a Row<Job>) -> BoxFuture<'a, Ending<Job>> {
        async move {
            // An error that is not there any more is one that no other try mends.
            let unknown =
                Failed { kind: ErrorType::Model, code: "unknown".to_owned(), retryable: false, retry_after: None };
            let failed = row.columns.error.as_ref().unwrap_or(&unknown);
            let is_over = row.columns.is_cancelled || row.columns.deadline < row.columns.now;
            let next = self.rng.with(|rng| after(failed, row.columns.retries, is_over, rng));
            match next {
                Next::Retry(pause) => {
                    let said = Said::Progress { status: Status::Retrying, error: Some(failure(failed)) };
                    let more = json!({"pause": pause.as_secs_f64(), "metadata": {"pause": pause.as_secs_f64()}});
                    told_in_codes(row, Command::Retry, State::Retrying, said, more)
                }
                Next::GiveUp => {
                    let metadata = json!({"type": failed.kind.label(), "code": failed.code, "retries": row.columns.retries});
                    let said = Said::Error(Failure { retryable: false, ..failure(failed) });
                    told_in_codes(row, Command::GaveUp, State::Failed, said, json!({"metadata": metadata}))
                }
            }
        }
        .boxed()
    }
}
