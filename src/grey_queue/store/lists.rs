//! What pages show beside a list: counts, the entries of some ids, the open entries of some subjects. Reads only.

use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::relation::{TABLE, entry};
use super::{Filter, GreyQueueStore, sql};
use crate::db::DbError;
use crate::grey_queue::entry::Entry;
use crate::grey_queue::table::{OPEN, State};
use crate::kernel::rows::word_in;

impl GreyQueueStore {
    /// The database's time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn time(&self) -> Result<Timestamp, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(&client.prepare_cached(sql::NOW).await?, &[]).await?.try_get("now")?)
    }

    /// The open entries that `filter` chooses, by state, zeros among them; the filter's own states do not count.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn counts(&self, filter: &Filter) -> Result<Vec<(State, u64)>, DbError> {
        let (statement, parameters) = filter.counting();
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(&statement).await?;
        let mut found = BTreeMap::new();
        for row in client.query(&statement, &parameters.as_parameters()).await? {
            let state: State = word_in(&row, TABLE, "state")?;
            let count: i64 = row.try_get("count")?;
            found.insert(state.label(), u64::try_from(count).unwrap_or_default());
        }
        let count = |state: &State| (*state, found.get(state.label()).copied().unwrap_or_default());
        Ok(OPEN.iter().map(count).collect())
    }

    /// The entries of these ids, in no order.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn some(&self, ids: &[Uuid]) -> Result<Vec<Entry>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::SOME).await?, &[&ids]).await?;
        rows.iter().map(entry).collect()
    }

    /// The open entry of each of these subjects that has one; the oldest where there are several causes.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open_about(&self, subjects: &[Uuid]) -> Result<BTreeMap<Uuid, Uuid>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::OPEN_ABOUT).await?, &[&subjects]).await?;
        rows.iter().map(|row| Ok((row.try_get("subject_id")?, row.try_get("id")?))).collect()
    }
}
