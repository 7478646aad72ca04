//! Validity of the configuration as a whole: rules of each key (`requirements`), rules between keys
//! ([`super::inequalities`]), and where a password may stand.
//!
//! Pure. All problems are collected, because a person who mends one wants to see the next.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value as Json;

use super::dsn::Dsn;
use super::inequalities::{RULES, TIMEOUT_STOP_KEY};
pub use super::problem::Problem;
use super::requirements::REQUIREMENTS;
use super::{Config, DeskAuth, SourceKind, desk, happyfox};

/// Text of the shipped file where every installation has a value of its own.
pub const PLACEHOLDER: &str = "CHANGE-ME";

/// Everything that keeps the daemon from starting; empty when all is well.
#[must_use]
pub fn problems(config: &Config) -> Vec<Problem> {
    let values = Values(config);
    let mut found = placeholders(config);
    found.extend(database_problems(config));
    found.extend(desk::problems(&config.desk));
    found.extend(happyfox::problems(&config.happyfox));
    found.extend(REQUIREMENTS.iter().filter(|required| !(required.holds)(config)).map(|required| Problem {
        keys: vec![(required.key.to_owned(), values.of(required.key))],
        rule: required.rule.to_owned(),
        remedy: required.remedy.to_owned(),
    }));
    found.extend(RULES.iter().filter(|rule| !rule.holds(config)).map(|rule| Problem {
        keys: rule.keys.iter().map(|key| ((*key).to_owned(), values.of(key))).collect(),
        rule: format!("must satisfy {}, because {}", rule.formula, rule.because),
        remedy: format!("change one of {}", rule.keys.join(", ")),
    }));
    found
}

/// The subscription's own values of the keys that only describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscribed {
    /// Value instead of `pubsub.retry_max`.
    pub retry_max: Duration,
    /// Value instead of `pubsub.ack_deadline`.
    pub ack_deadline: Duration,
}

/// The inequalities broken by the subscription's own values, in a configuration that keeps them all by itself. Both
/// values are named.
#[must_use]
pub fn broken_by(config: &Config, found: Subscribed) -> Vec<Problem> {
    let (configured, mut real) = (Values(config), config.clone());
    (real.pubsub.retry_max, real.pubsub.ack_deadline) = (found.retry_max, found.ack_deadline);
    let read = Values(&real);
    let named = |key: &&str| {
        let (is, was) = (read.of(key), configured.of(key));
        let value =
            if is == was { is } else { format!("{is} (so says the subscription; configured: {was})") };
        ((*key).to_owned(), value)
    };
    let broken = RULES.iter().filter(|rule| rule.holds(config) && !rule.holds(&real));
    broken
        .map(|rule| Problem {
            keys: rule.keys.iter().map(named).collect(),
            rule: format!("must satisfy {}, because {}", rule.formula, rule.because),
            remedy:
                "change the subscription (`maple-router provision` makes it as configured), or the other keys"
                    .to_owned(),
        })
        .collect()
}

/// Keys that still have the shipped file's text. Unused keys need not be filled in.
fn placeholders(config: &Config) -> Vec<Problem> {
    let Ok(Json::Object(sections)) = serde_json::to_value(config) else { return Vec::new() };
    let mut found = Vec::new();
    let unused = |section: &str| section == "pubsub" && config.source.kind != SourceKind::Pubsub;
    for (section, keys) in sections.iter().filter(|(section, _)| !unused(section)) {
        for (key, value) in keys.as_object().into_iter().flatten() {
            if value.as_str().is_some_and(|text| text.contains(PLACEHOLDER)) {
                found.push(Problem {
                    keys: vec![(format!("{section}.{key}"), value.to_string())],
                    rule: format!("still says {PLACEHOLDER}, as the shipped file does"),
                    remedy: "set it to this installation's own value".to_owned(),
                });
            }
        }
    }
    found
}

/// The part that concerns the database alone: enough for verbs that do nothing else (`migrate`).
#[must_use]
pub fn database_problems(config: &Config) -> Vec<Problem> {
    let database = &config.database;
    let mut found = Vec::new();
    let mut add = |key: &str, value: &str, rule: &str, remedy: &str| {
        found.push(Problem {
            keys: vec![(key.to_owned(), value.to_owned())],
            rule: rule.to_owned(),
            remedy: remedy.to_owned(),
        });
    };
    if database.url.trim().is_empty() {
        add(
            "database.url",
            "\"\"",
            "is required",
            "set it to postgres://USER@HOST/DATABASE, or set DATABASE_URL",
        );
    }
    let urls = [
        ("database.url", Some(&database.url), config.surroundings.database_url_from_environment),
        ("database.listen_url", database.listen_url.as_ref(), false),
        ("desk.database_url", config.desk.database_url.as_ref(), false),
    ];
    for (key, url, from_environment) in urls {
        let Some(url) = url else { continue };
        let dsn = Dsn::read(url);
        if dsn.has_password && !dsn.local && !from_environment {
            add(
                key,
                "<not shown>",
                "holds a password for a server that is not on this machine",
                if key == "desk.database_url" {
                    "put the password into a file of its own and name it in desk.database_password_file, or pass the \
                     credential desk-database-password"
                } else {
                    "put the password into a file of its own and name it in database.password_file, or pass the \
                     credential database-password"
                },
            );
        }
    }
    found
}

