//! Mails lost after the relay's acceptance: reported once, by cause, and the ledger says so.

use std::sync::Arc;
use std::time::Duration;

use devkit::postgres::Refusing;
use devkit::slack::Mishap;
use devkit::submission::Row;
use maple_router::ports::{Failures, RelayStatus};
use maple_router::routing::delivery::lost::{Lost, LostCause, Mail, Snapshot};
use maple_router::routing::follow::pending_notices::PendingNotices;
use maple_router::routing::store::delivery_notified::NotificationStore;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::*;

const BOB: &str = "1|bob@x.test";
const ALICE: &str = "1|alice@y.test";

fn relay_entry(status: &str, dsn: &str) -> Value {
    let said = match status {
        "expired" => "connect to mx.y.test[192.0.2.1]:25: Connection refused (for alice@y.test)",
        _ => "host mx.x.test[192.0.2.1] said: 550 5.1.1 <bob@x.test>: User bob unknown",
    };
    json!({"status": status, "at": "2026-11-01T10:00:00Z", "generation": 0, "queue_id": "4XYZ", "dsn": dsn,
           "text": said, "by": "maple-1", "theirs": 1})
}

impl Bench {
    fn pending_notices(&self) -> PendingNotices {
        PendingNotices::new(
            NotificationStore::new(self.pool()),
            self.config.slack.lease,
            self.clock.clone(),
            self.rng(),
        )
    }

    /// A routed submission with these delivery states.
    async fn routed(&self, relay_entries: &[(&str, Value)]) -> Uuid {
        let entry = |relay: &Value| json!({"state": "accepted", "queue_id": "4XYZ", "relay": relay});
        let deliveries: serde_json::Map<String, Value> =
            relay_entries.iter().map(|(key, relay)| ((*key).to_owned(), entry(relay))).collect();
        let ledger = json!({"v": 1, "attempts": 1, "theirs": [1], "deliveries": deliveries});
        let seed = devkit::forms::SubmissionSeed::of("contact").status("routed").ledger(ledger);
        seed.insert(&self.backend).await.expect("a row").id
    }

    fn notified_at(row: &Row, key: &str) -> bool {
        row.ledger["deliveries"][key]["relay"]["told_at"].is_string()
    }

    /// Starts an alerter that also tells of failures in the rows.
    fn start_with(&self, pending_notices: &PendingNotices) -> Running {
        let mut sender = self.sender(self.failures());
        sender.failures.push(Arc::new(pending_notices.clone()));
        self.start_at(sender)
    }
}

fn lost(id: Uuid, key: &str, status: RelayStatus, dsn: &str) -> Lost {
    let mail = Mail { submission_id: id, delivery: key.to_owned(), generation: 0 };
    Lost {
        mail,
        cause: LostCause::of(status, Some(dsn), false),
        at: "2026-11-01T10:00:00Z".parse().expect("a time"),
        notified: false,
    }
}

