//! Moments that triggers of our own write down, and the expected results. Only rows and the receiver's count are
//! believed.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Context, Result};
use tokio_postgres::Client;
use uuid::Uuid;

use super::Report;
use super::client::FORM;
use crate::stage::Stage;

/// Examples reported of each fault.
const SHOWN: i64 = 5;

/// Writes down how many attachments were not clean when an event was written, and when a submission was claimed.
pub(super) async fn watch(eyes: &Client) -> Result<()> {
    let sql = "
        CREATE SCHEMA crowd;
        CREATE TABLE crowd.moments (submission uuid NOT NULL, what text NOT NULL, pending bigint NOT NULL, infected bigint NOT NULL);
        CREATE FUNCTION crowd.note(submission uuid, what text) RETURNS void LANGUAGE sql SECURITY DEFINER AS $$
            INSERT INTO crowd.moments
            SELECT submission, what, count(*) FILTER (WHERE a.clamav_status = 'pending'), count(*) FILTER (WHERE a.clamav_status = 'infected')
            FROM public.attachments a WHERE a.submission_id = submission $$;
        CREATE FUNCTION crowd.on_event() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
            $$ BEGIN PERFORM crowd.note(NEW.entity_id, 'event'); RETURN NULL; END $$;
        CREATE FUNCTION crowd.on_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
            $$ BEGIN PERFORM crowd.note(NEW.id, 'claim'); RETURN NULL; END $$;
        CREATE TRIGGER crowd_event AFTER INSERT ON router.outbox FOR EACH ROW EXECUTE FUNCTION crowd.on_event();
        CREATE TRIGGER crowd_claim AFTER UPDATE ON submissions FOR EACH ROW
            WHEN (OLD.status = 'received' AND NEW.status = 'processing') EXECUTE FUNCTION crowd.on_claim();";
    eyes.batch_execute(sql).await.context("making the log of moments")
}

/// Progress of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) finalized: u64,
    pub(super) unscanned: u64,
    pub(super) open: u64,
    pub(super) ended: u64,
    /// Events that were not delivered yet: one is settled after its submission has ended.
    pub(super) undelivered: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { finalized, unscanned, open, ended, undelivered } = self;
        write!(
            f,
            "{finalized} finalized, {unscanned} attachments to be scanned, {open} open, {ended} ended, \
             {undelivered} events to be delivered"
        )
    }
}

pub(super) async fn progress(eyes: &Client) -> Result<Progress> {
    let sql = "SELECT count(*), count(*) FILTER (WHERE status IN ('received', 'processing')),
                 (SELECT count(*) FROM attachments WHERE clamav_status = 'pending' AND clamav_status IS DISTINCT FROM 'clean'),
                 (SELECT count(*) FROM router.outbox WHERE state <> 'delivered' AND entity_id IS NOT NULL)
               FROM submissions";
    let row = eyes.query_one(sql, &[]).await?;
    let count = |column: usize| -> Result<u64> { Ok(u64::try_from(row.get::<_, i64>(column))?) };
    let (finalized, open, unscanned, undelivered) = (count(0)?, count(1)?, count(2)?, count(3)?);
    Ok(Progress { finalized, unscanned, open, ended: finalized - open, undelivered })
}

/// Ends one of the clients' sessions that is in the middle of a transaction; returns whether there was one.
pub(super) async fn terminate_one(eyes: &Client) -> Result<u64> {
    let sql = "SELECT pg_terminate_backend(pid) FROM (
                 SELECT pid FROM pg_stat_activity
                 WHERE datname = current_database() AND xact_start IS NOT NULL AND application_name = ''
                   AND usename IN ('forms_app', 'forms_scanner')
                 ORDER BY random() LIMIT 1) AS one";
    Ok(eyes.execute(sql, &[]).await?)
}

