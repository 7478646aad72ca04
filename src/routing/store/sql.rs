//! The statements of the mission. Each is led by its name; each decides in a statement of its own, after another one
//! of the same transaction has taken the row's lock (protocol, "Every guarded write locks its row first").
//!
//! `now()` only compares and `clock_timestamp()` only writes, both unqualified, so that a test can shift the clock.
//! Keys are merged with `||`, never written back whole, so that keys unknown to this version survive.

use crate::db::readiness::Readiness;

/// Locks rows in id order, so that two batches in any scan order cannot deadlock. Rows that are gone, or locked by
/// somebody else, are not answered: one busy row must not hold up the others.
pub(super) const LOCK_MANY: &str = "-- lock_many
SELECT s.id FROM submissions s WHERE s.id = ANY($1::uuid[]) ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED";

/// Locks one row. `NO KEY`, so that an attachment being inserted elsewhere does not make us wait.
pub(super) const LOCK_ONE: &str = "-- lock_one
SELECT s.id FROM submissions s WHERE s.id = $1 FOR NO KEY UPDATE";

/// A time as this program and PostgreSQL write it, and one that surely exists: `timestamptz` takes every text that this
/// lets through. (A function that tries comes with PostgreSQL 16 only.)
pub(super) const TIME: &str = r"^([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)$";

/// The texts that are put together, made once.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) claim_read: String,
    pub(super) begin: String,
    pub(super) reread: String,
    /// Proof of life of claims, fenced, never beyond a claim's deadline. `$1` ids, `$2` tokens. An id that is not
    /// answered has lost its claim, or names a deadline that is none.
    pub(super) heartbeat: String,
    pub(super) replay_read: String,
    pub(super) sweep: super::sweep::Statements,
    pub(super) open_rows: super::open_rows::Statements,
}

/// SQL, jsonb array: a form's actions as a plan, in order, with the template texts they need. `with_bodies` is SQL,
/// boolean: whether template bodies are among them (`mail.body = "template"`).
pub(super) fn current_plan(form_id: &str, with_bodies: &str) -> String {
    format!(
        "COALESCE((
    SELECT jsonb_agg(jsonb_build_object(
        'action_order', a.action_order, 'action_type', a.action_type, 'template_id', a.template_id,
        'template', CASE WHEN t.id IS NULL THEN NULL WHEN {with_bodies}
          THEN jsonb_build_object('subject', t.subject, 'body_text', t.body_text, 'body_html', t.body_html)
          ELSE jsonb_build_object('subject', t.subject) END,
        'destination', a.destination, 'subject_template', a.subject_template,
        'happyfox_category', a.happyfox_category) ORDER BY a.action_order)
    FROM actions a LEFT JOIN templates t ON t.id = a.template_id WHERE a.form_id = {form_id}), '[]')"
    )
}

