//! Tables: a row as read, a step, and the changes to write.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::ports::{Fault, Outcome, Reply, Stage};
use crate::routing::submission::ledger::FailReason;
use crate::routing::submission::outcome::{Entries, SendContext};

const NOW: &str = "2026-11-01T12:00:00Z";
const A: &str = "1|a@x.test";
const CLEAN: Attachments = Attachments { pending: 0, infected: false };

fn draft(status: Status, stored: Value) -> Draft {
    Draft::of(Some(status), Ok(stored), NOW.parse().expect("a time"))
}

/// Ledger claimed by `t`, with one action of one recipient.
fn claimed(delivery: Value) -> Value {
    let mut stored = json!({"v": 1, "attempts": 2, "claim": {"token": "t", "worker": "w", "at": NOW, "deadline": NOW},
        "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}],
        "deliveries": {}, "kept": [1]});
    stored["deliveries"][A] = delivery;
    stored
}

fn fact(nonce: &str, more: Value) -> Map<String, Value> {
    let mut fact = json!({"state": "accepted", "nonce": nonce, "token": "t", "generation": 0});
    if let (Value::Object(fact), Value::Object(more)) = (&mut fact, more) {
        fact.extend(more);
    }
    Map::from_iter([(A.to_owned(), json!({"fact": fact, "audit": {"v": 1}}))])
}

/// Columns: the delivery's state and the flags of its audit row (`duplicate`, `stale`, `late`); none: nothing is written.
#[test]
fn the_first_fact_closes_and_later_ones_are_kept_beside_it() {
    let begun = |by: &str| json!({"state": "open", "begun": {"token": by, "at": NOW}, "log_mark": "7"});
    let accepted = json!({"state": "accepted", "nonce": "n0", "generation": 0, "queue_id": "Q0"});
    let reopened = json!({"state": "open", "history": [{"nonce": "n0", "generation": 0, "queue_id": "Q0"}]});
    let again = |stored: Value| {
        let mut stored = stored;
        stored["generations"] = json!({"1": 1});
        stored
    };
    let new = json!({});
    type Case = (&'static str, Status, Value, Value, Option<(&'static str, usize, [bool; 3])>);
    let (processing, received) = (Status::Processing, Status::Received);
    let cases: [Case; 17] = [
        ("closes", processing, claimed(begun("t")), new.clone(), Some(("accepted", 0, [false; 3]))),
        ("no entry yet", processing, json!({}), new.clone(), Some(("accepted", 0, [false, true, false]))),
        ("entry no object", processing, claimed(json!(7)), new.clone(), Some(("accepted", 0, [false; 3]))),
        (
            "without its claim",
            received,
            claimed(begun("t")),
            new.clone(),
            Some(("accepted", 0, [false, true, false])),
        ),
        (
            "late",
            Status::Routed,
            claimed(begun("t")),
            new.clone(),
            Some(("accepted", 0, [false, true, true])),
        ),
        (
            "after failure",
            Status::Failed,
            claimed(begun("t")),
            new.clone(),
            Some(("accepted", 0, [false, true, true])),
        ),
        (
            "second",
            processing,
            claimed(accepted.clone()),
            new.clone(),
            Some(("accepted", 1, [true, false, false])),
        ),
        ("same nonce", processing, claimed(accepted.clone()), json!({"nonce": "n0"}), None),
        ("same mail", processing, claimed(accepted.clone()), json!({"queue_id": "Q0"}), None),
        (
            "same nonce, in history",
            processing,
            again(claimed(reopened.clone())),
            json!({"nonce": "n0"}),
            None,
        ),
        (
            "same mail, in history",
            processing,
            again(claimed(reopened.clone())),
            json!({"queue_id": "Q0"}),
            None,
        ),
        (
            "another mail of the same queue id",
            processing,
            again(claimed(reopened.clone())),
            json!({"queue_id": "Q0", "generation": 1}),
            Some(("accepted", 0, [false; 3])),
        ),
        (
            "no queue id is nobody's",
            processing,
            claimed(json!({"state": "accepted", "nonce": "n0", "queue_id": null})),
            json!({"queue_id": null}),
            Some(("accepted", 1, [true, false, false])),
        ),
        (
            "former generation",
            processing,
            again(claimed(json!({"state": "open"}))),
            new.clone(),
            Some(("open", 1, [false; 3])),
        ),
        (
            "former generation, known",
            processing,
            again(claimed(reopened)),
            new.clone(),
            Some(("open", 1, [true, false, false])),
        ),
        (
            "failed before",
            processing,
            claimed(json!({"state": "failed"})),
            new.clone(),
            Some(("accepted", 0, [false; 3])),
        ),
        ("purged", Status::Purged, claimed(begun("t")), new, None),
    ];
    for (name, status, stored, more, expected) in cases {
        let mut draft = draft(status, stored);
        draft.merge("t", &fact("n1", more));
        let change = draft.into_change();
        let Some((state, dups, flags)) = expected else {
            assert!(change.is_empty(), "{name}: {change:?}");
            continue;
        };
        let delivery = &change.deliveries[A];
        assert_eq!(delivery["state"], state, "{name}");
        assert_eq!(delivery["dups"].as_array().map_or(0, Vec::len), dups, "{name}");
        if dups == 0 {
            assert_eq!((delivery.get("begun"), delivery.get("log_mark")), (None, None), "{name}");
            assert_eq!((&delivery["at"], &delivery["late"]), (&json!(NOW), &json!(flags[2])), "{name}");
        }
        let detail = &change.audits[0]["detail"];
        assert_eq!(["duplicate", "stale", "late"].map(|flag| detail[flag] == true), flags, "{name}");
        assert_eq!((change.audits.len(), &change.audits[0]["action"]), (1, &json!("email_sent")), "{name}");
        assert_eq!(
            (change.touched, change.transition.map(Transition::to), change.ends_claim),
            (!flags[1], None, false),
            "{name}"
        );
    }
}

