//! Submissions without a claim: the event's effect, the next step and its time.

use super::*;

#[test]
fn what_its_event_does_is_said_and_where_to_look() {
    let (old, then) = ("2026-11-01T09:00:00Z", time("2026-11-01T09:00:01Z"));
    let said = |text: &str| Some(text.to_owned());
    let waiting =
        |tries, error: Option<&str>| Event::Waiting { since: then, tries, said: error.map(str::to_owned) };
    let cases = [
        (Event::NotKept, true, "its event is lost", "publish"),
        (Event::None, false, "no event yet", ""),
        (Event::None, true, "no event at all: the triggers", "check"),
        (waiting(0, None), false, "waits in the outbox since 2026-11-01 09:00:01Z: nobody has tried", ""),
        (waiting(1, None), false, "tried once", ""),
        (waiting(3, None), false, "tried 3 times", "check"),
        (waiting(0, None), true, "nobody has tried", "check"),
        (waiting(2, Some("the topic does not take it\u{1b}")), false, "(the topic does not take it", "check"),
        (Event::OnItsWay, true, "is being delivered", "check"),
        (Event::Delivered { at: then, message_id: said("77") }, false, "published as message 77 at", ""),
        (Event::Delivered { at: then, message_id: None }, true, "handed to a worker at", "publish"),
        (
            Event::GivenUp { said: said("it cannot be read") },
            false,
            "given up on (it cannot be read)",
            "publish",
        ),
    ];
    for (event, late, why, remedy) in cases {
        let name = format!("{event:?} {late}");
        let mut row = Row { event, ..Row::default() };
        if late {
            (row.created, row.updated) = (old, old);
        }
        let explained = explained(&row, &rules());
        assert_eq!(explained.next.code, Step::Claim, "{name}");
        assert!(
            explained.why.contains(why) && !explained.why.contains('\u{1b}'),
            "{name}: {}",
            explained.why
        );
        let verbs: Vec<_> = explained.remedy.iter().filter_map(|remedy| remedy.verb).collect();
        assert_eq!(verbs.contains(&remedy), !remedy.is_empty(), "{name}: {verbs:?}");
        assert_eq!(verbs.is_empty(), remedy.is_empty(), "{name}: {verbs:?}");
    }
}

#[test]
fn each_open_case_says_what_follows_and_when() {
    let r = Row::default;
    let old = "2026-11-01T09:00:00Z";
    let history = "2025-01-01T00:00:00Z";
    // Columns: name, row, next step, its time, part of why, part of the remedy.
    type Promise = (&'static str, Row, Step, Option<&'static str>, &'static str, &'static str);
    let cases: Vec<Promise> = vec![
        ("fresh", r(), Step::Claim, Some("2026-11-01T12:15:00Z"), "no worker has taken it yet", ""),
        (
            "orphan",
            Row { created: old, updated: old, ..r() },
            Step::Claim,
            Some(NOW),
            "its event is lost",
            "maple-router publish",
        ),
        (
            "history",
            Row { created: history, ..r() },
            Step::Claim,
            None,
            "its event is lost",
            "maple-router publish",
        ),
        (
            "scanning",
            Row { pending: 1, ..r() },
            Step::Scan,
            Some("2026-11-01T12:59:00Z"),
            "1 of 1 attachment",
            "",
        ),
        (
            "scanning for long",
            Row { pending: 1, created: old, ..r() },
            Step::Scan,
            None,
            "still to be scanned",
            "mark-attachment",
        ),
        (
            "not finalized",
            Row { finalized: false, ..r() },
            Step::Finalize,
            Some("2026-11-01T12:59:00Z"),
            "not finalized",
            "",
        ),
        (
            "never finalized",
            Row { finalized: false, created: old, ..r() },
            Step::Finalize,
            None,
            "not finalized",
            "maple-router finalize",
        ),
        (
            "infected",
            Row { infected: 1, pending: 1, ..r() },
            Step::Fail,
            Some("2026-11-01T12:01:00Z"),
            "malware",
            "rb-008",
        ),
        (
            "infected, history",
            Row { infected: 1, created: history, ..r() },
            Step::Fail,
            None,
            "malware",
            "rb-008",
        ),
        (
            "damaged",
            Row { stored: json!([]), ..r() },
            Step::Fail,
            Some("2026-11-01T12:15:00Z"),
            "the ledger is damaged",
            "routing_result",
        ),
        (
            "newer",
            Row { stored: json!({"v": 7}), infected: 1, ..r() },
            Step::Upgrade,
            None,
            "version 7",
            "upgrade",
        ),
        (
            "no actions",
            Row { actions: Some(0), ..r() },
            Step::Attempt,
            Some("2026-11-01T12:15:00Z"),
            "no actions",
            "reload the YAML",
        ),
        ("strange actions", Row { actions: None, ..r() }, Step::Upgrade, None, "does not know", "upgrade"),
        (
            "between attempts",
            Row { stored: tried(2, Some("2026-11-01T12:03:00Z"), &deferred()), ..r() },
            Step::Attempt,
            Some("2026-11-01T12:03:00Z"),
            "attempt 2 of 5 left 1 delivery open: connect connection refused",
            "systemctl status postfix\nmaple-router check",
        ),
        (
            "due",
            Row { stored: tried(2, Some("2026-11-01T11:59:30Z"), &deferred()), ..r() },
            Step::Attempt,
            Some("2026-11-01T12:02:30Z"),
            "attempt 2 of 5",
            "maple-router publish",
        ),
        (
            "due, history",
            Row { stored: tried(2, Some("2026-11-01T11:59:30Z"), &deferred()), created: history, ..r() },
            Step::Attempt,
            None,
            "attempt 2 of 5",
            "maple-router publish",
        ),
        (
            "given back",
            Row { stored: tried(0, Some("2026-11-01T11:59:30Z"), &json!({"state": "open"})), ..r() },
            Step::Attempt,
            Some("2026-11-01T12:02:30Z"),
            "without an attempt being spent",
            "maple-router publish",
        ),
        (
            "in doubt",
            Row {
                stored: tried(1, None, &json!({"state": "open", "begun": {"token": "t", "at": old}})),
                ..r()
            },
            Step::Attempt,
            Some("2026-11-01T12:15:00Z"),
            "1 delivery in doubt",
            "maple-router publish",
        ),
        (
            "spent",
            Row { stored: tried(5, None, &deferred()), ..r() },
            Step::Fail,
            Some("2026-11-01T12:15:00Z"),
            "all 5 attempts are spent",
            "maple-router check",
        ),
        (
            "spent, but all accepted",
            Row { stored: tried(5, None, &json!({"state": "accepted"})), ..r() },
            Step::Attempt,
            Some("2026-11-01T12:15:00Z"),
            "attempt 5 of 5",
            "",
        ),
    ];
    for (name, row, step, when, why, remedy) in cases {
        let said = explained(&row, &rules());
        assert_eq!((said.next.code, said.next.when), (step, when.map(time)), "{name}: {said:?}");
        assert!(said.why.contains(why), "{name}: {said:?}");
        let lines: String = said.remedy.iter().map(|remedy| format!("{}\n", remedy.line)).collect();
        assert!(lines.contains(remedy), "{name}: {said:?}");
    }
}

