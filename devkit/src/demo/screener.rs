//! The demo's part of screening: a judge by a list of words, which says so, a host of repositories, the screener's own process, and the
//! sections of a configuration that name them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::git_host::GitHost;
use crate::judge::{MODEL, Mode, ScriptedJudge};
use crate::postgres::TestDatabase;

/// A form for what people write, and one for repositories.
pub(super) const IDEAS: (&str, &str) = ("ideas", "ideas@example.org");
/// The same, of repositories.
pub(super) const SKILLS: (&str, &str) = ("skills", "skills@example.org");
/// The owner whom the host's repositories are trusted of.
pub(super) const TRUSTED: &str = "maple-works";

/// What screens, running but for the process.
pub(super) struct Screener {
    /// Answers by a list of words.
    pub(super) judge: Mutex<ScriptedJudge>,
    /// Repositories over TLS.
    pub(super) host: GitHost,
    /// Sections of the configuration.
    pub(super) settings: String,
    process: Option<Child>,
}

impl Screener {
    /// Starts judge and host.
    ///
    /// # Errors
    /// No port, or no git.
    pub(super) async fn open(dir: &Path, database: &TestDatabase) -> Result<Self> {
        let (judge, host) = (ScriptedJudge::start().await?, GitHost::start().await?);
        judge.set(Mode::ByContent);
        let key = dir.join("judge-key");
        fs::write(&key, judge.key().context("the judge's key")?)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let at = host.https_authority();
        // One person plays both, whoever escalates and whoever approves.
        let settings = format!(
            "[screening]\nmode = \"on\"\nfour_eyes = false\nscreener_url = \"{}\"\nprotected_domains = [\"example.org\"]\n\
             [screening.judge]\nbase_url = \"{}\"\nmodel = \"{MODEL}\"\nkey_file = \"{}\"\nallow_scripted = true\npause = \"1s\"\n\
             [screening.git]\nhosts = [\"{at}\"]\ntrusted = [\"{at}/{TRUSTED}\"]\nca_file = \"{}\"\n\
             insecure_hosts = [\"{}\"]\n",
            database.url_as("maple_screener"),
            judge.base_url(),
            key.display(),
            host.ca_file().display(),
            // Hosts with a port are for tests; this one is not asked.
            host.http_authority(),
        );
        Ok(Self { judge: Mutex::new(judge), host, settings, process: None })
    }

    /// Starts the process, with the router's configuration; it ends with this value.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(&mut self, binary: &Path, config: &Path) -> Result<()> {
        let log = fs::File::create(config.with_file_name("screener.log"))?;
        let mut command = Command::new(binary);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.arg("--config").arg(config).arg("screen");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        self.process = Some(command.spawn().context("the screener cannot be started")?);
        Ok(())
    }
}
