//! `/api/screening`: what is read, and another run. Nothing that people entered is among it.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::bench::{Answered, Api};

/// What somebody entered.
const ENTERED: &str = "a text that somebody entered";

/// A submission whose run has ended this way.
async fn ended(api: &Api, state: &str) -> (Uuid, Uuid) {
    let (submission, run) = api.screened_submission(ENTERED).await;
    let sql = format!(
        "SET session_replication_role = replica;
         UPDATE screening.submissions r SET state = '{state}', digest = screening.digest_of(r.subject), ended_at = now() WHERE id = '{run}';
         SET session_replication_role = origin;
         INSERT INTO screening.findings (submission_id, attempt, number, rule, severity, place, times)
         VALUES ('{run}', 1, 1, 'honeypot', 'block', 'field website', 1);
         INSERT INTO screening.verdicts (submission_id, attempt, asked, profile, content, model, answered, prompt, ruleset, score, injection, concerns)
         VALUES ('{run}', 1, 1, 'fields', repeat('a', 64), 'm', 'm', 'p', 'r', 40, false,
           '[{{\"code\": \"spam\", \"severity\": \"high\", \"place\": \"message\", \"note\": \"Sells things.\"}}]')"
    );
    api.bench.eyes.batch_execute(&sql).await.expect(&sql);
    (submission, run)
}

#[tokio::test]
async fn runs_are_listed_and_told_by_their_id_and_their_submissions() {
    let api = Api::screened().await;
    let (submission, run) = ended(&api, "REJECTED").await;
    let (other, _) = api.screened_submission(ENTERED).await;
    let all = api.get("vera", "/api/screening").await;
    assert_eq!((all.status, all.body["items"].as_array().map(Vec::len)), (200, Some(2)), "{all:?}");
    for (query, expected) in [
        ("state=REJECTED", 1),
        ("state=PUBLISHED", 0),
        ("form=f&limit=1", 1),
        ("form=g", 0),
        (&format!("submission={other}"), 1),
        ("dead=true", 0),
    ] {
        let some = api.get("vera", &format!("/api/screening?{query}")).await;
        assert_eq!(some.body["items"].as_array().map(Vec::len), Some(expected), "{query}: {some:?}");
    }
    for query in [
        "state=odd",
        "limit=0",
        "limit=201",
        "dead=perhaps",
        "submission=x",
        "odd=1",
        "dead=true&dead=true",
        "form=",
    ] {
        let refused = api.get("vera", &format!("/api/screening?{query}")).await;
        assert_eq!(refused.refused(), (400, "bad_request"), "{query}");
    }
    for id in [submission, run] {
        let told = api.get("vera", &format!("/api/screening/{id}")).await;
        assert_eq!(
            (told.status, &told.body["id"], &told.body["state"]),
            (200, &json!(run), &json!("REJECTED"))
        );
        assert_eq!(told.body["findings"][0]["rule"], "honeypot");
        assert_eq!(told.body["verdicts"][0]["concerns"][0]["code"], "spam");
        assert!(!told.body.to_string().contains(ENTERED), "{told:?}");
    }
    for path in ["forms", "jobs", "waivers", "sla"] {
        let told = api.get("vera", &format!("/api/screening/{path}")).await;
        assert!(told.status == 200 && told.body["items"].is_array(), "{path}: {told:?}");
        assert_eq!(
            api.get("vera", &format!("/api/screening/{path}?x=1")).await.refused(),
            (400, "bad_request")
        );
    }
    for id in [Uuid::nil().to_string(), "odd".to_owned()] {
        assert_eq!(
            api.get("vera", &format!("/api/screening/{id}")).await.refused(),
            (404, "not_found"),
            "{id}"
        );
    }
}

#[tokio::test]
async fn another_run_is_a_reviewers_has_a_reason_and_is_opened_once() {
    let api = Api::screened().await;
    let (submission, run) = ended(&api, "REJECTED").await;
    let path = format!("/api/screening/{submission}/rescreen");
    assert_eq!(api.post("vera", &path, json!({"reason": "x"})).await.refused(), (403, "role"));
    for body in [json!({}), json!({"reason": "  "})] {
        assert_eq!(api.post("rita", &path, body).await.refused(), (422, "guard"));
    }
    assert_eq!(api.post("rita", &path, json!({"reason": "x", "odd": 1})).await.status, 400);
    let keyed = |reason: &str| {
        let request = api.ask("rita", Method::POST, &path).header("idempotency-key", "k-1");
        Answered::of(request.json(&json!({"reason": reason})))
    };
    let first = keyed("a person looked").await;
    assert_eq!((first.status, &first.body["submission_id"]), (200, &json!(submission)), "{first:?}");
    assert_eq!(first.body["replayed"], false);
    let again = keyed("a person looked").await;
    assert_eq!(again.body, first.body, "the same answer");
    assert_eq!(keyed("another").await.refused(), (422, "idempotency_mismatch"));
    let fresh = first.body["run_id"].as_str().expect("a run");
    let told = api.get("vera", &format!("/api/screening/{submission}")).await;
    assert_eq!((&told.body["id"], &told.body["run"]), (&json!(fresh), &json!(2)), "{told:?}");
    assert_eq!(told.body["events"][0]["actor"], "reviewer:rita");
    let open = api.post("rita", &path, json!({"reason": "and again"})).await;
    assert_eq!(open.refused(), (409, "not_possible"));
    assert!(open.body["detail"].as_str().is_some_and(|detail| detail.contains("is open")), "{open:?}");
    // By the id of a run it is that run's submission.
    let by_run = api.post("rita", &format!("/api/screening/{run}/rescreen"), json!({"reason": "x"})).await;
    assert_eq!(by_run.refused(), (409, "not_possible"));
    let unknown =
        api.post("rita", &format!("/api/screening/{}/rescreen", Uuid::nil()), json!({"reason": "x"})).await;
    assert_eq!(unknown.refused(), (404, "not_found"));
    let runs: Vec<Value> =
        api.get("vera", &format!("/api/screening?submission={submission}")).await.body["items"]
            .as_array()
            .expect("runs")
            .clone();
    assert_eq!(runs.len(), 2, "the old one stays");
}

#[tokio::test]
async fn what_was_kept_out_is_open_again_or_nothing_is_done() {
    let api = Api::screened().await;
    for refuses in [true, false] {
        let (submission, _) = ended(&api, "REJECTED").await;
        let failed = format!(
            "UPDATE submissions SET status = 'failed', routing_result = '{{\"finished\": {{\"reason\": \"screened_out\", \"token\": \"t\"}}}}' WHERE id = '{submission}'"
        );
        api.bench.eyes.batch_execute(&failed).await.expect("failed");
        *api.room.refuses.lock().expect("unpoisoned") = refuses.then(|| "its form is gone".to_owned());
        let answer =
            api.post("rita", &format!("/api/screening/{submission}/rescreen"), json!({"reason": "x"})).await;
        let runs = api.get("vera", &format!("/api/screening?submission={submission}")).await.body["items"]
            .as_array()
            .map(Vec::len);
        if refuses {
            assert_eq!((answer.refused(), runs), ((409, "not_possible"), Some(1)), "{answer:?}");
        } else {
            assert_eq!(
                (answer.status, &answer.body["replayed"], runs),
                (200, &json!(true), Some(2)),
                "{answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn without_the_schema_the_api_says_what_brings_it() {
    let api = Api::new().await;
    assert_eq!(api.get("vera", "/api/screening").await.refused(), (503, "not_installed"));
}
