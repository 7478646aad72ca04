//! The database's own record of grading: triggers that keep every version of every attempt and job, every result as it came, every message, what
//! stood beside an attempt when its transition was committed, and every claim of the daemon, each with the process and the role that wrote it.

use devkit::postgres::TestDatabase;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// Schemas of grading and router in simulated time: functions find `sim`'s clock before PostgreSQL's own, and defaults ask it.
///
/// When a callback was committed and when a transaction began is real time: only so it can be said what a transaction must have seen.
const IN_SIMULATED_TIME: &str = r"
DO $$
DECLARE one record;
BEGIN
  FOR one IN SELECT p.oid::regprocedure AS name FROM pg_proc p
    WHERE p.pronamespace IN ('assessment'::regnamespace, 'mq'::regnamespace, 'grading'::regnamespace, 'router'::regnamespace)
      AND EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c LIKE 'search_path=%')
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = sim, pg_catalog, pg_temp', one.name);
  END LOOP;
  FOR one IN SELECT a.attrelid::regclass AS relation, a.attname AS name FROM pg_attrdef d
    JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace IN ('assessment'::regnamespace, 'mq'::regnamespace, 'grading'::regnamespace, 'router'::regnamespace,
        'public'::regnamespace) AND pg_get_expr(d.adbin, d.adrelid) IN ('clock_timestamp()', 'now()')
  LOOP
    EXECUTE format('ALTER TABLE %s ALTER %I SET DEFAULT sim.clock_timestamp()', one.relation, one.name);
  END LOOP;
END $$;
CREATE FUNCTION sim.process() RETURNS text LANGUAGE sql AS $$ SELECT coalesce(current_setting('sim.process', true), '') $$;
CREATE FUNCTION sim.seconds(at timestamptz) RETURNS float8 LANGUAGE sql AS $$ SELECT extract(epoch FROM at - '2026-11-01T08:00:00Z')::float8 $$;

CREATE TABLE sim.sent (seq bigserial PRIMARY KEY, queue text NOT NULL, message uuid NOT NULL, request text, payload jsonb NOT NULL,
  process text NOT NULL, role text NOT NULL, at float8 NOT NULL, real timestamptz NOT NULL);
CREATE FUNCTION sim.remember_sent() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO sim.sent (queue, message, request, payload, process, role, at, real) VALUES (TG_ARGV[0], NEW.message_id,
    NEW.payload->>'requestId', NEW.payload, sim.process(), session_user, sim.seconds(sim.clock_timestamp()), pg_catalog.clock_timestamp());
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER zz_remember AFTER INSERT ON mq.grading_callback DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  EXECUTE FUNCTION sim.remember_sent('callback');
CREATE CONSTRAINT TRIGGER zz_remember AFTER INSERT ON mq.grading_request DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  EXECUTE FUNCTION sim.remember_sent('request');

CREATE TABLE sim.reorders (on_ boolean NOT NULL);
CREATE FUNCTION sim.reorder() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF EXISTS (SELECT FROM sim.reorders) THEN
    NEW.available_at := sim.now() + make_interval(secs => abs(hashtext(NEW.message_id::text)) % 20);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER reorder BEFORE INSERT ON mq.grading_callback FOR EACH ROW EXECUTE FUNCTION sim.reorder();

CREATE TABLE sim.attempts (
  seq bigserial PRIMARY KEY, attempt uuid NOT NULL, subject uuid NOT NULL, skill text NOT NULL, process text NOT NULL, role text NOT NULL,
  from_state text, to_state text NOT NULL, token_before uuid, token_after uuid, at float8 NOT NULL, deadline float8 NOT NULL,
  failed_reason text, was_closed boolean NOT NULL, is_closed boolean NOT NULL, waits boolean NOT NULL);
