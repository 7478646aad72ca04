//! A real clamd of a test's own: Debian's, with its configuration, signatures, socket, spool and log in a temporary directory.
//! Any number run side by side; started by root, each runs as `nobody`.
//!
//! No configuration and no signature of the host's is read: it knows the EICAR test file and a marker that no other instance
//! knows. However the test ends, the guard kills the process and removes the directory: also after a panic, and when the test
//! process is killed. [`scripted`] is a server that only pretends to be clamd.

mod files;
mod guard;
pub mod scripted;

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::guard::Guard;
use crate::port::free_port;

pub use files::{EICAR_NAME, MARKER_NAME, eicar};

/// The package's program.
const CLAMD: &str = "/usr/sbin/clamd";
/// Search path of what is run.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Longest start, stop or reload, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(10);
/// Words of its log at the end of a reload.
const RELOADED: [&str; 4] =
    ["Activating the newly loaded", "Database reload completed", "reload failed", "reload setup failed"];

/// Settings of an instance. `Default` takes files of 100 MiB, and reloads beside its work.
#[derive(Debug, Clone)]
pub struct ClamdOptions {
    /// The program.
    pub program: PathBuf,
    /// Longest stream, in bytes.
    pub stream_max_length: u64,
    /// Longest file that is looked at, in bytes. Of a longer one in a zip only the beginning is, and nobody is told, unless
    /// [`Self::max_scan_size`] is no longer.
    pub max_file_size: u64,
    /// Bytes that are looked at for one stream, unpacked ones included.
    pub max_scan_size: u64,
    /// Scans at once; others wait.
    pub max_threads: usize,
    /// Whether it goes on with the old signatures while, and if, new ones cannot be loaded.
    pub concurrent_reload: bool,
    /// Whether it listens on a loopback port as well.
    pub tcp: bool,
    /// More lines of clamd.conf.
    pub settings: Vec<(&'static str, String)>,
}

impl Default for ClamdOptions {
    fn default() -> Self {
        Self {
            program: CLAMD.into(),
            stream_max_length: 100 << 20,
            max_file_size: 200 << 20,
            max_scan_size: 200 << 20,
            max_threads: 4,
            concurrent_reload: true,
            tcp: false,
            settings: Vec::new(),
        }
    }
}

/// A running (or stopped) clamd; dropping it ends it.
#[derive(Debug)]
pub struct Clamd {
    root: PathBuf,
    program: PathBuf,
    account: Option<User>,
    marker: String,
    port: Option<u16>,
    process: Option<Child>,
    // Before the directory: it kills what works in there.
    _guard: Guard,
    _dir: TempDir,
}

impl Clamd {
    /// Starts one, and waits until it answers.
    ///
    /// # Errors
    /// No clamd, or it does not start; says what to do.
    #[expect(clippy::disallowed_methods, reason = "the marker must only be unlike any other")]
    pub async fn start(options: ClamdOptions) -> Result<Self> {
        if !options.program.exists() {
            bail!(
                "clamd is not installed (Debian's package clamav-daemon): `scripts/install-missing scanner` does that, and \
                 starts nothing"
            );
        }
        let account = if geteuid().is_root() { User::from_name("nobody")? } else { None };
        let dir = TempDir::with_prefix("maple-clamd-")?;
        let root = dir.path().to_owned();
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o711))?;
        let marker = format!("MAPLE-TEST-VIRUS-{}", Uuid::new_v4().simple());
        for part in ["work", "work/tmp", "work/db"] {
            std::fs::create_dir(root.join(part))?;
        }
        let program = unconfined(&options.program, &root)?;
        let guard = guard::over(&root)?;
        let mut clamd =
            Self { root, program, account, marker, port: None, process: None, _guard: guard, _dir: dir };
        clamd.mend_database()?;
        for part in ["work", "work/tmp", "work/db"] {
            clamd.give_away(&clamd.root.join(part))?;
        }
        // Another process may take the port before clamd does.
        let mut failed = None;
        for _ in 0..if options.tcp { 5 } else { 1 } {
            clamd.port = if options.tcp { Some(free_port()?) } else { None };
            let conf = files::clamd_conf(&clamd.root, clamd.port, &options);
            std::fs::write(clamd.root.join("clamd.conf"), conf)?;
            match clamd.up().await {
                Ok(()) => return Ok(clamd),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.context("it was never started")?)
    }

