//! Tables: a row for each case, and its explanation.

mod open;
mod tickets;

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-11-01T12:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn rules() -> Rules {
    let s = Duration::from_secs;
    Rules {
        link_ttl: Duration::from_secs(7 * 86_400),
        max_attempts: 5,
        unready_alert_after: s(3600),
        stuck_after: s(600),
        sweep_interval: s(60),
        longest_pause: s(300),
        due_grace: s(120),
        orphan_after: s(900),
        not_before: Some(time("2026-01-01T00:00:00Z")),
        alerts: true,
        resend: true,
        tickets: false,
    }
}

/// A row of the tables below; all else is as in a ready submission of a minute ago.
#[derive(Clone)]
struct Row {
    status: Status,
    stored: Value,
    finalized: bool,
    pending: usize,
    infected: usize,
    actions: Option<usize>,
    created: &'static str,
    updated: &'static str,
    kept_until: Option<&'static str>,
    event: Event,
    gate: Gate,
    attempt: Option<GradingAttempt>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            status: Status::Received,
            stored: json!({}),
            finalized: true,
            pending: 0,
            infected: 0,
            actions: Some(1),
            created: "2026-11-01T11:59:00Z",
            updated: "2026-11-01T11:59:00Z",
            kept_until: None,
            event: Event::NotKept,
            gate: Gate::Passed,
            attempt: None,
        }
    }
}

fn explained(row: &Row, rules: &Rules) -> Explanation {
    let ledger = Ledger::read(&row.stored);
    let ids = |n: usize| vec![Uuid::from_u128(7); n];
    let (pending, infected) = (ids(row.pending), ids(row.infected));
    explain(
        &Case {
            id: Uuid::from_u128(1),
            form: "f",
            status: row.status,
            ledger: ledger.as_ref(),
            finalized: row.finalized,
            gate: row.gate,
            run: None,
            attempt: row.attempt.as_ref(),
            pending: &pending,
            infected: &infected,
            attachments: row.pending + row.infected,
            actions: row.actions,
            event: &row.event,
            created_at: time(row.created),
            updated_at: time(row.updated),
            retention_expires_at: row.kept_until.map(time),
            retained: None,
            now: time(NOW),
        },
        rules,
    )
}

fn plan() -> Value {
    json!([{"action_order": 1, "action_type": "email_raw", "destination": "a@x"}])
}

fn tried(attempts: u32, due: Option<&str>, delivery: &Value) -> Value {
    let mut stored = json!({"v": 1, "attempts": attempts, "plan": plan(), "deliveries": {"1|a@x": delivery}});
    if let Some(due) = due {
        stored["next_attempt_at"] = json!(due);
    }
    stored
}

fn deferred() -> Value {
    json!({"state": "open", "error": {"class": "deferred", "stage": "connect", "reply": "connection refused"}})
}

#[test]
fn each_claim_says_who_has_it_and_when_it_is_taken_back() {
    let claim = |deadline: &str| {
        json!({"v": 1, "attempts": 1, "plan": plan(), "deliveries": {"1|a@x": {"state": "open", "begun": {"token": "t", "at": NOW}}},
               "claim": {"token": "t", "worker": "maple/1", "at": NOW, "deadline": deadline}})
    };
    let far = "2026-11-01T13:00:00Z";
    let processing = |stored, updated| Row { status: Status::Processing, stored, updated, ..Row::default() };
    let cases = [
        ("live", processing(claim(far), NOW), Step::Finish, "2026-11-01T12:10:00Z", "is sending"),
        (
            "near its deadline",
            processing(claim("2026-11-01T12:01:00Z"), NOW),
            Step::Finish,
            "2026-11-01T12:01:00Z",
            "maple/1",
        ),
        (
            "stuck",
            processing(claim(far), "2026-11-01T11:50:00Z"),
            Step::Rescue,
            "2026-11-01T12:01:00Z",
            "has not touched it",
        ),
        ("no claim", processing(json!({}), NOW), Step::Rescue, "2026-11-01T12:11:00Z", "names no claim"),
        ("damaged", processing(json!([]), NOW), Step::Rescue, "2026-11-01T12:11:00Z", "damaged"),
    ];
    for (name, row, step, when, why) in cases {
        let said = explained(&row, &rules());
        assert_eq!((said.next.code, said.next.when), (step, Some(time(when))), "{name}: {said:?}");
        assert!(said.why.contains(why), "{name}: {said:?}");
    }
}

