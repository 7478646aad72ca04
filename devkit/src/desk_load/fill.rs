//! Rows: failed submissions with entries and their history, and submissions to be routed.

use anyhow::Result;
use tokio_postgres::Client;

/// A form, submissions, an entry each with one transition to two, a tenth of them open in several states. `$rows` is replaced.
/// Triggers are off: the rows are there at once, and the same as they would be.
const ENTRIES: &str = "
SET session_replication_role = replica;
INSERT INTO forms (id, name) SELECT 'load' || n, 'Load ' || n FROM generate_series(0, 11) n;
INSERT INTO actions (form_id, action_order, action_type, destination)
SELECT 'load' || n, 1, 'email_raw', 'bob@example.org' FROM generate_series(0, 11) n;
INSERT INTO submissions (id, form_id, status, created_at, updated_at, routing_result)
SELECT md5(n::text)::uuid, 'load' || n % 12, CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'routed' END::submission_status, at, at,
  jsonb_build_object('v', 1, 'attempts', 1,
    'plan', jsonb_build_array(jsonb_build_object('action_order', 1, 'action_type', 'email_raw', 'destination', 'bob@example.org')),
    'deliveries', jsonb_build_object('1|bob@example.org', CASE WHEN n % 10 = 0
      THEN jsonb_build_object('state', 'failed', 'at', at, 'error', jsonb_build_object('class', 'refused', 'stage', 'RCPT',
        'code', 550, 'enhanced', '5.1.1', 'reply', 'no such user', 'at', at, 'attempt', 1))
      ELSE jsonb_build_object('state', 'accepted', 'at', at, 'code', 250, 'queue_id', 'A1') END),
    'alerted_at', at,
    'finished', jsonb_build_object('token', md5('t' || n)::uuid, 'at', at, 'status', CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'routed' END,
      'reason', CASE WHEN n % 10 = 0 THEN 'refused' END))
FROM generate_series(1, $rows) n, LATERAL (SELECT date_trunc('milliseconds', now() - n * interval '2 s') AS at) t;
INSERT INTO router.grey_queue (id, cause, reason, subject_kind, subject_id, form_id, queue, state, version, assignee, resolution,
  opened_at, seen_at, state_since, updated_at, closed_at, expiry_planned_at)
SELECT md5('entry' || n)::uuid, 'failed', 'refused', 'submission', md5(n::text)::uuid, 'load' || n % 12, 'operations', state,
  CASE WHEN state = 'Pending' THEN 1 ELSE 2 END, CASE WHEN state = 'UnderReview' THEN 'person-' || (n / 40) % 18 END,
  CASE WHEN state = 'Resolved' THEN 'routed' END, at, at, at, at, CASE WHEN state IN ('Resolved', 'Dismissed') THEN at END,
  at + interval '90 days'
FROM generate_series(1, $rows) n, LATERAL (SELECT date_trunc('milliseconds', now() - n * interval '2 s') AS at,
  CASE WHEN n % 10 <> 0 THEN CASE WHEN n % 3 = 0 THEN 'Dismissed' ELSE 'Resolved' END
    WHEN n % 40 = 0 THEN 'UnderReview' ELSE 'Pending' END AS state) t;
INSERT INTO router.grey_queue_state_transitions (entry_id, from_state, to_state, transitioned_by, transitioned_at, command, version)
SELECT e.id, CASE WHEN v = 2 THEN 'Pending' END, CASE WHEN v = 2 THEN e.state ELSE 'Pending' END, 'system', e.opened_at,
  CASE WHEN v = 1 THEN 'open' WHEN e.state = 'UnderReview' THEN 'assign' WHEN e.state = 'Dismissed' THEN 'dismiss' ELSE 'succeed' END, v
FROM router.grey_queue e, generate_series(1, 2) v WHERE v <= e.version;
INSERT INTO router.grey_queue_occurrences (subject_id, subject_kind, cause, key, entry_id)
SELECT md5(n::text)::uuid, 'submission', 'failed', md5('t' || n)::uuid::text, md5('entry' || n)::uuid FROM generate_series(1, $rows) n;
RESET session_replication_role";

/// Submissions that are ready. `$rows` is replaced.
const READY: &str = "INSERT INTO submissions (form_id) SELECT 'load1' FROM generate_series(1, $rows)";

/// Fills the tables, and has the planner know them.
pub(super) async fn entries(rows: &Client, count: u64) -> Result<()> {
    rows.batch_execute(&ENTRIES.replace("$rows", &count.to_string())).await?;
    clean(rows).await
}

/// Takes away what rows left behind, which each measurement would have more of than the one before.
pub(super) async fn clean(rows: &Client) -> Result<()> {
    for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
        rows.batch_execute(statement).await?;
    }
    Ok(())
}

/// Submits so many at once.
pub(super) async fn submissions(rows: &Client, count: i64) -> Result<()> {
    Ok(rows.batch_execute(&READY.replace("$rows", &count.to_string())).await?)
}

/// Whether a submission has not ended. Not counted: that would read as much as is left, all the time.
pub(super) async fn is_open(rows: &Client) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM submissions WHERE status = 'received')
        OR EXISTS (SELECT FROM submissions WHERE status = 'processing')";
    Ok(rows.query_one(sql, &[]).await?.get(0))
}
