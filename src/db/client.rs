//! The receivers of a statement: a connection from the pool, or a transaction that runs on one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use deadpool::managed::Object;
use tokio_postgres::{Row, RowStream};

use super::connector::Connector;
use super::error::DbError;
use super::session::{at_most_one, one};
use super::statement::{Parameter, Say, Statement};
use crate::config::Pooling;

/// A connection from the pool, for statements that need no transaction; goes back when dropped.
#[derive(Debug)]
pub struct Client {
    pub(super) session: Object<Connector>,
    /// The opening of a transaction, where a statement needs one for its settings.
    pub(super) begin: String,
}

impl Client {
    /// Prepares a statement once per connection, where names can be given (`[database] pooling`).
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn prepare_cached<'a>(&self, sql: &'a str) -> Result<Statement<'a>, DbError> {
        self.session.prepare_cached(sql).await.inspect_err(|error| {
            self.session.ended_with(error);
        })
    }

    /// Returns the rows of a statement.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn query<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<Vec<Row>, DbError> {
        self.session.alone(&self.begin, self.session.query(statement, parameters)).await
    }

    /// Executes statements without parameters.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn batch_execute(&self, sql: &str) -> Result<(), DbError> {
        self.session.alone(&self.begin, self.session.batch_execute(sql)).await
    }

    /// The driver's own connection, for migrations, which keep a lock and settings in their session.
    ///
    /// # Errors
    /// [`DbError::Settings`] behind a proxy that pools transactions.
    pub fn direct(&mut self) -> Result<&mut tokio_postgres::Client, DbError> {
        match self.session.pooling() {
            Pooling::Session => Ok(self.session.driver()),
            Pooling::Transaction => Err(DbError::Settings(
                "migrations keep a lock in their session, which a proxy that pools transactions gives to others: \
                 connect to the server itself"
                    .to_owned(),
            )),
        }
    }
}

/// A running transaction, opened and ended by [`super::Pool::transaction`]. Statements polled together (`join!`) share a
/// round trip and run in the order they were polled in, once they are prepared.
///
/// Owned rather than borrowed, so that a transaction's future can be sent to another thread; it must not outlive the
/// body it was given to.
#[derive(Debug)]
pub struct Transaction {
    pub(super) session: Arc<Object<Connector>>,
    pub(super) committed: OnCommit,
}

/// Work that waits for a commit. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct OnCommit(Arc<Mutex<Vec<Work>>>);

type Work = Box<dyn FnOnce() + Send>;

impl OnCommit {
    /// Does the work, in the order in which it was given.
    pub(super) fn run(&self) {
        let work = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        work.into_iter().for_each(|work| work());
    }
}

impl fmt::Debug for OnCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCommit")
    }
}

impl Transaction {
    /// Has `work` done once the commit is confirmed: a line of the journal, say. Never where the transaction is rolled back
    /// or its commit gets no answer.
    pub fn on_commit(&self, work: impl FnOnce() + Send + 'static) {
        self.committed.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(work));
    }

    /// Prepares a statement once per connection, where names can be given (`[database] pooling`).
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn prepare_cached<'a>(&self, sql: &'a str) -> Result<Statement<'a>, DbError> {
        self.session.prepare_cached(sql).await
    }

    /// Returns the rows of a statement.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn query<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<Vec<Row>, DbError> {
        self.session.query(statement, parameters).await
    }

    /// Returns the rows of a statement as they come, so that not all of them are in memory at once.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn query_raw<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<RowStream, DbError> {
        self.session.rows(statement, parameters).await
    }

    /// Returns how many rows a statement changed.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn execute<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<u64, DbError> {
        self.session.execute(statement, parameters).await
    }

    /// Executes statements without parameters.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn batch_execute(&self, sql: &str) -> Result<(), DbError> {
        self.session.batch_execute(sql).await
    }
}

macro_rules! with_single_rows {
    ($of:ty) => {
        impl $of {
            /// Returns the only row of a statement.
            ///
            /// # Errors
            /// [`DbError`]; [`DbError::Shape`] for another number of rows.
            pub async fn query_one<S: Say + ?Sized>(
                &self,
                statement: &S,
                parameters: &[&dyn Parameter],
            ) -> Result<Row, DbError> {
                one(self.query(statement, parameters).await?)
            }

            /// Returns the only row of a statement, if any.
            ///
            /// # Errors
            /// The errors of [`Self::query_one`] but for no row.
            pub async fn query_opt<S: Say + ?Sized>(
                &self,
                statement: &S,
                parameters: &[&dyn Parameter],
            ) -> Result<Option<Row>, DbError> {
                at_most_one(self.query(statement, parameters).await?)
            }
        }
    };
}
with_single_rows!(Client);
with_single_rows!(Transaction);
