//! One version of a form: its facts, what it changes, what was said of it, what was done with it. Pure.

use askama::Template;
use jiff::Timestamp;

use super::filters::{self, Choice};
use super::forms::{self, Follows, Move, Overtaken, Place, Possible, shell, version_path};
use super::frame::Frame;
use super::{assets, plain, version, when};

/// The page at `/forms/FORM/NUMBER`; with `overtaken`, the answer 409; with a problem, 422.
#[derive(Debug, Clone, Template)]
#[template(path = "version.html")]
pub struct VersionPage {
    /// Its surroundings.
    pub frame: Frame,
    /// The form's id.
    pub form: String,
    /// The version.
    pub facts: VersionFacts,
    /// What the form follows; absent: whatever its loader writes.
    pub follows: Option<Follows>,
    /// What can be done, and by whom.
    pub possible: Possible,
    /// The form that promotes it, for whoever may.
    pub promote: Option<Move>,
    /// Another's change that came first.
    pub overtaken: Option<Overtaken>,
    /// Its actions, and what it changes.
    pub content: Content,
    /// Versions that it can be compared with.
    pub bases: Vec<Choice>,
    /// The one that it is compared with; absent: with nothing.
    pub base: Option<u32>,
    /// Whoever has signed it.
    pub signed: Vec<SignedLine>,
    /// What was said of it, the latest first.
    pub said: Vec<SaidLine>,
    /// What was done with it, the latest first.
    pub history: Vec<MovedLine>,
}

/// A version's facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionFacts {
    /// Its number.
    pub number: u32,
    /// The form's name in it.
    pub name: Option<String>,
    /// Its state, as in the database.
    pub state: String,
    /// Whether the form follows it.
    pub place: Place,
    /// Its digest.
    pub digest: String,
    /// Where it comes from: `yaml`, `adopted`.
    pub source: String,
    /// Whoever loaded it.
    pub author: String,
    /// When.
    pub loaded_at: Timestamp,
    /// When it was published.
    pub published_at: Option<Timestamp>,
    /// When it was taken out of use.
    pub tombstoned_at: Option<Timestamp>,
    /// Until when it can be restored.
    pub deadline: Option<Timestamp>,
}

/// What a version has in it.
#[derive(Debug, Clone)]
pub enum Content {
    /// Read.
    Read(Box<Inside>),
    /// It cannot be read; why.
    Unreadable(String),
}

/// A version's content.
#[derive(Debug, Clone)]
pub struct Inside {
    /// Its actions, in their order.
    pub actions: Vec<ActionLine>,
    /// Whether destinations are shown; else a link asks for them, and says that it is recorded.
    pub shown: bool,
    /// Whether the reader may ask for destinations.
    pub may_show: bool,
    /// What it changes.
    pub changes: Changes,
}

/// One action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionLine {
    /// Its order.
    pub order: i32,
    /// `email_template`, `happyfox_template`, …
    pub kind: String,
    /// To whom: destinations where they are shown, else their domains.
    pub to: Vec<String>,
    /// Its template.
    pub template: Option<String>,
    /// A subject of its own.
    pub subject: Option<String>,
    /// The help desk's category.
    pub category: Option<String>,
}

/// What a version changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The form's name, before and after.
    pub name: Option<(String, String)>,
    /// Parts of actions.
    pub actions: Vec<PartChange>,
    /// Texts of templates.
    pub texts: Vec<TextChange>,
    /// Files.
    pub files: Vec<FileChange>,
    /// Mails and tickets of samples.
    pub mails: Vec<MailChange>,
    /// Other forms that a changed template is shared with.
    pub shared: Vec<SharedForm>,
    /// Texts that are left out, because there are too many for a page.
    pub left_out: u64,
}

/// One part of an action, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartChange {
    /// The action's order.
    pub order: i32,
    /// `type`, `template`, `destination`, …
    pub part: String,
    /// Before.
    pub before: Option<String>,
    /// After.
    pub after: Option<String>,
}

