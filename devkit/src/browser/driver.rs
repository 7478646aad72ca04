//! The processes of one browser: a chromedriver that leads a process group of its own, the Chromium that it starts, and a
//! guard that ends them.
//!
//! The end of chromedriver alone leaves Chromium running, so the whole group is killed. The guard is a shell that waits for
//! the test's end of a pipe to close, whatever closes it: a drop, a panic, a SIGKILL of the test. Then it kills the group and
//! removes the directory with profile, caches and logs. Chromium's crash handlers leave the group at their start and end by
//! themselves once nobody speaks to them; [`Processes::living`] counts them too.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::port::free_port;

/// Arguments: the group, and the directory. What is killed may still write for a moment, so the directory is removed twice.
const GUARD: &str = r#"
read -r _
kill -KILL "-$1"
rm -rf "$2" || rm -rf "$2"
"#;
/// Longest start, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(10);
/// The line by which chromedriver tells that it listens, and where.
const STARTED: &str = "was started successfully on port ";
const INSTALL: &str = "`scripts/install-missing browser` installs what is needed: Debian's chromium, \
                       chromium-driver and fonts-dejavu-core, which fit each other";

/// A running chromedriver and all that it starts; dropping it ends them and waits for that.
#[derive(Debug)]
pub(super) struct Driver {
    port: u16,
    processes: Processes,
    child: Child,
    guard: Child,
}

impl Driver {
    /// Starts one on a port of this process's own, and waits until it listens.
    pub(super) async fn start(program: &Path) -> Result<Self> {
        let program = found(program)?;
        let mut driver = Self::spawn(&program)?;
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            // Asked before its output is read: nothing is written after its end.
            let has_ended = !matches!(driver.child.try_wait(), Ok(None));
            let out = fs::read_to_string(driver.processes.home.join("out")).unwrap_or_default();
            if let Some(port) = port(&out) {
                driver.port = port;
                return Ok(driver);
            }
            if has_ended {
                break;
            }
            tokio::time::sleep(STEP).await;
        }
        bail!("{} did not start; it wrote: {}. {INSTALL}", program.display(), driver.said())
    }

    fn spawn(program: &Path) -> Result<Self> {
        let dir = TempDir::with_prefix("maple-browser-")?;
        let home = dir.path().to_owned();
        let mut driver = Command::new(program);
        // The environment is the browser's home, too: what it keeps outside of its profile goes with the directory, and no
        // proxy of this machine's comes between.
        driver.env_clear().env("PATH", search_path()).env("HOME", &home).env("TMPDIR", &home);
        driver.env("LANG", "C.UTF-8").env("TZ", "UTC").current_dir("/");
        // A port that the kernel chooses for ::1 may be a client's on 127.0.0.1, where chromedriver wants the same one.
        driver.arg(format!("--port={}", free_port()?)).process_group(0).stdin(Stdio::null());
        driver.stdout(File::create(home.join("out"))?).stderr(File::create(home.join("said"))?);
        let mut child =
            driver.spawn().with_context(|| format!("starting {}. {INSTALL}", program.display()))?;
        let group = i32::try_from(child.id()).context("a pid")?;
        match guard(group, &home) {
            // From here on the guard removes the directory.
            Ok(guard) => Ok(Self { port: 0, processes: Processes { group, home: dir.keep() }, child, guard }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn profile(&self) -> PathBuf {
        self.processes.home.join("profile")
    }

    pub(super) fn processes(&self) -> Processes {
        self.processes.clone()
    }

    /// The last lines that the programs wrote, in one.
    fn said(&self) -> String {
        let said = fs::read(self.processes.home.join("said")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines = said.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>();
        lines[lines.len().saturating_sub(5)..].join(" / ")
    }

    /// Why there is no browser, for whoever has to install one.
    pub(super) fn why_not(&self, driver: &Path, browser: &Path, refused: &str) -> String {
        let versions = (version(driver), version(browser));
        let said = self.said();
        reason((versions.0.as_deref(), versions.1.as_deref()), refused, &said)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        if self.guard.wait().is_err() || self.child.wait().is_err() {
            // The error has no reader; the guard does its work all the same.
        }
    }
}

fn guard(group: i32, home: &Path) -> Result<Child> {
    let mut shell = Command::new("sh");
    shell.args(["-c", GUARD, "guard", &group.to_string()]).arg(home).current_dir("/").process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.env_clear().env("PATH", search_path()).spawn().context("starting the shell that ends a browser")
}

/// The port in what chromedriver says of itself; none in a line that is not whole yet.
fn port(said: &str) -> Option<u16> {
    let line = said.split_inclusive('\n').find(|line| line.contains(STARTED) && line.ends_with('\n'))?;
    line.split_once(STARTED)?.1.trim_end().trim_end_matches('.').parse().ok()
}

fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// Where a program is.
pub(super) fn found(program: &Path) -> Result<PathBuf> {
    let search_path = search_path();
    let candidates: Vec<PathBuf> = if program.components().count() > 1 {
        vec![program.to_owned()]
    } else {
        std::env::split_paths(&search_path).map(|dir| dir.join(program)).collect()
    };
    match candidates.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!("there is no {} here. {INSTALL}", program.display()),
    }
}

/// What a program says of itself, as `156.0.8078.79`.
fn version(program: &Path) -> Option<String> {
    let asked = Command::new(found(program).ok()?).arg("--version").stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    let number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    said.split_whitespace().find(number).map(str::to_owned)
}

fn reason((driver, browser): (Option<&str>, Option<&str>), refused: &str, said: &str) -> String {
    let major = |version: Option<&str>| version.and_then(|v| v.split('.').next()).map(str::to_owned);
    let told = if said.is_empty() { String::new() } else { format!(" It wrote: {said}.") };
    match (driver, browser) {
        (Some(driver), Some(browser)) if major(Some(driver)) != major(Some(browser)) => format!(
            "chromedriver is of version {driver}, and Chromium of {browser}: they do not fit each other. {INSTALL}"
        ),
        (Some(_), Some(browser)) => format!("Chromium {browser} did not start: {refused}.{told}"),
        (driver, None) => format!(
            "the browser does not even tell its version (chromedriver: {}): {refused}.{told} {INSTALL}",
            driver.unwrap_or("neither")
        ),
        (None, Some(_)) => format!("chromedriver does not tell its version: {refused}.{told} {INSTALL}"),
    }
}

/// Processes that a browser consists of.
#[derive(Debug, Clone)]
pub struct Processes {
    group: i32,
    home: PathBuf,
}

impl Processes {
    /// Those of a browser that another process started, by what that one told of it.
    #[must_use]
    pub fn told((group, home): (i32, PathBuf)) -> Self {
        Self { group, home }
    }

    /// What another process has to know to count them: their group and their directory.
    #[must_use]
    pub fn tell(&self) -> (i32, PathBuf) {
        (self.group, self.home.clone())
    }

    /// Directory with everything that the browser writes; it goes with the browser.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Names of those that live, as `PID NAME`: by their group, or by their home where they left the group. A dead one that
    /// nobody has reaped (in a container whose first process reaps none) is not counted.
    #[must_use]
    pub fn living(&self) -> Vec<String> {
        let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok());
        pids.filter_map(|pid: i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let seen = Seen::read(&stat)?;
            let ours = seen.group == self.group || self.is_home_of(pid);
            (ours && seen.lives).then(|| format!("{pid} {}", seen.name))
        })
        .collect()
    }

    fn is_home_of(&self, pid: i32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let home = format!("HOME={}", self.home.display());
        environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes())
    }
}

