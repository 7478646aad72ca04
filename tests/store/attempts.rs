//! P8: attempts never exceed the maximum, a refund gives back exactly what a claim cost, and spent attempts are reported.

use maple_router::ports::Outcome;
use maple_router::routing::store::{Claimed, Conclusion, Recorded};
use maple_router::routing::submission::ledger::FailReason;
use serde_json::json;

use super::*;

/// Every delivery deferred.
fn deferred(token: &str, nonce: &str) -> Entries {
    let no = || Outcome::Deferred(fault(451));
    entries(token, nonce, &[(A, no()), (B, no()), (C, no())])
}

#[tokio::test]
async fn five_attempts_and_then_the_end() {
    let bench = Bench::new().await;
    let id = bench.ready().await;
    let tried = all_tried();
    for attempt in 1..=5_u64 {
        let token = format!("t{attempt}");
        assert!(matches!(bench.claim(id, &token).await, Claimed::Taken(_)), "{attempt}");
        assert_eq!(bench.row(id).await.attempts(), attempt);
        let ended = bench.store.record(scope(id, &token, &tried), &deferred(&token, &token)).await;
        let Ok(Recorded::Concluded(conclusion)) = ended else { panic!("{attempt}: {ended:?}") };
        if attempt < 5 {
            assert!(matches!(conclusion, Conclusion::Released { .. }), "{attempt}: {conclusion:?}");
        } else {
            assert!(
                matches!(conclusion, Conclusion::Failed { reason: FailReason::Exhausted, .. }),
                "{conclusion:?}"
            );
        }
    }
    assert!(matches!(bench.claim(id, "t6").await, Claimed::Dropped(_)));
    let row = bench.row(id).await;
    assert_eq!((row.attempts(), row.reason()), (5, Some("exhausted")), "{row:?}");
    assert_eq!(
        bench.audited(id).await,
        ["email_failed", "email_failed", "email_failed", "submission_route_failed"]
    );
}

#[tokio::test]
async fn a_refund_gives_back_one_attempt_and_never_more_than_there_are() {
    let bench = Bench::new().await;
    let id = bench.ready().await;
    let tried = BTreeSet::new();
    for round in 0..12 {
        let token = format!("t{round}");
        assert!(matches!(bench.claim(id, &token).await, Claimed::Taken(_)), "{round}: a refund is a refund");
        assert_eq!(bench.row(id).await.attempts(), 1);
        let released = bench.store.release(scope(id, &token, &tried), true).await;
        assert!(matches!(released, Ok(Recorded::Concluded(Conclusion::Released { .. }))), "{released:?}");
        let row = bench.row(id).await;
        assert_eq!((row.attempts(), row.ledger.get("claim")), (0, None), "{row:?}");
    }
    // A stranger has set it to nothing meanwhile.
    bench.claim(id, "t").await;
    bench.tamper(id, "routing_result = routing_result || '{\"attempts\": 0}'").await;
    bench.store.release(scope(id, "t", &tried), true).await.expect("released");
    assert_eq!(bench.row(id).await.ledger["attempts"], 0, "not below");
}

#[tokio::test]
async fn a_release_is_due_after_its_pause_by_the_databases_clock() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let tried = all_tried();
    let pause = RecordScope { pause: Duration::from_secs(40), ..scope(id, "t", &tried) };
    let released = bench.store.record(pause, &deferred("t", "n")).await;
    assert!(matches!(released, Ok(Recorded::Concluded(Conclusion::Released { .. }))), "{released:?}");
    let sql =
        "SELECT extract(epoch FROM (routing_result->>'next_attempt_at')::timestamptz - updated_at)::float8
               FROM submissions WHERE id = $1";
    let pause: f64 = bench.eyes.query_one(sql, &[&id]).await.expect("a pause").get(0);
    assert!((39.9..40.1).contains(&pause), "{pause}");
    assert!(matches!(bench.claim(id, "t2").await, Claimed::NotDue { .. }));
}

/// A worker that died in its last attempt: open deliveries fail, and each is reported, as at the end of a claim.
#[tokio::test]
async fn attempts_spent_before_any_claim_fail_what_is_open_and_keep_what_is_sent() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun");
    let tried = BTreeSet::from([1]);
    bench
        .store
        .record(scope(id, "t", &tried), &entries("t", "n", &[(A, accepted("Q"))]))
        .await
        .expect("a fact");
    bench.tamper(id, "routing_result = routing_result || '{\"attempts\": 5}'").await;
    bench.reset(id).await;
    let Claimed::Failed { reason: FailReason::Exhausted, .. } = bench.claim(id, "t6").await else {
        panic!("spent")
    };
    let row = bench.row(id).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("exhausted"), 5),
        "{row:?}"
    );
    assert_eq!(row.entry(A)["state"], "accepted", "{row:?}");
    assert_eq!((&row.entry(B)["state"], &row.entry(B)["doubt"]), (&json!("failed"), &json!(true)), "{row:?}");
    assert_eq!(row.entry(C)["state"], "failed", "{row:?}");
    let trail = bench.audit(id).await;
    let actions: Vec<&str> = trail.iter().map(|(action, _)| action.as_str()).collect();
    assert_eq!(actions, ["email_sent", "email_failed", "email_failed", "submission_route_failed"]);
    assert_eq!(trail[3].1["deliveries"], json!({"accepted": 1, "failed": 2}));
    assert_eq!(trail[1].1["reason"], "exhausted");
}
