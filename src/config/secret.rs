//! Secrets: read from files that only the service may read, never from settings, never shown.
//!
//! Order: the `*_file` key, then systemd's `$CREDENTIALS_DIRECTORY`, or where that variable is not set
//! `/etc/maple-router/credentials/`, for an operator's command line. A file there has the secret's name, with or
//! without an ending (`signing-key.json`); the unit hands the whole directory over, which puts `maple-router_`
//! before each name. The file of a secret may be shown; its content never is.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::dsn::Dsn;
use super::surroundings::Surroundings;
use super::{Config, Database, DatabaseAuth, SignerKind};

/// Directory in which an operator's command line finds the files that systemd hands to the service.
pub const OPERATOR_CREDENTIALS: &str = "/etc/maple-router/credentials";

/// Prefix that systemd puts before a file's name where the unit loads a directory (`LoadCredential=maple-router:…`).
const OF_THE_UNIT: &str = "maple-router_";
/// Endings a credential's file may have.
const ENDINGS: [&str; 2] = ["", ".json"];

/// Credential name of the database password (`database.password_file`).
pub const DATABASE_PASSWORD: &str = "database-password";
/// Credential name of the Slack incoming-webhook URL (`slack.webhook_file`).
pub const SLACK_WEBHOOK: &str = "slack-webhook";
/// Credential name of the security team's incoming-webhook URL (`slack.security_webhook_file`).
pub const SECURITY_WEBHOOK: &str = "security-webhook";
/// Credential name of the heartbeat URL (`canary.heartbeat_url_file`).
pub const HEARTBEAT_URL: &str = "heartbeat-url";
/// Credential name of the secrets that envelope senders are signed with (`bounces.secret_file`).
pub const BOUNCE_SECRET: &str = "bounce-secret";
/// Credential name of the key that the audit log's digests are made with (`audit.key_file`).
pub const AUDIT_KEY: &str = "audit-key";
/// Credential name of the password of the desk's database role (`desk.database_password_file`).
pub const DESK_DATABASE_PASSWORD: &str = "desk-database-password";
/// Credential name of the secret that the desk's credentials are digested with (`desk.secret_file`).
pub const DESK_SECRET: &str = "desk-secret";
/// Credential of the backend's key for uploads.
pub const UPLOADS_KEY: &str = "uploads-key";
/// Credential name of the judge's key (`screening.judge.key_file`).
pub const JUDGE_KEY: &str = "judge-key";
/// Credential name of the key of whoever grades (`grading.judge.key_file`).
pub const GRADER_KEY: &str = "grader-key";
/// Credential name of the key of whoever transcribes (`grading.stt.key_file`).
pub const STT_KEY: &str = "stt-key";
/// Credential name of the help desk's API key (`happyfox.api_key_file`).
pub const HAPPYFOX_API_KEY: &str = "happyfox-api-key";
/// Credential name of the help desk's auth code (`happyfox.auth_code_file`).
pub const HAPPYFOX_AUTH_CODE: &str = "happyfox-auth-code";
/// Credential name of the collector's service-account key (`retention.key_file`).
pub const COLLECTOR_KEY: &str = "gc-key";
/// Credential name of the service-account key (`signed_url.key_file`).
pub const SIGNING_KEY: &str = "signing-key";

/// The key that Google's libraries find by themselves (`GOOGLE_APPLICATION_CREDENTIALS`).
const GOOGLE_CREDENTIALS: &str = "google-credentials";

/// A secret string. Neither `Debug` nor any `Display` shows it; its user calls [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value, e.g. one typed in a test.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself, to be handed to its one user.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// A secret that was read, and its facts that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadSecret {
    /// One of the credential names above.
    pub name: &'static str,
    /// The file it was read from.
    pub path: PathBuf,
    /// The value.
    pub secret: Secret,
    /// Every user of this machine may read the file: worth a warning.
    pub world_readable: bool,
}

