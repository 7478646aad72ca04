//! P1, and the first half of P4: facts merge, whoever brings them and however often; everything else is fenced.

use maple_router::ports::{Outcome, Reply};
use maple_router::routing::store::{BeginAnswer, Claimed, Conclusion, Recorded};
use serde_json::json;

use super::*;

fn first() -> BTreeSet<i32> {
    BTreeSet::from([1])
}

#[tokio::test]
async fn no_intent_after_its_fact() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    assert_eq!(bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun"), BeginAnswer::Stands);
    let sent = entries("t", "n", &[(A, accepted("Q")), (B, Outcome::Deferred(fault(451)))]);
    assert!(matches!(bench.store.record(scope(id, "t", &first()), &sent).await, Ok(Recorded::Continue(_))));
    let before = bench.row(id).await;
    for again in [&[A][..], &[A, B], &[A, C], &[B, A]] {
        assert_eq!(
            bench.store.begin(id, "t", &keys(again)).await.expect("answered"),
            BeginAnswer::Changed,
            "{again:?}"
        );
        assert_eq!(bench.row(id).await, before, "{again:?}: nothing is marked, not even its neighbours");
    }
    assert_eq!(
        bench.store.begin(id, "t", &keys(&[B])).await.expect("begun"),
        BeginAnswer::Stands,
        "what is open, may"
    );
    // Keys unknown to the plan are refused, too.
    let unknown = bench.store.begin(id, "t", &keys(&["1|z@x.test"])).await;
    assert_eq!(unknown.expect("answered"), BeginAnswer::Changed);
}

#[tokio::test]
async fn a_fact_is_known_by_its_nonce_and_a_second_one_is_kept_beside_the_first() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let one = entries("t", "n1", &[(A, accepted("Q1"))]);
    let record = async |entries: &Entries| {
        bench.store.record(scope(id, "t", &first()), entries).await.expect("recorded");
        bench.row(id).await
    };
    let after = record(&one).await;
    assert_eq!(after.entry(A)["queue_id"], "Q1");
    assert_eq!(record(&one).await.text, after.text, "the same nonce changes nothing");
    assert_eq!(bench.audited(id).await, ["email_sent"]);
    let two = entries("t", "n2", &[(A, accepted("Q2"))]);
    let after = record(&two).await;
    let entry = after.entry(A);
    assert_eq!(
        (&entry["queue_id"], &entry["nonce"]),
        (&json!("Q1"), &json!("n1")),
        "the first stays: {entry}"
    );
    assert_eq!(
        (&entry["dups"][0]["queue_id"], &entry["dups"][0]["nonce"]),
        (&json!("Q2"), &json!("n2")),
        "{entry}"
    );
    assert_eq!(record(&two).await.text, after.text, "a second one is known by its nonce as well");
    let trail = bench.audit(id).await;
    let flags: Vec<_> = trail.iter().map(|(_, detail)| detail["duplicate"].clone()).collect();
    assert_eq!(flags, [json!(false), json!(true)]);
    record(&entries("t", "n3", &[(A, accepted("Q3"))])).await;
    assert_eq!(bench.row(id).await.entry(A)["dups"].as_array().map(Vec::len), Some(2));
}

/// A relay that does not say under which id it has queued a mail.
#[tokio::test]
async fn a_fact_without_a_queue_id_is_known_by_its_nonce_alone() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let accepted = || Outcome::Accepted { reply: Reply::default(), queue_id: None };
    for (nonce, dups) in [("n1", 0), ("n1", 0), ("n2", 1), ("n2", 1), ("n1", 1)] {
        let fact = entries("t", nonce, &[(A, accepted())]);
        bench.store.record(scope(id, "t", &first()), &fact).await.expect("recorded");
        let kept = bench.row(id).await.entry(A)["dups"].as_array().map_or(0, Vec::len);
        assert_eq!(kept, dups, "{nonce}");
    }
    assert_eq!(bench.audited(id).await.len(), 2);
}

