//! Requests: each becomes a job, a cancellation or a purge, or is refused.

use serde_json::Value;
use uuid::Uuid;

use super::GraderTools;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::grading::consume::Intake;
use crate::grading::core::message::{Ask, BadMessage, Callback, ErrorType, Failure, Ids, Request, Said};
use crate::grading::job::store::Accepted;
use crate::grading::journal;
use crate::grading::queue::{Buried, Queue};

impl Intake for GraderTools {
    fn queue(&self) -> &Queue {
        &self.requests
    }

    async fn take_in(&self, id: Uuid) -> Result<bool, DbError> {
        let taken = self.take(id).await?;
        if let Some(Some((why, detail))) = &taken {
            journal::buried(self.requests.name(), id, *why, detail);
        }
        Ok(taken.is_some())
    }
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
                        // The main side hears that nothing comes.
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
                match self.store.accept(tx, ids, grade.skill, &document, grade.deadline_at).await? {
                    Accepted::New(_) | Accepted::Forgotten => Ok(()),
                    // A callback may not have been heard by a side that asks again: the last one is sent again, under its own id.
                    Accepted::Known(job) => self.store.send_again(tx, job, self.rng.uuid()).await.map(drop),
                }
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
        let none = || DbError::Shape("a callback is no document".to_owned());
        let bytes = callback.to_bytes().map_err(|_| none())?;
        let document: Value = serde_json::from_slice(&bytes).map_err(|_| none())?;
        self.store.send(tx, callback.event_id(), &document).await
    }
}
