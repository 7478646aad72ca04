//! `finalize` and `mark-attachment`: what they write, what they publish, and what they leave alone.

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::Stage;
use maple_router::routing::event::Reason;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{backlog, ledger, next_event, run, run_config, run_with, seed, stage};

fn forms() -> [Form; 1] {
    [Form::new("contact").mail_to("a@example.org")]
}

async fn clamav(stage: &Stage, attachment: Uuid) -> String {
    let client = stage.database.superuser().await.expect("superuser");
    let sql = "SELECT clamav_status::text FROM attachments WHERE id = $1";
    client.query_one(sql, &[&attachment]).await.expect("the attachment").get(0)
}

#[tokio::test]
async fn finalize_publishes_what_is_ready_and_nothing_else() {
    let stage = stage(&forms()).await;
    let id = seed(&stage, SubmissionSeed::of("contact")).await.id;
    let answer = run(&stage, &["finalize", &id.to_string()]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("it is ready: event"), "{answer:?}");
    let event = next_event(&stage).await;
    assert_eq!((event.submission_id, event.reason), (id, Reason::Finalized));
    assert_eq!(event.form_id.as_deref(), Some("contact"));
    assert_eq!(ledger(&stage, id).await, json!({}), "nothing was changed, so nothing is recorded");

    let scanning = seed(&stage, SubmissionSeed::of("contact").attachment("a", "pending")).await.id;
    let answer = run(&stage, &["finalize", &scanning.to_string()]).await;
    assert!(answer.code == Some(0) && answer.out.contains("nothing is published"), "{answer:?}");
    for status in ["processing", "routed", "failed"] {
        let id = seed(&stage, SubmissionSeed::of("contact").status(status)).await.id;
        let answer = run(&stage, &["finalize", &id.to_string()]).await;
        assert!(answer.code == Some(0) && answer.out.contains("nothing is published"), "{answer:?}");
    }
    let purged = seed(&stage, SubmissionSeed::of("contact").status("purged")).await.id;
    assert_eq!(run(&stage, &["finalize", &purged.to_string()]).await.code, Some(1));
    assert_eq!(run(&stage, &["finalize", &Uuid::nil().to_string()]).await.code, Some(1));
    assert_eq!(backlog(&stage), 0, "none of those was published");
}

#[tokio::test]
async fn finalize_sets_the_configured_column_once_and_says_who() {
    let stage = stage(&forms()).await;
    stage.database.alter("ALTER TABLE submissions ADD finalized_at timestamptz").await.expect("a column");
    let extra = "[readiness]\nfinalized_column = \"finalized_at\"\n";
    let id = seed(&stage, SubmissionSeed::of("contact")).await.id.to_string();
    let explanation = run_with(&stage, extra, &["explain", &id, "--json"]).await.json().expect("JSON");
    assert_eq!(explanation["readiness"]["state"], "not_finalized", "{explanation:#}");
    assert_eq!(explanation["next"]["code"], "finalize", "{explanation:#}");
    for (round, said) in [(1, "finalized_at is set"), (2, "finalized_at was set already")] {
        let answer = run_with(&stage, extra, &["finalize", &id, "--reason", "backend forgot"]).await;
        assert!(answer.code == Some(0) && answer.out.contains(said), "{answer:?}");
        assert_eq!(
            answer.err.contains("EVENT=override") || answer.err.contains("override"),
            round == 1,
            "{answer:?}"
        );
        assert_eq!(next_event(&stage).await.submission_id.to_string(), id);
    }
    let overrides = ledger(&stage, id.parse().expect("id")).await["overrides"].clone();
    assert_eq!(overrides.as_array().map(Vec::len), Some(1), "only what changed something: {overrides:#}");
    assert_eq!(
        (&overrides[0]["verb"], &overrides[0]["reason"]),
        (&json!("finalize"), &json!("backend forgot"))
    );
    assert!(overrides[0]["actor"].as_str().expect("actor").starts_with("operator:"), "{overrides:#}");
    let updated: bool = stage
        .database
        .superuser()
        .await
        .expect("superuser")
        .query_one("SELECT updated_at = created_at FROM submissions", &[])
        .await
        .expect("the row")
        .get(0);
    assert!(updated, "updated_at is a liveness clock: no verb touches it");
    let page = run_with(&stage, extra, &["explain", &id]).await.out;
    assert!(page.contains("finalize by operator:") && page.contains("backend forgot"), "{page}");
}

