//! The parts of a drill: the stage with a PostgreSQL of its own, one daemon, a Prometheus with the shipped rules,
//! and the means to see what blue sees. Timings are short and keep the protocol's inequalities.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use uuid::Uuid;

use super::Options;
use super::message;
pub(super) use super::promise::Promise;
use crate::forms::{self, Form, SubmissionSeed};
use crate::help_desk::{HelpDesk, HelpDeskOptions};
use crate::port::free_port;
use crate::postgres::{Cluster, ClusterOptions, Variant};
use crate::prometheus::Prometheus;
use crate::stage::{Answer, Router, SHORT_TIMINGS, SUBSCRIPTION, Stage, StageOptions};
use crate::uploading::{self, Uploading};

/// Blue's longest wait for anything before the drill has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(45);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Four hours on a host take a minute here.
pub(super) const FASTER: u32 = 240;

/// A drill's differences from the short timings.
const SHORT: &str = r#"
[outbox]
backoff_min = "100ms"
backoff_max = "500ms"
[pubsub]
retry_max = "2s"
ack_deadline = "10s"
[happyfox]
fallback_contact_email = "forms@greenpeace.org"
doubt_window = "10s"
max_per_minute = 300
connect_timeout = "1s"
read_timeout = "2s"
timeout = "3s"
[slack]
repeat_interval = "1h"
timeout = "2s"
lease = "7s"
[routing]
sweep_interval = "2s"
due_grace = "4s"
orphan_after = "16s"
[screening]
mode = "on"
[screening.judge]
base_url = "http://127.0.0.1:9/v1"
model = "nobody"
[grading]
mode = "on"
"#;

/// All running parts.
pub(super) struct World {
    pub(super) router: Router,
    pub(super) prometheus: Prometheus,
    pub(super) stage: Stage,
    pub(super) help_desk: HelpDesk,
    pub(super) uploading: Uploading,
    pub(super) cluster: Cluster,
    pub(super) settings: String,
    /// Port of the review desk.
    pub(super) desk: u16,
    binary: PathBuf,
    port: u16,
    began: Instant,
    /// Counts of Slack's messages and of the journal's lines when the step began.
    offsets: (usize, usize),
    /// Commands that only a booted system has.
    pub(super) booted: Vec<String>,
}

