//! `maple-router gc run` as a process: started for a turn, looked at while it works, and ended by SIGTERM between two of its pages.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio_postgres::Client;

use crate::bench::{meter, now, tail};

/// Longest time for the page that it is at.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the run that began after this one has purged so far: it writes that down after each page.
const PURGED: &str = "SELECT COALESCE((counts ->> 'purged')::bigint, 0) FROM content.gc_runs WHERE id > $1 ORDER BY id DESC LIMIT 1";

/// A look at the process: what it had purged, and the most memory it had had by then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) purged: u64,
    pub(super) peak_mib: f64,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(super) struct Purge {
    pub(super) purged: u64,
    pub(super) seconds: f64,
    pub(super) seen: Vec<Seen>,
    /// It ended by itself: nothing is left to be purged.
    pub(super) is_over: bool,
    pub(super) wrong: Vec<String>,
}

/// A collector at work. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Collector {
    child: Child,
    pid: u32,
    log: PathBuf,
    began: Instant,
    /// How long it took, once it has ended by itself.
    took: Option<Duration>,
    /// The latest run before this one.
    behind: i64,
    seen: Vec<Seen>,
}

impl Collector {
    /// Starts it with this configuration; its log is in `dir`.
    pub(super) async fn start(
        binary: &Path,
        config: &Path,
        dir: &Path,
        metadata_host: &str,
        eyes: &Client,
    ) -> Result<Self> {
        let latest = "SELECT COALESCE(max(id), 0) FROM content.gc_runs";
        let behind = eyes.query_one(latest, &[]).await?.get(0);
        let log = dir.join("gc.log");
        let began = now();
        let child = Command::new(binary)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("GCE_METADATA_HOST", metadata_host)
            .arg("--config")
            .arg(config)
            .args(["gc", "run", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", binary.display()))?;
        let pid = child.id().context("the collector has ended")?;
        Ok(Self { child, pid, log, began, took: None, behind, seen: Vec::new() })
    }

    /// Looks at its memory and its work; `false`: it has ended by itself.
    pub(super) async fn look(&mut self, eyes: &Client) -> Result<bool> {
        if self.took.is_some() || self.child.try_wait()?.is_some() {
            self.took.get_or_insert(self.began.elapsed());
            return Ok(false);
        }
        let purged: i64 = eyes.query_opt(PURGED, &[&self.behind]).await?.map_or(0, |row| row.get(0));
        // One that has just ended is not there.
        if let Some(kib) = meter::high_water(self.pid) {
            self.seen.push(Seen { purged: u64::try_from(purged)?, peak_mib: kib / 1024.0 });
        }
        Ok(true)
    }

    /// Has it end, unless it has, and returns what it says.
    pub(super) async fn stop(mut self, eyes: &Client) -> Result<Purge> {
        if self.look(eyes).await? {
            kill(Pid::from_raw(i32::try_from(self.pid)?), Signal::SIGTERM)?;
        }
        let Self { child, log, began, took, seen, .. } = self;
        let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
        let output = ended.context("the collector does not end after SIGTERM")??;
        let seconds = took.unwrap_or_else(|| began.elapsed()).as_secs_f64();
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            bail!("the collector ended with {}: {said}\n{}", output.status, tail(&log));
        }
        let said: Value = serde_json::from_str(&said).context("the collector's answer")?;
        let counts = &said["counts"];
        let purged = counts["purged"].as_u64().context("how many were purged")?;
        let mut wrong = Vec::new();
        for what in ["kept", "refused"] {
            let some = &counts[what];
            if some.as_u64() != Some(0) && some.as_object().is_none_or(|by_why| !by_why.is_empty()) {
                wrong.push(format!("the collector says of some whose time has come: {what} {some}"));
            }
        }
        Ok(Purge { purged, seconds, seen, is_over: said["outcome"] == "done", wrong })
    }
}
