//! The entries' table, as the kernel claims, writes and counts its rows.

use tokio_postgres::Row as PgRow;

use crate::db::DbError;
use crate::grey_queue::entry::Resolution;
use crate::grey_queue::entry::{Entry, Escalation, Job, Rejection, Resolved, SubjectRef};
use crate::grey_queue::table::{Command, GreyQueue, State};
use crate::kernel::rows::{Commands, Log, Relation, Stored, transactions, word_in};
use crate::kernel::subject::Remedy;

/// The table.
pub(super) const TABLE: &str = "router.grey_queue";

/// What [`entry`] reads beside id, state, version, attempts and lease.
macro_rules! columns {
    () => {
        "o.cause, o.reason, o.queue, o.subject_kind, o.subject_id, o.form_id, o.detail, o.occurrences, o.opened_at, o.seen_at,
  o.state_since, COALESCE(o.expires_at, o.expiry_planned_at) AS expiry, o.closed_at, o.assignee, o.assigned_at, o.requested_by,
  o.escalation_reason, o.escalated_at, o.escalated_by, o.alerted_at, o.rejected_by, o.reject_reason, o.resolution, o.resolved_by,
  o.remedy, o.remedied_at, o.available_at"
    };
}
pub(super) use columns;

impl Stored for GreyQueue {
    type Id = uuid::Uuid;
    type Columns = Entry;
    const RELATION: Relation<State> = Relation {
        name: TABLE,
        transactions: transactions!("grey_queue"),
        kind: "o.state",
        columns: columns!(),
        written: &[
            ("assignee", "text"),
            ("requested_by", "text"),
            ("expiry_planned_at", "timestamptz"),
            ("expiry_warned_at", "timestamptz"),
            ("expires_at", "timestamptz"),
            ("rejected_by", "text"),
            ("reject_reason", "text"),
            ("escalation_reason", "text"),
            ("escalated_at", "timestamptz"),
            ("escalated_by", "text"),
            ("alerted_at", "timestamptz"),
            ("alert_leased_until", "timestamptz"),
            ("resolution", "text"),
            ("resolved_by", "text"),
            ("remedy", "text"),
            ("remedied_at", "timestamptz"),
        ],
        stamped: &[],
        born: "opened_at",
        versioned: true,
        leases_recorded: false,
        log: Log::Own(
            "INSERT INTO router.grey_queue_state_transitions
    (entry_id, from_state, to_state, transitioned_by, reason, command, version, metadata)
  SELECT l.id, l.from_state, l.to_state, l.actor, COALESCE(l.reason, l.columns->>'why'), l.command, l.version,
    jsonb_strip_nulls(jsonb_build_object('assignee', l.columns->'assignee', 'remedy', l.columns->'remedy',
      'resolution', l.columns->'resolution')) FROM l",
        ),
        beside: "",
        returned: "",
        shared: None,
        pruned: None,
    };
    const WORK: Option<Commands<Command>> = Some(Commands {
        claim: Command::Claim,
        release: Command::Release,
        fail: Command::RetryLater,
        give_up: Command::GiveUp,
    });

    fn columns(row: &PgRow) -> Result<Entry, DbError> {
        entry(row)
    }
}

/// Reads an entry: id, state, version, attempts, lease and [`columns!`].
pub(super) fn entry(row: &PgRow) -> Result<Entry, DbError> {
    let text = |column| row.try_get::<_, Option<String>>(column);
    let escalated_at: Option<jiff::Timestamp> = row.try_get("escalated_at")?;
    let escalation = match (text("escalation_reason")?, escalated_at) {
        (Some(reason), Some(at)) => Some(Escalation {
            reason,
            at,
            by: text("escalated_by")?,
            notified_at: row.try_get("alerted_at")?,
        }),
        _ => None,
    };
    let rejection = match (text("reject_reason")?, text("rejected_by")?) {
        (Some(reason), Some(by)) => Some(Rejection { reason, by }),
        _ => None,
    };
    let resolution = match text("resolution")? {
        Some(_) => {
            Some(Resolved { how: word_in::<Resolution>(row, TABLE, "resolution")?, by: text("resolved_by")? })
        }
        None => None,
    };
    let job = match text("remedy")? {
        Some(_) => Some(Job {
            remedy: word_in::<Remedy>(row, TABLE, "remedy")?,
            requested_by: text("requested_by")?,
            attempts: u32::try_from(row.try_get::<_, i32>("attempts")?).unwrap_or_default(),
            carried_out_at: row.try_get("remedied_at")?,
            next_at: row.try_get("available_at")?,
            leased: row.try_get::<_, Option<uuid::Uuid>>("lease_token")?.is_some(),
        }),
        None => None,
    };
    Ok(Entry {
        id: row.try_get("id")?,
        version: row.try_get("version")?,
        state: word_in(row, TABLE, "state")?,
        cause: row.try_get("cause")?,
        reason: row.try_get("reason")?,
        queue: row.try_get("queue")?,
        subject: SubjectRef { kind: row.try_get("subject_kind")?, id: row.try_get("subject_id")? },
        form_id: text("form_id")?,
        detail: row.try_get("detail")?,
        occurrences: row.try_get("occurrences")?,
        opened_at: row.try_get("opened_at")?,
        seen_at: row.try_get("seen_at")?,
        state_since: row.try_get("state_since")?,
        expires_at: row.try_get("expiry")?,
        closed_at: row.try_get("closed_at")?,
        assignee: text("assignee")?,
        assigned_at: row.try_get("assigned_at")?,
        escalation,
        rejection,
        resolution,
        job,
    })
}
