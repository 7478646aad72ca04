//! The reading of each sample.

use maple_router::gateway::bounces::read;
use maple_router::ports::{RelayStatus, ReturnedKind};
use maple_router::routing::delivery::return_kind::ReturnKind;
use maple_router::routing::delivery::return_kind::verdict;
use maple_router::routing::submission::message_id::message_id;

use crate::harness::{ORIGIN, names, ours, sample};

use RelayStatus::{Bounced, Deferred, Delivered, Expired};

/// Address, address after rewriting, status, RFC 3463 status, host, and words of what was said.
type Recipient = (
    &'static str,
    Option<&'static str>,
    RelayStatus,
    Option<&'static str>,
    Option<&'static str>,
    &'static str,
);

const REPORTS: &[(&str, &str, &[Recipient])] = &[
    (
        "postfix-failed",
        "2026-11-22T06:31:07Z",
        &[(
            "b@example.net",
            None,
            Bounced,
            Some("5.1.1"),
            Some("mx.example.net"),
            "550 5.1.1 <b@example.net>: Recipient address rejected: User unknown",
        )],
    ),
    (
        "postfix-two",
        "2026-11-22T06:31:07Z",
        &[
            (
                "press@example.net",
                Some("team@lists.example.net"),
                Bounced,
                Some("5.7.1"),
                Some("maple.example.org"),
                "mail for lists.example.net loops back to myself",
            ),
            (
                "slow@example.com",
                None,
                Expired,
                Some("4.4.1"),
                Some("maple.example.org"),
                "connect to mx.example.com[198.51.100.7]:25: Connection timed out",
            ),
        ],
    ),
    (
        "postfix-delayed",
        "2026-11-22T10:31:07Z",
        &[("b@example.net", None, Deferred, Some("4.2.2"), Some("mx.example.net"), "452 4.2.2 mailbox full")],
    ),
    (
        "postfix-delivered",
        "2026-11-22T06:31:07Z",
        &[
            ("a@example.net", None, Delivered, Some("2.1.5"), Some("mx.example.net"), "250 2.1.5 Ok"),
            ("b@example.net", None, Delivered, Some("2.0.0"), Some("maple.example.org"), ""),
            ("list@example.net", None, Delivered, Some("2.0.0"), Some("maple.example.org"), ""),
        ],
    ),
    (
        "gmail-failed",
        "2026-11-22T06:40:10Z",
        &[(
            "someone@example.com",
            None,
            Bounced,
            Some("5.1.1"),
            Some("mx.example.com"),
            "550-5.1.1 The email account that you tried to reach does not exist. Please try 550-5.1.1 double-checking the \
             recipient's email address for typos or 550 5.1.1 unnecessary spaces.",
        )],
    ),
    (
        "exchange-failed",
        "2026-11-22T06:45:01Z",
        &[(
            "SOMEONE@example.com",
            Some("someone@tenant.onmicrosoft.com"),
            Bounced,
            Some("5.1.10"),
            Some("AM7EUR05FT041.mail.protection.outlook.com"),
            "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup",
        )],
    ),
    (
        "global-base64",
        "",
        &[("j\u{f6}rg@example.jp", None, Bounced, Some("5.2.2"), Some("mx.example.jp"), "552 5.2.2 voll")],
    ),
];

const OTHERS: &[(&str, ReturnKind)] = &[
    ("away-outlook", ReturnKind::AutoReply),
    ("complaint", not_understood("it reports something else than a delivery")),
    ("exim-of-old", not_understood("it tells of a failure in words only")),
    ("person", not_understood("it has no report: a person wrote it, or a mail server of old")),
    ("qmail", not_understood("it has no report: a person wrote it, or a mail server of old")),
    ("receipt", ReturnKind::Receipt),
    ("report-without-report", not_understood("it calls itself a report of a delivery, and has none")),
    ("unknown-action", not_understood("its report names no recipient with an action we know")),
    ("vacation", ReturnKind::AutoReply),
];

const fn not_understood(why: &'static str) -> ReturnKind {
    ReturnKind::NotUnderstood { origin: ORIGIN, why }
}

#[test]
fn reports_are_read_as_they_are_written() {
    for (name, at, expected) in REPORTS {
        // Lines may end as on the wire, or as on the disk.
        for mail in [sample(name, ORIGIN), sample(name, ORIGIN).replace("\r\n", "\n")] {
            let returned = read(mail.as_bytes());
            let ReturnedKind::Report(recipients) = &returned.kind else { panic!("{name}: {returned:?}") };
            let found: Vec<_> = recipients
                .iter()
                .map(|one| {
                    let (dsn, relay) = (one.dsn.as_deref(), one.relay.as_deref());
                    (
                        one.address.as_str(),
                        one.rewritten.as_deref(),
                        one.status,
                        dsn,
                        relay,
                        one.text.as_str(),
                    )
                })
                .collect();
            assert_eq!(found, *expected, "{name}");
            let notified_at = returned.at.map(|at| at.to_string()).unwrap_or_default();
            assert_eq!(notified_at, *at, "{name}");
            assert_eq!(ours().origin(&returned.to[0]), Some(ORIGIN), "{name}: {:?}", returned.to);
            let whole = !["postfix-delayed", "postfix-delivered", "global-base64"].contains(name);
            let id = whole.then(|| message_id(ORIGIN, "gpus-it-security@greenpeace.org"));
            assert_eq!(returned.message_id, id, "{name}");
            let ReturnKind::Report(seen) = verdict(&returned, &ours()) else { panic!("{name}") };
            assert!(
                seen.iter().all(|seen| seen.origin == ORIGIN && seen.queue_id.is_none()),
                "{name}: {seen:?}"
            );
        }
    }
}

#[test]
fn what_is_no_report_is_named_for_what_it_is() {
    for (name, expected) in OTHERS {
        let returned = read(sample(name, ORIGIN).as_bytes());
        assert_eq!(verdict(&returned, &ours()), *expected, "{name}: {returned:?}");
    }
    let known: Vec<&str> =
        REPORTS.iter().map(|(name, ..)| *name).chain(OTHERS.iter().map(|(name, _)| *name)).collect();
    let mut known: Vec<String> = known.into_iter().map(str::to_owned).collect();
    known.sort();
    assert_eq!(names(), known, "every sample is looked at");
}

/// The same mails, to an address without a token of ours, are nobody's.
#[test]
fn without_a_token_nothing_is_believed() {
    for (name, ..) in REPORTS {
        let token = ours().sender(ORIGIN);
        let mail = sample(name, ORIGIN).replace(&token, "maple-bounces@bounces.maple.test");
        assert_eq!(verdict(&read(mail.as_bytes()), &ours()), ReturnKind::Foreign, "{name}");
    }
}

#[test]
fn a_relay_that_writes_addresses_in_another_case_does_no_harm() {
    let token = ours().sender(ORIGIN);
    for other in [token.to_ascii_uppercase(), token.replace("maple-bounces", "Maple-Bounces")] {
        let mail = sample("postfix-failed", ORIGIN).replace(&token, &other);
        assert!(matches!(verdict(&read(mail.as_bytes()), &ours()), ReturnKind::Report(_)), "{other}");
    }
}
