//! Links in mails: they work, they live no longer than the submission, and a signer in trouble defers and loses nothing.

#![expect(clippy::disallowed_methods, reason = "retention is a matter of real time")]

use std::time::Duration;

use devkit::forms::{Form, Seeded, SubmissionSeed};
use devkit::google::Mishap;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::harness::{Scene, mail_text};

const BUCKET: &str = "maple-uploads";

fn form() -> Form {
    Form::new("f").mail_to("a@x.test")
}

/// A submission with clean attachments whose objects are in the store.
async fn submit(scene: &Scene, seed: SubmissionSeed, names: &[&str]) -> Seeded {
    let seed = names.iter().fold(seed, |seed, name| seed.attachment(name, "clean"));
    let seeded = seed.insert(&scene.backend).await.expect("a row");
    for (number, name) in (1..).zip(names) {
        let object = format!("submissions/{}/{number}-{name}", seeded.id);
        scene.stage.google.put_object(BUCKET, &object, "application/pdf", format!("bytes of {name}"));
    }
    seeded
}

/// Routes it and answers the text of its one mail.
async fn text(scene: &Scene, seeded: &Seeded) -> String {
    scene.publish(seeded.id);
    let row = scene.ended(seeded.id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    mail_text(scene.stage.relay.mails().last().expect("a mail")).1
}

fn urls(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| line.starts_with("http")).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_link_in_the_mail_fetches_its_object_under_its_name() {
    let scene = Scene::start(&[form()]).await;
    let names = ["report.pdf", "ürlaub & mehr.pdf", "100%.txt"];
    let seeded = submit(&scene, SubmissionSeed::of("f"), &names).await;
    let text = text(&scene, &seeded).await;
    let urls = urls(&text);
    assert_eq!(urls.len(), 3, "{text}");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for name in names {
        let named = lines.iter().position(|line| line.contains(name)).expect("it is named");
        let url = lines[named + 1];
        let answer = reqwest::get(url).await.expect("fetched");
        assert_eq!(answer.status(), 200, "{name}");
        let offered =
            String::from_utf8_lossy(answer.headers()["content-disposition"].as_bytes()).into_owned();
        assert_eq!(offered, format!("attachment; filename=\"{name}\""));
        assert_eq!(answer.text().await.expect("a body"), format!("bytes of {name}"));
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_signer_in_trouble_defers_and_its_return_routes() {
    let scene = Scene::start(&[form()]).await;
    let table =
        [("down", Mishap::Status(503)), ("not allowed", Mishap::Status(403)), ("hangs", Mishap::Hang)];
    for (name, mishap) in table {
        let seeded = submit(&scene, SubmissionSeed::of("f"), &["a.pdf"]).await;
        scene.stage.google.iam_script().always(mishap);
        let sent = scene.stage.relay.counters().transactions;
        scene.publish(seeded.id);
        let row =
            scene.await_row(seeded.id, "fault", |row| !row.entry("1|a@x.test")["error"].is_null()).await;
        let error = &row.entry("1|a@x.test")["error"];
        assert_eq!(
            (&error["class"], &error["stage"]),
            (&json!("deferred"), &json!("sign")),
            "{name}: {row:?}"
        );
        assert_eq!(row.entry("1|a@x.test")["begun"], json!(null), "{name}: nothing was begun: {row:?}");
        assert_eq!(scene.stage.relay.counters().transactions, sent, "{name}: nothing was sent");
        scene.stage.google.iam_script().clear();
        let row = scene.ended(seeded.id).await;
        assert_eq!(row.status, "routed", "{name}: {row:?}");
        scene.stage.relay.await_mails(1, Duration::from_secs(5)).await.expect("the mail");
        // An outage costs nobody an attempt; a right that is missing is none.
        assert!(
            if name == "not allowed" { row.attempts() >= 2 } else { row.attempts() == 1 },
            "{name}: {row:?}"
        );
        scene.stage.relay.forget();
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_submission_without_attachments_needs_no_signer() {
    let scene = Scene::start(&[form()]).await;
    scene.stage.google.iam_script().always(Mishap::Status(503));
    scene.stage.google.metadata_script().always(Mishap::Status(503));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    scene.stop().await;
}

#[tokio::test]
async fn an_object_that_no_link_can_name_is_named_in_the_mail_beside_the_others() {
    let scene = Scene::start(&[form()]).await;
    let seeded = submit(&scene, SubmissionSeed::of("f"), &["good.pdf", "odd.pdf"]).await;
    let odd = "UPDATE attachments SET gcs_object = 'a/../b' WHERE id = $1";
    scene.backend.execute(odd, &[&seeded.attachments[1]]).await.expect("changed");
    let text = text(&scene, &seeded).await;
    assert_eq!(urls(&text).len(), 1, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains("odd.pdf")).expect("it is named");
    assert!(lines[at + 1].contains("can no longer be linked"), "and why it has no link: {text}");
    scene.stop().await;
}

#[tokio::test]
async fn a_link_ends_with_the_retention_of_its_submission() {
    let scene = Scene::start(&[form()]).await;
    let in_an_hour = Timestamp::now() + SignedDuration::from_hours(1);
    let seed = SubmissionSeed::of("f").retention_expires_at(in_an_hour);
    let seeded = submit(&scene, seed, &["a.pdf"]).await;
    let mail = text(&scene, &seeded).await;
    let urls = urls(&mail);
    let expires =
        urls[0].split("X-Goog-Expires=").nth(1).and_then(|rest| rest.split('&').next()).expect("a life");
    let expires: u64 = expires.parse().expect("seconds");
    assert!((3300..=3600).contains(&expires), "{expires}");
    assert_eq!(reqwest::get(&urls[0]).await.expect("fetched").status(), 200);
    scene.stage.google.set_clock_offset(3601);
    assert_eq!(reqwest::get(&urls[0]).await.expect("fetched").status(), 400, "it has expired");
    scene.stop().await;
}

#[tokio::test]
async fn after_retention_the_mail_says_so_and_asks_for_no_signature() {
    let scene = Scene::start(&[form()]).await;
    let gone = Timestamp::now() - SignedDuration::from_mins(1);
    let seed = SubmissionSeed::of("f").retention_expires_at(gone);
    let seeded = submit(&scene, seed, &["a.pdf"]).await;
    let mail = text(&scene, &seeded).await;
    assert!(mail.contains("a.pdf") && mail.contains("its retention period has ended"), "{mail}");
    assert_eq!(scene.stage.google.sign_calls(), 0);
    scene.stop().await;
}
