//! Layers the configuration (defaults, file, `MAPLE_ROUTER__SECTION__KEY`, conventional variables) and explains every
//! fault in it at once: which key, what it says, where it stands, what would be right.
//!
//! Reads one file, nothing else; the environment is an argument. Loading twice does nothing twice. Whether the values
//! make sense together is asked in [`super::validate`].

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use config::{File, FileFormat, Map, Source, Value, ValueKind};
use serde_json::{Map as JsonMap, Value as Json};

use super::explain::{expected, hint, without_source_line};
use super::surroundings::as_url;
use super::validate::Problem;
use super::{Config, SignerKind, Surroundings};

/// Where the configuration is when nobody says otherwise.
pub const DEFAULT_PATH: &str = "/etc/maple-router/config.toml";
/// What the variables that override a key begin with.
const PREFIX: &str = "MAPLE_ROUTER__";

/// How a variable's text becomes a value.
type Reading = fn(&str) -> String;

/// Variables of other systems that stand for a key of ours.
const CONVENTIONAL: [(&str, &str, Reading); 3] = [
    ("DATABASE_URL", "database.url", str::to_owned),
    ("PUBSUB_EMULATOR_HOST", "pubsub.endpoint", as_url),
    ("STORAGE_EMULATOR_HOST", "signed_url.storage_endpoint", as_url),
];

/// A snapshot of environment variables.
pub type Environment = BTreeMap<String, String>;

/// Takes a snapshot of this process's environment; what is not UTF-8 is left out.
#[must_use]
pub fn environment() -> Environment {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file.
    File(PathBuf),
    /// An environment variable, by name.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// A configuration whose every key has a sensible shape; [`Loaded::validated`] also asks whether they fit together.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The file that was read; `None` when the environment alone configures us.
    pub file: Option<PathBuf>,
    /// Where each key that was set came from, as `section.key`. Absent keys have their defaults.
    pub sources: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Passes a configuration on that meets every rule of [`super::validate`].
    pub fn validated(self) -> Result<Self, ConfigError> {
        let problems = super::validate::problems(&self.config);
        if problems.is_empty() { Ok(self) } else { Err(ConfigError::Invalid { file: self.file, problems }) }
    }
}

/// One key that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No such key.
    UnknownKey {
        /// Name of the section; empty for the top level.
        section: String,
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// What was meant, most likely.
        hint: String,
    },
    /// The value does not fit the key.
    BadValue {
        /// `section.key`, or a variable's name.
        key: String,
        /// The value as written.
        value: String,
        /// What is expected.
        expected: String,
        /// Where it stands.
        origin: Origin,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { section, key, origin, hint } if section.is_empty() => {
                write!(f, "unknown section or top-level key `{key}` in {origin}; {hint}")
            }
            Self::UnknownKey { section, key, origin, hint } => {
                write!(f, "unknown key `{key}` in section [{section}] of {origin}; {hint}")
            }
            Self::BadValue { key, value, expected, origin } => {
                write!(f, "`{key}` = {value} in {origin} cannot be used; expected {expected}")
            }
        }
    }
}

/// Why there is no configuration. Maps to exit code 78.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No such file.
    #[error(
        "there is no configuration file {}; create it (the package ships an example) or name another with --config FILE",
        path.display()
    )]
    Missing {
        /// The file looked for.
        path: PathBuf,
    },
    /// The file is there but cannot be read.
    #[error(
        "cannot read the configuration file {}: {source}; let the user that runs maple-router read it, or name another with --config FILE",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration file {} is not valid TOML: {detail}; mend that line", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and reason; not the line itself, which may hold a password.
        detail: String,
    },
    /// Keys or values that are not understood, all of them.
    #[error("{}", list(faults))]
    Faults {
        /// At least one.
        faults: Vec<Fault>,
    },
    /// Values that do not fit together, all of them.
    #[error("{}", list(problems))]
    Invalid {
        /// The file, when one was read.
        file: Option<PathBuf>,
        /// At least one.
        problems: Vec<Problem>,
    },
}

/// One fault stands in the sentence, several are a list.
fn list<T: fmt::Display>(items: &[T]) -> String {
    match items {
        [one] => one.to_string(),
        many => {
            let lines: String = many.iter().map(|item| format!("\n  - {item}")).collect();
            format!("{} faults in the configuration:{lines}", many.len())
        }
    }
}

impl Config {
    /// Loads the file (`path`, else [`DEFAULT_PATH`]) and lays the environment over it.
    ///
    /// A missing default file is no fault where the environment configures us (`DATABASE_URL` or any
    /// `MAPLE_ROUTER__…`), as in a container. Every other fault is reported, all at once where there are several.
    pub fn load(path: Option<&Path>, env: &Environment) -> Result<Loaded, ConfigError> {
        load_from(path.unwrap_or(Path::new(DEFAULT_PATH)), path.is_some(), env)
    }
}

