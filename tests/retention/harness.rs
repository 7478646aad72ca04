//! A database with schema content, an object store with two accounts, the daemon's and the collector's, and the room over them.

use std::sync::Arc;
use std::time::Duration;

use devkit::google::{Bucket, GoogleFake, Right};
use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::config::{Config, SignerKind};
use maple_router::db::{Pool, PoolOptions};
use maple_router::gateway::objects::store::ObjectStore;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::retention::collector::{Collector, Ended};
use maple_router::retention::counts::Counts;
use maple_router::retention::recall::Recaller;
use maple_router::retention::reconcile::Reconciler;
use maple_router::retention::store::RetentionStore;
use serde_json::json;
use tokio_postgres::Client;
use tokio_postgres::types::FromSql;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) const CONTENT: &str = "content";
pub(crate) const COLLECTOR: &str = "collector@p.iam.gserviceaccount.com";
/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) db: TestDatabase,
    pub(crate) eyes: Client,
    pub(crate) google: GoogleFake,
    pub(crate) objects: Arc<ObjectStore>,
    /// As the collector's role.
    pub(crate) store: RetentionStore,
    /// As the daemon's role.
    pub(crate) daemon: RetentionStore,
    _keys: tempfile::TempDir,
}

/// A submission that has ended and that everybody was told of.
pub(crate) const ROUTED: &str = r#"{"v": 1, "finished": {"token": "t", "at": "2026-01-01T00:00:00Z", "status": "routed"},
    "deliveries": {"1|a@example.org": {"state": "accepted", "message_id": "m@x"}}}"#;

impl Scene {
    /// A form `f`, whose submissions are kept for a year; nothing has a grace.
    pub(crate) async fn new() -> Self {
        let variant = Variant { router: true, content: true, ..Variant::default() };
        let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
        db.alter(
            "INSERT INTO forms (id, name) VALUES ('f', 'F'), ('g', 'G');
             INSERT INTO content.retention (form_id, keep_routed, keep_failed, set_by) VALUES ('', '1 year', '2 years', 'test')",
        )
        .await
        .expect("forms");
        let google = GoogleFake::start().await.expect("Google's stand-in");
        google.declare_bucket(CONTENT, Bucket::default());
        google.add_account(COLLECTOR).expect("an account");
        google.grant(
            COLLECTOR,
            CONTENT,
            &[Right::Create, Right::Get, Right::Delete, Right::List, Right::Inspect],
        );
        google.grant(google.service_account_email(), CONTENT, &[Right::Create, Right::Get]);
        let keys = tempfile::tempdir().expect("a directory");
        let key_file = keys.path().join("key.json");
        google.write_key_file_of(COLLECTOR, &key_file).expect("a key file");
        let mut config = Config::default();
        config.signed_url.signer = SignerKind::KeyFile;
        config.signed_url.key_file = Some(key_file);
        config.signed_url.storage_endpoint = google.storage_endpoint();
        let objects =
            Arc::new(ObjectStore::new(&config.signed_url, Some(&google.metadata_host())).expect("a client"));
        let eyes = db.superuser().await.expect("eyes");
        let store = RetentionStore::new(pool(&db, "maple_gc"), "gc@test");
        let daemon = RetentionStore::new(pool(&db, "forms_app"), "maple-router@test");
        Self { db, eyes, google, objects, store, daemon, _keys: keys }
    }

    pub(crate) fn collector(&self) -> Collector {
        Collector {
            store: RetentionStore::new(pool(&self.db, "maple_gc"), "gc@test"),
            objects: Arc::clone(&self.objects),
            rng: Arc::new(Rng::from_system()),
            actor: "gc@test".to_owned(),
            grace: Duration::ZERO,
            rest: 0,
            clock: Arc::new(SystemClock),
            progress: Arc::new(|_| {}),
        }
    }

    pub(crate) fn recaller(&self) -> Recaller {
        Recaller { store: self.store.clone(), objects: Arc::clone(&self.objects) }
    }

    pub(crate) fn reconciler(&self) -> Reconciler {
        Reconciler { store: self.store.clone(), objects: Arc::clone(&self.objects) }
    }

    /// A run that comes to its end.
    pub(crate) async fn run(&self) -> Counts {
        match self.collector().run(&CancellationToken::new()).await.expect("a run") {
            Ended::Done(_, counts) => counts,
            other @ (Ended::Stopped(..) | Ended::Busy(_)) => panic!("not done: {other:?}"),
        }
    }

    pub(crate) async fn sql(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect(sql);
    }