#[tokio::test]
async fn a_worker_that_lost_its_claim_records_what_was_accepted_and_nothing_else() {
    let bench = Bench::new().await;
    let id = bench.claimed("old").await;
    bench.store.begin(id, "old", &keys(&[A, B])).await.expect("begun");
    bench.reset(id).await;
    let before = bench.row(id).await;
    let refused = entries("old", "n", &[(B, Outcome::Refused(fault(550)))]);
    assert!(matches!(bench.store.record(scope(id, "old", &first()), &refused).await, Ok(Recorded::Stale)));
    assert_eq!(bench.row(id).await, before, "a refusal is fenced");
    let mixed = entries("old", "n", &[(A, accepted("Q")), (B, Outcome::Refused(fault(550)))]);
    assert!(matches!(bench.store.record(scope(id, "old", &all_tried()), &mixed).await, Ok(Recorded::Stale)));
    let row = bench.row(id).await;
    assert_eq!((row.status.as_str(), &row.updated_at), ("received", &before.updated_at), "{row:?}");
    assert_eq!(
        (&row.entry(A)["state"], &row.entry(A)["doubted"]),
        (&json!("accepted"), &json!(true)),
        "{row:?}"
    );
    assert_eq!(row.entry(B), before.entry(B), "{row:?}");
    let trail = bench.audit(id).await;
    assert_eq!(trail.len(), 1);
    let flag = |name: &str| trail[0].1[name].clone();
    assert_eq!((flag("stale"), flag("late"), flag("duplicate")), (json!(true), json!(false), json!(false)));
    // The next claim finds the fact and does not send that delivery again.
    let Claimed::Taken(taken) = bench.claim(id, "new").await else { panic!("it is free") };
    assert_eq!(taken.ledger.deliveries[A].queue_id.as_deref(), Some("Q"));
    assert_eq!(bench.store.begin(id, "new", &keys(&[A])).await.expect("answered"), BeginAnswer::Changed);
    assert_eq!(
        bench.store.begin(id, "old", &keys(&[B])).await.expect("answered"),
        BeginAnswer::Stale,
        "nor by the old one"
    );
}

/// The old worker's mail was accepted while the new one's was not: the fact stands, and nothing says otherwise.
#[tokio::test]
async fn no_other_outcome_takes_a_fact_back() {
    let bench = Bench::new().await;
    let outcomes = [Outcome::Refused(fault(550)), Outcome::Deferred(fault(451)), Outcome::Unknown(fault(0))];
    for outcome in outcomes {
        let id = bench.claimed("old").await;
        bench.store.begin(id, "old", &keys(&[A])).await.expect("begun");
        bench.reset(id).await;
        bench.claim(id, "new").await;
        assert_eq!(bench.store.begin(id, "new", &keys(&[A])).await.expect("begun"), BeginAnswer::Stands);
        let fact = entries("old", "n1", &[(A, accepted("Q"))]);
        bench.store.record(scope(id, "old", &first()), &fact).await.expect("recorded");
        let before = bench.row(id).await;
        let other = entries("new", "n2", &[(A, outcome.clone())]);
        bench.store.record(scope(id, "new", &first()), &other).await.expect("recorded");
        assert_eq!(bench.row(id).await.entry(A), before.entry(A), "{outcome:?}");
        assert_eq!(bench.audited(id).await, ["email_sent"], "{outcome:?}");
    }
}

#[tokio::test]
async fn a_fact_that_comes_after_the_end_is_late_and_leaves_the_end_alone() {
    let bench = Bench::new().await;
    for status in ["failed", "routed"] {
        let id = bench.claimed("t").await;
        let outcome = if status == "failed" { Outcome::Refused(fault(550)) } else { accepted("Q0") };
        let all = [(A, outcome.clone()), (B, accepted("QB")), (C, accepted("QC"))];
        let ended = bench.store.record(scope(id, "t", &all_tried()), &entries("t", "n0", &all)).await;
        assert!(matches!(ended, Ok(Recorded::Concluded(_))), "{ended:?}");
        let before = bench.row(id).await;
        let late = entries("older", "n1", &[(A, accepted("Q1"))]);
        let recorded = bench.store.record(scope(id, "older", &all_tried()), &late).await;
        assert!(matches!(recorded, Ok(Recorded::Stale)), "{recorded:?}");
        let row = bench.row(id).await;
        assert_eq!((&row.status, &row.updated_at), (&before.status, &before.updated_at), "{row:?}");
        assert_eq!(row.ledger["finished"], before.ledger["finished"], "{row:?}");
        assert_eq!(row.entry(A)["state"], "accepted", "{row:?}");
        let trail = bench.audit(id).await;
        let (action, detail) = trail.last().expect("a trail");
        assert_eq!(
            (action.as_str(), &detail["late"], &detail["stale"]),
            ("email_sent", &json!(true), &json!(true))
        );
        assert_eq!(detail["duplicate"] == true, status == "routed", "{detail}");
        assert_eq!(trail.iter().filter(|(action, _)| action.starts_with("submission")).count(), 1, "one end");
    }
}

