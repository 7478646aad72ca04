//! Forms and their versions.

use maple_router::desk::pages::forms::{
    Ask, Follows, FormLine, FormPage, FormsPage, Move, Overtaken, Place, Possible, VersionLine,
};
use maple_router::desk::pages::version::{
    ActionLine, Changes, Content, FileChange, Inside, Line, MailChange, MovedLine, Of, PartChange, SaidLine,
    SharedForm, SignedLine, TextChange, VersionFacts, VersionPage,
};

use super::*;

fn admin(t: Say<'_>) -> Frame {
    Frame::new(now(), Some(Viewer { name: t("ada"), role: t("admin") }))
}

fn follows(t: Say<'_>, number: u32, minutes: i64) -> Follows {
    Follows { number, since: before(minutes), by: t("operator:zoe") }
}

pub(super) fn forms(t: Say<'_>) -> FormsPage {
    let line = |id, name: Option<&str>, follows, drafts, published| FormLine {
        id: t(id),
        name: name.map(t),
        follows,
        drafts,
        published,
    };
    FormsPage {
        frame: frame(t),
        forms: Some(vec![
            line("contact", Some("Contact us"), Some(follows(t, 7, 2_900)), 1, 5),
            line("membership", Some("Become a member"), Some(follows(t, 12, 130_000)), 0, 11),
            line("newsletter", None, None, 0, 0),
            line("press", Some("Press enquiries"), None, 2, 0),
            line("volunteer", Some("Volunteer sign-up"), Some(follows(t, 3, 35)), 0, 3),
        ]),
    }
}

pub(super) fn forms_absent(t: Say<'_>) -> FormsPage {
    FormsPage { frame: frame(t), forms: None }
}

fn moving(t: Say<'_>, ask: Ask) -> Move {
    Move {
        ask,
        expected: t("0192f1c0-5c1e-7a3e-9d6a-2f1b6a1f0007"),
        idempotency_key: t("77b1c0de"),
        draft: id(50),
        reason: String::new(),
        error: None,
    }
}

pub(super) fn form(t: Say<'_>) -> FormPage {
    let line = |number: u32, state, author, place| VersionLine {
        number,
        state: t(state),
        digest: t("3f1c9a2b77d0"),
        author: t(author),
        loaded_at: before(i64::from(10 - number) * 1_700),
        place,
    };
    FormPage {
        frame: admin(t),
        id: t("contact"),
        name: Some(t("Contact us")),
        follows: Some(follows(t, 7, 2_900)),
        versions: vec![
            line(9, "draft", "operator:zoe", Place::Beside),
            line(8, "published", "operator:zoe", Place::Beside),
            line(7, "published", "operator:max", Place::Current),
            line(6, "published", "operator:zoe", Place::Previous),
            line(5, "tombstoned", "operator:zoe", Place::Beside),
        ],
        possible: Possible {
            text: t(
                "Go back to version 6, which it followed before; any other published version is promoted on its own page.",
            ),
            commands: Vec::new(),
        },
        back: Some(moving(t, Ask::RollBack(6))),
        overtaken: None,
    }
}

pub(super) fn form_of_its_loader(t: Say<'_>) -> FormPage {
    FormPage {
        frame: frame(t),
        id: t("newsletter"),
        name: None,
        follows: None,
        versions: Vec::new(),
        possible: Possible {
            text: t(
                "It does what its loader writes, until a published version of it is promoted or what it does now is adopted as its first.",
            ),
            commands: vec![t("maple-router forms adopt newsletter"), t("maple-router forms load FILE")],
        },
        back: None,
        overtaken: None,
    }
}

fn lines(t: Say<'_>, all: &[(Of, &str)]) -> Vec<Line> {
    all.iter()
        .map(|(of, text)| Line { of: *of, text: if *of == Of::Gap { String::new() } else { t(text) } })
        .collect()
}

