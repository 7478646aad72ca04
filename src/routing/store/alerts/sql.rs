//! The statements of the alerts. Each is led by its name.
//!
//! Documents may be damaged in any way: paths into them (`#>>`, `->`) answer NULL where there is nothing, values are
//! compared as text, and nothing is cast. Leases are written as UTC text of one width, so that comparing the texts compares
//! the times; a lease that reaches further than ours ever do was not written by us and binds nobody.

use crate::db::readiness::Readiness;
use crate::routing::submission::ledger::FailReason;

/// `2026-11-01T10:00:00.000000Z`: of one width, and what the ledger's readers expect.
const UTC: &str = "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'";

/// The words of `Stage`, as the ledger writes them.
pub(super) const STAGES: [&str; 19] = [
    "address", "template", "sign", "connect", "banner", "EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA",
    "dot", "fence", "contact", "category", "field", "GET", "POST", "",
];

/// The deliveries, where they are an object.
const DELIVERIES: &str = "jsonb_each(CASE WHEN jsonb_typeof(s.routing_result->'deliveries') = 'object'
      THEN s.routing_result->'deliveries' ELSE '{}' END)";
/// The first delivery that failed with an error, else the first open one with an error.
const FIRST_ERROR: &str =
    "WHERE e.v->>'state' IN ('failed', 'open') AND jsonb_typeof(e.v->'error') = 'object'
    ORDER BY e.v->>'state' COLLATE \"C\", e.k COLLATE \"C\" LIMIT 1";

/// SQL, boolean, never NULL: the failure of this row was not confirmed by Slack. Counted are failures that this daemon
/// finished, and those with an infected attachment that the scan worker recorded itself, after `not_before` (SQL,
/// timestamptz or NULL). A confirmation counts for the finish it names. What screening keeps out is told once a day, on the next
/// one: spam would bury the rest.
pub(in crate::routing::store) fn is_unalerted(readiness: &Readiness, not_before: &str) -> String {
    let infected = readiness.any_infected("s");
    format!(
        "(s.status = 'failed'
  AND (s.routing_result->'finished' IS NOT NULL
    OR (({not_before}::timestamptz IS NULL OR s.created_at >= {not_before}::timestamptz) AND {infected}))
  AND (s.routing_result#>>'{{alert,confirmed_at}}' IS NULL
    OR s.routing_result#>>'{{alert,for}}' IS DISTINCT FROM s.routing_result#>>'{{finished,token}}')
  AND (s.routing_result#>>'{{finished,reason}}' IS DISTINCT FROM '{out}' OR s.updated_at < {today}))",
        out = FailReason::ScreenedOut.label(),
        today = "(SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')",
    )
}

/// SQL, boolean: routed by this program, after `not_before` (SQL, timestamptz or NULL), with an attachment that is infected
/// now: the scan judged it so after the mails' intents were recorded.
pub(in crate::routing::store) fn is_late(readiness: &Readiness, not_before: &str) -> String {
    let infected = readiness.any_infected("s");
    format!(
        "(s.status = 'routed' AND ({not_before}::timestamptz IS NULL OR s.created_at >= {not_before}::timestamptz)
  AND s.routing_result->'finished' IS NOT NULL AND {infected})"
    )
}

/// SQL, boolean, never NULL: Slack has confirmed no alert of a late infection for the end that stands now.
const LATE_UNNOTIFIED: &str = "(s.routing_result#>>'{late_infection,confirmed_at}' IS NULL
    OR s.routing_result#>>'{late_infection,for}' IS DISTINCT FROM s.routing_result#>>'{finished,token}')";

/// SQL, boolean, never NULL: no lease of this row stands now, under `key` of the ledger. `seconds` is SQL, the length of a
/// lease.
fn is_free(key: &str, seconds: &str) -> String {
    let until = format!("s.routing_result#>>'{{{key},leased_until}}' COLLATE \"C\"");
    format!(
        "COALESCE({until} <= (SELECT to_char(now() AT TIME ZONE 'UTC', {UTC}))
    OR {until} > (SELECT to_char((now() + make_interval(secs => 2 * {seconds})) AT TIME ZONE 'UTC', {UTC})), true)"
    )
}

