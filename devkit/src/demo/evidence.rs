//! Knowledge of database, relay and dead-letter topic: everything the demo judges by. Reads only.
//!
//! Reads are a superuser's, from whom no grant and no row-level security can hide a row.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::Engine as _;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use super::link::signed_links;
use super::verdict::Evidence;
use crate::help_desk::HelpDesk;
use crate::stage::{Source, Stage};

/// The demo's own subscription on the dead-letter topic: sees what the router's consumer may take away.
pub(super) const WITNESS: &str = "projects/demo/subscriptions/demo-witness";

/// Reads rows as superuser and mails from the relay.
pub(super) struct Witness<'a> {
    stage: &'a Stage,
    help_desk: &'a HelpDesk,
    client: Client,
}

/// A message on the dead-letter topic.
#[derive(Debug)]
pub(super) struct DeadLetter {
    pub(super) data: Vec<u8>,
    /// Failed deliveries, as the broker says in an attribute.
    pub(super) deliveries: Option<u64>,
}

impl<'a> Witness<'a> {
    /// # Errors
    /// The database is gone.
    pub(super) async fn of(stage: &'a Stage, help_desk: &'a HelpDesk) -> Result<Self> {
        Ok(Self { stage, help_desk, client: stage.database.superuser().await? })
    }

    /// Evidence of these submissions, in their order.
    ///
    /// # Errors
    /// The database is gone, or a row is.
    pub(super) async fn look(&self, ids: &[Uuid]) -> Result<Vec<Evidence>> {
        let sql =
            "SELECT id, status::text, routing_result, happyfox_status FROM submissions WHERE id = ANY($1)";
        let mut found = BTreeMap::new();
        for row in self.client.query(sql, &[&ids]).await? {
            found.insert(row.get::<_, Uuid>(0), of_row(row.get(1), &row.get(2), row.get(3)));
        }
        let sql = "SELECT submission_id, action::text, count(*) FROM audit_log WHERE submission_id = ANY($1)
                   GROUP BY submission_id, action";
        for row in self.client.query(sql, &[&ids]).await? {
            if let Some(evidence) = found.get_mut(&row.get::<_, Uuid>(0)) {
                evidence.audit.insert(row.get(1), usize::try_from(row.get::<_, i64>(2))?);
            }
        }
        for (id, evidence) in &mut found {
            let tag = format!("maple-{}-1-0", id.simple());
            evidence.tickets = self.help_desk.tagged(&tag).len();
        }
        for mail in self.stage.relay.mails() {
            let id = mail.submission_id.as_deref().and_then(|id| id.parse::<Uuid>().ok());
            if let Some(evidence) = id.and_then(|id| found.get_mut(&id)) {
                evidence.links += signed_links(&mail).len();
                for recipient in &mail.recipients {
                    *evidence.mailed.entry(recipient.clone()).or_default() += 1;
                }
            }
        }
        ids.iter().map(|id| found.remove(id).with_context(|| format!("submission {id} is gone"))).collect()
    }

    /// Reasons of the events that name a submission, where the database writes them, in their order.
    ///
    /// # Errors
    /// The database is gone.
    pub(super) async fn events(&self, id: Uuid) -> Result<Vec<String>> {
        let sql = "SELECT payload->>'reason' FROM router.outbox WHERE entity_id = $1 ORDER BY id";
        let rows = self.client.query(sql, &[&id]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Dead letters so far.
    ///
    /// # Errors
    /// The broker or the database is gone.
    pub(super) async fn letters_there(&self) -> Result<usize> {
        match self.stage.source() {
            Source::Pubsub => Ok(self.stage.broker.stats(WITNESS)?.backlog),
            Source::Postgres => Ok(self.kept().await?.len()),
        }
    }

    /// Dead letters that schema `router` keeps.
    async fn kept(&self) -> Result<Vec<DeadLetter>> {
        let sql = "SELECT d.payload, o.attempts FROM router.dead_letters d
                   LEFT JOIN router.outbox o ON d.message_id LIKE 'outbox:' || o.id || ':%'";
        let rows = self.client.query(sql, &[]).await?;
        let letter = |row: &tokio_postgres::Row| {
            let deliveries = row.get::<_, Option<i32>>(1).and_then(|count| u64::try_from(count).ok());
            DeadLetter { data: row.get::<_, Option<Vec<u8>>>(0).unwrap_or_default(), deliveries }
        };
        Ok(rows.iter().map(letter).collect())
    }

    /// Takes what lies on the dead-letter topic, or looks at what schema `router` keeps.
    ///
    /// # Errors
    /// The broker or the database does not answer.
    pub(super) async fn dead_letters(&self) -> Result<Vec<DeadLetter>> {
        if self.stage.source() == Source::Postgres {
            return self.kept().await;
        }
        let url = format!("{}/v1/{WITNESS}:pull", self.stage.broker.endpoint());
        let client = reqwest::Client::builder().no_proxy().build()?;
        let answer = client.post(url).json(&json!({"maxMessages": 100, "returnImmediately": true}));
        let answer: Value = answer.send().await?.error_for_status()?.json().await?;
        let received = answer["receivedMessages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let letter = |received: &Value| {
            let message = &received["message"];
            let data = message["data"].as_str().unwrap_or_default();
            let count = message["attributes"]["CloudPubSubDeadLetterSourceDeliveryCount"].as_str();
            Ok(DeadLetter {
                data: base64::engine::general_purpose::STANDARD.decode(data)?,
                deliveries: count.and_then(|count| count.parse().ok()),
            })
        };
        received.iter().map(letter).collect()
    }
}

impl DeadLetter {
    /// Whether the letter is an event about this submission.
    pub(super) fn is_about(&self, id: Uuid) -> bool {
        let event: Value = serde_json::from_slice(&self.data).unwrap_or_default();
        event["submission_id"].as_str().and_then(|text| text.parse().ok()) == Some(id)
    }
}

/// Evidence of a row alone.
fn of_row(status: String, ledger: &Value, happyfox: Option<String>) -> Evidence {
    let mut deliveries = BTreeMap::new();
    for entry in ledger["deliveries"].as_object().into_iter().flat_map(serde_json::Map::values) {
        *deliveries.entry(entry["state"].as_str().unwrap_or("open").to_owned()).or_default() += 1;
    }
    Evidence {
        status,
        reason: ledger["finished"]["reason"].as_str().map(str::to_owned),
        attempts: ledger["attempts"].as_u64().unwrap_or_default(),
        deliveries,
        happyfox,
        ..Evidence::default()
    }
}
