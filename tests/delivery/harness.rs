//! A router before a real Postfix, the upstream behind that, and eyes for what they leave behind.

use std::path::Path;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postfix::{Postfix, PostfixOptions};
use devkit::stage::{Answer, Router, Source, Stage, StageOptions};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// How long anything may take before a test calls it lost. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
const STEP: Duration = Duration::from_millis(50);

/// Close to the shortest times that the protocol's inequalities allow, as in the kill tests; a claim is stuck after 16 s.
const SHORT: &str = r#"
[database]
connect_timeout = "2s"
lock_timeout = "1s"
statement_timeout = "2s"
[outbox]
lease = "10s"
[smtp]
lanes = 2
connect_timeout = "1s"
command_timeout = "1500ms"
dot_timeout = "2500ms"
delivery_deadline = "7s"
[mail]
body = "template"
[slack]
group_wait = "1s"
timeout = "1s"
lease = "4s"
[routing]
heartbeat = "2100ms"
fence_after = "8500ms"
stuck_after = "16s"
claim_deadline = "60s"
sweep_interval = "1s"
due_grace = "2s"
orphan_after = "15s"
backoff_min = "1s"
backoff_max = "5s"
drain_timeout = "9s"
"#;

/// The binary under test.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// A row as it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) status: String,
    pub(crate) ledger: Value,
    pub(crate) updated_at: String,
}

impl Row {
    pub(crate) fn entry(&self, key: &str) -> &Value {
        &self.ledger["deliveries"][key]
    }

    /// What is known of a delivery beyond the relay: `delivered`, `deferred`, `bounced`, `expired`, or nothing.
    pub(crate) fn beyond(&self, key: &str) -> &str {
        self.entry(key)["relay"]["status"].as_str().unwrap_or_default()
    }
}

/// One row of the audit log.
#[derive(Debug, Clone)]
pub(crate) struct Audited {
    pub(crate) action: String,
    pub(crate) detail: Value,
}

/// The router and what it works with.
pub(crate) struct Scene {
    // First: the router goes before what it works with.
    router: Option<Router>,
    pub(crate) postfix: Postfix,
    pub(crate) stage: Stage,
    pub(crate) backend: Client,
    pub(crate) eyes: Client,
    extra: String,
}

impl Scene {
    /// A router that follows its Postfix.
    pub(crate) async fn start(forms: &[Form]) -> Self {
        Self::with(PostfixOptions::default(), forms).await
    }

    /// The same with another Postfix.
    pub(crate) async fn with(options: PostfixOptions, forms: &[Form]) -> Self {
        let mut scene = Self::resting(options, forms).await;
        scene.up().await;
        scene
    }

    /// The same without a router yet.
    pub(crate) async fn resting(options: PostfixOptions, forms: &[Form]) -> Self {
        let stage = StageOptions { sample_forms: false, ..StageOptions::of(Source::Postgres) };
        let stage = Stage::start(stage).await.expect("a stage");
        let mut loader = stage.database.client_as("forms_loader").await.expect("the loader");
        devkit::forms::load(&mut loader, forms).await.expect("forms");
        let postfix = Postfix::start(stage.relay.port(), options).await.expect("a Postfix");
        let backend = stage.database.client_as("forms_app").await.expect("forms_app");
        let eyes = stage.database.superuser().await.expect("superuser");
        let extra = format!("{SHORT}{}", postfix.sections());
        Self { router: None, postfix, stage, backend, eyes, extra }
    }

    /// Lays this over the configuration of the routers to come.
    pub(crate) fn overlay(&mut self, extra: &str) {
        self.extra.push_str(extra);
    }

    /// Starts the router, or its successor, and waits until it is ready.
    pub(crate) async fn up(&mut self) {
        let mut router = self.stage.router(binary(), "router", &self.extra).await.expect("a router");
        router.ready().await.expect("ready");
        self.router = Some(router);
    }

