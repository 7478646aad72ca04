//! The demo's stage: a database server of its own, every part on loopback, and the real router on a real
//! configuration file. Files stay in one directory afterwards; everything else goes with the value.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Options;
use super::evidence::WITNESS;
use super::scenarios::{FEEDBACK, SCENARIOS};
use crate::broker::SubscriptionSpec;
use crate::forms::{self, Form};
use crate::postgres::{Cluster, ClusterOptions};
use crate::smtp::{Rule, SmtpOptions, Stage as SmtpStage};
use crate::stage::{Answer, DEAD_TOPIC, Router, Source, Stage, StageOptions};

/// Redelivery back-off of the demo's subscription: five attempts are over within some seconds.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Laid over the stage's configuration: the whole story in the log, and alerts while somebody is still watching.
const SETTINGS: &str = "[log]\nlevel = \"debug\"\n[slack]\ngroup_wait = \"2s\"\n";
/// How long the router is given to end by itself when a terminal's Ctrl-C has reached it as well.
const OWN_END: Duration = Duration::from_secs(1);

/// How long an idle router may take to stop.
const PATIENCE: Duration = Duration::from_secs(8);

/// Everything that runs; dropped in this order.
pub(super) struct Theatre {
    pub(super) router: Router,
    pub(super) stage: Stage,
    _cluster: Cluster,
    binary: PathBuf,
    /// Holds the directory's lock.
    _lock: File,
}

impl Theatre {
    /// Starts everything, the router last, and waits until that is ready.
    ///
    /// # Errors
    /// A part that cannot start, named; a router that does not get ready, with its log.
    pub(super) async fn open(options: &Options) -> Result<Self> {
        if !options.binary.exists() {
            bail!("{} is missing: `make demo` builds it", options.binary.display());
        }
        let lock = fresh_directory(&options.dir)?;
        let cluster = Cluster::start(ClusterOptions::default()).await?;
        let of_source = StageOptions::of(options.source);
        let database = cluster.database(of_source.variant).await?;
        let settings = StageOptions {
            retry: RETRY,
            smtp: SmtpOptions { dir: Some(mail_dir(&options.dir)), ..SmtpOptions::default() },
            dir: Some(options.dir.clone()),
            ..of_source
        };
        let stage = Stage::on(database, settings).await?;
        let feedback = Form { name: "Feedback".to_owned(), ..Form::new(FEEDBACK.0).mail_to(FEEDBACK.1) };
        forms::load(&mut stage.database.client_as("forms_loader").await?, &[feedback]).await?;
        stage.broker.create_subscription(SubscriptionSpec::new(WITNESS, DEAD_TOPIC))?;
        if options.source == Source::Postgres {
            // Nobody speaks to it; and nobody could.
            stage.broker.down().await;
        }
        for reply in SCENARIOS.iter().filter_map(|scenario| scenario.relay) {
            let rule = Rule::at(SmtpStage::Rcpt).to(reply.recipient).reply(reply.line);
            stage.relay.rule(match reply.times {
                Some(times) => rule.times(times),
                None => rule,
            });
        }
        let mut router = stage.router(&options.binary, "router", SETTINGS).await?;
        router.ready().await?;
        let binary = options.binary.clone();
        Ok(Self { router, stage, _cluster: cluster, binary, _lock: lock })
    }

    /// Runs another verb beside the router, with the router's own configuration.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) async fn verb(&self, arguments: &[&str]) -> Result<Answer> {
        self.stage.ask(&self.binary, self.router.config(), arguments).await
    }

    /// Stops the router and says what is wrong with how it ended, if anything is; then the rest.
    pub(super) async fn close(mut self, interrupted: bool) -> Option<String> {
        if interrupted && let Ok(Ok(status)) = tokio::time::timeout(OWN_END, self.router.ended()).await {
            return (!status.success()).then(|| format!("the router ended with {status}"));
        }
        match tokio::time::timeout(PATIENCE, self.router.stop()).await {
            Ok(Ok(status)) if status.success() => None,
            Ok(Ok(status)) => Some(format!("the router ended with {status}")),
            Ok(Err(error)) => Some(format!("the router did not stop: {error:#}")),
            Err(_) => Some(format!("the router did not stop within {} s and is killed", PATIENCE.as_secs())),
        }
    }
}

/// Where the relay keeps what it was sent.
pub(super) fn mail_dir(dir: &Path) -> PathBuf {
    dir.join("mail")
}

/// Empties the directory, and keeps a second demo out of it.
fn fresh_directory(dir: &Path) -> Result<File> {
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    let lock = File::open(dir)?;
    if lock.try_lock().is_err() {
        bail!("another demo runs in {}: end it first (Ctrl-C where it was started)", dir.display());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .with_context(|| format!("removing {} of an earlier demo", path.display()))?;
    }
    Ok(lock)
}
