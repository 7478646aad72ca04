//! SIGHUP: what can change without a restart changes, what cannot is named, and a bad file changes nothing.

use std::fs;

use devkit::forms::{Form, SubmissionSeed};
use serde_json::Value;

use crate::harness::{Scene, lines};

impl Scene {
    /// Writes this over the router's configuration and has it read again; returns what the journal says.
    async fn reload(&self, change: impl Fn(&str) -> String, event: &str) -> Value {
        let said =
            |event: &str| lines(&self.router).into_iter().filter(|line| line["event"] == event).count();
        let before = said(event);
        let path = self.router.config();
        let text = fs::read_to_string(path).expect("a configuration");
        fs::write(path, change(&text)).expect("written");
        self.router.signal("HUP").await.expect("sent");
        self.until(event, async || said(event) > before).await;
        lines(&self.router).into_iter().rfind(|line| line["event"] == event).expect("said")
    }

    async fn last_reload_ok(&self) -> Option<f64> {
        self.router.metric("maple_router_config_last_reload_successful").await.expect("metrics")
    }
}

#[tokio::test]
async fn what_can_change_changes_and_a_bad_file_changes_nothing() {
    let scene = Scene::start(&[Form::new("f").mail_to("a@x.test")]).await;
    assert_eq!(scene.last_reload_ok().await, Some(1.0));
    // A bad file: nothing of it is used, not even what could be.
    let line = scene
        .reload(
            |text| {
                text.replace("[mail]", "[mail]\nallowed_destination_domains = [\"y.test\"]\nno_such_key = 1")
            },
            "reload_failed",
        )
        .await;
    assert!(line["message"].as_str().expect("text").contains("no_such_key"), "{line}");
    assert_eq!(scene.last_reload_ok().await, Some(0.0));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed", "the old rules are in force");
    // A good one: the rule is in force at once, what needs a restart is named.
    let line = scene
        .reload(|text| text.replace("no_such_key = 1", "").replace("maple.test", "other.test"), "reloaded")
        .await;
    assert_eq!(line["changed"], "mail.allowed_destination_domains", "{line}");
    assert_eq!(line["needs_restart"], "smtp.hello_name", "{line}");
    assert_eq!(scene.last_reload_ok().await, Some(1.0));
    scene
        .until("the new rule", async || {
            let id = scene.submit(&SubmissionSeed::of("f")).await.id;
            scene.ended(id).await.reason() == Some("refused")
        })
        .await;
    // The level of the journal.
    let debug = |scene: &Scene| lines(&scene.router).iter().any(|line| line["level"] == "debug");
    assert!(!debug(&scene));
    scene.reload(|text| text.replace("[log]", "[log]\nlevel = \"debug\""), "reloaded").await;
    scene.submit(&SubmissionSeed::of("f")).await;
    scene.until("debug lines", async || debug(&scene)).await;
    scene.stop().await;
}
