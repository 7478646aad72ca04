//! Parts that every test of the verbs needs.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use devkit::forms::{Form, Seeded, SubmissionSeed};
use devkit::postgres::Variant;
use devkit::stage::{Answer, Stage, StageOptions};
use maple_router::config::Pubsub;
use maple_router::gateway::pubsub::PubsubSettings;
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::ports::EventSource;
use maple_router::routing::event::{self, Parsed, RoutingEvent};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use uuid::Uuid;

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// A stage with these forms only; `audit_readable` as the live database is not.
pub(crate) async fn stage_with(forms: &[Form], audit_readable: bool) -> Stage {
    let variant = Variant { audit_readable, ..Variant::default() };
    let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
    let stage = Stage::start(options).await.expect("a stage");
    devkit::forms::load_into(&stage.database, forms).await.expect("forms");
    stage
}

pub(crate) async fn stage(forms: &[Form]) -> Stage {
    stage_with(forms, true).await
}

pub(crate) async fn seed(stage: &Stage, seed: SubmissionSeed) -> Seeded {
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    seed.insert(&backend).await.expect("a row")
}

pub(crate) async fn run(stage: &Stage, arguments: &[&str]) -> Answer {
    stage.verb(binary(), arguments).await.expect("the verb runs")
}

/// Runs a verb under a configuration with further sections.
pub(crate) async fn run_with(stage: &Stage, extra: &str, arguments: &[&str]) -> Answer {
    let text = stage.config("special", 0, extra);
    run_config(stage, &text, arguments).await
}

/// Runs a verb under this configuration.
pub(crate) async fn run_config(stage: &Stage, text: &str, arguments: &[&str]) -> Answer {
    let config = stage.write_config("special", text).expect("a configuration");
    let output = tokio::process::Command::new(binary())
        .env_clear()
        .env("GCE_METADATA_HOST", stage.google.metadata_host())
        .arg("--config")
        .arg(config)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("the verb runs");
    Answer {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("utf-8"),
        err: String::from_utf8(output.stderr).expect("utf-8"),
    }
}

/// Runs a reading verb that must succeed, and answers its JSON.
pub(crate) async fn json_of(stage: &Stage, arguments: &[&str]) -> Value {
    let answer = run(stage, arguments).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.json().expect("JSON")
}

/// Runs a verb beside a daemon that says it works, and does nothing: rows stay as they were seeded.
pub(crate) async fn run_beside(stage: &Stage, arguments: &[&str]) -> Answer {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let daemon = tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let body = r#"{"ready":true,"reasons":[]}"#;
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let asked = caller.read(&mut request).await;
            let answered = caller.write_all(format!("{head}{body}").as_bytes()).await;
            assert!(asked.is_ok() && answered.is_ok(), "{asked:?} {answered:?}");
        }
    });
    let answer = run_config(stage, &stage.config("special", port, ""), arguments).await;
    daemon.abort();
    answer
}

/// `status --json` beside a daemon that works.
pub(crate) async fn status(stage: &Stage) -> Value {
    let answer = run_beside(stage, &["status", "--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.json().expect("JSON")
}

pub(crate) async fn explained(stage: &Stage, id: Uuid) -> Value {
    let answer = run_beside(stage, &["explain", &id.to_string(), "--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.json().expect("JSON")
}

/// Compares a page with what it was, ids, times and ages made the same everywhere.
pub(crate) fn shown(name: &str, page: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "<TIME>");
    settings.add_filter(r"<maple\.[0-9a-f]{32}\.", "<maple.ID.");
    settings.add_filter(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<ID>");
    settings.add_filter(r"\d+[smhd] ago|in \d+[smhd]", "<AGE>");
    settings.add_filter(r"(\(|changed |written |4711 )now\b", "$1<AGE>");
    settings.add_filter(r"\d+s later", "<SPAN> later");
    settings.add_filter(r"queue id [0-9A-Za-z]+", "queue id <QUEUE>");
    settings.add_filter(r"queued as [0-9A-Za-z]+", "queued as <QUEUE>");
    settings.add_filter(r", [0-9A-F]{8,}", ", <QUEUE>");
    settings.add_filter(r"127\.0\.0\.1:\d+", "<LISTEN>");
    settings.add_filter(r"operator:[\w-]+", "operator:<WHO>");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, page));
}

/// A screen of 24 lines of 100 characters; a command is copied from it, and never broken.
pub(crate) fn fits_a_screen(page: &str) {
    assert!(page.lines().count() <= 24, "{} lines:\n{page}", page.lines().count());
    let fits = |line: &str| line.chars().count() <= 100 || line.trim_start().starts_with("maple-router ");
    assert!(page.lines().all(fits), "{page}");
}

/// The ledger of a row, as the superuser sees it.
pub(crate) async fn ledger(stage: &Stage, id: Uuid) -> Value {
    let client = stage.database.superuser().await.expect("superuser");
    client
        .query_one("SELECT routing_result FROM submissions WHERE id = $1", &[&id])
        .await
        .expect("the row")
        .get(0)
}

/// One mail action of the plan.
pub(crate) fn action(order: i32, destination: &str) -> Value {
    json!({"action_order": order, "action_type": "email_raw", "template_id": null, "template": null,
           "destination": destination, "subject_template": null, "happyfox_category": null})
}

/// Events that wait on the routing subscription.
pub(crate) fn backlog(stage: &Stage) -> usize {
    stage.broker.stats(devkit::stage::SUBSCRIPTION).expect("the subscription").backlog
}

/// Takes the next event of the routing subscription as the daemon would, and acks it.
pub(crate) async fn next_event(stage: &Stage) -> RoutingEvent {
    let config = Pubsub {
        project: devkit::stage::PROJECT.to_owned(),
        subscription: "routing-worker".to_owned(),
        endpoint: Some(stage.broker.endpoint()),
        ..Pubsub::default()
    };
    let settings = PubsubSettings::from_config(&config).expect("settings");
    let mut source = PubsubSource::open(&settings).await.expect("a source");
    let waited = tokio::time::timeout(Duration::from_secs(10), source.next()).await;
    let incoming = waited.expect("an event in time").expect("an event");
    let parsed = event::parse(&incoming.attributes, &incoming.data);
    incoming.settle.ack();
    assert!(Box::new(source).stop(Duration::from_secs(5)).await, "the ack is handed in");
    match parsed {
        Parsed::Event(event) => event,
        Parsed::Canary | Parsed::Poison { .. } => panic!("no routing event"),
    }
}
