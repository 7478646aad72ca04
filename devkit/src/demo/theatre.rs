//! The demo's stage: a database server of its own, every part on loopback, and the real router on a real
//! configuration file. Files stay in one directory afterwards; everything else goes with the value.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Options;
use super::evidence::WITNESS;
use super::grader::{self, Grader};
use super::policy;
use super::scenarios::{FEEDBACK, Reply, SCENARIOS};
use super::screener::{IDEAS, SKILLS, Screener};
use super::uploads::Uploads;
use crate::broker::SubscriptionSpec;
use crate::collecting;
use crate::forms::{self, Form};
use crate::help_desk::{HelpDesk, HelpDeskOptions};
use crate::port::free_port;
use crate::postgres::{Cluster, ClusterOptions};
use crate::smtp::{Rule, SmtpOptions, Stage as SmtpStage};
use crate::stage::{Answer, BUCKET, DEAD_TOPIC, Router, Source, Stage, StageOptions};
use crate::uploading::CONTENT;

/// Redelivery back-off of the demo's subscription: five attempts are over within some seconds.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Laid over the stage's configuration: the whole story in the log, and alerts while somebody is still watching; links no longer
/// than Google is sure of, for whom nobody keeps a key file.
const SETTINGS: &str =
    "[log]\nlevel = \"debug\"\n[slack]\ngroup_wait = \"2s\"\n[signed_url]\nttl = \"12h\"\n";
/// Form that `maple-router check` warns of, rightly: without actions.
const BROKEN: &str = "newsletter";
/// Time for the router to end by itself when a terminal's Ctrl-C has reached it as well.
const OWN_END: Duration = Duration::from_secs(1);

/// Longest time for an idle router to stop.
const PATIENCE: Duration = Duration::from_secs(8);

/// The desk's user, who may do anything: a reader looks around.
pub(super) const REVIEWER: &str = "ada";

