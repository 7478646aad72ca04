//! Evidence read at the end, as superuser, from whom no policy hides anything: rows, audit rows, the receiver's
//! count, Slack's messages, and a log of every status change. A trigger of our own writes that log in the
//! transaction of the change, with its author by the settings of his connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::world::{STUCK_AFTER, World};
use crate::postgres::TestDatabase;
use crate::slack::SlackMessage;

/// Rows read at once.
const PAGE: i64 = 2_000;

/// Makes the log of status changes.
pub(super) async fn watch(database: &TestDatabase) -> Result<()> {
    let sql = "
        CREATE SCHEMA soak;
        CREATE TABLE soak.changes (
            number bigserial PRIMARY KEY,
            id uuid NOT NULL,
            before text NOT NULL,
            after text NOT NULL,
            daemon text,
            act text NOT NULL,
            holder text,
            holds_token text,
            ends_token text,
            idle_seconds double precision NOT NULL);
        CREATE FUNCTION soak.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
            SET search_path = pg_catalog AS $$
        BEGIN
            INSERT INTO soak.changes (id, before, after, daemon, act, holder, holds_token, ends_token, idle_seconds)
            VALUES (NEW.id, OLD.status, NEW.status, current_setting('soak.daemon', true),
                    split_part(current_setting('application_name'), ':', 2),
                    OLD.routing_result #>> '{claim,worker}', OLD.routing_result #>> '{claim,token}',
                    NEW.routing_result #>> '{finished,token}',
                    EXTRACT(epoch FROM clock_timestamp() - OLD.updated_at));
            RETURN NULL;
        END $$;
        CREATE TRIGGER soak_note AFTER UPDATE ON submissions FOR EACH ROW
            WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION soak.note();";
    database.superuser().await?.batch_execute(sql).await.context("making the log of status changes")
}

/// The whole evidence.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Ids submitted.
    pub(super) submitted: Vec<Uuid>,
    /// The rows, as far as they are ours.
    pub(super) rows: HashMap<Uuid, Row>,
    /// Number of each mail at the receiver: by submission, then (recipient, Message-ID).
    pub(super) received: HashMap<Uuid, BTreeMap<(String, String), u64>>,
    /// Tickets at the help desk, by their tag.
    pub(super) tickets: BTreeMap<String, u64>,
    /// Audit rows that end a submission.
    pub(super) ends: HashMap<Uuid, u64>,
    /// Changes of a claimed submission by a worker that did not hold it.
    pub(super) stale_changes: Vec<String>,
    /// Claims that were taken back although they were not stuck.
    pub(super) hasty_sweeps: Vec<String>,
    /// Changes of what had ended.
    pub(super) reopened: Vec<String>,
    /// Status changes by what made them.
    pub(super) changes: BTreeMap<String, u64>,
    /// Texts that Slack confirmed.
    pub(super) slack: Vec<String>,
    /// Time of the last ones after the load; `None` where something was left.
    pub(super) drained: Option<Duration>,
    /// Entries of the review queue by submission, each with the keys of its occurrences; `None` where there is no queue.
    pub(super) entries: Option<HashMap<Uuid, Vec<Vec<String>>>>,
    /// Events that the broker, or the outbox, still holds.
    pub(super) events_left: u64,
}

/// One submission.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) status: String,
    pub(super) ledger: Value,
}

