//! The statements of the uploads that are not the kernel's. Each starts with its name.

use super::relation::columns;

macro_rules! selected {
    () => {
        concat!("o.id, o.state, o.attempts, o.claims, o.lease_token, NULL::bigint AS version, ", columns!())
    };
}

// Naming a table of a schema that may not be used is an error, so the schema is asked first.
pub(super) const THERE: &str = "-- upload_there
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('content'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('content.uploads'), 'SELECT'), false) ELSE false END AS there";

/// `$1` owner. One owner's sessions are made one after the other, so that limits hold.
pub(super) const LOCK_OWNER: &str = "-- upload_lock_owner
SELECT pg_advisory_xact_lock(hashtextextended($1, 7006))";

/// `$1` owner, `$2` idempotency key.
pub(super) const BY_KEY: &str = "-- upload_by_key
SELECT o.id, o.state, o.request_digest, o.part_size, o.expires_at, o.deduplicated, o.store_upload_id IS NOT NULL AS was_sent
FROM content.uploads o WHERE o.owner = $1 AND o.idempotency_key = $2";

/// `$1` owner.
pub(super) const OPEN: &str = "-- upload_open
SELECT count(*) AS sessions, COALESCE(sum(o.length), 0)::bigint AS bytes FROM content.uploads o
WHERE o.owner = $1 AND o.ended_at IS NULL";

/// `$1` form, `$2` owner or none, `$3` SHA-256 in hexadecimal digits, `$4` length, `$5` age of a verdict in seconds.
pub(super) const SAME: &str = "-- upload_same
SELECT b.id FROM content.blobs b
WHERE b.form_id = $1 AND ($2::text IS NULL OR b.owner = $2) AND b.sha256 = decode($3, 'hex') AND b.length = $4
  AND b.state <> 'deleted' AND b.verdict = 'clean' AND b.scanned_at > now() - make_interval(secs => $5)
ORDER BY b.created_at, b.id LIMIT 1";

/// `$1` form, `$2` owner, `$3` SHA-256, `$4` length.
pub(super) const EQUAL: &str = "-- upload_equal
SELECT b.id, b.verdict FROM content.blobs b
WHERE b.form_id = $1 AND b.owner = $2 AND b.sha256 = decode($3, 'hex') AND b.length = $4 AND b.state <> 'deleted'";

/// `$1` id, `$2` form, `$3` owner, `$4` key, `$5` digest of the request, `$6` digest of the token, `$7` name, `$8` type, `$9` length,
/// `$10` SHA-256, `$11` part size, `$12` planned blob, `$13` life in seconds, `$14` life of an unattached reference, `$15` bucket,
/// `$16` object, `$17` actor.
pub(super) const CREATE: &str = "-- upload_create
WITH made AS (
  INSERT INTO content.uploads (id, form_id, owner, idempotency_key, request_digest, token_sha256, file_name, content_type, length,
    sha256, part_size, planned_blob, expires_at, unattached_ttl)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, decode($10, 'hex'), $11, $12, clock_timestamp() + make_interval(secs => $13),
    make_interval(secs => $14))
  RETURNING id, expires_at
), staged AS (
  INSERT INTO content.staging (bucket, object, upload_id, role) SELECT $15, $16, m.id, 'session' FROM made m
), said AS (
  INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
  SELECT 'upload', m.id::text, '-', 'initiated', 'create', $17, 'backend' FROM made m
)
SELECT m.expires_at FROM made m";

pub(super) const GET: &str =
    concat!("-- upload_get\nSELECT ", selected!(), ", now() AS now FROM content.uploads o WHERE o.id = $1");

/// `$1` at most, `$2` state or none, `$3` form or none.
pub(super) const LIST_OPEN: &str = concat!(
    "-- upload_list_open\nSELECT ",
    selected!(),
    ", now() AS now FROM content.uploads o WHERE o.ended_at IS NULL AND ($2::text IS NULL OR o.state = $2)
  AND ($3::text IS NULL OR o.form_id = $3) ORDER BY o.expires_at, o.id LIMIT $1"
);

/// `$1` at most, `$2` state or none, `$3` form or none.
pub(super) const LIST_ENDED: &str = concat!(
    "-- upload_list_ended\nSELECT ",
    selected!(),
    ", now() AS now FROM content.uploads o WHERE o.ended_at IS NOT NULL AND ($2::text IS NULL OR o.state = $2)
  AND ($3::text IS NULL OR o.form_id = $3) ORDER BY o.ended_at DESC, o.id DESC LIMIT $1"
);

/// `$1` blob.
pub(super) const BLOB: &str = "-- upload_blob
SELECT b.id, b.verdict, b.signature, b.scanner, b.scanned_at, b.scan_due_at, b.state, b.shown_type,
  (SELECT count(*) FROM content.blob_refs r WHERE r.blob_id = b.id AND r.kind = 'attachment') AS attachments
FROM content.blobs b WHERE b.id = $1";

/// `$1` attachments.
pub(super) const OF_ATTACHMENTS: &str = "-- upload_of_attachments
SELECT r.holder, b.verdict, b.signature, b.scan_due_at,
  (SELECT u.id FROM content.uploads u WHERE u.blob_id = b.id AND content.attachment_of(u.id)::text = r.holder LIMIT 1) AS upload
FROM content.blob_refs r JOIN content.blobs b ON b.id = r.blob_id
WHERE r.kind = 'attachment' AND r.holder = ANY($1::text[]) ORDER BY r.holder";

