//! Begin (protocol §3): the write-ahead mark "about to send", fenced, and what it means when it is not possible.
//!
//! If we die after the commit, the marked deliveries are in doubt; if before, nothing was sent.

use uuid::Uuid;

use super::{Store, sql};
use crate::db::DbError;
use crate::lifecycle::submission::Status;

/// Answer to a begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The marks stand: the send may start.
    Marked,
    /// An attachment turned infected: finish as `failed(infected)`.
    Infected,
    /// An attachment is not clean any more: release with refund.
    NotClean,
    /// The claim is ours, but a delivery is not open any more (a late fact came in): read the ledger again.
    Changed,
    /// The claim is not ours any more: stop.
    Stale,
}

impl Store {
    /// Marks the open deliveries `keys` of one action as begun, if the claim stands, all of them are open, and every
    /// attachment is clean at that moment (P6).
    ///
    /// # Errors
    /// [`DbError`]: unknown whether the marks stand; nothing was sent, so treat the claim as not begun.
    pub async fn begin(&self, id: Uuid, token: &str, keys: &[String]) -> Result<Begun, DbError> {
        self.begin_after(id, token, keys, None).await
    }

    /// The same; `log_mark` says what of the relay's log was read by then.
    ///
    /// # Errors
    /// Those of [`Self::begin`].
    pub async fn begin_after(
        &self,
        id: Uuid,
        token: &str,
        keys: &[String],
        log_mark: Option<&str>,
    ) -> Result<Begun, DbError> {
        self.pool
            .transaction("begin", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK_ONE).await?;
                let begin = tx.prepare_cached(&self.statements.begin).await?;
                let (_, marked) = futures::future::try_join(
                    tx.query(&lock, &[&id]),
                    tx.query(&begin, &[&id, &token, &keys, &log_mark]),
                )
                .await?;
                if !marked.is_empty() {
                    return Ok(Begun::Marked);
                }
                let reread = tx.prepare_cached(&self.statements.reread).await?;
                let Some(row) = tx.query_opt(&reread, &[&id]).await? else {
                    return Ok(Begun::Stale);
                };
                let status: String = row.try_get("status")?;
                let holder: Option<String> = row.try_get("token")?;
                if status != Status::Processing.label() || holder.as_deref() != Some(token) {
                    return Ok(Begun::Stale);
                }
                Ok(if row.try_get::<_, bool>("infected")? {
                    Begun::Infected
                } else if row.try_get::<_, i64>("pending")? > 0 {
                    Begun::NotClean
                } else {
                    Begun::Changed
                })
            })
            .await
    }
}
