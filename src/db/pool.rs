//! A bounded pool of connections, and named transactions on them.
//!
//! If we die in the middle of a transaction it is rolled back; between COMMIT and its answer the outcome is unknown, which
//! is why that case has an error of its own. A transaction does no network I/O but the database's, and only conflicts, and
//! statements that a new connection may cure, are repeated.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use deadpool::managed::{self, Metrics, Object, RecycleError, RecycleResult, Timeouts};
use deadpool_postgres::ClientWrapper;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};

use super::client::OnCommit;
pub use super::client::{Client, Transaction};
use super::connector::{Connector, PoolOptions};
use super::error::DbError;
use super::pooling::{self, PoolingCheck};
use super::session::{Common, Session};
use crate::config::{Database, Pooling};
use crate::kernel::metric::Histogram;
use crate::ports::Clock;

/// Repetitions of a transaction that met a conflict.
const CONFLICT_RETRIES: usize = 6;

/// Transaction times, by name; repetitions after conflicts are part of one transaction.
pub static SECONDS: Histogram<&str> =
    Histogram::new("maple_router_db_transaction_seconds", "One named database transaction", BUCKETS)
        .by(&["name"]);
/// Up to `statement_timeout`, in seconds.
const BUCKETS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 5.0, 15.0];

/// For statements that look up their rows by key, however many: the values teach the planner nothing, so one cached plan
/// serves, while planning anew costs more than the statement; and a plan made while the table was small still uses the key
/// when it has grown.
const KEYED: &str = "; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off";

/// For statements that look for few rows by their state: row-level security keeps a column's statistics from the planner,
/// which then takes each status for an equal share of the table, and would rather read ten million rows than one small
/// index. Without an index a table is read all the same.
const SOUGHT: &str = "; SET LOCAL enable_seqscan = off";

/// For rows whose loss a crash of the database may bring: whatever rests on them is committed later, in the same log, so that it
/// is lost with them or they are not lost.
const UNAWAITED: &str = "; SET LOCAL synchronous_commit = off";

/// [`KEYED`] and [`UNAWAITED`].
const LIGHT: &str = "; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; SET LOCAL synchronous_commit = off";

/// The statements of a transaction.
type Body<'a> = dyn Fn(Transaction) -> BoxFuture<'a, Result<(), DbError>> + Sync + 'a;

impl managed::Manager for Connector {
    type Type = Session;
    type Error = DbError;

