//! The pages with everything they can show, every text of which passes through one function: as it is for looking, hostile
//! for the tests.

use jiff::{SignedDuration, Timestamp};
use maple_router::desk::pages::decision::{
    Action, Ask, Command, Conflict, Field, FieldError, HistoryLine, NotNow, Remedy, Typed,
};
use maple_router::desk::pages::entry::{
    EntryFacts, EntryPage, Escalation, Evidence, Fact, Job, Rejection, SubjectView,
};
use maple_router::desk::pages::frame::{Draft, Flash, Frame, Problem, Tone, Viewer};
use maple_router::desk::pages::lifecycles::{ApiPage, LifecyclePage, LifecyclesPage};
use maple_router::desk::pages::login::{HowToPage, LinkPage, LoggedOutPage, ProblemPage};
use maple_router::desk::pages::plain;
use maple_router::desk::pages::queue::{
    BulkTyped, Choice, EntryLine, QueueChoices, QueueFilters, QueuePage, QueueRows, StateCount,
};
use maple_router::desk::pages::status::{BreakerLine, Count, Group, PauseLine, StatusPage, Trouble};
use maple_router::desk::pages::story::{DeliveryLine, LetterView, MailLine, MailShown, Moment, Story};
use maple_router::desk::pages::submissions::{
    SubmissionFilters, SubmissionLine, SubmissionPage, SubmissionsPage,
};
use maple_router::kernel::describe::{Described, Transition, describe};
use maple_router::outbox::table::Outbox;
use maple_router::routing::table::Submission;
use uuid::Uuid;

/// What becomes of each text.
pub(crate) type Say<'a> = &'a dyn Fn(&str) -> String;

/// One page: its name, its HTML, its values as `Debug` shows them.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) html: String,
    pub(crate) values: String,
}

fn sample(name: &'static str, page: &(impl std::fmt::Display + std::fmt::Debug)) -> Sample {
    Sample { name, html: page.to_string(), values: format!("{page:?}") }
}

/// Every page.
pub(crate) fn all(t: Say<'_>) -> Vec<Sample> {
    let empty = |filters: QueueFilters, open: u64| QueuePage {
        filters,
        entries: Vec::new(),
        next_cursor: None,
        open_in_all: open,
        frame: frame(t),
        ..queue(t)
    };
    let mine = QueueFilters { assignee: Some("me".to_owned()), ..QueueFilters::default() };
    let narrow = QueueFilters { form: Some(t("press")), ..QueueFilters::default() };
    let mut looking = queue(t);
    looking.bulk = Vec::new();
    looking.frame.flash = None;
    let lifecycles = LifecyclesPage { frame: frame(t), lifecycles: lifecycles() };
    let one = |lifecycle| LifecyclePage { frame: frame(t), lifecycle };
    vec![
        sample("queue", &queue(t)),
        sample("queue-later-page", &later(t)),
        sample("queue-looking", &looking),
        sample("queue-empty", &empty(QueueFilters::default(), 0)),
        sample("queue-nothing-mine", &empty(mine, 14)),
        sample("queue-no-match", &empty(narrow, 14)),
        sample("queue-bulk-refused", &bulk_refused(t)),
        sample("entry-pending", &entry(t)),
        sample("entry-mine", &entry_mine(t)),
        sample("entry-conflict", &entry_conflict(t)),
        sample("entry-conflict-gone", &entry_conflict_gone(t)),
        sample("entry-refused", &entry_refused(t)),
        sample("entry-escalated", &entry_escalated(t)),
        sample("entry-moving", &entry_moving(t)),
        sample("entry-rejected", &entry_rejected(t)),
        sample("entry-dead-letter", &entry_dead_letter(t, false)),
        sample("entry-payload", &entry_dead_letter(t, true)),
        sample("entry-shown", &entry_shown(t)),
        sample("submissions", &submissions(t)),
        sample(
            "submissions-none",
            &SubmissionsPage { submissions: Vec::new(), next_cursor: None, ..submissions(t) },
        ),
        sample("submission", &submission(t)),
        sample("status", &status(t)),
        sample("status-calm", &calm(t)),
        sample("lifecycles", &lifecycles),
        sample("lifecycle-submission", &one(describe::<Submission>())),
        sample("lifecycle-outbox", &one(describe::<Outbox>())),
        sample("lifecycle-grey-queue", &one(grey_queue())),
        sample("api", &ApiPage { frame: frame(t), origin: t("http://desk.localhost:9465") }),
        sample("link", &link(t)),
        sample("how-to", &how_to(t, false)),
        sample("how-to-proxy", &how_to(t, true)),
        sample("logged-out", &LoggedOutPage { now: now() }),
        sample("problem", &problem(t, true)),
        sample("problem-unknown-reader", &problem(t, false)),
    ]
}

