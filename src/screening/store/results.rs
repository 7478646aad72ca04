//! What jobs found. A result is kept by run, job and attempt, whoever has the lease by then: the first one stands, and whoever comes
//! later goes by it. So an answer that was paid for is not asked for again, and no second answer changes the first.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::ScreeningStore;
use crate::db::{DbError, Parameter};
use crate::kernel::rows::word_in;
use crate::screening::table::JobType;
use crate::words;

words! {
    /// `screening.scan_results.verdict`.
    ScanVerdict {
        /// Nothing stands against it.
        Pass = "pass",
        /// A person has to look.
        Concerns = "concerns",
        /// It stays out.
        Fail = "fail",
    }
}

/// What a job found.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanResult {
    /// SHA-256 of what was looked at.
    pub content: String,
    /// Version of the rules.
    pub ruleset: String,
    /// The verdict.
    pub verdict: ScanVerdict,
    /// The judge's score.
    pub score: Option<u8>,
    /// Labels of bars, counts, model, milliseconds: no text of the submission.
    pub detail: Value,
}

impl ScanResult {
    /// Labels of bars in [`Self::detail`].
    #[must_use]
    pub fn bars(&self) -> Vec<String> {
        let bars = self.detail.get("bars").and_then(Value::as_array);
        bars.map(|bars| bars.iter().filter_map(|bar| bar.as_str().map(str::to_owned)).collect())
            .unwrap_or_default()
    }
}

/// A finding: rule and place, never what was found there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct KeptFinding {
    /// The rule.
    pub rule: String,
    /// `block`, `review` or `note`.
    pub severity: String,
    /// Field or file, and line.
    pub place: String,
    /// How often.
    pub times: u32,
    /// Why it does not block.
    pub waived: Option<String>,
}

/// A valid answer of the judge.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptVerdict {
    /// Its model, as it says.
    pub model: String,
    /// The score.
    pub score: u8,
    /// Whether what it judged speaks to whoever judges it.
    pub injection: bool,
    /// Code, severity, place, scrubbed note.
    pub concerns: Value,
    /// Tokens of question and answer.
    pub tokens: (u32, u32),
    /// Milliseconds.
    pub took_ms: u32,
}

/// For what a verdict was asked: the same has the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked<'a> {
    /// SHA-256 of what was judged.
    pub content: &'a str,
    /// The model that is configured.
    pub model: &'a str,
    /// Version of the prompt.
    pub prompt: &'a str,
    /// Version of the rules.
    pub ruleset: &'a str,
}

/// A repository as it was fetched.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptSnapshot {
    /// Its address.
    pub url: String,
    /// The folder; empty: all of it.
    pub path: String,
    /// The name under which the host had the commit.
    pub reference: String,
    /// The commit.
    pub commit: String,
    /// SHA-256 of the manifest.
    pub content: String,
    /// Files.
    pub files: u32,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The version that its description declares.
    pub declared: Option<String>,
    /// The files, and as many of their bytes as are kept.
    pub manifest: Value,
}

const RECORD_SNAPSHOT: &str = "-- screening_record_snapshot
INSERT INTO screening.snapshots (submission_id, url, path, reference, commit, content, files, bytes, declared, manifest)
SELECT r.id, $2, $3, $4, $5, $6, $7, $8, $9, $10 FROM (
  SELECT r.id FROM screening.submissions r WHERE r.id = $1 AND r.closed_at IS NULL FOR NO KEY UPDATE) AS r
ON CONFLICT DO NOTHING";

const SNAPSHOT: &str = "-- screening_snapshot
SELECT s.url, s.path, s.reference, s.commit, s.content, s.files, s.bytes, s.declared, s.manifest FROM screening.snapshots s
WHERE s.submission_id = $1";

const PLACES: &str = "-- screening_places
SELECT f.rule, f.place FROM screening.findings f WHERE f.submission_id = $1 ORDER BY f.attempt, f.number LIMIT 100";

const FIRST: &str = "-- screening_first_result
SELECT r.content, r.ruleset, r.verdict, r.score, r.detail FROM screening.scan_results r
WHERE r.submission_id = $1 AND r.job_type = $2 ORDER BY r.attempt LIMIT 1";

const RECORD: &str = "-- screening_record
WITH r AS (
  INSERT INTO screening.scan_results (submission_id, job_type, attempt, content, ruleset, verdict, score, detail)
  SELECT r.id, $2, $3, $4, $5, $6, $7, $8 FROM (
    SELECT r.id FROM screening.submissions r WHERE r.id = $1 AND r.closed_at IS NULL FOR NO KEY UPDATE) AS r
  WHERE NOT EXISTS (SELECT FROM screening.scan_results x WHERE x.submission_id = $1 AND x.job_type = $2)
  ON CONFLICT DO NOTHING RETURNING attempt
), f AS (
  INSERT INTO screening.findings (submission_id, attempt, number, rule, severity, place, times, waived)
  SELECT $1, r.attempt, f.n, f.v->>'rule', f.v->>'severity', f.v->>'place', (f.v->>'times')::int, f.v->>'waived'
  FROM r, jsonb_array_elements($9) WITH ORDINALITY AS f (v, n)
)
SELECT EXISTS (SELECT FROM r) AS stands";

