//! The statements of retention that are not the kernel's. Each starts with its name.

// Naming a table of a schema that may not be used is an error, so the schema is asked first.
pub(super) const THERE: &str = "-- retention_there
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('content'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('content.gc_runs'), 'SELECT'), false) ELSE false END AS there";

// ── runs ──

/// `$1` seconds.
pub(super) const GRACE: &str = "-- gc_grace
UPDATE content.grace g SET value = make_interval(secs => $1) WHERE g.value <> make_interval(secs => $1) RETURNING g.one";

/// `$1` state.
pub(super) const RUN_OVER: &str = "-- gc_run_over
UPDATE content.gc_runs r SET state = $1, ended_at = clock_timestamp(), trouble = 'its lease ran out'
WHERE r.ended_at IS NULL AND r.leased_until < clock_timestamp() RETURNING r.id";

/// `$1` actor, `$2` token, `$3` lease in seconds. Nothing, where another run is open.
pub(super) const RUN_BEGIN: &str = "-- gc_run_begin
INSERT INTO content.gc_runs (actor, lease_token, leased_until) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT DO NOTHING RETURNING id";

/// `$1` run, `$2` token, `$3` lease in seconds, `$4` state, `$5` counts. A run whose lease has run out goes on where nobody else began.
pub(super) const RUN_EXTEND: &str = "-- gc_run_extend
UPDATE content.gc_runs r SET leased_until = clock_timestamp() + make_interval(secs => $3), state = $4, counts = $5
WHERE r.id = $1 AND r.lease_token = $2 AND r.ended_at IS NULL RETURNING r.id";

/// `$1` run, `$2` token, `$3` state, `$4` counts, `$5` trouble.
pub(super) const RUN_END: &str = "-- gc_run_end
UPDATE content.gc_runs r SET state = $3, counts = $4, trouble = $5, ended_at = clock_timestamp()
WHERE r.id = $1 AND r.lease_token = $2 AND r.ended_at IS NULL RETURNING r.id";

/// `$1` the most. The latest first.
pub(super) const RUNS: &str = "-- gc_runs
SELECT r.id, r.state, r.actor, r.started_at, r.ended_at, r.leased_until, r.counts, r.trouble FROM content.gc_runs r ORDER BY r.id DESC LIMIT $1";

// ── submissions ──

/// `$1` by an end of their own, `$2` behind which time, `$3` and id, `$4` the most.
pub(super) const DUE: &str = "-- gc_due
SELECT d.id, d.at::text AS at FROM content.due_submissions($1, $2::text::timestamptz, $3, $4) AS d";

/// `$1` submissions, `$2` authority, `$3` actor, `$4` run.
pub(super) const PURGE: &str = "-- gc_purge
SELECT p.id, p.why FROM content.purge($1, $2, $3, $4) AS p";

/// `$1` submission, `$2` authority.
pub(super) const ERASABLE: &str = "-- gc_erasable
SELECT e.form_id, e.status, e.created_at, e.why, e.fields, e.files, e.shared, e.mails, e.ticket, e.reviews FROM content.erasable($1, $2) AS e";

/// `$1` field, `$2` value, `$3` behind which id, `$4` the most.
pub(super) const WITH_FIELD: &str = "-- gc_with_field
SELECT s.id FROM content.submissions_with($1, $2, $3, $4) AS s";

/// `$1` submission.
pub(super) const KEPT: &str = "-- gc_kept
SELECT k.why, CASE WHEN isfinite(k.ends_at) THEN k.ends_at END AS ends_at FROM content.kept($1) AS k";

// ── versions and blobs ──

/// `$1` the most, `$2` actor.
pub(super) const FORGET: &str = "-- gc_forget
SELECT f AS id FROM content.forget_versions($1, $2) AS f";

/// `$1` the most.
pub(super) const RELEASE_KEPT: &str = "-- gc_release_kept
SELECT content.release_kept($1) AS n";

/// `$1` behind which deadline, `$2` and id, `$3` the most.
pub(super) const TOMBSTONED: &str = "-- gc_tombstoned
SELECT b.id, b.deadline::text AS at FROM content.blobs b
WHERE b.state = 'tombstoned' AND b.deadline <= clock_timestamp() AND (b.deadline, b.id) > ($1::text::timestamptz, $2) ORDER BY b.deadline, b.id LIMIT $3";