/// SQL, text, never NULL: the cause's key, of closed forms only.
fn cause() -> String {
    let quoted = |words: &mut dyn Iterator<Item = &'static str>| {
        words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
    };
    let reasons = quoted(&mut FailReason::ALL.iter().map(|reason| reason.label()));
    let detailed = [FailReason::Refused, FailReason::Exhausted, FailReason::InDoubt];
    let detailed = quoted(&mut detailed.iter().map(|reason| reason.label()));
    let stages = quoted(&mut STAGES.into_iter());
    let infected = FailReason::Infected.label();
    let reason = "s.routing_result#>>'{finished,reason}'";
    format!(
        "CASE WHEN s.routing_result->'finished' IS NULL THEN '{infected}'
    WHEN {reason} IN ({detailed}) THEN {reason} || COALESCE((
      SELECT '|' || CASE WHEN x.error->>'stage' IN ({stages}) THEN x.error->>'stage' ELSE '' END
        || '|' || CASE WHEN x.error->>'code' ~ '^[1-9][0-9]{{2}}$' THEN x.error->>'code' ELSE '' END
        || '|' || CASE WHEN x.error->>'enhanced' ~ '^[245][.][0-9]{{1,3}}[.][0-9]{{1,3}}$'
          THEN x.error->>'enhanced' ELSE '' END
      FROM (SELECT e.v->'error' AS error FROM {DELIVERIES} AS e(k, v) {FIRST_ERROR}) AS x), '')
    WHEN {reason} IN ({reasons}) THEN {reason} ELSE 'unknown' END"
    )
}

/// The texts that depend on the configuration, made once.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) causes: String,
    pub(super) candidates: String,
    pub(super) lease: String,
    pub(super) late_find: String,
    pub(super) late_lease: String,
}

impl Statements {
    pub(super) fn new(readiness: &Readiness) -> Self {
        let (unalerted, free, cause) =
            (is_unalerted(readiness, "$1"), is_free("alert", "$2::float8"), cause());
        let (late, late_free) = (is_late(readiness, "$1"), is_free("late_infection", "$2::float8"));
        Self {
            causes: format!(
                "-- alert_causes
SELECT f.cause, count(*) AS n FROM (
  SELECT s.updated_at, {cause} AS cause FROM submissions s
  WHERE {unalerted} AND {free} ORDER BY s.updated_at LIMIT $3
) AS f GROUP BY f.cause ORDER BY min(f.updated_at), f.cause LIMIT $4"
            ),
            candidates: format!(
                "-- alert_candidates
SELECT s.id FROM submissions s WHERE {unalerted} AND {free} AND {cause} = $3 LIMIT $4"
            ),
            // The row's lock makes the conditions asked here those of the write. A document that is no object cannot take a
            // confirmation; it is kept whole beside it.
            lease: format!(
                "-- alert_lease
UPDATE submissions s SET routing_result =
  CASE WHEN jsonb_typeof(s.routing_result) = 'object' THEN s.routing_result
    ELSE jsonb_build_object('damaged', s.routing_result) END
  || jsonb_build_object('alert',
    (CASE WHEN jsonb_typeof(s.routing_result->'alert') = 'object' THEN s.routing_result->'alert' ELSE '{{}}' END
      - 'confirmed_at')
    || jsonb_build_object('for', s.routing_result#>'{{finished,token}}', 'lease', $5::text,
      'leased_until', to_char((clock_timestamp() + make_interval(secs => $2::float8)) AT TIME ZONE 'UTC', {UTC})))
WHERE s.id = ANY($4::uuid[]) AND {unalerted} AND {free} AND {cause} = $3
RETURNING s.id"
            ),
            // One submission after the other, by its key: the planner estimates routed rows at a fifth of the table.
            late_find: format!(
                "-- late_infection_find
SELECT x.submission_id AS id, s.routed, s.unnotified FROM (
  SELECT DISTINCT x.submission_id FROM attachments x
  WHERE x.clamav_status = 'infected' AND ($3::uuid IS NULL OR x.submission_id > $3)
  ORDER BY x.submission_id LIMIT $4
) AS x LEFT JOIN LATERAL (
  SELECT true AS routed, {LATE_UNNOTIFIED} AND {late_free} AS unnotified FROM submissions s
  WHERE s.id = x.submission_id AND {late} OFFSET 0
) AS s ON true ORDER BY x.submission_id"
            ),
            late_lease: format!(
                "-- late_infection_lease
UPDATE submissions s SET routing_result = s.routing_result || jsonb_build_object('late_infection',
    (CASE WHEN jsonb_typeof(s.routing_result->'late_infection') = 'object' THEN s.routing_result->'late_infection'
      ELSE '{{}}' END - 'confirmed_at')
    || jsonb_build_object('for', s.routing_result#>'{{finished,token}}', 'lease', $4::text,
      'leased_until', to_char((clock_timestamp() + make_interval(secs => $2::float8)) AT TIME ZONE 'UTC', {UTC})))
WHERE s.id = ANY($3::uuid[]) AND {late} AND {LATE_UNNOTIFIED} AND {late_free}
RETURNING s.id, s.form_id, s.routing_result, clock_timestamp() AS now,
  CASE WHEN isfinite(s.retention_expires_at) THEN s.retention_expires_at END AS retention_expires_at"
            ),
        }
    }
}

