use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-11-01T10:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

fn decide(status: Status, stored: &Value, finalized: bool, pending: i64, infected: bool) -> ClaimDecision {
    let ledger = Ledger::read(stored);
    let (touched, longest_pause) = (Some(at(NOW)), Duration::from_secs(300));
    claim(
        &RowView {
            status,
            ledger: &ledger,
            finalized,
            pending,
            infected,
            gate: Gate::Passed,
            touched,
            longest_pause,
        },
        at(NOW),
        5,
    )
}

#[test]
fn the_claim_table_of_the_protocol() {
    use ClaimDecision as D;
    let due = |text: &str| json!({"v": 1, "attempts": 1, "next_attempt_at": text});
    let cases = [
        ("fresh", Status::Received, json!({}), true, 0, false, D::Take),
        ("due", Status::Received, due("2026-11-01T09:59:59Z"), true, 0, false, D::Take),
        ("due now", Status::Received, due(NOW), true, 0, false, D::Take),
        (
            "due in a minute",
            Status::Received,
            due("2026-11-01T10:01:00Z"),
            true,
            0,
            false,
            D::Defer(at("2026-11-01T10:01:00Z")),
        ),
        (
            "due later",
            Status::Received,
            due("2026-11-01T10:01:01Z"),
            true,
            0,
            false,
            D::Nack(NackReason::NotDue),
        ),
        ("held", Status::Processing, json!({}), true, 0, false, D::Drop(DropReason::LeasedElsewhere)),
        ("held, damaged", Status::Processing, json!([]), true, 0, true, D::Drop(DropReason::LeasedElsewhere)),
        ("routed", Status::Routed, json!({}), true, 0, false, D::Drop(DropReason::Finished(Status::Routed))),
        ("failed", Status::Failed, json!([]), true, 0, false, D::Drop(DropReason::Finished(Status::Failed))),
        ("purged", Status::Purged, json!({}), true, 0, false, D::Drop(DropReason::Finished(Status::Purged))),
        ("not finalized", Status::Received, json!({}), false, 0, false, D::Drop(DropReason::NotFinalized)),
        ("scanning", Status::Received, json!({}), true, 1, false, D::Drop(DropReason::NotClean)),
        ("infected", Status::Received, json!({}), true, 2, true, D::Fail(FailReason::Infected)),
        ("infected, not final", Status::Received, json!({}), false, 2, true, D::Fail(FailReason::Infected)),
        ("infected, damaged", Status::Received, json!([]), true, 1, true, D::Fail(FailReason::Infected)),
        (
            "spent",
            Status::Received,
            json!({"v": 1, "attempts": 5}),
            true,
            0,
            false,
            D::Fail(FailReason::Exhausted),
        ),
        ("one left", Status::Received, json!({"v": 1, "attempts": 4}), true, 0, false, D::Take),
        (
            "damaged",
            Status::Received,
            json!({"attempts": "many"}),
            true,
            0,
            false,
            D::Fail(FailReason::LedgerDamaged),
        ),
        ("newer", Status::Received, json!({"v": 7}), true, 0, true, D::Nack(NackReason::NewerLedger)),
    ];
    for (name, status, stored, finalized, pending, infected, expected) in cases {
        assert_eq!(decide(status, &stored, finalized, pending, infected), expected, "{name}");
    }
}

fn ledger(attempts: u32, deliveries: &Value) -> Ledger {
    let action = |order: i32| json!({"action_order": order, "action_type": "email_raw", "destination": "x"});
    Ledger::read(
        &json!({"v": 1, "attempts": attempts, "plan": [action(1), action(2)], "deliveries": deliveries}),
    )
    .expect("well-shaped")
}

#[test]
fn the_verdict_table_of_the_protocol() {
    let open = json!({"state": "open"});
    let sent = json!({"state": "accepted"});
    let refused = json!({"state": "failed", "error": {"class": "refused", "stage": "RCPT", "reply": "no"}});
    let on_hold = json!({"state": "failed", "error": {"class": "in_doubt", "stage": "dot", "reply": "lost"}});
    let later = json!({"state": "not_implemented"});
    let cases = [
        ("all accepted", 1, json!({"1|a@x": sent, "2|b@x": sent}), Verdict::Routed),
        ("accepted and deferred stub", 1, json!({"1|a@x": sent, "2|": later}), Verdict::Routed),
        ("all accepted, none left", 5, json!({"1|a@x": sent, "2|b@x": sent}), Verdict::Routed),
        ("open", 1, json!({"1|a@x": sent, "2|b@x": open}), Verdict::Release),
        ("open and refused", 1, json!({"1|a@x": refused, "2|b@x": open}), Verdict::Release),
        ("open, none left", 5, json!({"1|a@x": sent, "2|b@x": open}), Verdict::Failed(FailReason::Exhausted)),
        ("refused", 1, json!({"1|a@x": refused, "2|b@x": sent}), Verdict::Failed(FailReason::Refused)),
        ("held", 1, json!({"1|a@x": refused, "2|b@x": on_hold}), Verdict::Failed(FailReason::InDoubt)),
        ("an action without deliveries", 1, json!({"1|a@x": sent}), Verdict::Release),
        (
            "an action without deliveries, none left",
            5,
            json!({"1|a@x": sent}),
            Verdict::Failed(FailReason::Exhausted),
        ),
    ];
    for (name, attempts, deliveries, expected) in cases {
        assert_eq!(verdict(&ledger(attempts, &deliveries), 5), expected, "{name}");
    }
    let none = Ledger { attempts: 1, ..Ledger::default() };
    assert_eq!(verdict(&none, 5), Verdict::Release, "a form without actions is tried again");
    let none = Ledger { attempts: 5, ..Ledger::default() };
    assert_eq!(verdict(&none, 5), Verdict::Failed(FailReason::NoActions));
}