fn changes(t: Say<'_>) -> Changes {
    let part = |order, part, before: Option<&str>, after: Option<&str>| PartChange {
        order,
        part: t(part),
        before: before.map(t),
        after: after.map(t),
    };
    let body = lines(
        t,
        &[
            (Of::Both, "Dear {{ fields.name }},"),
            (Of::Both, ""),
            (Of::Before, "thank you for your message. We answer within two weeks."),
            (
                Of::After,
                "thank you for your message. We answer within three working days, and you need not write again until then: whoever reads it has it.",
            ),
            (Of::Both, ""),
            (Of::Gap, ""),
            (Of::Both, "Your answers:"),
            (Of::After, "{% for field in fields %}{{ field.label }}: {{ field.value }}"),
            (Of::After, "{% endfor %}"),
        ],
    );
    let mail = lines(
        t,
        &[
            (Of::Both, "Dear Jo Example,"),
            (Of::Before, "thank you for your message. We answer within two weeks."),
            (Of::After, "thank you for your message. We answer within three working days."),
        ],
    );
    let subject =
        lines(t, &[(Of::Before, "Your message"), (Of::After, "Your message to us, {{ fields.name }}")]);
    let text = |template, part, lines| TextChange { template: t(template), part: t(part), lines };
    Changes {
        name: Some((t("Contact"), t("Contact us"))),
        actions: vec![
            part(1, "destination", Some("2 at example.org"), Some("somebody at example.org")),
            part(2, "type", None, Some("happyfox_template")),
            part(2, "template", None, Some("contact-ticket")),
            part(2, "category", None, Some("Members")),
        ],
        texts: vec![text("contact-mail", "subject", subject), text("contact-mail", "plain text", body)],
        files: vec![FileChange {
            name: t("leaflet.pdf"),
            before: Some(t("3f1c9a2b77d0")),
            after: Some(t("9d00be41c2aa")),
        }],
        mails: vec![MailChange { order: 1, sample: t("a member"), part: t("plain text"), lines: mail }],
        shared: vec![
            SharedForm { template: t("contact-mail"), form: t("press"), managed: false },
            SharedForm { template: t("contact-mail"), form: t("membership"), managed: true },
        ],
        left_out: 3,
    }
}

pub(super) fn version(t: Say<'_>) -> VersionPage {
    let action = |order, kind, to: &[&str], template: Option<&str>| ActionLine {
        order,
        kind: t(kind),
        to: to.iter().map(|text| t(text)).collect(),
        template: template.map(t),
        subject: None,
        category: None,
    };
    let moved = |minutes, who, command, from: Option<&str>, to, reason: Option<&str>| MovedLine {
        at: before(minutes),
        who: t(who),
        command: t(command),
        from: from.map(t),
        to: t(to),
        reason: reason.map(t),
    };
    VersionPage {
        frame: admin(t),
        form: t("contact"),
        facts: VersionFacts {
            number: 8,
            name: Some(t("Contact us")),
            state: t("published"),
            place: Place::Beside,
            digest: t("3f1c9a2b77d01b5e6a90c4d2e8f7016b3a5c9d8e7f60142b3c4d5e6f70819203"),
            source: t("yaml"),
            author: t("operator:zoe"),
            loaded_at: before(3_000),
            published_at: Some(before(120)),
            tombstoned_at: None,
            deadline: None,
        },
        follows: Some(follows(t, 7, 2_900)),
        possible: Possible {
            text: t("It is published: promote it, and the form follows it from then on."),
            commands: Vec::new(),
        },
        promote: Some(moving(t, Ask::Promote(8))),
        overtaken: None,
        content: Content::Read(Box::new(Inside {
            actions: vec![
                action(1, "email_template", &["somebody at example.org"], Some("contact-mail")),
                ActionLine {
                    subject: Some(t("A member writes")),
                    category: Some(t("Members")),
                    ..action(2, "happyfox_template", &[], Some("contact-ticket"))
                },
                action(3, "email_raw", &["2 at example.org", "3 at example.net"], None),
            ],
            shown: false,
            may_show: true,
            changes: changes(t),
        })),
        bases: choices(
            t,
            &[
                ("9", "version 9, draft"),
                ("7", "version 7, the form follows it"),
                ("6", "version 6, followed before"),
            ],
        ),
        base: Some(7),
        signed: vec![
            SignedLine {
                at: before(125),
                signer: Some(t("grace")),
                void: None,
                key: t("SHA256:2oUhxkLvNqE0Q5pYV0d1Yb6bXo0pX4y7o0yVt1u3m9E"),
            },
            SignedLine {
                at: before(130),
                signer: None,
                void: Some(t("the list of signers has its key for another time")),
                key: t("SHA256:Zk3pX4y7o0yVt1u3m9E2oUhxkLvNqE0Q5pYV0d1Yb6b"),
            },
        ],
        said: vec![
            SaidLine {
                at: before(120),
                who: t("operator:zoe"),
                command: t("publish"),
                allowed: true,
                policy: Some(t("b64d2f0c1e77")),
                reasons: Vec::new(),
            },
            SaidLine {
                at: before(150),
                who: t("operator:zoe"),
                command: t("publish"),
                allowed: false,
                policy: Some(t("b64d2f0c1e77")),
                reasons: vec![
                    t(
                        "Action 1 writes to the domain evil.example, and mail may not go there. Use an address of another domain.",
                    ),
                    t("The form has no sample, so nobody has seen its mails. Add one."),
                ],
            },
            SaidLine {
                at: before(160),
                who: t("operator:max"),
                command: t("publish"),
                allowed: false,
                policy: None,
                reasons: vec![t("the policy is away: there is no policy")],
            },
        ],
        history: vec![
            moved(120, "operator:zoe", "publish", Some("draft"), "published", None),
            moved(150, "operator:zoe", "publish", None, "draft", Some("quarantined: 2 reasons")),
            moved(3_000, "operator:zoe", "load", None, "draft", None),
        ],
    }
}

