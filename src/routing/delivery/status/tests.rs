use uuid::Uuid;

use super::*;
use crate::routing::store::audit_key::AuditKey;
use crate::routing::submission::message_id::Origin;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const KEY: &str = "1|a@x.test";

/// The entry, of the present generation unless it says another.
fn present(entry: &Value) -> Value {
    let mut entry = entry.clone();
    entry.as_object_mut().expect("an object").entry("generation").or_insert(json!(1));
    entry
}

fn ledger(entry: &Value) -> Ledger {
    Ledger::read(&json!({
        "v": 1, "attempts": 2, "generations": {"1": 1},
        "claim": {"token": "live", "worker": "w", "at": "2026-11-01T10:00:00Z", "deadline": "2026-11-01T10:20:00Z"},
        "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}],
        "deliveries": {KEY: present(entry)},
    }))
    .expect("a ledger")
}

fn seen(status: RelayStatus, queue_id: Option<&str>) -> Seen {
    Seen {
        origin: Origin { submission: Uuid::nil(), action_order: 1, generation: 1 },
        recipient: "a@X.test".to_owned(),
        status,
        at: None,
        queue_id: queue_id.map(str::to_owned),
        proved: true,
        message_id: Some("<m@x>".to_owned()),
        dsn: Some("5.1.1".to_owned()),
        relay: None,
        text: "<a@x.test>: no such user".to_owned(),
    }
}

fn with_entry(state: &str, status: RelayStatus, queue_id: &str) -> Value {
    json!({"state": state, "relay": {"status": status, "at": NOW, "generation": 1, "queue_id": queue_id, "by": "me",
        "dsn": "5.1.1", "since": NOW}})
}

fn changed(decision: Decision) -> Option<Change> {
    match decision {
        Decision::Changes(change) => Some(*change),
        Decision::Known { .. } | Decision::Foreign | Decision::Unproved => None,
    }
}

fn judged(entry: &Value, seen: &Seen) -> Decision {
    decide(&ledger(entry), Status::Routed, seen, "me", NOW)
}

/// Columns: the existing entry with its queue id, the report with its queue id, and whether the report replaces the entry.
#[test]
fn a_mark_never_goes_back() {
    use RelayStatus::{Bounced, Deferred, Delivered, Expired};
    let cases = [
        (Deferred, "A", Delivered, Some("A"), true),
        (Deferred, "A", Bounced, Some("A"), true),
        (Deferred, "A", Expired, Some("A"), true),
        (Deferred, "A", Deferred, Some("A"), false),
        (Deferred, "A", Bounced, None, true),
        (Deferred, "A", Bounced, Some("B"), false),
        (Deferred, "A", Delivered, Some("B"), true),
        (Delivered, "A", Deferred, Some("A"), false),
        (Delivered, "A", Delivered, Some("A"), false),
        (Delivered, "A", Bounced, Some("A"), true),
        (Delivered, "A", Bounced, None, true),
        (Delivered, "A", Bounced, Some("B"), false),
        (Bounced, "A", Delivered, Some("A"), false),
        (Bounced, "A", Delivered, Some("B"), true),
        (Bounced, "A", Bounced, Some("A"), false),
        (Bounced, "A", Deferred, Some("B"), false),
        (Expired, "A", Bounced, None, false),
        (Expired, "A", Delivered, None, false),
    ];
    for (old, of, new, by, replaces) in cases {
        let decision = judged(&with_entry("accepted", old, of), &seen(new, by));
        let change = changed(decision.clone());
        assert_eq!(change.is_some(), replaces, "{old:?} of {of}, {new:?} of {by:?}");
        if let Some(change) = change {
            assert_eq!(change.entry.status, new);
            assert_eq!(change.entry.since, Some(NOW), "since when it waited is kept");
            assert_eq!(change.lost.is_some(), new.is_lost(), "{old:?}, {new:?}");
            assert_eq!(change.found, None);
        }
    }
}

