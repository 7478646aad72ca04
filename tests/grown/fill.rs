//! Fills a database with what years leave behind, or with a backlog: set by set, the indexes made afterwards.
//!
//! The rows have the shapes the router writes; ids are in no order, as real ones are, and what has ended did so longer ago
//! than any window that is looked at. Plain logged tables: they are planned as any others.

use devkit::forms::Form;
use devkit::postgres::TestDatabase;
use tokio_postgres::Client;

/// The form that every table is filled for.
pub(crate) fn form() -> Form {
    Form::new("f").mail_to("a@x.test, b@x.test").mail_to("c@x.test")
}

/// Keys and indexes are set aside; `submissions` and its dependants are made anew in one transaction.
const ASIDE: &str = "
SET session_replication_role = replica;
SET maintenance_work_mem = '256MB';
ALTER TABLE submission_fields DROP CONSTRAINT submission_fields_submission_id_fkey;
ALTER TABLE attachments DROP CONSTRAINT attachments_submission_id_fkey;
ALTER TABLE submissions DROP CONSTRAINT submissions_pkey;
DROP INDEX submissions_form_id_idx, submissions_status_updated_at_idx, submission_fields_submission_id_idx,
  attachments_submission_id_idx, audit_log_submission_id_idx, audit_log_occurred_at_idx;";

/// Of a hundred: 96 routed, two failed and notified, one purged, one of which nothing was sent; one in a thousand
/// failed for an infected attachment. `$rows` is replaced.
const ENDED: &str = r#"
INSERT INTO submissions (id, form_id, status, routing_result, happyfox_status, created_at, updated_at)
SELECT md5(n::text)::uuid, 'f',
  (CASE WHEN n % 1000 = 7 OR n % 50 = 1 THEN 'failed' WHEN n % 100 = 2 THEN 'purged' ELSE 'routed' END)::submission_status,
  CASE
    WHEN n % 1000 = 7 THEN format('{"v": 1, "attempts": 0, "finished": {"token": "%1$s", "at": "2026-01-01T00:00:00Z",
      "status": "failed", "reason": "infected"}, "alert": {"for": "%1$s", "confirmed_at": "2026-01-01T00:00:01Z"}}', md5(n::text))
    WHEN n % 50 = 1 THEN format('{"v": 1, "attempts": 5, "resets": 0, "generations": {}, "plan": [{"action_order": 1,
      "action_type": "email_raw", "template": null, "destination": "a@x.test"}], "deliveries": {"1|a@x.test": {"state":
      "failed", "error": {"class": "refused", "stage": "RCPT", "code": 550, "enhanced": "5.1.1", "reply": "no"}}},
      "finished": {"token": "%1$s", "at": "2026-01-01T00:00:00Z", "status": "failed", "reason": "refused"},
      "alert": {"for": "%1$s", "confirmed_at": "2026-01-01T00:00:01Z"}}', md5(n::text))
    WHEN n % 100 = 3 THEN format('{"v": 1, "attempts": 1, "deliveries": {"1|": {"state": "not_implemented"}},
      "finished": {"token": "%1$s", "at": "2026-01-01T00:00:00Z", "status": "routed"}}', md5(n::text))
    WHEN n % 100 = 2 THEN '{}'
    ELSE format('{"v": 1, "attempts": 1, "resets": 0, "generations": {}, "plan": [{"action_order": 1, "action_type":
      "email_raw", "template": null, "destination": "a@x.test"}], "deliveries": {"1|a@x.test": {"state": "accepted", "at":
      "2026-01-01T00:00:00Z", "nonce": "%1$s", "token": "%1$s", "smtp": {"code": 250, "enhanced": "2.0.0", "reply":
      "Ok: queued as 4XYZ"}, "queue_id": "4XYZ", "message_id": "<%1$s@x.test>", "late": false}}, "finished": {"token":
      "%1$s", "at": "2026-01-01T00:00:00Z", "status": "routed"}}', md5(n::text))
  END::jsonb,
  CASE WHEN n % 100 = 3 THEN 'deferred' END, at, at
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - interval '10 days' - n * interval '0.5 s' AS at) AS t;
INSERT INTO audit_log (occurred_at, actor, action, submission_id, form_id, detail)
SELECT now() - interval '10 days' - n * interval '0.5 s', 'maple-router@host', a.action::audit_action, md5(n::text)::uuid, 'f',
  '{"v": 1, "attempt": 1, "generation": 0}'
