//! The database's own record: a clock that the sequence moves, and a trigger that keeps every version of every
//! submission with the transaction, the process and the moment it came from.
//!
//! The trigger runs as superuser inside the writer's transaction, so nobody can change a row unseen, and what is
//! rolled back was never there. It changes nothing of what it watches. Another trigger, a stranger's, refuses facts
//! while a test wants it to.

use std::collections::BTreeMap;
use std::path::Path;

use devkit::postgres::TestDatabase;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::outbox;

/// `now()` and `clock_timestamp()` are found here before PostgreSQL's own. Read from a file, so that no transaction,
/// lock or snapshot stands between a sequence and the time.
fn sql(clock: &Path) -> String {
    format!(
        r"
CREATE SCHEMA sim;
CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE SECURITY DEFINER
  AS $$ SELECT pg_catalog.pg_read_file('{clock}')::timestamptz $$;
CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE sql STABLE SECURITY DEFINER
  AS $$ SELECT pg_catalog.pg_read_file('{clock}')::timestamptz $$;
GRANT USAGE ON SCHEMA sim TO PUBLIC;
CREATE TABLE sim.history (
  seq bigserial PRIMARY KEY, xid bigint NOT NULL, submission uuid NOT NULL, process text NOT NULL, tx text NOT NULL,
  asked timestamptz NOT NULL,
  status_before text NOT NULL, status_after text NOT NULL, before jsonb, after jsonb, unclean bigint NOT NULL);
CREATE FUNCTION sim.remember() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO sim.history (xid, submission, process, tx, asked, status_before, status_after, before, after, unclean)
  SELECT pg_catalog.txid_current() % 4294967296, NEW.id, coalesce(current_setting('sim.process', true), ''),
    current_setting('application_name'), pg_catalog.statement_timestamp(), OLD.status::text, NEW.status::text, OLD.routing_result, NEW.routing_result,
    (SELECT count(*) FROM public.attachments x
      WHERE x.submission_id = NEW.id AND x.clamav_status IS DISTINCT FROM 'clean');
  RETURN NULL;
END $$;
CREATE TABLE sim.refused (submission uuid PRIMARY KEY, everything boolean NOT NULL);
CREATE FUNCTION sim.facts(ledger jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT count(*) FROM jsonb_each(ledger->'deliveries') AS e(k, v) WHERE e.v->>'state' = 'accepted' $$;
CREATE FUNCTION sim.refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF EXISTS (SELECT FROM sim.refused r WHERE r.submission = NEW.id
    AND (r.everything OR sim.facts(NEW.routing_result) > sim.facts(OLD.routing_result))) THEN
    RAISE 'this row takes no write';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION sim.refuse();
CREATE TRIGGER remember AFTER UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION sim.remember();
",
        clock = clock.display()
    )
}

/// Options of a connection that lives in simulated time and signs what it does.
pub(crate) fn options(process: &str) -> String {
    format!("options=-csearch_path%3Dsim,pg_catalog,public%20-csim.process%3D{process}")
}

/// One version of a row, and its cause.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) xid: i64,
    pub(crate) process: String,
    pub(crate) tx: String,
    /// The statement came in at (real time).
    pub(crate) asked: Timestamp,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) before: Value,
    pub(crate) after: Value,
    /// Attachments that were not clean.
    pub(crate) unclean: i64,
}

/// A line of the audit log, and the transaction it came with.
#[derive(Debug, Clone)]
pub(crate) struct Audited {
    pub(crate) xid: i64,
    pub(crate) action: String,
    pub(crate) detail: Value,
}

/// The history of one submission.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) status: String,
    pub(crate) ledger: Value,
    pub(crate) attachments: Vec<String>,
    pub(crate) changes: Vec<Change>,
    pub(crate) audit: Vec<Audited>,
}

/// Sets both up in a fresh database.
pub(crate) async fn install(database: &TestDatabase, eyes: &Client, clock: &Path, with_outbox: bool) {
    eyes.batch_execute(&sql(clock)).await.expect("the observer");
    if with_outbox {
        eyes.batch_execute(outbox::IN_SIMULATED_TIME).await.expect("the outbox's clock");
    }
    let name = database.name();
    eyes.batch_execute(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).await.expect("fast");
}

/// Forgets everything, for the next sequence.
pub(crate) async fn clear(eyes: &Client) {
    let sql = "TRUNCATE submissions, submission_fields, attachments, audit_log, sim.history, sim.refused";
    eyes.batch_execute(sql).await.expect("an empty database");
}

/// Reads everything about every submission.
pub(crate) async fn read(eyes: &Client) -> BTreeMap<Uuid, Record> {
    let sql = "SELECT s.id, s.status::text, s.routing_result,
                 ARRAY(SELECT coalesce(clamav_status::text, '') FROM attachments x WHERE x.submission_id = s.id)
               FROM submissions s";
    let mut records = BTreeMap::new();
    for row in eyes.query(sql, &[]).await.expect("submissions") {
        let (status, ledger, attachments) = (row.get(1), row.get(2), row.get(3));
        records.insert(
            row.get::<_, Uuid>(0),
            Record { status, ledger, attachments, changes: Vec::new(), audit: Vec::new() },
        );
    }
    let sql =
        "SELECT submission, xid, process, tx, asked, status_before, status_after, before, after, unclean
               FROM sim.history ORDER BY seq";
    for row in eyes.query(sql, &[]).await.expect("history") {
        let Some(record) = records.get_mut(&row.get::<_, Uuid>(0)) else { continue };
        record.changes.push(Change {
            xid: row.get(1),
            process: row.get(2),
            tx: row.get::<_, String>(3).rsplit(':').next().unwrap_or_default().to_owned(),
            asked: row.get(4),
            from: row.get(5),
            to: row.get(6),
            before: row.get(7),
            after: row.get(8),
            unclean: row.get(9),
        });
    }
    let sql = "SELECT submission_id, xmin::text::bigint, action::text, detail FROM audit_log
               WHERE submission_id IS NOT NULL ORDER BY id";
    for row in eyes.query(sql, &[]).await.expect("the trail") {
        let Some(record) = records.get_mut(&row.get::<_, Uuid>(0)) else { continue };
        record.audit.push(Audited { xid: row.get(1), action: row.get(2), detail: row.get(3) });
    }
    records
}

impl std::fmt::Display for Record {
    /// Prints a submission's story as the database saw it, for the reader of a failure.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Change { asked, process, tx, from, to, before, after, unclean, .. } in &self.changes {
            write!(f, "  {asked} {process} {tx}: {from} > {to}, unclean {unclean}")?;
            for key in ["attempts", "resets", "claim", "next_attempt_at", "finished", "alert"] {
                if before[key] != after[key] {
                    write!(f, ", {key} {}", after[key])?;
                }
            }
            writeln!(f)?;
            let entries = after["deliveries"].as_object().into_iter().flatten();
            for (key, entry) in entries.filter(|(key, entry)| before["deliveries"][key.as_str()] != **entry) {
                writeln!(f, "      {key}: {entry}")?;
            }
        }
        for Audited { action, detail, .. } in &self.audit {
            writeln!(f, "  {action}: {detail}")?;
        }
        Ok(())
    }
}
