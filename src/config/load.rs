//! Layers the configuration (defaults, file, `MAPLE_ROUTER__SECTION__KEY`, conventional variables) and explains
//! every fault in it at once: the key, its value, its origin, the remedy.
//!
//! Reads one file, nothing else; the environment is an argument. Loading twice does nothing twice. Whether the
//! values make sense together is asked in [`super::validate`].

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use config::{File, FileFormat};
use serde_json::{Map as JsonMap, Value as Json};

use super::explain::{expected, hint, nearest, unknown_field, without_source_line};
use super::surroundings::{Environment, Surroundings, as_url};
use super::validate::Problem;
use super::{Config, SignerKind};

/// Path of the configuration when no other is named.
pub const DEFAULT_PATH: &str = "/etc/maple-router/config.toml";
/// Prefix of the variables that override a key.
const PREFIX: &str = "MAPLE_ROUTER__";

/// Conversion of a variable's text into a value.
type Reading = fn(&str) -> String;

/// Variables of other systems that stand for a key of ours.
const CONVENTIONAL: [(&str, &str, &str, Reading); 3] = [
    ("DATABASE_URL", "database", "url", str::to_owned),
    ("PUBSUB_EMULATOR_HOST", "pubsub", "endpoint", as_url),
    ("STORAGE_EMULATOR_HOST", "signed_url", "storage_endpoint", as_url),
];

/// Origin of a value.
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
    /// Values of all keys.
    pub config: Config,
    /// The file that was read; `None` when the environment alone configures us.
    pub file: Option<PathBuf>,
    /// Origin of each key that was set, as `section.key`. Absent keys have their defaults.
    pub sources: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Returns a configuration that meets every rule of [`super::validate`].
    pub fn validated(self) -> Result<Self, ConfigError> {
        let problems = super::validate::problems(&self.config);
        if problems.is_empty() { Ok(self) } else { Err(ConfigError::Invalid { file: self.file, problems }) }
    }
}