/// The longest back-off of these tests is 300 s.
#[test]
fn a_due_time_that_no_clock_of_ours_wrote_counts_as_the_longest_back_off() {
    let now = "2026-11-01T10:00:00Z";
    // Columns: the stored due time, the last change, the due time used.
    let table = [
        ("2026-11-01T09:00:00Z", Some("2026-11-01T08:59:50Z"), "2026-11-01T09:00:00Z"),
        ("2026-11-01T10:05:00Z", Some("2026-11-01T10:00:00Z"), "2026-11-01T10:05:00Z"),
        ("2026-11-01T10:05:01Z", Some("2026-11-01T10:00:00Z"), "2026-11-01T10:05:00Z"),
        ("2026-11-01T11:03:00Z", Some("2026-11-01T09:58:00Z"), "2026-11-01T10:03:00Z"),
        ("2026-11-01T11:03:00Z", Some("2026-11-01T09:00:00Z"), "2026-11-01T09:05:00Z"),
        ("9999-12-30T22:00:00.999999999Z", Some("2026-11-01T10:00:00Z"), "2026-11-01T10:05:00Z"),
        // One clock wrote both.
        ("2026-11-01T11:03:00Z", Some("2026-11-01T11:00:00Z"), now),
        ("2026-11-01T11:03:00Z", None, now),
    ];
    for (written, touched, believed) in table {
        let ledger =
            Ledger::read(&json!({"v": 1, "attempts": 1, "next_attempt_at": written})).expect("a ledger");
        let found = due(&ledger, touched.map(at), at(now), Duration::from_secs(300));
        assert_eq!(found, Some(at(believed)), "{written}, changed {touched:?}");
    }
    assert_eq!(due(&Ledger::default(), Some(at(now)), at(now), Duration::from_secs(300)), None);
}

#[test]
fn what_waits_for_its_screening_or_its_grade_is_dropped_and_what_stays_out_fails_unsent() {
    let decided = |gate, finalized, pending, infected, ledger: &Result<Ledger, LedgerFault>| {
        let (status, touched, longest_pause) = (Status::Received, Some(at(NOW)), Duration::from_secs(300));
        let view = RowView { status, ledger, finalized, pending, infected, gate, touched, longest_pause };
        claim(&view, at(NOW), 5)
    };
    let fresh = Ok(Ledger::default());
    let waits = ClaimDecision::Drop(DropReason::NotScreened);
    assert_eq!(decided(Gate::Passed, true, 0, false, &fresh), ClaimDecision::Take);
    assert_eq!(decided(Gate::Waiting, true, 0, false, &fresh), waits);
    let ungraded = ClaimDecision::Drop(DropReason::NotGraded);
    assert_eq!(decided(Gate::Ungraded, true, 0, false, &fresh), ungraded);
    assert_eq!(decided(Gate::Ungraded, true, 1, false, &fresh), ClaimDecision::Drop(DropReason::NotClean));
    assert_eq!(decided(Gate::Out, true, 0, false, &fresh), ClaimDecision::Fail(FailReason::ScreenedOut));
    // What is to be scanned still waits for that first; what stays out need not be scanned to the end.
    assert_eq!(decided(Gate::Waiting, true, 1, false, &fresh), ClaimDecision::Drop(DropReason::NotClean));
    assert_eq!(decided(Gate::Out, true, 1, false, &fresh), ClaimDecision::Fail(FailReason::ScreenedOut));
    // An infection always wins, and nothing touches the ledger of a newer version.
    assert_eq!(decided(Gate::Out, true, 0, true, &fresh), ClaimDecision::Fail(FailReason::Infected));
    assert_eq!(decided(Gate::Waiting, true, 0, true, &fresh), ClaimDecision::Fail(FailReason::Infected));
    let newer = Err(LedgerFault::Newer(99));
    assert_eq!(decided(Gate::Out, true, 0, false, &newer), ClaimDecision::Nack(NackReason::NewerLedger));
}

