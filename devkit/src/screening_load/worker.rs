//! `maple-router screen` or `grade` as a process of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::process::{Child, Command};

use crate::bench::{meter, tail};
use crate::stage::Stage;

/// A screener or a grader at work. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    pid: u32,
    verb: &'static str,
    log: PathBuf,
    config: PathBuf,
}

impl Worker {
    /// Starts `verb` under a name, with these further sections.
    pub(crate) fn start(
        binary: &Path,
        stage: &Stage,
        (name, verb): (&str, &'static str),
        settings: &str,
    ) -> Result<Self> {
        let config = stage.write_config(name, &stage.config(name, 1, settings))?;
        let log = stage.dir().join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let child = Command::new(binary)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .arg("--config")
            .arg(&config)
            .arg(verb)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("`{verb}` cannot be started"))?;
        let pid = child.id().with_context(|| format!("`{verb}` has ended"))?;
        Ok(Self { child, pid, verb, log, config })
    }

    /// Its configuration, for verbs.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// Fails where it has ended.
    pub(crate) fn lives(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            bail!("`{}` ended with {status}:\n{}", self.verb, tail(&log));
        }
        Ok(())
    }

    /// Ends it by SIGKILL, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        meter::cpu_seconds(self.pid)
    }

    pub(crate) fn peak_mib(&self) -> Result<f64> {
        meter::peak_mib(self.pid)
    }
}