const SAME_VERDICTS: &str = "-- screening_same_verdicts
SELECT DISTINCT ON (v.asked) v.answered, v.score, v.injection, v.concerns, v.prompt_tokens, v.completion_tokens, v.took_ms
FROM screening.verdicts v
WHERE v.content = $1 AND v.model = $2 AND v.prompt = $3 AND v.ruleset = $4 AND NOT v.emptied AND v.submission_id = (
  SELECT x.submission_id FROM screening.verdicts x WHERE x.content = $1 AND x.model = $2 AND x.prompt = $3 AND x.ruleset = $4
    AND NOT x.emptied ORDER BY x.id LIMIT 1) ORDER BY v.asked, v.id";

const RECORD_VERDICT: &str = "-- screening_record_verdict
WITH v AS (
  INSERT INTO screening.verdicts (submission_id, attempt, asked, profile, content, model, prompt, ruleset, score, injection, concerns,
    prompt_tokens, completion_tokens, took_ms, answered)
  SELECT r.id, $2, $3, r.profile, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14 FROM (
    SELECT r.id, r.profile FROM screening.submissions r WHERE r.id = $1 AND r.closed_at IS NULL FOR NO KEY UPDATE) AS r
  ON CONFLICT DO NOTHING RETURNING submission_id
)
INSERT INTO screening.spent AS s (day, form_id, tokens)
SELECT (now() AT TIME ZONE 'UTC')::date, r.form_id, $11::bigint + $12::bigint FROM v JOIN screening.submissions r ON r.id = v.submission_id
ON CONFLICT (day, form_id) DO UPDATE SET tokens = s.tokens + EXCLUDED.tokens";

const SPEND: &str = "-- screening_spend
INSERT INTO screening.spent AS s (day, form_id, tokens) VALUES ((now() AT TIME ZONE 'UTC')::date, $1, $2)
ON CONFLICT (day, form_id) DO UPDATE SET tokens = s.tokens + EXCLUDED.tokens";

const SPENT: &str = "-- screening_spent
SELECT COALESCE(sum(s.tokens), 0)::bigint AS everybody, COALESCE(sum(s.tokens) FILTER (WHERE s.form_id = $1), 0)::bigint AS form
FROM screening.spent s WHERE s.day = (now() AT TIME ZONE 'UTC')::date";