/// `$1` run, `$2` whether those are wanted that it has marked, `$3` behind which id, `$4` the most.
pub(super) const ELIGIBLE: &str = "-- gc_eligible
SELECT b.id FROM content.blobs b
WHERE b.state = 'eligible_for_gc' AND (b.marked_run = $1) = $2 AND b.id > $3 ORDER BY b.id LIMIT $4";

/// `$1` blobs whose generation nobody knows yet, among these.
pub(super) const UNREAD: &str = "-- gc_unread
SELECT b.id, b.bucket, b.object FROM content.blobs b WHERE b.id = ANY($1::uuid[]) AND b.generation IS NULL AND b.state <> 'deleted'";

/// `$1` blobs.
pub(super) const JUDGED: &str = "-- gc_judged
SELECT j.id, j.is_referenced, j.is_held, j.is_recalled, j.is_due FROM content.judged($1) AS j";

pub(super) const LOCK_HOLDS: &str = "-- gc_lock_holds
SELECT content.lock_holds() IS NULL AS locked";

/// `$1` behind which id, `$2` the most. What a hold names is left until it is lifted.
pub(super) const OWED: &str = "-- gc_owed
SELECT b.id FROM content.blobs b
WHERE b.state = 'deleted' AND b.gone_at IS NULL AND b.id > $1 AND NOT content.is_held(b.form_id, NULL, b.id) ORDER BY b.id LIMIT $2";

/// `$1` blobs. The store is about to be asked for those of them whose objects are to be deleted.
pub(super) const ASK: &str = "-- gc_ask
UPDATE content.blobs b SET asked = b.asked + 1
WHERE b.id = ANY($1::uuid[]) AND b.state = 'deleted' AND b.gone_at IS NULL AND NOT content.is_held(b.form_id, NULL, b.id)
RETURNING b.id, b.bucket, b.object, b.generation, b.marked_run";

/// `$1` blobs, locked in their order, so that a count of a moment ago is seen.
pub(super) const LOCK_BLOBS: &str = "-- gc_lock_blobs
SELECT b.id FROM content.blobs b WHERE b.id = ANY($1::uuid[]) ORDER BY b.id FOR NO KEY UPDATE";

/// `$1` blobs, `$2` how each went, `$3` seconds for which the store could bring it back.
pub(super) const GONE: &str = "-- gc_gone
UPDATE content.blobs b SET gone_at = clock_timestamp(), gone = w.how,
  restorable_until = CASE WHEN w.how = 'deleted' AND w.secs > 0 THEN clock_timestamp() + make_interval(secs => w.secs) END
FROM (SELECT n.id, n.secs, CASE WHEN n.how = 'missing' AND x.asked > 1 AND x.generation > 0 THEN 'deleted' ELSE n.how END AS how
  FROM unnest($1::uuid[], $2::text[], $3::float8[]) AS n(id, how, secs) JOIN content.blobs x ON x.id = n.id) AS w
WHERE b.id = w.id AND b.state = 'deleted' AND b.gone_at IS NULL
RETURNING b.id, b.gone AS how, jsonb_strip_nulls(jsonb_build_object('form', b.form_id, 'origin', b.origin, 'sha256', encode(b.sha256, 'hex'),
  'length', b.length, 'generation', b.generation, 'restorable_until', b.restorable_until)) AS detail";

/// `$1` kind, `$2` subjects, `$3` authority, `$4` run, `$5` details.
pub(super) const RECEIPTS: &str = "-- gc_receipts
SELECT content.write_receipts($1, $2, $3, $4, $5) AS last";

/// `$1` blob, `$2` actor, `$3` seconds.
pub(super) const KEEP: &str = "-- gc_keep
SELECT content.keep_blob($1, $2, make_interval(secs => $3)) AS until";

/// `$1` blob.
pub(super) const BLOB: &str = "-- gc_blob
SELECT b.id, b.form_id, b.state, b.origin, b.bucket, b.object, b.deadline, b.gone_at, b.gone, b.restorable_until,
  (SELECT count(*) FROM content.blob_refs r WHERE r.blob_id = b.id) AS refs FROM content.blobs b WHERE b.id = $1";

/// `$1` behind which object, `$2` the most. Final objects that became no blob; the session's object is gone, so that nobody makes them again.
pub(super) const LEFT_OVER: &str = "-- gc_left_over
SELECT s.bucket, s.object, s.upload_id FROM content.staging s
WHERE s.role = 'blob' AND s.due_at <= now() AND s.object > $1
  AND NOT EXISTS (SELECT FROM content.staging o WHERE o.upload_id = s.upload_id AND o.role = 'session') ORDER BY s.object LIMIT $2";

