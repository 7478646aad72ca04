//! A running server: shared between test processes, or one's own.
//!
//! Every process that uses the shared server holds a shared lock on a file for as long as it lives; starting and
//! stopping happen under a second, exclusive one. Dying in the middle releases both.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

use super::database::{Endpoint, TestDatabase, Variant, short_digest};
use super::server::{ClusterOptions, SUPERUSER, Server};
use crate::port::free_port;

/// A throwaway PostgreSQL server.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    endpoint: Endpoint,
    /// Stopped and removed on drop; the shared one is left to the reaper.
    own: bool,
    /// The shared lock that keeps the reaper away.
    _user: File,
}

static SHARED: OnceCell<Arc<Cluster>> = OnceCell::const_new();

/// Checks of 2 s that the shared server outlives its last user: time to look at a failure, and to start the next run.
const SHARED_IDLE_CHECKS: u32 = 30;

impl Cluster {
    /// The server shared by all test processes of this working tree; the first one starts it (about a second).
    ///
    /// # Errors
    /// PostgreSQL is not installed, or it does not start; the message has the end of its log.
    pub async fn shared() -> Result<Arc<Self>> {
        SHARED
            .get_or_try_init(|| async {
                let cluster = tokio::task::spawn_blocking(Self::join_shared).await??;
                Ok(Arc::new(cluster))
            })
            .await
            .cloned()
    }

    fn join_shared() -> Result<Self> {
        let uid = fs::metadata("/proc/self")?.uid();
        let tree = short_digest(env!("CARGO_MANIFEST_DIR"));
        let root = base_dir(false).join(format!("maple-router-pg-{uid}-{tree}"));
        fs::create_dir_all(&root)?;
        let server = Server::new(root)?;
        let gate = lock_file(&server.root, "gate")?;
        gate.lock()?;
        let user = lock_file(&server.root, "users")?;
        user.lock_shared()?;
        let endpoint = Endpoint::socket(server.pg(), 5432);
        if !answers(&endpoint) {
            server.create(&ClusterOptions::default(), None)?;
        }
        if lock_file(&server.root, "reaper")?.try_lock().is_ok() {
            server.spawn_reaper(SHARED_IDLE_CHECKS, &server.pg())?;
        }
        gate.unlock()?;
        Ok(Self { server, endpoint, own: false, _user: user })
    }

    /// Starts a server of one's own, stopped and removed when dropped.
    ///
    /// # Errors
    /// PostgreSQL is not installed, the port is taken, or a setting is refused.
    pub async fn start(options: ClusterOptions) -> Result<Self> {
        tokio::task::spawn_blocking(move || {
            let root =
                tempfile::Builder::new().prefix("maple-pg-").tempdir_in(base_dir(options.durable))?.keep();
            fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
            let server = Server::new(root)?;
            let user = lock_file(&server.root, "users")?;
            user.lock_shared()?;
            let tcp_port = match options.tcp_port {
                Some(0) => Some(free_port()?),
                other => other,
            };
            if let Err(error) = server.create(&options, tcp_port) {
                fs::remove_dir_all(&server.root)?;
                return Err(error);
            }
            server.spawn_reaper(1, &server.root)?;
            let endpoint = Endpoint { tcp_port, ..Endpoint::socket(server.pg(), tcp_port.unwrap_or(5432)) };
            Ok(Self { server, endpoint, own: true, _user: user })
        })
        .await?
    }

    /// Address of the server.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// URL of the superuser for a database of this cluster, over the unix socket.
    #[must_use]
    pub fn superuser_url(&self, database: &str) -> String {
        self.endpoint.url(SUPERUSER, database)
    }

    /// A fresh database of its own, copied from the template of that variant.
    ///
    /// # Errors
    /// A migration fails, or the server is gone.
    pub async fn database(&self, variant: Variant) -> Result<TestDatabase> {
        TestDatabase::create(&self.endpoint, variant).await
    }

    /// Stops the server as a crash would (`immediate`): for tests of outages, on a cluster of one's own.
    ///
    /// # Panics
    /// On the shared cluster, which belongs to other tests as well.
    pub async fn stop(&self) {
        assert!(self.own, "the shared test cluster is not yours to stop; use Cluster::start");
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || server.stop("immediate")).await.expect("stopping the cluster");
    }

    /// Starts the server again after [`Cluster::stop`], on the same data, socket and port.
    ///
    /// # Errors
    /// The server does not start; the message has the end of its log.
    pub async fn start_again(&self) -> Result<()> {
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || server.start()).await?
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.own {
            self.server.stop("immediate");
            drop(fs::remove_dir_all(&self.server.root));
        }
    }
}

/// Memory where the machine has some to spare: copying a database takes 10 ms there and 140 ms on an overlay disk.
/// Judged by size, not by what is free, so that every process comes to the same answer.
fn base_dir(durable: bool) -> PathBuf {
    const ENOUGH_KIB: u64 = 2 * 1024 * 1024;
    let asked = Command::new("df").args(["--output=size", "-k", "/dev/shm"]).output();
    let size = asked
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok()?.lines().nth(1)?.trim().parse().ok());
    if !durable && size.is_some_and(|kib: u64| kib >= ENOUGH_KIB) {
        return PathBuf::from("/dev/shm");
    }
    // A unix socket's path has 107 bytes at most, and the server's own account must be able to walk there.
    let chosen = std::env::temp_dir();
    let walkable = fs::metadata(&chosen).is_ok_and(|found| found.mode() & 0o001 != 0);
    if chosen.as_os_str().len() <= 50 && walkable { chosen } else { PathBuf::from("/tmp") }
}

fn lock_file(root: &Path, name: &str) -> Result<File> {
    let path = root.join(name);
    File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("opening {}", path.display()))
}

/// Whether a server answers there; asked on a runtime of its own because the caller is a blocking thread.
fn answers(endpoint: &Endpoint) -> bool {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return false;
    };
    runtime.block_on(async {
        match tokio_postgres::connect(&endpoint.url(SUPERUSER, "postgres"), NoTls).await {
            Ok((client, connection)) => {
                let driver = tokio::spawn(connection);
                let answered = client.simple_query("SELECT 1").await.is_ok();
                driver.abort();
                answered
            }
            Err(_) => false,
        }
    })
}
