use super::*;
use serde_json::json;

#[test]
fn an_empty_object_is_a_submission_never_claimed() {
    assert_eq!(Ledger::read(&json!({})), Ok(Ledger::default()));
    assert_eq!(Ledger::read(&json!({"somebody": "else's"})), Ok(Ledger::default()));
}

#[test]
fn every_bad_shape_is_a_fault_and_never_a_panic() {
    for damaged in [
        json!([]),
        json!(null),
        json!("x"),
        json!({"v": "1"}),
        json!({"v": 0}),
        json!({"v": 1.5}),
        json!({"v": 1, "attempts": "many"}),
        json!({"attempts": "many"}),
        json!({"attempts": -1}),
        json!({"v": 1, "next_attempt_at": "tomorrow"}),
        json!({"v": 1, "plan": {"a": 1}}),
        json!({"v": 1, "deliveries": []}),
        json!({"v": 1, "deliveries": {"no order": {"state": "open"}}}),
        json!({"v": 1, "deliveries": {"1|a@b": {"state": "teleported"}}}),
        json!({"v": 1, "deliveries": {"1|a@b": {}}}),
        json!({"v": 1, "claim": "mine"}),
    ] {
        assert!(matches!(Ledger::read(&damaged), Err(LedgerFault::Damaged(_))), "{damaged}");
    }
    assert_eq!(Ledger::read(&json!({"v": 7})), Err(LedgerFault::Newer(7)));
    assert_eq!(Ledger::read(&json!({"v": 2, "attempts": "many"})), Err(LedgerFault::Newer(2)));
}

#[test]
fn the_example_of_the_data_contract_is_read() {
    let ledger = Ledger::read(&json!({
        "v": 1, "attempts": 2, "resets": 0, "not_ours": [1],
        "claim": {"token": "t", "worker": "maple/4711", "at": "2026-11-01T10:00:00Z", "deadline": "2026-11-01T10:20:00Z"},
        "plan": [{"action_order": 1, "action_type": "email_template", "template_id": "t1",
                  "template": {"subject": "s", "body_text": "b", "body_html": null},
                  "destination": "a@example.org, b@example.org", "subject_template": null, "happyfox_category": null}],
        "generations": {"1": 0},
        "deliveries": {
            "1|a@example.org": {"state": "accepted", "at": "2026-11-01T10:00:01Z", "nonce": "n", "token": "t",
                "smtp": {"code": 250, "enhanced": "2.0.0", "reply": "Ok: queued as 4XYZ"}, "queue_id": "4XYZ",
                "message_id": "<m@x>", "late": false, "dups": []},
            "1|b@example.org": {"state": "open", "begun": {"token": "t", "at": "2026-11-01T10:00:01Z"}, "doubt": true,
                "error": {"class": "deferred", "stage": "RCPT", "code": 451, "enhanced": "4.3.0", "reply": "later"}},
            "2|": {"state": "not_implemented"}
        }
    }))
    .expect("the example");
    assert_eq!(ledger.attempts, 2);
    assert!(ledger.is_claimed_by("t"));
    assert_eq!(ledger.deliveries_of(1).count(), 2);
    assert_eq!(ledger.counts(), BTreeMap::from([("accepted", 1), ("open", 1), ("not_implemented", 1)]));
    assert!(ledger.deliveries["1|b@example.org"].in_doubt("t"));
}

#[test]
fn a_version_is_read_and_a_damaged_one_damages_nothing_else() {
    let version =
        json!({"id": "00000000-0000-0000-0000-00000000000a", "number": 3, "digest": "1a".repeat(32)});
    let with =
        |version: Value| Ledger::read(&json!({"v": 1, "attempts": 2, "version": version})).expect("a ledger");
    let known = with(version.clone());
    assert_eq!(known.version.known().map(|known| json!(known)), Some(version));
    assert_eq!(Ledger::read(&json!({"v": 1})).expect("a ledger").version, PlanVersion::None);
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for damaged in
        [json!(null), json!("3"), json!(3), json!({}), json!({"number": 3}), json!({"id": []}), deep]
    {
        let ledger = with(damaged.clone());
        assert_eq!((ledger.version, ledger.attempts), (PlanVersion::Unreadable, 2), "{damaged}");
    }
}

#[test]
fn doubt_is_a_mark_of_another_claim_or_a_recorded_unknown() {
    let intent = |token: &str| Delivery {
        intent: Some(Intent { token: token.to_owned(), at: Timestamp::UNIX_EPOCH }),
        ..Delivery::default()
    };
    assert!(!intent("mine").in_doubt("mine"));
    assert!(intent("theirs").in_doubt("mine"));
    assert!(Delivery { doubt: true, ..Delivery::default() }.in_doubt("mine"));
    let accepted = Delivery { state: DeliveryState::Accepted, ..intent("theirs") };
    assert!(!accepted.in_doubt("mine"));
}

