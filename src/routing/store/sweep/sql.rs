//! The statements of the sweep. Each is led by its name. Locked rows are decided on in a later statement of the same
//! transaction; a ledger's shape is tested before anything is cast, so that a damaged one never aborts a page.

use crate::db::readiness::Readiness;
use crate::routing::store::due::{TIME, TOUCHED, has_come, is_too_far};

/// Keeps two sweeps from doing the same work; correctness never depends on it.
pub(super) const ALONE: &str = "-- sweep_alone
SELECT pg_try_advisory_xact_lock(hashtext('maple-router'), hashtext('sweep')) AS alone";

/// The texts that depend on the configuration, made once.
///
/// Stuck or infected rows are found first and locked after: asked for in order of id and locked at once, PostgreSQL expects
/// to be done soon with the primary key, and reads the whole table by it. (How many rows a status has PostgreSQL does not
/// know: row-level security keeps its statistics from it.)
#[derive(Debug)]
pub(in crate::routing::store) struct Statements {
    pub(super) stuck: String,
    pub(super) stuck_lock: String,
    pub(super) read: String,
    pub(super) orphans: String,
    pub(super) touch: String,
    pub(super) infected: String,
    pub(super) unready: String,
    pub(super) count: String,
}

/// SQL, boolean: untouched for `$1` seconds, and no history. Rows created before `$2` that name no claim of ours were left
/// behind by whatever routed before us, and are not ours to send.
const STUCK: &str = "s.status = 'processing' AND s.updated_at < now() - make_interval(secs => $1::float8)
  AND ($2::timestamptz IS NULL OR s.created_at >= $2 OR jsonb_typeof(s.routing_result->'claim') = 'object')";

/// SQL, boolean: a due retry that its event has not brought back for `$1` seconds, or without a due time one untouched for
/// `$2` seconds. A text that is no time counts as none, so that the claim comes to judge it.
fn due(longest: &str) -> String {
    let by = "< now() - make_interval(secs => $1::float8)";
    format!(
        "CASE WHEN s.routing_result->>'next_attempt_at' ~ '{TIME}'
  THEN {come} AND (s.updated_at {by} OR {too_far})
  ELSE s.updated_at < now() - make_interval(secs => $2::float8) END",
        come = has_come(by, longest),
        too_far = is_too_far(longest),
    )
}

impl Statements {
    pub(in crate::routing::store) fn new(readiness: &Readiness) -> Self {
        let visible = readiness.is_visible();
        let gate = readiness.gate("s");
        let (being_screened, being_graded) =
            (readiness.is_being_screened("s"), readiness.is_being_graded("s"));
        let (finalized, pending, infected, ready) = (
            readiness.is_finalized("s"),
            readiness.pending_count("s"),
            readiness.any_infected("s"),
            readiness.is_ready("s"),
        );
        let ours = "($3::timestamptz IS NULL OR s.created_at >= $3)";
        let orphan =
            |longest| format!("s.status = 'received' AND {ours} AND {due} AND {ready}", due = due(longest));
        Self {
            stuck: format!(
                "-- sweep_stuck
SELECT f.id FROM (
  SELECT s.id FROM submissions s WHERE {STUCK} AND ($3::uuid IS NULL OR s.id > $3) OFFSET 0
) AS f ORDER BY f.id LIMIT $4"
            ),
            // A row touched since it was found is not stuck any more.
            stuck_lock: format!(
                "-- sweep_stuck_lock
SELECT s.id FROM submissions s WHERE s.id = ANY($3::uuid[]) AND {STUCK}
ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED"
            ),
            read: format!(
                "-- sweep_read
SELECT s.id, s.form_id, s.status::text AS status, s.routing_result, s.routing_result#>>'{{claim,token}}' AS token,
  clock_timestamp() AS now, {finalized} AS finalized, {pending} AS pending, {infected} AS infected,
  {visible} AS visible, {gate} AS gate, {ready_at} AS ready_at, s.created_at, {TOUCHED} AS touched
FROM submissions s WHERE s.id = ANY($1::uuid[]) ORDER BY s.id",
                ready_at = readiness.ready_at("s"),
            ),
            orphans: format!(
                "-- sweep_orphans_lock
SELECT s.id FROM submissions s WHERE {orphan} AND (s.form_id = ANY($5::text[])) IS NOT TRUE
  AND s.id <> ALL($6::uuid[])
ORDER BY s.updated_at, s.id LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED",
                orphan = orphan("$7"),
            ),
            // Touched, so that the next pass does not find the rows again while they wait for their claim. A due time that
            // is not believed goes with it: the touch would put it off once more.
            touch: format!(
                "-- sweep_touch
UPDATE submissions s SET updated_at = clock_timestamp(),
  routing_result = CASE WHEN CASE WHEN s.routing_result->>'next_attempt_at' ~ '{TIME}' THEN {too_far} END
    THEN s.routing_result - 'next_attempt_at' ELSE s.routing_result END
WHERE s.id = ANY($1::uuid[]) AND s.status = 'received' AND {ready} RETURNING s.id, s.form_id",
                too_far = is_too_far("$2"),
            ),
            infected: format!(
                "-- sweep_infected
SELECT f.id FROM (
  SELECT s.id FROM submissions s WHERE s.status = 'received' AND ($1::timestamptz IS NULL OR s.created_at >= $1)
    AND ({infected} OR {gate} = 'out') AND ($2::uuid IS NULL OR s.id > $2) OFFSET 0
) AS f ORDER BY f.id LIMIT $3"
            ),
            unready: format!(
                "-- sweep_unready
WITH u AS MATERIALIZED (
  SELECT s.id, s.created_at FROM submissions s
  WHERE s.status = 'received' AND ($2::timestamptz IS NULL OR s.created_at >= $2)
    AND s.created_at < now() - make_interval(secs => $1::float8) AND NOT {ready} AND NOT {infected} AND NOT {being_screened}
    AND NOT {being_graded}
)
SELECT count(*) AS n, EXTRACT(EPOCH FROM now() - min(u.created_at) FILTER (WHERE isfinite(u.created_at)))::float8 AS oldest,
  (SELECT o.id FROM u AS o ORDER BY o.created_at, o.id LIMIT 1) AS sample, {visible} AS visible FROM u"
            ),
            count: format!(
                "-- sweep_count
SELECT (SELECT count(*) FROM submissions s WHERE {orphan}) AS orphans,
  (SELECT count(*) FROM submissions s WHERE s.status = 'received' AND {ours} AND {infected}) AS infected,
  (SELECT count(*) FROM submissions s WHERE {stuck}) AS stuck, {visible} AS visible",
                stuck = STUCK.replace("$1", "$4").replace("$2", "$3"),
                orphan = orphan("$5"),
            ),
        }
    }
}