/// Settings that work, but are probably not meant. Shown by `check`.
#[must_use]
pub fn warnings(config: &Config) -> Vec<Problem> {
    let values = Values(config);
    let mut found = Vec::new();
    let mut add = |keys: &[&str], rule: &str, remedy: &str| {
        found.push(Problem {
            keys: keys.iter().map(|key| ((*key).to_owned(), values.of(key))).collect(),
            rule: rule.to_owned(),
            remedy: remedy.to_owned(),
        });
    };
    if config.routing.max_in_flight < config.smtp.lanes {
        add(
            &["routing.max_in_flight", "smtp.lanes"],
            "fewer submissions are taken than could be sent at once",
            "raise routing.max_in_flight or lower smtp.lanes",
        );
    }
    if config.routing.not_before.is_none() {
        add(
            &["routing.not_before"],
            "the sweep takes every open submission that exists, however old",
            "set it to the time of installation if the database has a history",
        );
    }
    if config.desk.auth == DeskAuth::Link && !config.desk.is_loopback() {
        add(
            &["desk.listen", "desk.auth"],
            "links and cookies of the desk travel unencrypted to that address",
            "listen on 127.0.0.1 and come by `ssh -L`, or put a proxy that signs assertions in front",
        );
    }
    found
}

/// Looks values up by `section.key`, as people would write them.
struct Values<'a>(&'a Config);

impl Values<'_> {
    fn of(&self, key: &str) -> String {
        if key == TIMEOUT_STOP_KEY {
            return match self.0.timeout_stop() {
                Duration::MAX => "infinity".to_owned(),
                limit => humantime::format_duration(limit).to_string(),
            };
        }
        let all = serde_json::to_value(self.0).ok();
        match key.split('.').fold(all.as_ref(), |value, name| value.and_then(|value| value.get(name))) {
            None | Some(Json::Null) => "(not set)".to_owned(),
            Some(value) => value.to_string(),
        }
    }
}

/// The keys of one section that differ between two configurations, as `section.key`: what a reload would change.
#[must_use]
pub fn differences(old: &Config, new: &Config) -> BTreeSet<String> {
    let (Ok(Json::Object(old)), Ok(Json::Object(new))) =
        (serde_json::to_value(old), serde_json::to_value(new))
    else {
        return BTreeSet::new();
    };
    let mut found = BTreeSet::new();
    for (section, keys) in &new {
        for (key, value) in keys.as_object().into_iter().flatten() {
            if old.get(section).and_then(|s| s.get(key)) != Some(value) {
                found.insert(format!("{section}.{key}"));
            }
        }
    }
    found
}

#[cfg(test)]
pub(in crate::config) mod tests {
    use std::time::Duration;

    use super::*;

    /// The smallest configuration that passes.
    pub(in crate::config) fn sound() -> Config {
        let mut config = Config::default();
        config.database.url = "postgres://forms_app@db.example/forms".to_owned();
        config.mail.from = "forms@example.org".to_owned();
        config.pubsub.project = "p".to_owned();
        config.pubsub.subscription = "s".to_owned();
        config.pubsub.topic = "t".to_owned();
        config.pubsub.dead_letter_topic = "dt".to_owned();
        config.pubsub.dead_letter_subscription = "ds".to_owned();
        config
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_defaults_keep_every_rule() {
        assert_eq!(problems(&sound()), vec![]);
    }

    #[test]
    fn a_subscription_that_breaks_an_inequality_is_named_with_both_values() {
        let config = sound();
        let found =
            |retry_max, ack_deadline| Subscribed { retry_max: s(retry_max), ack_deadline: s(ack_deadline) };
        // 660 + 179 + 60 < 900 = 660 + 180 + 60
        for fits in [found(600, 60), found(0, 10), found(600, 179), found(1, 600)] {
            assert_eq!(broken_by(&config, fits), vec![], "{fits:?}");
        }
        let named: Vec<String> =
            broken_by(&config, found(600, 180)).iter().map(ToString::to_string).collect();
        let [named] = &named[..] else { panic!("one: {named:?}") };
        assert!(
            named.contains("pubsub.ack_deadline = \"3m\" (so says the subscription; configured: \"1m\")"),
            "{named}"
        );
        assert!(
            named.contains("pubsub.retry_max = \"10m\",") && named.contains("routing.orphan_after"),
            "{named}"
        );
        assert!(named.contains("1.1·pubsub.retry_max"), "{named}");
        let mut without = sound();
        without.source.kind = SourceKind::Postgres;
        assert_eq!(broken_by(&without, found(600, 600)), vec![], "nobody asks it");
    }

    #[test]
    fn a_password_is_allowed_where_it_says_development() {
        let mut config = sound();
        config.database.url = "postgres://u:pw@127.0.0.1/f".to_owned();
        assert_eq!(problems(&config), vec![]);
        config.database.url = "postgres://u:pw@db.example/f".to_owned();
        config.surroundings.database_url_from_environment = true;
        assert_eq!(problems(&config), vec![]);
    }

    #[test]
    fn without_pubsub_its_keys_are_not_asked_for() {
        let mut config = sound();
        config.source.kind = SourceKind::Postgres;
        config.pubsub = super::super::Pubsub::default();
        config.pubsub.project = PLACEHOLDER.to_owned();
        config.pubsub.max_lease = s(1);
        config.routing.orphan_after = s(400);
        assert_eq!(problems(&config), vec![]);
    }

    #[test]
    fn a_placeholder_is_told_with_its_key() {
        let mut config = sound();
        config.pubsub.project = format!("{PLACEHOLDER}-project");
        let found = problems(&config);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().starts_with("pubsub.project = "), "{}", found[0]);
    }

    #[test]
    fn a_reload_is_told_key_by_key() {
        let old = sound();
        let mut new = old.clone();
        new.log.level = "debug".to_owned();
        new.routing.max_attempts = 6;
        let changed: Vec<String> = differences(&old, &new).into_iter().collect();
        assert_eq!(changed, ["log.level", "routing.max_attempts"]);
    }
}
