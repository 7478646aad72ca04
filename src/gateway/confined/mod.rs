//! A child of this very program that may do nothing but answer one question: for what reads hostile bytes.
//!
//! It is started from `/proc/self/exe`, which stays what it is while a package is upgraded, with no environment, and [`child::confine`]s
//! itself before it reads a byte. Dropping an answer that is awaited kills it. Nothing that it writes to its standard error is read: that
//! may quote what it was given.

pub mod child;

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Bytes of an answer.
pub const LONGEST_ANSWER: u64 = 1 << 20;

/// How children are started.
#[derive(Debug, Clone)]
pub struct Confined {
    /// The program.
    pub program: PathBuf,
    /// Time from its start to the end of its answer.
    pub wall: Duration,
}

/// Why there is no answer. Nothing of what the child said or was asked is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfinedError {
    /// There is no process.
    #[error(
        "the confined process cannot be started ({0}): are there processes and memory left for this unit (systemd-cgtop)?"
    )]
    Start(io::ErrorKind),
    /// It gave no answer in time.
    #[error("the confined process gave no answer within {} s, and was ended", .0.as_secs())]
    Late(Duration),
    /// It said more than an answer has.
    #[error("the confined process says more than an answer has")]
    TooLong,
    /// A signal ended it: 31 for a system call that it may not make, 24 for its processor time, 6 for its memory.
    #[error("the confined process ended by signal {0}")]
    Signal(i32),
    /// It gave up.
    #[error("the confined process gave up with status {0}")]
    Status(i32),
}

impl Confined {
    /// Children of the program that runs.
    #[must_use]
    pub fn own(wall: Duration) -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), wall }
    }

    /// The answer to a question, by the verb that reads it.
    ///
    /// # Errors
    /// [`ConfinedError`]; the child is gone then.
    pub async fn ask(&self, verb: &str, question: Vec<u8>) -> Result<Vec<u8>, ConfinedError> {
        let asked = tokio::time::timeout(self.wall, self.asked(verb.as_ref(), question));
        asked.await.unwrap_or(Err(ConfinedError::Late(self.wall)))
    }

    async fn asked(&self, verb: &OsStr, question: Vec<u8>) -> Result<Vec<u8>, ConfinedError> {
        let start = |error: io::Error| ConfinedError::Start(error.kind());
        let mut child = Command::new(&self.program)
            .arg(verb)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(start)?;
        let no_pipe = || ConfinedError::Start(io::ErrorKind::BrokenPipe);
        let mut input = child.stdin.take().ok_or_else(no_pipe)?;
        let mut output = child.stdout.take().ok_or_else(no_pipe)?.take(LONGEST_ANSWER + 1);
        let say = async {
            // Whoever ends without reading says by its end why.
            drop(input.write_all(&question).await);
            drop(input);
        };
        let mut answer = Vec::new();
        let (read, ()) = tokio::join!(output.read_to_end(&mut answer), say);
        if answer.len() as u64 > LONGEST_ANSWER {
            return Err(ConfinedError::TooLong);
        }
        read.map_err(start)?;
        let status = child.wait().await.map_err(start)?;
        match (status.signal(), status.code()) {
            (None, Some(0)) => Ok(answer),
            (None, Some(code)) => Err(ConfinedError::Status(code)),
            (signal, _) => Err(ConfinedError::Signal(signal.unwrap_or_default())),
        }
    }
}
