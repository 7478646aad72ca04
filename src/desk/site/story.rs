//! A submission's story: what `explain` says, its timeline, its deliveries. Recipients only for whoever may see them and asks, and
//! then the access log has it before anything is read.

use axum::Extension;
use axum::extract::State;
use axum::response::Html;
use serde::Deserialize;
use uuid::Uuid;

use super::showing::{may_show, record};
use super::{Shared, Site, html, mail, moments, recipients, words};
use crate::desk::access::Visitor;
use crate::desk::access::credential::DeskKey;
use crate::desk::input::{Path, Query};
use crate::desk::pages::story::{DeliveryLine, Story};
use crate::desk::pages::submissions::SubmissionPage;
use crate::desk::problem::Problem;
use crate::desk::store::access_log::What;
use crate::queries::explain::{self, DeliveryPart, Page, text};
use crate::queries::layout::Palette;

/// What a URL asks to see.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    show: Option<String>,
    #[serde(default)]
    mail: Option<u32>,
}

pub(super) async fn submission(
    State(site): Shared,
    Extension(secret): Extension<DeskKey>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Html<String>, Problem> {
    let nowhere = || Problem::not_found("submission of this id");
    let id: Uuid = id.parse().map_err(|_| nowhere())?;
    let shows = wanted.show.as_deref() == Some("recipients");
    let story = of(&site, &secret, &visitor, id, (shows, wanted.mail)).await?.ok_or_else(nowhere)?;
    let store = &site.commands().store;
    let entries = if store.is_there().await? { store.about(id).await? } else { Vec::new() };
    html(&SubmissionPage {
        frame: Site::frame(&visitor, store.time().await?),
        story,
        entries: entries.iter().map(words::line).collect(),
    })
}

/// The story of a submission; `None` where there is none.
///
/// # Errors
/// [`Problem`]: also where recipients are asked for by somebody who may not see them, or that cannot be recorded.
pub(super) async fn of(
    site: &Site,
    secret: &DeskKey,
    visitor: &Visitor,
    id: Uuid,
    (shows, mail): (bool, Option<u32>),
) -> Result<Option<Story>, Problem> {
    if shows {
        record(site, visitor, id, What::Recipients).await?;
    }
    let Some(page) = explain::page(&site.reader()?, id).await? else { return Ok(None) };
    let name = |key: &str| recipients::name(secret, id, key);
    let mut story = story(page, name, shows, may_show(visitor));
    story.timeline.extend(moments::reviewed(site, id).await?);
    story.timeline.sort_by_key(|moment| moment.at);
    if let Some(number) = mail {
        mail::shown(site, visitor, id, (&mut story.mails, number)).await?;
    }
    Ok(Some(story))
}

fn story(page: Page, name: impl Fn(&str) -> String, shows: bool, may_show: bool) -> Story {
    let deliveries =
        page.deliveries.iter().map(|delivery| line(delivery, name(&delivery.key), shows)).collect();
    let mails = mail::lines(&page);
    let page = if shows { page } else { page.without_recipients() };
    let timeline = moments::of(&page);
    let text = text::page(&page, Palette::PLAIN, text::WIDTH);
    let next = match page.explanation.next.when {
        Some(when) => format!("{} ({})", page.explanation.next.what, when.strftime("%Y-%m-%d %H:%M:%SZ")),
        None => page.explanation.next.what.clone(),
    };
    Story {
        id: page.id,
        form_id: page.form_id,
        form_name: page.form_name,
        status: page.status.label().to_owned(),
        reason: page.reason.map(str::to_owned),
        created_at: page.created_at,
        updated_at: page.updated_at,
        retention_expires_at: page.retention_expires_at,
        attempts: page.attempts,
        max_attempts: page.max_attempts,
        why: page.explanation.why,
        next,
        explain: text,
        timeline,
        deliveries,
        recipients_shown: shows,
        may_show,
        mails,
    }
}

fn line(delivery: &DeliveryPart, name: String, shows: bool) -> DeliveryLine {
    let said = [
        delivery.code.map(|code| code.to_string()),
        delivery.enhanced.clone(),
        delivery.reply.as_deref().map(crate::scrub::scrub),
    ];
    let reply = said.into_iter().flatten().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let relay = delivery.relay.as_ref();
    let reported = relay.and_then(|relay| relay.text.clone()).filter(|text| !text.is_empty());
    DeliveryLine {
        name,
        action: delivery.action_order,
        recipient: delivery.recipient.clone().or_else(|| delivery.unusable.clone()).filter(|_| shows),
        domain: delivery.domain().map(str::to_owned),
        state: if delivery.in_doubt { "in_doubt" } else { delivery.state }.to_owned(),
        relay: relay.map(|relay| relay.status.to_owned()),
        reply: reported.or(Some(reply)).filter(|text| !text.is_empty()),
        queue_id: delivery.queue_id.clone(),
        at: delivery.at,
    }
}
