//! A real PgBouncer before a test database: sessions of the server go from transaction to transaction.
//!
//! The program comes from the Debian package; a missing one fails. Ends with the value, and takes its files along.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::database::TestDatabase;
use super::server::unprivileged_account;

/// Debian's path; seldom in the search path of users other than root.
const PROGRAM: &str = "/usr/sbin/pgbouncer";
/// Part of the socket's name only.
const PORT: u16 = 6432;
/// Longest time to start, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(50);

/// When a session of the server goes back to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// One server session for each client connection.
    Session,
    /// One server session for each transaction.
    Transaction,
}

/// A running proxy.
#[derive(Debug)]
pub struct Bouncer {
    child: Child,
    database: String,
    dir: TempDir,
}

impl Bouncer {
    /// Starts one before `database` with so many sessions for each role.
    ///
    /// # Errors
    /// There is no program `pgbouncer` (`scripts/install-missing pooling`), or it does not start: the error has its log.
    pub async fn start(database: &TestDatabase, mode: PoolMode, sessions: u32) -> Result<Self> {
        let dir = TempDir::with_prefix("maple-bouncer-")?;
        let at = dir.path().display();
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        let server = database.endpoint();
        // Connects and disconnects of clients and servers are not logged: the log is for whoever waits for something in it.
        let settings = format!(
            "[databases]\n{name} = host={host} port={port}\n\
             [pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\nunix_socket_dir = {at}\nauth_type = trust\n\
             auth_file = {at}/users\npool_mode = {mode}\ndefault_pool_size = {sessions}\nmax_client_conn = 200\n\
             server_login_retry = 0.2\nlogfile = {at}/log\nlog_connections = 0\nlog_disconnections = 0\n",
            name = database.name(),
            host = server.socket_dir.display(),
            port = server.socket_port,
        );
        fs::write(dir.path().join("ini"), settings)?;
        fs::write(dir.path().join("users"), "\"forms_app\" \"\"\n")?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let child = run(&dir)?;
        let mut bouncer = Self { child, database: database.name().to_owned(), dir };
        bouncer.ready().await?;
        Ok(bouncer)
    }

    /// Connection URL of `forms_app`, through the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres:///{}?host={}&port={PORT}&user=forms_app", self.database, self.dir.path().display())
    }

    /// Kills it and starts it again; every connection through it is gone.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.child.kill().await?;
        // A new pgbouncer that meets the socket of a dead one does not start.
        drop(fs::remove_file(self.dir.path().join(format!(".s.PGSQL.{PORT}"))));
        self.child = run(&self.dir)?;
        self.ready().await
    }

    /// Returns the answers of `sessions` sessions used at the same time, the columns as text.
    ///
    /// # Errors
    /// There are not so many, or the statement fails.
    pub async fn each_answers(&self, sessions: usize, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let (mut clients, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..sessions {
            let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await?;
            // Ends with the client, whose own calls tell what goes wrong on the wire.
            tokio::spawn(async move { drop(connection.await) });
            client.batch_execute("BEGIN").await?;
            for message in client.simple_query(sql).await? {
                if let SimpleQueryMessage::Row(row) = message {
                    answers.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
                }
            }
            clients.push(client);
        }
        for client in clients {
            client.batch_execute("COMMIT").await?;
        }
        Ok(answers)
    }

    /// Contents of its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    async fn ready(&mut self) -> Result<()> {
        let url = self.url();
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if let Some(status) = self.child.try_wait()? {
                bail!("pgbouncer has ended ({status}): {}", self.log());
            }
            if let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await {
                let driver = tokio::spawn(connection);
                let answers = client.batch_execute("SELECT 1").await.is_ok();
                drop(client);
                driver.await?.ok();
                if answers {
                    return Ok(());
                }
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("pgbouncer does not answer: {}", self.log())
    }
}

fn run(dir: &TempDir) -> Result<Child> {
    let program = PathBuf::from(PROGRAM);
    let mut command = Command::new(if program.exists() { program } else { "pgbouncer".into() });
    if let Some(account) = unprivileged_account()? {
        // PgBouncer refuses to run as root.
        chown(dir.path(), Some(account.uid), Some(account.gid))?;
        command.uid(account.uid).gid(account.gid);
    }
    command.arg("-q").arg(dir.path().join("ini"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().context("pgbouncer cannot be started: scripts/install-missing pooling brings it")
}
