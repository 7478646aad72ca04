//! A bounded pool of connections, and named transactions on them.
//!
//! Dying in the middle of a transaction rolls it back; between COMMIT and its answer nobody knows, which is why that
//! case has an error of its own. Never does network I/O other than the database's inside a transaction, and never
//! repeats anything but a conflict.

use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use deadpool::managed::{self, Metrics, Object, RecycleError, RecycleResult, Timeouts};
use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Row, RowStream};

use super::connector::{Connector, PoolOptions};
use super::error::DbError;
use super::pooling::{self, Found};
use super::session::{Common, Session, at_most_one, one};
use super::statement::{Parameter, Say, Statement};
use crate::config::{Database, Pooling};
use crate::ports::Clock;

/// Repetitions of a transaction that met a conflict.
const CONFLICT_RETRIES: usize = 6;

/// Histogram of transaction times, by name; conflicts' repetitions are part of one transaction.
const SECONDS: &str = "maple_router_db_transaction_seconds";

/// For statements that find their rows by key, however many: there is nothing to learn from the values, so the plan made
/// once does, which else costs more than the statement; and one made while the table was small still goes by the key when it
/// has grown.
const KEYED: &str = "; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off";

/// For statements that look for few rows by what they are: row-level security keeps the statistics of a column from the
/// planner, which then takes each status for an equal share of the table, and would rather read ten million rows than one
/// small index. Where there is no index a table is read all the same.
const SOUGHT: &str = "; SET LOCAL enable_seqscan = off";

/// A connection from the pool, for statements that need no transaction; goes back when dropped.
#[derive(Debug)]
pub struct Client {
    session: Object<Connector>,
    /// Where a statement needs a transaction for its settings.
    begin: String,
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

    /// The rows of a statement.
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

    /// The only row of a statement.
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

    /// The only row of a statement, if there is one.
    ///
    /// # Errors
    /// As [`Self::query_one`].
    pub async fn query_opt<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<Option<Row>, DbError> {
        at_most_one(self.query(statement, parameters).await?)
    }

    /// Statements without parameters.
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

/// A running transaction, begun and ended by [`Pool::transaction`]. Statements polled together (`join!`) share a round
/// trip and run in the order they were polled in, once they are prepared.
///
/// Owned rather than borrowed, so that a transaction's future can be sent to another thread; it must not outlive the
/// body it was given to.
#[derive(Debug)]
pub struct Transaction {
    session: Arc<Object<Connector>>,
}

impl Transaction {
    /// Prepares a statement once per connection, where names can be given (`[database] pooling`).
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn prepare_cached<'a>(&self, sql: &'a str) -> Result<Statement<'a>, DbError> {
        self.session.prepare_cached(sql).await
    }

    /// The rows of a statement.
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

    /// The only row of a statement.
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

    /// The only row of a statement, if there is one.
    ///
    /// # Errors
    /// As [`Self::query_one`].
    pub async fn query_opt<S: Say + ?Sized>(
        &self,
        statement: &S,
        parameters: &[&dyn Parameter],
    ) -> Result<Option<Row>, DbError> {
        at_most_one(self.query(statement, parameters).await?)
    }

    /// The rows of a statement as they come, so that not all of them are kept at once.
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

    /// How many rows a statement changed.
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

    /// Statements without parameters.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn batch_execute(&self, sql: &str) -> Result<(), DbError> {
        self.session.batch_execute(sql).await
    }
}

impl managed::Manager for Connector {
    type Type = Session;
    type Error = DbError;

    async fn create(&self) -> Result<Session, DbError> {
        // On the heap: it is seldom, and as large as everything around it, which is moved about for each submission.
        let birth = self.common().now();
        let (client, driver) = Box::pin(self.open(birth.pooling, None)).await?;
        Ok(Session::new(ClientWrapper::new(client, driver), self.common(), birth))
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<DbError> {
        if session.is_fit() { Ok(()) } else { Err(RecycleError::message("no longer fit")) }
    }
}

/// The daemon's connections to PostgreSQL. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: managed::Pool<Connector>,
    common: Arc<Common>,
    clock: Arc<dyn Clock>,
    /// Sent with every transaction: behind a transaction-pooling proxy a session's settings belong to somebody else.
    limits: Arc<str>,
    application_name: Arc<str>,
    statement_timeout: Duration,
    /// `[database] pooling`, where it is said or implied.
    said: Option<Pooling>,
    /// Held by whoever finds out.
    finding: Arc<tokio::sync::Mutex<()>>,
}

