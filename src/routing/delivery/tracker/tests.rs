use std::net::Ipv4Addr;

use uuid::Uuid;

use super::*;
use crate::ports::{QueuedMail, SessionSummary};

mod stories;

const ORIGIN: Origin = Origin { submission: Uuid::from_u128(7), action_order: 1, generation: 0 };
const TO: &str = "a@x.test";

fn line(entry: LogEntry) -> LogLine {
    LogLine { at: None, entry }
}

fn connect(session: u32) -> LogLine {
    line(LogEntry::SessionBegan { session })
}

fn received(id: &str, session: u32) -> LogLine {
    received_from(id, session, Ipv4Addr::LOCALHOST)
}

fn received_from(id: &str, session: u32, client: Ipv4Addr) -> LogLine {
    line(LogEntry::Received { id: id.to_owned(), session, client: Some(client.into()) })
}

fn picked_up(id: &str, original: Option<&str>) -> LogLine {
    line(LogEntry::PickedUp { id: id.to_owned(), original: original.map(str::to_owned) })
}

fn forwarded(id: &str, to: &str, next: &str) -> LogLine {
    line(LogEntry::Forwarded { id: id.to_owned(), to: to.to_owned(), next: next.to_owned() })
}

fn named(id: &str, origin: Origin) -> LogLine {
    line(LogEntry::MessageId {
        id: id.to_owned(),
        message_id: message_id::message_id(origin, "it@example.org"),
    })
}

fn active(id: &str) -> LogLine {
    sent_by(id, "it@example.org", 1)
}

fn sent_by(id: &str, sender: &str, recipients: u32) -> LogLine {
    line(LogEntry::Active { id: id.to_owned(), sender: sender.to_owned(), recipients })
}

fn removed(id: &str) -> LogLine {
    line(LogEntry::Removed { id: id.to_owned() })
}

fn cut(session: u32) -> LogLine {
    line(LogEntry::Cut { session })
}

/// Summary `data=TAKEN/…`, without QUIT.
fn ended(session: u32, taken: u32) -> LogLine {
    let summary = SessionSummary { taken, quit: false, chunked: false };
    line(LogEntry::SessionEnded { session, summary: Some(summary) })
}

fn left(session: u32, taken: u32) -> LogLine {
    let summary = SessionSummary { taken, quit: true, chunked: false };
    line(LogEntry::SessionEnded { session, summary: Some(summary) })
}

fn said(id: &str, to: &str, status: RelayStatus, text: &str) -> LogLine {
    let line_of = RecipientLine {
        to: to.to_owned(),
        original: None,
        status,
        dsn: Some("2.0.0".to_owned()),
        relay: Some("mx.test[192.0.2.1]:25".to_owned()),
        text: text.to_owned(),
    };
    line(LogEntry::Recipient { id: id.to_owned(), line: line_of })
}

fn followed(lines: &[LogLine]) -> (Tracker, Vec<Seen>) {
    let mut tracker = Tracker::default();
    let seen = lines.iter().flat_map(|line| tracker.read(line)).collect();
    (tracker, seen)
}

fn lost() -> LogLine {
    line(LogEntry::Lost { suppressed: Some(12) })
}

fn queue(mails: &[(&str, &[&str])]) -> QueueListing {
    let mail = |(id, to): &(&str, &[&str])| QueuedMail {
        id: (*id).to_owned(),
        queue: "deferred".to_owned(),
        sender: "it@example.org".to_owned(),
        recipients: to.iter().map(|to| (*to).to_owned()).collect(),
    };
    QueueListing { found: mails.iter().map(mail).collect(), complete: true }
}

#[test]
fn only_mails_of_ours_are_followed_and_each_recipient_is_told_of() {
    let foreign = LogEntry::MessageId { id: "F".to_owned(), message_id: "<else@example.org>".to_owned() };
    let (tracker, seen) = followed(&[
        received("A", 1),
        named("A", ORIGIN),
        received("F", 2),
        line(foreign),
        active("A"),
        said("F", TO, RelayStatus::Delivered, ""),
        said("A", TO, RelayStatus::Delivered, "ok"),
        said("A", "b@x.test", RelayStatus::Bounced, "no such user"),
    ]);
    let seen: Vec<_> = seen.iter().map(|seen| (seen.recipient.as_str(), seen.status, seen.origin)).collect();
    assert_eq!(seen, [(TO, RelayStatus::Delivered, ORIGIN), ("b@x.test", RelayStatus::Bounced, ORIGIN)]);
    assert_eq!((tracker.followed(), tracker.ids_of(ORIGIN)), (1, vec!["A".to_owned()]));
}

