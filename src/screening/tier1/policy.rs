//! What a form decides about its fields' screening.

use serde::{Deserialize, Serialize};

/// Policy of the profile `fields`, of one form. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FieldsPolicy {
    /// Domains that others imitate: `example.org`. A link to one of them is harmless.
    pub protected_domains: Vec<String>,
    /// Domains that look like a protected one, and are known: `example.com`.
    pub known_domains: Vec<String>,
    /// Fields that a person does not see, and leaves empty.
    pub honeypot_fields: Vec<String>,
    /// The same content more often than this in an hour blocks.
    pub same_digest_per_hour: u32,
    /// Links from which their number is noted.
    pub links_noted: u32,
    /// Links from which a text of little else blocks.
    pub links_flood: u32,
    /// Links in markup (HTML or BBCode) from which a text blocks; fewer are reviewed.
    pub markup_flood: u32,
}

impl Default for FieldsPolicy {
    fn default() -> Self {
        Self {
            protected_domains: Vec::new(),
            known_domains: Vec::new(),
            honeypot_fields: Vec::new(),
            same_digest_per_hour: 5,
            links_noted: 3,
            links_flood: 8,
            markup_flood: 3,
        }
    }
}
