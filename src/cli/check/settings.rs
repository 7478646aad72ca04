//! Lines `config` and `secrets`: the files read, and whether they make sense. Alone they are the preflight of the
//! service (`--config-only`): every fault at once, where `run` would stop at the first.
//!
//! Reads files only. Never shows a secret, only where it is.

use std::path::Path;

use crate::cli::Context;
use crate::config::dsn::Dsn;
use crate::config::secret::{self, DATABASE_PASSWORD};
use crate::config::validate::{self, Problem};
use crate::config::{Config, ConfigError, Loaded};
use crate::daemon::{self, DaemonError};
use crate::gateway::heartbeat::Heartbeat;
use crate::ops::state_dir::StateDir;
use crate::parts::{self, PartError};
use crate::ports::{CheckLevel, CheckLine};
use crate::routing::spool::Spool;

/// `config`: a line for each fault, or one that names the file. The configuration is returned wherever its keys
/// were understood, even if they contradict each other: the things it names can still be looked at.
pub(super) fn config_lines(loaded: Result<Loaded, ConfigError>) -> (Vec<CheckLine>, Option<Loaded>) {
    const REMEDY: &str = "mend it and run `maple-router check` again";
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(ConfigError::Faults { faults }) => {
            let fail =
                |fault: crate::config::load::Fault| CheckLine::fail("config", fault.to_string(), REMEDY);
            return (faults.into_iter().map(fail).collect(), None);
        }
        Err(
            error @ (ConfigError::Missing { .. }
            | ConfigError::Unreadable { .. }
            | ConfigError::Syntax { .. }
            | ConfigError::Invalid { .. }),
        ) => return (vec![CheckLine::fail("config", error.to_string(), REMEDY)], None),
    };
    let problems = validate::problems(&loaded.config);
    if !problems.is_empty() {
        let fails = problems.into_iter().map(|p| CheckLine::fail("config", said(&p), p.remedy));
        return (fails.collect(), Some(loaded));
    }
    let set = loaded.sources.len();
    let file = loaded.file.as_ref().map(|file| file.display().to_string());
    let mut detail = match file {
        Some(file) => format!("{file}, {set} keys set, every rule between them holds"),
        None => format!("no file; {set} keys set by the environment, every rule between them holds"),
    };
    let warnings = validate::warnings(&loaded.config);
    if warnings.is_empty() {
        return (vec![CheckLine::ok("config", detail)], Some(loaded));
    }
    let mut remedies = Vec::new();
    for warning in warnings {
        detail.push_str(&format!("; {}", said(&warning)));
        remedies.push(warning.remedy);
    }
    (vec![CheckLine::warn("config", detail, remedies.join("; "))], Some(loaded))
}

/// Faults with which `run` would refuse to start; asks no server.
pub(super) async fn preflight(ctx: &Context) -> Vec<CheckLine> {
    let (mut lines, loaded) = config_lines(Config::load(ctx.config_path.as_deref(), &ctx.env));
    let Some(loaded) = loaded else { return lines };
    let whole = lines.iter().all(|line| line.level != CheckLevel::Fail);
    lines.push(secrets_line(&loaded));
    if whole
        && let Err(error) = daemon::preflight(&loaded.config).await
        // Line `secrets` reports it.
        && !matches!(error, DaemonError::Part(PartError::Secret(_)))
    {
        lines.push(CheckLine::fail("config", error.to_string(), "correct it in the configuration"));
    }
    lines
}

/// A further line `config` where the user of the check cannot use the state directory.
pub(super) async fn state_line(config: &Config) -> Option<CheckLine> {
    let dir = &config.state.dir;
    let Some(error) = StateDir::new(dir).probe().await.err() else { return bad_facts(dir).await };
    Some(CheckLine::warn(
        "config",
        format!(
            "state.dir = {}: it cannot be written to by this user ({error}); without it, what the relay accepts during \
             an outage of the database is lost if the daemon ends before its return",
            dir.display()
        ),
        "create it and give it to the daemon's user, or set [state] dir; systemd does both by StateDirectory=",
    ))
}

