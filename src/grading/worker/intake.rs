//! Requests, one transaction each: one that cannot be taken in stops none of the others.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{GraderTools, REST};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::grading::core::message::{Ask, BadMessage, Callback, ErrorType, Failure, Ids, Request, Said};
use crate::grading::job::store::Accepted;
use crate::grading::journal;
use crate::grading::queue::{Buried, MOST_TRIES, POLL, is_the_messages};
use crate::kernel::jobs::listener::Listener;
use crate::scrub::scrub;

/// Requests of one look.
const PAGE: usize = 64;

/// Takes requests in until `stop`.
pub(super) async fn run(tools: &GraderTools, listener: &Listener, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let taken = match tools.requests.page(PAGE).await {
            Ok(ids) => all(tools, &ids, stop).await,
            Err(error) => {
                tracing::warn!("requests are looked for again: {}", scrub(&error.to_string()));
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

async fn all(tools: &GraderTools, ids: &[Uuid], stop: &CancellationToken) -> usize {
    let mut taken = 0;
    for id in ids {
        if stop.is_cancelled() {
            break;
        }
        match tools.take(*id).await {
            Ok(Some(buried)) => {
                taken += 1;
                if let Some((why, detail)) = buried {
                    journal::buried(tools.requests.name(), *id, why, &detail);
                }
            }
            Ok(None) => {}
            Err(error) => {
                let said = scrub(&error.to_string());
                if !is_the_messages(&error) {
                    tracing::debug!(request = %id, "a request is taken in again: {said}");
                    continue;
                }
                taken += usize::from(refused(tools, *id, &said).await);
            }
        }
    }
    taken
}

async fn refused(tools: &GraderTools, id: Uuid, said: &str) -> bool {
    let tries = tools.requests.put_back(id).await.unwrap_or_default();
    if tries < MOST_TRIES {
        tracing::warn!(message = %id, tries, "request {id} cannot be taken in, it is tried again: {said}");
        return false;
    }
    let detail = format!("refused {tries} times");
    let buried = tools.requests.pool().transaction("grading_take", async |tx| {
        match tools.requests.lock(&tx, id).await? {
            Some(message) => tools.requests.bury(&tx, &message, Buried::Refused, &detail).await,
            None => Ok(()),
        }
    });
    if buried.await.is_err() {
        return false;
    }
    journal::buried(tools.requests.name(), id, Buried::Refused, &detail);
    true
}

/// A message that was buried, and why; none of one that was taken in.
type WasBuried = Option<(Buried, String)>;

impl GraderTools {
    /// Takes a request in; absent where another grader has it, or had it.
    async fn take(&self, id: Uuid) -> Result<Option<WasBuried>, DbError> {
        self.requests
            .pool()
            .transaction("grading_take", async |tx| {
                let Some(message) = self.requests.lock(&tx, id).await? else { return Ok(None) };
                match Request::parse(message.payload.as_bytes()) {
                    Ok(request) => {
                        self.accept(&tx, &request, &message.payload).await?;
                        self.requests.remove(&tx, id).await?;
                        Ok(Some(None))
                    }
                    Err(bad) => {
                        // Whoever waits for it hears that nothing comes.
                        if let Some(ids) = Ids::of(message.payload.as_bytes()) {
                            self.refuse(&tx, ids, id, &bad).await?;
                        }
                        let detail = bad.to_string();
                        self.requests.bury(&tx, &message, Buried::Unreadable, &detail).await?;
                        Ok(Some(Some((Buried::Unreadable, detail))))
                    }
                }
            })
            .await
    }

    async fn accept(&self, tx: &Transaction, request: &Request, payload: &str) -> Result<(), DbError> {
        match &request.ask {
            Ask::Grade(grade) => {
                let document: Value = serde_json::from_str(payload)
                    .map_err(|_| DbError::Shape("a request is no document".to_owned()))?;
                let ids = (request.request_id, request.submission_id, request.attempt);
                let accepted = self.store.accept(tx, ids, grade.skill, &document, grade.deadline_at).await?;
                if let Accepted::Known(job) = accepted {
                    // Whoever asks again may not have heard: the last callback is sent again, under its own id.
                    self.store.send_again(tx, job, self.rng.uuid()).await?;
                }
                Ok(())
            }
            Ask::Cancel => self.store.cancel(tx, request.request_id).await.map(drop),
            Ask::Forget => self.store.forget(tx, request.submission_id).await.map(drop),
        }
    }

    /// Tells the main side that a request is none.
    async fn refuse(
        &self,
        tx: &Transaction,
        ids: Ids,
        message: Uuid,
        bad: &BadMessage,
    ) -> Result<(), DbError> {
        let code = match bad {
            BadMessage::TooLarge => "too_large",
            BadMessage::Shape { .. } => "shape",
            BadMessage::Missing(_) => "missing",
            BadMessage::Unexpected(_) => "unexpected",
            BadMessage::Invalid(_) => "invalid",
        };
        let callback = Callback {
            request_id: ids.request_id,
            submission_id: ids.submission_id,
            // There is no job: the message stands for it.
            job_id: message,
            r#try: 0,
            seq: 1,
            event_at: self.store.now(tx).await?,
            said: Said::Error(Failure {
                kind: ErrorType::InvalidInput,
                code: code.to_owned(),
                retryable: false,
            }),
        };
        let bytes =
            callback.to_bytes().map_err(|_| DbError::Shape("a callback is no document".to_owned()))?;
        let document: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!({}));
        self.store.send(tx, callback.event_id(), &document).await
    }
}