/// `asked_for`: somebody named this file, so that it must be there.
fn load_from(path: &Path, asked_for: bool, env: &Environment) -> Result<Loaded, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => read(&text, Some(path.to_path_buf()), path, env),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let elsewhere = env.keys().any(|name| name.starts_with(PREFIX) || name == "DATABASE_URL");
            if asked_for || !elsewhere {
                return Err(ConfigError::Missing { path: path.to_path_buf() });
            }
            read("", None, path, env)
        }
        Err(source) => Err(ConfigError::Unreadable { path: path.to_path_buf(), source }),
    }
}

fn read(text: &str, file: Option<PathBuf>, path: &Path, env: &Environment) -> Result<Loaded, ConfigError> {
    let known = known_keys();
    let (overrides, mut faults) = overrides(env, &known);
    let merged = config::Config::builder()
        .add_source(File::from_str(text, FileFormat::Toml))
        .add_source(Overrides(overrides.clone()))
        .build()
        .map_err(|error| ConfigError::Syntax {
            path: path.to_path_buf(),
            detail: without_source_line(&error),
        })?;

    let mut sources = BTreeMap::new();
    let mut accepted = JsonMap::new();
    for (section, value) in table(&merged.cache) {
        let here = Origin::File(path.to_path_buf());
        let Some(keys) = known.get(&section) else {
            faults.push(unknown("", &section, here, &known));
            continue;
        };
        let ValueKind::Table(_) = value.kind else {
            faults.push(Fault::BadValue {
                key: section.clone(),
                value: json(&value).to_string(),
                expected: format!("a section: [{section}] on a line of its own"),
                origin: here,
            });
            continue;
        };
        for (key, value) in table(&value) {
            let full = format!("{section}.{key}");
            let origin = match overrides.get(&full) {
                Some((name, _)) => Origin::Variable(name.clone()),
                None => here.clone(),
            };
            if !keys.contains_key(&key) {
                faults.push(unknown(&section, &key, origin, &known));
                continue;
            }
            match fitting(&section, &key, json(&value), matches!(origin, Origin::Variable(_))) {
                Ok(value) => {
                    sources.insert(full, origin);
                    if let Json::Object(entries) =
                        accepted.entry(section.clone()).or_insert_with(|| Json::Object(JsonMap::new()))
                    {
                        entries.insert(key, value);
                    }
                }
                Err((value, expected)) => faults.push(Fault::BadValue { key: full, value, expected, origin }),
            }
        }
    }
    let surroundings = match Surroundings::from_environment(env) {
        Ok(surroundings) => surroundings,
        Err(bad) => {
            faults.push(Fault::BadValue {
                key: bad.name.to_owned(),
                value: format!("{:?}", bad.value),
                expected: bad.expected.to_owned(),
                origin: Origin::Variable(bad.name.to_owned()),
            });
            Surroundings::default()
        }
    };
    if !faults.is_empty() {
        return Err(ConfigError::Faults { faults });
    }
    let mut config: Config = serde_json::from_value(Json::Object(accepted)).map_err(|error| {
        // Every key fitted alone, so this cannot happen with the types as they are; say what serde says.
        ConfigError::Syntax { path: path.to_path_buf(), detail: error.to_string() }
    })?;
    config.surroundings = surroundings;
    if config.signed_url.signer == SignerKind::KeyFile {
        config.signed_url.key_file = config.signing_key_file();
    }
    Ok(Loaded { config, file, sources })
}

/// Sections and their keys, with default values: taken from the types, so that the two cannot part.
pub(super) fn known_keys() -> BTreeMap<String, JsonMap<String, Json>> {
    let Ok(Json::Object(sections)) = serde_json::to_value(Config::default()) else { return BTreeMap::new() };
    sections
        .into_iter()
        .filter_map(|(name, keys)| match keys {
            Json::Object(keys) => Some((name, keys)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
        })
        .collect()
}

/// What the environment overrides: `section.key` to (variable, value).
type OverrideMap = BTreeMap<String, (String, Json)>;

fn overrides(
    env: &Environment,
    known: &BTreeMap<String, JsonMap<String, Json>>,
) -> (OverrideMap, Vec<Fault>) {
    let mut found = OverrideMap::new();
    let mut faults = Vec::new();
    for (name, text) in env {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let (section, key) = rest.split_once("__").unwrap_or((rest, ""));
        let (section, key) = (section.to_lowercase(), key.to_lowercase());
        let origin = Origin::Variable(name.clone());
        match known.get(&section).map(|keys| keys.get(&key)) {
            None => faults.push(unknown("", &section, origin, known)),
            Some(None) => faults.push(unknown(&section, &key, origin, known)),
            Some(Some(default)) => {
                found.insert(format!("{section}.{key}"), (name.clone(), from_variable(text, default)));
            }
        }
    }
    for (name, key, url) in CONVENTIONAL {
        if let Some(text) = env.get(name).map(|text| text.trim()).filter(|text| !text.is_empty()) {
            found.insert(key.to_owned(), (name.to_owned(), Json::from(url(text))));
        }
    }
    (found, faults)
}

/// A variable's text in the shape of the key's default: lists are comma separated, empty means "not set".
fn from_variable(text: &str, default: &Json) -> Json {
    let text = text.trim();
    match default {
        Json::Array(_) => {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Json::from).collect()
        }
        Json::Bool(_) => text.parse().map_or_else(|_| Json::from(text), Json::Bool),
        Json::Number(_) => text.parse::<i64>().map_or_else(|_| Json::from(text), Json::from),
        Json::Null if text.is_empty() => Json::Null,
        Json::Null | Json::String(_) | Json::Object(_) => Json::from(text),
    }
}

