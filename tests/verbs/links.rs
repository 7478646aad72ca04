//! `links`: URLs that work, for attachments that are clean, and a record of every time they are given.

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::BUCKET;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::harness::{json_of, ledger, run, run_config, seed, stage, stage_with};

fn forms() -> [Form; 1] {
    [Form::new("contact").mail_to("a@example.org")]
}

#[tokio::test]
async fn a_link_opens_the_attachment_and_is_recorded_without_its_url() {
    let stage = stage(&forms()).await;
    let row = SubmissionSeed::of("contact")
        .bucket(BUCKET)
        .attachment("a b.pdf", "clean")
        .attachment("c.pdf", "clean");
    let seeded = seed(&stage, row).await;
    let id = seeded.id.to_string();
    for (n, name) in [(1, "a b.pdf"), (2, "c.pdf")] {
        stage.google.put_object(
            BUCKET,
            &format!("submissions/{id}/{n}-{name}"),
            "application/pdf",
            name.as_bytes(),
        );
    }
    let answer = run(&stage, &["links", &id, "--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let links = answer.json().expect("JSON");
    for (place, name) in ["a b.pdf", "c.pdf"].into_iter().enumerate() {
        let link = &links[place];
        assert_eq!(link["attachment_id"], seeded.attachments[place].to_string(), "{link:#}");
        assert_eq!(link["file_name"], name);
        let until: Timestamp = link["valid_until"].as_str().expect("until").parse().expect("a time");
        assert!(until > Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50), "{link:#}");
        let url = link["url"].as_str().expect("a url");
        let got = reqwest::get(url).await.expect("an answer");
        assert_eq!((got.status().as_u16(), got.text().await.expect("a body")), (200, name.to_owned()));
        assert!(!answer.err.contains(url), "no URL in the journal: {answer:?}");
    }
    assert!(answer.err.contains("override") && answer.err.contains("links"), "{answer:?}");
    let entry = &ledger(&stage, seeded.id).await["overrides"][0];
    assert_eq!((&entry["verb"], &entry["links"]), (&json!("links"), &json!(2)), "{entry:#}");
    assert!(entry["actor"].as_str().expect("actor").starts_with("operator:"), "{entry:#}");
    assert!(!entry.to_string().contains("http"), "{entry:#}");
    let text = run(&stage, &["links", &id]).await;
    assert!(text.out.contains("valid until at the latest"), "{text:?}");
    assert_eq!(ledger(&stage, seeded.id).await["overrides"].as_array().map(Vec::len), Some(2), "each time");
}

#[tokio::test]
async fn what_is_not_clean_gets_no_link_and_is_named() {
    let stage = stage(&forms()).await;
    let row = SubmissionSeed::of("contact")
        .attachment("good.pdf", "clean")
        .attachment("bad.exe", "infected")
        .attachment("new.pdf", "pending");
    let seeded = seed(&stage, row).await;
    let answer = run(&stage, &["links", &seeded.id.to_string(), "--json"]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let links = answer.json().expect("JSON");
    assert_eq!(links.as_array().map(Vec::len), Some(1), "{links:#}");
    assert_eq!(links[0]["file_name"], "good.pdf");
    for (place, name, status) in [(1, "bad.exe", "infected"), (2, "new.pdf", "pending")] {
        let named =
            format!("no link to {} \"{name}\": it is not clean ({status})", seeded.attachments[place]);
        assert!(answer.err.contains(&named), "{answer:?}");
    }
    assert_eq!(ledger(&stage, seeded.id).await["overrides"][0]["links"], 1);

    let over = SubmissionSeed::of("contact")
        .attachment("old.pdf", "clean")
        .retention_expires_at("2020-01-01T00:00:00Z".parse().expect("a time"));
    let over = seed(&stage, over).await.id;
    let answer = run(&stage, &["links", &over.to_string(), "--json"]).await;
    assert!(answer.code == Some(1) && answer.err.contains("its retention period has ended"), "{answer:?}");
    assert_eq!(ledger(&stage, over).await, json!({}), "no link, no record");
}

#[tokio::test]
async fn links_end_as_the_interfaces_say() {
    let mut stage = stage_with(&forms(), false).await;
    let bare = seed(&stage, SubmissionSeed::of("contact")).await.id.to_string();
    assert_eq!(json_of(&stage, &["links", &bare, "--json"]).await, json!([]));
    assert!(run(&stage, &["links", &bare]).await.out.contains("no attachments"));
    let purged =
        seed(&stage, SubmissionSeed::of("contact").status("purged").attachment("a", "clean")).await.id;
    assert_eq!(run(&stage, &["links", &purged.to_string()]).await.code, Some(1));
    assert_eq!(run(&stage, &["links", "0190f5b0-7a4c-7c3e-9a51-2f6d1f0a9b11"]).await.code, Some(1));
    let seeded = seed(&stage, SubmissionSeed::of("contact").attachment("a", "clean")).await;
    let newer = SubmissionSeed::of("contact").ledger(json!({"v": 9})).attachment("a", "clean");
    let newer = seed(&stage, newer).await;
    let answer = run(&stage, &["links", &newer.id.to_string(), "--json"]).await;
    assert!(answer.code == Some(0) && answer.err.contains("only this line records it"), "{answer:?}");
    stage.google.stop_iam().await;
    let text = stage.config("special", 0, "");
    let answer = run_config(&stage, &text, &["links", &seeded.id.to_string(), "--json"]).await;
    assert_eq!(answer.code, Some(69), "{answer:?}");
    assert!(answer.err.contains("remedy:") && answer.out.is_empty(), "{answer:?}");
    assert_eq!(ledger(&stage, seeded.id).await, json!({}), "nothing given, nothing recorded");
}
