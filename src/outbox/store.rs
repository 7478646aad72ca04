//! The rows of `router.outbox`: taken on a lease, settled under its fence, recorded in `router.transitions`.
//!
//! Each call is one transaction. If we die before its commit nothing happened; after it the row is what its state says,
//! and a lease that nobody settles runs out. What a state allows is [`lifecycle::outbox`](crate::outbox::table)'s
//! to say; these statements allow nothing else.

mod sql;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::row::{Row, Settling};
use crate::config::Pooling;
use crate::db::pool::Pool;
use crate::db::{DbError, router};
use crate::kernel::{NotPossible, Transition, Who};
use crate::outbox::table::{Command, Outbox, State};

/// Kinds of dead-letter records that the outbox makes.
const GRAVES: (&str, &str) = ("unreadable", "unknown_submission");

/// The outbox of one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OutboxStore {
    pool: Pool,
    actor: String,
}

/// How much is in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// One that is not over.
    pub state: State,
    /// Rows in it.
    pub count: u64,
    /// Of what waits: for how long the row that waits longest is due. Of the others: the age of the oldest.
    pub oldest: Duration,
}

/// What was brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// Their leases had run out.
    pub expired: u64,
    /// Their time had come.
    pub due: u64,
}

/// A row about a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// `router.outbox.id`
    pub id: i64,
    /// Where it stands.
    pub state: State,
    /// Why it was written.
    pub reason: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it is tried next, if it is.
    pub available_at: Timestamp,
    /// When it was delivered.
    pub delivered_at: Option<Timestamp>,
    /// The topic server's id of it.
    pub message_id: Option<String>,
    /// How often it was taken.
    pub claims: u32,
    /// Why it failed last.
    pub error: Option<String>,
}

/// What became of a redrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redriven {
    /// It is delivered again.
    Done,
    /// No such row.
    Unknown,
    /// Its state does not allow it.
    Refused(NotPossible),
}

impl OutboxStore {
    /// Over `pool`; transitions are recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { pool, actor: actor.to_owned() }
    }

    /// Whose the sessions are that its statements run on.
    #[must_use]
    pub fn pooling(&self) -> Pooling {
        self.pool.pooling()
    }

    /// Whether there is an outbox that this role may use.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        router::outbox_is_there(&self.pool).await
    }

    /// Takes up to `most` rows that are due, for `lease`. `token` is the fence of all of them.
    ///
    /// # Errors
    /// [`DbError`]: what was taken by a commit whose answer was lost comes again after its lease.
    pub async fn claim(&self, most: usize, lease: Duration, token: Uuid) -> Result<Vec<Row>, DbError> {
        let (most, lease) = (limit(most), lease.as_secs_f64());
        self.pool
            .transaction("outbox_claim", async |tx| {
                let claim = tx.prepare_cached(sql::CLAIM).await?;
                let rows = tx.query(&claim, &[&most, &token, &lease, &self.actor]).await?;
                rows.iter().map(|row| taken(row, token)).collect()
            })
            .await
    }

    /// Whether there is a row to be taken. One that another instance is taking just now counts. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn waits(&self) -> Result<bool, DbError> {
        let client = self.pool.get().await?;
        Ok(client.query_opt(&client.prepare_cached(sql::WAITS).await?, &[]).await?.is_some())
    }

    /// Brings back what nobody delivers any more, and what is due again.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn wake(&self, most: usize) -> Result<Woken, DbError> {
        let most = limit(most);
        self.pool
            .transaction("outbox_wake", async |tx| {
                let expire = tx.prepare_cached(sql::EXPIRE).await?;
                let fall_due = tx.prepare_cached(sql::FALL_DUE).await?;
                let expired = count(&tx.query_one(&expire, &[&most, &self.actor]).await?, "n")?;
                let due = count(&tx.query_one(&fall_due, &[&most, &self.actor]).await?, "n")?;
                Ok(Woken { expired, due })
            })
            .await
    }

    /// Ends deliveries. Answers those that were still ours.
    ///
    /// # Errors
    /// [`DbError`]: settling again is harmless.
    pub async fn settle(&self, settlings: &[Settling]) -> Result<BTreeSet<i64>, DbError> {
        let columns = Columns::of(settlings);
        self.pool
            .keyed_transaction("outbox_settle", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK).await?;
                let settle = tx.prepare_cached(sql::SETTLE).await?;
                tx.query(&lock, &[&columns.ids]).await?;
                let settled = tx
                    .query(
                        &settle,
                        &[
                            &columns.ids,
                            &columns.tokens,
                            &columns.commands,
                            &columns.states,
                            &columns.refunds,
                            &columns.pauses,
                            &columns.message_ids,
                            &columns.errors,
                            &columns.graves,
                            &self.actor,
                        ],
                    )
                    .await?;
                settled.iter().map(|row| Ok(row.try_get("id")?)).collect()
            })
            .await
    }

    /// Makes leases last for `lease` from now. Answers those that were still ours.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn extend(&self, held: &[(i64, Uuid)], lease: Duration) -> Result<BTreeSet<i64>, DbError> {
        let (ids, tokens): (Vec<i64>, Vec<Uuid>) = held.iter().copied().unzip();
        let lease = lease.as_secs_f64();
        self.pool
            .transaction("outbox_extend", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK).await?;
                let extend = tx.prepare_cached(sql::EXTEND).await?;
                tx.query(&lock, &[&ids]).await?;
                let extended = tx.query(&extend, &[&ids, &tokens, &lease]).await?;
                extended.iter().map(|row| Ok(row.try_get("id")?)).collect()
            })
            .await
    }

    /// Delivers a row again that was given up on, and closes its dead-letter record.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn redrive(&self, id: i64, actor: &str, reason: &str) -> Result<Redriven, DbError> {
        self.pool
            .transaction("outbox_redrive", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK).await?;
                let state = tx.prepare_cached(sql::STATE).await?;
                let redrive = tx.prepare_cached(sql::REDRIVE).await?;
                tx.query(&lock, &[&vec![id]]).await?;
                let Some(row) = tx.query_opt(&state, &[&id]).await? else { return Ok(Redriven::Unknown) };
                let transition = Transition::<Outbox>::of(state_of(&row)?, Command::Redrive, Who::OPERATOR);
                if let Err(refusal) = transition {
                    return Ok(Redriven::Refused(refusal));
                }
                tx.query(&redrive, &[&id, &actor, &reason]).await?;
                Ok(Redriven::Done)
            })
            .await
    }

    /// Writes events for submissions, in the order given; answers their rows' ids in that order. Nobody looks whether the
    /// submissions exist.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn announce(&self, submissions: &[Uuid], reason: &str) -> Result<Vec<i64>, DbError> {
        self.pool
            .transaction("outbox_announce", async |tx| {
                let announce = tx.prepare_cached(sql::ANNOUNCE).await?;
                let rows = tx.query(&announce, &[&submissions, &reason]).await?;
                rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
            })
            .await
    }

    /// Writes a canary.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn canary(&self) -> Result<i64, DbError> {
        let client = self.pool.get().await?;
        let canary = client.prepare_cached(sql::CANARY).await?;
        Ok(client.query_one(&canary, &[]).await?.try_get("id")?)
    }

    /// Removes up to `most` rows that were delivered longer than `keep` ago. Answers how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn prune(&self, keep: Duration, most: usize) -> Result<u64, DbError> {
        let (keep, most) = (keep.as_secs_f64(), limit(most));
        self.pool
            .transaction("outbox_prune", async |tx| {
                let prune = tx.prepare_cached(sql::PRUNE).await?;
                count(&tx.query_one(&prune, &[&keep, &most]).await?, "n")
            })
            .await
    }

    /// How much is in each state that is not over. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn depths(&self) -> Result<Vec<Depth>, DbError> {
        let client = self.pool.get().await?;
        let rows = client.query(&client.prepare_cached(sql::DEPTHS).await?, &[]).await?;
        rows.iter()
            .map(|row| {
                let oldest = row.try_get::<_, Option<f64>>("oldest")?.unwrap_or_default().max(0.0);
                let oldest = Duration::try_from_secs_f64(oldest).unwrap_or_default();
                Ok(Depth { state: state_of(row)?, count: count(row, "n")?, oldest })
            })
            .collect()
    }

    /// Up to `most` rows about a submission, the youngest first. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn about(&self, submission: Uuid, most: usize) -> Result<Vec<About>, DbError> {
        let client = self.pool.get().await?;
        let rows =
            client.query(&client.prepare_cached(sql::ABOUT).await?, &[&submission, &limit(most)]).await?;
        rows.iter()
            .map(|row| {
                Ok(About {
                    id: row.try_get("id")?,
                    state: state_of(row)?,
                    reason: row.try_get("reason")?,
                    created_at: row.try_get("created_at")?,
                    available_at: row.try_get("available_at")?,
                    delivered_at: row.try_get("delivered_at")?,
                    message_id: row.try_get("message_id")?,
                    claims: counted(row, "claims")?,
                    error: row.try_get("error")?,
                })
            })
            .collect()
    }
}

