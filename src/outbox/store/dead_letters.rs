//! Dead-letter records as the outbox closes them: with the row that is delivered again, or with the event that is written in
//! place of a message of Pub/Sub's.
//!
//! A record is locked after its row, as a redrive does it, so that the two cannot wait for each other. If we die before the
//! commit nothing happened.

use uuid::Uuid;

use super::{OutboxStore, announce_in, sql};
use crate::db::DbError;
use crate::db::pool::Transaction;

/// A dead-letter record, with the state of its submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The outbox row that was given up on; absent where the message was Pub/Sub's.
    pub row: Option<i64>,
    /// The submission that the letter names.
    pub submission: Option<Uuid>,
    /// Whether there is a row of that submission to be seen.
    pub known: bool,
    /// Whether the submission has ended.
    pub ended: bool,
    /// Whether somebody had the letter delivered again; then by whom, and why.
    pub redriven: Option<(String, String)>,
    /// Whether somebody has discarded the record.
    pub discarded: bool,
}

impl OutboxStore {
    /// A dead-letter record; `None` where there is none. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn dead_letter(&self, record: Uuid) -> Result<Option<DeadLetter>, DbError> {
        let client = self.pool().get().await?;
        let read = client.prepare_cached(sql::DEAD_LETTER).await?;
        client.query_opt(&read, &[&record]).await?.as_ref().map(dead_letter).transpose()
    }

    /// Locks a dead-letter record in the caller's transaction, its row first, and reads it; `None` where there is none.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn hold_dead_letter(
        &self,
        tx: &Transaction,
        record: Uuid,
    ) -> Result<Option<DeadLetter>, DbError> {
        let lock = tx.prepare_cached(sql::LOCK_DEAD_LETTER).await?;
        let read = tx.prepare_cached(sql::DEAD_LETTER).await?;
        let Some(found) = tx.query_opt(&read, &[&record]).await? else { return Ok(None) };
        if let Some(row) = dead_letter(&found)?.row {
            self.hold(tx, &[row]).await?;
        }
        tx.query(&lock, &[&record]).await?;
        tx.query_opt(&read, &[&record]).await?.as_ref().map(dead_letter).transpose()
    }

    /// Writes an event for `submission` in the caller's transaction and closes the record with it.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn announce_in_place_of(
        &self,
        tx: &Transaction,
        (record, submission): (Uuid, Uuid),
        event: &str,
        (actor, reason): (&str, &str),
    ) -> Result<(), DbError> {
        let close = tx.prepare_cached(sql::CLOSE_DEAD_LETTER).await?;
        announce_in(tx, &[submission], event).await?;
        tx.execute(&close, &[&record, &actor, &reason]).await?;
        Ok(())
    }
}

fn dead_letter(row: &tokio_postgres::Row) -> Result<DeadLetter, DbError> {
    let text = |column| row.try_get::<_, Option<String>>(column).map(Option::unwrap_or_default);
    let redriven = row.try_get::<_, bool>("redriven")?;
    Ok(DeadLetter {
        row: row.try_get("outbox_row")?,
        submission: row.try_get("submission_id")?,
        known: row.try_get("known")?,
        ended: row.try_get("ended")?,
        redriven: if redriven { Some((text("actor")?, text("reason_closed")?)) } else { None },
        discarded: row.try_get("discarded")?,
    })
}
