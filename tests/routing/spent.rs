//! When attempts run out, and the policies that end a delivery early.

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use serde_json::{Value, json};

use crate::harness::Scene;

fn named(payload: &[u8], id: uuid::Uuid) -> bool {
    serde_json::from_slice::<Value>(payload).is_ok_and(|event| event["submission_id"] == id.to_string())
}

/// Pub/Sub alone: it is about the dead-letter topic.
#[tokio::test]
async fn spent_attempts_fail_what_is_open_keep_what_is_sent_and_leave_a_dead_letter() {
    let scene =
        Scene::of(Source::Pubsub, &[Form::new("f").mail_to("a@x.test, b@x.test").mail_to("c@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("b@x.test").reply("451 4.3.0 later"));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("exhausted"), 5),
        "{row:?}"
    );
    assert_eq!(row.entry("1|a@x.test")["state"], "accepted", "{row:?}");
    assert_eq!(row.entry("2|c@x.test")["state"], "accepted", "{row:?}");
    let open = row.entry("1|b@x.test");
    assert_eq!((&open["state"], &open["error"]["code"]), (&json!("failed"), &json!(451)), "{row:?}");
    let trail = scene.audit(id).await;
    let actions: Vec<&str> = trail.iter().map(|line| line.action.as_str()).collect();
    assert_eq!(actions, ["email_sent", "email_sent", "email_failed", "submission_route_failed"]);
    let detail = &trail[2].detail;
    assert_eq!((&detail["reason"], &detail["attempt"]), (&json!("exhausted"), &json!(5)), "{detail}");
    assert_eq!(detail["error"]["code"], 451, "its last error: {detail}");
    assert_eq!(trail[3].detail["deliveries"], json!({"accepted": 2, "failed": 1}));
    let letters = scene.dead_letters(1).await;
    assert!(letters.len() == 1 && named(&letters[0], id), "the event itself: {letters:?}");
    assert_eq!(scene.settled().await.acked, 0, "the fifth nack forwards it");
    scene.stop().await;
}

/// Pub/Sub alone: it is about the dead-letter topic.
#[tokio::test]
async fn a_form_without_actions_is_retried_then_failed_and_a_reload_in_time_saves_it() {
    let scene = Scene::of(Source::Pubsub, &[Form::new("empty"), Form::new("mended")]).await;
    let lost = scene.submit(&SubmissionSeed::of("empty")).await.id;
    let saved = scene.submit(&SubmissionSeed::of("mended")).await.id;
    let row = scene.await_row(saved, "first attempt", |row| row.attempts() >= 1).await;
    assert!(row.ledger.get("plan").is_none(), "an empty plan is never pinned: {row:?}");
    crate::harness::load(&scene.stage, &[Form::new("mended").mail_to("a@x.test")]).await;
    let row = scene.ended(saved).await;
    assert_eq!(row.status, "routed", "{row:?}");
    let row = scene.ended(lost).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("no_actions"), 5),
        "{row:?}"
    );
    assert_eq!(scene.audited(lost).await, ["submission_route_failed"]);
    let letters = scene.dead_letters(1).await;
    assert!(letters.len() == 1 && named(&letters[0], lost), "{letters:?}");
    scene.stop().await;
}

const POLICY: &str = "[routing]
in_doubt = \"hold\"
[mail]
allowed_destination_domains = [\"x.test\"]";

async fn doubt_on_hold_fails_that_delivery_alone_and_its_neighbours_proceed(source: Source) {
    let form = Form::new("f").mail_to("a@x.test, b@x.test").mail_to("c@x.test");
    let scene = Scene::with(StageOptions::of(source), &[form], POLICY).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("b@x.test").reply("451 4.3.0 later").times(1));
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("a@x.test").disconnect().times(1));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("in_doubt"), 2),
        "{row:?}"
    );
    let entry = row.entry("1|a@x.test");
    assert_eq!((&entry["state"], &entry["doubt"]), (&json!("failed"), &json!(true)), "{row:?}");
    assert_eq!(entry["error"]["class"], "in_doubt", "{row:?}");
    assert_eq!(row.entry("1|b@x.test")["state"], "accepted", "{row:?}");
    assert_eq!(row.entry("2|c@x.test")["state"], "accepted", "{row:?}");
    assert_eq!(
        scene.audited(id).await,
        ["email_sent", "email_sent", "email_failed", "submission_route_failed"]
    );
    let series = "maple_router_in_doubt_total{resolution=\"neither_held\"}";
    assert_eq!(scene.router.metric(series).await.expect("metrics"), Some(1.0));
    scene.stop().await;
}

async fn a_domain_that_is_not_allowed_is_refused_and_the_others_are_served(source: Source) {
    let forms = [
        Form::new("f").mail_to("a@x.test, b@evil.test, c@sub.x.test"),
        Form::new("g").mail_to("b@evil.test"),
    ];
    let scene = Scene::with(StageOptions::of(source), &forms, POLICY).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("refused")), "{row:?}");
    assert_eq!(row.entry("1|a@x.test")["state"], "accepted", "{row:?}");
    for key in ["1|b@evil.test", "1|c@sub.x.test"] {
        let entry = row.entry(key);
        assert_eq!(
            (&entry["state"], &entry["error"]["stage"]),
            (&json!("failed"), &json!("address")),
            "{row:?}"
        );
        let why = entry["error"]["reply"].as_str().unwrap_or_default();
        assert!(why.contains("mail.allowed_destination_domains"), "names what to change: {why}");
    }
    let id = scene.submit(&SubmissionSeed::of("g")).await.id;
    assert_eq!(scene.ended(id).await.reason(), Some("refused"));
    assert_eq!(scene.stage.relay.mails().len(), 1, "only the one that is allowed");
    scene.stop().await;
}

devkit::with_either_source!(
    doubt_on_hold_fails_that_delivery_alone_and_its_neighbours_proceed,
    a_domain_that_is_not_allowed_is_refused_and_the_others_are_served,
);