/// Questions that no row may answer, and what it would mean; the submission comes first.
const NEVER: [(&str, &str); 7] = [
    (
        "has not exactly one event",
        "SELECT s.id FROM submissions s LEFT JOIN router.outbox o ON o.entity_id = s.id GROUP BY s.id HAVING count(o.id) <> 1",
    ),
    (
        "has an event that was written while something was to be scanned, and nothing infected",
        "SELECT m.submission FROM crowd.moments m WHERE m.what = 'event' AND m.pending > 0 AND m.infected = 0",
    ),
    (
        "was claimed before it was clean",
        "SELECT m.submission FROM crowd.moments m WHERE m.what = 'claim' AND (m.pending > 0 OR m.infected > 0)",
    ),
    (
        "is clean and not routed",
        "SELECT s.id FROM submissions s WHERE s.status <> 'routed'
           AND NOT EXISTS (SELECT FROM attachments a WHERE a.submission_id = s.id AND a.clamav_status = 'infected')",
    ),
    (
        "is infected and has not failed for it",
        "SELECT s.id FROM submissions s WHERE (s.status <> 'failed' OR s.routing_result #>> '{finished,reason}' <> 'infected')
           AND EXISTS (SELECT FROM attachments a WHERE a.submission_id = s.id AND a.clamav_status = 'infected')",
    ),
    (
        "has an event that was not delivered",
        "SELECT o.entity_id FROM router.outbox o WHERE o.state <> 'delivered' AND o.entity_id IS NOT NULL",
    ),
    (
        "has an event of something else than the triggers",
        "SELECT o.entity_id FROM router.outbox o WHERE o.xid IS NULL AND o.entity_id IS NOT NULL",
    ),
];

/// Asks everything.
pub(super) async fn judge(eyes: &Client, stage: &Stage) -> Result<Report> {
    let mut report = Report::default();
    for (what, sql) in NEVER {
        let counted = format!("SELECT count(*), (array_agg(x.id::text))[1:{SHOWN}] FROM ({sql}) AS x (id)");
        let row = eyes.query_one(&counted, &[]).await.with_context(|| what.to_owned())?;
        if row.get::<_, i64>(0) > 0 {
            let examples: Vec<String> = row.get(1);
            report.wrong.push(format!("{} × {what}: {}", row.get::<_, i64>(0), examples.join(", ")));
        }
    }
    let mut mails: HashMap<Uuid, u64> = HashMap::new();
    for (digest, count) in stage.relay.digests() {
        *mails.entry(digest.submission_id.parse().unwrap_or_default()).or_default() += count;
    }
    let routed = eyes.query("SELECT id FROM submissions WHERE status = 'routed'", &[]).await?;
    let unlike = routed.iter().filter(|row| mails.get(&row.get(0)) != Some(&1)).count();
    if unlike > 0 || mails.len() != routed.len() {
        let what = format!(
            "{unlike} routed without exactly one mail; mails for {} of {}",
            mails.len(),
            routed.len()
        );
        report.wrong.push(what);
    }
    for (what, sql) in [
        ("submissions by status", "SELECT status::text, count(*) FROM submissions GROUP BY 1 ORDER BY 1"),
        (
            "events by reason",
            "SELECT payload->>'reason', count(*) FROM router.outbox WHERE entity_id IS NOT NULL GROUP BY 1 ORDER BY 1",
        ),
        (
            "attachments by status",
            "SELECT clamav_status::text, count(*) FROM attachments GROUP BY 1 ORDER BY 1",
        ),
        (
            "deadlocks",
            "SELECT 'of this database', deadlocks FROM pg_stat_database WHERE datname = current_database()",
        ),
    ] {
        let rows = eyes.query(sql, &[]).await?;
        let counts: Vec<String> =
            rows.iter().map(|row| format!("{} {}", row.get::<_, String>(0), row.get::<_, i64>(1))).collect();
        report.figures.push(format!("{what}: {}", counts.join(", ")));
    }
    let forms = "SELECT count(*) FROM submissions WHERE form_id <> $1";
    if eyes.query_one(forms, &[&FORM]).await?.get::<_, i64>(0) > 0 {
        report.wrong.push("there are submissions of another form".to_owned());
    }
    Ok(report)
}
