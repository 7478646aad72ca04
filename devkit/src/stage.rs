//! All that `maple-router run` needs, on loopback, and the router itself as a real process: for tests and the demo.
//!
//! Each [`Stage`] has a database, broker, relay, Google and Slack of its own, so that tests run side by side. If the process
//! dies, its children die with it or end by themselves; nothing outside the temporary directory is touched.

mod events;
mod overlay;
mod process;
mod shell;
mod timings;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;

pub use process::{Answer, Router};
pub use shell::environment;
pub use timings::SHORT_TIMINGS;

use crate::broker::{Broker, SubscriptionSpec};
use crate::forms;
use crate::google::GoogleFake;
use crate::port::free_port;
use crate::postgres::{Cluster, TestDatabase, Variant};
use crate::slack::SlackFake;
use crate::smtp::{SmtpOptions, SmtpServer};

/// Google Cloud project of every stage.
pub const PROJECT: &str = "demo";
/// Routing topic, full name.
pub const TOPIC: &str = "projects/demo/topics/routing";
/// Routing subscription, full name.
pub const SUBSCRIPTION: &str = "projects/demo/subscriptions/routing-worker";
/// Dead-letter topic, full name.
pub const DEAD_TOPIC: &str = "projects/demo/topics/routing-dead";
/// Dead-letter subscription, full name.
pub const DEAD_SUBSCRIPTION: &str = "projects/demo/subscriptions/routing-dead-worker";
/// Bucket of the attachments.
pub const BUCKET: &str = "maple-attachments";
/// Object that `check` fetches.
pub const PROBE: &str = "probe/hello.txt";

/// Source of events of a stage's routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// The stage's broker.
    #[default]
    Pubsub,
    /// The stage's database: their configuration has no `[pubsub]`.
    Postgres,
}

/// Settings of a stage.
#[derive(Debug, Clone)]
pub struct StageOptions {
    /// Database variant.
    pub variant: Variant,
    /// Source of events.
    pub source: Source,
    /// Redelivery back-off of the routing subscription; with [`Source::Postgres`] the router's own.
    pub retry: (Duration, Duration),
    /// Ack deadline of the routing subscription, and what a router that may read it leases its events for.
    pub ack_deadline: Duration,
    /// Behaviour of the relay and what it keeps.
    pub smtp: SmtpOptions,
    /// Directory for Slack's messages as files; none where absent.
    pub slack_dir: Option<PathBuf>,
    /// Load the sample forms.
    pub sample_forms: bool,
    /// Directory of configuration, logs and state, kept at the end; a temporary one where absent.
    pub dir: Option<PathBuf>,
}

impl StageOptions {
    /// For a test that runs with either source: PostgreSQL with schema `router`, which announces by itself.
    #[must_use]
    pub fn of(source: Source) -> Self {
        let router = source == Source::Postgres;
        let variant = Variant { audit_readable: true, router, ..Variant::default() };
        Self { variant, source, ..Self::default() }
    }
}

impl Default for StageOptions {
    fn default() -> Self {
        Self {
            variant: Variant { audit_readable: true, ..Variant::default() },
            source: Source::default(),
            retry: (Duration::from_millis(200), Duration::from_secs(2)),
            ack_deadline: Duration::from_secs(60),
            smtp: SmtpOptions::default(),
            slack_dir: None,
            sample_forms: true,
            dir: None,
        }
    }
}

/// The parts, running.
pub struct Stage {
    /// The database; connect as `forms_app`.
    pub database: TestDatabase,
    /// Pub/Sub.
    pub broker: Broker,
    /// The relay.
    pub relay: Arc<SmtpServer>,
    /// Metadata server, IAM, object store.
    pub google: GoogleFake,
    /// Incoming webhook.
    pub slack: SlackFake,
    source: Source,
    retry: (Duration, Duration),
    /// Writer of the database's own events, with [`Source::Postgres`] and schema `router`.
    outbox: Option<events::Outbox>,
    dir: PathBuf,
    /// Removes `dir` with the stage, where it is temporary.
    _temporary: Option<TempDir>,
}

impl Stage {
    /// Starts the parts on the shared throwaway cluster.
    ///
    /// # Errors
    /// A part that cannot start, named.
    pub async fn start(options: StageOptions) -> Result<Self> {
        let cluster = Cluster::shared().await?;
        let database = cluster.database(options.variant).await?;
        Self::on(database, options).await
    }

