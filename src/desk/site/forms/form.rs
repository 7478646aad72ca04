//! One form: its versions, and the way back.

use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use uuid::Uuid;

use super::told::Back;
use super::{absent, form_id, no_form, words};
use crate::db::DbError;
use crate::desk::access::{Role, Visitor};
use crate::desk::input::Path;
use crate::desk::pages::forms::{Ask, Follows, FormPage, Move, Overtaken, Place};
use crate::desk::problem::Problem;
use crate::desk::site::{Shared, Site, html};
use crate::forms::commands::Versions;
use crate::forms::store::{Current, VersionStore};
use crate::forms::table::Version;
use crate::kernel::rows::Row;

/// A form's versions, and the one that it follows.
pub(super) struct Look {
    /// The newest first.
    pub(super) versions: Vec<Row<Version>>,
    pub(super) current: Option<Current>,
}

impl Look {
    /// What there is of a form.
    ///
    /// # Errors
    /// [`DbError`].
    pub(super) async fn at(store: &VersionStore, form: &str) -> Result<Self, DbError> {
        let current = store.current(form).await?;
        let mut versions = store.of_form(form).await?;
        // A form with more versions than are listed may follow an old one.
        let named = current.as_ref().map(|current| [Some(current.version), current.previous]);
        for id in named.into_iter().flatten().flatten() {
            if !versions.iter().any(|row| row.id == id) {
                versions.extend(store.by_id(id).await?);
            }
        }
        Ok(Self { versions, current })
    }

    pub(super) fn number(&self, id: Uuid) -> Option<u32> {
        self.versions.iter().find(|row| row.id == id).map(|row| row.columns.number)
    }

    pub(super) fn follows(&self) -> Option<Follows> {
        let current = self.current.as_ref()?;
        let number = self.number(current.version)?;
        Some(Follows { number, since: current.moved_at, by: current.moved_by.clone() })
    }

    /// The number of the version before the current one.
    pub(super) fn previous(&self) -> Option<u32> {
        self.number(self.current.as_ref()?.previous?)
    }

    pub(super) fn place(&self, id: Uuid) -> Place {
        match &self.current {
            Some(current) if current.version == id => Place::Current,
            Some(current) if current.previous == Some(id) => Place::Previous,
            Some(_) | None => Place::Beside,
        }
    }

    /// The version that is seen as current, as forms send it back.
    pub(super) fn expected(&self) -> String {
        self.current.as_ref().map(|current| current.version.to_string()).unwrap_or_default()
    }

    /// What somebody saw as current instead, in a form that comes back.
    pub(super) fn overtaken(&self, ask: Ask, seen: Option<Uuid>, typed: &str) -> Overtaken {
        Overtaken { ask, seen: seen.and_then(|id| self.number(id)), typed: typed.to_owned() }
    }
}

pub(in crate::desk::site) async fn show(
    State(site): Shared,
    visitor: Visitor,
    Path(form): Path<String>,
) -> Result<Response, Problem> {
    let form = form_id(&form)?;
    let Some(versions) = site.versions_there().await? else {
        return Ok(absent(&site, &visitor).await?.into_response());
    };
    let shown: Html<String> = html(&page(&site, &visitor, &versions, form, None).await?)?;
    Ok(shown.into_response())
}

/// The page of a form, with what a refused way back gives back.
///
/// # Errors
/// [`Problem`]: there is no such form, or the database is away.
pub(super) async fn page(
    site: &Site,
    visitor: &Visitor,
    versions: &Versions,
    form: &str,
    back: Option<Back>,
) -> Result<FormPage, Problem> {
    let store = &versions.store;
    let look = Look::at(store, form).await?;
    let known = store.forms().await?.into_iter().find(|line| line.form_id == form);
    if known.is_none() && look.versions.is_empty() {
        return Err(no_form());
    }
    let name = known.and_then(|line| line.name).filter(|name| name != form);
    let is_admin = visitor.role == Role::Admin;
    let previous = look.previous();
    let offered = previous.zip(look.current.as_ref()).filter(|_| is_admin);
    let mut page = FormPage {
        frame: Site::frame(visitor, site.commands().store.time().await?),
        id: form.to_owned(),
        name,
        follows: look.follows(),
        possible: words::possible_with_form(form, look.current.is_some(), previous, is_admin),
        back: offered.map(|(number, current)| Move {
            ask: Ask::RollBack(number),
            expected: look.expected(),
            idempotency_key: site.key(),
            draft: current.version,
            reason: String::new(),
            error: None,
        }),
        overtaken: None,
        versions: look.versions.iter().map(|row| words::version_line(row, look.place(row.id))).collect(),
    };
    if let Some(back) = back {
        if let Some(seen) = back.overtaken {
            page.overtaken =
                Some(look.overtaken(Ask::RollBack(previous.unwrap_or_default()), seen, &back.typed));
        }
        page.frame.problems.extend(back.into_form(page.back.as_mut()));
    }
    Ok(page)
}
