//! A git host on loopback, over plain HTTP and over TLS, as good as git's own server by default and as bad as a test asks for.
//!
//! **A stand-in** for github.com and its like: it has no accounts, no forks, no limits and no pages. What it serves are **real
//! repositories through git's own `git http-backend`** (git-http-backend(1), Debian's package `git`), so references, packs and
//! refusals are git's; what is scripted ([`Act`]) is written here, and says so in the header `Server`. The other end of the
//! comparison is git itself, which `tests/git_host_conformance.rs` runs against it unchanged. What is **guessed**: that a host
//! answers for a private repository with 401, for a renamed one with 301 and when it is asked too often with 429.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use devkit::git_host::{Act, At, GitHost, hostile};
//!
//! let host = GitHost::start().await?;
//! hostile::harmless(&host.repository("octo/skill")?)?;
//! host.act("octo/skill", At::Pack, Act::CutAfter(100));
//! // … a client with `host.http_url("octo/skill")`, or `host.https_url("octo/skill")` and `host.ca_file()` …
//! # Ok(())
//! # }
//! ```
//!
//! Repositories are in a temporary directory that ends with the host.

mod act;
mod cgi;
pub mod hostile;
mod repository;
mod serve;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::act::{Act, At};
pub use self::repository::{GIT, Repository};

/// A request, as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// `OWNER/REPOSITORY`.
    pub repository: String,
    /// What it asked for.
    pub at: At,
    /// Objects that a fetch wants, by id.
    pub wants: Vec<String>,
}

/// What connections share.
#[derive(Debug)]
struct Host {
    root: PathBuf,
    acts: Mutex<BTreeMap<(String, At), Act>>,
    /// Commits that a reference moves through, and how often it was looked at.
    moves: Mutex<BTreeMap<String, (Vec<String>, usize)>>,
    visits: Mutex<Vec<Visit>>,
}

/// A git host that runs; dropping it stops it and removes its repositories.
#[derive(Debug)]
pub struct GitHost {
    host: Arc<Host>,
    dir: TempDir,
    http: u16,
    https: u16,
    down: CancellationToken,
}

impl GitHost {
    /// Starts on two free ports of 127.0.0.1, with a certificate authority of its own.
    ///
    /// # Errors
    /// No port can be had, or no certificate be made.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (acceptor, authority) = tls::acceptor()?;
        std::fs::write(dir.path().join("ca.pem"), authority)?;
        let host = Arc::new(Host {
            root: dir.path().join("repositories"),
            acts: Mutex::default(),
            moves: Mutex::default(),
            visits: Mutex::default(),
        });
        let down = CancellationToken::new();
        let plain = TcpListener::bind(("127.0.0.1", 0)).await.context("a port")?;
        let secure = TcpListener::bind(("127.0.0.1", 0)).await.context("a port")?;
        let (http, https) = (plain.local_addr()?.port(), secure.local_addr()?.port());
        tokio::spawn(serve::listen(plain, None, Arc::clone(&host), down.clone()));
        tokio::spawn(serve::listen(secure, Some(acceptor), Arc::clone(&host), down.clone()));
        Ok(Self { host, dir, http, https, down })
    }

    /// `127.0.0.1:PORT` of plain HTTP.
    #[must_use]
    pub fn http_authority(&self) -> String {
        format!("127.0.0.1:{}", self.http)
    }

    /// `localhost:PORT` of TLS.
    #[must_use]
    pub fn https_authority(&self) -> String {
        format!("localhost:{}", self.https)
    }

    /// Address of a repository over plain HTTP.
    #[must_use]
    pub fn http_url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.http_authority())
    }

    /// Address of a repository over TLS.
    #[must_use]
    pub fn https_url(&self, name: &str) -> String {
        format!("https://{}/{name}", self.https_authority())
    }

    /// Certificate of its authority.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Makes an empty repository, `OWNER/REPOSITORY`.
    ///
    /// # Errors
    /// git fails.
    pub fn repository(&self, name: &str) -> Result<Repository> {
        Repository::make(&self.host.root.join(format!("{name}.git")))
    }

    /// Answers in the repository's place from now on; it need not exist.
    pub fn act(&self, name: &str, at: At, act: Act) {
        lock(&self.host.acts).insert((name.to_owned(), at), act);
    }

    /// Moves `refs/heads/main` to the next of these commits before each look at the references; at the last it stays.
    pub fn moves(&self, name: &str, commits: Vec<String>) {
        lock(&self.host.moves).insert(name.to_owned(), (commits, 0));
    }

    /// Requests so far.
    #[must_use]
    pub fn visits(&self) -> Vec<Visit> {
        lock(&self.host.visits).clone()
    }

    /// Objects that were ever wanted of a repository.
    #[must_use]
    pub fn wanted(&self, name: &str) -> BTreeSet<String> {
        self.visits()
            .into_iter()
            .filter(|visit| visit.repository == name)
            .flat_map(|visit| visit.wants)
            .collect()
    }
}

impl Drop for GitHost {
    fn drop(&mut self) {
        self.down.cancel();
    }
}

/// Locks, also after somebody's panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
