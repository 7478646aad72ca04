//! One run of git: with no configuration, no terminal and no more than its bounds, in a process group of its own.
//!
//! Dropping a run kills the whole group. A run that ended well has no process left: its outputs were read to their ends, which
//! come when the last process that has them is gone, and only then is its leader reaped; until then the group's number is nobody
//! else's.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::GitSettings;
use super::classify::{Ended, Step, classify};
use super::fault::{GitError, OurFault};
use super::work_dir::WorkDir;

/// Bytes kept of the standard error.
const SAID: u64 = 8 << 10;

/// Settings in place of all files of configuration; they go on to the processes that git starts.
const CONFIGURATION: &[&str] = &[
    "http.followRedirects=false",
    "http.sslVerify=true",
    "http.sslVersion=tlsv1.2",
    "http.version=HTTP/1.1",
    "http.proxy=",
    "http.cookieFile=",
    "http.saveCookies=false",
    "http.emptyAuth=false",
    "credential.helper=",
    // A fetch whose router was killed ends by itself.
    "http.lowSpeedLimit=64",
    "http.lowSpeedTime=15",
    "protocol.version=2",
    "fetch.fsckObjects=true",
    "transfer.fsckObjects=true",
    "transfer.bundleURI=false",
    "fetch.uriProtocols=",
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=false",
    "core.commitGraph=false",
    "core.multiPackIndex=false",
    // Larger blobs are streamed: neither fsck nor reading needs memory for them.
    "core.bigFileThreshold=1m",
    "core.packedGitWindowSize=16m",
    "core.packedGitLimit=64m",
    "core.deltaBaseCacheLimit=16m",
    "pack.threads=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "advice.detachedHead=false",
];

/// A run of git.
#[derive(Debug)]
pub(super) struct Run {
    child: Child,
    /// The group, which has its leader's number; none once the leader is reaped.
    group: Option<Pid>,
    step: Step,
    stderr: JoinHandle<Vec<u8>>,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: BufReader<ChildStdout>,
}

impl Run {
    /// Starts git in the directory of its fetch.
    pub(super) fn start<A: AsRef<OsStr>>(
        settings: &GitSettings,
        dir: &WorkDir,
        step: Step,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self, GitError> {
        let mut command = bounded(settings);
        surround(&mut command, settings, dir.path());
        command.args(args);
        let started = command.spawn().and_then(|mut child| {
            let missing = || io::Error::other("no pipe");
            let stdin = child.stdin.take();
            let stdout = child.stdout.take().ok_or_else(missing)?;
            let stderr = child.stderr.take().ok_or_else(missing)?;
            Ok((child, stdin, stdout, stderr))
        });
        let (child, stdin, stdout, stderr) = started.map_err(|error| fault(&error))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        // Read by a task, so that git never waits for us to read; ends with the group.
        let stderr = tokio::spawn(first(stderr));
        Ok(Self { child, group, step, stderr, stdin, stdout: BufReader::new(stdout) })
    }

    /// Waits for the end of a run whose output is not wanted any further.
    pub(super) async fn finish(mut self) -> Result<(), GitError> {
        self.stdin = None;
        drop(tokio::io::copy(&mut self.stdout, &mut tokio::io::sink()).await);
        let said = (&mut self.stderr).await.unwrap_or_default();
        let status = self.child.wait().await;
        self.group = None;
        let Ok(status) = status else { return Err(GitError::Ours(OurFault::Killed)) };
        if status.success() {
            return Ok(());
        }
        Err(classify(&Ended { step: self.step, signal: status.signal(), said: &said }))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // It fails only where the group is gone. tokio reaps the leader, which is killed on drop, and init the others.
            killpg(group, Signal::SIGKILL).ok();
        }
    }
}

/// prlimit, which becomes git once the bounds are set.
fn bounded(settings: &GitSettings) -> Command {
    let limits = &settings.limits;
    let mut command = Command::new(&settings.prlimit);
    // Behind the soft limit of processor time a hard one: the first is told by its signal, the second cannot be ignored.
    command
        .arg(format!("--as={}", limits.address_space))
        .arg(format!("--cpu={}:{}", limits.cpu, limits.cpu.saturating_add(2)))
        .arg(format!("--fsize={}", limits.packs))
        .arg(format!("--nofile={}", limits.open_files))
        .arg("--core=0")
        .arg(&settings.git)
        .arg("--no-pager");
    for setting in CONFIGURATION {
        command.arg("-c").arg(setting);
    }
    command
}

fn surround(command: &mut Command, settings: &GitSettings, dir: &Path) {
    let protocols = if settings.allow_insecure_hosts { "https:http" } else { "https" };
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C")
        // An empty home: curl looks for .netrc there, or where the user's entry says.
        .env("HOME", dir)
        .env("XDG_CONFIG_HOME", dir)
        .env("TMPDIR", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_LITERAL_PATHSPECS", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "/bin/false")
        .env("SSH_ASKPASS", "/bin/false")
        .env("GIT_ALLOW_PROTOCOL", protocols)
        // No repository above is looked for, whose configuration would be read.
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir))
        .current_dir(dir)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(file) = &settings.ca_file {
        command.env("GIT_SSL_CAINFO", file);
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other kind is one of starting processes")]
fn fault(error: &io::Error) -> GitError {
    GitError::Ours(match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => OurFault::NoPrlimit,
        _ => OurFault::NoProcess,
    })
}

/// The first bytes; the others are read, too.
async fn first(mut from: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut said = Vec::new();
    let mut kept = (&mut from).take(SAID);
    if kept.read_to_end(&mut said).await.is_ok() {
        drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await);
    }
    said
}
