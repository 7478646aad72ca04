//! A stage with one or more routers, each on a wire of its own to the database, so that a test can tell them apart and
//! catch one at a named point; and eyes for what they leave behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::CuttingProxy;
use devkit::stage::{Router, SHORT_TIMINGS, Source, Stage, StageOptions};
use devkit::submission::{Audited, Row};
use devkit::waiting;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::laws;

/// Longest duration of anything before a test calls it lost. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
pub(crate) const STEP: Duration = Duration::from_millis(25);

/// Differences from the short timings: two seconds for a command, because the machine may be busy, and what follows from it.
const SHORT: &str = r#"
[pubsub]
retry_max = "2s"
ack_deadline = "10s"
[outbox]
lease = "10s"
[smtp]
lanes = 2
command_timeout = "2s"
delivery_deadline = "8500ms"
[routing]
drain_timeout = "11s"
"#;

/// One router and its wire.
pub(crate) struct Daemon {
    pub(crate) name: String,
    pub(crate) router: Router,
    pub(crate) wire: CuttingProxy,
}

/// The stage and its routers.
pub(crate) struct Scene {
    // First: the routers go before what they work with.
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) stage: Stage,
    pub(crate) eyes: Client,
    pub(crate) max_attempts: u64,
    backend: Client,
    started: usize,
    /// Laid over every router's configuration.
    extra: &'static str,
}

impl Scene {
    /// `count` routers, ready; one form `f` with two actions and three recipients.
    pub(crate) async fn start(source: Source, count: usize) -> Self {
        Self::on(Stage::start(options(source)).await.expect("a stage"), count).await
    }

    /// The same on a stage with a database of its own.
    pub(crate) async fn on(stage: Stage, count: usize) -> Self {
        Self::with(stage, count, "").await
    }

    /// The same with `extra` laid over the routers' configuration.
    pub(crate) async fn with(stage: Stage, count: usize, extra: &'static str) -> Self {
        let form = Form::new("f").mail_to("a@x.test, b@x.test").mail_to("c@x.test");
        devkit::forms::load_into(&stage.database, &[form]).await.expect("the form");
        let backend = stage.database.client_as("forms_app").await.expect("forms_app");
        let eyes = stage.database.superuser().await.expect("superuser");
        let mut scene =
            Self { daemons: Vec::new(), stage, eyes, max_attempts: 5, backend, started: 0, extra };
        for _ in 0..count {
            scene.one_more().await;
        }
        scene
    }

    /// Starts one more router and waits until it is ready.
    pub(crate) async fn one_more(&mut self) {
        self.started += 1;
        let name = format!("router{}", self.started);
        let wire = CuttingProxy::start(&self.stage.database).await.expect("a wire");
        let own = format!(
            "[database]\nurl = \"{}\"\n[routing]\nworker_name = \"{name}\"\n",
            wire.url_as("forms_app")
        );
        let extra = format!("{SHORT_TIMINGS}{SHORT}{own}{}", self.extra);
        let binary = Path::new(env!("CARGO_BIN_EXE_maple-router"));
        let mut router = self.stage.router(binary, &name, &extra).await.expect("a router");
        router.ready().await.expect("ready");
        self.daemons.push(Daemon { name, router, wire });
    }

    /// Inserts and publishes one submission, as the backend's finalize does.
    pub(crate) async fn submit(&self) -> Uuid {
        let id = self.submit_alone().await;
        self.stage.announce(id, "finalized").expect("published");
        id
    }

    /// Inserts one, and nobody publishes anything.
    pub(crate) async fn submit_alone(&self) -> Uuid {
        SubmissionSeed::of("f").insert(&self.backend).await.expect("a row").id
    }

    /// Inserts one, and its event is lost.
    pub(crate) async fn submit_quietly(&self) -> Uuid {
        let seed = SubmissionSeed::of("f");
        self.stage.submit_unannounced(&seed, &self.backend).await.expect("a row").id
    }

    /// The database was restarted: looks and inserts over new connections.
    pub(crate) async fn reconnect(&mut self) {
        self.backend = self.stage.database.client_as("forms_app").await.expect("forms_app");
        self.eyes = self.stage.database.superuser().await.expect("superuser");
    }

