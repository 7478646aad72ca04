//! Status of mails after the relay's acceptance: the text of `explain`, and the remedies for a lost mail.
//!
//! Invariant: pure. A report's text is scrubbed, put on one line and bounded before it is shown.

use std::collections::BTreeSet;

use super::{Case, MAX_REPLY, Remedy, at, number};
use crate::ports::RelayStatus;
use crate::routing::submission::ledger::{Ledger, RelayEntry, order_of};
use crate::routing::submission::text::{bounded, one_line};
use crate::scrub::scrub;

/// Largest number of actions whose lost mails are named by their commands; a page is a screen.
const MOST_FORCED: usize = 2;

/// The relay entries of present generations.
fn entries(ledger: &Ledger) -> impl Iterator<Item = (&str, &RelayEntry)> {
    ledger
        .deliveries
        .iter()
        .filter_map(|(key, delivery)| Some((key.as_str(), ledger.relay_entry(key, delivery)?)))
}

/// Describes the entries, as the rest of a sentence; absent where there are none.
pub(super) fn words(ledger: &Ledger) -> Option<String> {
    let with = |status: RelayStatus| entries(ledger).filter(move |(_, entry)| entry.status == status);
    let mut parts = Vec::new();
    for (status, verb) in
        [(RelayStatus::Bounced, "refused further on"), (RelayStatus::Expired, "given up by the relay")]
    {
        if let Some((_, entry)) = with(status).next() {
            let by = if entry.claimed {
                " (so says a returned mail, which any recipient of that action could have written)"
            } else {
                ""
            };
            parts.push(format!("{} lost, {verb}: {}{by}", number(with(status).count(), "mail"), said(entry)));
        }
    }
    if let Some((_, entry)) = with(RelayStatus::Deferred).min_by_key(|(_, entry)| entry.since) {
        let since = entry.since.map_or(String::new(), |since| format!(" since {}", at(since)));
        parts.push(format!(
            "{} in the relay's queue{since}: {}",
            number(with(RelayStatus::Deferred).count(), "mail"),
            said(entry)
        ));
    }
    let delivered = with(RelayStatus::Delivered).count();
    if delivered > 0 {
        parts.push(format!("{} delivered", number(delivered, "mail")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Whether people have been or will be notified of the lost mails.
pub(super) fn telling(ledger: &Ledger, alerts: bool) -> Option<String> {
    let lost: Vec<&RelayEntry> =
        entries(ledger).map(|(_, entry)| entry).filter(|entry| entry.status.is_lost()).collect();
    let last = lost.iter().filter_map(|entry| entry.notified_at).max();
    match (lost.is_empty(), lost.iter().all(|entry| entry.notified_at.is_some()), last) {
        (true, ..) => None,
        (false, true, Some(notified)) => {
            Some(format!("Slack took the alert of the lost mail at {}", at(notified)))
        }
        (false, ..) if alerts => {
            Some("the alert of the lost mail is sent until Slack confirms it".to_owned())
        }
        (false, ..) => {
            Some("nobody is alerted of the lost mail, because no slack.webhook_file is set".to_owned())
        }
    }
}

/// Remedies that send lost mails again.
pub(super) fn remedy(case: &Case<'_>, ledger: &Ledger) -> Vec<Remedy> {
    let lost = entries(ledger).filter(|(_, entry)| entry.status.is_lost());
    let forced: BTreeSet<Forced<'_>> = lost.filter_map(|(key, _)| Forced::of(ledger, key)).collect();
    if forced.is_empty() {
        return Vec::new();
    }
    let mut remedy: Vec<Remedy> = forced
        .iter()
        .take(MOST_FORCED)
        .map(|forced| match forced {
            Forced::Delivery(_, key) => case
                .command("replay", &format!("--force-delivery {} --reason TEXT", quoted(key)))
                .when("is the mailbox mended? That recipient alone gets it again:"),
            Forced::Action(order) => case
                .command("replay", &format!("--force-action {order} --reason TEXT"))
                .when("is the mailbox mended? All recipients of that action get it again:"),
        })
        .collect();
    let replan = case.command("replay", "--replan --reason TEXT");
    remedy.push(replan.when("or was the address corrected in the form, and the YAML reloaded?"));
    remedy
}

/// What a lost mail's remedy sends again.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Forced<'a> {
    /// All of an action, where all of it is lost.
    Action(i32),
    /// One delivery, whose neighbours have theirs.
    Delivery(i32, &'a str),
}

impl<'a> Forced<'a> {
    fn of(ledger: &'a Ledger, key: &'a str) -> Option<Self> {
        let order = order_of(key)?;
        let is_lost = |(key, delivery)| {
            ledger.relay_entry(key, delivery).is_some_and(|entry: &RelayEntry| entry.status.is_lost())
        };
        let all_lost = ledger.deliveries_of(order).all(is_lost);
        // A key that a terminal might not show, or not paste, as it is.
        let is_plain = key.chars().all(|c| c.is_ascii_graphic());
        Some(if all_lost || !is_plain { Self::Action(order) } else { Self::Delivery(order, key) })
    }
}

/// A word for a POSIX shell.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Formats as `5.1.1 mx.example.org[192.0.2.1]:25: no such user`, fit for a terminal.
#[must_use]
pub fn said(entry: &RelayEntry) -> String {
    let mut words = Vec::new();
    words.extend(entry.dsn.as_deref().map(|dsn| bounded(one_line(dsn), 12)));
    // Postfix repeats the host in most texts.
    let host = entry.relay.as_deref().map(one_line).filter(|relay| {
        let name = relay.split(['[', ':']).next().unwrap_or_default();
        !entry.text.contains(name)
    });
    words.extend(host.map(|host| format!("{}:", bounded(scrub(&host), 60))));
    words.push(bounded(scrub(&one_line(&entry.text)), MAX_REPLY));
    words.retain(|word| !word.is_empty());
    words.join(" ").trim_end_matches(':').to_owned()
}