#[test]
fn a_fact_says_whether_its_delivery_was_in_doubt() {
    for (delivery, doubted) in [
        (json!({"state": "open", "begun": {"token": "t"}}), false),
        (json!({"state": "open", "begun": {"token": "other"}}), true),
        (json!({"state": "open", "begun": {}}), true),
        (json!({"state": "open", "doubt": true}), true),
        (json!({"state": "open", "doubt": false}), false),
    ] {
        let mut draft = draft(Status::Processing, claimed(delivery.clone()));
        draft.merge("t", &fact("n1", json!({})));
        let change = draft.into_change();
        assert_eq!(change.deliveries[A]["doubted"] == true, doubted, "{delivery}");
        assert_eq!(change.deliveries[A].get("doubt"), None, "{delivery}");
    }
}

#[test]
fn a_ledger_that_cannot_be_read_still_takes_facts() {
    for stored in [Ok(json!([])), Ok(json!("x")), Err("too large a number".to_owned())] {
        let mut draft = Draft::of(Some(Status::Processing), stored.clone(), NOW.parse().expect("a time"));
        draft.merge("t", &fact("n1", json!({})));
        assert_eq!(draft.ledger().is_ok(), stored.is_ok());
        let change = draft.into_change();
        assert_eq!((&change.deliveries[A]["state"], &change.keys["v"]), (&json!("accepted"), &json!(1)));
    }
}

#[test]
fn a_fact_is_told_once_also_where_the_ledger_cannot_be_read() {
    let unreadable = || {
        Draft::of(
            Some(Status::Processing),
            Err("too large a number".to_owned()),
            NOW.parse().expect("a time"),
        )
    };
    let mut draft = unreadable();
    draft.merge("t", &fact("n1", json!({})));
    let written = draft.into_change();
    for (nonce, dups, audits) in [("n1", None, 0), ("n2", Some(json!("n2")), 1)] {
        let mut draft = unreadable();
        let deliveries = written.deliveries.clone();
        draft.salvage(Salvage { deliveries, generations: None, is_signed: true });
        draft.merge("t", &fact(nonce, json!({})));
        assert!(draft.is_unreadable());
        let change = draft.into_change();
        assert_eq!((change.audits.len(), change.keys.get("v")), (audits, None), "{nonce}");
        let kept = change.deliveries.get(A).map(|entry| entry["dups"][0]["nonce"].clone());
        assert_eq!(kept, dups, "{nonce}: the first wins");
    }
}

fn others(outcome: &Outcome) -> Entries {
    let mut entries = Entries::default();
    let context = SendContext {
        token: "t",
        nonce: "n1",
        attempt: 2,
        action_order: 1,
        action_type: crate::routing::submission::plan::ActionType::EmailRaw,
        generation: 0,
        destination: "a@x.test",
        message_id: None,
    };
    entries.add(&context, A, outcome);
    entries
}

