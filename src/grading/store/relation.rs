//! The attempts' table, as the kernel claims, writes and counts its rows.

use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use crate::db::DbError;
use crate::grading::attempt::Attempt;
use crate::grading::core::review::Priority;
use crate::grading::table::{Command, Grading, State};
use crate::kernel::rows::{Commands, Log, Relation, Stored, transactions, word_in};

/// The attempts' table.
pub(super) const TABLE: &str = "assessment.submissions";

/// Columns of an [`Attempt`], beside id, state, attempts, claims, version and lease.
macro_rules! columns {
    () => {
        "o.subject, o.attempt, o.current, o.form_id, o.skill, o.gate, o.deadline, o.try, o.seq, o.priority, o.confidence, o.failed_reason, \
         o.released_at, o.created_at, o.state_since, o.ended_at, o.closed_at, o.returned"
    };
}
pub(super) use columns;

/// The record of a transition. Its `metadata` is a closed set of codes and counts, made by whoever writes.
const LOG: &str = "INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type, metadata)
  SELECT l.id, l.from_state, l.to_state, l.command, CASE WHEN t.grader THEN 'worker' ELSE 'system' END,
    CASE WHEN t.grader THEN 'worker' ELSE 'system' END,
    jsonb_strip_nulls(COALESCE(l.columns -> 'metadata', '{}') || jsonb_build_object('by', l.actor))
  FROM l, LATERAL (SELECT l.command IN ('picked-up', 'try-failed', 'retry', 'retry-due', 'gave-up') AS grader) AS t";

impl Stored for Grading {
    type Id = Uuid;
    type Columns = Attempt;
    const RELATION: Relation<State> = Relation {
        name: TABLE,
        transactions: transactions!("grading"),
        kind: "o.work",
        columns: columns!(),
        written: &[
            ("try", "int"),
            ("seq", "int"),
            ("priority", "text"),
            ("confidence", "int"),
            ("failed_reason", "text"),
        ],
        // Two states end an attempt: the schema's own trigger says when.
        stamped: &[],
        born: "created_at",
        versioned: true,
        leases_recorded: false,
        log: Log::Own(LOG),
        // The message to the grader, and results: in the statement that moves the attempt.
        beside: ", q AS (
  INSERT INTO mq.grading_request (message_id, payload)
  SELECT (u.columns->>'message')::uuid, u.columns->'request' FROM u WHERE u.columns ? 'request'
  ON CONFLICT DO NOTHING
), f AS (
  INSERT INTO assessment.results (request_id, kind, try, result, digest, score, band, transcript, actor)
  SELECT u.id, r.v->>'kind', (r.v->>'try')::int, r.v->'result', r.v->>'digest', (r.v#>>'{result,overallScore}')::numeric,
    r.v#>>'{result,band}', r.v->>'transcript', 'system'
  FROM u, jsonb_array_elements(u.columns->'results') AS r (v) WHERE u.columns ? 'results'
  ON CONFLICT DO NOTHING
)",
        returned: "",
        shared: Some("form_id"),
        pruned: None,
    };
    const WORK: Option<Commands<Command>> = Some(Commands {
        claim: Command::Claim,
        release: Command::Release,
        fail: Command::Release,
        give_up: Command::InvalidJob,
    });

    fn columns(row: &PgRow) -> Result<Attempt, DbError> {
        let count = |column: &str| -> Result<u32, DbError> {
            let found: i32 = row.try_get(column)?;
            u32::try_from(found).map_err(|_| DbError::Shape(format!("{TABLE}.{column} is below 0")))
        };
        let priority: Option<String> = row.try_get("priority")?;
        let confidence: Option<i32> = row.try_get("confidence")?;
        Ok(Attempt {
            subject: row.try_get("subject")?,
            attempt: count("attempt")?,
            is_current: row.try_get("current")?,
            form_id: row.try_get("form_id")?,
            skill: word_in(row, TABLE, "skill")?,
            gate: row.try_get("gate")?,
            deadline: row.try_get("deadline")?,
            heard: (count("try")?, count("seq")?),
            priority: priority.as_deref().and_then(Priority::parse),
            confidence: confidence.and_then(|confidence| u8::try_from(confidence).ok()),
            failed_reason: row.try_get("failed_reason")?,
            released_at: row.try_get("released_at")?,
            created_at: row.try_get("created_at")?,
            state_since: row.try_get("state_since")?,
            ended_at: row.try_get("ended_at")?,
            closed_at: row.try_get("closed_at")?,
            returned: count("returned")?,
        })
    }
}
