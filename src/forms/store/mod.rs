//! The statements of form versions. The kernel ([`Rows`]) locks and writes versions; what must hold whoever writes is the schema's
//! own (`migrations/content/002_versions.sql`).
//!
//! Each call without a transaction is one. If we die before a commit nothing happened.

pub mod contract;
pub mod read;
mod relation;
pub mod signatures;
mod sql;
pub mod watched;

use std::collections::BTreeMap;
use std::ops::Deref;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::content::{Blobs, Entry};
use super::table::Version;
use crate::db::DbError;
use crate::db::pool::{Pool, Transaction};
use crate::kernel::rows::{Row, Rows, word_in};
use crate::kernel::{Transition, words};

words! {
    /// `content.versions.source`.
    Source {
        /// A file.
        Yaml = "yaml",
        /// What the tables had.
        Adopted = "adopted",
    }
}

/// A version's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its form.
    pub form_id: String,
    /// Its number among the form's versions.
    pub number: u32,
    /// The digest of its entries, in hexadecimal digits.
    pub digest: String,
    /// Where it comes from.
    pub source: Source,
    /// Whoever loaded it.
    pub author: String,
    /// When it was loaded.
    pub created_at: Timestamp,
    /// When it was published, if ever.
    pub published_at: Option<Timestamp>,
    /// When it was taken out of use.
    pub tombstoned_at: Option<Timestamp>,
    /// Until when it can be restored.
    pub deadline: Option<Timestamp>,
}

/// The version that a form follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// The version.
    pub version: Uuid,
    /// The one before it.
    pub previous: Option<Uuid>,
    /// When the pointer moved.
    pub moved_at: Timestamp,
    /// Who moved it.
    pub moved_by: String,
}

/// A version that is to be made.
#[derive(Debug)]
pub struct NewVersion<'a> {
    /// Its id.
    pub id: Uuid,
    /// Its form.
    pub form_id: &'a str,
    /// The digest of its entries, in hexadecimal digits.
    pub digest: &'a str,
    /// Where it comes from.
    pub source: Source,
    /// Whoever loads it.
    pub author: &'a str,
    /// Its content.
    pub entries: &'a [Entry],
}

/// What was said of a version.
#[derive(Debug)]
pub struct NewDecision<'a> {
    /// The version.
    pub version: Uuid,
    /// The command that was judged.
    pub command: &'a str,
    /// The digest of what was judged, in hexadecimal digits.
    pub digest: &'a str,
    /// The digest of the policy; absent where it was away.
    pub policy: Option<&'a str>,
    /// Why not; empty: allowed.
    pub reasons: &'a [String],
    /// Whoever asked.
    pub actor: &'a str,
}

/// What the database knows of an uploaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// Its blob.
    pub blob: Uuid,
    /// The scanner's verdict.
    pub verdict: String,
    /// What its first bytes show.
    pub shown_type: Option<String>,
    /// Its length in bytes.
    pub length: u64,
}

/// Another form that uses a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// The template.
    pub template_id: String,
    /// The form.
    pub form_id: String,
    /// Whether it is managed.
    pub managed: bool,
}

/// The versions of one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct VersionStore {
    rows: Rows<Version>,
}

/// Gives access to the kernel's statements.
impl Deref for VersionStore {
    type Target = Rows<Version>;

    fn deref(&self) -> &Rows<Version> {
        &self.rows
    }
}