/// A further line `config` where the state directory has facts that nobody can record.
async fn bad_facts(dir: &Path) -> Option<CheckLine> {
    let (_, bad) = Spool::count(dir).await.ok().filter(|(_, bad)| *bad > 0)?;
    Some(CheckLine::warn(
        "config",
        format!(
            "state.dir = {}: {bad} files in spool/ are set aside as .bad: what the relay has accepted is not recorded, and this \
             host sends nothing of their submissions",
            dir.display()
        ),
        "see section spool of rb-009-routing-failure.md",
    ))
}

fn said(problem: &Problem) -> String {
    let keys: Vec<String> = problem.keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{}: {}", keys.join(", "), problem.rule)
}

/// `secrets`: every secret that is read, and its file. One line, as bad as the worst of them.
pub(super) fn secrets_line(loaded: &Loaded) -> CheckLine {
    let (mut notes, mut faults, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for read in secret::every_one(&loaded.config) {
        match read {
            Ok(None) => {}
            Ok(Some(found)) => {
                let from = format!("{} read from {}", found.name, found.path.display());
                if found.world_readable {
                    open.push(format!("chmod 0600 {}", found.path.display()));
                    notes.push(format!("{from}, which every user of this machine may read"));
                } else {
                    notes.push(from);
                }
            }
            Err(error) => faults.push(error.to_string()),
        }
    }
    if let Ok(Some(url)) = loaded.config.heartbeat_url() {
        if let Err(error) = Heartbeat::new(&url.secret) {
            faults.push(error.to_string());
        } else if loaded.config.canary.interval.is_none() {
            notes.push("nothing is sent to the heartbeat URL without canary events".to_owned());
            open.push("set canary.interval = \"60s\"".to_owned());
        }
    }
    match parts::audit_key_there(&loaded.config) {
        Err(PartError::Audit(why)) if matches!(loaded.config.audit_key(), Ok(Some(_))) => faults.push(why),
        Err(PartError::Audit(why)) => notes.push(why),
        // Reported above, where it is configured.
        Ok(Some((key, path))) if matches!(loaded.config.audit_key(), Ok(None)) => notes.push(format!(
            "the audit log's key {} was made on this host ({}): several hosts share one, set audit.key_file on each",
            key.name().unwrap_or_default(),
            path.display()
        )),
        Ok(_) | Err(_) => {}
    }
    if loaded.config.uploads.listen.is_some() {
        uploads_key(&loaded.config, &mut notes, &mut open);
    }
    if Dsn::read(&loaded.config.database.url).has_password {
        let origin = loaded.sources.get("database.url").map(ToString::to_string).unwrap_or_default();
        notes.push(format!("{DATABASE_PASSWORD} read from {origin}"));
    }
    if !faults.is_empty() {
        faults.extend(notes);
        let remedy = "mend the file; the daemon does not start without it";
        return CheckLine::fail("secrets", faults.join("; "), remedy);
    }
    if !open.is_empty() {
        return CheckLine::warn("secrets", notes.join("; "), open.join("; "));
    }
    if notes.is_empty() {
        return CheckLine::ok("secrets", "none is configured, none is read");
    }
    CheckLine::ok("secrets", notes.join("; "))
}

/// The backend's key for uploads. Without one the daemon starts, and takes none.
fn uploads_key(config: &Config, notes: &mut Vec<String>, open: &mut Vec<String>) {
    match (parts::uploads_key(config), config.uploads_key()) {
        (Ok(_), Ok(Some(found))) if found.world_readable => {
            notes.push(format!(
                "{} read from {}, which every user of this machine may read",
                found.name,
                found.path.display()
            ));
            open.push(format!("chmod 0600 {}", found.path.display()));
        }
        (Ok(_), Ok(Some(found))) => notes.push(format!("{} read from {}", found.name, found.path.display())),
        (Err(error), _) => {
            notes.push(error.to_string());
            open.push("rb-011-uploads.md, \"The backend's key\", has the command".to_owned());
        }
        (Ok(_), Ok(None) | Err(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::Environment;

    /// An empty file, whatever this machine has, and the environment over it.
    fn load(env: &Environment) -> Result<Loaded, ConfigError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        Config::load(Some(file.path()), env)
    }

    /// Line `secrets` under these variables.
    fn secrets(variables: &[(&str, &str)]) -> CheckLine {
        let env: Environment =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (lines, loaded) = config_lines(load(&env));
        secrets_line(&loaded.unwrap_or_else(|| panic!("{lines:?}")))
    }

    #[test]
    fn every_secret_is_told_with_its_place_and_the_worst_gives_the_level() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |name: &str, mode| {
            let path = dir.path().join(name);
            std::fs::write(&path, "https://hc.example/secret-word").expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
            path.display().to_string()
        };
        let (closed, open) = (put("closed", 0o600), put("open", 0o644));
        let url = "postgres://u:secret-word@127.0.0.1/f";
        let (heartbeat, webhook) =
            ("MAPLE_ROUTER__CANARY__HEARTBEAT_URL_FILE", "MAPLE_ROUTER__SLACK__WEBHOOK_FILE");
        let canary = "MAPLE_ROUTER__CANARY__INTERVAL";
        let no_url = put("no-url", 0o600);
        std::fs::write(&no_url, "secret-word").expect("written");
        let google = "GOOGLE_APPLICATION_CREDENTIALS";
        type Case<'a> = (&'a [(&'a str, &'a str)], CheckLevel, &'a [&'a str]);
        let cases: &[Case] = &[
            (&[("DATABASE_URL", "postgres://u@127.0.0.1/f")], CheckLevel::Ok, &["none is read"]),
            (
                &[("DATABASE_URL", url)],
                CheckLevel::Ok,
                &["database-password read from environment variable DATABASE_URL"],
            ),
            (&[(heartbeat, &closed), (canary, "60s")], CheckLevel::Ok, &["heartbeat-url read from", &closed]),
            (&[(heartbeat, &closed)], CheckLevel::Warn, &["without canary events"]),
            (&[(heartbeat, &no_url), (canary, "60s")], CheckLevel::Fail, &["no https URL"]),
            (&[(webhook, &open), (heartbeat, &closed)], CheckLevel::Warn, &["every user", &open, &closed]),
            (
                &[(webhook, &open), (heartbeat, "/nowhere/h")],
                CheckLevel::Fail,
                &["/nowhere/h", "LoadCredential", &open],
            ),
            (&[(google, &closed), ("DATABASE_URL", url)], CheckLevel::Ok, &["google-credentials", &closed]),
            (&[(google, "/nowhere/k"), ("DATABASE_URL", url)], CheckLevel::Fail, &["/nowhere/k"]),
            (
                &[(google, "/nowhere/k"), ("PUBSUB_EMULATOR_HOST", "127.0.0.1:1"), ("DATABASE_URL", url)],
                CheckLevel::Ok,
                &[],
            ),
        ];
        for (variables, level, words) in cases {
            let line = secrets(variables);
            assert_eq!((line.name, line.level), ("secrets", *level), "{variables:?}: {line:?}");
            for word in *words {
                assert!(line.detail.contains(word), "{word}: {line:?}");
            }
            assert!(!format!("{line:?}").contains("secret-word"), "{line:?}");
        }
    }

    #[test]
    fn contradicting_keys_are_a_line_each_and_the_rest_can_still_be_looked_at() {
        let env: Environment = [
            ("DATABASE_URL", "postgres://u@127.0.0.1/f"),
            ("MAPLE_ROUTER__SLACK__LEASE", "5s"),
            ("MAPLE_ROUTER__ROUTING__HEARTBEAT", "200s"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let (lines, loaded) = config_lines(load(&env));
        assert!(loaded.is_some());
        assert!(
            lines.iter().all(|line| (line.name, line.level) == ("config", CheckLevel::Fail)),
            "{lines:?}"
        );
        for key in ["slack.lease", "routing.heartbeat", "mail.from"] {
            assert!(lines.iter().any(|line| line.detail.contains(key)), "{key}: {lines:?}");
        }
    }
}