#[test]
fn a_reason_that_changes_is_news_of_the_same_wait() {
    let other = Seen { dsn: Some("4.7.1".to_owned()), ..seen(RelayStatus::Deferred, Some("A")) };
    let change = changed(judged(&with_entry("accepted", RelayStatus::Deferred, "A"), &other)).expect("news");
    assert_eq!((change.entry.dsn.as_deref(), change.entry.since), (Some("4.7.1"), Some(NOW)));
}

#[test]
fn the_first_word_makes_the_mark_and_a_lost_mail_is_audited_without_its_address() {
    let change = changed(judged(&json!({"state": "accepted"}), &seen(RelayStatus::Bounced, Some("A"))))
        .expect("an entry");
    assert_eq!((change.key.as_str(), change.entry.generation, change.entry.by.as_str()), (KEY, 1, "me"));
    let lost = change.lost.expect("an audit row");
    assert_eq!((&lost["error"]["stage"], &lost["error"]["class"]), (&json!("delivery"), &json!("bounced")));
    assert_eq!(
        (&lost["queue_id"], &lost["generation"], &lost["attempt"]),
        (&json!("A"), &json!(1), &json!(2))
    );
    let sealed = AuditKey::default().sealed(&lost);
    assert!(!sealed.to_string().contains("a@x.test"), "{sealed}");
    assert!(change.entry.text.contains("a@x.test"), "the ledger keeps what was said");
}

/// A loss whose notification may have failed is notified again, by its own reporter.
#[test]
fn what_nobody_was_told_of_is_told_again_by_its_own_teller() {
    let again = seen(RelayStatus::Bounced, Some("A"));
    let entry = with_entry("accepted", RelayStatus::Bounced, "A");
    assert_eq!(judged(&entry, &again), Decision::Known { unnotified: Some(KEY.to_owned()) });
    let of_another = decide(&ledger(&entry), Status::Routed, &again, "another", NOW);
    assert_eq!(of_another, Decision::Known { unnotified: None });
    let mut notified = entry;
    notified["relay"]["told_at"] = json!(NOW);
    assert_eq!(judged(&notified, &again), Decision::Known { unnotified: None });
}

#[test]
fn another_recipient_action_or_generation_is_foreign() {
    let entry = json!({"state": "accepted"});
    let ours = seen(RelayStatus::Delivered, Some("A"));
    for foreign in [
        Seen { recipient: "b@x.test".to_owned(), ..ours.clone() },
        Seen { recipient: "!none".to_owned(), ..ours.clone() },
        Seen { origin: Origin { action_order: 2, ..ours.origin }, ..ours.clone() },
        Seen { origin: Origin { generation: 0, ..ours.origin }, ..ours.clone() },
        Seen { origin: Origin { generation: 2, ..ours.origin }, ..ours.clone() },
    ] {
        assert_eq!(judged(&entry, &foreign), Decision::Foreign, "{foreign:?}");
    }
    assert!(changed(judged(&entry, &ours)).is_some());
}

/// A neighbour was forced: the action's generation is another one since, and the mail that arrived before is still its own.
#[test]
fn a_report_counts_for_the_mail_that_a_delivery_has_whatever_its_action_has_become() {
    let of = |generation: u32, status: RelayStatus| {
        let one = seen(status, Some("A"));
        Seen { origin: Origin { generation, ..one.origin }, ..one }
    };
    let kept = json!({"state": "accepted", "generation": 0});
    let change = changed(judged(&kept, &of(0, RelayStatus::Bounced))).expect("it is of the mail it has");
    assert_eq!((change.entry.status, change.entry.generation), (RelayStatus::Bounced, 0));
    assert!(change.unnotified && change.lost.is_some_and(|lost| lost["generation"] == 0));
    assert_eq!(judged(&kept, &of(1, RelayStatus::Bounced)), Decision::Foreign, "it has no such mail");
    // The forced one: open, then accepted. What is said of its former mail is not taken for the present one.
    for forced in [json!({"state": "open"}), json!({"state": "accepted", "generation": 1})] {
        assert_eq!(judged(&forced, &of(0, RelayStatus::Bounced)), Decision::Foreign, "{forced}");
        assert!(changed(judged(&forced, &of(1, RelayStatus::Delivered))).is_some(), "{forced}");
    }
}

