//! The statements of form versions: a version from its file to its end, judged by the shipped policy, and what pages and the daemon's
//! look read of it. Part of a round where the schemas are there.

use std::sync::Arc;
use std::time::Duration;

use devkit::postgres::TestDatabase;
use maple_router::config::{Config, Database};
use maple_router::db::pool::Transaction;
use maple_router::db::{Pool, PoolOptions};
use maple_router::forms::commands::{By, Judged, Loaded, Versions};
use maple_router::forms::definition::Definition;
use maple_router::forms::store::Source;
use maple_router::forms::store::signatures::NewSignature;
use maple_router::forms::table::{Command, PUBLISHER};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::parts;
use tempfile::TempDir;
use uuid::Uuid;

/// A form of this room's own, which follows a version after the first round.
const FORM: &str = "ruled";
const POLICY: &str = include_str!("../../contrib/policy/publish.rego");
const DAY: Duration = Duration::from_secs(86_400);

/// The form versions of one database: the publisher's hands, and the daemon's eyes.
pub(crate) struct Forms {
    publisher: Versions,
    daemon: Versions,
    /// The policy's directory.
    _policy: TempDir,
}

fn zoe() -> By {
    By { who: PUBLISHER, name: "operator:zoe".to_owned() }
}

impl Forms {
    pub(crate) fn on(db: &TestDatabase, daemon: Pool) -> Self {
        let policy = tempfile::tempdir().expect("a directory");
        std::fs::write(policy.path().join("publish.rego"), POLICY).expect("a policy");
        let mut config = Config::default();
        config.mail.from = "Forms <forms@example.org>".to_owned();
        config.mail.allowed_destination_domains = vec!["example.org".to_owned()];
        config.forms.policy_dir = Some(policy.path().to_owned());
        // One connection, like the daemon's.
        let database = Database {
            url: db.url_as("forms_loader"),
            max_connections: 1,
            statement_timeout: Duration::from_secs(120),
            ..Database::default()
        };
        let pool = Pool::new(&database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
        let publisher = parts::versions(&config, pool).expect("versions");
        let daemon = parts::versions(&config, daemon).expect("versions");
        Self { publisher, daemon, _policy: policy }
    }

    /// Says every statement once.
    pub(crate) async fn round(&self) {
        assert!(self.daemon.store.is_there().await.expect("asked"));
        let from = self.daemon.store.over().await.expect("asked");
        let was = self.daemon.store.current(FORM).await.expect("read").map(|current| current.version);
        let (first, second) = (self.published().await, self.published().await);
        for (version, expected) in [(&first, was), (&second, Some(first.id))] {
            let judged = self.publisher.promote(version.id, expected, None, &zoe()).await.expect("judged");
            assert_eq!(judged, Judged::Done);
        }
        let (back, judged) = self.publisher.rollback(FORM, Some(second.id), &zoe()).await.expect("judged");
        assert_eq!((back, judged), (first.id, Judged::Done));
        self.publisher.bury(second.id, Command::Tombstone, "old", DAY, &zoe()).await.expect("buried");
        assert_eq!(self.publisher.restore(second.id, &zoe()).await.expect("judged"), Judged::Done);
        let refused = self.load("anna@evil.test").await;
        let judged = self.publisher.publish(refused.id, &refused.digest, &zoe()).await.expect("judged");
        assert!(matches!(judged, Judged::Refused(_)), "{judged:?}");
        self.publisher.bury(refused.id, Command::Discard, "no", DAY, &zoe()).await.expect("given up");
        self.sign(first.id).await;
        self.look(&first, from).await;
    }

    /// What pages, verbs and the daemon's look read.
    async fn look(&self, version: &Loaded, from: i64) {
        let store = &self.daemon.store;
        assert!(store.forms().await.expect("read").iter().any(|line| line.form_id == FORM));
        assert!(!store.of_form(FORM).await.expect("read").is_empty());
        let found = store.by_number(FORM, version.number).await.expect("read").expect("there");
        assert_eq!(store.by_id(version.id).await.expect("read").expect("there"), found);
        assert!(!store.entries(version.id).await.expect("read").is_empty());
        assert!(!self.daemon.signatures(&found).await.expect("read").is_empty());
        assert!(!store.decisions(version.id).await.expect("read").is_empty());
        assert!(!store.history(version.id).await.expect("read").is_empty());
        let over = store.over().await.expect("asked");
        assert!(!store.decided(from, over).await.expect("read").is_empty());
        assert_eq!(store.standing().await.expect("read").drifted, 0);
        let read = async |tx: Transaction| Ok(self.publisher.store.rows_of(&tx, FORM).await?);
        assert!(self.publisher.answered("version_rows", read).await.expect("read").is_some());
    }

    async fn published(&self) -> Loaded {
        let loaded = self.load("team@example.org").await;
        let judged = self.publisher.publish(loaded.id, &loaded.digest, &zoe()).await.expect("judged");
        assert_eq!(judged, Judged::Done);
        loaded
    }

    /// Keeps a signature, whatever it counts for.
    async fn sign(&self, version: Uuid) {
        let new = NewSignature { version, key: "SHA256:k", signature: "s", actor: "operator:zoe" };
        let sign = async |tx: Transaction| Ok(self.publisher.store.sign(&tx, &new).await?);
        assert!(self.publisher.answered("version_sign", sign).await.expect("kept"));
    }

    /// A draft of its own content.
    async fn load(&self, to: &str) -> Loaded {
        let id = Rng::from_system().uuid();
        let yaml = format!(
            "id: {FORM}\nname: Ruled\ntemplates:\n  - {{id: {FORM}-mail, subject: 'S', body_text: '{id}', body_html: '<p>{id}</p>'}}\n\
             actions:\n  - {{type: email_template, template: {FORM}-mail, destination: {to}}}\nsamples:\n  - {{name: plain}}\n"
        );
        let definition = Definition::from_yaml(&yaml).expect("valid");
        self.publisher.load(&definition, Source::Yaml, id, &zoe()).await.expect("loaded")
    }
}
