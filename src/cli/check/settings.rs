//! Lines `config` and `secrets`: what was read, from where, and whether it makes sense.
//!
//! Reads files only. Never shows a secret, only where it is.

use crate::config::dsn::Dsn;
use crate::config::secret::{self, DATABASE_PASSWORD, Found, SecretError};
use crate::config::validate::{self, Problem};
use crate::config::{Config, ConfigError, Environment, Loaded, SignerKind};
use crate::ports::CheckLine;

/// Where Google's libraries look for a key by themselves.
const GOOGLE_CREDENTIALS: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// `config`: a line for each fault, or one that says what was read. The configuration comes along wherever its keys
/// were understood, even if they contradict each other: what it names can still be looked at.
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

fn said(problem: &Problem) -> String {
    let keys: Vec<String> = problem.keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{}: {}", keys.join(", "), problem.rule)
}

/// `secrets`: every secret that is read, and from where. One line, as bad as the worst of them.
pub(super) fn secrets_line(loaded: &Loaded, env: &Environment) -> CheckLine {
    let (mut told, mut faults, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for read in every_secret(&loaded.config, env) {
        match read {
            Ok(None) => {}
            Ok(Some(found)) => {
                let from = format!("{} read from {}", found.name, found.path.display());
                if found.world_readable {
                    open.push(format!("chmod 0600 {}", found.path.display()));
                    told.push(format!("{from}, which every user of this machine may read"));
                } else {
                    told.push(from);
                }
            }
            Err(error) => faults.push(error.to_string()),
        }
    }
    if Dsn::read(&loaded.config.database.url).has_password {
        let origin = loaded.sources.get("database.url").map(ToString::to_string).unwrap_or_default();
        told.push(format!("{DATABASE_PASSWORD} read from {origin}"));
    }
    if !faults.is_empty() {
        faults.extend(told);
        let remedy = "mend the file; the daemon does not start without it";
        return CheckLine::fail("secrets", faults.join("; "), remedy);
    }
    if !open.is_empty() {
        return CheckLine::warn("secrets", told.join("; "), open.join("; "));
    }
    if told.is_empty() {
        return CheckLine::ok("secrets", "none is configured, none is read");
    }
    CheckLine::ok("secrets", told.join("; "))
}

fn every_secret(config: &Config, env: &Environment) -> Vec<Result<Option<Found>, SecretError>> {
    let mut all = vec![config.database_password(), config.slack_webhook(), config.heartbeat_url()];
    if config.signed_url.signer == SignerKind::KeyFile {
        all.push(config.signing_key());
    }
    // Pub/Sub's client reads it by itself, unless it talks to an emulator.
    let emulator = config.pubsub.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    if let Some(path) = env.get(GOOGLE_CREDENTIALS).filter(|path| !path.is_empty() && !emulator) {
        all.push(secret::read("google-credentials", Some(path.as_ref()), &config.surroundings));
    }
    all
}
