//! A guard by which nothing of a server outlives its test: a shell that waits for the test's end of a pipe to close, whatever
//! closes it, and then runs a script that kills the server and removes its directory.
//!
//! The shell is in a process group of its own, so that a signal to a test's group does not kill it.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Dropping it runs the script and waits for its end.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Begins to watch. The script has the words as `$1`, `$2`, …, and this path.
    pub(crate) fn new(script: &str, words: &[&OsStr], path: &str) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("read -r _\n{script}"), "guard"]).args(words);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let child = shell.env_clear().env("PATH", path).process_group(0).spawn();
        Ok(Self(child.context("starting the shell that stops a test's server")?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if self.0.wait().is_err() {
            // The error has no reader; the guard does its work all the same.
        }
    }
}
