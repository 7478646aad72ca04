//! The program's own statements on `router.outbox`: events written by an operator, redriven rows, the rows that `explain`
//! shows. The kernel ([`Rows`]) claims and settles rows.
//!
//! Each call is one transaction. If we die before its commit nothing happened.

pub mod contract;
pub mod dead_letters;
mod relation;
mod sql;

use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::table::{Command, Outbox, State};
use crate::config::Pooling;
use crate::db::pool::{Pool, Transaction};
use crate::db::{DbError, router};
use crate::kernel::rows::{self, Attempts, Fence, Rows, Write};
use crate::kernel::{NotPossible, Transition, Who};

/// The outbox of one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OutboxStore {
    rows: Rows<Outbox>,
}

/// Gives access to the kernel's statements.
impl Deref for OutboxStore {
    type Target = Rows<Outbox>;

    fn deref(&self) -> &Rows<Outbox> {
        &self.rows
    }
}

/// A row about a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// `router.outbox.id`
    pub id: i64,
    /// The row's state.
    pub state: State,
    /// The reason given when the row was written.
    pub reason: Option<String>,
    /// Time at which the row was written.
    pub created_at: Timestamp,
    /// Time of the next attempt, if any.
    pub available_at: Timestamp,
    /// Time of the delivery.
    pub delivered_at: Option<Timestamp>,
    /// The id from the topic's server.
    pub message_id: Option<String>,
    /// The row's claims so far.
    pub claims: u32,
    /// The cause of its last failure.
    pub error: Option<String>,
}

/// The result of a redrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redriven {
    /// The row is to be delivered again.
    Done,
    /// No such row.
    Unknown,
    /// The row's state does not allow a redrive.
    Refused(NotPossible),
}

impl Redriven {
    /// Why the row stays as it is, in words for people.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Unknown => Some(
                "its row in the outbox is not there any more: `maple-router publish` has its submission looked at"
                    .to_owned(),
            ),
            Self::Refused(refusal) => Some(refusal.to_string()),
        }
    }
}

impl OutboxStore {
    /// The outbox of `pool`; transitions are recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { rows: Rows::new(pool, actor) }
    }

    /// Returns how the sessions of its statements are pooled.
    #[must_use]
    pub fn pooling(&self) -> Pooling {
        self.pool().pooling()
    }

    /// Returns whether there is an outbox that this role may use.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        router::outbox_is_there(self.pool()).await
    }

    /// Lets a row that was given up on be delivered again, and closes its dead-letter record.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn redrive(&self, id: i64, actor: &str, reason: &str) -> Result<Redriven, DbError> {
        self.pool()
            .transaction("outbox_redrive", async |tx| self.redrive_in(&tx, id, actor, reason).await)
            .await
    }

    /// [`Self::redrive`] in the caller's transaction: its commit decides whether it stands.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn redrive_in(
        &self,
        tx: &Transaction,
        id: i64,
        actor: &str,
        reason: &str,
    ) -> Result<Redriven, DbError> {
        let close = tx.prepare_cached(sql::REDRIVE).await?;
        let Some(row) = self.hold(tx, &[id]).await?.pop() else { return Ok(Redriven::Unknown) };
        let transition = match Transition::of(row.state, Command::Redrive, Who::OPERATOR) {
            Ok(transition) => transition,
            Err(refusal) => return Ok(Redriven::Refused(refusal)),
        };
        let write = Write {
            attempts: Attempts::Reset,
            pause: Some(Duration::ZERO),
            reason: Some(reason.to_owned()),
            columns: Some(json!({"error": null})),
            ..Write::plain(id, Fence::Locked, transition)
        };
        self.write(tx, actor, &[write]).await?;
        tx.query(&close, &[&id, &actor, &reason]).await?;
        Ok(Redriven::Done)
    }

    /// Writes events for submissions, in the order given; returns their rows' ids in that order. The submissions need not
    /// exist.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn announce(&self, submissions: &[Uuid], reason: &str) -> Result<Vec<i64>, DbError> {
        self.pool()
            .transaction("outbox_announce", async |tx| announce_in(&tx, submissions, reason).await)
            .await
    }

    /// Writes a canary; returns its row's id.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn canary(&self) -> Result<i64, DbError> {
        let client = self.pool().get().await?;
        let canary = client.prepare_cached(sql::CANARY).await?;
        Ok(client.query_one(&canary, &[]).await?.try_get("id")?)
    }

    /// Up to `most` rows about a submission, the youngest first. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn about(&self, submission: Uuid, most: usize) -> Result<Vec<About>, DbError> {
        let client = self.pool().get().await?;
        let rows = client
            .query(
                &client.prepare_cached(sql::ABOUT).await?,
                &[&submission, &i64::try_from(most).unwrap_or(i64::MAX)],
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(About {
                    id: row.try_get("id")?,
                    state: rows::word_in(row, "router.outbox", "state")?,
                    reason: row.try_get("reason")?,
                    created_at: row.try_get("created_at")?,
                    available_at: row.try_get("available_at")?,
                    delivered_at: row.try_get("delivered_at")?,
                    message_id: row.try_get("message_id")?,
                    claims: u32::try_from(row.try_get::<_, i32>("claims")?).unwrap_or_default(),
                    error: row.try_get("error")?,
                })
            })
            .collect()
    }
}

/// Writes events for submissions in the caller's transaction.
async fn announce_in(tx: &Transaction, submissions: &[Uuid], reason: &str) -> Result<Vec<i64>, DbError> {
    let announce = tx.prepare_cached(sql::ANNOUNCE).await?;
    let rows = tx.query(&announce, &[&submissions, &reason]).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}
