//! A scripted SMTP server: a good relay by default, as bad as a test asks for by rule.
//!
//! The server speaks the dialogue as Postfix does, stores what it takes responsibility for (before it says so), and
//! counts. When it is stopped every connection breaks where it stands; stored mails stay, and `restart` listens on
//! the same port again. No mail is ever forwarded.

mod client;
mod lines;
mod rules;
mod session;
mod store;
mod wire;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

pub use client::{Client, submit};
pub use rules::{Act, Rule, Stage};
pub use store::{Counters, Digest, Keep, Mail};
pub use wire::{RelayWire, WireTrap};

use rules::Script;
use store::Store;

use crate::trap::Trapped;

/// Settings of the server; `Default` is a Postfix-like relay on a free port of 127.0.0.1.
#[derive(Debug, Clone)]
pub struct SmtpOptions {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port; 0 takes a free one, which `restart` keeps.
    pub port: u16,
    /// Name in the banner and the EHLO reply.
    pub name: String,
    /// EHLO lines. `SIZE n` is enforced, `SMTPUTF8` is demanded of non-ASCII addresses.
    pub extensions: Vec<String>,
    /// Directory for `QUEUEID.eml` (the raw bytes) and `QUEUEID.json` (the envelope).
    pub dir: Option<PathBuf>,
    /// Extent of [`Keep`].
    pub keep: Keep,
}

impl Default for SmtpOptions {
    fn default() -> Self {
        let extensions = ["PIPELINING", "SIZE 10240000", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES"];
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            name: "relay.test".to_owned(),
            extensions: extensions.map(str::to_owned).to_vec(),
            dir: None,
            keep: Keep::Mails,
        }
    }
}

/// State shared by the sessions of one server.
#[derive(Debug)]
struct Shared {
    name: String,
    extensions: Vec<String>,
    script: Mutex<Script>,
    store: Store,
}

/// A running (or stopped) server; dropping it stops it.
#[derive(Debug)]
pub struct SmtpServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    running: Mutex<Option<Running>>,
}

/// The accepting task and the way to end it.
#[derive(Debug)]
struct Running {
    task: JoinHandle<()>,
    down: CancellationToken,
}

impl Running {
    fn start(listener: TcpListener, shared: &Arc<Shared>) -> Self {
        let down = CancellationToken::new();
        let task = tokio::spawn(accept(listener, Arc::clone(shared), down.clone()));
        Self { task, down }
    }
}

impl SmtpServer {
    /// Listens and serves. Fails when the port is taken or the directory cannot be made.
    pub async fn start(options: SmtpOptions) -> anyhow::Result<Self> {
        if let Some(dir) = &options.dir {
            std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        }
        let wanted = SocketAddr::new(options.address, options.port);
        let listener = TcpListener::bind(wanted).await.with_context(|| format!("listening on {wanted}"))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            name: options.name,
            extensions: options.extensions,
            script: Mutex::default(),
            store: Store::new(options.keep, options.dir),
        });
        let running = Mutex::new(Some(Running::start(listener, &shared)));
        Ok(Self { shared, address, running })
    }

    /// Address of the listener, also while stopped.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of [`Self::address`].
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Adds a rule behind those there are.
    pub fn rule(&self, rule: Rule) {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner).add(rule);
    }

    /// Stops the first dialogue that this rule matches before the rule acts, until it is released; cut, its
    /// connection ends there. Everything before the rule's stage has happened, so at [`Stage::AfterDot`] the mail
    /// is stored and at [`Stage::Replied`] its 250 is written. Once, as every [`Trapped`]; `skip` chooses which.
    pub fn trap(&self, rule: Rule) -> Trapped {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner).trap(rule)
    }

    /// Makes the relay a good one again; a dialogue caught in a trap stays there.
    pub fn clear_rules(&self) {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The mails stored so far, oldest first (none with [`Keep::Digests`]).
    #[must_use]
    pub fn mails(&self) -> Vec<Arc<Mail>> {
        self.shared.store.mails()
    }

    /// Counts of stored mails by (submission, recipient, Message-ID).
    #[must_use]
    pub fn digests(&self) -> HashMap<Digest, u64> {
        self.shared.store.digests()
    }

    /// Forgets mails and digests; the other counters go on, files stay.
    pub fn forget(&self) {
        self.shared.store.forget();
    }

    /// The server's [`Counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.store.counters()
    }

    /// Waits until `n` mails are stored and returns them; says how many there were when time ran out.
    pub async fn await_mails(&self, n: u64, patience: Duration) -> anyhow::Result<Vec<Arc<Mail>>> {
        let mut stored = self.shared.store.watch();
        let enough = tokio::time::timeout(patience, stored.wait_for(|have| *have >= n)).await;
        if !matches!(enough, Ok(Ok(_))) {
            bail!("{} of {n} mails at the relay after {patience:?}", self.counters().mails);
        }
        Ok(self.mails())
    }

    /// Relay down: stops listening and breaks every connection where it stands. Nothing is stored once it returns.
    pub async fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { task, down }) = running {
            down.cancel();
            if let Err(ended) = task.await
                && ended.is_panic()
            {
                std::panic::resume_unwind(ended.into_panic());
            }
        }
    }

    /// Relay up again on the same port; rules, mails and counters are kept.
    pub async fn restart(&self) -> anyhow::Result<()> {
        self.stop().await;
        let listener = TcpListener::bind(self.address)
            .await
            .with_context(|| format!("listening on {}", self.address))?;
        let running = Running::start(listener, &self.shared);
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        Ok(())
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() {
            running.down.cancel();
        }
    }
}

/// Serves until `down` is cancelled; its sessions end first, so that no port is free while one still lives.
async fn accept(listener: TcpListener, shared: Arc<Shared>, down: CancellationToken) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            () = down.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let number = shared.store.tally.connections.fetch_add(1, Ordering::SeqCst) + 1;
                    sessions.spawn(session::serve(stream, Arc::clone(&shared), number));
                }
                // Out of descriptors, or the peer was gone already: the next one may do.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = sessions.join_next() => {}
        }
    }
    sessions.shutdown().await;
}
