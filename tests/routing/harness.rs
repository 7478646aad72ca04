//! Parts that every test of the mission needs: the stage, the router on it, and eyes for what both leave behind.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use devkit::broker::SubscriptionSpec;
use devkit::forms::{Form, Seeded, SubmissionSeed};
use devkit::stage::{DEAD_TOPIC, Router, Source, Stage, StageOptions};
use devkit::submission::{Audited, Row};
use devkit::waiting;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::laws;

/// Longest duration of anything before a test calls it lost. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);

/// Sees every dead letter, beside the router's own subscription.
const DEAD_EYES: &str = "projects/demo/subscriptions/dead-eyes";

/// The binary under test.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// A stage with these forms only.
pub(crate) async fn stage_of(options: StageOptions, forms: &[Form]) -> Stage {
    let stage = Stage::start(StageOptions { sample_forms: false, ..options }).await.expect("a stage");
    load(&stage, forms).await;
    stage.broker.create_subscription(SubscriptionSpec::new(DEAD_EYES, DEAD_TOPIC)).expect("eyes");
    stage
}

/// Loads forms as the YAML loader does.
pub(crate) async fn load(stage: &Stage, forms: &[Form]) {
    devkit::forms::load_into(&stage.database, forms).await.expect("forms");
}

/// One router on a stage, ready.
pub(crate) struct Scene {
    // First: the router goes before what it works with.
    pub(crate) router: Router,
    pub(crate) stage: Stage,
    /// The backend's own connection, as `forms_app`.
    pub(crate) backend: Client,
    /// Looks at what was done, whatever the policies hide.
    pub(crate) eyes: Client,
    pub(crate) max_attempts: u64,
}

impl Scene {
    pub(crate) async fn start(forms: &[Form]) -> Self {
        Self::with(StageOptions::default(), forms, "").await
    }

    /// The same with either source.
    pub(crate) async fn of(source: Source, forms: &[Form]) -> Self {
        Self::with(StageOptions::of(source), forms, "").await
    }

    /// `extra` is laid over the router's configuration.
    pub(crate) async fn with(options: StageOptions, forms: &[Form], extra: &str) -> Self {
        Self::on(stage_of(options, forms).await, extra).await
    }

    pub(crate) async fn on(stage: Stage, extra: &str) -> Self {
        let mut router = stage.router(binary(), "router", extra).await.expect("a router");
        router.ready().await.expect("ready");
        let backend = stage.database.client_as("forms_app").await.expect("forms_app");
        let eyes = stage.database.superuser().await.expect("superuser");
        Self { router, stage, backend, eyes, max_attempts: 5 }
    }

    /// Inserts and, where the database does not announce by itself, publishes: as the backend's finalize does.
    pub(crate) async fn submit(&self, seed: &SubmissionSeed) -> Seeded {
        let seeded = seed.insert(&self.backend).await.expect("a row");
        self.stage.announce(seeded.id, "finalized").expect("published");
        seeded
    }

    /// Inserts, and publishes no event.
    pub(crate) async fn unannounced(&self, seed: &SubmissionSeed) -> Seeded {
        self.stage.submit_unannounced(seed, &self.backend).await.expect("a row")
    }

    /// Publishes one more event.
    pub(crate) fn publish(&self, id: Uuid) {
        self.stage.publish(id, "finalized").expect("published");
    }

    pub(crate) async fn row(&self, id: Uuid) -> Row {
        row(&self.eyes, id).await
    }

    /// Waits until it is so.
    pub(crate) async fn until(&self, what: &str, so: impl AsyncFn() -> bool) {
        let came = waiting::until(PATIENCE, STEP, so).await;
        assert!(came, "no {what} after {PATIENCE:?}:\n{}", self.router.log());
    }

    /// Waits until the row is as wanted.
    pub(crate) async fn await_row(&self, id: Uuid, what: &str, wanted: impl Fn(&Row) -> bool) -> Row {
        let look = async || Some(self.row(id).await).filter(&wanted);
        match waiting::find(PATIENCE, STEP, look).await {
            Some(row) => row,
            None => {
                panic!("{id}: no {what} after {PATIENCE:?}: {:?}\n{}", self.row(id).await, self.router.log())
            }
        }
    }

