//! The search for submissions, by id or by what they have in common.

use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse as _, Response};
use url::form_urlencoded;
use uuid::Uuid;

use super::{Shared, Site, words, written};
use crate::desk::access::Visitor;
use crate::desk::filters;
use crate::desk::pages::frame::Problem as Told;
use crate::desk::pages::plain;
use crate::desk::pages::queue::Choice;
use crate::desk::pages::submissions::{SubmissionFilters, SubmissionLine, SubmissionsPage};
use crate::desk::problem::Problem;
use crate::grey_queue::store::Filter;
use crate::queries::list::{self, Behind, Search};

/// Submissions of a page.
const PAGE: u32 = 50;
/// Least digits of an id that is looked for by its beginning.
const DIGITS: usize = 8;

pub(super) async fn submissions(
    State(site): Shared,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (filters, search) = asked(query.as_deref().unwrap_or_default());
    let (search, problem) = match search {
        Ok(search) => (search, None),
        Err(problem) => (Search { limit: PAGE, ..Search::default() }, Some(problem)),
    };
    let reader = site.reader()?;
    let found = list::search(&reader, &search).await?;
    let store = &site.commands().store;
    let ids: Vec<Uuid> = found.submissions.iter().map(|one| one.id).collect();
    let entries = if store.is_there().await? { store.open_about(&ids).await? } else { Default::default() };
    let mut frame = Site::frame(&visitor, store.time().await?);
    frame.problems = problem.clone().into_iter().collect();
    let page = SubmissionsPage {
        frame,
        is_first: search.behind.is_none(),
        filters,
        statuses: list::statuses().into_iter().map(labelled).collect(),
        forms: reader.view().forms().await?.iter().map(|form| words::choice(form, form)).collect(),
        reasons: list::reasons().into_iter().map(labelled).collect(),
        next_cursor: found.next.map(|next| next.to_string()),
        looked_back_to: found.looked_back_to,
        submissions: found
            .submissions
            .into_iter()
            .map(|one| SubmissionLine {
                id: one.id,
                form_id: one.form_id,
                status: one.status,
                reason: one.reason,
                attempts: one.attempts.unwrap_or_default(),
                created_at: one.created_at,
                updated_at: one.updated_at,
                entry: entries.get(&one.id).copied(),
            })
            .collect(),
    };
    let page = written(&page)?;
    Ok(match problem {
        Some(problem) => Problem::bad_request(problem.text).page(page),
        None => Html(page).into_response(),
    })
}

fn labelled(label: &'static str) -> Choice {
    words::choice(label, &plain::words(label))
}

/// The filters as they were typed, and what they mean.
fn asked(query: &str) -> (SubmissionFilters, Result<Search, Told>) {
    let (mut filters, mut cursor) = (SubmissionFilters::default(), None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty() && !value.contains('\0'));
        match &*name {
            "id" => filters.id = value,
            "status" => filters.status = value,
            "form" => filters.form = value,
            "reason" => filters.reason = value,
            "older_than" => filters.older_than = value,
            "cursor" => cursor = value,
            _ => {}
        }
    }
    let search = meant(&filters, cursor.as_deref());
    (filters, search)
}

fn meant(filters: &SubmissionFilters, cursor: Option<&str>) -> Result<Search, Told> {
    let wrong = |text: &str, field: &str| Told { text: text.to_owned(), field: Some(field.to_owned()) };
    let ids = match filters.id.as_deref().map(between) {
        Some(None) => {
            return Err(wrong(
                "An id has hexadecimal digits and hyphens: eight digits of it, or more.",
                "s-id",
            ));
        }
        Some(Some(ids)) => Some(ids),
        None => None,
    };
    let mut age = Filter::default();
    if let Some(text) = &filters.older_than {
        let set = filters::set(&mut age, "older_than", text, "");
        set.map_err(|problem| wrong(problem.detail(), "s-older"))?;
    }
    let behind = cursor
        .map(str::parse::<Behind>)
        .transpose()
        .map_err(|problem| Told { text: format!("The cursor is not understood: {problem}."), field: None })?;
    Ok(Search {
        ids,
        behind,
        status: filters.status.clone(),
        form: filters.form.clone(),
        reason: filters.reason.clone(),
        older_than: age.older_than,
        limit: PAGE,
    })
}

/// The first and the last id that begin with these digits.
fn between(text: &str) -> Option<(Uuid, Uuid)> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if !(DIGITS..=32).contains(&digits.len()) || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let filled = |with: &str| format!("{digits}{}", with.repeat(32 - digits.len())).parse().ok();
    Some((filled("0")?, filled("f")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_its_beginning() {
        let (first, last) = between("0123-4567-89").expect("digits");
        assert_eq!(first.to_string(), "01234567-8900-0000-0000-000000000000");
        assert_eq!(last.to_string(), "01234567-89ff-ffff-ffff-ffffffffffff");
        for wrong in ["0123456", "0123456g", "", "\u{661}\u{662}\u{663}\u{664}\u{665}\u{666}\u{667}\u{668}"] {
            assert_eq!(between(wrong), None, "{wrong}");
        }
        let (filters, search) = asked("id=x&status=failed&older_than=");
        assert_eq!((filters.id.as_deref(), filters.older_than), (Some("x"), None));
        assert_eq!(search.expect_err("no id").field.as_deref(), Some("s-id"));
    }
}
