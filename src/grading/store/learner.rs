//! Learners' statements: tickets that are spent once, the events of a submission's attempts, and the grade that may be shown.

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::GradingStore;
use super::relation::TABLE;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::grading::core::result::GradingResult;
use crate::grading::learner::{Grade, Standing, Told};
use crate::grading::table::State;
use crate::kernel::rows::word_in;

/// An event of an attempt at a submission, as far as a learner may know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Its id.
    pub id: Uuid,
    /// Its place among all events.
    pub number: i64,
    /// The attempt.
    pub request: Uuid,
    /// The attempt's number.
    pub attempt: u32,
    /// The attempt's state after it.
    pub state: State,
    /// When.
    pub at: Timestamp,
}

/// That something happened to a submission's attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// The event.
    pub event: Uuid,
    /// The submission.
    pub subject: Uuid,
    /// When.
    pub at: Timestamp,
}

/// Those that have been over for an hour go first. `$1` digest, `$2` submission.
const MAKE: &str = "-- grading_ticket_make
WITH old AS (
  DELETE FROM assessment.tickets t WHERE t.digest IN (
    SELECT x.digest FROM assessment.tickets x WHERE x.expires_at < now() - interval '1 hour' ORDER BY x.expires_at LIMIT 100)
)
INSERT INTO assessment.tickets (digest, subject, expires_at)
SELECT $1, $2, now() + interval '60 seconds' WHERE EXISTS (SELECT FROM assessment.submissions a WHERE a.subject = $2)
RETURNING expires_at";

/// `$1` digest, `$2` submission. Another's ticket is not spent.
const SPEND: &str = "-- grading_ticket_spend
UPDATE assessment.tickets t SET used_at = now()
WHERE t.digest = $1 AND t.subject = $2 AND t.used_at IS NULL AND t.expires_at > now()
RETURNING now() AS now";

const NOW: &str = "-- grading_now
SELECT now() AS now";

const SUBJECT: &str = "-- grading_subject
SELECT a.state, a.attempt, a.id, a.state_since FROM assessment.submissions a WHERE a.subject = $1 AND a.current AND a.closed_at IS NULL";

/// An event that is no transition is told where a late result has come.
const FOLLOWED: &str = "-- grading_followed
SELECT e.id, e.number, a.id AS request, a.attempt, e.to_state AS state, e.created_at
FROM assessment.submissions a JOIN assessment.events e ON e.submission_id = a.id
WHERE a.subject = $1 AND a.closed_at IS NULL AND (e.from_state IS DISTINCT FROM e.to_state OR e.trigger = 'late-result')
ORDER BY e.number LIMIT 500";

/// The state is asked in the same statement: nothing is shown of what a person still looks at.
const GRADE: &str = "-- grading_grade
SELECT r.result, r.is_late FROM assessment.submissions a JOIN assessment.results r ON r.request_id = a.id
WHERE a.id = $1 AND a.closed_at IS NULL AND r.result IS NOT NULL AND NOT r.dup
  AND ((a.state = 'COMPLETED' AND r.kind = 'final') OR (a.state = 'FAILED' AND r.is_late))
ORDER BY r.id LIMIT 1";

const HAPPENED: &str = "-- grading_happened
SELECT e.id, a.subject, e.created_at FROM assessment.events e JOIN assessment.submissions a ON a.id = e.submission_id
WHERE e.created_at > $1 ORDER BY e.created_at, e.number LIMIT $2";

impl GradingStore {
    /// Keeps a ticket for a minute; answers when it is over, or nothing where no attempt at this submission is known.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn make_ticket(
        &self,
        tx: &Transaction,
        digest: &[u8],
        subject: Uuid,
    ) -> Result<Option<Timestamp>, DbError> {
        let row = tx.query_opt(&tx.prepare_cached(MAKE).await?, &[&digest.to_vec(), &subject]).await?;
        row.map(|row| Ok(row.try_get("expires_at")?)).transpose()
    }

    /// Spends a ticket for this submission; answers the database's time, or nothing where it opens nothing.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn spend_ticket(
        &self,
        tx: &Transaction,
        digest: &[u8],
        subject: Uuid,
    ) -> Result<Option<Timestamp>, DbError> {
        let row = tx.query_opt(&tx.prepare_cached(SPEND).await?, &[&digest.to_vec(), &subject]).await?;
        row.map(|row| Ok(row.try_get("now")?)).transpose()
    }

    /// The database's time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn time(&self) -> Result<Timestamp, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(&client.prepare_cached(NOW).await?, &[]).await?.try_get("now")?)
    }

    /// The learner's view of a submission now; absent where no attempt at it is known, or it was emptied.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn told(&self, submission: Uuid) -> Result<Option<Told>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(SUBJECT).await?, &[&submission]).await?;
        drop(client);
        let Some(row) = row else { return Ok(None) };
        let state: State = word_in(&row, TABLE, "state")?;
        let result = self.grade(row.try_get("id")?, state).await?;
        let standing = Standing::of(state);
        let (attempt, at) = (number(&row)?, row.try_get("state_since")?);
        Ok(Some(Told { submission, attempt, state: standing, words: standing.words(), at, result }))
    }

    /// The learner's view of an event.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn told_of(&self, submission: Uuid, event: &Followed) -> Result<Told, DbError> {
        let standing = Standing::of(event.state);
        let result = self.grade(event.request, event.state).await?;
        let (attempt, at) = (event.attempt, event.at);
        Ok(Told { submission, attempt, state: standing, words: standing.words(), at, result })
    }

    async fn grade(&self, request: Uuid, state: State) -> Result<Option<Grade>, DbError> {
        if !state.is_final() {
            return Ok(None);
        }
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(GRADE).await?, &[&request]).await?;
        row.map(|row| {
            let result: Value = row.try_get("result")?;
            let result: GradingResult = serde_json::from_value(result)
                .map_err(|_| DbError::Shape("assessment.results.result is no result".to_owned()))?;
            Ok(Grade::of(result, row.try_get("is_late")?))
        })
        .transpose()
    }

    /// The events of all attempts at a submission that its learner is told of, in order.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn followed(&self, subject: Uuid) -> Result<Vec<Followed>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(FOLLOWED).await?, &[&subject]).await?;
        rows.iter()
            .map(|row| {
                Ok(Followed {
                    id: row.try_get("id")?,
                    number: row.try_get("number")?,
                    request: row.try_get("request")?,
                    attempt: number(row)?,
                    state: word_in(row, TABLE, "state")?,
                    at: row.try_get("created_at")?,
                })
            })
            .collect()
    }

    /// Up to `most` events since `since`, and the database's time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn happened(
        &self,
        since: Option<Timestamp>,
        most: i64,
    ) -> Result<(Vec<Happened>, Timestamp), DbError> {
        let now = self.time().await?;
        let Some(since) = since else { return Ok((Vec::new(), now)) };
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(HAPPENED).await?, &[&since, &most]).await?;
        let happened = rows.iter().map(|row| {
            Ok(Happened {
                event: row.try_get("id")?,
                subject: row.try_get("subject")?,
                at: row.try_get("created_at")?,
            })
        });
        Ok((happened.collect::<Result<_, DbError>>()?, now))
    }
}

fn number(row: &PgRow) -> Result<u32, DbError> {
    let attempt: i32 = row.try_get("attempt")?;
    u32::try_from(attempt).map_err(|_| DbError::Shape(format!("{TABLE}.attempt is below 0")))
}
