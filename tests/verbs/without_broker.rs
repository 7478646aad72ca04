//! The verbs with `source.kind = "postgres"`: none of them asks for Pub/Sub. Their events go to the outbox; without
//! one, they say what mends that.

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::{Answer, Source, Stage, StageOptions};
use maple_router::db::migrations::{self, ROUTER};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{binary, explained, json_of, run, seed};

async fn stage(with_outbox: bool) -> Stage {
    let options = StageOptions { sample_forms: false, source: Source::Postgres, ..StageOptions::default() };
    let stage = Stage::start(options).await.expect("a stage");
    devkit::forms::load_into(&stage.database, &[Form::new("f").mail_to("a@x.test")]).await.expect("forms");
    if with_outbox {
        let mut owner = stage.database.owner().await.expect("the owner");
        migrations::run(&mut owner, &ROUTER).await.expect("schema router");
    }
    stage
}

async fn did(stage: &Stage, line: &str) -> Answer {
    let words: Vec<&str> = line.split_whitespace().collect();
    let answer = run(stage, &words).await;
    assert_eq!(answer.code, Some(0), "{line}: {answer:?}");
    for said in [&answer.out, &answer.err] {
        assert!(!said.contains("subscription ") && !said.contains("[pubsub]"), "{line}: {answer:?}");
    }
    answer
}

/// An ended submission that can be replayed.
async fn failed(stage: &Stage) -> Uuid {
    let ledger = json!({"v": 1, "attempts": 5, "resets": 0,
        "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}], "generations": {},
        "deliveries": {"1|a@x.test": {"state": "open", "error": {"class": "deferred", "stage": "RCPT", "reply": "x"}}},
        "finished": {"token": "t", "at": "2026-11-01T00:00:00Z", "status": "failed", "reason": "exhausted"}});
    seed(stage, SubmissionSeed::of("f").status("failed").ledger(ledger)).await.id
}

/// A claim that nobody ends.
async fn stuck(stage: &Stage) -> Uuid {
    let ledger = json!({"v": 1, "attempts": 1, "resets": 0,
        "claim": {"token": "t", "worker": "h/1", "at": "2026-11-01T00:00:00Z", "deadline": "2026-11-01T00:20:00Z"},
        "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}], "generations": {},
        "deliveries": {"1|a@x.test": {"state": "open"}}});
    seed(stage, SubmissionSeed::of("f").status("processing").ledger(ledger)).await.id
}

/// Rows of the outbox that name a submission and were written by a verb.
async fn announced(stage: &Stage, id: Uuid) -> i64 {
    let eyes = stage.database.superuser().await.expect("superuser");
    let sql = "SELECT count(*) FROM router.outbox WHERE entity_id = $1 AND payload->>'reason' = 'operator'";
    eyes.query_one(sql, &[&id]).await.expect("counted").get(0)
}

#[tokio::test]
async fn without_an_outbox_there_is_no_source_and_everybody_says_what_mends_it() {
    let stage = stage(false).await;
    let ready = seed(&stage, SubmissionSeed::of("f")).await.id;
    let mends = |answer: &Answer| {
        let said = format!("{}{}", answer.out, answer.err);
        said.split_whitespace().collect::<Vec<_>>().join(" ").contains("maple-router migrate --router")
    };
    // The daemon does not start.
    let answer = run(&stage, &["run"]).await;
    assert!(answer.code == Some(78) && mends(&answer), "{answer:?}");
    let answer = run(&stage, &["check"]).await;
    assert!(answer.code == Some(1) && mends(&answer), "{answer:?}");
    let report: Value = run(&stage, &["check", "--json"]).await.json().expect("JSON");
    let line = report["lines"].as_array().expect("lines").iter().find(|line| line["name"] == "router_schema");
    assert_eq!(line.expect("the line")["level"], "fail");
    // The event is not published; what a verb did before stands, and the sweep finds it.
    let answer = run(&stage, &["publish", &ready.to_string()]).await;
    assert!(answer.code == Some(78) && mends(&answer), "{answer:?}");
    let replayed = failed(&stage).await.to_string();
    let answer = run(&stage, &["replay", &replayed, "--reason", "test"]).await;
    assert!(answer.code == Some(0) && mends(&answer) && answer.err.contains("the sweep finds"), "{answer:?}");
    let released = stuck(&stage).await.to_string();
    let answer = run(&stage, &["release", &released, "--reason", "test"]).await;
    assert!(answer.code == Some(0) && mends(&answer), "{answer:?}");
    for (id, status) in [(replayed, "received"), (released, "received")] {
        assert_eq!(explained(&stage, id.parse().expect("an id")).await["status"], status);
    }
    let said = did(&stage, "provision").await;
    assert!(said.out.contains("nothing to provision") && said.err.is_empty(), "{said:?}");
    assert_eq!(json_of(&stage, &["provision", "--json"]).await["steps"], json!([]));
}

