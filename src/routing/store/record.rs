//! Record and finish (protocol §5, §6): facts merge, everything else is fenced, and the end of a claim is computed
//! from the ledger under the row's lock, in the transaction of its last record.
//!
//! If we die before the commit, deliveries with an intent are in doubt; after it, the ledger says all. A fact commits even
//! when the claim beside it is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::group::Rows;
use super::locked::Reading;
use super::writing::{NextMail, Record, Writing, Written, readable};
use super::{Store, sql};
use crate::db::DbError;
use crate::db::batch::{Batch, Refused, divided};
use crate::routing::claims::Heartbeat;
use crate::routing::decide::draft::{Draft, Ending};
use crate::routing::submission::ledger::{FailReason, Finished};
use crate::routing::submission::outcome::Entries;
use crate::routing::table::Status;

pub use crate::routing::decide::draft::{Conclusion, GoesOn, Recorded};

/// The outcome of facts that came without their claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// The facts are in the ledger, now or already.
    Stand,
    /// No row has this id, and none can be hidden.
    Gone,
    /// No row of this id can be seen, but a policy may hide it.
    Hidden,
    /// Retention has emptied the submission: nothing is written to it.
    Purged,
}

/// The claim of a record, and how it may be released.
#[derive(Debug, Clone, Copy)]
pub struct RecordScope<'a> {
    /// The submission.
    pub id: Uuid,
    /// The claim's token.
    pub token: &'a str,
    /// Actions tried under this claim.
    pub tried: &'a BTreeSet<i32>,
    /// Pause before the next attempt, should there be one.
    pub pause: Duration,
    /// Whether an outage left open what is open: a release gives the attempt back (protocol, "Outages").
    pub refund: bool,
}

impl Store {
    /// Records the outcomes of one send and, when nothing is left to try under this claim, ends it. Writes that others
    /// request at the same moment share its transaction.
    ///
    /// # Errors
    /// [`DbError`]: unknown whether it stands; repeat it as it is, a fact is recognised by its nonce.
    pub async fn record(&self, scope: RecordScope<'_>, entries: &Entries) -> Result<Recorded, DbError> {
        self.record_and_begin(scope, &Arc::new(entries.clone()), None).await
    }

    /// [`Self::record`]; where the claim goes on with a mail, that mail's intent is recorded with the outcomes, as a begin
    /// would: the claim stands, the deliveries are open and unpaused, and every attachment is clean at that moment (P6). One
    /// row version says both.
    ///
    /// # Errors
    /// The errors of [`Self::record`].
    pub async fn record_and_begin(
        &self,
        scope: RecordScope<'_>,
        entries: &Arc<Entries>,
        next: Option<NextMail>,
    ) -> Result<Recorded, DbError> {
        let RecordScope { id, token, tried, pause, refund } = scope;
        let (token, tried) = (token.to_owned(), tried.clone());
        let record = Record { id, token, tried, pause, refund, entries: Arc::clone(entries), next };
        match self.write(Writing::Record(record)).await? {
            Written::Recorded(recorded) => Ok(recorded),
            Written::BeginAnswer(_) | Written::Hidden => {
                Err(DbError::Shape("a record was answered as a begin".to_owned()))
            }
        }
    }

    /// Decides on one row under its lock and writes the change; `None` where there is no such row.
    async fn write_one<T: Send>(
        &self,
        name: &'static str,
        id: Uuid,
        decide: impl Fn(&mut Draft) -> T + Sync,
    ) -> Result<Option<T>, DbError> {
        self.pool
            .keyed_transaction(name, async |tx| {
                let mut locked = self.hold(&tx, &[id], Rows::Awaited, Reading::Row).await?;
                let Some(mut draft) = locked.draft(id)? else { return Ok(None) };
                let answer = decide(&mut draft);
                self.write_locked(&tx, vec![(id, draft.into_change())]).await?;
                Ok(Some(answer))
            })
            .await
    }

    /// Records facts and nothing else, whichever worker has the claim now: facts that an ended process left in the spool.
    ///
    /// # Errors
    /// [`DbError`]: unknown whether they stand; repeat it, a fact is recognised by its nonce.
    pub async fn merge_facts(
        &self,
        id: Uuid,
        token: &str,
        facts: &Map<String, Value>,
    ) -> Result<Merged, DbError> {
        self.pool
            .keyed_transaction("merge_facts", async |tx| {
                let mut locked = self.hold(&tx, &[id], Rows::Awaited, Reading::Row).await?;
                let Some(mut draft) = locked.draft(id)? else {
                    // The policies are still those of the read: they cannot change under the lock we have on the table.
                    let statement = tx.prepare_cached(sql::SUBMISSIONS_ALL_SHOWN).await?;
                    let all: bool = tx.query_one(&statement, &[]).await?.try_get("shown")?;
                    return Ok(if all { Merged::Gone } else { Merged::Hidden });
                };
                draft.merge(token, facts);
                let purged = draft.status() == Some(Status::Purged);
                self.write_locked(&tx, vec![(id, draft.into_change())]).await?;
                Ok(if purged { Merged::Purged } else { Merged::Stand })
            })
            .await
    }

