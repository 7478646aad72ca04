//! An attachment judged infected after its mail was sent: people are notified, once, whichever daemon finds it.

use devkit::forms::{Form, SubmissionSeed, scan};
use devkit::stage::{Source, StageOptions};
use serde_json::json;

use crate::harness::{Scene, binary};

const SOON: &str =
    "[routing]\nsweep_interval = \"1s\"\n[slack]\ngroup_wait = \"1s\"\nrepeat_interval = \"1s\"";

async fn infected_after_it_was_sent_is_reported_once_and_stays_routed(source: Source) {
    let forms = [Form::new("f").mail_to("a@x.test")];
    let scene = Scene::with(StageOptions::of(source), &forms, SOON).await;
    let mut other = scene.stage.router(binary(), "other", SOON).await.expect("a router");
    other.ready().await.expect("ready");
    let scanner = scene.stage.database.client_as("forms_scanner").await.expect("the scanner");
    let posted_about = |id: &str| {
        let posted = scene.stage.slack.messages();
        let texts = posted.iter().map(devkit::slack::SlackMessage::visible_text);
        texts
            .filter(|text| text.contains("infected after it was sent") && text.contains(id))
            .collect::<Vec<_>>()
    };
    let mut ids = Vec::new();
    // The second one is reported after the first: a daemon that reported twice would have done so by then.
    for _ in 0..2 {
        let seeded = scene.submit(&SubmissionSeed::of("f").attachment("a.pdf", "clean")).await;
        let (id, routed) = (seeded.id, scene.ended(seeded.id).await);
        assert_eq!(routed.status, "routed", "{routed:?}");
        scan(&scanner, seeded.attachments[0], "infected").await.expect("marked");
        let confirmed =
            |row: &devkit::submission::Row| row.ledger["late_infection"]["confirmed_at"].is_string();
        let row = scene.await_row(id, "word of it", confirmed).await;
        assert_eq!((&row.status, &row.updated_at), (&routed.status, &routed.updated_at), "it has not moved");
        ids.push(id.to_string());
    }
    for id in &ids {
        let texts = posted_about(id);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("work for up to 6 d more"), "{texts:?}");
        assert!(
            texts[0].contains("section infected_after_routing") && !texts[0].contains("a@x.test"),
            "{texts:?}"
        );
    }
    let router = &scene.router;
    let asked =
        async |arguments: &[&str]| scene.stage.ask(binary(), router.config(), arguments).await.expect("ran");
    let listed = asked(&["list", "--infected-after-routing", "--json"]).await.json().expect("JSON");
    let mut found: Vec<_> =
        listed.as_array().expect("a list").iter().map(|line| line["id"].clone()).collect();
    found.sort_by_key(ToString::to_string);
    ids.sort();
    assert_eq!(json!(found), json!(ids));
    let explained = asked(&["explain", &ids[0]]).await.out;
    for word in [
        "after it was sent the scan found malware",
        "Slack took the alert of the malware",
        "take its object away",
    ] {
        assert!(
            explained.split_whitespace().collect::<Vec<_>>().join(" ").contains(word),
            "{word}: {explained}"
        );
    }
    let counted =
        async || router.metric("maple_router_infected_after_routing").await.expect("metrics") == Some(2.0);
    scene.until("count", counted).await;
    assert!(other.stop().await.expect("stops").success());
    scene.stop().await;
}

devkit::with_either_source!(infected_after_it_was_sent_is_reported_once_and_stays_routed);
