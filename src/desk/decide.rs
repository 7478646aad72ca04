//! A person's decision about one entry, as API and pages carry it out: one transaction with the answer that is kept for a
//! repeated request, so that the two cannot differ.
//!
//! If we die before the commit nothing happened, and a repetition carries it out; after it, a repetition with the same key is
//! given the answer again. A refused decision leaves nothing, its key included: it may be sent again after mending. Reasons
//! that people wrote are not logged.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::access::credential::KeyedDigest;
use super::access::{Users, Visitor};
use super::journal::EventName;
use super::problem::{Kind, Problem};
use super::store::idempotency::{keep, once};
use crate::db::DbError;
use crate::grey_queue::commands::{Answer, Commands, People};
use crate::grey_queue::decide::{Ask, Person, Refusal, Verb};
use crate::grey_queue::entry::Entry;
use crate::grey_queue::table::who;
use crate::journal;
use crate::kernel::Who;
use crate::queries::review::EntryView;
use crate::web::idempotency::{Kept, Key, Once};

impl People for Users {
    fn role_of(&self, name: &str) -> Option<Who> {
        self.named(name).map(|user| who(user.role))
    }
}

/// The person that a visitor is in decisions and records.
pub(crate) fn person(visitor: &Visitor) -> Person {
    let role = who(visitor.role);
    Person { name: visitor.user.clone(), role, label: format!("{role}:{}", visitor.user) }
}

/// A client's name for a request, and the digest that tells it from others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeat<'a> {
    /// The key.
    pub(crate) key: &'a Key,
    /// The digest of the request.
    pub(crate) request: &'a KeyedDigest,
}

/// A decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision<'a> {
    /// The entry.
    pub(crate) id: Uuid,
    /// Its version, as the person saw it.
    pub(crate) version: i64,
    /// What is asked.
    pub(crate) ask: &'a Ask,
    /// Who asks.
    pub(crate) by: &'a Person,
    /// What makes a second request a repetition.
    pub(crate) repeat: Option<Repeat<'a>>,
}

/// What became of a decision.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is done; `accepted` where a remedy is under way now.
    Done {
        /// The entry after it.
        view: Box<EntryView>,
        /// Evidence, or the failure of the remedy, ends it.
        accepted: bool,
    },
    /// It was done before: the answer that was given then.
    Repeated(Kept),
    /// The key belongs to another request.
    KeyMismatch,
    /// The entry is not what the person saw.
    Conflict(Conflict),
    /// It changes nothing.
    Refused(Refusal),
    /// There is no such entry.
    Unknown,
}

/// What the entry is instead of what the person saw.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The entry as it is now.
    pub(crate) entry: Box<Entry>,
    /// Who changed it last.
    pub(crate) by: String,
    /// When.
    pub(crate) at: Timestamp,
}

/// Carries a decision out.
///
/// # Errors
/// [`DbError`]: nothing was changed, unless it is [`DbError::CommitUnknown`].
pub(crate) async fn decide(commands: &Commands, decision: &Decision<'_>) -> Result<Outcome, DbError> {
    let Decision { id, version, ask, by, repeat } = *decision;
    let Some(seen) = commands.store.get(id).await? else { return Ok(Outcome::Unknown) };
    let looked = commands.look(&seen).await?;
    let answer = commands
        .store
        .pool()
        .transaction("desk_decide", async |tx| {
            if let Some(Repeat { key, request }) = repeat {
                match once(&tx, &by.name, key, request).await? {
                    Once::Kept(kept) => return Ok(Err(Outcome::Repeated(kept))),
                    Once::Mismatch => return Ok(Err(Outcome::KeyMismatch)),
                    Once::Fresh => {}
                }
            }
            let answer = commands.ask_in(&tx, (id, version), ask, by, looked.as_ref()).await?;
            if let (Answer::Done { entry, accepted }, Some(Repeat { key, request })) = (&answer, repeat) {
                let kept = kept(&EntryView::of((**entry).clone(), looked.as_ref()), *accepted)?;
                keep(&tx, &by.name, key, request, &kept).await?;
            }
            Ok(Ok(answer))
        })
        .await?;
    Ok(match answer {
        Err(outcome) => outcome,
        Ok(Answer::Done { entry, accepted }) => {
            recorded(by, ask.verb, &entry);
            Outcome::Done { view: Box::new(EntryView::of(*entry, looked.as_ref())), accepted }
        }
        Ok(Answer::Conflict(entry)) => Outcome::Conflict(conflict(commands, entry).await?),
        Ok(Answer::Refused { refusal, .. }) => Outcome::Refused(refusal),
        Ok(Answer::Unknown) => Outcome::Unknown,
    })
}

/// The answer of a decision that is done.
///
/// # Errors
/// [`DbError::Shape`]: never, as long as an entry can be a document.
pub(crate) fn kept(view: &EntryView, accepted: bool) -> Result<Kept, DbError> {
    let response: Value = serde_json::to_value(view).map_err(|error| DbError::Shape(error.to_string()))?;
    Ok(Kept { status: if accepted { 202 } else { 200 }, response })
}

/// Tells who changed an entry that is not what somebody saw.
pub(super) async fn conflict(commands: &Commands, entry: Box<Entry>) -> Result<Conflict, DbError> {
    let last = commands.store.history(entry.id).await?.pop();
    // A further occurrence raises the version without a line of history.
    let last = last.filter(|line| line.version >= entry.version);
    let (by, at) = last.map_or_else(|| ("system".to_owned(), entry.seen_at), |line| (line.by, line.at));
    Ok(Conflict { entry, by, at })
}

/// The journal's line of a decision that is committed.
pub(super) fn recorded(by: &Person, verb: Verb, entry: &Entry) {
    journal!(
        info,
        EventName::ReviewDecided,
        entry = %entry.id,
        submission_id = (entry.subject.kind == "submission").then_some(tracing::field::display(entry.subject.id)),
        command = verb.label(),
        actor = by.label,
        state = entry.state.label(),
        version = entry.version,
        "{} decided: {verb}; the entry is {}",
        by.label,
        entry.state
    );
}

impl Conflict {
    /// The problem of a version in the request's content.
    pub(crate) fn problem(&self) -> Problem {
        Problem::version_conflict(self.entry.state.label(), self.entry.version, &self.by, self.at)
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NotAllowed(why) => Self::new(
                Kind::Role,
                why.clone(),
                "Ask somebody who may; /transitions of the entry tells what you may do.",
            ),
            Refusal::NotPossible { legal, .. } => {
                let legal: Vec<&str> = legal.iter().map(|verb| verb.label()).collect();
                Self::not_possible(refusal.to_string(), &legal)
            }
            Refusal::Guard { field, why } => Self::guard(field, why.clone()),
            Refusal::EvidenceMissing(missing) => Self::evidence_missing(missing),
            Refusal::Remedy(why) => Self::guard("remedy", why.clone()),
            Refusal::OpenTwin(twin) => Self::open_twin(twin),
        }
    }
}
