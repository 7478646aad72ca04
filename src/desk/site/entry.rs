//! One entry: its facts, what may be done, what was done, and the whole story of what it is about.

use axum::Extension;
use axum::extract::State;
use axum::response::Html;
use serde::Deserialize;
use uuid::Uuid;

use super::actions::Offer;
use super::flash::{Done, flash};
use super::queue::Asked;
use super::{Shared, Site, entry_id, html, letter, queue, recipients, run, story, words, work};
use crate::desk::access::Visitor;
use crate::desk::access::credential::DeskKey;
use crate::desk::decide::person;
use crate::desk::input::{Path, Query};
use crate::desk::pages::decision::{Action, Command, Conflict, Field, FieldError, Typed};
use crate::desk::pages::entry::{EntryPage, Evidence, SubjectView};
use crate::desk::pages::frame::Problem as Told;
use crate::desk::problem::Problem;
use crate::grey_queue::entry::Entry;
use crate::queries::review::{self, EvidencePart};

/// What a URL asks to see.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    show: Option<String>,
    #[serde(default)]
    mail: Option<u32>,
    #[serde(default)]
    done: Option<String>,
    /// The query of the list that the reader works through.
    #[serde(default)]
    list: String,
}

impl Wanted {
    /// The page after a form that came from this list.
    pub(super) fn of_list(list: &str) -> Self {
        Self { list: list.to_owned(), ..Self::default() }
    }

    fn shows(&self, what: &str) -> bool {
        self.show.as_deref() == Some(what)
    }
}

/// What a refused form gives back.
#[derive(Debug)]
pub(super) struct Back {
    /// The form, by its key.
    pub(super) form: Done,
    /// Its command.
    pub(super) command: Command,
    pub(super) typed: Typed,
    /// What is wrong, in a sentence.
    pub(super) problem: String,
    /// The field that it is wrong with.
    pub(super) field: Option<Field>,
    /// The version that was seen, where another's change came first.
    pub(super) overtaken: Option<i64>,
    /// The form's idempotency key, where it can be sent again under it.
    pub(super) key: Option<String>,
}

pub(super) async fn show(
    State(site): Shared,
    Extension(secret): Extension<DeskKey>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Html<String>, Problem> {
    html(&page(&site, &secret, &visitor, entry_id(&id)?, (&wanted, None)).await?)
}

/// The page of an entry, with what a refused form gives back.
pub(super) async fn page(
    site: &Site,
    secret: &DeskKey,
    visitor: &Visitor,
    id: Uuid,
    (wanted, back): (&Wanted, Option<Back>),
) -> Result<EntryPage, Problem> {
    let (commands, person) = (site.commands(), person(visitor));
    let found = review::page(commands, id, &person).await?;
    let found = found.ok_or_else(|| Problem::not_found("entry of this id"))?;
    let (entry, history) = (&found.view.entry, &found.history);
    let about = subject(site, secret, visitor, (entry, wanted)).await?;
    let offer = Offer {
        entry,
        possible: &found.transitions,
        remedies: commands.remedies(entry),
        recipients: match &about {
            SubjectView::Submission(story) => recipients::choices(story),
            SubjectView::Letter(_)
            | SubjectView::Run(_)
            | SubjectView::Assessment(_)
            | SubjectView::Away(_) => Vec::new(),
        },
        proved: found.view.evidence.sufficient,
        visitor,
        users: &site.users.all(),
    };
    let next = queue::next_of(site, visitor, Some(id), &wanted.list).await?;
    let done = wanted.done.as_deref().and_then(Done::parse);
    let form_name = match &about {
        SubjectView::Submission(story) => story.form_name.clone(),
        SubjectView::Letter(_) | SubjectView::Run(_) | SubjectView::Assessment(_) | SubjectView::Away(_) => {
            None
        }
    };
    let mut others = commands.store.about(entry.subject.id).await?;
    others.retain(|other| visitor.only_queue().is_none_or(|queue| other.queue == queue));
    let mut page = EntryPage {
        frame: Site::frame(visitor, commands.store.time().await?),
        entry: words::facts(entry, form_name, site.config().grey_queue.max_attempts),
        evidence: evidence(&found.view.evidence),
        actions: offer.actions(|| site.key()),
        not_now: offer.not_now(),
        conflict: None,
        history: words::history(history),
        subject: about,
        others: others.iter().filter(|other| other.id != id).map(words::line).collect(),
        watching: site.looking.look(id, &visitor.user),
        next,
    };
    page.frame.list = Asked::of(&wanted.list, &visitor.user).shown;
    page.frame.flash = flash(done, id, history, &person.label, next);
    if let Some(back) = back {
        give_back(&mut page, back);
    }
    Ok(page)
}

fn evidence(part: &EvidencePart) -> Evidence {
    Evidence { sufficient: part.sufficient, missing: part.missing.clone() }
}

async fn subject(
    site: &Site,
    secret: &DeskKey,
    visitor: &Visitor,
    (entry, wanted): (&Entry, &Wanted),
) -> Result<SubjectView, Problem> {
    let id = entry.subject.id;
    if work::is_work(entry) && !work::may_see(visitor) {
        return Ok(work::closed());
    }
    let away = || {
        SubjectView::Away(format!(
            "There is no {} {id} any more, or it cannot be read here.",
            entry.subject.kind.replace('_', " ")
        ))
    };
    Ok(match entry.subject.kind.as_str() {
        "submission" => story::of(site, secret, visitor, id, (wanted.shows("recipients"), wanted.mail))
            .await?
            .map_or_else(away, |story| SubjectView::Submission(Box::new(story))),
        "dead_letter" => letter::of(site, visitor, id, wanted.shows("payload"))
            .await?
            .map_or_else(away, |letter| SubjectView::Letter(Box::new(letter))),
        "screening_run" | "screening_job" => {
            run::of(site, id).await?.map_or_else(away, |run| SubjectView::Run(Box::new(run)))
        }
        _ if work::is_work(entry) => work::of(site, visitor, entry)
            .await?
            .map_or_else(away, |view| SubjectView::Assessment(Box::new(view))),
        _ => away(),
    })
}

/// What was typed is in its form again; where that is not offered any more, it is shown.
fn give_back(page: &mut EntryPage, back: Back) {
    let Back { form, command, typed, problem, field, overtaken, key } = back;
    let mut anchor = None;
    if let Some(action) = page.actions.iter_mut().find(|action| action.key() == form.label()) {
        action.typed = typed.clone();
        action.error = field.map(|field| FieldError { field, text: problem.clone() });
        if let Some(key) = key {
            action.idempotency_key = key;
        }
        anchor = field.map(|field| Action::anchor(action, field));
    }
    match overtaken {
        Some(seen_version) => {
            let changes = page.history.iter().filter(|line| line.version > seen_version).cloned().collect();
            page.conflict = Some(Conflict { command, seen_version, changes, typed });
        }
        None => {
            page.frame.problems.push(Told { text: problem, field: anchor });
            let is_offered = page.actions.iter().any(|action| action.key() == form.label());
            if !is_offered && !typed.reason.is_empty() {
                let text = format!("What you typed, to copy: {}", typed.reason);
                page.frame.problems.push(Told { text, field: None });
            }
        }
    }
}