/// One text of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextChange {
    /// The template.
    pub template: String,
    /// `subject`, `plain text`, `HTML`.
    pub part: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One text of a mail or ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailChange {
    /// The action's order.
    pub order: i32,
    /// The sample.
    pub sample: String,
    /// `subject`, `plain text`, `HTML`.
    pub part: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Its name.
    pub name: String,
    /// First digits of its SHA-256 before.
    pub before: Option<String>,
    /// After.
    pub after: Option<String>,
}

/// Another form with the same template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedForm {
    /// The template.
    pub template: String,
    /// The form.
    pub form: String,
    /// Whether that one follows a version as well.
    pub managed: bool,
}

/// One line of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Whose it is.
    pub of: Of,
    /// The line.
    pub text: String,
}

/// Whose a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// It goes.
    Before,
    /// It comes.
    After,
    /// It stays.
    Both,
    /// Lines that stay are left out here.
    Gap,
}

/// A signature of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedLine {
    /// When it was brought.
    pub at: Timestamp,
    /// Whose it is; absent: it counts for nothing.
    pub signer: Option<String>,
    /// Why it counts for nothing.
    pub void: Option<String>,
    /// The key's fingerprint.
    pub key: String,
}

/// What was said of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidLine {
    /// When.
    pub at: Timestamp,
    /// Whoever asked, as recorded.
    pub who: String,
    /// The command that was judged.
    pub command: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// First digits of the policy's digest; absent where it was away.
    pub policy: Option<String>,
    /// Why not.
    pub reasons: Vec<String>,
}

/// One record of a version's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedLine {
    /// When.
    pub at: Timestamp,
    /// Who, as recorded.
    pub who: String,
    /// The command.
    pub command: String,
    /// The state before, where it was another.
    pub from: Option<String>,
    /// The state after.
    pub to: String,
    /// Why.
    pub reason: Option<String>,
}

impl ActionLine {
    /// What is said where it has no destination.
    fn nobody(&self) -> &'static str {
        if self.kind.starts_with("happyfox") { "the help desk" } else { "nobody" }
    }
}

impl Changes {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { name, actions, texts, files, mails, shared: _, left_out } = self;
        name.is_none()
            && actions.is_empty()
            && texts.is_empty()
            && files.is_empty()
            && mails.is_empty()
            && *left_out == 0
    }
}

impl VersionFacts {
    fn is_current(&self) -> bool {
        self.place == Place::Current
    }

    fn is_previous(&self) -> bool {
        self.place == Place::Previous
    }
}

impl VersionPage {
    fn title(&self) -> String {
        format!("Version {} of a form", self.facts.number)
    }

    fn section(&self) -> &'static str {
        "forms"
    }

    fn command(&self) -> String {
        let (form, number) = (shell(&self.form), self.facts.number);
        match self.base {
            Some(base) => format!("maple-router forms diff {form}@{number} --from {form}@{base}"),
            None => format!("maple-router forms show {form}@{number}"),
        }
    }

    fn is_after_previous(&self) -> bool {
        self.facts.is_current() && self.base.is_some()
    }

    /// Where the form is, if it is still offered after somebody was first.
    fn anchor(&self) -> &'static str {
        self.promote.as_ref().map_or("", Move::key)
    }

    fn source(&self) -> &str {
        match self.facts.source.as_str() {
            "yaml" => "a file",
            "adopted" => "what the tables had",
            other => other,
        }
    }

    /// The choice of nothing, where it is compared with nothing.
    fn nothing(&self) -> &'static str {
        if self.base.is_none() { "nothing" } else { "" }
    }

    fn chosen(&self) -> Option<String> {
        self.base.map(|number| number.to_string())
    }

    fn show_path(&self) -> String {
        let path = version_path(&self.form, &self.facts.number);
        let from = self.base.map(|number| format!("from={number}&")).unwrap_or_default();
        format!("{path}?{from}show=recipients#actions")
    }
}