#[test]
fn what_waits_for_its_grade_says_who_has_it_and_how_its_mail_goes_without() {
    let attempt = |state: &str, failed: Option<&str>| GradingAttempt {
        id: Uuid::nil(),
        attempt: 2,
        state: state.to_owned(),
        since: time("2026-11-01T11:59:00Z"),
        gate: true,
        deadline: time("2026-11-01T12:20:00Z"),
        failed: failed.map(str::to_owned),
        released: false,
    };
    let (regrade, entry) =
        ("maple-router grading regrade 0", "maple-router review list --cause grading_failed");
    // Columns: attempt, time of the next step, part of why, remedies that it has and has not.
    for (attempt, when, why, has, has_not) in [
        (
            None,
            Some("2026-11-01T12:59:00Z"),
            "no attempt at one yet",
            vec!["maple-router check"],
            vec![regrade],
        ),
        (
            Some(attempt("QUEUED", None)),
            Some("2026-11-01T12:20:00Z"),
            "goes on (QUEUED since 2026-11-01 11:59:00Z)",
            vec!["maple-router grading show 0"],
            vec![regrade, "grading release"],
        ),
        (
            Some(attempt("REVIEW_PENDING", None)),
            None,
            "a person has the last word",
            vec!["maple-router review list --cause grading\n", "maple-router grading release 0"],
            vec![regrade],
        ),
        (
            Some(attempt("FAILED", Some("timeout"))),
            None,
            "attempt 2 was not done by 2026-11-01 12:20:00Z",
            vec![regrade, entry, "maple-router grading release 0"],
            vec![],
        ),
        (
            Some(attempt("FAILED", Some("gave_up"))),
            None,
            "attempt 2 failed (gave_up)",
            vec![regrade, entry],
            vec![],
        ),
    ] {
        let row = Row { gate: Gate::Ungraded, attempt, ..Row::default() };
        let said = explained(&row, &rules());
        assert_eq!((said.next.code, said.next.when), (Step::Grade, when.map(time)), "{said:?}");
        assert!(
            said.why.contains(why) && said.next.what.contains("it is claimed once it is graded"),
            "{said:?}"
        );
        let lines: String = said.remedy.iter().map(|remedy| format!("{}\n", remedy.line)).collect();
        assert!(has.iter().all(|line| lines.contains(line)), "{said:?}");
        assert!(!has_not.iter().any(|line| lines.contains(line)), "{said:?}");
    }
}
