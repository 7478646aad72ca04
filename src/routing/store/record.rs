//! Record and finish (protocol §5, §6): facts merge, everything else is fenced, and the end of a claim is computed
//! from the ledger under the row's lock, in the transaction of its last record.
//!
//! If we die before the commit, what was begun is in doubt; after it, the ledger says all. A fact commits even when
//! the claim beside it is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::stored::Stored;
use super::{Store, sql};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::lifecycle::submission::Status;
use crate::routing::claims::Heard;
use crate::routing::decide::{self, Verdict};
use crate::routing::ledger::{DeliveryState, FailReason, Finished, Ledger};
use crate::routing::outcome::{Entries, finish_detail};

/// What the ledger said after a record.
#[derive(Debug)]
pub enum Recorded {
    /// Another action of this claim has open deliveries that were not tried.
    Continue(Box<Ledger>),
    /// The claim has ended.
    Concluded(Conclusion),
    /// The claim was lost: only facts were recorded.
    Stale,
}

/// How a claim ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// Everything accepted or not implemented.
    Routed {
        /// Database time of the end.
        at: Timestamp,
        /// Nothing was sent: every delivery is not implemented.
        only_not_implemented: bool,
    },
    /// Failed for good.
    Failed {
        /// Database time of the end.
        at: Timestamp,
        /// Why.
        reason: FailReason,
    },
    /// Given back for another attempt.
    Released {
        /// Not before this instant.
        due: Timestamp,
    },
}

/// What became of facts that came without their claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// They are in the ledger, now or already.
    Stand,
    /// No such row.
    Unknown,
    /// Retention has emptied the submission: nothing is written to it.
    Purged,
}

/// What a record needs to know of the claim.
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
    /// What is open was left so by an outage: a release gives the attempt back (protocol, "Outages").
    pub refund: bool,
}

impl Store {
    /// Records the outcomes of one send and, when nothing is left to try under this claim, ends it.
    ///
    /// # Errors
    /// [`DbError`]: unknown whether it stands; repeat it as it is, a fact is recognised by its nonce.
    pub async fn record(&self, scope: RecordScope<'_>, entries: &Entries) -> Result<Recorded, DbError> {
        self.pool
            .transaction("record", async |tx| {
                let Some(ledger) = self.write_entries(&tx, &scope, entries).await? else {
                    return Ok(Recorded::Stale);
                };
                if decide::next_action(&ledger, scope.tried).is_some() {
                    return Ok(Recorded::Continue(Box::new(ledger)));
                }
                let ended =
                    match decide::verdict_with_refund(&ledger, self.settings.max_attempts, scope.refund) {
                        Verdict::Routed => self.finish(&tx, &scope, &ledger, None).await?,
                        Verdict::Failed(reason) => {
                            let open = Entries::exhausted(&ledger);
                            if open.is_empty() {
                                self.finish(&tx, &scope, &ledger, Some(reason)).await?
                            } else {
                                match self.write_entries(&tx, &scope, &open).await? {
                                    Some(ledger) => self.finish(&tx, &scope, &ledger, Some(reason)).await?,
                                    None => None,
                                }
                            }
                        }
                        Verdict::Release => self.give_back(&tx, &scope, scope.refund).await?,
                    };
                Ok(ended.map_or(Recorded::Stale, Recorded::Concluded))
            })
            .await
    }