/// `$1` buckets, `$2` objects.
pub(super) const LEFT_OVER_GONE: &str = "-- gc_left_over_gone
DELETE FROM content.staging s USING unnest($1::text[], $2::text[]) AS g(bucket, object)
WHERE (s.bucket, s.object) = (g.bucket, g.object) AND s.role = 'blob' RETURNING s.upload_id";

// ── recalls ──

/// `$1` submission, `$2` reason, `$3` actor.
pub(super) const PLAN_RECALLS: &str = "-- gc_plan_recalls
SELECT r.id, r.blob_id, r.submission_id, r.state, r.bucket, r.old_object, r.old_generation, r.new_object FROM content.plan_recalls($1, $2, $3) AS r";

/// `$1` the most.
pub(super) const OPEN_RECALLS: &str = "-- gc_open_recalls
SELECT r.id, r.blob_id, r.submission_id, r.state, r.bucket, r.old_object, r.old_generation, r.new_object FROM content.recalls r
WHERE r.done_at IS NULL ORDER BY r.at, r.id LIMIT $1";

/// `$1` recall, `$2` generation. The first that was seen stays; nothing: somebody else has gone on.
pub(super) const RECALL_SEEN: &str = "-- gc_recall_seen
UPDATE content.recalls r SET old_generation = COALESCE(r.old_generation, $2) WHERE r.id = $1 AND r.state = 'planned'
RETURNING r.old_generation";

/// `$1` recall, `$2` state. There is nothing to copy.
pub(super) const RECALL_VOID: &str = "-- gc_recall_void
UPDATE content.recalls r SET state = $2, done_at = clock_timestamp() WHERE r.id = $1 AND r.state = 'planned' RETURNING r.id";

/// `$1` recall, `$2` generation of the copy.
pub(super) const RECALL_MOVE: &str = "-- gc_recall_move
SELECT content.move_recalled($1, $2) AS n";

/// `$1` recall, `$2` state.
pub(super) const RECALL_DONE: &str = "-- gc_recall_done
UPDATE content.recalls r SET state = $2, done_at = clock_timestamp() WHERE r.id = $1 AND r.state = 'moved' RETURNING r.blob_id";

// ── reconciliation ──

pub(super) const BUCKETS: &str = "-- gc_buckets
WITH RECURSIVE b AS (
  (SELECT x.bucket FROM content.blobs x ORDER BY x.bucket LIMIT 1)
  UNION ALL SELECT (SELECT x.bucket FROM content.blobs x WHERE x.bucket > b.bucket ORDER BY x.bucket LIMIT 1) FROM b WHERE b.bucket IS NOT NULL
) SELECT b.bucket FROM b WHERE b.bucket IS NOT NULL";

/// `$1` bucket, `$2` behind which object, `$3` the most. What is deleted and not gone yet is still there.
pub(super) const OBJECTS: &str = "-- gc_objects
SELECT b.id, b.object, b.generation, b.state FROM content.blobs b
WHERE b.bucket = $1 AND b.object > $2 AND b.gone_at IS NULL ORDER BY b.object LIMIT $3";

/// `$1` bucket, `$2` objects. Those that a row names all the same, each once.
pub(super) const NAMED: &str = "-- gc_named
SELECT n.object FROM unnest($2::text[]) AS n(object) WHERE EXISTS (SELECT FROM content.blobs b WHERE (b.bucket, b.object) = ($1, n.object) AND b.gone_at IS NULL)
  OR EXISTS (SELECT FROM content.staging s WHERE (s.bucket, s.object) = ($1, n.object))
  OR EXISTS (SELECT FROM content.recalls r WHERE r.bucket = $1 AND r.done_at IS NULL AND (r.new_object = n.object OR r.old_object = n.object))";

/// `$1` blob, `$2` object. Whether the blob still has its object by that name.
pub(super) const STILL: &str = "-- gc_still
SELECT b.generation FROM content.blobs b WHERE b.id = $1 AND b.object = $2 AND b.state <> 'deleted'";

// ── holds, rules, receipts ──

/// `$1` scope, `$2` value, `$3` reason, `$4` actor.
pub(super) const PLACE_HOLD: &str = "-- hold_place
SELECT content.place_hold($1, $2, $3, $4) AS id";

