//! The outbox's own statements. Each starts with its name.

/// Closes the dead-letter records of a redriven row, and notifies the listeners. `$1` the row, `$2` actor, `$3` reason.
pub(super) const REDRIVE: &str = "-- outbox_redrive
WITH d AS (
  UPDATE router.dead_letters d SET redriven_at = clock_timestamp(), actor = $2, reason_closed = $3
  WHERE d.message_id LIKE 'outbox:' || $1::bigint || ':%' AND d.redriven_at IS NULL AND d.discarded_at IS NULL
)
SELECT pg_notify('maple_router_outbox', '')";

/// Writes an operator's events for submissions, also for unknown ones. `$1` ids, `$2` reason.
pub(super) const ANNOUNCE: &str = "-- outbox_announce
WITH n AS (
  INSERT INTO router.outbox (kind, entity_id, payload)
  SELECT 'routing.ready', t.id, jsonb_strip_nulls(jsonb_build_object('submission_id', t.id, 'form_id', s.form_id,
    'reason', $2::text))
  FROM unnest($1::uuid[]) WITH ORDINALITY AS t(id, place) LEFT JOIN submissions s ON s.id = t.id ORDER BY t.place
  RETURNING id, entity_id
)
SELECT n.id, n.entity_id, pg_notify('maple_router_outbox', '') FROM n ORDER BY n.id";

/// Writes a canary.
pub(super) const CANARY: &str = "-- outbox_canary
WITH n AS (INSERT INTO router.outbox (kind, payload) VALUES ('canary', '{}') RETURNING id)
SELECT n.id, pg_notify('maple_router_outbox', '') FROM n";

/// Reads the rows about one submission, the youngest first. `$1` the submission, `$2` the most rows.
pub(super) const ABOUT: &str = "-- outbox_about
SELECT o.id, o.state, o.payload->>'reason' AS reason, o.created_at, o.available_at, o.delivered_at, o.message_id, o.claims,
  o.error
FROM router.outbox o WHERE o.entity_id = $1 ORDER BY o.id DESC LIMIT $2";

/// Reads a dead-letter record with the state of its submission. `$1` the record.
pub(super) const DEAD_LETTER: &str = "-- outbox_dead_letter
SELECT substring(d.message_id FROM '^outbox:([0-9]{1,18})(?:$|:)')::bigint AS outbox_row, d.submission_id,
  s.id IS NOT NULL AS known, COALESCE(s.status::text IN ('routed', 'failed', 'purged'), false) AS ended,
  d.redriven_at IS NOT NULL AS redriven, d.discarded_at IS NOT NULL AS discarded, d.actor, d.reason_closed
FROM router.dead_letters d LEFT JOIN submissions s ON s.id = d.submission_id WHERE d.id = $1";

/// Locks a dead-letter record. `$1` the record.
pub(super) const LOCK_DEAD_LETTER: &str = "-- outbox_dead_letter_lock
SELECT d.id FROM router.dead_letters d WHERE d.id = $1 FOR NO KEY UPDATE";

/// Closes an open dead-letter record as redriven. `$1` the record, `$2` actor, `$3` reason.
pub(super) const CLOSE_DEAD_LETTER: &str = "-- outbox_dead_letter_close
UPDATE router.dead_letters d SET redriven_at = clock_timestamp(), actor = $2, reason_closed = $3
WHERE d.id = $1 AND d.redriven_at IS NULL AND d.discarded_at IS NULL";
