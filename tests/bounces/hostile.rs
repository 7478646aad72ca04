//! Mails that any sender can send: nothing panics, nothing takes long, nothing grows, and nothing is believed.

use std::time::{Duration, Instant};

use maple_router::gateway::bounces::read;
use maple_router::ports::{Returned, ReturnedKind};
use maple_router::routing::delivery::return_kind::ReturnKind;
use maple_router::routing::delivery::return_kind::verdict;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::harness::{ORIGIN, names, ours, sample};

/// Bounds of a read mail, whatever it says.
fn is_bounded(returned: &Returned) {
    assert!(returned.to.len() <= 16, "{}", returned.to.len());
    let word = |text: &str| text.len() <= 320 && !text.chars().any(char::is_control);
    assert!(returned.to.iter().all(|address| word(address)));
    assert!(returned.message_id.as_deref().is_none_or(word));
    let ReturnedKind::Report(recipients) = &returned.kind else { return };
    assert!((1..=1_000).contains(&recipients.len()));
    for one in recipients {
        assert!(word(&one.address) && one.relay.as_deref().is_none_or(word), "{one:?}");
        assert!(one.text.chars().count() <= 500 && !one.text.chars().any(char::is_control), "{one:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(raw in vec(any::<u8>(), 0..2_000)) {
        let returned = read(&raw);
        is_bounded(&returned);
        prop_assert!(!matches!(verdict(&returned, &ours()), ReturnKind::Report(_)));
    }

    #[test]
    fn a_sample_that_was_changed_is_read(
        which in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0_usize..40, 0_u8..4), 1..20),
    ) {
        let names = names();
        let mut mail = sample(&names[which.index(names.len())], ORIGIN).into_bytes();
        for (at, byte, length, how) in changes {
            let at = at.index(mail.len());
            let end = (at + length).min(mail.len());
            match how {
                0 => mail[at] = byte,
                1 => drop(mail.drain(at..end)),
                2 => { let piece = mail[at..end].to_vec(); mail.splice(at..at, piece); }
                _ => mail.truncate(at.max(1)),
            }
            if mail.is_empty() { mail.push(byte); }
        }
        is_bounded(&read(&mail));
    }

    #[test]
    fn lines_of_reports_in_any_order_are_read(
        lines in vec(prop::sample::select(vec![
            "Content-Type: multipart/report; report-type=delivery-status; boundary=b", "--b", "--b--", "",
            "Content-Type: message/delivery-status", "Content-Type: message/rfc822", "Content-Transfer-Encoding: base64",
            "Content-Type: multipart/digest; boundary=b", "Final-Recipient: rfc822; a@x", "Action: failed", "Status: 5.1.1",
            " folded", "Content-Transfer-Encoding: quoted-printable", "=3D=", "Remote-MTA: dns; x", "Date: \u{1}", ": no name",
            "Content-Type: multipart/mixed; boundary=\"\"", "Auto-Submitted: auto-replied",
        ]), 0..60),
    ) {
        is_bounded(&read(lines.join("\r\n").as_bytes()));
    }
}

/// Half a megabyte of each; on a thread with as little stack as the runtime's have.
#[test]
fn what_is_nested_repeated_or_endless_takes_neither_stack_nor_time() {
    const SIZE: usize = 512 * 1024;
    let report = "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n";
    let status = format!("{report}Content-Type: message/delivery-status\n\n");
    let fill = |head: &str, piece: &str| head.to_owned() + &piece.repeat(SIZE / piece.len());
    let mails: Vec<(&str, String)> = vec![
        ("messages in messages", fill("", "Content-Type: message/rfc822\n\n")),
        ("messages in a report", fill(report, "Content-Type: message/rfc822\n\n")),
        ("digests in digests", fill("", "Content-Type: multipart/digest; boundary=b\n\n--b\n\n")),
        ("parts in parts", fill("", "Content-Type: multipart/mixed; boundary=b\n\n--b\n")),
        ("parts", fill(report, "--b\n")),
        ("recipients", fill(&status, "Final-Recipient: rfc822; a@x.test\nAction: failed\n\n")),
        ("fields", fill("", "a:\n")),
        ("tokens", fill("", "Delivered-To: bounces+aaaaaaaa@x.test\n")),
        ("one field", fill("Delivered-To: ", "a@b ")),
        ("one folded field", fill("Delivered-To:", " a\n")),
        ("brackets", fill("To: ", "<")),
        ("comments", fill("Content-Type: multipart/report ", "(")),
        ("parameters", fill("Content-Type: multipart/report", "; boundary=b")),
        ("continued parameters", fill("Content-Type: multipart/report", "; boundary*1*=b")),
        ("encoded words", fill("Content-Description: ", "=?utf-8?q?a?= ")),
        (
            "encoded text",
            fill(
                &format!(
                    "{report}Content-Type: message/delivery-status\nContent-Transfer-Encoding: base64\n\n"
                ),
                "QUFB",
            ),
        ),
        ("blanks", fill(&status, " \n")),
        ("no end of line", fill("", "a")),
        ("nothing", fill("", "\0")),
        ("quotes", fill("Content-Type: multipart/report; boundary=", "\"\\")),
        ("dates", fill("Date: ", "1 ")),
    ];
    let reading = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || {
        for (name, mail) in mails {
            let started = now();
            is_bounded(&read(mail.as_bytes()));
            // A loose bound: in proportion it is some milliseconds, and squared it would be minutes.
            assert!(now() - started < Duration::from_secs(20), "{name}");
        }
    });
    reading.expect("a thread").join().expect("nothing panics");
}

#[expect(clippy::disallowed_methods, reason = "tells what is in proportion from what is squared")]
fn now() -> Instant {
    Instant::now()
}
