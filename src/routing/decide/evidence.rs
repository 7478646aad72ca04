//! Evidence that nothing is left to do for a submission: what a review of it is closed on.
//!
//! Invariant: no I/O here. Words for people are closed words and counts: no address, no text of a server, nothing of a
//! ledger that is not believed.

use std::collections::BTreeMap;

use crate::kernel::subject::{Evidence, Looked};
use crate::ports::RelayStatus;
use crate::routing::submission::expand::{self, Expansion};
use crate::routing::submission::ledger::{Delivery, DeliveryState, FailReason, Ledger, LedgerFault};
use crate::routing::table::Status;

/// Decides what can be said of a submission. `followed`: whether the relay's log is, so that each mail can be known to be
/// delivered. `has_actions`: whether its form has any now.
#[must_use]
pub fn evidence(
    status: Status,
    ledger: Result<&Ledger, &LedgerFault>,
    followed: bool,
    has_actions: bool,
) -> Looked {
    if status == Status::Purged {
        return Looked::Gone;
    }
    let missing = |what: Vec<String>, failure| Looked::Missing { what, failure, mendable: false };
    let ledger = match ledger {
        Ok(ledger) => ledger,
        Err(fault) => return missing(vec![format!("the submission is {status}"), unbelieved(fault)], None),
    };
    match status {
        Status::Received | Status::Processing => {
            missing(vec![format!("the submission is {status}: it has not ended")], None)
        }
        Status::Failed => {
            let finished = ledger.finished.as_ref();
            let why =
                finished.and_then(|end| end.reason).map_or("its ledger says no reason", |why| why.label());
            let failure = finished.and_then(|end| end.token.clone()).unwrap_or_default();
            let mendable = has_actions || finished.and_then(|end| end.reason) != Some(FailReason::NoActions);
            let what = vec![format!("the submission is {status}: {why}")];
            Looked::Missing { what, failure: Some(failure), mendable }
        }
        Status::Routed if followed => delivered(ledger),
        Status::Routed => Looked::Sufficient(Evidence::Routed),
        Status::Purged => Looked::Gone,
    }
}

/// A damaged ledger may quote itself, so that nothing of it is repeated.
fn unbelieved(fault: &LedgerFault) -> String {
    match fault {
        LedgerFault::Damaged(_) => "its ledger is damaged: what was sent is not known".to_owned(),
        LedgerFault::Newer(version) => {
            format!("its ledger is of version {version}, which this program does not know: upgrade this host")
        }
    }
}