    /// Records facts and nothing else, whoever holds the claim now: what a process that ended left in the spool.
    ///
    /// # Errors
    /// [`DbError`]: unknown whether they stand; repeat it, a fact is recognised by its nonce.
    pub async fn merge_facts(
        &self,
        id: Uuid,
        token: &str,
        facts: &Map<String, Value>,
    ) -> Result<Merged, DbError> {
        let facts = Value::Object(facts.clone());
        let (facts, actor) = (&facts, &self.settings.actor);
        self.pool
            .transaction("merge_facts", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK_ONE).await?;
                let record = tx.prepare_cached(sql::RECORD_FACTS).await?;
                let read = tx.prepare_cached(sql::READ_STATUS).await?;
                let (_, _, row) = futures::future::try_join3(
                    tx.query(&lock, &[&id]),
                    tx.query(&record, &[&id, &token, facts, actor]),
                    tx.query_opt(&read, &[&id]),
                )
                .await?;
                let Some(row) = row else { return Ok(Merged::Unknown) };
                let status: String = row.try_get("status")?;
                Ok(if status == Status::Purged.label() { Merged::Purged } else { Merged::Stand })
            })
            .await
    }

    /// Ends a claim as failed for a reason that is not in its deliveries (an attachment turned infected).
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn fail(&self, scope: RecordScope<'_>, reason: FailReason) -> Result<Recorded, DbError> {
        self.pool
            .transaction("fail", async |tx| {
                let ended = match self.write_entries(&tx, &scope, &Entries::default()).await? {
                    Some(ledger) => self.finish(&tx, &scope, &ledger, Some(reason)).await?,
                    None => None,
                };
                Ok(ended.map_or(Recorded::Stale, Recorded::Concluded))
            })
            .await
    }

    /// How the claim `token` ended, if it ended terminally: asked when the answer to its last record was lost.
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
        self.pool
            .transaction("release", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK_ONE).await?;
                tx.query(&lock, &[&scope.id]).await?;
                let ended = self.give_back(&tx, &scope, refund).await?;
                Ok(ended.map_or(Recorded::Stale, Recorded::Concluded))
            })
            .await
    }

    /// Touches live claims. What somebody else has locked at this moment is in neither set: unknown.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn heartbeat(&self, claims: &[(Uuid, String)]) -> Result<Heard, DbError> {
        let (ids, tokens): (Vec<Uuid>, Vec<&str>) =
            claims.iter().map(|(id, token)| (*id, token.as_str())).unzip();
        let (ids, tokens) = (&ids, &tokens);
        self.pool
            .transaction("heartbeat", async |tx| {
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
                Ok(Heard { confirmed, lost })
            })
            .await
    }

    /// Lock, facts, other outcomes, and the ledger as it then stands; `None` when the claim is not ours.
    async fn write_entries(
        &self,
        tx: &Transaction,
        scope: &RecordScope<'_>,
        entries: &Entries,
    ) -> Result<Option<Ledger>, DbError> {
        let lock = tx.prepare_cached(sql::LOCK_ONE).await?;
        let record_facts = tx.prepare_cached(sql::RECORD_FACTS).await?;
        let record_others = tx.prepare_cached(sql::RECORD_OUTCOMES).await?;
        let read = tx.prepare_cached(sql::READ_OWN).await?;
        let (facts, others) = (Value::Object(entries.facts.clone()), Value::Object(entries.others.clone()));
        let (actor, happyfox) = (&self.settings.actor, entries.happyfox_status);
        // One round trip; each statement runs after the lock, with a snapshot of its own.
        let (_, _, _, own) = futures::future::try_join4(
            tx.query(&lock, &[&scope.id]),
            async {
                if entries.facts.is_empty() {
                    return Ok(Vec::new());
                }
                tx.query(&record_facts, &[&scope.id, &scope.token, &facts, actor]).await
            },
            async {
                if entries.others.is_empty() {
                    return Ok(Vec::new());
                }
                tx.query(&record_others, &[&scope.id, &scope.token, &others, actor, &happyfox]).await
            },
            tx.query(&read, &[&scope.id, &scope.token]),
        )
        .await?;
        let Some(row) = own.first() else {
            return Ok(None);
        };
        match row.try_get::<_, Stored>("routing_result")?.ledger() {
            Ok(ledger) => Ok(Some(ledger)),
            Err(fault) => {
                // Somebody wrote to it meanwhile. The facts still commit; the sweep judges the row.
                tracing::error!(submission_id = %scope.id, "{fault}; the claim is left as it is");
                Ok(None)
            }
        }
    }

    async fn finish(
        &self,
        tx: &Transaction,
        scope: &RecordScope<'_>,
        ledger: &Ledger,
        reason: Option<FailReason>,
    ) -> Result<Option<Conclusion>, DbError> {
        let (status, action) = match reason {
            None => ("routed", "submission_routed"),
            Some(_) => ("failed", "submission_route_failed"),
        };
        let detail = finish_detail(ledger, reason);
        let label = reason.map(FailReason::label);
        let statement = tx.prepare_cached(sql::FINISH).await?;
        let row = tx
            .query_opt(
                &statement,
                &[&scope.id, &scope.token, &status, &label, &action, &detail, &self.settings.actor],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        let at = row.try_get("at")?;
        Ok(Some(match reason {
            Some(reason) => Conclusion::Failed { at, reason },
            None => {
                let only = ledger.deliveries.values().all(|d| d.state == DeliveryState::NotImplemented);
                Conclusion::Routed { at, only_not_implemented: only }
            }
        }))
    }

    async fn give_back(
        &self,
        tx: &Transaction,
        scope: &RecordScope<'_>,
        refund: bool,
    ) -> Result<Option<Conclusion>, DbError> {
        let statement = tx.prepare_cached(sql::RELEASE).await?;
        let (pause, refund) = (scope.pause.as_secs_f64(), i32::from(refund));
        let row = tx.query_opt(&statement, &[&scope.id, &scope.token, &pause, &refund]).await?;
        row.map(|row| Ok(Conclusion::Released { due: row.try_get("due")? })).transpose()
    }
}