CREATE FUNCTION sim.remember_attempt() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE before assessment.submissions;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    before := OLD;
  END IF;
  INSERT INTO sim.attempts (attempt, subject, skill, process, role, from_state, to_state, token_before, token_after, at, deadline, failed_reason,
    was_closed, is_closed, waits)
  VALUES (NEW.id, NEW.subject, NEW.skill, sim.process(), session_user, before.state, NEW.state, before.lease_token, NEW.lease_token,
    sim.seconds(sim.clock_timestamp()), sim.seconds(NEW.deadline), NEW.failed_reason, before.closed_at IS NOT NULL, NEW.closed_at IS NOT NULL,
    current_setting('application_name') LIKE '%:grading_time_out' AND EXISTS (SELECT FROM mq.grading_callback c JOIN sim.sent s ON s.message = c.message_id
      WHERE c.payload->>'requestId' = NEW.id::text AND s.real < pg_catalog.transaction_timestamp() - interval '50 milliseconds'));
  RETURN NULL;
END $$;
CREATE TRIGGER zz_remember AFTER INSERT OR UPDATE ON assessment.submissions FOR EACH ROW EXECUTE FUNCTION sim.remember_attempt();

CREATE TABLE sim.stood (attempt uuid NOT NULL, state text NOT NULL, finals bigint NOT NULL, entries text[] NOT NULL);
CREATE FUNCTION sim.remember_stood() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO sim.stood SELECT NEW.id, NEW.state,
    (SELECT count(*) FROM assessment.results r WHERE r.request_id = NEW.id AND r.kind = 'final'),
    ARRAY(SELECT g.cause FROM router.grey_queue g WHERE g.subject_id = NEW.id AND g.closed_at IS NULL);
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER zz_stood AFTER UPDATE ON assessment.submissions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION sim.remember_stood();

CREATE TABLE sim.results (seq bigserial PRIMARY KEY, request uuid NOT NULL, skill text NOT NULL, kind text NOT NULL, late boolean NOT NULL,
  dup boolean NOT NULL, digest text NOT NULL, result jsonb NOT NULL, state text NOT NULL, role text NOT NULL);
CREATE FUNCTION sim.remember_result() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO sim.results (request, skill, kind, late, dup, digest, result, state, role)
  SELECT NEW.request_id, a.skill, NEW.kind, NEW.is_late, NEW.dup, NEW.digest, NEW.result, a.state, session_user
  FROM assessment.submissions a WHERE a.id = NEW.request_id;
  RETURN NULL;
END $$;
CREATE TRIGGER zz_remember AFTER INSERT ON assessment.results FOR EACH ROW EXECUTE FUNCTION sim.remember_result();

CREATE TABLE sim.jobs (
  seq bigserial PRIMARY KEY, job uuid NOT NULL, request uuid NOT NULL, process text NOT NULL, role text NOT NULL, from_state text,
  to_state text NOT NULL, token_before uuid, token_after uuid, retries_before int NOT NULL, retries int NOT NULL, kind text, code text);
CREATE FUNCTION sim.remember_job() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE before grading.jobs;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    before := OLD;
  END IF;
  INSERT INTO sim.jobs (job, request, process, role, from_state, to_state, token_before, token_after, retries_before, retries, kind, code)
  VALUES (NEW.id, NEW.request_id, sim.process(), session_user, before.state, NEW.state, before.lease_token, NEW.lease_token,
    coalesce(before.retries, 0), NEW.retries, NEW.error->>'type', NEW.error->>'code');
  RETURN NULL;
END $$;
CREATE TRIGGER zz_remember AFTER INSERT OR UPDATE ON grading.jobs FOR EACH ROW EXECUTE FUNCTION sim.remember_job();

CREATE TABLE sim.claims (subject uuid NOT NULL, gated boolean NOT NULL, state text, released boolean NOT NULL, sends boolean NOT NULL);
CREATE FUNCTION sim.remember_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO sim.claims SELECT NEW.id, coalesce(a.gate, p.gate, false), a.state, a.released_at IS NOT NULL, coalesce(a.on_failed, '') = 'send'
  FROM (SELECT) one LEFT JOIN assessment.submissions a ON a.subject = NEW.id AND a.current
  LEFT JOIN assessment.profiles p ON p.form_id = NEW.form_id::text;
  RETURN NULL;
