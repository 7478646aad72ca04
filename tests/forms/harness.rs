//! A database with form versions, whoever may do something with them, and the shipped policy.

use std::sync::Arc;

use devkit::forms::{Form, load_into};
use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::config::{Config, Database};
use maple_router::db::{Pool, PoolOptions};
use maple_router::forms::commands::{By, Judged, Loaded, Versions};
use maple_router::forms::definition::Definition;
use maple_router::forms::store::{Facts, Source};
use maple_router::forms::table::{ADMIN, PUBLISHER, Version};
use maple_router::kernel::rows::Row;
use maple_router::ops::clock::SystemClock;
use maple_router::parts;
use tempfile::TempDir;
use tokio_postgres::Client;
use uuid::Uuid;

pub(crate) const WITH_CONTENT: Variant = Variant {
    audit_readable: false,
    with_011: true,
    router: true,
    content: true,
    screening: false,
    grading: false,
};
/// The policy that is shipped.
const POLICY: &str = include_str!("../../contrib/policy/publish.rego");

pub(crate) struct Scene {
    pub(crate) db: TestDatabase,
    /// A superuser's eyes.
    pub(crate) eyes: Client,
    /// The publisher on the command line.
    pub(crate) publisher: Versions,
    /// An admin of the desk, through the daemon's role.
    pub(crate) desk: Versions,
    policy: TempDir,
}

/// The publisher.
pub(crate) fn zoe() -> By {
    By { who: PUBLISHER, name: "operator:zoe".to_owned() }
}

/// An admin of the desk.
pub(crate) fn adam() -> By {
    By { who: ADMIN, name: "desk:adam".to_owned() }
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let cluster = Cluster::shared().await.expect("a cluster");
        Self::on(cluster.database(WITH_CONTENT).await.expect("a database")).await
    }

    pub(crate) async fn on(db: TestDatabase) -> Self {
        let eyes = db.superuser().await.expect("a superuser");
        let policy = tempfile::tempdir().expect("a directory");
        std::fs::write(policy.path().join("publish.rego"), POLICY).expect("a policy");
        let versions = |role: &str| {
            let mut config = Config::default();
            config.mail.from = "Forms <forms@example.org>".to_owned();
            config.mail.allowed_destination_domains = vec!["example.org".to_owned()];
            config.mail.body = maple_router::config::MailBody::Template;
            config.forms.policy_dir = Some(policy.path().to_owned());
            let database = Database { url: db.url_as(role), max_connections: 4, ..Database::default() };
            let pool = Pool::new(&database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
            parts::versions(&config, pool).expect("versions")
        };
        let (publisher, desk) = (versions("forms_loader"), versions("forms_app"));
        Self { db, eyes, publisher, desk, policy }
    }

    /// Replaces the policy's file; without a text it is gone.
    pub(crate) fn policy(&self, text: Option<&str>) {
        let file = self.policy.path().join("publish.rego");
        match text {
            Some(text) => std::fs::write(file, text).expect("written"),
            None => std::fs::remove_file(file).expect("removed"),
        }
    }

    pub(crate) fn policy_dir(&self) -> &std::path::Path {
        self.policy.path()
    }

    pub(crate) async fn sql(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect(sql);
    }

    pub(crate) async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// Loads a definition.
    pub(crate) async fn draft(&self, definition: &Definition) -> Loaded {
        self.publisher.load(definition, Source::Yaml, Uuid::new_v4(), &zoe()).await.expect("loaded")
    }

    /// Loads and publishes it.
    pub(crate) async fn published(&self, definition: &Definition) -> Loaded {
        let loaded = self.draft(definition).await;
        let judged = self.publisher.publish(loaded.id, &loaded.digest, &zoe()).await.expect("judged");
        assert_eq!(judged, Judged::Done);
        loaded
    }

    /// Loads, publishes and promotes it.
    pub(crate) async fn followed(&self, definition: &Definition) -> Loaded {
        let loaded = self.published(definition).await;
        let expected = self.current(&definition.id).await;
        let judged = self.publisher.promote(loaded.id, expected, None, &zoe()).await.expect("judged");
        assert_eq!(judged, Judged::Done);
        loaded
    }

    pub(crate) async fn current(&self, form: &str) -> Option<Uuid> {
        self.publisher.store.current(form).await.expect("answered").map(|current| current.version)
    }

    pub(crate) async fn row(&self, id: Uuid) -> Row<Version> {
        self.publisher.store.by_id(id).await.expect("answered").expect("there")
    }

    pub(crate) async fn facts(&self, id: Uuid) -> Facts {
        self.row(id).await.columns
    }

    /// What the tables have of a form, as text.
    pub(crate) async fn rows(&self, form: &str) -> String {
        self.one(&format!(
            "SELECT COALESCE(string_agg(concat_ws(' ', r.kind, r.key, r.content::text), E'\\n' ORDER BY r.kind, r.key), '')
             FROM content.rows_of('{form}') r"
        ))
        .await
    }

    /// Writes a form as the backend's loader does.
    pub(crate) async fn loader(&self, definition: &Definition) -> Result<(), String> {
        load_into(&self.db, &[as_loaded(definition)]).await.map_err(|error| format!("{error:#}"))
    }
}

/// A definition as the loader's file has it.
fn as_loaded(definition: &Definition) -> Form {
    let mut form = Form::new(&definition.id);
    form.name.clone_from(&definition.name);
    form.templates = definition
        .templates
        .iter()
        .map(|(id, template)| devkit::forms::Template {
            id: id.clone(),
            subject: template.subject.clone(),
            body_text: template.body_text.clone(),
            body_html: template.body_html.clone(),
        })
        .collect();
    form.actions = definition
        .actions
        .iter()
        .map(|action| devkit::forms::Action {
            kind: action.kind.clone(),
            template: action.template.clone(),
            destination: action.destination.clone(),
            subject: action.subject.clone(),
            category: action.category.clone(),
        })
        .collect();
    form
}

/// A form with a mail by a template that says `text`.
pub(crate) fn form(id: &str, text: &str) -> Definition {
    let yaml = format!(
        "id: {id}\nname: Form {id}\ntemplates:\n  - {{id: {id}-mail, subject: 'S', body_text: '{text}', body_html: '<p>{text}</p>'}}\n\
         actions:\n  - {{type: email_template, template: {id}-mail, destination: team@example.org}}\nsamples:\n  - {{name: plain}}\n"
    );
    Definition::from_yaml(&yaml).expect("valid")
}
