//! The server's programs and files: where the binaries are, who may run them, initdb, start, stop, the reaper.
//!
//! Blocking by nature; callers move it off the runtime. A half-made data directory is removed by the next start.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Role with superuser rights inside a throwaway cluster.
pub(super) const SUPERUSER: &str = "postgres";

/// Stops the server and removes its files once no process has had the `users` lock for a while. Arguments: the root
/// directory, idle checks (2 s each) until it acts, what to remove, then the command that stops the server.
const REAPER: &str = r#"
root=$1 limit=$2 remove=$3; shift 3
exec 9>"$root/reaper" 8>"$root/gate" 7>"$root/users" || exit 0
flock -n 9 || exit 0
idle=0
while [ -d "$root/pg" ]; do
    sleep 2
    flock 8
    if flock -n 7; then idle=$((idle + 1)); flock -u 7; else idle=0; fi
    if [ "$idle" -ge "$limit" ]; then
        "$@" 7>&- 8>&- 9>&-
        rm -rf "$remove"
        exit 0
    fi
    flock -u 8
done
"#;

/// Settings of a cluster of one's own. The default is fast and forgetful, on a unix socket only.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// Listen on this port of 127.0.0.1 as well; 0 picks a free one.
    pub tcp_port: Option<u16>,
    /// Keep fsync and autovacuum on, as a real server has them.
    pub durable: bool,
    /// Serve TLS on the TCP port.
    pub tls: Option<ServerTls>,
    /// Replaces `pg_hba.conf`; without it everybody is trusted.
    pub hba: Option<String>,
    /// Further server settings, name and value.
    pub settings: Vec<(String, String)>,
}

/// Certificate and key of the server, PEM.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// Certificate chain.
    pub cert_pem: String,
    /// Private key.
    pub key_pem: String,
}

/// One server's paths on disk.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// Holds `gate`, `users`, `reaper` (locks) and `pg/`.
    pub(super) root: PathBuf,
    bin: PathBuf,
    run_as: Option<Account>,
}

/// The unprivileged account that runs the server when we are root.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Whom a server has to run as: somebody without rights where we are root.
pub(super) fn unprivileged_account() -> Result<Option<Account>> {
    if fs::metadata("/proc/self")?.uid() == 0 { account().map(Some) } else { Ok(None) }
}

impl Server {
    pub(super) fn new(root: PathBuf) -> Result<Self> {
        Ok(Self { root, bin: newest_binaries()?, run_as: unprivileged_account()? })
    }

    /// Directory of the unix socket, the data and the log.
    pub(super) fn pg(&self) -> PathBuf {
        self.root.join("pg")
    }

    fn data(&self) -> PathBuf {
        self.pg().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        if let Some(account) = &self.run_as {
            command.uid(account.uid).gid(account.gid);
        }
        command.stdin(Stdio::null()).current_dir("/").env("LC_ALL", "C").env("TZ", "UTC");
        command
    }

    /// Makes a fresh data directory and starts a server in it; whatever was there before is gone.
    pub(super) fn create(&self, options: &ClusterOptions, tcp_port: Option<u16>) -> Result<()> {
        if self.pg().exists() {
            self.stop("immediate");
            fs::remove_dir_all(self.pg()).context("removing the remains of an earlier test cluster")?;
        }
        fs::create_dir_all(self.pg())?;
        fs::set_permissions(self.pg(), fs::Permissions::from_mode(0o755))?;
        self.give(&self.pg())?;
        let mut initdb = self.command("initdb");
        initdb.args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--username", SUPERUSER]);
        initdb.arg("--pgdata").arg(self.data());
        output_of(&mut initdb, "initdb")?;
        fs::write(self.data().join("postgresql.auto.conf"), self.settings(options, tcp_port))?;
        if let Some(tls) = &options.tls {
            for (name, text) in [("server.crt", &tls.cert_pem), ("server.key", &tls.key_pem)] {
                let path = self.data().join(name);
                fs::write(&path, text)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
                self.give(&path)?;
            }
        }
        if let Some(hba) = &options.hba {
            fs::write(self.data().join("pg_hba.conf"), hba)?;
        }
        self.start()
    }