    /// Ends a claim as failed for a reason that is not in its deliveries (an attachment turned infected).
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn fail(&self, scope: RecordScope<'_>, reason: FailReason) -> Result<Recorded, DbError> {
        let fail = |draft: &mut Draft| readable(scope.id, draft.fail(scope.token, reason));
        Ok(self.write_one("fail", scope.id, fail).await?.unwrap_or(Recorded::Stale))
    }

    /// The terminal end of the claim `token`, if it has one: asked when the answer to its last record was lost.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn ended_by(&self, id: Uuid, token: &str) -> Result<Option<Conclusion>, DbError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(sql::READ_END).await?;
        let Some(row) = client.query_opt(&statement, &[&id, &token]).await? else { return Ok(None) };
        let finished: Value = row.try_get("finished")?;
        let finished =
            Finished::deserialize(&finished).map_err(|error| DbError::Shape(format!("finished: {error}")))?;
        Ok(Some(match finished.reason {
            Some(reason) => Conclusion::Failed { at: finished.at, reason },
            None => Conclusion::Routed { at: finished.at, only_not_implemented: false },
        }))
    }

    /// Gives the submission back; `refund` says whether the attempt is given back too (protocol §3, "Graceful stop").
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn release(&self, scope: RecordScope<'_>, refund: bool) -> Result<Recorded, DbError> {
        let RecordScope { token, tried, pause, .. } = scope;
        let ending = Ending { token, tried, pause, refund, max_attempts: self.settings.max_attempts };
        let release = |draft: &mut Draft| draft.release(&ending);
        Ok(self.write_one("release", scope.id, release).await?.unwrap_or(Recorded::Stale))
    }

    /// Touches live claims in parts: a row that refuses it keeps no other from it. A row that another transaction has locked
    /// at this moment is in neither set: unknown.
    ///
    /// # Errors
    /// [`DbError`]: nothing is known of the claims that were not touched.
    pub async fn heartbeat(&self, claims: &[(Uuid, String)]) -> Result<Heartbeat, DbError> {
        let all: Vec<usize> = (0..claims.len()).collect();
        let touch = |part: Vec<usize>| async move {
            self.touch_claims(
                part.iter().filter_map(|at| claims.get(*at)).map(|(id, token)| (*id, token.as_str())),
            )
            .await
        };
        let Batch { done, refused, fault } = divided(&all, touch).await.unless_nothing()?;
        let mut heartbeat = Heartbeat::default();
        for part in done {
            heartbeat.confirmed.extend(part.confirmed);
            heartbeat.lost.extend(part.lost);
        }
        let named = |Refused { id: at, error }: Refused<usize>| {
            claims.get(at).map(|(id, _)| Refused { id: *id, error })
        };
        heartbeat.refused = refused.into_iter().filter_map(named).collect();
        // Claims that were touched are answered all the same; the rest is unknown until the next heartbeat.
        if let Some(error) = fault {
            tracing::warn!("some claims could not be touched: {error}");
        }
        Ok(heartbeat)
    }

    async fn touch_claims(&self, claims: impl Iterator<Item = (Uuid, &str)>) -> Result<Heartbeat, DbError> {
        let (ids, tokens): (Vec<Uuid>, Vec<&str>) = claims.unzip();
        let (ids, tokens) = (&ids, &tokens);
        self.pool
            .keyed_transaction("heartbeat", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK_MANY).await?;
                let touch = tx.prepare_cached(&self.statements.heartbeat).await?;
                let locked = tx.query(&lock, &[ids]).await?;
                let locked: Vec<Uuid> = locked.iter().map(|row| row.get("id")).collect();
                let (mine, theirs): (Vec<Uuid>, Vec<&str>) = ids
                    .iter()
                    .zip(tokens)
                    .filter(|(id, _)| locked.contains(id))
                    .map(|(id, t)| (*id, *t))
                    .unzip();
                let confirmed = tx.query(&touch, &[&mine, &theirs]).await?;
                let confirmed: BTreeSet<Uuid> = confirmed.iter().map(|row| row.get("id")).collect();
                let lost = mine.into_iter().filter(|id| !confirmed.contains(id)).collect();
                Ok(Heartbeat { confirmed, lost, refused: Vec::new() })
            })
            .await
    }
}
