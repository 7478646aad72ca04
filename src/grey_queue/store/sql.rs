//! The statements on entries. Each starts with its name.

use super::relation::columns;

macro_rules! selected {
    () => {
        concat!("o.id, o.state, o.version, o.attempts, o.lease_token, ", columns!())
    };
}
pub(super) use selected;

/// The select list of entries.
pub(super) const SELECTED: &str = selected!();

// Naming a table of a schema that may not be used is an error, so the schema is asked first.
pub(super) const THERE: &str = "-- grey_queue_there
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('router'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('router.grey_queue'), 'SELECT'), false) ELSE false END AS there";

pub(super) const NOW: &str = "-- grey_queue_now
SELECT clock_timestamp() AS now";

// A savepoint has no plan, so these two carry no name to find one by.
pub(super) const MARK: &str = "SAVEPOINT command";

pub(super) const BACK_TO_MARK: &str = "ROLLBACK TO SAVEPOINT command";

pub(super) const GET: &str =
    concat!("-- grey_queue_get\nSELECT ", selected!(), " FROM router.grey_queue o WHERE o.id = $1");

pub(super) const SUBJECT: &str = "-- grey_queue_subject
SELECT o.subject_kind, o.subject_id FROM router.grey_queue o WHERE o.id = $1";

pub(super) const ABOUT: &str = concat!(
    "-- grey_queue_about\nSELECT ",
    selected!(),
    " FROM router.grey_queue o WHERE o.subject_id = $1 ORDER BY o.opened_at DESC, o.id LIMIT 50"
);

/// `$1` subjects.
pub(super) const OPEN_ABOUT: &str = "-- grey_queue_open_about
SELECT o.subject_id, o.id FROM router.grey_queue o
WHERE o.subject_id = ANY($1::uuid[]) AND o.closed_at IS NULL ORDER BY o.opened_at DESC, o.id";

/// `$1` entries.
pub(super) const SOME: &str = concat!(
    "-- grey_queue_some\nSELECT ",
    selected!(),
    " FROM router.grey_queue o WHERE o.id = ANY($1::uuid[])"
);

pub(super) const BEGINNING: &str = "-- grey_queue_beginning
SELECT o.id FROM router.grey_queue o WHERE o.id >= $1 AND o.id <= $2 ORDER BY o.id LIMIT 2";

pub(super) const HISTORY: &str = "-- grey_queue_history
SELECT t.version, t.transitioned_at, t.command, t.from_state, t.to_state, t.transitioned_by, t.reason, t.metadata
FROM router.grey_queue_state_transitions t WHERE t.entry_id = $1 ORDER BY t.version";

pub(super) const SUMMARY: &str = "-- grey_queue_summary
SELECT o.state, o.queue, o.cause, count(*) AS count, EXTRACT(EPOCH FROM now() - min(o.state_since))::float8 AS oldest
FROM router.grey_queue o WHERE o.closed_at IS NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";

pub(super) const CHANGED: &str = "-- grey_queue_changed
SELECT o.id, o.version, o.state, o.assignee, o.updated_at FROM router.grey_queue o
WHERE o.updated_at >= $1 ORDER BY o.updated_at, o.id LIMIT $2";

/// `$1` subject, `$2` its kind, `$3` cause, `$4` the entry itself.
pub(super) const TWIN: &str = "-- grey_queue_twin
SELECT o.id FROM router.grey_queue o
WHERE o.subject_id = $1 AND o.subject_kind = $2 AND o.cause = $3 AND o.closed_at IS NULL AND o.id <> $4";

/// `$1` kind, `$2` payload. The daemon's poll finds it.
pub(super) const ASSIGNED: &str = "-- grey_queue_assigned
INSERT INTO router.outbox (kind, payload) VALUES ($1, $2)";

/// `$1` the entry, `$2` the fence of its worker.
pub(super) const CARRIED_OUT: &str = "-- grey_queue_carried_out
UPDATE router.grey_queue o SET remedied_at = clock_timestamp()
WHERE o.id = $1 AND o.lease_token = $2 AND o.remedied_at IS NULL";

/// `$1` the entry, `$2` the fence of its worker, `$3` seconds.
pub(super) const FORGIVE: &str = "-- grey_queue_forgive
UPDATE router.grey_queue o SET remedied_at = o.remedied_at + make_interval(secs => $3)
WHERE o.id = $1 AND o.lease_token = $2";