END $$;
CREATE TRIGGER zz_remember_claim AFTER UPDATE ON submissions FOR EACH ROW
  WHEN (OLD.status = 'received' AND NEW.status = 'processing') EXECUTE FUNCTION sim.remember_claim();
";

/// One version of an attempt, and its cause. Times are seconds of the clock.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) attempt: Uuid,
    pub(super) process: String,
    pub(super) role: String,
    /// Absent at its birth.
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) token_before: Option<Uuid>,
    pub(super) token_after: Option<Uuid>,
    pub(super) at: f64,
    pub(super) deadline: f64,
    pub(super) failed_reason: Option<String>,
    pub(super) was_closed: bool,
    pub(super) is_closed: bool,
    /// It was timed out by a transaction that began after a callback of it had come.
    pub(super) waits: bool,
}

/// The states, where they differ.
pub(super) fn moved<'a>(from: Option<&'a String>, to: &'a str) -> Option<(&'a str, &'a str)> {
    let from = from?.as_str();
    (from != to).then_some((from, to))
}

/// What stood beside an attempt when its transition into a state was committed.
#[derive(Debug, Clone)]
pub(super) struct Stood {
    pub(super) attempt: Uuid,
    pub(super) state: String,
    pub(super) finals: i64,
    /// Causes of its open entries.
    pub(super) entries: Vec<String>,
}

/// A result, as it came.
#[derive(Debug, Clone)]
pub(super) struct Came {
    pub(super) request: Uuid,
    pub(super) skill: String,
    pub(super) kind: String,
    pub(super) late: bool,
    pub(super) dup: bool,
    pub(super) digest: String,
    pub(super) result: Value,
    /// The attempt's state behind it.
    pub(super) state: String,
    pub(super) role: String,
}

/// One version of a job, and its cause.
#[derive(Debug, Clone)]
pub(super) struct JobVersion {
    pub(super) job: Uuid,
    pub(super) process: String,
    pub(super) role: String,
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) token_before: Option<Uuid>,
    pub(super) token_after: Option<Uuid>,
    pub(super) retries_before: i32,
    pub(super) retries: i32,
    pub(super) kind: Option<String>,
    pub(super) code: Option<String>,
}

/// A message, as it was sent.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) queue: String,
    pub(super) request: String,
    pub(super) at: f64,
    pub(super) process: String,
    pub(super) role: String,
}

/// A claim of the daemon, and what stood there.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) subject: Uuid,
    pub(super) gated: bool,
    pub(super) state: Option<String>,
    pub(super) released: bool,
    pub(super) sends: bool,
}

/// A line of the log of attempts.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) attempt: Uuid,
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) skipped: bool,
}

/// Sets the record up in a database that has the other one.
pub(super) async fn install(eyes: &Client, database: &TestDatabase) {
    eyes.batch_execute(IN_SIMULATED_TIME).await.expect("the observer of attempts");
    let name = database.name();
    eyes.batch_execute(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).await.expect("fast");
}

/// Forgets everything, for the next sequence.
pub(super) async fn clear(eyes: &Client) {
    // A few rows of many tables: new files for all of them would cost more than the sequence.
    let tables = "submission_fields, attachments, submissions, audit_log, sim.history, sim.sent, sim.reorders, sim.attempts, sim.stood,
      sim.results, sim.jobs, sim.claims, assessment.submissions, assessment.events, assessment.callbacks, assessment.results, assessment.unborn,
      assessment.tickets, mq.grading_request, mq.grading_callback, mq.grading_dlq, grading.jobs, grading.events, grading.steps, grading.spent,
      grading.calibrations, router.outbox, router.transitions, router.dead_letters, router.grey_queue, router.grey_queue_occurrences,
      router.grey_queue_state_transitions";
    let deleted: String = tables.split(',').map(|table| format!("DELETE FROM {};", table.trim())).collect();
    let sql =
        format!("SET session_replication_role = replica; {deleted} SET session_replication_role = origin");
    eyes.batch_execute(&sql).await.expect("an empty database");
}