/// `$1` upload, `$2` token, `$3` bucket, `$4` object. The row of the final object, before it is made; only while the lease is ours.
pub(super) const PLAN: &str = "-- upload_plan
WITH ours AS (SELECT o.id FROM content.uploads o WHERE o.id = $1 AND o.lease_token = $2 FOR NO KEY UPDATE)
INSERT INTO content.staging (bucket, object, upload_id, role) SELECT $3, $4, u.id, 'blob' FROM ours u
ON CONFLICT (bucket, object) DO UPDATE SET attempts = staging.attempts RETURNING 1";

/// `$1` upload, `$2` submission.
pub(super) const ATTACH: &str = "-- upload_attach
SELECT content.attach($1, $2) AS attachment";

/// `$1` blob, `$2` verdict, `$3` name, `$4` scanner.
pub(super) const RECORD_VERDICT: &str = "-- upload_record_verdict
SELECT content.record_verdict($1, $2, $3, $4) AS attachments";

/// `$1` at most, `$2` seconds for which whoever takes them has them. What is taken is due again later, whatever becomes of us.
pub(super) const TAKE_UNSCANNED: &str = "-- upload_take_unscanned
UPDATE content.blobs b SET scan_due_at = clock_timestamp() + make_interval(secs => $2), scan_attempts = b.scan_attempts + 1
WHERE b.id = ANY(ARRAY(
  SELECT x.id FROM content.blobs x WHERE x.scan_due_at <= now() AND x.state <> 'deleted'
  ORDER BY x.scan_due_at, x.id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED))
RETURNING b.id, b.bucket, b.object, b.generation, b.length, encode(b.sha256, 'hex') AS sha256, b.verdict, b.scan_attempts";

/// `$1` blob, `$2` seconds.
pub(super) const SCAN_LATER: &str = "-- upload_scan_later
UPDATE content.blobs b SET scan_due_at = clock_timestamp() + make_interval(secs => $2) WHERE b.id = $1 AND b.scan_due_at IS NOT NULL";

/// `$1` blob. Asked for by somebody.
pub(super) const SCAN_AGAIN: &str = "-- upload_scan_again
UPDATE content.blobs b SET scan_due_at = clock_timestamp(), scan_attempts = 0 WHERE b.id = $1 AND b.state <> 'deleted'";

/// `$1` age in seconds, `$2` at most.
pub(super) const SCAN_STALE: &str = "-- upload_scan_stale
UPDATE content.blobs b SET scan_due_at = clock_timestamp(), scan_attempts = 0
WHERE b.id = ANY(ARRAY(
  SELECT x.id FROM content.blobs x WHERE x.state = 'live' AND x.verdict IN ('clean', 'unscannable') AND x.scan_due_at IS NULL
    AND x.scanned_at < now() - make_interval(secs => $1)
  ORDER BY x.scanned_at, x.id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED))";

/// `$1` at most, `$2` staging bucket. A final object is made of the session's: so that one goes first.
pub(super) const TAKE_STAGING: &str = "-- upload_take_staging
UPDATE content.staging s SET attempts = s.attempts + 1,
  due_at = clock_timestamp() + make_interval(secs => least(3600, 30 * 2 ^ least(s.attempts, 10)))
WHERE (s.bucket, s.object) IN (
  SELECT x.bucket, x.object FROM content.staging x WHERE x.due_at <= now() AND x.bucket = $2
  ORDER BY x.due_at, x.bucket, x.object LIMIT $1 FOR UPDATE SKIP LOCKED)
RETURNING s.bucket, s.object, s.upload_id, s.store_upload_id, s.attempts";

/// `$1` bucket, `$2` objects.
pub(super) const STAGING_GONE: &str = "-- upload_staging_gone
DELETE FROM content.staging s WHERE s.bucket = $1 AND s.object = ANY($2::text[]) AND s.due_at IS NOT NULL";

/// `$1` at most.
pub(super) const UNATTACHED: &str = "-- upload_unattached
DELETE FROM content.blob_refs r WHERE (r.kind, r.holder, r.blob_id) IN (
  SELECT x.kind, x.holder, x.blob_id FROM content.blob_refs x WHERE x.kind = 'upload' AND x.until < now()
  ORDER BY x.until LIMIT $1)";

// What the scanner cannot judge waits until somebody has decided about each of its attachments.
pub(super) const STANDING: &str = "-- upload_standing
WITH undecided AS (
  SELECT b.id, b.scanned_at FROM content.blobs b WHERE b.verdict = 'unscannable' AND b.state = 'live'
    AND EXISTS (SELECT FROM content.blob_refs r WHERE r.blob_id = b.id AND (r.kind = 'upload' OR EXISTS (
      SELECT FROM public.attachments a WHERE a.id = r.holder::uuid AND a.clamav_status = 'pending')))
)
SELECT
  (SELECT count(*) FROM content.staging s WHERE s.due_at IS NOT NULL AND s.role = 'session') AS staging_due,
  (SELECT count(*) FROM content.blobs b WHERE b.scan_due_at IS NOT NULL AND b.state <> 'deleted' AND b.verdict = 'unscanned') AS unscanned,
  (SELECT extract(epoch FROM now() - min(b.created_at))::float8 FROM content.blobs b
     WHERE b.scan_due_at IS NOT NULL AND b.state <> 'deleted' AND b.verdict = 'unscanned') AS unscanned_oldest,
  (SELECT b.id FROM content.blobs b WHERE b.scan_due_at IS NOT NULL AND b.state <> 'deleted' AND b.verdict = 'unscanned'
     ORDER BY b.scan_due_at, b.id LIMIT 1) AS unscanned_sample,
  (SELECT count(*) FROM undecided) AS unscannable,
  (SELECT u.id FROM undecided u ORDER BY u.scanned_at DESC, u.id LIMIT 1) AS unscannable_sample";