FROM generate_series(1, $rows) AS n, unnest('{submission_received,email_sent,submission_routed}'::text[]) AS a(action);
INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
SELECT md5(n::text)::uuid, 'a.txt', 'b', 'o', (CASE WHEN n % 1000 = 7 THEN 'infected' ELSE 'clean' END)::clamav_status
FROM generate_series(1, $rows) AS n WHERE n % 4 = 0 OR n % 1000 = 7;
INSERT INTO submission_fields (submission_id, field_key, field_value, position)
SELECT md5(n::text)::uuid, 'subject', 'a question', 1 FROM generate_series(1, $rows) AS n WHERE n % 4 = 1;"#;

/// Entries of the review queue that are closed, with their history. `$rows` is replaced.
const DECIDED: &str = "
INSERT INTO router.grey_queue (id, cause, reason, subject_kind, subject_id, form_id, queue, state, version, opened_at, seen_at,
  state_since, updated_at, closed_at)
SELECT md5('entry' || n)::uuid, 'failed', 'refused', 'submission', md5(n::text)::uuid, 'f', 'operations', 'Dismissed', 2, at, at, at, at, at
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - interval '10 days' - n * interval '5 s' AS at) AS t;
INSERT INTO router.grey_queue_state_transitions (entry_id, from_state, to_state, transitioned_by, transitioned_at, command, version)
SELECT md5('entry' || n)::uuid, CASE WHEN v = 2 THEN 'Pending' END, CASE WHEN v = 2 THEN 'Dismissed' ELSE 'Pending' END, 'system',
  now() - interval '10 days' - n * interval '5 s', CASE WHEN v = 2 THEN 'dismiss' ELSE 'open' END, v
FROM generate_series(1, $rows) AS n, generate_series(1, 2) AS v;
INSERT INTO router.grey_queue_occurrences (subject_id, subject_kind, cause, key, entry_id)
SELECT md5(n::text)::uuid, 'submission', 'failed', 'k', md5('entry' || n)::uuid FROM generate_series(1, $rows) AS n;
INSERT INTO router.desk_credentials (digest, kind, user_name, expires_at, ended_at)
SELECT sha256(n::text::bytea), 'session', 'ada', now() + interval '1 day', now() FROM generate_series(1, $rows) AS n;";

/// A backlog: nothing has ended, all of it was submitted within the last hours. `$rows` is replaced.
const OPEN: &str = "
INSERT INTO submissions (id, form_id, created_at, updated_at)
SELECT md5(n::text)::uuid, 'f', at, at
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - interval '3 hours' - n * interval '0.01 s' AS at) AS t;
INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
SELECT md5(n::text)::uuid, 'a.txt', 'b', 'o', 'clean' FROM generate_series(1, $rows) AS n WHERE n % 4 = 0;
INSERT INTO submission_fields (submission_id, field_key, field_value, position)
SELECT md5(n::text)::uuid, 'subject', 'a question', 1 FROM generate_series(1, $rows) AS n WHERE n % 4 = 1;";

