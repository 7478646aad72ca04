//! The plan: a form's ordered actions as they were at the first claim, pinned in the ledger.
//!
//! Invariant: no I/O here. A YAML reload never changes a pinned plan (protocol, "plan").

use serde::{Deserialize, Serialize};

use crate::kernel::words;

words! {
    /// Type of an action; the database's enum `action_type`.
    ActionType {
        /// A help-desk ticket; not implemented where there is no `[happyfox]`.
        HappyfoxTemplate = "happyfox_template",
        /// A mail from a template.
        EmailTemplate = "email_template",
        /// A mail that lists the submission's fields.
        EmailRaw = "email_raw",
    }
}

impl ActionType {
    /// Whether the action is carried out by e-mail.
    #[must_use]
    pub fn is_email(self) -> bool {
        match self {
            Self::EmailTemplate | Self::EmailRaw => true,
            Self::HappyfoxTemplate => false,
        }
    }
}

/// The texts of a template, as pinned. Bodies are pinned only when `mail.body = "template"`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TemplateTexts {
    /// Subject template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Plain-text body template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_text: Option<String>,
    /// HTML body template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_html: Option<String>,
}

/// One pinned action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedAction {
    /// Order in the form; stable across YAML reloads, unlike the row's id.
    pub action_order: i32,
    /// Type of the action.
    pub action_type: ActionType,
    /// Id of the template, if any.
    #[serde(default)]
    pub template_id: Option<String>,
    /// Texts of that template; absent where the action names none, or where the template row was missing.
    #[serde(default)]
    pub template: Option<TemplateTexts>,
    /// Recipients as configured: comma or semicolon separated, display names allowed.
    pub destination: String,
    /// Subject template of the action itself.
    #[serde(default)]
    pub subject_template: Option<String>,
    /// Help-desk category.
    #[serde(default)]
    pub happyfox_category: Option<String>,
}
