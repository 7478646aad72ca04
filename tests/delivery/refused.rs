//! The most important views: one of three recipients is refused further on, and every report of it agrees; and
//! mails that wait too long.

use std::time::Duration;

use devkit::forms::Form;
use devkit::postfix::PostfixOptions;
use devkit::smtp::{Rule, Stage as At};

use crate::harness::{PATIENCE, Scene};

const BOUNCED: &str = "maple_router_delivery_status_total{status=\"bounced\"}";
const DELIVERED: &str = "maple_router_delivery_status_total{status=\"delivered\"}";
const EXPIRED: &str = "maple_router_delivery_status_total{status=\"expired\"}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_is_refused_upstream_and_everybody_says_so() {
    let mut scene = Scene::start(&[Form::new("f").mail_to("a@x.test, b@x.test, c@x.test")]).await;
    let refusal = "550 5.1.1 <b@x.test>: Recipient address rejected: User unknown";
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("b@x.test").reply(refusal));
    let id = scene.submit("f").await;
    let routed = scene.routed(id).await;
    scene.known(id, &["1|a@x.test", "1|c@x.test"], "delivered").await;
    let row = scene.known(id, &["1|b@x.test"], "bounced").await;

    // The ledger: accepted by the relay, and lost after that. The row stays as it is.
    assert_eq!((row.status.as_str(), &row.updated_at), ("routed", &routed.updated_at), "{row:?}");
    let relay = &row.entry("1|b@x.test")["relay"];
    assert_eq!(relay["dsn"], "5.1.1", "{row:?}");
    assert!(relay["text"].as_str().is_some_and(|text| text.contains("User unknown")), "{row:?}");
    for key in ["1|a@x.test", "1|b@x.test", "1|c@x.test"] {
        assert_eq!(row.entry(key)["state"], "accepted", "{row:?}");
        assert_eq!(row.entry(key)["relay"]["queue_id"], row.entry(key)["queue_id"], "{row:?}");
    }

    // The trail: once, at the stage where it happened, and without an address.
    let failures = scene.failures(id).await;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0]["error"]["stage"], "delivery", "{failures:?}");
    assert_eq!(failures[0]["error"]["class"], "bounced", "{failures:?}");
    assert!(!failures[0].to_string().contains("b@x.test"), "{failures:?}");

    scene.counted(BOUNCED, 1.0).await;
    scene.counted(DELIVERED, 2.0).await;

    let explained = scene.verb(&["explain", &id.to_string(), "--json"]).await;
    let explained = explained.json().expect("JSON").to_string();
    assert!(explained.contains("bounced") && explained.contains("5.1.1"), "{explained}");
    let listed = scene.verb(&["list", "--bounced", "--json"]).await;
    assert!(listed.out.contains(&id.to_string()), "{listed:?}");

    // People: notified, and without the address.
    let messages = scene.stage.slack.wait_for(1, PATIENCE).await.expect("an alert");
    let text: String = messages.iter().map(devkit::slack::SlackMessage::visible_text).collect();
    assert!(text.contains("5.1.1") || text.to_lowercase().contains("bounce"), "{text}");
    assert!(!text.contains("b@x.test"), "{text}");
    assert_eq!(scene.copies(id, "b@x.test"), 0);
    assert_eq!(scene.copies(id, "a@x.test"), 1);
    assert!(!scene.router().log().contains("b@x.test"), "no address in the journal");
    scene.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_at_the_dot_is_lost_for_all() {
    let mut scene = Scene::start(&[Form::new("f").mail_to("a@x.test, b@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Dot).to("a@x.test").reply("554 5.7.1 message content rejected"));
    let id = scene.submit("f").await;
    scene.known(id, &["1|a@x.test", "1|b@x.test"], "bounced").await;
    let failures = scene.failures(id).await;
    assert_eq!(failures.len(), 2, "{failures:?}");
    scene.counted(BOUNCED, 2.0).await;
    scene.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_too_long_is_expired_and_reported() {
    let options = PostfixOptions { lifetime: Duration::from_secs(2), ..PostfixOptions::default() };
    let form = Form::new("f").mail_to("a@x.test, b@x.test");
    let mut scene = Scene::with(options, &[form]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").reply("450 4.2.0 not today"));
    let id = scene.submit("f").await;
    scene.known(id, &["1|b@x.test"], "delivered").await;
    let row = scene.known(id, &["1|a@x.test"], "expired").await;
    assert_eq!(row.status, "routed", "{row:?}");
    assert!(row.entry("1|a@x.test")["relay"]["since"].is_string(), "it was deferred before: {row:?}");
    let failures = scene.failures(id).await;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0]["error"]["stage"], "delivery", "{failures:?}");
    assert_eq!(failures[0]["error"]["class"], "expired", "{failures:?}");
    scene.counted(EXPIRED, 1.0).await;
    scene.stage.slack.wait_for(1, PATIENCE).await.expect("an alert");
    scene.down().await;
}