/// A secret that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file is configured (or there), but cannot be read.
    #[error(
        "cannot read the {name} from {}: {source}; create the file, or let its owner be the user that runs maple-router (mode 0600), or pass it with LoadCredential={name}:{}",
        path.display(), path.display()
    )]
    Unreadable {
        /// Credential name.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The file is empty.
    #[error("the {name} file {} is empty; put the secret on its first line", path.display())]
    Empty {
        /// Credential name.
        name: &'static str,
        /// The file.
        path: PathBuf,
    },
}

/// Reads a secret. `file` is the configured `*_file`; when absent, the credential directories are tried.
///
/// `Ok(None)`: no secret is configured. Errors: a file that is configured or present but unreadable or empty.
/// Trailing line breaks are not part of a secret.
pub fn read(
    name: &'static str,
    file: Option<&Path>,
    surroundings: &Surroundings,
) -> Result<Option<ReadSecret>, SecretError> {
    let Some(path) = file.map(Path::to_path_buf).or_else(|| credential_file(surroundings, name)) else {
        return Ok(None);
    };
    let unreadable = |source| SecretError::Unreadable { name, path: path.clone(), source };
    let text = std::fs::read_to_string(&path).map_err(unreadable)?;
    let mode = std::fs::metadata(&path).map_err(unreadable)?.permissions().mode();
    let value = text.trim_end_matches(['\n', '\r']);
    if value.trim().is_empty() {
        return Err(SecretError::Empty { name, path });
    }
    Ok(Some(ReadSecret { name, secret: Secret::new(value), world_readable: mode & 0o004 != 0, path }))
}

/// The file of a credential, where a credential directory has it.
pub(super) fn credential_file(surroundings: &Surroundings, name: &str) -> Option<PathBuf> {
    // Inside the service only systemd's directory counts: the operator's is root's, and looking there would turn
    // "not configured" into "permission denied".
    let directory = surroundings.credentials_directory.as_deref().unwrap_or(Path::new(OPERATOR_CREDENTIALS));
    let names =
        ["", OF_THE_UNIT].iter().flat_map(|before| ENDINGS.map(|ending| format!("{before}{name}{ending}")));
    // A file that is there but may not be looked at is an error to report, not an absence.
    names.map(|name| directory.join(name)).find(|path| !matches!(path.try_exists(), Ok(false)))
}

/// Every secret that this configuration names or a credential directory has, read or refused.
#[must_use]
pub fn every_one(config: &Config) -> Vec<Result<Option<ReadSecret>, SecretError>> {
    let mut all = vec![
        config.database_password(),
        config.slack_webhook(),
        config.security_webhook(),
        config.heartbeat_url(),
        config.audit_key(),
    ];
    if config.signed_url.signer == SignerKind::KeyFile {
        all.push(config.signing_key());
    }
    if config.bounces.address.is_some() {
        all.push(config.bounce_secret());
    }
    if config.happyfox.is_on() {
        all.extend([config.happyfox_api_key(), config.happyfox_auth_code()]);
    }
    // Pub/Sub's client reads this file by itself, unless it talks to an emulator.
    let emulator = config.pubsub.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    if let Some(path) = config.surroundings.application_credentials.as_deref().filter(|_| !emulator) {
        all.push(read(GOOGLE_CREDENTIALS, Some(path), &config.surroundings));
    }
    all
}

impl Config {
    /// The database password, if one is configured.
    pub fn database_password(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(DATABASE_PASSWORD, self.database.password_file.as_deref(), &self.surroundings)
    }

    /// The Slack incoming-webhook URL, if one is configured.
    pub fn slack_webhook(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(SLACK_WEBHOOK, self.slack.webhook_file.as_deref(), &self.surroundings)
    }