#[test]
fn an_alias_is_told_of_by_the_address_that_was_written_to() {
    let aliased = RecipientLine {
        to: "real@inside.test".to_owned(),
        original: Some(TO.to_owned()),
        status: RelayStatus::Delivered,
        dsn: None,
        relay: None,
        text: String::new(),
    };
    let entry = LogEntry::Recipient { id: "A".to_owned(), line: aliased };
    let (_, seen) = followed(&[named("A", ORIGIN), line(entry)]);
    assert_eq!(seen[0].recipient, TO);
}

#[test]
fn what_is_left_of_an_expired_mail_expires_for_those_who_wait() {
    let expired = LogEntry::Expired { id: "A".to_owned(), why: "returned to sender" };
    let (_, seen) = followed(&[
        named("A", ORIGIN),
        said("A", TO, RelayStatus::Delivered, "ok"),
        said("A", "b@x.test", RelayStatus::Deferred, "later"),
        line(expired.clone()),
        line(expired),
    ]);
    let last: Vec<_> = seen[2..].iter().map(|seen| (seen.recipient.as_str(), seen.status)).collect();
    assert_eq!(last, [("b@x.test", RelayStatus::Expired)]);
}

/// A mail that a content filter brings back under another queue id is reported there.
#[test]
fn what_comes_in_again_is_not_delivered_yet() {
    let (_, seen) = followed(&[
        named("A", ORIGIN),
        received("B", 1),
        named("B", ORIGIN),
        said("A", TO, RelayStatus::Delivered, "250 2.0.0 Ok: queued as B"),
        said("B", TO, RelayStatus::Bounced, "no"),
    ]);
    assert_eq!(seen.iter().map(|seen| seen.status).collect::<Vec<_>>(), [RelayStatus::Bounced]);
    // An upstream's queue id is not ours.
    let (_, seen) =
        followed(&[named("A", ORIGIN), said("A", TO, RelayStatus::Delivered, "Ok: queued as 4XYZ")]);
    assert_eq!(seen.len(), 1);
}