/// All running parts; dropped in this order.
pub(super) struct Theatre {
    pub(super) router: Router,
    pub(super) stage: Stage,
    pub(super) help_desk: HelpDesk,
    pub(super) uploads: Uploads,
    pub(super) screener: Screener,
    pub(super) grader: Grader,
    /// Port of the review desk.
    pub(super) desk: u16,
    _cluster: Cluster,
    pub(super) binary: PathBuf,
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
        let mut of_source = StageOptions::of(options.source);
        // The review queue is in schema router, whatever the source of events.
        of_source.variant.router = true;
        of_source.variant.content = true;
        of_source.variant.screening = true;
        of_source.variant.grading = true;
        let database = cluster.database(of_source.variant).await?;
        let settings = StageOptions {
            retry: RETRY,
            smtp: SmtpOptions { dir: Some(mail_dir(&options.dir)), ..SmtpOptions::default() },
            slack_dir: Some(slack_dir(&options.dir)),
            dir: Some(options.dir.clone()),
            ..of_source
        };
        let stage = Stage::on(database, settings).await?;
        let feedback = Form { name: "Feedback".to_owned(), ..Form::new(FEEDBACK.0).mail_to(FEEDBACK.1) };
        let screened = [IDEAS, SKILLS].map(|(form, to)| Form::new(form).mail_to(to));
        forms::load_into(&stage.database, &[&[feedback], &screened[..], &grader::forms()].concat()).await?;
        stage.broker.create_subscription(SubscriptionSpec::new(WITNESS, DEAD_TOPIC))?;
        if options.source == Source::Postgres {
            // No part uses the broker here; with it down, none could.
            stage.broker.down().await;
        }
        refuse(&stage, |_| true);
        let help_desk = HelpDesk::start(HelpDeskOptions::default()).await?;
        let uploads = Uploads::open(&options.dir, &stage.google).await?;
        let mut screener = Screener::open(&options.dir, &stage.database).await?;
        let mut grader = Grader::open(&options.dir, &stage.database).await?;
        let (desk, of_desk) = desk(&options.dir, &stage.database.url_as("maple_desk"))?;
        let settings = format!(
            "{SETTINGS}[routing]\nnot_before = {}\n{of_desk}{}{}{}{}{}{}",
            installed(&stage).await?,
            tickets(&options.dir, &help_desk)?,
            uploads.settings,
            screener.settings,
            grader.settings,
            policy::settings(&options.dir, &stage.database.url_as("forms_loader"))?,
            collecting::settings(
                &stage.google,
                &options.dir,
                &stage.database.url_as("maple_gc"),
                &[BUCKET, CONTENT]
            )?
        );
        let mut router = stage.router(&options.binary, "router", &settings).await?;
        router.ready().await?;
        screener.start(&options.binary, router.config())?;
        grader.start(&options.binary, router.config())?;
        write_wrapper(options, &stage, &router)?;
        let binary = options.binary.clone();
        Ok(Self {
            router,
            stage,
            help_desk,
            uploads,
            screener,
            grader,
            desk,
            _cluster: cluster,
            binary,
            _lock: lock,
        })
    }

    /// Runs another verb beside the router, with the router's own configuration.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) async fn verb(&self, arguments: &[&str]) -> Result<Answer> {
        self.stage.ask(&self.binary, self.router.config(), arguments).await
    }

    /// Has the relay take mails to somebody whom it refused so far.
    pub(super) fn relay_accepts(&self, recipient: &str) {
        self.stage.relay.clear_rules();
        refuse(&self.stage, |reply| reply.times.is_none() && reply.recipient != recipient);
    }

    /// Gives the form whose story needs it broken what it lacks, as its owner would: a reader who looks around afterwards
    /// finds nothing wrong with it.
    ///
    /// # Errors
    /// The database is gone.
    pub(super) async fn mend_forms(&self) -> Result<()> {
        let mut forms = forms::samples()?;
        forms.retain(|form| form.id == BROKEN);
        let mended: Vec<Form> = forms.into_iter().map(|form| form.mail_to("forms@example.org")).collect();
        forms::load_into(&self.stage.database, &mended).await
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

/// Gives the relay its replies.
fn refuse(stage: &Stage, which: impl Fn(&Reply) -> bool) {
    for reply in SCENARIOS.iter().filter_map(|scenario| scenario.relay).filter(which) {
        let rule = Rule::at(SmtpStage::Rcpt).to(reply.recipient).reply(reply.line);
        stage.relay.rule(match reply.times {
            Some(times) => rule.times(times),
            None => rule,
        });
    }
}

/// The review desk's port and settings, and its secret.
fn desk(dir: &Path, database: &str) -> Result<(u16, String)> {
    let (port, secret) = (free_port()?, dir.join("desk-secret"));
    fs::write(&secret, format!("{:032x}{:032x}\n", rand::random::<u128>(), rand::random::<u128>()))?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let settings = format!(
        "[grey_queue]\nauto = [\"exhausted\", \"no_actions\", \"unknown_submission\"]\n[desk]\nlisten = \"127.0.0.1:{port}\"\norigin = \"http://desk.localhost:{port}\"\nsecret_file = \"{}\"\n\
         database_url = \"{database}\"\n[desk.users.{REVIEWER}]\nemail = \"{REVIEWER}@example.org\"\nrole = \"admin\"\n",
        secret.display()
    );
    Ok((port, settings))
}

/// The help desk's settings, and its credentials.
fn tickets(dir: &Path, help_desk: &HelpDesk) -> Result<String> {
    let secret = |name: &str, text: &str| -> Result<String> {
        let path = dir.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path.display().to_string())
    };
    Ok(format!(
        "[happyfox]\nbase_url = \"{}\"\napi_key_file = \"{}\"\nauth_code_file = \"{}\"\n\
         contact_email_field = \"email\"\ncontact_name_field = \"name\"\nfallback_contact_email = \"forms@example.org\"\n",
        help_desk.base_url(),
        secret("happyfox-api-key", help_desk.api_key())?,
        secret("happyfox-auth-code", help_desk.auth_code())?,
    ))
}

/// The time of installation, as a host's configuration has it.
async fn installed(stage: &Stage) -> Result<String> {
    let sql = "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
    Ok(stage.database.superuser().await?.query_one(sql, &[]).await?.get(0))
}

/// Directory of the relay's mails.
pub(super) fn mail_dir(dir: &Path) -> PathBuf {
    dir.join("mail")
}

/// Directory of Slack's messages.
pub(super) fn slack_dir(dir: &Path) -> PathBuf {
    dir.join("slack")
}

/// The program that runs a verb with this demo's configuration.
pub(super) fn wrapper(dir: &Path) -> PathBuf {
    dir.join("maple")
}

/// Writes [`wrapper`], which says so where this process, and with it everything a verb would ask, is gone.
fn write_wrapper(options: &Options, stage: &Stage, router: &Router) -> Result<()> {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let binary = options.binary.canonicalize().context("finding the router")?;
    let text = format!(
        "#!/bin/sh\n\
         # maple-router with the configuration of this demo, while it runs: {name} status\n\
         if ! kill -0 {demo} 2>/dev/null; then\n\
         \techo 'This demo is over. KEEP=1 make demo leaves one running.' >&2\n\
         \texit 69\n\
         fi\n\
         export GCE_METADATA_HOST={metadata}\n\
         exec {binary} --config {config} \"$@\"\n",
        name = wrapper(&options.dir).display(),
        demo = std::process::id(),
        metadata = stage.google.metadata_host(),
        binary = quoted(&binary),
        config = quoted(router.config()),
    );
    let path = wrapper(&options.dir);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(())
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
