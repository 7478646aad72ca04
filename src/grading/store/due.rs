//! Attempts whose deadline has passed. None of them is failed while a callback of it waits to be taken in: what the grader has done in time
//! is not lost because this side was away.

use jiff::Timestamp;
use uuid::Uuid;

use super::GradingStore;
use crate::db::DbError;
use crate::grading::intake;
use crate::grading::table::{Grading, State};
use crate::kernel::rows::{Fence, Row, Write};
use serde_json::json;

const DUE: &str = "-- grading_due
SELECT a.deadline, a.id FROM assessment.submissions a
WHERE a.state IN ('PENDING', 'QUEUED', 'PROCESSING', 'ERROR', 'RETRYING') AND a.closed_at IS NULL AND a.deadline < now()
  AND (a.deadline, a.id) > ($2, $3)
  AND NOT EXISTS (SELECT FROM mq.grading_callback c WHERE c.payload->>'requestId' = a.id::text)
ORDER BY a.deadline, a.id LIMIT $1";
/// Asked again under the lock: a callback that was written since is seen by this statement.
const WAITS: &str = "-- grading_callback_waits
SELECT EXISTS (SELECT FROM mq.grading_callback c WHERE c.payload->>'requestId' = $1::uuid::text) AS waits, clock_timestamp() > $2 AS late";

impl GradingStore {
    /// Attempts whose deadline has passed, the longest ago first, behind a place: the deadline and id of the last one that was looked at.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn due(&self, behind: (Timestamp, Uuid), most: i64) -> Result<Vec<(Timestamp, Uuid)>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(DUE).await?, &[&most, &behind.0, &behind.1]).await?;
        rows.iter().map(|row| Ok((row.try_get("deadline")?, row.try_get("id")?))).collect()
    }

    /// Fails an attempt whose deadline has passed, and tells the grader that nobody waits for it any more. Answers the attempt as it was,
    /// where it was failed. `message`: the id of what is told.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn time_out(&self, id: Uuid, message: Uuid) -> Result<Option<Row<Grading>>, DbError> {
        self.pool()
            .transaction("grading_time_out", async |tx| {
                let Some(row) = self.hold(&tx, &[id]).await?.pop() else { return Ok(None) };
                if !row.state.is_timed() || row.columns.closed_at.is_some() {
                    return Ok(None);
                }
                let statement = tx.prepare_cached(WAITS).await?;
                let found = tx.query_one(&statement, &[&id, &row.columns.deadline]).await?;
                if found.try_get("waits")? || !found.try_get::<_, bool>("late")? {
                    return Ok(None);
                }
                let transition =
                    intake::time_out(row.state).map_err(|refusal| DbError::Shape(refusal.to_string()))?;
                let mut columns = json!({
                    "failed_reason": "timeout",
                    "metadata": {"state": row.state.label(), "attempt": row.columns.attempt},
                });
                // Before its queue nobody else knows of it.
                if row.state != State::Pending
                    && let Some(columns) = columns.as_object_mut()
                {
                    columns.insert("message".to_owned(), json!(message));
                    columns.insert(
                        "request".to_owned(),
                        json!({
                            "kind": "cancel", "requestId": id, "submissionId": row.columns.subject, "attempt": row.columns.attempt,
                        }),
                    );
                }
                let write = Write { columns: Some(columns), ..Write::plain(id, Fence::Locked, transition) };
                self.write(&tx, self.actor(), &[write]).await?;
                Ok(Some(row))
            })
            .await
    }
}