#[tokio::test]
async fn the_last_clean_attachment_makes_a_submission_ready() {
    let stage = stage(&forms()).await;
    let two = SubmissionSeed::of("contact").attachment("a", "pending").attachment("b", "pending");
    let seeded = seed(&stage, two).await;
    let [first, second] = [seeded.attachments[0], seeded.attachments[1]];
    let answer = run(&stage, &["mark-attachment", &first.to_string(), "--clean"]).await;
    assert!(answer.code == Some(0) && answer.out.contains("1 of its attachments still"), "{answer:?}");
    assert_eq!((backlog(&stage), clamav(&stage, first).await), (0, "clean".to_owned()));
    let answer =
        run(&stage, &["mark-attachment", &second.to_string(), "--clean", "--reason", "by hand"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let event = next_event(&stage).await;
    assert_eq!((event.submission_id, event.reason), (seeded.id, Reason::ScanClean));
    let overrides = ledger(&stage, seeded.id).await["overrides"].clone();
    assert_eq!(overrides[1]["attachment_id"], second.to_string(), "{overrides:#}");
    assert_eq!(overrides[1]["reason"], "by hand");
}

#[tokio::test]
async fn malware_is_published_so_that_it_fails_and_is_taken_back_only_with_a_reason() {
    let stage = stage(&forms()).await;
    let seeded = seed(&stage, SubmissionSeed::of("contact").attachment("a", "pending")).await;
    let attachment = seeded.attachments[0].to_string();
    let answer = run(&stage, &["mark-attachment", &attachment, "--infected"]).await;
    assert!(answer.code == Some(0) && answer.out.contains("the worker fails it"), "{answer:?}");
    assert_eq!(next_event(&stage).await.submission_id, seeded.id);
    let answer = run(&stage, &["mark-attachment", &attachment, "--clean"]).await;
    assert!(answer.code == Some(2) && answer.err.contains("--reason"), "{answer:?}");
    assert_eq!(clamav(&stage, seeded.attachments[0]).await, "infected");
    let answer =
        run(&stage, &["mark-attachment", &attachment, "--clean", "--reason", "false positive"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(clamav(&stage, seeded.attachments[0]).await, "clean");
    assert_eq!(next_event(&stage).await.reason, Reason::ScanClean);

    let purged = SubmissionSeed::of("contact").status("purged").attachment("a", "pending");
    let purged = seed(&stage, purged).await.attachments[0];
    assert_eq!(run(&stage, &["mark-attachment", &purged.to_string(), "--clean"]).await.code, Some(1));
    assert_eq!(clamav(&stage, purged).await, "pending", "nothing is written to a purged submission");
    assert_eq!(run(&stage, &["mark-attachment", &Uuid::nil().to_string(), "--clean"]).await.code, Some(1));
}

#[tokio::test]
async fn a_status_stands_and_a_strange_ledger_is_left_alone() {
    let stage = stage(&forms()).await;
    for strange in [json!({"v": 9, "overrides": 7}), json!([1]), json!({"v": 1, "overrides": "x"})] {
        let seeded = SubmissionSeed::of("contact").ledger(strange.clone()).attachment("a", "pending");
        let seeded = seed(&stage, seeded).await;
        let answer = run(&stage, &["mark-attachment", &seeded.attachments[0].to_string(), "--clean"]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_eq!(ledger(&stage, seeded.id).await, strange, "evidence is not touched");
        assert_eq!(clamav(&stage, seeded.attachments[0]).await, "clean");
    }
}

#[tokio::test]
async fn pubsub_down_ends_in_69_and_the_status_stands() {
    let stage = stage(&forms()).await;
    let seeded = seed(&stage, SubmissionSeed::of("contact").attachment("a", "pending")).await;
    let text = stage.config("special", 0, "").replace(&stage.broker.endpoint(), "http://127.0.0.1:9");
    let attachment = seeded.attachments[0];
    let answer = run_config(&stage, &text, &["mark-attachment", &attachment.to_string(), "--clean"]).await;
    assert_eq!(answer.code, Some(69), "{answer:?}");
    assert!(answer.err.contains(&format!("maple-router publish {}", seeded.id)), "{answer:?}");
    assert_eq!(clamav(&stage, attachment).await, "clean");
}
