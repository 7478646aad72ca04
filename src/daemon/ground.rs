//! The ground: connections, the endpoint, the gate and what keeps it, the status line, the watchdog. It stands before anything is
//! routed, and still stands when nothing is any more.
//!
//! Nobody is waited for here: a dependency that is away is met by its breaker. If we die, nothing is owed.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::alerting::Alerting;
use super::outages;
use super::parts::{self, Parts};
use super::source::Source;
use super::status::{StatusLine, Told};
use super::watchdog::Watchdog;
use super::{DaemonError, LAST_WORDS, ROOMS};
use crate::config::Config;
use crate::db::pool::Pool;
use crate::gateway::heartbeat::Heartbeat;
use crate::gateway::pubsub::facts::SubscriptionFacts;
use crate::gateway::smtp::{Lanes, SmtpSettings};
use crate::journal;
use crate::kernel::tasks::Tasks;
use crate::ops::alerting::Desk;
use crate::ops::chance::Chance;
use crate::ops::clock::{SystemClock, since_epoch};
use crate::ops::gate::Gate;
use crate::ops::incident::{Incidents, Open};
use crate::ops::set_aside::SetAside;
use crate::ops::telemetry::EventName;
use crate::ops::{http, metrics};
use crate::ports::Clock;
use crate::routing::delivery::book::Book;
use crate::routing::delivery::sender::TRIAL;
use crate::routing::late_infection::LateInfections;
use crate::routing::outages::Outages;
use crate::routing::pauses::PauseBoard;
use crate::routing::prepare::Preparer;
use crate::routing::store::Store;

/// See the module's header.
pub(super) struct Ground {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) chance: Arc<Chance>,
    pub(super) incidents: Incidents,
    pub(super) pool: Pool,
    pub(super) smtp: SmtpSettings,
    pub(super) lanes: Lanes,
    pub(super) readiness: Arc<http::Readiness>,
    pub(super) gate: Gate,
    pub(super) outages: Outages,
    /// End with the ground, wherever they stand.
    pub(super) kept: Tasks,
    endpoint: JoinHandle<Result<(), std::io::Error>>,
    serving: CancellationToken,
}

/// The parts that the routing is made of.
pub(super) struct Makings {
    pub(super) board: PauseBoard,
    pub(super) store: Store,
    pub(super) preparer: Preparer,
    pub(super) source: Source,
    pub(super) book: Book,
    pub(super) late: Arc<LateInfections>,
    pub(super) heartbeat: Option<Heartbeat>,
    pub(super) status: StatusLine,
    pub(super) watchdog: Watchdog,
    /// Cancelled with the stop: claims are given up.
    pub(super) given_up: CancellationToken,
}

impl Makings {
    /// The same, going by the subscription as it was read.
    pub(super) fn with_found(self, found: Option<&SubscriptionFacts>) -> Self {
        Self { source: self.source.with_found(found), ..self }
    }
}

/// The people who are to be told.
pub(super) struct People {
    desk: Option<Desk>,
    incidents: watch::Receiver<Open>,
}

impl People {
    /// From now on people are told.
    pub(super) fn start(self, config: &Config, ground: &Ground) -> Alerting {
        let pace = crate::parts::alert_pace(config);
        Alerting::start(self.desk, pace, self.incidents, &ground.clock, &ground.chance)
    }
}

/// Lays it. Touches files and local ports only.
pub(super) async fn lay(
    config: &Config,
    stop: &CancellationToken,
) -> Result<(Ground, Makings, People), DaemonError> {
    let (clock, chance) = (Arc::new(SystemClock) as Arc<dyn Clock>, Arc::new(Chance::from_system()));
    let (incidents, seen) = Incidents::new();
    let set_aside = SetAside::new(Arc::clone(&clock), Some(incidents.clone()));
    let Parts { pool, board, store, preparer, source, desk, book, late, heartbeat } =
        Parts::make(config, &clock, &chance, &set_aside).await?;
    let store = store.with_audit_key(parts::audit_key(config, &chance)?);
    let smtp = SmtpSettings::from(&config.smtp);
    let lanes = Lanes::new(smtp.clone(), Arc::clone(&clock));

    let listener = http::bind(&config.http.listen).await?;
    let handle = metrics::install(ROOMS)?;
    metrics::started(since_epoch());
    metrics::canary_interval(config.canary.interval);
    let readiness = Arc::new(http::Readiness::new());
    let serving = CancellationToken::new();
    let endpoint = tokio::spawn(http::serve(listener, handle, Arc::clone(&readiness), serving.clone()));
    journal!(info, EventName::Started, version = metrics::VERSION, "maple-router starts");

    let gate = Gate::new();
    let (outages, probers) = Outages::new(gate.clone(), &incidents, Arc::clone(&clock), &chance);
    let outages = outages.setting_aside(set_aside);
    let dependencies = outages::Dependencies {
        pool: pool.clone(),
        smtp: smtp.clone(),
        sender: preparer.rules.sender(TRIAL),
        signer: Arc::clone(&preparer.signer),
        contract: crate::parts::contract_options(config),
        clock: Arc::clone(&clock),
        chance: Arc::clone(&chance),
    };
    let kept = outages::keep(probers, dependencies, &outages, &readiness);
    let status = StatusLine::start(Told {
        readiness: Arc::clone(&readiness),
        gate: gate.clone(),
        board: board.clone(),
        clock: Arc::clone(&clock),
    });
    let watchdog = Watchdog::start(pool.clone(), outages.clone(), Arc::clone(&clock), stop)
        .map_err(DaemonError::Watchdog)?;
    let given_up = stop.child_token();
    let makings =
        Makings { board, store, preparer, source, book, late, heartbeat, status, watchdog, given_up };
    let people = People { desk, incidents: seen };
    let ground = Ground {
        clock,
        chance,
        incidents,
        pool,
        smtp,
        lanes,
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
    /// Closes what is open, the endpoint last.
    pub(super) async fn leave(self) {
        let Self { kept, lanes, pool, serving, mut endpoint, .. } = self;
        drop(kept);
        lanes.close().await;
        pool.close();
        serving.cancel();
        // A scraper that keeps its connection open must not keep us.
        if tokio::time::timeout(LAST_WORDS, &mut endpoint).await.is_err() {
            endpoint.abort();
        }
        journal!(info, EventName::Stopped, "maple-router has stopped");
    }
}
