//! Callbacks are taken in: the message is locked, then the attempt; the event is kept by its id, so that it counts once; what follows is written,
//! and the message removed, all in one transaction. If we die before the commit, it is as if nobody had looked.

use serde_json::{Value, json};
use uuid::Uuid;

use super::GradingStore;
use crate::db::pool::Transaction;
use crate::db::{DbError, Parameter};
use crate::grading::core::band::Bands;
use crate::grading::core::message::{BadMessage, Callback, ErrorType, Failure, Ids, Said, Status};
use crate::grading::core::result::GradingResult;
use crate::grading::intake::{Heard, Known, Progress, Taken, take};
use crate::grading::queue::{Buried, Message, Queue};
use crate::grading::table::{Command, Grading, State};
use crate::kernel::Transition;
use crate::kernel::rows::{Fence, Row, Write};

/// The fate of a callback.
#[derive(Debug, Clone)]
pub enum TakenIn {
    /// The attempt went on; the last of the ways is what was told.
    Moved {
        /// The attempt as it was.
        row: Box<Row<Grading>>,
        /// The ways, in order.
        ways: Vec<Transition<Grading>>,
        /// The progress.
        said: Said,
    },
    /// A result came after the end: it is kept as late.
    Late(Box<Row<Grading>>),
    /// Another result of a try that had one; kept, and used by nobody.
    Twin(Box<Row<Grading>>),
    /// It was known already, or older than what is.
    Nothing,
    /// Nobody could make anything of it.
    Buried(Buried, String),
}

const EVENT: &str = "-- grading_callback_event
INSERT INTO assessment.callbacks (event_id, request_id) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING event_id";

const HEARD: &str = "-- grading_heard
UPDATE assessment.submissions a SET try = $2, seq = $3 WHERE a.id = $1";

const PURGED: &str = "-- grading_is_purged
SELECT EXISTS (SELECT FROM submissions s WHERE s.id = $1 AND s.status = 'purged') AS purged";

/// The first result of a try; nothing where it has one.
const FIRST: &str = "-- grading_first_result
INSERT INTO assessment.results (request_id, kind, try, is_late, result, digest, score, band, transcript, actor)
VALUES ($1, 'ai', $2, $3, $4, $5, $6::text::numeric, $7, $8, 'system') ON CONFLICT DO NOTHING RETURNING id";

/// Another one; nothing where it is the same.
const TWIN: &str = "-- grading_twin_result
INSERT INTO assessment.results (request_id, kind, try, is_late, dup, result, digest, score, band, actor)
SELECT $1, 'ai', $2, $3, true, $4, $5, $6::text::numeric, $7, 'system'
WHERE NOT EXISTS (SELECT FROM assessment.results r WHERE r.request_id = $1 AND r.kind = 'ai' AND r.try = $2 AND NOT r.dup AND r.digest = $5)
ON CONFLICT DO NOTHING RETURNING id";

const NOTE: &str = "-- grading_note_event
INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type, metadata)
VALUES ($1, $2, $2, $3, 'worker', 'worker', $4)";

impl GradingStore {
    /// Takes a callback in; absent where another daemon has it, or had it. `bands`: those that a result has to agree with.
    ///
    /// # Errors
    /// [`DbError`]: it is there as before.
    pub async fn take_callback(
        &self,
        queue: &Queue,
        id: Uuid,
        bands: &Bands,
    ) -> Result<Option<TakenIn>, DbError> {
        self.pool()
            .transaction("grading_take", async |tx| {
                let Some(message) = queue.lock(&tx, id).await? else { return Ok(None) };
                let taken = match Callback::parse(message.payload.as_bytes()) {
                    Ok(callback) => self.taken(&tx, &callback, bands).await?,
                    Err(bad) => Err(unreadable(&bad)),
                };
                match taken {
                    Ok(taken) => {
                        queue.remove(&tx, id).await?;
                        Ok(Some(taken))
                    }
                    // A message about a submission that was emptied is kept nowhere.
                    Err(_) if self.is_of_purged(&tx, &message).await? => {
                        queue.remove(&tx, id).await?;
                        Ok(Some(TakenIn::Nothing))
                    }
                    Err((why, detail)) => {
                        queue.bury(&tx, &message, why, &detail).await?;
                        Ok(Some(TakenIn::Buried(why, detail)))
                    }
                }
            })
            .await
    }