#[tokio::test]
async fn lost_mails_are_reported_once_by_cause_and_the_ledger_says_so() {
    let bench = Bench::new().await;
    let pending_notices = bench.pending_notices();
    let both = bench
        .routed(&[(BOB, relay_entry("bounced", "5.1.1")), (ALICE, relay_entry("expired", "4.4.1"))])
        .await;
    let one = bench.routed(&[(BOB, relay_entry("bounced", "5.1.1"))]).await;
    bench.failed(refused(550)).await;
    let before = bench.row(both).await;
    pending_notices.add(lost(both, BOB, RelayStatus::Bounced, "5.1.1"));
    pending_notices.add(lost(both, ALICE, RelayStatus::Expired, "4.4.1"));
    pending_notices.add(lost(one, BOB, RelayStatus::Bounced, "5.1.1"));
    let alerter = bench.start_with(&pending_notices);
    bench.pass(31 * SECOND).await;
    let mut counts = bench.counts();
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 2], "by cause, beside the failures: {:?}", bench.posted());
    let text = bench.posted().join("\n");
    for expected in [
        "refused by a later hop (5.1.1, no such mailbox)",
        "(4.4.1, the next system does not answer)",
        "User … unknown",
        "form contact; the oldest was lost",
        "maple-router list --bounced",
        "rb-009-routing-failure.md, section lost",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(
        text.contains(&format!("maple-router explain {both}")) || text.contains(&format!("explain {one}"))
    );
    for secret in ["@", "bob", "alice"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let row = bench.row(both).await;
    assert!(Bench::notified_at(&row, BOB) && Bench::notified_at(&row, ALICE), "{row:?}");
    assert_eq!(
        (&row.status, &row.updated_at),
        (&before.status, &before.updated_at),
        "a notification is no move"
    );
    let mut as_before = row.ledger.clone();
    for key in [BOB, ALICE] {
        as_before["deliveries"][key]["relay"].as_object_mut().expect("a relay entry").remove("told_at");
    }
    assert_eq!(as_before, before.ledger, "nothing else has changed");
    assert_eq!(pending_notices.snapshot(), Snapshot::default(), "nothing waits any more");
    bench.pass(HOUR).await;
    assert_eq!(bench.posted().len(), 3);
    alerter.stop().await;
}

#[tokio::test]
async fn what_was_replayed_reported_or_purged_meanwhile_is_not_reported() {
    let bench = Bench::new().await;
    let pending_notices = bench.pending_notices();
    let mut again = relay_entry("bounced", "5.1.1");
    again["generation"] = json!(1);
    let mut known = relay_entry("bounced", "5.1.1");
    known["told_at"] = json!("2026-11-01T10:00:00Z");
    let relay_entries = [again, known, relay_entry("delivered", "2.0.0"), json!("damaged"), json!(null)];
    for relay in relay_entries {
        let id = bench.routed(&[(BOB, relay)]).await;
        pending_notices.add(lost(id, BOB, RelayStatus::Bounced, "5.1.1"));
    }
    let purged = bench.routed(&[(BOB, relay_entry("bounced", "5.1.1"))]).await;
    pending_notices.add(lost(purged, BOB, RelayStatus::Bounced, "5.1.1"));
    bench.tamper(&format!("status = 'purged' WHERE id = '{purged}'")).await;
    pending_notices.add(lost(Uuid::from_u128(4), BOB, RelayStatus::Bounced, "5.1.1"));
    let alerter = bench.start_with(&pending_notices);
    bench.pass(60 * SECOND).await;
    assert_eq!((bench.posted(), pending_notices.snapshot()), (vec![], Snapshot::default()));
    alerter.stop().await;
}

#[tokio::test]
async fn slack_away_and_a_restart_lose_none_of_them() {
    let bench = Bench::new().await;
    let pending_notices = bench.pending_notices();
    let id = bench.routed(&[(BOB, relay_entry("bounced", "5.1.1"))]).await;
    pending_notices.add(lost(id, BOB, RelayStatus::Bounced, "5.1.1"));
    bench.slack.script().always(Mishap::Status(500));
    let alerter = bench.start_with(&pending_notices);
    bench.pass(31 * SECOND).await;
    assert!(bench.posted().is_empty() && !Bench::notified_at(&bench.row(id).await, BOB));
    alerter.stop().await;
    bench.slack.script().clear();
    let next = bench.pending_notices();
    next.restore(serde_json::from_value(json!(pending_notices.snapshot())).expect("a snapshot"));
    let alerter = bench.start_with(&next);
    bench.pass(600 * SECOND).await;
    assert_eq!((bench.counts(), Bench::notified_at(&bench.row(id).await, BOB)), (vec![1], true));
    alerter.stop().await;
}

#[tokio::test]
async fn a_ledger_that_is_locked_is_written_later_and_nobody_is_notified_twice() {
    let bench = Bench::new().await;
    let pending_notices = bench.pending_notices();
    let id = bench.routed(&[(BOB, relay_entry("bounced", "5.1.1"))]).await;
    pending_notices.add(lost(id, BOB, RelayStatus::Bounced, "5.1.1"));
    let locker = bench.db.client_as("forms_app").await.expect("forms_app");
    let lock = format!("BEGIN; SELECT FROM submissions WHERE id = '{id}' FOR UPDATE");
    locker.batch_execute(&lock).await.expect("locked");
    let lease = pending_notices.lease("bounced 5.1.1").await.expect("leased").expect("a lease");
    assert_eq!(lease.rows, [id]);
    assert_eq!(pending_notices.confirm(&lease).await, Ok(0), "nobody waits for a lock");
    assert_eq!(pending_notices.unalerted().await, Ok(vec![]));
    assert!(pending_notices.snapshot().lost[0].notified, "a restart tells nobody again");
    locker.batch_execute("ROLLBACK").await.expect("free");
    assert_eq!(pending_notices.unalerted().await, Ok(vec![]));
    assert!(Bench::notified_at(&bench.row(id).await, BOB));
    assert_eq!(pending_notices.snapshot(), Snapshot::default());
}

/// A source of failures that cannot be read delays no other.
#[tokio::test]
async fn one_place_in_trouble_holds_up_no_other() {
    let bench = Bench::new().await;
    bench.failed(refused(550)).await;
    let mut elsewhere = bench.config.clone();
    elsewhere.database.url = "postgres://forms_app@127.0.0.1:1/nowhere".to_owned();
    elsewhere.database.connect_timeout = SECOND;
    let options = maple_router::db::PoolOptions::new(bench.clock.clone());
    let nowhere = maple_router::db::Pool::new(&elsewhere.database, options).expect("a pool");
    let pending_notices = PendingNotices::new(
        NotificationStore::new(nowhere),
        elsewhere.slack.lease,
        bench.clock.clone(),
        bench.rng(),
    );
    pending_notices.add(lost(Uuid::from_u128(1), BOB, RelayStatus::Bounced, "5.1.1"));
    let mut sender = bench.sender(Arc::new(pending_notices.clone()));
    sender.failures.push(bench.failures());
    let alerter = bench.start_at(sender);
    bench.pass(60 * SECOND).await;
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![1], 0));
    assert_eq!(pending_notices.snapshot().lost.len(), 1, "it waits");
    alerter.stop().await;
}

