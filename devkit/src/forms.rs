//! Sample forms, a loader that treats them as the backend's YAML loader does, and submissions as the backend makes them.
//!
//! Each load and each submission is one transaction: dying in the middle leaves nothing behind.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::postgres::TestDatabase;

/// The sample forms' files, by name.
const FILES: [(&str, &str); 8] = [
    ("complaint.yaml", include_str!("../forms/complaint.yaml")),
    ("contact.yaml", include_str!("../forms/contact.yaml")),
    ("helpdesk.yaml", include_str!("../forms/helpdesk.yaml")),
    ("membership.yaml", include_str!("../forms/membership.yaml")),
    ("newsletter.yaml", include_str!("../forms/newsletter.yaml")),
    ("press.yaml", include_str!("../forms/press.yaml")),
    ("upload.yaml", include_str!("../forms/upload.yaml")),
    ("volunteer.yaml", include_str!("../forms/volunteer.yaml")),
];

/// A form as its YAML file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// `forms.id`
    pub id: String,
    /// `forms.name`
    pub name: String,
    /// Texts its actions use.
    #[serde(default)]
    pub templates: Vec<Template>,
    /// Actions for a submission; the order in the file is `action_order`, from 1.
    #[serde(default)]
    pub actions: Vec<Action>,
}

/// One row of `templates`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// `templates.id`
    pub id: String,
    /// Subject.
    pub subject: String,
    /// Plain text.
    pub body_text: String,
    /// HTML.
    pub body_html: String,
}

/// One row of `actions`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// `actions.action_type`
    #[serde(rename = "type")]
    pub kind: String,
    /// `actions.template_id`
    #[serde(default)]
    pub template: Option<String>,
    /// `actions.destination`
    pub destination: String,
    /// `actions.subject_template`
    #[serde(default)]
    pub subject: Option<String>,
    /// `actions.happyfox_category`
    #[serde(default)]
    pub category: Option<String>,
}

impl Form {
    /// A form without templates and actions, to be built up in a test.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), name: format!("Form {id}"), templates: Vec::new(), actions: Vec::new() }
    }

    /// Adds an `email_raw` action.
    #[must_use]
    pub fn mail_to(mut self, destination: &str) -> Self {
        self.actions.push(Action {
            kind: "email_raw".to_owned(),
            template: None,
            destination: destination.to_owned(),
            subject: None,
            category: None,
        });
        self
    }

    /// Adds a `happyfox_template` action in this category.
    #[must_use]
    pub fn ticket_in(mut self, category: &str) -> Self {
        self.actions.push(Action {
            kind: "happyfox_template".to_owned(),
            template: None,
            destination: "help desk".to_owned(),
            subject: None,
            category: Some(category.to_owned()),
        });
        self
    }

    /// Reads a form from YAML.
    ///
    /// # Errors
    /// Not YAML, or not of a form's shape.
    pub fn from_yaml(text: &str) -> Result<Self> {
        Ok(serde_saphyr::from_str(text)?)
    }
}

/// The sample forms: plain, several actions, several recipients, a rich template, HappyFox only, mixed, none, raw.
///
/// # Errors
/// A sample is not a form; names the file.
pub fn samples() -> Result<Vec<Form>> {
    FILES.iter().map(|(file, text)| Form::from_yaml(text).with_context(|| format!("forms/{file}"))).collect()
}

