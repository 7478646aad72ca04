//! A router before a real Postfix, the upstream behind that, and eyes for what they leave behind.

use std::path::Path;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postfix::{Postfix, PostfixOptions};
use devkit::stage::{Answer, Router, SHORT_TIMINGS, Source, Stage, StageOptions};
use devkit::submission::{Audited, Row};
use devkit::waiting;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// Longest duration of anything before a test calls it lost. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
const STEP: Duration = Duration::from_millis(50);

/// Differences from the short timings.
const SHORT: &str = r#"
[outbox]
lease = "10s"
[smtp]
lanes = 2
[mail]
body = "template"
"#;

/// The binary under test.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// The delivery status after the relay's acceptance: `delivered`, `deferred`, `bounced`, `expired`, or empty.
pub(crate) fn relay_status<'a>(row: &'a Row, key: &str) -> &'a str {
    row.entry(key)["relay"]["status"].as_str().unwrap_or_default()
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
        devkit::forms::load_into(&stage.database, forms).await.expect("forms");
        let postfix = Postfix::start(stage.relay.port(), options).await.expect("a Postfix");
        let backend = stage.database.client_as("forms_app").await.expect("forms_app");
        let eyes = stage.database.superuser().await.expect("superuser");
        let extra = format!("{SHORT_TIMINGS}{SHORT}{}", postfix.sections());
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

    /// Waits until the router has saved its position in the log: from then on its successor misses nothing.
    pub(crate) async fn follows(&self) {
        let file = self.stage.dir().join("router/relay_log.json");
        let kept = async || {
            let kept = std::fs::read(&file).unwrap_or_default();
            let kept: Value = serde_json::from_slice(&kept).unwrap_or_default();
            kept["position"].as_str().is_some_and(|place| !place.is_empty())
        };
        let kept = waiting::until(PATIENCE, STEP, kept).await;
        assert!(kept, "no place in the log was kept in {}\n{}", file.display(), self.logs());
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
        Row::read(&self.eyes, id).await.expect("the row")
    }

    /// Waits until the row is as wanted.
    pub(crate) async fn await_row(&self, id: Uuid, what: &str, wanted: impl Fn(&Row) -> bool) -> Row {
        let look = async || Some(self.row(id).await).filter(&wanted);
        match waiting::find(PATIENCE, STEP, look).await {
            Some(row) => row,
            None => panic!("{id}: no {what} after {PATIENCE:?}: {:?}\n{}", self.row(id).await, self.logs()),
        }
    }

    /// Waits for the end.
    pub(crate) async fn routed(&self, id: Uuid) -> Row {
        self.await_row(id, "end", |row| row.status == "routed").await
    }

    /// Waits until delivery tracking has this status of these deliveries.
    pub(crate) async fn known(&self, id: Uuid, keys: &[&str], status: &str) -> Row {
        let so = |row: &Row| keys.iter().all(|key| relay_status(row, key) == status);
        self.await_row(id, &format!("{status} for {keys:?}"), so).await
    }

    pub(crate) async fn audit(&self, id: Uuid) -> Vec<Audited> {
        Audited::trail(&self.eyes, id).await.expect("audit")
    }

    /// The trail's entries of failed mails.
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
        waiting::until(PATIENCE, STEP, async || self.metric(series).await >= value).await;
        let found = self.metric(series).await;
        assert!((found - value).abs() < f64::EPSILON, "{series} is {found}, not {value}\n{}", self.logs());
    }

    /// Runs another verb beside the router.
    pub(crate) async fn verb(&self, words: &[&str]) -> Answer {
        self.stage.ask(binary(), self.router().config(), words).await.expect("it runs")
    }

    /// Number of the upstream's mails of this submission for this recipient.
    pub(crate) fn copies(&self, id: Uuid, recipient: &str) -> u64 {
        let id = id.to_string();
        let digests = self.stage.relay.digests().into_iter();
        digests.filter(|(d, _)| d.submission_id == id && d.recipient == recipient).map(|(_, n)| n).sum()
    }

    /// The Message-ID of an action's mail, in brackets, as it is bound to be.
    pub(crate) fn message_id(id: Uuid, order: u32) -> String {
        format!("<maple.{}.{order}.0@greenpeace.org>", id.simple())
    }

    /// The journal's entries on doubt about a submission: the resolution of each, in order.
    pub(crate) fn resolutions(&self, id: Uuid) -> Vec<String> {
        let file = self.stage.dir().join("router.log");
        let log = std::fs::read_to_string(file).expect("the journal");
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_this =
            lines.filter(|line| line["event"] == "in_doubt" && line["submission_id"] == id.to_string());
        of_this.map(|line| line["outcome"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Both logs, for the reader of a failed test.
    pub(crate) fn logs(&self) -> String {
        let log = std::fs::read_to_string(self.stage.dir().join("router.log")).unwrap_or_default();
        format!("--- router\n{log}\n--- Postfix\n{}", self.postfix.log())
    }
}