/// Rows alone, as the script asks for them.
pub(crate) fn rows(t: Say<'_>) -> QueueRows {
    QueueRows { now: now(), entries: lines(t), selectable: true }
}

pub(crate) fn now() -> Timestamp {
    "2026-11-25T09:30:00Z".parse().expect("a timestamp")
}

fn before(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x8f1e_1727_347b_4b62_931f_0000_0000_0000 + number * 0x0001_0000_0000_1d37_0000_a000)
}

fn frame(t: Say<'_>) -> Frame {
    Frame::new(now(), Some(Viewer { name: t("alice"), role: t("reviewer") }))
}

fn choices(t: Say<'_>, all: &[(&str, &str)]) -> Vec<Choice> {
    all.iter().map(|(value, label)| Choice { value: t(value), label: t(label) }).collect()
}

fn states(t: Say<'_>) -> Vec<StateCount> {
    let all: [(&str, u64, bool); 10] = [
        ("Pending", 9, true),
        ("Processing", 1, true),
        ("Retrying", 2, true),
        ("UnderReview", 3, true),
        ("Escalated", 1, true),
        ("Resolved", 1_284, false),
        ("Rejected", 37, false),
        ("Failed", 0, false),
        ("Expired", 4, false),
        ("Dismissed", 118, false),
    ];
    all.into_iter().map(|(state, count, open)| StateCount { state: t(state), count, open }).collect()
}

fn line(t: Say<'_>, number: u128, cause: &str, reason: &str, state: &str, why: &str) -> EntryLine {
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
        evidence_sufficient: false,
    }
}

