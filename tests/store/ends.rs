//! P3 and P5: an end has exactly one audit row, in the same transaction; `routed` means that everything has a fact.

use maple_router::ports::Outcome;
use maple_router::routing::store::{Claimed, Conclusion, Recorded};
use maple_router::routing::submission::ledger::FailReason;
use serde_json::json;

use super::*;

/// From now on the audit log takes no end of a submission, as after a migration gone wrong.
async fn refuse_ends(bench: &Bench, refuse: bool) {
    let sql = if refuse {
        "ALTER TABLE audit_log ADD CONSTRAINT no_ends CHECK (action::text NOT LIKE 'submission_route%') NOT VALID"
    } else {
        "ALTER TABLE audit_log DROP CONSTRAINT no_ends"
    };
    bench.db.alter(sql).await.expect("altered");
}

#[tokio::test]
async fn no_end_stands_without_its_audit_row() {
    let bench = Bench::new().await;
    let tried = all_tried();
    let refused =
        entries("t", "n", &[(A, Outcome::Refused(fault(550))), (B, accepted("Q")), (C, accepted("Q"))]);
    let claimed = [bench.claimed("t").await, bench.claimed("t").await, bench.claimed("t").await];
    let infected = bench.insert(&SubmissionSeed::of("f").attachment("a", "infected")).await;
    let damaged = bench.insert(&SubmissionSeed::of("f").ledger(json!([1]))).await;
    let all = [&claimed[..], &[infected, damaged]].concat();
    let mut before = Vec::new();
    for id in &all {
        before.push(bench.row(*id).await);
    }
    let request = |id: &Uuid| [ClaimRequest { id: *id, token: "t".to_owned() }];
    refuse_ends(&bench, true).await;
    assert!(bench.store.record(scope(claimed[0], "t", &tried), &all_accepted("t", "n")).await.is_err());
    let unfinished = bench.store.record(scope(claimed[1], "t", &tried), &refused).await;
    assert!(unfinished.is_err(), "{unfinished:?}");
    assert!(bench.store.fail(scope(claimed[2], "t", &tried), FailReason::Infected).await.is_err());
    assert!(bench.store.claim(&request(&infected)).await.is_err());
    assert!(bench.store.claim(&request(&damaged)).await.is_err());
    for (id, before) in all.iter().zip(before) {
        assert_eq!(bench.row(*id).await, before, "nothing of the transaction stands");
        assert_eq!(bench.audited(*id).await.len(), 0);
    }
    refuse_ends(&bench, false).await;
    // The same records again, as a worker repeats them.
    bench.store.record(scope(claimed[0], "t", &tried), &all_accepted("t", "n")).await.expect("routed");
    bench.store.record(scope(claimed[1], "t", &tried), &refused).await.expect("failed");
    bench.store.fail(scope(claimed[2], "t", &tried), FailReason::Infected).await.expect("failed");
    bench.store.claim(&request(&infected)).await.expect("refused");
    bench.store.claim(&request(&damaged)).await.expect("refused");
    let ends = ["routed", "failed", "failed", "failed", "failed"];
    for (id, status) in all.iter().zip(ends) {
        assert_eq!(bench.row(*id).await.status, status);
        let trail = bench.audited(*id).await;
        assert_eq!(trail.iter().filter(|action| action.starts_with("submission_")).count(), 1, "{trail:?}");
    }
}

#[tokio::test]
async fn an_end_repeated_is_one_end() {
    let bench = Bench::new().await;
    let id = bench.claimed("t").await;
    let tried = all_tried();
    let record = async || bench.store.record(scope(id, "t", &tried), &all_accepted("t", "n")).await;
    assert!(matches!(record().await, Ok(Recorded::Concluded(Conclusion::Routed { .. }))));
    let (row, trail) = (bench.row(id).await, bench.audited(id).await);
    assert!(matches!(record().await, Ok(Recorded::Stale)), "the answer was lost, the end was not");
    assert_eq!((bench.row(id).await, bench.audited(id).await), (row, trail));
}