    pub(crate) async fn one<T: for<'a> FromSql<'a>>(&self, sql: &str) -> T {
        self.eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// A submission of form `f`, made three years ago, which nobody routes.
    pub(crate) async fn received(&self) -> Uuid {
        let id = Uuid::new_v4();
        self.sql(&format!(
            "INSERT INTO submissions (id, form_id, created_at, updated_at) VALUES ('{id}', 'f', now() - interval '3 years', now() - interval '3 years');
             INSERT INTO submission_fields (submission_id, field_key, field_value) VALUES ('{id}', 'email', 'Zoe@example.org'), ('{id}', 'text', 'secret words');
             UPDATE router.outbox SET state = 'delivered', delivered_at = now(), lease_token = NULL, leased_until = NULL WHERE entity_id = '{id}'"
        ))
        .await;
        id
    }

    /// A submission that was routed three years ago.
    pub(crate) async fn routed(&self) -> Uuid {
        let id = self.received().await;
        self.ended(id, "routed", ROUTED).await;
        id
    }

    /// Ends a submission.
    pub(crate) async fn ended(&self, id: Uuid, status: &str, ledger: &str) {
        self.sql(&format!(
            "UPDATE submissions SET status = '{status}', routing_result = '{ledger}' WHERE id = '{id}';
             UPDATE router.outbox SET state = 'delivered', delivered_at = now(), lease_token = NULL, leased_until = NULL WHERE entity_id = '{id}'"
        ))
        .await;
    }

    /// An attachment whose object another way brought into the bucket. Its blob.
    pub(crate) async fn attach(&self, submission: Uuid, object: &str) -> Uuid {
        self.google.put_object(CONTENT, object, "text/plain", object.as_bytes());
        self.name(submission, object).await;
        self.one(&format!("SELECT id FROM content.blobs WHERE object = '{object}'")).await
    }

    /// An attachment of an object that is there already. The attachment.
    pub(crate) async fn name(&self, submission: Uuid, object: &str) -> Uuid {
        let id = Uuid::new_v4();
        self.sql(&format!(
            "INSERT INTO attachments (id, submission_id, file_name, gcs_bucket, gcs_object, size_bytes, clamav_status)
             VALUES ('{id}', '{submission}', 'cv.pdf', '{CONTENT}', '{object}', {}, 'clean');
             UPDATE router.outbox SET state = 'delivered', delivered_at = now(), lease_token = NULL, leased_until = NULL WHERE entity_id = '{submission}'",
            object.len()
        ))
        .await;
        id
    }

    /// Has a submission's attachments judged infected while no trigger looks.
    pub(crate) async fn infect_unseen(&self, submission: Uuid) {
        self.sql("ALTER TABLE attachments DISABLE TRIGGER router_late_infection").await;
        self.sql(&format!(
            "UPDATE attachments SET clamav_status = 'infected' WHERE submission_id = '{submission}'"
        ))
        .await;
        self.sql("ALTER TABLE attachments ENABLE TRIGGER router_late_infection").await;
    }

    pub(crate) async fn state(&self, blob: Uuid) -> String {
        self.one(&format!("SELECT state FROM content.blobs WHERE id = '{blob}'")).await
    }

    pub(crate) async fn status(&self, submission: Uuid) -> String {
        self.one(&format!("SELECT status::text FROM submissions WHERE id = '{submission}'")).await
    }

    pub(crate) fn is_there(&self, object: &str) -> bool {
        self.google.object(CONTENT, object).is_some()
    }

    /// The kinds of the receipts of a subject.
    pub(crate) async fn receipts(&self, subject: Uuid) -> Vec<String> {
        let receipts = self.daemon.receipts_of(subject).await.expect("answered");
        let kind = |body: &str| {
            let said: serde_json::Value = serde_json::from_str(body).expect("a document");
            said["kind"].as_str().expect("a kind").to_owned()
        };
        receipts.iter().map(|receipt| kind(&receipt.body)).collect()
    }

    /// What the history of a blob says: state, command, role.
    pub(crate) async fn history(&self, blob: Uuid) -> Vec<(String, String, String)> {
        let records = self.store.history(blob).await.expect("answered");
        records.into_iter().rev().map(|record| (record.to, record.command, record.actor_type)).collect()
    }
}

pub(crate) fn pool(db: &TestDatabase, role: &str) -> Pool {
    let mut config = Config::default();
    config.database.url = db.url_as(role);
    config.database.max_connections = 4;
    Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool")
}

pub(crate) fn triples(said: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    said.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
}

/// A failed submission's ledger; whether people were told.
pub(crate) fn failed(told: bool) -> String {
    let mut ledger = json!({"v": 1, "finished": {"token": "t", "at": "2026-01-01T00:00:00Z", "status": "failed", "reason": "refused"},
        "deliveries": {"1|a@example.org": {"state": "failed"}}});
    if told {
        ledger["alert"] = json!({"for": "t", "confirmed_at": "2026-01-01T00:00:01Z"});
    }
    ledger.to_string()
}
