//! A form's definition as its file has it: read from YAML, its faults named with what would be right. Pure.
//!
//! A file may be anything: its size, nesting and aliases are bounded before anything is made of it, and every fault is told at
//! once, each with its place, so that one look mends them all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::config::explain::nearest;

/// Largest file, in bytes.
const FILE: usize = 1 << 20;
/// Aliases of a file; definitions have none or a few.
const ALIASES: usize = 100;
/// Deepest nesting.
const DEPTH: usize = 32;
/// Events of the parser, aliases followed.
const EVENTS: usize = 50_000;
/// Most actions, templates, files and samples.
const MOST: usize = 100;
/// Longest id, in bytes.
const ID: usize = 200;

/// A form's definition. Its `Debug` shows no destination and no text of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The form's id.
    pub id: String,
    /// Its name, as mails say it.
    pub name: String,
    /// What follows a submission, in order.
    pub actions: Vec<Action>,
    /// The texts of its mails, by id.
    pub templates: BTreeMap<String, Template>,
    /// Files that belong to it, by name.
    pub assets: BTreeMap<String, Asset>,
    /// Submissions that its mails are tried on.
    pub samples: Vec<Sample>,
}

/// One action.
#[derive(Clone, PartialEq, Eq)]
pub struct Action {
    /// Its place; unique in the form.
    pub order: i32,
    /// A word of the database's enum `action_type`.
    pub kind: String,
    /// The template.
    pub template: Option<String>,
    /// Recipients, separated by commas or semicolons.
    pub destination: String,
    /// A subject of its own.
    pub subject: Option<String>,
    /// The help desk's category.
    pub category: Option<String>,
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Action").field("order", &self.order).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The texts of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// Subject.
    pub subject: String,
    /// Plain text.
    pub body_text: String,
    /// HTML.
    pub body_html: String,
}

/// A file that was uploaded for the form, named by its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// A submission that the form's mails are tried on.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// What it is a case of.
    pub name: String,
    /// Its fields.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// Names of its files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
}

impl std::fmt::Debug for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sample").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What is wrong with a file, each fault with its place and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    id: String,
    name: String,
    #[serde(default)]
    templates: Vec<FileTemplate>,
    #[serde(default)]
    actions: Vec<FileAction>,
    #[serde(default)]
    assets: Vec<FileAsset>,
    #[serde(default)]
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTemplate {
    id: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    body_text: String,
    #[serde(default)]
    body_html: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAction {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    order: Option<i32>,
    #[serde(default)]
    template: Option<String>,
    #[serde(default)]
    destination: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    category: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAsset {
    name: String,
    sha256: String,
}

impl Definition {
    /// Reads a definition from the text of a file; actions without an order have that of their place.
    ///
    /// # Errors
    /// [`Faults`]: every one that was found.
    pub fn from_yaml(text: &str) -> Result<Self, Faults> {
        if text.len() > FILE {
            return Err(Faults(vec![format!(
                "the file has {} bytes, and at most {FILE} are read",
                text.len()
            )]));
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_aliases: ALIASES,
                max_anchors: ALIASES,
                max_depth: DEPTH,
                max_events: EVENTS,
                max_documents: 1,
            },
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: EVENTS,
                max_replay_stack_depth: 8,
            },
            with_snippet: false,
        };
        let file: File =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| Faults(vec![said(&error)]))?;
        file.definition()
    }

    /// What is wrong with it as a whole, whoever made it.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        named("id", &self.id, &mut faults);
        if self.name.trim().is_empty() || self.name.len() > ID || self.name.chars().any(char::is_control) {
            faults.push(format!("name: one line of 1 to {ID} bytes is needed"));
        }
        for (what, count) in [
            ("actions", self.actions.len()),
            ("templates", self.templates.len()),
            ("assets", self.assets.len()),
            ("samples", self.samples.len()),
        ] {
            if count > MOST {
                faults.push(format!("{what}: {count} are too many, {MOST} at most"));
            }
        }
        let mut used = BTreeSet::new();
        for action in &self.actions {
            action.faults(self, &mut faults);
            used.extend(action.template.as_deref());
        }
        for id in self.templates.keys() {
            named("templates: id", id, &mut faults);
            if !used.contains(id.as_str()) {
                faults.push(format!(
                    "template {id:?}: no action uses it; name it in an action, or take it out"
                ));
            }
        }
        for (name, asset) in &self.assets {
            named("assets: name", name, &mut faults);
            if asset.sha256.len() != 64 || !asset.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                faults.push(format!("asset {name:?}: sha256 has 64 hexadecimal digits"));
            }
        }
        faults
    }
}

