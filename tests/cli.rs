//! The binary as people and scripts meet it: verbs, exit codes, JSON, and silence about secrets.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The binary, with nothing of this test's environment but what it needs to run. No metadata server is asked for long.
fn maple(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maple-router"));
    command.args(args).env_clear().env("GCE_METADATA_HOST", "127.0.0.1:1").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    maple(args).output().expect("the binary runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("utf-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("utf-8")
}

/// A configuration without fault, of parts that refuse connections at once.
const SOUND: &str = r#"
    [database]
    url = "postgres://forms_app@127.0.0.1:1/forms"
    [smtp]
    host = "127.0.0.1"
    port = 1
    [signed_url]
    endpoint = "http://127.0.0.1:1"
    storage_endpoint = "http://127.0.0.1:1"
    [pubsub]
    endpoint = "http://127.0.0.1:1"
    project = "p"
    subscription = "routing"
    topic = "routing"
    dead_letter_topic = "dead"
    dead_letter_subscription = "dead"
    [mail]
    from = "forms@example.org"
    [routing]
    not_before = 2026-11-01T00:00:00Z
"#;

struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::write(dir.path().join("config.toml"), config).expect("write");
        Self { dir }
    }

    fn config(&self) -> String {
        self.dir.path().join("config.toml").display().to_string()
    }

    fn secret(&self, name: &str, value: &str, mode: u32) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, value).expect("write");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        path.display().to_string()
    }
}

fn lines(output: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout).expect("check --json prints JSON");
    report["lines"].as_array().expect("lines").clone()
}

fn named<'a>(lines: &'a [Value], name: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["name"] == name).collect()
}

#[test]
fn every_verb_of_the_page_exists() {
    let help = stdout(&run(&["--help"]));
    for verb in [
        "run",
        "check",
        "provision",
        "migrate",
        "publish",
        "finalize",
        "mark-attachment",
        "status",
        "list",
        "explain",
        "render",
        "links",
        "audit",
        "test-send",
        "lifecycle",
        "completions",
        "man",
    ] {
        assert!(help.lines().any(|l| l.trim_start().starts_with(&format!("{verb} "))), "{verb}:\n{help}");
        let output = run(&[verb, "--help"]);
        assert_eq!(code(&output), 0, "{verb}");
        assert!(stdout(&output).contains("--config <FILE>"), "{verb} takes --config");
    }
    for verb in ["check", "provision", "publish", "status", "list", "explain", "render", "links"] {
        assert!(stdout(&run(&[verb, "--help"])).contains("--json"), "{verb} has --json");
    }
}

#[test]
fn wrong_calls_end_in_2() {
    let id = "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11";
    let cases: &[&[&str]] = &[
        &[],
        &["no-such-verb"],
        &["explain", "not-a-uuid"],
        &["publish"],
        &["mark-attachment", id],
        &["mark-attachment", id, "--clean", "--infected"],
        &["list", "--status", "lost"],
        &["migrate", "--only", "011", "--router"],
    ];
    for args in cases {
        assert_eq!(code(&run(args)), 2, "{args:?}");
    }
    assert_eq!(code(&run(&["--version"])), 0);
}

#[test]
fn config_may_stand_before_or_after_the_verb() {
    for args in [["--config", "/nowhere/c.toml", "check"], ["check", "--config", "/nowhere/c.toml"]] {
        let output = run(&args);
        assert_eq!(code(&output), 78, "{args:?}");
        assert!(stdout(&output).contains("/nowhere/c.toml"), "{}", stdout(&output));
    }
}

#[test]
fn check_tells_every_fault_and_ends_in_78() {
    let site = Site::new("[smtp]\nhots = \"x\"\nport = \"y\"\n");
    let output = run(&["check", "--json", "--config", &site.config()]);
    assert_eq!(code(&output), 78);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["ok"], false);
    let found = lines(&output);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|line| line["name"] == "config" && line["level"] == "fail"));
    assert!(found.iter().all(|line| line["remedy"].is_string()));

    let site =
        Site::new(&format!("{SOUND}drain_timeout = \"1s\"\nheartbeat = \"200s\"\n[slack]\nlease = \"5s\"\n"));
    let output = run(&["check", "--json", "--config", &site.config()]);
    assert_eq!(code(&output), 78);
    let text = stdout(&output);
    for key in ["routing.drain_timeout", "routing.fence_after", "slack.lease"] {
        assert!(text.contains(key), "{key} is missing in: {text}");
    }
}