impl World {
    /// Starts everything; the daemon is ready.
    pub(super) async fn open(options: &Options) -> Result<Self> {
        if options.dir.exists() {
            std::fs::remove_dir_all(&options.dir)?;
        }
        let cluster = Cluster::start(ClusterOptions::default()).await?;
        let variant = Variant { audit_readable: true, ..Variant::default() };
        let database = cluster.database(variant).await?;
        let stage = StageOptions {
            variant,
            ack_deadline: Duration::from_secs(10),
            sample_forms: false,
            dir: Some(options.dir.clone()),
            ..StageOptions::default()
        };
        let stage = Stage::on(database, stage).await?;
        stage.broker.create_topic("projects/demo/topics/elsewhere")?;
        let forms = [
            Form::new("contact").mail_to("a@example.org"),
            Form::new("press").mail_to("gone@refused.test, b@example.org"),
            Form::new("slow").mail_to("a@slow.test"),
            Form::new("doubt").mail_to("a@doubt.test"),
            Form::new("denied").mail_to("a@denied.test"),
            Form::new("forgotten").mail_to("a@example.org"),
            Form::new("nobody"),
            Form::new("screened").mail_to("a@example.org"),
            Form::new("graded").mail_to("a@example.org"),
            Form::new("ticketed").mail_to("a@example.org").ticket_in("General"),
        ];
        forms::load_into(&stage.database, &forms).await?;
        // A port that refuses connections: the service that would call if this host died gets no heartbeat.
        let heartbeat = options.dir.join("heartbeat-url");
        std::fs::write(&heartbeat, "http://127.0.0.1:9/ping/drill")?;
        let canary =
            format!("[canary]\ninterval = \"2s\"\nheartbeat_url_file = \"{}\"\n", heartbeat.display());
        let (desk, secret) = (free_port()?, options.dir.join("desk-secret"));
        std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n")?;
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let of_desk = format!(
            "[desk]\nlisten = \"127.0.0.1:{desk}\"\norigin = \"http://desk.localhost:{desk}\"\nsecret_file = \"{}\"\n\
             [desk.users.anna]\nemail = \"anna@example.org\"\nrole = \"reviewer\"\n",
            secret.display()
        );
        let help_desk = HelpDesk::start(HelpDeskOptions::default()).await?;
        let of_help_desk = help_desk.settings(&options.dir)?;
        let uploading = Uploading::beside(&stage).await?;
        let of_forms = super::policy::settings(&options.dir, &stage.database.url_as("forms_loader"))?;
        let of_retention = crate::collecting::settings(
            &stage.google,
            &options.dir,
            &stage.database.url_as("maple_gc"),
            &[crate::uploading::CONTENT],
        )?;
        let rooms = format!("{of_desk}{of_help_desk}{}{of_forms}{of_retention}", uploading.settings);
        let settings = format!("{SHORT_TIMINGS}{SHORT}{canary}{rooms}{}", options.settings);
        let port = free_port()?;
        let owner = stage.database.owner_url();
        for schema in ["--router", "--content", "--screening", "--grading"] {
            let migrated = stage.verb(&options.binary, &["migrate", schema, "--owner-url", &owner]).await?;
            if migrated.code != Some(0) {
                bail!("migrate {schema}: {migrated:?}");
            }
        }
        let mut router = stage.router_on(&options.binary, "router", &settings, port).await?;
        router.ready().await?;
        let prometheus = Prometheus::start(&[router.address()], FASTER).await?;
        let (binary, began) = (options.binary.clone(), now());
        Ok(Self {
            router,
            prometheus,
            stage,
            help_desk,
            uploading,
            cluster,
            settings,
            desk,
            binary,
            port,
            began,
            offsets: (0, 0),
            booted: Vec::new(),
        })
    }

    /// Starts the daemon anew, on the same port; it need not become ready.
    pub(super) async fn start_again(&mut self) -> Result<()> {
        let (binary, settings) = (&self.binary, &self.settings);
        self.router = self.stage.router_on(binary, "router", settings, self.port).await?;
        Ok(())
    }

    /// After a step that ended in the middle: everything is there again, so that the next one is judged for itself.
    pub(super) async fn recover(&mut self) -> Result<()> {
        if self.stage.database.superuser().await.is_err() {
            self.cluster.start_again().await?;
        }
        self.stage.relay.stop().await;
        self.stage.relay.restart().await?;
        self.stage.broker.up().await?;
        self.stage.broker.mend_streams(SUBSCRIPTION)?;
        self.stage.google.restart_iam().await?;
        self.stage.google.iam_script().clear();
        self.stage.slack.up().await?;
        self.help_desk.restart().await?;
        uploading::grant(&self.stage.google);
        super::policy::write(self.stage.dir(), super::policy::POLICY)?;
        self.uploading.clamd.restart().await?;
        // The process may have ended.
        if self.router.signal("KILL").await.is_ok() {
            self.router.ended().await?;
        }
        self.start_again().await?;
        self.router.ready().await
    }

    /// Assigns everything seen from now on to the next step.
    pub(super) fn start_step(&mut self) {
        self.offsets = (self.stage.slack.messages().len(), self.router.log().len());
    }

    /// Prints one line for the reader.
    pub(super) fn say(&self, line: &str) {
        let text = format!("{:6.1} s  {line}\n", now().saturating_duration_since(self.began).as_secs_f64());
        if io::stdout().write_all(text.as_bytes()).is_err() {
            // The reader has gone; the exit code still speaks.
        }
    }