/// P9: the others' notification is recorded, and they are not reported again.
#[tokio::test]
async fn a_row_that_refuses_its_notification_keeps_no_other_from_it() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(bench.routed(&[(BOB, relay_entry("bounced", "5.1.1"))]).await);
    }
    ids.sort();
    bench.db.refuse(Refusing::Trigger, &ids[1..2]).await.expect("refused");
    let mails: Vec<Mail> =
        ids.iter().map(|id| Mail { submission_id: *id, delivery: BOB.to_owned(), generation: 0 }).collect();
    let notifications = NotificationStore::new(bench.pool());
    let written = notifications.notified(&mails).await.expect("written");
    assert_eq!((written.written, written.refused[0].id), (3, ids[1]));
    for id in [ids[0], ids[2], ids[3]] {
        assert!(Bench::notified_at(&bench.row(id).await, BOB));
    }
    // The pending notices try the one again when its rest is over, and only then.
    let pending_notices = bench.pending_notices();
    let leased =
        async |pending_notices: &PendingNotices| pending_notices.lease("bounced 5.1.1").await.expect("asked");
    pending_notices.add(lost(ids[1], BOB, RelayStatus::Bounced, "5.1.1"));
    let lease = leased(&pending_notices).await.expect("a lease");
    assert_eq!(pending_notices.confirm(&lease).await.expect("confirmed"), 0, "people know, the row does not");
    bench.db.refuse(Refusing::Trigger, &[]).await.expect("mended");
    pending_notices.unalerted().await.expect("asked");
    assert!(!Bench::notified_at(&bench.row(ids[1]).await, BOB), "it rests");
    bench.clock.advance(Duration::from_secs(6), 0).await;
    assert!(pending_notices.unalerted().await.expect("asked").is_empty());
    assert!(Bench::notified_at(&bench.row(ids[1]).await, BOB));
}