#[test]
fn check_names_every_secret_and_where_it_was_read_but_never_shows_one() {
    let site = Site::new(SOUND);
    let password = site.secret("pw", "secret-word-1\n", 0o600);
    let webhook = site.secret("hook", "https://hooks.example/secret-word-2\n", 0o644);
    for arguments in [["check", "--json"].as_slice(), ["check"].as_slice()] {
        let output = maple(arguments)
            .args(["--config", &site.config()])
            .env("MAPLE_ROUTER__DATABASE__PASSWORD_FILE", &password)
            .env("MAPLE_ROUTER__SLACK__WEBHOOK_FILE", &webhook)
            .output()
            .expect("runs");
        let text = stdout(&output) + &stderr(&output);
        assert!(text.contains(&password) && text.contains(&webhook), "{text}");
        assert!(!text.contains("secret-word"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colours off a terminal");
        if arguments.contains(&"--json") {
            let found = lines(&output);
            let secrets = named(&found, "secrets");
            assert_eq!(secrets.len(), 1, "{found:?}");
            assert_eq!(secrets[0]["level"], "warn", "a world-readable secret is worth a warning");
            assert_eq!(named(&found, "config")[0]["level"], "ok");
            assert_eq!(named(&found, "slack")[0]["level"], "ok");
        } else {
            assert!(text.contains("✓ config"), "{text}");
        }
    }
}

#[test]
fn systemds_credentials_are_found_without_a_key() {
    let site = Site::new(SOUND);
    site.secret("slack-webhook", "not a url", 0o600);
    let output = maple(&["check", "--json", "--config", &site.config()])
        .env("CREDENTIALS_DIRECTORY", site.dir.path())
        .output()
        .expect("runs");
    assert_eq!(code(&output), 1);
    let found = lines(&output);
    assert_eq!(named(&found, "slack")[0]["level"], "fail");

    let output = maple(&["check", "--json", "--config", &site.config()])
        .env("CREDENTIALS_DIRECTORY", site.dir.path())
        .env("MAPLE_ROUTER__SLACK__WEBHOOK_FILE", "/nowhere/hook")
        .output()
        .expect("runs");
    let found = lines(&output);
    assert!(
        named(&found, "secrets").iter().any(|l| l["detail"].as_str().unwrap_or("").contains("/nowhere/hook"))
    );
}

/// Answers one HTTP request with `status` and returns the request.
fn answer_once(status: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/hook-secret-word", listener.local_addr().expect("address"));
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !seen.ends_with(b"}") {
            let n = stream.read(&mut buffer).expect("read");
            assert_ne!(n, 0, "the request ends early");
            seen.extend_from_slice(&buffer[..n]);
        }
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
            .expect("write");
        String::from_utf8(seen).expect("utf-8")
    });
    (url, thread)
}

#[test]
fn check_send_posts_to_slack() {
    for (status, level, expected) in [("200 OK", "ok", 0), ("404 Not Found", "fail", 1)] {
        let site = Site::new(SOUND);
        let (url, server) = answer_once(status);
        site.secret("slack-webhook", &url, 0o600);
        let output = maple(&["check", "--json", "--send", "--config", &site.config()])
            .env("CREDENTIALS_DIRECTORY", site.dir.path())
            .env("MAPLE_ROUTER__SLACK__CHANNEL", "#alerts")
            .output()
            .expect("runs");
        let seen = server.join().expect("answered");
        assert!(seen.starts_with("POST /hook-secret-word") && seen.contains("#alerts"), "{seen}");
        let slack = lines(&output);
        assert_eq!(named(&slack, "slack")[0]["level"], level, "{slack:?}");
        if expected == 1 {
            assert_eq!(code(&output), 1);
        }
        assert!(!stdout(&output).contains("secret-word"), "{}", stdout(&output));
    }
}

#[test]
fn a_webhook_that_cannot_be_reached_is_reported_without_its_url() {
    let site = Site::new(SOUND);
    site.secret("slack-webhook", "http://127.0.0.1:1/hook-secret-word", 0o600);
    let output = maple(&["check", "--json", "--send", "--config", &site.config()])
        .env("CREDENTIALS_DIRECTORY", site.dir.path())
        .output()
        .expect("runs");
    assert_eq!(code(&output), 1);
    assert_eq!(named(&lines(&output), "slack")[0]["level"], "fail");
    assert!(!(stdout(&output) + &stderr(&output)).contains("secret-word"));
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let mut child =
        maple(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    drop(child.stdout.take());
    let mut text = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut text).expect("utf-8");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert_eq!(text, "", "neither a panic nor a complaint");
}

#[test]
fn completions_know_the_verbs_and_need_no_configuration() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell, "--config", "/nowhere/config.toml"]);
        assert_eq!(code(&output), 0, "{shell}");
        assert!(stdout(&output).contains("mark-attachment"), "{shell}");
    }
}

