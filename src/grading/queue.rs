//! A queue between the two sides of grading, as its consumer sees it: a message is locked, taken in, and removed in one transaction, so that
//! it is taken in once, however often it is looked at.
//!
//! A message that cannot be read, or that the database refuses again and again, is buried: it stands in `mq.grading_dlq`, and a person hears of it.
//! If we die before the commit, the message is there as before.

use uuid::Uuid;

use crate::db::DbError;
use crate::db::pool::{Pool, Transaction};
use crate::kernel::words;

words! {
    /// The queues.
    QueueName {
        /// To the grader.
        Request = "request",
        /// From it.
        Callback = "callback",
    }
}

impl QueueName {
    /// The queue of the other way.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Request => Self::Callback,
            Self::Callback => Self::Request,
        }
    }

    /// Channel on which the schema says that there is a message.
    #[must_use]
    pub const fn channel(self) -> &'static str {
        match self {
            Self::Request => "maple_router_grading_request",
            Self::Callback => "maple_router_grading_callback",
        }
    }
}

words! {
    /// Why a message was buried.
    Buried {
        /// It cannot be read.
        Unreadable = "unreadable",
        /// It is about nothing that is known here.
        Unknown = "unknown_request",
        /// It says of a request what cannot be so.
        Impossible = "impossible",
        /// The database refuses it.
        Refused = "refused",
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: Uuid,
    /// Its document, as it came.
    pub payload: String,
}

/// Shows no payload: it has what people wrote.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("id", &self.id).field("bytes", &self.payload.len()).finish()
    }
}

/// A queue that this side consumes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Queue {
    pool: Pool,
    name: QueueName,
    /// A topic carries the messages: what has not arrived is still the producer's.
    is_linked: bool,
}

impl Queue {
    /// The queue over the pool of its consumer.
    #[must_use]
    pub const fn new(pool: Pool, name: QueueName) -> Self {
        Self { pool, name, is_linked: false }
    }

    /// The same queue at the end of a topic, or not.
    #[must_use]
    pub fn linked(self, is_linked: bool) -> Self {
        Self { is_linked, ..self }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> QueueName {
        self.name
    }

    /// The pool, for the transactions in which messages are taken in.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Ids of messages that are due, the longest-waiting first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn page(&self, most: usize) -> Result<Vec<Uuid>, DbError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let client = self.pool.get().await?;
        let statement = match self.name {
            QueueName::Request => "-- grading_request_page
SELECT q.message_id FROM mq.grading_request q WHERE q.available_at <= now() AND (q.arrived OR NOT $2) ORDER BY q.available_at, q.message_id LIMIT $1",
            QueueName::Callback => "-- grading_callback_page
SELECT q.message_id FROM mq.grading_callback q WHERE q.available_at <= now() AND (q.arrived OR NOT $2) ORDER BY q.available_at, q.message_id LIMIT $1",
        };
        let rows = client.query(&client.prepare_cached(statement).await?, &[&most, &self.is_linked]).await?;
        rows.iter().map(|row| Ok(row.try_get("message_id")?)).collect()
    }

    /// Locks a message; absent where another consumer has it, or had it.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lock(&self, tx: &Transaction, id: Uuid) -> Result<Option<Message>, DbError> {
        let statement = match self.name {
            QueueName::Request => {
                "-- grading_request_lock
SELECT q.payload::text AS payload FROM mq.grading_request q WHERE q.message_id = $1 FOR UPDATE SKIP LOCKED"
            }
            QueueName::Callback => {
                "-- grading_callback_lock
SELECT q.payload::text AS payload FROM mq.grading_callback q WHERE q.message_id = $1 FOR UPDATE SKIP LOCKED"
            }
        };
        let row = tx.query_opt(&tx.prepare_cached(statement).await?, &[&id]).await?;
        row.map(|row| Ok(Message { id, payload: row.try_get("payload")? })).transpose()
    }

    /// Removes a message that was locked and taken in.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn remove(&self, tx: &Transaction, id: Uuid) -> Result<(), DbError> {
        let statement = match self.name {
            QueueName::Request => {
                "-- grading_request_remove
DELETE FROM mq.grading_request q WHERE q.message_id = $1"
            }
            QueueName::Callback => {
                "-- grading_callback_remove
DELETE FROM mq.grading_callback q WHERE q.message_id = $1"
            }
        };
        tx.execute(&tx.prepare_cached(statement).await?, &[&id]).await?;
        Ok(())
    }

    /// Buries a message that was locked; `detail` is in words of ours.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn bury(
        &self,
        tx: &Transaction,
        message: &Message,
        why: Buried,
        detail: &str,
    ) -> Result<(), DbError> {
        const BURY: &str = "-- grading_bury
INSERT INTO mq.grading_dlq (queue, message_id, payload, reason, detail) VALUES ($1, $2, $3::text::jsonb, $4, left($5, 500))";
        let statement = tx.prepare_cached(BURY).await?;
        tx.execute(&statement, &[&self.name.label(), &message.id, &message.payload, &why.label(), &detail])
            .await?;
        self.remove(tx, message.id).await
    }

    /// Buries a message that the database refused; one that is not there any more was taken in.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn bury_refused(&self, id: Uuid, detail: &str) -> Result<(), DbError> {
        self.pool
            .transaction("grading_take", async |tx| match self.lock(&tx, id).await? {
                Some(message) => self.bury(&tx, &message, Buried::Refused, detail).await,
                None => Ok(()),
            })
            .await
    }

    /// Puts a message back that the database refused, for a pause that grows; answers how often it was.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn put_back(&self, id: Uuid) -> Result<i32, DbError> {
        let statement = match self.name {
            QueueName::Request => "-- grading_request_put_back
UPDATE mq.grading_request q SET tries = q.tries + 1, available_at = clock_timestamp() + make_interval(secs => power(2, least(q.tries, 6)))
WHERE q.message_id = $1 RETURNING q.tries",
            QueueName::Callback => "-- grading_callback_put_back
UPDATE mq.grading_callback q SET tries = q.tries + 1, available_at = clock_timestamp() + make_interval(secs => power(2, least(q.tries, 6)))
WHERE q.message_id = $1 RETURNING q.tries",
        };
        self.pool
            .transaction("grading_take", async |tx| {
                let row = tx.query_opt(&tx.prepare_cached(statement).await?, &[&id]).await?;
                row.map_or(Ok(0), |row| Ok(row.try_get("tries")?))
            })
            .await
    }
}

/// A fault that is the message's: a rule of the schema that it breaks, or a row that it is about and that cannot be read. Others are the
/// database's, and come again.
#[must_use]
pub fn is_the_messages(error: &DbError) -> bool {
    if matches!(error, DbError::Shape(_)) {
        return true;
    }
    // Data exceptions, integrity constraints, and what triggers raise.
    error.sqlstate().is_some_and(|state| ["22", "23", "P0"].iter().any(|class| state.starts_with(class)))
}
