//! A job as its row has it, and how the kernel claims, writes and counts such rows.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::decide::Failed;
use super::table::{Command, Job, State};
use crate::db::DbError;
use crate::grading::core::message::ErrorType;
use crate::grading::core::skill::Skill;
use crate::kernel::rows::{Commands, Log, Relation, Stored, transactions, word_in};

/// The jobs' table.
pub(super) const TABLE: &str = "grading.jobs";

/// A grader's job.
#[derive(Clone, PartialEq)]
pub struct JobRow {
    /// The attempt on the main side.
    pub request_id: Uuid,
    /// The submission.
    pub submission_id: Uuid,
    /// Number of the attempt.
    pub attempt: u32,
    /// The skill that is graded.
    pub skill: Skill,
    /// The request as it came; absent where it was emptied.
    pub payload: Option<Value>,
    /// Until when an answer is in time.
    pub deadline: Timestamp,
    /// Tries after the first one.
    pub retries: u32,
    /// Number of the last callback.
    pub seq: u32,
    /// The last failed try.
    pub error: Option<Failed>,
    /// Whether nobody waits for it any more.
    pub is_cancelled: bool,
    /// Number of the present claim; never given twice.
    pub try_number: u32,
    /// Claims of its state from which somebody came back.
    pub returned: u32,
    /// The database's time when it was read.
    pub now: Timestamp,
}

/// Shows no payload: it has what people wrote.
impl fmt::Debug for JobRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRow")
            .field("request_id", &self.request_id)
            .field("skill", &self.skill)
            .field("retries", &self.retries)
            .field("seq", &self.seq)
            .field("try", &self.try_number)
            .finish_non_exhaustive()
    }
}

const LOG: &str = "INSERT INTO grading.events (job_id, from_state, to_state, trigger, actor, actor_type, metadata)
  SELECT l.id, l.from_state, l.to_state, l.command, l.actor, l.actor_type, jsonb_strip_nulls(COALESCE(l.columns -> 'metadata', '{}')) FROM l";

impl Stored for Job {
    type Id = Uuid;
    type Columns = JobRow;
    const RELATION: Relation<State> = Relation {
        name: TABLE,
        transactions: transactions!("grading_job"),
        kind: "o.work",
        columns: "o.request_id, o.submission_id, o.attempt, o.skill, o.payload, o.deadline, o.retries, o.seq, o.error, \
                  o.cancelled_at IS NOT NULL AS cancelled, o.claims_before, o.claims AS claims_of_state, o.returned, \
                  clock_timestamp() AS now",
        written: &[("seq", "int"), ("error", "jsonb"), ("pause", "float8"), ("callback", "jsonb")],
        // Two states end a job: the schema's own trigger says when.
        stamped: &[],
        born: "created_at",
        versioned: true,
        leases_recorded: false,
        log: Log::Own(LOG),
        // The callback, and the fault of the try: in the statement that moves the job.
        beside: ", q AS (
  INSERT INTO mq.grading_callback (message_id, payload)
  SELECT (u.columns#>>'{callback,eventId}')::uuid, u.columns->'callback' FROM u WHERE u.columns ? 'callback'
  ON CONFLICT DO NOTHING
)",
        returned: "",
        shared: None,
        pruned: None,
    };
    const WORK: Option<Commands<Command>> = Some(Commands {
        claim: Command::Claim,
        release: Command::Release,
        fail: Command::TryFailed,
        give_up: Command::TryFailed,
    });

    fn columns(row: &PgRow) -> Result<JobRow, DbError> {
        let count = |column: &str| -> Result<u32, DbError> {
            let found: i32 = row.try_get(column)?;
            u32::try_from(found).map_err(|_| DbError::Shape(format!("{TABLE}.{column} is below 0")))
        };
        let error: Option<Value> = row.try_get("error")?;
        Ok(JobRow {
            request_id: row.try_get("request_id")?,
            submission_id: row.try_get("submission_id")?,
            attempt: count("attempt")?,
            skill: word_in(row, TABLE, "skill")?,
            payload: row.try_get("payload")?,
            deadline: row.try_get("deadline")?,
            retries: count("retries")?,
            seq: count("seq")?,
            error: error.as_ref().map(failed),
            is_cancelled: row.try_get("cancelled")?,
            try_number: count("claims_before")? + count("claims_of_state")?,
            returned: count("returned")?,
            now: row.try_get("now")?,
        })
    }
}

/// A failed try as its column has it.
#[must_use]
pub fn written(failed: &Failed) -> Value {
    serde_json::json!({
        "type": failed.kind.label(),
        "code": failed.code,
        "retryable": failed.retryable,
        "retry_after": failed.retry_after.map(|pause| pause.as_secs_f64()),
    })
}

/// A failed try of a column; what cannot be read is not tried again.
fn failed(column: &Value) -> Failed {
    let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
    let pause = column.get("retry_after").and_then(Value::as_f64);
    Failed {
        kind: ErrorType::parse(text("type")).unwrap_or(ErrorType::Model),
        code: text("code").to_owned(),
        retryable: column.get("retryable").and_then(Value::as_bool).unwrap_or_default(),
        retry_after: pause.and_then(|pause| Duration::try_from_secs_f64(pause).ok()),
    }
}