impl Statements {
    pub(super) fn new(readiness: &Readiness) -> Self {
        let (finalized, pending, infected, clean) = (
            readiness.is_finalized("s"),
            readiness.pending_count("s"),
            readiness.any_infected("s"),
            readiness.all_clean("s"),
        );
        let plan = current_plan("s.form_id", "$2");
        let ready_at = readiness.ready_at("s");
        Self {
            sweep: super::sweep::Statements::new(readiness),
            open_rows: super::open_rows::Statements::new(readiness),
            // The plan is read only where it may have to be pinned.
            claim_read: format!(
                "-- claim_read
SELECT s.id, s.form_id, s.status::text AS status, s.routing_result, s.created_at, clock_timestamp() AS now,
  {finalized} AS finalized, {pending} AS pending, {infected} AS infected,
  {ready_at} AS ready_at, CASE WHEN s.status = 'received' THEN {plan} END AS plan
FROM submissions s WHERE s.id = ANY($1::uuid[])"
            ),
            begin: format!(
                "-- begin
UPDATE submissions s SET updated_at = clock_timestamp(),
  routing_result = s.routing_result || jsonb_build_object('deliveries', (s.routing_result->'deliveries') || (
    SELECT jsonb_object_agg(k, (s.routing_result->'deliveries'->k)
      || jsonb_build_object('begun', jsonb_build_object('token', $2::text, 'at', clock_timestamp()),
        'log_mark', $4::text))
    FROM unnest($3::text[]) AS k))
WHERE s.id = $1 AND s.status = 'processing' AND s.routing_result#>>'{{claim,token}}' = $2
  AND NOT EXISTS (SELECT FROM unnest($3::text[]) AS k
    WHERE s.routing_result->'deliveries'->k->>'state' IS DISTINCT FROM 'open')
  AND {clean}
RETURNING s.id"
            ),
            reread: format!(
                "-- reread
SELECT s.status::text AS status, s.routing_result#>>'{{claim,token}}' AS token,
  {pending} AS pending, {infected} AS infected FROM submissions s WHERE s.id = $1"
            ),
            heartbeat: format!(
                "-- heartbeat
UPDATE submissions s SET updated_at = clock_timestamp() FROM unnest($1::uuid[], $2::text[]) AS t(id, token)
WHERE s.id = t.id AND s.status = 'processing' AND s.routing_result#>>'{{claim,token}}' = t.token
  AND CASE WHEN s.routing_result#>>'{{claim,deadline}}' ~ '{TIME}'
    THEN (s.routing_result#>>'{{claim,deadline}}')::timestamptz > now() ELSE false END
RETURNING s.id"
            ),
            replay_read: format!(
                "-- replay_read
SELECT s.form_id, s.status::text AS status, s.routing_result, clock_timestamp() AS now, {infected} AS infected,
  {plan} AS plan FROM submissions s WHERE s.id = $1"
            ),
        }
    }
}

/// Writes the claims and the refusals of one batch. `$1` ids, `$2` status, `$3` keys to set, `$4` whether the old
/// document is replaced rather than merged, `$5` audit rows as `[{action, detail}]`, `$6` actor.
pub(super) const CLAIM_WRITE: &str = "-- claim_write
WITH w AS (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::bool[], $5::jsonb[]) AS t(id, status, keys, anew, audits)
), u AS (
  UPDATE submissions s SET status = w.status::submission_status, updated_at = clock_timestamp(),
    routing_result = CASE WHEN w.anew THEN w.keys
      ELSE (s.routing_result - '{claim,next_attempt_at}'::text[]) || w.keys END
  FROM w WHERE s.id = w.id AND s.status = 'received'
  RETURNING s.id, s.form_id, w.audits
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $6, (e->>'action')::audit_action, u.id, u.form_id, e->'detail' FROM u, jsonb_array_elements(u.audits) AS e
)
SELECT u.id FROM u";

/// What a mail is made from, besides the plan. A retention without an end (`infinity`) is far away here: the driver
/// knows no instant for it.
pub(super) const DOSSIER: &str = "-- dossier
SELECT s.form_id, f.name AS form_name, s.created_at, clock_timestamp() AS now,
  CASE WHEN s.retention_expires_at IS NOT NULL THEN
    least(greatest(s.retention_expires_at, 'epoch'), clock_timestamp() + interval '100 years') END AS retention_expires_at,
  COALESCE((SELECT jsonb_agg(jsonb_build_array(x.field_key, x.field_value) ORDER BY x.position, x.id)
    FROM submission_fields x WHERE x.submission_id = s.id), '[]') AS fields,
  COALESCE((SELECT jsonb_agg(jsonb_build_object('id', x.id, 'file_name', x.file_name, 'content_type', x.content_type,
      'size_bytes', x.size_bytes, 'bucket', x.gcs_bucket, 'object', x.gcs_object) ORDER BY x.created_at, x.id)
    FROM attachments x WHERE x.submission_id = s.id), '[]') AS attachments
FROM submissions s LEFT JOIN forms f ON f.id = s.form_id WHERE s.id = $1";

