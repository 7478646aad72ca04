//! The statements of the view. Each is led by its name; none writes. A ledger's shape is tested before anything is
//! taken from it, so that a damaged one never aborts a statement about many.

use crate::db::readiness::Readiness;
use crate::routing::store::alerts::{is_late, is_unalerted};
use crate::routing::store::due::TIME;
use crate::routing::store::sql::current_plan;
use crate::routing::store::versions::{ARE_THERE, FOLLOWED, VERSION};

/// The texts that depend on the configuration, made once.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) row: String,
    /// The version that form `$1` follows, and since when; to be asked where there are versions.
    pub(super) followed: String,
    pub(super) list: String,
    pub(super) list_newest: String,
    /// A page of all submissions, the one that changed last first, behind `$12` and `$13`, and not beyond `$15` and `$16`.
    pub(super) list_page: String,
    pub(super) grouped: String,
    pub(super) unalerted: String,
    /// Mails that were accepted since `$1`, at most a week ago, and have no known relay status, or wait in the relay's
    /// queue. A fact that comes late changes no `updated_at`, hence the day more.
    pub(super) undelivered: String,
}

impl Statements {
    pub(super) fn new(readiness: &Readiness) -> Self {
        let (finalized, infected) = (readiness.is_finalized("s"), readiness.any_infected("s"));
        let pending = readiness.pending_count("s");
        let (gate, run, attempt) = (readiness.gate("s"), readiness.run("s"), readiness.attempt("s"));
        let late = is_late(readiness, "$11");
        let selected = selected(&infected, &late);
        let (plan, unalerted) = (current_plan("s.form_id", "$2"), is_unalerted(readiness, "$1"));
        Self {
            row: format!(
                "-- view_row
SELECT s.form_id, f.name AS form_name, s.status::text AS status, s.routing_result, s.created_at, s.updated_at,
  CASE WHEN isfinite(s.retention_expires_at) THEN s.retention_expires_at END AS retention_expires_at,
  clock_timestamp() AS now, {finalized} AS finalized, {pending} AS pending, {infected} AS infected, {gate} AS gate, {run} AS run, {attempt} AS attempt, {plan} AS plan,
  {ARE_THERE} AS versions,
  COALESCE((SELECT jsonb_agg(jsonb_build_object('id', x.id, 'file_name', x.file_name, 'clamav_status', x.clamav_status)
    ORDER BY x.created_at, x.id) FROM attachments x WHERE x.submission_id = s.id), '[]') AS attachments
FROM submissions s LEFT JOIN forms f ON f.id = s.form_id WHERE s.id = $1"
            ),
            followed: format!("-- view_followed\nSELECT {VERSION} AS version, c.moved_at {FOLLOWED} $1"),
            list: format!(
                "-- view_list
{selected} SELECT l.* FROM l WHERE $6::text IS NULL OR l.reason = $6 ORDER BY l.updated_at, l.id LIMIT $12"
            ),
            list_newest: format!(
                "-- view_list_newest
{selected} SELECT l.* FROM l WHERE $6::text IS NULL OR l.reason = $6 ORDER BY l.updated_at DESC, l.id DESC LIMIT $12"
            ),
            list_page: format!(
                "-- view_list_page
SELECT l.id, l.form_id, l.status, l.created_at, l.updated_at, l.routing_result, l.reason
FROM unnest(COALESCE($1::text[]::submission_status[], enum_range(NULL::submission_status))) AS k(status)
CROSS JOIN LATERAL (SELECT l.* FROM ({}) l WHERE $6::text IS NULL OR l.reason = $6
  ORDER BY l.kind DESC, l.updated_at DESC, l.id DESC LIMIT $14) l
ORDER BY l.updated_at DESC, l.id DESC LIMIT $14",
                // Row security hides from the planner that a status is one: without it in the order, each is sorted as a whole.
                matching(
                    "s.status AS kind, ",
                    (&infected, &late),
                    "s.status = k.status AND (s.updated_at, s.id) < (COALESCE($12, 'infinity'::timestamptz),
      COALESCE($13, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
    AND (s.updated_at, s.id) >= (COALESCE($15, '-infinity'::timestamptz),
      COALESCE($16, '00000000-0000-0000-0000-000000000000'::uuid))"
                )
            ),
            grouped: format!(
                "-- view_grouped
{selected} SELECT CASE $12::text WHEN 'form' THEN l.form_id WHEN 'status' THEN l.status WHEN 'reason' THEN l.reason
    WHEN 'day' THEN CASE WHEN isfinite(l.created_at) THEN to_char(l.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END END
    AS key, count(*) AS n
FROM l WHERE $6::text IS NULL OR l.reason = $6 GROUP BY 1"
            ),
            unalerted: format!(
                "-- view_unalerted
SELECT count(*) AS n FROM submissions s WHERE {unalerted}"
            ),
            undelivered: format!(
                "-- view_undelivered
SELECT count(*) AS n, EXTRACT(EPOCH FROM clock_timestamp() - min(d.at))::float8 AS oldest FROM (
  SELECT CASE WHEN e.v->>'at' ~ '{TIME}' THEN (e.v->>'at')::timestamptz END AS at
  FROM submissions s CROSS JOIN LATERAL {DELIVERIES}
  WHERE s.status IN ('received', 'processing', 'routed', 'failed') AND s.updated_at >= now() - interval '8 days'
    AND e.v->>'state' = 'accepted' AND (e.v#>>'{{relay,status}}' IS NULL OR e.v#>>'{{relay,status}}' = 'deferred'
      OR COALESCE(e.v#>>'{{relay,generation}}', '0') <> COALESCE(e.v->>'generation', '0'))
) d WHERE d.at >= GREATEST($1::timestamptz, now() - interval '7 days')"
            ),
        }
    }
}

/// SQL: `l`, the submissions of a selection but for their reason, which is `$6`. A failure that the scan worker recorded by
/// itself has no reason in the ledger.
fn selected(infected: &str, late: &str) -> String {
    let status = "($1::text[] IS NULL OR s.status = ANY($1::text[]::submission_status[]))";
    format!("WITH l AS NOT MATERIALIZED ({})", matching("", (infected, late), status))
}

/// SQL: the same as a question of its own, with `further` columns first, of the submissions `s` for which `among` is true.
fn matching(further: &str, (infected, late): (&str, &str), among: &str) -> String {
    let lost = lost();
    format!(
        "
  SELECT {further}s.id, s.form_id, s.status::text AS status, s.created_at, s.updated_at, s.routing_result,
    COALESCE(s.routing_result#>>'{{finished,reason}}', CASE WHEN s.status = 'failed' AND {infected} THEN 'infected' END)
      AS reason
  FROM submissions s
  WHERE (NOT $7::bool OR {lost}) AND (NOT $10::bool OR {late})
    AND {among}
    AND ($2::text IS NULL OR s.form_id = $2)
    AND ($3::float8 IS NULL OR s.updated_at < now() - make_interval(secs => $3))
    AND ($4::timestamptz IS NULL OR s.created_at >= $4)
    AND ($5::float8 IS NULL OR s.created_at >= now() - make_interval(secs => $5))
    AND ($8::text IS NULL OR EXISTS (SELECT FROM {DELIVERIES} WHERE lower(substr(e.k, strpos(e.k, '|') + 1)) = $8))
    AND ($9::uuid IS NULL OR s.id = $9)
"
    )
}

/// How far back a page looks for what is seldom: the later of the `$5`th submissions of each status, counted from the page's
/// beginning. By the same index as the page, and in the same order.
pub(super) const LIST_HORIZON: &str = "-- view_list_horizon
SELECT h.updated_at, h.id
FROM unnest(COALESCE($1::text[]::submission_status[], enum_range(NULL::submission_status))) AS k(status)
CROSS JOIN LATERAL (SELECT s.updated_at, s.id FROM submissions s
  WHERE s.status = k.status AND ($2::float8 IS NULL OR s.updated_at < now() - make_interval(secs => $2))
    AND (s.updated_at, s.id) < (COALESCE($3, 'infinity'::timestamptz),
      COALESCE($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
  ORDER BY s.status DESC, s.updated_at DESC, s.id DESC OFFSET $5::bigint - 1 LIMIT 1) h
ORDER BY h.updated_at DESC, h.id DESC LIMIT 1";

/// A query for a person to run: the audit rows that name a recipient by an unkeyed digest.
pub const UNKEYED_ROWS: &str = "SELECT id FROM audit_log WHERE detail->'recipient' ? 'sha256'";

/// SQL, jsonb: the deliveries of submission `s`, where they are an object.
const DELIVERIES: &str = "jsonb_each(CASE WHEN jsonb_typeof(s.routing_result->'deliveries') = 'object'
      THEN s.routing_result->'deliveries' ELSE '{}' END) AS e(k, v)";

/// SQL, boolean, never NULL: a mail of submission `s`, of its delivery's present generation (`Ledger::generation_of`), was lost
/// after acceptance.
fn lost() -> String {
    format!(
        "EXISTS (SELECT FROM {DELIVERIES}
      WHERE e.v#>>'{{relay,status}}' IN ('bounced', 'expired') AND COALESCE(e.v#>>'{{relay,generation}}', '0')
        = COALESCE(CASE WHEN e.v->>'state' = 'accepted' THEN e.v->>'generation'
          ELSE s.routing_result#>>ARRAY['generations', split_part(e.k, '|', 1)] END, '0'))"
    )
}

/// Number of submissions in each status, and the age of the oldest: since its creation while the status is open, since
/// its last change once it is an end. Answered from the index on (status, updated_at) where there is one, else by reading
/// the table.
pub(super) const COUNTS: &str = "-- view_counts
WITH c AS (
  SELECT s.status, count(*) AS n, min(s.updated_at) FILTER (WHERE isfinite(s.updated_at)) AS changed
  FROM submissions s GROUP BY s.status
), o AS (
  SELECT s.status, min(s.created_at) FILTER (WHERE isfinite(s.created_at)) AS created FROM submissions s
  WHERE s.status IN ('received', 'processing') GROUP BY s.status
)
SELECT e.status::text AS status, COALESCE(c.n, 0) AS n,
  EXTRACT(EPOCH FROM clock_timestamp() - CASE WHEN e.status IN ('received', 'processing') THEN o.created
    ELSE c.changed END)::float8 AS oldest
FROM unnest(enum_range(NULL::submission_status)) AS e(status)
LEFT JOIN c ON c.status = e.status LEFT JOIN o ON o.status = e.status";

/// Open submissions by the attempts they have cost, and their deliveries in doubt: recorded as such, or with an intent of a
/// claim that is not the live one.
pub(super) const OPEN: &str = "-- view_open
WITH o AS MATERIALIZED (
  SELECT s.status, CASE WHEN jsonb_typeof(s.routing_result) = 'object' THEN s.routing_result END AS r
  FROM submissions s WHERE s.status IN ('received', 'processing')
), d AS (
  SELECT count(*) AS n FROM o, jsonb_each(
      CASE WHEN jsonb_typeof(o.r->'deliveries') = 'object' THEN o.r->'deliveries' ELSE '{}' END) AS e(k, v)
  WHERE COALESCE(e.v->>'state', 'open') = 'open' AND (e.v->'doubt' = 'true'
    OR (jsonb_typeof(e.v->'begun') = 'object' AND (o.status = 'received'
      OR e.v#>>'{begun,token}' IS DISTINCT FROM o.r#>>'{claim,token}')))
)
SELECT a.attempts, count(*) AS n, (SELECT d.n FROM d) AS in_doubt FROM (
  SELECT CASE WHEN NOT o.r ? 'attempts' THEN '0'
    WHEN o.r->>'attempts' ~ '^[0-9]{1,9}$' THEN o.r->>'attempts' END AS attempts
  FROM o UNION ALL SELECT NULL) AS a
GROUP BY a.attempts";

/// Routed submissions of which nothing was sent. The column narrows them down before any ledger is opened.
pub(super) const NOT_IMPLEMENTED_ONLY: &str = "-- view_not_implemented_only
SELECT count(*) AS n FROM (
  SELECT s.routing_result->'deliveries' AS d FROM submissions s
  WHERE s.status = 'routed' AND s.happyfox_status = 'deferred' OFFSET 0) AS r
WHERE jsonb_typeof(r.d) = 'object' AND r.d <> '{}' AND NOT EXISTS (
  SELECT FROM jsonb_each(CASE WHEN jsonb_typeof(r.d) = 'object' THEN r.d ELSE '{}' END) AS e(k, v)
  WHERE e.v->>'state' IS DISTINCT FROM 'not_implemented')";

/// Whether this role sees rows of the audit log at all: an empty answer alone would prove nothing.
pub(super) const AUDIT_READABLE: &str = "-- view_audit_readable
SELECT has_table_privilege(c.oid, 'SELECT') AND (NOT row_security_active(c.oid) OR EXISTS (
  SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd IN ('*', 'r')
    AND EXISTS (SELECT FROM unnest(p.polroles) AS r(oid) WHERE r.oid = 0 OR pg_has_role(r.oid, 'USAGE')))) AS readable
FROM pg_class c WHERE c.oid = to_regclass('audit_log')";

/// Kinds of recipients' digests, and their numbers. Reads the whole log.
pub(super) const AUDIT_DIGESTS: &str = "-- view_audit_digests
SELECT a.detail #>> '{recipient,key}' AS key, a.detail->'recipient' ? 'sha256' AS unkeyed, count(*) AS n,
  min(a.occurred_at) AS first, max(a.occurred_at) AS last
FROM audit_log a WHERE jsonb_typeof(a.detail->'recipient') = 'object' GROUP BY 1, 2 ORDER BY 4, 1";

/// The names of all forms; there are few.
pub(super) const FORMS: &str = "-- view_forms
SELECT f.id FROM forms f ORDER BY f.id LIMIT 10000";

/// Submissions whose ids lie between `$1` and `$2`, `$3` at most.
pub(super) const SUBMISSIONS_BETWEEN: &str = "-- view_submissions_between
SELECT s.id, s.status::text AS status, s.form_id AS about FROM submissions s
WHERE s.id >= $1 AND s.id <= $2 ORDER BY s.id LIMIT $3";

/// Attachments whose ids lie between `$1` and `$2`, `$3` at most.
pub(super) const ATTACHMENTS_BETWEEN: &str = "-- view_attachments_between
SELECT x.id, COALESCE(x.clamav_status::text, '') AS status, 'of submission ' || x.submission_id AS about FROM attachments x
WHERE x.id >= $1 AND x.id <= $2 ORDER BY x.id LIMIT $3";

/// The trail of one submission.
pub(super) const AUDIT: &str = "-- view_audit
SELECT a.occurred_at, a.actor, a.action::text AS action, a.detail FROM audit_log a
WHERE a.submission_id = $1 ORDER BY a.id";