impl VersionStore {
    /// The versions over `pool`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { rows: Rows::new(pool, actor) }
    }

    /// Waits until nobody else loads a version of this form.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lock_form(&self, tx: &Transaction, form: &str) -> Result<(), DbError> {
        tx.query_one(&tx.prepare_cached(sql::LOCK_FORM).await?, &[&form]).await?;
        Ok(())
    }

    /// The version of a form with this content, unless that was given up.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn same(
        &self,
        tx: &Transaction,
        form: &str,
        digest: &str,
    ) -> Result<Option<Row<Version>>, DbError> {
        let row = tx.query_opt(&tx.prepare_cached(sql::BY_DIGEST).await?, &[&form, &digest]).await?;
        row.as_ref().map(crate::kernel::rows::read).transpose()
    }

    /// Makes a version with its entries; `birth` is its first transition. Returns its number.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn load(
        &self,
        tx: &Transaction,
        new: &NewVersion<'_>,
        birth: Transition<Version>,
        actor: &str,
    ) -> Result<u32, DbError> {
        let source = new.source.label();
        let parameters: [&dyn crate::db::Parameter; 5] =
            [&new.id, &new.form_id, &new.digest, &source, &new.author];
        let row = tx.query_one(&tx.prepare_cached(sql::LOAD).await?, &parameters).await?;
        let kinds: Vec<&str> = new.entries.iter().map(|entry| entry.kind.label()).collect();
        let keys: Vec<&str> = new.entries.iter().map(|entry| entry.key.as_str()).collect();
        let contents: Vec<&Value> = new.entries.iter().map(|entry| &entry.content).collect();
        tx.query(&tx.prepare_cached(sql::LOAD_ENTRIES).await?, &[&new.id, &kinds, &keys, &contents]).await?;
        let (to, command, role) = (birth.to().label(), birth.command().label(), birth.by().label());
        tx.query(&tx.prepare_cached(sql::BORN).await?, &[&new.id, &to, &command, &actor, &role]).await?;
        Ok(u32::try_from(row.try_get::<_, i32>("number")?).unwrap_or_default())
    }

    /// Keeps what was said of a version.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn decide(&self, tx: &Transaction, new: &NewDecision<'_>) -> Result<(), DbError> {
        let NewDecision { version, command, digest, policy, reasons, actor } = new;
        if reasons.is_empty() {
            let parameters: [&dyn crate::db::Parameter; 5] = [version, command, digest, policy, actor];
            tx.query(&tx.prepare_cached(sql::ALLOW).await?, &parameters).await?;
        } else {
            let reasons = Value::from(reasons.to_vec());
            let parameters: [&dyn crate::db::Parameter; 6] =
                [version, command, digest, policy, &reasons, actor];
            tx.query(&tx.prepare_cached(sql::REFUSE).await?, &parameters).await?;
        }
        Ok(())
    }

    /// Moves the pointer to a version, and with it the form's rows; `edge` and the decision that allows it are recorded.
    ///
    /// # Errors
    /// [`DbError`]: `MV001` where another version is current than `expected`.
    pub async fn promote(
        &self,
        tx: &Transaction,
        (version, edge): (Uuid, Transition<Version>),
        expected: Option<Uuid>,
        policy: &str,
        (actor, reason): (&str, Option<&str>),
    ) -> Result<(), DbError> {
        let role = edge.by().label();
        let parameters: [&dyn crate::db::Parameter; 6] =
            [&version, &expected, &policy, &actor, &role, &reason];
        tx.query_one(&tx.prepare_cached(sql::PROMOTE).await?, &parameters).await?;
        Ok(())
    }

    /// The version that a form follows.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn current_in(&self, tx: &Transaction, form: &str) -> Result<Option<Current>, DbError> {
        let row = tx.query_opt(&tx.prepare_cached(sql::CURRENT).await?, &[&form]).await?;
        row.as_ref().map(current).transpose()
    }

    /// What was uploaded for a form, by SHA-256; what was not is missing.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn files(
        &self,
        tx: &Transaction,
        form: &str,
        sha256: &[&str],
    ) -> Result<BTreeMap<String, Uploaded>, DbError> {
        let rows = tx.query(&tx.prepare_cached(sql::FILES).await?, &[&form, &sha256]).await?;
        rows.iter()
            .map(|row| {
                let length: i64 = row.try_get("length")?;
                let uploaded = Uploaded {
                    blob: row.try_get("id")?,
                    verdict: row.try_get("verdict")?,
                    shown_type: row.try_get("shown_type")?,
                    length: u64::try_from(length).unwrap_or_default(),
                };
                Ok((row.try_get("sha256")?, uploaded))
            })
            .collect()
    }

    /// Other forms whose rows use templates of this one.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn shared(
        &self,
        tx: &Transaction,
        form: &str,
        templates: &[&str],
    ) -> Result<Vec<Shared>, DbError> {
        let rows = tx.query(&tx.prepare_cached(sql::SHARED).await?, &[&form, &templates]).await?;
        rows.iter()
            .map(|row| {
                Ok(Shared {
                    template_id: row.try_get("template_id")?,
                    form_id: row.try_get("form_id")?,
                    managed: row.try_get("managed")?,
                })
            })
            .collect()
    }

    /// A version's entries.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn entries_in(&self, tx: &Transaction, version: Uuid) -> Result<Vec<Entry>, DbError> {
        tx.query(&tx.prepare_cached(sql::ENTRIES).await?, &[&version]).await?.iter().map(entry).collect()
    }

    /// What the tables have of a form, and its name; `None` where there is no such form.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn rows_of(
        &self,
        tx: &Transaction,
        form: &str,
    ) -> Result<Option<(String, Vec<Entry>)>, DbError> {
        let Some(named) = tx.query_opt(&tx.prepare_cached(sql::FORM_NAME).await?, &[&form]).await? else {
            return Ok(None);
        };
        let name: Option<String> = named.try_get("name")?;
        let rows = tx.query(&tx.prepare_cached(sql::ROWS).await?, &[&form]).await?;
        let rows = rows.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Some((name.unwrap_or_else(|| form.to_owned()), rows)))
    }

    /// The database's time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn now(&self, tx: &Transaction) -> Result<Timestamp, DbError> {
        Ok(tx.query_one(&tx.prepare_cached(sql::NOW).await?, &[]).await?.try_get("now")?)
    }

    /// Submissions on their way that follow a version.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open_plans(&self, tx: &Transaction, version: Uuid) -> Result<u64, DbError> {
        let row = tx.query_one(&tx.prepare_cached(sql::OPEN_PLANS).await?, &[&version]).await?;
        Ok(u64::try_from(row.try_get::<_, i64>("n")?).unwrap_or_default())
    }
}

/// The blobs of files.
#[must_use]
pub fn blobs(files: &BTreeMap<String, Uploaded>) -> Blobs {
    files.iter().map(|(sha256, file)| (sha256.clone(), file.blob)).collect()
}

fn entry(row: &PgRow) -> Result<Entry, DbError> {
    Ok(Entry {
        kind: word_in(row, "content.entries", "kind")?,
        key: row.try_get("key")?,
        content: row.try_get("content")?,
    })
}

fn current(row: &PgRow) -> Result<Current, DbError> {
    Ok(Current {
        version: row.try_get("version_id")?,
        previous: row.try_get("previous")?,
        moved_at: row.try_get("moved_at")?,
        moved_by: row.try_get("moved_by")?,
    })
}
