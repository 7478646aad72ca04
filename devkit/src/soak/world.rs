//! The parts of a soak: a PostgreSQL of its own, the stage on it, the configuration of the daemons, and the notes that all
//! tasks make. Timings are short, and keep the protocol's inequalities, so that every path is taken many times.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Options;
use super::memory::Life;
use crate::forms::{self, Form};
use crate::help_desk::{self, HelpDesk, HelpDeskOptions};
use crate::postgres::{Cluster, ClusterOptions};
use crate::smtp::{Keep, Rule, SmtpOptions, Stage as At};
use crate::stage::{Router, SHORT_TIMINGS, Stage, StageOptions};

/// Faults of 10,000 RCPTs: deferred, refused; of 10,000 final dots: stored, and the connection dropped.
pub(super) const DEFERRED: u64 = 500;
pub(super) const REFUSED: u64 = 200;
pub(super) const DROPPED: u64 = 100;

/// Creations of 10,000: made, and the answer lost; not made, and nobody says so.
pub(super) const ANSWER_LOST: u64 = 100;
pub(super) const BROKEN: u64 = 100;
/// A ticket is not found before this.
const INDEX_LAG: Duration = Duration::from_secs(1);

/// A claim is stuck after this; frozen for longer, a daemon loses what it has.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(16);

/// Differences from the short timings: more goes wrong at once in a soak.
const SHORT: &str = r#"
[pubsub]
retry_max = "2s"
ack_deadline = "10s"
[outbox]
lease = "10s"
[slack]
group_wait = "5s"
timeout = "2s"
lease = "7s"
[happyfox]
fallback_contact_email = "forms@greenpeace.org"
doubt_window = "10s"
max_per_minute = 300
connect_timeout = "1s"
read_timeout = "2s"
timeout = "3s"
[routing]
sweep_interval = "2s"
due_grace = "4s"
orphan_after = "20s"
"#;

/// Forms, and of ten submissions how many are of it.
pub(super) const FORMS: [(&str, u64); 4] = [("one", 4), ("both", 3), ("two-actions", 2), ("ticketed", 1)];

/// Counts of a running soak.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Disturbances by name.
    pub(super) disturbances: BTreeMap<&'static str, u64>,
    /// Violations seen on the way.
    pub(super) broken: Vec<String>,
    /// Every daemon process that was started.
    pub(super) lives: Vec<Life>,
}

/// All running parts; dropped in this order.
pub(super) struct World {
    pub(super) stage: Stage,
    pub(super) help_desk: HelpDesk,
    pub(super) cluster: Cluster,
    pub(super) began: Instant,
    binary: PathBuf,
    settings: String,
    notes: Mutex<Notes>,
}

impl World {
    /// Starts the parts, without daemons.
    pub(super) async fn open(options: &Options) -> Result<Self> {
        Self::with(options, &format!("{SHORT_TIMINGS}{SHORT}")).await
    }

    /// The same with other settings for the daemons.
    pub(super) async fn with(options: &Options, settings: &str) -> Result<Self> {
        if !options.binary.exists() {
            bail!("{} is missing: `make soak` builds it", options.binary.display());
        }
        if options.dir.exists() {
            fs::remove_dir_all(&options.dir)?;
        }
        // Thousands of rows with some dozen versions each.
        let kept_small = vec![("autovacuum".to_owned(), "on".to_owned())];
        let cluster =
            Cluster::start(ClusterOptions { settings: kept_small, ..ClusterOptions::default() }).await?;
        let of_source = StageOptions::of(options.source);
        let database = cluster.database(of_source.variant).await?;
        let stage = StageOptions {
            ack_deadline: Duration::from_secs(10),
            smtp: SmtpOptions { keep: Keep::Digests, ..SmtpOptions::default() },
            sample_forms: false,
            dir: Some(options.dir.clone()),
            ..of_source
        };
        let stage = Stage::on(database, stage).await?;
        let forms = [
            Form::new("one").mail_to("a@one.test"),
            Form::new("both").mail_to("a@both.test, b@both.test"),
            Form::new("two-actions").mail_to("a@first.test").mail_to("b@second.test"),
            Form::new("ticketed").ticket_in("General").mail_to("a@ticket.test"),
        ];
        forms::load_into(&stage.database, &forms).await?;
        let kept_small = HelpDeskOptions { keep: help_desk::Keep::Digests, ..HelpDeskOptions::default() };
        let help_desk = HelpDesk::start(kept_small).await?;
        let settings = format!("{settings}{}", help_desk.settings(&options.dir)?);
        Ok(Self {
            stage,
            help_desk,
            cluster,
            began: now(),
            binary: options.binary.clone(),
            settings,
            notes: Mutex::default(),
        })
    }

    /// From now on the relay defers, refuses and drops its share.
    pub(super) fn bad_relay(&self, seed: u64) {
        let relay = &self.stage.relay;
        relay.rule(Rule::at(At::Rcpt).share(DEFERRED, seed).reply("451 4.3.0 try again later"));
        relay.rule(Rule::at(At::Rcpt).share(REFUSED, seed + 1).reply("550 5.1.1 no such user"));
        relay.rule(Rule::at(At::AfterDot).share(DROPPED, seed + 2).disconnect());
        let create = |stage| help_desk::Rule::at(stage).call(help_desk::Call::Create);
        let lost =
            create(help_desk::Stage::Answer).share(ANSWER_LOST, seed + 3).act(help_desk::Act::Disconnect);
        let broken = create(help_desk::Stage::Body).share(BROKEN, seed + 4).act(help_desk::Act::Status(503));
        self.help_desk.rule(lost);
        self.help_desk.rule(broken);
        self.help_desk.set_index_lag(INDEX_LAG);
    }

    /// Starts a daemon process; its name is in its claims and in every status change it makes.
    pub(super) async fn start(&self, slot: &'static str, generation: u64) -> Result<Router> {
        let name = format!("{slot}.{generation}");
        let url = self.stage.database.url_as("forms_app");
        let own = format!(
            "[database]\nurl = \"{url}&options=-csoak.daemon%3D{name}\"\n[routing]\nworker_name = \"{name}\"\n"
        );
        // The slot's name for files: a process that comes after another finds what that one left.
        let router = self.stage.router(&self.binary, slot, &format!("{}{own}", self.settings)).await?;
        if let Some(pid) = router.pid() {
            self.notes().lives.push(Life::of(name, pid, self.elapsed()));
        }
        Ok(router)
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a disturbance.
    pub(super) fn count(&self, what: &'static str) {
        *self.notes().disturbances.entry(what).or_default() += 1;
    }

    /// Notes what must not happen.
    pub(super) fn broken(&self, what: String) {
        self.say(&format!("NOT as it should: {what}"));
        self.notes().broken.push(what);
    }

    pub(super) fn elapsed(&self) -> Duration {
        now().saturating_duration_since(self.began)
    }

    /// Prints one line for the reader, with the time since the start.
    pub(super) fn say(&self, line: &str) {
        let text = format!("{:7.1} s  {line}\n", self.elapsed().as_secs_f64());
        if io::stdout().write_all(text.as_bytes()).is_err() {
            // The reader has gone; the report is a file as well.
        }
    }
}

/// Real time is what a soak measures.
#[expect(clippy::disallowed_methods, reason = "a soak runs in real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}