/// A sample of rows: the one that waits longest, the number of their forms, and its error's reply. `$1` ids.
pub(super) const SAMPLE: &str = "-- alert_sample
WITH r AS (
  SELECT s.id, s.form_id, s.updated_at FROM submissions s WHERE s.id = ANY($1::uuid[])
), o AS (
  SELECT r.id FROM r ORDER BY r.updated_at, r.id LIMIT 1
)
SELECT s.id, s.form_id, (SELECT count(DISTINCT r.form_id) FROM r) AS forms, d.key, d.reply,
  CASE WHEN isfinite(s.updated_at) THEN EXTRACT(EPOCH FROM clock_timestamp() - s.updated_at)::float8
    ELSE 0 END AS age
FROM o JOIN submissions s ON s.id = o.id LEFT JOIN LATERAL (
  SELECT e.k AS key, e.v#>>'{error,reply}' AS reply
  FROM jsonb_each(CASE WHEN jsonb_typeof(s.routing_result->'deliveries') = 'object'
      THEN s.routing_result->'deliveries' ELSE '{}' END) AS e(k, v)
  WHERE e.v->>'state' IN ('failed', 'open') AND jsonb_typeof(e.v->'error') = 'object'
  ORDER BY e.v->>'state' COLLATE \"C\", e.k COLLATE \"C\" LIMIT 1) AS d ON true";

/// Confirms alerts that Slack took, for the finish that was leased, if that still stands. `$1` ids, `$2` lease token.
pub(super) const CONFIRM: &str = "-- alert_confirm
UPDATE submissions s SET routing_result = s.routing_result || jsonb_build_object('alert',
  ((s.routing_result->'alert') - '{lease,leased_until}'::text[])
    || jsonb_build_object('confirmed_at', clock_timestamp()))
WHERE s.id = ANY($1::uuid[]) AND s.status = 'failed' AND s.routing_result#>>'{alert,lease}' = $2
  AND s.routing_result#>>'{alert,for}' IS NOT DISTINCT FROM s.routing_result#>>'{finished,token}'";

/// Gives leases back, nobody being notified: others may take them. `$1` ids, `$2` lease token.
pub(super) const GIVE_BACK: &str = "-- alert_release
UPDATE submissions s SET routing_result = s.routing_result || jsonb_build_object('alert',
  (s.routing_result->'alert') - '{lease,leased_until}'::text[])
WHERE s.id = ANY($1::uuid[]) AND s.status = 'failed' AND s.routing_result#>>'{alert,lease}' = $2";

/// Confirms alerts that Slack took, for the end that was leased, if that still stands. `$1` ids, `$2` lease token.
pub(super) const LATE_CONFIRM: &str = "-- late_infection_confirm
UPDATE submissions s SET routing_result = s.routing_result || jsonb_build_object('late_infection',
  ((s.routing_result->'late_infection') - '{lease,leased_until}'::text[])
    || jsonb_build_object('confirmed_at', clock_timestamp()))
WHERE s.id = ANY($1::uuid[]) AND s.status = 'routed' AND s.routing_result#>>'{late_infection,lease}' = $2
  AND s.routing_result#>>'{late_infection,for}' IS NOT DISTINCT FROM s.routing_result#>>'{finished,token}'";

/// Gives leases back, nobody being notified: others may take them. `$1` ids, `$2` lease token.
pub(super) const LATE_GIVE_BACK: &str = "-- late_infection_release
UPDATE submissions s SET routing_result = s.routing_result || jsonb_build_object('late_infection',
  (s.routing_result->'late_infection') - '{lease,leased_until}'::text[])
WHERE s.id = ANY($1::uuid[]) AND s.routing_result#>>'{late_infection,lease}' = $2";