    async fn create(&self) -> Result<Session, DbError> {
        // On the heap: the future is seldom made, and as large as everything around it, which is moved for each submission.
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
    /// Sent with every transaction: behind a transaction-pooling proxy a session's settings belong to other clients.
    limits: Arc<str>,
    application_name: Arc<str>,
    statement_timeout: Duration,
    /// `[database] pooling`, where it is set or implied.
    said: Option<Pooling>,
    /// Locked during the detection of pooling.
    finding: Arc<tokio::sync::Mutex<()>>,
}

impl Pool {
    /// Prepares a pool. Opens no connection yet: an unreachable database shows at the first use.
    ///
    /// # Errors
    /// [`DbError::Settings`] and [`DbError::Token`]: the configuration cannot work.
    pub fn new(settings: &Database, options: PoolOptions) -> Result<Self, DbError> {
        let connector = Connector::new(settings, &settings.url, &options)?;
        let common = Arc::clone(connector.common());
        let timeouts = Timeouts { wait: Some(settings.statement_timeout), create: None, recycle: None };
        let inner = managed::Pool::builder(connector)
            .max_size(settings.max_connections)
            .timeouts(timeouts)
            // The connection used last knows the statements and has its pages cached: a light load uses few connections.
            .queue_mode(managed::QueueMode::Lifo)
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .map_err(|error| DbError::Settings(format!("database pool: {error}")))?;
        // The third: a client that freezes, or disappears silently, must not keep its row locked until the network's
        // keepalive notices, because the sweep passes over locked rows. As long as we wait ourselves. The last two, because
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
    /// The errors of [`Pool::new`], and of the first connection.
    pub async fn connect(settings: &Database, options: PoolOptions) -> Result<Self, DbError> {
        let pool = Self::new(settings, options)?;
        drop(pool.get().await?);
        Ok(pool)
    }

    /// Returns a connection for statements that need no transaction. Waits for a free one up to `statement_timeout`.
    ///
    /// # Errors
    /// [`DbError::PoolExhausted`], [`DbError::PoolClosed`], or the error of a new connection.
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
    /// The errors of `body`; [`DbError::CommitUnknown`] where only the row can tell; [`DbError::NoAnswer`] after twice
    /// `statement_timeout`.
    pub async fn transaction<T, F, Working>(&self, name: &'static str, body: F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working + Sync,
        Working: Future<Output = Result<T, DbError>> + Send,
        T: Send,
    {
        self.named(name, "", &body).await
    }

    /// [`Self::transaction`] for statements that look up each row by its key, or by an array of keys: their plans are made
    /// once.
    ///
    /// # Errors
    /// The errors of [`Self::transaction`].
    pub async fn keyed_transaction<T, F, Working>(&self, name: &'static str, body: F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working + Sync,
        Working: Future<Output = Result<T, DbError>> + Send,
        T: Send,
    {
        self.named(name, KEYED, &body).await
    }

    /// [`Self::transaction`] for statements that look for few rows among many, by an index of only those: sequential scans
    /// are avoided where possible.
    ///
    /// # Errors
    /// The errors of [`Self::transaction`].
    pub async fn seeking_transaction<T, F, Working>(&self, name: &'static str, body: F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working + Sync,
        Working: Future<Output = Result<T, DbError>> + Send,
        T: Send,
    {
        self.named(name, SOUGHT, &body).await
    }

    /// [`Self::transaction`] whose COMMIT does not wait for the disk, as that of [`Self::light_transaction`].
    ///
    /// # Errors
    /// The errors of [`Self::transaction`].
    pub async fn unawaited_transaction<T, F, Working>(
        &self,
        name: &'static str,
        body: F,
    ) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working + Sync,
        Working: Future<Output = Result<T, DbError>> + Send,
        T: Send,
    {
        self.named(name, UNAWAITED, &body).await
    }

    /// [`Self::keyed_transaction`] whose COMMIT does not wait for the disk. A crash of the database may lose it, together with all
    /// that was committed after it: only for what is made again then.
    ///
    /// # Errors
    /// The errors of [`Self::transaction`].
    pub async fn light_transaction<T, F, Working>(&self, name: &'static str, body: F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working + Sync,
        Working: Future<Output = Result<T, DbError>> + Send,
        T: Send,
    {
        self.named(name, LIGHT, &body).await
    }

    /// Runs the transaction, whose value `body` leaves behind: what follows is compiled once, and not for each transaction.
    async fn named<T, F, Working>(&self, name: &'static str, settings: &str, body: &F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working + Sync,
        Working: Future<Output = Result<T, DbError>> + Send,
        T: Send,
    {
        let value = Mutex::new(None);
        let left = |left: T| *value.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        let working = |tx| body(tx).map_ok(left).boxed();
        self.repeated(name, settings, &working).await?;
        let value = value.into_inner().unwrap_or_else(PoisonError::into_inner);
        value.ok_or_else(|| DbError::Shape(format!("transaction {name} left nothing behind")))
    }

    async fn repeated(&self, name: &'static str, settings: &str, body: &Body<'_>) -> Result<(), DbError> {
        let began = self.clock.monotonic();
        let back_off = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(5))
            .with_max_delay(Duration::from_millis(200))
            .with_max_times(CONFLICT_RETRIES)
            .with_jitter();
        let attempt =
            async || (|| self.once(name, settings, body)).retry(back_off).when(DbError::is_conflict).await;
        let mut result = attempt().await;
        // Nothing is committed, or the error would be `CommitUnknown`. A new connection has nothing cached that could be out
        // of date; its error is the database's last word.
        if let Err(error) = &result
            && error.wants_a_new_connection()
        {
            if error.speaks_of_other_sessions() {
                // If the database does not answer here, the attempt below will not get an answer either.
                drop(self.find_out().await);
            }
            result = attempt().await;
        }
        SECONDS.record(name, self.clock.monotonic().saturating_duration_since(began));
        result
    }

    async fn once(&self, name: &'static str, settings: &str, body: &Body<'_>) -> Result<(), DbError> {
        let mut lease = Lease { session: Some(Arc::new(self.session().await?)), clean: false };
        let session = Arc::clone(lease.session.as_ref().ok_or(DbError::PoolClosed)?);
        let begin = self.begin(settings, name);
        let after = self.statement_timeout * 2;
        let committed = OnCommit::default();
        let transaction = Transaction { session: Arc::clone(&session), committed: committed.clone() };
        // Polled in this order: BEGIN is on the wire first, and the body's first statement does not wait for its answer.
        let working = async { futures::join!(session.batch_execute(&begin), body(transaction)) };
        match tokio::time::timeout(after, working).await {
            Err(_) => return Err(DbError::NoAnswer { what: name, after }),
            Ok((Err(error), _)) => return Err(error),
            Ok((Ok(()), Ok(()))) => {}
            Ok((Ok(()), Err(error))) => {
                if error.wants_a_new_connection() {
                    self.renew(&session, &error);
                } else {
                    lease.clean = self.answers(session.batch_execute("ROLLBACK")).await;
                }
                return Err(error);
            }
        }
        // PostgreSQL answers COMMIT of an aborted transaction with a quiet ROLLBACK; the SELECT turns that into an error.
        match tokio::time::timeout(self.statement_timeout, session.batch_execute("SELECT 1; COMMIT")).await {
            Ok(Ok(())) => {
                lease.clean = true;
                committed.run();
                Ok(())
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

    /// Checks whether the database answers, and takes writes: the breaker's probe.
    ///
    /// # Errors
    /// The error of the probe; one of kind `Unreachable` (25006) where the database takes no writes.
    pub async fn ask(&self) -> Result<(), DbError> {
        let answer = self.asked().await;
        if answer.as_ref().is_err_and(DbError::wants_a_new_connection) {
            // An open session reports the state of its start, a new one the current state.
            return self.asked().await;
        }
        answer
    }

    async fn asked(&self) -> Result<(), DbError> {
        // The setting that the server itself checks before it refuses a write, in recovery as well. A test write would wait
        // behind every session that alters its table.
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

    /// Returns how sessions are pooled: as configured, or as detected.
    #[must_use]
    pub fn pooling(&self) -> Pooling {
        self.common.pooling()
    }

    /// Detects once whether a proxy that pools transactions is in front of the database, and uses the result from then on:
    /// before the first statement that would be prepared, and again when statements' names get lost.
    ///
    /// # Errors
    /// The error that kept the database from answering.
    pub async fn find_out(&self) -> Result<PoolingCheck, DbError> {
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
        Ok(PoolingCheck::of(self.said, self.pooling()))
    }

    /// Returns the statements that open a transaction.
    fn begin(&self, settings: &str, name: &str) -> String {
        // A time in text is in the session's zone, which is ours only where we could set it.
        let zone = match self.common.pooling() {
            Pooling::Session => "",
            Pooling::Transaction => "; SET LOCAL TimeZone = 'UTC'",
        };
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {}{zone}{settings}; SET LOCAL application_name = '{}:{name}'",
            self.limits, self.application_name
        )
    }

    /// Closes the idle connections that, like the one with this error, no longer fit the database.
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

    /// Refuses further connections; those in use end with their users.
    pub fn close(&self) {
        self.inner.close();
    }
}

/// A connection on loan to a transaction. Unless it is clean again it is closed, which rolls back its open transaction: also
/// when the caller stops waiting in the middle.
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

/// An error in the commit itself: certain, whatever code a deferred constraint or trigger, even a foreign one, gave it. From
/// a server that was going away, out of a resource, or cancelled a wait, the commit may stand: unknown.
fn commit_failed(name: &'static str, error: DbError) -> DbError {
    match error.sqlstate() {
        Some("25P02") => DbError::Shape(format!(
            "transaction {name} carried on after a failed statement; it is rolled back (a savepoint would have helped)"
        )),
        Some(code) if is_certain(code) => error,
        _ => DbError::CommitUnknown { name, source: Box::new(error) },
    }
}

/// Returns whether nothing is committed after this answer to COMMIT. 40003 itself means "unknown".
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
            // A deferred trigger of the backend.
            ("P0001", false),
            ("22003", false),
            ("42501", false),
            // Aborted before the commit.
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
