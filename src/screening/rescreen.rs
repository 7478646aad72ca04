//! Another run of a submission, and the submission open again where screening had failed it: both or nothing.
//!
//! Both are written in the caller's transaction, under the submission's lock; if we die before its commit nothing happened.

use uuid::Uuid;

use super::store::ScreeningStore;
use super::store::people::Rescreened;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::subject::{OnAccount, Remedied, Remedy, Subject};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is screened again.
    Done {
        /// The run.
        run: Uuid,
        /// Whether it had failed as screened out, and is open again.
        replayed: bool,
    },
    /// There can be no run; with the one that is open.
    Refused(Rescreened, Option<Uuid>),
    /// It could be screened, and not be routed: nothing was done. Why, in words.
    Unroutable(String),
}

/// Opens another run in `tx`; `submissions` is the room that routes them.
///
/// # Errors
/// [`DbError`]: nothing was done.
pub async fn rescreen(
    tx: &Transaction,
    store: &ScreeningStore,
    submissions: &dyn Subject,
    id: Uuid,
    (actor, reason): (&str, &str),
) -> Result<Outcome, DbError> {
    submissions.lock(tx, id).await?;
    let out = store.is_screened_out(tx, id).await?;
    tx.execute("SAVEPOINT rescreen", &[]).await?;
    let (answer, run) = store.rescreen(tx, id, (actor, reason)).await?;
    let (Rescreened::Done, Some(run)) = (answer, run) else { return Ok(Outcome::Refused(answer, run)) };
    if out {
        let review = format!("screening:{run}");
        let account = OnAccount { actor, reason, review: &review, delivery: None };
        if let Remedied::Refused(why) = submissions.remedy(tx, id, Remedy::Replay, account).await? {
            tx.execute("ROLLBACK TO SAVEPOINT rescreen", &[]).await?;
            return Ok(Outcome::Unroutable(why));
        }
    }
    Ok(Outcome::Done { run, replayed: out })
}
