//! Which forms are screened and how, waivers and calibrations: set by the publisher, read by everybody.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Row as PgRow;

use super::ScreeningStore;
use crate::db::{DbError, Parameter};
use crate::kernel::rows::word_in;
use crate::screening::run::Profile;
use crate::words;

words! {
    /// Why a rule does not block; GitHub's words for the push protection's bypass.
    WaiverReason {
        /// It is wrong.
        FalsePositive = "false_positive",
        /// It is a test's.
        UsedInTests = "used_in_tests",
        /// Somebody mends it later.
        WillFix = "will_fix",
    }
}

/// A form that is screened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScreenedForm {
    /// The form.
    pub form_id: String,
    /// What is screened.
    pub profile: Profile,
    /// Submissions created since then have a run.
    pub since: Timestamp,
    /// Submissions created since then wait for theirs.
    pub enforced_since: Option<Timestamp>,
    /// No run is approved without a person.
    pub force_review: bool,
    /// Whoever said so.
    pub set_by: String,
}

/// A rule that does not block in a form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeptWaiver {
    /// Its number.
    pub id: i64,
    /// The form.
    pub form_id: String,
    /// The rule.
    pub rule: String,
    /// The place; absent: everywhere.
    pub place: Option<String>,
    /// Why, in a word.
    pub reason: WaiverReason,
    /// Why.
    pub why: String,
    /// Whoever said so.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

/// The trial of a model with a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// The profile.
    pub profile: Profile,
    /// The model.
    pub model: String,
    /// The prompt's version.
    pub prompt: String,
    /// Items of the corpus.
    pub items: u32,
    /// The harmless ones among them.
    pub harmless: u32,
    /// Those that were answered validly.
    pub answered: u32,
    /// Those of the others that would have been approved.
    pub false_approvals: u32,
    /// Whether it may approve.
    pub approves: bool,
}

const ENABLE: &str = "-- screening_enable
INSERT INTO screening.forms AS f (form_id, profile, enforced_since, force_review, set_by, since)
SELECT $1, $2, CASE WHEN $3 THEN n.now END, $4, $5, n.now FROM (SELECT clock_timestamp() AS now) AS n
ON CONFLICT (form_id) DO UPDATE SET profile = EXCLUDED.profile, force_review = EXCLUDED.force_review, set_by = EXCLUDED.set_by,
  set_at = clock_timestamp(), enforced_since = CASE WHEN $3 THEN COALESCE(f.enforced_since, EXCLUDED.enforced_since) END";
const DISABLE: &str = "-- screening_disable
DELETE FROM screening.forms f WHERE f.form_id = $1";
const FORMS: &str = "-- screening_forms
SELECT f.form_id, f.profile, f.since, f.enforced_since, f.force_review, f.set_by FROM screening.forms f ORDER BY f.form_id";
const IS_FORM: &str = "-- screening_is_form
SELECT EXISTS (SELECT FROM public.forms f WHERE f.id = $1) AS there";
const MAY_SET: &str = "-- screening_may_set
SELECT has_table_privilege('screening.forms', 'INSERT') AND has_table_privilege('screening.waivers', 'INSERT')
  AND has_table_privilege('screening.calibrations', 'INSERT') AS may";
const WAIVE: &str = "-- screening_waive
INSERT INTO screening.waivers (form_id, rule, place, reason, why, actor) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING id";
const END_WAIVER: &str = "-- screening_end_waiver
UPDATE screening.waivers w SET ended_at = clock_timestamp(), ended_by = $2 WHERE w.id = $1 AND w.ended_at IS NULL RETURNING w.id";
const WAIVERS: &str = "-- screening_waivers
SELECT w.id, w.form_id, w.rule, w.place, w.reason, w.why, w.actor, w.at FROM screening.waivers w
WHERE w.ended_at IS NULL AND ($1::text IS NULL OR w.form_id = $1) ORDER BY w.id";
const RECORD_TRIAL: &str = "-- screening_calibrate
INSERT INTO screening.calibrations (profile, model, prompt, items, harmless, answered, false_approvals, approves, actor)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const APPROVES: &str = "-- screening_approves
SELECT c.approves FROM screening.calibrations c WHERE c.profile = $1 AND c.model = $2 AND c.prompt = $3 ORDER BY c.id DESC LIMIT 1";