    /// `count` submissions with their events.
    pub(super) async fn submit(&self, form: &str, count: usize) -> Result<Vec<Uuid>> {
        let backend = self.stage.database.client_as("forms_app").await?;
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = SubmissionSeed::of(form).insert(&backend).await?.id;
            self.stage.publish(id, "finalized")?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// A row, with or without an event.
    pub(super) async fn seed(&self, seed: SubmissionSeed, event: bool) -> Result<Uuid> {
        let id = seed.insert(&self.stage.database.client_as("forms_app").await?).await?.id;
        if event {
            self.stage.publish(id, "finalized")?;
        }
        Ok(id)
    }

    /// Waits until `so`.
    pub(super) async fn until(&self, what: &str, so: impl AsyncFn() -> Result<bool>) -> Result<()> {
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if so().await? {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("not seen within {PATIENCE:?}: {what}")
    }

    /// Waits until all have this status.
    pub(super) async fn become_all(&self, ids: &[Uuid], status: &str) -> Result<()> {
        let eyes = self.stage.database.superuser().await?;
        let sql = "SELECT count(*) FROM submissions WHERE id = ANY($1) AND status::text = $2";
        let wanted = i64::try_from(ids.len())?;
        let so = async || Ok(eyes.query_one(sql, &[&ids, &status]).await?.get::<_, i64>(0) == wanted);
        self.until(&format!("{wanted} submissions {status}"), so).await
    }

    /// Blue's journal has a line of this event, with this word in it.
    pub(super) async fn journal(&self, event: &str, word: &str) -> Result<()> {
        let field = format!("\"event\":\"{event}\"");
        let so = async || {
            let log = self.router.log();
            let new = log.get(self.offsets.1.min(log.len())..).unwrap_or_default();
            Ok(new.lines().any(|line| line.contains(&field) && line.contains(word)))
        };
        self.until(&format!("journal: {event} {word}"), so).await?;
        self.say(&format!("  journal   EVENT={event} {word}"));
        Ok(())
    }

    /// Blue's Prometheus: this alert fires.
    pub(super) async fn alert(&self, name: &str) -> Result<()> {
        let alert = self.prometheus.fires(name, PATIENCE).await?;
        let summary = alert.annotations.get("summary").map_or("", String::as_str);
        self.say(&format!("  alert     {name}: {summary}"));
        Ok(())
    }

    /// Blue's Slack: a message that sends to this section; every command in it is pasted, and keeps its promise.
    pub(super) async fn slack(&mut self, section: &str, promise: Promise<'_>) -> Result<String> {
        let ending = format!(", section {section}");
        let find = || {
            let all = self.stage.slack.messages();
            let new = all.get(self.offsets.0..).unwrap_or_default();
            new.iter()
                .map(crate::slack::SlackMessage::visible_text)
                .find(|text| text.lines().any(|line| line.ends_with(&ending)))
        };
        self.until(&format!("Slack: section {section}"), async || Ok(find().is_some())).await?;
        let text = find().context("the message")?;
        self.say(&format!("  slack     {}", text.lines().next().unwrap_or_default()));
        let (path, section) = message::runbook(&text).context("it names a runbook")?;
        let file = Path::new(path).file_name().context("a file")?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runbooks").join(file);
        let runbook = std::fs::read_to_string(&here).with_context(|| format!("the runbook {path}"))?;
        if !runbook.lines().any(|line| line == format!("## {section}")) {
            bail!("{path} has no section {section}");
        }
        let commands = message::commands(&text);
        if commands.is_empty() {
            bail!("it names no command: {text}");
        }
        for command in commands {
            self.paste(&command, promise).await.with_context(|| format!("pasted: {command}"))?;
        }
        Ok(text)
    }

    /// Slack says that it is over.
    pub(super) async fn slack_over(&self, what: &str) -> Result<()> {
        let so = async || {
            let all = self.stage.slack.messages();
            let new = all.get(self.offsets.0..).unwrap_or_default();
            let texts = new.iter().map(crate::slack::SlackMessage::visible_text);
            Ok(texts.into_iter().any(|text| text.starts_with(":white_check_mark:") && text.contains(what)))
        };
        self.until(&format!("Slack: over, {what}"), so).await?;
        self.say("  slack     over");
        Ok(())
    }

    /// A line in a shell on the router's host.
    pub(super) async fn shell(&self, line: &str) -> Result<Answer> {
        self.stage.shell(&self.binary, self.router.config(), &[], line).await
    }

    /// A line in a shell that finds Postfix configured: with a `main.cf` of its own, since a package that was installed without
    /// questions has none, and `postconf` ends with 1 there.
    async fn on_a_mail_host(&self, line: &str) -> Result<Answer> {
        let folder = self.stage.dir().join("postfix");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("main.cf"), "compatibility_level = 3.6\nmynetworks = 127.0.0.0/8\n")?;
        let variables = [("MAIL_CONFIG", folder.to_str().context("a folder's name")?)];
        self.stage.shell(&self.binary, self.router.config(), &variables, line).await
    }

    /// Runs a command out of a message, and looks whether it does what it is there for.
    async fn paste(&mut self, command: &str, promise: Promise<'_>) -> Result<()> {
        // The drill is root itself.
        let command = command.strip_prefix("sudo ").unwrap_or(command);
        let words: Vec<&str> = command.split_whitespace().collect();
        if let ["systemctl" | "journalctl", ..] = words.as_slice() {
            // No systemd here: `make test-systemd` has one.
            self.booted.push(command.to_owned());
            self.say(&format!("  pasted    {command}: for a booted host"));
            return Ok(());
        }
        let answer = match words.as_slice() {
            ["postconf", ..] => self.on_a_mail_host(command).await?,
            _ => self.shell(command).await?,
        };
        if words.first() == Some(&"postconf") && answer.code == Some(127) {
            // No Postfix here: the booted container has one.
            self.booted.push(command.to_owned());
            self.say(&format!("  pasted    {command}: for a host with Postfix"));
            return Ok(());
        }
        let Some(kept) = promise.is_kept(&words, &answer, self.desk) else {
            bail!("nobody knows what it promises")
        };
        let finds = ["check", "scan"].iter().any(|verb| words.get(1) == Some(verb))
            || words.get(2) == Some(&"reconcile");
        // The policy is a part of the configuration: where it is no policy, its test ends as other verbs do there.
        let tests = words.get(1) == Some(&"policy");
        let ended =
            answer.code == Some(0) || finds && answer.code == Some(1) || tests && answer.code == Some(78);
        if !kept || !ended {
            bail!("it does not do what it is there for: {answer:?}");
        }
        self.say(&format!("  pasted    {command}"));
        Ok(())
    }

    /// Checks that `explain` of a submission has these words.
    pub(super) async fn explain(&self, id: Uuid, words: &[&str]) -> Result<()> {
        let answer = self.shell(&format!("maple-router explain {id}")).await?;
        let flat = answer.out.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(missing) = words.iter().find(|word| !flat.contains(**word)) {
            bail!("explain does not say {missing:?}: {answer:?}");
        }
        self.say(&format!("  explain   {}", words.join(" … ")));
        Ok(())
    }

    /// `explain` comes to say this of a submission.
    pub(super) async fn until_explained(&self, id: Uuid, words: &str) -> Result<()> {
        let so = async || Ok(self.shell(&format!("maple-router explain {id}")).await?.out.contains(words));
        self.until(&format!("explain: {words}"), so).await?;
        self.say(&format!("  explain   {words}"));
        Ok(())
    }

    /// A statement as superuser: red has got far.
    pub(super) async fn tamper(&self, sql: &str) -> Result<()> {
        Ok(self.stage.database.superuser().await?.batch_execute(sql).await?)
    }
}

/// Real time is what a drill runs in.
#[expect(clippy::disallowed_methods, reason = "a drill runs in real time")]
fn now() -> Instant {
    Instant::now()
}