    /// Waits for the end of a submission, and holds it to the laws of the protocol.
    pub(crate) async fn ended(&self, id: Uuid) -> Row {
        let row = self.await_row(id, "end", Row::has_ended).await;
        laws::hold(self, id).await;
        row
    }

    /// The audit trail of a submission, in order.
    pub(crate) async fn audit(&self, id: Uuid) -> Vec<Audited> {
        let trail = Audited::trail(&self.eyes, id).await.expect("audit");
        let ours = |row: &Audited| row.actor.starts_with("maple-router@");
        assert!(trail.iter().all(ours), "every row names its actor");
        trail
    }

    /// Returns the actions alone.
    pub(crate) async fn audited(&self, id: Uuid) -> Vec<String> {
        self.audit(id).await.into_iter().map(|row| row.action).collect()
    }

    /// The router's journal of one submission: the events' names, and the whole lines.
    pub(crate) fn journal(&self, id: Uuid) -> Vec<Value> {
        let id = json!(id.to_string());
        lines(&self.router).into_iter().filter(|line| line["submission_id"] == id).collect()
    }

    /// Waits for a line of the journal.
    pub(crate) async fn await_line(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let look = async || lines(&self.router).into_iter().find(&wanted);
        match waiting::find(PATIENCE, STEP, look).await {
            Some(line) => line,
            None => panic!("no {what} in the journal after {PATIENCE:?}:\n{}", self.router.log()),
        }
    }

    /// Waits until no event is left: every one is settled for good.
    pub(crate) async fn settled(&self) -> devkit::broker::Stats {
        let look = async || {
            let stats = self.stage.events().await.expect("stats");
            Some(stats).filter(|stats| stats.outstanding == 0 && stats.backlog == 0)
        };
        match waiting::find(PATIENCE, STEP, look).await {
            Some(stats) => stats,
            None => panic!("events are left: {:?}", self.stage.events().await),
        }
    }

    /// Takes what came to the dead-letter topic: payloads, once `n` are there.
    pub(crate) async fn dead_letters(&self, n: usize) -> Vec<Vec<u8>> {
        let url = format!("{}/v1/{DEAD_EYES}:pull", self.stage.broker.endpoint());
        let http = reqwest::Client::new();
        let mut found = Vec::new();
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if self.stage.broker.stats(DEAD_EYES).expect("stats").backlog > 0 {
                let pulled = http.post(&url).json(&json!({"maxMessages": 100})).send().await.expect("pulled");
                let pulled: Value = pulled.json().await.expect("JSON");
                for message in pulled["receivedMessages"].as_array().into_iter().flatten() {
                    let data = message["message"]["data"].as_str().unwrap_or_default();
                    found.push(base64::engine::general_purpose::STANDARD.decode(data).expect("base64"));
                }
            }
            if found.len() >= n {
                return found;
            }
            tokio::time::sleep(STEP).await;
        }
        panic!("{} of {n} dead letters", found.len());
    }

    /// SIGTERM; it must end well.
    pub(crate) async fn stop(mut self) {
        let ended = self.router.stop().await.expect("stops");
        assert!(ended.success(), "{ended}\n{}", self.router.log());
    }
}

pub(crate) async fn row(client: &Client, id: Uuid) -> Row {
    Row::read(client, id).await.expect("the row")
}

/// Every line a router has logged so far.
pub(crate) fn lines(router: &Router) -> Vec<Value> {
    let log = router.log();
    // The last line may be half written.
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    whole.lines().map(read).collect()
}

/// A mail's text part and subject, decoded.
pub(crate) fn mail_text(mail: &devkit::smtp::Mail) -> (String, String) {
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).expect("a mail");
    let text = parsed.body_text(0).expect("a text part").into_owned();
    (parsed.subject().unwrap_or_default().to_owned(), text)
}