    fn settings(&self, options: &ClusterOptions, tcp_port: Option<u16>) -> String {
        let mut lines = vec![
            "listen_addresses = ''".to_owned(),
            format!("unix_socket_directories = '{}'", self.pg().display()),
            "max_connections = 300".to_owned(),
            "max_prepared_transactions = 50".to_owned(),
            "shared_buffers = '64MB'".to_owned(),
            "max_wal_size = '256MB'".to_owned(),
            "deadlock_timeout = '200ms'".to_owned(),
            "jit = off".to_owned(),
            "timezone = 'UTC'".to_owned(),
        ];
        if let Some(port) = tcp_port {
            lines.push("listen_addresses = '127.0.0.1'".to_owned());
            lines.push(format!("port = {port}"));
        }
        if !options.durable {
            // synchronous_commit stays: a stop by `immediate` must not take back what was committed.
            lines.extend(["fsync = off", "full_page_writes = off"].map(str::to_owned));
            lines.extend(
                ["autovacuum = off", "wal_level = minimal", "max_wal_senders = 0"].map(str::to_owned),
            );
        }
        if options.tls.is_some() {
            lines.push("ssl = on".to_owned());
        }
        lines.extend(options.settings.iter().map(|(name, value)| format!("{name} = '{value}'")));
        lines.join("\n") + "\n"
    }

    /// Starts the server on its existing data directory and waits until it answers.
    pub(super) fn start(&self) -> Result<()> {
        let mut start = self.command("pg_ctl");
        start.args(["start", "--wait", "--silent", "--timeout=60", "--pgdata"]).arg(self.data());
        start.arg("--log").arg(self.pg().join("log"));
        output_of(&mut start, "pg_ctl start").with_context(|| {
            let log = fs::read_to_string(self.pg().join("log")).unwrap_or_default();
            let tail: Vec<_> = log.lines().rev().take(5).collect();
            format!("starting the test cluster in {}; its log ends: {tail:?}", self.pg().display())
        })
    }

    /// Stops the server; a server that is not running is fine.
    pub(super) fn stop(&self, mode: &str) {
        let mut stop = self.command("pg_ctl");
        stop.args(["stop", "--wait", "--silent", "--mode", mode, "--pgdata"]).arg(self.data());
        drop(output_of(&mut stop, "pg_ctl stop"));
    }

    /// Leaves a shell loop behind that clears up after `idle_checks` × 2 s without a user.
    pub(super) fn spawn_reaper(&self, idle_checks: u32, remove: &Path) -> Result<()> {
        let mut reaper = Command::new("setsid");
        reaper.args(["sh", "-c", REAPER, "reaper"]).arg(&self.root).arg(idle_checks.to_string()).arg(remove);
        if let Some(account) = &self.run_as {
            let ids = [format!("--reuid={}", account.uid), format!("--regid={}", account.gid)];
            reaper.arg("setpriv").args(ids).arg("--clear-groups").arg("--");
        }
        reaper.arg(self.bin.join("pg_ctl")).args(["stop", "--silent", "--mode=immediate", "--pgdata"]);
        reaper.arg(self.data());
        reaper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        reaper
            .spawn()
            .context("starting the loop that stops an idle test cluster (needs setsid, sh, flock)")?;
        Ok(())
    }

    fn give(&self, path: &Path) -> Result<()> {
        if let Some(account) = &self.run_as {
            chown(path, Some(account.uid), Some(account.gid))?;
        }
        Ok(())
    }
}

fn output_of(command: &mut Command, what: &str) -> Result<()> {
    let output = command.output().with_context(|| format!("running {what}"))?;
    if !output.status.success() {
        bail!("{what} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn newest_binaries() -> Result<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    versions.sort();
    match versions.pop() {
        Some((_, bin)) => Ok(bin),
        None => bail!(
            "no PostgreSQL server under /usr/lib/postgresql/*/bin: install the package `postgresql` \
             (apt-get install postgresql); tests use the real server and do not run without it"
        ),
    }
}

/// `postgres` where the package made it, else `nobody`: the server refuses to run as root.
fn account() -> Result<Account> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    for wanted in ["postgres", "nobody"] {
        for line in passwd.lines() {
            let fields: Vec<_> = line.split(':').collect();
            if let [name, _, uid, gid, ..] = fields[..]
                && name == wanted
            {
                return Ok(Account { uid: uid.parse()?, gid: gid.parse()? });
            }
        }
    }
    bail!("PostgreSQL refuses to run as root, and /etc/passwd names neither `postgres` nor `nobody`")
}
