//! The files as shipped: the configuration against the types, the units against the configuration and each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use maple_router::config::load::DEFAULT_PATH;
use maple_router::config::secret::OPERATOR_CREDENTIALS;
use maple_router::config::validate::{PLACEHOLDER, problems};
use maple_router::config::{Config, Environment};
use serde_json::Value;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(shipped(name)).expect(name)
}

fn loaded(text: &str) -> Config {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    Config::load(Some(file.path()), &Environment::new())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .config
}

/// A key of a section, or of a section below one (`screening.judge`).
fn value(config: &Config, section: &str, key: &str) -> Value {
    let whole = serde_json::to_value(config).expect("JSON");
    section.split('.').fold(&whole, |found, part| &found[part])[key].clone()
}

/// Names of all keys below a section, those of sections below it among them. A map without entries is a key.
fn keys_of(section: &str, value: &Value) -> Vec<String> {
    let keys = value.as_object().expect("keys");
    let below = |(key, value): (&String, &Value)| {
        let name = format!("{section}.{key}");
        let is_section = value.as_object().is_some_and(|keys| !keys.is_empty());
        if is_section { keys_of(&name, value) } else { vec![name] }
    };
    keys.iter().flat_map(below).collect()
}

#[test]
fn the_configuration_is_sound_but_for_its_placeholders() {
    let config = text("config.toml");
    let keys: Vec<String> = problems(&loaded(&config)).iter().map(|p| p.keys[0].0.clone()).collect();
    assert_eq!(keys, ["database.url", "pubsub.project"], "each is named");
    let own = loaded(&config.replace(PLACEHOLDER, "mine"));
    assert_eq!(problems(&own), []);
    assert_eq!(own.mail.from, "gpus-it-security@greenpeace.org");
    assert_eq!(own.slack.channel, "#us-soc-alerts");
    assert_eq!((own.smtp.host.as_str(), own.smtp.port), ("localhost", 25));
    assert_eq!(own.routing.max_attempts, 5);
    assert!(
        own.database.url.contains("/cloudsql/") && own.database.url.contains("forms_app@"),
        "{}",
        own.database.url
    );
}

/// `#key = value`, below its section.
fn commented(config: &str) -> Vec<(String, String, String)> {
    let (mut section, mut found) = (String::new(), Vec::new());
    for line in config.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            name.clone_into(&mut section);
        }
        let Some((key, rest)) = line.strip_prefix('#').and_then(|line| line.split_once(" = ")) else {
            continue;
        };
        if key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
            found.push((section.clone(), key.to_owned(), rest.to_owned()));
        }
    }
    found
}

#[test]
fn every_key_is_shown_once_and_what_is_commented_out_is_the_default() {
    let config = text("config.toml");
    let defaults = Config::default();
    let mut shown = BTreeSet::new();
    for (section, key, rest) in commented(&config) {
        let alone = loaded(&format!("[{section}]\n{key} = {rest}"));
        let (here, default) = (value(&alone, &section, &key), value(&defaults, &section, &key));
        if rest.contains("# no default") {
            assert_eq!(default, Value::Null, "{section}.{key} has a default");
            assert_ne!(here, Value::Null, "{section}.{key}: an example");
        } else {
            assert_eq!(here, default, "{section}.{key} is not the default");
        }
        assert!(shown.insert(format!("{section}.{key}")), "{section}.{key} is shown twice");
    }
    let written = Config::load(Some(&shipped("config.toml")), &Environment::new()).expect("it loads").sources;
    for key in written.into_keys() {
        assert!(shown.insert(key.clone()), "{key} is shown twice");
    }
    let Value::Object(sections) = serde_json::to_value(&defaults).expect("JSON") else {
        panic!("no sections")
    };
    let every: BTreeSet<String> =
        sections.iter().flat_map(|(section, keys)| keys_of(section, keys)).collect();
    // The heading of a section within a section is no key.
    shown.retain(|key| !every.iter().any(|other| other.starts_with(&format!("{key}."))));
    assert_eq!(shown, every);
}

/// Settings of a unit's section, in their order.
fn settings(unit: &str, section: &str) -> Vec<(String, String)> {
    let (mut here, mut found) = (false, Vec::new());
    for line in text(unit).lines() {
        if line.starts_with('[') {
            here = line == format!("[{section}]");
        } else if let Some((key, value)) = line.split_once('=').filter(|_| here && !line.starts_with('#')) {
            found.push((key.to_owned(), value.to_owned()));
        }
    }
    found
}

fn setting(unit: &str, section: &str, key: &str) -> String {
    let all: Vec<String> =
        settings(unit, section).into_iter().filter(|(k, _)| k == key).map(|(_, value)| value).collect();
    assert_eq!(all.len(), 1, "{unit}: {key}: {all:?}");
    all[0].clone()
}

