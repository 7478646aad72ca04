//! A real Postfix of a test's own: its configuration, queue, data and log in a temporary directory, on a loopback port, with
//! everything it accepts handed to one upstream (usually [`crate::smtp::SmtpServer`]). Any number run side by side.
//!
//! Root is needed, because Postfix needs it, and the package `postfix`; no configuration of the host's is read or touched.
//! However the test ends, the guard kills every process of the instance and removes the directory: also after a panic, and
//! when the test process is killed. Mails never go to a mailbox of this host, and no name server is asked.

mod files;
mod guard;

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, User, geteuid};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::guard::Guard;
use crate::port::free_port;

/// Directory into which the package puts `master` and its services.
const DAEMONS: &str = "/usr/lib/postfix/sbin";
/// Search path by which the package's programs find each other.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Longest run of any of its commands, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);

/// Settings of an instance. `Default` retries within a second or two, and gives up only after days.
#[derive(Debug, Clone)]
pub struct PostfixOptions {
    /// First and shortest wait before a deferred mail is tried again; the longest is twice as long. Whole seconds.
    pub retry: Duration,
    /// A mail that waits longer is returned (`maximal_queue_lifetime`, `bounce_queue_lifetime`). Whole seconds.
    pub lifetime: Duration,
    /// More lines of main.cf; they win over those above.
    pub settings: Vec<(&'static str, String)>,
}

impl Default for PostfixOptions {
    fn default() -> Self {
        Self {
            retry: Duration::from_secs(1),
            lifetime: Duration::from_secs(5 * 24 * 3600),
            settings: Vec::new(),
        }
    }
}

/// Ways of rotating the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// `postfix logrotate`: renamed, a new one is started, and the old one is compressed a second later.
    Postfix,
    /// Renamed to `.1`, and left, as logrotate(8) does it with `postrotate postfix reload`.
    Renamed,
}

/// A running (or stopped) Postfix; dropping it stops it for good.
#[derive(Debug)]
pub struct Postfix {
    port: u16,
    root: PathBuf,
    // Before the directory: it stops what works in there.
    _guard: Guard,
    _dir: TempDir,
}