/// Loads forms as the YAML loader does: upserts forms and templates, **replaces** actions with DELETE + INSERT, so that
/// action ids change. Connect as `forms_loader`.
///
/// # Errors
/// The database refuses, e.g. an action names a template that does not exist.
pub async fn load(loader: &mut Client, forms: &[Form]) -> Result<()> {
    let tx = loader.transaction().await?;
    for form in forms {
        let sql = "INSERT INTO forms (id, name) VALUES ($1, $2)
                   ON CONFLICT (id) DO UPDATE SET name = excluded.name, updated_at = now()";
        tx.execute(sql, &[&form.id, &form.name]).await?;
        for template in &form.templates {
            let sql = "INSERT INTO templates (id, subject, body_text, body_html) VALUES ($1, $2, $3, $4)
                       ON CONFLICT (id) DO UPDATE SET subject = excluded.subject, body_text = excluded.body_text,
                       body_html = excluded.body_html, updated_at = now()";
            let Template { id, subject, body_text, body_html } = template;
            tx.execute(sql, &[id, subject, body_text, body_html]).await?;
        }
        tx.execute("DELETE FROM actions WHERE form_id = $1", &[&form.id]).await?;
        for (order, action) in (1_i32..).zip(&form.actions) {
            let sql = "INSERT INTO actions (form_id, action_order, action_type, template_id, destination,
                                            subject_template, happyfox_category)
                       VALUES ($1, $2, $3::text::action_type, $4, $5, $6, $7)";
            let Action { kind, template, destination, subject, category } = action;
            tx.execute(sql, &[&form.id, &order, kind, template, destination, subject, category]).await?;
        }
    }
    tx.execute("INSERT INTO audit_log (actor, action) VALUES ('yaml-loader', 'admin_reload_yaml')", &[])
        .await?;
    Ok(tx.commit().await?)
}

/// Loads forms into a test database, as `forms_loader`.
///
/// # Errors
/// As [`load`]; or the server is gone.
pub async fn load_into(db: &TestDatabase, forms: &[Form]) -> Result<()> {
    load(&mut db.client_as("forms_loader").await?, forms).await
}

/// Loads the sample forms into a test database, as `forms_loader`.
///
/// # Errors
/// As [`load`] and [`samples`].
pub async fn load_samples(db: &TestDatabase) -> Result<()> {
    load_into(db, &samples()?).await
}

/// A submission about to be inserted, as the backend's finalize does it: row, fields and attachments in one commit.
#[derive(Debug, Clone)]
pub struct SubmissionSeed {
    form: String,
    id: Option<Uuid>,
    status: String,
    ledger: serde_json::Value,
    created_at: Option<Timestamp>,
    age_seconds: f64,
    retention_expires_at: Option<Timestamp>,
    fields: Vec<(String, String)>,
    attachments: Vec<File>,
    bucket: String,
}

/// A file as the backend records it.
#[derive(Debug, Clone)]
struct File {
    name: String,
    status: String,
    content_type: String,
    size: i64,
    sha256: Vec<u8>,
}

/// Ids of an inserted submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeded {
    /// `submissions.id`
    pub id: Uuid,
    /// `attachments.id`, in the order of the seed.
    pub attachments: Vec<Uuid>,
}

impl SubmissionSeed {
    /// A `received` submission of now, without fields and attachments: ready.
    #[must_use]
    pub fn of(form: &str) -> Self {
        Self {
            form: form.to_owned(),
            id: None,
            status: "received".to_owned(),
            ledger: serde_json::json!({}),
            created_at: None,
            age_seconds: 0.0,
            retention_expires_at: None,
            fields: Vec::new(),
            attachments: Vec::new(),
            bucket: "maple-uploads".to_owned(),
        }
    }

    /// Sets this id instead of a random one.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets another status.
    #[must_use]
    pub fn status(mut self, status: &str) -> Self {
        self.status = status.to_owned();
        self
    }

    /// Sets a ledger from the start (`routing_result`).
    #[must_use]
    pub fn ledger(mut self, ledger: serde_json::Value) -> Self {
        self.ledger = ledger;
        self
    }

    /// Created, and last touched, at this time.
    #[must_use]
    pub fn created_at(mut self, at: Timestamp) -> Self {
        self.created_at = Some(at);
        self
    }

    /// Created, and last touched, this long ago by the database's clock.
    #[must_use]
    pub fn age(mut self, age: std::time::Duration) -> Self {
        self.age_seconds = age.as_secs_f64();
        self
    }

    /// Sets the time of its purge.
    #[must_use]
    pub fn retention_expires_at(mut self, at: Timestamp) -> Self {
        self.retention_expires_at = Some(at);
        self
    }

