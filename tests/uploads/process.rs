//! The real daemon and the real client, killed with real signals while a file is on its way.
//!
//! `UPLOAD_MEBIBYTES` and `UPLOAD_KILLS` make it longer (`make nightly`): 200 and 10.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use devkit::clamd::{Clamd, ClamdOptions};
use devkit::google::{Bucket, Call, Right};
use devkit::postgres::Variant;
use devkit::stage::{Router, Source, Stage, StageOptions};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::harness::{CONTENT, KEY, PART, PATIENCE, STAGING, text};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_maple-router");

pub(crate) struct Life {
    pub(crate) stage: Stage,
    pub(crate) clamd: Clamd,
    pub(crate) extra: String,
}

fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

impl Life {
    pub(crate) async fn start() -> Self {
        let variant = Variant { router: true, content: true, ..Variant::default() };
        let options = StageOptions { variant, ..StageOptions::of(Source::Postgres) };
        let stage = Stage::start(options).await.expect("a stage");
        let (google, account) = (&stage.google, stage.google.service_account_email().to_owned());
        google.declare_bucket(STAGING, Bucket { soft_delete: Duration::ZERO, ..Bucket::default() });
        google.declare_bucket(CONTENT, Bucket::default());
        google.grant(&account, STAGING, &[Right::Create, Right::Get, Right::Delete, Right::List]);
        google.grant(&account, CONTENT, &[Right::Create, Right::Get]);
        let limits = ClamdOptions {
            stream_max_length: 400 << 20,
            max_scan_size: 400 << 20,
            max_file_size: 400 << 20,
            ..ClamdOptions::default()
        };
        let clamd = Clamd::start(limits).await.expect("clamd");
        let key = stage.dir().join("uploads-key");
        std::fs::write(&key, KEY).expect("a key");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key, mode).expect("private");
        let port = devkit::port::free_port().expect("a port");
        let extra = format!(
            "[uploads]\nlisten = \"127.0.0.1:{port}\"\norigin = \"http://127.0.0.1:{port}\"\nkey_file = \"{}\"\nbucket = \"{CONTENT}\"\n\
             staging_bucket = \"{STAGING}\"\nmax_file = \"300MiB\"\n[scan]\nsocket = \"{}\"\n",
            key.display(),
            clamd.socket().display()
        );
        Self { stage, clamd, extra }
    }

    pub(crate) async fn router(&self) -> Router {
        self.stage.router(Path::new(BINARY), "one", &self.extra).await.expect("a daemon")
    }

    /// The client on its way.
    fn client(&self, config: &Path, file: &Path) -> Child {
        self.client_of("contact-us", config, file)
    }

    /// The same for a form.
    #[expect(clippy::unused_self, reason = "a client is of no use without what it speaks to")]
    pub(crate) fn client_of(&self, form: &str, config: &Path, file: &Path) -> Child {
        let arguments = [
            "upload",
            "--form",
            form,
            "--owner",
            "somebody",
            "--content-type",
            "text/plain",
            "--json",
            "--parallel",
            "2",
        ];
        Command::new(BINARY)
            .env_clear()
            .arg("--config")
            .arg(config)
            .args(arguments)
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a client")
    }
}

#[tokio::test]
async fn client_and_daemon_are_killed_again_and_again_and_the_file_arrives() {
    let (mebibytes, kills) = (setting("UPLOAD_MEBIBYTES", 64), setting("UPLOAD_KILLS", 3));
    let life = Life::start().await;
    let google = &life.stage.google;
    let content = text(mebibytes << 20);
    let file = life.stage.dir().join("large.txt");
    std::fs::write(&file, &content).expect("a file");
    let parts = content.len().div_ceil(PART) as u64;
    let mut router = life.router().await;
    let config = life
        .stage
        .write_config("client", &life.stage.config("client", 1, &life.extra))
        .expect("a configuration");
    // Each death comes when another part has been taken.
    for death in 0..2 * kills as u64 {
        let mut client = life.client(&config, &file);
        let target = google.calls(Call::Part) + 1 + parts / (2 * kills as u64 + 2);
        let began = Instant::now();
        while google.calls(Call::Part) < target && began.elapsed() < PATIENCE {
            if client.try_wait().expect("a client").is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if death % 2 == 0 {
            client.kill().await.expect("killed");
        } else {
            drop(router);
            client.kill().await.expect("killed");
            router = life.router().await;
        }
    }
    let client = life.client(&config, &file);
    let done = tokio::time::timeout(Duration::from_secs(300), client.wait_with_output())
        .await
        .expect("in time")
        .expect("ended");
    let said: Value = serde_json::from_slice(&done.stdout).expect("a document");
    assert_eq!(
        (said["state"].as_str(), said["verdict"].as_str()),
        (Some("committed"), Some("clean")),
        "{said}"
    );
    let twice = google.calls(Call::Part).saturating_sub(parts);
    let whole = (google.bytes_received().saturating_sub(content.len() as u64)) / PART as u64;
    println!(
        "{mebibytes} MiB in {parts} parts, {kills} kills of each: {twice} parts were begun twice, bytes of {whole} parts came twice"
    );
    assert!(
        twice <= 2 * 2 * kills as u64,
        "{twice} parts were begun twice: no more than were on their way at each death"
    );
    let eyes = life.stage.database.superuser().await.expect("eyes");
    let object: String =
        eyes.query_one("SELECT object FROM content.blobs", &[]).await.expect("a blob").get(0);
    assert!(google.object_bytes(CONTENT, &object).expect("kept") == content, "byte for byte");
    let (calls, bytes) = (google.calls(Call::Part), google.bytes_received());
    let again = life.client(&config, &file).wait_with_output().await.expect("ended");
    let said: Value = serde_json::from_slice(&again.stdout).expect("a document");
    assert_eq!((said["bytes_sent"].as_u64(), google.calls(Call::Part)), (Some(0), calls), "{said}");
    assert_eq!(google.bytes_received(), bytes, "the same file again: not a byte");
    drop(router);
}
