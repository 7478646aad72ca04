//! People's commands to attempts: review, have a submission graded again, let its mail go without a grade. By the schema's functions: to review
//! as the desk's role, the rest as the daemon's, which cannot change an attempt so itself.

use uuid::Uuid;

use super::GradingStore;
use super::relation::TABLE;
use crate::db::pool::Transaction;
use crate::db::{DbError, Parameter};
use crate::grading::core::result::GradingResult;
use crate::grading::table::State;
use crate::kernel::rows::word_in;
use crate::words;

words! {
    /// The outcome of a review.
    Reviewed {
        /// It is done.
        Done = "done",
        /// The attempt is not what was seen, or somebody was first.
        Stale = "stale",
        /// Its submission was emptied.
        Closed = "closed",
    }
}

words! {
    /// The outcome of the wish for another attempt.
    Regraded {
        /// There is one.
        Done = "done",
        /// No submission has this id.
        Unknown = "unknown",
        /// It was emptied.
        Purged = "purged",
        /// Its form is not graded.
        Ungraded = "ungraded",
        /// The latest attempt has not ended.
        Open = "open",
        /// The latest attempt has a final result.
        Graded = "graded",
    }
}

words! {
    /// The outcome of the wish to let a mail go.
    Released {
        /// It goes.
        Done = "done",
        /// No attempt at this submission waits.
        Unknown = "unknown",
        /// The mail never waited for a grade.
        Ungated = "ungated",
        /// It goes with its grade.
        Graded = "graded",
        /// It was let go before.
        Released = "released",
    }
}

/// An attempt that somebody wants to decide about.
#[derive(Debug, Clone)]
pub struct Held {
    /// The attempt's submission.
    pub subject: Uuid,
    /// The attempt's state.
    pub state: State,
    /// The attempt's version.
    pub version: i64,
    /// Whether this connection's role may review as a person: `maple_desk` may.
    pub may_review: bool,
}

const REVIEW: &str = "-- grading_review
SELECT assessment.review($1, $2, $3, $4, $5, $6, $7) AS answer";
const REGRADE: &str = "-- grading_regrade
SELECT r.answer, r.request FROM assessment.regrade($1, $2, $3) AS r";
const RELEASE: &str = "-- grading_release
SELECT assessment.release($1, $2, $3) AS answer";
const LOCK: &str = "-- grading_lock_attempt
SELECT a.id FROM assessment.lock_attempt($1) AS a (id)";
const HELD: &str = "-- grading_held
SELECT a.subject, a.state, a.version,
  has_function_privilege('assessment.review(uuid, bigint, jsonb, jsonb, text[], text, text)', 'EXECUTE') AS may_review
FROM assessment.submissions a WHERE a.id = $1";

impl GradingStore {
    /// Locks an attempt, so that whoever decides about its entry meets whoever takes callbacks in.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lock_attempt(&self, tx: &Transaction, request: Uuid) -> Result<(), DbError> {
        tx.query_opt(&tx.prepare_cached(LOCK).await?, &[&request]).await?;
        Ok(())
    }

    /// An attempt that was locked in `tx`.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn held_attempt(&self, tx: &Transaction, request: Uuid) -> Result<Option<Held>, DbError> {
        let row = tx.query_opt(&tx.prepare_cached(HELD).await?, &[&request]).await?;
        row.map(|row| {
            Ok(Held {
                subject: row.try_get("subject")?,
                state: word_in(&row, TABLE, "state")?,
                version: row.try_get("version")?,
                may_review: row.try_get("may_review")?,
            })
        })
        .transpose()
    }

    /// Ends a review as it was seen at `version`: the person's own result, and what follows from it and the grader's.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn review(
        &self,
        tx: &Transaction,
        (request, version): (Uuid, i64),
        (human, last): (&GradingResult, &GradingResult),
        (actor, reason): (&str, &str),
    ) -> Result<Reviewed, DbError> {
        let document = |result: &GradingResult| {
            serde_json::to_value(result).map_err(|_| DbError::Shape("a result is no document".to_owned()))
        };
        let (of_human, of_last) = (document(human)?, document(last)?);
        let digests = vec![human.digest(), last.digest()];
        let statement = tx.prepare_cached(REVIEW).await?;
        let parameters: [&dyn Parameter; 7] =
            [&request, &version, &of_human, &of_last, &digests, &actor, &reason];
        word_in(&tx.query_one(&statement, &parameters).await?, "assessment.review", "answer")
    }

    /// Opens another attempt at a submission.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn regrade(
        &self,
        tx: &Transaction,
        submission: Uuid,
        (actor, reason): (&str, &str),
    ) -> Result<(Regraded, Option<Uuid>), DbError> {
        let row = tx.query_one(&tx.prepare_cached(REGRADE).await?, &[&submission, &actor, &reason]).await?;
        Ok((word_in(&row, "assessment.regrade", "answer")?, row.try_get("request")?))
    }

    /// Lets the mail of a gated submission go without a grade.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn release(
        &self,
        tx: &Transaction,
        submission: Uuid,
        (actor, reason): (&str, &str),
    ) -> Result<Released, DbError> {
        let row = tx.query_one(&tx.prepare_cached(RELEASE).await?, &[&submission, &actor, &reason]).await?;
        word_in(&row, "assessment.release", "answer")
    }
}
