//! Forms: which version each follows, and the versions of one. Pure.

use askama::Template;
use jiff::Timestamp;
use url::form_urlencoded::byte_serialize;
use uuid::Uuid;

use super::frame::Frame;
use super::{assets, forms, plain, when};

/// The page at `/forms`.
#[derive(Debug, Clone, Template)]
#[template(path = "forms.html")]
pub struct FormsPage {
    /// Its surroundings.
    pub frame: Frame,
    /// Every form, by id; absent where the database has no versions of forms.
    pub forms: Option<Vec<FormLine>>,
}

/// A form, as a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormLine {
    /// Its id.
    pub id: String,
    /// Its name, where that says more.
    pub name: Option<String>,
    /// What it follows; absent: whatever its loader writes.
    pub follows: Option<Follows>,
    /// Drafts.
    pub drafts: u64,
    /// Published versions.
    pub published: u64,
}

/// The version that a form follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follows {
    /// Its number.
    pub number: u32,
    /// Since when.
    pub since: Timestamp,
    /// By whom, as recorded.
    pub by: String,
}

/// The page at `/forms/FORM`.
#[derive(Debug, Clone, Template)]
#[template(path = "form.html")]
pub struct FormPage {
    /// Its surroundings.
    pub frame: Frame,
    /// The form's id.
    pub id: String,
    /// Its name, where that says more.
    pub name: Option<String>,
    /// What it follows; absent: whatever its loader writes.
    pub follows: Option<Follows>,
    /// Its versions, the newest first.
    pub versions: Vec<VersionLine>,
    /// What can be done, and by whom.
    pub possible: Possible,
    /// The form that goes back, for whoever may.
    pub back: Option<Move>,
    /// Another's change that came first.
    pub overtaken: Option<Overtaken>,
}

/// A version, as a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionLine {
    /// Its number.
    pub number: u32,
    /// Its state, as in the database.
    pub state: String,
    /// The first digits of its digest.
    pub digest: String,
    /// Whoever loaded it.
    pub author: String,
    /// When.
    pub loaded_at: Timestamp,
    /// Whether the form follows it.
    pub place: Place,
}

/// Where a version stands with its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The form follows it.
    Current,
    /// The form followed it before.
    Previous,
    /// Neither.
    Beside,
}

/// What can be done with a form or a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Possible {
    /// In a sentence or two.
    pub text: String,
    /// The commands of the host that do it.
    pub commands: Vec<String>,
}

/// A form that moves the pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// What it asks.
    pub ask: Ask,
    /// The version that its reader saw as current; empty where the form follows its loader.
    pub expected: String,
    /// Its idempotency key; one for each rendering, the same again after a failure.
    pub idempotency_key: String,
    /// The version that a draft of its text is kept with.
    pub draft: Uuid,
    /// What was typed as the reason.
    pub reason: String,
    /// What is wrong with it; shown at the field.
    pub error: Option<String>,
}

/// What a form that moves the pointer asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// That the form follows this version.
    Promote(u32),
    /// That it follows the version before its current one again, which is this.
    RollBack(u32),
}

/// Another's change that came first (409).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overtaken {
    /// What the reader asked.
    pub ask: Ask,
    /// The version that the reader saw as current; absent: the form followed its loader.
    pub seen: Option<u32>,
    /// What was typed, where the form is not offered any more.
    pub typed: String,
}

impl Ask {
    /// Id of the form in its page.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Promote(_) => "promote",
            Self::RollBack(_) => "rollback",
        }
    }

    /// The version that the form follows then.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Promote(number) | Self::RollBack(number) => number,
        }
    }

    fn is_back(self) -> bool {
        matches!(self, Self::RollBack(_))
    }
}

impl Move {
    /// Anchor of its field, without `#`.
    #[must_use]
    pub fn anchor(&self) -> String {
        format!("{}-reason", self.ask.key())
    }

    pub(super) fn key(&self) -> &'static str {
        self.ask.key()
    }

    pub(super) fn number(&self) -> u32 {
        self.ask.number()
    }

    pub(super) fn is_back(&self) -> bool {
        self.ask.is_back()
    }

    pub(super) fn action(&self, form: &str) -> String {
        match self.ask {
            Ask::Promote(number) => format!("{}/promote", version_path(form, &number)),
            Ask::RollBack(_) => format!("{}/rollback", form_path(form)),
        }
    }
}

impl Overtaken {
    pub(super) fn what(&self) -> String {
        match self.ask {
            Ask::Promote(number) => format!("Promote version {number}"),
            Ask::RollBack(_) => "Roll back".to_owned(),
        }
    }
}

impl FormsPage {
    fn title(&self) -> &'static str {
        "Forms"
    }

    fn section(&self) -> &'static str {
        "forms"
    }
}

impl FormPage {
    fn title(&self) -> &'static str {
        "Versions of a form"
    }

    fn section(&self) -> &'static str {
        "forms"
    }

    /// Where the form is, if it is still offered after somebody was first.
    fn anchor(&self) -> &'static str {
        self.back.as_ref().map_or("", Move::key)
    }

    fn command(&self) -> String {
        format!("maple-router forms list {}", shell(&self.id))
    }
}

impl VersionLine {
    fn is_current(&self) -> bool {
        self.place == Place::Current
    }

    fn is_previous(&self) -> bool {
        self.place == Place::Previous
    }
}

/// The path of a form's page.
#[must_use]
pub fn form_path(form: &str) -> String {
    // Blanks are `+` in a query alone; a plus of the id is written `%2B` by then.
    let id: String = byte_serialize(form.as_bytes()).collect();
    format!("/forms/{}", id.replace('+', "%20"))
}

/// The path of a version's page.
#[must_use]
pub fn version_path(form: &str, number: &u32) -> String {
    format!("{}/{number}", form_path(form))
}

/// An id as it can be copied into a shell; a placeholder for one that would need quotes.
#[must_use]
pub fn shell(form: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !form.starts_with('-') && !form.is_empty() && form.bytes().all(is_plain) { form } else { "FORM" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_id_and_nothing_that_it_could_mean() {
        for (id, path) in [
            ("contact", "/forms/contact"),
            ("a b+c", "/forms/a%20b%2Bc"),
            ("a/../b?c#d", "/forms/a%2F..%2Fb%3Fc%23d"),
            ("é\"<", "/forms/%C3%A9%22%3C"),
        ] {
            assert_eq!(form_path(id), path);
        }
        assert_eq!(version_path("a b", &3), "/forms/a%20b/3");
    }

    #[test]
    fn what_can_be_copied_into_a_shell_runs_nothing_else() {
        assert_eq!(shell("contact-2.b_c"), "contact-2.b_c");
        for id in ["", "-x", "a b", "a;b", "$(a)", "a\nb", "é"] {
            assert_eq!(shell(id), "FORM", "{id}");
        }
    }
}
