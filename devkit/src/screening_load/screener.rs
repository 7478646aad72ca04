//! `maple-router screen` as a process of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::process::{Child, Command};

use super::Options;
use crate::bench::{meter, tail};
use crate::stage::Stage;

/// A screener at work. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Screener {
    child: Child,
    pid: u32,
    log: PathBuf,
    config: PathBuf,
}

impl Screener {
    /// Starts it with these further sections.
    pub(super) fn start(options: &Options, stage: &Stage, settings: &str) -> Result<Self> {
        let extra = format!(
            "[screening]\nmode = \"on\"\nscreener_url = \"{}\"\n{settings}",
            stage.database.url_as("maple_screener")
        );
        let config = stage.write_config("screener", &stage.config("screener", 1, &extra))?;
        let log = stage.dir().join("screener.log");
        let file = File::create(&log)?;
        let child = Command::new(&options.binary)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .arg("--config")
            .arg(&config)
            .arg("screen")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .context("the screener cannot be started")?;
        let pid = child.id().context("the screener has ended")?;
        Ok(Self { child, pid, log, config })
    }

    /// Its configuration, for verbs.
    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    /// Fails where it has ended.
    pub(super) fn lives(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            bail!("the screener ended with {status}:\n{}", tail(&log));
        }
        Ok(())
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        meter::cpu_seconds(self.pid)
    }

    pub(super) fn peak_mib(&self) -> Result<f64> {
        meter::peak_mib(self.pid)
    }
}
