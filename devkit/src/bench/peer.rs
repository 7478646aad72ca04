//! The router's peers, as processes: programs of `benches/peers/`, built into `target/peers/`; their environment
//! names all addresses. Each says `ready` on a line of its own once it takes work, and ends at SIGTERM.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::Options;
use super::arena::Trial;
use super::contestant::Contestant;
use crate::stage::{PROJECT, SUBSCRIPTION};

const PATIENCE: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(20);
/// Jobs that a queue works at side by side.
const CONCURRENCY: &str = "50";

/// A running one. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    log: PathBuf,
}

/// Program of a peer, and its role.
struct Program {
    /// Under `target/peers`, or without a slash wherever it is installed.
    file: &'static str,
    /// Under `target/peers`.
    script: Option<&'static str>,
    role: &'static str,
}

impl Program {
    fn of(contestant: Contestant) -> Option<Self> {
        let (file, script, role) = match contestant {
            Contestant::Router | Contestant::RouterPostgres | Contestant::RouterPooled => return None,
            // The backend's own role, as the design document says.
            Contestant::Python => ("python/bin/python", Some("python/worker.py"), "forms_app"),
            // The queues bring a schema of their own.
            Contestant::GraphileJs => ("node", Some("graphile-js/worker.mjs"), "forms_owner"),
            Contestant::GraphileRs => ("graphile-rs/release/graphile-rs", None, "forms_owner"),
            // Built in the other's target directory: they have all crates but two in common.
            Contestant::GraphileRsNodelay => ("graphile-rs/release/graphile-rs-nodelay", None, "forms_owner"),
        };
        Some(Self { file, script, role })
    }
}

/// Whether a contestant that is a peer can be started.
pub(super) fn is_built(options: &Options, contestant: Contestant) -> Result<()> {
    let Some(program) = Program::of(contestant) else { return Ok(()) };
    let built = [Some(program.file).filter(|file| file.contains('/')), program.script];
    for file in built.into_iter().flatten().map(|file| options.peers.join(file)) {
        ensure!(
            file.exists(),
            "{contestant} is not built ({} is missing): `make peers` does it",
            file.display()
        );
    }
    Ok(())
}

impl Peer {
    pub(super) async fn start(options: &Options, trial: &Trial, contestant: Contestant) -> Result<Self> {
        let log = trial.stage.dir().join(format!("{contestant}.log"));
        let out = std::fs::File::create(&log)?;
        let program = Program::of(contestant).with_context(|| format!("{contestant} is no peer"))?;
        let file = program.file;
        let path = if file.contains('/') { options.peers.join(file) } else { PathBuf::from(file) };
        let role = program.role;
        let mut command = Command::new(&path);
        command
            .args(program.script.map(|script| options.peers.join(script)))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", trial.stage.dir())
            .env("DATABASE_URL", trial.stage.database.url_as(role))
            .env("PGHOST", &trial.stage.database.endpoint().socket_dir)
            .env("PGPORT", trial.stage.database.endpoint().socket_port.to_string())
            .env("PGUSER", role)
            .env("PGDATABASE", trial.stage.database.name())
            .env("SMTP_PORT", trial.receiver.port().to_string())
            .env("MAIL_FROM", "gpus-it-security@greenpeace.org")
            .env("SIGNER_KEY_FILE", &trial.key_file)
            .env("STORAGE_ENDPOINT", trial.stage.google.storage_endpoint())
            .env("PUBSUB_EMULATOR_HOST", trial.stage.broker.host_port())
            .env("PUBSUB_PROJECT", PROJECT)
            .env("PUBSUB_SUBSCRIPTION", SUBSCRIPTION)
            .env("CONCURRENCY", CONCURRENCY)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("starting {contestant} ({})", path.display()))?;
        let mut peer = Self { child, log };
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            peer.still_runs()?;
            if peer.said().lines().any(|line| line == "ready") {
                return Ok(peer);
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("{contestant} is not ready after {PATIENCE:?}:\n{}", tail(&peer.said()))
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(super) fn still_runs(&mut self) -> Result<()> {
        let end = self.child.try_wait()?;
        ensure!(end.is_none(), "it ended ({end:?}):\n{}", tail(&self.said()));
        Ok(())
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        let pid = self.child.id().context("it has ended")?;
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        if tokio::time::timeout(Duration::from_secs(20), self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

/// The end of a log, for the reader of a failure.
pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().rev().take(12).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
