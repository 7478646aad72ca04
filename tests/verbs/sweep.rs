//! `sweep --once` and `release`: what people do when they cannot wait for the daemon's own sweep.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::{SUBSCRIPTION, Stage};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{action, explained, json_of, run, run_with, seed, stage, status};

const HOUR: Duration = Duration::from_secs(3600);

fn claimed(attempts: u32) -> Value {
    json!({"v": 1, "attempts": attempts, "plan": [action(1, "a@example.org")],
           "claim": {"token": "t", "worker": "maple/4711", "at": "2026-11-01T10:00:00Z", "deadline": "2036-11-01T10:20:00Z"},
           "deliveries": {"1|a@example.org": {"state": "open", "begun": {"token": "t", "at": "2026-11-01T10:00:00Z"}}}})
}

async fn processing(stage: &Stage, age: Duration, attempts: u32) -> Uuid {
    seed(stage, SubmissionSeed::of("f").status("processing").age(age).ledger(claimed(attempts))).await.id
}

async fn row(stage: &Stage, id: Uuid) -> (String, Value) {
    let eyes = stage.database.superuser().await.expect("superuser");
    let sql = "SELECT status::text, routing_result FROM submissions WHERE id = $1";
    let row = eyes.query_one(sql, &[&id]).await.expect("the row");
    (row.get(0), row.get(1))
}

fn backlog(stage: &Stage) -> usize {
    stage.broker.stats(SUBSCRIPTION).expect("stats").backlog
}

#[tokio::test]
async fn one_pass_does_what_the_daemon_would_and_announces_what_it_finds() {
    let stage = stage(&[Form::new("f").mail_to("a@example.org")]).await;
    let stuck = processing(&stage, HOUR, 1).await;
    let spent = processing(&stage, HOUR, 5).await;
    processing(&stage, Duration::ZERO, 1).await;
    let orphan = seed(&stage, SubmissionSeed::of("f").age(HOUR)).await.id;
    seed(&stage, SubmissionSeed::of("f")).await;
    let infected = seed(&stage, SubmissionSeed::of("f").attachment("a", "infected")).await.id;
    seed(&stage, SubmissionSeed::of("f").attachment("a", "pending").age(2 * HOUR)).await;
    let expected = json!({"stuck": 2, "orphans": 1, "infected": 1, "never_ready": 1, "alerts": 0, "dry_run": true, "warnings": []});
    assert_eq!(json_of(&stage, &["sweep", "--once", "--dry-run", "--json"]).await, expected);
    assert_eq!((row(&stage, stuck).await.0.as_str(), backlog(&stage)), ("processing", 0), "only counted");
    let done = json_of(&stage, &["sweep", "--once", "--json"]).await;
    let expected = json!({"stuck": 2, "orphans": 1, "infected": 1, "never_ready": 1, "alerts": 2, "dry_run": false, "warnings": []});
    assert_eq!(done, expected);
    assert_eq!(row(&stage, stuck).await.0, "received");
    assert_eq!(row(&stage, spent).await.1["finished"]["reason"], "exhausted");
    assert_eq!(row(&stage, infected).await.0, "failed");
    assert_eq!(backlog(&stage), 2, "the stuck one and orphan {orphan}");
    let explanation = explained(&stage, stuck).await;
    assert_eq!(
        (&explanation["deliveries"][0]["in_doubt"], &explanation["attempts"]),
        (&json!(true), &json!(1)),
        "{explanation:#}"
    );
    let status = status(&stage).await;
    assert_eq!(status["in_doubt"], 1, "{status:#}");
    let text = run(&stage, &["sweep", "--once"]).await;
    assert!(text.out.contains("0  stuck") && text.out.contains("1  never ready"), "{text:?}");
    assert_eq!(run(&stage, &["sweep"]).await.code, Some(2), "the daemon sweeps by itself");
}

#[tokio::test]
async fn a_pass_without_a_way_to_announce_leaves_what_waits_and_says_so() {
    let stage = stage(&[Form::new("f").mail_to("a@example.org")]).await;
    let stuck = processing(&stage, HOUR, 1).await;
    let orphan = seed(&stage, SubmissionSeed::of("f").age(HOUR)).await.id;
    let before = row(&stage, orphan).await;
    let postgres = "[source]\nkind = \"postgres\"";
    let done = run_with(&stage, postgres, &["sweep", "--once", "--json"]).await.json().expect("JSON");
    assert_eq!((&done["stuck"], &done["orphans"]), (&json!(1), &json!(0)), "{done:#}");
    assert!(
        done["warnings"]
            .to_string()
            .contains("own sweep: 1 that wait without an event, because with source.kind"),
        "{done:#}"
    );
    assert_eq!(row(&stage, stuck).await.0, "received");
    assert_eq!(row(&stage, orphan).await, before);
    let elsewhere = "[pubsub]\ntopic = \"nowhere\"";
    let done = run_with(&stage, elsewhere, &["sweep", "--once", "--json"]).await.json().expect("JSON");
    assert!(done["warnings"].to_string().contains("could be announced"), "{done:#}");
}

