//! The statements of the uploads: sessions, blobs and their verdicts, objects that are due for removal. The kernel ([`Rows`]) claims
//! and writes sessions; what makes a blob of one is the schema's trigger.
//!
//! Each call without a transaction is one. If we die before a commit nothing happened.

pub mod contract;
mod relation;
mod sql;

use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::decide::{Open, Wanted};
use super::digest::Token;
use super::session::Session;
use super::table::{State, Upload};
use crate::config::{Dedupe, Uploads};
use crate::db::DbError;
use crate::db::pool::{Pool, Transaction};
use crate::kernel::rows::{Fence, Row, Rows, Write, word_in};
use crate::kernel::words;

words! {
    /// `content.blobs.verdict`.
    Verdict {
        /// The scanner has not said anything yet.
        Unscanned = "unscanned",
        /// `OK`, of every byte.
        Clean = "clean",
        /// Something was found; final.
        Infected = "infected",
        /// The scanner cannot judge it.
        Unscannable = "unscannable",
    }
}

/// The uploads of one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct UploadStore {
    rows: Rows<Upload>,
}

/// Gives access to the kernel's statements.
impl Deref for UploadStore {
    type Target = Rows<Upload>;

    fn deref(&self) -> &Rows<Upload> {
        &self.rows
    }
}

/// A session that is to be made.
#[derive(Debug)]
pub struct NewSession<'a> {
    /// Its id.
    pub id: Uuid,
    /// What was asked for, checked.
    pub wanted: &'a Wanted,
    /// The client's name for its request.
    pub key: &'a str,
    /// Keyed digest of the request.
    pub request_digest: [u8; 32],
    /// The session's token.
    pub token: &'a Token,
    /// Length of every part but the last.
    pub part_size: u64,
    /// The blob that is to be made.
    pub planned_blob: Uuid,
    /// The configuration.
    pub rules: &'a Uploads,
}

/// A session that the same request has made before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// Its id.
    pub id: Uuid,
    /// Keyed digest of the request that made it.
    pub request_digest: Vec<u8>,
    /// Length of every part but the last.
    pub part_size: u64,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// Whether it was committed when it was made, since the same bytes were there.
    pub at_once: bool,
}

/// A session with the database's time of the look.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The session.
    pub row: Row<Upload>,
    /// The database's time.
    pub now: Timestamp,
}

/// What is known of a blob.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Blob {
    /// Its id.
    pub id: Uuid,
    /// What the scanner says.
    pub verdict: Verdict,
    /// The scanner's name for what it found, or why it could not judge.
    pub signature: Option<String>,
    /// The scanner, and the day of its signatures.
    pub scanner: Option<String>,
    /// When it said so.
    pub scanned_at: Option<Timestamp>,
    /// When it is asked next.
    pub scan_due_at: Option<Timestamp>,
    /// The blob's state.
    pub state: String,
    /// The type that its first bytes show.
    pub shown_type: Option<String>,
    /// Attachments that are its object.
    pub attachments: i64,
}

/// What is known of an attachment that came by an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfAttachment {
    /// The attachment.
    pub attachment: Uuid,
    /// Its upload.
    pub upload: Option<Uuid>,
    /// What the scanner says.
    pub verdict: Verdict,
    /// Its name for what it found, or why it could not or did not judge.
    pub signature: Option<String>,
    /// When it is asked next.
    pub scan_due_at: Option<Timestamp>,
}

/// A blob that is to be scanned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToScan {
    /// Its id.
    pub id: Uuid,
    /// Its bucket.
    pub bucket: String,
    /// Its object.
    pub object: String,
    /// The object's generation.
    pub generation: i64,
    /// Its length in bytes.
    pub length: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// What the scanner said before.
    pub verdict: Verdict,
    /// Looks without a verdict, this one included.
    pub attempts: u32,
}

/// An object that is due for removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Its bucket.
    pub bucket: String,
    /// Its name.
    pub object: String,
    /// The session.
    pub upload_id: Uuid,
    /// The store's name of the multipart upload.
    pub store_upload_id: Option<String>,
    /// Attempts, this one included.
    pub attempts: u32,
}

/// What waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Objects that are due for removal.
    pub staging_due: u64,
    /// Blobs without a verdict.
    pub unscanned: u64,
    /// Age of the oldest of them.
    #[serde(with = "humantime_serde")]
    pub unscanned_oldest: Duration,
    /// One of them.
    pub unscanned_sample: Option<Uuid>,
    /// Blobs that the scanner cannot judge.
    pub unscannable: u64,
    /// The latest of them.
    pub unscannable_sample: Option<Uuid>,
}

