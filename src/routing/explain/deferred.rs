//! Tickets that were deferred while there was no help desk: the command that makes them, where there is one now.

use super::{Case, Remedy, Rules, deliveries};
use crate::routing::submission::ledger::{DeliveryState, Ledger};

/// The back-fill of the submission's form.
pub(super) fn remedy(case: &Case<'_>, rules: &Rules, ledger: &Ledger) -> Option<Remedy> {
    let is_deferred = deliveries(ledger, DeliveryState::NotImplemented).next().is_some();
    (rules.tickets && is_deferred).then(|| {
        let rest = format!("backfill --form {} --reason TEXT", word(case.form));
        Remedy::command("happyfox", &rest)
            .when("there is a help desk now: shall all deferred tickets of the form be made?")
    })
}

/// A word of a shell's line.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    super::tracking::quoted(text)
}
