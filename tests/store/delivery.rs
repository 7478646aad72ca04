//! Delivery tracking in the rows: statuses are merged whoever has the claim and however often, move nothing else,
//! and prove acceptances.

use maple_router::ports::RelayStatus;
use maple_router::routing::decide::replay::{Force, ReplayOptions};
use maple_router::routing::delivery::Seen;
use maple_router::routing::delivery::lost::Mail;
use maple_router::routing::store::Replayed;
use maple_router::routing::store::delivery::SeenRecorded;
use maple_router::routing::store::delivery_notified::NotificationStore;
use maple_router::routing::store::view::{Selection, View};
use maple_router::routing::store::{BeginAnswer, Conclusion, Recorded};
use maple_router::routing::submission::message_id::Origin;
use serde_json::json;

use super::*;

pub(crate) fn seen(id: Uuid, key: &str, status: RelayStatus, queue_id: &str) -> Seen {
    seen_of(0, id, key, status, queue_id)
}

/// A report on the mail of a generation.
fn seen_of(generation: u32, id: Uuid, key: &str, status: RelayStatus, queue_id: &str) -> Seen {
    let (order, address) = key.split_once('|').expect("a key");
    Seen {
        origin: Origin { submission: id, action_order: order.parse().expect("an order"), generation },
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

/// A view of the rows, and the notifications of lost mails, as other connections of the daemon have them.
struct Eyes {
    view: View,
    notifications: NotificationStore,
}

impl Bench {
    fn others(&self) -> Eyes {
        let config = config(&self.db, 2);
        let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
        let readiness = Readiness::new(None).expect("no column");
        let view = View::new(pool.clone(), &readiness, &config);
        Eyes { view, notifications: NotificationStore::new(pool) }
    }

    async fn force(&self, id: Uuid, key: &str) {
        let options = ReplayOptions { force: Some(Force::Delivery(key)), replan: false };
        let answer = self.store.replay(id, options, OPERATOR, false).await.expect("answered");
        let Replayed::Done { replay, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(replay.open, [key]);
    }

    /// Sends what was forced, as the mail of this generation.
    async fn sent_again(&self, id: Uuid, key: &str, generation: u32, queue_id: &str) {
        let token = format!("t{generation}");
        assert!(matches!(self.claim(id, &token).await, Claimed::Taken(_)));
        let nonce = format!("n{generation}");
        let sent = entries_of(generation, &token, &nonce, &[(key, accepted(queue_id))]);
        let ended = self.store.record(scope(id, &token, &all_tried()), &sent).await;
        assert!(matches!(ended, Ok(Recorded::Concluded(Conclusion::Routed { .. }))), "{ended:?}");
    }
}

impl Eyes {
    /// Submissions with a lost mail, and their deliveries by status after the relay.
    async fn lost(&self) -> Vec<(Uuid, String)> {
        let selection = Selection { lost: true, limit: 10, ..Selection::default() };
        let listed = self.view.list(&selection).await.expect("listed");
        listed.into_iter().map(|line| (line.id, format!("{:?}", line.relay))).collect()
    }
}

/// The action's generation is raised by the one that is forced; the mail of another one that came back later was sent before.
#[tokio::test]
async fn a_neighbour_of_a_forced_delivery_is_reported_lost_as_if_nobody_had_been_forced() {
    let bench = Bench::new().await;
    let others = bench.others();
    let id = bench.accepted_and_routed().await;
    bench.force(id, B).await;
    let recorded = bench.see(&[seen(id, A, RelayStatus::Bounced, "QA")]).await;
    assert!(recorded.changed.len() == 1 && recorded.changed[0].lost, "{recorded:?}");
    assert_eq!(recorded.unnotified.len(), 1, "people are notified");
    assert_eq!(bench.row(id).await.entry(A)["relay"]["status"], "bounced");
    assert_eq!(others.lost().await, [(id, "{\"bounced\": 1}".to_owned())]);
    let mail = |generation| Mail { submission_id: id, delivery: A.to_owned(), generation };
    assert_eq!(others.notifications.unnotified(&[mail(0)]).await.expect("asked").len(), 1);
    bench.sent_again(id, B, 1, "QB1").await;
    assert_eq!(others.lost().await, [(id, "{\"bounced\": 1}".to_owned())], "whatever became of the other");
    let again = bench.see(&[seen(id, A, RelayStatus::Bounced, "QA")]).await;
    assert_eq!((again.changed.len(), again.unnotified.len()), (0, 1), "known, and still to be notified");
}

#[tokio::test]
async fn what_is_said_of_the_former_mail_of_a_forced_delivery_is_not_taken_for_the_new_one() {
    let bench = Bench::new().await;
    let others = bench.others();
    let id = bench.accepted_and_routed().await;
    let mut generation = 0;
    for forced in [B, B, A] {
        let before = generation;
        bench.force(id, forced).await;
        generation += 1;
        for status in [RelayStatus::Deferred, RelayStatus::Bounced, RelayStatus::Delivered] {
            let former = bench.see(&[seen_of(before, id, forced, status, "Q")]).await;
            assert!(former.changed.is_empty() && former.unnotified.is_empty(), "{status:?} {former:?}");
        }
        bench.sent_again(id, forced, generation, &format!("Q{generation}")).await;
        let former = bench.see(&[seen_of(before, id, forced, RelayStatus::Bounced, "Q")]).await;
        assert!(former.changed.is_empty() && former.unnotified.is_empty(), "{former:?}");
        assert_eq!(others.lost().await, []);
        let present = seen_of(generation, id, forced, RelayStatus::Delivered, &format!("Q{generation}"));
        assert_eq!(bench.see(&[present]).await.changed.len(), 1);
        assert_eq!(bench.row(id).await.entry(forced)["relay"]["status"], "delivered");
    }
    let row = bench.row(id).await;
    assert_eq!((&row.ledger["generations"], &row.entry(C)["generation"]), (&json!({"1": 3}), &json!(0)));
    let former = |key: &str| {
        let history = row.entry(key)["history"].as_array().cloned().unwrap_or_default();
        history.iter().map(|fact| fact["generation"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((former(A), former(B)), (vec![json!(0)], vec![json!(0), json!(1)]));
    let since = bench.store.now().await.expect("the time");
    let since = since.checked_sub(jiff::SignedDuration::from_hours(1)).expect("an hour");
    let waiting = others.view.undelivered(since).await.expect("counted");
    assert_eq!(waiting.count, 1, "of C alone nothing is reported");
}

/// The mark in SQL is the ledger's own.
#[tokio::test]
async fn the_list_of_lost_mails_goes_by_the_generation_that_the_ledger_goes_by() {
    let bench = Bench::new().await;
    let others = bench.others();
    let mut expected = Vec::new();
    for state in ["accepted", "open", "failed"] {
        for (of_mail, of_action, of_report) in [
            (None, None, None),
            (Some(0), Some(1), Some(0)),
            (Some(1), Some(1), Some(0)),
            (Some(1), Some(2), Some(1)),
            (Some(1), Some(1), Some(1)),
            (None, Some(1), None),
            (None, Some(1), Some(1)),
        ] {
            let mut stored = json!({"v": 1, "generations": {}, "deliveries": {A: {"state": state, "relay":
                {"status": "bounced", "at": "2026-11-01T10:00:00Z", "queue_id": "Q"}}}});
            let put = |place: &mut Value, name: &str, generation: Option<u32>| {
                if let Some(generation) = generation {
                    place[name] = json!(generation);
                }
            };
            put(&mut stored["deliveries"][A], "generation", of_mail);
            put(&mut stored["deliveries"][A]["relay"], "generation", of_report);
            put(&mut stored["generations"], "1", of_action);
            let ledger = maple_router::routing::submission::ledger::Ledger::read(&stored).expect("a ledger");
            let id = bench.insert(&SubmissionSeed::of("f").status("failed").ledger(stored)).await;
            if ledger.relay_entry(A, &ledger.deliveries[A]).is_some() {
                expected.push(id);
            }
        }
    }
    expected.sort();
    let selection = Selection { lost: true, limit: 100, ..Selection::default() };
    let listed = others.view.list(&selection).await.expect("listed");
    let mut listed: Vec<Uuid> = listed.into_iter().map(|line| line.id).collect();
    listed.sort();
    assert!(expected.len() > 5 && expected.len() < 20, "{}", expected.len());
    assert_eq!(listed, expected);
}
