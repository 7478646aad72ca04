//! The statements of form versions that are not the kernel's. Each starts with its name.

use super::relation::columns;

macro_rules! selected {
    () => {
        concat!(
            "o.id, o.state, 0 AS attempts, 0 AS claims, NULL::uuid AS lease_token, NULL::bigint AS version, ",
            columns!()
        )
    };
}

// Naming a table of a schema that may not be used is an error, so the schema is asked first.
pub(super) const THERE: &str = "-- version_there
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('content'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('content.versions'), 'SELECT'), false) ELSE false END AS there";

/// `$1` form. One form's versions are loaded one after the other, so that numbers follow each other.
pub(super) const LOCK_FORM: &str = "-- version_lock_form
SELECT pg_advisory_xact_lock(hashtextextended($1, 7007))";

/// `$1` form, `$2` digest in hexadecimal digits.
pub(super) const BY_DIGEST: &str = concat!(
    "-- version_by_digest\nSELECT ",
    selected!(),
    " FROM content.versions o WHERE o.form_id = $1 AND o.digest = decode($2, 'hex') AND o.state <> 'tombstoned'"
);

/// `$1` form, `$2` number.
pub(super) const BY_NUMBER: &str = concat!(
    "-- version_by_number\nSELECT ",
    selected!(),
    " FROM content.versions o WHERE o.form_id = $1 AND o.number = $2"
);

/// `$1` id.
pub(super) const BY_ID: &str =
    concat!("-- version_by_id\nSELECT ", selected!(), " FROM content.versions o WHERE o.id = $1");

/// `$1` form, `$2` the most.
pub(super) const OF_FORM: &str = concat!(
    "-- version_of_form\nSELECT ",
    selected!(),
    " FROM content.versions o WHERE o.form_id = $1 ORDER BY o.number DESC LIMIT $2"
);

/// `$1` id, `$2` form, `$3` digest, `$4` source, `$5` author, `$6` actor, `$7` kinds, `$8` keys, `$9` contents.
pub(super) const LOAD: &str = "-- version_load
INSERT INTO content.versions (id, form_id, number, digest, source, author)
SELECT $1, $2, COALESCE(max(v.number), 0) + 1, decode($3, 'hex'), $4, $5 FROM content.versions v WHERE v.form_id = $2
RETURNING number";

/// `$1` id, `$2` kinds, `$3` keys, `$4` contents.
pub(super) const LOAD_ENTRIES: &str = "-- version_load_entries
INSERT INTO content.entries (version_id, kind, key, content)
SELECT $1, e.kind, e.key, e.content FROM unnest($2::text[], $3::text[], $4::jsonb[]) AS e(kind, key, content)";

/// `$1` id, `$2` state, `$3` command, `$4` actor, `$5` role.
pub(super) const BORN: &str = "-- version_born
INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
VALUES ('version', $1::uuid::text, '-', $2, $3, $4, $5)";

/// `$1` id.
pub(super) const ENTRIES: &str = "-- version_entries
SELECT e.kind, e.key, e.content FROM content.entries e WHERE e.version_id = $1 ORDER BY e.kind, e.key";

/// `$1` id, `$2` command, `$3` digest, `$4` digest of the policy, `$5` actor.
pub(super) const ALLOW: &str = "-- version_allow
INSERT INTO content.decisions (version_id, command, digest, policy, allowed, actor)
VALUES ($1, $2, decode($3, 'hex'), decode($4, 'hex'), true, $5)";

/// `$1` id, `$2` command, `$3` digest, `$4` digest of the policy or none, `$5` reasons, `$6` actor.
pub(super) const REFUSE: &str = "-- version_refuse
SELECT content.refuse($1, $2, decode($3, 'hex'), decode($4, 'hex'), $5, $6) IS NULL AS refused";

/// `$1` id, `$2` expected current version or none, `$3` digest of the policy, `$4` actor, `$5` role, `$6` reason.
pub(super) const PROMOTE: &str = "-- version_promote
SELECT content.promote($1, $2, decode($3, 'hex'), $4, $5, $6) IS NULL AS moved";

/// `$1` form.
pub(super) const CURRENT: &str = "-- version_current
SELECT c.version_id, c.previous, c.moved_at, c.moved_by FROM content.current c WHERE c.form_id = $1";

/// `$1` form, `$2` SHA-256 in hexadecimal digits. Of several owners' uploads of the same bytes the first clean one is taken.
pub(super) const FILES: &str = "-- version_files
SELECT DISTINCT ON (w.sha256) w.sha256, b.id, b.verdict, b.shown_type, b.length
FROM unnest($2::text[]) AS w(sha256) JOIN content.blobs b ON b.form_id = $1 AND b.sha256 = decode(w.sha256, 'hex') AND b.state <> 'deleted'
ORDER BY w.sha256, b.verdict <> 'clean', b.id";

