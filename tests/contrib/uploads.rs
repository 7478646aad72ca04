//! The client `contrib/python/maple_upload.py` before the real API, a strict object store and a real clamd: killed with SIGKILL and begun
//! again, as a program with the backend's key and with a session's token, and refused.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use devkit::clamd::eicar;
use devkit::google::{Act, Call, Rule, Stage};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::harness::{PATIENCE, root};
use crate::scene::{CONTENT, KEY, PART, STAGING, Scene, text};

/// Parts that the client sends at once.
const PARALLEL: u64 = 2;

/// A file to be brought, and the credential of whoever brings it.
struct Bench {
    scene: Scene,
    dir: TempDir,
    file: PathBuf,
}

impl Bench {
    async fn with(name: &str, content: &[u8]) -> Self {
        let (scene, dir) = (Scene::new().await, tempfile::tempdir().expect("a directory"));
        let file = dir.path().join(name);
        std::fs::write(&file, content).expect("a file");
        std::fs::write(dir.path().join("key"), format!("{KEY}\n")).expect("a key");
        Self { scene, dir, file }
    }

    /// The client, as a program, with these arguments.
    fn client(&self, more: &[&str]) -> Command {
        let mut command = Command::new(root().join(".venv/bin/python"));
        command
            .arg("-B")
            .arg(root().join("contrib/python/maple_upload.py"))
            .args(["--api", &self.scene.base, "--parallel", &PARALLEL.to_string()])
            .args(more)
            .arg(&self.file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for variable in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
            command.env_remove(variable);
        }
        command
    }

    /// The client with the backend's key.
    fn backend(&self, more: &[&str]) -> Command {
        let key = self.dir.path().join("key").display().to_string();
        let known = ["--key-file", &key, "--form", "contact", "--owner", "ada", "--json"];
        self.client(&[&known[..], more].concat())
    }

    fn journal(&self) -> PathBuf {
        PathBuf::from(format!("{}.maple-upload", self.file.display()))
    }

    /// Number of parts that the store has of the one upload under way.
    fn there(&self) -> usize {
        self.scene.google.uploads(STAGING).first().map_or(0, |upload| upload.parts.len())
    }
}

async fn ended(command: &mut Command) -> Output {
    tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("it runs")
}

fn said(output: &Output) -> Value {
    let said = serde_json::from_slice(&output.stdout);
    said.unwrap_or_else(|_| panic!("no JSON: {output:?}"))
}

