//! Managed forms: a form as a version in schema `content`, published and promoted.
//!
//! Each version is one transaction: dying in the middle leaves nothing behind.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::forms::Form;
use crate::postgres::TestDatabase;

/// A version that a form follows, or has followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// `content.versions.id`
    pub id: Uuid,
    /// `content.versions.number`
    pub number: i32,
    /// `content.versions.digest`, in hex.
    pub digest: String,
}

impl Version {
    /// The version as a ledger names it.
    #[must_use]
    pub fn in_ledger(&self) -> Value {
        json!({"id": self.id, "number": self.number, "digest": self.digest})
    }
}

/// Makes a form's next version of `form`, and has the form follow it: drafted, published and promoted in one transaction.
///
/// # Errors
/// There is no schema `content` with versions, the same content is a version already, or the server is gone.
pub async fn promote(db: &TestDatabase, form: &Form) -> Result<Version> {
    let mut client = db.superuser().await?;
    let tx = client.transaction().await?;
    let entries = entries(form);
    let text: Vec<String> =
        entries.iter().map(|(kind, key, content)| format!("{kind} {key} {content}")).collect();
    let digest = Sha256::digest(text.join("\n")).to_vec();
    let id: Uuid = tx.query_one("SELECT gen_random_uuid()", &[]).await?.get(0);
    let sql = "INSERT INTO content.versions (id, form_id, number, digest, source, author)
               SELECT $1, $2, 1 + COALESCE(max(v.number), 0), $3, 'yaml', 'test' FROM content.versions v WHERE v.form_id = $2
               RETURNING number, encode(digest, 'hex')";
    let row = tx.query_one(sql, &[&id, &form.id, &digest]).await.context("a draft")?;
    for (kind, key, content) in &entries {
        let sql = "INSERT INTO content.entries (version_id, kind, key, content) VALUES ($1, $2, $3, $4)";
        tx.execute(sql, &[&id, kind, key, content]).await.with_context(|| format!("{kind} {key}"))?;
    }
    let sql = "INSERT INTO content.decisions (version_id, command, digest, policy, allowed, actor)
               VALUES ($1, 'publish', $2, sha256('policy'), true, 'test')";
    tx.execute(sql, &[&id, &digest]).await.context("a decision")?;
    tx.execute("UPDATE content.versions SET state = 'published' WHERE id = $1", &[&id])
        .await
        .context("published")?;
    let sql = "SELECT content.promote($1, (SELECT c.version_id FROM content.current c WHERE c.form_id = $2),
               sha256('policy'), 'test', 'publisher', 'a test')";
    tx.execute(sql, &[&id, &form.id]).await.context("promoted")?;
    tx.commit().await.context("its rows")?;
    Ok(Version { id, number: row.try_get(0)?, digest: row.try_get(1)? })
}

/// Has a form follow no version any more; its rows stay as they are.
///
/// # Errors
/// The server is gone.
pub async fn abandon(db: &TestDatabase, form: &str) -> Result<()> {
    db.superuser().await?.execute("DELETE FROM content.current WHERE form_id = $1", &[&form]).await?;
    Ok(())
}

/// Kind, key and content of a form's entries.
fn entries(form: &Form) -> Vec<(&'static str, String, Value)> {
    let mut entries = vec![("settings", "form".to_owned(), json!({"name": form.name}))];
    for template in &form.templates {
        let texts = json!({"subject": template.subject, "body_text": template.body_text, "body_html": template.body_html});
        entries.push(("template", template.id.clone(), texts));
    }
    for (order, action) in (1..).zip(&form.actions) {
        let content = json!({"action_type": action.kind, "template_id": action.template, "destination": action.destination,
            "happyfox_category": action.category, "subject_template": action.subject});
        entries.push(("action", i32::to_string(&order), content));
    }
    entries
}
