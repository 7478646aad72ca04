//! A bounded pool of connections, and named transactions on them.
//!
//! Dying in the middle of a transaction rolls it back; between COMMIT and its answer nobody knows, which is why that
//! case has an error of its own. Never does network I/O other than the database's inside a transaction, and never
//! repeats anything but a conflict.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use deadpool::managed::{self, Metrics, Object, RecycleError, RecycleResult, Timeouts};
use deadpool_postgres::ClientWrapper;
use google_cloud_auth::credentials::{AccessTokenCredentials, Builder as CredentialsBuilder};
use tokio_postgres::NoTls;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::conninfo::{ConnInfo, SslMode};
use super::error::{DbError, chain};
use super::tls;
use crate::config::{Database, DatabaseAuth};
use crate::ports::Clock;

/// Scope of the token a Cloud SQL IAM login wants.
const IAM_LOGIN_SCOPE: &str = "https://www.googleapis.com/auth/sqlservice.login";

/// Repetitions of a transaction that met a conflict.
const CONFLICT_RETRIES: usize = 6;

/// Histogram of transaction times, by name; conflicts' repetitions are part of one transaction.
const SECONDS: &str = "maple_router_db_transaction_seconds";

/// A connection from the pool; goes back when dropped. Derefs to [`tokio_postgres::Client`], with `prepare_cached`.
pub type Client = Object<Connector>;

/// A running transaction, begun and ended by [`Pool::transaction`]. Derefs to the client: `query`, `execute`,
/// `prepare_cached`. Statements polled together (`join!`) share a round trip and run in the order they were polled in.
///
/// Owned rather than borrowed, so that a transaction's future can be sent to another thread; it must not outlive the
/// body it was given to.
#[derive(Debug)]
pub struct Transaction {
    client: Arc<Client>,
}

impl Deref for Transaction {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

/// What a pool needs beside `[database]`.
#[derive(Debug)]
pub struct PoolOptions {
    /// Measures transactions.
    pub clock: Arc<dyn Clock>,
    /// Shown in `pg_stat_activity`, followed by the transaction's name.
    pub application_name: String,
    /// Password that was found elsewhere (systemd credentials, a prompt); `password_file` comes first.
    pub password: Option<String>,
    /// Where `auth = "iam"` gets its tokens; the identity of this host when absent.
    pub tokens: Option<AccessTokenCredentials>,
}

impl PoolOptions {
    /// The daemon's own: no password but the file's, tokens of this host.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, application_name: "maple-router".to_owned(), password: None, tokens: None }
    }
}

/// Where the password of a new connection comes from.
enum Login {
    /// From the url, or none at all.
    AsGiven,
    Password(String),
    /// Read again for each connection, so that a rotated password works without a restart.
    File(PathBuf),
    /// A token for each connection; the library keeps and renews it.
    Iam(AccessTokenCredentials),
}

