//! A contestant's processes: started and ready before the clock starts. A process that dies ends the benchmark.

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;

use super::arena::{Arena, Trial};
use super::contestant::Contestant;
use super::meter;
use super::peer::{Peer, tail};
use crate::postgres::{Bouncer, PoolMode};
use crate::stage::Router;

/// Sessions of the server behind the proxy for each router: more than its pool has connections, so that nobody waits for one.
const SESSIONS: u32 = 20;

/// Metric of what a router has routed.
const ROUTED: &str = "maple_router_submissions_total{outcome=\"routed\"}";

/// A contestant's processes.
pub(super) enum Running {
    /// Routers that share the work, and the proxy that they go through, if any.
    Routers {
        routers: Vec<Router>,
        _proxy: Option<Box<Bouncer>>,
    },
    Peer(Box<Peer>),
}

impl Running {
    /// Starts it, and waits until all of it is ready.
    pub(super) async fn start(arena: &Arena<'_>, trial: &Trial, contestant: Contestant) -> Result<Self> {
        if !contestant.is_router() {
            return Ok(Self::Peer(Box::new(Peer::start(arena.options, trial, contestant).await?)));
        }
        let daemons = arena.options.daemons;
        let mut settings = trial.settings(&arena.options.router_settings);
        let mut proxy = None;
        if contestant == Contestant::RouterPooled {
            let bouncer =
                Bouncer::start(&trial.stage.database, PoolMode::Transaction, SESSIONS * daemons).await?;
            settings
                .push_str(&format!("\n[database]\nurl = \"{}\"\npooling = \"transaction\"\n", bouncer.url()));
            proxy = Some(Box::new(bouncer));
        }
        let mut routers = Vec::new();
        for number in 1..=daemons {
            let name = format!("router-{number}");
            routers.push(trial.stage.router(&arena.options.binary, &name, &settings).await?);
        }
        try_join_all(routers.iter_mut().map(Router::ready)).await?;
        Ok(Self::Routers { routers, _proxy: proxy })
    }

    pub(super) fn pids(&self) -> Result<Vec<u32>> {
        let pids = match self {
            Self::Routers { routers, .. } => routers.iter().map(Router::pid).collect::<Option<_>>(),
            Self::Peer(peer) => peer.pid().map(|pid| vec![pid]),
        };
        pids.context("it has ended")
    }

    /// Processor seconds so far of all its processes.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.pids()?.into_iter().map(meter::cpu_seconds).sum()
    }

    /// Most memory at once, in MiB; of several daemons that of the largest.
    pub(super) fn peak_mib(&self) -> Result<f64> {
        self.pids()?.into_iter().try_fold(0.0, |most: f64, pid| Ok(most.max(meter::peak_mib(pid)?)))
    }

    /// Submissions that each daemon says it routed; nothing of a peer, which is always one.
    pub(super) async fn shares(&self) -> Result<Vec<u64>> {
        let Self::Routers { routers, .. } = self else { return Ok(Vec::new()) };
        let routed = try_join_all(routers.iter().map(|router| router.metric(ROUTED))).await?;
        routed
            .into_iter()
            .map(|count| Ok(count.context("a router does not say how many it routed")? as u64))
            .collect()
    }

    pub(super) fn still_runs(&mut self) -> Result<()> {
        match self {
            Self::Routers { routers, .. } => {
                routers.iter_mut().try_for_each(|router| match router.end()? {
                    Some(status) => bail!("it ended with {status}:\n{}", tail(&router.log())),
                    None => Ok(()),
                })
            }
            Self::Peer(peer) => peer.still_runs(),
        }
    }

    pub(super) async fn stop(self) -> Result<()> {
        match self {
            Self::Routers { mut routers, .. } => {
                try_join_all(routers.iter_mut().map(Router::stop)).await.map(drop)
            }
            Self::Peer(peer) => peer.stop().await,
        }
    }
}