    /// The security team's incoming webhook, if any.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn security_webhook(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(SECURITY_WEBHOOK, self.slack.security_webhook_file.as_deref(), &self.surroundings)
    }

    /// The URL that is called to say "alive", if one is configured.
    pub fn heartbeat_url(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(HEARTBEAT_URL, self.canary.heartbeat_url_file.as_deref(), &self.surroundings)
    }

    /// The secrets that sign envelope senders, a line each, if configured.
    pub fn bounce_secret(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(BOUNCE_SECRET, self.bounces.secret_file.as_deref(), &self.surroundings)
    }

    /// The key of the audit log's digests, if configured: else one is made once in the state directory.
    pub fn audit_key(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(AUDIT_KEY, self.audit.key_file.as_deref(), &self.surroundings)
    }

    /// The secret of the desk, if one is configured. Not among [`every_one`]: without it there is no desk, and routing goes on.
    pub fn desk_secret(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(DESK_SECRET, self.desk.secret_file.as_deref(), &self.surroundings)
    }

    /// Connections as the desk's own role, within the bounds of `settings`, and its password, if one is configured; `None` where
    /// the desk comes as the daemon's.
    ///
    /// The daemon's role is the backend's as well, and whoever fills in forms for others must not approve them: the function by
    /// which people decide about screening is the own role's alone.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn desk_database(
        &self,
        settings: Database,
    ) -> Result<Option<(Database, Option<Secret>)>, SecretError> {
        let Some(url) = &self.desk.database_url else { return Ok(None) };
        let file = self.desk.database_password_file.as_deref();
        let password = read(DESK_DATABASE_PASSWORD, file, &self.surroundings)?.map(|found| found.secret);
        let has_password = password.is_some() || Dsn::read(url).has_password;
        let own = Database {
            url: url.clone(),
            auth: if has_password { DatabaseAuth::Password } else { settings.auth },
            password_file: None,
            listen_url: None,
            pooling: settings.said_pooling(),
            ..settings
        };
        Ok(Some((own, password)))
    }

    /// The key by which the backend makes upload sessions, if one is configured. As with [`Self::desk_secret`], only the uploads
    /// are away without it.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn uploads_key(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(UPLOADS_KEY, self.uploads.key_file.as_deref(), &self.surroundings)
    }

    /// The key of screening's judge, if one is configured. As with [`Self::desk_secret`], only the judge is away without it.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn judge_key(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(JUDGE_KEY, self.screening.judge.key_file.as_deref(), &self.surroundings)
    }

    /// The key of whoever grades, if one is configured; only the grader needs it.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn grader_key(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(GRADER_KEY, self.grading.judge.key_file.as_deref(), &self.surroundings)
    }

    /// The key of whoever transcribes, if one is configured; only the grader needs it.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn stt_key(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(STT_KEY, self.grading.stt.key_file.as_deref(), &self.surroundings)
    }

    /// The key file of the collector's service account: `retention.key_file`, else systemd's credential `gc-key`.
    #[must_use]
    pub fn collector_key_file(&self) -> Option<PathBuf> {
        self.retention.key_file.clone().or_else(|| credential_file(&self.surroundings, COLLECTOR_KEY))
    }

    /// The help desk's API key, if one is configured.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn happyfox_api_key(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(HAPPYFOX_API_KEY, self.happyfox.api_key_file.as_deref(), &self.surroundings)
    }

    /// The help desk's auth code, if one is configured.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn happyfox_auth_code(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(HAPPYFOX_AUTH_CODE, self.happyfox.auth_code_file.as_deref(), &self.surroundings)
    }

    /// Whether `happyfox.api_key_file` or systemd's credential `happyfox-api-key` names a secret.
    #[must_use]
    pub fn has_happyfox_api_key(&self) -> bool {
        let credential = || credential_file(&self.surroundings, HAPPYFOX_API_KEY);
        self.happyfox.api_key_file.is_some() || credential().is_some()
    }

    /// Whether `happyfox.auth_code_file` or systemd's credential `happyfox-auth-code` names a secret.
    #[must_use]
    pub fn has_happyfox_auth_code(&self) -> bool {
        let credential = || credential_file(&self.surroundings, HAPPYFOX_AUTH_CODE);
        self.happyfox.auth_code_file.is_some() || credential().is_some()
    }

    /// The service-account key for `signer = "key-file"`: `signed_url.key_file`, else
    /// `GOOGLE_APPLICATION_CREDENTIALS`, else systemd's credential `signing-key`.
    #[must_use]
    pub fn signing_key_file(&self) -> Option<PathBuf> {
        self.signed_url
            .key_file
            .clone()
            .or_else(|| self.surroundings.application_credentials.clone())
            .or_else(|| credential_file(&self.surroundings, SIGNING_KEY))
    }

    /// Whether `bounces.secret_file` or systemd's credential `bounce-secret` names a secret.
    #[must_use]
    pub fn has_bounce_secret(&self) -> bool {
        let credential = || credential_file(&self.surroundings, BOUNCE_SECRET);
        self.bounces.secret_file.is_some() || credential().is_some()
    }

    /// The service-account key (JSON), if one is configured or `GOOGLE_APPLICATION_CREDENTIALS` names one.
    pub fn signing_key(&self) -> Result<Option<ReadSecret>, SecretError> {
        read(SIGNING_KEY, self.signing_key_file().as_deref(), &self.surroundings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).expect("write");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    }

    #[test]
    fn the_file_key_wins_over_the_credential_directory() {
        let dir = tempfile::tempdir().expect("tempdir");
        put(&dir.path().join(SLACK_WEBHOOK), "https://hooks.example/credential\n", 0o600);
        put(&dir.path().join("other"), "https://hooks.example/file\r\n", 0o600);
        let surroundings =
            Surroundings { credentials_directory: Some(dir.path().to_path_buf()), ..Surroundings::default() };

        let found = read(SLACK_WEBHOOK, None, &surroundings).expect("readable").expect("present");
        assert_eq!(found.secret.expose(), "https://hooks.example/credential");
        assert_eq!(found.path, dir.path().join(SLACK_WEBHOOK));
        assert!(!found.world_readable);

        let file = dir.path().join("other");
        let found = read(SLACK_WEBHOOK, Some(&file), &surroundings).expect("readable").expect("present");
        assert_eq!(found.secret.expose(), "https://hooks.example/file");
    }

    #[test]
    fn credentials_are_found_as_systemd_names_them() {
        for (file, found) in [
            ("signing-key", true),
            ("signing-key.json", true),
            ("maple-router_signing-key", true),
            ("maple-router_signing-key.json", true),
            ("other_signing-key", false),
            ("signing-key.json.old", false),
        ] {
            let dir = tempfile::tempdir().expect("tempdir");
            put(&dir.path().join(file), "{}", 0o600);
            let surroundings = Surroundings {
                credentials_directory: Some(dir.path().to_path_buf()),
                ..Surroundings::default()
            };
            let path = credential_file(&surroundings, SIGNING_KEY);
            assert_eq!(path, found.then(|| dir.path().join(file)), "{file}");
        }
    }

    #[test]
    fn nothing_configured_is_not_an_error_but_a_missing_file_is() {
        assert_eq!(read("no-such-credential", None, &Surroundings::default()).expect("absent"), None);
        let error = read(DATABASE_PASSWORD, Some(Path::new("/nowhere/pw")), &Surroundings::default())
            .expect_err("configured but missing")
            .to_string();
        assert!(error.contains("/nowhere/pw") && error.contains("LoadCredential"), "{error}");
    }

    #[test]
    fn an_open_file_is_told_of_and_an_empty_one_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("pw");
        put(&path, "secret-word", 0o644);
        let found =
            read(DATABASE_PASSWORD, Some(&path), &Surroundings::default()).expect("read").expect("some");
        assert!(found.world_readable);
        assert!(!format!("{found:?}").contains("secret-word"), "Debug must not show a secret");

        put(&path, "\n", 0o600);
        assert!(matches!(
            read(DATABASE_PASSWORD, Some(&path), &Surroundings::default()),
            Err(SecretError::Empty { .. })
        ));
    }
}