/// Makes connections: login, TLS, session settings. Public only because it names the type of a [`Client`].
pub struct Connector {
    config: tokio_postgres::Config,
    tls: Option<MakeRustlsConnect>,
    login: Login,
    session: String,
    connect_timeout: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Connector {
    fn new(settings: &Database, url: &str, options: &PoolOptions) -> Result<Self, DbError> {
        let info = ConnInfo::parse(url)?;
        let root_cert = settings.ssl_root_cert.as_ref().or(info.ssl_root_cert.as_ref());
        let tls = tls::connector(info.ssl_mode, root_cert.map(PathBuf::as_path))?;
        let login = match (settings.auth, &settings.password_file, &options.password) {
            (DatabaseAuth::Iam, _, _) => {
                if !info.is_local() && matches!(info.ssl_mode, SslMode::Disable | SslMode::Prefer) {
                    return Err(DbError::Settings(
                        "database.auth = \"iam\" sends an access token: it needs sslmode=require or better in \
                         database.url"
                            .to_owned(),
                    ));
                }
                match &options.tokens {
                    Some(tokens) => Login::Iam(tokens.clone()),
                    None => Login::Iam(host_identity()?),
                }
            }
            (DatabaseAuth::Password, Some(path), _) => Login::File(path.clone()),
            (DatabaseAuth::Password, None, Some(password)) => Login::Password(password.clone()),
            (DatabaseAuth::Password, None, None) => Login::AsGiven,
        };
        let mut config = info.config;
        config
            .application_name(options.application_name.clone())
            .connect_timeout(settings.connect_timeout)
            .ssl_mode(match info.ssl_mode {
                SslMode::Disable => tokio_postgres::config::SslMode::Disable,
                SslMode::Prefer => tokio_postgres::config::SslMode::Prefer,
                SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                    tokio_postgres::config::SslMode::Require
                }
            })
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(30))
            .keepalives_interval(Duration::from_secs(10))
            .keepalives_retries(3)
            .tcp_user_timeout(settings.statement_timeout + settings.connect_timeout);
        // By SET and not as startup options: pooling proxies refuse those.
        let session = format!(
            "SET default_transaction_isolation = 'read committed'; SET TimeZone = 'UTC'; \
             SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}",
            settings.statement_timeout.as_millis(),
            settings.lock_timeout.as_millis(),
            (settings.statement_timeout * 2).as_millis(),
        );
        Ok(Self { config, tls, login, session, connect_timeout: settings.connect_timeout })
    }

    /// Opens one connection, logged in and set up.
    ///
    /// # Errors
    /// Of kind `Unreachable` in most cases; never later than `connect_timeout`.
    pub async fn open(&self) -> Result<(tokio_postgres::Client, tokio::task::JoinHandle<()>), DbError> {
        let opening = async {
            let mut config = self.config.clone();
            match &self.login {
                Login::AsGiven => {}
                Login::Password(password) => {
                    config.password(password);
                }
                Login::File(path) => {
                    let text = tokio::fs::read_to_string(path).await.map_err(|error| {
                        DbError::PasswordFile { path: path.clone(), reason: error.to_string() }
                    })?;
                    config.password(text.trim_end_matches(['\r', '\n']));
                }
                Login::Iam(credentials) => {
                    let token =
                        credentials.access_token().await.map_err(|error| DbError::Token(chain(&error)))?;
                    config.password(token.token);
                }
            }
            let (client, driver) = match &self.tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await?;
                    (client, tokio::spawn(drive(connection)))
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, tokio::spawn(drive(connection)))
                }
            };
            client.batch_execute(&self.session).await?;
            Ok((client, driver))
        };
        let late = || DbError::NoAnswer { what: "connecting", after: self.connect_timeout };
        tokio::time::timeout(self.connect_timeout, opening).await.map_err(|_| late())?
    }
}

fn host_identity() -> Result<AccessTokenCredentials, DbError> {
    CredentialsBuilder::default()
        .with_scopes([IAM_LOGIN_SCOPE])
        .build_access_token_credentials()
        .map_err(|error| DbError::Token(chain(&error)))
}

/// Drives one connection until it ends.
async fn drive<S, T>(connection: tokio_postgres::Connection<S, T>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    if let Err(error) = connection.await {
        // Whoever used the connection gets an error of its own; this tells of idle ones.
        tracing::debug!(error = %DbError::from(error), "database connection ended");
    }
}

impl managed::Manager for Connector {
    type Type = ClientWrapper;
    type Error = DbError;

    async fn create(&self) -> Result<ClientWrapper, DbError> {
        let (client, driver) = self.open().await?;
        Ok(ClientWrapper::new(client, driver))
    }

    async fn recycle(&self, client: &mut ClientWrapper, _: &Metrics) -> RecycleResult<DbError> {
        if client.is_closed() { Err(RecycleError::message("closed")) } else { Ok(()) }
    }
}

/// The daemon's connections to PostgreSQL. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: managed::Pool<Connector>,
    clock: Arc<dyn Clock>,
    /// Sent with every transaction: behind a transaction-pooling proxy a session's settings belong to somebody else.
    limits: Arc<str>,
    application_name: Arc<str>,
    statement_timeout: Duration,
}

