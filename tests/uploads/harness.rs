//! A database with schema content, a strict object store with the daemon's rights, Debian's clamd, and the room over them: its API on
//! a real port, its jobs run when a test says so.

use std::sync::Arc;
use std::time::Duration;

use devkit::clamd::{Clamd as RealClamd, ClamdOptions};
use devkit::google::{Bucket, Cors, GoogleFake, Right};
use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::config::{Config, SignerKind, Size};
use maple_router::db::{Pool, PoolOptions};
use maple_router::gateway::clamd::{Clamd, ClamdSettings};
use maple_router::gateway::objects::store::ObjectStore;
use maple_router::kernel::jobs::listener::Listener as Notifications;
use maple_router::kernel::jobs::retries::Retries;
use maple_router::kernel::jobs::works::{self, Bounds};
use maple_router::kernel::jobs::{Consumer, ConsumerParts, IDLE, Settings};
use maple_router::kernel::rows::Kinds;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::gate::Gate;
use maple_router::ops::incident::{Incidents, Open};
use maple_router::ops::rng::Rng;
use maple_router::uploads::api::Api;
use maple_router::uploads::changes::Changes;
use maple_router::uploads::commands::Commands;
use maple_router::uploads::commit::Commit;
use maple_router::uploads::digest::UploadsKey;
use maple_router::uploads::journal::JournalObserver;
use maple_router::uploads::scanner::Scanner;
use maple_router::uploads::store::UploadStore;
use maple_router::uploads::table::State;
use maple_router::uploads::trouble::StoreTrouble;
use maple_router::uploads::upkeep::Upkeep;
use maple_router::web::listener::{Listener, Shared};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) const STAGING: &str = "staging";
pub(crate) const CONTENT: &str = "content";
pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef";
/// Length of every part but the last of what these tests bring.
pub(crate) const PART: usize = 8 << 20;
/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    _db: TestDatabase,
    pub(crate) eyes: Client,
    pub(crate) google: GoogleFake,
    pub(crate) clamd: RealClamd,
    pub(crate) commands: Commands,
    pub(crate) scanner: Scanner,
    _incidents: watch::Receiver<Open>,
    pub(crate) told: Incidents,
    _config: watch::Sender<Arc<Config>>,
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
    pub(crate) stop: CancellationToken,
    _api: Listener,
    _key: tempfile::TempDir,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Said {
    pub(crate) fn code(&self) -> (u16, String) {
        let kind = self.body["type"].as_str().unwrap_or_default();
        (self.status, kind.rsplit(':').next().unwrap_or_default().to_owned())
    }
}