    pub(crate) async fn row(&self, id: Uuid) -> Row {
        Row::read(&self.eyes, id).await.expect("the row")
    }

    pub(crate) async fn audit(&self, id: Uuid) -> Vec<Audited> {
        Audited::trail(&self.eyes, id).await.expect("audit")
    }

    /// Waits until the row is as wanted.
    pub(crate) async fn await_row(&self, id: Uuid, what: &str, wanted: impl Fn(&Row) -> bool) -> Row {
        let look = async || Some(self.row(id).await).filter(&wanted);
        match waiting::find(PATIENCE, STEP, look).await {
            Some(row) => row,
            None => panic!("{id}: no {what} after {PATIENCE:?}: {:?}\n{}", self.row(id).await, self.logs()),
        }
    }

    /// Waits for the end of a submission, and holds it to the laws of the protocol.
    pub(crate) async fn ended(&self, id: Uuid) -> Row {
        let row = self.await_row(id, "end", Row::has_ended).await;
        laws::hold(self, id).await;
        row
    }

    /// Waits until it is so.
    pub(crate) async fn until(&self, what: &str, so: impl AsyncFn() -> bool) {
        let came = waiting::until(PATIENCE, STEP, so).await;
        assert!(came, "no {what} after {PATIENCE:?}:\n{}", self.logs());
    }

    /// Waits until no event is left: every one is settled for good.
    pub(crate) async fn settled(&self) {
        let nothing_left = async || {
            let stats = self.stage.events().await.expect("stats");
            stats.outstanding == 0 && stats.backlog == 0
        };
        self.until("settled events", nothing_left).await;
    }

    /// Number of stored mails of this submission for each recipient; checks that each has one Message-ID only.
    pub(crate) fn copies(&self, id: Uuid) -> BTreeMap<String, u64> {
        let of_this = id.to_string();
        let mut copies = BTreeMap::new();
        for (digest, count) in self.stage.relay.digests() {
            if digest.submission_id == of_this {
                let second = copies.insert(digest.recipient.clone(), count);
                assert_eq!(second, None, "two Message-IDs for {}: {digest:?}", digest.recipient);
            }
        }
        copies
    }

    /// The daemon that has this submission: by the claim in the ledger, or by the last log line of a claim.
    pub(crate) fn holder(&self, id: Uuid) -> usize {
        let of_this = format!("\"{id}\"");
        let mut claims = Vec::new();
        for (place, daemon) in self.daemons.iter().enumerate() {
            let log = daemon.router.log();
            let mine = log.lines().filter(|l| l.contains("\"claimed\"") && l.contains(&of_this));
            claims.extend(mine.map(|line| (time_of(line), place)));
        }
        claims.sort();
        claims.last().unwrap_or_else(|| panic!("nobody has claimed {id}:\n{}", self.logs())).1
    }

    pub(crate) fn logs(&self) -> String {
        self.daemons.iter().map(|d| format!("--- {}\n{}\n", d.name, d.router.log())).collect()
    }

    /// SIGKILL, and gone.
    pub(crate) async fn kill(&mut self, place: usize) {
        self.daemons[place].router.signal("KILL").await.expect("sent");
        self.daemons[place].router.ended().await.expect("ends");
    }

    /// SIGTERM to all that run; they must end well.
    pub(crate) async fn stop(mut self) {
        for daemon in &mut self.daemons {
            if daemon.router.end().expect("asked").is_none() {
                let ended = daemon.router.stop().await.expect("stops");
                assert!(ended.success(), "{ended}\n{}", daemon.router.log());
            }
        }
    }
}

/// A stage without sample forms, where a lost lease ends soon.
pub(crate) fn options(source: Source) -> StageOptions {
    let ack_deadline = Duration::from_secs(10);
    StageOptions { sample_forms: false, ack_deadline, ..StageOptions::of(source) }
}

/// When a line was written; the log's own form sorts.
fn time_of(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    line["time"].as_str().unwrap_or_default().to_owned()
}
