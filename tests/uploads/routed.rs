//! From the file to the reader: what was brought is routed with a link that gives its bytes, what is infected fails its submission,
//! and while no scanner is believed nothing that was brought is routed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use devkit::clamd::eicar;
use devkit::forms::{Form, SubmissionSeed};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::harness::{PATIENCE, text};
use crate::process::{BINARY, Life};

struct Backend {
    life: Life,
    backend: Client,
    eyes: Client,
    config: PathBuf,
}

impl Backend {
    async fn start() -> Self {
        let life = Life::start().await;
        let form = Form::new("t").mail_to("a@x.test");
        devkit::forms::load_into(&life.stage.database, &[form]).await.expect("the form");
        let backend = life.stage.database.client_as("forms_app").await.expect("the backend");
        let eyes = life.stage.database.superuser().await.expect("eyes");
        let text = life.stage.config("client", 1, &life.extra);
        let config = life.stage.write_config("client", &text).expect("a configuration");
        Self { life, backend, eyes, config }
    }

    /// Brings a file; the upload's id and its verdict.
    async fn bring(&self, name: &str, content: &[u8]) -> (Uuid, String) {
        let file = self.life.stage.dir().join(name);
        std::fs::write(&file, content).expect("a file");
        let done = self.life.client_of("t", &self.config, &file).wait_with_output().await.expect("ended");
        let said: Value = serde_json::from_slice(&done.stdout).expect("a document");
        assert_eq!(said["state"], "committed", "{said}");
        let id = said["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        (id, said["verdict"].as_str().expect("a verdict").to_owned())
    }

    /// What the backend does: the submission and its attachment in one transaction.
    async fn finalize(&self, upload: Option<Uuid>) -> Uuid {
        self.backend.batch_execute("BEGIN").await.expect("begun");
        let seeded =
            SubmissionSeed::of("t").field("email", "b@x.test").insert(&self.backend).await.expect("inserted");
        if let Some(upload) = upload {
            self.backend
                .query_one("SELECT content.attach($1, $2)", &[&upload, &seeded.id])
                .await
                .expect("attached");
        }
        self.backend.batch_execute("COMMIT").await.expect("committed");
        seeded.id
    }

    async fn status(&self, id: Uuid) -> String {
        let sql = "SELECT status::text FROM submissions WHERE id = $1";
        self.eyes.query_one(sql, &[&id]).await.expect("a row").get(0)
    }

    async fn ended(&self, id: Uuid) -> String {
        let began = Instant::now();
        loop {
            let status = self.status(id).await;
            if status == "routed" || status == "failed" {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{id} is {status}");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
}

#[tokio::test]
async fn a_clean_file_reaches_its_reader_and_an_infected_one_nobody() {
    let form = Backend::start().await;
    let _router = form.life.router().await;
    let content = text(9 << 20);
    let (clean, verdict) = form.bring("notes.txt", &content).await;
    assert_eq!(verdict, "clean");
    let routed = form.finalize(Some(clean)).await;
    assert_eq!(form.ended(routed).await, "routed");
    let mails = form.life.stage.relay.await_mails(1, PATIENCE).await.expect("a mail");
    let body = String::from_utf8_lossy(&mails[0].raw).replace("=\r\n", "").replace("=3D", "=");
    let start = body.find(&form.life.stage.google.storage_endpoint()).expect("a link");
    let link: String =
        body[start..].chars().take_while(|c| !c.is_whitespace() && *c != '"' && *c != '>').collect();
    let read = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client")
        .get(link)
        .send()
        .await
        .expect("an answer");
    assert_eq!(read.status().as_u16(), 200);
    assert!(read.bytes().await.expect("bytes") == content, "byte for byte");
    let virus = [text(100), eicar(), text(100)].concat();
    let (infected, verdict) = form.bring("virus.txt", &virus).await;
    assert_eq!(verdict, "infected");
    let failed = form.finalize(Some(infected)).await;
    assert_eq!(form.ended(failed).await, "failed");
    let reason: String = form
        .eyes
        .query_one("SELECT routing_result #>> '{finished,reason}' FROM submissions WHERE id = $1", &[&failed])
        .await
        .expect("a row")
        .get(0);
    assert_eq!(reason, "infected");
    assert_eq!(form.life.stage.relay.mails().len(), 1, "nothing of it was mailed");
}

#[tokio::test]
async fn while_no_scanner_is_believed_uploads_commit_nothing_of_them_is_routed_and_then_all_are() {
    let mut form = Backend::start().await;
    form.life.clamd.stop().await.expect("stopped");
    let _router = form.life.router().await;
    let mut waiting = Vec::new();
    for n in 0..3 {
        let (upload, verdict) = form.bring(&format!("notes-{n}.txt"), &text(1000 + n)).await;
        assert_eq!(verdict, "unscanned");
        waiting.push(form.finalize(Some(upload)).await);
    }
    // Whatever has no file goes its way meanwhile.
    let plain = form.finalize(None).await;
    assert_eq!(form.ended(plain).await, "routed");
    for id in &waiting {
        assert_eq!(form.status(*id).await, "received");
    }
    let id = waiting[0].to_string();
    let told =
        form.life.stage.ask(Path::new(BINARY), &form.config, &["explain", &id]).await.expect("an answer");
    assert!(told.out.contains("the scanner has given no verdict"), "{}", told.out);
    form.life.clamd.up().await.expect("up again");
    for id in &waiting {
        assert_eq!(form.ended(*id).await, "routed");
    }
    assert_eq!(form.life.stage.relay.mails().len(), 4);
}