/// Anyone who knows a Message-ID may submit a mail with it: the log reports that one under another queue id.
#[test]
fn what_nothing_proves_to_be_ours_counts_only_for_a_queue_id_that_our_own_250_named() {
    let ours = json!({"state": "accepted", "queue_id": "A", "dups": [{"queue_id": "B"}]});
    let found = with_entry("accepted", RelayStatus::Deferred, "C");
    let doubt = json!({"state": "open", "doubt": true});
    let cases = [
        (&ours, "A", false, true),
        (&ours, "B", false, true),
        (&ours, "Z", false, false),
        (&ours, "Z", true, true),
        (&found, "C", false, true),
        (&found, "Z", false, false),
        (&doubt, "Z", false, false),
        (&doubt, "Z", true, true),
    ];
    for (entry, id, proved, counts) in cases {
        for status in [RelayStatus::Deferred, RelayStatus::Delivered, RelayStatus::Bounced] {
            let seen = Seen { proved, dsn: Some("4.0.0".to_owned()), ..seen(status, Some(id)) };
            let decision = judged(entry, &seen);
            assert_eq!(decision != Decision::Unproved, counts, "{entry} {id} {proved} {status:?}");
        }
    }
    // A returned mail has no queue id; its token is verified elsewhere.
    let returned = Seen { proved: false, ..seen(RelayStatus::Bounced, None) };
    assert!(changed(judged(&ours, &returned)).is_some());
}

/// Every recipient of an action reads the same token: of several, each could have written a report on the others.
#[test]
fn a_returned_mail_proves_something_only_where_one_recipient_knows_its_token() {
    let of_several = |entry: &Value| {
        let mut both = json!({"1|b@x.test": {"state": "accepted"}, "1|!1": {"state": "failed"}});
        both[KEY] = present(entry);
        Ledger::read(&json!({"v": 1, "attempts": 1, "generations": {"1": 1}, "plan": [], "deliveries": both}))
            .expect("a ledger")
    };
    let decided = |entry: &Value, seen: &Seen| decide(&of_several(entry), Status::Received, seen, "me", NOW);
    let returned = seen(RelayStatus::Bounced, None);
    let (accepted, doubt) = (json!({"state": "accepted"}), json!({"state": "open", "doubt": true}));

    let alone = changed(decide(&ledger(&doubt), Status::Received, &returned, "me", NOW)).expect("an entry");
    assert!(alone.found.is_some() && alone.lost.is_some() && alone.unnotified && !alone.entry.claimed);

    for entry in [&accepted, &doubt] {
        let claim = changed(decided(entry, &returned)).expect("an entry");
        assert_eq!(
            (claim.entry.status, claim.entry.claimed, claim.unnotified),
            (RelayStatus::Bounced, true, true)
        );
        assert_eq!((claim.lost, claim.found), (None, None), "it is reported, and no fact: {entry}");
    }
    for entry in [&accepted, &doubt] {
        let received = seen(RelayStatus::Delivered, None);
        assert_eq!(decided(entry, &received), Decision::Known { unnotified: None }, "nor that it got there");
    }

    // The log's proof replaces the entry, without a second notification.
    let claimed = |at: Value| {
        json!({"state": "accepted", "queue_id": "A", "relay": {"status": "bounced", "at": NOW, "generation": 1,
            "claimed": true, "by": "me", "told_at": at}})
    };
    for (at, unnotified) in [(Value::Null, true), (json!(NOW), false)] {
        let proved =
            changed(decided(&claimed(at), &seen(RelayStatus::Bounced, Some("A")))).expect("an entry");
        assert!(
            proved.lost.is_some() && !proved.entry.claimed && proved.unnotified == unnotified,
            "{proved:?}"
        );
    }
    let arrived = changed(decided(&claimed(Value::Null), &seen(RelayStatus::Delivered, Some("A"))));
    assert_eq!(arrived.expect("an entry").entry.status, RelayStatus::Delivered);
    assert_eq!(decided(&claimed(json!(NOW)), &returned), Decision::Known { unnotified: None }, "read again");
}