/// Decides about a routed submission by the relay's reports on the deliveries that its plan wants. An action without a client
/// wants no mail.
fn delivered(ledger: &Ledger) -> Looked {
    let mut undelivered: BTreeMap<Option<RelayStatus>, usize> = BTreeMap::new();
    let mut wanted = 0;
    // The ledger has the keys; a limit of today is none of theirs.
    let no_limit = Expansion { max_recipients: usize::MAX, tickets: false };
    let (mails, tickets): (Vec<_>, Vec<_>) =
        ledger.plan.iter().partition(|action| action.action_type.is_email());
    // A ticket is where it should be once it is there.
    let made = |(_, delivery): &(&str, &Delivery)| delivery.state == DeliveryState::Accepted;
    for action in tickets {
        wanted += ledger.deliveries_of(action.action_order).filter(made).count();
    }
    for key in mails.into_iter().flat_map(|action| expand::keys(action, no_limit)) {
        let delivery = ledger.deliveries.get(&key);
        if delivery.is_some_and(|delivery| delivery.state == DeliveryState::NotImplemented) {
            continue;
        }
        wanted += 1;
        let reported =
            delivery.and_then(|delivery| ledger.relay_entry(&key, delivery)).map(|entry| entry.status);
        if reported != Some(RelayStatus::Delivered) {
            *undelivered.entry(reported).or_default() += 1;
        }
    }
    let count: usize = undelivered.values().sum();
    let lost =
        |status: &&Option<RelayStatus>| matches!(status, Some(RelayStatus::Bounced | RelayStatus::Expired));
    let failure = undelivered.keys().find(lost).and_then(|status| status.map(|lost| lost.label().to_owned()));
    let what = match (wanted, count) {
        (0, _) => "nothing was sent: none of its actions is implemented".to_owned(),
        (_, 0) => return Looked::Sufficient(Evidence::Delivered),
        (_, count) => {
            let (reported, unreported): (Vec<_>, Vec<_>) =
                undelivered.into_iter().partition(|(status, _)| status.is_some());
            let words = |(status, count): (Option<RelayStatus>, usize)| {
                format!("{} {count}", status.map_or("no report yet", RelayStatus::label))
            };
            let counts: Vec<String> = reported.into_iter().chain(unreported).map(words).collect();
            let are = if count == 1 { "is" } else { "are" };
            format!("{count} of {wanted} deliveries {are} not reported as delivered: {}", counts.join(", "))
        }
    };
    Looked::Missing { what: vec![what], failure, mendable: true }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn missing(what: &[&str]) -> Looked {
        failed(what, None)
    }

    fn failed(what: &[&str], failure: Option<&str>) -> Looked {
        Looked::Missing {
            what: what.iter().map(|&what| what.to_owned()).collect(),
            failure: failure.map(str::to_owned),
            mendable: false,
        }
    }

    /// The judgement, but for whether a remedy may help.
    fn judged(status: Status, stored: &Value, followed: bool) -> Looked {
        match evidence(status, Ledger::read(stored).as_ref(), followed, true) {
            Looked::Missing { what, failure, .. } => Looked::Missing { what, failure, mendable: false },
            other @ (Looked::Sufficient(_) | Looked::Gone) => other,
        }
    }

    /// Two mails and a ticket, accepted, with these reports.
    fn routed(a: Option<&str>, b: Option<&str>) -> Value {
        let entry = |status: Option<&str>| {
            let report = status.map(|status| json!({"status": status, "at": "2026-11-01T10:00:00Z"}));
            json!({"state": "accepted", "relay": report})
        };
        json!({
            "v": 1, "plan": [
                {"action_order": 1, "action_type": "email_raw", "destination": "a@x.test, b@x.test"},
                {"action_order": 2, "action_type": "happyfox_template", "destination": ""},
            ],
            "deliveries": {"1|a@x.test": entry(a), "1|b@x.test": entry(b), "2|": {"state": "not_implemented"}},
            "finished": {"token": "t", "at": "2026-11-01T10:00:00Z", "status": "routed"},
        })
    }

    #[test]
    fn a_routed_submission_is_well_once_the_relay_has_delivered_every_mail() {
        const DELIVERED: Looked = Looked::Sufficient(Evidence::Delivered);
        let cases = [
            (Some("delivered"), Some("delivered"), DELIVERED),
            (
                Some("delivered"),
                None,
                missing(&["1 of 2 deliveries is not reported as delivered: no report yet 1"]),
            ),
            (
                None,
                Some("bounced"),
                failed(
                    &["2 of 2 deliveries are not reported as delivered: bounced 1, no report yet 1"],
                    Some("bounced"),
                ),
            ),
            (
                Some("expired"),
                Some("deferred"),
                failed(
                    &["2 of 2 deliveries are not reported as delivered: deferred 1, expired 1"],
                    Some("expired"),
                ),
            ),
            (None, None, missing(&["2 of 2 deliveries are not reported as delivered: no report yet 2"])),
        ];
        for (a, b, expected) in cases {
            let stored = routed(a, b);
            assert_eq!(judged(Status::Routed, &stored, true), expected, "{a:?} {b:?}");
            let unfollowed = judged(Status::Routed, &stored, false);
            assert_eq!(unfollowed, Looked::Sufficient(Evidence::Routed), "nobody would ever report");
        }
    }

    #[test]
    fn a_report_of_a_former_mail_and_of_a_former_plan_counts_for_nothing() {
        let mut stored = routed(Some("delivered"), Some("delivered"));
        for key in ["1|a@x.test", "1|b@x.test"] {
            stored["deliveries"][key]["generation"] = json!(1);
        }
        stored["generations"] = json!({"1": 1});
        let former = missing(&["2 of 2 deliveries are not reported as delivered: no report yet 2"]);
        assert_eq!(judged(Status::Routed, &stored, true), former);
        // Bounced, but the new plan does not want that recipient any more.
        let mut stored = routed(Some("bounced"), Some("delivered"));
        stored["plan"][0]["destination"] = json!("b@x.test");
        assert_eq!(judged(Status::Routed, &stored, true), Looked::Sufficient(Evidence::Delivered));
        // Wanted, and unknown to the ledger.
        stored["plan"][0]["destination"] = json!("b@x.test, z@x.test");
        let unsent = missing(&["1 of 2 deliveries is not reported as delivered: no report yet 1"]);
        assert_eq!(judged(Status::Routed, &stored, true), unsent);
    }

    #[test]
    fn what_has_not_ended_well_says_what_is_missing_and_nothing_of_what_it_holds() {
        let end = |reason: Value| {
            json!({"v": 1, "plan": [], "deliveries": {}, "finished":
                {"token": "end", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": reason}})
        };
        let silent = json!({"v": 1, "plan": [{"action_order": 1, "action_type": "happyfox_template", "destination": ""}],
            "deliveries": {"1|": {"state": "not_implemented"}}});
        let cases = [
            (
                Status::Failed,
                end(json!("refused")),
                failed(&["the submission is failed: refused"], Some("end")),
            ),
            (
                Status::Failed,
                end(json!("infected")),
                failed(&["the submission is failed: infected"], Some("end")),
            ),
            (
                Status::Failed,
                json!({}),
                failed(&["the submission is failed: its ledger says no reason"], Some("")),
            ),
            // The end of an earlier round.
            (
                Status::Received,
                end(json!("refused")),
                missing(&["the submission is received: it has not ended"]),
            ),
            (Status::Processing, json!({}), missing(&["the submission is processing: it has not ended"])),
            (
                Status::Routed,
                json!({"v": 1, "attempts": "a@x.test"}),
                missing(&["the submission is routed", "its ledger is damaged: what was sent is not known"]),
            ),
            (
                Status::Failed,
                json!({"v": 9}),
                missing(&[
                    "the submission is failed",
                    "its ledger is of version 9, which this program does not know: upgrade this host",
                ]),
            ),
            (Status::Routed, silent, missing(&["nothing was sent: none of its actions is implemented"])),
            (Status::Purged, json!({"v": 1, "attempts": "many"}), Looked::Gone),
        ];
        for (status, stored, expected) in cases {
            assert_eq!(judged(status, &stored, true), expected, "{status} {stored}");
        }
    }

    #[test]
    fn a_remedy_may_help_where_the_form_has_something_to_do() {
        let no_actions = json!({"v": 1, "plan": [], "deliveries": {}, "finished":
            {"token": "end", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": "no_actions"}});
        let mendable = |stored: &Value, has_actions| match evidence(
            Status::Failed,
            Ledger::read(stored).as_ref(),
            true,
            has_actions,
        ) {
            Looked::Missing { mendable, .. } => mendable,
            other @ (Looked::Sufficient(_) | Looked::Gone) => panic!("{other:?}"),
        };
        assert!(!mendable(&no_actions, false));
        assert!(mendable(&no_actions, true));
        let mut refused = no_actions;
        refused["finished"]["reason"] = json!("refused");
        assert!(mendable(&refused, false), "its plan is pinned");
        assert!(!mendable(&json!({"v": 9}), true), "nobody knows what it says");
    }
}
