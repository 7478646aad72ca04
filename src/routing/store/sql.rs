//! The statements of the store. Each is led by its name; what is decided on is read under the row's lock, by a statement of the
//! same transaction after the one that takes it, or by that one (protocol, "Every guarded write locks its row first").
//!
//! `now()` only compares and `clock_timestamp()` only writes, both unqualified, so that a test can shift the clock.
//! Keys are merged with `||`, and the document is never written back whole, so that keys unknown to this version survive.

use super::due::{TIME, TOUCHED};
use super::versions::{ARE_THERE, PlanRead};
use crate::db::readiness::Readiness;

/// Locks rows in id order, so that two batches in any scan order cannot deadlock. Rows that are gone, or locked by another
/// transaction, are not answered: one busy row must not hold up the others.
pub(super) const LOCK_MANY: &str = "-- lock_many
SELECT s.id FROM submissions s WHERE s.id = ANY($1::uuid[]) ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED";

/// [`LOCK_MANY`], waiting for each. `NO KEY`, so that an attachment being inserted elsewhere does not make us wait.
pub(super) const LOCK_AWAITED: &str = "-- lock_awaited
SELECT s.id FROM submissions s WHERE s.id = ANY($1::uuid[]) ORDER BY s.id FOR NO KEY UPDATE";

/// [`LOCK_MANY`] and [`READ_LOCKED`] in one: a statement that locks a row answers the version it has locked, though its snapshot
/// be older. True of the row alone, so nothing else may be read here. `now` is read outside, when all locks are taken.
pub(super) const LOCK_AND_READ: &str = "-- lock_and_read
SELECT l.id, l.status, l.routing_result, clock_timestamp() AS now
FROM (SELECT s.id, s.status::text AS status, s.routing_result FROM submissions s WHERE s.id = ANY($1::uuid[])
  ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED) AS l";

/// Locks one row.
pub(super) const LOCK_ONE: &str = "-- lock_one
SELECT s.id FROM submissions s WHERE s.id = $1 FOR NO KEY UPDATE";

/// The texts that are put together, made once.
#[derive(Debug)]
pub(super) struct Statements {
    /// The rows a claim is decided on. The plain text answers `versions`, too: whether there are any.
    pub(super) claim_read: PlanRead,
    /// The content of a mail, besides the plan.
    pub(super) content: String,
    /// The row a begin is decided on: [`READ_LOCKED`] with the attachments, which a scan may have judged since the claim.
    pub(super) read_begin: String,
    /// Proof of life of claims, fenced, never after a claim's deadline. `$1` ids, `$2` tokens. An id that is not answered
    /// has lost its claim, or names a deadline that is none.
    pub(super) heartbeat: String,
    pub(super) replay_read: PlanRead,
    /// Whether there are versions of forms.
    pub(super) versions: String,
    /// The row a back-fill is decided on.
    pub(super) backfill_read: String,
    pub(super) sweep: super::sweep::Statements,
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

/// SQL, columns: the content of a mail, besides the plan, the form's name and `id`, `form_id`, `created_at` and `now`; all
/// null unless `wanted` (SQL, boolean). To be read from `submissions s` and [`fields`]. A retention without an end
/// (`infinity`) is far away here: the driver knows no instant for it.
fn content(readiness: &Readiness, wanted: &str) -> String {
    let grade = readiness.grade("s");
    format!(
        "CASE WHEN {wanted} AND s.retention_expires_at IS NOT NULL THEN
    least(greatest(s.retention_expires_at, 'epoch'), clock_timestamp() + interval '100 years') END AS retention_expires_at,
  CASE WHEN {wanted} THEN COALESCE(x.keys, '{{}}') END AS field_keys,
  CASE WHEN {wanted} THEN COALESCE(x.values, '{{}}') END AS field_values,
  CASE WHEN {wanted} THEN COALESCE((SELECT jsonb_agg(jsonb_build_object('id', x.id, 'file_name', x.file_name,
      'content_type', x.content_type, 'size_bytes', x.size_bytes, 'sha256', encode(x.sha256, 'hex'), 'bucket', x.gcs_bucket, 'object', x.gcs_object)
      ORDER BY x.created_at, x.id)
    FROM attachments x WHERE x.submission_id = s.id), '[]') END AS attachments,
  CASE WHEN {wanted} THEN {grade} END AS grade"
    )
}

/// SQL, a join: the fields of `submissions s` in their order, `x.keys` beside `x.values`, looked up once.
fn fields(wanted: &str) -> String {
    format!(
        "LEFT JOIN LATERAL (SELECT array_agg(x.field_key) AS keys, array_agg(x.field_value) AS values
    FROM (SELECT x.field_key, x.field_value FROM submission_fields x WHERE x.submission_id = s.id AND {wanted}
      ORDER BY x.position, x.id) AS x) AS x ON true"
    )
}