/// Constraints as `001_init.sql` has them. NOT VALID only spares looking at the rows now.
const BACK: &str = "
ALTER TABLE submissions ADD CONSTRAINT submissions_pkey PRIMARY KEY (id);
ALTER TABLE submission_fields ADD CONSTRAINT submission_fields_submission_id_fkey FOREIGN KEY (submission_id)
  REFERENCES submissions (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE attachments ADD CONSTRAINT attachments_submission_id_fkey FOREIGN KEY (submission_id)
  REFERENCES submissions (id) ON DELETE CASCADE NOT VALID;
CREATE INDEX submissions_form_id_idx ON submissions (form_id);
CREATE INDEX submissions_status_updated_at_idx ON submissions (status, updated_at);
CREATE INDEX submission_fields_submission_id_idx ON submission_fields (submission_id, position);
CREATE INDEX attachments_submission_id_idx ON attachments (submission_id);
CREATE INDEX audit_log_submission_id_idx ON audit_log (submission_id);
CREATE INDEX audit_log_occurred_at_idx ON audit_log (occurred_at);";

/// Events that were delivered and are kept for a while, each with its two transitions.
const DELIVERED: &str = "
INSERT INTO router.outbox (kind, entity_id, payload, state, attempts, claims, available_at, delivered_at, created_at, xid)
SELECT 'routing.ready', md5(n::text)::uuid, '{\"reason\": \"finalized\"}', 'delivered', 1, 1, now(), now(), now(), '3'
FROM generate_series(1, $rows) AS n;
INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
SELECT 'outbox', n::text, c.from_state, c.to_state, c.command, 'maple-router@host', 'worker'
FROM generate_series(1, $rows) AS n,
  (VALUES ('pending', 'delivering', 'claim'), ('delivering', 'delivered', 'succeed')) AS c(from_state, to_state, command);";

/// Uploads that have ended: nine of ten are blobs, of a thousand owners, and attached. `$rows` is replaced.
const BROUGHT: &str = "
SET session_replication_role = replica;
INSERT INTO content.blobs (id, form_id, owner, sha256, length, crc32c, bucket, object, generation, verdict, scanner, scanned_at, created_at)
SELECT md5('b' || n)::uuid, 'f', 'o' || n % 1000, sha256(convert_to(n::text, 'UTF8')), 10, 1, 'c', 'blobs/' || n, 1, 'clean', 'ClamAV', at, at
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - n * interval '0.5 s' AS at) AS t WHERE n % 10 <> 0;
INSERT INTO content.uploads (id, form_id, owner, idempotency_key, request_digest, token_sha256, file_name, content_type, length, sha256,
  part_size, state, store_upload_id, etags, planned_blob, blob_id, problem, expires_at, unattached_ttl, created_at, ended_at)
SELECT md5('u' || n)::uuid, 'f', 'o' || n % 1000, n::text, sha256('r'), sha256('t'), 'a.pdf', 'application/pdf', 10,
  sha256(convert_to(n::text, 'UTF8')), 8388608, CASE WHEN gone THEN 'aborted' ELSE 'committed' END, 'u', '[]', md5('b' || n)::uuid,
  CASE WHEN NOT gone THEN md5('b' || n)::uuid END, CASE WHEN gone THEN '{}'::jsonb END, at, '2 days', at, at
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - n * interval '0.5 s' AS at, n % 10 = 0 AS gone) AS t;
INSERT INTO content.blob_refs (blob_id, kind, holder) SELECT b.id, 'attachment', md5(b.id::text)::uuid::text FROM content.blobs b;
INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
SELECT 'upload', md5('u' || n)::uuid::text, '-', 'initiated', 'create', 'backend', 'backend' FROM generate_series(1, $rows) AS n;";

/// Versions of a form that were published once and taken out of use, each with an action, what was said of it, and its history.
const RULED: &str = "
SET session_replication_role = replica;
INSERT INTO content.versions (id, form_id, number, state, digest, source, author, created_at, published_at, tombstoned_at, deadline,
  born_xid)
SELECT md5('v' || n)::uuid, 'old', n, 'tombstoned', sha256(convert_to(n::text, 'UTF8')), 'yaml', 'a', at, at, at, at, '3'
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - n * interval '1 minute' AS at) AS t;
INSERT INTO content.entries (version_id, kind, key, content) SELECT v.id, 'action', '1', '{}' FROM content.versions v;
INSERT INTO content.decisions (version_id, command, digest, policy, allowed, actor, born_xid)
SELECT v.id, c.command, v.digest, v.digest, true, 'a', '3' FROM content.versions v, (VALUES ('publish'), ('promote')) AS c(command);
INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
SELECT 'version', v.id::text, '-', 'draft', 'load', 'a', 'publisher' FROM content.versions v;";

/// Runs of screening that have ended, of a thousand forms, each with its events, results, a finding and a verdict.
const SCREENED: &str = "
SET session_replication_role = replica;
INSERT INTO screening.submissions (id, subject, run, enforced, form_id, profile, state, digest, content, ruleset, score, created_at,
  state_since, ended_at)