impl Pool {
    /// Prepares a pool. Opens no connection yet: an unreachable database is met by the first use.
    ///
    /// # Errors
    /// [`DbError::Settings`] and [`DbError::Token`]: what the configuration says cannot work.
    pub fn new(settings: &Database, options: PoolOptions) -> Result<Self, DbError> {
        let connector = Connector::new(settings, &settings.url, &options)?;
        let common = Arc::clone(connector.common());
        let timeouts = Timeouts { wait: Some(settings.statement_timeout), create: None, recycle: None };
        let inner = managed::Pool::builder(connector)
            .max_size(settings.max_connections)
            .timeouts(timeouts)
            // The one used last knows the statements and has the pages at hand: where few do, few are used.
            .queue_mode(managed::QueueMode::Lifo)
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .map_err(|error| DbError::Settings(format!("database pool: {error}")))?;
        // The third: a client that freezes, or is gone without a word, must not keep its row locked until the network's
        // keepalive notices, because the sweep passes over what is locked. As long as we wait ourselves. The last two, because
        // row-level security keeps statistics from the planner: it takes a status that hardly any row has for a fifth of the
        // table, and would compile statements, and start workers, for what a partial index answers at once.
        let limits = format!(
            "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}; \
             SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0",
            settings.statement_timeout.as_millis(),
            settings.lock_timeout.as_millis(),
            settings.statement_timeout.as_millis() * 2,
        );
        Ok(Self {
            inner,
            common,
            clock: options.clock,
            limits: limits.into(),
            application_name: options.application_name.into(),
            statement_timeout: settings.statement_timeout,
            said: settings.said_pooling(),
            finding: Arc::default(),
        })
    }

    /// Prepares a pool and proves it with one connection.
    ///
    /// # Errors
    /// As [`Pool::new`], and whatever keeps the first connection from being made.
    pub async fn connect(settings: &Database, options: PoolOptions) -> Result<Self, DbError> {
        let pool = Self::new(settings, options)?;
        drop(pool.get().await?);
        Ok(pool)
    }

    /// A connection for statements that need no transaction. Waits for a free one up to `statement_timeout`.
    ///
    /// # Errors
    /// [`DbError::PoolExhausted`], [`DbError::PoolClosed`], or what kept a new connection from being made.
    pub async fn get(&self) -> Result<Client, DbError> {
        let session = self.session().await?;
        let begin = match session.pooling() {
            Pooling::Session => String::new(),
            Pooling::Transaction => self.begin("", "alone"),
        };
        Ok(Client { session, begin })
    }

    async fn session(&self) -> Result<Object<Connector>, DbError> {
        self.inner.get().await.map_err(|error| match error {
            managed::PoolError::Backend(error) => error,
            managed::PoolError::Closed => DbError::PoolClosed,
            managed::PoolError::Timeout(_)
            | managed::PoolError::NoRuntimeSpecified
            | managed::PoolError::PostCreateHook(_) => {
                DbError::PoolExhausted { after: self.statement_timeout, size: self.inner.status().max_size }
            }
        })
    }