#[test]
fn all_accepted_before_a_crash_still_ends_routed_when_no_attempts_are_left() {
    let row = ledger(5, &json!({"1|a@x": {"state": "accepted"}, "2|": {"state": "not_implemented"}}));
    let view = RowView {
        status: Status::Received,
        ledger: &Ok(row),
        finalized: true,
        pending: 0,
        infected: false,
        gate: Gate::Passed,
        touched: Some(at(NOW)),
        longest_pause: Duration::from_secs(300),
    };
    assert_eq!(claim(&view, at(NOW), 5), ClaimDecision::Take);
}

#[test]
fn a_deferred_action_never_blocks_the_next_one() {
    let both = ledger(1, &json!({"1|a@x": {"state": "open"}, "2|b@x": {"state": "open"}}));
    assert_eq!(next_action(&both, &BTreeSet::new()), Some(1));
    assert_eq!(next_action(&both, &BTreeSet::from([1])), Some(2));
    assert_eq!(next_action(&both, &BTreeSet::from([1, 2])), None);
    let second = ledger(1, &json!({"1|a@x": {"state": "failed"}, "2|b@x": {"state": "open"}}));
    assert_eq!(next_action(&second, &BTreeSet::new()), Some(2));
}

#[test]
fn only_doubt_is_held_and_only_under_hold() {
    let mixed = ledger(
        2,
        &json!({"1|a@x": {"state": "open", "doubt": true}, "1|b@x": {"state": "open"}, "1|c@x": {"state": "accepted"}}),
    );
    assert_eq!(
        open_deliveries(&mixed, 1, "t", InDoubt::Hold),
        OpenDeliveries { send: vec!["1|b@x".to_owned()], resend: vec![], hold: vec!["1|a@x".to_owned()] }
    );
    let again = open_deliveries(&mixed, 1, "t", InDoubt::Resend);
    assert_eq!(
        (again.send, again.resend),
        (vec!["1|a@x".to_owned(), "1|b@x".to_owned()], vec!["1|a@x".to_owned()])
    );
}

#[test]
fn a_ticket_is_looked_for_when_it_may_exist() {
    let intent = |token: &str| json!({"state": "open", "begun": {"token": token, "at": NOW}});
    let cases = [
        (json!({"state": "open"}), None),
        (json!({"state": "open", "doubt": true}), Some(Search::OverTime)),
        (intent("another"), Some(Search::OverTime)),
        (intent("t"), None),
        (json!({"state": "open", "doubted": true}), Some(Search::Once)),
        (json!({"state": "accepted", "doubted": true}), None),
        (json!({"state": "failed", "doubt": true}), None),
    ];
    for (entry, expected) in cases {
        let ledger = ledger(1, &json!({"1|happyfox": entry}));
        assert_eq!(search(&ledger.deliveries["1|happyfox"], "t"), expected, "{entry}");
    }
}

/// Columns: stored deliveries of a claim under "t", the deliveries whose intent is recorded with it.
#[test]
fn only_a_mail_that_nothing_comes_before_is_begun_with_its_claim() {
    let (open, sent) = (json!({"state": "open"}), json!({"state": "accepted"}));
    let intent = |token: &str| json!({"state": "open", "begun": {"token": token, "at": NOW}});
    let cases: [(&str, Value, &[&str]); 8] = [
        ("the first mail", json!({"1|a@x": open, "2|b@x": open}), &["1|a@x"]),
        ("all of it", json!({"1|a@x": open, "1|b@x": open}), &["1|a@x", "1|b@x"]),
        ("what is left of it", json!({"1|a@x": sent, "1|b@x": open}), &["1|b@x"]),
        ("the next", json!({"1|a@x": sent, "2|b@x": open}), &["2|b@x"]),
        ("begun by the same claim, whose answer was lost", json!({"1|a@x": intent("t")}), &["1|a@x"]),
        ("in doubt", json!({"1|a@x": open, "1|b@x": intent("another")}), &[]),
        ("an address nobody can write to", json!({"1|a@x": open, "1|!1": open}), &[]),
        ("nothing open", json!({"1|a@x": sent}), &[]),
    ];
    for (name, deliveries, expected) in cases {
        assert_eq!(first_mail(&ledger(1, &deliveries), "t"), expected, "{name}");
    }
    let ticket = json!({"action_order": 1, "action_type": "happyfox_template", "destination": ""});
    let stored = json!({"v": 1, "plan": [ticket], "deliveries": {"1|": open}});
    let ticket = Ledger::read(&stored).expect("well-shaped");
    assert!(first_mail(&ticket, "t").is_empty(), "no mail");
}
