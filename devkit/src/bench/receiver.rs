//! Receivers of the mails: `smtp-sink`, which counts them and throws them away, or a real Postfix that does the
//! same after it has written them to its queue.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::meter;
use crate::port::free_port;
use crate::postfix::{Postfix, PostfixOptions};

/// Which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `smtp-sink`
    Sink,
    /// Postfix, whose queue is on the disk; it discards what it has taken.
    Postfix,
}

impl Kind {
    /// Whether this user may start the receiver.
    pub(super) fn can_be_started(self) -> Result<()> {
        ensure!(
            self == Self::Sink || geteuid().is_root(),
            "only root can start a Postfix: RECEIVER=sink, or as root"
        );
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sink => "sink",
            Self::Postfix => "postfix",
        })
    }
}

/// Longest time until the receiver listens.
const PATIENCE: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(20);
/// Looks without a change after which no more mails are awaited: five seconds.
const QUIET: u32 = 250;

/// A receiver of one trial; ends with its value.
#[derive(Debug)]
pub(crate) enum Receiver {
    Sink { child: Box<Child>, port: u16, counters: PathBuf, _dir: TempDir },
    Postfix(Box<Postfix>),
}

impl Receiver {
    pub(crate) async fn start(kind: Kind) -> Result<Self> {
        match kind {
            Kind::Sink => Self::sink().await,
            Kind::Postfix => {
                // Mails are taken, queued with fsync, and then thrown away: the same for every sender.
                let settings =
                    vec![("default_transport", "discard".to_owned()), ("relayhost", String::new())];
                let options = PostfixOptions { settings, ..PostfixOptions::default() };
                Ok(Self::Postfix(Box::new(Postfix::start(9, options).await?)))
            }
        }
    }

    async fn sink() -> Result<Self> {
        let dir = TempDir::with_prefix("maple-bench-sink-")?;
        let counters = dir.path().join("counters");
        let port = free_port()?;
        let mut command = Command::new("/usr/sbin/smtp-sink");
        if geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        command.args(["-c", &format!("127.0.0.1:{port}"), "1024"]);
        command
            .stdin(Stdio::null())
            .stdout(File::create(&counters)?)
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().context("starting smtp-sink (`scripts/install-missing delivery`)")?;
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if let Some(status) = child.try_wait()? {
                bail!("smtp-sink ended with {status}");
            }
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Ok(Self::Sink { child: Box::new(child), port, counters, _dir: dir });
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("smtp-sink does not listen on port {port}")
    }

    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::Sink { port, .. } => *port,
            Self::Postfix(postfix) => postfix.port(),
        }
    }

    /// Processor seconds so far.
    pub(super) fn cpu(&self) -> Result<f64> {
        meter::cpu_seconds(self.pid()?)
    }

    /// The process that the others of the receiver come from.
    pub(super) fn pid(&self) -> Result<u32> {
        Ok(match self {
            Self::Sink { child, .. } => child.id().context("smtp-sink has ended")?,
            Self::Postfix(postfix) => u32::try_from(postfix.master()?.as_raw())?,
        })
    }

    /// Mails taken, once as many as expected are there, or no more come.
    pub(crate) async fn taken(&self, expected: usize) -> Result<usize> {
        let (mut last, mut still) = (self.count()?, 0);
        while last < expected && still < QUIET {
            tokio::time::sleep(STEP).await;
            let count = self.count()?;
            still = if count == last { still + 1 } else { 0 };
            last = count;
        }
        // A surplus mail is as wrong as a missing one.
        tokio::time::sleep(STEP * 10).await;
        self.count()
    }

    fn count(&self) -> Result<usize> {
        match self {
            Self::Sink { counters, .. } => {
                let text = std::fs::read_to_string(counters)?;
                Ok(counter(&text).unwrap_or(0))
            }
            // Logged by cleanup, once a mail.
            Self::Postfix(postfix) => Ok(postfix.log().matches(": message-id=").count()),
        }
    }
}

/// `smtp-sink -c` writes `sess=1 quit=0 mesg=2` and a carriage return, again and again.
fn counter(text: &str) -> Option<usize> {
    let whole = &text[..=text.rfind('\r')?];
    let last = whole.trim_end_matches('\r').rsplit('\r').next()?;
    last.split_whitespace().find_map(|word| word.strip_prefix("mesg="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::counter;

    #[test]
    fn the_last_whole_counter_counts() {
        assert_eq!(counter("sess=1 quit=0 mesg=1\rsess=1 quit=0 mesg=12\rsess=1 quit=0 mes"), Some(12));
        assert_eq!(counter(""), None);
    }
}
