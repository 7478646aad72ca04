//! Leases and confirmations in the rows: for one finish, by one teller, without disturbing anybody.

use devkit::postgres::Refusing;
use devkit::submission::Row;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::*;

const ONE: Uuid = Uuid::from_u128(1);
const TWO: Uuid = Uuid::from_u128(2);
const CAUSE: &str = "refused|RCPT|550|5.1.1";

#[tokio::test]
async fn a_confirmation_counts_for_the_finish_it_was_leased_for_only() {
    let bench = Bench::new().await;
    let (kept, replayed, again) = (
        bench.failed(refused(550)).await,
        bench.failed(refused(550)).await,
        bench.failed(refused(550)).await,
    );
    let before = bench.row(kept).await;
    let store = bench.store();
    let rows = store.lease(CAUSE, ONE, &[]).await.expect("leased").rows;
    assert_eq!(rows.len(), 3);
    let leased = bench.row(kept).await;
    assert_eq!(
        (&leased.ledger["alert"]["for"], &leased.ledger["alert"]["lease"]),
        (&json!("f"), &json!(ONE))
    );
    // An operator replays two of them; one has failed again already.
    let replay = "status = 'received', routing_result = routing_result - '{alert,finished}'::text[]";
    bench.tamper(&format!("{replay} WHERE id IN ('{replayed}', '{again}')")).await;
    let finish = json!({"finished": {"token": "g", "status": "failed", "reason": "refused"}});
    bench
        .tamper(&format!(
            "status = 'failed', routing_result = routing_result || '{finish}' WHERE id = '{again}'"
        ))
        .await;
    let untouched = (bench.row(replayed).await, bench.row(again).await);
    assert_eq!(store.confirm(ONE, &rows).await.expect("confirmed").recorded, 1);
    assert_eq!((bench.row(replayed).await, bench.row(again).await), untouched);
    assert_eq!(bench.unalerted().await, 1, "what failed again is reported again");
    let row = bench.row(kept).await;
    assert_eq!((row.status, row.updated_at), (before.status, before.updated_at), "a notification is no move");
    assert_eq!(row.ledger["theirs"], json!([1]));
    assert_eq!(row.ledger["alert"]["for"], "f");
    assert!(row.ledger["alert"]["confirmed_at"].is_string() && row.ledger["alert"].get("lease").is_none());
    // The new failure is notified under a lease of its own, under its own finish.
    let rows = store.lease(CAUSE, TWO, &[]).await.expect("leased").rows;
    assert_eq!(rows, [again]);
    assert_eq!(store.confirm(ONE, &rows).await.expect("confirmed").recorded, 0, "not with another's lease");
    assert_eq!(store.confirm(TWO, &rows).await.expect("confirmed").recorded, 1);
    assert_eq!(
        (bench.unalerted().await, bench.row(again).await.ledger["alert"]["for"].clone()),
        (0, json!("g"))
    );
}

#[tokio::test]
async fn a_lease_that_outlived_its_finish_confirms_nothing() {
    let bench = Bench::new().await;
    let id = bench.failed(refused(550)).await;
    let store = bench.store();
    let rows = store.lease(CAUSE, ONE, &[]).await.expect("leased").rows;
    // The finish is another one, and the lease is still written there: no replay of ours does that, but a person might.
    bench.tamper("routing_result = jsonb_set(routing_result, '{finished,token}', '\"g\"')").await;
    assert_eq!(store.confirm(ONE, &rows).await.expect("confirmed").recorded, 0);
    assert_eq!(bench.row(id).await.ledger["alert"].get("confirmed_at"), None);
}

#[tokio::test]
async fn an_older_confirmation_does_not_survive_a_new_lease() {
    let bench = Bench::new().await;
    let mut ledger = refused(550);
    ledger["alert"] = json!({"for": "older", "confirmed_at": "2026-10-01T10:00:00Z"});
    let id = bench.failed(ledger).await;
    let store = bench.store();
    assert_eq!(store.lease(CAUSE, ONE, &[]).await.expect("leased").rows, [id]);
    assert_eq!(bench.unalerted().await, 1, "leased is not notified");
    assert_eq!(store.give_back(ONE, &[id]).await.expect("given back").recorded, 1);
    assert_eq!(bench.unalerted().await, 1);
    assert_eq!(store.lease(CAUSE, TWO, &[]).await.expect("leased").rows, [id], "free at once");
}

