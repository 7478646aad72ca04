//! The database's own record of screening: a trigger that keeps every version of every run, and one that keeps every claim of the
//! daemon, with the process that made it and with what stood there at that moment.

use devkit::postgres::TestDatabase;
use tokio_postgres::Client;
use uuid::Uuid;

/// Schemas screening and router in simulated time: functions find `sim`'s clock before PostgreSQL's own, and defaults ask it.
const IN_SIMULATED_TIME: &str = r"
DO $$
DECLARE one record;
BEGIN
  FOR one IN SELECT p.oid::regprocedure AS name FROM pg_proc p
    WHERE p.pronamespace IN ('screening'::regnamespace, 'router'::regnamespace, 'content'::regnamespace)
      AND EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c LIKE 'search_path=%')
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = sim, pg_catalog, pg_temp', one.name);
  END LOOP;
  FOR one IN SELECT a.attrelid::regclass AS relation, a.attname AS name FROM pg_attrdef d
    JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace IN ('screening'::regnamespace, 'router'::regnamespace, 'public'::regnamespace)
      AND pg_get_expr(d.adbin, d.adrelid) IN ('clock_timestamp()', 'now()')
  LOOP
    EXECUTE format('ALTER TABLE %s ALTER %I SET DEFAULT sim.clock_timestamp()', one.relation, one.name);
  END LOOP;
END $$;
CREATE TABLE sim.runs (
  seq bigserial PRIMARY KEY, run uuid NOT NULL, subject uuid NOT NULL, process text NOT NULL, born boolean NOT NULL,
  from_state text, to_state text NOT NULL, token_before uuid, token_after uuid, digest text, live text, bars text[] NOT NULL,
  score int, forced boolean NOT NULL, closed_before boolean NOT NULL, was_current boolean NOT NULL, closed_why text, dead_reason text,
  died boolean NOT NULL);
CREATE FUNCTION sim.remember_run() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE before screening.submissions;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    before := OLD;
  END IF;
  INSERT INTO sim.runs (run, subject, process, born, from_state, to_state, token_before, token_after, digest, live, bars, score, forced,
    closed_before, was_current, closed_why, dead_reason, died)
  VALUES (NEW.id, NEW.subject, coalesce(current_setting('sim.process', true), ''), TG_OP = 'INSERT', before.state, NEW.state,
    before.lease_token, NEW.lease_token, NEW.digest, screening.digest_of(NEW.subject), NEW.bars, NEW.score, NEW.force_review,
    before.closed_at IS NOT NULL, coalesce(before.current, true), NEW.closed_why, NEW.dead_reason,
    NEW.dead_at IS NOT NULL AND before.dead_at IS NULL);
  RETURN NULL;
END $$;
CREATE TRIGGER zz_remember AFTER INSERT OR UPDATE ON screening.submissions FOR EACH ROW EXECUTE FUNCTION sim.remember_run();
CREATE TABLE sim.claims (subject uuid NOT NULL, state text, digest text, live text NOT NULL);
CREATE FUNCTION sim.remember_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO sim.claims SELECT NEW.id, r.state, r.digest, screening.digest_of(NEW.id)
  FROM (SELECT) one LEFT JOIN screening.submissions r ON r.subject = NEW.id AND r.current;
  RETURN NULL;
END $$;
CREATE TRIGGER zz_remember_claim AFTER UPDATE ON submissions FOR EACH ROW
  WHEN (OLD.status = 'received' AND NEW.status = 'processing') EXECUTE FUNCTION sim.remember_claim();
CREATE TABLE sim.contents (digest text NOT NULL, content text NOT NULL);
CREATE TABLE sim.vouched (subject uuid NOT NULL);
";

/// One version of a run, and its cause.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) run: Uuid,
    pub(super) subject: Uuid,
    pub(super) process: String,
    pub(super) born: bool,
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) token_before: Option<Uuid>,
    pub(super) token_after: Option<Uuid>,
    /// What the run looked at, and what stood there at this moment.
    pub(super) digest: Option<String>,
    pub(super) live: String,
    pub(super) bars: Vec<String>,
    pub(super) score: Option<i32>,
    pub(super) forced: bool,
    /// The run was closed, or another was current, before this.
    pub(super) was_over: bool,
    pub(super) closed_why: Option<String>,
    pub(super) dead_reason: Option<String>,
    /// Its job was given up on with this.
    pub(super) died: bool,
}

impl Version {
    /// The states, where they differ.
    pub(super) fn moved(&self) -> Option<(&str, &str)> {
        let from = self.from.as_deref()?;
        (from != self.to).then_some((from, self.to.as_str()))
    }
}

/// A claim of the daemon.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) subject: Uuid,
    pub(super) state: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) live: String,
}

/// A line of the document's log.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) run: Uuid,
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) trigger: String,
}

/// Sets the record up in a database that has the other one.
pub(super) async fn install(eyes: &Client, database: &TestDatabase) {
    eyes.batch_execute(IN_SIMULATED_TIME).await.expect("the observer of runs");
    let name = database.name();
    eyes.batch_execute(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).await.expect("fast");
}

/// Forgets everything, for the next sequence.
pub(super) async fn clear(eyes: &Client) {
    let sql = "TRUNCATE submissions, submission_fields, attachments, audit_log, sim.history, sim.runs, sim.claims, sim.contents, sim.vouched,
      screening.submissions, screening.submission_state_events, screening.scan_results, screening.findings, screening.verdicts,
      screening.spent, screening.calibrations, screening.snapshots, screening.published, router.outbox, router.transitions,
      router.dead_letters, router.grey_queue, router.grey_queue_occurrences, router.grey_queue_state_transitions CASCADE";
    eyes.batch_execute(sql).await.expect("an empty database");
}

pub(super) async fn versions(eyes: &Client) -> Vec<Version> {
    let sql = "SELECT run, subject, process, born, from_state, to_state, token_before, token_after, digest, coalesce(live, ''), bars, score,
      forced, closed_before OR NOT was_current, closed_why, dead_reason, died FROM sim.runs ORDER BY seq";
    let rows = eyes.query(sql, &[]).await.expect("runs");
    rows.iter()
        .map(|row| Version {
            run: row.get(0),
            subject: row.get(1),
            process: row.get(2),
            born: row.get(3),
            from: row.get(4),
            to: row.get(5),
            token_before: row.get(6),
            token_after: row.get(7),
            digest: row.get(8),
            live: row.get(9),
            bars: row.get(10),
            score: row.get(11),
            forced: row.get(12),
            was_over: row.get(13),
            closed_why: row.get(14),
            dead_reason: row.get(15),
            died: row.get(16),
        })
        .collect()
}

pub(super) async fn claims(eyes: &Client) -> Vec<Claim> {
    let rows = eyes.query("SELECT subject, state, digest, live FROM sim.claims", &[]).await.expect("claims");
    rows.iter()
        .map(|row| Claim { subject: row.get(0), state: row.get(1), digest: row.get(2), live: row.get(3) })
        .collect()
}

pub(super) async fn log(eyes: &Client) -> Vec<Logged> {
    let sql = "SELECT submission_id, from_state, to_state, trigger FROM screening.submission_state_events ORDER BY created_at";
    let rows = eyes.query(sql, &[]).await.expect("events");
    rows.iter()
        .map(|row| Logged { run: row.get(0), from: row.get(1), to: row.get(2), trigger: row.get(3) })
        .collect()
}