/// Columns: entry, status of the row, and whether the log's report is a fact that no claim will record.
#[test]
fn doubt_is_ended_unless_somebody_is_sending() {
    let intent = |token: &str| json!({"state": "open", "begun": {"token": token, "at": NOW}});
    let cases = [
        (json!({"state": "open", "doubt": true}), Status::Received, true),
        (json!({"state": "open", "doubt": true}), Status::Processing, true),
        (
            json!({"state": "failed", "doubt": true, "error": {"class": "in_doubt", "stage": "dot", "reply": ""}}),
            Status::Failed,
            true,
        ),
        (intent("live"), Status::Processing, false),
        (intent("live"), Status::Received, true),
        (intent("dead"), Status::Processing, true),
        (json!({"state": "open"}), Status::Received, false),
        (json!({"state": "accepted", "doubted": true}), Status::Routed, false),
        (
            json!({"state": "failed", "error": {"class": "refused", "stage": "RCPT", "reply": ""}}),
            Status::Failed,
            false,
        ),
    ];
    for (entry, status, expected) in cases {
        let decision = decide(&ledger(&entry), status, &seen(RelayStatus::Delivered, Some("A")), "me", NOW);
        let change = changed(decision).expect("an entry in any case");
        assert_eq!(change.found.is_some(), expected, "{entry} {status:?}");
        if let Some(found) = change.found {
            assert_eq!(found[KEY]["fact"]["queue_id"], "A");
            assert_eq!(found[KEY]["fact"]["generation"], 1);
            let sealed = AuditKey::default().sealed(&found[KEY]["audit"]);
            assert!(!sealed.to_string().contains("a@x.test"), "{sealed}");
        }
    }
    // The entry is older than the doubt: it still ends the doubt, and stays as it was.
    let mut entry = with_entry("open", RelayStatus::Bounced, "A");
    entry["doubt"] = json!(true);
    let change = changed(judged(&entry, &seen(RelayStatus::Bounced, Some("A")))).expect("a fact");
    assert!(change.found.is_some() && change.lost.is_none());
}

/// Columns: recipients of the action, a reporter's name for one, whether a returned mail is the source, the recipient meant.
#[test]
fn a_returned_mail_may_name_its_recipient_in_other_words() {
    let cases: [(&[&str], &str, bool, Option<&str>); 10] = [
        (&["a@x.test", "b@x.test"], "a@X.test", false, Some("a@x.test")),
        (&["a@x.test", "b@x.test"], "A@x.test", false, None),
        (&["a@x.test", "b@x.test"], "A@x.test", true, Some("a@x.test")),
        (&["a@x.test", "A@x.test"], "A@x.test", true, Some("A@x.test")),
        (&["a@x.test", "aA@x.test", "Aa@x.test"], "aa@x.test", true, None),
        (&["a@x.test", "b@x.test"], "forwarded@y.test", true, None),
        (&["a@x.test"], "forwarded@y.test", true, Some("a@x.test")),
        (&["a@x.test"], "forwarded@y.test", false, None),
        (&["a@x.test", "!2"], "forwarded@y.test", true, Some("a@x.test")),
        (&["!none"], "forwarded@y.test", true, None),
    ];
    for (recipients, named, returned, meant) in cases {
        let deliveries: Map<String, Value> =
            recipients.iter().map(|to| (format!("1|{to}"), json!({"state": "accepted"}))).collect();
        let ledger = Ledger::read(&json!({"v": 1, "deliveries": deliveries})).expect("a ledger");
        let mut seen = seen(RelayStatus::Bounced, (!returned).then_some("A"));
        named.clone_into(&mut seen.recipient);
        let found = key_of(&ledger, &seen).and_then(|key| key.strip_prefix("1|"));
        assert_eq!(found, meant, "{named} of {recipients:?}");
    }
}
