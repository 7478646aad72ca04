//! Entries in every state that a page shows differently.

use super::*;

pub(super) fn remedies(t: Say<'_>) -> Vec<Remedy> {
    let remedy = |value, label, hint| Remedy {
        value: t(value),
        label: t(label),
        hint: t(hint),
        recipients: Vec::new(),
    };
    vec![
        remedy("replay", "Replay", "Sends what nobody has accepted, by the same plan."),
        remedy(
            "replan",
            "Replay with a new plan",
            "Sends by the form's plan of today; mend the address there first.",
        ),
        Remedy {
            recipients: choices(
                t,
                &[
                    ("5f1c", "1. somebody at example.org, bounced"),
                    ("77aa", "2. somebody at example.net, accepted"),
                ],
            ),
            ..remedy(
                "force_delivery",
                "One more mail to one recipient",
                "For a mail that the relay accepted and nobody has: sent again to this recipient alone.",
            )
        },
        remedy("check", "Only look", "Sends nothing; waits for evidence that somebody mended it elsewhere."),
    ]
}

pub(super) fn action(t: Say<'_>, ask: Ask) -> Action {
    Action { ask, idempotency_key: t("77b1c0de"), typed: Typed::default(), error: None }
}

/// Minutes ago, who, command, from, to, reason.
pub(super) type Step<'a> = (i64, &'a str, &'a str, Option<&'a str>, &'a str, Option<&'a str>);