impl Statements {
    pub(super) fn new(readiness: &Readiness) -> Self {
        let (finalized, pending, infected) =
            (readiness.is_finalized("s"), readiness.pending_count("s"), readiness.any_infected("s"));
        let (visible, gate, asked) =
            (readiness.is_visible(), readiness.gate_of("s"), readiness.gate_is_asked());
        let (plan, plan_of_form) = (current_plan("s.form_id", "$2"), current_plan("f.id", "$2"));
        let ready_at = readiness.ready_at("s");
        Self {
            sweep: super::sweep::Statements::new(readiness),
            // The plan is read only where it may have to be pinned, and once for all of a form.
            claim_read: PlanRead::new("claim_read", "f.id", |name, version, there| {
                format!(
                    "-- {name}
WITH p AS MATERIALIZED (
  SELECT f.id, f.name, {plan_of_form} AS plan, {version} AS version FROM forms f WHERE f.id IN (
    SELECT s.form_id FROM submissions s WHERE s.id = ANY($1::uuid[]) AND s.status = 'received')
)
SELECT s.id, s.form_id, s.status::text AS status, s.routing_result, s.created_at, {TOUCHED} AS touched, clock_timestamp() AS now,
  {finalized} AS finalized, {pending} AS pending, {infected} AS infected, {visible} AS visible, gate.says AS gate, {asked} AS asked,
  {ready_at} AS ready_at, CASE WHEN s.status = 'received' THEN COALESCE(p.plan, '[]') END AS plan,
  p.name AS form_name, p.version, {there} AS versions,
  {}
FROM submissions s {gate} LEFT JOIN p ON p.id = s.form_id AND s.status = 'received'
  {}
WHERE s.id = ANY($1::uuid[])",
                    content(readiness, "s.status = 'received'"),
                    fields("s.status = 'received'")
                )
            }),
            content: format!(
                "-- content
SELECT s.id, s.form_id, s.created_at, clock_timestamp() AS now,
  (SELECT f.name FROM forms f WHERE f.id = s.form_id) AS form_name, {visible} AS visible,
  {}
FROM submissions s {} WHERE s.id = $1",
                content(readiness, "true"),
                fields("true")
            ),
            read_begin: format!(
                "-- read_begin
SELECT s.id, s.status::text AS status, s.routing_result, clock_timestamp() AS now,
  {pending} AS pending, {infected} AS infected, {visible} AS visible
FROM submissions s WHERE s.id = ANY($1::uuid[])"
            ),
            heartbeat: format!(
                "-- heartbeat
UPDATE submissions s SET updated_at = clock_timestamp() FROM unnest($1::uuid[], $2::text[]) AS t(id, token)
WHERE s.id = t.id AND s.status = 'processing' AND s.routing_result#>>'{{claim,token}}' = t.token
  AND CASE WHEN s.routing_result#>>'{{claim,deadline}}' ~ '{TIME}'
    THEN (s.routing_result#>>'{{claim,deadline}}')::timestamptz > now() ELSE false END
RETURNING s.id"
            ),
            replay_read: PlanRead::new("replay_read", "s.form_id", |name, version, _| {
                format!(
                    "-- {name}
SELECT s.form_id, s.status::text AS status, s.routing_result, clock_timestamp() AS now, {infected} AS infected,
  {plan} AS plan, {version} AS version FROM submissions s WHERE s.id = $1"
                )
            }),
            versions: format!("-- versions_are_there\nSELECT {ARE_THERE} AS versions"),
            backfill_read: format!(
                "-- backfill_read
SELECT s.form_id, s.status::text AS status, s.routing_result, clock_timestamp() AS now, {infected} AS infected
FROM submissions s WHERE s.id = $1"
            ),
        }
    }
}

/// Writes the claims and the refusals of one batch. `$1` ids, `$2` status, `$3` keys to set, `$4` whether the old
/// document is replaced rather than merged, `$5` audit rows as `[{action, detail}]`, `$6` actor. A plan takes the place of
/// its predecessor's version, too.
pub(super) const CLAIM_WRITE: &str = "-- claim_write
WITH w AS (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::bool[], $5::jsonb[]) AS t(id, status, keys, anew, audits)
), u AS (
  UPDATE submissions s SET status = w.status::submission_status, updated_at = clock_timestamp(),
    routing_result = CASE WHEN w.anew THEN w.keys
      ELSE (s.routing_result - CASE WHEN w.keys ? 'plan' THEN '{claim,next_attempt_at,version}'::text[]
        ELSE '{claim,next_attempt_at}' END) || w.keys END
  FROM w WHERE s.id = w.id AND s.status = 'received'
  RETURNING s.id, s.form_id, w.audits
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $6, (e->>'action')::audit_action, u.id, u.form_id, e->'detail' FROM u, jsonb_array_elements(u.audits) AS e
)
SELECT u.id FROM u";

