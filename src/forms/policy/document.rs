//! The document that a policy judges: one version, complete, as plain values. Pure.
//!
//! Every key is always written, absent values as `null`: a policy that reads a key must be able to tell absent from misspelt.

use serde::Serialize;
use serde_json::{Map, Value};

/// Version of the document's shape: changes when a key goes or changes its meaning.
const SHAPE: u32 = 1;

/// What a policy sees as `input`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// What is asked for.
    pub command: Command,
    /// The form.
    pub form: Form,
    /// The version that is to become current, or be restored.
    pub version: Version,
    /// Whoever gives the command.
    pub actor: String,
    /// Actions, in their order.
    pub actions: Vec<Action>,
    /// All templates that the actions use.
    pub templates: Vec<Template>,
    /// Files of the version.
    pub assets: Vec<Asset>,
    /// Retention, uploads and whatever else the version sets, as it stands there.
    pub settings: Map<String, Value>,
    /// Samples that the templates were rendered on.
    pub samples: Vec<Sample>,
    /// What the router's configuration allows.
    pub limits: Limits,
    /// Differences from the current version; from nothing where there is none.
    pub changes: Changes,
    /// Templates of this version that other forms use, too.
    pub shared_templates: Vec<SharedTemplate>,
    /// Signatures that count.
    pub signatures: Vec<Signature>,
}

impl Document {
    /// The document as a policy is given it.
    #[must_use]
    pub fn value(&self) -> Value {
        #[derive(Serialize)]
        struct Whole<'a> {
            v: u32,
            #[serde(flatten)]
            document: &'a Document,
        }
        // Nothing in it can fail to be written; if it could, no policy that was proven allows null.
        serde_json::to_value(Whole { v: SHAPE, document: self }).unwrap_or(Value::Null)
    }
}

/// Command that needs a policy's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// A draft becomes immutable.
    Publish,
    /// A published version becomes the current one.
    Promote,
    /// A tombstoned version becomes a published one again.
    Restore,
}

/// A signature of this version, by a key of the list of signers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// Whose it is.
    pub signer: String,
    /// The key's fingerprint.
    pub key: String,
}

/// The form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Form {
    /// Its id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
}

/// A version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Its number, from 1.
    pub number: i64,
    /// SHA-256 of its content, in hexadecimal digits.
    pub digest: String,
    /// Where it was loaded from.
    pub source: String,
    /// Whoever loaded it.
    pub author: String,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Action {
    /// Its order in the form.
    pub action_order: i32,
    /// Its type.
    pub action_type: String,
    /// Id of its template, if any.
    pub template_id: Option<String>,
    /// Its recipients, without duplicates.
    pub destinations: Vec<Destination>,
    /// Help-desk category, if any.
    pub happyfox_category: Option<String>,
    /// Subject of its own, if any.
    pub subject_template: Option<String>,
}

/// A recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Destination {
    /// `local@domain`.
    pub address: String,
    /// Before the at sign, as written.
    pub local: String,
    /// After it, in lower case and ASCII.
    pub domain: String,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Template {
    /// Its id.
    pub id: String,
    /// Subject; may be empty, as the texts may.
    pub subject: String,
    /// Text of the plain part.
    pub body_text: String,
    /// Text of the HTML part.
    pub body_html: String,
    /// Orders of the actions that use it.
    pub used_by: Vec<i32>,
}

/// A file of the version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asset {
    /// Its name.
    pub name: String,
    /// Media type.
    pub content_type: String,
    /// Length in bytes.
    pub length: u64,
    /// The scanner's verdict; null while there is none.
    pub verdict: Option<String>,
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Its name.
    pub name: String,
}

/// What the router's configuration allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Domains that mail may go to; any where there is none.
    pub allowed_destination_domains: Vec<String>,
}

/// Differences from the current version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Numbers of actions.
    pub actions: Counts,
    /// Ids of templates that are new or read differently.
    pub templates: Vec<String>,
}

/// Numbers of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Orders that are new.
    pub added: u32,
    /// Orders that are gone.
    pub removed: u32,
    /// Orders that are in both, and differ.
    pub changed: u32,
}

/// A template that another form uses, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedTemplate {
    /// The template.
    pub template_id: String,
    /// The other form.
    pub form_id: String,
}