/// Settlements, column by column.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<i64>,
    tokens: Vec<Uuid>,
    commands: Vec<&'static str>,
    states: Vec<&'static str>,
    refunds: Vec<i32>,
    pauses: Vec<Option<f64>>,
    message_ids: Vec<Option<&'a str>>,
    errors: Vec<Option<&'a str>>,
    graves: Vec<&'static str>,
}

impl<'a> Columns<'a> {
    /// What the lifecycle does not allow of a row being delivered is left out: its lease runs out.
    fn of(settlings: &'a [Settling]) -> Self {
        let mut columns = Self::default();
        for settling in settlings {
            let transition = Transition::<Outbox>::of(State::Delivering, settling.command, Who::WORKER);
            let Ok(to) = transition.map(Transition::to) else {
                tracing::error!(row = settling.id, command = %settling.command, "not a way to end a delivery");
                continue;
            };
            columns.ids.push(settling.id);
            columns.tokens.push(settling.token);
            columns.commands.push(settling.command.label());
            columns.states.push(to.label());
            columns.refunds.push(i32::from(settling.command == Command::Release));
            columns.pauses.push(settling.pause.map(|pause| pause.as_secs_f64()));
            columns.message_ids.push(settling.message_id.as_deref());
            columns.errors.push(settling.error.as_deref());
            columns.graves.push(if settling.unreadable { GRAVES.0 } else { GRAVES.1 });
        }
        columns
    }
}

fn taken(row: &PgRow, token: Uuid) -> Result<Row, DbError> {
    Ok(Row {
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        payload: Bytes::from(row.try_get::<_, String>("payload")?),
        attempts: counted(row, "attempts")?,
        claims: counted(row, "claims")?,
        created_at: row.try_get("created_at")?,
        token,
    })
}

fn state_of(row: &PgRow) -> Result<State, DbError> {
    let label: String = row.try_get("state")?;
    State::parse(&label)
        .ok_or_else(|| DbError::Shape(format!("router.outbox.state {label:?} is not known here")))
}

fn counted(row: &PgRow, column: &str) -> Result<u32, DbError> {
    Ok(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or_default())
}

fn count(row: &PgRow, column: &str) -> Result<u64, DbError> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
