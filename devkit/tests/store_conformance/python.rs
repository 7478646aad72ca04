//! Google's storage library for Python, as its users run it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use devkit::google::{Call, Right};
use tokio::process::Command;
use tokio::time::timeout;

use crate::world::{CONTENT, STAGING, World};

/// Python needs a second or two to import it all; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_library_works_unchanged() -> Result<()> {
    let world = World::new().await;
    let collector = "collector@maple-dev.iam.gserviceaccount.com";
    world.google.add_account(collector)?;
    world.google.grant(collector, STAGING, &[Right::Get, Right::List, Right::Delete]);
    world.google.set_rewrite_round(3 << 20);
    let environment = [
        ("GCE_METADATA_HOST", world.google.metadata_host()),
        ("STORE", world.google.storage_endpoint()),
        ("COLLECTOR_KEY", world.key_file(collector).display().to_string()),
    ];
    python("storage_client.py", &[], &environment).await?;
    ensure!(world.google.uploads(STAGING).is_empty(), "{:?}", world.google.uploads(STAGING));
    let left: Vec<String> = world.google.objects(CONTENT).into_iter().map(|object| object.name).collect();
    ensure!(left == ["blobs/1"], "{left:?}");
    for call in [
        Call::Initiate,
        Call::Part,
        Call::Complete,
        Call::Abort,
        Call::Rewrite,
        Call::List,
        Call::Bucket,
        Call::Permissions,
    ] {
        ensure!(world.google.calls(call) > 0, "{call:?} was never called");
    }
    Ok(())
}

/// Runs a script of `tests/python`; what it said.
pub(crate) async fn python(
    script: &str,
    arguments: &[&str],
    environment: &[(&str, String)],
) -> Result<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = here.join("../.venv/bin/python");
    ensure!(python.exists(), "{} is missing; run `make python`", python.display());
    let script = here.join("tests/python").join(script);
    let mut command = Command::new(&python);
    command.arg(&script).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
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
    Ok(said.into_owned())
}