#[tokio::test]
async fn a_claim_is_released_with_a_reason_however_young_and_the_override_stands() {
    let stage = stage(&[Form::new("f").mail_to("a@example.org")]).await;
    let young = processing(&stage, Duration::ZERO, 2).await;
    let spent = processing(&stage, Duration::ZERO, 5).await;
    let waiting = seed(&stage, SubmissionSeed::of("f")).await.id;
    let (unknown, id) = (Uuid::nil(), young.to_string());
    assert_eq!(run(&stage, &["release", &id]).await.code, Some(2), "a reason is required");
    assert_eq!(run(&stage, &["release", &id, "--reason", " "]).await.code, Some(2), "a blank one is none");
    assert_eq!(run(&stage, &["release", "--reason", "x"]).await.code, Some(2), "everything is nobody's wish");
    let ids = [young, spent, waiting, unknown, young].map(|id| id.to_string());
    let mut arguments = vec!["release", "--reason", "host gone", "--json", "--dry-run"];
    arguments.extend(ids.iter().map(String::as_str));
    let answer = run(&stage, &arguments).await.json().expect("JSON");
    assert_eq!(
        (&answer["matched"], answer["changed"].as_array().map(Vec::len)),
        (&json!(4), Some(2)),
        "{answer:#}"
    );
    assert_eq!((row(&stage, young).await.0.as_str(), backlog(&stage)), ("processing", 0));
    arguments.retain(|argument| *argument != "--dry-run");
    let answer = run(&stage, &arguments).await;
    assert_eq!(answer.code, Some(1), "two could not be: {answer:?}");
    let answer = answer.json().expect("JSON");
    assert_eq!(
        answer["changed"],
        json!([
            {"id": young, "status": "received", "attempts": 2, "in_doubt": 1},
            {"id": spent, "status": "failed", "reason": "exhausted"},
        ]),
        "{answer:#}"
    );
    let why = answer["skipped"].to_string();
    assert!(
        why.contains("it is received, not processing") && why.contains("no such submission"),
        "{answer:#}"
    );
    let (status, ledger) = row(&stage, young).await;
    assert_eq!(
        (status.as_str(), &ledger["deliveries"]["1|a@example.org"]["doubt"]),
        ("received", &json!(true))
    );
    assert_eq!((ledger.get("claim"), &ledger["resets"]), (None, &json!(1)));
    for (ledger, id) in [(ledger, young), (row(&stage, spent).await.1, spent)] {
        let noted = &ledger["overrides"][0];
        assert_eq!(
            (&noted["verb"], &noted["reason"]),
            (&json!("release"), &json!("host gone")),
            "{id}: {ledger:#}"
        );
        assert!(noted["actor"].as_str().expect("actor").starts_with("operator:") && noted["at"].is_string());
    }
    assert_eq!(backlog(&stage), 1, "what is open is announced");
    let explanation = explained(&stage, spent).await;
    assert!(
        explanation["audit"][0]["actor"].as_str().expect("actor").starts_with("operator:"),
        "{explanation:#}"
    );
}

#[tokio::test]
async fn filters_choose_among_what_is_being_worked_on() {
    let stage =
        stage(&[Form::new("f").mail_to("a@example.org"), Form::new("g").mail_to("a@example.org")]).await;
    let (old, young) = (processing(&stage, HOUR, 1).await, processing(&stage, Duration::ZERO, 1).await);
    seed(&stage, SubmissionSeed::of("f").age(HOUR)).await;
    let answer =
        run(&stage, &["release", "--older-than", "30m", "--form", "f", "--reason", "x", "--json"]).await;
    let report = answer.json().expect("JSON");
    assert_eq!((&report["matched"], &report["changed"][0]["id"]), (&json!(1), &json!(old)), "{report:#}");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(row(&stage, young).await.0, "processing");
    let none = run(&stage, &["release", "--form", "g", "--reason", "x"]).await;
    assert!(none.out.contains("0 matched, 0 changed, 0 skipped"), "{none:?}");
}
