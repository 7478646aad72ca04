//! Other people's judges of the API and its description: openapi-spec-validator, and schemathesis, which makes requests of the
//! description, good ones and bad ones, and holds each answer against it. Need `.venv` at the top of the workspace, which `make python`
//! makes; without it the tests fail.

#![allow(clippy::print_stderr, reason = "what they said belongs to the test's output")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use maple_router::desk::api::description;
use serde_json::json;
use tokio::process::Command;

use super::bench::Api;
use crate::harness::HOST;

/// Time for Python to begin, and for a busy machine; schemathesis itself has a minute.
const PATIENCE: Duration = Duration::from_secs(300);

/// A program of `.venv`, without what a host's settings would add.
fn python(program: &str) -> Command {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin").join(program);
    assert!(path.exists(), "{} is missing; run `make python`", path.display());
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).kill_on_drop(true);
    for variable in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
        command.env_remove(variable);
    }
    command
}

async fn succeeds(mut command: Command) {
    let ended = tokio::time::timeout(PATIENCE, command.output()).await.expect("in time").expect("it runs");
    eprintln!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}", ended.status);
}

#[tokio::test]
async fn the_description_is_a_valid_openapi_3_1_document() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("openapi.json");
    std::fs::write(&path, serde_json::to_vec(&description()).expect("a document")).expect("written");
    let mut command = python("python");
    command.args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(&path);
    succeeds(command).await;
}

/// A stream does not end, so schemathesis would wait for it: [`super::live`] reads it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing() {
    let api = Api::graded(|_| ()).await;
    api.many(20).await;
    let (work, attempt) = api.bench.work("a text").await;
    let (_, run) = api.screened_submission("a").await;
    let seen = api.reviewed("ada").await;
    let (closed, _) = api.done("rita", api.pending().await, "dismiss", json!({"reason": "spam"})).await;
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("schemathesis.toml");
    // What is well said may still not be possible. A cursor is one that a page gave, and a bulk names its entries in one of two ways: these
    // rules are no schema's.
    let settings = format!(
        r#"
[parameters]
"path.id" = ["{}", "{}", "{}", "{run}"]
"path.submission" = ["{work}", "{attempt}", "{run}"]

[checks]
positive_data_acceptance.expected-statuses = ["2xx", "403", "404", "409", "412", "422", "428"]
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "409", "412", "413", "415", "422", "428"]

[[operations]]
include-path = ["/api/grey-queue", "/api/grey-queue/bulk"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "409", "422"]
"#,
        seen.id,
        closed.id,
        uuid::Uuid::nil()
    );
    std::fs::write(&config, settings).expect("written");
    let mut command = python("schemathesis");
    command
        .current_dir(dir.path())
        .arg("--config-file")
        .arg(&config)
        .args(["run", &format!("{}/api/openapi.json", api.desk.base)])
        .args(["--header", &format!("Host: {HOST}")])
        .args(["--header", &format!("Authorization: Bearer {}", api.token("ada"))])
        .args(["--exclude-path", "/api/grey-queue/changes"])
        .args(["--exclude-path", "/api/assessments/{submission}/events"])
        .args(["--checks", "all", "--max-examples", "15", "--max-time", "60", "--seed", "17"])
        .args(["--max-failures", "20", "--continue-on-failure", "--no-color"]);
    succeeds(command).await;
}
