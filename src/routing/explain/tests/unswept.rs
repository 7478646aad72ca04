//! The same where nothing sweeps: no time is told that nobody keeps, and neither a sweep nor an alert is promised.

use super::super::super::ledger::FailReason;
use super::*;

const PUBLISH: &str = "if its event was lost: maple-router publish";

/// What is said without a sweep; checks what holds for every case.
fn unswept(name: &str, row: &Row) -> (Explanation, String) {
    let said = told(row, &Rules { sweep: None, ..rules() });
    let shown = serde_json::to_value(&said).expect("JSON");
    for promise in ["sweep", "alert", "Slack", "maple-router release"] {
        assert!(!shown.to_string().contains(promise), "{name} speaks of {promise}: {shown:#}");
    }
    let remedies: Vec<String> = serde_json::from_value(shown["remedy"].clone()).expect("lines");
    (said, remedies.join("\n"))
}

#[test]
fn what_is_open_waits_for_its_event() {
    let r = Row::default;
    let old = "2026-11-01T09:00:00Z";
    let future = "2026-11-01T12:03:00Z";
    let past = "2026-11-01T11:59:30Z";
    // Name, row, next step, its time, part of what, part of the remedy.
    type Promise = (&'static str, Row, Step, Option<&'static str>, &'static str, &'static str);
    let cases: Vec<Promise> = vec![
        ("fresh", r(), Step::Claim, None, "attempt 1 of 5 when its event comes", PUBLISH),
        ("orphan", Row { created: old, ..r() }, Step::Claim, None, "when its event comes", PUBLISH),
        ("infected", Row { infected: 1, ..r() }, Step::Fail, None, "when its event comes", PUBLISH),
        ("damaged", Row { stored: json!([]), ..r() }, Step::Fail, None, "when its event comes", PUBLISH),
        (
            "spent",
            Row { stored: tried(5, Some(future), &deferred()), ..r() },
            Step::Fail,
            None,
            "it fails as exhausted when its event comes",
            PUBLISH,
        ),
        ("no actions", Row { actions: Some(0), ..r() }, Step::Attempt, None, "when its event comes", PUBLISH),
        (
            "between attempts",
            Row { stored: tried(2, Some(future), &deferred()), ..r() },
            Step::Attempt,
            Some(future),
            "attempt 3 of 5: when its event comes, not before then",
            PUBLISH,
        ),
        (
            "due",
            Row { stored: tried(2, Some(past), &deferred()), ..r() },
            Step::Attempt,
            Some(past),
            "when its event comes; it has been due since then",
            PUBLISH,
        ),
        (
            "due, no time",
            Row { stored: tried(2, None, &deferred()), ..r() },
            Step::Attempt,
            None,
            "when its event comes",
            PUBLISH,
        ),
        ("scanning", Row { pending: 1, ..r() }, Step::Scan, None, "and the event of that comes", ""),
        (
            "never finalized",
            Row { finalized: false, created: old, ..r() },
            Step::Finalize,
            None,
            "and the event of that comes",
            "maple-router finalize",
        ),
    ];
    for (name, row, step, when, what, remedy) in cases {
        let (said, remedies) = unswept(name, &row);
        assert_eq!((said.next.code, said.next.when), (step, when.map(time)), "{name}: {said:?}");
        assert!(said.next.what.contains(what), "{name}: {said:?}");
        assert!(remedies.contains(remedy), "{name}: {said:?}");
    }
}

#[test]
fn a_claim_is_ended_by_its_worker_or_not_at_all() {
    let claim = |deadline: &str| {
        json!({"v": 1, "attempts": 1, "plan": plan(), "deliveries": {"1|a@x": {"state": "open", "begun": {"token": "t", "at": NOW}}},
               "claim": {"token": "t", "worker": "maple/1", "at": NOW, "deadline": deadline}})
    };
    let far = "2026-11-01T13:00:00Z";
    let old = "2026-11-01T09:00:00Z";
    let gone = "its worker is gone and this version does not take rows back";
    let processing = |stored, updated| Row { status: Status::Processing, stored, updated, ..Row::default() };
    // Name, row, next step, its time, part of what, part of why.
    let cases = [
        ("live", processing(claim(far), NOW), Step::Finish, Some(far), "ends its claim", "is sending"),
        ("live, quiet", processing(claim(far), old), Step::Finish, Some(far), "ends its claim", "is sending"),
        ("stuck", processing(claim(NOW), old), Step::Nothing, None, gone, "begun to send is in doubt"),
        ("no claim", processing(json!({}), NOW), Step::Nothing, None, "does not take rows back", "no claim"),
        ("damaged", processing(json!([]), NOW), Step::Nothing, None, "does not take rows back", "damaged"),
    ];
    for (name, row, step, when, what, why) in cases {
        let (said, remedies) = unswept(name, &row);
        assert_eq!((said.next.code, said.next.when), (step, when.map(time)), "{name}: {said:?}");
        assert!(said.next.what.contains(what) && said.why.contains(why), "{name}: {said:?}");
        if step == Step::Nothing {
            assert!(remedies.contains("stays as it is until it is taken back"), "{name}: {said:?}");
            assert!(remedies.contains("compare their Message-IDs"), "{name}: {said:?}");
        } else {
            assert!(remedies.is_empty(), "{name}: {said:?}");
        }
    }
}

#[test]
fn what_failed_stays_so_until_somebody_corrects_the_cause() {
    let ended = |reason: Option<FailReason>| {
        json!({"v": 1, "attempts": 2,
               "finished": {"token": "f", "at": NOW, "status": "failed", "reason": reason.map(FailReason::label)}})
    };
    let failed = |stored, infected| Row { status: Status::Failed, stored, infected, ..Row::default() };
    for reason in FailReason::ALL.into_iter().map(Some).chain([None]) {
        let (said, _) = unswept("failed", &failed(ended(reason), 0));
        assert_eq!(said.next, Next::now(Step::Nothing, "nothing by itself: correct the cause"), "{reason:?}");
    }
    for stored in [ended(Some(FailReason::Infected)), json!({})] {
        let (said, remedies) = unswept("infected", &failed(stored, 1));
        assert_eq!(said.next, Next::now(Step::Nothing, "nothing by itself"), "malware is not corrected");
        assert!(remedies.contains("rb-008"), "{said:?}");
    }
}