#[test]
fn each_end_says_why_and_whether_it_was_told() {
    use crate::routing::submission::ledger::FailReason;
    let ended = |reason: Option<FailReason>, alert: &Value| {
        json!({"v": 1, "attempts": 2, "alert": alert,
               "finished": {"token": "f", "at": NOW, "status": "failed", "reason": reason.map(FailReason::label)}})
    };
    let confirmed = |token: &str| json!({"for": token, "confirmed_at": NOW});
    for reason in FailReason::ALL.iter().copied() {
        let row = Row { status: Status::Failed, stored: ended(Some(reason), &json!(null)), ..Row::default() };
        let said = explained(&row, &rules());
        assert_eq!(said.next.code, Step::Alert, "{reason:?}: {said:?}");
        assert!(!said.why.is_empty() && !said.remedy.is_empty(), "{reason:?}: {said:?}");
    }
    let refused = |alert: &Value| ended(Some(FailReason::Refused), alert);
    let failed = |stored, infected, kept_until| Row {
        status: Status::Failed,
        stored,
        infected,
        kept_until,
        ..Row::default()
    };
    let kept = Some("2026-12-01T00:00:00Z");
    let cases = [
        ("alerted", failed(refused(&confirmed("f")), 0, kept), Step::Purge, "refused for good"),
        (
            "alerted before a replay",
            failed(refused(&confirmed("older")), 0, kept),
            Step::Alert,
            "refused for good",
        ),
        ("no reason", failed(ended(None, &json!(null)), 0, None), Step::Alert, "no reason"),
        ("by the scan worker", failed(json!({}), 1, None), Step::Alert, "scan worker failed it"),
        (
            "by the scan worker, alerted",
            failed(json!({"alert": {"for": null, "confirmed_at": NOW}}), 1, kept),
            Step::Purge,
            "scan worker failed it",
        ),
        (
            "by the scan worker, history",
            Row { created: "2025-12-31T00:00:00Z", ..failed(json!({}), 1, None) },
            Step::Nothing,
            "scan worker failed it",
        ),
        (
            "an end without a token, alerted for another",
            failed(
                json!({"finished": {"at": NOW, "status": "failed"}, "alert": confirmed("older")}),
                0,
                kept,
            ),
            Step::Alert,
            "no reason",
        ),
        ("by somebody", failed(json!({}), 0, None), Step::Nothing, "somebody else"),
        ("damaged", failed(json!(3), 0, None), Step::Nothing, "damaged"),
        (
            "purged",
            Row { status: Status::Purged, stored: json!({"v": 7}), ..Row::default() },
            Step::Nothing,
            "removed",
        ),
    ];
    for (name, row, step, why) in cases {
        let said = explained(&row, &rules());
        assert_eq!(said.next.code, step, "{name}: {said:?}");
        assert!(said.why.contains(why), "{name}: {said:?}");
    }
}

#[test]
fn each_routed_case_says_what_was_sent() {
    let routed = |deliveries: Value| Row {
        status: Status::Routed,
        stored: json!({"v": 1, "deliveries": deliveries}),
        kept_until: Some("2026-12-01T00:00:00Z"),
        ..Row::default()
    };
    let cases = [
        (json!({"1|a@x": {"state": "accepted"}}), "accepted every delivery (1 of 1)"),
        (json!({"1|": {"state": "not_implemented"}}), "nothing was sent"),
        (
            json!({"1|a@x": {"state": "accepted"}, "2|": {"state": "not_implemented"}}),
            "1 action is of a type",
        ),
        (
            json!({"1|a@x": {"state": "accepted", "dups": [{}], "late": true}}),
            "1 delivery accepted more than once",
        ),
        (json!({"1|a@x": {"state": "accepted", "late": true}}), "1 acceptance recorded after the end"),
        (json!({}), "names no delivery"),
    ];
    for (deliveries, why) in cases {
        let said = explained(&routed(deliveries), &rules());
        assert!(said.why.contains(why), "{said:?}");
        assert_eq!(
            (said.next.code, said.next.when),
            (Step::Purge, Some(time("2026-12-01T00:00:00Z"))),
            "{said:?}"
        );
        assert!(said.remedy.is_empty(), "nothing needs to be done: {said:?}");
    }
}

