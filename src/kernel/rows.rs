//! The rows of a lifecycle: taken on a lease, written under their fence, recorded in the statement that changes them.
//!
//! Each call is one transaction, but for [`Rows::hold`] and [`Rows::write`], which are parts of a caller's. If we die before
//! its commit nothing happened; after it the row's state says what happened, and a lease that is not settled runs out. A
//! state changes by a [`Transition`] alone: these statements allow nothing else.

mod history;
mod relation;
mod sql;

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

pub use history::Recorded;
pub use relation::{Commands, Id, Log, Relation, Stored, Transactions};

use super::{Timer, Transition, Word};
use crate::db::DbError;
use crate::db::pool::{Pool, Transaction};
pub use crate::transactions;

/// The rows of one lifecycle in one database. Cheap to clone.
#[derive(Debug)]
pub struct Rows<L: Stored> {
    pool: Pool,
    actor: Arc<str>,
    statements: Arc<sql::Statements<L::State>>,
    awaited: bool,
}

impl<L: Stored> Clone for Rows<L> {
    fn clone(&self) -> Self {
        let (actor, statements) = (Arc::clone(&self.actor), Arc::clone(&self.statements));
        Self { pool: self.pool.clone(), actor, statements, awaited: self.awaited }
    }
}

/// A row as it was claimed, or as it was read under its lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<L: Stored> {
    /// Its key.
    pub id: L::Id,
    /// Its state.
    pub state: L::State,
    /// Jobs that failed because of the row itself; a running job counts until it ends otherwise.
    pub attempts: u32,
    /// The row's claims so far, the current one included.
    pub claims: u32,
    /// Fence of the worker that has leased the row.
    pub token: Option<Uuid>,
    /// Fence of people, where the relation has one.
    pub version: Option<i64>,
    /// The room's columns of the row.
    pub columns: L::Columns,
}

/// The right by which a row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// A worker's right: the token of its claim.
    Lease(Uuid),
    /// A person's right: the version that was seen. A worker loses its lease of the row.
    Version(i64),
    /// The lock of this very transaction, under which the row was read.
    Locked,
}

/// The change of the count of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempts {
    /// The count stays.
    Keep,
    /// The running attempt is given back.
    Refund,
    /// The count starts again from 0.
    Reset,
}

/// A transition of a row, and its further changes. The lease always ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Write<L: Stored> {
    /// The row.
    pub id: L::Id,
    /// The right by which it is written.
    pub fence: Fence,
    /// The edge, and on whose account it is taken.
    pub transition: Transition<L>,
    /// The change of the attempts.
    pub attempts: Attempts,
    /// Time until the row is available; absent where that stays.
    pub pause: Option<Duration>,
    /// The reason for the log, in words: no text of the row.
    pub reason: Option<String>,
    /// The room's columns, an object by their names; columns not in it stay.
    pub columns: Option<Value>,
}

impl<L: Stored> Write<L> {
    /// The transition alone.
    #[must_use]
    pub fn plain(id: L::Id, fence: Fence, transition: Transition<L>) -> Self {
        Self { id, fence, transition, attempts: Attempts::Keep, pause: None, reason: None, columns: None }
    }
}

/// The kinds of rows that a claim takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kinds {
    /// Rows of these kinds.
    Only(Vec<&'static str>),
    /// Rows of every other kind, known or not.
    AllBut(Vec<&'static str>),
}

impl Kinds {
    /// The statement with these kinds in it. They are words of the program and stand there as they are: the planner has to know
    /// them to use an index of one kind, which a room's migration brings.
    fn within(&self, statement: &str, column: &str) -> String {
        let list = |kinds: &[&str]| {
            let quoted = kinds.iter().map(|kind| format!("'{}'", kind.replace('\'', "''")));
            quoted.collect::<Vec<_>>().join(", ")
        };
        let condition = match self {
            Self::Only(kinds) if kinds.is_empty() => "false".to_owned(),
            Self::Only(kinds) => format!("({column}) IN ({})", list(kinds)),
            Self::AllBut(kinds) if kinds.is_empty() => "true".to_owned(),
            Self::AllBut(kinds) => format!("({column}) NOT IN ({})", list(kinds)),
        };
        statement.replace(sql::KINDS, &condition)
    }
}

/// The number and age of the rows in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth<S> {
    /// A state with an outgoing edge.
    pub state: S,
    /// Rows in it.
    pub count: u64,
    /// Time for which the longest-waiting row has been due; in states where no row waits, the age of the oldest.
    pub oldest: Duration,
}

/// The rows that timers have moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Woken {
    /// Leases that had run out.
    pub expired: u64,
    /// Rows whose time had come.
    pub due: u64,
    /// Rows that were not used in time.
    pub lapsed: u64,
}