#[tokio::test]
async fn the_verdict_is_read_from_the_row_and_not_from_memory() {
    let bench = Bench::new().await;
    let tried = all_tried();
    // (what happened behind the worker's back, what it must conclude)
    let table = [
        ("deliveries without 2", "released"),
        ("2 failed", "failed"),
        ("2 open", "released"),
        ("2 accepted", "routed"),
        ("2 not implemented", "routed"),
    ];
    for (case, expected) in table {
        let id = bench.claimed("t").await;
        let deliveries = match case {
            "deliveries without 2" => format!("(routing_result->'deliveries') - '{C}'"),
            "2 open" => "routing_result->'deliveries'".to_owned(),
            "2 failed" => with_state("failed"),
            "2 accepted" => with_state("accepted"),
            _ => with_state("not_implemented"),
        };
        let set =
            format!("routing_result = routing_result || jsonb_build_object('deliveries', {deliveries})");
        bench.tamper(id, &set).await;
        let sent = entries("t", "n", &[(A, accepted("QA")), (B, accepted("QB"))]);
        let Ok(Recorded::Concluded(conclusion)) = bench.store.record(scope(id, "t", &tried), &sent).await
        else {
            panic!("{case}: it ends")
        };
        let found = match conclusion {
            Conclusion::Routed { .. } => "routed",
            Conclusion::Failed { .. } => "failed",
            Conclusion::Released { .. } => "released",
        };
        assert_eq!(found, expected, "{case}");
        let status = bench.row(id).await.status;
        assert_eq!(status, if expected == "released" { "received" } else { expected }, "{case}");
        if case == "deliveries without 2" {
            assert!(matches!(bench.claim(id, "t2").await, Claimed::Taken(_)));
            assert_eq!(bench.row(id).await.entry(C)["state"], "open", "and the next claim puts it there");
        }
    }
}

fn with_state(state: &str) -> String {
    format!("(routing_result->'deliveries') || '{{\"{C}\": {{\"state\": \"{state}\"}}}}'")
}

#[tokio::test]
async fn keys_of_somebody_else_survive_every_statement() {
    let bench = Bench::new().await;
    let theirs = json!({"theirs": {"deep": [1, null, "ü"]}, "nothing": null});
    let id = bench.insert(&SubmissionSeed::of("f").ledger(theirs.clone())).await;
    let tried = all_tried();
    let survived = async |after: &str| {
        let row = bench.row(id).await;
        for key in ["theirs", "nothing"] {
            assert_eq!(row.ledger.get(key), theirs.get(key), "after {after}: {row:?}");
        }
        let entry = &row.ledger["deliveries"][A];
        assert!(entry["note"] == "kept" || after == "claim", "after {after}: {row:?}");
    };
    bench.claim(id, "t").await;
    survived("claim").await;
    let note = format!("routing_result = jsonb_set(routing_result, '{{deliveries,{A},note}}', '\"kept\"')");
    bench.tamper(id, &note).await;
    bench.store.begin(id, "t", &keys(&[A, B])).await.expect("begun");
    survived("begin").await;
    bench
        .store
        .record(
            scope(id, "t", &BTreeSet::from([1])),
            &entries("t", "n", &[(A, Outcome::Deferred(fault(451)))]),
        )
        .await
        .expect("open");
    survived("an outcome").await;
    bench
        .store
        .record(scope(id, "t", &BTreeSet::from([1])), &entries("t", "n", &[(A, accepted("Q"))]))
        .await
        .expect("a fact");
    survived("a fact").await;
    bench.store.release(scope(id, "t", &tried), true).await.expect("released");
    survived("release").await;
    bench.claim(id, "t2").await;
    survived("a second claim").await;
    bench.store.record(scope(id, "t2", &tried), &all_accepted("t2", "n2")).await.expect("routed");
    survived("finish").await;
    assert_eq!(bench.row(id).await.status, "routed");
}
