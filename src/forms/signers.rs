//! The list of signers: a file as `ssh-keygen -Y verify` reads it (ssh-keygen(1), "ALLOWED SIGNERS"). Pure.
//!
//! Each line has principals, options and a key. What is not understood makes the whole list unreadable, and then nothing is signed:
//! an option that was passed over could have been the one that takes a key back.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use ssh_key::PublicKey;
use ssh_key::public::KeyData;

/// Longest list that is read, in bytes.
pub const LONGEST: u64 = 1 << 20;

/// Whoever may sign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signers(Vec<Signer>);

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    principals: Vec<String>,
    key: KeyData,
    limits: Limits,
}

/// What a line's options say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Limits {
    namespaces: Option<Vec<String>>,
    valid_after: Option<Timestamp>,
    valid_before: Option<Timestamp>,
}

/// A line that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadLine {
    /// Its number.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl Signers {
    /// Reads a list.
    ///
    /// # Errors
    /// [`BadLine`], the first.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let said = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        said.map(|(line, text)| signer(text).map_err(|why| BadLine { line, why }))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// People who are named, each once.
    #[must_use]
    pub fn people(&self) -> usize {
        self.0.iter().map(Signer::name).collect::<BTreeSet<_>>().len()
    }

    /// Lines with this key that are good for this namespace.
    pub fn of<'a>(&'a self, key: &'a KeyData, namespace: &'a str) -> impl Iterator<Item = &'a Signer> {
        self.0.iter().filter(move |signer| {
            let good = signer.limits.namespaces.as_ref();
            signer.key == *key && good.is_none_or(|good| good.iter().any(|one| one == namespace))
        })
    }
}

impl Signer {
    /// The first principal, by which people are told apart.
    #[must_use]
    pub fn name(&self) -> &str {
        self.principals.first().map_or("", String::as_str)
    }

    /// Whether the line is good at this time.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        let (after, before) = (self.limits.valid_after, self.limits.valid_before);
        after.is_none_or(|after| after <= now) && before.is_none_or(|before| now < before)
    }
}

fn signer(line: &str) -> Result<Signer, String> {
    let (principals, rest) = line.split_once([' ', '\t']).ok_or("it has no key")?;
    let principals: Vec<String> = principals.trim_matches('"').split(',').map(str::to_owned).collect();
    if principals.iter().any(|name| name.is_empty() || name.contains(['*', '?', '!'])) {
        return Err("its principals are not plain names: a pattern names nobody".to_owned());
    }
    // No option has the form of a key's type.
    if let Ok(key) = PublicKey::from_openssh(rest.trim()) {
        return Ok(Signer { principals, key: key.key_data().clone(), limits: Limits::default() });
    }
    let (options, key) = after_options(rest.trim()).ok_or("it has no key")?;
    let key = PublicKey::from_openssh(key).map_err(|error| format!("its key cannot be read: {error}"))?;
    Ok(Signer { principals, key: key.key_data().clone(), limits: limits(options)? })
}

fn limits(options: &str) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for option in split(options) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = value.trim_matches('"');
        match name.to_ascii_lowercase().as_str() {
            "namespaces" => limits.namespaces = Some(value.split(',').map(str::to_owned).collect()),
            "valid-after" => limits.valid_after = Some(time(value)?),
            "valid-before" => limits.valid_before = Some(time(value)?),
            "cert-authority" => {
                return Err("cert-authority is not supported: list the keys themselves".to_owned());
            }
            other => return Err(format!("option {other:?} is not known")),
        }
    }
    Ok(limits)
}

/// Options and what follows them: the first blank outside of quotes is between them.
fn after_options(rest: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let blank = rest.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        !quoted && c.is_whitespace()
    });
    let (at, _) = blank?;
    let (options, key) = rest.split_at_checked(at)?;
    Some((options, key.trim()))
}

/// Options by their commas, those within quotes left alone.
fn split(options: &str) -> Vec<&str> {
    let mut quoted = false;
    let parts = options.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    parts.filter(|option| !option.is_empty()).collect()
}

/// `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, of the system's time zone, or of UTC with a `Z`.
fn time(text: &str) -> Result<Timestamp, String> {
    let (digits, zone) = match text.strip_suffix(['Z', 'z']) {
        Some(digits) => (digits, TimeZone::UTC),
        None => (text, TimeZone::system()),
    };
    let full = match digits.len() {
        8 => format!("{digits}000000"),
        12 => format!("{digits}00"),
        _ => digits.to_owned(),
    };
    let at: Result<Zoned, _> = DateTime::strptime("%Y%m%d%H%M%S", &full).and_then(|at| at.to_zoned(zone));
    at.map(|at| at.timestamp())
        .map_err(|_| format!("{text:?} is no time: write YYYYMMDD or YYYYMMDDHHMMSS, with Z for UTC"))
}