fn lines(t: Say<'_>) -> Vec<EntryLine> {
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
            evidence_sufficient: true,
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

fn queue(t: Say<'_>) -> QueuePage {
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

fn later(t: Say<'_>) -> QueuePage {
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

fn bulk_refused(t: Say<'_>) -> QueuePage {
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

fn remedies(t: Say<'_>) -> Vec<Remedy> {
    let remedy = |value, label, hint| Remedy { value: t(value), label: t(label), hint: t(hint) };
    vec![
        remedy("replay", "Replay", "Sends what nobody has accepted, by the same plan."),
        remedy(
            "replan",
            "Replay with a new plan",
            "Sends by the form's plan of today; mend the address there first.",
        ),
        remedy("check", "Only look", "Sends nothing; waits for evidence that somebody mended it elsewhere."),
    ]
}

fn action(t: Say<'_>, ask: Ask) -> Action {
    Action { ask, idempotency_key: t("77b1c0de"), typed: Typed::default(), error: None }
}

/// Minutes ago, who, command, from, to, reason.
type Step<'a> = (i64, &'a str, &'a str, Option<&'a str>, &'a str, Option<&'a str>);

fn history(t: Say<'_>, steps: &[Step<'_>]) -> Vec<HistoryLine> {
    let line = |(version, (minutes, who, command, from, to, reason)): (i64, &Step<'_>)| HistoryLine {
        at: before(*minutes),
        who: t(who),
        command: t(command),
        from: from.map(t),
        to: t(to),
        reason: reason.map(t),
        version,
    };
    (1..).zip(steps).map(line).collect()
}

fn facts(t: Say<'_>) -> EntryFacts {
    EntryFacts {
        id: id(12),
        version: 1,
        state: t("Pending"),
        heading: plain::heading("failed", "refused"),
        meaning: t(plain::meaning("failed", "refused")),
        cause: t("failed"),
        reason: t("refused"),
        queue: t("operations"),
        subject_kind: t("submission"),
        subject_id: id(300),
        form_id: Some(t("volunteer")),
        form_name: Some(t("Volunteer sign-up")),
        occurrences: 1,
        opened_at: before(5_332),
        seen_at: before(5_332),
        state_since: before(5_332),
        expires_at: Some(now() + SignedDuration::from_hours(40)),
        closed_at: None,
        assignee: None,
        escalation: None,
        rejection: None,
        resolution: None,
        job: None,
        detail: vec![
            Fact { name: t("stage"), value: t("RCPT") },
            Fact { name: t("code"), value: t("550 5.1.1") },
            Fact { name: t("domain"), value: t("example.org") },
        ],
    }
}

const EXPLAIN: &str = "\
f3cf339d-347b-4b62-931f-68d7024fd410  FAILED (refused)
form      volunteer \"Volunteer\"
time      submitted 2026-11-21 16:38:02Z (3d ago), changed 3d ago
files     no attachments
attempts  1 of 5
plan      1 email_template volunteer-mail
delivery  1 example.org  failed
            RCPT 550 5.1.1 no such user
          1 example.org  accepted, 250 2.0.0, queue id 4D41504C49
            <maple.f3cf339d347b4b62931f68d7024fd410.1.0@greenpeace.org>
          1 example.org  accepted, 250 2.0.0, queue id 4D41504C49
why       1 delivery refused for good: RCPT 550 5.1.1 no such user; 2 of 3 deliveries had been
          accepted and stay so
next      it stays as it is until a person acts";

fn story(t: Say<'_>) -> Story {
    let moment = |minutes, lifecycle, what, who: Option<&str>, words| Moment {
        at: before(minutes),
        lifecycle: t(lifecycle),
        what: t(what),
        who: who.map(t),
        words: t(words),
    };
    let delivery = |state, relay: Option<&str>, reply: Option<&str>, queue_id: Option<&str>| DeliveryLine {
        action: 1,
        recipient: None,
        domain: Some(t("example.org")),
        state: t(state),
        relay: relay.map(t),
        reply: reply.map(t),
        queue_id: queue_id.map(t),
        at: Some(before(5_332)),
    };
    Story {
        id: id(300),
        form_id: t("volunteer"),
        form_name: Some(t("Volunteer sign-up")),
        status: t("failed"),
        reason: Some(t("refused")),
        created_at: before(5_333),
        updated_at: before(5_332),
        retention_expires_at: Some(now() + SignedDuration::from_hours(24 * 86)),
        attempts: 1,
        max_attempts: 5,
        why: t(
            "1 delivery refused for good: RCPT 550 5.1.1 no such user; 2 of 3 deliveries had been accepted and stay so.",
        ),
        next: t("It stays as it is until a person acts."),
        explain: t(EXPLAIN),
        timeline: vec![
            moment(5_333, "submission", "finalized", None, "no attachments"),
            moment(5_333, "outbox", "delivered", None, "routing event, attempt 1"),
            moment(5_333, "submission", "claimed", None, "attempt 1"),
            moment(5_332, "delivery", "email_sent", None, "attempt 1, 1 example.org, 4D41504C49"),
            moment(
                5_332,
                "delivery",
                "email_failed",
                None,
                "attempt 1, 1 example.org, RCPT 550 5.1.1 no such user",
            ),
            moment(5_332, "submission", "submission_route_failed", None, "attempt 1, refused"),
            moment(5_332, "grey_queue", "open", None, "failed, refused"),
            moment(310, "submission", "replay", Some("operator:bob"), "the mailbox was made anew"),
        ],
        deliveries: vec![
            delivery("failed", None, Some("RCPT 550 5.1.1 no such user"), None),
            delivery("accepted", Some("delivered"), Some("250 2.0.0"), Some("4D41504C49")),
            DeliveryLine {
                domain: None,
                at: None,
                ..delivery("accepted", Some("unheard"), None, Some("4D41504C49"))
            },
        ],
        recipients_shown: false,
        may_show: true,
        mails: vec![
            MailLine { number: 1, action: 1, recipients: 3, sent_at: Some(before(5_332)), shown: None },
            MailLine { number: 2, action: 2, recipients: 1, sent_at: None, shown: None },
        ],
    }
}

fn entry(t: Say<'_>) -> EntryPage {
    EntryPage {
        frame: frame(t),
        entry: facts(t),
        evidence: Evidence {
            sufficient: false,
            found: vec![t("2 of 3 deliveries are accepted; the relay's log says that 1 was delivered")],
            missing: vec![
                t("1 delivery at example.org is refused"),
                t("the submission is failed, not routed"),
            ],
        },
        actions: vec![
            action(t, Ask::AssignToMe),
            action(t, Ask::AssignTo(choices(t, &[("bob", "bob, reviewer"), ("dana", "dana, security")]))),
            action(t, Ask::Start(remedies(t))),
            action(t, Ask::Dismiss),
        ],
        not_now: vec![
            NotNow {
                command: Command::Resolve,
                why: t("Only its assignee resolves; assign it to yourself first."),
            },
            NotNow {
                command: Command::Reject,
                why: t("Only its assignee rejects; assign it to yourself first."),
            },
            NotNow { command: Command::Escalate, why: t("Only from under review.") },
        ],
        conflict: None,
        history: history(t, &[(5_332, "system", "open", None, "Pending", None)]),
        subject: SubjectView::Submission(Box::new(story(t))),
        watching: vec![t("bob"), t("dana")],
        next: Some(id(9)),
    }
}

fn entry_mine(t: Say<'_>) -> EntryPage {
    let mut page = entry(t);
    page.entry.version = 2;
    page.entry.state = t("UnderReview");
    page.entry.state_since = before(25);
    page.entry.assignee = Some(t("alice"));
    page.entry.expires_at = None;
    page.frame.flash = Some(Flash {
        tone: Tone::Done,
        text: t("It is yours now."),
        accepted: Some(Draft::Entry(id(12), "assign-me")),
        next: None,
    });
    page.history = history(
        t,
        &[
            (5_332, "system", "open", None, "Pending", None),
            (25, "alice", "assign", Some("Pending"), "UnderReview", None),
        ],
    );
    page.actions = vec![
        action(t, Ask::Resolve { remedies: remedies(t), by_evidence: false }),
        action(t, Ask::Reject),
        action(t, Ask::Escalate),
        action(t, Ask::Vouch),
        action(t, Ask::Unassign),
    ];
    page.not_now = vec![NotNow { command: Command::Dismiss, why: t("Only while nobody has it.") }];
    page.watching = vec![t("bob")];
    page
}

fn conflicting(t: Say<'_>) -> (Vec<HistoryLine>, Typed) {
    let all = history(
        t,
        &[
            (5_332, "system", "open", None, "Pending", None),
            (90, "alice", "assign", Some("Pending"), "UnderReview", None),
            (6, "dana", "unassign", Some("UnderReview"), "Pending", None),
            (
                6,
                "dana",
                "assign",
                Some("Pending"),
                "UnderReview",
                Some("took over: alice is away until Monday"),
            ),
        ],
    );
    let typed = Typed {
        reason: t("The mailbox exists again since this morning; the postmaster of example.org says so."),
        remedy: t("replan"),
        assignee: String::new(),
    };
    (all, typed)
}

fn entry_conflict(t: Say<'_>) -> EntryPage {
    let (all, typed) = conflicting(t);
    let mut page = entry_mine(t);
    page.frame.flash = None;
    page.entry.version = 4;
    page.entry.assignee = Some(t("dana"));
    page.actions[0].typed = typed.clone();
    let changes = all[2..].to_vec();
    page.conflict = Some(Conflict { command: Command::Resolve, seen_version: 2, changes, typed });
    page.history = all;
    page
}

fn entry_conflict_gone(t: Say<'_>) -> EntryPage {
    let mut page = entry_conflict(t);
    page.actions = vec![action(t, Ask::TakeOver(t("dana")))];
    page
}

fn entry_refused(t: Say<'_>) -> EntryPage {
    let mut page = entry_mine(t);
    page.frame.flash = None;
    page.actions[0].error =
        Some(FieldError { field: Field::Remedy, text: t("Choose a remedy: the evidence is not there.") });
    page.actions[1].error =
        Some(FieldError { field: Field::Reason, text: t("Say why; spaces are no reason.") });
    page.actions[1].typed.reason = t("   ");
    let mut assign = action(t, Ask::AssignTo(choices(t, &[("bob", "bob"), ("dana", "dana")])));
    assign.error = Some(FieldError { field: Field::Assignee, text: t("carol is not active any more.") });
    assign.typed.assignee = t("carol");
    page.actions.push(assign);
    page.frame.problems = page
        .actions
        .iter()
        .filter_map(|action| {
            let error = action.error.as_ref()?;
            Some(Problem { text: error.text.clone(), field: Some(action.anchor(error.field)) })
        })
        .collect();
    page
}

fn entry_escalated(t: Say<'_>) -> EntryPage {
    let mut page = entry_mine(t);
    page.frame = Frame::new(now(), Some(Viewer { name: t("dana"), role: t("security") }));
    page.entry = EntryFacts {
        heading: plain::heading("infected", "infected"),
        meaning: t(plain::meaning("infected", "infected")),
        cause: t("infected"),
        reason: t("infected"),
        queue: t("security"),
        state: t("Escalated"),
        occurrences: 4,
        seen_at: before(30),
        escalation: Some(Escalation {
            reason: t("The same file came by three forms within an hour."),
            by: t("alice"),
            at: before(20),
            alerted_at: Some(before(19)),
        }),
        ..page.entry
    };
    page.evidence = Evidence {
        sufficient: true,
        found: vec![t("the submission is routed"), t("every delivery of its plan is delivered")],
        missing: Vec::new(),
    };
    page.actions = vec![
        action(t, Ask::Resolve { remedies: remedies(t), by_evidence: true }),
        action(t, Ask::Reject),
        action(t, Ask::DeEscalate),
    ];
    page
}

fn entry_moving(t: Say<'_>) -> EntryPage {
    let mut page = entry(t);
    page.frame.flash = Some(Flash {
        tone: Tone::Underway,
        text: t("Started: replay with a new plan. It resolves when there is evidence."),
        accepted: Some(Draft::Entry(id(12), "start")),
        next: Some(id(9)),
    });
    page.entry.state = t("Retrying");
    page.entry.job = Some(Job {
        remedy: t("replan"),
        attempts: 1,
        max_attempts: 3,
        next_at: Some(now() + SignedDuration::from_mins(14)),
        asked_by: Some(t("alice")),
    });
    page.actions = Vec::new();
    page.subject = SubjectView::Away(t(
        "The database of submissions did not answer in 2 s. Reload in a minute; decisions are possible all the same.",
    ));
    page
}

fn entry_rejected(t: Say<'_>) -> EntryPage {
    let mut page = entry(t);
    page.entry.state = t("Rejected");
    page.entry.closed_at = Some(before(12));
    page.entry.rejection =
        Some(Rejection { reason: t("A test of the web team, confirmed by phone."), by: t("alice") });
    page.entry.resolution = Some(t("vouched"));
    page.entry.job =
        Some(Job { remedy: t("check"), attempts: 3, max_attempts: 3, next_at: None, asked_by: None });
    page.actions = vec![action(t, Ask::Reopen), action(t, Ask::Reset)];
    page.watching = vec![t("bob"), t("dana"), t("erin")];
    page
}

fn entry_dead_letter(t: Say<'_>, shown: bool) -> EntryPage {
    let mut page = entry(t);
    page.entry = EntryFacts {
        heading: plain::heading("dead_letter", "unreadable"),
        meaning: t(plain::meaning("dead_letter", "unreadable")),
        cause: t("dead_letter"),
        reason: t("unreadable"),
        subject_kind: t("dead_letter"),
        form_id: None,
        form_name: None,
        detail: Vec::new(),
        ..page.entry
    };
    page.subject = SubjectView::Letter(Box::new(LetterView {
        id: id(77),
        kind: t("unreadable"),
        source: t("pubsub"),
        at: before(600),
        error: t("not JSON: expected value at line 1 column 1"),
        submission: Some(id(300)),
        redriven_at: Some(before(200)),
        size: 1_204,
        may_show: true,
        payload: shown.then(|| t("hello?\n{\"submission\": ")),
    }));
    page
}

fn entry_shown(t: Say<'_>) -> EntryPage {
    let mut page = entry_mine(t);
    let mut story = story(t);
    story.recipients_shown = true;
    for (delivery, whom) in story.deliveries.iter_mut().zip(["south", "north", "volunteers"]) {
        delivery.recipient = Some(t(&format!("{whom}@example.org")));
    }
    let headers = [
        ("From", "gpus-it-security@greenpeace.org"),
        ("To", "volunteers@example.org"),
        ("Subject", "New volunteer: Jo Example"),
        ("Message-ID", "<maple.f3cf339d347b4b62931f68d7024fd410.1.0@greenpeace.org>"),
    ];
    story.mails[0].shown = Some(MailShown {
        headers: headers.map(|(name, value)| (t(name), t(value))).to_vec(),
        has_html: true,
        text: t(
            "Volunteer\n\nname   Jo Example\ncity   Portland\n\nphoto.jpg, until 2 Dec 2026: https://storage.example/photo.jpg",
        ),
        links: vec![t("https://storage.example/photo.jpg?X-Goog-Expires=604800&X-Goog-Signature=2b4f")],
    });
    story.mails[1].shown =
        Some(MailShown { headers: Vec::new(), has_html: false, text: t("only text"), links: Vec::new() });
    page.subject = SubjectView::Submission(Box::new(story));
    page
}

fn submissions(t: Say<'_>) -> SubmissionsPage {
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
        next_cursor: Some(t("MjAyNi0xMS0yNVQwOTozMDowMFo")),
    }
}

fn submission(t: Say<'_>) -> SubmissionPage {
    let entries = lines(t).into_iter().take(2).collect();
    SubmissionPage { frame: frame(t), story: story(t), entries }
}

fn status(t: Say<'_>) -> StatusPage {
    let count =
        |label, count, minutes: Option<i64>| Count { label: t(label), count, oldest: minutes.map(before) };
    let breaker = |dependency, state, since: Option<i64>, why: Option<&str>| BreakerLine {
        dependency: t(dependency),
        state: t(state),
        since: since.map(before),
        why: why.map(t),
    };
    StatusPage {
        frame: frame(t),
        troubles: vec![
            Trouble {
                text: t("The relay has been away for 12 min: mails wait, no attempt is spent."),
                command: Some(t("maple-router check")),
            },
            Trouble {
                text: t("1 entry expires in less than two days and is assigned to nobody."),
                command: None,
            },
        ],
        submissions: vec![
            count("received", 14, Some(12)),
            count("processing", 3, Some(1)),
            count("routed", 48_201, None),
            count("failed", 7, Some(8_000)),
            count("purged", 12_004, None),
        ],
        queue: states(t),
        oldest_entry: Some(before(5_332)),
        daemon: t("Ready, but the relay does not answer."),
        breakers: vec![
            breaker("postgres", "closed", None, None),
            breaker("relay", "open", Some(12), Some("connection refused, localhost:25")),
            breaker("signer", "half-open", Some(1), None),
        ],
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

fn calm(t: Say<'_>) -> StatusPage {
    StatusPage {
        troubles: Vec::new(),
        pauses: Vec::new(),
        breakers: Vec::new(),
        oldest_entry: None,
        ..status(t)
    }
}

fn link(t: Say<'_>) -> LinkPage {
    LinkPage {
        now: now(),
        name: t("alice"),
        role: t("reviewer"),
        secret: t("b64d2f0c1e"),
        expires_at: now() + SignedDuration::from_mins(9),
    }
}

fn how_to(t: Say<'_>, behind_proxy: bool) -> HowToPage {
    let because = Some(t("Your session ended: it was not used for an hour."));
    HowToPage { now: now(), host: t("maple-1.example.org"), because, behind_proxy }
}

fn problem(t: Say<'_>, known: bool) -> ProblemPage {
    let mut frame = frame(t);
    frame.viewer = frame.viewer.filter(|_| known);
    ProblemPage {
        frame,
        status: 503,
        title: t("The database is away"),
        detail: t("Nothing of what you sent was done."),
        steps: vec![
            t("Wait a minute, then send it again: it is done once, however often you send it."),
            t("If it stays so, look at the status of the service on the host."),
        ],
        again: Some("/queue".to_owned()),
    }
}

/// The lifecycles that there are, and the largest that is to come.
pub(crate) fn lifecycles() -> Vec<Described> {
    vec![describe::<Submission>(), describe::<Outbox>(), grey_queue()]
}

/// Ten states, twenty-one transitions and a birth: the table of the review desk's contract.
pub(crate) fn grey_queue() -> Described {
    const EDGES: [(&str, &str, &str, &str, &str, &str); 22] = [
        (
            "[*]",
            "open",
            "Pending",
            "system",
            "an event of a cause, seen for the first time",
            "occurrence recorded",
        ),
        (
            "Pending",
            "start",
            "Processing",
            "policy reviewer",
            "a remedy that fits the subject",
            "due at once",
        ),
        ("Pending", "assign", "UnderReview", "reviewer", "an active assignee", "they are notified"),
        ("Pending", "expire", "Expired", "system", "expires_at passed; warned 24 h before", "closed"),
        ("Pending", "dismiss", "Dismissed", "reviewer", "a reason", "closed"),
        ("Processing", "retry_later", "Retrying", "worker", "token", "due by exponential back-off"),
        ("Processing", "succeed", "Resolved", "worker", "token; evidence", "closed"),
        ("Processing", "give_up", "Failed", "worker", "token; attempts at the maximum", "closed"),
        (
            "Processing",
            "hand_over",
            "UnderReview",
            "worker reviewer",
            "token, or a person takes it",
            "token void",
        ),
        ("Retrying", "try_again", "Processing", "worker", "due", "attempts + 1"),
        ("Retrying", "give_up", "Failed", "worker", "attempts at the maximum", "closed"),
        ("Retrying", "expire", "Expired", "system", "expires_at passed; warned 24 h before", "closed"),
        (
            "UnderReview",
            "escalate",
            "Escalated",
            "reviewer",
            "escalation_reason",
            "escalated_at, security alerted",
        ),
        ("UnderReview", "resolve", "Resolved", "reviewer", "evidence, a remedy or a word", "closed"),
        ("UnderReview", "reject", "Rejected", "reviewer", "a reason", "reason and name kept, closed"),
        ("UnderReview", "unassign", "Pending", "reviewer", "its assignee", "assignee cleared"),
        ("Escalated", "resolve", "Resolved", "security", "evidence, a remedy or a word", "closed"),
        ("Escalated", "reject", "Rejected", "security", "a reason", "reason and name kept, closed"),
        ("Escalated", "de_escalate", "UnderReview", "security", "an active assignee", "nothing"),
        ("Rejected", "reopen", "Pending", "reviewer", "a reason; no open twin", "closed_at cleared"),
        ("Dismissed", "reopen", "Pending", "reviewer", "a reason; no open twin", "closed_at cleared"),
        ("Failed", "reset", "Pending", "reviewer", "a reason; no open twin", "attempts 0"),
    ];
    let states = [
        "Pending",
        "Processing",
        "Retrying",
        "UnderReview",
        "Escalated",
        "Resolved",
        "Rejected",
        "Failed",
        "Expired",
        "Dismissed",
    ];
    Described {
        name: "grey_queue",
        about: "a problem that waits for a decision, from the event that opened it to its end",
        states: states.map(str::to_owned).to_vec(),
        finals: ["Resolved", "Expired"].map(str::to_owned).to_vec(),
        transitions: EDGES
            .map(|(from, command, to, who, guard, with)| Transition {
                from: from.to_owned(),
                command: command.to_owned(),
                to: to.to_owned(),
                who: who.split(' ').collect(),
                guard,
                with,
            })
            .to_vec(),
    }
}