/// The verbs that `--help` lists, nested ones as `dlq list`.
fn verbs() -> Vec<Vec<String>> {
    fn below(above: &[String], all: &mut Vec<Vec<String>>) {
        let mut args: Vec<&str> = above.iter().map(String::as_str).collect();
        args.push("--help");
        let help = stdout(&run(&args));
        let Some((_, listed)) = help.split_once("\nCommands:\n") else { return };
        let listed = listed.split("\n\n").next().unwrap_or_default();
        // A line of two spaces and a name; what an about needs more room for is indented further.
        for line in listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            let name = line.split_whitespace().next().expect("a verb");
            let verb: Vec<String> = above.iter().cloned().chain([name.to_owned()]).collect();
            all.push(verb.clone());
            below(&verb, all);
        }
    }
    let mut all = Vec::new();
    below(&[], &mut all);
    assert!(all.len() > 20, "{all:?}");
    all
}

/// The long options a verb's `--help` names.
fn options(verb: &[String]) -> Vec<String> {
    let mut args: Vec<&str> = verb.iter().map(String::as_str).collect();
    args.push("--help");
    stdout(&run(&args))
        .lines()
        .filter_map(|line| {
            let line = line.trim_start();
            let long = line.strip_prefix("--").or_else(|| line.strip_prefix("-h, --"))?;
            Some(format!("--{}", long.split([' ', '=']).next()?))
        })
        .collect()
}

#[test]
fn manual_pages_are_there_for_every_verb_and_document_every_option() {
    let dir = tempfile::tempdir().expect("tempdir");
    let where_to = dir.path().display().to_string();
    let output = run(&["man", "--dir", &where_to, "--config", "/nowhere/config.toml"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));

    let read = |name: &str| {
        std::fs::read_to_string(dir.path().join(format!("{name}.1")))
            .unwrap_or_else(|e| panic!("{name}.1: {e}"))
    };
    let verbs = verbs();
    let written = std::fs::read_dir(dir.path()).expect("the directory").count();
    assert_eq!(written, verbs.len() + 1, "one page for each verb, and maple-router(1)");
    let main = read("maple-router");
    for verb in &verbs {
        let name = format!("maple-router-{}", verb.join("-"));
        let page = read(&name);
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
            assert!(
                page.contains(&format!(".SH {section}\n")) || page.contains(&format!(".SH \"{section}\"\n")),
                "{name} has no {section}:\n{page}"
            );
        }
        for option in options(verb) {
            // roff writes a hyphen that is to stay one as \\-.
            assert!(page.contains(&option.replace('-', "\\-")), "{name} does not tell of {option}");
        }
        let configured = page.contains(".SH FILES") && page.contains(".SH ENVIRONMENT");
        assert_eq!(configured, !["completions", "lifecycle", "man"].contains(&verb[0].as_str()), "{name}");
        if verb.len() == 1 {
            assert!(main.contains(&name.replace('-', "\\-")), "maple-router(1) does not name {name}(1)");
        }
        let words: Vec<&str> = ["man"].into_iter().chain(verb.iter().map(String::as_str)).collect();
        assert_eq!(stdout(&run(&words)).trim_end(), page.trim_end(), "`man VERB` prints the same page");
    }
    for secret in ["config.toml", "MAPLE_ROUTER__SECTION__KEY", "/etc/maple-router/credentials/"] {
        assert!(main.contains(&secret.replace('-', "\\-")), "maple-router(1) does not tell of {secret}");
    }
    assert!(!main.contains("(commit"), "a page that changes with every commit");
}

#[test]
fn a_manual_page_of_no_verb_is_a_wrong_call() {
    let output = run(&["man", "no-such-verb"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("maple-router --help"), "{}", stderr(&output));
    let output = run(&["man", "--dir", "/nowhere/at/all"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("/nowhere/at/all"), "{}", stderr(&output));
}

#[test]
fn completions_know_every_verb_and_option() {
    let verbs: Vec<_> = verbs().into_iter().map(|verb| (options(&verb), verb)).collect();
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        for (options, verb) in &verbs {
            let name = verb.last().expect("a name");
            assert!(script.contains(name.as_str()), "{shell} does not know {name}");
            for option in options {
                let spelled = if shell == "fish" { format!("-l {}", &option[2..]) } else { option.clone() };
                assert!(script.contains(&spelled), "{shell} does not know {spelled} of {name}");
            }
        }
    }
}

#[test]
fn the_version_tells_the_commit() {
    let version = stdout(&run(&["--version"]));
    let rest = version
        .strip_prefix(concat!("maple-router ", env!("CARGO_PKG_VERSION"), " (commit "))
        .expect(&version);
    let commit = rest.trim_end().strip_suffix(')').expect(&version);
    assert!(commit == "unknown" || commit.starts_with(|c: char| c.is_ascii_hexdigit()), "{version}");
}
