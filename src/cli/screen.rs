//! `screen`: the screener, until a signal stops it. A process of its own, under a user and a role that can neither route, mail nor decide
//! as a person.
//!
//! SIGTERM gives back what is being looked at. Where the database is away it waits; rules that do not compile, or a judge whose settings
//! are wrong, end the start (78). If we die, leases run out.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::gc::stopped;
use super::{CliError, Context, Exit, role, setup};
use crate::config::{Config, Database};
use crate::gateway::git::{Git, GitSettings, Limits, Trust};
use crate::kernel::jobs::listener::Listener;
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::ops::{systemd, telemetry};
use crate::parts;
use crate::ports::Clock as _;
use crate::screening::store::ScreeningStore;
use crate::screening::worker::{self, CHANNEL, Tools, Trees};
use crate::scrub::scrub;

/// Connections to the database.
const CONNECTIONS: usize = 8;
/// The host of trusted owners that are named without one.
const GITHUB: &str = "github.com";
/// Interval of looks whether schema screening is there.
const LOOK: std::time::Duration = std::time::Duration::from_secs(10);

/// Arguments of `screen`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Connection string of the screener's role [default: screening.screener_url]
    #[arg(long, value_name = "URL", env = "MAPLE_ROUTER_SCREENER_URL", hide_env_values = true)]
    screener_url: Option<String>,
}

/// Runs the screener.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let config = ctx.config()?.config;
    let _telemetry = telemetry::init(&config.log, ctx.env.get("RUST_LOG").map(String::as_str), None)?;
    let url = args.screener_url.as_deref().filter(|url| !url.trim().is_empty());
    let Some(url) = url.or(config.screening.screener_url.as_deref()) else {
        let nobody = anyhow::anyhow!("no connection string of the screener's role is named");
        return Err(CliError::new(Exit::BadConfig, nobody).remedy(
            "set screening.screener_url, or MAPLE_ROUTER_SCREENER_URL: the daemon's own role may not work on runs",
        ));
    };
    let database = Database { max_connections: CONNECTIONS, ..config.database.clone() };
    let pool = role::pool(ctx, &config, database.clone(), Some(url), "maple-router screen")?;
    let store = ScreeningStore::new(pool, &format!("maple-router-screener@{}", parts::worker_name(&config)));
    // What is fetched lies here for as long as it is read; it ends with us.
    let fetches = tempfile::Builder::new().prefix("maple-router-screener-").tempdir()?;
    let tools = tools(&config, store, fetches.path())?;
    let listening = Database { url: url.to_owned(), pooling: None, listen_url: None, ..database };
    let stop = stopped()?;
    systemd::ready();
    await_schema(&tools, &stop).await;
    if !stop.is_cancelled() {
        tracing::info!("screening: runs are worked on");
        let listener = || {
            let mut options = crate::db::PoolOptions::new(Arc::new(SystemClock));
            "maple-router screen".clone_into(&mut options.application_name);
            options.password = ctx.env.get("PGPASSWORD").cloned();
            Listener::start(CHANNEL, listening.clone(), options)
        };
        if !worker::run(tools, listener, stop).await {
            let lost =
                anyhow::anyhow!("a worker has ended by itself: the service manager starts the screener anew");
            return Err(CliError::new(Exit::Unavailable, lost)
                .remedy("look at the lines before this one, and at line screening of `maple-router check`"));
        }
    }
    systemd::stopping("the screener leaves");
    Ok(Exit::Done)
}

/// Waits for the schema: a database that is away is no reason to end.
async fn await_schema(tools: &Tools, stop: &tokio_util::sync::CancellationToken) {
    let mut said = false;
    while !stop.is_cancelled() {
        let why = match tools.store.is_there().await {
            Ok(true) => return,
            Ok(false) => "schema screening has nothing that this role may use: as the owner, maple-router migrate --screening; \
                          and is the url that of role maple_screener?"
                .to_owned(),
            Err(error) => scrub(&error.to_string()),
        };
        if !std::mem::replace(&mut said, true) {
            tracing::error!("screening waits: {why}");
        }
        stop.run_until_cancelled(SystemClock.sleep(LOOK)).await;
    }
}

fn tools(config: &Config, store: ScreeningStore, fetches: &Path) -> Result<Tools, CliError> {
    let clock = Arc::new(SystemClock);
    Ok(Tools {
        store,
        rulesets: Arc::new(parts::rulesets(config).map_err(setup::part)?),
        trees: Trees::own(),
        git: Some(Git::new(git_settings(config, fetches))),
        judge: parts::judging(config, clock.clone()).map_err(setup::part)?.map(Arc::new),
        patience: config.screening.patience,
        scans: Arc::new(Semaphore::new(config.screening.slots.max(1))),
        fetches: Arc::new(Semaphore::new(config.screening.slots.max(1))),
        clock,
        rng: Arc::new(Rng::from_system()),
    })
}

/// `host/owner`, or `owner` on [`GITHUB`]. A host that is asked without TLS proves nothing.
fn trust(name: &str, insecure: &[String]) -> Option<Trust> {
    let (host, owner) = name.rsplit_once('/').unwrap_or((GITHUB, name));
    let is_proven = !insecure.iter().any(|other| other.eq_ignore_ascii_case(host));
    is_proven.then(|| Trust { host: host.to_ascii_lowercase(), owners: vec![owner.to_owned()] })
}

fn git_settings(config: &Config, fetches: &Path) -> GitSettings {
    let git = &config.screening.git;
    let bytes = git.max_bytes.as_bytes();
    let limits =
        Limits { wall: git.timeout, packs: bytes, total: bytes, files: git.max_files, ..Limits::default() };
    let hosts: Vec<String> =
        git.hosts.iter().chain(&git.insecure_hosts).map(|host| host.to_ascii_lowercase()).collect();
    let trusted = git.trusted.iter().filter_map(|name| trust(name, &git.insecure_hosts)).collect();
    GitSettings {
        hosts,
        trusted,
        allow_insecure_hosts: !git.insecure_hosts.is_empty(),
        ca_file: git.ca_file.clone(),
        limits,
        ..GitSettings::new(fetches.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_trusted_on_one_host_and_never_without_tls() {
        let of = |name: &str| trust(name, &["plain.example:80".to_owned()]);
        let holds = |name: &str, host: &str| of(name).is_some_and(|trust| trust.host == host);
        assert!(holds("openai", "github.com"));
        assert!(holds("GitLab.com/openai", "gitlab.com"));
        assert!(!holds("openai", "gitlab.com"), "somebody else may have that name there");
        assert_eq!(of("gitlab.com/openai").map(|trust| trust.owners), Some(vec!["openai".to_owned()]));
        assert!(of("plain.example:80/openai").is_none(), "whoever is on the line could be it");
    }
}