    async fn is_of_purged(&self, tx: &Transaction, message: &Message) -> Result<bool, DbError> {
        match Ids::of(message.payload.as_bytes()) {
            Some(ids) => self.is_purged(tx, ids.submission_id).await,
            None => Ok(false),
        }
    }

    async fn is_purged(&self, tx: &Transaction, subject: Uuid) -> Result<bool, DbError> {
        let row = tx.query_one(&tx.prepare_cached(PURGED).await?, &[&subject]).await?;
        row.try_get("purged").map_err(DbError::from)
    }

    async fn taken(
        &self,
        tx: &Transaction,
        callback: &Callback,
        bands: &Bands,
    ) -> Result<Result<TakenIn, (Buried, String)>, DbError> {
        let request = callback.request_id;
        let Some(row) = self.hold(tx, &[request]).await?.pop() else {
            return Ok(Err((Buried::Unknown, format!("no attempt has the id {request}"))));
        };
        if row.columns.subject != callback.submission_id {
            return Ok(Err((Buried::Impossible, format!("attempt {request} is of another submission"))));
        }
        if let Said::Completed { result, .. } = &callback.said
            && let Err(broken) = result.check(row.columns.skill, bands)
        {
            return Ok(Err((Buried::Impossible, format!("the result of attempt {request}: {broken}"))));
        }
        let event = tx.prepare_cached(EVENT).await?;
        if tx.query_opt(&event, &[&callback.event_id(), &request]).await?.is_none() {
            return Ok(Ok(TakenIn::Nothing));
        }
        // Under the lock of the attempt: whoever empties the submission waits for it, or is seen here.
        if row.columns.closed_at.is_some() || self.is_purged(tx, row.columns.subject).await? {
            return Ok(Ok(TakenIn::Nothing));
        }
        let known = Known { state: row.state, heard: row.columns.heard };
        let at = (callback.r#try, callback.seq);
        let taken = match take(known, at, heard(&callback.said)) {
            Ok(taken) => taken,
            Err(refusal) => return Ok(Err((Buried::Impossible, format!("attempt {request}: {refusal}")))),
        };
        Ok(Ok(match taken {
            Taken::Moves(ways) => {
                self.moved(tx, &row, &ways, callback).await?;
                TakenIn::Moved { row: Box::new(row), ways, said: callback.said.clone() }
            }
            Taken::Noted => {
                let (number, seq) = (whole(at.0), whole(at.1));
                tx.execute(&tx.prepare_cached(HEARD).await?, &[&request, &number, &seq]).await?;
                TakenIn::Nothing
            }
            Taken::Old => TakenIn::Nothing,
            Taken::Late | Taken::Second => self.beside(tx, row, callback).await?,
        }))
    }

    async fn moved(
        &self,
        tx: &Transaction,
        row: &Row<Grading>,
        ways: &[Transition<Grading>],
        callback: &Callback,
    ) -> Result<(), DbError> {
        for (step, transition) in ways.iter().enumerate() {
            let is_last = step + 1 == ways.len();
            let columns =
                if is_last { told(*transition, callback) } else { json!({"metadata": {"skipped": true}}) };
            let write = Write { columns: Some(columns), ..Write::plain(row.id, Fence::Locked, *transition) };
            if !self.write(tx, self.actor(), &[write]).await?.contains(&row.id) {
                return Err(DbError::Shape(format!("attempt {} changed under our lock", row.id)));
            }
        }
        Ok(())
    }

    /// Keeps a result that changes nothing: late, or the twin of one that was first.
    async fn beside(
        &self,
        tx: &Transaction,
        row: Row<Grading>,
        callback: &Callback,
    ) -> Result<TakenIn, DbError> {
        let Said::Completed { result, transcript } = &callback.said else { return Ok(TakenIn::Nothing) };
        let is_late = row.state == State::Failed;
        let kept = GradingResult { is_late, ..result.as_ref().clone() };
        let document =
            serde_json::to_value(&kept).map_err(|_| DbError::Shape("a result is no document".to_owned()))?;
        let (number, digest) = (whole(callback.r#try), result.digest());
        let (score, band) = (kept.overall_score.to_string(), kept.band.label());
        let first: [&dyn Parameter; 8] =
            [&row.id, &number, &is_late, &document, &digest, &score, &band, transcript];
        let is_first = tx.query_opt(&tx.prepare_cached(FIRST).await?, &first).await?.is_some();
        let is_twin = !is_first && {
            let twin: [&dyn Parameter; 7] = [&row.id, &number, &is_late, &document, &digest, &score, &band];
            tx.query_opt(&tx.prepare_cached(TWIN).await?, &twin).await?.is_some()
        };
        if !is_first && !is_twin {
            return Ok(TakenIn::Nothing);
        }
        let what = if is_twin {
            "duplicate-result"
        } else if is_late {
            "late-result"
        } else {
            "further-result"
        };
        let metadata = json!({"try": callback.r#try, "score": kept.overall_score, "band": kept.band});
        tx.execute(&tx.prepare_cached(NOTE).await?, &[&row.id, &row.state.label(), &what, &metadata]).await?;
        Ok(match (is_twin, is_late) {
            (true, _) => TakenIn::Twin(Box::new(row)),
            (false, true) => TakenIn::Late(Box::new(row)),
            (false, false) => TakenIn::Nothing,
        })
    }
}

fn unreadable(bad: &BadMessage) -> (Buried, String) {
    (Buried::Unreadable, bad.to_string())
}

/// A callback's word, as far as it moves the attempt.
fn heard(said: &Said) -> Heard {
    match said {
        Said::Progress { status, .. } => Heard::Progress(match status {
            Status::Processing => Progress::Processing,
            Status::Error => Progress::Error,
            Status::Retrying => Progress::Retrying,
        }),
        Said::Completed { result, .. } => Heard::Result { review: result.review_required },
        Said::Error(failure) => Heard::Error { invalid: failure.kind == ErrorType::InvalidInput },
    }
}

/// Columns and metadata of the way that a callback tells.
fn told(transition: Transition<Grading>, callback: &Callback) -> Value {
    let (number, seq) = (callback.r#try, callback.seq);
    let mut metadata = json!({"try": number, "seq": seq, "job": callback.job_id});
    let mut columns = json!({"try": number, "seq": seq});
    match &callback.said {
        Said::Progress { error, .. } => error.iter().for_each(|failure| add_failure(&mut metadata, failure)),
        Said::Completed { result, transcript } => {
            metadata["score"] = json!(result.overall_score);
            metadata["band"] = json!(result.band);
            metadata["confidence"] = json!(result.confidence);
            metadata["model"] = json!(result.model);
            metadata["audit"] = json!(result.audit_flag);
            metadata["priority"] = json!(result.review_priority);
            columns["priority"] = json!(result.review_priority);
            columns["confidence"] = json!(result.confidence);
            let kept = |kind: &str, transcript: Option<&String>| json!({"kind": kind, "try": number, "result": result, "digest": result.digest(), "transcript": transcript});
            let mut results = vec![kept("ai", transcript.as_ref())];
            if transition.command() == Command::Completed {
                results.push(kept("final", None));
            }
            columns["results"] = json!(results);
        }
        Said::Error(failure) => {
            add_failure(&mut metadata, failure);
            columns["failed_reason"] = json!(reason(failure));
        }
    }
    columns["metadata"] = metadata;
    columns
}

fn add_failure(metadata: &mut Value, failure: &Failure) {
    metadata["type"] = json!(failure.kind.label());
    metadata["code"] = json!(failure.code);
    metadata["retryable"] = json!(failure.retryable);
}

/// Why an attempt failed, as `failed_reason` has it.
fn reason(failure: &Failure) -> &'static str {
    match failure.kind {
        ErrorType::InvalidInput => "invalid_input",
        ErrorType::Cancelled => "cancelled",
        ErrorType::Timeout => "timeout",
        ErrorType::Model | ErrorType::Transcription | ErrorType::Poison => "gave_up",
    }
}

fn whole(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
