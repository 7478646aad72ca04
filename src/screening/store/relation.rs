//! The runs' table, as the kernel claims, writes and counts its rows.

use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use crate::db::DbError;
use crate::kernel::rows::{Commands, Log, Relation, Stored, transactions, word_in};
use crate::screening::run::{Profile, Run};
use crate::screening::table::{Command, Screening, State};

/// What a [`Run`] is read from, beside id, state, attempts, claims, version and lease.
macro_rules! columns {
    () => {
        "o.subject, o.run, o.current, o.enforced, o.form_id, o.profile, o.force_review, o.digest, o.content, o.ruleset, o.origin, o.score, \
         o.bars, o.created_at, o.state_since, o.ended_at, o.closed_at, o.dead_reason, o.claims_before, o.claims AS claims_of_state, o.returned"
    };
}
pub(super) use columns;

/// The document's record of a transition. Its `metadata` is a closed set of codes and counts, made by whoever writes.
const LOG: &str = "INSERT INTO screening.submission_state_events (submission_id, from_state, to_state, trigger, actor, actor_type, metadata)
  SELECT l.id, l.from_state, l.to_state, l.command, CASE WHEN t.system THEN 'system' ELSE 'worker' END,
    CASE WHEN t.system THEN 'system' ELSE 'worker' END,
    jsonb_strip_nulls(COALESCE(l.columns -> 'metadata', '{}') || jsonb_build_object('by', l.actor))
  FROM l, LATERAL (SELECT l.command IN ('vendor-auto-verify', 'non-vendor-submission', 'publish-complete') AS system) AS t";

impl Stored for Screening {
    type Id = Uuid;
    type Columns = Run;
    const RELATION: Relation<State> = Relation {
        name: "screening.submissions",
        transactions: transactions!("screening"),
        kind: "o.work",
        columns: columns!(),
        written: &[
            ("digest", "text"),
            ("content", "text"),
            ("ruleset", "text"),
            ("origin", "text"),
            ("score", "int"),
            // An array, as PostgreSQL writes one: `{a,b}`.
            ("bars", "text[]"),
            ("patience", "interval"),
            ("dead_reason", "text"),
        ],
        // Three states end a run: the schema's own trigger says when.
        stamped: &[],
        born: "created_at",
        versioned: true,
        leases_recorded: false,
        log: Log::Own(LOG),
        beside: "",
        returned: "",
        shared: Some("form_id"),
        pruned: None,
    };
    const WORK: Option<Commands<Command>> = Some(Commands {
        claim: Command::Claim,
        release: Command::Retry,
        fail: Command::Retry,
        give_up: Command::GiveUp,
    });

    fn columns(row: &PgRow) -> Result<Run, DbError> {
        let count = |column: &str| -> Result<u32, DbError> {
            let found: i32 = row.try_get(column)?;
            u32::try_from(found)
                .map_err(|_| DbError::Shape(format!("screening.submissions.{column} is below 0")))
        };
        let profile: Profile = word_in(row, "screening.submissions", "profile")?;
        let score: Option<i32> = row.try_get("score")?;
        Ok(Run {
            subject: row.try_get("subject")?,
            run: count("run")?,
            is_current: row.try_get("current")?,
            is_enforced: row.try_get("enforced")?,
            form_id: row.try_get("form_id")?,
            profile,
            force_review: row.try_get("force_review")?,
            digest: row.try_get("digest")?,
            content: row.try_get("content")?,
            ruleset: row.try_get("ruleset")?,
            origin: row.try_get("origin")?,
            score: score.and_then(|score| u8::try_from(score).ok()),
            bars: row.try_get("bars")?,
            created_at: row.try_get("created_at")?,
            state_since: row.try_get("state_since")?,
            ended_at: row.try_get("ended_at")?,
            closed_at: row.try_get("closed_at")?,
            dead_reason: row.try_get("dead_reason")?,
            attempt: count("claims_before")? + count("claims_of_state")?,
            returned: count("returned")?,
        })
    }
}