const DAEMON: &str = "maple-router.service";
const SWEEP: &str = "maple-router-sweep.service";
const COLLECTOR: &str = "maple-router-gc.service";
const SCREENER: &str = "maple-router-screener.service";
const GRADER: &str = "maple-router-grader.service";

#[test]
fn the_daemon_is_given_the_stop_timeout_and_it_suffices() {
    let seconds = setting(DAEMON, "Service", "TimeoutStopSec");
    let environment = format!("MAPLE_ROUTER_TIMEOUT_STOP_SEC={seconds}");
    for unit in [DAEMON, SWEEP] {
        assert_eq!(setting(unit, "Service", "Environment"), environment, "{unit}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text("config.toml").replace(PLACEHOLDER, "mine")).expect("written");
    let under = |seconds: u64| {
        let env = Environment::from([("MAPLE_ROUTER_TIMEOUT_STOP_SEC".to_owned(), seconds.to_string())]);
        problems(&Config::load(Some(file.path()), &env).expect("it loads").config)
    };
    let seconds: u64 = seconds.parse().expect("seconds");
    assert_eq!(under(seconds), []);
    let config = Config::default();
    let needed =
        config.routing.drain_timeout + 2 * config.database.statement_timeout + Duration::from_secs(5);
    assert!(Duration::from_secs(seconds) >= needed);
    let faults = under(needed.as_secs() - 1);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].to_string().contains("TimeoutStopSec"), "{}", faults[0]);
}

#[test]
fn a_start_may_take_its_time_and_a_bad_configuration_is_not_tried_again() {
    assert_eq!(setting(DAEMON, "Service", "Type"), "notify");
    assert_eq!(setting(DAEMON, "Service", "TimeoutStartSec"), "infinity");
    assert_eq!(setting(DAEMON, "Service", "Restart"), "on-failure");
    assert_eq!(setting(DAEMON, "Service", "RestartPreventExitStatus"), "78 2");
    assert_eq!(setting(DAEMON, "Service", "ExecStart"), "/usr/bin/maple-router run");
    assert!(
        setting(DAEMON, "Service", "ExecStartPre").ends_with("/usr/bin/maple-router check --config-only")
    );
    // Time for an outage of the database to be known as one: see `there_is_time_for_an_outage…` in ops/watchdog.rs.
    assert_eq!(setting(DAEMON, "Service", "WatchdogSec"), "120");
    // The limit is reached by a crash loop, though each start waits.
    let rest: u64 = setting(DAEMON, "Service", "RestartSec").parse().expect("seconds");
    let burst: u64 = setting(DAEMON, "Unit", "StartLimitBurst").parse().expect("a number");
    assert_eq!(setting(DAEMON, "Unit", "StartLimitIntervalSec"), "5min");
    assert!(rest * burst < 300, "a crash loop never ends");
}

#[test]
fn paths_are_those_of_the_program() {
    let credentials = setting(DAEMON, "Service", "LoadCredential");
    assert_eq!(credentials, format!("maple-router:{OPERATOR_CREDENTIALS}"));
    let state = Config::default().state.dir;
    assert_eq!(Path::new("/var/lib").join(setting(DAEMON, "Service", "StateDirectory")), state);
    // No `--config` in the units.
    assert_eq!(DEFAULT_PATH, "/etc/maple-router/config.toml");
}

/// Settings in which the two services differ; everything else is the same, line by line.
const OWN: [&str; 14] = [
    "Type",
    "NotifyAccess",
    "ExecStartPre",
    "ExecStart",
    "ExecReload",
    "TimeoutStartSec",
    "TimeoutStopSec",
    "WatchdogSec",
    "TimeoutAbortSec",
    "Restart",
    "RestartSec",
    "RestartPreventExitStatus",
    "Environment",
    "Description",
];

#[test]
fn both_services_carry_the_same_hardening() {
    let rest = |unit: &str| -> Vec<(String, String)> {
        settings(unit, "Service").into_iter().filter(|(key, _)| !OWN.contains(&key.as_str())).collect()
    };
    assert_eq!(rest(DAEMON), rest(SWEEP));
    let has: BTreeMap<String, String> = rest(DAEMON).into_iter().collect();
    for (key, value) in [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("MemoryDenyWriteExecute", "yes"),
        ("CapabilityBoundingSet", ""),
        ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
        ("UMask", "0077"),
        ("LimitCORE", "0"),
    ] {
        assert_eq!(has.get(key).map(String::as_str), Some(value), "{key}");
    }
}

/// Settings that are the collector's own as well: its identity, and that it has no state.
const COLLECTORS: [&str; 7] = [
    "User",
    "Group",
    "SupplementaryGroups",
    "LoadCredential",
    "EnvironmentFile",
    "StateDirectory",
    "StateDirectoryMode",
];