/// The environment as a layer above the file.
#[derive(Debug, Clone)]
struct Overrides(OverrideMap);

impl Source for Overrides {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        Ok(self
            .0
            .iter()
            .map(|(key, (name, value))| (key.clone(), Value::new(Some(name), kind(value))))
            .collect())
    }
}

fn kind(value: &Json) -> ValueKind {
    match value {
        Json::Null | Json::Object(_) => ValueKind::Nil,
        Json::Bool(b) => ValueKind::Boolean(*b),
        Json::Number(n) => ValueKind::I64(n.as_i64().unwrap_or_default()),
        Json::String(text) => ValueKind::String(text.clone()),
        Json::Array(items) => {
            ValueKind::Array(items.iter().map(|item| Value::new(None, kind(item))).collect())
        }
    }
}

/// A layered value with the type it was written in. The layering library would turn `25.7` into 26 and `true` into 1.
fn json(value: &Value) -> Json {
    match &value.kind {
        ValueKind::Nil => Json::Null,
        ValueKind::Boolean(b) => Json::from(*b),
        ValueKind::I64(n) => Json::from(*n),
        ValueKind::U64(n) => Json::from(*n),
        ValueKind::I128(n) => Json::from(n.to_string()),
        ValueKind::U128(n) => Json::from(n.to_string()),
        ValueKind::Float(n) => Json::from(*n),
        ValueKind::String(text) => Json::from(text.as_str()),
        ValueKind::Array(items) => items.iter().map(json).collect(),
        ValueKind::Table(entries) => entries.iter().map(|(k, v)| (k.clone(), json(v))).collect(),
    }
}

fn table(value: &Value) -> Vec<(String, Value)> {
    let mut entries: Vec<_> = match &value.kind {
        ValueKind::Table(entries) => entries.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        ValueKind::Nil
        | ValueKind::Boolean(_)
        | ValueKind::I64(_)
        | ValueKind::I128(_)
        | ValueKind::U64(_)
        | ValueKind::U128(_)
        | ValueKind::Float(_)
        | ValueKind::String(_)
        | ValueKind::Array(_) => Vec::new(),
    };
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries
}

/// Tries one key alone, so that a fault is this key's and no other's. `Err`: the value as text, and what is expected.
fn fitting(section: &str, key: &str, value: Json, from_variable: bool) -> Result<Json, (String, String)> {
    let attempt = |value: &Json| {
        let alone = Json::Object([(key.to_owned(), value.clone())].into_iter().collect());
        let whole = Json::Object([(section.to_owned(), alone)].into_iter().collect());
        serde_json::from_value::<Config>(whole).map(|_| ())
    };
    match attempt(&value) {
        Ok(()) => Ok(value),
        Err(error) => {
            // A variable is text; an optional number has no default from which to see that a number is meant.
            if let Some(number) = value.as_str().filter(|_| from_variable).and_then(|t| t.parse::<i64>().ok())
                && attempt(&Json::from(number)).is_ok()
            {
                return Ok(Json::from(number));
            }
            // A connection string may hold a password, whatever else is wrong with it.
            let shown = if key.ends_with("url") { "<not shown>".to_owned() } else { value.to_string() };
            Err((shown, expected(&error.to_string())))
        }
    }
}

fn unknown(
    section: &str,
    key: &str,
    origin: Origin,
    known: &BTreeMap<String, JsonMap<String, Json>>,
) -> Fault {
    let hint = hint(section, key, known);
    Fault::UnknownKey { section: section.to_owned(), key: key.to_owned(), origin, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_file_may_be_missing_where_the_environment_configures() {
        let nowhere = Path::new("/nowhere/config.toml");
        let env = Environment::from([("DATABASE_URL".to_owned(), "postgres://localhost/forms".to_owned())]);
        let loaded = load_from(nowhere, false, &env).expect("the environment configures");
        assert_eq!(loaded.file, None);
        assert_eq!(loaded.config.database.url, "postgres://localhost/forms");

        assert!(
            matches!(load_from(nowhere, true, &env), Err(ConfigError::Missing { .. })),
            "asked for by name"
        );
        let nothing = Environment::from([("PATH".to_owned(), "/bin".to_owned())]);
        assert!(matches!(load_from(nowhere, false, &nothing), Err(ConfigError::Missing { .. })));
    }
}
