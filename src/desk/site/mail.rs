//! The mails of a submission as they go to the relay, for reviewers and above who ask for one. The access log has it before it is
//! made, its working links as well.
//!
//! A mail's HTML has a URL of its own, framed without any right: it loads nothing, runs nothing, sends nothing.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use mail_parser::MessageParser;
use uuid::Uuid;

use super::showing::record;
use super::{Shared, Site, entry_id};
use crate::desk::access::Visitor;
use crate::desk::input::Path;
use crate::desk::pages::story::{MailLine, MailShown};
use crate::desk::policy;
use crate::desk::problem::Problem;
use crate::desk::store::access_log::What;
use crate::queries::explain::Page;
use crate::queries::render::{self, NoRendering, Shown, Ticket};

/// The mails that can be shown, a line for each action of the plan.
pub(super) fn lines(page: &Page) -> Vec<MailLine> {
    let line = |(at, action): (usize, i32)| {
        let own = || page.deliveries.iter().filter(|delivery| delivery.action_order == action);
        MailLine {
            number: u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1),
            action,
            recipients: u64::try_from(own().count()).unwrap_or(u64::MAX),
            sent_at: own()
                .filter(|delivery| delivery.state == "accepted")
                .filter_map(|delivery| delivery.at)
                .max(),
            shown: None,
        }
    };
    page.plan.iter().map(|action| action.action_order).enumerate().map(line).collect()
}

/// Shows the mail of this number, which is recorded before it is made.
///
/// # Errors
/// [`Problem`]: the visitor may not see it, it cannot be recorded, or there is no such mail.
pub(super) async fn shown(
    site: &Site,
    visitor: &Visitor,
    submission: Uuid,
    (lines, number): (&mut [MailLine], u32),
) -> Result<(), Problem> {
    let line = lines.iter_mut().find(|line| line.number == number).ok_or_else(no_mail)?;
    let mail = match made(site, visitor, submission, line.action).await? {
        Shown::Mail(mail) => mail,
        Shown::Ticket(ticket) => {
            line.shown = Some(of_ticket(&ticket));
            return Ok(());
        }
    };
    let parsed = MessageParser::default().parse(mail.eml.as_bytes()).ok_or_else(no_mail)?;
    let html = parsed.body_html(0).filter(|_| parsed.html_part(0).is_some_and(is_html));
    let text = parsed.body_text(0).unwrap_or_default().replace("\r\n", "\n");
    let headers = parsed.headers_raw().map(|(name, value)| (name.to_owned(), unfolded(value))).collect();
    line.shown = Some(MailShown { headers, has_html: html.is_some(), links: links(&text), text });
    Ok(())
}

/// A ticket, shown as a mail is: its fields stand for the headers.
fn of_ticket(ticket: &Ticket) -> MailShown {
    let text = ticket.ticket.text.as_deref().unwrap_or_default().replace("\r\n", "\n");
    let headers = ticket.headers().into_iter().map(|(name, value)| (name, unfolded(&value))).collect();
    MailShown { headers, has_html: ticket.ticket.html.is_some(), links: links(&text), text }
}

fn is_html(part: &mail_parser::MessagePart<'_>) -> bool {
    part.is_text_html()
}

/// A header on one line.
fn unfolded(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Targets of links in a text, each once.
fn links(text: &str) -> Vec<String> {
    let ends = |c: char| c.is_whitespace() || "<>\"'()".contains(c);
    let mut links: Vec<String> = Vec::new();
    for word in text.split(ends).filter(|word| word.starts_with("https://") || word.starts_with("http://")) {
        let target = word.trim_end_matches(['.', ',', ';']).to_owned();
        if !links.contains(&target) {
            links.push(target);
        }
    }
    links
}

/// Makes the mail or the ticket of an action, after it was recorded.
async fn made(site: &Site, visitor: &Visitor, submission: Uuid, action: i32) -> Result<Shown, Problem> {
    record(site, visitor, submission, What::Mail).await?;
    let preparer = site.parts.preparer.as_deref().ok_or_else(no_mail)?;
    let rendering =
        render::rendering(&site.reader()?, preparer, submission, Some(action)).await.map_err(unmade)?;
    if rendering.links > 0 {
        record(site, visitor, submission, What::Links).await?;
    }
    rendering.shown.into_iter().next().ok_or_else(no_mail)
}

fn no_mail() -> Problem {
    Problem::not_found("mail of this number")
}

fn unmade(error: NoRendering) -> Problem {
    match error {
        NoRendering::Database(error) => error.into(),
        NoRendering::Unknown(_)
        | NoRendering::Purged(_)
        | NoRendering::Ledger(..)
        | NoRendering::Form(_)
        | NoRendering::Mail(_) => {
            tracing::warn!("a mail cannot be shown: {}", crate::scrub::scrub(&error.to_string()));
            Problem::new(
                crate::desk::problem::Kind::NotFound,
                "This mail cannot be made now: its submission, its plan or the signing of its links is in the way.",
                "On the host: maple-router render ID tells why.",
            )
        }
    }
}

pub(super) async fn of_entry(
    State(site): Shared,
    visitor: Visitor,
    Path((id, number)): Path<(String, u32)>,
) -> Result<Response, Problem> {
    let entry = site.commands().store.get(entry_id(&id)?).await?;
    let entry = entry.filter(|entry| entry.subject.kind == "submission").ok_or_else(no_mail)?;
    framed(&site, &visitor, entry.subject.id, number).await
}

pub(super) async fn of_submission(
    State(site): Shared,
    visitor: Visitor,
    Path((id, number)): Path<(String, u32)>,
) -> Result<Response, Problem> {
    framed(&site, &visitor, id.parse().map_err(|_| no_mail())?, number).await
}

/// The HTML of a mail, alone.
async fn framed(site: &Site, visitor: &Visitor, submission: Uuid, number: u32) -> Result<Response, Problem> {
    let page = crate::queries::explain::page(&site.reader()?, submission).await?.ok_or_else(no_mail)?;
    let line = lines(&page).into_iter().find(|line| line.number == number).ok_or_else(no_mail)?;
    let html = match made(site, visitor, submission, line.action).await? {
        Shown::Mail(mail) => {
            let parsed = MessageParser::default().parse(mail.eml.as_bytes()).ok_or_else(no_mail)?;
            parsed.body_html(0).ok_or_else(no_mail)?.into_owned()
        }
        Shown::Ticket(ticket) => ticket.ticket.html.ok_or_else(no_mail)?,
    };
    Ok(([(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy::MAIL))], Html(html))
        .into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_once_and_end_where_they_end() {
        let text = "See https://a.test/x?y=1, <http://b.test/> and (https://a.test/x?y=1). Not ftp://c.test.";
        assert_eq!(links(text), ["https://a.test/x?y=1", "http://b.test/"]);
        assert_eq!(unfolded("a\r\n  b\tc "), "a b c");
    }
}
