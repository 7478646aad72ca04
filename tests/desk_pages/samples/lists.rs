//! Lists: the queue, submissions, status.

use super::*;

pub(super) fn states(t: Say<'_>) -> Vec<StateCount> {
    let all: [(&str, u64, bool); 10] = [
        ("Pending", 9, true),
        ("Processing", 1, true),
        ("Retrying", 2, true),
        ("UnderReview", 3, true),
        ("Escalated", 1, true),
        ("Resolved", 0, false),
        ("Rejected", 0, false),
        ("Failed", 0, false),
        ("Expired", 0, false),
        ("Dismissed", 0, false),
    ];
    all.into_iter().map(|(state, count, open)| StateCount { state: t(state), count, open }).collect()
}

pub(super) fn line(t: Say<'_>, number: u128, cause: &str, reason: &str, state: &str, why: &str) -> EntryLine {
    let minutes = i64::try_from(number * number * 37 + 4).expect("small");
    EntryLine {
        id: id(number),
        version: 1,
        state: t(state),
        what: t(plain::heading(cause, reason)),
        why: t(why),
        form_id: Some(t("volunteer")),
        queue: t("operations"),
        occurrences: 1,
        assignee: None,
        opened_at: before(minutes),
        state_since: before(minutes),
        expires_at: None,
    }
}

pub(super) fn lines(t: Say<'_>) -> Vec<EntryLine> {
    let of = |number, cause, reason, state, why| line(t, number, cause, reason, state, why);
    vec![
        EntryLine {
            expires_at: Some(now() + SignedDuration::from_hours(40)),
            ..of(12, "failed", "refused", "Pending", "RCPT 550 5.1.1 at example.org; 2 of 3 accepted")
        },
        EntryLine {
            form_id: Some(t("upload")),
            queue: t("security"),
            assignee: Some(t("dana")),
            version: 4,
            ..of(9, "infected", "infected", "Escalated", "1 of 2 attachments, Win.Test.EICAR_HDB-1")
        },
        EntryLine {
            form_id: Some(t("membership")),
            occurrences: 3,
            assignee: Some(t("alice")),
            version: 3,
            ..of(7, "bounced", "bounced", "UnderReview", "mailbox full at mail.example.net, 3 mails")
        },
        EntryLine {
            form_id: Some(t("newsletter")),
            ..of(6, "failed", "no_actions", "Retrying", "attempt 2 of 3, next in 40 min")
        },
        EntryLine {
            form_id: Some(t("press")),
            ..of(5, "failed", "in_doubt", "Pending", "action 1 at example.com, connection lost after the dot")
        },
        EntryLine {
            form_id: None,
            occurrences: 2,
            ..of(4, "dead_letter", "unreadable", "Pending", "from the topic, 1,204 bytes, not JSON")
        },
        EntryLine {
            form_id: None,
            ..of(3, "dead_letter", "unknown_submission", "Processing", "from the outbox; looked for again")
        },
        of(2, "failed", "exhausted", "Pending", "5 of 5 attempts, 1 delivery open at example.org"),
        EntryLine {
            assignee: Some(t("bertrand-louis.de-la-fontaine")),
            ..of(1, "failed", "ledger_damaged", "UnderReview", "expected an object, found a list")
        },
    ]
}

pub(super) fn queue(t: Say<'_>) -> QueuePage {
    let mut frame = frame(t);
    frame.flash = Some(Flash {
        tone: Tone::Done,
        text: t("Rejected: mail was refused for good, form volunteer."),
        accepted: Some(Draft::Entry(id(40), "reject")),
        next: Some(id(12)),
    });
    QueuePage {
        frame,
        filters: QueueFilters::default(),
        choices: QueueChoices {
            causes: choices(
                t,
                &[
                    ("failed", "routing failed"),
                    ("infected", "infected"),
                    ("bounced", "mail came back"),
                    ("dead_letter", "dead letter"),
                ],
            ),
            reasons: choices(
                t,
                &[("refused", "refused"), ("exhausted", "exhausted"), ("in_doubt", "in doubt")],
            ),
            forms: choices(t, &[("contact", "contact"), ("press", "press"), ("volunteer", "volunteer")]),
            queues: choices(t, &[("operations", "operations"), ("security", "security")]),
            people: choices(t, &[("alice", "alice"), ("dana", "dana")]),
            orders: choices(t, &[("oldest", "Oldest first"), ("newest", "Newest first")]),
        },
        summary: states(t),
        entries: lines(t),
        next_cursor: Some(t("MjAyNi0xMS0yNVQwOTozMDowMFo")),
        is_first: true,
        open_in_all: 16,
        bulk: vec![Command::Assign, Command::Unassign, Command::Dismiss, Command::Start],
        typed: BulkTyped::default(),
        idempotency_key: t("0c9f1e9a"),
    }
}