#[tokio::test]
async fn what_is_leased_or_locked_is_left_to_others() {
    let bench = Bench::new().await;
    let (a, b) = (bench.failed(refused(550)).await, bench.failed(refused(550)).await);
    let store = bench.store();
    let locker = bench.db.client_as("forms_app").await.expect("forms_app");
    locker
        .batch_execute(&format!("BEGIN; SELECT FROM submissions WHERE id = '{a}' FOR UPDATE"))
        .await
        .expect("locked");
    assert_eq!(store.lease(CAUSE, ONE, &[]).await.expect("leased").rows, [b], "nobody waits for a lock");
    assert_eq!(store.lease(CAUSE, TWO, &[]).await.expect("leased").rows, Vec::<Uuid>::new());
    locker.batch_execute("ROLLBACK").await.expect("free");
    let causes = store.unalerted().await.expect("causes");
    assert_eq!(
        causes.iter().map(|found| found.count).collect::<Vec<_>>(),
        [1],
        "what is leased is not looked for"
    );
    assert_eq!(store.lease(CAUSE, TWO, &[]).await.expect("leased").rows, [a]);
    // A busy row is confirmed a little later.
    locker
        .batch_execute(&format!("BEGIN; SELECT FROM submissions WHERE id = '{b}' FOR UPDATE"))
        .await
        .expect("locked");
    let recorded = store.confirm(ONE, &[b]).await.expect("answered");
    assert_eq!((recorded.recorded, recorded.busy), (0, vec![b]));
    locker.batch_execute("ROLLBACK").await.expect("free");
    assert_eq!(store.confirm(ONE, &[b]).await.expect("confirmed").recorded, 1);
}

#[tokio::test]
async fn leases_taken_at_once_share_nothing() {
    let bench = Bench::new().await;
    bench.crowd(1500, refused(550)).await;
    let stores: Vec<_> = (0..4).map(|_| bench.store()).collect();
    let leasing = (1..).zip(&stores).map(|(n, store)| store.lease(CAUSE, Uuid::from_u128(n), &[]));
    let leased: Vec<Uuid> = futures::future::try_join_all(leasing)
        .await
        .expect("no deadlock")
        .into_iter()
        .flat_map(|leased| leased.rows)
        .collect();
    let all: std::collections::BTreeSet<_> = leased.iter().collect();
    assert_eq!(all.len(), leased.len(), "each row once");
}

#[tokio::test]
async fn a_lease_holds_no_more_than_it_may_and_says_so() {
    let bench = Bench::new().await;
    bench.crowd(10_100, refused(550)).await;
    let alerter = bench.start();
    bench.pass(31 * SECOND).await;
    assert_eq!(bench.counts(), [10_000]);
    assert!(bench.posted()[0].contains("*10000+ × "), "{:?}", bench.posted());
    bench.pass(31 * SECOND).await;
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![10_000, 100], 0));
    alerter.stop().await;
}

/// The ledger's own reader takes a row that is leased, and one that is confirmed.
#[tokio::test]
async fn the_ledgers_reader_understands_what_is_written() {
    let bench = Bench::new().await;
    let id = bench.failed(refused(550)).await;
    let read = |row: &Row| {
        let ledger: Value = row.ledger.clone();
        maple_router::routing::submission::ledger::Ledger::read(&ledger)
            .expect("a ledger")
            .alert
            .expect("an alert")
    };
    let store = bench.store();
    store.lease(CAUSE, ONE, &[]).await.expect("leased");
    let alert = read(&bench.row(id).await);
    assert!(alert.leased_until.is_some() && alert.confirmed_at.is_none(), "{alert:?}");
    store.confirm(ONE, &[id]).await.expect("confirmed");
    let alert = read(&bench.row(id).await);
    assert!(alert.confirmed_at.is_some() && alert.finish.as_deref() == Some("f"), "{alert:?}");
}

/// P9: a row that takes no lease is reported by the incident of rows set aside, and keeps nobody from being
/// notified of the others; once it takes one, its failure is reported as well.
#[tokio::test]
async fn a_row_that_refuses_its_lease_or_confirmation_keeps_no_other_from_theirs() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bench.failed(refused(550)).await);
    }
    ids.sort();
    let store = bench.store();
    bench.db.refuse(Refusing::Trigger, &ids[..1]).await.expect("refused");
    let leased = store.lease(CAUSE, ONE, &[]).await.expect("leased");
    assert_eq!((leased.rows.as_slice(), leased.refused[0].id), (&ids[1..], ids[0]));
    let none = store.lease(CAUSE, TWO, &ids[..1]).await.expect("asked");
    assert!(none.rows.is_empty() && none.refused.is_empty(), "it rests: {none:?}");
    bench.db.refuse(Refusing::Check, &ids[3..4]).await.expect("another one");
    let recorded = store.confirm(ONE, &leased.rows).await.expect("confirmed");
    assert_eq!((recorded.recorded, recorded.refused[0].id), (3, ids[3]));
    bench.db.refuse(Refusing::Check, &[]).await.expect("mended");
    let leased = store.lease(CAUSE, TWO, &[]).await.expect("leased");
    assert_eq!(leased.rows, ids[..1], "the other one's lease has not ended");
    assert_eq!(store.confirm(TWO, &leased.rows).await.expect("confirmed").recorded, 1);
}