/// Waits until every submission has ended and every failure is confirmed to Slack; returns how long that took.
pub(super) async fn drained(world: &World, patience: Duration) -> Result<Option<Duration>> {
    let eyes = world.stage.database.superuser().await?;
    let began = world.elapsed();
    let sql = "SELECT count(*) FROM submissions
               WHERE status IN ('received', 'processing')
                  OR (status = 'failed' AND (routing_result #>> '{alert,confirmed_at}' IS NULL
                      OR routing_result #>> '{alert,for}' IS DISTINCT FROM routing_result #>> '{finished,token}'))";
    while world.elapsed().saturating_sub(began) < patience {
        let left: i64 = eyes.query_one(sql, &[]).await?.get(0);
        if left == 0 {
            return Ok(Some(world.elapsed().saturating_sub(began)));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(None)
}

/// Reads everything.
pub(super) async fn gather(
    world: &World,
    submitted: Vec<Uuid>,
    drained: Option<Duration>,
) -> Result<Evidence> {
    let eyes = world.stage.database.superuser().await?;
    let mut evidence = Evidence { submitted, drained, ..Evidence::default() };
    read_rows(&eyes, &mut evidence).await?;
    let sql = "SELECT submission_id, count(*) FROM audit_log
               WHERE action IN ('submission_routed', 'submission_route_failed') GROUP BY 1";
    for row in eyes.query(sql, &[]).await? {
        let (id, ends): (Option<Uuid>, i64) = (row.get(0), row.get(1));
        if let Some(id) = id {
            evidence.ends.insert(id, u64::try_from(ends)?);
        }
    }
    read_changes(&eyes, &mut evidence).await?;
    evidence.entries = read_entries(&eyes).await?;
    for (digest, count) in world.stage.relay.digests() {
        let id = digest.submission_id.parse().unwrap_or_default();
        let mails = evidence.received.entry(id).or_default();
        *mails.entry((digest.recipient, digest.message_id)).or_default() += count;
    }
    evidence.tickets = world.help_desk.digests();
    evidence.slack = world.stage.slack.messages().iter().map(SlackMessage::visible_text).collect();
    let stats = world.stage.events().await?;
    evidence.events_left = u64::try_from(stats.backlog + stats.outstanding)?;
    Ok(evidence)
}

async fn read_rows(eyes: &Client, evidence: &mut Evidence) -> Result<()> {
    let sql = "SELECT id, status::text, routing_result FROM submissions WHERE id > $1 ORDER BY id LIMIT $2";
    let mut after = Uuid::nil();
    loop {
        let page = eyes.query(sql, &[&after, &PAGE]).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.get(0);
        for row in &page {
            evidence.rows.insert(row.get(0), Row { status: row.get(1), ledger: row.get(2) });
        }
    }
}

async fn read_entries(eyes: &Client) -> Result<Option<HashMap<Uuid, Vec<Vec<String>>>>> {
    let is_there = "SELECT to_regclass('router.grey_queue') IS NOT NULL";
    if !eyes.query_one(is_there, &[]).await?.get::<_, bool>(0) {
        return Ok(None);
    }
    let sql = "SELECT e.subject_id, ARRAY(SELECT o.key FROM router.grey_queue_occurrences o WHERE o.entry_id = e.id)
               FROM router.grey_queue e WHERE e.subject_kind = 'submission'";
    let mut entries: HashMap<Uuid, Vec<Vec<String>>> = HashMap::new();
    for row in eyes.query(sql, &[]).await? {
        entries.entry(row.get(0)).or_default().push(row.get(1));
    }
    Ok(Some(entries))
}

/// Acts of the claim's owner, by the names of their transactions.
const BY_THE_HOLDER: [&str; 3] = ["record", "release", "fail"];

async fn read_changes(eyes: &Client, evidence: &mut Evidence) -> Result<()> {
    let sql = "SELECT id, before, after, daemon, act, holder, holds_token, ends_token, idle_seconds
               FROM soak.changes ORDER BY number";
    for row in eyes.query(sql, &[]).await? {
        let (id, before, after): (Uuid, String, String) = (row.get(0), row.get(1), row.get(2));
        let (daemon, act, holder): (Option<String>, String, Option<String>) =
            (row.get(3), row.get(4), row.get(5));
        let (holds, ends): (Option<String>, Option<String>) = (row.get(6), row.get(7));
        let idle: f64 = row.get(8);
        let line = format!(
            "{id}: {before} → {after} by {} ({act}) while {} had its claim, untouched for {idle:.1} s",
            daemon.as_deref().unwrap_or("nobody"),
            holder.as_deref().unwrap_or("nobody"),
        );
        *evidence.changes.entry(format!("{before} → {after} ({act})")).or_default() += 1;
        if matches!(before.as_str(), "routed" | "failed" | "purged") {
            evidence.reopened.push(line);
        } else if before == "processing" && BY_THE_HOLDER.contains(&act.as_str()) {
            let with_its_token = after == "received" || ends == holds;
            if daemon != holder || !with_its_token {
                evidence.stale_changes.push(line);
            }
        } else if before == "processing" && idle < STUCK_AFTER.as_secs_f64() {
            evidence.hasty_sweeps.push(line);
        }
    }
    Ok(())
}

impl Evidence {
    /// The submissions that were submitted, each once.
    pub(super) fn ids(&self) -> BTreeSet<Uuid> {
        self.submitted.iter().copied().collect()
    }
}