/// `$1` form, `$2` templates. Other forms whose rows use them.
pub(super) const SHARED: &str = "-- version_shared
SELECT DISTINCT a.template_id, a.form_id, EXISTS (SELECT FROM content.current c WHERE c.form_id = a.form_id) AS managed
FROM actions a WHERE a.template_id = ANY($2::text[]) AND a.form_id <> $1 ORDER BY 1, 2";

/// `$1` form. What the tables have of it.
pub(super) const ROWS: &str = "-- version_rows
SELECT r.kind, r.key, r.content FROM content.rows_of($1) AS r ORDER BY r.kind, r.key";

/// `$1` form.
pub(super) const FORM_NAME: &str = "-- version_form_name
SELECT f.name FROM forms f WHERE f.id = $1";

/// `$1` the most. Every form that has rows or versions.
pub(super) const FORMS: &str = "-- version_forms
SELECT f.id AS form_id, f.name, cv.number AS current, c.moved_at, c.moved_by, n.drafts, n.published, n.newest
FROM (SELECT f.id, f.name FROM forms f UNION SELECT DISTINCT v.form_id, v.form_id FROM content.versions v
  WHERE NOT EXISTS (SELECT FROM forms f WHERE f.id = v.form_id)) AS f
LEFT JOIN content.current c ON c.form_id = f.id LEFT JOIN content.versions cv ON cv.id = c.version_id
LEFT JOIN LATERAL (SELECT count(*) FILTER (WHERE v.state = 'draft') AS drafts, count(*) FILTER (WHERE v.state = 'published') AS published,
  max(v.number) AS newest FROM content.versions v WHERE v.form_id = f.id) AS n ON true
ORDER BY f.id LIMIT $1";

/// `$1` id, `$2` the most.
pub(super) const DECISIONS: &str = "-- version_decisions
SELECT d.command, encode(d.policy, 'hex') AS policy, d.allowed, d.reasons, d.actor, d.at FROM content.decisions d
WHERE d.version_id = $1 ORDER BY d.id DESC LIMIT $2";

/// `$1` id, `$2` the key's fingerprint, `$3` signature, `$4` actor. One of each key.
pub(super) const SIGN: &str = "-- version_sign
INSERT INTO content.signatures (version_id, key, signature, actor) VALUES ($1, $2, $3, $4)
ON CONFLICT (version_id, key) DO NOTHING RETURNING key";

/// `$1` id.
pub(super) const SIGNATURES: &str = "-- version_signatures
SELECT s.key, s.signature, s.actor, s.at FROM content.signatures s WHERE s.version_id = $1 ORDER BY s.at, s.key";

pub(super) const NOW: &str = "-- version_now\nSELECT clock_timestamp() AS now";

/// `$1` id.
pub(super) const OPEN_PLANS: &str = "-- version_open_plans
SELECT content.open_plans($1) AS n";

/// The oldest transaction that is not over: whatever was born before it is there, or never will be.
pub(super) const OVER: &str = "-- version_over
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS upto";

/// `$1` from which transaction on, `$2` before which. By transaction and not by id, which a later commit may have given earlier.
pub(super) const DECIDED: &str = "-- version_decided
SELECT v.form_id, v.number, d.command, d.allowed, jsonb_array_length(d.reasons)::bigint AS reasons, d.actor
FROM content.decisions d JOIN content.versions v ON v.id = d.version_id
WHERE d.born_xid >= $1::bigint::text::xid8 AND d.born_xid < $2::bigint::text::xid8 ORDER BY d.born_xid, d.id";

/// Managed forms, and those whose rows are not their version's: somebody wrote while the schema's triggers were off.
pub(super) const STANDING: &str = "-- version_standing
SELECT count(*) AS managed, count(*) FILTER (WHERE d.differs) AS drifted, min(d.form_id) FILTER (WHERE d.differs) AS sample
FROM (SELECT c.form_id, EXISTS (
  (SELECT r.kind, r.key, r.content FROM content.rows_of(c.form_id) r EXCEPT
   SELECT e.kind, e.key, e.content FROM content.entries e WHERE e.version_id = c.version_id AND e.kind IN ('action', 'template'))
  UNION ALL
  (SELECT e.kind, e.key, e.content FROM content.entries e WHERE e.version_id = c.version_id AND e.kind IN ('action', 'template') EXCEPT
   SELECT r.kind, r.key, r.content FROM content.rows_of(c.form_id) r)) AS differs FROM content.current c) AS d";
