//! The ground: connections, the endpoint, the gate and its keepers, the status line, the watchdog. All of it stands
//! before the routing starts, and after it has ended.
//!
//! Nothing is waited for here: a dependency that is away is met by its breaker. If we die, nothing is owed.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::alerting::{Alerting, Senders};
use super::parts::{self, DaemonParts};
use super::status::{StatusLine, Watched};
use super::watchdog::Watchdog;
use super::{DaemonError, LAST_WORDS, ROOMS};
use super::{card, outages};
use crate::config::Config;
use crate::db::pool::Pool;
use crate::gateway::smtp::{Connections, SmtpSettings};
use crate::journal;
use crate::kernel::tasks::Tasks;
use crate::ops::clock::{SystemClock, since_epoch};
use crate::ops::gate::Gate;
use crate::ops::incident::{Incidents, Open};
use crate::ops::rng::Rng;
use crate::ops::set_aside::SetAside;
use crate::ops::telemetry::EventName;
use crate::ops::{http, metrics};
use crate::ports::Clock;
use crate::routing::delivery::sender::TRIAL;
use crate::routing::outages::Outages;

/// Everything that outlives the routing (module header).
pub(super) struct Ground {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) rng: Arc<Rng>,
    pub(super) incidents: Incidents,
    pub(super) pool: Pool,
    pub(super) smtp: SmtpSettings,
    pub(super) connections: Connections,
    pub(super) readiness: Arc<http::Readiness>,
    pub(super) gate: Gate,
    pub(super) outages: Outages,
    /// Tasks that end with the ground.
    pub(super) kept: Tasks,
    endpoint: JoinHandle<Result<(), std::io::Error>>,
    serving: CancellationToken,
}

/// The makings of the routing.
pub(super) struct Makings {
    pub(super) parts: DaemonParts,
    pub(super) status: StatusLine,
    pub(super) watchdog: Watchdog,
    /// Cancelled with the stop: claims are given up.
    pub(super) given_up: CancellationToken,
}

/// The alerting of people, not yet started.
pub(super) struct People {
    senders: Senders,
    incidents: watch::Receiver<Open>,
}

impl People {
    /// Starts the alerting.
    pub(super) fn start(self, config: &Config, ground: &Ground) -> Alerting {
        let rest = crate::parts::alert_intervals(config);
        Alerting::start(self.senders, rest, self.incidents, &ground.clock, &ground.rng)
    }
}

/// Lays the ground. Touches files and local ports only.
pub(super) async fn lay(
    config: &Config,
    stop: &CancellationToken,
) -> Result<(Ground, Makings, People), DaemonError> {
    let (clock, rng) = (Arc::new(SystemClock) as Arc<dyn Clock>, Arc::new(Rng::from_system()));
    let (incidents, seen) = Incidents::new();
    let set_aside = SetAside::new(Arc::clone(&clock), Some(incidents.clone()));
    let mut parts = DaemonParts::make(config, &clock, &rng, &set_aside).await?;
    parts.store = parts.store.with_audit_key(parts::audit_key(config, &rng)?);
    let pool = parts.pool.clone();
    let smtp = SmtpSettings::from(&config.smtp);
    let connections = Connections::new(smtp.clone(), Arc::clone(&clock));

    let listener = http::bind(&config.http.listen, "http.listen").await?;
    let handle = metrics::install(ROOMS)?;
    metrics::STARTED.set((), since_epoch());
    card::CANARY_INTERVAL.set((), config.canary.interval.unwrap_or_default());
    let readiness = Arc::new(http::Readiness::new());
    let serving = CancellationToken::new();
    let endpoint = tokio::spawn(http::serve(listener, handle, Arc::clone(&readiness), serving.clone()));
    journal!(info, EventName::Started, version = metrics::VERSION, "maple-router starts");

    let gate = Gate::new();
    let (outages, probers) = Outages::new(gate.clone(), &incidents, Arc::clone(&clock), &rng);
    let outages = outages.setting_aside(set_aside);
    let dependencies = outages::Dependencies {
        pool: pool.clone(),
        smtp: smtp.clone(),
        sender: parts.preparer.rules.sender(TRIAL),
        signer: Arc::clone(&parts.preparer.signer),
        help_desk: parts.help_desk.clone(),
        contract: crate::parts::contract_options(config, super::checks()),
        clock: Arc::clone(&clock),
        rng: Arc::clone(&rng),
    };
    let kept = outages::keep(probers, dependencies, &outages, &readiness);
    let status = StatusLine::start(Watched {
        readiness: Arc::clone(&readiness),
        gate: gate.clone(),
        board: parts.board.clone(),
        clock: Arc::clone(&clock),
    });
    let watchdog = Watchdog::start(pool.clone(), outages.clone(), Arc::clone(&clock), stop)
        .map_err(DaemonError::Watchdog)?;
    let senders = Senders { all: parts.alert_sender.take(), security: parts.security_sender.take() };
    let people = People { senders, incidents: seen };
    let makings = Makings { parts, status, watchdog, given_up: stop.child_token() };
    let ground = Ground {
        clock,
        rng,
        incidents,
        pool,
        smtp,
        connections,
        readiness,
        gate,
        outages,
        kept,
        endpoint,
        serving,
    };
    Ok((ground, makings, people))
}

impl Ground {
    /// Closes all connections, the endpoint last.
    pub(super) async fn leave(self) {
        let Self { kept, connections, pool, serving, mut endpoint, .. } = self;
        drop(kept);
        connections.close().await;
        pool.close();
        serving.cancel();
        // A scraper that keeps its connection open must not delay the stop.
        if tokio::time::timeout(LAST_WORDS, &mut endpoint).await.is_err() {
            endpoint.abort();
        }
        journal!(info, EventName::Stopped, "maple-router has stopped");
    }
}