impl Action {
    fn faults(&self, of: &Definition, faults: &mut Vec<String>) {
        let order = self.order;
        if order < 1 {
            faults.push(format!("action {order}: an order is 1 or more"));
        }
        if of.actions.iter().filter(|other| other.order == order).count() > 1 {
            let said =
                format!("action {order}: two actions have this order; give each its own, or none to any");
            if !faults.contains(&said) {
                faults.push(said);
            }
        }
        let kinds = ["email_template", "email_raw", "happyfox_template"];
        if !kinds.contains(&self.kind.as_str()) {
            let known: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            faults.push(format!(
                "action {order}: unknown type {:?}; {}",
                self.kind,
                nearest(&self.kind, &known)
            ));
        }
        match &self.template {
            None if self.kind.ends_with("_template") => {
                faults.push(format!("action {order}: {} needs a template", self.kind));
            }
            Some(id) if !of.templates.contains_key(id) => {
                let known: Vec<String> = of.templates.keys().cloned().collect();
                let hint = if known.is_empty() {
                    "the file has no templates".to_owned()
                } else {
                    nearest(id, &known)
                };
                faults.push(format!(
                    "action {order}: template {id:?} is not in the file ({hint}); a version has all its templates"
                ));
            }
            Some(_) | None => {}
        }
        if self.kind.starts_with("email_") && self.destination.trim().is_empty() {
            faults.push(format!("action {order}: a mail needs a destination"));
        }
    }
}

impl File {
    fn definition(self) -> Result<Definition, Faults> {
        let mut faults = Vec::new();
        let actions = (1_i32..).zip(self.actions).map(|(place, action)| Action {
            order: action.order.unwrap_or(place),
            kind: action.kind,
            template: action.template,
            destination: action.destination.unwrap_or_default(),
            subject: action.subject,
            category: action.category,
        });
        let mut actions: Vec<Action> = actions.collect();
        actions.sort_by_key(|action| action.order);
        let mut templates = BTreeMap::new();
        for FileTemplate { id, subject, body_text, body_html } in self.templates {
            let twice = templates.insert(id.clone(), Template { subject, body_text, body_html }).is_some();
            if twice {
                faults.push(format!("template {id:?}: the file has it twice"));
            }
        }
        let mut assets = BTreeMap::new();
        for FileAsset { name, sha256 } in self.assets {
            let twice = assets.insert(name.clone(), Asset { sha256: sha256.to_ascii_lowercase() }).is_some();
            if twice {
                faults.push(format!("asset {name:?}: the file has it twice"));
            }
        }
        let mut names = BTreeSet::new();
        for sample in &self.samples {
            if !names.insert(&sample.name) {
                faults.push(format!("sample {:?}: the file has it twice", sample.name));
            }
        }
        let definition =
            Definition { id: self.id, name: self.name, actions, templates, assets, samples: self.samples };
        faults.extend(definition.faults());
        if faults.is_empty() { Ok(definition) } else { Err(Faults(faults)) }
    }
}

fn named(what: &str, id: &str, faults: &mut Vec<String>) {
    if id.trim() != id || id.is_empty() || id.len() > ID || id.chars().any(char::is_control) {
        faults.push(format!(
            "{what} {id:?}: 1 to {ID} bytes are needed, without control characters and outer blanks"
        ));
    }
}