impl Pool {
    /// Prepares a pool. Opens no connection yet: an unreachable database is met by the first use.
    ///
    /// # Errors
    /// [`DbError::Settings`] and [`DbError::Token`]: what the configuration says cannot work.
    pub fn new(settings: &Database, options: PoolOptions) -> Result<Self, DbError> {
        let connector = Connector::new(settings, &settings.url, &options)?;
        let timeouts = Timeouts { wait: Some(settings.statement_timeout), create: None, recycle: None };
        let inner = managed::Pool::builder(connector)
            .max_size(settings.max_connections)
            .timeouts(timeouts)
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .map_err(|error| DbError::Settings(format!("database pool: {error}")))?;
        let limits = format!(
            "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}",
            settings.statement_timeout.as_millis(),
            settings.lock_timeout.as_millis(),
        );
        Ok(Self {
            inner,
            clock: options.clock,
            limits: limits.into(),
            application_name: options.application_name.into(),
            statement_timeout: settings.statement_timeout,
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
    /// [`DbError::PoolExhausted`], [`DbError::PoolClosed`], or what [`Connector::open`] met.
    pub async fn get(&self) -> Result<Client, DbError> {
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
        let began = self.clock.monotonic();
        let back_off = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(5))
            .with_max_delay(Duration::from_millis(200))
            .with_max_times(CONFLICT_RETRIES)
            .with_jitter();
        let result = (|| self.once(name, &body)).retry(back_off).when(DbError::is_conflict).await;
        metrics::histogram!(SECONDS, "name" => name)
            .record(self.clock.monotonic().saturating_duration_since(began).as_secs_f64());
        result
    }

    async fn once<T, F, Working>(&self, name: &'static str, body: &F) -> Result<T, DbError>
    where
        F: Fn(Transaction) -> Working,
        Working: Future<Output = Result<T, DbError>>,
    {
        let mut lease = Lease { client: Some(Arc::new(self.get().await?)), clean: false };
        let client = Arc::clone(lease.client.as_ref().ok_or(DbError::PoolClosed)?);
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {}; SET LOCAL application_name = '{}:{name}'",
            self.limits, self.application_name
        );
        let after = self.statement_timeout * 2;
        let transaction = Transaction { client: Arc::clone(&client) };
        // Polled in this order: BEGIN is on the wire first, and the body's first statement does not wait for its answer.
        let working = async { futures::join!(client.batch_execute(&begin), body(transaction)) };
        let value = match tokio::time::timeout(after, working).await {
            Err(_) => return Err(DbError::NoAnswer { what: name, after }),
            Ok((Err(error), _)) => return Err(error.into()),
            Ok((Ok(()), Ok(value))) => value,
            Ok((Ok(()), Err(error))) => {
                lease.clean = self.answers(client.batch_execute("ROLLBACK")).await;
                return Err(error);
            }
        };
        // PostgreSQL answers COMMIT of an aborted transaction with a quiet ROLLBACK; the SELECT makes it say so.
        match tokio::time::timeout(self.statement_timeout, client.batch_execute("SELECT 1; COMMIT")).await {
            Ok(Ok(())) => {
                lease.clean = true;
                Ok(value)
            }
            Ok(Err(error)) => Err(commit_failed(name, error.into())),
            Err(_) => {
                let source = DbError::NoAnswer { what: name, after: self.statement_timeout };
                Err(DbError::CommitUnknown { name, source: Box::new(source) })
            }
        }
    }

    async fn answers(&self, question: impl Future<Output = Result<(), tokio_postgres::Error>>) -> bool {
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
    client: Option<Arc<Client>>,
    clean: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && !self.clean
            && let Some(client) = Arc::into_inner(client)
        {
            drop(Object::take(client));
        }
    }
}

/// The server said no to the commit itself (conflicts, deferred constraints, aborted before): certain. Else: unknown.
fn commit_failed(name: &'static str, error: DbError) -> DbError {
    match error.sqlstate() {
        Some("25P02") => DbError::Shape(format!(
            "transaction {name} carried on after a failed statement; it is rolled back (a savepoint would have helped)"
        )),
        Some(code) if code.starts_with("40") || code.starts_with("23") => error,
        _ => DbError::CommitUnknown { name, source: Box::new(error) },
    }
}
