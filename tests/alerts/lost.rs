//! Mails lost beyond the relay: told of once, by cause, and the ledger says so.

use std::sync::Arc;
use std::time::Duration;

use devkit::postgres::Refusing;
use devkit::slack::Mishap;
use maple_router::ports::{Failures, RelayStatus};
use maple_router::routing::delivery::book::Book;
use maple_router::routing::delivery::lost::{Lost, LostCause, Mail, Snapshot};
use maple_router::routing::store::delivery_told::TellingStore;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::*;

const BOB: &str = "1|bob@x.test";
const ALICE: &str = "1|alice@y.test";

fn mark(status: &str, dsn: &str) -> Value {
    let said = match status {
        "expired" => "connect to mx.y.test[192.0.2.1]:25: Connection refused (for alice@y.test)",
        _ => "host mx.x.test[192.0.2.1] said: 550 5.1.1 <bob@x.test>: User bob unknown",
    };
    json!({"status": status, "at": "2026-11-01T10:00:00Z", "generation": 0, "queue_id": "4XYZ", "dsn": dsn,
           "text": said, "by": "maple-1", "theirs": 1})
}

impl Bench {
    fn book(&self) -> Book {
        Book::new(TellingStore::new(self.pool()), self.config.slack.lease, self.clock.clone(), self.chance())
    }

    /// A routed submission with these marks.
    async fn routed(&self, marks: &[(&str, Value)]) -> Uuid {
        let entry = |mark: &Value| json!({"state": "accepted", "queue_id": "4XYZ", "relay": mark});
        let deliveries: serde_json::Map<String, Value> =
            marks.iter().map(|(key, mark)| ((*key).to_owned(), entry(mark))).collect();
        let ledger = json!({"v": 1, "attempts": 1, "theirs": [1], "deliveries": deliveries});
        let seed = devkit::forms::SubmissionSeed::of("contact").status("routed").ledger(ledger);
        seed.insert(&self.backend).await.expect("a row").id
    }

    fn told_at(row: &Row, key: &str) -> bool {
        row.ledger["deliveries"][key]["relay"]["told_at"].is_string()
    }

    /// Starts an alerter that also tells of failures in the rows.
    fn start_with(&self, book: &Book) -> Running {
        let mut desk = self.desk(self.failures());
        desk.failures.push(Arc::new(book.clone()));
        self.start_at(desk)
    }
}

fn lost(id: Uuid, key: &str, status: RelayStatus, dsn: &str) -> Lost {
    let mail = Mail { submission_id: id, delivery: key.to_owned(), generation: 0 };
    Lost {
        mail,
        cause: LostCause::of(status, Some(dsn), false),
        at: "2026-11-01T10:00:00Z".parse().expect("a time"),
        told: false,
    }
}

#[tokio::test]
async fn lost_mails_are_told_of_once_by_cause_and_the_ledger_says_so() {
    let bench = Bench::new().await;
    let book = bench.book();
    let both = bench.routed(&[(BOB, mark("bounced", "5.1.1")), (ALICE, mark("expired", "4.4.1"))]).await;
    let one = bench.routed(&[(BOB, mark("bounced", "5.1.1"))]).await;
    bench.failed(refused(550)).await;
    let before = bench.row(both).await;
    book.add(lost(both, BOB, RelayStatus::Bounced, "5.1.1"));
    book.add(lost(both, ALICE, RelayStatus::Expired, "4.4.1"));
    book.add(lost(one, BOB, RelayStatus::Bounced, "5.1.1"));
    let alerter = bench.start_with(&book);
    bench.pass(31 * SECOND).await;
    let mut counts = bench.counts();
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 2], "by cause, beside the failures: {:?}", bench.told());
    let told = bench.told().join("\n");
    for expected in [
        "refused beyond the relay (5.1.1, no such mailbox)",
        "(4.4.1, the next system does not answer)",
        "User … unknown",
        "form contact; the oldest was lost",
        "maple-router list --bounced",
        "rb-009-routing-failure.md, section lost",
    ] {
        assert!(told.contains(expected), "{expected} in {told}");
    }
    assert!(
        told.contains(&format!("maple-router explain {both}")) || told.contains(&format!("explain {one}"))
    );
    for secret in ["@", "bob", "alice"] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    let row = bench.row(both).await;
    assert!(Bench::told_at(&row, BOB) && Bench::told_at(&row, ALICE), "{row:?}");
    assert_eq!(
        (&row.status, &row.updated_at),
        (&before.status, &before.updated_at),
        "being told of is no move"
    );
    let mut as_before = row.ledger.clone();
    for key in [BOB, ALICE] {
        as_before["deliveries"][key]["relay"].as_object_mut().expect("a mark").remove("told_at");
    }
    assert_eq!(as_before, before.ledger, "nothing else has changed");
    assert_eq!(book.snapshot(), Snapshot::default(), "nothing waits any more");
    bench.pass(HOUR).await;
    assert_eq!(bench.told().len(), 3);
    alerter.stop().await;
}

#[tokio::test]
async fn what_was_replayed_told_of_or_purged_meanwhile_is_not_told_of() {
    let bench = Bench::new().await;
    let book = bench.book();
    let mut again = mark("bounced", "5.1.1");
    again["generation"] = json!(1);
    let mut known = mark("bounced", "5.1.1");
    known["told_at"] = json!("2026-11-01T10:00:00Z");
    let marks = [again, known, mark("delivered", "2.0.0"), json!("damaged"), json!(null)];
    for mark in marks {
        let id = bench.routed(&[(BOB, mark)]).await;
        book.add(lost(id, BOB, RelayStatus::Bounced, "5.1.1"));
    }
    let purged = bench.routed(&[(BOB, mark("bounced", "5.1.1"))]).await;
    book.add(lost(purged, BOB, RelayStatus::Bounced, "5.1.1"));
    bench.tamper(&format!("status = 'purged' WHERE id = '{purged}'")).await;
    book.add(lost(Uuid::from_u128(4), BOB, RelayStatus::Bounced, "5.1.1"));
    let alerter = bench.start_with(&book);
    bench.pass(60 * SECOND).await;
    assert_eq!((bench.told(), book.snapshot()), (vec![], Snapshot::default()));
    alerter.stop().await;
}

