//! Decisions as people meet them: several steps at once, what is kept of them, who is told.

use maple_router::grey_queue::commands::Answer;
use maple_router::grey_queue::decide::{Ask, Refusal, Verb};
use maple_router::grey_queue::table::State;
use maple_router::kernel::subject::{Evidence, Looked, Remedy};
use serde_json::Value;

use crate::harness::Bench;

#[tokio::test]
async fn the_whole_way_of_an_entry_is_in_its_history() {
    let bench = Bench::new().await;
    let entry = bench.pending().await;
    let entry = bench.done(&entry, &Ask::plain(Verb::Assign), "anna").await;
    let escalate =
        Ask { escalation_reason: Some("is this phishing?".to_owned()), ..Ask::plain(Verb::Escalate) };
    let entry = bench.done(&entry, &escalate, "anna").await;
    let escalation = entry.escalation.clone().expect("escalated");
    assert_eq!((escalation.reason.as_str(), escalation.by.as_deref()), ("is this phishing?", Some("anna")));
    let entry = bench.done(&entry, &Ask::because(Verb::DeEscalate, "it is not"), "sam").await;
    assert_eq!((entry.assignee.as_deref(), entry.escalation.is_none()), (Some("anna"), true));
    let entry =
        bench.done(&entry, &Ask::because(Verb::Reject, "a test of ours, ask joe@x.test"), "anna").await;
    assert_eq!(
        entry.rejection.as_ref().map(|rejection| rejection.reason.as_str()),
        Some("a test of ours, ask <address>")
    );
    assert!(entry.closed_at.is_some());
    let entry = bench.done(&entry, &Ask::because(Verb::Reopen, "it is none"), "ben").await;
    assert_eq!(
        (entry.state, entry.assignee.is_none(), entry.closed_at.is_none()),
        (State::Pending, true, true)
    );
    bench.room.says(entry.subject.id, Looked::Sufficient(Evidence::Delivered));
    let entry = bench.done(&entry, &Ask::because(Verb::Resolve, "arrived"), "ben").await;
    assert_eq!(entry.state, State::Resolved);
    assert_eq!(
        bench.chain(entry.id).await,
        [
            "open Pending",
            "assign UnderReview",
            "escalate Escalated",
            "de_escalate UnderReview",
            "reject Rejected",
            "reopen Pending",
            "assign UnderReview",
            "resolve Resolved",
        ]
    );
    assert!(bench.store.history(entry.id).await.expect("asked").iter().all(|line| line.version > 0));
}

#[tokio::test]
async fn a_second_entry_of_the_same_problem_is_never_opened_by_hand() {
    let bench = Bench::new().await;
    let first = bench.pending().await;
    let first = bench.done(&first, &Ask::because(Verb::Dismiss, "old"), "anna").await;
    let again = format!(
        "UPDATE submissions SET routing_result = '{{\"finished\": {{\"reason\": \"refused\", \"token\": \"2\"}}}}' WHERE id = '{}'",
        first.subject.id
    );
    bench.eyes.batch_execute(&again).await.expect("failed again");
    match bench.ask(&first, &Ask::because(Verb::Reopen, "after all"), "anna").await {
        Answer::Refused { refusal: Refusal::OpenTwin(twin), .. } => {
            assert_ne!(twin, first.id);
            assert_eq!(bench.entry(twin).await.state, State::Pending);
        }
        other @ (Answer::Done { .. } | Answer::Conflict(_) | Answer::Refused { .. } | Answer::Unknown) => {
            panic!("{other:?}")
        }
    }
}

#[tokio::test]
async fn a_reviewer_is_told_of_an_entry_by_a_row_of_the_outbox() {
    let bench = Bench::new().await;
    let rows = async || {
        let sql = "SELECT payload FROM router.outbox WHERE kind = 'review.assigned' ORDER BY id";
        let rows = bench.eyes.query(sql, &[]).await.expect("the outbox");
        rows.iter().map(|row| row.get::<_, Value>(0)).collect::<Vec<_>>()
    };
    let entry = bench.pending().await;
    let to_anna = Ask { assignee: Some("anna".to_owned()), ..Ask::plain(Verb::Assign) };
    let entry = bench.done(&entry, &to_anna, "ada").await;
    assert_eq!(rows().await, [serde_json::json!({"entry": entry.id, "assignee": "anna"})]);
    let entry = bench.done(&entry, &Ask::plain(Verb::Unassign), "anna").await;
    bench.done(&entry, &Ask::plain(Verb::Assign), "ben").await;
    assert_eq!(rows().await.len(), 1, "nobody is told of what they took themselves");
}

/// Text that people write for an entry is all that is kept of them in it, and what they wrote elsewhere is not.
#[tokio::test]
async fn an_entry_holds_no_address() {
    let bench = Bench::new().await;
    let entry = bench.pending().await;
    let ask = Ask {
        remedy: Some(Remedy::ForceDelivery),
        delivery: Some("1|jane@x.test".to_owned()),
        ..Ask::because(Verb::Start, "jane@x.test moved to joe@y.test")
    };
    let entry = bench.done(&entry, &ask, "anna").await;
    let trace = bench.trace(entry.id).await.to_string();
    assert!(!trace.contains("@x.test") && !trace.contains("@y.test"), "{trace}");
}

#[tokio::test]
async fn an_entry_under_review_is_taken_over_after_its_time() {
    let bench = Bench::new().await;
    let entry = bench.pending().await;
    let entry = bench.done(&entry, &Ask::plain(Verb::Assign), "anna").await;
    let over = Ask { take_over: true, ..Ask::plain(Verb::Assign) };
    assert!(matches!(
        bench.ask(&entry, &over, "ben").await,
        Answer::Refused { refusal: Refusal::NotAllowed(_), .. }
    ));
    let long = format!(
        "ALTER TABLE router.grey_queue DISABLE TRIGGER USER;
         UPDATE router.grey_queue SET assigned_at = now() - interval '5 hours' WHERE id = '{}';
         ALTER TABLE router.grey_queue ENABLE TRIGGER USER",
        entry.id
    );
    bench.eyes.batch_execute(&long).await.expect("five hours ago");
    let entry = bench.done(&bench.entry(entry.id).await, &over, "ben").await;
    assert_eq!(entry.assignee.as_deref(), Some("ben"));
    let fresh: bool = bench
        .eyes
        .query_one(
            "SELECT assigned_at > now() - interval '1 minute' FROM router.grey_queue WHERE id = $1",
            &[&entry.id],
        )
        .await
        .expect("asked")
        .get(0);
    assert!(fresh, "the time begins anew");
}
