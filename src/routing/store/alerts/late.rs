//! Infections found after the submission was routed: searched page by page, leased and confirmed in the ledger's
//! `late_infection` as failures are in its `alert`.
//!
//! No index knows which routed rows wait for an alert. So the search begins with the infected attachments, of which schema
//! `router` has an index, and asks for their submissions one by one. Never here: a change of status or of `updated_at`; a
//! cast of an untested value; a wait for a row that another transaction has locked.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::{AlertStore, Confirmed, locked, sql};
use crate::db::{DbError, Parameter};
use crate::routing::store::stored::Stored;
use crate::routing::submission::link_life::{last_accepted, links_live};

/// One page of submissions with an infected attachment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LatePage {
    /// Number of these submissions that are routed.
    pub routed: usize,
    /// Routed submissions of which nobody was notified, and that nobody has leased now.
    pub unnotified: Vec<Uuid>,
    /// Id behind which the next page begins; absent after the last.
    pub next: Option<Uuid>,
}

/// A routed submission with an infected attachment whose alert this daemon has leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// The submission.
    pub id: Uuid,
    /// The submission's form.
    pub form_id: String,
    /// Time since the relay accepted the last mail; absent where the ledger does not say.
    pub sent: Option<Duration>,
    /// Longest time for which a link of that mail still works; zero: none does any more.
    pub links: Duration,
}

impl AlertStore {
    /// Returns up to `page` submissions with an infected attachment, in id order behind `after`. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn late_infections(&self, after: Option<Uuid>, page: usize) -> Result<LatePage, DbError> {
        let limit = i64::try_from(page).unwrap_or(i64::MAX);
        let rows = self
            .pool
            .seeking_transaction("alert_look", async |tx| {
                let statement = tx.prepare_cached(&self.statements.late_find).await?;
                let parameters: [&dyn Parameter; 4] =
                    [&self.not_before, &self.lease_seconds(), &after, &limit];
                tx.query(&statement, &parameters).await
            })
            .await?;
        let mut found = LatePage::default();
        for row in &rows {
            let (id, routed): (Uuid, Option<bool>) = (row.try_get("id")?, row.try_get("routed")?);
            found.routed += usize::from(routed == Some(true));
            if row.try_get::<_, Option<bool>>("unnotified")? == Some(true) {
                found.unnotified.push(id);
            }
            found.next = Some(id);
        }
        found.next = found.next.filter(|_| rows.len() >= page);
        Ok(found)
    }

    /// Leases under `token` those of `rows` that still need an alert; the others are left alone. Links work for `ttl` at
    /// most.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lease_late(&self, rows: &[Uuid], token: Uuid, ttl: Duration) -> Result<Vec<Late>, DbError> {
        let token = token.to_string();
        self.pool
            .transaction("alert_lease", async |tx| {
                let locked = locked(&tx, rows).await?;
                let statement = tx.prepare_cached(&self.statements.late_lease).await?;
                let parameters: [&dyn Parameter; 4] =
                    [&self.not_before, &self.lease_seconds(), &locked, &token];
                let leased = tx.query(&statement, &parameters).await?;
                leased.iter().map(|row| late(row, ttl)).collect()
            })
            .await
    }

    /// Confirms the rows still leased under `token` for the end that stands now.
    ///
    /// # Errors
    /// [`DbError`]; pages before it stand.
    pub async fn confirm_late(&self, token: Uuid, rows: &[Uuid]) -> Result<Confirmed, DbError> {
        self.record("alert_confirm", sql::LATE_CONFIRM, token, rows).await
    }

    /// Gives back the rows still leased under `token`.
    ///
    /// # Errors
    /// [`DbError`]; pages before it stand.
    pub async fn give_back_late(&self, token: Uuid, rows: &[Uuid]) -> Result<Confirmed, DbError> {
        self.record("alert_release", sql::LATE_GIVE_BACK, token, rows).await
    }
}

fn late(row: &tokio_postgres::Row, ttl: Duration) -> Result<Late, DbError> {
    let now: Timestamp = row.try_get("now")?;
    let ends: Option<Timestamp> = row.try_get("retention_expires_at")?;
    let ledger = row.try_get::<_, Stored>("routing_result")?.ledger();
    let sent = ledger.ok().as_ref().and_then(last_accepted);
    let since = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
    Ok(Late {
        id: row.try_get("id")?,
        form_id: row.try_get::<_, Option<String>>("form_id")?.unwrap_or_default(),
        sent: sent.map(since),
        links: links_live(sent, ttl, ends, now),
    })
}
