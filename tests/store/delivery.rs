//! Delivery tracking in the rows: statuses are merged whoever has the claim and however often, move nothing else,
//! and prove acceptances.

use maple_router::ports::RelayStatus;
use maple_router::routing::delivery::Seen;
use maple_router::routing::store::delivery::SeenRecorded;
use maple_router::routing::store::{BeginAnswer, Conclusion, Recorded};
use maple_router::routing::submission::message_id::Origin;
use serde_json::json;

use super::*;

pub(crate) fn seen(id: Uuid, key: &str, status: RelayStatus, queue_id: &str) -> Seen {
    let (order, address) = key.split_once('|').expect("a key");
    Seen {
        origin: Origin { submission: id, action_order: order.parse().expect("an order"), generation: 0 },
        recipient: address.to_owned(),
        status,
        at: None,
        queue_id: Some(queue_id.to_owned()),
        proved: true,
        message_id: Some("<m@x.test>".to_owned()),
        dsn: Some("5.1.1".to_owned()),
        relay: Some("mx.x.test[192.0.2.1]:25".to_owned()),
        text: format!("said of <{address}>"),
    }
}

impl Bench {
    async fn see(&self, seen: &[Seen]) -> SeenRecorded {
        self.store.record_seen(seen, "me").await.expect("recorded")
    }

    async fn accepted_and_routed(&self) -> Uuid {
        let id = self.claimed("t").await;
        self.store.begin(id, "t", &keys(&[A, B, C])).await.expect("begun");
        let ended = self.store.record(scope(id, "t", &all_tried()), &all_accepted("t", "n")).await;
        assert!(matches!(ended, Ok(Recorded::Concluded(Conclusion::Routed { .. }))), "{ended:?}");
        id
    }
}

#[tokio::test]
async fn one_mail_of_three_is_lost_and_the_submission_stays_what_it_is() {
    let bench = Bench::new().await;
    let id = bench.accepted_and_routed().await;
    let before = bench.row(id).await;
    let all = [
        seen(id, A, RelayStatus::Delivered, "QA"),
        seen(id, B, RelayStatus::Deferred, "QB"),
        seen(id, C, RelayStatus::Delivered, "QC"),
        seen(id, B, RelayStatus::Bounced, "QB"),
    ];
    let recorded = bench.see(&all).await;
    assert_eq!((recorded.changed.len(), recorded.busy.len()), (4, 0));
    let unnotified: Vec<_> =
        recorded.unnotified.iter().map(|lost| (lost.key.as_str(), lost.status)).collect();
    assert_eq!(unnotified, [(B, RelayStatus::Bounced)]);
    let lost = &recorded.changed[3];
    assert_eq!((lost.index, lost.lost, lost.found, lost.form_id.as_str()), ((2, 2), true, false, "f"));

    let row = bench.row(id).await;
    assert_eq!((&row.status, &row.updated_at), (&before.status, &before.updated_at));
    for (key, status) in [(A, "delivered"), (B, "bounced"), (C, "delivered")] {
        let entry = row.entry(key);
        assert_eq!(
            (&entry["state"], &entry["relay"]["status"]),
            (&json!("accepted"), &json!(status)),
            "{entry}"
        );
    }
    let relay = &row.entry(B)["relay"];
    assert!(relay["since"].is_string() && relay["told_at"].is_null(), "{relay}");
    assert_eq!(
        (&relay["by"], &relay["queue_id"], &relay["dsn"]),
        (&json!("me"), &json!("QB"), &json!("5.1.1"))
    );
    let trail = bench.audit(id).await;
    let (action, detail) = trail.last().expect("a trail");
    assert_eq!((action.as_str(), &detail["error"]["stage"]), ("email_failed", &json!("delivery")));
    assert_eq!(trail.iter().filter(|(action, _)| action == "email_failed").count(), 1);
    assert!(!detail.to_string().contains("b@x.test"), "{detail}");

    // The same lines again, and once more by somebody else.
    let again = bench.see(&all).await;
    assert!(again.changed.is_empty(), "{again:?}");
    assert_eq!(again.unnotified.len(), 1, "who notifies may have died before that");
    let of_another = bench.store.record_seen(&all, "another").await.expect("recorded");
    assert_eq!(format!("{of_another:?}"), format!("{:?}", SeenRecorded::default()));
    assert_eq!(bench.row(id).await, row);
}

