//! What pages and verbs read of form versions. Changes nothing.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::{Current, VersionStore, current, entry, sql};
use crate::db::DbError;
use crate::forms::content::Entry;
use crate::forms::table::Version;
use crate::kernel::rows::{Row, read};

/// Forms, versions, decisions and records that are read at once.
const PAGE: i64 = 500;

/// A form and its versions, counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormLine {
    /// The form.
    pub form_id: String,
    /// Its name.
    pub name: Option<String>,
    /// Number of the version that it follows; absent: it is not managed.
    pub current: Option<i32>,
    /// When the pointer moved.
    pub moved_at: Option<Timestamp>,
    /// Who moved it.
    pub moved_by: Option<String>,
    /// Drafts.
    pub drafts: i64,
    /// Published versions.
    pub published: i64,
    /// The highest number.
    pub newest: Option<i32>,
}

/// What was said of a version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Said {
    /// The command that was judged.
    pub command: String,
    /// The digest of the policy; absent where it was away.
    pub policy: Option<String>,
    /// Whether it was allowed.
    pub allowed: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// Whoever asked.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

impl VersionStore {
    /// Whether schema content has versions for this role.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(sql::THERE, &[]).await?.try_get("there")?)
    }

    /// Every form, by id.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn forms(&self) -> Result<Vec<FormLine>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::FORMS).await?, &[&PAGE]).await?;
        rows.iter()
            .map(|row| {
                Ok(FormLine {
                    form_id: row.try_get("form_id")?,
                    name: row.try_get("name")?,
                    current: row.try_get("current")?,
                    moved_at: row.try_get("moved_at")?,
                    moved_by: row.try_get("moved_by")?,
                    drafts: row.try_get("drafts")?,
                    published: row.try_get("published")?,
                    newest: row.try_get("newest")?,
                })
            })
            .collect()
    }

    /// A form's versions, the newest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn of_form(&self, form: &str) -> Result<Vec<Row<Version>>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::OF_FORM).await?, &[&form, &PAGE]).await?;
        rows.iter().map(read).collect()
    }

    /// A version of a form.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn by_number(&self, form: &str, number: u32) -> Result<Option<Row<Version>>, DbError> {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(sql::BY_NUMBER).await?, &[&form, &number]).await?;
        row.as_ref().map(read).transpose()
    }

    /// A version.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn by_id(&self, id: Uuid) -> Result<Option<Row<Version>>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(sql::BY_ID).await?, &[&id]).await?;
        row.as_ref().map(read).transpose()
    }

    /// The version that a form follows.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn current(&self, form: &str) -> Result<Option<Current>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(sql::CURRENT).await?, &[&form]).await?;
        row.as_ref().map(current).transpose()
    }

    /// A version's entries.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn entries(&self, version: Uuid) -> Result<Vec<Entry>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::ENTRIES).await?, &[&version]).await?;
        rows.iter().map(entry).collect()
    }

    /// What was said of a version, the latest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn decisions(&self, version: Uuid) -> Result<Vec<Said>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::DECISIONS).await?, &[&version, &PAGE]).await?;
        rows.iter()
            .map(|row| {
                let reasons: serde_json::Value = row.try_get("reasons")?;
                Ok(Said {
                    command: row.try_get("command")?,
                    policy: row.try_get("policy")?,
                    allowed: row.try_get("allowed")?,
                    reasons: serde_json::from_value(reasons).unwrap_or_default(),
                    actor: row.try_get("actor")?,
                    at: row.try_get("at")?,
                })
            })
            .collect()
    }
}