/// Columns: log lines, content of the queue, and the proof for the recipient.
#[test]
fn the_table_of_evidence() {
    let found = || Evidence::Found {
        queue_id: "A".to_owned(),
        message_id: message_id::message_id(ORIGIN, "it@example.org"),
    };
    let disproved =
        |ids: &[&str]| Evidence::Disproved { queue_ids: ids.iter().map(|id| (*id).to_owned()).collect() };
    let other = Origin { submission: Uuid::from_u128(8), ..ORIGIN };
    let none = queue(&[]);
    let with = |to: &str| queue(&[("A", &[to])]);
    let incomplete = QueueListing { complete: false, ..QueueListing::default() };
    let came = vec![connect(9), received("A", 9), named("A", ORIGIN)];
    let join = |parts: &[&[LogLine]]| parts.concat();
    let and = |more: &[LogLine]| join(&[&came, more]);
    let gone = [cut(9), ended(9, 0)];
    let cases: Vec<(&str, Vec<LogLine>, Option<QueueListing>, Evidence)> = vec![
        ("silence", vec![], Some(none.clone()), Evidence::Nothing),
        (
            "another mail",
            vec![received("F", 9), named("F", Origin { action_order: 2, ..ORIGIN })],
            Some(none.clone()),
            Evidence::Nothing,
        ),
        (
            "another generation",
            vec![received("F", 9), named("F", Origin { generation: 1, ..ORIGIN })],
            Some(none.clone()),
            Evidence::Nothing,
        ),
        ("its session lasts", came.clone(), Some(none.clone()), Evidence::Unclear),
        ("it was cut off, the queue was not looked at", and(&gone), None, Evidence::Unclear),
        ("it was cut off, the queue is long", and(&gone), Some(incomplete), Evidence::Unclear),
        ("it was cut off, not in the queue", and(&gone), Some(none.clone()), disproved(&["A"])),
        (
            "it was cut off, and its Message-ID is logged behind that",
            vec![connect(9), received("A", 9), cut(9), ended(9, 0), named("A", ORIGIN)],
            Some(none.clone()),
            disproved(&["A"]),
        ),
        (
            "it was refused, and the client took its leave",
            and(&[left(9, 0)]),
            Some(none.clone()),
            disproved(&["A"]),
        ),
        // A message whose 250 could not be written is taken and not counted; nor does the log say that one was refused.
        (
            "it was not counted, and nothing says why",
            and(&[ended(9, 0)]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        (
            "one was taken that nobody knows",
            and(&[cut(9), ended(9, 1)]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        (
            "fewer were taken than are known",
            join(&[&[connect(9), received("B", 9), named("B", other), active("B")], &came[1..], &gone]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        (
            "as many were taken as are known",
            join(&[
                &[connect(9), received("B", 9), named("B", other), active("B")],
                &came[1..],
                &[cut(9), ended(9, 1)],
            ]),
            Some(none.clone()),
            disproved(&["A"]),
        ),
        (
            "as many were taken as are known, and that is logged behind it",
            join(&[
                &[connect(9), received("B", 9), named("B", other)],
                &came[1..],
                &[cut(9), ended(9, 1), active("B")],
            ]),
            Some(none.clone()),
            disproved(&["A"]),
        ),
        (
            "its end says nothing",
            and(&[cut(9), line(LogEntry::SessionEnded { session: 9, summary: None })]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        (
            "it may have come in chunks",
            and(&[
                cut(9),
                line(LogEntry::SessionEnded {
                    session: 9,
                    summary: Some(SessionSummary { taken: 0, quit: false, chunked: true }),
                }),
            ]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        (
            "lines are missing while its session lasts",
            join(&[&came, &[lost()], &gone]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        ("lines are missing before", join(&[&[lost()], &came, &gone]), Some(none.clone()), disproved(&["A"])),
        ("its beginning was not seen", join(&[&came[1..], &gone]), Some(none.clone()), Evidence::Unclear),
        (
            "its end was not seen, its process has another client",
            and(&[connect(9), cut(9), ended(9, 0)]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        ("it was cut off, in the queue", and(&gone), Some(with(TO)), found()),
        (
            "another session was cut off",
            and(&[connect(8), cut(8), ended(8, 0)]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        (
            "without a session",
            vec![named("A", ORIGIN), cut(9), ended(9, 0)],
            Some(none.clone()),
            Evidence::Nothing,
        ),
        ("active, nobody named yet", and(&[active("A")]), Some(none.clone()), Evidence::Unclear),
        (
            "active, session ended, not in the queue any more",
            and(&[active("A"), ended(9, 1)]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        ("active, the queue names it", and(&[active("A")]), Some(with(TO)), found()),
        (
            "active, the queue names others, all there are",
            and(&[active("A")]),
            Some(with("b@x.test")),
            disproved(&["A"]),
        ),
        (
            "active, the queue names one of two",
            and(&[sent_by("A", "it@example.org", 2)]),
            Some(with("b@x.test")),
            Evidence::Unclear,
        ),
        (
            "active, log and queue name one each",
            and(&[sent_by("A", "it@example.org", 2), said("A", "c@x.test", RelayStatus::Delivered, "")]),
            Some(with("b@x.test")),
            disproved(&["A"]),
        ),
        ("deferred", and(&[said("A", TO, RelayStatus::Deferred, "")]), None, found()),
        ("bounced", and(&[said("A", TO, RelayStatus::Bounced, "")]), None, found()),
        (
            "delivered and gone",
            and(&[said("A", TO, RelayStatus::Delivered, ""), removed("A")]),
            Some(none.clone()),
            found(),
        ),
        (
            "gone, and never for them",
            and(&[active("A"), said("A", "b@x.test", RelayStatus::Delivered, ""), removed("A")]),
            Some(none.clone()),
            disproved(&["A"]),
        ),
        (
            "gone, and one of its two is not reported",
            and(&[
                sent_by("A", "it@example.org", 2),
                said("A", "b@x.test", RelayStatus::Delivered, ""),
                removed("A"),
            ]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
        (
            "one is disproved, another may come",
            join(&[&came, &gone, &[connect(3), received("B", 3), named("B", ORIGIN)]]),
            Some(none.clone()),
            Evidence::Unclear,
        ),
    ];
    for (name, lines, listing, expected) in cases {
        let (tracker, _) = followed(&lines);
        assert_eq!(tracker.evidence(ORIGIN, TO, Some(0), listing.as_ref()), expected, "{name}");
        let saved = serde_json::to_string(&tracker).expect("saved");
        let again: Tracker = serde_json::from_str(&saved).expect("read");
        let again = again.restored(Ours::default());
        assert_eq!(again.evidence(ORIGIN, TO, Some(0), listing.as_ref()), expected, "{name}, saved and read");
        assert_eq!(again.followed(), tracker.followed(), "{name}");
    }
}

/// A session that ended proves nothing about a later send without a log line.
#[test]
fn the_contrary_is_proved_only_by_what_came_after_the_begin() {
    let (mut tracker, _) = followed(&[connect(9), received("A", 9), named("A", ORIGIN), cut(9), ended(9, 0)]);
    let none = queue(&[]);
    let evidence = |tracker: &Tracker, after| tracker.evidence(ORIGIN, TO, after, Some(&none));
    assert_eq!(evidence(&tracker, Some(1)), Evidence::Nothing, "it was logged before");
    assert_eq!(evidence(&tracker, None), Evidence::Nothing, "nobody knows when it was begun");
    for line in [connect(5), received("B", 5), named("B", ORIGIN), cut(5), ended(5, 0)] {
        tracker.read(&line);
    }
    assert_eq!(evidence(&tracker, Some(1)), Evidence::Disproved { queue_ids: vec!["B".to_owned()] });
    tracker.read(&said("A", TO, RelayStatus::Delivered, ""));
    assert!(
        matches!(evidence(&tracker, Some(1)), Evidence::Found { .. }),
        "an acceptance is one, whenever it was"
    );
}

#[test]
fn reading_a_line_twice_changes_nothing() {
    let lines = [
        connect(9),
        received("A", 9),
        named("A", ORIGIN),
        active("A"),
        said("A", TO, RelayStatus::Deferred, "later"),
        ended(9, 1),
    ];
    let (mut tracker, _) = followed(&lines);
    let before = serde_json::to_value(&tracker).expect("saved");
    for line in &lines[2..] {
        tracker.read(line);
    }
    assert_eq!(serde_json::to_value(&tracker).expect("saved"), before);
}

#[test]
fn a_queue_id_that_comes_again_is_another_mail() {
    let other = Origin { submission: Uuid::from_u128(8), ..ORIGIN };
    let (tracker, seen) = followed(&[
        received("A", 1),
        named("A", ORIGIN),
        said("A", TO, RelayStatus::Delivered, ""),
        removed("A"),
        received("A", 2),
        named("A", other),
        said("A", TO, RelayStatus::Bounced, ""),
    ]);
    assert_eq!(seen.iter().map(|seen| seen.origin).collect::<Vec<_>>(), [ORIGIN, other]);
    assert!(tracker.ids_of(ORIGIN).is_empty());
}

#[test]
fn memory_is_bounded() {
    let mut tracker = Tracker::default();
    let of = |n: usize| Origin { submission: Uuid::from_u128(n as u128 + 1), ..ORIGIN };
    for n in 0..REMEMBERED + 50 {
        for line in [received(&format!("D{n}"), 1), named(&format!("D{n}"), of(n)), removed(&format!("D{n}"))]
        {
            tracker.read(&line);
        }
    }
    assert_eq!((tracker.followed(), tracker.mails.len()), (0, REMEMBERED));
    for n in 0..FOLLOWED + 50 {
        tracker.read(&named(&format!("N{n}"), of(n)));
    }
    assert_eq!((tracker.followed(), tracker.mails.len()), (FOLLOWED, FOLLOWED + REMEMBERED));
    for n in 0..3 * NAMELESS {
        tracker.read(&received(&format!("X{n}"), 1));
    }
    assert!(tracker.nameless.len() <= NAMELESS);
    for session in 0..3 * u32::try_from(sessions::MOST).expect("a number") {
        for line in [connect(session), received("Y", session)] {
            tracker.read(&line);
        }
    }
    let last = 3 * u32::try_from(sessions::MOST).expect("a number") - 1;
    for n in 0..3 * sessions::OF_ONE {
        tracker.read(&received(&format!("Z{n}"), last));
    }
    assert_eq!(tracker.sessions.size(), (sessions::MOST, sessions::OF_ONE));
}

#[test]
fn addresses_are_compared_as_mail_servers_do() {
    for (one, other) in
        [("a@X.Test", "a@x.test"), ("\"a b\"@x.test", "a b@x.test"), (r#""a\"b"@x.test"#, "a\"b@x.test")]
    {
        assert_eq!(normal(one), normal(other), "{one}");
    }
    for (one, other) in [("A@x.test", "a@x.test"), ("a@x.test", "a@y.test"), ("a@x.test", "b@x.test")] {
        assert_ne!(normal(one), normal(other), "{one}");
    }
}