/// Number of open submissions, and the age of the oldest since its creation. Rows created before `$1`, or at no instant
/// (`infinity`, from which PostgreSQL before 17 subtracts nothing), have no age. Two selects, so that each is answered from
/// its own partial index.
pub(super) const OPEN: &str = "-- sweep_open
SELECT 'received' AS status, count(*) AS n, EXTRACT(EPOCH FROM clock_timestamp() - min(s.created_at)
  FILTER (WHERE isfinite(s.created_at) AND ($1::timestamptz IS NULL OR s.created_at >= $1)))::float8 AS oldest
FROM submissions s WHERE s.status = 'received'
UNION ALL SELECT 'processing', count(*), EXTRACT(EPOCH FROM clock_timestamp() - min(s.created_at)
  FILTER (WHERE isfinite(s.created_at) AND ($1::timestamptz IS NULL OR s.created_at >= $1)))::float8
FROM submissions s WHERE s.status = 'processing'";

/// Number of submissions by end, and the time since the oldest last change. Counts everything: from the index on
/// (status, updated_at) where there is one, else by reading the table.
pub(super) const ENDED: &str = "-- sweep_ended
SELECT s.status::text AS status, count(*) AS n,
  EXTRACT(EPOCH FROM clock_timestamp() - min(s.updated_at) FILTER (WHERE isfinite(s.updated_at)))::float8 AS oldest
FROM submissions s WHERE s.status IN ('routed', 'failed', 'purged') GROUP BY s.status";

/// Takes claims back or ends them, fenced by the token that was read. `$1` ids, `$2` tokens, `$3` status, `$4` keys to
/// set, `$5` whether the old document is replaced rather than merged, `$6` audit rows as `[{action, detail}]`, `$7`
/// actor, `$8` an override to append (null: none).
pub(super) const WRITE: &str = "-- sweep_write
WITH w AS (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::bool[], $6::jsonb[])
    AS t(id, token, status, keys, anew, audits)
), u AS (
  UPDATE submissions s SET status = w.status::submission_status, updated_at = clock_timestamp(),
    routing_result = CASE WHEN w.anew THEN w.keys
        ELSE (s.routing_result - '{claim,next_attempt_at}'::text[]) || w.keys END
      || CASE WHEN $8::jsonb IS NULL THEN '{}' ELSE jsonb_build_object('overrides',
        CASE WHEN w.anew THEN '[]' ELSE COALESCE(s.routing_result->'overrides', '[]') END
        || jsonb_build_array($8 || jsonb_build_object('at', clock_timestamp()))) END
  FROM w WHERE s.id = w.id AND s.status = 'processing'
    AND s.routing_result#>>'{claim,token}' IS NOT DISTINCT FROM w.token
  RETURNING s.id, s.form_id, w.audits
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $7, (e->>'action')::audit_action, u.id, u.form_id, e->'detail' FROM u, jsonb_array_elements(u.audits) AS e
)
SELECT u.id FROM u";