#[tokio::test]
async fn check_and_status_do_not_speak_of_what_is_not_used() {
    let stage = stage(true).await;
    let answer = run(&stage, &["check", "--json"]).await;
    let report: Value = answer.json().expect("JSON");
    let lines = report["lines"].as_array().expect("lines");
    for name in ["subscription", "dead_letter"] {
        let line = lines.iter().find(|line| line["name"] == name).expect("the line");
        assert!(line["level"] == "ok" && line["detail"].to_string().contains("not used"), "{line:#}");
    }
    assert_eq!(run(&stage, &["check", "--config-only"]).await.code, Some(0));
    let mut router = stage.router(binary(), "router", "").await.expect("a router");
    router.ready().await.expect("ready");
    let answer = stage.ask(binary(), router.config(), &["status", "--json"]).await.expect("asked");
    let report: Value = answer.json().expect("JSON");
    let breakers = report["breaker"].as_array().expect("breakers");
    assert!(breakers.len() == 4 && breakers.iter().all(|one| one["dependency"] != "pubsub"), "{report:#}");
    assert!(router.stop().await.expect("stops").success());
}

#[tokio::test]
async fn with_an_outbox_what_is_announced_is_in_it() {
    let stage = stage(true).await;
    let ready = seed(&stage, SubmissionSeed::of("f")).await.id;
    let said = did(&stage, &format!("publish {ready} --dry-run")).await;
    assert!(said.out.contains("would be published") && announced(&stage, ready).await == 0, "{said:?}");
    let said = did(&stage, &format!("publish {ready}")).await;
    assert!(said.out.contains(": announced as outbox:") && announced(&stage, ready).await == 1, "{said:?}");
    let said = did(&stage, &format!("publish {} --json --force", Uuid::nil())).await;
    assert!(
        said.out.contains("\"message_id\": \"outbox:") && said.out.contains("no such submission"),
        "{said:?}"
    );
    let id = failed(&stage).await;
    let said = did(&stage, &format!("replay {id} --reason test")).await;
    assert!(said.out.contains(", announced as outbox:") && announced(&stage, id).await == 1, "{said:?}");
    let id = stuck(&stage).await;
    did(&stage, &format!("release {id} --reason test")).await;
    assert_eq!(announced(&stage, id).await, 1);
    let said = did(
        &stage,
        &format!("mark-attachment {} --infected", {
            seed(&stage, SubmissionSeed::of("f").attachment("a", "pending")).await.attachments[0]
        }),
    )
    .await;
    assert!(said.out.contains("event outbox:"), "{said:?}");
    let explanation = explained(&stage, ready).await;
    assert!(explanation["next"]["what"].to_string().contains("when its event comes"), "{explanation:#}");
}

#[tokio::test]
async fn a_dead_letter_is_redriven_by_whoever_gave_up_on_it() {
    let stage = stage(true).await;
    let eyes = stage.database.superuser().await.expect("superuser");
    let row: i64 = eyes
        .query_one(
            "INSERT INTO router.outbox (kind, payload, state, attempts) VALUES ('routing.ready', '{}', 'dead_letter', 5)
             RETURNING id",
            &[],
        )
        .await
        .expect("a row")
        .get(0);
    let record = async |message_id: &str, payload: &str| {
        let sql = "INSERT INTO router.dead_letters
              (id, kind, at, reason, message_id, payload, payload_sha256, attributes)
            VALUES (gen_random_uuid(), 'unreadable', now(), 'no_submission_id', $1, $2, repeat('0', 64),
              '{\"type\": \"routing.ready\", \"v\": \"1\"}') RETURNING id";
        let made = eyes.query_one(sql, &[&message_id, &payload.as_bytes()]).await.expect("a record");
        made.get::<_, Uuid>(0)
    };
    let of_row = record(&format!("outbox:{row}:1"), "{}").await;
    let said = did(&stage, &format!("dlq redrive {of_row} --reason mended")).await;
    assert!(said.out.contains(&format!("announced as outbox:{row}")), "{said:?}");
    let sql = "SELECT o.state, d.redriven_at IS NOT NULL FROM router.outbox o, router.dead_letters d
        WHERE o.id = $1 AND d.id = $2";
    let found = eyes.query_one(sql, &[&row, &of_row]).await.expect("both");
    assert_eq!((found.get::<_, String>(0), found.get::<_, bool>(1)), ("pending".to_owned(), true));
    // Letters from a time when there was a broker: one that names a submission, and one that nobody can read.
    let ready = seed(&stage, SubmissionSeed::of("f")).await.id;
    let known = record("17", &json!({"submission_id": ready}).to_string()).await;
    let said = did(&stage, &format!("dlq redrive {known} --reason restored")).await;
    assert!(said.out.contains("announced as outbox:") && announced(&stage, ready).await == 1, "{said:?}");
    let poison = record("18", "{}").await.to_string();
    let said = run(&stage, &["dlq", "redrive", &poison, "--reason", "x"]).await;
    assert!(said.code == Some(1) && said.out.contains("dlq discard"), "{said:?}");
}