/// The row a record is decided on.
pub(super) const READ_LOCKED: &str = "-- read_locked
SELECT s.id, s.status::text AS status, s.routing_result, clock_timestamp() AS now
FROM submissions s WHERE s.id = ANY($1::uuid[])";

/// The readable parts of documents that cannot be parsed as a whole: each delivery, and what facts need besides.
pub(super) const SALVAGE: &str = "-- salvage
SELECT s.id, e.key, e.value, s.routing_result->'generations' AS generations, s.routing_result ? 'v' AS signed
FROM submissions s LEFT JOIN LATERAL jsonb_each(
  CASE WHEN jsonb_typeof(s.routing_result->'deliveries') = 'object' THEN s.routing_result->'deliveries' END) AS e ON true
WHERE s.id = ANY($1::uuid[])";

/// Writes what was decided about locked rows. `$1` ids, and of each `$2` status (null: stays), `$3` whether `updated_at`
/// moves, `$4` whether the claim goes, `$5` keys to set, `$6` deliveries to set beside others that stay (null: none), `$7`
/// happyfox_status (null: stays), `$8` audit rows as `[{action, detail}]`; `$9` actor.
pub(super) const WRITE_LOCKED: &str = "-- write_locked
WITH u AS (
  UPDATE submissions s SET status = COALESCE(w.status::submission_status, s.status),
    updated_at = CASE WHEN w.touched THEN clock_timestamp() ELSE s.updated_at END,
    happyfox_status = COALESCE(w.happyfox, s.happyfox_status),
    routing_result = (CASE WHEN jsonb_typeof(s.routing_result) IS DISTINCT FROM 'object' THEN '{}'
        WHEN w.ends THEN s.routing_result - '{claim,next_attempt_at}'::text[] ELSE s.routing_result END) || w.keys
      || CASE WHEN w.deliveries IS NULL THEN '{}' ELSE jsonb_build_object('deliveries',
        CASE WHEN jsonb_typeof(s.routing_result->'deliveries') = 'object'
          THEN (s.routing_result->'deliveries') || w.deliveries ELSE w.deliveries END) END
  FROM unnest($1::uuid[], $2::text[], $3::bool[], $4::bool[], $5::jsonb[], $6::jsonb[], $7::text[], $8::jsonb[])
    AS w(id, status, touched, ends, keys, deliveries, happyfox, audits)
  WHERE s.id = w.id
  RETURNING s.id, s.form_id, w.audits
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $9, (e->>'action')::audit_action, u.id, u.form_id, e->'detail' FROM u, jsonb_array_elements(u.audits) AS e
)
SELECT u.id FROM u";

