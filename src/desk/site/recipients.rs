//! One recipient of a submission, as a form names it: the key of a delivery has an address in it, and a page shows addresses only
//! to whoever asked and was recorded.

use uuid::Uuid;

use super::{Site, words};
use crate::desk::access::credential::DeskKey;
use crate::desk::pages::queue::Choice;
use crate::desk::pages::story::{DeliveryLine, Story};
use crate::desk::problem::Problem;
use crate::queries::explain;

/// The name of a delivery in forms.
pub(super) fn name(secret: &DeskKey, submission: Uuid, key: &str) -> String {
    secret.signed("delivery", &[submission.as_bytes(), key.as_bytes()].concat()).hex()
}

/// The deliveries that can be made once more: those that the relay accepted.
pub(super) fn choices(story: &Story) -> Vec<Choice> {
    let numbered = (1..).zip(&story.deliveries);
    let accepted = numbered.filter(|(_, delivery)| delivery.state == "accepted");
    accepted.map(|(number, delivery)| words::choice(&delivery.name, &label(number, delivery))).collect()
}

fn label(number: usize, delivery: &DeliveryLine) -> String {
    let domain = delivery.domain.as_deref().unwrap_or("an unusable address");
    let who = delivery.recipient.clone().unwrap_or_else(|| format!("somebody at {domain}"));
    let became = delivery.relay.as_deref().unwrap_or("accepted");
    format!("{number}. {who}, {became}")
}

/// The key of the delivery that a form names; `None` where the submission has none of that name any more.
///
/// # Errors
/// [`Problem`]: the database is away.
pub(super) async fn key(
    site: &Site,
    secret: &DeskKey,
    entry: Uuid,
    named: &str,
) -> Result<Option<String>, Problem> {
    let Some(entry) = site.commands().store.get(entry).await? else { return Ok(None) };
    let submission = entry.subject.id;
    let Some(page) = explain::page(&site.reader()?, submission).await? else { return Ok(None) };
    let mut keys = page.deliveries.into_iter().map(|delivery| delivery.key);
    Ok(keys.find(|key| name(secret, submission, key) == named))
}