impl ScreeningStore {
    /// The first result of a run's job.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn first_result(&self, run: Uuid, job: JobType) -> Result<Option<ScanResult>, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(FIRST).await?;
        let Some(row) = client.query_opt(&statement, &[&run, &job.label()]).await? else { return Ok(None) };
        let score: Option<i32> = row.try_get("score")?;
        Ok(Some(ScanResult {
            content: row.try_get("content")?,
            ruleset: row.try_get("ruleset")?,
            verdict: word_in(&row, "screening.scan_results", "verdict")?,
            score: score.and_then(|score| u8::try_from(score).ok()),
            detail: row.try_get("detail")?,
        }))
    }

    /// Whether the rules have blocked what a run brought.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_blocked(&self, run: Uuid) -> Result<bool, DbError> {
        let found = self.first_result(run, JobType::Tier1Scan).await?;
        Ok(found.is_some_and(|result| result.verdict == ScanVerdict::Fail))
    }

    /// Keeps a result, and returns the one that stands: this, or an earlier one.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn record(
        &self,
        run: Uuid,
        (job, attempt): (JobType, u32),
        result: &ScanResult,
        findings: &[KeptFinding],
    ) -> Result<ScanResult, DbError> {
        let attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
        let (score, findings) = (result.score.map(i32::from), json!(findings));
        // The transition that goes by it is on the disk only with it; the judge's answers have a record of their own.
        let stands: bool = self
            .pool()
            .light_transaction("screening_record", async |tx| {
                let statement = tx.prepare_cached(RECORD).await?;
                let parameters: [&dyn Parameter; 9] = [
                    &run,
                    &job.label(),
                    &attempt,
                    &result.content,
                    &result.ruleset,
                    &result.verdict.label(),
                    &score,
                    &result.detail,
                    &findings,
                ];
                Ok(tx.query_one(&statement, &parameters).await?.try_get("stands")?)
            })
            .await?;
        if stands {
            return Ok(result.clone());
        }
        Ok(self.first_result(run, job).await?.unwrap_or_else(|| result.clone()))
    }

    /// Keeps what was fetched, and returns what stands: this, or what an earlier worker fetched.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn record_snapshot(&self, run: Uuid, snapshot: &KeptSnapshot) -> Result<KeptSnapshot, DbError> {
        let files = i32::try_from(snapshot.files).unwrap_or(i32::MAX);
        let bytes = i64::try_from(snapshot.bytes).unwrap_or(i64::MAX);
        self.pool()
            .transaction("screening_record", async |tx| {
                let parameters: [&dyn Parameter; 10] = [
                    &run,
                    &snapshot.url,
                    &snapshot.path,
                    &snapshot.reference,
                    &snapshot.commit,
                    &snapshot.content,
                    &files,
                    &bytes,
                    &snapshot.declared,
                    &snapshot.manifest,
                ];
                tx.execute(&tx.prepare_cached(RECORD_SNAPSHOT).await?, &parameters).await?;
                Ok(())
            })
            .await?;
        Ok(self.snapshot(run).await?.unwrap_or_else(|| snapshot.clone()))
    }

    /// What was fetched for a run.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn snapshot(&self, run: Uuid) -> Result<Option<KeptSnapshot>, DbError> {
        let client = self.pool().get().await?;
        let Some(row) = client.query_opt(&client.prepare_cached(SNAPSHOT).await?, &[&run]).await? else {
            return Ok(None);
        };
        Ok(Some(KeptSnapshot {
            url: row.try_get("url")?,
            path: row.try_get("path")?,
            reference: row.try_get("reference")?,
            commit: row.try_get("commit")?,
            content: row.try_get("content")?,
            files: u32::try_from(row.try_get::<_, i32>("files")?).unwrap_or_default(),
            bytes: u64::try_from(row.try_get::<_, i64>("bytes")?).unwrap_or_default(),
            declared: row.try_get("declared")?,
            manifest: row.try_get("manifest")?,
        }))
    }

    /// Rule and place of what the rules found.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn findings(&self, run: Uuid) -> Result<Vec<(String, String)>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(PLACES).await?, &[&run]).await?;
        rows.iter().map(|row| Ok((row.try_get("rule")?, row.try_get("place")?))).collect()
    }

    /// The valid answers that the same question had, in the order in which they were given.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn same_verdicts(&self, asked: &Asked<'_>) -> Result<Vec<KeptVerdict>, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(SAME_VERDICTS).await?;
        let parameters: [&dyn Parameter; 4] = [&asked.content, &asked.model, &asked.prompt, &asked.ruleset];
        let number = |found: i32| u32::try_from(found).unwrap_or_default();
        client
            .query(&statement, &parameters)
            .await?
            .iter()
            .map(|row| {
                let score: i32 = row.try_get("score")?;
                Ok(KeptVerdict {
                    model: row.try_get("answered")?,
                    score: u8::try_from(score)
                        .map_err(|_| DbError::Shape("screening.verdicts.score is above 100".to_owned()))?,
                    injection: row.try_get("injection")?,
                    concerns: row.try_get("concerns")?,
                    tokens: (
                        number(row.try_get("prompt_tokens")?),
                        number(row.try_get("completion_tokens")?),
                    ),
                    took_ms: number(row.try_get("took_ms")?),
                })
            })
            .collect()
    }

    /// Keeps a valid answer, and what it cost.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn record_verdict(
        &self,
        run: Uuid,
        (attempt, nth): (u32, i32),
        asked: &Asked<'_>,
        verdict: &KeptVerdict,
    ) -> Result<(), DbError> {
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        let (attempt, score) = (number(attempt), i32::from(verdict.score));
        let (tokens, took) = ((number(verdict.tokens.0), number(verdict.tokens.1)), number(verdict.took_ms));
        self.pool()
            .transaction("screening_record", async |tx| {
                let statement = tx.prepare_cached(RECORD_VERDICT).await?;
                let parameters: [&dyn Parameter; 14] = [
                    &run,
                    &attempt,
                    &nth,
                    &asked.content,
                    &asked.model,
                    &asked.prompt,
                    &asked.ruleset,
                    &score,
                    &verdict.injection,
                    &verdict.concerns,
                    &tokens.0,
                    &tokens.1,
                    &took,
                    &verdict.model,
                ];
                tx.execute(&statement, &parameters).await?;
                Ok(())
            })
            .await
    }

    /// Counts tokens that a form's question cost, though nothing came of it.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn spend(&self, form: &str, tokens: u64) -> Result<(), DbError> {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        self.pool()
            .transaction("screening_spend", async |tx| {
                tx.execute(&tx.prepare_cached(SPEND).await?, &[&form, &tokens]).await?;
                Ok(())
            })
            .await
    }

    /// Tokens of today, of everybody and of a form.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn spent(&self, form: &str) -> Result<(u64, u64), DbError> {
        let client = self.pool().get().await?;
        let row = client.query_one(&client.prepare_cached(SPENT).await?, &[&form]).await?;
        let number = |column| -> Result<u64, DbError> {
            Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
        };
        Ok((number("everybody")?, number("form")?))
    }
}

/// An event of the document's log.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct StateEvent {
    /// Its id.
    pub id: Uuid,
    /// State before; absent at birth.
    pub from_state: Option<String>,
    /// State after.
    pub to_state: String,
    /// The trigger.
    pub trigger: String,
    /// Whoever pulled it.
    pub actor: String,
    /// `system`, `worker` or `admin`.
    pub actor_type: String,
    /// Codes and counts.
    pub metadata: Value,
    /// When.
    pub created_at: Timestamp,
}
