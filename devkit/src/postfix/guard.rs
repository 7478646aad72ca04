//! A guard by which nothing of an instance outlives its test: a shell that waits for the test's end of a pipe to
//! close, whatever closes it, and then kills Postfix and removes its directory.
//!
//! The shell is in a process group of its own, so that a signal to a test's group does not kill it. It touches no
//! process but the `master` that has the lock of this very queue, and that one's group.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Arguments: the instance's directory, and Postfix's `master`. `master -t` succeeds where nobody holds the lock; a pid in
/// the file alone may be anybody's by now. A start that is still going on finds no configuration any more.
const SCRIPT: &str = r#"
read -r _
"$2" -c "$1/etc" -t 2>/dev/null || {
    master=$(sed 1q "$1/spool/pid/master.pid" | tr -d ' ')
    [ -z "$master" ] || kill -KILL "-$master"
}
rm -rf "$1"
rm -rf "$1"
"#;

/// Dropping it stops the instance and waits for that.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Watches over the instance in this directory.
    pub(super) fn over(root: &Path) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "guard"]).arg(root).arg(Path::new(super::DAEMONS).join("master"));
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let child = shell.env_clear().env("PATH", super::PATH).process_group(0).spawn();
        Ok(Self(child.context("starting the shell that stops a test's Postfix")?))
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
