//! Reads `database.url`: the driver gets the parameters it understands, `sslmode` and `sslrootcert` are ours.
//!
//! The driver knows no `verify-ca` and `verify-full`, and its default is to do without TLS when the server does.
//! Ours is `verify-full`, and none on loopback and unix sockets (interfaces, "Configuration").

use std::net::IpAddr;
use std::path::PathBuf;

use tokio_postgres::config::Host;

use super::error::{DbError, chain};

/// The protection of a connection; the words are libpq's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS where the server offers it, unverified. No protection against an active attacker.
    Prefer,
    /// TLS or nothing; the server is verified only where a CA file is given.
    Require,
    /// TLS, certificate signed by a trusted CA, any name.
    VerifyCa,
    /// TLS, certificate signed by a trusted CA for the host in the string.
    VerifyFull,
}

/// A parsed connection string.
#[derive(Debug, Clone)]
pub struct ConnInfo {
    /// The driver's part.
    pub config: tokio_postgres::Config,
    /// The mode in the string, or the default for its host.
    pub ssl_mode: SslMode,
    /// `sslrootcert`, where the string has one.
    pub ssl_root_cert: Option<PathBuf>,
}

impl ConnInfo {
    /// Parses a URL or a keyword/value string.
    ///
    /// # Errors
    /// [`DbError::Settings`], which never quotes the string: it may contain a password.
    pub fn parse(text: &str) -> Result<Self, DbError> {
        if text.trim().is_empty() {
            return Err(settings("database.url is empty; set it, or DATABASE_URL"));
        }
        let mut ours = Ours::default();
        let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
        let rest = if is_url { ours.take_from_url(text) } else { ours.take_from_pairs(text) };
        let config: tokio_postgres::Config = rest
            .parse()
            .map_err(|error: tokio_postgres::Error| settings(&format!("database.url: {}", chain(&error))))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(settings("database.url names no host; a unix socket is ?host=/path/of/directory"));
        }
        let ssl_mode = match ours.ssl_mode.as_deref() {
            None if is_local(&config) => SslMode::Disable,
            None => SslMode::VerifyFull,
            Some("disable") => SslMode::Disable,
            Some("allow" | "prefer") => SslMode::Prefer,
            Some("require") => SslMode::Require,
            Some("verify-ca") => SslMode::VerifyCa,
            Some("verify-full") => SslMode::VerifyFull,
            Some(other) => {
                return Err(settings(&format!(
                    "database.url: sslmode={other} is not one of disable, prefer, require, verify-ca, verify-full"
                )));
            }
        };
        Ok(Self { config, ssl_mode, ssl_root_cert: ours.ssl_root_cert.map(PathBuf::from) })
    }

    /// Whether every host is this machine: loopback or a unix socket.
    #[must_use]
    pub fn is_local(&self) -> bool {
        is_local(&self.config)
    }
}

fn settings(text: &str) -> DbError {
    DbError::Settings(text.to_owned())
}

/// The parameters that the driver lacks, or reads differently.
#[derive(Debug, Default)]
struct Ours {
    ssl_mode: Option<String>,
    ssl_root_cert: Option<String>,
}

impl Ours {
    /// Stores the parameter if it is ours; returns whether it is.
    fn take(&mut self, key: &str, value: String) -> bool {
        match key {
            "sslmode" => self.ssl_mode = Some(value),
            "sslrootcert" => self.ssl_root_cert = Some(value),
            _ => return false,
        }
        true
    }

