//! Other people's judges of the API and its description: openapi-spec-validator, and schemathesis, which makes requests of the
//! description, good ones and bad ones, and holds each answer against it; with the backend's key, and with a session's token. Need `.venv`
//! at the top of the workspace, which `make python` makes; without it the tests fail.

#![allow(clippy::print_stderr, reason = "what they said belongs to the test's output")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use maple_router::uploads::api::description;
use serde_json::json;
use tokio::process::Command;
use uuid::Uuid;

use crate::harness::{KEY, Scene, Session, text};

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

/// Runs schemathesis with a credential on sessions that it may know.
async fn schemathesis(scene: &Scene, credential: &str, sessions: &[Uuid]) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("schemathesis.toml");
    let ids: Vec<String> = sessions.iter().map(Uuid::to_string).collect();
    // What is well said may still not be possible, nor be this session's, nor fit among its owner's. To a schema 3.0 is a whole number;
    // here a whole number is written without a point. A session that was ended is still shown: whoever has its token learns why.
    let settings = format!(
        r#"
[dictionaries.ids]
values = {ids:?}

[dictionaries.waits]
values = [0, 1]

[parameters]
"path.id" = {{ dictionary = "ids", probability = 0.9 }}
"query.wait" = {{ dictionary = "waits", probability = 0.9 }}

[checks]
use_after_free.enabled = false
positive_data_acceptance.expected-statuses = ["2xx", "401", "404", "409", "410", "413", "415", "422", "429"]
negative_data_rejection.expected-statuses = ["400", "401", "404", "405", "409", "410", "413", "415", "422", "428", "429"]

[[operations]]
include-path = ["/v1/uploads", "/v1/uploads/{{id}}/parts"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "404", "409", "410", "413", "415", "422", "429"]
"#
    );
    std::fs::write(&config, settings).expect("written");
    let mut command = python("schemathesis");
    command
        .current_dir(dir.path())
        .arg("--config-file")
        .arg(&config)
        .args(["run", &format!("{}/v1/openapi.json", scene.base)])
        .args(["--header", &format!("Authorization: Bearer {credential}")])
        // A session that was ended is still shown: whoever has its token learns why.
        .args(["--checks", "all", "--exclude-checks", "use_after_free"])
        // Whoever asks to wait waits: up to 20 seconds.
        .args(["--max-response-time", "25"])
        .args(["--request-timeout", "30", "--max-examples", "15", "--max-time", "60", "--seed", "17"])
        .args(["--max-failures", "20", "--continue-on-failure", "--no-color"]);
    succeeds(command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing_with_the_backends_key() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let content = text(100);
    let (done, _) = scene.bring(&content, json!({})).await;
    let open = scene.session(&content, json!({})).await;
    // One is drawn for each request, as long as there is time: the open one mostly, so that it is met on a slow machine as well.
    schemathesis(&scene, KEY, &[done.id, open.id, open.id, open.id, open.id]).await;
    was_asked(&scene, &open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing_with_a_sessions_token() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let open = scene.session(&text(100), json!({})).await;
    schemathesis(&scene, &open.token, &[open.id]).await;
    was_asked(&scene, &open).await;
}

/// Whether the session was met at all: whoever asks for links, or ends it, changes its state.
async fn was_asked(scene: &Scene, session: &Session) {
    let shown = scene.of(session, reqwest::Method::GET, "", None).await;
    assert!(
        ["parts_uploading", "aborted"].contains(&shown.body["state"].as_str().unwrap_or_default()),
        "{}",
        shown.text
    );
}
