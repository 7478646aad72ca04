//! The description of the API: what is described is there, and what is there is described.

use std::collections::BTreeSet;

use maple_router::desk::api::description;
use reqwest::Method;
use serde_json::{Value, json};

use super::bench::{Answered, Api};

/// The operations of the desk's design.
const OPERATIONS: [&str; 29] = [
    "get /api/assessments/{submission}",
    "get /api/assessments/{submission}/events",
    "get /api/grey-queue",
    "get /api/grey-queue/changes",
    "get /api/grey-queue/summary",
    "get /api/grey-queue/{id}",
    "get /api/grey-queue/{id}/history",
    "get /api/grey-queue/{id}/transitions",
    "get /api/openapi.json",
    "get /api/screening",
    "get /api/screening/forms",
    "get /api/screening/jobs",
    "get /api/screening/sla",
    "get /api/screening/waivers",
    "get /api/screening/{id}",
    "post /api/screening/{id}/rescreen",
    "post /api/assessments/{submission}/review",
    "post /api/assessments/{submission}/ticket",
    "post /api/grey-queue/bulk",
    "post /api/grey-queue/{id}/assign",
    "post /api/grey-queue/{id}/de-escalate",
    "post /api/grey-queue/{id}/dismiss",
    "post /api/grey-queue/{id}/escalate",
    "post /api/grey-queue/{id}/reject",
    "post /api/grey-queue/{id}/reopen",
    "post /api/grey-queue/{id}/reset",
    "post /api/grey-queue/{id}/resolve",
    "post /api/grey-queue/{id}/start",
    "post /api/grey-queue/{id}/unassign",
];

fn operations(document: &Value) -> Vec<(String, Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let each = |(path, item): (&String, &Value)| {
        let methods = item.as_object().expect("operations").clone();
        methods
            .into_iter()
            .map(|(method, operation)| (format!("{method} {path}"), operation))
            .collect::<Vec<_>>()
    };
    paths.iter().flat_map(each).collect()
}

#[tokio::test]
async fn each_operation_is_described_and_each_description_is_an_operation() {
    let api = Api::graded(|_| ()).await;
    let served = api.get("vera", "/api/openapi.json").await;
    assert_eq!(
        (served.status, &served.headers["content-type"]),
        (200, &"application/json".parse().expect("a value"))
    );
    assert_eq!(served.body, serde_json::to_value(description()).expect("a document"));
    assert!(served.body["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let described = operations(&served.body);
    let names: BTreeSet<&str> = described.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(OPERATIONS));
    let seen = api.pending().await;
    let (_, run) = api.screened_submission("a").await;
    let (work, _) = api.bench.work("a text").await;
    for (name, operation) in &described {
        let (method, path) = name.split_once(' ').expect("two words");
        let method: Method = method.to_uppercase().parse().expect("a method");
        let id = if path.starts_with("/api/screening") { run } else { seen.id };
        let path = path.replace("{id}", &id.to_string()).replace("{submission}", &work.to_string());
        let status = api.ask("ada", method, &path).send().await.expect("an answer").status().as_u16();
        assert!(![404, 405].contains(&status) && status < 500, "{name}: {status}");
        let documented = operation["responses"].as_object().expect("responses");
        assert!(documented.contains_key(&status.to_string()), "{name}: {status}");
        for refusal in ["400", "401", "403", "404", "421", "429", "500", "503"] {
            let problem = &documented[refusal]["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(problem, "#/components/schemas/Problem", "{name} {refusal}");
        }
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        assert!(operation["operationId"].is_string(), "{name}");
        if name.starts_with("post /api/grey-queue/{id}/") {
            for status in ["200", "202", "409", "412", "413", "415", "422", "428"] {
                assert!(documented.contains_key(status), "{name}: {status}");
            }
        }
    }
}

/// What a reference names is in the document.
#[test]
fn every_reference_leads_somewhere_and_every_kind_of_problem_is_named() {
    let document = serde_json::to_value(description()).expect("a document");
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(to)) = members.get("$ref") {
                    found.insert(to.clone());
                }
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for to in &found {
        assert!(document.pointer(to.trim_start_matches('#')).is_some(), "{to}");
    }
    let kinds = &document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"];
    let all: Vec<Value> = maple_router::desk::problem::Kind::ALL
        .iter()
        .map(|kind| json!(format!("urn:maple-router:problem:{kind}")))
        .collect();
    assert_eq!(kinds, &Value::Array(all));
    let schemes = document["components"]["securitySchemes"].as_object().expect("schemes");
    assert_eq!(schemes.keys().collect::<Vec<_>>(), ["learner", "session", "token"]);
    assert_eq!(document["security"], json!([{"token": []}, {"session": []}]));
}

#[tokio::test]
async fn a_document_that_is_not_asked_for_as_it_should_be_is_refused() {
    let api = Api::new().await;
    let unknown = api.get("vera", "/api/openapi.json?format=yaml").await;
    assert_eq!(unknown.refused(), (400, "bad_request"));
    let nobody = api.desk.bare(Method::GET, "/api/openapi.json").header("host", crate::harness::HOST);
    assert_eq!(Answered::of(nobody).await.refused(), (401, "unauthenticated"));
}
