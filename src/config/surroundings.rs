//! Environment variables with names of other systems, and the addresses that follow from them. Variables that
//! simply stand for a key of ours are layered onto that key in [`super::load`].
//!
//! Users of Google's tools expect these variables to work, so they do. Pure but for [`environment`], which takes
//! the snapshot that everything else is given.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::Config;

/// systemd's stop timeout as the shipped unit sets it, assumed where the environment names none.
pub const DEFAULT_TIMEOUT_STOP: Duration = Duration::from_secs(240);
/// Host that a Compute Engine instance asks for its identity.
const METADATA_HOST: &str = "metadata.google.internal";

/// A snapshot of environment variables.
pub type Environment = BTreeMap<String, String>;

/// Takes a snapshot of this process's environment; variables that are not UTF-8 are left out.
#[must_use]
pub fn environment() -> Environment {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
}

/// A variable's value that no `Debug` shows: it has a password in it, or may have.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// The value, to be handed to its one user.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// Values found in the environment (interfaces page, "Configuration").
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// `GCE_METADATA_HOST`, host and optional port.
    pub metadata_host: Option<String>,
    /// `GOOGLE_APPLICATION_CREDENTIALS`.
    pub application_credentials: Option<PathBuf>,
    /// `CREDENTIALS_DIRECTORY`, set by systemd's `LoadCredential=`.
    pub credentials_directory: Option<PathBuf>,
    /// `MAPLE_ROUTER_TIMEOUT_STOP_SEC`; `Duration::MAX` for `infinity`.
    pub timeout_stop: Option<Duration>,
    /// `DATABASE_URL` gave `database.url`: a password in it says development.
    pub database_url_from_environment: bool,
    /// `MAPLE_ROUTER_GRADER_URL`: the connection string of the grader's role, which may have a password.
    pub grader_url: Option<Hidden>,
    /// `PGPASSWORD`, of whichever other role a connection string without a password names.
    pub pg_password: Option<Hidden>,
}

/// A variable whose value makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadVariable {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) expected: &'static str,
}

impl Surroundings {
    /// Reads a snapshot; empty variables count as absent.
    pub(super) fn from_environment(env: &Environment) -> Result<Self, BadVariable> {
        let get = |name: &str| env.get(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let timeout_stop = match get("MAPLE_ROUTER_TIMEOUT_STOP_SEC") {
            None => None,
            Some(text) => Some(stop_timeout(&text).ok_or(BadVariable {
                name: "MAPLE_ROUTER_TIMEOUT_STOP_SEC",
                value: text,
                expected: "seconds or a duration as in systemd's TimeoutStopSec=, e.g. 240, 4min or infinity",
            })?),
        };
        Ok(Self {
            metadata_host: get("GCE_METADATA_HOST"),
            application_credentials: get("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
            credentials_directory: get("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            timeout_stop,
            database_url_from_environment: get("DATABASE_URL").is_some(),
            grader_url: get("MAPLE_ROUTER_GRADER_URL").map(Hidden),
            pg_password: get("PGPASSWORD").map(Hidden),
        })
    }
}

impl Config {
    /// The Pub/Sub endpoint to use instead of Google's; loading has put `PUBSUB_EMULATOR_HOST` there.
    #[must_use]
    pub fn pubsub_endpoint(&self) -> Option<&str> {
        self.pubsub.endpoint.as_deref()
    }

    /// Says whether Pub/Sub is spoken to without credentials: an emulator, or any endpoint without TLS, since a
    /// token must not travel in the clear.
    #[must_use]
    pub fn pubsub_anonymous(&self) -> bool {
        self.pubsub_endpoint().is_some_and(|url| !url.starts_with("https://"))
    }

    /// The object store's endpoint, without a slash at its end; loading has put `STORAGE_EMULATOR_HOST` there.
    #[must_use]
    pub fn storage_endpoint(&self) -> &str {
        self.signed_url.storage_endpoint.trim_end_matches('/')
    }

    /// Base URL of the metadata server, e.g. `http://metadata.google.internal`.
    #[must_use]
    pub fn metadata_endpoint(&self) -> String {
        as_url(self.surroundings.metadata_host.as_deref().unwrap_or(METADATA_HOST))
    }

    /// Time that systemd waits for a stop before it kills.
    #[must_use]
    pub fn timeout_stop(&self) -> Duration {
        self.surroundings.timeout_stop.unwrap_or(DEFAULT_TIMEOUT_STOP)
    }
}

/// `host:port` as a URL; a text with a scheme keeps it.
pub(super) fn as_url(host: &str) -> String {
    let host = host.trim_end_matches('/');
    if host.contains("://") { host.to_owned() } else { format!("http://{host}") }
}

/// systemd's notation: bare numbers are seconds, units as in `4min 30s`, `infinity` and `0` mean no limit.
fn stop_timeout(text: &str) -> Option<Duration> {
    if text == "infinity" || text == "0" {
        return Some(Duration::MAX);
    }
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)]) -> Surroundings {
        let env = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Surroundings::from_environment(&env).expect("sensible variables")
    }

    #[test]
    fn addresses_become_urls() {
        for (host, url) in [
            ("127.0.0.1:8085", "http://127.0.0.1:8085"),
            ("https://store.example:4443/", "https://store.example:4443"),
        ] {
            assert_eq!(as_url(host), url);
        }
        let surroundings = found(&[("GCE_METADATA_HOST", "127.0.0.1:9")]);
        let config = Config { surroundings, ..Config::default() };
        assert_eq!(config.metadata_endpoint(), "http://127.0.0.1:9");
    }

    #[test]
    fn without_variables_google_is_meant() {
        let surroundings = found(&[("GCE_METADATA_HOST", " ")]);
        let mut config = Config { surroundings, ..Config::default() };
        assert_eq!(config.pubsub_endpoint(), None);
        assert!(!config.pubsub_anonymous());
        assert_eq!(config.storage_endpoint(), "https://storage.googleapis.com");
        assert_eq!(config.metadata_endpoint(), "http://metadata.google.internal");
        assert_eq!(config.timeout_stop(), Duration::from_secs(240));
        config.pubsub.endpoint = Some("https://pubsub.example".to_owned());
        assert!(!config.pubsub_anonymous(), "TLS endpoints get credentials");
    }

    #[test]
    fn stop_timeouts_are_written_as_systemd_writes_them() {
        let cases = [
            ("240", Some(240)),
            ("4min", Some(240)),
            ("1min 30s", Some(90)),
            ("infinity", Some(u64::MAX)),
            ("0", Some(u64::MAX)),
            ("soon", None),
        ];
        for (text, expected) in cases {
            assert_eq!(stop_timeout(text).map(|d| d.as_secs()), expected, "{text}");
        }
    }
}
