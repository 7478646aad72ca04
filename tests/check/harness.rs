//! A healthy set-up, the binary run on it, and what changed between two runs of `check`.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use devkit::forms::Form;
use devkit::stage::{Stage, StageOptions};
use serde_json::Value;

/// Every line, in the order of the interfaces page.
pub(crate) const NAMES: [&str; 35] = [
    "config",
    "database",
    "schema",
    "audit_values",
    "grants",
    "rls_attachments",
    "updated_at_trigger",
    "router_schema",
    "grey_queue",
    "uploads",
    "versions",
    "retention",
    "history",
    "screening",
    "grading",
    "subscription",
    "dead_letter",
    "relay",
    "relay_log",
    "bounces",
    "desk",
    "signing",
    "link",
    "upload_buckets",
    "scanner",
    "policy",
    "collector",
    "grader",
    "grading_judge",
    "grading_stt",
    "grading_calibration",
    "grading_topics",
    "secrets",
    "slack",
    "forms",
];

/// The binary under test.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// Settings of a healthy set-up.
pub(crate) fn options() -> StageOptions {
    StageOptions { sample_forms: false, ..StageOptions::default() }
}

/// A set-up about which `check` has nothing to say, with one form.
pub(crate) async fn healthy() -> Stage {
    set_up(Stage::start(options()).await.expect("a stage")).await
}

/// Does an operator's part: Pub/Sub provisioned, a form loaded.
pub(crate) async fn set_up(stage: Stage) -> Stage {
    let provisioned = verb(&stage, &config(&stage), &["provision"]).await;
    assert_eq!(provisioned.code, 0, "{provisioned:?}");
    let form = Form::new("contact").mail_to("a@example.org");
    devkit::forms::load_into(&stage.database, &[form]).await.expect("a form");
    stage
}

/// The configuration of a healthy set-up.
pub(crate) fn config(stage: &Stage) -> String {
    stage
        .config("check", 0, "[routing]\nnot_before = 2026-01-01T00:00:00Z\n")
        .replace("127.0.0.1:0\"", "127.0.0.1:9464\"")
        .replace("signer = \"metadata\"", "signer = \"metadata\"\nttl = \"12h\"")
}

/// The binary's output.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Both streams.
    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// The binary with a clean environment and these variables.
pub(crate) async fn bare(arguments: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut command = tokio::process::Command::new(binary());
    command.env_clear().envs(variables.iter().copied()).args(arguments).stdin(Stdio::null());
    let output = tokio::time::timeout(Duration::from_secs(60), command.kill_on_drop(true).output()).await;
    Said::of(&output.expect("it ends").expect("it runs"))
}

/// A verb with this configuration, on this stage.
pub(crate) async fn verb(stage: &Stage, config: &str, arguments: &[&str]) -> Said {
    let path = stage.write_config("check", config).expect("a configuration");
    let mut all = vec!["--config", path.to_str().expect("utf-8")];
    all.extend(arguments);
    bare(&all, &[("GCE_METADATA_HOST", &stage.google.metadata_host())]).await
}

/// Findings of `check --json`.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) code: i32,
    pub(crate) ok: bool,
    pub(crate) lines: Vec<Value>,
}

pub(crate) async fn check(stage: &Stage, config: &str) -> Report {
    report(&verb(stage, config, &["check", "--json"]).await)
}

pub(crate) fn report(said: &Said) -> Report {
    let json = said.json();
    let ok = json["ok"].as_bool().expect("ok");
    let lines = json["lines"].as_array().expect("lines").clone();
    let report = Report { code: said.code, ok, lines };
    for line in &report.lines {
        let well = line["level"] == "ok";
        assert_eq!(line["remedy"].is_null(), well, "a remedy where one is needed: {line}");
        assert!(line["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{line}");
    }
    report
}

impl Report {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.lines.iter().map(|line| line["name"].as_str().expect("a name")).collect()
    }

    pub(crate) fn line(&self, name: &str) -> &Value {
        self.lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no line {name}"))
    }

    pub(crate) fn detail(&self, name: &str) -> &str {
        self.line(name)["detail"].as_str().unwrap_or_default()
    }

    pub(crate) fn remedy(&self, name: &str) -> &str {
        self.line(name)["remedy"].as_str().unwrap_or_default()
    }

    /// Name and level of the lines that are not as in `before`; both must have every line once and in order.
    pub(crate) fn changes(&self, before: &Self) -> Vec<(&str, &str)> {
        assert_eq!(before.names(), NAMES, "{before:#?}");
        assert_eq!(self.names(), NAMES, "{self:#?}");
        let pairs = self.lines.iter().zip(&before.lines);
        pairs
            .filter(|(now, then)| now["level"] != then["level"])
            .map(|(now, _)| {
                (now["name"].as_str().unwrap_or_default(), now["level"].as_str().unwrap_or_default())
            })
            .collect()
    }
}