pub(super) async fn versions(eyes: &Client) -> Vec<Version> {
    let sql = "SELECT attempt, process, role, from_state, to_state, token_before, token_after, at, deadline, failed_reason, was_closed, is_closed,
      waits FROM sim.attempts ORDER BY seq";
    let rows = eyes.query(sql, &[]).await.expect("attempts");
    rows.iter()
        .map(|row| Version {
            attempt: row.get(0),
            process: row.get(1),
            role: row.get(2),
            from: row.get(3),
            to: row.get(4),
            token_before: row.get(5),
            token_after: row.get(6),
            at: row.get(7),
            deadline: row.get(8),
            failed_reason: row.get(9),
            was_closed: row.get(10),
            is_closed: row.get(11),
            waits: row.get(12),
        })
        .collect()
}

pub(super) async fn stood(eyes: &Client) -> Vec<Stood> {
    let rows =
        eyes.query("SELECT attempt, state, finals, entries FROM sim.stood", &[]).await.expect("attempts");
    rows.iter()
        .map(|row| Stood { attempt: row.get(0), state: row.get(1), finals: row.get(2), entries: row.get(3) })
        .collect()
}

pub(super) async fn results(eyes: &Client) -> Vec<Came> {
    let sql =
        "SELECT request, skill, kind, late, dup, digest, result, state, role FROM sim.results ORDER BY seq";
    let rows = eyes.query(sql, &[]).await.expect("results");
    rows.iter()
        .map(|row| Came {
            request: row.get(0),
            skill: row.get(1),
            kind: row.get(2),
            late: row.get(3),
            dup: row.get(4),
            digest: row.get(5),
            result: row.get(6),
            state: row.get(7),
            role: row.get(8),
        })
        .collect()
}

pub(super) async fn jobs(eyes: &Client) -> Vec<JobVersion> {
    let sql = "SELECT job, process, role, from_state, to_state, token_before, token_after, retries_before, retries, kind, code
      FROM sim.jobs ORDER BY seq";
    let rows = eyes.query(sql, &[]).await.expect("jobs");
    rows.iter()
        .map(|row| JobVersion {
            job: row.get(0),
            process: row.get(1),
            role: row.get(2),
            from: row.get(3),
            to: row.get(4),
            token_before: row.get(5),
            token_after: row.get(6),
            retries_before: row.get(7),
            retries: row.get(8),
            kind: row.get(9),
            code: row.get(10),
        })
        .collect()
}

pub(super) async fn sent(eyes: &Client) -> Vec<Sent> {
    let sql = "SELECT queue, coalesce(request, ''), at, process, role FROM sim.sent ORDER BY seq";
    let rows = eyes.query(sql, &[]).await.expect("messages");
    rows.iter()
        .map(|row| Sent {
            queue: row.get(0),
            request: row.get(1),
            at: row.get(2),
            process: row.get(3),
            role: row.get(4),
        })
        .collect()
}

pub(super) async fn claims(eyes: &Client) -> Vec<Claim> {
    let rows = eyes
        .query("SELECT subject, gated, state, released, sends FROM sim.claims", &[])
        .await
        .expect("claims");
    rows.iter()
        .map(|row| Claim {
            subject: row.get(0),
            gated: row.get(1),
            state: row.get(2),
            released: row.get(3),
            sends: row.get(4),
        })
        .collect()
}

pub(super) async fn log(eyes: &Client) -> Vec<Logged> {
    let sql = "SELECT submission_id, from_state, to_state, metadata ? 'skipped' FROM assessment.events ORDER BY number";
    let rows = eyes.query(sql, &[]).await.expect("events");
    rows.iter()
        .map(|row| Logged { attempt: row.get(0), from: row.get(1), to: row.get(2), skipped: row.get(3) })
        .collect()
}