fn fault() -> Fault {
    let reply = Reply { code: Some(450), enhanced: None, reply: "no".to_owned() };
    Fault { stage: Stage::Rcpt, reply, about_us: false }
}

fn ending<'a>(tried: &'a BTreeSet<i32>, token: &'a str, refund: bool, max_attempts: u32) -> Ending<'a> {
    Ending { token, tried, pause: Duration::from_secs(60), refund, max_attempts }
}

/// Columns: outcome, attempts a submission has, the end, the delivery's state, the audit.
#[test]
fn a_record_ends_the_claim_as_its_ledger_says() {
    let tried = BTreeSet::from([1]);
    let accepted = Outcome::Accepted { reply: Reply::default(), queue_id: None };
    let cases = [
        (accepted, 5, Some(Status::Routed), "accepted", &["email_sent", "submission_routed"][..]),
        (Outcome::NotImplemented, 5, Some(Status::Routed), "not_implemented", &["submission_routed"]),
        (
            Outcome::Refused(fault()),
            5,
            Some(Status::Failed),
            "failed",
            &["email_failed", "submission_route_failed"],
        ),
        (Outcome::Deferred(fault()), 5, Some(Status::Received), "open", &[]),
        (Outcome::Unknown(fault()), 5, Some(Status::Received), "open", &[]),
        (
            Outcome::Deferred(fault()),
            2,
            Some(Status::Failed),
            "failed",
            &["email_failed", "submission_route_failed"],
        ),
    ];
    for (outcome, max_attempts, status, state, audit) in cases {
        let begun = json!({"state": "open", "begun": {"token": "t", "at": NOW}});
        let mut draft = draft(Status::Processing, claimed(begun));
        let recorded = draft.record(&others(&outcome), &ending(&tried, "t", false, max_attempts));
        assert!(matches!(recorded, Ok(Recorded::Concluded(_))), "{outcome:?}: {recorded:?}");
        let change = draft.into_change();
        let said: Vec<&str> = change.audits.iter().filter_map(|audit| audit["action"].as_str()).collect();
        assert_eq!((change.transition.map(Transition::to), &said[..]), (status, audit), "{outcome:?}");
        let delivery = &change.deliveries[A];
        assert_eq!((&delivery["state"], delivery.get("begun")), (&json!(state), None), "{outcome:?}");
        assert!(change.ends_claim && change.touched, "{outcome:?}");
        assert_eq!(change.keys.contains_key("finished"), status != Some(Status::Received), "{outcome:?}");
    }
}

#[test]
fn nothing_but_facts_is_recorded_without_the_claim() {
    let tried = BTreeSet::from([1]);
    for (status, token) in [(Status::Processing, "other"), (Status::Received, "t"), (Status::Routed, "t")] {
        let open = json!({"state": "open"});
        let mut draft = draft(status, claimed(open));
        let ending = ending(&tried, token, false, 5);
        let recorded = draft.record(&others(&Outcome::Refused(fault())), &ending);
        assert!(matches!(recorded, Ok(Recorded::Stale)), "{recorded:?}");
        assert!(matches!(draft.release(&ending), Recorded::Stale));
        assert!(matches!(draft.fail(token, FailReason::Infected), Ok(Recorded::Stale)));
        assert_eq!(draft.begin(token, &[A.to_owned()], None, CLEAN), BeginAnswer::Stale);
        assert!(draft.into_change().is_empty());
    }
}

#[test]
fn a_delivery_that_has_a_fact_keeps_it() {
    for (state, written) in
        [("open", true), ("accepted", false), ("failed", false), ("not_implemented", false)]
    {
        let mut draft = draft(Status::Processing, claimed(json!({"state": state})));
        draft.note(&others(&Outcome::Refused(fault())));
        let change = draft.into_change();
        assert_eq!(change.deliveries.contains_key(A), written, "{state}");
        assert_eq!(change.audits.len(), usize::from(written), "{state}");
        assert!(change.touched);
    }
}

