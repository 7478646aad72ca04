//! One connection to the database, and the only module that speaks to it: the form of a statement depends on how sessions
//! are pooled.
//!
//! In a session of ours, statements are prepared once and called by name. Behind a proxy that pools transactions the next
//! transaction runs on any session that is free there, so that a name may be unknown, taken, or another client's statement:
//! nothing is prepared, and a statement travels whole, with the types of its parameters, in one round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deadpool_postgres::ClientWrapper;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, RowStream};

use super::error::DbError;
use super::statement::{Parameter, Say, Statement};
use crate::config::{Database, Pooling};

/// The shared state of a pool's connections: how sessions are pooled, and since when a connection is worth keeping.
#[derive(Debug)]
pub(super) struct Common {
    /// Whether a proxy pools transactions before the server.
    pooled: AtomicBool,
    /// Whether that is known: configured, or detected.
    known: AtomicBool,
    /// Number of events that made all earlier connections worthless.
    generation: AtomicU64,
}

impl Common {
    pub(super) fn new(settings: &Database) -> Self {
        let pooled = settings.said_pooling() == Some(Pooling::Transaction);
        // A configured "session" is checked against the detection; a configured proxy needs none.
        Self {
            pooled: AtomicBool::new(pooled),
            known: AtomicBool::new(pooled),
            generation: AtomicU64::new(0),
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Sets the detected pooling; connections opened for the other kind are not used again.
    pub(super) fn found(&self, pooling: Pooling) {
        self.pooled.store(pooling == Pooling::Transaction, Ordering::Relaxed);
        self.known.store(true, Ordering::Relaxed);
    }

    /// Requires a new detection.
    fn doubt(&self) {
        if self.pooling() == Pooling::Session {
            self.known.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn pooling(&self) -> Pooling {
        if self.pooled.load(Ordering::Relaxed) { Pooling::Transaction } else { Pooling::Session }
    }

    /// Returns the birth of a new connection; read before it is opened, so that a change meanwhile ends it, too.
    pub(super) fn now(&self) -> Birth {
        Birth { pooling: self.pooling(), generation: self.generation.load(Ordering::Relaxed) }
    }

    /// Ends the generation, unless it has ended already: a connection of the next one is not to blame.
    fn retire(&self, born: u64) -> bool {
        self.generation.compare_exchange(born, born + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The generation and the pooling that a connection was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Birth {
    pub(super) pooling: Pooling,
    generation: u64,
}

/// A connection, with its prepared statements.
pub struct Session {
    client: ClientWrapper,
    common: Arc<Common>,
    birth: Birth,
    /// Whether a transaction on it may still be open.
    open: AtomicBool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("birth", &self.birth).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(client: ClientWrapper, common: &Arc<Common>, birth: Birth) -> Self {
        Self { client, common: Arc::clone(common), birth, open: AtomicBool::new(false) }
    }

    /// Returns whether it can be used again.
    pub(super) fn is_fit(&self) -> bool {
        !self.client.is_closed() && !self.open.load(Ordering::Relaxed) && self.is_current()
    }

    /// Returns whether no later event has made it worthless.
    pub(super) fn is_current(&self) -> bool {
        self.birth == self.common.now()
    }

    pub(super) fn pooling(&self) -> Pooling {
        self.birth.pooling
    }

    /// The driver's own connection, for migrations.
    pub(super) fn driver(&mut self) -> &mut tokio_postgres::Client {
        &mut self.client
    }

    /// Records a statement's error. An error that shows that the connection no longer fits the database condemns its
    /// siblings, too, which know the same statements: `true` once for all of them.
    pub(super) fn ended_with(&self, error: &DbError) -> bool {
        if error.speaks_of_other_sessions() {
            self.common.doubt();
        }
        error.wants_a_new_connection() && self.common.retire(self.birth.generation)
    }

    /// Runs one or several statements without parameters.
    pub(super) async fn batch_execute(&self, sql: &str) -> Result<(), DbError> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Prepares a statement once per connection, where that is possible.
    pub(super) async fn prepare_cached<'a>(&self, text: &'a str) -> Result<Statement<'a>, DbError> {
        let prepared = match self.pooling() {
            Pooling::Session => Some(self.client.prepare_cached(text).await?),
            Pooling::Transaction => None,
        };
        Ok(Statement { text, prepared })
    }

    /// Sends a statement, and returns its rows as they come.
    pub(super) async fn rows<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<RowStream, DbError> {
        if self.pooling() == Pooling::Transaction {
            let typed = parameters.iter().map(|parameter| (parameter.value(), parameter.declared()));
            return Ok(self
                .client
                .query_typed_raw::<&(dyn ToSql + Sync), _>(statement.text(), typed)
                .await?);
        }
        let prepared = match statement.prepared() {
            Some(prepared) => prepared.clone(),
            None => self.client.prepare(statement.text()).await?,
        };
        debug_assert!(
            agree(prepared.params(), parameters),
            "the server takes the parameters for {:?}: {}",
            prepared.params(),
            statement.text()
        );
        let values = parameters.iter().map(|parameter| parameter.value());
        Ok(self.client.query_raw::<_, &(dyn ToSql + Sync), _>(&prepared, values).await?)
    }

    pub(super) async fn query<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<Vec<Row>, DbError> {
        Ok(self.rows(statement, parameters).await?.try_collect().await?)
    }

    pub(super) async fn execute<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<u64, DbError> {
        let mut rows = std::pin::pin!(self.rows(statement, parameters).await?);
        while let Some(row) = rows.next().await {
            row?;
        }
        Ok(rows.rows_affected().unwrap_or_default())
    }

    /// Runs one statement alone, in a session of another owner within a transaction, for its settings.
    pub(super) async fn alone<T>(
        &self,
        settings: &str,
        statement: impl Future<Output = Result<T, DbError>>,
    ) -> Result<T, DbError> {
        if self.pooling() == Pooling::Session {
            return statement.await.inspect_err(|error| {
                self.ended_with(error);
            });
        }
        // A caller that stops waiting here leaves `open` set, and the connection is closed.
        self.open.store(true, Ordering::Relaxed);
        let (settled, said) = futures::join!(self.batch_execute(settings), statement);
        settled?;
        let value = said.inspect_err(|error| {
            self.ended_with(error);
        })?;
        self.batch_execute("COMMIT").await?;
        self.open.store(false, Ordering::Relaxed);
        Ok(value)
    }
}

/// Returns the row of exactly one.
pub(super) fn one(rows: Vec<Row>) -> Result<Row, DbError> {
    let n = rows.len();
    at_most_one(rows)?.ok_or_else(|| DbError::Shape(format!("{n} rows instead of one")))
}

/// Returns the row of one or none.
pub(super) fn at_most_one(rows: Vec<Row>) -> Result<Option<Row>, DbError> {
    let mut rows = rows.into_iter();
    match (rows.next(), rows.len()) {
        (row, 0) => Ok(row),
        (_, more) => Err(DbError::Shape(format!("{} rows instead of one", more + 1))),
    }
}

/// Whether the declared types are those that the server infers, so that statements also run without names.
fn agree(asked: &[Type], given: &[&dyn Parameter]) -> bool {
    // The driver reports a wrong number.
    asked.len() != given.len()
        || asked.iter().zip(given).all(|(asked, given)| {
            // The driver reports a value that it refuses.
            *asked == given.declared()
                || given.value().to_sql_checked(asked, &mut bytes::BytesMut::new()).is_err()
        })
}