    /// Parsed by hand and not as a URL: URL parsers refuse the lists of hosts that the driver accepts.
    fn take_from_url(&mut self, url: &str) -> String {
        let Some((base, query)) = url.split_once('?') else { return url.to_owned() };
        let kept: Vec<&str> = query
            .split('&')
            .filter(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                // In a connection URL a plus is a plus.
                let form = format!("v={}", value.replace('+', "%2B"));
                let decoded = url::form_urlencoded::parse(form.as_bytes()).next();
                !self.take(key, decoded.map(|(_, value)| value.into_owned()).unwrap_or_default())
            })
            .collect();
        if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) }
    }

    /// `key = value`, `key='quoted \' value'`, separated by white space.
    fn take_from_pairs(&mut self, text: &str) -> String {
        let mut kept = String::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let Some((key, after)) = rest.split_once('=') else {
                kept.push_str(rest); // not a pair: the driver reports it
                break;
            };
            let after = after.trim_start();
            let (value, length) = pair_value(after);
            if !self.take(key.trim(), value) {
                kept.push_str(&format!("{}={} ", key.trim(), &after[..length]));
            }
            rest = after[length..].trim_start();
        }
        kept
    }
}

/// Returns the value at the start of a text, unquoted, and its length in the text in bytes.
fn pair_value(text: &str) -> (String, usize) {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut chars = text.char_indices().skip(usize::from(quoted));
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return (value, at + 1),
            _ if !quoted && char.is_whitespace() => return (value, at),
            _ => value.push(char),
        }
    }
    (value, text.len())
}

fn is_local(config: &tokio_postgres::Config) -> bool {
    let names_are_local = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost")
                || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    });
    names_are_local && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_by_host_and_by_word() {
        use SslMode::{Disable, Prefer, Require, VerifyCa, VerifyFull};
        let table = [
            ("postgres://u@db.example.org/d", VerifyFull),
            ("postgres://u@10.0.0.3:5432/d", VerifyFull),
            ("postgres://u@127.0.0.1/d", Disable),
            ("postgres://u@localhost/d", Disable),
            ("postgres://u@[::1]:5432/d", Disable),
            ("postgres:///d?host=/run/postgresql&user=u", Disable),
            ("postgres://u@%2Frun%2Fpostgresql/d", Disable),
            ("postgres://u@localhost,db.example.org/d", VerifyFull),
            ("postgres://u@localhost/d?sslmode=verify-full", VerifyFull),
            ("postgres://u@db.example.org/d?application_name=x&sslmode=require", Require),
            ("postgres://u@db.example.org/d?sslmode=verify-ca&connect_timeout=3", VerifyCa),
            ("postgres://u@db.example.org/d?sslmode=prefer", Prefer),
            ("host=db.example.org user=u dbname=d", VerifyFull),
            ("host=db.example.org user=u sslmode = 'verify-ca' dbname=d", VerifyCa),
            ("host=/run/postgresql user=u", Disable),
            ("user=u sslmode=disable host=db.example.org", Disable),
        ];
        for (text, mode) in table {
            assert_eq!(ConnInfo::parse(text).expect(text).ssl_mode, mode, "{text}");
        }
    }

    #[test]
    fn what_is_not_ours_reaches_the_driver() {
        let url =
            "postgres://u:p%40ss@h1:1,h2:2/d?sslmode=require&options=-csearch_path%3Dx&sslrootcert=%2Fca.pem";
        let info = ConnInfo::parse(url).expect("a url");
        assert_eq!(info.config.get_user(), Some("u"));
        assert_eq!(info.config.get_password(), Some(b"p@ss".as_slice()));
        assert_eq!(info.config.get_hosts().len(), 2);
        assert_eq!(info.config.get_options(), Some("-csearch_path=x"));
        assert_eq!(info.ssl_root_cert, Some(PathBuf::from("/ca.pem")));

        let pairs = r"host=h user=u password='it\'s a \\ secret' sslmode=require dbname = d";
        let info = ConnInfo::parse(pairs).expect("pairs");
        assert_eq!(info.config.get_password(), Some(br"it's a \ secret".as_slice()));
        assert_eq!(info.config.get_dbname(), Some("d"));
    }

    #[test]
    fn faults_are_told_without_the_string() {
        for text in [
            "",
            "postgres:///d",
            "postgres://u:hunter2@h/d?sslmode=always",
            "host=h password='hunter2 nonsense",
        ] {
            let shown = ConnInfo::parse(text).expect_err(text).to_string();
            assert!(shown.contains("database.url"), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
