//! The same request twice, and two people at once.

use futures::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::bench::{Answered, Api, Seen};

fn keyed(api: &Api, who: &str, seen: Seen, command: &str, key: &str, body: &Value) -> RequestBuilder {
    let request = api.ask(who, Method::POST, &seen.path(&format!("/{command}")));
    request.header("idempotency-key", key).header("if-match", format!("\"{}\"", seen.version)).json(body)
}

#[tokio::test]
async fn twenty_requests_with_one_key_are_carried_out_once_and_answered_alike() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let body = json!({"remedy": "replay", "reason": "try"});
    let all = (0..20).map(|_| Answered::of(keyed(&api, "rita", seen, "start", "k1", &body)));
    let answers = join_all(all).await;
    for answer in &answers {
        assert_eq!((answer.status, answer.etag()), (202, "\"2\""), "{answer:?}");
        assert_eq!(answer.body, answers[0].body);
    }
    assert_eq!(api.bench.count("router.remedies").await, 1);
    assert_eq!(api.chain(seen.id).await, ["open", "start"]);
    let other = keyed(&api, "rita", seen, "start", "k1", &json!({"remedy": "replay", "reason": "other"}));
    assert_eq!(Answered::of(other).await.refused(), (422, "idempotency_mismatch"));
    let others = Answered::of(keyed(&api, "ben", seen, "start", "k1", &body)).await;
    assert_eq!(others.refused(), (412, "precondition_failed"), "a key is its user's");
}

#[tokio::test]
async fn a_refused_request_may_be_mended_under_its_key() {
    let api = Api::new().await;
    let seen = api.reviewed("rita").await;
    let nothing_said = Answered::of(keyed(&api, "rita", seen, "reject", "k1", &json!({}))).await;
    assert_eq!((nothing_said.refused(), &nothing_said.body["field"]), ((422, "guard"), &json!("reason")));
    assert_eq!(api.bench.count("router.desk_idempotency").await, 0);
    let mended = Answered::of(keyed(&api, "rita", seen, "reject", "k1", &json!({"reason": "spam"}))).await;
    assert_eq!(mended.status, 200);
}

#[tokio::test]
async fn of_many_who_decide_at_once_one_does() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let names = ["rita", "ben", "sam", "ada"];
    let all = (0..16).map(|n| api.give(names[n % 4], seen, "assign", json!({})));
    let answers = join_all(all).await;
    let winners: Vec<&Answered> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    let assignee = winners[0].body["assignee"].as_str().expect("a name");
    for loser in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(loser.refused(), (409, "version_conflict"), "{loser:?}");
        assert_eq!((&loser.body["state"], &loser.body["version"]), (&json!("UnderReview"), &json!(2)));
        let by = loser.body["by"].as_str().expect("who");
        assert!(by.ends_with(&format!(":{assignee}")), "{by} {assignee}");
        assert!(loser.body["at"].is_string());
    }
    assert_eq!(api.chain(seen.id).await, ["open", "assign"]);
}

/// A failure that comes between the look for another open entry and the write.
#[tokio::test]
async fn a_twin_that_is_opened_at_the_same_moment_is_told_and_nothing_is_written() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let (seen, _) = api.done("rita", seen, "dismiss", json!({"reason": "spam"})).await;
    let before = api.trace(seen.id).await;
    let mut other = api.bench.db.superuser().await.expect("superuser");
    let open = "SELECT router.open_entry('failed', 'refused', 'submission', g.subject_id, 'f', 'again', '{}')
                FROM router.grey_queue g WHERE g.id = $1";
    let tx = other.transaction().await.expect("a transaction");
    let twin: uuid::Uuid = tx.query_one(open, &[&seen.id]).await.expect("a twin").get(0);
    let reopen = api.give("rita", seen, "reopen", json!({"reason": "after all"}));
    let commit = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
                     AND application_name LIKE '%desk_decide'";
        while api.bench.eyes.query_one(waits, &[]).await.expect("activity").get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        tx.commit().await.expect("committed");
    };
    let (answer, ()) = tokio::join!(reopen, commit);
    assert_eq!(answer.refused(), (409, "open_twin"));
    assert_eq!(answer.body["entry"], twin.to_string());
    assert_eq!(api.trace(seen.id).await, before);
    let again = api.give("rita", seen, "reopen", json!({"reason": "after all"})).await;
    assert_eq!((again.refused(), &again.body["entry"]), ((409, "open_twin"), &json!(twin.to_string())));
}