/// Merges facts, no matter who holds the claim (protocol §5): first wins, later ones are kept under `dups`, and a
/// nonce already known changes nothing. A fact of a former generation is kept there too and closes nothing: an
/// operator has asked for another mail since. `$1` id, `$2` token, `$3` `{key: {fact, audit}}`, `$4` actor.
///
/// The lock is held, so what `old` reads is what the UPDATE changes. Zero rows: all known already, or purged.
pub(super) const RECORD_FACTS: &str = "-- record_facts
WITH old AS (
  SELECT s.id, s.form_id, s.status,
    CASE WHEN jsonb_typeof(s.routing_result) = 'object' THEN s.routing_result ELSE '{}' END AS r,
    (s.status = 'processing' AND s.routing_result#>>'{claim,token}' = $2) IS TRUE AS mine
  FROM submissions s WHERE s.id = $1 AND s.status <> 'purged'
), n AS (
  SELECT old.id, old.form_id, e.key, e.value->'fact' AS fact, e.value->'audit' AS audit, old.mine,
    old.status IN ('routed', 'failed') AS late,
    CASE WHEN jsonb_typeof(old.r->'deliveries'->e.key) = 'object' THEN old.r->'deliveries'->e.key ELSE '{}' END AS d,
    COALESCE(e.value#>>'{fact,generation}', '0')
      <> COALESCE(old.r->'generations'->>split_part(e.key, '|', 1), '0') AS former
  FROM old, jsonb_each($3::jsonb) AS e
), k AS (
  SELECT n.*, n.d ? 'state' AND (n.former OR n.d->>'state' = 'accepted') AS beside,
    COALESCE(n.d->'dups', '[]') || COALESCE(n.d->'history', '[]') AS others FROM n
), fresh AS (
  SELECT k.*, CASE WHEN k.former
      THEN k.others @> jsonb_build_array(jsonb_build_object('generation', k.fact->'generation'))
      ELSE COALESCE(k.d->>'state' = 'accepted', false) END AS duplicate
  FROM k WHERE k.d->>'nonce' IS DISTINCT FROM k.fact->>'nonce'
    AND NOT k.others @> jsonb_build_array(jsonb_build_object('nonce', k.fact->>'nonce'))
    -- One queue id is one acceptance, whoever tells of it: the relay's own answer, or its log.
    AND (k.fact->>'queue_id' IS NULL OR (k.d->>'queue_id' IS DISTINCT FROM k.fact->>'queue_id'
      AND NOT k.others @> jsonb_build_array(jsonb_build_object('queue_id', k.fact->>'queue_id'))))
), u AS (
  UPDATE submissions s SET
    updated_at = CASE WHEN old.mine THEN clock_timestamp() ELSE s.updated_at END,
    routing_result = old.r || jsonb_build_object('v', COALESCE(old.r->'v', '1'), 'deliveries',
      COALESCE(old.r->'deliveries', '{}') || (SELECT jsonb_object_agg(fresh.key,
        CASE WHEN fresh.beside
          THEN fresh.d || jsonb_build_object('dups', COALESCE(fresh.d->'dups', '[]')
            || jsonb_build_array(fresh.fact || jsonb_build_object('at', clock_timestamp())))
          ELSE (fresh.d - '{begun,doubt,error,log_mark}'::text[]) || fresh.fact
            || jsonb_build_object('at', clock_timestamp(), 'late', fresh.late)
            || CASE WHEN fresh.d->'doubt' = 'true'
                OR (fresh.d ? 'begun' AND fresh.d#>>'{begun,token}' IS DISTINCT FROM $2)
              THEN '{\"doubted\": true}'::jsonb ELSE '{}' END
        END) FROM fresh))
  FROM old WHERE s.id = old.id AND EXISTS (SELECT FROM fresh) RETURNING s.id
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $4, 'email_sent', fresh.id, fresh.form_id, fresh.audit
    || jsonb_build_object('duplicate', fresh.duplicate, 'stale', NOT fresh.mine, 'late', fresh.late)
  FROM fresh
)
SELECT u.id FROM u";

/// Records every other outcome, fenced. `$1` id, `$2` token, `$3` `{key: {entry, audit}}` (audit null: none),
/// `$4` actor, `$5` happyfox_status (null: unchanged). A delivery that has a fact keeps it.
pub(super) const RECORD_OUTCOMES: &str = "-- record_outcomes
WITH old AS (
  SELECT s.id, s.form_id, s.routing_result AS r FROM submissions s
  WHERE s.id = $1 AND s.status = 'processing' AND s.routing_result#>>'{claim,token}' = $2
), n AS (
  SELECT old.id, old.form_id, e.key, e.value->'entry' AS entry, e.value->'audit' AS audit, old.r->'deliveries'->e.key AS d
  FROM old, jsonb_each($3::jsonb) AS e
  WHERE COALESCE(old.r->'deliveries'->e.key->>'state', 'open') = 'open'
), u AS (
  UPDATE submissions s SET updated_at = clock_timestamp(), happyfox_status = COALESCE($5, s.happyfox_status),
    routing_result = old.r || jsonb_build_object('deliveries', COALESCE(old.r->'deliveries', '{}')
      || COALESCE((SELECT jsonb_object_agg(n.key, (COALESCE(n.d, '{}') - 'begun') || n.entry
        || jsonb_build_object('at', clock_timestamp())) FROM n), '{}'))
  FROM old WHERE s.id = old.id RETURNING s.id
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $4, 'email_failed', n.id, n.form_id, n.audit FROM n WHERE jsonb_typeof(n.audit) = 'object'
)
SELECT u.id FROM u";

/// The ledger as it stands in this transaction, if the claim is still ours.
pub(super) const READ_OWN: &str = "-- read_own
SELECT s.routing_result, clock_timestamp() AS now FROM submissions s
WHERE s.id = $1 AND s.status = 'processing' AND s.routing_result#>>'{claim,token}' = $2";

/// Where a row stands.
pub(super) const READ_STATUS: &str = "-- read_status
SELECT s.status::text AS status FROM submissions s WHERE s.id = $1";

/// The terminal transition with its one audit row (P3), fenced. `$1` id, `$2` token, `$3` status, `$4` reason (null for
/// routed), `$5` audit action, `$6` audit detail, `$7` actor.
pub(super) const FINISH: &str = "-- finish
WITH u AS (
  UPDATE submissions s SET status = $3::text::submission_status, updated_at = clock_timestamp(),
    routing_result = (s.routing_result - '{claim,next_attempt_at}'::text[]) || jsonb_build_object('finished',
      jsonb_strip_nulls(jsonb_build_object('token', $2::text, 'at', clock_timestamp(), 'status', $3::text, 'reason', $4::text)))
  WHERE s.id = $1 AND s.status = 'processing' AND s.routing_result#>>'{claim,token}' = $2
    AND $3::text IN ('routed', 'failed')
  RETURNING s.id, s.form_id, s.updated_at
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $7, $5::text::audit_action, u.id, u.form_id, $6 FROM u
)
SELECT u.id, u.updated_at AS at FROM u";

/// Gives the submission back, fenced. `$1` id, `$2` token, `$3` pause in seconds, `$4` attempts refunded (0 or 1).
/// A begin mark of another claim that is still there has no outcome: it becomes doubt. One of this claim was never
/// followed by a send, because every record removes the marks of what was sent: it goes.
pub(super) const RELEASE: &str = "-- release
UPDATE submissions s SET status = 'received', updated_at = clock_timestamp(),
  routing_result = (s.routing_result - 'claim') || jsonb_build_object(
    'attempts', greatest((s.routing_result->>'attempts')::int - $4::int, 0),
    'next_attempt_at', clock_timestamp() + make_interval(secs => $3::float8),
    'deliveries', COALESCE((SELECT jsonb_object_agg(k, CASE
      WHEN jsonb_typeof(v) <> 'object' OR NOT v ? 'begun' OR v->>'state' IS DISTINCT FROM 'open' THEN v
      WHEN v#>>'{begun,token}' = $2 THEN v - 'begun'
      ELSE (v - 'begun') || '{\"doubt\": true}' END)
      FROM jsonb_each(s.routing_result->'deliveries') AS e(k, v)), '{}'))
WHERE s.id = $1 AND s.status = 'processing' AND s.routing_result#>>'{claim,token}' = $2
RETURNING s.id, (s.routing_result->>'next_attempt_at')::timestamptz AS due";

/// Opens an ended submission again, under the lock. `$1` id, `$2` keys to set, `$3` the override. The end and its alert
/// go: another failure is another alert.
pub(super) const REPLAY: &str = "-- replay
UPDATE submissions s SET status = 'received', updated_at = clock_timestamp(),
  routing_result = (s.routing_result - '{claim,finished,alert,next_attempt_at}'::text[]) || $2::jsonb
    || jsonb_build_object('overrides', COALESCE(s.routing_result->'overrides', '[]')
      || jsonb_build_array($3::jsonb || jsonb_build_object('at', clock_timestamp())))
WHERE s.id = $1 AND s.status IN ('failed', 'routed') RETURNING s.id";

/// How a claim ended, where the answer to its last record was lost.
pub(super) const READ_END: &str = "-- read_end
SELECT s.routing_result->'finished' AS finished FROM submissions s
WHERE s.id = $1 AND s.routing_result#>>'{finished,token}' = $2";
