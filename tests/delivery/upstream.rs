//! Upstreams that do not take a mail at once, each in its own way: it is known to be deferred, and since when; nobody is alarmed;
//! and when it goes through at last, that is known too.

use devkit::forms::Form;
use devkit::postfix::PostfixOptions;
use devkit::smtp::{Act, Rule, Stage as At};

use crate::harness::{Scene, relay_status};

/// Name, which is the form's and the recipients' domain, and what the upstream does.
fn upstreams() -> Vec<(&'static str, Rule)> {
    let closes = Act::ReplyThenClose("421 4.3.2 Service shutting down".to_owned());
    vec![
        ("busy", Rule::at(At::Rcpt).act(closes)),
        ("full", Rule::at(At::Rcpt).reply("452 4.2.2 Mailbox full")),
        ("grey", Rule::at(At::Rcpt).reply("450 4.7.1 Greylisted, try again in 300 seconds")),
        ("late", Rule::at(At::Dot).reply("451 4.3.0 Try again later")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deferred_is_known_since_when_and_delivered_in_the_end() {
    let upstreams = upstreams();
    let form = |name: &str| Form::new(name).mail_to(&format!("a@{name}.test, b@{name}.test"));
    let forms: Vec<Form> = upstreams.iter().map(|(name, _)| form(name)).collect();
    let mut scene = Scene::start(&forms).await;
    let mut submitted = Vec::new();
    for (name, rule) in upstreams {
        scene.stage.relay.rule(rule.to(&format!("@{name}.test")));
        submitted.push((name, scene.submit(name).await));
    }
    let mut since = Vec::new();
    for (name, id) in &submitted {
        let keys = [format!("1|a@{name}.test"), format!("1|b@{name}.test")];
        let keys = keys.each_ref().map(String::as_str);
        let row = scene.known(*id, &keys, "deferred").await;
        let relay = &row.entry(keys[0])["relay"];
        assert!(relay["since"].is_string(), "{name}: {row:?}");
        assert!(relay["dsn"].as_str().is_some_and(|dsn| dsn.starts_with("4.")), "{name}: {row:?}");
        assert_eq!(scene.routed(*id).await.status, "routed", "{name}: it waits in the relay, not here");
        assert!(scene.failures(*id).await.is_empty(), "{name}: nothing is lost yet");
        since.push(relay["since"].clone());
    }
    scene.stage.relay.clear_rules();
    for ((name, id), since) in submitted.iter().zip(since) {
        let keys = [format!("1|a@{name}.test"), format!("1|b@{name}.test")];
        let row = scene.known(*id, &keys.each_ref().map(String::as_str), "delivered").await;
        let now = &row.entry(&keys[0])["relay"]["since"];
        assert!(now.is_null() || *now == since, "{name}: the first time is kept: {row:?}");
        assert_eq!(scene.copies(*id, &format!("a@{name}.test")), 1, "{name}");
        assert!(scene.failures(*id).await.is_empty(), "{name}");
    }
    scene.counted("maple_router_delivery_status_total{status=\"delivered\"}", 8.0).await;
    assert!(scene.stage.slack.messages().is_empty(), "{:?}", scene.stage.slack.messages());
    scene.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_without_the_tls_that_is_demanded_defers() {
    let settings = vec![("smtp_tls_security_level", "encrypt".to_owned())];
    let options = PostfixOptions { settings, ..PostfixOptions::default() };
    let mut scene = Scene::with(options, &[Form::new("f").mail_to("a@x.test")]).await;
    let id = scene.submit("f").await;
    let row = scene.known(id, &["1|a@x.test"], "deferred").await;
    let relay = &row.entry("1|a@x.test")["relay"];
    assert_eq!(relay["dsn"], "4.7.4", "{row:?}");
    assert!(relay["text"].as_str().is_some_and(|text| text.contains("TLS is required")), "{row:?}");
    scene.postfix.set("smtp_tls_security_level", "none").await.expect("set");
    scene.known(id, &["1|a@x.test"], "delivered").await;
    scene.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_is_not_there_defers_and_one_that_is_slow_does_not() {
    let slow = std::time::Duration::from_secs(3);
    let mut scene =
        Scene::start(&[Form::new("f").mail_to("a@x.test"), Form::new("s").mail_to("s@s.test")]).await;
    scene.stage.relay.stop().await;
    let id = scene.submit("f").await;
    let row = scene.known(id, &["1|a@x.test"], "deferred").await;
    assert!(row.entry("1|a@x.test")["relay"]["relay"].is_null(), "nobody was spoken to: {row:?}");
    scene.stage.relay.restart().await.expect("it is back");
    scene.known(id, &["1|a@x.test"], "delivered").await;
    scene.stage.relay.rule(Rule::at(At::Dot).to("@s.test").delay(slow));
    let id = scene.submit("s").await;
    let row = scene.routed(id).await;
    assert_eq!(relay_status(&row, "1|s@s.test"), "", "nothing is known yet: {row:?}");
    let row = scene.known(id, &["1|s@s.test"], "delivered").await;
    assert!(row.entry("1|s@s.test")["relay"]["since"].is_null(), "it never was deferred: {row:?}");
    scene.down().await;
}