    /// Adds one more field.
    #[must_use]
    pub fn field(mut self, key: &str, value: &str) -> Self {
        self.fields.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Adds one more attachment: its file name and `pending`, `clean` or `infected`.
    #[must_use]
    pub fn attachment(mut self, file_name: &str, status: &str) -> Self {
        self.attachments.push(File {
            name: file_name.to_owned(),
            status: status.to_owned(),
            content_type: "application/octet-stream".to_owned(),
            size: 1024,
            sha256: Sha256::digest(file_name).to_vec(),
        });
        self
    }

    /// Adds one more attachment, clean, with what is recorded of these bytes.
    #[must_use]
    pub fn file(mut self, file_name: &str, content_type: &str, bytes: &[u8]) -> Self {
        self.attachments.push(File {
            name: file_name.to_owned(),
            status: "clean".to_owned(),
            content_type: content_type.to_owned(),
            size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            sha256: Sha256::digest(bytes).to_vec(),
        });
        self
    }

    /// Attachments lie in this bucket, as `submissions/ID/NUMBER-NAME`.
    #[must_use]
    pub fn bucket(mut self, bucket: &str) -> Self {
        bucket.clone_into(&mut self.bucket);
        self
    }

    /// Inserts it. Connect as `forms_app`, which is the backend's role as well.
    ///
    /// # Errors
    /// The form does not exist, or the database refuses.
    pub async fn insert(&self, backend: &Client) -> Result<Seeded> {
        let sql = "
            WITH s AS (
                INSERT INTO submissions (id, form_id, status, routing_result, created_at, updated_at, retention_expires_at)
                SELECT COALESCE($1, gen_random_uuid()), $2, $3::text::submission_status, $4, at, at, $5
                FROM (SELECT COALESCE($6, now()) - make_interval(secs => $7) AS at) AS t
                RETURNING id
            ), f AS (
                INSERT INTO submission_fields (submission_id, field_key, field_value, position)
                SELECT s.id, key, value, number FROM s,
                       unnest($8::text[], $9::text[]) WITH ORDINALITY AS t (key, value, number)
            ), named AS (
                SELECT gen_random_uuid() AS id, s.id AS submission_id, name, status, type, size, digest, number FROM s,
                       unnest($10::text[], $11::text[], $13::text[], $14::bigint[], $15::bytea[])
                         WITH ORDINALITY AS t (name, status, type, size, digest, number)
            ), a AS (
                INSERT INTO attachments (id, submission_id, file_name, content_type, size_bytes, sha256, gcs_bucket,
                                         gcs_object, clamav_status, created_at)
                SELECT id, submission_id, name, type, size, digest, $12,
                       'submissions/' || submission_id || '/' || number || '-' || name, status::clamav_status,
                       now() + number * interval '1 microsecond'
                FROM named
            )
            SELECT s.id, ARRAY(SELECT id FROM named ORDER BY number) FROM s";
        let (keys, values): (Vec<&str>, Vec<&str>) =
            self.fields.iter().map(|(k, v)| (k.as_str(), v.as_str())).unzip();
        let each = self.attachments.iter();
        let names: Vec<&str> = each.clone().map(|file| file.name.as_str()).collect();
        let statuses: Vec<&str> = each.clone().map(|file| file.status.as_str()).collect();
        let types: Vec<&str> = each.clone().map(|file| file.content_type.as_str()).collect();
        let sizes: Vec<i64> = each.clone().map(|file| file.size).collect();
        let digests: Vec<&[u8]> = each.map(|file| file.sha256.as_slice()).collect();
        let row = backend
            .query_one(
                sql,
                &[
                    &self.id,
                    &self.form,
                    &self.status,
                    &self.ledger,
                    &self.retention_expires_at,
                    &self.created_at,
                    &self.age_seconds,
                    &keys,
                    &values,
                    &names,
                    &statuses,
                    &self.bucket,
                    &types,
                    &sizes,
                    &digests,
                ],
            )
            .await
            .with_context(|| format!("inserting a submission of form {}", self.form))?;
        Ok(Seeded { id: row.get(0), attachments: row.get(1) })
    }
}

/// Sets an attachment's status as the scan worker does. Connect as `forms_scanner` (or `forms_app`).
///
/// # Errors
/// No such attachment or status, or the database refuses.
pub async fn scan(scanner: &Client, attachment: Uuid, status: &str) -> Result<()> {
    let sql = "UPDATE attachments SET clamav_status = $2::text::clamav_status WHERE id = $1";
    let changed = scanner.execute(sql, &[&attachment, &status]).await?;
    anyhow::ensure!(changed == 1, "no attachment {attachment}");
    Ok(())
}
