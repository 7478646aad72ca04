//! `grade`: the grader, until a signal stops it. A process of its own, under a user and a role that sees neither submissions nor people.
//!
//! SIGTERM gives back what is being worked on. Where the database is away it waits; settings of a judge or a transcriber that are wrong end the
//! start (78). If we die, leases run out, and calls that were paid for are not made again.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::gc::stopped;
use super::{CliError, Context, Exit, role, setup};
use crate::config::{Config, Database};
use crate::grading::card::GRADER;
use crate::grading::job::store::JobStore;
use crate::grading::queue::{Queue, QueueName};
use crate::grading::worker::{self, CHANNEL, GraderTools};
use crate::kernel::jobs::listener::Listener;
use crate::ops::clock::SystemClock;
use crate::ops::http::{self, Readiness};
use crate::ops::rng::Rng;
use crate::ops::{metrics, systemd, telemetry};
use crate::parts;
use crate::ports::Clock as _;
use crate::scrub::scrub;

/// Connections to the database.
const CONNECTIONS: usize = 8;
/// Interval of looks whether the schemas are there.
const LOOK: std::time::Duration = std::time::Duration::from_secs(10);

/// Arguments of `grade`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Connection string of the grader's role [default: grading.grader_url]
    #[arg(long, value_name = "URL", env = "MAPLE_ROUTER_GRADER_URL", hide_env_values = true)]
    grader_url: Option<String>,
}

/// Runs the grader.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let config = ctx.config()?.config;
    let _telemetry = telemetry::init(&config.log, ctx.env.get("RUST_LOG").map(String::as_str), None)?;
    let url = args.grader_url.as_deref().filter(|url| !url.trim().is_empty());
    let Some(url) = url.or(config.grading.grader_url.as_deref()) else {
        let nobody = anyhow::anyhow!("no connection string of the grader's role is named");
        return Err(CliError::new(Exit::BadConfig, nobody).remedy(
            "set grading.grader_url, or MAPLE_ROUTER_GRADER_URL: the daemon's own role may not see what the grader does",
        ));
    };
    let clock = Arc::new(SystemClock);
    let grading = parts::graders(&config, clock.clone()).map_err(setup::part)?;
    let database = Database { max_connections: CONNECTIONS, ..config.database.clone() };
    let pool = role::pool(ctx, &config, database.clone(), Some(url), "maple-router grade")?;
    let rng = Arc::new(Rng::from_system());
    let link =
        parts::grading_link(&config, pool.clone(), QueueName::Callback, (clock.clone(), Arc::clone(&rng)))
            .map_err(setup::part)?;
    let tools = GraderTools {
        store: JobStore::new(pool.clone(), &format!("maple-router-grader@{}", parts::worker_name(&config))),
        requests: Queue::new(pool, QueueName::Request).linked(link.is_some()),
        grading: Arc::new(grading),
        keep: config.grading.keep,
        clock,
        rng,
    };
    let listening = Database { url: url.to_owned(), pooling: None, listen_url: None, ..database };
    let stop = stopped()?;
    let readiness = served(&config, &stop).await?;
    systemd::ready();
    await_schema(&tools, &stop).await;
    if !stop.is_cancelled() {
        readiness.clear("starting");
        tracing::info!("grading: jobs are worked on");
        let listener = |channel: &'static str| {
            let mut options = crate::db::PoolOptions::new(Arc::new(SystemClock));
            "maple-router grade".clone_into(&mut options.application_name);
            options.password = ctx.env.get("PGPASSWORD").cloned();
            Listener::start(channel, listening.clone(), options)
        };
        let requests = listener(QueueName::Request.channel());
        let link = link.map(|link| (link, listener(QueueName::Callback.channel())));
        if !worker::run(tools, || listener(CHANNEL), requests, link, stop).await {
            let lost =
                anyhow::anyhow!("a worker has ended by itself: the service manager starts the grader anew");
            return Err(CliError::new(Exit::Unavailable, lost)
                .remedy("look at the lines before this one, and at line grading of `maple-router check`"));
        }
    }
    systemd::stopping("the grader leaves");
    Ok(Exit::Done)
}

/// Serves the grader's metrics until `stop`, where an address is configured. Work goes on where the endpoint dies.
async fn served(config: &Config, stop: &CancellationToken) -> Result<Arc<Readiness>, CliError> {
    let readiness = Arc::new(Readiness::new());
    if let Some(listen) = &config.grading.metrics_listen {
        let listener = http::bind(listen, "grading.metrics_listen").await.map_err(anyhow::Error::new);
        let listener = listener.map_err(|error| CliError::new(Exit::BadConfig, error))?;
        let handle = metrics::install(&[&GRADER]).map_err(anyhow::Error::new)?;
        let serving = http::serve(listener, handle, Arc::clone(&readiness), stop.clone());
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!("the grader's metrics are not served any more: {error}");
            }
        });
    }
    Ok(readiness)
}

/// Waits for the schemas: a database that is away is no reason to end.
async fn await_schema(tools: &GraderTools, stop: &CancellationToken) {
    let mut said = false;
    while !stop.is_cancelled() {
        let why = match tools.store.is_there().await {
            Ok(true) => return,
            Ok(false) => "schemas grading and mq have nothing that this role may use: as the owner, maple-router migrate --grading, or --grader in a database of its own; \
                          and is the url that of role maple_grader?"
                .to_owned(),
            Err(error) => scrub(&error.to_string()),
        };
        if !std::mem::replace(&mut said, true) {
            tracing::error!("grading waits: {why}");
        }
        stop.run_until_cancelled(SystemClock.sleep(LOOK)).await;
    }
}