SELECT md5('r' || n)::uuid, md5(n::text)::uuid, 1, true, 'f' || n % 1000, 'fields', CASE WHEN n % 10 = 0 THEN 'REJECTED' ELSE 'PUBLISHED' END,
  encode(sha256(n::text::bytea), 'hex'), encode(sha256(n::text::bytea), 'hex'), 'a', 90, at, at, at
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - interval '2 days' - n * interval '1 s' AS at) AS t;
INSERT INTO screening.submission_state_events (submission_id, from_state, to_state, trigger, actor, actor_type, created_at)
SELECT r.id, e.was, e.becomes, e.trigger, 'a', 'worker', r.created_at FROM screening.submissions r,
  (VALUES (NULL, 'RECEIVED', 'api-submission'), ('RECEIVED', 'TIER1_SCANNING', 'non-vendor-submission'),
    ('TIER1_SCANNING', 'TIER2_SCANNING', 'tier1-pass'), ('TIER2_SCANNING', 'AUTO_APPROVED', 'tier2-pass')) AS e(was, becomes, trigger);
INSERT INTO screening.scan_results (submission_id, job_type, attempt, content, ruleset, verdict, created_at)
SELECT r.id, 'tier1-scan', 1, r.content, 'a', 'pass', r.created_at FROM screening.submissions r;
INSERT INTO screening.findings (submission_id, attempt, number, rule, severity, place, times)
SELECT r.id, 1, 1, 'link-count', 'note', 'field message', 1 FROM screening.submissions r;
INSERT INTO screening.verdicts (submission_id, attempt, asked, profile, content, model, answered, prompt, ruleset, score, injection, created_at)
SELECT r.id, 1, 1, 'fields', r.content, 'm', 'm', 'p', 'a', 90, false, r.created_at FROM screening.submissions r;
INSERT INTO screening.spent (day, form_id, tokens)
SELECT (now() - n * interval '1 day')::date, 'f', 1 FROM generate_series(1, 1000) AS n;";

/// Attempts at grading that have ended, of a thousand forms, each with its events, callbacks and results, and the grader's job of it with its
/// steps, emptied.
const GRADED: &str = "
SET session_replication_role = replica;
INSERT INTO assessment.submissions (id, subject, attempt, form_id, skill, gate, on_failed, state, failed_reason, deadline, try, created_at,
  state_since, ended_at)
SELECT md5('g' || n)::uuid, md5(n::text)::uuid, 1, 'f' || n % 1000, 'writing', true, 'hold', CASE WHEN n % 10 = 0 THEN 'FAILED' ELSE 'COMPLETED' END,
  CASE WHEN n % 10 = 0 THEN 'timeout' END, at + interval '20 minutes', 1, at, at, at
FROM generate_series(1, $rows) AS n, LATERAL (SELECT now() - interval '30 days' - n * interval '1 s' AS at) AS t;
INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type, created_at)
SELECT a.id, e.was, e.becomes, e.trigger, 'a', 'system', a.created_at FROM assessment.submissions a,
  (VALUES (NULL, 'PENDING', 'submit'), ('PENDING', 'QUEUED', 'request-published'), ('QUEUED', 'PROCESSING', 'picked-up'),
    ('PROCESSING', 'COMPLETED', 'completed')) AS e(was, becomes, trigger);
INSERT INTO assessment.callbacks (event_id, request_id, at)
SELECT md5('c' || a.id || c.n)::uuid, a.id, a.created_at FROM assessment.submissions a, generate_series(1, 2) AS c(n);
INSERT INTO assessment.results (request_id, kind, try, digest, score, band, actor, at)
SELECT a.id, r.kind, 1, encode(sha256(a.id::text::bytea), 'hex'), 7, 'B2', 'a', a.created_at FROM assessment.submissions a,
  (VALUES ('ai'), ('final')) AS r(kind) WHERE a.state = 'COMPLETED';
INSERT INTO grading.jobs (id, request_id, submission_id, attempt, skill, deadline, state, created_at, state_since, ended_at)
SELECT md5('j' || a.id)::uuid, a.id, a.subject, 1, 'writing', a.deadline, a.state, a.created_at, a.created_at, a.created_at
FROM assessment.submissions a;
INSERT INTO grading.events (job_id, from_state, to_state, trigger, actor, actor_type, created_at)
SELECT j.id, 'PROCESSING', j.state, 'complete', 'a', 'worker', j.created_at FROM grading.jobs j;
INSERT INTO grading.steps (job_id, kind, number, input_digest, model, tokens, at)
SELECT j.id, 'sample', s.n, encode(sha256(j.id::text::bytea), 'hex'), 'm', 1, j.created_at FROM grading.jobs j, generate_series(1, 3) AS s(n);
INSERT INTO grading.spent (day, tokens)
SELECT (now() - n * interval '1 day')::date, 1 FROM generate_series(1, 1000) AS n;";