/// As a viewer sees it.
pub(super) fn version_looking(t: Say<'_>) -> VersionPage {
    let mut page = version(t);
    page.frame = Frame::new(now(), Some(Viewer { name: t("vera"), role: t("viewer") }));
    page.promote = None;
    page.possible = Possible {
        text: t("It is published: an admin can promote it, so that the form follows it."),
        commands: vec![t("maple-router forms promote contact@8 --reason TEXT")],
    };
    if let Content::Read(inside) = &mut page.content {
        inside.may_show = false;
    }
    page
}

/// After it was promoted, with addresses, and nothing to compare.
pub(super) fn version_followed(t: Say<'_>) -> VersionPage {
    let mut page = version(t);
    page.frame.flash = Some(Flash {
        tone: Tone::Done,
        text: t("The form follows version 8 now. What is on its way keeps the version that it began with."),
        accepted: Some(Draft::Version(id(50), "promote")),
        next: None,
    });
    page.promote = None;
    page.facts.place = Place::Current;
    page.follows = Some(follows(t, 8, 0));
    page.bases = Vec::new();
    page.base = None;
    if let Content::Read(inside) = &mut page.content {
        inside.shown = true;
        inside.changes = Changes::default();
        inside.actions[0].to = vec![t("team@example.org")];
    }
    page
}

/// Refused by the policy: what was typed stands in the form, and the reasons stand first.
pub(super) fn version_refused(t: Say<'_>) -> VersionPage {
    let mut page = version(t);
    let problem = |text, field: Option<&str>| Problem { text: t(text), field: field.map(str::to_owned) };
    page.frame.problems = vec![
        problem("Say why: it is kept for those who ask later.", Some("promote-reason")),
        problem(
            "Template contact-mail has a script in its HTML, which mail programs do not run and filters refuse. Remove it.",
            None,
        ),
    ];
    if let Some(promote) = &mut page.promote {
        promote.reason = t("Reviewed with the team on Tuesday.");
        promote.error = Some(t("Say why: it is kept for those who ask later."));
    }
    page
}

/// Somebody else moved the form meanwhile.
pub(super) fn version_overtaken(t: Say<'_>) -> VersionPage {
    let mut page = version(t);
    page.overtaken =
        Some(Overtaken { ask: Ask::Promote(8), seen: Some(6), typed: t("Reviewed with the team.") });
    page.follows = Some(follows(t, 7, 2));
    if let Some(promote) = &mut page.promote {
        promote.reason = t("Reviewed with the team.");
    }
    page
}

/// The same, and it is not possible any more.
pub(super) fn form_overtaken(t: Say<'_>) -> FormPage {
    let mut page = form(t);
    page.back = None;
    page.overtaken = Some(Overtaken { ask: Ask::RollBack(6), seen: None, typed: t("Odd mails since noon.") });
    page
}

/// Given up, and written by another version of the program.
pub(super) fn version_unreadable(t: Say<'_>) -> VersionPage {
    let mut page = version(t);
    page.promote = None;
    page.facts.state = t("tombstoned");
    page.facts.tombstoned_at = Some(before(30));
    page.facts.deadline = Some(now() + SignedDuration::from_hours(24 * 90));
    page.facts.name = None;
    page.content =
        Content::Unreadable(t("entry action \"1\" is not what this version of the program writes"));
    page.said = Vec::new();
    page.possible =
        Possible { text: t("It is out of use."), commands: vec![t("maple-router forms restore contact@8")] };
    page
}
