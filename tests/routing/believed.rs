//! Trust in a stored row: attempts that are spent, deliveries without a state, a plan that was pinned.

use devkit::forms::{Action, Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use serde_json::{Value, json};

use crate::harness::{Scene, load};

fn plan(destination: &str) -> Value {
    json!([{"action_order": 1, "action_type": "email_raw", "destination": destination}])
}

/// The row as a sweep leaves it that took the last attempt back.
#[tokio::test]
async fn spent_attempts_found_at_the_claim_fail_every_open_delivery_by_name() {
    let scene = Scene::start(&[Form::new("f").mail_to("a@x.test, b@x.test")]).await;
    let error = json!({"class": "deferred", "stage": "RCPT", "code": 451, "enhanced": "4.3.0", "reply": "<b@x.test>: later"});
    let ledger = json!({
        "v": 1, "attempts": 5, "plan": plan("a@x.test, b@x.test"), "not_ours": [1],
        "deliveries": {"1|a@x.test": {"state": "open", "doubt": true}, "1|b@x.test": {"state": "open", "error": error}},
    });
    let id = scene.submit(&SubmissionSeed::of("f").ledger(ledger)).await.id;
    let row = scene.ended(id).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("exhausted"), 5),
        "{row:?}"
    );
    for key in ["1|a@x.test", "1|b@x.test"] {
        assert_eq!(row.entry(key)["state"], "failed", "{row:?}");
    }
    assert_eq!(row.entry("1|a@x.test")["doubt"], true, "kept: {row:?}");
    assert_eq!(row.entry("1|b@x.test")["error"], error, "kept: {row:?}");
    assert_eq!(row.ledger["not_ours"], json!([1]), "kept: {row:?}");
    let trail = scene.audit(id).await;
    let actions: Vec<&str> = trail.iter().map(|line| line.action.as_str()).collect();
    assert_eq!(actions, ["email_failed", "email_failed", "submission_route_failed"]);
    assert!(trail.iter().all(|line| line.detail["reason"] == "exhausted"), "{trail:?}");
    assert_eq!(trail[1].detail["error"]["code"], 451, "its last error: {trail:?}");
    assert_eq!(trail[2].detail["deliveries"], json!({"failed": 2}), "{trail:?}");
    let stats = scene.settled().await;
    assert_eq!((stats.nacked, stats.acked), (1, 1), "given back, then found ended: {stats:?}");
    assert_eq!(scene.stage.relay.counters().transactions, 0);
    scene.stop().await;
}

#[tokio::test]
async fn a_delivery_without_a_state_is_damage_and_not_open() {
    let scene = Scene::start(&[Form::new("f").mail_to("a@x.test")]).await;
    for deliveries in [json!({"1|a@x.test": {}}), json!({"1|a@x.test": {"queue_id": "4X"}})] {
        let ledger = json!({"v": 1, "attempts": 1, "plan": plan("a@x.test"), "deliveries": deliveries});
        let id = scene.submit(&SubmissionSeed::of("f").ledger(ledger.clone())).await.id;
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("ledger_damaged")), "{row:?}");
        let trail = scene.audit(id).await;
        assert_eq!(trail.len(), 1, "{trail:?}");
        assert_eq!(trail[0].detail["original"], ledger, "nothing of it is lost");
    }
    assert_eq!(scene.stage.relay.counters().transactions, 0);
    scene.stop().await;
}

#[tokio::test]
async fn a_pinned_plan_survives_a_form_that_now_has_a_type_of_action_unknown_to_us() {
    let scene = Scene::start(&[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).reply("451 4.3.0 later"));
    let pinned = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.await_row(pinned, "release", |row| row.status == "received" && row.attempts() == 1).await;
    scene
        .stage
        .database
        .alter("ALTER TYPE action_type ADD VALUE 'carrier_pigeon'")
        .await
        .expect("a newer backend");
    let mut newer = Form::new("f").mail_to("b@x.test");
    let action = Action { kind: "carrier_pigeon".to_owned(), ..newer.actions[0].clone() };
    newer.actions.push(action);
    load(&scene.stage, &[newer]).await;
    scene.stage.relay.clear_rules();
    let row = scene.ended(pinned).await;
    assert_eq!(row.status, "routed", "{row:?}");
    assert_eq!(scene.stage.relay.mails()[0].recipients, ["a@x.test"]);
    // A row without a plan waits for a program that knows the type.
    let fresh = scene.submit(&SubmissionSeed::of("f")).await.id;
    let line = scene.await_line("nack", |line| line["reason"] == "unknown_action_type").await;
    assert_eq!(line["submission_id"], json!(fresh.to_string()));
    let row = scene.row(fresh).await;
    assert_eq!((row.status.as_str(), &row.ledger), ("received", &json!({})), "untouched");
    assert_eq!(scene.stage.relay.mails().len(), 1);
    scene.stop().await;
}
