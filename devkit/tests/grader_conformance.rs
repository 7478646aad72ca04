//! OpenAI's own client for Python against the scripted grader and transcriber, unchanged: other people's code says whether what
//! they say is a completion, a transcript, an error. Needs `.venv` at the top of the workspace, which `make python` makes; without
//! it the test fails.

#![allow(clippy::print_stderr, reason = "what the script said belongs to the test's output")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use devkit::grader::{Grading, Hearing, Kind, ScriptedGrader};
use devkit::judge::Mishap;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

/// Python needs a second or two to import it all; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Good samples that the script asks for before it meets a mishap, and recordings likewise.
const GOOD: (usize, usize) = (6, 4);

/// The mishaps, in the order in which the script meets them.
fn mishaps() -> (Vec<Grading>, Vec<Hearing>) {
    let mut gradings = vec![Grading::ByContent; GOOD.0];
    gradings.extend([
        Grading::Mishap(Mishap::RetryAfter(7)),
        Grading::Mishap(Mishap::Status(500)),
        Grading::Cut,
        Grading::ToolCall,
        Grading::Refusal,
        Grading::Prose,
        Grading::UnknownKey,
        Grading::ScoreIs(json!(11)),
        Grading::MissingCriterion,
        Grading::WrongNonce,
        // The slow one.
        Grading::ByContent,
    ]);
    let mut hearings = vec![Hearing::ByContent; GOOD.1];
    hearings.extend([
        Hearing::Mishap(Mishap::RetryAfter(7)),
        Hearing::Mishap(Mishap::Status(500)),
        Hearing::Mishap(Mishap::HalfBody),
        Hearing::Mishap(Mishap::Hang),
    ]);
    (gradings, hearings)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_works_unchanged() -> Result<()> {
    let grader = ScriptedGrader::start().await?;
    let (gradings, hearings) = mishaps();
    for grading in gradings {
        grader.next_grades(1, grading);
    }
    for hearing in hearings {
        grader.next_hears(1, hearing);
    }
    // What is left of the script when the client ends has not been met.
    grader.grade(Grading::Mishap(Mishap::Status(418)));
    grader.hear(Hearing::Mishap(Mishap::Status(418)));
    let key = grader.key().context("a key")?.to_owned();
    run("grader_client.py", &[("GRADER", grader.base_url()), ("GRADER_KEY", key)]).await?;
    let counts = [Kind::Grading, Kind::Chat, Kind::Transcription].map(|kind| grader.calls(kind));
    // Refused requests are counted by what could be read of them.
    ensure!(counts == [17, 3, 16], "{counts:?}");
    ensure!(grader.strayed() == 0, "the library followed a redirect");
    ensure!(grader.has_seen("Dear Anna") && !grader.has_seen("sk-scripted"), "kept are bodies alone");
    ensure!(grader.tokens().prompt > 0 && grader.tokens().completion > 0, "{:?}", grader.tokens());
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