/// One key that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The key does not exist.
    UnknownKey {
        /// Name of the section; empty for the top level.
        section: String,
        /// The key.
        key: String,
        /// Origin of the key.
        origin: Origin,
        /// The most likely meaning.
        hint: String,
    },
    /// The value does not fit the key.
    BadValue {
        /// `section.key`, or a variable's name.
        key: String,
        /// The value as written.
        value: String,
        /// Form that the key expects.
        expected: String,
        /// Origin of the value.
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
    /// The file does not exist.
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
        /// The system's words.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration file {} is not valid TOML: {detail}; mend that line", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and reason; not the line itself, which may contain a password.
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

/// Text of a list: one fault continues the sentence, several are a list.
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

/// `asked_for`: a person named this file, so that it must be there.
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
    let mut sections: BTreeMap<String, Json> = config::Config::builder()
        .add_source(File::from_str(text, FileFormat::Toml))
        .build()
        .and_then(config::Config::try_deserialize)
        .map_err(|error| ConfigError::Syntax {
            path: path.to_path_buf(),
            detail: without_source_line(&error),
        })?;
    for (section, keys) in &overrides {
        let layered = sections.entry(section.clone()).or_default();
        if !layered.is_object() {
            *layered = Json::Object(JsonMap::new());
        }
        for (path, (_, value)) in keys {
            let mut place = &mut *layered;
            for name in path.split('.') {
                if !place.is_object() {
                    *place = Json::Object(JsonMap::new());
                }
                place = &mut place[name];
            }
            *place = value.clone();
        }
    }

    let mut sources = BTreeMap::new();
    let mut accepted = JsonMap::new();
    for (section, value) in sections {
        let here = Origin::File(path.to_path_buf());
        let Some(keys) = known.get(&section) else {
            faults.push(unknown("", &section, here, &known));
            continue;
        };
        let Json::Object(entries) = value else {
            faults.push(Fault::BadValue {
                key: section.clone(),
                value: value.to_string(),
                expected: format!("a section: [{section}] on a line of its own"),
                origin: here,
            });
            continue;
        };
        let mut fit = JsonMap::new();
        for (key, value) in entries {
            let full = format!("{section}.{key}");
            let origin = match overrides.get(&section).and_then(|keys| keys.get(&key)) {
                Some((name, _)) => Origin::Variable(name.clone()),
                None => here.clone(),
            };
            if !keys.contains_key(&key) {
                faults.push(unknown(&section, &key, origin, &known));
                continue;
            }
            match fitting(&section, &key, value, matches!(origin, Origin::Variable(_))) {
                Ok(value) => {
                    sources.insert(full, origin);
                    fit.insert(key, value);
                }
                Err(misfit) => {
                    let nested = overrides.get(&section).and_then(|keys| keys.get(&misfit.key));
                    let origin = nested.map_or(origin, |(name, _)| Origin::Variable(name.clone()));
                    faults.push(misfit.into_fault(&section, origin));
                }
            }
        }
        accepted.insert(section, Json::Object(fit));
    }
    for (section, keys) in &overrides {
        for (key, (name, _)) in keys.iter().filter(|(key, _)| key.contains('.')) {
            sources.insert(format!("{section}.{key}"), Origin::Variable(name.clone()));
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
        // Every key fitted alone, so this cannot happen with the types as they are; serde's words are shown.
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

/// Overrides of the environment: key by section (in a nested section `judge.model`), each with the variable and its value.
type Overrides = BTreeMap<String, BTreeMap<String, (String, Json)>>;

fn overrides(env: &Environment, known: &BTreeMap<String, JsonMap<String, Json>>) -> (Overrides, Vec<Fault>) {
    let mut found = Overrides::new();
    let mut faults = Vec::new();
    for (name, text) in env {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let (section, key) = rest.split_once("__").unwrap_or((rest, ""));
        let (section, key) = (section.to_lowercase(), key.to_lowercase().replace("__", "."));
        let origin = Origin::Variable(name.clone());
        match known.get(&section).map(|keys| default_of(keys, &key)) {
            None => faults.push(unknown("", &section, origin, known)),
            Some(None) => faults.push(unknown(&section, &key, origin, known)),
            Some(Some(default)) => {
                let value = from_variable(text, default);
                found.entry(section).or_default().insert(key, (name.clone(), value));
            }
        }
    }
    for (name, section, key, url) in CONVENTIONAL {
        if let Some(text) = env.get(name).map(|text| text.trim()).filter(|text| !text.is_empty()) {
            let value = Json::from(url(text));
            found.entry(section.to_owned()).or_default().insert(key.to_owned(), (name.to_owned(), value));
        }
    }
    (found, faults)
}

/// The default of a key, or of one in a nested section; `None` where there is no such key.
fn default_of<'a>(keys: &'a JsonMap<String, Json>, key: &str) -> Option<&'a Json> {
    let mut names = key.split('.');
    let first = keys.get(names.next()?)?;
    names.try_fold(first, |place, name| place.get(name))
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

/// A value that does not fit its key.
struct Misfit {
    /// The key below the section; of a nested section with the names on the way, e.g. `users.alice.role`.
    key: String,
    /// The value as text.
    value: String,
    /// The words of serde.
    said: String,
}

impl Misfit {
    fn into_fault(self, section: &str, origin: Origin) -> Fault {
        let full = format!("{section}.{}", self.key);
        let Some((key, known)) = unknown_field(&self.said) else {
            let expected = expected(&self.said);
            return Fault::BadValue { key: full, value: self.value, expected, origin };
        };
        let section = full.strip_suffix(&format!(".{key}")).unwrap_or(&full).to_owned();
        Fault::UnknownKey { section, hint: nearest(&key, &known), key, origin }
    }
}

/// Tries one key alone, so that a fault is this key's and no other's; of nested sections the very part that does not fit.
fn fitting(section: &str, key: &str, value: Json, from_variable: bool) -> Result<Json, Misfit> {
    let attempt = |path: &[&str], value: &Json| {
        let alone = [section].iter().chain(path).rev().fold(value.clone(), |inner, name| {
            Json::Object([((*name).to_owned(), inner)].into_iter().collect())
        });
        serde_json::from_value::<Config>(alone).map(|_| ())
    };
    let Err(error) = attempt(&[key], &value) else { return Ok(value) };
    // A variable is text; an optional number has no default from which to see that a number is meant.
    if let Some(number) = value.as_str().filter(|_| from_variable).and_then(|t| t.parse::<i64>().ok())
        && attempt(&[key], &Json::from(number)).is_ok()
    {
        return Ok(Json::from(number));
    }
    let (mut path, mut value, mut said) = (vec![key], &value, error.to_string());
    while let Json::Object(parts) = value {
        let misfit = parts.iter().find_map(|(name, part)| {
            let deeper = [&path[..], &[name.as_str()]].concat();
            attempt(&deeper, part).err().map(|error| (deeper, part, error.to_string()))
        });
        let Some(deeper) = misfit else { break };
        (path, value, said) = deeper;
    }
    // A connection string may contain a password, whatever else is wrong with it.
    let secret = path.last().is_some_and(|name| name.ends_with("url"));
    let value = if secret { "<not shown>".to_owned() } else { value.to_string() };
    Err(Misfit { key: path.join("."), value, said })
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
    fn a_variable_names_a_key_of_a_nested_section() {
        let nowhere = Path::new("/nowhere/config.toml");
        let variable = |key: &str, value: &str| (format!("MAPLE_ROUTER__SCREENING__{key}"), value.to_owned());
        let env =
            Environment::from([variable("JUDGE__SLOTS", "3"), variable("GIT__HOSTS", "a.example,b.example")]);
        let loaded = load_from(nowhere, false, &env).expect("the environment configures");
        assert_eq!(loaded.config.screening.judge.slots, 3);
        assert_eq!(loaded.config.screening.git.hosts, ["a.example", "b.example"]);
        assert_eq!(
            loaded.config.screening.judge.timeout,
            std::time::Duration::from_secs(25),
            "its neighbours stay"
        );
        assert!(matches!(loaded.sources.get("screening.judge.slots"), Some(Origin::Variable(_))));

        for (key, value, told) in [
            ("JUDGE__SLOT", "3", "unknown key `judge.slot`"),
            ("JUDGE__SLOTS", "many", "`screening.judge.slots` = \"many\" in environment variable"),
            ("JUDGE", "3", "`screening.judge`"),
        ] {
            let error = load_from(nowhere, false, &Environment::from([variable(key, value)])).expect_err(key);
            assert!(error.to_string().contains(told), "{key}: {error}");
        }
    }

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
