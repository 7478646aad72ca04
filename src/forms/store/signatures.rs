//! Signatures of versions, as they were brought. What each counts for is judged when it matters ([`crate::forms::signing`]).

use jiff::Timestamp;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::{VersionStore, sql};
use crate::db::DbError;
use crate::db::pool::Transaction;

/// A signature that is to be kept.
#[derive(Debug)]
pub struct NewSignature<'a> {
    /// The version.
    pub version: Uuid,
    /// The key's fingerprint.
    pub key: &'a str,
    /// The signature, as `ssh-keygen -Y sign` writes it.
    pub signature: &'a str,
    /// Whoever brought it.
    pub actor: &'a str,
}

/// A signature that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The key's fingerprint.
    pub key: String,
    /// The signature.
    pub signature: String,
    /// Whoever brought it.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

impl VersionStore {
    /// Keeps a signature; says whether there was none of this key.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn sign(&self, tx: &Transaction, new: &NewSignature<'_>) -> Result<bool, DbError> {
        let NewSignature { version, key, signature, actor } = new;
        let parameters: [&dyn crate::db::Parameter; 4] = [version, key, signature, actor];
        Ok(tx.query_opt(&tx.prepare_cached(sql::SIGN).await?, &parameters).await?.is_some())
    }

    /// A version's signatures, in the order of their coming.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn signatures_in(&self, tx: &Transaction, version: Uuid) -> Result<Vec<Kept>, DbError> {
        tx.query(&tx.prepare_cached(sql::SIGNATURES).await?, &[&version]).await?.iter().map(kept).collect()
    }
}

fn kept(row: &PgRow) -> Result<Kept, DbError> {
    Ok(Kept {
        key: row.try_get("key")?,
        signature: row.try_get("signature")?,
        actor: row.try_get("actor")?,
        at: row.try_get("at")?,
    })
}