/// What `/proc/PID/stat` says: its name is in parentheses, and may have some itself.
#[derive(Debug, PartialEq, Eq)]
struct Seen<'a> {
    name: &'a str,
    lives: bool,
    group: i32,
}

impl<'a> Seen<'a> {
    fn read(stat: &'a str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(") ")?;
        let (_, name) = before.split_once('(')?;
        let mut fields = after.split(' ');
        let lives = !matches!(fields.next()?, "Z" | "X");
        let group = fields.nth(1)?.parse().ok()?;
        Some(Self { name, lives, group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_does_not_fit_is_named() {
        let refused = "session not created: Chrome instance exited";
        let other = reason((Some("156.0.1.2"), Some("150.9.9.9")), refused, "");
        assert!(
            other.contains("156.0.1.2") && other.contains("150.9.9.9") && other.contains(INSTALL),
            "{other}"
        );
        let same = reason((Some("156.0.1.2"), Some("156.0.1.3")), refused, "no usable sandbox");
        assert!(
            same.contains(refused) && same.contains("no usable sandbox") && !same.contains(INSTALL),
            "{same}"
        );
        let none = reason((None, None), refused, "");
        assert!(none.contains(INSTALL), "{none}");
        assert!(found(Path::new("no-such-browser")).unwrap_err().to_string().contains(INSTALL));
    }

    #[test]
    fn a_dead_process_does_not_live_and_a_name_may_have_parentheses() {
        let living = Seen::read("7 (a) (b) S 1 42 42 0 -1").expect("a process");
        assert_eq!(living, Seen { name: "a) (b", lives: true, group: 42 });
        assert!(!Seen::read("7 (chromium) Z 1 42 42 0 -1").expect("a process").lives);
    }

    #[test]
    fn the_port_is_read_from_what_the_driver_says() {
        let said =
            "Starting ChromeDriver 1 on port 0\nChromeDriver was started successfully on port 40225.\n";
        assert_eq!(port(said), Some(40225));
        assert_eq!(port(&said[..said.len() - 4]), None, "half a line may have half a port");
        assert_eq!(port("Exiting.\n"), None);
    }
}
