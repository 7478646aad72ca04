//! OpenAI's own client for Python against the scripted judge, unchanged: other people's code says whether what the judge says
//! is a completion, an error, a stop. Needs `.venv` at the top of the workspace, which `make python` makes; without it the
//! test fails.

#![allow(clippy::print_stderr, reason = "what the script said belongs to the test's output")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use devkit::judge::{Mode, ScriptedJudge};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

/// Python needs a second or two to import it all; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Questions of the script: seven good ones, ten that are refused, and one for each mishap.
const QUESTIONS: u64 = 40;

/// The mishaps, in the order in which the script meets them; before them it asks seven good questions.
fn mishaps() -> Vec<Mode> {
    let mut modes = vec![Mode::ByContent; 7];
    modes.extend([
        Mode::RetryAfter(7),
        // One that the library repeats.
        Mode::RetryAfter(1),
        Mode::ByContent,
        Mode::Status(500),
        Mode::Page,
        Mode::Status(403),
        Mode::ContextLength,
        Mode::Filtered,
        Mode::HalfBody,
        Mode::Disconnect,
        Mode::Hang,
        Mode::Slow(Duration::from_millis(300)),
        Mode::ToolCall,
        Mode::Refusal,
        Mode::NoChoices,
        Mode::TwoChoices,
        Mode::NullContent,
        Mode::Cut,
        Mode::Prose,
        Mode::NoScore,
        Mode::UnknownKey,
        Mode::ScoreIs(json!(101)),
        Mode::Redirect,
    ]);
    modes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_works_unchanged() -> Result<()> {
    let judge = ScriptedJudge::start().await?;
    for mode in mishaps() {
        judge.next(1, mode);
    }
    // What is left of the script when the client ends has not been met.
    judge.set(Mode::Status(418));
    let key = judge.key().context("a key")?.to_owned();
    run("judge_client.py", &[("JUDGE", judge.base_url()), ("JUDGE_KEY", key)]).await?;
    ensure!(judge.requests() == QUESTIONS, "{} questions", judge.requests());
    ensure!(judge.strayed() == 1, "the library followed the redirect {} times", judge.strayed());
    ensure!(judge.has_seen("Win at our casino") && !judge.has_seen("sk-scripted"), "kept are bodies alone");
    ensure!(judge.tokens().prompt > 0 && judge.tokens().completion > 0, "{:?}", judge.tokens());
    Ok(())
}

/// Runs a script of `tests/python` and passes its words on.
async fn run(script: &str, environment: &[(&str, String)]) -> Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = here.join("../.venv/bin/python");
    ensure!(python.exists(), "{} is missing; run `make python`", python.display());
    let script = here.join("tests/python").join(script);
    let mut command = Command::new(&python);
    command.arg("-B").arg(&script).stdin(Stdio::null()).kill_on_drop(true);
    // Neither a proxy nor somebody's real credentials have a part in this.
    for variable in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(variable);
    }
    for variable in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"] {
        command.env_remove(variable);
    }
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let ended = timeout(PATIENCE, command.output()).await.context("the script did not end")??;
    let (said, complained) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    eprintln!("{said}{complained}");
    ensure!(ended.status.success(), "{} failed: {}\n{complained}", script.display(), ended.status);
    Ok(())
}