#[tokio::test]
async fn what_is_not_there_is_left_alone_and_what_is_locked_comes_again() {
    let bench = Bench::new().await;
    let (id, purged, damaged, unknown) = (
        bench.accepted_and_routed().await,
        bench.accepted_and_routed().await,
        bench.accepted_and_routed().await,
        Uuid::nil(),
    );
    bench.tamper(purged, "status = 'purged', routing_result = '{}'").await;
    bench.tamper(damaged, "routing_result = routing_result || '{\"attempts\": \"many\"}'").await;
    let (was_purged, was_damaged) = (bench.row(purged).await, bench.row(damaged).await);
    let all: Vec<Seen> =
        [id, purged, damaged, unknown].map(|id| seen(id, A, RelayStatus::Delivered, "QA")).to_vec();
    let mut locker = bench.db.superuser().await.expect("a locker");
    let lock = locker.transaction().await.expect("a transaction");
    lock.query_one("SELECT id FROM submissions WHERE id = $1 FOR UPDATE", &[&id]).await.expect("locked");
    let recorded = bench.see(&all).await;
    assert_eq!(recorded.busy, [all[0].clone()]);
    assert!(recorded.changed.is_empty());
    lock.rollback().await.expect("let go");
    assert_eq!(bench.see(&recorded.busy).await.changed.len(), 1);
    assert_eq!((bench.row(purged).await, bench.row(damaged).await), (was_purged, was_damaged));
}

/// The worker died after the dot. The log tells before the claim is taken back, or after it.
#[tokio::test]
async fn what_the_log_tells_ends_doubt_without_another_send() {
    let bench = Bench::new().await;
    let id = bench.claimed("dead").await;
    bench.store.begin(id, "dead", &keys(&[A, B])).await.expect("begun");
    let early = bench.see(&[seen(id, A, RelayStatus::Delivered, "Q")]).await;
    assert!(!early.changed[0].found, "its worker may be alive, and record it itself");
    assert_eq!(bench.row(id).await.entry(A)["state"], "open");
    bench.reset(id).await;
    let late = bench.see(&[seen(id, B, RelayStatus::Bounced, "Q")]).await;
    assert!(late.changed[0].found && late.changed[0].lost);
    let row = bench.row(id).await;
    assert_eq!(
        (&row.entry(B)["state"], &row.entry(B)["doubted"]),
        (&json!("accepted"), &json!(true)),
        "{row:?}"
    );
    assert_eq!(row.status, "received");
    // A proof that was there before the doubt counts as what it is when attempts are spent.
    bench.tamper(id, "routing_result = routing_result || '{\"attempts\": 5}'").await;
    bench
        .tamper(
            id,
            "routing_result = jsonb_set(routing_result, '{deliveries,2|c@x.test}', '{\"state\": \"accepted\", \"at\": null}')",
        )
        .await;
    let Claimed::Taken(taken) = bench.claim(id, "new").await else {
        panic!("only its fact has to be recorded")
    };
    assert!(taken.ledger.deliveries[A].in_doubt("new") && taken.ledger.deliveries[A].relay.is_some());
}

/// The relay's own answer, the spool of a dead process and the log tell of one acceptance.
#[tokio::test]
async fn one_queue_id_is_one_acceptance_whoever_tells_of_it() {
    let bench = Bench::new().await;
    let id = bench.claimed("dead").await;
    bench.store.begin(id, "dead", &keys(&[A])).await.expect("begun");
    bench.reset(id).await;
    assert!(bench.see(&[seen(id, A, RelayStatus::Delivered, "Q")]).await.changed[0].found);
    let before = bench.row(id).await;
    let spooled = entries("dead", "n", &[(A, accepted("Q"))]);
    bench.store.merge_facts(id, "dead", &spooled.facts).await.expect("merged");
    assert_eq!(bench.row(id).await, before, "known already");
    let other = entries("dead", "n2", &[(A, accepted("Q2"))]);
    bench.store.merge_facts(id, "dead", &other.facts).await.expect("merged");
    assert_eq!(
        bench.row(id).await.entry(A)["dups"].as_array().map(Vec::len),
        Some(1),
        "another mail is another"
    );
    bench
        .store
        .merge_facts(id, "dead", &entries("dead", "n3", &[(A, accepted("Q2"))]).facts)
        .await
        .expect("merged");
    assert_eq!(bench.row(id).await.entry(A)["dups"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_was_read_of_the_log_is_kept_with_the_begin_and_goes_with_the_fact() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let intents = bench.store.begin_after(id, "t", &keys(&[A, B]), Some("me/7")).await.expect("begun");
    assert_eq!(intents, BeginAnswer::Stands);
    assert_eq!(bench.row(id).await.entry(A)["log_mark"], "me/7");
    let sent = entries("t", "n", &[(A, accepted("Q")), (B, Outcome::Unknown(fault(0)))]);
    bench.store.record(scope(id, "t", &BTreeSet::from([1])), &sent).await.expect("recorded");
    let row = bench.row(id).await;
    assert!(row.entry(A).get("log_mark").is_none(), "{row:?}");
    assert_eq!(row.entry(B)["log_mark"], "me/7", "it tells what is about this send");
    bench.store.begin(id, "t", &keys(&[B])).await.expect("begun");
    assert!(bench.row(id).await.entry(B)["log_mark"].is_null(), "nobody follows now");
}
