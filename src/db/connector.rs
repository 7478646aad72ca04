//! Makes one connection to PostgreSQL: login, TLS, session settings.
//!
//! Passwords and tokens are read anew for each connection and stored nowhere else. A connection never has less TLS than was
//! asked for.

use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use google_cloud_auth::credentials::{AccessTokenCredentials, Builder as CredentialsBuilder};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::{AsyncMessage, NoTls, Notification};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::conninfo::{ConnInfo, SslMode};
use super::error::{DbError, chain};
use super::session::Common;
use super::tls;
use crate::config::{Database, DatabaseAuth, Pooling};
use crate::ports::Clock;

/// Scope of the token a Cloud SQL IAM login wants.
const IAM_LOGIN_SCOPE: &str = "https://www.googleapis.com/auth/sqlservice.login";

/// The options of a pool beside `[database]`.
#[derive(Debug)]
pub struct PoolOptions {
    /// The clock that measures transactions.
    pub clock: Arc<dyn Clock>,
    /// The name in `pg_stat_activity`, followed by the transaction's name.
    pub application_name: String,
    /// A password from elsewhere (systemd credentials, a prompt); `password_file` has priority.
    pub password: Option<String>,
    /// The tokens for `auth = "iam"`; the identity of this host when absent.
    pub tokens: Option<AccessTokenCredentials>,
}

impl PoolOptions {
    /// The daemon's options: no password but the file's, tokens of this host.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, application_name: "maple-router".to_owned(), password: None, tokens: None }
    }
}

/// The password's origin for new connections.
enum Login {
    /// The url, which may have none.
    AsGiven,
    Password(String),
    /// A file, read for each connection, so that a rotated password works without a restart.
    File(PathBuf),
    /// A token for each connection; the library keeps and renews it.
    Iam(AccessTokenCredentials),
}

/// Makes connections. Public only because it names the type of a [`Client`](super::pool::Client).
pub struct Connector {
    config: tokio_postgres::Config,
    tls: Option<MakeRustlsConnect>,
    login: Login,
    session: String,
    common: Arc<Common>,
    connect_timeout: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(settings: &Database, url: &str, options: &PoolOptions) -> Result<Self, DbError> {
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
        // By SET and not as startup options, which pooling proxies refuse. For statements without a transaction; the reasons
        // are where each transaction sets the same (`pool.rs`).
        let session = format!(
            "SET default_transaction_isolation = 'read committed'; SET TimeZone = 'UTC'; \
             SET jit = off; SET max_parallel_workers_per_gather = 0; \
             SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}",
            settings.statement_timeout.as_millis(),
            settings.lock_timeout.as_millis(),
            (settings.statement_timeout * 2).as_millis(),
        );
        let common = Arc::new(Common::new(settings));
        Ok(Self { config, tls, login, session, common, connect_timeout: settings.connect_timeout })
    }

    pub(super) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// Opens one connection, logged in and, where the session is ours, set up; its notifications go to `notifications`.
    ///
    /// # Errors
    /// [`DbError`], of kind `Unreachable` in most cases; never later than `connect_timeout`.
    pub(super) async fn open(
        &self,
        pooling: Pooling,
        notifications: Option<UnboundedSender<Notification>>,
    ) -> Result<(tokio_postgres::Client, tokio::task::JoinHandle<()>), DbError> {
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
                    (client, tokio::spawn(drive(connection, notifications)))
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, tokio::spawn(drive(connection, notifications)))
                }
            };
            if pooling == Pooling::Session {
                client.batch_execute(&self.session).await?;
            }
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
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    notifications: Option<UnboundedSender<Notification>>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => {
                if let Some(notifications) = &notifications
                    && notifications.send(notification).is_err()
                {
                    return; // no listener is left: ending the task closes the connection
                }
            }
            // A notice may quote a row, so it is not logged.
            Ok(_) => {}
            Err(error) => {
                // The user of the connection gets an error of its own; this line reports idle connections.
                tracing::debug!(error = %DbError::from(error), "database connection ended");
                return;
            }
        }
    }
}

/// A separate connection that listens on one channel: `database.listen_url` where set, else `database.url`.
///
/// [`Listener::next`] ends with the connection: the caller then looks at the rows once more and connects again, since
/// notifications in between are lost.
#[derive(Debug)]
pub struct Listener {
    /// Kept open: dropping the client ends the connection.
    _client: tokio_postgres::Client,
    notifications: UnboundedReceiver<Notification>,
}

impl Listener {
    /// Connects and listens. The channel is a plain identifier.
    ///
    /// # Errors
    /// The errors of [`Pool::connect`](super::pool::Pool::connect).
    pub async fn connect(
        settings: &Database,
        options: &PoolOptions,
        channel: &'static str,
    ) -> Result<Self, DbError> {
        let url = settings.listen_url.as_ref().unwrap_or(&settings.url);
        let connector = Connector::new(settings, url, options)?;
        let (sender, notifications) = unbounded_channel();
        let (client, _driver) = connector.open(Pooling::Session, Some(sender)).await?;
        client.batch_execute(&format!("LISTEN {channel}")).await?;
        Ok(Self { _client: client, notifications })
    }

    /// Returns the payload of the next notification; `None` when the connection is gone.
    pub async fn next(&mut self) -> Option<String> {
        Some(self.notifications.recv().await?.payload().to_owned())
    }
}
