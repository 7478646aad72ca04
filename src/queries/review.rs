//! The review queue as command line, API and page show it: entries with their evidence, in the same words.
//!
//! Reads only; a command is [`Commands`]' own.

use serde::Serialize;

use crate::db::DbError;
use crate::grey_queue::commands::Commands;
use crate::grey_queue::decide::{Person, Possible};
use crate::grey_queue::entry::{Entry, Moved};
use crate::kernel::subject::Looked;

/// Whether an entry could be resolved now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct EvidencePart {
    /// Nothing is left to do.
    pub(crate) sufficient: bool,
    /// What is missing, one sentence each.
    pub(crate) missing: Vec<String>,
}

/// Where more is to be found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LinksPart {
    /// The entry in the API.
    #[serde(rename = "self")]
    pub(crate) own: String,
    /// The entry's page.
    pub(crate) page: String,
    /// The command that explains its subject.
    pub(crate) explain: String,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct EntryView {
    #[serde(flatten)]
    pub(crate) entry: Entry,
    /// What it is, in a sentence.
    pub(crate) headline: String,
    pub(crate) evidence: EvidencePart,
    pub(crate) links: LinksPart,
}

/// One entry with everything about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct EntryPage {
    #[serde(flatten)]
    pub(crate) view: EntryView,
    pub(crate) transitions: Vec<Possible>,
    pub(crate) history: Vec<Moved>,
}

/// One entry of a list: its subject is not looked at, so nothing is said of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct EntryItem {
    #[serde(flatten)]
    pub(crate) entry: Entry,
    /// What it is, in a sentence.
    pub(crate) headline: String,
    pub(crate) links: LinksPart,
}

impl EvidencePart {
    pub(crate) fn of(looked: Option<&Looked>) -> Self {
        match looked {
            Some(Looked::Sufficient(_)) => Self { sufficient: true, missing: Vec::new() },
            Some(Looked::Missing { what, .. }) => Self { sufficient: false, missing: what.clone() },
            Some(Looked::Gone) => {
                Self { sufficient: false, missing: vec!["retention has emptied its subject".to_owned()] }
            }
            None => {
                Self { sufficient: false, missing: vec!["its subject cannot be looked at here".to_owned()] }
            }
        }
    }
}

impl EntryView {
    pub(crate) fn of(entry: Entry, looked: Option<&Looked>) -> Self {
        let (headline, links) = (headline(&entry), LinksPart::of(&entry));
        Self { headline, evidence: EvidencePart::of(looked), links, entry }
    }
}

impl EntryItem {
    pub(crate) fn of(entry: Entry) -> Self {
        Self { headline: headline(&entry), links: LinksPart::of(&entry), entry }
    }
}

impl LinksPart {
    fn of(entry: &Entry) -> Self {
        let (id, subject) = (entry.id, &entry.subject);
        Self {
            own: format!("/api/grey-queue/{id}"),
            page: format!("/entries/{id}"),
            explain: match subject.kind.as_str() {
                "dead_letter" => format!("maple-router dlq show {}", subject.id),
                _ => format!("maple-router explain {}", subject.id),
            },
        }
    }
}

/// An entry with its evidence; `None` where there is none.
pub(crate) async fn view(
    commands: &Commands,
    id: uuid::Uuid,
) -> Result<Option<(EntryView, Option<Looked>)>, DbError> {
    let Some(entry) = commands.store.get(id).await? else { return Ok(None) };
    let looked = commands.look(&entry).await?;
    Ok(Some((EntryView::of(entry, looked.as_ref()), looked)))
}

/// Everything about an entry, judged for `person`; `None` where there is none.
pub(crate) async fn page(
    commands: &Commands,
    id: uuid::Uuid,
    person: &Person,
) -> Result<Option<EntryPage>, DbError> {
    let Some((view, looked)) = view(commands, id).await? else { return Ok(None) };
    let transitions = commands.possible(&view.entry, person, looked.as_ref()).await?;
    let history = commands.store.history(id).await?;
    Ok(Some(EntryPage { view, transitions, history }))
}

/// What an entry is, in a sentence that needs no manual.
pub(crate) fn headline(entry: &Entry) -> String {
    let what = match (entry.cause.as_str(), entry.reason.as_str()) {
        ("failed", "refused") => "A recipient was refused".to_owned(),
        ("failed", "exhausted") => "Every attempt to send has failed".to_owned(),
        ("failed", "in_doubt") => "A mail may or may not have been sent".to_owned(),
        ("failed", "no_actions") => "The form has no action to carry out".to_owned(),
        ("failed", "ledger_damaged") => "The submission's record cannot be read".to_owned(),
        ("failed", "unknown") => "A submission failed, and nobody said why".to_owned(),
        ("infected", _) => "An attachment is infected".to_owned(),
        ("late_infection", _) => "An infected file was mailed before anybody knew".to_owned(),
        ("bounced", "expired") => "A mail could not be delivered in time".to_owned(),
        ("bounced", _) => "A mail came back".to_owned(),
        ("dead_letter", "unreadable") => "An event that nobody can read".to_owned(),
        ("dead_letter", "unknown_submission") => "An event of a submission that does not exist".to_owned(),
        ("dead_letter", "notification") => "A notification could not be sent".to_owned(),
        ("screening", "unavailable") => "Screening had no verdict: a person decides".to_owned(),
        ("screening", _) => "Screening asks a person".to_owned(),
        ("screening_job", "content_changed") => "A submission is not what was screened".to_owned(),
        ("screening_job", "vendor_block") => "A rule blocks what a trusted origin brought".to_owned(),
        ("screening_job", _) => "A screening job was given up on".to_owned(),
        (cause, reason) => format!("{cause}: {reason}").replace('_', " "),
    };
    match entry.occurrences {
        ..=1 => what,
        n => format!("{what} ({n} times)"),
    }
}
