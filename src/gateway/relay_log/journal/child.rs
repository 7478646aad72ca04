//! One run of journalctl, from a cursor to the end of the journal. Dropping it kills the process.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::trouble;
use super::export::{Entry, Export};
use crate::ports::RelayLogError;

/// Longest silence.
const PATIENCE: Duration = Duration::from_secs(60);
const CHUNK: usize = 64 << 10;
/// Bytes kept of the standard error.
const SAID: u64 = 2_048;

/// Start of a run.
#[derive(Debug, Clone, Copy)]
pub(super) enum From<'a> {
    /// The first entry there is.
    Head,
    /// This entry, or the next where it is gone.
    Cursor(&'a str),
    /// The last entries, as many as given.
    Last(u32),
}

/// Result of one step of a run.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// An entry.
    Entry(&'a Entry),
    /// The entry before was the last one.
    End,
}

#[derive(Debug)]
pub(super) struct Run {
    child: Child,
    stdout: ChildStdout,
    stderr: JoinHandle<Vec<u8>>,
    export: Export,
    buffer: Vec<u8>,
    /// Bounds of the buffer's bytes that are not taken yet.
    from: usize,
    until: usize,
    /// Bytes read.
    pub(super) bytes: u64,
}

impl Run {
    pub(super) fn start(
        matches: &[String],
        dir: Option<&Path>,
        from: From<'_>,
    ) -> Result<Self, RelayLogError> {
        let mut command = Command::new("journalctl");
        command.args([
            "--no-pager",
            "--output=export",
            "--output-fields=MESSAGE,SYSLOG_IDENTIFIER,SYSLOG_PID,_PID",
        ]);
        match from {
            From::Head => {}
            From::Cursor(cursor) => {
                command.arg(format!("--cursor={cursor}"));
            }
            From::Last(lines) => {
                command.arg(format!("--lines={lines}"));
            }
        }
        if let Some(dir) = dir {
            command.arg("--directory").arg(dir);
        }
        command
            .args(matches)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let started = command.spawn().and_then(|mut child| {
            let missing = || io::Error::other("no pipe");
            let stdout = child.stdout.take().ok_or_else(missing)?;
            let stderr = child.stderr.take().ok_or_else(missing)?;
            Ok((child, stdout, stderr))
        });
        let (child, stdout, mut stderr) = started.map_err(|error| trouble::no_journalctl(&error))?;
        // Read by a task, so that journalctl never waits for us to read; ends with the child.
        let stderr = tokio::spawn(async move {
            let mut said = Vec::new();
            let mut kept = (&mut stderr).take(SAID);
            if kept.read_to_end(&mut said).await.is_ok() {
                drop(tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await);
            }
            said
        });
        let export = Export::new();
        Ok(Self { child, stdout, stderr, export, buffer: vec![0; CHUNK], from: 0, until: 0, bytes: 0 })
    }

    /// Reads on. After the end there is nothing.
    pub(super) async fn next(&mut self) -> Result<Next<'_>, RelayLogError> {
        loop {
            if self.from == self.until {
                let read = timeout(PATIENCE, self.stdout.read(&mut self.buffer)).await;
                let had = read
                    .map_err(|_| trouble::silent(PATIENCE))?
                    .map_err(|error| trouble::journalctl(&error.to_string()))?;
                if had == 0 {
                    self.finish().await?;
                    return Ok(Next::End);
                }
                (self.from, self.until) = (0, had);
                self.bytes += had as u64;
            }
            let (taken, ended) = self.export.take(&self.buffer[self.from..self.until]);
            self.from += taken;
            if ended {
                return Ok(Next::Entry(self.export.last()));
            }
        }
    }

    async fn finish(&mut self) -> Result<(), RelayLogError> {
        let ended = timeout(PATIENCE, async { (self.child.wait().await, (&mut self.stderr).await) }).await;
        let (status, said) = ended.map_err(|_| trouble::silent(PATIENCE))?;
        let said = said.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let well = status.is_ok_and(|status| status.success());
        // Exit status 0 also when only the journals of this user could be read.
        if well && !said.contains("not seeing messages") { Ok(()) } else { Err(trouble::journalctl(&said)) }
    }
}