impl Postfix {
    /// Starts one that hands everything to 127.0.0.1:`upstream`, and waits until it takes mails.
    ///
    /// # Errors
    /// Not root, no Postfix, or it does not start; says what to do.
    pub async fn start(upstream: u16, options: PostfixOptions) -> Result<Self> {
        if !geteuid().is_root() {
            bail!("a real Postfix is started by root only: run these tests as root (`sudo -E make test`)");
        }
        let account = User::from_name("postfix")?.filter(|_| Path::new(DAEMONS).join("master").exists());
        let Some(account) = account else {
            bail!(
                "Postfix is not installed: `scripts/install-missing delivery` does that, and starts nothing"
            );
        };
        let dir = TempDir::with_prefix("maple-postfix-")?;
        let root = dir.path().to_owned();
        // Postfix's programs run as `postfix` and must get through.
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o711))?;
        for part in ["etc", "data", "spool"] {
            std::fs::create_dir(root.join(part))?;
        }
        chown(root.join("data"), Some(account.uid.as_raw()), None)?;
        std::fs::write(root.join("etc/main.cf"), files::main_cf(&root, upstream, &options))?;
        let guard = guard::over(&root)?;
        let mut postfix = Self { port: 0, root, _guard: guard, _dir: dir };
        // Another process may take the port before Postfix does.
        let mut failed = None;
        for _ in 0..5 {
            postfix.port = free_port()?;
            std::fs::write(postfix.root.join("etc/master.cf"), files::master_cf(postfix.port)?)?;
            match postfix.up().await {
                Ok(()) => return Ok(postfix),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.context("it was never started")?)
    }

    /// Port on 127.0.0.1 that takes mails.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The instance's `queue_directory`.
    #[must_use]
    pub fn queue_directory(&self) -> PathBuf {
        self.root.join("spool")
    }

    /// Configuration directory, for programs that take `-c`.
    #[must_use]
    pub fn config_directory(&self) -> PathBuf {
        self.root.join("etc")
    }

    /// Log file, under its own name; a rotated one lies beside it.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.root.join("mail.log")
    }

    /// Contents of the log, rotated parts not included.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The instance's part of a router's configuration: where mails go, and where its log and queue are.
    #[must_use]
    pub fn sections(&self) -> String {
        format!(
            "[smtp]\nport = {}\n[relay_log]\nenabled = true\nfile = \"{}\"\nqueue_directory = \"{}\"\n",
            self.port,
            self.log_file().display(),
            self.queue_directory().display()
        )
    }

    /// Waits until a line of the log has all these words; returns the line.
    ///
    /// # Errors
    /// None came in time; tells the log.
    pub async fn logged(&self, words: &[&str], patience: Duration) -> Result<String> {
        for _ in 0..patience.as_millis() / STEP.as_millis() {
            let log = self.log();
            // The last line may be half written.
            let whole = log.rfind('\n').map_or("", |end| &log[..end]);
            if let Some(line) = whole.lines().find(|line| words.iter().all(|word| line.contains(word))) {
                return Ok(line.to_owned());
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("nothing logged with {words:?} after {patience:?}:\n{}", self.log())
    }

    /// Returns the queue's contents as `postqueue -j` lists them: an object a mail.
    ///
    /// # Errors
    /// Postfix is not running.
    pub async fn queue(&self) -> Result<Vec<Value>> {
        let listing = self.command("postqueue", &["-j"]).await?;
        let lines = String::from_utf8_lossy(&listing.stdout).into_owned();
        lines.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Waits until nothing is in its queue.
    ///
    /// # Errors
    /// Something is left when time has run out.
    pub async fn emptied(&self, patience: Duration) -> Result<()> {
        for _ in 0..patience.as_millis() / PAUSE.as_millis() {
            if self.queue().await?.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("still queued after {patience:?}: {:?}\n{}", self.queue().await?, self.log())
    }

    /// `postfix start`, and it takes mails.
    ///
    /// # Errors
    /// Postfix does not start; the error has its output.
    pub async fn up(&self) -> Result<()> {
        self.postfix("start").await?;
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("Postfix was started and does not listen on port {}:\n{}", self.port, self.log())
    }

    /// `postfix stop`: what is on its way is finished or stays in the queue.
    ///
    /// # Errors
    /// Postfix does not stop, or is not running.
    pub async fn stop(&self) -> Result<()> {
        self.postfix("stop").await
    }

    /// `postfix stop` and `postfix start`, as the unit's restart does.
    ///
    /// # Errors
    /// As these two.
    pub async fn restart(&self) -> Result<()> {
        self.stop().await?;
        self.up().await
    }

    /// `postfix reload`.
    ///
    /// # Errors
    /// Postfix is not running.
    pub async fn reload(&self) -> Result<()> {
        self.postfix("reload").await
    }

    /// SIGKILL to every process of it, as when the host goes down.
    ///
    /// # Errors
    /// Postfix is not running.
    pub async fn kill(&self) -> Result<()> {
        let master = self.master()?;
        killpg(master, Signal::SIGKILL).with_context(|| format!("killing process group {master}"))?;
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if !self.is_running().await? {
                return Ok(());
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("master {master} does not die")
    }

    /// Process id of `master`, which is also that of its process group.
    ///
    /// # Errors
    /// Postfix is not running.
    pub fn master(&self) -> Result<Pid> {
        let file = self.queue_directory().join("pid/master.pid");
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        Ok(Pid::from_raw(text.trim().parse().context("the process id of master")?))
    }

    /// Whether `master` runs.
    ///
    /// # Errors
    /// Its status cannot be read.
    pub async fn is_running(&self) -> Result<bool> {
        let master = Path::new(DAEMONS).join("master");
        Ok(!self.run(&master, &["-t"]).await?.status.success())
    }

    /// Starts a new log. Returns the name of the old one, where it keeps one.
    ///
    /// # Errors
    /// Postfix is not running, or the file cannot be renamed.
    pub async fn rotate(&self, rotation: Rotation) -> Result<Option<PathBuf>> {
        match rotation {
            Rotation::Postfix => {
                self.postfix("logrotate").await?;
                Ok(None)
            }
            Rotation::Renamed => {
                let old = self.root.join("mail.log.1");
                std::fs::rename(self.log_file(), &old)?;
                self.reload().await?;
                Ok(Some(old))
            }
        }
    }

    /// Changes a line of main.cf and reloads.
    ///
    /// # Errors
    /// Postfix is not running.
    pub async fn set(&self, name: &str, value: &str) -> Result<()> {
        self.command("postconf", &["-e", &format!("{name}={value}")]).await?;
        self.reload().await
    }

    /// Runs one of Postfix's programs (`postqueue`, `postsuper`, `postconf`) with `-c` and these words.
    ///
    /// # Errors
    /// The program fails; the error has its output.
    pub async fn command(&self, program: &str, words: &[&str]) -> Result<Output> {
        let output = self.run(&Path::new("/usr/sbin").join(program), words).await?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("{program} {words:?} ended with {}: {said}", output.status);
        }
        Ok(output)
    }

    /// Hands in a mail by `sendmail`, as any user of the host may; it gets its queue id a moment later.
    ///
    /// # Errors
    /// The mail is not taken; the error has its output.
    pub async fn sendmail(&self, from: &str, to: &[&str], message: &str) -> Result<()> {
        let mut command = clean(Path::new("/usr/sbin/sendmail"));
        command.arg("-C").arg(self.config_directory()).args(["-i", "-f", from]).args(to);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("its input")?;
        stdin.write_all(message.replace("\r\n", "\n").as_bytes()).await?;
        drop(stdin);
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
        let output = output.context("sendmail does not end")??;
        if !output.status.success() {
            bail!(
                "sendmail ended with {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }

    async fn run(&self, program: &Path, words: &[&str]) -> Result<Output> {
        let asked = clean(program).arg("-c").arg(self.config_directory()).args(words).output();
        let output = tokio::time::timeout(PATIENCE, asked).await;
        output.with_context(|| format!("{} {words:?} does not end", program.display()))?.map_err(Into::into)
    }

    /// `postfix -c … WORD`. Its output goes to a file: the daemons it starts keep it open.
    async fn postfix(&self, word: &str) -> Result<()> {
        let said = self.root.join("said");
        let file = std::fs::File::create(&said)?;
        let status = clean(Path::new("/usr/sbin/postfix"))
            .arg("-c")
            .arg(self.config_directory())
            .arg(word)
            .stdout(file.try_clone()?)
            .stderr(file)
            .status();
        let status = tokio::time::timeout(PATIENCE, status).await;
        let status = status.with_context(|| format!("postfix {word} does not end"))??;
        if !status.success() {
            let message = std::fs::read_to_string(&said).unwrap_or_default();
            bail!("postfix {word} ended with {status}: {}\nits log:\n{}", message.trim(), self.log());
        }
        Ok(())
    }
}

/// Between two looks at the queue.
const PAUSE: Duration = Duration::from_millis(100);

/// A program that sees nothing of the test's environment.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C").stdin(Stdio::null()).current_dir("/");
    command
}