pub(super) fn history(t: Say<'_>, steps: &[Step<'_>]) -> Vec<HistoryLine> {
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

pub(super) fn facts(t: Say<'_>) -> EntryFacts {
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

pub(super) fn entry(t: Say<'_>) -> EntryPage {
    EntryPage {
        frame: frame(t),
        entry: facts(t),
        evidence: Evidence {
            sufficient: false,
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
        others: vec![],
        watching: vec![t("bob"), t("dana")],
        next: Some(id(9)),
    }
}

pub(super) fn entry_mine(t: Say<'_>) -> EntryPage {
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
    page.frame.list = QueueFilters { form: Some(t("volunteer")), ..QueueFilters::new() };
    page
}

pub(super) fn conflicting(t: Say<'_>) -> (Vec<HistoryLine>, Typed) {
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
        ..Typed::default()
    };
    (all, typed)
}

pub(super) fn entry_conflict(t: Say<'_>) -> EntryPage {
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

pub(super) fn entry_conflict_gone(t: Say<'_>) -> EntryPage {
    let mut page = entry_conflict(t);
    page.actions = vec![action(t, Ask::TakeOver(t("dana")))];
    page
}

pub(super) fn entry_refused(t: Say<'_>) -> EntryPage {
    let mut page = entry_mine(t);
    page.frame.flash = None;
    page.actions.push(action(t, Ask::AssignTo(choices(t, &[("bob", "bob"), ("dana", "dana")]))));
    let wrong = |field, text| Some(FieldError { field, text: t(text) });
    let no_remedy = wrong(Field::Remedy, "Choose a remedy: the evidence is not there.");
    page.give_back(Command::Resolve.form_key(false, false), Typed::default(), no_remedy);
    let spaces = Typed { reason: t("   "), ..Typed::default() };
    let no_reason = wrong(Field::Reason, "Say why; spaces are no reason.");
    page.give_back(Command::Reject.form_key(false, false), spaces, no_reason);
    let carol = Typed { assignee: t("carol"), ..Typed::default() };
    let not_active = wrong(Field::Assignee, "carol is not active any more.");
    page.give_back(Command::Assign.form_key(false, false), carol, not_active);
    page
}

pub(super) fn entry_escalated(t: Say<'_>) -> EntryPage {
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
    page.evidence = Evidence { sufficient: true, missing: Vec::new() };
    page.actions = vec![
        action(t, Ask::Resolve { remedies: remedies(t), by_evidence: true }),
        action(t, Ask::Reject),
        action(t, Ask::DeEscalate),
    ];
    page
}

pub(super) fn entry_moving(t: Say<'_>) -> EntryPage {
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

pub(super) fn entry_rejected(t: Say<'_>) -> EntryPage {
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

pub(super) fn entry_dead_letter(t: Say<'_>, shown: bool) -> EntryPage {
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

pub(super) fn entry_shown(t: Say<'_>) -> EntryPage {
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

/// A work that waits for a grade, with what was typed and what is wrong with it.
pub(super) fn entry_assessment(t: Say<'_>) -> EntryPage {
    let mut page = entry(t);
    page.entry = EntryFacts {
        heading: plain::heading("grading", "medium"),
        meaning: t(plain::meaning("grading", "medium")),
        cause: t("grading"),
        reason: t("medium"),
        queue: t("grading"),
        subject_kind: t("assessment"),
        ..page.entry
    };
    page.actions = vec![action(t, Ask::AssignToMe)];
    let criteria = ["task_achievement", "coherence_cohesion", "lexical_resource", "grammatical_range"];
    let result = |title, model| ResultView {
        title,
        score: t("7.5"),
        band: t("B2"),
        model: t(model),
        criteria: criteria
            .map(|name| CriterionView {
                name: t(name),
                score: t("7.5"),
                feedback: t("Clear, and to the point."),
                evidence: vec![t("visitors stay longer where they feel well")],
                is_estimated: name == "lexical_resource",
            })
            .to_vec(),
        strengths: vec![t("It answers what was asked.")],
        weaknesses: vec![t("The end comes too soon.")],
        suggestions: vec![t("Weigh the other side.")],
    };
    let field = |(key, score): (&str, &str)| CriterionField {
        key: key.to_owned(),
        score: score.to_owned(),
        feedback: t("Well done."),
    };
    let form = GradeForm {
        version: 4,
        idempotency_key: t("77b1c0de"),
        criteria: criteria.into_iter().zip(["7.5", "7.0", "6.5", ""]).map(field).collect(),
        strengths: t("Clear."),
        weaknesses: t("Short."),
        suggestions: t("Write more."),
        reason: t("I have read it."),
        error: Some((CriterionField::anchor("grammatical_range"), t("Choose a score by each criterion."))),
    };
    page.frame.problems = vec![Problem {
        text: t("Choose a score by each criterion."),
        field: Some(CriterionField::anchor("grammatical_range")),
    }];
    page.subject = SubjectView::Assessment(Box::new(AssessmentView {
        submission: id(300),
        attempt: 1,
        skill: t("writing"),
        state: t("REVIEW_PENDING"),
        since: before(40),
        confidence: Some(72),
        question: Some(QuestionView {
            name: t("parks"),
            prompt: t("Should a town have more museums? Discuss."),
            rubric: t("1"),
        }),
        work: Some(t("Of course, some owners of shops complain.\n\nHowever, visitors stay longer.")),
        transcript: Some(t("well I went to the sea")),
        results: vec![result("The grader's result", "model/large:1")],
        is_blind: true,
        form: Some(form),
        not_now: None,
        first: None,
        lost: Vec::new(),
    }));
    page
}

/// The same where somebody was first.
pub(super) fn entry_assessment_first(t: Say<'_>) -> EntryPage {
    let mut page = entry_assessment(t);
    page.entry.state = t("Resolved");
    page.entry.closed_at = Some(before(2));
    page.actions = Vec::new();
    page.frame.problems = vec![Problem {
        text: t("dana was first: nothing of your grade was recorded."),
        field: Some("grade".to_owned()),
    }];
    if let SubjectView::Assessment(view) = &mut page.subject {
        view.state = t("COMPLETED");
        view.form = None;
        view.is_blind = false;
        view.not_now = Some(t("It waits for nobody's grade now."));
        view.first = Some(FirstView { by: t("instructor:dana"), at: before(2), state: t("COMPLETED") });
        view.lost = vec![(t("score content"), t("7.5")), (t("reason"), t("I have read it."))];
    }
    page
}