    /// Waits until the router has kept its place in the log: from then on its successor misses nothing.
    pub(crate) async fn follows(&self) {
        let file = self.stage.dir().join("router/relay_log.json");
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            let kept = std::fs::read(&file).unwrap_or_default();
            let kept: Value = serde_json::from_slice(&kept).unwrap_or_default();
            if kept["position"].as_str().is_some_and(|place| !place.is_empty()) {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
        panic!("no place in the log was kept in {}\n{}", file.display(), self.told());
    }

    pub(crate) fn router(&self) -> &Router {
        self.router.as_ref().expect("a router")
    }

    /// SIGTERM; it must end well.
    pub(crate) async fn down(&mut self) {
        let mut router = self.router.take().expect("a router");
        let ended = router.stop().await.expect("stops");
        assert!(ended.success(), "{ended}\n{}", router.log());
    }

    /// SIGKILL, and gone.
    pub(crate) async fn kill(&mut self) {
        let mut router = self.router.take().expect("a router");
        router.signal("KILL").await.expect("sent");
        router.ended().await.expect("ends");
    }

    /// Inserts one, as the backend's finalize does; the database announces it.
    pub(crate) async fn submit(&self, form: &str) -> Uuid {
        SubmissionSeed::of(form).insert(&self.backend).await.expect("a row").id
    }

    pub(crate) async fn row(&self, id: Uuid) -> Row {
        let sql = "SELECT status::text, routing_result, updated_at::text FROM submissions WHERE id = $1";
        let row = self.eyes.query_one(sql, &[&id]).await.expect("the row");
        Row { status: row.get(0), ledger: row.get(1), updated_at: row.get(2) }
    }

    /// Waits until the row is as wanted.
    pub(crate) async fn await_row(&self, id: Uuid, what: &str, wanted: impl Fn(&Row) -> bool) -> Row {
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            let row = self.row(id).await;
            if wanted(&row) {
                return row;
            }
            tokio::time::sleep(STEP).await;
        }
        panic!("{id}: no {what} after {PATIENCE:?}: {:?}\n{}", self.row(id).await, self.told());
    }

    /// Waits for the end.
    pub(crate) async fn routed(&self, id: Uuid) -> Row {
        self.await_row(id, "end", |row| row.status == "routed").await
    }

    /// Waits until this is known of these deliveries beyond the relay.
    pub(crate) async fn known(&self, id: Uuid, keys: &[&str], status: &str) -> Row {
        let so = |row: &Row| keys.iter().all(|key| row.beyond(key) == status);
        self.await_row(id, &format!("{status} for {keys:?}"), so).await
    }

    pub(crate) async fn audit(&self, id: Uuid) -> Vec<Audited> {
        let sql = "SELECT action::text, detail FROM audit_log WHERE submission_id = $1 ORDER BY id";
        let rows = self.eyes.query(sql, &[&id]).await.expect("audit");
        rows.iter().map(|row| Audited { action: row.get(0), detail: row.get(1) }).collect()
    }

    /// Only what the trail says of mails that failed.
    pub(crate) async fn failures(&self, id: Uuid) -> Vec<Value> {
        let failed = self.audit(id).await.into_iter().filter(|line| line.action == "email_failed");
        failed.map(|line| line.detail).collect()
    }

    /// One series of the router's metrics.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        self.router().metric(series).await.expect("asked").unwrap_or_default()
    }

    /// Waits until a series has reached a value.
    pub(crate) async fn counted(&self, series: &str, value: f64) {
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if self.metric(series).await >= value {
                break;
            }
            tokio::time::sleep(STEP).await;
        }
        let found = self.metric(series).await;
        assert!((found - value).abs() < f64::EPSILON, "{series} is {found}, not {value}\n{}", self.told());
    }

    /// Runs another verb beside the router.
    pub(crate) async fn verb(&self, words: &[&str]) -> Answer {
        self.stage.ask(binary(), self.router().config(), words).await.expect("it runs")
    }

    /// How often the upstream has a mail of this submission for this recipient.
    pub(crate) fn copies(&self, id: Uuid, recipient: &str) -> u64 {
        let id = id.to_string();
        let digests = self.stage.relay.digests().into_iter();
        digests.filter(|(d, _)| d.submission_id == id && d.recipient == recipient).map(|(_, n)| n).sum()
    }

    /// The Message-ID of an action's mail, in brackets, as it is bound to be.
    pub(crate) fn message_id(id: Uuid, order: u32) -> String {
        format!("<maple.{}.{order}.0@greenpeace.org>", id.simple())
    }

    /// What the router's journal says of doubt about a submission: how each was resolved, in order.
    pub(crate) fn resolutions(&self, id: Uuid) -> Vec<String> {
        let file = self.stage.dir().join("router.log");
        let log = std::fs::read_to_string(file).expect("the journal");
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_this =
            lines.filter(|line| line["event"] == "in_doubt" && line["submission_id"] == id.to_string());
        of_this.map(|line| line["outcome"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Both logs, for whoever reads why a test failed.
    pub(crate) fn told(&self) -> String {
        let log = std::fs::read_to_string(self.stage.dir().join("router.log")).unwrap_or_default();
        format!("--- router\n{log}\n--- Postfix\n{}", self.postfix.log())
    }
}
