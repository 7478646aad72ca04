//! `maple-router` as a real process: started, asked over HTTP, signalled, and read.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::Stage;

/// Longest time for a router to be ready, or to end, before a test calls it a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running router. Dropping it kills it (SIGKILL).
#[derive(Debug)]
pub struct Router {
    child: Child,
    address: String,
    log: PathBuf,
    config: PathBuf,
    /// Made once: it is asked every few milliseconds, and making one reads every certificate of the system.
    http: reqwest::Client,
}

impl Router {
    pub(super) async fn start(
        stage: &Stage,
        binary: &Path,
        name: &str,
        extra: &str,
        port: u16,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let config = stage.write_config(name, &stage.config(name, port, extra))?;
        let log = stage.dir().join(format!("{name}.log"));
        let out = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let child = command(stage, binary, &config)
            .arg("run")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("{} cannot be started", binary.display()))?;
        // Loopback is nobody's proxy's business.
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { child, address: format!("127.0.0.1:{port}"), log, config, http })
    }

    /// Waits until `/-/ready` answers 200.
    ///
    /// # Errors
    /// The router ended, or did not become ready; the error has its log.
    pub async fn ready(&mut self) -> Result<()> {
        const STEP: Duration = Duration::from_millis(10);
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the router ended with {status} before it was ready:\n{}", self.log());
            }
            if self.get("/-/ready").await.is_ok_and(|(code, _)| code == 200) {
                return Ok(());
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("the router is not ready after {PATIENCE:?}:\n{}", self.log())
    }

    /// Asks the loopback endpoint; returns status and body.
    ///
    /// # Errors
    /// The port refuses connections.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        let answer = self.http.get(format!("http://{}{path}", self.address)).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Returns one metric's value, by its whole name with labels, e.g. `maple_router_submissions_total{outcome="routed"}`.
    ///
    /// # Errors
    /// The port refuses connections.
    pub async fn metric(&self, series: &str) -> Result<Option<f64>> {
        let (_, body) = self.get("/metrics").await?;
        Ok(body.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok()))
    }

    /// Contents of the log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Path of the log.
    #[must_use]
    pub fn log_file(&self) -> &Path {
        &self.log
    }

    /// Returns the exit status, where the process has ended.
    ///
    /// # Errors
    /// The system does not say.
    pub fn end(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Path of the configuration file.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Address of its loopback endpoint.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a signal by name (`TERM`, `INT`, `KILL`, `STOP`, `CONT`, `HUP`). The signal is sent at once: on a busy
    /// machine a kill(1) of one's own comes when the moment it was meant for is over.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn signal(&self, name: &str) -> Result<()> {
        let pid = self.child.id().context("the router has ended")?;
        let signal: Signal = format!("SIG{name}").parse()?;
        kill(Pid::from_raw(i32::try_from(pid)?), signal).with_context(|| format!("{signal} to {pid}"))
    }

    /// SIGSTOP, and stands still: every thread of it, because the signal is only on its way when it is sent. SIGCONT
    /// lets it go on.
    ///
    /// # Errors
    /// The process has ended, or does not stand still.
    pub async fn freeze(&self) -> Result<()> {
        let pid = self.child.id().context("the router has ended")?;
        self.signal("STOP").await?;
        for _ in 0..500 {
            if stands_still(pid)? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("process {pid} does not stand still after SIGSTOP")
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The process does not end.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("the router did not end within {PATIENCE:?}:\n{}", self.log()),
        }
    }

    /// SIGTERM, and the end.
    ///
    /// # Errors
    /// The process does not end.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.signal("TERM").await?;
        self.ended().await
    }
}

/// A verb's output and exit.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Answer {
    pub(super) async fn of(stage: &Stage, binary: &Path, config: &Path, arguments: &[&str]) -> Result<Self> {
        let output = command(stage, binary, config).args(arguments).stdin(Stdio::null()).output().await?;
        Ok(Self::from(output))
    }

    /// Standard output as JSON.
    ///
    /// # Errors
    /// The output is no JSON; the error has both streams.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.out).with_context(|| format!("no JSON: {self:?}"))
    }
}

/// The binary with a clean environment: only what a service would have, and where the metadata server is.
fn command(stage: &Stage, binary: &Path, config: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GCE_METADATA_HOST", stage.google.metadata_host())
        .env("RUST_BACKTRACE", "1")
        .arg("--config")
        .arg(config)
        .kill_on_drop(true);
    command
}

/// Whether every thread of a process is stopped (proc(5): the field after the name in parentheses).
fn stands_still(pid: u32) -> Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(thread?.path().join("stat"))?;
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        if state != Some('T') {
            return Ok(false);
        }
    }
    Ok(true)
}