/// Says of locked rows which tickets they became. By itself, because only a host with a help desk has the right to it. `$1` ids,
/// `$2` tickets.
pub(super) const WRITE_TICKETS: &str = "-- write_tickets
UPDATE submissions s SET happyfox_ticket_id = t.ticket FROM unnest($1::uuid[], $2::text[]) AS t(id, ticket)
WHERE s.id = t.id";

/// Opens an ended submission again, under the lock. `$1` id, `$2` keys to set, `$3` the override, `$4` status. The end and
/// its alert go: another failure is another alert. A plan takes the place of its predecessor's version, too. A replay and a
/// back-fill say it.
pub(super) const REPLAY: &str = "-- replay
UPDATE submissions s SET status = $4::text::submission_status, updated_at = clock_timestamp(),
  routing_result = (s.routing_result - CASE WHEN $2::jsonb ? 'plan' THEN '{claim,finished,alert,next_attempt_at,version}'::text[]
    ELSE '{claim,finished,alert,next_attempt_at}' END) || $2::jsonb
    || jsonb_build_object('overrides', COALESCE(s.routing_result->'overrides', '[]')
      || jsonb_build_array($3::jsonb || jsonb_build_object('at', clock_timestamp())))
WHERE s.id = $1 AND s.status IN ('failed', 'routed') RETURNING s.id";

/// Whether this role sees submissions at all: no policy that binds it hides every one. A policy that shows it some is the
/// database's own choice, of which `check` warns.
pub(super) const SUBMISSIONS_SHOWN: &str = "-- submissions_shown
SELECT NOT row_security_active(c.oid) OR EXISTS (SELECT FROM pg_policy p
  WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd IN ('*', 'r')
    AND EXISTS (SELECT FROM unnest(p.polroles) AS r (oid) WHERE r.oid = 0 OR pg_has_role(r.oid, 'USAGE'))) AS shown
FROM pg_class c WHERE c.oid = 'submissions'::regclass";

/// Whether this role certainly sees every submission: only then one that is not found is gone. A policy whose condition is
/// not literally `true` may hide one.
pub(super) const SUBMISSIONS_ALL_SHOWN: &str = "-- submissions_all_shown
SELECT c.relkind IN ('r', 'p') AND (NOT row_security_active(c.oid) OR COALESCE((
  SELECT bool_or(p.permissive AND p.all_rows) AND bool_and(p.permissive OR p.all_rows) FROM (
    SELECT p.polpermissive AS permissive, pg_get_expr(p.polqual, p.polrelid) IS NOT DISTINCT FROM 'true' AS all_rows
    FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd IN ('*', 'r')
      AND EXISTS (SELECT FROM unnest(p.polroles) AS r (oid) WHERE r.oid = 0 OR pg_has_role(r.oid, 'USAGE'))) AS p), false))
  AS shown
FROM pg_class c WHERE c.oid = 'submissions'::regclass";

/// The end of a claim, where the answer to its last record was lost.
pub(super) const READ_END: &str = "-- read_end
SELECT s.routing_result->'finished' AS finished FROM submissions s
WHERE s.id = $1 AND s.routing_result#>>'{finished,token}' = $2";