#[test]
fn a_release_keeps_what_is_open_and_doubts_what_another_claim_began() {
    let tried = BTreeSet::from([1]);
    for (holder, refund, attempts, doubt) in
        [("t", false, 2, false), ("t", true, 1, false), ("old", false, 2, true)]
    {
        let begun = json!({"state": "open", "begun": {"token": holder, "at": NOW}});
        let mut draft = draft(Status::Processing, claimed(begun));
        let Recorded::Concluded(Conclusion::Released { due }) =
            draft.release(&ending(&tried, "t", refund, 5))
        else {
            panic!("released")
        };
        let change = draft.into_change();
        assert_eq!(change.keys["attempts"], attempts);
        assert_eq!(
            (&change.keys["next_attempt_at"], due.to_string()),
            (&json!(due), "2026-11-01T12:01:00Z".to_owned())
        );
        let delivery = &change.deliveries[A];
        assert_eq!((delivery.get("begun"), delivery["doubt"] == true), (None, doubt));
        assert_eq!(change.transition.map(Transition::to), Some(Status::Received));
    }
}

#[test]
fn a_begin_needs_open_deliveries_and_clean_attachments() {
    let keys = [A.to_owned()];
    let open = json!({"state": "open", "error": {"class": "deferred"}});
    let scanned = |pending, infected| Attachments { pending, infected };
    for (delivery, attachments, expected) in [
        (open.clone(), CLEAN, BeginAnswer::Stands),
        (open.clone(), scanned(1, false), BeginAnswer::NotClean),
        (open.clone(), scanned(1, true), BeginAnswer::Infected),
        (json!({"state": "accepted"}), CLEAN, BeginAnswer::Changed),
        (json!({}), CLEAN, BeginAnswer::Changed),
    ] {
        let mut draft = draft(Status::Processing, claimed(delivery));
        assert_eq!(draft.begin("t", &keys, Some("7"), attachments), expected);
        let change = draft.into_change();
        assert_eq!(change.is_empty(), expected != BeginAnswer::Stands);
        if expected == BeginAnswer::Stands {
            let changed = &change.deliveries[A];
            assert_eq!((&changed["begun"]["token"], &changed["log_mark"]), (&json!("t"), &json!("7")));
            assert_eq!(changed["error"]["class"], "deferred", "what was known stays");
        }
    }
}

#[test]
fn deliveries_are_replaced_as_a_whole_only_where_there_are_no_others() {
    let open = json!({"state": "open"});
    let mut beside = claimed(open.clone());
    beside["deliveries"]["2|b@x.test"] = open.clone();
    for (stored, all) in [
        (Ok(claimed(open)), true),
        (Ok(beside), false),
        (Ok(json!([])), true),
        (Err("too deep".to_owned()), false),
    ] {
        let mut draft = Draft::of(Some(Status::Received), stored, NOW.parse().expect("a time"));
        draft.merge("t", &fact("n", json!({})));
        let change = draft.into_change();
        assert_eq!((change.deliveries.len(), change.all_deliveries), (1, all), "{change:?}");
    }
    assert!(
        !draft(Status::Processing, claimed(json!({}))).into_change().all_deliveries,
        "nothing is written"
    );
}

#[test]
fn a_delivery_remembers_each_attempt_that_failed_and_not_more_than_the_latest_ten() {
    let busy = |code| {
        let reply = Reply { code: Some(code), enhanced: None, reply: format!("busy {code}") };
        others(&Outcome::Deferred(Fault { stage: Stage::Rcpt, reply, about_us: false }))
    };
    let mut stored = claimed(json!({"state": "open"}));
    for n in 1..=12 {
        stored["attempts"] = json!(n);
        let mut draft = draft(Status::Processing, stored.clone());
        draft.note(&busy(440 + n));
        let change = draft.into_change();
        stored["deliveries"][A] = change.deliveries[A].clone();
        let tries = change.deliveries[A]["tries"].as_array().expect("tries").clone();
        let last = tries.last().expect("one");
        assert_eq!((&last["attempt"], &last["code"], &last["at"]), (&json!(n), &json!(440 + n), &json!(NOW)));
        assert_eq!(tries.len(), usize::from(n.min(10)));
        assert_eq!(tries[0]["attempt"], n.max(10) - 9);
    }
    let mut draft = draft(Status::Processing, stored);
    draft.merge("t", &fact("n", json!({})));
    let kept = &draft.into_change().deliveries[A];
    assert_eq!(kept["tries"].as_array().map(Vec::len), Some(10), "also once it is accepted: {kept}");
    assert!(kept.get("error").is_none(), "{kept}");
}