#[test]
fn what_became_of_mails_beyond_the_relay_is_said_and_how_lost_ones_are_sent_again() {
    let relay = |status: &str, more: Value| {
        let mut entry = json!({"status": status, "at": "2026-11-01T11:00:00Z", "dsn": "5.1.1",
                              "relay": "mx.x[192.0.2.1]:25", "text": "<a@x.test>: no\u{1b} such user"});
        entry.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"state": "accepted", "relay": entry})
    };
    let none = || json!({});
    let notified_at = json!({"told_at": "2026-11-01T11:30:00Z"});
    let said = "5.1.1 mx.x[192.0.2.1]:25: <address>: no such user";
    let mut former = json!({"1|a@x.test": relay("bounced", none())});
    former["1|a@x.test"]["generation"] = json!(1);
    // Columns: entries, generations, part of why, part of the next step, commands.
    let cases = [
        (
            json!({"1|a@x.test": relay("bounced", none())}),
            none(),
            format!("1 mail lost, refused further on: {said}"),
            "the alert of the lost mail is sent until Slack confirms it; nothing more",
            vec!["--force-action 1", "--replan"],
        ),
        (
            json!({"2|a@x.test": relay("expired", notified_at.clone()), "1|a@x.test": relay("bounced", notified_at)}),
            none(),
            format!("; 1 mail lost, given up by the relay: {said}"),
            "Slack took the alert of the lost mail at 2026-11-01 11:30:00Z; nothing more",
            vec!["--force-action 1", "--force-action 2", "--replan"],
        ),
        (
            json!({"1|a@x.test": relay("deferred", json!({"since": "2026-11-01T10:00:00Z"}))}),
            none(),
            format!("1 mail in the relay's queue since 2026-11-01 10:00:00Z: {said}"),
            "nothing more",
            vec![],
        ),
        (
            json!({"1|a@x.test": relay("delivered", none())}),
            none(),
            "1 mail delivered".to_owned(),
            "nothing more",
            vec![],
        ),
        (former, json!({"1": 1}), "(1 of 1)".to_owned(), "nothing more", vec![]),
        (
            json!({"1|a@x.test": relay("bounced", none()), "1|o'b@x.test": relay("delivered", none())}),
            json!({"1": 1}),
            format!("1 mail lost, refused further on: {said}; 1 mail delivered"),
            "the alert of the lost mail is sent until Slack confirms it; nothing more",
            vec!["--force-delivery '1|a@x.test' --reason TEXT", "--replan"],
        ),
        (
            json!({"1|o'b@x.test": relay("bounced", none()), "1|c@x.test": {"state": "accepted"}}),
            none(),
            format!("1 mail lost, refused further on: {said}"),
            "the alert of the lost mail is sent until Slack confirms it; nothing more",
            vec![r"--force-delivery '1|o'\''b@x.test' --reason TEXT", "--replan"],
        ),
        (
            json!({"1|a@x.test": relay("bounced", none()), "1|b@x.test": relay("expired", none())}),
            none(),
            format!("1 mail lost, given up by the relay: {said}"),
            "the alert of the lost mail is sent until Slack confirms it; nothing more",
            vec!["--force-action 1", "--replan"],
        ),
    ];
    for (deliveries, generations, why, next, commands) in cases {
        let stored = json!({"v": 1, "deliveries": deliveries, "generations": generations});
        let explained = explained(&Row { status: Status::Routed, stored, ..Row::default() }, &rules());
        assert!(
            explained.why.ends_with(&why) || explained.why.contains(&format!("{why};")),
            "{why} in {explained:?}"
        );
        assert!(explained.next.what.starts_with(next), "{explained:?}");
        let lines: Vec<&str> = explained.remedy.iter().map(|remedy| remedy.line.as_str()).collect();
        assert_eq!(lines.len(), commands.len(), "{explained:?}");
        for (line, command) in lines.iter().zip(commands) {
            assert!(line.starts_with("maple-router replay ") && line.contains(command), "{line}");
        }
    }
}

#[test]
fn a_relays_words_are_one_harmless_line() {
    let reply = Reply {
        code: Some(550),
        enhanced: Some("5.1.1".to_owned()),
        reply: format!("no\u{1b}[2J such\r\nuser\u{9b}\u{202e} {}", "x".repeat(500)),
    };
    let text = said(Stage::Rcpt, &reply);
    assert!(text.starts_with("RCPT 550 5.1.1 no [2J such user"), "{text}");
    assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
    assert!(text.chars().count() < 150, "{text}");
}

#[test]
fn deferred_tickets_of_what_is_routed_name_the_back_fill_where_there_is_a_help_desk() {
    let stored = |deliveries: &Value| {
        json!({"v": 1, "plan": plan(), "deliveries": deliveries,
            "finished": {"token": "t", "at": NOW, "status": "routed"}})
    };
    let deferred = stored(&json!({"1|a@x": {"state": "accepted"}, "2|": {"state": "not_implemented"}}));
    let made = stored(&json!({"1|a@x": {"state": "accepted"}, "2|happyfox": {"state": "accepted"}}));
    let named = |stored: &Value, tickets: bool| {
        let row = Row { status: Status::Routed, stored: stored.clone(), ..Row::default() };
        let remedy = explained(&row, &Rules { tickets, ..rules() }).remedy;
        remedy.into_iter().map(|remedy| remedy.line).collect::<Vec<_>>()
    };
    assert_eq!(named(&deferred, true), ["maple-router happyfox backfill --form f --reason TEXT"]);
    assert_eq!(named(&deferred, false), Vec::<String>::new());
    assert_eq!(named(&made, true), Vec::<String>::new());
}