/// Events that wait, of the backlog's submissions.
const WAITING: &str = "
INSERT INTO router.outbox (kind, entity_id, payload, available_at, created_at, xid)
SELECT 'routing.ready', md5(n::text)::uuid, jsonb_build_object('submission_id', md5(n::text)::uuid, 'form_id', 'f', 'reason',
  'finalized'), now() - interval '3 hours', now() - interval '3 hours', '3' FROM generate_series(1, $rows) AS n;";

async fn run(eyes: &Client, statements: &str, rows: u64) {
    eyes.batch_execute(&statements.replace("$rows", &rows.to_string())).await.expect("filled");
}

async fn forms(db: &TestDatabase, eyes: &Client, rows: u64, what: &str) {
    devkit::forms::load_into(db, &[form()]).await.expect("a form");
    run(eyes, ASIDE, rows).await;
    run(eyes, what, rows).await;
    run(eyes, BACK, rows).await;
}

async fn settle(eyes: &Client) {
    // Each statement by itself: VACUUM runs in no transaction.
    for statement in ["RESET session_replication_role", "VACUUM (ANALYZE)", "CHECKPOINT"] {
        eyes.batch_execute(statement).await.expect("settled");
    }
}

/// `rows` submissions that have ended, three audit rows each.
pub(crate) async fn ended(db: &TestDatabase, eyes: &Client, rows: u64) {
    forms(db, eyes, rows, ENDED).await;
    settle(eyes).await;
}

/// `rows` submissions that are open and ready.
pub(crate) async fn open(db: &TestDatabase, eyes: &Client, rows: u64) {
    forms(db, eyes, rows, OPEN).await;
    settle(eyes).await;
}

/// `rows` events that were delivered, of a tenth as many days as the submissions stand for.
pub(crate) async fn delivered(eyes: &Client, rows: u64) {
    run(eyes, DELIVERED, rows).await;
    settle(eyes).await;
}

/// `rows` entries of the review queue that were decided about.
pub(crate) async fn decided(eyes: &Client, rows: u64) {
    run(eyes, DECIDED, rows).await;
    settle(eyes).await;
}

/// `rows` uploads that have ended.
pub(crate) async fn brought(eyes: &Client, rows: u64) {
    run(eyes, BROUGHT, rows).await;
    settle(eyes).await;
}

/// `rows` versions that are out of use.
pub(crate) async fn ruled(eyes: &Client, rows: u64) {
    run(eyes, RULED, rows).await;
    settle(eyes).await;
}

/// `rows` runs of screening that have ended.
pub(crate) async fn screened(eyes: &Client, rows: u64) {
    run(eyes, SCREENED, rows).await;
    settle(eyes).await;
}

/// `rows` attempts at grading that have ended.
pub(crate) async fn graded(eyes: &Client, rows: u64) {
    run(eyes, GRADED, rows).await;
    settle(eyes).await;
}

/// `rows` events that wait.
pub(crate) async fn waiting(eyes: &Client, rows: u64) {
    run(eyes, WAITING, rows).await;
    settle(eyes).await;
}

/// A burst of `delivered` events that were delivered, and one of `waiting` of which the statistics know nothing.
pub(crate) async fn bursts(eyes: &Client, delivered: u64, waiting: u64) {
    run(eyes, WAITING, delivered).await;
    run(eyes, "UPDATE router.outbox SET state = 'delivered', delivered_at = now(), xid = '2'", 0).await;
    settle(eyes).await;
    // Where two indexes would do, the planner takes the smaller one: any but the one that has the order.
    let others = "SELECT format('REINDEX INDEX router.%I', indexname) FROM pg_indexes
        WHERE schemaname = 'router' AND tablename = 'outbox' AND indexname <> 'outbox_pending'";
    for row in eyes.query(others, &[]).await.expect("indexes") {
        run(eyes, row.get(0), 0).await;
    }
    run(eyes, WAITING, waiting).await;
}