    /// Starts the other parts beside a database.
    ///
    /// # Errors
    /// A part that cannot start, named.
    pub async fn on(database: TestDatabase, options: StageOptions) -> Result<Self> {
        let broker = Broker::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        broker.create_topic(TOPIC)?;
        broker.create_topic(DEAD_TOPIC)?;
        broker.create_subscription(SubscriptionSpec::new(DEAD_SUBSCRIPTION, DEAD_TOPIC))?;
        let (shortest, longest) = options.retry;
        broker.create_subscription(
            SubscriptionSpec::new(SUBSCRIPTION, TOPIC)
                .ack_deadline(options.ack_deadline)
                .retry(shortest, longest)
                .dead_letter(DEAD_TOPIC, 5)
                .kept(),
        )?;
        let relay = Arc::new(SmtpServer::start(options.smtp).await?);
        let google = GoogleFake::start().await?;
        let (bucket, object) = (BUCKET, PROBE);
        google.put_object(bucket, object, "text/plain", "a probe object\n");
        let slack = SlackFake::keeping(options.slack_dir).await?;
        let (dir, temporary) = match options.dir {
            Some(dir) => {
                std::fs::create_dir_all(&dir)?;
                (dir, None)
            }
            None => {
                let temporary = TempDir::with_prefix("maple-stage-")?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let StageOptions { source, retry, .. } = options;
        let with_outbox = source == Source::Postgres && options.variant.router;
        let outbox = with_outbox.then(|| events::Outbox::on(database.url_as("forms_app")));
        let stage = Self {
            database,
            broker,
            relay,
            google,
            slack,
            source,
            retry,
            outbox,
            dir,
            _temporary: temporary,
        };
        if options.sample_forms {
            forms::load_samples(&stage.database).await?;
        }
        Ok(stage)
    }

    /// Directory of configuration, logs and state.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A complete configuration for one router, as TOML. `extra` is laid over it, section by section and key by key,
    /// one line each; `http` is its port. The review queue's policy begins nothing: a test that wants it says so, and no
    /// other loses a race with it.
    #[must_use]
    pub fn config(&self, name: &str, http: u16, extra: &str) -> String {
        let state = self.dir.join(name);
        let base = format!(
            r#"[database]
url = "{url}"

{source}

[smtp]
host = "127.0.0.1"
port = {smtp}
hello_name = "maple.test"

[mail]
from = "gpus-it-security@greenpeace.org"

[signed_url]
signer = "metadata"
endpoint = "{iam}"
storage_endpoint = "{storage}"
probe_object = "{BUCKET}/{PROBE}"

[slack]
webhook_file = "{webhook}"
channel = "\#us-soc-alerts"

[grey_queue]
auto = []

[http]
listen = "127.0.0.1:{http}"

[log]
format = "json"

[state]
dir = "{state}"
"#,
            url = self.database.url_as("forms_app"),
            source = self.source_sections(),
            smtp = self.relay.port(),
            iam = self.google.iam_endpoint(),
            storage = self.google.storage_endpoint(),
            webhook = self.webhook_file().display(),
            state = state.display(),
        );
        overlay::overlay(&base.replace("\\#", "#"), extra)
    }

    /// The source's sections. The delays of `retry`, which a broker would apply, are the router's where there is no broker.
    fn source_sections(&self) -> String {
        let (shortest, longest) = (self.retry.0.as_millis(), self.retry.1.as_millis());
        match self.source {
            Source::Pubsub => format!(
                r#"[pubsub]
project = "{PROJECT}"
topic = "routing"
subscription = "routing-worker"
dead_letter_topic = "routing-dead"
dead_letter_subscription = "routing-dead-worker"
retry_max = "{longest}ms"
endpoint = "{}""#,
                self.broker.endpoint()
            ),
            Source::Postgres => format!(
                r#"[source]
kind = "postgres"
poll = "50ms"

[outbox]
backoff_min = "{shortest}ms"
backoff_max = "{longest}ms"

[routing]
backoff_min = "{shortest}ms"
backoff_max = "{longest}ms""#
            ),
        }
    }

    /// Source of events of its routers.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// File holding the webhook's URL, written by [`Stage::write_config`].
    #[must_use]
    pub fn webhook_file(&self) -> PathBuf {
        self.dir.join("slack-webhook")
    }

    /// Writes a configuration and the secret it names; returns its path.
    ///
    /// # Errors
    /// The file system.
    pub fn write_config(&self, name: &str, text: &str) -> Result<PathBuf> {
        use std::os::unix::fs::PermissionsExt;
        // Whole or not at all: another router of this stage may be reading it.
        let secret = self.dir.join(format!("slack-webhook.{name}"));
        std::fs::write(&secret, self.slack.webhook_url())?;
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&secret, self.webhook_file())?;
        let path = self.dir.join(format!("{name}.toml"));
        std::fs::write(&path, text)?;
        std::fs::create_dir_all(self.dir.join(name))?;
        Ok(path)
    }

    /// Starts `maple-router run` from `binary` with this stage's configuration plus `extra` sections.
    ///
    /// # Errors
    /// The process cannot be started.
    pub async fn router(&self, binary: &Path, name: &str, extra: &str) -> Result<Router> {
        Router::start(self, binary, name, extra, free_port()?, &[]).await
    }

    /// The same with further variables, as systemd would set them.
    ///
    /// # Errors
    /// The process cannot be started.
    pub async fn router_under(
        &self,
        binary: &Path,
        name: &str,
        extra: &str,
        variables: &[(&str, String)],
    ) -> Result<Router> {
        Router::start(self, binary, name, extra, free_port()?, variables).await
    }

    /// The same with its endpoint on a given port, for one that comes after another.
    ///
    /// # Errors
    /// The process cannot be started.
    pub async fn router_on(&self, binary: &Path, name: &str, extra: &str, port: u16) -> Result<Router> {
        Router::start(self, binary, name, extra, port, &[]).await
    }

    /// Runs another verb to its end.
    ///
    /// # Errors
    /// The process cannot be started.
    pub async fn verb(&self, binary: &Path, arguments: &[&str]) -> Result<Answer> {
        let config = self.write_config("verb", &self.config("verb", 0, ""))?;
        self.ask(binary, &config, arguments).await
    }

    /// Runs another verb to its end with a configuration that is there, as an operator beside a router does.
    ///
    /// # Errors
    /// The process cannot be started.
    pub async fn ask(&self, binary: &Path, config: &Path, arguments: &[&str]) -> Result<Answer> {
        Answer::of(self, binary, config, arguments).await
    }
}