impl UploadStore {
    /// The uploads over `pool`; transitions by workers and timers are recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { rows: Rows::new(pool, actor) }
    }

    /// Whether schema content is there for this role.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(sql::THERE, &[]).await?.try_get("there")?)
    }

    /// Waits until nobody else makes a session of this owner.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lock_owner(&self, tx: &Transaction, owner: &str) -> Result<(), DbError> {
        tx.query_one(&tx.prepare_cached(sql::LOCK_OWNER).await?, &[&owner]).await?;
        Ok(())
    }

    /// The session that a request with this key has made before.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn before(&self, tx: &Transaction, owner: &str, key: &str) -> Result<Option<Before>, DbError> {
        let Some(row) = tx.query_opt(&tx.prepare_cached(sql::BY_KEY).await?, &[&owner, &key]).await? else {
            return Ok(None);
        };
        let state: State = word_in(&row, "content.uploads", "state")?;
        let (deduplicated, was_sent): (bool, bool) = (row.try_get("deduplicated")?, row.try_get("was_sent")?);
        let part_size: i32 = row.try_get("part_size")?;
        Ok(Some(Before {
            id: row.try_get("id")?,
            request_digest: row.try_get("request_digest")?,
            part_size: u64::try_from(part_size).unwrap_or_default(),
            expires_at: row.try_get("expires_at")?,
            at_once: state == State::Committed && deduplicated && !was_sent,
        }))
    }

    /// What is open of an owner.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open(&self, tx: &Transaction, owner: &str) -> Result<Open, DbError> {
        let row = tx.query_one(&tx.prepare_cached(sql::OPEN).await?, &[&owner]).await?;
        Ok(Open { sessions: count(&row, "sessions")?, bytes: count(&row, "bytes")? })
    }

    /// A clean blob of the same bytes that may be taken instead, by the rules of the form.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn same(
        &self,
        tx: &Transaction,
        wanted: &Wanted,
        dedupe: Dedupe,
        fresh: Duration,
    ) -> Result<Option<Uuid>, DbError> {
        let owner = match dedupe {
            Dedupe::Off => return Ok(None),
            Dedupe::Owner => Some(wanted.owner.as_str()),
            Dedupe::Form => None,
        };
        let (Some(sha256), Ok(length)) = (&wanted.sha256, i64::try_from(wanted.length)) else {
            return Ok(None);
        };
        let parameters: [&dyn crate::db::Parameter; 5] =
            [&wanted.form_id, &owner, sha256, &length, &fresh.as_secs_f64()];
        let row = tx.query_opt(&tx.prepare_cached(sql::SAME).await?, &parameters).await?;
        row.map(|row| Ok(row.try_get("id")?)).transpose()
    }

    /// A blob of the same bytes, form and owner, whatever the scanner says of it.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn equal(&self, session: &Session) -> Result<Option<(Uuid, Verdict)>, DbError> {
        let length = i64::try_from(session.length).unwrap_or(i64::MAX);
        let client = self.pool().get().await?;
        let parameters: [&dyn crate::db::Parameter; 4] =
            [&session.form_id, &session.owner.0, &session.sha256, &length];
        let row = client.query_opt(&client.prepare_cached(sql::EQUAL).await?, &parameters).await?;
        row.map(|row| Ok((row.try_get("id")?, word_in(&row, "content.blobs", "verdict")?))).transpose()
    }

    /// Makes a session, and the row of its object. Returns when it ends by itself.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn create(&self, tx: &Transaction, new: &NewSession<'_>) -> Result<Timestamp, DbError> {
        let (wanted, rules) = (new.wanted, new.rules);
        let (digest, token) = (new.request_digest.to_vec(), new.token.sha256().to_vec());
        let length = i64::try_from(wanted.length).unwrap_or(i64::MAX);
        let part_size = i32::try_from(new.part_size).unwrap_or(i32::MAX);
        let object = Session::staging_object(new.id, new.planned_blob);
        let parameters: [&dyn crate::db::Parameter; 17] = [
            &new.id,
            &wanted.form_id,
            &wanted.owner,
            &new.key,
            &digest,
            &token,
            &wanted.file_name,
            &wanted.content_type,
            &length,
            &wanted.sha256,
            &part_size,
            &new.planned_blob,
            &rules.session_ttl.as_secs_f64(),
            &rules.unattached_ttl.as_secs_f64(),
            &rules.staging_bucket,
            &object,
            &"backend",
        ];
        let row = tx.query_one(&tx.prepare_cached(sql::CREATE).await?, &parameters).await?;
        Ok(row.try_get("expires_at")?)
    }

    /// A session.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn get(&self, id: Uuid) -> Result<Option<Seen>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(sql::GET).await?, &[&id]).await?;
        row.as_ref().map(seen).transpose()
    }

    /// Sessions, open ones by when they end, or ended ones, the latest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(
        &self,
        ended: bool,
        state: Option<State>,
        form: Option<&str>,
        most: usize,
    ) -> Result<Vec<Seen>, DbError> {
        let statement = if ended { sql::LIST_ENDED } else { sql::LIST_OPEN };
        let (most, state) = (limit(most), state.map(State::label));
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(statement).await?, &[&most, &state, &form]).await?;
        rows.iter().map(seen).collect()
    }

    /// What is known of a blob.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn blob(&self, id: Uuid) -> Result<Option<Blob>, DbError> {
        let client = self.pool().get().await?;
        let Some(row) = client.query_opt(&client.prepare_cached(sql::BLOB).await?, &[&id]).await? else {
            return Ok(None);
        };
        Ok(Some(Blob {
            id: row.try_get("id")?,
            verdict: word_in(&row, "content.blobs", "verdict")?,
            signature: row.try_get("signature")?,
            scanner: row.try_get("scanner")?,
            scanned_at: row.try_get("scanned_at")?,
            scan_due_at: row.try_get("scan_due_at")?,
            state: row.try_get("state")?,
            shown_type: row.try_get("shown_type")?,
            attachments: row.try_get("attachments")?,
        }))
    }

    /// What is known of those of these attachments that came by uploads.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn of_attachments(&self, attachments: &[Uuid]) -> Result<Vec<OfAttachment>, DbError> {
        let holders: Vec<String> = attachments.iter().map(Uuid::to_string).collect();
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::OF_ATTACHMENTS).await?, &[&holders]).await?;
        rows.iter()
            .map(|row| {
                let holder: String = row.try_get("holder")?;
                Ok(OfAttachment {
                    attachment: holder
                        .parse()
                        .map_err(|_| DbError::Shape(format!("holder {holder:?} is no attachment")))?,
                    upload: row.try_get("upload")?,
                    verdict: word_in(row, "content.blobs", "verdict")?,
                    signature: row.try_get("signature")?,
                    scan_due_at: row.try_get("scan_due_at")?,
                })
            })
            .collect()
    }

    /// Writes down the final object before it is made, while the lease is ours. Returns whether it is.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn plan(&self, id: Uuid, token: Uuid, bucket: &str, object: &str) -> Result<bool, DbError> {
        self.pool()
            .transaction("upload_plan", async |tx| {
                let plan = tx.prepare_cached(sql::PLAN).await?;
                Ok(tx.query_opt(&plan, &[&id, &token, &bucket, &object]).await?.is_some())
            })
            .await
    }

    /// Writes one transition in a transaction of its own, under what was seen. Returns whether it is written.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn write_one(
        &self,
        tx: &Transaction,
        actor: &str,
        write: Write<Upload>,
    ) -> Result<bool, DbError> {
        debug_assert!(matches!(write.fence, Fence::Locked | Fence::Lease(_)), "sessions have no version");
        Ok(self.write(tx, actor, &[write]).await?.len() == 1)
    }

    /// Makes a committed upload an attachment of a submission.
    ///
    /// # Errors
    /// [`DbError`]; the function's own refusals by their SQLSTATE.
    pub async fn attach(&self, id: Uuid, submission: Uuid) -> Result<Uuid, DbError> {
        self.pool()
            .transaction("upload_attach", async |tx| {
                let row = tx.query_one(&tx.prepare_cached(sql::ATTACH).await?, &[&id, &submission]).await?;
                Ok(row.try_get("attachment")?)
            })
            .await
    }

    /// Records a verdict, and tells the attachments that wait for it. Returns how many changed.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn record_verdict(
        &self,
        blob: Uuid,
        verdict: Verdict,
        signature: Option<&str>,
        scanner: Option<&str>,
    ) -> Result<u64, DbError> {
        self.pool()
            .transaction("upload_verdict", async |tx| {
                let record = tx.prepare_cached(sql::RECORD_VERDICT).await?;
                let row = tx.query_one(&record, &[&blob, &verdict.label(), &signature, &scanner]).await?;
                count(&row, "attachments")
            })
            .await
    }

    /// Takes up to `most` blobs whose scan is due; they are due again after `lease`.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn take_unscanned(&self, most: usize, lease: Duration) -> Result<Vec<ToScan>, DbError> {
        self.pool()
            .transaction("upload_scan_take", async |tx| {
                let take = tx.prepare_cached(sql::TAKE_UNSCANNED).await?;
                let rows = tx.query(&take, &[&limit(most), &lease.as_secs_f64()]).await?;
                rows.iter()
                    .map(|row| {
                        Ok(ToScan {
                            id: row.try_get("id")?,
                            bucket: row.try_get("bucket")?,
                            object: row.try_get("object")?,
                            generation: row.try_get("generation")?,
                            length: count(row, "length")?,
                            sha256: row.try_get("sha256")?,
                            verdict: word_in(row, "content.blobs", "verdict")?,
                            attempts: counted(row, "scan_attempts")?,
                        })
                    })
                    .collect()
            })
            .await
    }

    /// Puts the next scan of a blob off.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn scan_later(&self, blob: Uuid, pause: Duration) -> Result<(), DbError> {
        self.pool()
            .transaction("upload_scan_later", async |tx| {
                tx.execute(&tx.prepare_cached(sql::SCAN_LATER).await?, &[&blob, &pause.as_secs_f64()]).await
            })
            .await
            .map(drop)
    }

    /// Makes a blob due for a scan. Returns whether there is one.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn scan_again(&self, blob: Uuid) -> Result<bool, DbError> {
        self.pool()
            .transaction("upload_scan_again", async |tx| {
                Ok(tx.execute(&tx.prepare_cached(sql::SCAN_AGAIN).await?, &[&blob]).await? == 1)
            })
            .await
    }

    /// Makes up to `most` blobs whose verdict is older than `age` due for a scan. Returns how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn scan_stale(&self, age: Duration, most: usize) -> Result<u64, DbError> {
        self.pool()
            .transaction("upload_scan_stale", async |tx| {
                tx.execute(&tx.prepare_cached(sql::SCAN_STALE).await?, &[&age.as_secs_f64(), &limit(most)])
                    .await
            })
            .await
    }

    /// Takes up to `most` objects of the staging bucket that are due for removal.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn take_staging(&self, most: usize, bucket: &str) -> Result<Vec<Staged>, DbError> {
        self.pool()
            .transaction("upload_staging_take", async |tx| {
                let rows =
                    tx.query(&tx.prepare_cached(sql::TAKE_STAGING).await?, &[&limit(most), &bucket]).await?;
                rows.iter()
                    .map(|row| {
                        Ok(Staged {
                            bucket: row.try_get("bucket")?,
                            object: row.try_get("object")?,
                            upload_id: row.try_get("upload_id")?,
                            store_upload_id: row.try_get("store_upload_id")?,
                            attempts: counted(row, "attempts")?,
                        })
                    })
                    .collect()
            })
            .await
    }

    /// Removes the rows of objects that are gone.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn staging_gone(&self, bucket: &str, objects: &[String]) -> Result<u64, DbError> {
        self.pool()
            .transaction("upload_staging_gone", async |tx| {
                tx.execute(&tx.prepare_cached(sql::STAGING_GONE).await?, &[&bucket, &objects]).await
            })
            .await
    }

    /// Ends up to `most` references that no submission took in time. Returns how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn end_unattached(&self, most: usize) -> Result<u64, DbError> {
        self.pool()
            .transaction("upload_unattached", async |tx| {
                tx.execute(&tx.prepare_cached(sql::UNATTACHED).await?, &[&limit(most)]).await
            })
            .await
    }

    /// What waits. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn standing(&self) -> Result<Standing, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_one(&client.prepare_cached(sql::STANDING).await?, &[]).await?;
        let oldest: Option<f64> = row.try_get("unscanned_oldest")?;
        Ok(Standing {
            staging_due: count(&row, "staging_due")?,
            unscanned: count(&row, "unscanned")?,
            unscanned_oldest: Duration::try_from_secs_f64(oldest.unwrap_or_default().max(0.0))
                .unwrap_or_default(),
            unscanned_sample: row.try_get("unscanned_sample")?,
            unscannable: count(&row, "unscannable")?,
            unscannable_sample: row.try_get("unscannable_sample")?,
        })
    }
}

fn seen(row: &PgRow) -> Result<Seen, DbError> {
    Ok(Seen { row: crate::kernel::rows::read(row)?, now: row.try_get("now")? })
}

fn count(row: &PgRow, column: &str) -> Result<u64, DbError> {
    let found: i64 = row.try_get(column)?;
    u64::try_from(found).map_err(|_| DbError::Shape(format!("{column} is below 0")))
}

fn counted(row: &PgRow, column: &str) -> Result<u32, DbError> {
    let found: i32 = row.try_get(column)?;
    u32::try_from(found).map_err(|_| DbError::Shape(format!("{column} is below 0")))
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
