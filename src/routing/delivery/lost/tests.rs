use std::time::Duration;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "any instant will do")]
fn start() -> Instant {
    Instant::now()
}

fn lost(n: u128, status: RelayStatus, dsn: &str) -> Lost {
    Lost {
        mail: Mail { submission_id: Uuid::from_u128(n), delivery: "1|bob@x.test".to_owned(), generation: 0 },
        cause: LostCause::of(status, Some(dsn), false),
        at: Timestamp::from_second(i64::try_from(n).expect("small")).expect("a time"),
        notified: false,
    }
}

fn bounced(n: u128) -> Lost {
    lost(n, RelayStatus::Bounced, "5.1.1")
}

fn causes(pages: &Pages, now: Instant) -> Vec<(String, u64)> {
    pages.causes(now).into_iter().map(|found| (found.cause, found.count)).collect()
}

#[test]
fn a_cause_is_made_of_closed_words() {
    for (status, dsn, key) in [
        (RelayStatus::Bounced, Some("5.1.1"), "bounced 5.1.1"),
        (RelayStatus::Expired, Some("4.4.1"), "expired 4.4.1"),
        (RelayStatus::Bounced, None, "bounced"),
        (RelayStatus::Bounced, Some("<bob@x.test>"), "bounced"),
        (RelayStatus::Bounced, Some("5.1.1 bob@x.test"), "bounced"),
        (RelayStatus::Bounced, Some("5.1.1.1"), "bounced"),
        (RelayStatus::Bounced, Some("5.1"), "bounced"),
        (RelayStatus::Bounced, Some("5.+1.1"), "bounced"),
        (RelayStatus::Bounced, Some("5.1.1000"), "bounced"),
        (RelayStatus::Bounced, Some("9.1.1"), "bounced"),
        (RelayStatus::Bounced, Some(""), "bounced"),
    ] {
        for (claimed, key) in [(false, key.to_owned()), (true, format!("claimed {key}"))] {
            let cause = LostCause::of(status, dsn, claimed);
            assert_eq!(cause.to_string(), key, "{dsn:?}");
            assert_eq!(LostCause::from(key), cause);
        }
    }
    insta::assert_snapshot!(
        [("5.1.1", RelayStatus::Bounced), ("4.4.1", RelayStatus::Expired), ("", RelayStatus::Bounced)]
            .map(|(dsn, status)| LostCause::of(status, Some(dsn), false).words())
            .join("\n"), @r"
    mail lost after it was accepted: refused by a later hop (5.1.1, no such mailbox)
    mail lost after it was accepted: given up by the relay: it waited too long, or was removed by hand (4.4.1, the next system does not answer)
    mail lost after it was accepted: refused by a later hop
    ");
    insta::assert_snapshot!(
        LostCause::of(RelayStatus::Bounced, Some("5.1.1"), true).words(),
        @"a returned mail says (any of its recipients could have written it): mail lost after it was accepted: refused by a later hop (5.1.1, no such mailbox)"
    );
}

#[test]
fn what_is_leased_is_told_once_and_comes_back_when_the_lease_ends() {
    let (now, one, two) = (start(), Uuid::from_u128(1), Uuid::from_u128(2));
    let mut pages = Pages::default();
    for n in [3, 1, 2] {
        pages.add(bounced(n));
        pages.add(bounced(n));
    }
    pages.add(lost(4, RelayStatus::Expired, "4.4.1"));
    let all = [("bounced 5.1.1".to_owned(), 3), ("expired 4.4.1".to_owned(), 1)];
    assert_eq!(causes(&pages, now), all);
    let until = now + 120 * SECOND;
    let (leased, more) = pages.lease("bounced 5.1.1", one, until, now);
    let ids: Vec<u128> = leased.iter().map(|lost| lost.mail.submission_id.as_u128()).collect();
    assert_eq!((ids, more), (vec![1, 2, 3], false), "the oldest first");
    assert_eq!(causes(&pages, now), all[1..]);
    assert!(pages.lease("bounced 5.1.1", two, until, now).0.is_empty(), "somebody is telling of them");
    assert_eq!(causes(&pages, until), all, "a lease ends");
    pages.give_back(two);
    assert_eq!(causes(&pages, now), all[1..], "not with another's lease");
    pages.give_back(one);
    assert_eq!(causes(&pages, now), all, "given back");
}

#[test]
fn what_was_told_waits_for_its_ledger_only() {
    let (now, token) = (start(), Uuid::from_u128(1));
    let mut pages = Pages::default();
    pages.add(bounced(1));
    pages.lease("bounced 5.1.1", token, now + SECOND, now);
    assert!(pages.unwritten(10).is_empty());
    let before = pages.changes();
    assert_eq!(pages.notified(token), 0);
    assert!(pages.changes() > before, "worth a snapshot");
    assert_eq!(causes(&pages, now + 2 * SECOND), [], "though the lease has ended");
    // A process that dies here does not notify again.
    let mut next = Pages::default();
    next.restore(serde_json::from_value(serde_json::json!(pages.snapshot())).expect("a snapshot"));
    assert_eq!((causes(&next, now), next.unwritten(10).len()), (vec![], 1));
    next.forget(&[bounced(1).mail]);
    assert_eq!((next.unwritten(10).len(), next.snapshot()), (0, Snapshot::default()));
}

#[test]
fn a_snapshot_is_what_was_there_and_one_of_nothing_is_read() {
    let now = start();
    let mut pages = Pages::default();
    pages.add(bounced(1));
    pages.add(lost(2, RelayStatus::Expired, ""));
    pages.lease("bounced 5.1.1", Uuid::nil(), now + SECOND, now);
    let stored = serde_json::json!(pages.snapshot());
    assert_eq!(stored["lost"][0]["cause"], "bounced 5.1.1");
    let mut next = Pages::default();
    next.restore(serde_json::from_value(stored).expect("a snapshot"));
    assert_eq!(causes(&next, now), [("bounced 5.1.1".to_owned(), 1), ("expired".to_owned(), 1)]);
    next.restore(serde_json::from_str("{}").expect("nothing"));
    next.restore(pages.snapshot());
    assert_eq!(next.snapshot(), pages.snapshot(), "each once");
}

#[test]
fn too_many_are_counted_and_told_of_by_number() {
    let (now, token) = (start(), Uuid::from_u128(1));
    let mut pages = Pages::default();
    for n in 0..MOST + 7 {
        pages.add(bounced(n as u128));
    }
    assert_eq!(pages.snapshot().lost.len(), MOST, "memory is bounded");
    assert_eq!(causes(&pages, now), [("bounced 5.1.1".to_owned(), MOST as u64), ("beyond".to_owned(), 7)]);
    let until = now + SECOND;
    let (leased, more) = pages.lease("bounced 5.1.1", token, until, now);
    assert_eq!((leased.len(), more), (LEASED, true), "one message is bounded");
    assert_eq!(pages.lease_rest("bounced 5.1.1", token, until, now), None);
    assert_eq!(pages.lease_rest("beyond", token, until, now), Some(7));
    assert_eq!(pages.lease_rest("beyond", token, until, now), None, "somebody is telling of them");
    pages.add(bounced(999_999));
    assert_eq!(pages.notified(token), 7);
    assert_eq!(causes(&pages, now).last(), Some(&("beyond".to_owned(), 1)), "what came meanwhile waits");
}
