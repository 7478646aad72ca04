//! Proof that a mail is ours: cases of strangers who know its Message-ID.

use std::net::Ipv4Addr;

use super::*;
use crate::routing::delivery::sender::ReturnAddress;

const STRANGER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const SECRET: &str = "4f1c7f0d6d6e4a0c8a53d9b8b7a1c0de";

fn address() -> ReturnAddress {
    ReturnAddress::new("maple-bounces@maple.example.org", SECRET).expect("a secret")
}

/// Setup with `[bounces]`, or without.
fn ours(tokens: bool) -> Ours {
    Ours { addresses: vec![Ipv4Addr::new(172, 17, 0, 2).into()], senders: tokens.then(address) }
}

/// Reports on A, and the proof about it.
fn story(tokens: bool, lines: &[LogLine]) -> (Vec<bool>, Evidence) {
    let mut tracker = Tracker::default().restored(ours(tokens));
    let seen = lines.iter().flat_map(|line| tracker.read(line)).map(|seen| seen.proved).collect();
    let saved: Tracker =
        serde_json::from_str(&serde_json::to_string(&tracker).expect("saved")).expect("read");
    tracker = saved.restored(ours(tokens));
    (seen, tracker.evidence(ORIGIN, TO, Some(0), Some(&queue(&[]))))
}

fn is_found(evidence: &Evidence) -> bool {
    matches!(evidence, Evidence::Found { .. })
}

/// Columns: the mail's way in, its envelope sender, and whether that proves it to be ours without tokens and with them.
#[test]
fn a_mail_is_ours_by_its_client_and_by_its_token() {
    let token = address().sender(ORIGIN);
    let of_another = address().sender(Origin { action_order: 2, ..ORIGIN });
    let container = Ipv4Addr::new(172, 17, 0, 2);
    let cases: Vec<(&str, Option<LogLine>, &str, bool, bool)> = vec![
        ("from here", Some(received("A", 1)), &token, true, true),
        ("from where our connections come", Some(received_from("A", 1, container)), &token, true, true),
        ("from here, without the token", Some(received("A", 1)), "it@example.org", true, false),
        ("from here, with another mail's token", Some(received("A", 1)), &of_another, true, false),
        (
            "a recipient with its token, from elsewhere",
            Some(received_from("A", 1, STRANGER)),
            &token,
            false,
            false,
        ),
        ("by sendmail, with its token", Some(picked_up("A", None)), &token, false, false),
        (
            "by sendmail, requeued from what is not ours",
            Some(picked_up("A", Some("Z"))),
            &token,
            false,
            false,
        ),
        ("nobody knows how", None, &token, false, false),
    ];
    for (name, came, sender, without, with) in cases {
        let named = [named("A", ORIGIN), sent_by("A", sender, 1), said("A", TO, RelayStatus::Bounced, "no")];
        let lines: Vec<LogLine> = [connect(1)].into_iter().chain(came).chain(named).collect();
        for (tokens, expected) in [(false, without), (true, with)] {
            let (seen, evidence) = story(tokens, &lines);
            assert_eq!(seen, [expected], "{name}, tokens: {tokens}");
            assert_eq!(is_found(&evidence), expected, "{name}, tokens: {tokens}: {evidence:?}");
        }
    }
}

/// A mail without a logged sender may be a stranger's or ours: with tokens nothing follows either way.
#[test]
fn a_mail_whose_sender_was_not_logged_proves_nothing_where_senders_have_tokens() {
    let lines = [connect(1), received("A", 1), named("A", ORIGIN), said("A", TO, RelayStatus::Bounced, "no")];
    assert_eq!(story(true, &lines), (vec![false], Evidence::Unclear));
    let (seen, evidence) = story(false, &lines);
    assert!(seen == [true] && is_found(&evidence), "{evidence:?}");
}

/// A stranger's mail that is cut off, and one that goes elsewhere, do not disprove ours.
#[test]
fn a_strangers_session_disproves_nothing() {
    let cut_off = [connect(1), received_from("A", 1, STRANGER), named("A", ORIGIN), cut(1), ended(1, 0)];
    assert_eq!(story(false, &cut_off).1, Evidence::Nothing);
    let token = address().sender(ORIGIN);
    let elsewhere = [
        connect(1),
        received_from("A", 1, STRANGER),
        named("A", ORIGIN),
        sent_by("A", &token, 1),
        said("A", "z@x.test", RelayStatus::Delivered, ""),
        removed("A"),
    ];
    for tokens in [false, true] {
        assert_eq!(story(tokens, &elsewhere).1, Evidence::Nothing);
    }
}

/// An alias's copy, and a mail requeued by hand, count as their original does, whichever is logged first.
#[test]
fn what_was_made_of_ours_is_ours() {
    let token = address().sender(ORIGIN);
    let first = [connect(1), received("A", 1), named("A", ORIGIN), sent_by("A", &token, 1)];
    let copy = [named("B", ORIGIN), sent_by("B", &token, 1)];
    let bounced = said("B", TO, RelayStatus::Bounced, "no");
    let followed = |lines: Vec<LogLine>| story(true, &lines).0;
    let of = |rest: &[LogLine]| followed([&first[..], rest].concat());
    assert_eq!(of(&[&copy[..], &[forwarded("A", TO, "B"), bounced.clone()]].concat()), [true]);
    assert_eq!(of(&[&copy[..], &[bounced.clone(), forwarded("A", TO, "B")]].concat()), [false, true]);
    let requeued =
        [&[removed("A"), picked_up("B", Some("A"))], &copy[..], std::slice::from_ref(&bounced)].concat();
    assert_eq!(of(&requeued), [true]);
    // A stranger's mail has no such effect, nor has a server's reply further on.
    let strangers =
        [connect(1), received_from("A", 1, STRANGER), named("A", ORIGIN), sent_by("A", &token, 1)];
    let theirs = [&strangers[..], &copy[..], &[forwarded("A", TO, "B"), bounced.clone()]].concat();
    assert_eq!(followed(theirs), [false]);
    let blessed = said("A", "z@x.test", RelayStatus::Delivered, "250 2.0.0 Ok: queued as B");
    assert_eq!(of(&[&copy[..], &[blessed, bounced]].concat()), [true, false]);
}