#[tokio::test]
async fn slack_away_and_a_restart_lose_none_of_them() {
    let bench = Bench::new().await;
    let book = bench.book();
    let id = bench.routed(&[(BOB, mark("bounced", "5.1.1"))]).await;
    book.add(lost(id, BOB, RelayStatus::Bounced, "5.1.1"));
    bench.slack.script().always(Mishap::Status(500));
    let alerter = bench.start_with(&book);
    bench.pass(31 * SECOND).await;
    assert!(bench.told().is_empty() && !Bench::told_at(&bench.row(id).await, BOB));
    alerter.stop().await;
    bench.slack.script().clear();
    let next = bench.book();
    next.restore(serde_json::from_value(json!(book.snapshot())).expect("a snapshot"));
    let alerter = bench.start_with(&next);
    bench.pass(600 * SECOND).await;
    assert_eq!((bench.counts(), Bench::told_at(&bench.row(id).await, BOB)), (vec![1], true));
    alerter.stop().await;
}

#[tokio::test]
async fn a_ledger_that_is_locked_is_written_later_and_nobody_is_told_twice() {
    let bench = Bench::new().await;
    let book = bench.book();
    let id = bench.routed(&[(BOB, mark("bounced", "5.1.1"))]).await;
    book.add(lost(id, BOB, RelayStatus::Bounced, "5.1.1"));
    let locker = bench.db.client_as("forms_app").await.expect("forms_app");
    let lock = format!("BEGIN; SELECT FROM submissions WHERE id = '{id}' FOR UPDATE");
    locker.batch_execute(&lock).await.expect("locked");
    let lease = book.lease("bounced 5.1.1").await.expect("leased").expect("a lease");
    assert_eq!(lease.rows, [id]);
    assert_eq!(book.confirm(&lease).await, Ok(0), "nobody waits for a lock");
    assert_eq!(book.unalerted().await, Ok(vec![]));
    assert!(book.snapshot().lost[0].told, "a restart tells nobody again");
    locker.batch_execute("ROLLBACK").await.expect("free");
    assert_eq!(book.unalerted().await, Ok(vec![]));
    assert!(Bench::told_at(&bench.row(id).await, BOB));
    assert_eq!(book.snapshot(), Snapshot::default());
}

/// A place of failures that cannot be read holds up no other.
#[tokio::test]
async fn one_place_in_trouble_holds_up_no_other() {
    let bench = Bench::new().await;
    bench.failed(refused(550)).await;
    let mut elsewhere = bench.config.clone();
    elsewhere.database.url = "postgres://forms_app@127.0.0.1:1/nowhere".to_owned();
    elsewhere.database.connect_timeout = SECOND;
    let options = maple_router::db::PoolOptions::new(bench.clock.clone());
    let nowhere = maple_router::db::Pool::new(&elsewhere.database, options).expect("a pool");
    let book =
        Book::new(TellingStore::new(nowhere), elsewhere.slack.lease, bench.clock.clone(), bench.chance());
    book.add(lost(Uuid::from_u128(1), BOB, RelayStatus::Bounced, "5.1.1"));
    let mut desk = bench.desk(Arc::new(book.clone()));
    desk.failures.push(bench.failures());
    let alerter = bench.start_at(desk);
    bench.pass(60 * SECOND).await;
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![1], 0));
    assert_eq!(book.snapshot().lost.len(), 1, "it waits");
    alerter.stop().await;
}

/// P9: that people were told of the others is written, and they are not told of them again.
#[tokio::test]
async fn a_row_that_refuses_that_people_were_told_keeps_no_other_from_it() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(bench.routed(&[(BOB, mark("bounced", "5.1.1"))]).await);
    }
    ids.sort();
    bench.db.refuse(Refusing::Trigger, &ids[1..2]).await.expect("refused");
    let mails: Vec<Mail> =
        ids.iter().map(|id| Mail { submission_id: *id, delivery: BOB.to_owned(), generation: 0 }).collect();
    let told = TellingStore::new(bench.pool());
    let written = told.told(&mails).await.expect("written");
    assert_eq!((written.written, written.refused[0].id), (3, ids[1]));
    for id in [ids[0], ids[2], ids[3]] {
        assert!(Bench::told_at(&bench.row(id).await, BOB));
    }
    // The book tries the one again when its rest is over, and only then.
    let book = bench.book();
    let leased = async |book: &Book| book.lease("bounced 5.1.1").await.expect("asked");
    book.add(lost(ids[1], BOB, RelayStatus::Bounced, "5.1.1"));
    let lease = leased(&book).await.expect("a lease");
    assert_eq!(book.confirm(&lease).await.expect("confirmed"), 0, "people know, the row does not");
    bench.db.refuse(Refusing::Trigger, &[]).await.expect("mended");
    book.unalerted().await.expect("asked");
    assert!(!Bench::told_at(&bench.row(ids[1]).await, BOB), "it rests");
    bench.clock.advance(Duration::from_secs(6), 0).await;
    assert!(book.unalerted().await.expect("asked").is_empty());
    assert!(Bench::told_at(&bench.row(ids[1]).await, BOB));
}