    /// Runs a named transaction, read committed: committed when `body` returns `Ok`, rolled back otherwise.
    ///
    /// `body` may run several times (serialization failure, deadlock) and does no other network I/O. Its statements are
    /// pipelined behind the transaction's own settings. The name (a-z, `_`) goes to metrics and `pg_stat_activity`.
    ///
    /// # Errors
    /// Those of `body`; [`DbError::CommitUnknown`] where only the row can tell; [`DbError::NoAnswer`] after twice
    /// `statement_timeout`.
    pub async fn transaction<T, F, Working>(&self, name: &'static str, body: F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working,
        Working: Future<Output = Result<T, DbError>>,
    {
        self.named(name, "", &body).await
    }

    /// The same for statements that look up each row by its key, or by those of some rows in an array: they are planned
    /// once.
    ///
    /// # Errors
    /// Those of [`Self::transaction`].
    pub async fn keyed_transaction<T, F, Working>(&self, name: &'static str, body: F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working,
        Working: Future<Output = Result<T, DbError>>,
    {
        self.named(name, KEYED, &body).await
    }

    /// The same for statements that look for few rows among many, by an index that has only those: the table is not read
    /// from end to end where that can be helped.
    ///
    /// # Errors
    /// Those of [`Self::transaction`].
    pub async fn seeking_transaction<T, F, Working>(&self, name: &'static str, body: F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working,
        Working: Future<Output = Result<T, DbError>>,
    {
        self.named(name, SOUGHT, &body).await
    }

    async fn named<T, F, Working>(&self, name: &'static str, settings: &str, body: &F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working,
        Working: Future<Output = Result<T, DbError>>,
    {
        let began = self.clock.monotonic();
        let back_off = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(5))
            .with_max_delay(Duration::from_millis(200))
            .with_max_times(CONFLICT_RETRIES)
            .with_jitter();
        let attempt =
            async || (|| self.once(name, settings, body)).retry(back_off).when(DbError::is_conflict).await;
        let mut result = attempt().await;
        // Nothing is committed, or the error would say that nobody knows. A new connection knows nothing yet that could be
        // out of date; what it meets all the same is the database's word.
        if let Err(error) = &result
            && error.wants_a_new_connection()
        {
            if error.speaks_of_other_sessions() {
                // Should it not answer, neither will it below.
                drop(self.find_out().await);
            }
            result = attempt().await;
        }
        metrics::histogram!(SECONDS, "name" => name)
            .record(self.clock.monotonic().saturating_duration_since(began).as_secs_f64());
        result
    }

    async fn once<T, F, Working>(&self, name: &'static str, settings: &str, body: &F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working,
        Working: Future<Output = Result<T, DbError>>,
    {
        let mut lease = Lease { session: Some(Arc::new(self.session().await?)), clean: false };
        let session = Arc::clone(lease.session.as_ref().ok_or(DbError::PoolClosed)?);
        let begin = self.begin(settings, name);
        let after = self.statement_timeout * 2;
        let transaction = Transaction { session: Arc::clone(&session) };
        // Polled in this order: BEGIN is on the wire first, and the body's first statement does not wait for its answer.
        let working = async { futures::join!(session.batch_execute(&begin), body(transaction)) };
        let value = match tokio::time::timeout(after, working).await {
            Err(_) => return Err(DbError::NoAnswer { what: name, after }),
            Ok((Err(error), _)) => return Err(error),
            Ok((Ok(()), Ok(value))) => value,
            Ok((Ok(()), Err(error))) => {
                if error.wants_a_new_connection() {
                    self.renew(&session, &error);
                } else {
                    lease.clean = self.answers(session.batch_execute("ROLLBACK")).await;
                }
                return Err(error);
            }
        };
        // PostgreSQL answers COMMIT of an aborted transaction with a quiet ROLLBACK; the SELECT makes it say so.
        match tokio::time::timeout(self.statement_timeout, session.batch_execute("SELECT 1; COMMIT")).await {
            Ok(Ok(())) => {
                lease.clean = true;
                Ok(value)
            }
            Ok(Err(error)) => {
                self.renew(&session, &error);
                Err(commit_failed(name, error))
            }
            Err(_) => {
                let source = DbError::NoAnswer { what: name, after: self.statement_timeout };
                Err(DbError::CommitUnknown { name, source: Box::new(source) })
            }
        }
    }

    /// Asks whether the database answers, and takes writes: the breaker's probe.
    ///
    /// # Errors
    /// What kept it from answering; one of kind `Unreachable` (25006) where it takes no writes.
    pub async fn ask(&self) -> Result<(), DbError> {
        let answer = self.asked().await;
        if answer.as_ref().is_err_and(DbError::wants_a_new_connection) {
            // A session tells of the time when it was opened, a new one of now.
            return self.asked().await;
        }
        answer
    }

    async fn asked(&self) -> Result<(), DbError> {
        // What the server itself looks at before it refuses a write, in recovery as well. Asked and not tried: a write that
        // changes nothing would wait behind everybody who alters its table.
        const READ_ONLY: &str = "SELECT current_setting('transaction_read_only') = 'on' AS read_only";
        let client = self.get().await?;
        match tokio::time::timeout(self.statement_timeout, client.query_one(READ_ONLY, &[])).await {
            Ok(Ok(row)) if !row.try_get::<_, bool>("read_only")? => Ok(()),
            Ok(Ok(_)) => {
                let error = DbError::read_only();
                self.renew(&client.session, &error);
                Err(error)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                drop(Object::take(client.session));
                Err(DbError::NoAnswer { what: "a probe", after: self.statement_timeout })
            }
        }
    }

    /// How statements are said: as the configuration has it, or as was found out.
    #[must_use]
    pub fn pooling(&self) -> Pooling {
        self.common.pooling()
    }

    /// Finds out once whether a proxy that pools transactions stands before the database, and goes by what it found from
    /// then on: before the first statement that would be prepared, and again when names of statements get lost.
    ///
    /// # Errors
    /// What kept the database from answering.
    pub async fn find_out(&self) -> Result<Found, DbError> {
        let _one = self.finding.lock().await;
        if !self.common.is_known() {
            let found = pooling::find_out(self.inner.manager()).await?;
            if found == Pooling::Transaction {
                tracing::warn!(
                    "a proxy before the database pools transactions: nothing is prepared from now on; say \
                     database.pooling = \"transaction\""
                );
            }
            self.common.found(found);
        }
        Ok(Found::of(self.said, self.pooling()))
    }

    /// What a transaction begins with.
    fn begin(&self, settings: &str, name: &str) -> String {
        // Text that says a time says it in the session's zone, which is ours only where we could set it.
        let zone = match self.common.pooling() {
            Pooling::Session => "",
            Pooling::Transaction => "; SET LOCAL TimeZone = 'UTC'",
        };
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {}{zone}{settings}; SET LOCAL application_name = '{}:{name}'",
            self.limits, self.application_name
        )
    }

    /// Closes what waits in the pool and does not fit the database any more, as the one that told so.
    fn renew(&self, session: &Session, error: &DbError) {
        if session.ended_with(error) {
            self.inner.retain(|session, _| session.is_current());
            tracing::info!(
                "a database connection no longer fits the database ({error}): it and those opened before are closed"
            );
        }
    }

    async fn answers(&self, question: impl Future<Output = Result<(), DbError>>) -> bool {
        matches!(tokio::time::timeout(self.statement_timeout, question).await, Ok(Ok(())))
    }

    /// Lets nobody in any more; connections in use end with their users.
    pub fn close(&self) {
        self.inner.close();
    }
}

/// A connection on loan to a transaction. Unless it is clean again it is closed, which rolls back whatever is open on
/// it: also when the caller stops waiting in the middle.
struct Lease {
    session: Option<Arc<Object<Connector>>>,
    clean: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && !self.clean
            && let Some(session) = Arc::into_inner(session)
        {
            drop(Object::take(session));
        }
    }
}

/// The server said no to the commit itself: certain, whatever a deferred constraint or trigger, also one of somebody else's,
/// said it with. Where it was going away, out of something, or told to stop waiting, the commit may stand: unknown.
fn commit_failed(name: &'static str, error: DbError) -> DbError {
    match error.sqlstate() {
        Some("25P02") => DbError::Shape(format!(
            "transaction {name} carried on after a failed statement; it is rolled back (a savepoint would have helped)"
        )),
        Some(code) if is_certain(code) => error,
        _ => DbError::CommitUnknown { name, source: Box::new(error) },
    }
}

/// Whether nothing is committed where COMMIT is answered so. 40003 says itself that it is not known.
fn is_certain(code: &str) -> bool {
    code != "40003" && !["08", "53", "57", "58", "XX"].iter().any(|class| code.starts_with(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_was_refused_is_certain_and_one_that_may_stand_is_not() {
        let said = |code: &str| {
            let server =
                DbError::Server { code: code.to_owned(), message: "m".to_owned(), object: String::new() };
            matches!(commit_failed("t", server), DbError::CommitUnknown { .. })
        };
        for (code, unknown) in [
            ("40001", false),
            ("40P01", false),
            ("23503", false),
            // A deferred trigger of the backend's own.
            ("P0001", false),
            ("22003", false),
            ("42501", false),
            // Aborted before.
            ("25P02", false),
            ("40003", true),
            ("08006", true),
            ("53100", true),
            ("57014", true),
            ("57P01", true),
            ("58030", true),
            ("XX000", true),
        ] {
            assert_eq!(said(code), unknown, "{code}");
        }
        let lost = DbError::Connection("reset".to_owned());
        assert!(matches!(commit_failed("t", lost), DbError::CommitUnknown { .. }));
    }
}
