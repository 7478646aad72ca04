//! What people do with runs: decide, have a job tried again, have a submission screened again. By the schema's functions: to decide
//! as the desk's role, the rest as the daemon's, which cannot change a run otherwise.

use uuid::Uuid;

use super::ScreeningStore;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::Transition;
use crate::kernel::rows::word_in;
use crate::screening::table::{Screening, State};
use crate::words;

words! {
    /// What became of a decision.
    Decided {
        /// It is done.
        Done = "done",
        /// The submission is not what was screened.
        Changed = "changed",
        /// The run is not what was seen.
        Stale = "stale",
        /// The run is over without an end, or another one is current.
        Closed = "closed",
    }
}

words! {
    /// What became of the wish for another run.
    Rescreened {
        /// There is one.
        Done = "done",
        /// No submission has this id.
        Unknown = "unknown",
        /// It was emptied.
        Purged = "purged",
        /// Its form is not screened.
        Unscreened = "unscreened",
        /// A run is open.
        Open = "open",
    }
}

/// A run that somebody wants to decide about.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// The run's state.
    pub state: State,
    /// The run's version.
    pub version: i64,
    /// Whether this connection's role may decide as a person: `maple_desk` may.
    pub may_decide: bool,
}

const DECIDE: &str = "-- screening_decide
SELECT screening.decide($1, $2, $3, $4, $5) AS answer";
const REDRIVE: &str = "-- screening_redrive
SELECT screening.redrive($1) AS done";
const RESCREEN: &str = "-- screening_rescreen
SELECT r.answer, r.run FROM screening.rescreen($1, $2, $3) AS r";
const LOCK: &str = "-- screening_lock
SELECT r.id FROM screening.lock_run($1) AS r (id)";
const HELD: &str = "-- screening_held
SELECT r.state, r.version, has_function_privilege('screening.decide(uuid, bigint, text, text, text)', 'EXECUTE') AS may_decide
FROM screening.submissions r WHERE r.id = $1";
const SCREENED_OUT: &str = "-- screening_screened_out
SELECT EXISTS (SELECT FROM public.submissions s WHERE s.id = $1 AND s.status = 'failed'
  AND s.routing_result#>>'{finished,reason}' = 'screened_out') AS yes";
const AS_SCREENED: &str = "-- screening_as_screened
SELECT EXISTS (SELECT FROM screening.submissions r JOIN public.submissions s ON s.id = r.subject WHERE r.id = $1
  AND (NOT r.enforced OR r.state <> 'PUBLISHED' OR screening.gate(s.id, s.form_id::text, s.created_at) = 'passed')) AS yes";

impl ScreeningStore {
    /// Locks a run, so that whoever decides about its entry meets whoever works on it.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lock_run(&self, tx: &Transaction, run: Uuid) -> Result<(), DbError> {
        tx.query_opt(&tx.prepare_cached(LOCK).await?, &[&run]).await?;
        Ok(())
    }

    /// A run that was locked in `tx`.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn hold_run(&self, tx: &Transaction, run: Uuid) -> Result<Option<Held>, DbError> {
        let row = tx.query_opt(&tx.prepare_cached(HELD).await?, &[&run]).await?;
        row.map(|row| {
            Ok(Held {
                state: word_in(&row, "screening.submissions", "state")?,
                version: row.try_get("version")?,
                may_decide: row.try_get("may_decide")?,
            })
        })
        .transpose()
    }

    /// Whether the submission of an ended run is what was screened.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_as_screened(&self, run: Uuid) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(&client.prepare_cached(AS_SCREENED).await?, &[&run]).await?.try_get("yes")?)
    }

    /// Whether a submission, locked in `tx`, has failed because screening keeps it out.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_screened_out(&self, tx: &Transaction, submission: Uuid) -> Result<bool, DbError> {
        Ok(tx.query_one(&tx.prepare_cached(SCREENED_OUT).await?, &[&submission]).await?.try_get("yes")?)
    }

    /// Takes a person's edge on the run as it was seen at `version`.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn decide(
        &self,
        tx: &Transaction,
        (run, version): (Uuid, i64),
        edge: Transition<Screening>,
        (actor, reason): (&str, &str),
    ) -> Result<Decided, DbError> {
        let statement = tx.prepare_cached(DECIDE).await?;
        let row =
            tx.query_one(&statement, &[&run, &version, &edge.command().label(), &actor, &reason]).await?;
        word_in(&row, "screening.decide", "answer")
    }

    /// Has a job that was given up on tried again. Returns whether it was given up on.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn redrive(&self, tx: &Transaction, run: Uuid) -> Result<bool, DbError> {
        Ok(tx.query_one(&tx.prepare_cached(REDRIVE).await?, &[&run]).await?.try_get("done")?)
    }

    /// Opens another run of a submission.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn rescreen(
        &self,
        tx: &Transaction,
        submission: Uuid,
        (actor, reason): (&str, &str),
    ) -> Result<(Rescreened, Option<Uuid>), DbError> {
        let statement = tx.prepare_cached(RESCREEN).await?;
        let row = tx.query_one(&statement, &[&submission, &actor, &reason]).await?;
        Ok((word_in(&row, "screening.rescreen", "answer")?, row.try_get("run")?))
    }
}
