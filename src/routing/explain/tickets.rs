//! Tickets of the help desk: what was made, what is in doubt and how it is looked for, and what keeps a ticket waiting.
//!
//! Invariant: pure. A display id is the help desk's word, of a shape that the gateway has tested; a tag is ours.

use serde::Serialize;

use super::{Case, Explanation, Next, Remedy, Step, is_in_doubt, number};
use crate::ports::TicketRef;
use crate::routing::submission::ledger::{Delivery, DeliveryState, Ledger, order_of};
use crate::routing::submission::message_id::Origin;
use crate::routing::submission::ticket;

/// Largest number of tickets named by their ids or tags; a page is a screen.
const MOST_NAMED: usize = 3;

/// State of the help desk, as the daemon of this host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HelpDesk {
    /// Not asked, because no ticket waits, or the daemon does not answer.
    #[default]
    NotAsked,
    /// Tickets are made.
    Works,
    /// The breaker is open.
    Out,
    /// The help desk has named a time before which it wants no request.
    Throttles,
}

/// The tag of a delivery's ticket, of the generation that was made or is to be made; absent for a mail.
#[must_use]
pub fn tag_of(case: uuid::Uuid, ledger: &Ledger, key: &str) -> Option<String> {
    if !ticket::is_ticket(key) {
        return None;
    }
    let action_order = order_of(key)?;
    Some(ticket::tag(Origin { submission: case, action_order, generation: ledger.generation_of(key) }))
}

/// The tickets of a ledger, by the keys of their deliveries.
fn tickets(ledger: &Ledger) -> impl Iterator<Item = (&str, &Delivery)> {
    ledger
        .deliveries
        .iter()
        .map(|(key, delivery)| (key.as_str(), delivery))
        .filter(|(key, _)| ticket::is_ticket(key))
}

/// `the help desk made its ticket HF00000003`; absent where it made none.
pub(super) fn made(ledger: &Ledger) -> Option<String> {
    let accepted = tickets(ledger).filter(|(_, delivery)| delivery.state == DeliveryState::Accepted);
    let made: Vec<&str> = accepted
        .map(|(_, delivery)| delivery.ticket.as_ref().map_or("", |ticket| ticket.display_id.as_str()))
        .collect();
    match made.as_slice() {
        [] => None,
        [one] => Some(format!("the help desk made its ticket {one}").trim_end().to_owned()),
        more => Some(format!("the help desk made its {} tickets", more.len())),
    }
}

/// Number of tickets that were made.
pub(super) fn count(ledger: &Ledger) -> usize {
    tickets(ledger).filter(|(_, delivery)| delivery.state == DeliveryState::Accepted).count()
}

/// Further tickets of one tag: what is known of them, and what to do about them.
pub(super) fn twice(case: &Case<'_>, ledger: &Ledger) -> Option<(String, Remedy)> {
    let (key, delivery) = tickets(ledger).find(|(_, delivery)| !delivery.also.is_empty())?;
    let tag = tag_of(case.id, ledger, key)?;
    let first = delivery.ticket.as_ref().map_or("the first", |ticket| ticket.display_id.as_str());
    let why = format!(
        "the help desk has {} with the same tag: {}",
        number(delivery.also.len(), "further ticket"),
        named(&delivery.also)
    );
    Some((
        why,
        Remedy::advice(format!("search the help desk for the tag {tag}; keep {first}, and close the others")),
    ))
}

/// `HF00000004, HF00000005 and 2 more`
fn named(tickets: &[TicketRef]) -> String {
    let shown: Vec<&str> = tickets.iter().take(MOST_NAMED).map(|ticket| ticket.display_id.as_str()).collect();
    match tickets.len().saturating_sub(MOST_NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Number of tickets in doubt.
pub(super) fn in_doubt(case: &Case<'_>, ledger: &Ledger) -> usize {
    tickets(ledger).filter(|(_, delivery)| is_in_doubt(case.status, ledger, delivery)).count()
}

/// Describes tickets in doubt; their tags stand at their deliveries.
pub(super) fn doubt(tickets: usize) -> String {
    format!("{} in doubt: perhaps made, and searched for by its tag", number(tickets, "ticket"))
}

/// What the next attempt does about a ticket in doubt.
pub(super) fn searched(resend: bool) -> &'static str {
    if resend {
        "; first the ticket is searched for by its tag"
    } else {
        "; first the ticket is searched for by its tag: not found, it fails (routing.in_doubt)"
    }
}

/// Tags of the tickets that failed in doubt: they were held by policy.
pub(super) fn held(case: &Case<'_>, ledger: &Ledger) -> Vec<String> {
    tickets(ledger)
        .filter(|(_, delivery)| delivery.state == DeliveryState::Failed)
        .filter_map(|(key, _)| tag_of(case.id, ledger, key))
        .collect()
}

/// Adds what keeps a ticket waiting. Mails do not wait for the help desk, so the rest stays as it is.
pub(super) fn waiting(explanation: Explanation, state: HelpDesk) -> Explanation {
    let why = match state {
        HelpDesk::NotAsked | HelpDesk::Works => return explanation,
        HelpDesk::Out => "the ticket waits for the help desk (breaker open), and mails go on",
        HelpDesk::Throttles => "the ticket waits for the help desk (it throttles us), and mails go on",
    };
    if !matches!(explanation.next.code, Step::Claim | Step::Attempt) {
        return explanation;
    }
    let until = match state {
        HelpDesk::Throttles => "once the throttle has ended",
        HelpDesk::NotAsked | HelpDesk::Works | HelpDesk::Out => "once the help desk works again",
    };
    let what = format!("the ticket {until}; {}", explanation.next.what);
    let mut remedy = vec![
        Remedy::command("check", ""),
        Remedy::advice("journalctl -u maple-router EVENT=breaker_open -n 3"),
    ];
    // An event changes nothing while no ticket is made.
    let others = explanation.remedy.into_iter().filter(|other| other.verb != Some("publish"));
    for other in others {
        if !remedy.iter().any(|known| known.line == other.line) {
            remedy.push(other);
        }
    }
    Explanation {
        why: format!("{}; {why}", explanation.why),
        next: Next { what, ..explanation.next },
        remedy,
    }
}
