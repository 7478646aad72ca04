//! What became of mails beyond the relay: the words of `explain`, and what a person can do about a lost one.
//!
//! Invariant: pure. What was said is scrubbed, put on one line and bounded before it is shown.

use std::collections::BTreeSet;

use super::super::ledger::{Ledger, RelayMark, order_of};
use super::super::text::{bounded, one_line};
use super::{Case, MAX_REPLY, Remedy, at, number};
use crate::ports::RelayStatus;
use crate::scrub::scrub;

/// Actions whose lost mails are named by their commands; a page is a screen.
const MOST_FORCED: usize = 2;

/// The marks of the mails that count now.
fn marks(ledger: &Ledger) -> impl Iterator<Item = (&str, &RelayMark)> {
    ledger
        .deliveries
        .iter()
        .filter_map(|(key, delivery)| Some((key.as_str(), ledger.mark_of(key, delivery)?)))
}

/// What is known of them, as the rest of a sentence; absent where nothing is.
pub(super) fn words(ledger: &Ledger) -> Option<String> {
    let with = |status: RelayStatus| marks(ledger).filter(move |(_, mark)| mark.status == status);
    let mut parts = Vec::new();
    for (status, verb) in
        [(RelayStatus::Bounced, "refused further on"), (RelayStatus::Expired, "given up by the relay")]
    {
        if let Some((_, mark)) = with(status).next() {
            let by = if mark.claimed {
                " (so says a returned mail, which any recipient of that action could have written)"
            } else {
                ""
            };
            parts.push(format!("{} lost, {verb}: {}{by}", number(with(status).count(), "mail"), said(mark)));
        }
    }
    if let Some((_, mark)) = with(RelayStatus::Deferred).min_by_key(|(_, mark)| mark.since) {
        let since = mark.since.map_or(String::new(), |since| format!(" since {}", at(since)));
        parts.push(format!(
            "{} in the relay's queue{since}: {}",
            number(with(RelayStatus::Deferred).count(), "mail"),
            said(mark)
        ));
    }
    let delivered = with(RelayStatus::Delivered).count();
    if delivered > 0 {
        parts.push(format!("{} delivered", number(delivered, "mail")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Whether people have been or will be told of the lost ones.
pub(super) fn telling(ledger: &Ledger, alerts: bool) -> Option<String> {
    let lost: Vec<&RelayMark> =
        marks(ledger).map(|(_, mark)| mark).filter(|mark| mark.status.is_lost()).collect();
    let last = lost.iter().filter_map(|mark| mark.told_at).max();
    match (lost.is_empty(), lost.iter().all(|mark| mark.told_at.is_some()), last) {
        (true, ..) => None,
        (false, true, Some(told)) => Some(format!("Slack took the alert of the lost mail at {}", at(told))),
        (false, ..) if alerts => {
            Some("the alert of the lost mail is sent until Slack confirms it".to_owned())
        }
        (false, ..) => {
            Some("nobody is alerted of the lost mail, because no slack.webhook_file is set".to_owned())
        }
    }
}

/// How lost mails are sent again.
pub(super) fn remedy(case: &Case<'_>, ledger: &Ledger) -> Vec<Remedy> {
    let lost = marks(ledger).filter(|(_, mark)| mark.status.is_lost());
    let orders: BTreeSet<i32> = lost.filter_map(|(key, _)| order_of(key)).collect();
    if orders.is_empty() {
        return Vec::new();
    }
    let mut remedy: Vec<Remedy> = orders
        .iter()
        .take(MOST_FORCED)
        .map(|order| {
            case.command("replay", &format!("--force-action {order} --reason TEXT"))
                .when("is the mailbox mended? All recipients of that action get it again:")
        })
        .collect();
    let replan = case.command("replay", "--replan --reason TEXT");
    remedy.push(replan.when("or was the address corrected in the form, and the YAML reloaded?"));
    remedy
}

/// `5.1.1 mx.example.org[192.0.2.1]:25: no such user`, fit for a terminal.
#[must_use]
pub fn said(mark: &RelayMark) -> String {
    let mut words = Vec::new();
    words.extend(mark.dsn.as_deref().map(|dsn| bounded(one_line(dsn), 12)));
    // Postfix repeats it in most texts.
    let host = mark.relay.as_deref().map(one_line).filter(|relay| {
        let name = relay.split(['[', ':']).next().unwrap_or_default();
        !mark.text.contains(name)
    });
    words.extend(host.map(|host| format!("{}:", bounded(scrub(&host), 60))));
    words.push(bounded(scrub(&one_line(&mark.text)), MAX_REPLY));
    words.retain(|word| !word.is_empty());
    words.join(" ").trim_end_matches(':').to_owned()
}
