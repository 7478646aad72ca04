//! `check --config-only`: refuses what `run` would refuse with 78, every fault with its remedy, and asks nobody.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::harness::binary;

/// A directory with a configuration about which nothing is wrong, of parts that nobody has started.
struct Place {
    dir: tempfile::TempDir,
    /// Stands for database, relay, Pub/Sub and Google at once.
    listener: TcpListener,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener that does not wait");
        let place = Self { dir, listener };
        place.put("slack-webhook", "https://hooks.slack.com/services/T0/B0/x");
        place
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("chmod");
        path
    }

    fn sound(&self) -> String {
        let port = self.listener.local_addr().expect("an address").port();
        format!(
            r#"[database]
url = "postgres://forms_app@127.0.0.1:{port}/forms"
[pubsub]
project = "p"
topic = "t"
subscription = "s"
dead_letter_topic = "dt"
dead_letter_subscription = "ds"
endpoint = "http://127.0.0.1:{port}"
[smtp]
host = "127.0.0.1"
port = {port}
[mail]
from = "forms@example.org"
[signed_url]
endpoint = "http://127.0.0.1:{port}"
[routing]
not_before = 2026-01-01T00:00:00Z
[slack]
webhook_file = "{dir}/slack-webhook"
[http]
listen = "127.0.0.1:0"
[log]
format = "text"
[state]
dir = "{dir}"
"#,
            dir = self.dir.path().display()
        )
    }

    /// The binary's output; a process that does not end by itself is ended, and has no code then.
    fn said(&self, arguments: &[&str], config: &Path, variables: &[(&str, String)]) -> Output {
        let mut child = Command::new(binary())
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .arg("--config")
            .arg(config)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        for _ in 0..300 {
            if child.try_wait().expect("a child").is_some() {
                return child.wait_with_output().expect("its words");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        child.kill().expect("killed");
        child.wait_with_output().expect("its words")
    }

    /// Code and words of the preflight.
    fn preflight(&self, config: &Path, variables: &[(&str, String)]) -> (i32, String) {
        let output = self.said(&["check", "--config-only"], config, variables);
        (output.status.code().expect("a code"), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[test]
fn a_sound_configuration_passes_whatever_is_down_and_nobody_is_asked() {
    let place = Place::new();
    let config = place.put("config.toml", &place.sound());
    let (code, said) = place.preflight(&config, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("config") && said.contains("secrets") && said.contains("0 failed"), "{said}");
    assert!(place.listener.accept().is_err(), "somebody was asked");
    let json = place.said(&["check", "--config-only", "--json"], &config, &[]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["ok"], true, "{report}");
}

#[test]
fn what_run_refuses_is_refused_and_named_with_its_remedy() {
    let place = Place::new();
    let (good, key) = (place.sound(), place.put("key.json", "{\"type\": \"service_account\"}"));
    let empty = place.put("empty", "\n");
    let no_url = place.put("no-url", "hooks and such");
    let webhook = format!("{}/slack-webhook", place.dir.path().display());
    let key = key.display().to_string();
    // A change to the file, variables, and what has to be said.
    type Case = (String, Vec<(&'static str, String)>, &'static [&'static str]);
    let cases: Vec<Case> = vec![
        (good.replace("[smtp]", "[smtp]\nhots = \"x\""), vec![], &["hots", "did you mean `host`?"]),
        (good.replace("topic = \"t\"\n", "topic = \"\"\n"), vec![], &["pubsub.topic", "provision"]),
        (
            good.replace("project = \"p\"", "project = \"CHANGE-ME\""),
            vec![],
            &["pubsub.project", "own value"],
        ),
        (
            format!("{good}\n[canary]\nheartbeat_url_file = \"/nowhere/h\""),
            vec![],
            &["/nowhere/h", "LoadCredential"],
        ),
        (good.replace(&webhook, "/nowhere/w"), vec![], &["/nowhere/w", "LoadCredential"]),
        (good.replace(&webhook, &empty.display().to_string()), vec![], &["empty", "first line"]),
        (good.replace(&webhook, &no_url.display().to_string()), vec![], &["slack.webhook_file"]),
        (
            good.replace("[smtp]", "[source]\nkind = \"kafka\"\n[smtp]"),
            vec![],
            &["source.kind", "`postgres`"],
        ),
        (
            good.replace(
                "[signed_url]",
                &format!("[signed_url]\nsigner = \"key-file\"\nkey_file = \"{key}\""),
            ),
            vec![],
            &["key"],
        ),
        (
            good.replace("endpoint = \"http://127.0.0.1", "endpoint = \"https://127.0.0.1"),
            vec![("GOOGLE_APPLICATION_CREDENTIALS", key.clone())],
            &["credentials"],
        ),
        (
            good.clone(),
            vec![("MAPLE_ROUTER_TIMEOUT_STOP_SEC", "234".to_owned())],
            &["TimeoutStopSec", "drain"],
        ),
        (
            good.clone(),
            vec![
                ("MAPLE_ROUTER__ROUTING__SWEEP", "timer".to_owned()),
                ("MAPLE_ROUTER__ROUTING__REPUBLISH", "false".to_owned()),
            ],
            &["routing.sweep", "republish"],
        ),
    ];
    for (text, variables, words) in cases {
        let config = place.put("config.toml", &text);
        let (code, said) = place.preflight(&config, &variables);
        assert_eq!(code, 78, "{words:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{word:?} is missing in: {said}");
        }
        let run = place.said(&["run"], &config, &variables);
        assert_eq!(
            run.status.code(),
            Some(78),
            "{words:?}: run says {}",
            String::from_utf8_lossy(&run.stderr)
        );
    }
    assert!(place.listener.accept().is_err(), "somebody was asked");
    let (code, said) = place.preflight(Path::new("/nowhere/config.toml"), &[]);
    assert_eq!(code, 78, "{said}");
}

#[test]
fn every_fault_is_named_at_once() {
    let place = Place::new();
    let text = place.sound().replace("topic = \"t\"\n", "topic = \"\"\n").replace("slack-webhook", "nothing");
    let config = place.put("config.toml", &text);
    let (_, said) = place.preflight(&config, &[]);
    assert!(said.contains("pubsub.topic") && said.contains("/nothing"), "{said}");
}

#[test]
fn credentials_as_the_unit_hands_them_over_are_read() {
    let place = Place::new();
    let handed = place.dir.path().join("handed");
    std::fs::create_dir(&handed).expect("a directory");
    std::fs::write(handed.join("maple-router_slack-webhook"), "https://hooks.slack.com/services/T0/B0/x")
        .expect("written");
    let text = place.sound().replace("webhook_file", "#webhook_file");
    let config = place.put("config.toml", &text);
    let variables = [("CREDENTIALS_DIRECTORY", handed.display().to_string())];
    let (code, said) = place.preflight(&config, &variables);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("slack-webhook read from") && said.contains("handed/maple-router_slack-webhook"),
        "{said}"
    );
}
