//! A contestant's process: started and ready before the clock starts. A process that dies ends the benchmark.

use anyhow::{Context, Result, bail};

use super::arena::{Arena, Trial};
use super::contestant::Contestant;
use super::peer::{Peer, tail};
use crate::postgres::{Bouncer, PoolMode};
use crate::stage::Router;

/// Sessions of the server behind the proxy: more than the router's pool has connections, so that nobody waits for one.
const SESSIONS: u32 = 20;

/// A contestant's process.
pub(super) enum Running {
    /// The router, with the proxy that it goes through, if any.
    Router(Box<(Router, Option<Bouncer>)>),
    Peer(Box<Peer>),
}

impl Running {
    /// Starts it, and waits until it is ready.
    pub(super) async fn start(arena: &Arena<'_>, trial: &Trial, contestant: Contestant) -> Result<Self> {
        if !contestant.is_router() {
            return Ok(Self::Peer(Box::new(Peer::start(arena.options, trial, contestant).await?)));
        }
        let mut settings = trial.settings(&arena.options.router_settings);
        let mut bouncer = None;
        if contestant == Contestant::RouterPooled {
            let proxy = Bouncer::start(&trial.stage.database, PoolMode::Transaction, SESSIONS).await?;
            settings
                .push_str(&format!("\n[database]\nurl = \"{}\"\npooling = \"transaction\"\n", proxy.url()));
            bouncer = Some(proxy);
        }
        let mut router = trial.stage.router(&arena.options.binary, "router", &settings).await?;
        router.ready().await?;
        Ok(Self::Router(Box::new((router, bouncer))))
    }

    pub(super) fn pid(&self) -> Result<u32> {
        let pid = match self {
            Self::Router(router) => router.0.pid(),
            Self::Peer(peer) => peer.pid(),
        };
        pid.context("it has ended")
    }

    pub(super) fn still_runs(&mut self) -> Result<()> {
        match self {
            Self::Router(router) => match router.0.end()? {
                Some(status) => bail!("it ended with {status}:\n{}", tail(&router.0.log())),
                None => Ok(()),
            },
            Self::Peer(peer) => peer.still_runs(),
        }
    }

    pub(super) async fn stop(self) -> Result<()> {
        match self {
            Self::Router(mut router) => router.0.stop().await.map(drop),
            Self::Peer(peer) => peer.stop().await,
        }
    }
}