#[test]
fn the_collector_carries_the_same_hardening_under_an_identity_of_its_own() {
    let rest = |unit: &str| -> Vec<(String, String)> {
        let own = |key: &str| OWN.contains(&key) || COLLECTORS.contains(&key);
        settings(unit, "Service").into_iter().filter(|(key, _)| !own(key)).collect()
    };
    assert_eq!(rest(DAEMON), rest(COLLECTOR));
    assert_eq!(setting(COLLECTOR, "Service", "ExecStart"), "/usr/bin/maple-router gc run");
    for key in ["User", "Group"] {
        assert_eq!(setting(COLLECTOR, "Service", key), "maple-router-gc");
        assert_eq!(setting(DAEMON, "Service", key), "maple-router");
    }
    // The daemon is handed all of its directory: what is the collector's lies elsewhere.
    let credentials = setting(COLLECTOR, "Service", "LoadCredential");
    assert_eq!(credentials, "maple-router:/etc/maple-router/collector");
    assert_ne!(credentials, setting(DAEMON, "Service", "LoadCredential"));
}

#[test]
fn the_screener_carries_the_same_hardening_under_an_identity_of_its_own() {
    let rest = |unit: &str| -> Vec<(String, String)> {
        let own = |key: &str| OWN.contains(&key) || COLLECTORS.contains(&key);
        // Whoever scans a repository gives up what is left of them.
        let less = |(key, value): (String, String)| {
            let value = if unit == SCREENER {
                value.replace("@system-service seccomp", "@system-service")
            } else {
                value
            };
            (key, value)
        };
        settings(unit, "Service").into_iter().filter(|(key, _)| !own(key)).map(less).collect()
    };
    let filter = ("SystemCallFilter".to_owned(), "@system-service seccomp".to_owned());
    assert!(settings(SCREENER, "Service").contains(&filter));
    assert_eq!(rest(DAEMON), rest(SCREENER));
    assert_eq!(setting(SCREENER, "Service", "ExecStart"), "/usr/bin/maple-router screen");
    assert_eq!(setting(SCREENER, "Service", "Type"), "notify");
    assert_eq!(setting(SCREENER, "Service", "RestartPreventExitStatus"), "78 2");
    for key in ["User", "Group"] {
        assert_eq!(setting(SCREENER, "Service", key), "maple-screener");
    }
    // What it fetches lies on a disk that is its own, and goes with it.
    assert_eq!(setting(SCREENER, "Service", "Environment"), "TMPDIR=/var/tmp");
    assert_eq!(setting(SCREENER, "Service", "PrivateTmp"), "yes");
    // Neither the daemon's secrets nor the collector's.
    let credentials = setting(SCREENER, "Service", "LoadCredential");
    assert_eq!(credentials, "maple-router:/etc/maple-router/screener");
    for other in [DAEMON, COLLECTOR] {
        assert_ne!(credentials, setting(other, "Service", "LoadCredential"));
    }
}

#[test]
fn the_grader_carries_the_same_hardening_under_an_identity_of_its_own() {
    let rest = |unit: &str| -> Vec<(String, String)> {
        let own = |key: &str| OWN.contains(&key) || COLLECTORS.contains(&key);
        settings(unit, "Service").into_iter().filter(|(key, _)| !own(key)).collect()
    };
    assert_eq!(rest(DAEMON), rest(GRADER));
    assert_eq!(setting(GRADER, "Service", "ExecStart"), "/usr/bin/maple-router grade");
    assert_eq!(setting(GRADER, "Service", "Type"), "notify");
    assert_eq!(setting(GRADER, "Service", "RestartPreventExitStatus"), "78 2");
    for key in ["User", "Group"] {
        assert_eq!(setting(GRADER, "Service", key), "maple-grader");
    }
    // It writes no file: what was spoken is passed on from memory.
    let environment: Vec<_> =
        settings(GRADER, "Service").into_iter().filter(|(key, _)| key == "Environment").collect();
    assert_eq!(environment, []);
    // Neither the daemon's secrets nor anybody else's.
    let credentials = setting(GRADER, "Service", "LoadCredential");
    assert_eq!(credentials, "maple-router:/etc/maple-router/grader");
    for other in [DAEMON, COLLECTOR, SCREENER] {
        assert_ne!(credentials, setting(other, "Service", "LoadCredential"));
    }
}

#[test]
fn the_users_are_in_the_groups_the_units_ask_for() {
    let users = text("maple-router.sysusers");
    for unit in [DAEMON, COLLECTOR, SCREENER, GRADER] {
        let user = setting(unit, "Service", "User");
        assert!(users.lines().any(|line| line.starts_with(&format!("u {user} "))), "{users}");
        for group in setting(unit, "Service", "SupplementaryGroups").split(' ') {
            assert!(users.contains(&format!("m {user} {group}\n")), "{user}: {group}");
        }
    }
}

#[test]
fn the_timer_sweeps_as_often_as_the_rules_presume() {
    let every: u64 =
        setting("maple-router-sweep.timer", "Timer", "OnUnitInactiveSec").parse().expect("seconds");
    assert_eq!(Duration::from_secs(every), Config::default().routing.sweep_interval);
}
