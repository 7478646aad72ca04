//! Forms and their versions on the desk: what each role is shown, and an admin's two commands, on real rows and a real policy.

mod commands;
mod hostile;
mod pages;

use std::sync::Arc;

use devkit::postgres::Variant;
use maple_router::config::{Database, MailBody};
use maple_router::db::{Pool, PoolOptions};
use maple_router::forms::commands::{By, Judged, Loaded, Versions};
use maple_router::forms::definition::Definition;
use maple_router::forms::store::Source;
use maple_router::forms::table::PUBLISHER;
use maple_router::ops::clock::SystemClock;
use maple_router::parts;
use reqwest::Response;
use uuid::Uuid;

use super::scene::{self, hidden};
use crate::harness::{Bench, Opened};

/// The policy that is shipped.
const POLICY: &str = include_str!("../../../contrib/policy/publish.rego");

/// A bench with versions, and the publisher.
struct Office {
    bench: Bench,
    publisher: Versions,
}

/// The publisher.
fn zoe() -> By {
    By { who: PUBLISHER, name: "operator:zoe".to_owned() }
}

impl Office {
    async fn new() -> Self {
        let variant = Variant { router: true, content: true, audit_readable: true, ..Variant::default() };
        let mut bench = scene::bench_of(variant).await;
        let policy = bench.dir().join("policy");
        std::fs::create_dir(&policy).expect("a directory");
        bench.config.mail.allowed_destination_domains = vec!["example.org".to_owned()];
        bench.config.mail.body = MailBody::Template;
        bench.config.forms.policy_dir = Some(policy);
        let url = bench.db.url_as("forms_loader");
        let database = Database { url, max_connections: 2, ..Database::default() };
        let pool = Pool::new(&database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
        let publisher = parts::versions(&bench.config, pool).expect("versions");
        let office = Self { bench, publisher };
        office.policy(POLICY);
        office
    }

    /// Replaces the policy.
    fn policy(&self, text: &str) {
        let directory = self.bench.config.forms.policy_dir.as_ref().expect("a directory");
        std::fs::write(directory.join("publish.rego"), text).expect("written");
    }

    async fn draft(&self, definition: &Definition) -> Loaded {
        self.publisher
            .load(definition, Source::Yaml, maple_router::ops::rng::Rng::from_system().uuid(), &zoe())
            .await
            .expect("loaded")
    }

    async fn published(&self, definition: &Definition) -> Loaded {
        let loaded = self.draft(definition).await;
        let judged = self.publisher.publish(loaded.id, &loaded.digest, &zoe()).await.expect("judged");
        assert_eq!(judged, Judged::Done);
        loaded
    }

    async fn followed(&self, definition: &Definition) -> Loaded {
        let loaded = self.published(definition).await;
        let seen = self.current(&definition.id).await;
        let judged =
            self.publisher.promote(loaded.id, seen, Some("as agreed"), &zoe()).await.expect("judged");
        assert_eq!(judged, Judged::Done);
        loaded
    }

    async fn current(&self, form: &str) -> Option<Uuid> {
        self.publisher.store.current(form).await.expect("answered").map(|current| current.version)
    }

    /// The latest record of a version: command, actor, role and reason.
    async fn last(&self, id: Uuid) -> (String, String, String, Option<String>) {
        let history = self.publisher.store.history(id).await.expect("answered");
        let last = history.into_iter().next().expect("a record");
        (last.command, last.actor, last.actor_type, last.reason)
    }

    async fn promotions(&self) -> i64 {
        let sql =
            "SELECT count(*) FROM router.transitions WHERE lifecycle = 'version' AND command = 'promote'";
        self.bench.eyes.query_one(sql, &[]).await.expect("counted").get(0)
    }
}

/// A form whose mail says `text`, to somebody of the team.
fn form(text: &str, to: &str) -> Definition {
    let yaml = format!(
        "id: f\nname: Form F\ntemplates:\n  - {{id: f-mail, subject: 'S', body_text: '{text}', body_html: '<p>{text}</p>'}}\n\
         actions:\n  - {{type: email_template, template: f-mail, destination: '{to}'}}\nsamples:\n  - {{name: plain}}\n"
    );
    Definition::from_yaml(&yaml).expect("valid")
}

/// Sends the form that a page has for `path`, with this reason.
async fn press(desk: &Opened, cookie: &str, page: &str, path: &str, reason: &str) -> Response {
    let (expected, key) = (hidden(page, path, "expected"), hidden(page, path, "idempotency_key"));
    let fields = [("expected", expected.as_str()), ("idempotency_key", &key), ("reason", reason)];
    desk.send(path, cookie, &fields).await
}
