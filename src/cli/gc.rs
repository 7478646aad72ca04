//! `gc`: the collector. It runs as a role and an account of its own, which the daemon has not: `--collector-url`,
//! `MAPLE_ROUTER_COLLECTOR_URL` or `retention.collector_url`, and `retention.key_file`.

mod reconcile;
mod run;
mod status;
mod undelete;

use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;

pub(super) use self::run::stopped;
use super::{CliError, Context, Exit, operator, role, setup};
use crate::config::{Config, Database};
use crate::gateway::objects::store::ObjectStore;
use crate::parts;
use crate::retention::store::RetentionStore;

/// Longest statement.
const PATIENCE: Duration = Duration::from_secs(600);

/// Arguments of `gc`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    collector: CollectorUrl,
    #[command(subcommand)]
    verb: Verb,
}

/// The option of every verb that acts as the collector.
#[derive(Debug, clap::Args)]
pub(super) struct CollectorUrl {
    /// Connection string of the collector's role [default: retention.collector_url]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "MAPLE_ROUTER_COLLECTOR_URL",
        hide_env_values = true
    )]
    collector_url: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Empty what has ended, and delete what nothing refers to
    Run(run::Args),
    /// Show what waits to be collected, and the latest runs
    Status(status::Args),
    /// Take a blob back that has lost its last reference
    Undelete(undelete::Args),
    /// Compare buckets with rows, and report what differs
    Reconcile(reconcile::Args),
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match args.verb {
        Verb::Run(run) => run::run(&Office::open(ctx, &args.collector).await?, &run).await,
        Verb::Status(status) => status::run(ctx, &status).await,
        Verb::Undelete(undelete) => {
            undelete::run(&Office::open(ctx, &args.collector).await?, &undelete).await
        }
        Verb::Reconcile(reconcile) => {
            reconcile::run(&Office::open(ctx, &args.collector).await?, &reconcile).await
        }
    }
}

/// What acts as the collector.
pub(super) struct Office {
    pub(super) config: Config,
    pub(super) store: RetentionStore,
    pub(super) actor: String,
}

impl Office {
    pub(super) async fn open(ctx: &Context, url: &CollectorUrl) -> Result<Self, CliError> {
        let config = ctx.config()?.config;
        let url = url.collector_url.as_deref().filter(|url| !url.trim().is_empty());
        let Some(url) = url.or(config.retention.collector_url.as_deref()) else {
            let nobody = anyhow::anyhow!("no connection string of the collector's role is named");
            return Err(CliError::new(Exit::BadConfig, nobody).remedy(
                "set retention.collector_url, or MAPLE_ROUTER_COLLECTOR_URL: the daemon's own role may remove nothing",
            ));
        };
        // Nobody waits for it: a search through all fields takes as long as it takes.
        let database =
            Database { max_connections: 3, statement_timeout: PATIENCE, ..config.database.clone() };
        let pool = role::pool(ctx, &config, database, Some(url), "maple-router gc")?;
        let actor = operator::actor(&ctx.env);
        let store = RetentionStore::new(pool, &actor);
        if !store.is_there().await.map_err(setup::database)? {
            return Err(CliError::new(
                Exit::BadConfig,
                anyhow::anyhow!("schema content has no retention that this role may use"),
            )
            .remedy("as the owner: maple-router migrate --content; and is the url that of role maple_gc?"));
        }
        Ok(Self { config, store, actor })
    }

    /// The store, as the collector's account.
    pub(super) fn objects(&self) -> Result<Arc<ObjectStore>, CliError> {
        Ok(Arc::new(parts::collector_objects(&self.config).map_err(setup::part)?))
    }
}
