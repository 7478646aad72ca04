//! Holds, and how long submissions are kept.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::{RetentionStore, limit, sql};
use crate::db::{DbError, Parameter};
use crate::words;

words! {
    /// `content.holds.scope`.
    Scope {
        /// Everything.
        All = "all",
        /// A form: its submissions, and its files.
        Form = "form",
        /// A submission.
        Submission = "submission",
        /// A blob.
        Blob = "blob",
    }
}

/// A hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// Its number.
    pub id: i64,
    /// What kind of thing it names.
    pub scope: String,
    /// The thing; empty: everything.
    pub value: String,
    /// Why.
    pub reason: String,
    /// Whoever placed it.
    pub actor: String,
    /// Since when.
    pub at: Timestamp,
    /// When it was lifted.
    pub released_at: Option<Timestamp>,
    /// Whoever lifted it.
    pub released_by: Option<String>,
    /// Why it was lifted.
    pub released_why: Option<String>,
}

/// How long a form's submissions are kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// The form; empty: every other one.
    pub form_id: String,
    /// Seconds for which a routed submission is kept, from its arrival.
    pub keep_routed: f64,
    /// Seconds for which a failed one is kept.
    pub keep_failed: f64,
    /// Whoever said so.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

impl RetentionStore {
    /// Places a hold, once every removal that is under way has ended. Returns its number.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn place_hold(
        &self,
        scope: Scope,
        value: &str,
        reason: &str,
        actor: &str,
    ) -> Result<i64, DbError> {
        let scope = scope.label();
        let parameters: [&dyn Parameter; 4] = [&scope, &value, &reason, &actor];
        self.pool()
            .transaction("hold_place", async |tx| {
                let row = tx.query_one(&tx.prepare_cached(sql::PLACE_HOLD).await?, &parameters).await?;
                Ok(row.try_get("id")?)
            })
            .await
    }

    /// Lifts a hold. `false`: there is none of this number, or it is lifted already.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn release_hold(&self, id: i64, actor: &str, reason: &str) -> Result<bool, DbError> {
        let parameters: [&dyn Parameter; 3] = [&id, &actor, &reason];
        self.pool()
            .transaction("hold_release", async |tx| {
                let row = tx.query_one(&tx.prepare_cached(sql::RELEASE_HOLD).await?, &parameters).await?;
                Ok(row.try_get("released")?)
            })
            .await
    }

    /// Holds, the latest first; `all`: lifted ones as well.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn holds(&self, all: bool, most: usize) -> Result<Vec<Hold>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::HOLDS).await?, &[&all, &limit(most)]).await?;
        rows.iter()
            .map(|row| {
                Ok(Hold {
                    id: row.try_get("id")?,
                    scope: row.try_get("scope")?,
                    value: row.try_get("value")?,
                    reason: row.try_get("reason")?,
                    actor: row.try_get("actor")?,
                    at: row.try_get("at")?,
                    released_at: row.try_get("released_at")?,
                    released_by: row.try_get("released_by")?,
                    released_why: row.try_get("released_why")?,
                })
            })
            .collect()
    }

    /// How long submissions are kept, by form.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn rules(&self) -> Result<Vec<Rule>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::RULES).await?, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(Rule {
                    form_id: row.try_get("form_id")?,
                    keep_routed: row.try_get("keep_routed")?,
                    keep_failed: row.try_get("keep_failed")?,
                    set_by: row.try_get("set_by")?,
                    set_at: row.try_get("set_at")?,
                })
            })
            .collect()
    }

    /// Sets how long a form's submissions are kept; an empty form: every other one's.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn set_rule(
        &self,
        form: &str,
        keep_routed: Duration,
        keep_failed: Duration,
        actor: &str,
    ) -> Result<(), DbError> {
        let (routed, failed) = (keep_routed.as_secs_f64(), keep_failed.as_secs_f64());
        let parameters: [&dyn Parameter; 4] = [&form, &routed, &failed, &actor];
        self.pool()
            .transaction("retention_set", async |tx| {
                tx.query(&tx.prepare_cached(sql::SET_RULE).await?, &parameters).await?;
                Ok(())
            })
            .await
    }

    /// Removes the rule of a form. `false`: it has none.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn remove_rule(&self, form: &str) -> Result<bool, DbError> {
        self.pool()
            .transaction("retention_set", async |tx| {
                Ok(tx.query_opt(&tx.prepare_cached(sql::REMOVE_RULE).await?, &[&form]).await?.is_some())
            })
            .await
    }
}