/// A session as a client has it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) id: Uuid,
    pub(crate) token: String,
    pub(crate) state: String,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let variant = Variant { router: true, content: true, ..Variant::default() };
        let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
        db.alter("INSERT INTO forms (id, name) VALUES ('contact', 'Contact')").await.expect("a form");
        let google = GoogleFake::start().await.expect("Google's stand-in");
        let account = google.service_account_email().to_owned();
        let cors = vec![Cors::uploads_from("*")];
        google.declare_bucket(STAGING, Bucket { soft_delete: Duration::ZERO, cors, ..Bucket::default() });
        google.declare_bucket(CONTENT, Bucket::default());
        google.grant(&account, STAGING, &[Right::Create, Right::Get, Right::Delete, Right::List]);
        google.grant(&account, CONTENT, &[Right::Create, Right::Get]);
        let clamd = RealClamd::start(ClamdOptions::default()).await.expect("clamd");
        let key = tempfile::tempdir().expect("a directory");
        let mut config = Config::default();
        config.database.url = db.url_as("forms_app");
        config.signed_url.signer = SignerKind::KeyFile;
        let key_file = key.path().join("key.json");
        google.write_key_file(&key_file).expect("a key file");
        config.signed_url.key_file = Some(key_file);
        config.signed_url.storage_endpoint = google.storage_endpoint();
        config.scan.socket = Some(clamd.socket().display().to_string());
        config.uploads.listen = Some("127.0.0.1:0".to_owned());
        config.uploads.bucket = CONTENT.to_owned();
        config.uploads.staging_bucket = STAGING.to_owned();
        config.uploads.max_file = Size::mebibytes(300);
        change(&mut config);
        let clock = Arc::new(SystemClock);
        let pool = Pool::new(&config.database, PoolOptions::new(clock.clone())).expect("a pool");
        let objects =
            Arc::new(ObjectStore::new(&config.signed_url, Some(&google.metadata_host())).expect("a client"));
        let scanner = Scanner::new(Clamd::new(ClamdSettings::new(&config.scan).expect("a socket")));
        scanner.test().await.expect("the scanner finds its test file");
        let uploads = config.uploads.clone();
        let (config, in_force) = watch::channel(Arc::new(config));
        let commands = Commands {
            changes: Changes::default(),
            store: UploadStore::new(pool, "maple-router@test"),
            objects,
            key: UploadsKey::new(KEY).expect("a key"),
            config: in_force,
            clock: clock.clone(),
            rng: Arc::new(Rng::from_system()),
        };
        let (told, incidents) = Incidents::new();
        let stop = CancellationToken::new();
        let shared = Shared { clock, incidents: told.clone() };
        let mut api =
            Listener::start(Api::new(Ok(commands.clone()), &uploads), shared, &stop).expect("a thread");
        let at = api.listening().await.expect("an address");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let eyes = db.superuser().await.expect("eyes");
        Self {
            _db: db,
            eyes,
            google,
            clamd,
            commands,
            scanner,
            _incidents: incidents,
            told,
            _config: config,
            http,
            base: format!("http://{at}"),
            stop,
            _api: api,
            _key: key,
        }
    }

    pub(crate) fn commit_work(&self) -> Commit {
        Commit {
            store: self.commands.store.clone(),
            objects: Arc::clone(&self.commands.objects),
            scanner: self.scanner.clone(),
            trouble: self.trouble(),
            staging_bucket: STAGING.to_owned(),
            bucket: CONTENT.to_owned(),
            clock: Arc::new(SystemClock),
        }
    }

    pub(crate) fn trouble(&self) -> StoreTrouble {
        StoreTrouble::new(self.told.clone(), Arc::new(SystemClock))
    }

    pub(crate) fn upkeep(&self) -> Upkeep {
        Upkeep {
            store: self.commands.store.clone(),
            objects: Arc::clone(&self.commands.objects),
            scanner: self.scanner.clone(),
            trouble: self.trouble(),
            staging_bucket: STAGING.to_owned(),
            slots: 2,
            clock: Arc::new(SystemClock),
            incidents: self.told.clone(),
        }
    }

    /// Runs commits until the guard is dropped.
    pub(crate) fn committing(&self) -> tokio_util::sync::DropGuard {
        let stop = self.stop.child_token();
        let retries = Retries {
            max_attempts: 1000,
            min: Duration::from_millis(50),
            max: Duration::from_millis(200),
            doublings: 1,
        };
        let settings = Settings {
            most: 2,
            lease: Duration::from_secs(10),
            poll: Duration::from_millis(200),
            retries,
            idle: IDLE,
        };
        let parts = ConsumerParts {
            rows: (*self.commands.store).clone(),
            from: State::PendingCommit,
            kinds: Kinds::AllBut(Vec::new()),
            settings,
            clock: Arc::new(SystemClock),
            rng: Arc::new(Rng::from_system()),
            observer: Arc::new(JournalObserver { changes: self.commands.changes.clone() }),
        };
        let consumer = Consumer::start(parts, Notifications::silent());
        let bounds = Bounds { poison: 1000, drain: Duration::from_secs(1), gate: Gate::new() };
        tokio::spawn(works::run(consumer, Arc::new(self.commit_work()), bounds, stop.clone()));
        stop.drop_guard()
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        credential: &str,
        body: Option<Value>,
    ) -> Said {
        self.ask_as(method, path, credential, body, None).await
    }

    pub(crate) async fn ask_as(
        &self,
        method: Method,
        path: &str,
        credential: &str,
        body: Option<Value>,
        key: Option<&str>,
    ) -> Said {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(credential);
        if let Some(body) = body {
            request = request.json(&body);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        Said { status, body: serde_json::from_str(&text).unwrap_or_default(), text }
    }

    /// A request for a session of this content.
    pub(crate) fn wanted(content: &[u8], more: &Value) -> Value {
        let mut wanted = json!({
            "form_id": "contact", "owner": "somebody", "file_name": "notes.txt", "content_type": "text/plain", "length": content.len(),
        });
        if let (Some(wanted), Some(more)) = (wanted.as_object_mut(), more.as_object()) {
            wanted.extend(more.clone());
        }
        wanted
    }

    pub(crate) async fn create(&self, key: &str, wanted: Value) -> Said {
        self.ask_as(Method::POST, "/v1/uploads", KEY, Some(wanted), Some(key)).await
    }

    pub(crate) async fn session(&self, content: &[u8], more: Value) -> Session {
        let made = self.create(&Uuid::new_v4().to_string(), Self::wanted(content, &more)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        Session {
            id: made.body["id"].as_str().and_then(|id| id.parse().ok()).expect("an id"),
            token: made.body["token"].as_str().expect("a token").to_owned(),
            state: made.body["state"].as_str().expect("a state").to_owned(),
        }
    }

    /// A request of a session's client.
    pub(crate) async fn of(
        &self,
        session: &Session,
        method: Method,
        what: &str,
        body: Option<Value>,
    ) -> Said {
        self.ask(method, &format!("/v1/uploads/{}{what}", session.id), &session.token, body).await
    }

    /// Sends parts of this content by their links.
    pub(crate) async fn send(&self, session: &Session, numbers: &[u64], content: &[u8]) {
        let links = self.of(session, Method::POST, "/parts", Some(json!({"numbers": numbers}))).await;
        assert_eq!(links.status, 200, "{}", links.text);
        for link in links.body["parts"].as_array().expect("links") {
            let (offset, length) = (number(link, "offset"), number(link, "length"));
            let put = self
                .http
                .put(link["url"].as_str().expect("a link"))
                .body(content[offset..offset + length].to_vec());
            let status = put.send().await.expect("an answer").status();
            assert_eq!(status, StatusCode::OK, "part {}", link["number"]);
        }
    }

    pub(crate) async fn complete(&self, session: &Session, content: &[u8]) -> Said {
        self.of(session, Method::POST, "/complete", Some(json!({"sha256": sha256(content)}))).await
    }

    /// Brings a content whole, and waits for its end while somebody commits.
    pub(crate) async fn bring(&self, content: &[u8], more: Value) -> (Session, Value) {
        let session = self.session(content, more).await;
        if session.state == "initiated" {
            let parts = content.len().div_ceil(PART) as u64;
            self.send(&session, &(1..=parts).collect::<Vec<_>>(), content).await;
            let said = self.complete(&session, content).await;
            assert!([200, 202].contains(&said.status), "{}", said.text);
        }
        let shown = self.ended(&session).await;
        (session, shown)
    }

    /// The session when it has ended.
    pub(crate) async fn ended(&self, session: &Session) -> Value {
        let waited = async {
            loop {
                let shown = self.of(session, Method::GET, "?wait=5", None).await;
                assert_eq!(shown.status, 200, "{}", shown.text);
                if ["committed", "aborted"].contains(&shown.body["state"].as_str().unwrap_or_default()) {
                    return shown.body;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waited).await.expect("it ends")
    }

    /// A submission that waits for its files.
    pub(crate) async fn submission(&self) -> Uuid {
        let sql = "INSERT INTO submissions (form_id) VALUES ('contact') RETURNING id";
        self.eyes.query_one(sql, &[]).await.expect("a submission").get(0)
    }

    pub(crate) async fn attach(&self, session: &Session, submission: Uuid) -> Said {
        let to = Some(json!({"submission_id": submission}));
        self.ask(Method::POST, &format!("/v1/uploads/{}/attach", session.id), KEY, to).await
    }

    pub(crate) async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// Objects and multipart uploads that the store has.
    pub(crate) fn kept(&self) -> (usize, usize, usize) {
        (
            self.google.objects(STAGING).len(),
            self.google.uploads(STAGING).len(),
            self.google.objects(CONTENT).len(),
        )
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn number(link: &Value, member: &str) -> usize {
    link[member].as_u64().and_then(|n| usize::try_from(n).ok()).expect(member)
}

pub(crate) fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Text of so many bytes, which are not the same everywhere.
pub(crate) fn text(length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 32);
    for line in 0_u64.. {
        if text.len() >= length {
            break;
        }
        text.extend_from_slice(format!("line {line:016x} of notes\n").as_bytes());
    }
    text.truncate(length);
    text
}