async fn killed_when(mut client: Child, so: impl Fn() -> bool) {
    let waiting = async {
        while !so() {
            assert!(client.try_wait().expect("asked").is_none(), "it has ended before it could be killed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it comes so far");
    client.kill().await.expect("killed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_it_goes_on_where_it_was() {
    let content = text(9 * PART + 77);
    let bench = Bench::with("notes.txt", &content).await;
    let _committing = bench.scene.committing();
    // Slow enough for a kill to meet parts on their way.
    let slow = Rule::at(Stage::Before).call(Call::Part).delay(Duration::from_millis(150));
    bench.scene.google.rule(slow);
    let mut kills = 0;
    for so_many in [1, 3, 6] {
        let client = bench.backend(&[]).spawn().expect("Python");
        killed_when(client, || bench.there() >= so_many).await;
        kills += 1;
        let private = std::fs::metadata(bench.journal()).expect("a journal").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&private) & 0o777, 0o600);
    }
    let sent_before = bench.scene.google.bytes_received();
    let done = ended(&mut bench.backend(&[])).await;
    assert!(done.status.success(), "{done:?}");
    let shown = said(&done);
    assert_eq!((&shown["state"], &shown["verdict"]), (&json!("committed"), &json!("clean")), "{shown}");
    let (length, all) = (content.len() as u64, bench.scene.google.bytes_received());
    let most = length + kills * PARALLEL * PART as u64 + (1 << 20);
    assert!(all <= most, "{all} bytes were sent of {length}, {most} at most");
    assert!(all - sent_before < length / 2, "what was there was not sent again");
    assert_eq!(bench.scene.one::<i64>("SELECT count(*) FROM content.uploads").await, 1, "one session");
    let object: String = bench.scene.one("SELECT object FROM content.blobs").await;
    assert_eq!(bench.scene.google.object_bytes(CONTENT, &object).expect("kept"), content);
    assert!(!bench.journal().exists(), "nothing is left beside the file");
    let again = said(&ended(&mut bench.backend(&[])).await);
    assert_eq!((&again["bytes_sent"], &again["deduplicated"]), (&json!(0), &json!(true)), "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_in_passing_is_tried_again_and_a_file_becomes_an_attachment() {
    let content = text(2 * PART + 5);
    let bench = Bench::with("notes.txt", &content).await;
    let _committing = bench.scene.committing();
    for (stage, act) in [
        (Stage::Before, Act::Status(503)),
        (Stage::After, Act::Disconnect),
        (Stage::Before, Act::Status(403)),
    ] {
        bench.scene.google.rule(Rule::at(stage).call(Call::Part).times(1).act(act));
    }
    let submission = bench.scene.submission().await;
    let done = ended(&mut bench.backend(&["--submission", &submission.to_string()])).await;
    assert!(done.status.success(), "{done:?}");
    let attachment = said(&done)["attachment_id"].as_str().expect("an attachment").to_owned();
    let status = format!("SELECT clamav_status::text FROM attachments WHERE id = '{attachment}'");
    assert_eq!(bench.scene.one::<String>(&status).await, "clean");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_ended_meanwhile_is_followed_by_another() {
    let content = text(4 * PART);
    let bench = Bench::with("notes.txt", &content).await;
    let _committing = bench.scene.committing();
    bench.scene.google.rule(Rule::at(Stage::Before).call(Call::Part).delay(Duration::from_millis(150)));
    killed_when(bench.backend(&[]).spawn().expect("Python"), || bench.there() >= 1).await;
    let kept: Value = serde_json::from_slice(&std::fs::read(bench.journal()).expect("read")).expect("JSON");
    let path = format!("/v1/uploads/{}", kept["id"].as_str().expect("an id"));
    let gone = bench.scene.ask(reqwest::Method::DELETE, &path, KEY, None).await;
    assert_eq!(gone.status, 204);
    let done = ended(&mut bench.backend(&[])).await;
    assert!(done.status.success(), "{done:?}");
    assert_ne!(said(&done)["id"], kept["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_token_alone_and_what_is_refused_says_what_to_do() {
    let content = text(100);
    let bench = Bench::with("notes.txt", &content).await;
    let _committing = bench.scene.committing();
    let session = bench.scene.session(&content, json!({})).await;
    let page = bench.dir.path().join("page");
    std::fs::write(&page, format!("http://127.0.0.1:9466/u#{}\n", session.token)).expect("written");
    let token = ["--token-file", page.to_str().expect("a path")];
    let done = ended(&mut bench.client(&token)).await;
    assert!(done.status.success(), "{done:?}");
    let line = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(line.contains("100 of 100 bytes were sent; it is clean"), "{line}");
    refused(
        &mut bench.backend(&["--content-type", "application/x-thing"]),
        1,
        "Choose a file of one of types",
    )
    .await;
    refused(
        &mut bench.client(&["--key-file", "/dev/null", "--form", "contact", "--owner", "ada"]),
        1,
        "remedy: Send Authorization",
    )
    .await;
    let other = bench.scene.session(b"another length", json!({})).await;
    std::fs::write(&page, &other.token).expect("written");
    refused(&mut bench.client(&token), 2, "14 were announced").await;
    refused(&mut bench.client(&["--token-file", "/nowhere"]), 2, "No such file").await;
}

async fn refused(client: &mut Command, code: i32, words: &str) {
    let refused = ended(client).await;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(code), "{told}");
    assert!(told.contains(words) && !told.contains("Traceback"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_virus_is_told_and_an_api_that_is_away_is_no_traceback() {
    let bench = Bench::with("invoice.txt", &eicar()).await;
    let _committing = bench.scene.committing();
    let done = ended(&mut bench.backend(&[])).await;
    assert_eq!((done.status.code(), &said(&done)["verdict"]), (Some(1), &json!("infected")), "{done:?}");
    let away = ["--token-file", "-", "--tries", "3"];
    let mut nobody = bench.client(&away);
    let session = bench.scene.session(b"x", json!({})).await;
    std::fs::write(bench.dir.path().join("token"), session.token).expect("written");
    nobody.args(["--api", "http://127.0.0.1:1"]).stdin(input(&bench.dir.path().join("token")));
    let refused = ended(&mut nobody).await;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(69), "{told}");
    assert!(told.contains("remedy: repeat the command"), "{told}");
}

fn input(path: &Path) -> Stdio {
    std::fs::File::open(path).expect("a file").into()
}
