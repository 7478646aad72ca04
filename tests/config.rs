//! The configuration as an operator meets it: files on disk, variables, and the words of every refusal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use maple_router::config::load::Fault;
use maple_router::config::{Config, ConfigError, Environment, LogFormat, Origin, Role, SourceKind};

struct File {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn file(text: &str) -> File {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("config.toml");
    std::fs::write(&path, text).expect("write");
    File { _dir: dir, path }
}

fn env(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn refusal(text: &str, pairs: &[(&str, &str)]) -> String {
    let file = file(text);
    Config::load(Some(&file.path), &env(pairs)).expect_err("refused").to_string()
}

#[test]
fn file_then_variables_then_conventional_variables() {
    let file = file(
        r#"
        [database]
        url = "postgres://file@db.example/forms"
        connect_timeout = "7s"
        [routing]
        not_before = 2026-11-01T10:00:00+01:00
        [mail]
        allowed_destination_domains = ["one.example"]
        [log]
        format = "text"
        "#,
    );
    let loaded = Config::load(
        Some(&file.path),
        &env(&[
            ("DATABASE_URL", "postgres://variable@db.example/forms"),
            ("MAPLE_ROUTER__DATABASE__URL", "postgres://override@db.example/forms"),
            ("MAPLE_ROUTER__SMTP__PORT", "2525"),
            ("MAPLE_ROUTER__SMTP__MAX_PER_MINUTE", "30"),
            ("MAPLE_ROUTER__SMTP__HELLO_NAME", "1234"),
            ("MAPLE_ROUTER__ROUTING__REPUBLISH", "false"),
            ("MAPLE_ROUTER__ROUTING__STUCK_AFTER", "15min"),
            ("MAPLE_ROUTER__MAIL__ALLOWED_DESTINATION_DOMAINS", "two.example, three.example"),
            ("MAPLE_ROUTER__SOURCE__KIND", "postgres"),
            ("MAPLE_ROUTER_OWNER_URL", "not ours"),
            ("NOTIFY_SOCKET", "/run/notify"),
            ("PUBSUB_EMULATOR_HOST", "127.0.0.1:8085"),
            ("MAPLE_ROUTER__PUBSUB__ENDPOINT", "https://pubsub.example"),
            ("STORAGE_EMULATOR_HOST", "https://store.example:4443/"),
        ]),
    )
    .expect("loads");
    let config = &loaded.config;
    assert_eq!(config.database.url, "postgres://variable@db.example/forms");
    assert_eq!(config.database.connect_timeout, Duration::from_secs(7));
    assert_eq!(config.database.lock_timeout, Duration::from_secs(5), "untouched keys keep their defaults");
    assert_eq!(config.smtp.port, 2525);
    assert_eq!(config.smtp.max_per_minute, Some(30));
    assert_eq!(config.smtp.hello_name.as_deref(), Some("1234"), "text stays text");
    assert!(!config.routing.republish);
    assert_eq!(config.routing.stuck_after, Duration::from_secs(900));
    assert_eq!(config.mail.allowed_destination_domains, ["two.example", "three.example"]);
    assert_eq!(config.source.kind, SourceKind::Postgres);
    assert_eq!(config.log.format, LogFormat::Text);
    assert_eq!(config.routing.not_before, Some("2026-11-01T09:00:00Z".parse().expect("timestamp")));
    assert_eq!(
        config.pubsub.endpoint.as_deref(),
        Some("http://127.0.0.1:8085"),
        "the variable wins over the key"
    );
    assert!(config.pubsub_anonymous(), "an emulator gets no credentials");
    assert_eq!(config.storage_endpoint(), "https://store.example:4443");

    assert_eq!(loaded.file.as_deref(), Some(file.path.as_path()));
    assert_eq!(loaded.sources["database.url"], Origin::Variable("DATABASE_URL".to_owned()));
    assert_eq!(loaded.sources["log.format"], Origin::File(file.path.clone()));
    assert!(!loaded.sources.contains_key("smtp.host"));
}

#[test]
fn googles_variable_names_the_key_where_no_key_is_named() {
    let google = ("GOOGLE_APPLICATION_CREDENTIALS", "/keys/google.json");
    let cases = [
        ("[signed_url]\nsigner = \"key-file\"", Some("/keys/google.json")),
        ("[signed_url]\nsigner = \"key-file\"\nkey_file = \"/keys/own.json\"", Some("/keys/own.json")),
        ("[signed_url]\nsigner = \"metadata\"", None),
    ];
    for (text, expected) in cases {
        let file = file(text);
        let config = Config::load(Some(&file.path), &env(&[google])).expect("loads").config;
        assert_eq!(config.signed_url.key_file.as_deref(), expected.map(Path::new), "{text}");
    }
}

#[test]
fn times_are_taken_as_datetime_or_as_text() {
    for written in ["2026-11-01T00:00:00Z", "2026-11-01 01:00:00+01:00", "\"2026-11-01T00:00:00Z\""] {
        let file = file(&format!("[routing]\nnot_before = {written}"));
        let loaded = Config::load(Some(&file.path), &env(&[])).expect(written);
        assert_eq!(
            loaded.config.routing.not_before,
            Some("2026-11-01T00:00:00Z".parse().expect("timestamp")),
            "{written}"
        );
    }
    let message = refusal("[routing]\nnot_before = 2026-11-01", &[]);
    assert!(message.contains("routing.not_before") && message.contains("2026-11-01T00:00:00Z"), "{message}");
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_its_neighbour() {
    let cases: &[(&str, &[&str])] = &[
        ("[smtp]\nhots = \"x\"", &["`hots`", "[smtp]", "config.toml", "did you mean `host`?"]),
        ("[smpt]\nhost = \"x\"", &["`smpt`", "config.toml", "did you mean `[smtp]`?"]),
        (
            "[routing]\nstatement_timeout = \"5s\"",
            &["`statement_timeout`", "`statement_timeout` in section [database]"],
        ),
        ("level = \"info\"", &["`level`", "`level` in section [log]"]),
        ("[http]\nqqq = 1", &["`qqq`", "known here: listen"]),
    ];
    for (text, expected) in cases {
        let message = refusal(text, &[]);
        for part in *expected {
            assert!(message.contains(part), "{part} is missing in: {message}");
        }
    }
}

#[test]
fn a_fault_in_a_nested_section_is_named_where_it_is() {
    let cases: &[(&str, &[&str])] = &[
        (
            "[desk.users.alice]\nemial = \"a@example.org\"",
            &["unknown key `emial` in section [desk.users.alice]", "did you mean `email`?"],
        ),
        (
            "[desk.users.alice]\nrole = \"viewer\"\n[desk.users.bob]\nrole = \"boss\"",
            &["`desk.users.bob.role` = \"boss\"", "`viewer`", "`admin`"],
        ),
        ("[desk.assertion]\nalgorithm = \"HS256\"", &["`desk.assertion.algorithm` = \"HS256\"", "`ES256`"]),
        (
            "[desk.assertion]\nqqq = 1",
            &["unknown key `qqq` in section [desk.assertion]", "known here: header"],
        ),
        ("[desk]\nusers = \"alice\"", &["`desk.users` = \"alice\"", "[desk.users.alice]"]),
        ("[desk]\norigni = \"x\"", &["unknown key `origni` in section [desk]", "did you mean `origin`?"]),
    ];
    for (text, expected) in cases {
        let message = refusal(text, &[]);
        for part in *expected {
            assert!(message.contains(part), "{part} is missing in: {message}");
        }
    }
}

#[test]
fn users_of_the_desk_are_sections_of_their_own() {
    let file = file(
        r#"
        [desk]
        listen = "127.0.0.1:9465"
        [desk.users.alice]
        email = "alice@example.org"
        role = "security"
        [desk.users."b.ob-1"]
        email = "bob@example.org"
        "#,
    );
    let desk = Config::load(Some(&file.path), &env(&[])).expect("loads").config.desk;
    let roles: Vec<_> = desk.users.iter().map(|(name, user)| (name.as_str(), user.role)).collect();
    assert_eq!(roles, [("alice", Role::Security), ("b.ob-1", Role::Viewer)], "whoever has no role looks");
    assert_eq!(desk.origin, "http://desk.localhost:9465");
}

#[test]
fn an_unknown_variable_is_refused_too() {
    for (name, hint) in [
        ("MAPLE_ROUTER__SMTP__PROT", "did you mean `port`?"),
        ("MAPLE_ROUTER__SMPT__PORT", "did you mean `[smtp]`?"),
        ("MAPLE_ROUTER__SMTP", "[smtp]"),
    ] {
        let message = refusal("", &[(name, "1")]);
        assert!(message.contains(name) && message.contains(hint), "{message}");
    }
}

#[test]
fn a_bad_value_is_named_with_what_is_expected() {
    let cases: &[(&str, &[&str])] = &[
        (
            "[smtp]\nconnect_timeout = \"5 parsecs\"",
            &["`smtp.connect_timeout`", "5 parsecs", "90s", "config.toml"],
        ),
        ("[smtp]\nconnect_timeout = 5", &["`smtp.connect_timeout` = 5", "90s"]),
        ("[smtp]\nport = 65536", &["`smtp.port` = 65536", "0 to 65535"]),
        ("[smtp]\nport = 25.7", &["`smtp.port` = 25.7", "0 to 65535"]),
        ("[smtp]\nport = \"smtp\"", &["`smtp.port` = \"smtp\"", "0 to 65535"]),
        ("[routing]\nmax_attempts = -1", &["`routing.max_attempts` = -1", "whole number"]),
        ("[routing]\nrepublish = \"yes\"", &["`routing.republish`", "true or false"]),
        ("[source]\nkind = \"pubsubb\"", &["`source.kind`", "pubsubb", "`pubsub` or `postgres`"]),
        ("[mail]\nallowed_destination_domains = \"a\"", &["`mail.allowed_destination_domains`", "a list"]),
        ("smtp = 5", &["`smtp`", "[smtp] on a line of its own"]),
        ("[database]\nurl = [\"postgres://u:secret-word@h/d\"]", &["`database.url`", "a string"]),
    ];
    for (text, expected) in cases {
        let message = refusal(text, &[]);
        for part in *expected {
            assert!(message.contains(part), "{part} is missing in: {message}");
        }
        assert!(!message.contains("secret-word"), "{message}");
    }
    let message = refusal("", &[("MAPLE_ROUTER__SMTP__LANES", "many")]);
    assert!(message.contains("MAPLE_ROUTER__SMTP__LANES") && message.contains("many"), "{message}");
    let message = refusal("", &[("MAPLE_ROUTER_TIMEOUT_STOP_SEC", "soon")]);
    assert!(message.contains("MAPLE_ROUTER_TIMEOUT_STOP_SEC") && message.contains("infinity"), "{message}");
}

#[test]
fn all_faults_are_named_at_once() {
    let file = file("[smtp]\nhots = 1\nport = \"x\"\n[nope]\na = 1");
    let error =
        Config::load(Some(&file.path), &env(&[("MAPLE_ROUTER__LOG__LEVLE", "x")])).expect_err("refused");
    let ConfigError::Faults { faults } = &error else { panic!("{error:?}") };
    assert_eq!(faults.len(), 4, "{error}");
    assert!(faults.iter().any(|fault| matches!(fault, Fault::BadValue { key, .. } if key == "smtp.port")));
}

#[test]
fn files_that_cannot_be_read_are_named_with_a_remedy() {
    let message =
        Config::load(Some(Path::new("/nowhere/config.toml")), &env(&[])).expect_err("missing").to_string();
    assert!(message.contains("/nowhere/config.toml") && message.contains("--config"), "{message}");

    let dir = tempfile::tempdir().expect("tempdir");
    let message = Config::load(Some(dir.path()), &env(&[])).expect_err("a directory").to_string();
    assert!(
        message.contains(&dir.path().display().to_string()) && message.contains("cannot read"),
        "{message}"
    );
}

#[test]
fn a_syntax_error_names_the_line_but_does_not_quote_it() {
    let message = refusal("[database]\nurl = \"postgres://u:secret-word@h/d\" oops\n", &[]);
    assert!(message.contains("line 2") && message.contains("config.toml"), "{message}");
    assert!(!message.contains("secret-word"), "{message}");
}

#[test]
fn validation_names_both_keys_and_the_rule() {
    let file = file("[smtp]\ndot_timeout = \"3min\"\n[mail]\nfrom = \"forms@example.org\"");
    let error = Config::load(Some(&file.path), &env(&[("DATABASE_URL", "postgres://localhost/forms")]))
        .expect("every key has its shape")
        .validated()
        .expect_err("dot must be shorter than the deadline");
    let message = error.to_string();
    for part in [
        "smtp.dot_timeout = \"3m\"",
        "smtp.delivery_deadline = \"3m\"",
        "smtp.dot_timeout < smtp.delivery_deadline",
    ] {
        assert!(message.contains(part), "{part} is missing in: {message}");
    }
    assert!(message.contains("pubsub.subscription"), "required keys are named in the same list: {message}");
}
