//! Python's official clients against our stand-ins, unchanged: other people's code on another gRPC stack is a judge that
//! we did not write. Needs `.venv` at the top of the workspace, which `make python` makes; without it the test fails.

#![allow(clippy::print_stderr, reason = "what the script said belongs to the test's output")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use devkit::broker::Broker;
use tokio::process::Command;
use tokio::time::timeout;

/// Python needs a second or two to import gRPC; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_pubsub_client_works_unchanged() -> Result<()> {
    let broker = Broker::start(([127, 0, 0, 1], 0).into()).await?;
    run("pubsub_client.py", &[("PUBSUB_EMULATOR_HOST", broker.host_port())]).await?;
    let morgue = broker.stats("projects/python/subscriptions/morgue")?;
    ensure!((morgue.acked, morgue.backlog, morgue.outstanding) == (1, 0, 0), "{morgue:?}");
    Ok(())
}

/// Runs a script of `tests/python` and passes its words on.
async fn run(script: &str, environment: &[(&str, String)]) -> Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = here.join("../.venv/bin/python");
    ensure!(python.exists(), "{} is missing; run `make python`", python.display());
    let script = here.join("tests/python").join(script);
    let mut command = Command::new(&python);
    command.arg(&script).stdin(Stdio::null()).kill_on_drop(true);
    // Neither a proxy nor somebody's real credentials have a part in this.
    for variable in
        ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "GOOGLE_APPLICATION_CREDENTIALS"]
    {
        command.env_remove(variable);
    }
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let ended = timeout(PATIENCE, command.output()).await.context("the script did not end")??;
    let (said, complained) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    eprintln!("{said}{complained}");
    ensure!(ended.status.success(), "{} failed: {}\n{complained}", script.display(), ended.status);
    Ok(())
}
