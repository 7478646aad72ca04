//! One version: what it is, what it changes, what was said of it.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use uuid::Uuid;

use super::done::{Done, flash};
use super::form::Look;
use super::told::Back;
use super::{absent, form_id, inside, no_version, number, words};
use crate::desk::access::{Role, Visitor};
use crate::desk::decide::person;
use crate::desk::input::{Path, Query};
use crate::desk::pages::forms::{Ask, Move, Place};
use crate::desk::pages::version::VersionPage;
use crate::desk::problem::Problem;
use crate::desk::site::showing::{may_show, record};
use crate::desk::site::{Shared, Site, html};
use crate::desk::store::access_log::What;
use crate::forms::commands::Versions;
use crate::forms::table::{State as VersionState, Version};
use crate::kernel::rows::Row;

/// What a URL asks to see.
#[derive(Debug, Default, Deserialize)]
pub(in crate::desk::site) struct Wanted {
    #[serde(default)]
    from: String,
    #[serde(default)]
    show: Option<String>,
    #[serde(default)]
    done: Option<String>,
}

pub(in crate::desk::site) async fn show(
    State(site): Shared,
    visitor: Visitor,
    Path((form, of)): Path<(String, String)>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Problem> {
    let (form, of) = (form_id(&form)?, number(&of)?);
    let Some(versions) = site.versions_there().await? else {
        return Ok(absent(&site, &visitor).await?.into_response());
    };
    let row = versions.store.by_number(form, of).await?.ok_or_else(no_version)?;
    Ok(html(&page(&site, &visitor, &versions, &row, (&wanted, None)).await?)?.into_response())
}

/// The page of a version, with what a refused promotion gives back.
///
/// # Errors
/// [`Problem`]: also where addresses are asked for by somebody who may not see them, or that cannot be recorded.
pub(super) async fn page(
    site: &Site,
    visitor: &Visitor,
    versions: &Versions,
    row: &Row<Version>,
    (wanted, back): (&Wanted, Option<Back>),
) -> Result<VersionPage, Problem> {
    let shown = wanted.show.as_deref() == Some("recipients");
    if shown {
        record(site, visitor, row.id, What::Recipients).await?;
    }
    let (store, form) = (&versions.store, &row.columns.form_id);
    let look = Look::at(store, form).await?;
    let place = look.place(row.id);
    let base = base(&look, row, &wanted.from)?;
    let (name, content) = inside::content(versions, row, base, (shown, may_show(visitor))).await?;
    let history = store.history(row.id).await?;
    let now = site.commands().store.time().await?;
    let is_admin = visitor.role == Role::Admin;
    let others = look.versions.iter().filter(|other| other.id != row.id);
    let mut page = VersionPage {
        frame: Site::frame(visitor, now),
        form: form.clone(),
        facts: words::facts(row, place, name),
        follows: look.follows(),
        possible: words::possible(row, place, look.previous(), (is_admin, now)),
        promote: (is_admin && row.state == VersionState::Published && place != Place::Current).then(|| {
            Move {
                ask: Ask::Promote(row.columns.number),
                expected: look.expected(),
                idempotency_key: site.key(),
                draft: row.id,
                reason: String::new(),
                error: None,
            }
        }),
        overtaken: None,
        content,
        bases: others.map(|other| words::choice(other, look.place(other.id))).collect(),
        base: base.map(|base| base.columns.number),
        signed: versions.signatures(row).await?.into_iter().map(words::signed).collect(),
        said: store.decisions(row.id).await?.into_iter().map(words::said).collect(),
        history: Vec::new(),
    };
    let done = wanted.done.as_deref().and_then(Done::parse);
    page.frame.flash = flash(done, (row, place), &history, (&person(visitor).label, previous_id(&look)));
    page.history = history.into_iter().map(words::moved).collect();
    if let Some(back) = back {
        if let Some(seen) = back.overtaken {
            page.overtaken = Some(look.overtaken(Ask::Promote(row.columns.number), seen, &back.typed));
        }
        page.frame.problems.extend(back.into_form(page.promote.as_mut()));
    }
    Ok(page)
}

fn previous_id(look: &Look) -> Option<Uuid> {
    look.current.as_ref()?.previous
}

/// The version that another is compared with: the one that is asked for, else what the form follows; of that one itself, the one
/// before it.
fn base<'a>(look: &'a Look, row: &Row<Version>, from: &str) -> Result<Option<&'a Row<Version>>, Problem> {
    let found = |id: Uuid| look.versions.iter().find(|other| other.id == id);
    if from.is_empty() {
        let current = look.current.as_ref();
        let id = current.map(|current| current.version).filter(|id| *id != row.id);
        return Ok(id.or(current.and_then(|current| current.previous)).and_then(found));
    }
    let from = number(from)?;
    let base = look.versions.iter().find(|other| other.columns.number == from);
    base.map(Some).ok_or_else(no_version)
}