#[tokio::test]
async fn nothing_is_written_to_a_purged_row() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    bench.tamper(id, "status = 'purged', routing_result = '{}'").await;
    let before = bench.row(id).await;
    let late = bench.store.record(scope(id, "t", &all_tried()), &all_accepted("t", "n")).await;
    assert!(matches!(late, Ok(Recorded::Stale)), "{late:?}");
    assert_eq!((bench.row(id).await, bench.audited(id).await.len()), (before, 0));
}

#[tokio::test]
async fn a_fact_brought_in_time_by_a_lost_worker_lets_the_next_claim_end_without_a_send() {
    let bench = Bench::new().await;
    let id = bench.claimed("old").await;
    // Even where it was the last attempt.
    bench.tamper(id, "routing_result = routing_result || '{\"attempts\": 5}'").await;
    bench.reset(id).await;
    bench.store.record(scope(id, "old", &all_tried()), &all_accepted("old", "n")).await.expect("recorded");
    let Claimed::Taken(taken) = bench.claim(id, "new").await else {
        panic!("everything is accepted: it may end")
    };
    assert_eq!(taken.ledger.attempts, 5);
    let ended = bench.store.record(scope(id, "new", &BTreeSet::new()), &Entries::default()).await;
    assert!(matches!(ended, Ok(Recorded::Concluded(Conclusion::Routed { .. }))), "{ended:?}");
    assert_eq!(bench.row(id).await.status, "routed");
}

/// Two of each delivery, each written by a transaction of its own that waits for the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_facts_at_once_are_forty_facts() {
    let crowd: Vec<String> = (0..20).map(|n| format!("p{n}@x.test")).collect();
    let mut bench = Bench::of(&[Form::new("f").mail_to(&crowd.join(", "))]).await;
    let id = bench.claimed("t").await;
    let store = store(&bench.db, 40);
    let hold = bench.backend.transaction().await.expect("a transaction");
    hold.execute("SELECT FROM submissions WHERE id = $1 FOR UPDATE", &[&id]).await.expect("locked");
    let tasks: Vec<_> = crowd
        .iter()
        .cycle()
        .take(40)
        .enumerate()
        .map(|(n, address)| {
            let (store, key) = (store.clone(), format!("1|{address}"));
            tokio::spawn(async move {
                let fact = entries("other", &format!("n{n}"), &[(key.as_str(), accepted(&format!("Q{n}")))]);
                store.record(scope(id, "other", &BTreeSet::new()), &fact).await.expect("recorded");
            })
        })
        .collect();
    super::claims::waiting(&bench.eyes, 40).await;
    hold.commit().await.expect("let go");
    for task in tasks {
        task.await.expect("no panic");
    }
    let row = bench.row(id).await;
    let facts = |entry: &Value| 1 + entry["dups"].as_array().map_or(0, Vec::len);
    let kept = row.ledger["deliveries"].as_object().expect("entries").values();
    assert_eq!(kept.filter(|entry| entry["state"] == "accepted").map(facts).sum::<usize>(), 40);
    assert_eq!(bench.audited(id).await.len(), 40);
}

/// A number that no double holds: our parser refuses the document, and PostgreSQL does not. Facts go in, each once, and the
/// rest stays word for word.
#[tokio::test]
async fn a_fact_is_audited_once_also_where_the_ledger_cannot_be_parsed() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let odd = "routing_result = routing_result || '{\"number\": 1e400, \"v\": 2}'";
    bench.tamper(id, odd).await;
    let replies = [("n1", "Q1"), ("n1", "Q1"), ("n2", "Q1"), ("n3", "Q2")];
    for (nonce, queue_id) in replies {
        let facts = entries("t", nonce, &[(A, accepted(queue_id))]).facts;
        bench.store.merge_facts(id, "t", &facts).await.expect("merged");
    }
    assert_eq!(bench.audited(id).await, ["email_sent"; 2]);
    let sql = "SELECT routing_result#>ARRAY['deliveries', $2], (routing_result->'v')::text,
                 length((routing_result->'number')::text) FROM submissions WHERE id = $1";
    let row = bench.eyes.query_one(sql, &[&id, &A]).await.expect("the row");
    let entry: Value = row.get(0);
    assert_eq!((&entry["nonce"], &entry["dups"][0]["nonce"]), (&json!("n1"), &json!("n3")), "{entry}");
    assert_eq!((row.get::<_, &str>(1), row.get::<_, i32>(2)), ("2", 401));
}