#[test]
fn what_a_recipient_could_have_written_proves_no_acceptance() {
    let bounced = |generation: u32, claimed: bool| json!({"status": "bounced", "at": "2026-11-01T10:00:00Z", "generation": generation, "claimed": claimed});
    let state = |entry: Value| {
        let ledger = Ledger::read(&json!({"v": 1, "deliveries": {"1|a@x": entry}})).expect("a ledger");
        ledger.with_proofs().deliveries["1|a@x"].state
    };
    for (relay, expected) in [
        (bounced(0, false), DeliveryState::Accepted),
        (bounced(0, true), DeliveryState::Open),
        (bounced(1, false), DeliveryState::Open),
    ] {
        assert_eq!(state(json!({"state": "open", "doubt": true, "relay": relay})), expected, "{relay}");
        assert_eq!(state(json!({"state": "open", "relay": relay})), DeliveryState::Open, "no doubt: {relay}");
    }
}

#[test]
fn only_a_second_acceptance_of_one_generation_is_a_repeat() {
    let cases = [
        (json!({"state": "accepted"}), 0),
        (json!({"state": "accepted", "dups": [{"nonce": "n"}]}), 1),
        (json!({"state": "open", "dups": [{"nonce": "n"}]}), 0),
        (json!({"state": "open", "history": [{"generation": 0}], "dups": [{"generation": 0}]}), 1),
        (json!({"state": "accepted", "generation": 1, "history": [{"generation": 0}]}), 0),
        (json!({"state": "accepted", "generation": 1, "dups": [{"generation": 0}, {"generation": 1}]}), 1),
    ];
    for (entry, repeats) in cases {
        let delivery: Delivery = serde_json::from_value(entry.clone()).expect("an entry");
        assert_eq!(delivery.repeats(), repeats, "{entry}");
    }
}

#[test]
fn what_is_accepted_is_of_its_mails_generation_and_the_rest_of_its_actions() {
    let report = |generation: u32| json!({"status": "bounced", "at": "2026-11-01T10:00:00Z", "generation": generation});
    let ledger = Ledger::read(&json!({
        "generations": {"1": 2},
        "deliveries": {
            "1|first@x": {"state": "accepted", "relay": report(0)},
            "1|second@x": {"state": "accepted", "generation": 1, "relay": report(1)},
            "1|former@x": {"state": "accepted", "generation": 1, "relay": report(0)},
            "1|open@x": {"state": "open", "generation": 1, "relay": report(2)},
            "1|failed@x": {"state": "failed", "relay": report(1)},
            "2|other@x": {"state": "open", "relay": report(0)},
        },
    }))
    .expect("a ledger");
    for (key, generation, counts) in [
        ("1|first@x", 0, true),
        ("1|second@x", 1, true),
        ("1|former@x", 1, false),
        ("1|open@x", 2, true),
        ("1|failed@x", 2, false),
        ("2|other@x", 0, true),
        ("1|unknown@x", 2, false),
    ] {
        assert_eq!(ledger.generation_of(key), generation, "{key}");
        let entry = ledger.deliveries.get(key).and_then(|delivery| ledger.relay_entry(key, delivery));
        assert_eq!(entry.is_some(), counts, "{key}");
    }
    assert_eq!(ledger.delivery_statuses(), BTreeMap::from([("bounced", 4)]));
}

#[test]
fn a_proved_acceptance_is_of_the_generation_that_was_sent() {
    let relay = json!({"status": "delivered", "at": "2026-11-01T10:00:00Z", "generation": 1});
    let ledger = Ledger::read(&json!({
        "generations": {"1": 1}, "deliveries": {"1|a@x": {"state": "open", "doubt": true, "relay": relay}},
    }))
    .expect("a ledger");
    let proved = ledger.with_proofs();
    assert_eq!(proved.deliveries["1|a@x"].state, DeliveryState::Accepted);
    assert_eq!((ledger.generation_of("1|a@x"), proved.generation_of("1|a@x")), (1, 1));
}

#[test]
fn a_place_names_a_delivery_without_its_address() {
    let keys = ["1|c@x", "1|a@x", "1|b@x"];
    assert_eq!(place(keys, "1|b@x").as_deref(), Some("2/3"));
    assert_eq!(place(keys, "1|z@x"), None);
}