/// The parser's word, with its place and the name that was probably meant.
fn said(error: &serde_saphyr::Error) -> String {
    let error = error.without_snippet();
    let place = error
        .location()
        .map(|at| format!("line {}, column {}: ", at.line(), at.column()))
        .unwrap_or_default();
    if let serde_saphyr::Error::SerdeUnknownField { field, expected, .. } = error {
        let known: Vec<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        return format!("{place}unknown key `{field}`, {}", nearest(field, &known));
    }
    let text = error.to_string();
    format!("{place}{}", text.lines().next().unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const CONTACT: &str = r#"
id: contact
name: Contact us
templates:
  - id: contact-mail
    subject: "From {{ fields.name }}"
    body_text: "{{ fields.message }}"
    body_html: "<p>{{ fields.message }}</p>"
actions:
  - {type: email_template, template: contact-mail, destination: "a@example.org, b@example.org"}
  - {type: email_raw, destination: c@example.org, order: 5}
assets:
  - {name: logo.png, sha256: ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB}
samples:
  - {name: plain, fields: {name: Zoë, message: Hello}}
"#;

    /// A form with two actions, a template, a file and a sample.
    pub(crate) fn contact() -> Definition {
        Definition::from_yaml(CONTACT).expect("valid")
    }

    fn faults(text: &str) -> Vec<String> {
        Definition::from_yaml(text).expect_err(text).0
    }

    #[test]
    fn a_file_is_read_with_orders_of_place_where_it_gives_none() {
        let contact = contact();
        assert_eq!(contact.actions.iter().map(|action| action.order).collect::<Vec<_>>(), [1, 5]);
        assert_eq!(contact.assets["logo.png"].sha256, "ab".repeat(32), "digits are of one case");
        assert_eq!(contact.samples[0].fields["name"], "Zoë");
    }

    #[test]
    fn what_a_parser_refuses_is_said_with_its_place() {
        for (text, expected) in [
            ("id: [", "line 1"),
            ("- a\n- b\n", "line 1"),
            (
                "id: a\nname: A\nacttions: []\n",
                "line 3, column 1: unknown key `acttions`, did you mean `actions`?",
            ),
            (
                "id: a\nname: A\nactions:\n  - {type: email_raw, destinaton: a@b}\n",
                "did you mean `destination`?",
            ),
            ("id: a\nname: A\nid: b\n", "line 3"),
            ("id: a\n---\nid: b\n", ""),
            ("", ""),
        ] {
            let faults = faults(text);
            assert_eq!(faults.len(), 1, "{text:?}: {faults:?}");
            assert!(faults[0].contains(expected) && !faults[0].contains('\n'), "{text:?}: {faults:?}");
        }
    }

    #[test]
    fn aliases_that_explode_and_nesting_without_end_are_refused_at_once() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            let nine = [before.as_str(); 9].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{nine}]\n"));
        }
        let deep = format!("id: {}{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = format!("id: a\nname: \"{}\"\n", "x".repeat(FILE));
        for text in [bomb, deep, long] {
            assert_eq!(faults(&text).len(), 1);
        }
    }

    #[test]
    fn every_fault_of_the_whole_is_told_at_once() {
        let text = "id: a\nname: A\ntemplates:\n  - {id: t}\n  - {id: t}\n  - {id: idle}\nactions:\n  - {type: email_template, order: 1}\n  \
                    - {type: email_tempalte, template: tt, order: 1}\n  - {type: email_raw, order: 0}\n\
                    assets: [{name: a, sha256: xyz}]\nsamples: [{name: s}, {name: s}]\n";
        let all = faults(text).join("\n");
        for expected in [
            "template \"t\": the file has it twice",
            "template \"idle\": no action uses it",
            "action 1: two actions have this order",
            "action 1: email_template needs a template",
            "did you mean `email_template`?",
            "template \"tt\" is not in the file (did you mean `t`?)",
            "action 0: an order is 1 or more",
            "action 0: a mail needs a destination",
            "asset \"a\": sha256 has 64 hexadecimal digits",
            "sample \"s\": the file has it twice",
        ] {
            assert!(all.contains(expected), "{expected}:\n{all}");
        }
    }

    #[test]
    fn nobody_is_named_by_debug() {
        let shown = format!("{:?}", contact());
        assert!(!shown.contains("example.org") && !shown.contains("Zoë"), "{shown}");
    }
}