impl ScreeningStore {
    /// Has a form screened from now on. An enforced one keeps the time since when it is.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn enable(
        &self,
        form: &str,
        (profile, enforced, force_review): (Profile, bool, bool),
        actor: &str,
    ) -> Result<(), DbError> {
        self.pool()
            .transaction("screening_set", async |tx| {
                let parameters: [&dyn Parameter; 5] =
                    [&form, &profile.label(), &enforced, &force_review, &actor];
                tx.execute(&tx.prepare_cached(ENABLE).await?, &parameters).await?;
                Ok(())
            })
            .await
    }

    /// Has a form screened no more; open runs go on, and what waits for them waits. Returns whether it was.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn disable(&self, form: &str) -> Result<bool, DbError> {
        self.pool()
            .transaction("screening_set", async |tx| {
                Ok(tx.execute(&tx.prepare_cached(DISABLE).await?, &[&form]).await? > 0)
            })
            .await
    }

    /// Whether the backend has such a form.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_form(&self, form: &str) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(&client.prepare_cached(IS_FORM).await?, &[&form]).await?.try_get("there")?)
    }

    /// Whether this role sets what is screened: it is the publisher's.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn may_set(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(&client.prepare_cached(MAY_SET).await?, &[]).await?.try_get("may")?)
    }

    /// The forms that are screened.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn forms(&self) -> Result<Vec<ScreenedForm>, DbError> {
        let client = self.pool().get().await?;
        let form = |row: &PgRow| {
            Ok(ScreenedForm {
                form_id: row.try_get("form_id")?,
                profile: word_in(row, "screening.forms", "profile")?,
                since: row.try_get("since")?,
                enforced_since: row.try_get("enforced_since")?,
                force_review: row.try_get("force_review")?,
                set_by: row.try_get("set_by")?,
            })
        };
        client.query(&client.prepare_cached(FORMS).await?, &[]).await?.iter().map(form).collect()
    }

    /// Has a rule not block in a form. Returns its number; `None` where the same is waived already.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn waive(
        &self,
        form: &str,
        (rule, place): (&str, Option<&str>),
        reason: WaiverReason,
        (why, actor): (&str, &str),
    ) -> Result<Option<i64>, DbError> {
        self.pool()
            .transaction("screening_set", async |tx| {
                let parameters: [&dyn Parameter; 6] = [&form, &rule, &place, &reason.label(), &why, &actor];
                let row = tx.query_opt(&tx.prepare_cached(WAIVE).await?, &parameters).await?;
                row.map(|row| Ok(row.try_get("id")?)).transpose()
            })
            .await
    }

    /// Ends a waiver. Returns whether it stood.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn end_waiver(&self, id: i64, actor: &str) -> Result<bool, DbError> {
        self.pool()
            .transaction("screening_set", async |tx| {
                Ok(tx.query_opt(&tx.prepare_cached(END_WAIVER).await?, &[&id, &actor]).await?.is_some())
            })
            .await
    }

    /// The waivers that stand, of a form or of all.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn waivers(&self, form: Option<&str>) -> Result<Vec<KeptWaiver>, DbError> {
        let client = self.pool().get().await?;
        let waiver = |row: &PgRow| {
            Ok(KeptWaiver {
                id: row.try_get("id")?,
                form_id: row.try_get("form_id")?,
                rule: row.try_get("rule")?,
                place: row.try_get("place")?,
                reason: word_in(row, "screening.waivers", "reason")?,
                why: row.try_get("why")?,
                actor: row.try_get("actor")?,
                at: row.try_get("at")?,
            })
        };
        client.query(&client.prepare_cached(WAIVERS).await?, &[&form]).await?.iter().map(waiver).collect()
    }

    /// Keeps a trial; the latest one counts.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn record_trial(&self, trial: &Trial, actor: &str) -> Result<(), DbError> {
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        let (items, harmless) = (number(trial.items), number(trial.harmless));
        let (answered, wrong) = (number(trial.answered), number(trial.false_approvals));
        self.pool()
            .transaction("screening_set", async |tx| {
                let parameters: [&dyn Parameter; 9] = [
                    &trial.profile.label(),
                    &trial.model,
                    &trial.prompt,
                    &items,
                    &harmless,
                    &answered,
                    &wrong,
                    &trial.approves,
                    &actor,
                ];
                tx.execute(&tx.prepare_cached(RECORD_TRIAL).await?, &parameters).await?;
                Ok(())
            })
            .await
    }

    /// Whether the latest trial of this model with this prompt lets it approve; without a trial it may not.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn approves(&self, profile: Profile, model: &str, prompt: &str) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(APPROVES).await?;
        let row = client.query_opt(&statement, &[&profile.label(), &model, &prompt]).await?;
        Ok(row.map(|row| row.try_get("approves")).transpose()?.unwrap_or(false))
    }
}
