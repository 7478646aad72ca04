//! The plan: a form's ordered actions as they were at the first claim, pinned in the ledger.
//!
//! Invariant: nothing here does I/O. A YAML reload never changes a plan that is pinned (protocol, "plan").

use serde::{Deserialize, Serialize};

/// What an action does; the database's enum `action_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionType {
    /// A help-desk ticket; recognised, not implemented yet.
    HappyfoxTemplate,
    /// A mail from a template.
    EmailTemplate,
    /// A mail that lists the submission's fields.
    EmailRaw,
}

impl ActionType {
    /// Every action type, in the database's order.
    pub const ALL: [Self; 3] = [Self::HappyfoxTemplate, Self::EmailTemplate, Self::EmailRaw];

    /// The database's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::HappyfoxTemplate => "happyfox_template",
            Self::EmailTemplate => "email_template",
            Self::EmailRaw => "email_raw",
        }
    }

    /// Whether it is carried out by e-mail.
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
    /// Place in the form's order; stable across YAML reloads, unlike the row's id.
    pub action_order: i32,
    /// What it does.
    pub action_type: ActionType,
    /// Template it names, if any.
    #[serde(default)]
    pub template_id: Option<String>,
    /// That template's texts; absent where the action names none, or where the template row was missing.
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