impl<L: Stored> Rows<L> {
    /// The rows over `pool`; transitions by workers and timers are recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { pool, actor: actor.into(), statements: Arc::new(PhantomData::<L>.into()), awaited: true }
    }

    /// The same rows, whose claims and ends of jobs do not wait for the disk. For jobs that do no harm when they are done again, and
    /// whose effects that last are committed later, in the same log: a crash of the database that loses a claim loses these, too, and
    /// one that loses an end has the row come again.
    #[must_use]
    pub fn unawaited(self) -> Self {
        Self { awaited: false, ..self }
    }

    /// The pool, for the room's own statements.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Claims up to `most` rows that wait in `from` and are due, for `lease`. `token` is the fence of all of them.
    ///
    /// # Errors
    /// [`DbError`]: rows claimed by a commit whose answer was lost come again after their lease.
    pub async fn claim(
        &self,
        from: L::State,
        kinds: &Kinds,
        most: usize,
        lease: Duration,
        token: Uuid,
    ) -> Result<Vec<Row<L>>, DbError> {
        let (most, lease) = (limit(most), lease.as_secs_f64());
        let statement = kinds.within(of_state(&self.statements.claims, from)?, L::RELATION.kind);
        let body = async |tx: Transaction| {
            let claim = tx.prepare_cached(&statement).await?;
            let rows = tx.query(&claim, &[&most, &token, &lease, &&*self.actor]).await?;
            rows.iter().map(read).collect()
        };
        let name = L::RELATION.transactions.claim;
        // Claims that are shared step through one index, and to plan them takes longer than to carry them out.
        match (L::RELATION.shared.is_some(), self.awaited) {
            (true, true) => self.pool.keyed_transaction(name, body).await,
            (true, false) => self.pool.light_transaction(name, body).await,
            (false, true) => self.pool.transaction(name, body).await,
            (false, false) => self.pool.unawaited_transaction(name, body).await,
        }
    }

    /// Returns whether there is a row to claim, counting one that another instance is just claiming. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn waits(&self, from: L::State, kinds: &Kinds) -> Result<bool, DbError> {
        let client = self.pool.get().await?;
        let statement = kinds.within(of_state(&self.statements.waits, from)?, L::RELATION.kind);
        let waits = client.prepare_cached(&statement).await?;
        Ok(client.query_opt(&waits, &[]).await?.is_some())
    }

    /// Fires the timers that are due, up to `most` rows of each.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn wake(&self, most: usize) -> Result<Woken, DbError> {
        let most = limit(most);
        self.pool
            .transaction(L::RELATION.transactions.wake, async |tx| {
                let mut woken = Woken::default();
                for (timer, statement) in &self.statements.timers {
                    let fire = tx.prepare_cached(statement).await?;
                    let fired = count(&tx.query_one(&fire, &[&most, &&*self.actor]).await?, "n")?;
                    *match timer {
                        Timer::Lease => &mut woken.expired,
                        Timer::Due => &mut woken.due,
                        Timer::Expiry => &mut woken.lapsed,
                    } += fired;
                }
                Ok(woken)
            })
            .await
    }

    /// Locks rows in `tx` and reads them in a later statement, so that the caller decides on the current state.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn hold(&self, tx: &Transaction, ids: &[L::Id]) -> Result<Vec<Row<L>>, DbError> {
        let lock = tx.prepare_cached(&self.statements.lock).await?;
        let statement = tx.prepare_cached(&self.statements.read).await?;
        tx.query(&lock, &[&ids]).await?;
        tx.query(&statement, &[&ids]).await?.iter().map(read).collect()
    }

    /// Writes transitions in `tx`, each under its fence, recorded as made by `actor`. Returns the rows whose fence matched.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn write(
        &self,
        tx: &Transaction,
        actor: &str,
        writes: &[Write<L>],
    ) -> Result<BTreeSet<L::Id>, DbError> {
        let columns = Columns::of(writes);
        let lock = tx.prepare_cached(&self.statements.lock).await?;
        let write = tx.prepare_cached(&self.statements.write).await?;
        tx.query(&lock, &[&columns.ids]).await?;
        let written = tx
            .query(
                &write,
                &[
                    &columns.ids,
                    &columns.tokens,
                    &columns.versions,
                    &columns.commands,
                    &columns.from,
                    &columns.to,
                    &columns.who,
                    &columns.refunds,
                    &columns.pauses,
                    &columns.reasons,
                    &columns.columns,
                    &actor,
                ],
            )
            .await?;
        written.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    /// [`Self::write`] in a transaction of its own, as a worker does. Returns the rows that were still leased by us.
    ///
    /// # Errors
    /// [`DbError`]: settling again is harmless.
    pub async fn settle(&self, writes: &[Write<L>]) -> Result<BTreeSet<L::Id>, DbError> {
        let name = L::RELATION.transactions.settle;
        let body = async |tx: Transaction| self.write(&tx, &self.actor, writes).await;
        if self.awaited {
            self.pool.keyed_transaction(name, body).await
        } else {
            self.pool.light_transaction(name, body).await
        }
    }

    /// Makes leases last for `lease` from now. Returns the rows that were still leased by us.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn extend(
        &self,
        leased: &[(L::Id, Uuid)],
        lease: Duration,
    ) -> Result<BTreeSet<L::Id>, DbError> {
        let (ids, tokens): (Vec<L::Id>, Vec<Uuid>) = leased.iter().copied().unzip();
        let lease = lease.as_secs_f64();
        self.pool
            .transaction(L::RELATION.transactions.extend, async |tx| {
                let lock = tx.prepare_cached(&self.statements.lock).await?;
                let extend = tx.prepare_cached(&self.statements.extend).await?;
                tx.query(&lock, &[&ids]).await?;
                let extended = tx.query(&extend, &[&ids, &tokens, &lease]).await?;
                extended.iter().map(|row| Ok(row.try_get("id")?)).collect()
            })
            .await
    }

    /// Removes up to `most` rows that came to their end longer than `keep` ago. Returns how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn prune(&self, keep: Duration, most: usize) -> Result<u64, DbError> {
        let (keep, most) = (keep.as_secs_f64(), limit(most));
        let Some(statement) = &self.statements.prune else { return Ok(0) };
        self.pool
            .transaction(L::RELATION.transactions.prune, async |tx| {
                let prune = tx.prepare_cached(statement).await?;
                count(&tx.query_one(&prune, &[&keep, &most]).await?, "n")
            })
            .await
    }

    /// Returns the depth of each state with an outgoing edge. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn depths(&self) -> Result<Vec<Depth<L::State>>, DbError> {
        let client = self.pool.get().await?;
        let rows = client.query(&client.prepare_cached(&self.statements.depths).await?, &[]).await?;
        rows.iter()
            .map(|row| {
                let oldest = row.try_get::<_, Option<f64>>("oldest")?.unwrap_or_default().max(0.0);
                let oldest = Duration::try_from_secs_f64(oldest).unwrap_or_default();
                Ok(Depth { state: word_in(row, L::RELATION.name, "state")?, count: count(row, "n")?, oldest })
            })
            .collect()
    }
}