pub(super) fn later(t: Say<'_>) -> QueuePage {
    QueuePage {
        frame: frame(t),
        filters: QueueFilters {
            states: vec![t("Pending"), t("UnderReview")],
            cause: Some(t("failed")),
            reason: Some(t("refused")),
            form: Some(t("volunteer")),
            queue: Some(t("operations")),
            assignee: Some(t("dana")),
            subject: Some(id(3)),
            older_than: Some(t("2d")),
            order: Some(t("newest")),
        },
        is_first: false,
        ..queue(t)
    }
}

pub(super) fn bulk_refused(t: Say<'_>) -> QueuePage {
    let mut page = queue(t);
    page.frame.flash = None;
    page.frame.problems = vec![
        Problem { text: t("Give a reason for dismissing 2 entries."), field: Some("reason".to_owned()) },
        Problem { text: t("1 of 3 was left alone: dana assigned it to herself 2 min ago."), field: None },
    ];
    page.typed = BulkTyped {
        ids: vec![id(12), id(5)],
        command: Some(Command::Dismiss),
        reason: t("spam wave of Tuesday"),
    };
    page
}

pub(super) fn submissions(t: Say<'_>) -> SubmissionsPage {
    let line = |number: u128, form, status, reason: Option<&str>, entry: Option<u128>| SubmissionLine {
        id: id(300 + number),
        form_id: t(form),
        status: t(status),
        reason: reason.map(t),
        attempts: 1,
        created_at: before(i64::try_from(number * 61).expect("small")),
        updated_at: before(i64::try_from(number * 60).expect("small")),
        entry: entry.map(id),
    };
    SubmissionsPage {
        frame: frame(t),
        filters: SubmissionFilters {
            id: Some(t("f3cf339d")),
            status: Some(t("failed")),
            form: Some(t("volunteer")),
            reason: Some(t("refused")),
            older_than: Some(t("1d")),
        },
        statuses: choices(
            t,
            &[
                ("received", "received"),
                ("processing", "processing"),
                ("routed", "routed"),
                ("failed", "failed"),
                ("purged", "purged"),
            ],
        ),
        forms: choices(t, &[("contact", "contact"), ("press", "press"), ("volunteer", "volunteer")]),
        reasons: choices(t, &[("refused", "refused"), ("exhausted", "exhausted")]),
        submissions: vec![
            line(1, "contact", "routed", None, None),
            line(2, "volunteer", "failed", Some("refused"), Some(12)),
            line(5, "upload", "received", None, None),
            line(40, "press", "processing", None, None),
        ],
        is_first: true,
        next_cursor: Some(t("MjAyNi0xMS0yNVQwOTozMDowMFo")),
        looked_back_to: None,
    }
}

pub(super) fn submission(t: Say<'_>) -> SubmissionPage {
    let entries = lines(t).into_iter().take(2).collect();
    SubmissionPage { frame: frame(t), story: story(t), entries }
}

pub(super) fn status(t: Say<'_>) -> StatusPage {
    let count =
        |label, count, minutes: Option<i64>| Count { label: t(label), count, oldest: minutes.map(before) };
    let breaker = |dependency, state| BreakerLine { dependency: t(dependency), state: t(state) };
    StatusPage {
        counted_at: now(),
        frame: frame(t),
        troubles: vec![
            Trouble {
                text: t("relay does not answer: what needs it waits, and nothing fails."),
                command: Some(t("maple-router check")),
            },
            Trouble { text: t("1 dead letters are open."), command: Some(t("maple-router dlq list")) },
        ],
        submissions: vec![
            count("received", 14, Some(12)),
            count("processing", 3, Some(1)),
            count("routed", 48_201, None),
            count("failed", 7, Some(8_000)),
            count("purged", 12_004, None),
        ],
        queue: states(t).into_iter().filter(|count| count.open).collect(),
        oldest_entry: Some(before(5_332)),
        daemon: t("Ready, but the relay does not answer."),
        breakers: vec![breaker("postgres", "closed"), breaker("relay", "open"), breaker("signer", "closed")],
        pauses: vec![PauseLine {
            what: t("form press"),
            by: t("operator:bob"),
            since: before(120),
            until: Some(now() + SignedDuration::from_hours(3)),
            reason: t("the press office moves to another domain"),
        }],
        groups: vec![
            Group {
                title: t("Relay"),
                counts: vec![count("accepted, nothing heard since", 4, Some(66))],
                note: Some(t("The log is followed since 1 Oct 2026.")),
            },
            Group {
                title: t("Outbox"),
                counts: vec![
                    count("pending", 2, Some(1)),
                    count("delivering", 0, None),
                    count("dead_letter", 1, None),
                ],
                note: None,
            },
            Group {
                title: t("Dead letters"),
                counts: Vec::new(),
                note: Some(t("The records of this host cannot be read.")),
            },
        ],
    }
}

pub(super) fn calm(t: Say<'_>) -> StatusPage {
    StatusPage {
        troubles: Vec::new(),
        pauses: Vec::new(),
        breakers: Vec::new(),
        oldest_entry: None,
        ..status(t)
    }
}
