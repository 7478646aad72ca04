//! Each command, where it leads, and what it answers.

use reqwest::Method;
use serde_json::{Value, json};

use super::bench::{Answered, Api};

#[tokio::test]
async fn a_decision_answers_the_entry_with_its_new_tag() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let shown = api.get("vera", &seen.path("")).await;
    assert_eq!((shown.status, shown.etag()), (200, "\"1\""));
    assert_eq!(shown.body["state"], "Pending");
    assert_eq!(shown.body["evidence"]["sufficient"], false);
    assert_eq!(shown.body["links"]["self"], seen.path(""));
    let known = api.ask("vera", Method::GET, &seen.path("")).header("if-none-match", "\"1\"");
    let known = Answered::of(known).await;
    assert_eq!((known.status, known.etag(), &known.body), (304, "\"1\"", &Value::Null));

    let assign = api.ask("rita", Method::POST, &seen.path("/assign")).header("if-match", shown.etag());
    let assigned = Answered::of(assign).await;
    assert_eq!((assigned.status, assigned.etag()), (200, "\"2\""), "an empty body is an empty object");
    assert_eq!(
        (&assigned.body["state"], &assigned.body["assignee"]),
        (&json!("UnderReview"), &json!("rita"))
    );
    let again = api.ask("vera", Method::GET, &seen.path("")).header("if-none-match", "\"1\"");
    assert_eq!(Answered::of(again).await.body, assigned.body, "what is answered is what is shown");

    let history = api.get("vera", &seen.path("/history")).await;
    let lines = history.body["items"].as_array().expect("lines");
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[1]["command"], &lines[1]["by"]), (&json!("assign"), &json!("reviewer:rita")));
}

#[tokio::test]
async fn what_is_possible_is_told_for_whoever_asks() {
    let api = Api::new().await;
    let seen = api.reviewed("rita").await;
    let allowed = async |who: &str| -> Vec<String> {
        let told = api.get(who, &seen.path("/transitions")).await;
        assert_eq!((&told.body["version"], &told.body["state"]), (&json!(2), &json!("UnderReview")));
        let items = told.body["items"].as_array().expect("items");
        for item in items {
            assert_eq!(item["allowed"], item["why_not"].is_null(), "{item}");
        }
        let allowed = items.iter().filter(|item| item["allowed"] == true);
        allowed.map(|item| item["command"].as_str().expect("a word").to_owned()).collect()
    };
    assert_eq!(allowed("rita").await, ["unassign", "escalate", "resolve", "reject"]);
    assert_eq!(allowed("ben").await, [""; 0]);
    assert_eq!(allowed("vera").await, [""; 0]);
    assert_eq!(allowed("ada").await, ["assign", "unassign", "escalate", "resolve", "reject"]);
}

#[tokio::test]
async fn each_command_leads_where_its_lifecycle_says() {
    let api = Api::new().await;
    let mut seen = api.pending().await;
    let why = json!({"reason": "as it should be"});
    for (who, command, body, status, state) in [
        ("ada", "assign", json!({"assignee": "ben"}), 200, "UnderReview"),
        ("ada", "assign", json!({"assignee": "rita", "take_over": true}), 200, "UnderReview"),
        ("rita", "unassign", json!({}), 200, "Pending"),
        ("rita", "assign", json!({}), 200, "UnderReview"),
        ("rita", "escalate", json!({"escalation_reason": "a strange attachment"}), 200, "Escalated"),
        ("sam", "de-escalate", json!({"assignee": "ben"}), 200, "UnderReview"),
        ("ben", "reject", why.clone(), 200, "Rejected"),
        ("rita", "reopen", why.clone(), 200, "Pending"),
        ("rita", "dismiss", why.clone(), 200, "Dismissed"),
        ("rita", "reopen", why.clone(), 200, "Pending"),
        ("rita", "start", json!({"remedy": "replay", "reason": "try"}), 202, "Processing"),
        ("ben", "assign", json!({}), 200, "UnderReview"),
        ("ben", "resolve", json!({"remedy": "replan", "reason": "mended"}), 202, "Processing"),
        ("ben", "assign", json!({}), 200, "UnderReview"),
        ("ben", "resolve", json!({"vouch": true, "reason": "by telephone"}), 200, "Resolved"),
    ] {
        let (next, answer) = api.done(who, seen, command, body).await;
        assert_eq!((answer.status, &answer.body["state"]), (status, &json!(state)), "{command}");
        assert_eq!(answer.etag(), format!("\"{}\"", next.version));
        seen = next;
    }
    assert_eq!(api.bench.count("router.remedies").await, 2, "one for each start");
    let chain = api.chain(seen.id).await;
    assert_eq!(&chain[chain.len() - 3..], ["start", "hand_over", "resolve"]);

    let failed = api.pending().await;
    let sql = "UPDATE router.grey_queue SET state = 'Failed', remedy = 'replay', attempts = 3 WHERE id = $1";
    api.bench.eyes.execute(sql, &[&failed.id]).await.expect("failed");
    let (_, answer) = api.done("rita", failed, "reset", why).await;
    assert_eq!((&answer.body["state"], &answer.body["job"]["attempts"]), (&json!("Pending"), &json!(0)));
}

#[tokio::test]
async fn evidence_resolves_an_entry_and_without_it_the_answer_says_what_is_missing() {
    let api = Api::new().await;
    let seen = api.reviewed("rita").await;
    let why = json!({"reason": "delivered"});
    let missing = api.give("rita", seen, "resolve", why.clone()).await;
    assert_eq!(missing.refused(), (422, "evidence_missing"));
    assert_eq!(missing.body["missing"], json!(["1 of 1 deliveries is not reported as delivered"]));
    let subject =
        api.trace(seen.id).await["row"]["subject_id"].as_str().expect("an id").parse().expect("an id");
    api.room.sufficient.lock().expect("unpoisoned").push(subject);
    let (_, answer) = api.done("rita", seen, "resolve", why).await;
    assert_eq!(answer.body["resolution"], json!({"how": "delivered", "by": "rita"}));
    assert_eq!(answer.body["evidence"]["sufficient"], true);
}

#[tokio::test]
async fn a_remedy_is_given_the_reason_as_it_is_recorded() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let body = json!({"remedy": "replay", "reason": "bob@example.org says\u{0} it is mended"});
    api.done("rita", seen, "start", body).await;
    let sql =
        "SELECT r.reason, t.reason, r.actor FROM router.remedies r, router.grey_queue_state_transitions t
               WHERE t.entry_id = $1 AND t.command = 'start'";
    let row = api.bench.eyes.query_one(sql, &[&seen.id]).await.expect("a remedy");
    let (told, recorded, actor): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    assert_eq!((told.as_str(), actor.as_str()), (recorded.as_str(), "reviewer:rita"));
    assert!(!told.contains("bob@") && told.contains("it is mended"), "{told}");
}

#[tokio::test]
async fn a_refused_remedy_is_taken_back() {
    let api = Api::new().await;
    let seen = api.reviewed("rita").await;
    *api.room.refuses.lock().expect("unpoisoned") = Some("its form has no actions".to_owned());
    let before = api.trace(seen.id).await;
    let refused = api.give("rita", seen, "resolve", json!({"remedy": "replay", "reason": "try"})).await;
    assert_eq!((refused.refused(), &refused.body["field"]), ((422, "guard"), &json!("remedy")));
    assert!(refused.body["detail"].as_str().expect("text").contains("no actions"));
    assert_eq!(api.trace(seen.id).await, before);
}
