//! A version's content: the entries that a definition consists of, and their digest. Pure.
//!
//! Actions and templates are written as the database says its own rows (`content.rows_of`), so that it can compare them by itself.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::definition::{Action, Asset, Definition, Sample, Template};
use crate::kernel::words;

words! {
    /// `content.entries.kind`.
    Kind {
        /// An action, by its order.
        Action = "action",
        /// A template, by its id.
        Template = "template",
        /// A file, by its name.
        Asset = "asset",
        /// Name and samples.
        Settings = "settings",
    }
}

/// One entry of a version.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Its name among those of its kind.
    pub key: String,
    /// Its content, an object.
    pub content: Value,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("kind", &self.kind).field("key", &self.key).finish_non_exhaustive()
    }
}

/// A version's entries cannot be read as a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("entry {kind} {key:?} is not what this version of the program writes")]
pub struct Unreadable {
    kind: Kind,
    key: String,
}

/// The blobs of a definition's files, by the files' SHA-256.
pub type Blobs = BTreeMap<String, Uuid>;

/// The entries of a definition, in the order of their kinds and keys. A file without a blob has a null there, which the database
/// refuses to publish.
#[must_use]
pub fn entries(definition: &Definition, blobs: &Blobs) -> Vec<Entry> {
    let entry = |kind, key: &str, content| Entry { kind, key: key.to_owned(), content };
    let actions = definition.actions.iter().map(|action| {
        let content = json!({
            "action_type": action.kind, "template_id": action.template, "destination": action.destination,
            "happyfox_category": action.category, "subject_template": action.subject,
        });
        entry(Kind::Action, &action.order.to_string(), content)
    });
    let templates = definition.templates.iter().map(|(id, template)| {
        let Template { subject, body_text, body_html } = template;
        entry(Kind::Template, id, json!({"subject": subject, "body_text": body_text, "body_html": body_html}))
    });
    let assets = definition.assets.iter().map(|(name, Asset { sha256 })| {
        entry(Kind::Asset, name, json!({"sha256": sha256, "blob": blobs.get(sha256)}))
    });
    let settings = json!({"name": definition.name, "samples": definition.samples});
    let mut all: Vec<Entry> = actions.chain(templates).chain(assets).collect();
    all.push(entry(Kind::Settings, "form", settings));
    all
}

/// The digest of entries: SHA-256 of `[[kind, key, content], …]` as JSON, sorted, keys sorted, without blanks.
///
/// Which blob a file has become is not part of it: the file's own digest is.
#[must_use]
pub fn digest(entries: &[Entry]) -> [u8; 32] {
    let mut all: Vec<(&str, &str, Value)> = entries
        .iter()
        .map(|entry| {
            let mut content = entry.content.clone();
            if entry.kind == Kind::Asset
                && let Value::Object(object) = &mut content
            {
                object.remove("blob");
            }
            (entry.kind.label(), entry.key.as_str(), content)
        })
        .collect();
    all.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let mut text = Vec::new();
    for (kind, key, content) in all {
        canonical(&json!([kind, key, content]), &mut text);
        text.push(b'\n');
    }
    Sha256::digest(&text).into()
}

/// JSON with sorted keys and without blanks, whatever order the values were made in.
fn canonical(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            let sorted: BTreeMap<&String, &Value> = object.iter().collect();
            into.push(b'{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    into.push(b',');
                }
                into.extend_from_slice(json!(key).to_string().as_bytes());
                into.push(b':');
                canonical(value, into);
            }
            into.push(b'}');
        }
        Value::Array(values) => {
            into.push(b'[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    into.push(b',');
                }
                canonical(value, into);
            }
            into.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            into.extend_from_slice(value.to_string().as_bytes());
        }
    }
}

/// The definition that entries of a form say.
///
/// # Errors
/// [`Unreadable`]: another version of the program wrote them, or somebody else.
pub fn definition(form_id: &str, entries: &[Entry]) -> Result<Definition, Unreadable> {
    let mut made = Definition {
        id: form_id.to_owned(),
        name: form_id.to_owned(),
        actions: Vec::new(),
        templates: BTreeMap::new(),
        assets: BTreeMap::new(),
        samples: Vec::new(),
    };
    for entry in entries {
        read(entry, &mut made).ok_or_else(|| Unreadable { kind: entry.kind, key: entry.key.clone() })?;
    }
    made.actions.sort_by_key(|action| action.order);
    Ok(made)
}

fn read(entry: &Entry, into: &mut Definition) -> Option<()> {
    let content = &entry.content;
    let text = |name: &str| content.get(name).and_then(Value::as_str).map(str::to_owned);
    match entry.kind {
        Kind::Action => into.actions.push(Action {
            order: entry.key.parse().ok()?,
            kind: text("action_type")?,
            template: text("template_id"),
            destination: text("destination")?,
            subject: text("subject_template"),
            category: text("happyfox_category"),
        }),
        Kind::Template => {
            into.templates.insert(entry.key.clone(), serde_json::from_value(content.clone()).ok()?);
        }
        Kind::Asset => {
            into.assets.insert(entry.key.clone(), Asset { sha256: text("sha256")? });
        }
        Kind::Settings => {
            into.name = text("name")?;
            let samples = content.get("samples").cloned().unwrap_or_default();
            into.samples = serde_json::from_value::<Option<Vec<Sample>>>(samples).ok()?.unwrap_or_default();
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::definition::tests::contact;

    #[test]
    fn a_definition_comes_back_from_its_entries() {
        let contact = contact();
        let entries = entries(&contact, &Blobs::new());
        assert_eq!(definition("contact", &entries).expect("readable"), contact);
    }

    #[test]
    fn the_digest_is_of_the_content_in_whatever_order() {
        let mut of = entries(&contact(), &Blobs::new());
        let first = digest(&of);
        of.reverse();
        assert_eq!(digest(&of), first, "order");
        let blob = Blobs::from([("ab".repeat(32), Uuid::nil())]);
        assert_eq!(digest(&entries(&contact(), &blob)), first, "which blob a file became");
        let mut other = contact();
        other.actions[0].destination.push('x');
        assert_ne!(digest(&entries(&other, &Blobs::new())), first, "one letter");
        let mut other = contact();
        other.assets.values_mut().for_each(|asset| asset.sha256 = "cd".repeat(32));
        assert_ne!(digest(&entries(&other, &Blobs::new())), first, "a file's content");
    }

    #[test]
    fn the_canonical_text_is_sorted_and_without_blanks() {
        let mut text = Vec::new();
        canonical(&json!({"b": [1, null, "ü\n"], "a": {"d": true, "c": 1.5}}), &mut text);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "{\"a\":{\"c\":1.5,\"d\":true},\"b\":[1,null,\"ü\\n\"]}"
        );
    }
}
