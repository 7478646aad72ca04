//! A door: one port of a help desk. Every client can have its own, with rules that hold there alone, and shut alone, before
//! one account with one shelf of tickets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;

use super::desk::Desk;
use super::lock::lock;
use super::port::Port;
use super::rules::Rule;
use super::work;
use crate::trap::Trapped;

/// One port of a help desk; dropping it shuts it.
#[derive(Debug)]
pub struct Door {
    desk: Arc<Desk>,
    number: u64,
    address: SocketAddr,
    port: Mutex<Option<Port>>,
}

impl Door {
    /// Opens one on a free port of 127.0.0.1.
    pub(super) async fn open(desk: &Arc<Desk>) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("a port for the help desk")?;
        let address = listener.local_addr()?;
        let number = desk.doors.fetch_add(1, Ordering::Relaxed);
        let port = Mutex::new(Some(Port::open(listener, desk, number)));
        Ok(Self { desk: Arc::clone(desk), number, address, port })
    }

    /// `http://127.0.0.1:PORT`
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL with the API's path and a slash at its end.
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("http://{}{}", self.address, work::BASE)
    }

    /// Adds a rule for this door behind those there are.
    pub fn rule(&self, rule: Rule) {
        lock(&self.desk.script).add(rule.behind(self.number));
    }

    /// Stops the first request at this door that the rule matches, as [`super::HelpDesk::trap`] does.
    pub fn trap(&self, rule: Rule) -> Trapped {
        lock(&self.desk.script).trap(rule.behind(self.number))
    }

    /// Forgets the rules of this door; a request caught in a trap stays there.
    pub fn clear_rules(&self) {
        lock(&self.desk.script).clear_behind(self.number);
    }

    /// Shuts it: connects are refused and every connection breaks where it stands. Nothing that came in here is done once
    /// it returns.
    pub async fn stop(&self) {
        let port = lock(&self.port).take();
        if let Some(port) = port {
            port.close().await;
        }
    }

    /// Opens it again on the same port; every connection there was is broken.
    ///
    /// # Errors
    /// When the port has been taken meanwhile.
    pub async fn restart(&self) -> Result<()> {
        self.stop().await;
        let listener = TcpListener::bind(self.address)
            .await
            .with_context(|| format!("listening on {}", self.address))?;
        *lock(&self.port) = Some(Port::open(listener, &self.desk, self.number));
        Ok(())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(port) = lock(&self.port).as_ref() {
            port.abandon();
        }
    }
}