/// Writes, column by column.
struct Columns<'a, L: Stored> {
    ids: Vec<L::Id>,
    tokens: Vec<Option<Uuid>>,
    versions: Vec<Option<i64>>,
    commands: Vec<&'static str>,
    from: Vec<Option<&'static str>>,
    to: Vec<&'static str>,
    who: Vec<&'static str>,
    refunds: Vec<Option<i32>>,
    pauses: Vec<Option<f64>>,
    reasons: Vec<Option<&'a str>>,
    columns: Vec<Option<&'a Value>>,
}

impl<'a, L: Stored> Columns<'a, L> {
    fn of(writes: &'a [Write<L>]) -> Self {
        let fence = |write: &Write<L>| match write.fence {
            Fence::Lease(token) => (Some(token), None),
            Fence::Version(version) => (None, Some(version)),
            Fence::Locked => (None, None),
        };
        let refund = |write: &Write<L>| match write.attempts {
            Attempts::Keep => Some(0),
            Attempts::Refund => Some(1),
            Attempts::Reset => None,
        };
        let (tokens, versions) = writes.iter().map(fence).unzip();
        Self {
            ids: writes.iter().map(|write| write.id).collect(),
            tokens,
            versions,
            commands: writes.iter().map(|write| write.transition.command().label()).collect(),
            from: writes.iter().map(|write| write.transition.from().map(Word::label)).collect(),
            to: writes.iter().map(|write| write.transition.to().label()).collect(),
            who: writes.iter().map(|write| write.transition.by().label()).collect(),
            refunds: writes.iter().map(refund).collect(),
            pauses: writes.iter().map(|write| write.pause.map(|pause| pause.as_secs_f64())).collect(),
            reasons: writes.iter().map(|write| write.reason.as_deref()).collect(),
            columns: writes.iter().map(|write| write.columns.as_ref()).collect(),
        }
    }
}

/// Returns a row as a room's own statement reads it: id, state, attempts, claims, lease_token, version and the room's columns.
///
/// # Errors
/// [`DbError`]: a column is missing, or not what the migration made it.
pub fn read<L: Stored>(row: &PgRow) -> Result<Row<L>, DbError> {
    Ok(Row {
        id: row.try_get("id")?,
        state: word_in(row, L::RELATION.name, "state")?,
        attempts: counted(row, "attempts")?,
        claims: counted(row, "claims")?,
        token: row.try_get("lease_token")?,
        version: row.try_get("version")?,
        columns: L::columns(row)?,
    })
}

/// Returns the member of a closed set in a column of a relation.
///
/// # Errors
/// [`DbError::Shape`]: the label is not in the set.
pub fn word_in<W: Word>(row: &PgRow, relation: &str, column: &str) -> Result<W, DbError> {
    let label: String = row.try_get(column)?;
    W::parse(&label).ok_or_else(|| DbError::Shape(format!("{relation}.{column} {label:?} is not known here")))
}

fn of_state<S: Word>(statements: &[(S, String)], state: S) -> Result<&str, DbError> {
    let of = statements.iter().find(|(from, _)| *from == state);
    of.map(|(_, statement)| statement.as_str()).ok_or_else(|| {
        DbError::Shape(format!("nothing is claimed while {state}: the table has no such edge"))
    })
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