/// `$1` hold, `$2` actor, `$3` reason.
pub(super) const RELEASE_HOLD: &str = "-- hold_release
SELECT content.release_hold($1, $2, $3) AS released";

/// `$1` released ones as well, `$2` the most.
pub(super) const HOLDS: &str = "-- hold_list
SELECT h.id, h.scope, h.value, h.reason, h.actor, h.at, h.released_at, h.released_by, h.released_why FROM content.holds h
WHERE $1 OR h.released_at IS NULL ORDER BY h.id DESC LIMIT $2";

pub(super) const RULES: &str = "-- retention_rules
SELECT r.form_id, extract(epoch FROM r.keep_routed)::float8 AS keep_routed, extract(epoch FROM r.keep_failed)::float8 AS keep_failed,
  r.set_by, r.set_at FROM content.retention r ORDER BY r.form_id";

/// `$1` form or nothing, `$2` seconds of routed ones, `$3` of failed ones, `$4` actor.
pub(super) const SET_RULE: &str = "-- retention_set
INSERT INTO content.retention (form_id, keep_routed, keep_failed, set_by)
VALUES ($1, make_interval(secs => $2), make_interval(secs => $3), $4)
ON CONFLICT (form_id) DO UPDATE SET keep_routed = excluded.keep_routed, keep_failed = excluded.keep_failed, set_by = excluded.set_by,
  set_at = clock_timestamp() RETURNING form_id";

/// `$1` form or nothing.
pub(super) const REMOVE_RULE: &str = "-- retention_remove
DELETE FROM content.retention r WHERE r.form_id = $1 RETURNING r.form_id";

/// `$1` behind which number, `$2` the most.
pub(super) const CHAIN: &str = "-- receipt_chain
SELECT r.id, r.body, encode(r.digest, 'hex') AS digest FROM content.receipts r WHERE r.id > $1 ORDER BY r.id LIMIT $2";

/// `$1` subject.
pub(super) const OF_SUBJECT: &str = "-- receipt_of
SELECT r.id, r.body, encode(r.digest, 'hex') AS digest FROM content.receipts r WHERE r.subject = $1 ORDER BY r.id LIMIT 1000";

// ── the daemon's look ──

/// What waits to be collected, each by an index of its own, and what a run found gone in the last day.
pub(super) const STANDING: &str = "-- gc_standing
SELECT (SELECT count(*) FROM content.blobs b WHERE b.state = 'tombstoned') AS tombstoned,
  (SELECT count(*) FROM content.blobs b WHERE b.state = 'eligible_for_gc') AS eligible,
  (SELECT count(*) FROM content.blobs b WHERE b.state = 'deleted' AND b.gone_at IS NULL) AS owed,
  (SELECT extract(epoch FROM clock_timestamp() - min(b.deadline))::float8 FROM content.blobs b WHERE b.state = 'tombstoned') AS overdue,
  (SELECT count(*) FROM content.holds h WHERE h.released_at IS NULL) AS holds,
  (SELECT count(*) FROM content.recalls r WHERE r.done_at IS NULL) AS recalls,
  (SELECT count(*) FROM content.blobs b WHERE b.gone IN ('missing', 'replaced') AND b.gone_at > clock_timestamp() - interval '1 day') AS lost,
  (SELECT b.id FROM content.blobs b WHERE b.gone IN ('missing', 'replaced') AND b.gone_at > clock_timestamp() - interval '1 day'
     ORDER BY b.gone_at DESC, b.id LIMIT 1) AS lost_sample,
  (SELECT extract(epoch FROM clock_timestamp() - max(r.ended_at))::float8 FROM content.gc_runs r WHERE r.state = 'done') AS since_done,
  (SELECT extract(epoch FROM clock_timestamp() - min(r.started_at))::float8 FROM content.gc_runs r) AS since_first,
  (SELECT r.id FROM content.gc_runs r WHERE r.ended_at IS NOT NULL ORDER BY r.id DESC LIMIT 1) AS ended,
  (SELECT r.trouble FROM content.gc_runs r WHERE r.ended_at IS NOT NULL ORDER BY r.id DESC LIMIT 1) AS trouble,
  (SELECT count(*) FROM content.retention) AS rules";

/// `$1` behind which run. Of runs that ended.
pub(super) const ENDED: &str = "-- gc_ended
SELECT r.id, r.state, r.counts, r.trouble FROM content.gc_runs r WHERE r.id > $1 AND r.ended_at IS NOT NULL ORDER BY r.id LIMIT 100";