    /// Its unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.join("work/clamd.sock")
    }

    /// Port on 127.0.0.1, with [`ClamdOptions::tcp`].
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Harmless text that this instance alone takes for a virus.
    #[must_use]
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// The instance's part of a router's configuration.
    #[must_use]
    pub fn sections(&self) -> String {
        format!("[scan]\nsocket = \"{}\"\n", self.socket().display())
    }

    /// Contents of its log.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.root.join("work/clamd.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Number of files that it spools streams and unpacks archives into, now.
    ///
    /// # Errors
    /// Its directory cannot be read.
    pub fn spooled(&self) -> Result<usize> {
        Ok(std::fs::read_dir(self.root.join("work/tmp"))?.count())
    }

    /// Its process.
    ///
    /// # Errors
    /// It is not running.
    pub fn process(&self) -> Result<Pid> {
        let id = self.process.as_ref().and_then(Child::id).context("clamd is not running")?;
        Ok(Pid::from_raw(id.try_into()?))
    }

    /// Its resident memory, in bytes.
    ///
    /// # Errors
    /// It is not running.
    pub fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
    }

    /// Starts it where it was stopped, at the same socket, and waits until it answers.
    ///
    /// # Errors
    /// It does not start; the error has its log.
    pub async fn up(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg(format!("--config-file={}", self.root.join("clamd.conf").display()));
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        if let Some(account) = &self.account {
            command.uid(account.uid.as_raw()).gid(account.gid.as_raw());
        }
        let mut child = command.spawn().with_context(|| format!("starting {}", self.program.display()))?;
        let mut answers = false;
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            answers = self.ask("PING").await.is_ok_and(|answer| answer == "PONG");
            if answers || !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            tokio::time::sleep(STEP).await;
        }
        if !answers {
            bail!("clamd was started and does not answer:\n{}", self.log());
        }
        self.process = Some(child);
        Ok(())
    }

    /// SIGTERM, and waits for its end. Scans that go on are finished first.
    ///
    /// # Errors
    /// It is not running, or does not end.
    pub async fn stop(&mut self) -> Result<()> {
        self.end(Signal::SIGTERM).await
    }

    /// SIGKILL, and waits for its end.
    ///
    /// # Errors
    /// It is not running.
    pub async fn kill(&mut self) -> Result<()> {
        self.end(Signal::SIGKILL).await
    }

    /// Ends it by SIGKILL, and starts it again at the same socket.
    ///
    /// # Errors
    /// It was not running, or does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill().await?;
        self.up().await
    }

    /// SIGSTOP: it takes connections, as far as the system does that for it, and does nothing.
    ///
    /// # Errors
    /// It is not running.
    pub fn freeze(&self) -> Result<()> {
        Ok(kill(self.process()?, Signal::SIGSTOP)?)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// It is not running.
    pub fn thaw(&self) -> Result<()> {
        Ok(kill(self.process()?, Signal::SIGCONT)?)
    }

    /// Spoils the signatures on disk; what is loaded goes on until [`Self::reload`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn break_database(&self) -> Result<()> {
        self.write_database("maple.ndb", "this is no signature\n")
    }

    /// Writes the signatures as they were at the start.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn mend_database(&self) -> Result<()> {
        self.write_database("maple.hdb", &files::hashes())?;
        self.write_database("maple.ndb", &files::bodies(&self.marker))
    }

    /// Has it load its signatures again, and waits until it says what became of that; gives the new lines of its log.
    ///
    /// # Errors
    /// It is not running, or says nothing.
    pub async fn reload(&self) -> Result<String> {
        let before = self.log().len();
        let answer = self.ask("RELOAD").await?;
        if answer != "RELOADING" {
            bail!("clamd answers {answer:?} to RELOAD");
        }
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            // A thread that is there looks for the order a moment later: a ping wakes it.
            self.ask("PING").await.ok();
            let log = self.log().get(before..).unwrap_or_default().to_owned();
            if RELOADED.iter().any(|words| log.contains(words)) {
                return Ok(log);
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("nothing became of the reload:\n{}", self.log())
    }

    /// Says a command without content; gives the answer, without its end.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn ask(&self, command: &str) -> Result<String> {
        let mut socket = UnixStream::connect(self.socket()).await?;
        socket.write_all(format!("z{command}\0").as_bytes()).await?;
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer)).await??;
        Ok(answer.trim_end_matches('\0').to_owned())
    }

    async fn end(&mut self, signal: Signal) -> Result<()> {
        kill(self.process()?, signal)?;
        let mut child = self.process.take().context("clamd is not running")?;
        tokio::time::timeout(PATIENCE, child.wait()).await.context("clamd does not end")??;
        Ok(())
    }

    fn write_database(&self, name: &str, text: &str) -> Result<()> {
        let path = self.root.join("work/db").join(name);
        std::fs::write(&path, text)?;
        self.give_away(&path)
    }

    fn give_away(&self, path: &Path) -> Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        Ok(chown(path, Some(account.uid.as_raw()), Some(account.gid.as_raw()))?)
    }
}

/// The program, where no profile of the host's keeps it from working in a temporary directory: those are for paths.
fn unconfined(program: &Path, root: &Path) -> Result<PathBuf> {
    let enabled = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled").unwrap_or_default();
    if enabled.trim() != "Y" {
        return Ok(program.to_owned());
    }
    let copy = root.join("clamd");
    std::fs::copy(program, &copy)?;
    Ok(copy)
}
