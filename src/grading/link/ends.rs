//! The ends of both queues on one side, in its own database: what is to be published, and what has come. The functions of schema mq do it, since a
//! producer may not look into its queue, nor a consumer put anything into its own.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::db::DbError;
use crate::db::pool::Pool;
use crate::grading::queue::{Buried, QueueName};

/// A message that is to be published.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The message's id.
    pub id: Uuid,
    /// The message's document.
    pub payload: String,
    /// Time at which it was written, by the database's clock.
    pub written: Timestamp,
}

/// Shows no payload: it has what people wrote.
impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("id", &self.id).field("bytes", &self.payload.len()).finish()
    }
}

/// The ends on one side. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ends {
    pool: Pool,
    sends: QueueName,
}

impl Ends {
    /// The ends of the side that sends into this queue.
    #[must_use]
    pub const fn new(pool: Pool, sends: QueueName) -> Self {
        Self { pool, sends }
    }

    /// The queue that this side sends into.
    #[must_use]
    pub const fn sends(&self) -> QueueName {
        self.sends
    }

    /// The queue that this side takes from.
    #[must_use]
    pub const fn receives(&self) -> QueueName {
        self.sends.other()
    }

    /// Messages to be published, the longest-waiting first. For `lease` no other relay gets them.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn to_send(&self, most: usize, lease: Duration) -> Result<Vec<Outgoing>, DbError> {
        let (most, lease) = (i32::try_from(most).unwrap_or(i32::MAX), lease.as_secs_f64());
        let statement = match self.sends {
            QueueName::Request => {
                "-- grading_requests_to_send\nSELECT s.message_id, s.payload, s.at FROM mq.requests_to_send($1, $2) AS s"
            }
            QueueName::Callback => {
                "-- grading_callbacks_to_send\nSELECT s.message_id, s.payload, s.at FROM mq.callbacks_to_send($1, $2) AS s"
            }
        };
        self.pool
            .transaction("grading_link", async |tx| {
                let rows = tx.query(&tx.prepare_cached(statement).await?, &[&most, &lease]).await?;
                rows.iter()
                    .map(|row| {
                        Ok(Outgoing {
                            id: row.try_get("message_id")?,
                            payload: row.try_get("payload")?,
                            written: row.try_get("at")?,
                        })
                    })
                    .collect()
            })
            .await
    }

    /// Takes out messages that the topic has.
    ///
    /// # Errors
    /// [`DbError`]: they are published once more.
    pub async fn sent(&self, ids: &[Uuid]) -> Result<(), DbError> {
        let statement = match self.sends {
            QueueName::Request => "-- grading_requests_sent\nSELECT mq.requests_sent($1)",
            QueueName::Callback => "-- grading_callbacks_sent\nSELECT mq.callbacks_sent($1)",
        };
        self.pool
            .transaction("grading_link", async |tx| {
                tx.execute(&tx.prepare_cached(statement).await?, &[&ids]).await.map(drop)
            })
            .await
    }

    /// Puts a message that has come into the queue of this side. Answers its age, by this database's clock.
    ///
    /// # Errors
    /// [`DbError`]; also where its payload is no JSON.
    pub async fn arrived(&self, id: Uuid, payload: &str, written: Timestamp) -> Result<Duration, DbError> {
        let statement = match self.receives() {
            QueueName::Request => {
                "-- grading_request_arrived\nSELECT mq.request_arrived($1, $2::text::jsonb, $3) AS age"
            }
            QueueName::Callback => {
                "-- grading_callback_arrived\nSELECT mq.callback_arrived($1, $2::text::jsonb, $3) AS age"
            }
        };
        self.pool
            .transaction("grading_link", async |tx| {
                let row =
                    tx.query_one(&tx.prepare_cached(statement).await?, &[&id, &payload, &written]).await?;
                Ok(Duration::try_from_secs_f64(row.try_get("age")?).unwrap_or_default())
            })
            .await
    }

    /// Keeps the evidence of a message that no queue can hold: its size, and its id in Pub/Sub.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn bury(&self, id: Uuid, bytes: usize, name: &str, detail: &str) -> Result<(), DbError> {
        const BURY: &str = "-- grading_bury_arrived
INSERT INTO mq.grading_dlq (queue, message_id, payload, reason, detail) VALUES ($1, $2, $3, $4, left($5, 500))";
        let evidence = json!({"bytes": bytes, "pubsubMessageId": name});
        self.pool
            .transaction("grading_link", async |tx| {
                let statement = tx.prepare_cached(BURY).await?;
                let parameters: [&dyn crate::db::Parameter; 5] =
                    [&self.receives().label(), &id, &evidence, &Buried::Unreadable.label(), &detail];
                tx.execute(&statement, &parameters).await.map(drop)
            })
            .await
    }
}
