//! One command for many entries: what was seen, and never "all".

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::bench::{Answered, Api, Seen};

const BULK: &str = "/api/grey-queue/bulk";

fn items(seen: &[Seen]) -> Value {
    seen.iter().map(|one| json!({"id": one.id, "version": one.version})).collect()
}

fn dismiss(seen: &[Seen]) -> Value {
    json!({"command": "dismiss", "reason": "spam", "items": items(seen)})
}

async fn keyed(api: &Api, key: &str, body: &Value) -> Answered {
    Answered::of(api.ask("rita", Method::POST, BULK).header("idempotency-key", key).json(body)).await
}

fn counts(answer: &Answered) -> (u16, u64, usize, usize) {
    let count = |what: &str| answer.body[what].as_array().map_or(0, Vec::len);
    (answer.status, answer.body["matched"].as_u64().unwrap_or_default(), count("changed"), count("skipped"))
}

#[tokio::test]
async fn two_hundred_are_changed_each_by_itself_and_one_more_is_refused() {
    let api = Api::new().await;
    let all = api.many(201).await;
    let too_many = api.post("rita", BULK, dismiss(&all)).await;
    assert_eq!(too_many.refused(), (400, "bad_request"));
    let answer = api.post("rita", BULK, dismiss(&all[..200])).await;
    assert_eq!(counts(&answer), (200, 200, 200, 0));
    for changed in answer.body["changed"].as_array().expect("changed") {
        assert_eq!((&changed["version"], &changed["state"]), (&json!(2), &json!("Dismissed")));
    }
    assert_eq!(api.bench.count("router.grey_queue WHERE closed_at IS NULL").await, 1);
    assert_eq!(api.chain(all[7].id).await, ["open", "dismiss"]);
}

#[tokio::test]
async fn one_that_is_not_as_it_was_seen_stops_none_of_the_others() {
    let api = Api::new().await;
    let mut all = api.many(6).await;
    api.done("ben", all[1], "assign", json!({})).await;
    let (closed, _) = api.done("ben", all[3], "dismiss", json!({"reason": "so"})).await;
    all[3] = closed;
    all.push(Seen { id: Uuid::nil(), version: 1 });
    let untouched = (api.trace(all[1].id).await, api.trace(closed.id).await);
    let answer = api.post("rita", BULK, dismiss(&all)).await;
    assert_eq!(counts(&answer), (200, 7, 4, 3));
    let skipped = answer.body["skipped"].as_array().expect("skipped");
    let kinds: Vec<(&str, &str)> = skipped
        .iter()
        .map(|one| (one["id"].as_str().expect("an id"), one["type"].as_str().expect("a type")))
        .collect();
    let of = |kind: &str| format!("urn:maple-router:problem:{kind}");
    assert_eq!(
        kinds,
        [
            (all[1].id.to_string().as_str(), of("version_conflict").as_str()),
            (closed.id.to_string().as_str(), of("not_possible").as_str()),
            (Uuid::nil().to_string().as_str(), of("not_found").as_str()),
        ]
    );
    assert!(skipped[0]["why"].as_str().expect("why").contains("reviewer:ben"), "{skipped:?}");
    let now = (api.trace(all[1].id).await, api.trace(closed.id).await);
    assert_eq!(now, untouched);
}

#[tokio::test]
async fn a_filter_means_what_was_seen_and_no_other_number() {
    let api = Api::new().await;
    let all = api.many(5).await;
    let listed = api.get("rita", "/api/grey-queue?form=f&state=Pending").await;
    assert_eq!(listed.body["items"].as_array().map(Vec::len), Some(5));
    let late = api.pending().await;
    let mut body = json!({"command": "dismiss", "reason": "spam", "as_of": listed.body["as_of"], "expected": 5,
                          "filter": {"form": "f", "state": ["Pending"]}});
    api.done("ben", all[0], "assign", json!({})).await;
    let changed = keyed(&api, "k1", &body).await;
    assert_eq!(changed.refused(), (409, "selection_changed"));
    assert_eq!((&changed.body["expected"], &changed.body["matched"]), (&json!(5), &json!(4)));
    assert_eq!(api.bench.count("router.grey_queue WHERE closed_at IS NOT NULL").await, 0);
    body["expected"] = json!(4);
    let done = keyed(&api, "k1", &body).await;
    assert_eq!(counts(&done), (200, 4, 4, 0), "what was refused may be mended under its key");
    let waits = api.get("rita", &late.path("")).await;
    assert_eq!(waits.body["state"], "Pending", "it was opened after the look");
    let again = keyed(&api, "k1", &body).await;
    assert_eq!(
        (again.status, &again.body),
        (200, &done.body),
        "none of them matches any more, and all was answered"
    );
}

#[tokio::test]
async fn what_is_meant_is_said_once_and_whole() {
    let api = Api::new().await;
    let all = api.many(2).await;
    let listed = api.get("rita", "/api/grey-queue").await;
    let (one, as_of) = (items(&all[..1]), &listed.body["as_of"]);
    for (body, named) in [
        (json!({"command": "dismiss", "reason": "x"}), "items"),
        (json!({"command": "dismiss", "reason": "x", "items": []}), "items"),
        (json!({"command": "dismiss", "reason": "x", "items": [one[0], one[0]]}), "twice"),
        (json!({"command": "dismiss", "reason": "x", "items": one, "filter": {}}), "items"),
        (json!({"command": "dismiss", "reason": "x", "items": one, "expected": 1}), "items"),
        (json!({"command": "dismiss", "reason": "x", "filter": {}, "as_of": as_of}), "expected"),
        (json!({"command": "dismiss", "reason": "x", "filter": {}, "expected": 2}), "as_of"),
        (json!({"command": "dismiss", "reason": "x", "filter": {}, "as_of": as_of, "expected": 201}), "200"),
        (
            json!({"command": "dismiss", "reason": "x", "filter": {"limit": 1}, "as_of": as_of, "expected": 2}),
            "limit",
        ),
        (
            json!({"command": "dismiss", "reason": "x", "filter": {"form": "\u{0}"}, "as_of": as_of, "expected": 2}),
            "form",
        ),
        (
            json!({"command": "dismiss", "reason": "x", "filter": {}, "as_of": "-009999-01-01T00:00:00Z", "expected": 2}),
            "as_of",
        ),
        (
            json!({"command": "dismiss", "reason": "x", "filter": {}, "as_of": "yesterday", "expected": 2}),
            "as_of",
        ),
        (json!({"command": "dismiss", "remedy": "replay", "reason": "x", "items": one}), "remedy"),
        (json!({"command": "delete", "reason": "x", "items": one}), "delete"),
        (json!({"reason": "x", "items": one}), "command"),
        (json!({"command": "dismiss", "reason": "x", "items": [[all[0].id, 1]]}), "object"),
        (
            json!({"command": "dismiss", "reason": "x", "items": [{"id": all[0].id, "version": 1, "x": 1}]}),
            "x",
        ),
    ] {
        let refused = api.post("rita", BULK, body.clone()).await;
        assert_eq!(refused.refused(), (400, "bad_request"), "{body}");
        assert!(refused.body["detail"].as_str().expect("text").contains(named), "{named}: {refused:?}");
    }
    assert_eq!(api.bench.count("router.grey_queue WHERE closed_at IS NOT NULL").await, 0);
    let unsaid = api.post("rita", BULK, json!({"command": "dismiss", "items": one})).await;
    assert_eq!(unsaid.body["skipped"][0]["type"], "urn:maple-router:problem:guard");
}

#[tokio::test]
async fn a_bulk_with_a_key_is_carried_out_once_whoever_sends_it_at_the_same_moment() {
    let api = Api::new().await;
    let all = api.many(30).await;
    let body = dismiss(&all);
    let (one, two) = tokio::join!(keyed(&api, "k1", &body), keyed(&api, "k1", &body));
    assert_eq!(counts(&one), (200, 30, 30, 0), "{one:?}");
    assert_eq!(one.body["changed"], two.body["changed"]);
    for seen in &all {
        assert_eq!(api.chain(seen.id).await, ["open", "dismiss"]);
    }
    assert_eq!(keyed(&api, "k1", &body).await.body, one.body);
    let other = keyed(&api, "k1", &dismiss(&all[..3])).await;
    assert_eq!(other.refused(), (422, "idempotency_mismatch"));
}

/// As after a death in the middle: the selection is kept, some entries are changed, and there is no answer yet.
#[tokio::test]
async fn a_bulk_that_was_begun_goes_on_with_what_was_selected() {
    let api = Api::new().await;
    let all = api.many(4).await;
    let listed = api.get("rita", "/api/grey-queue").await;
    let body = json!({"command": "dismiss", "reason": "spam", "filter": {"state": ["Pending"]}, "as_of": listed.body["as_of"],
                      "expected": 4});
    // The third is locked, and waits; the desk's connections end meanwhile.
    let mut other = api.bench.db.superuser().await.expect("superuser");
    let tx = other.transaction().await.expect("a transaction");
    tx.execute("SELECT 1 FROM router.grey_queue WHERE id = $1 FOR UPDATE", &[&all[2].id])
        .await
        .expect("locked");
    let cut = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        while api.bench.eyes.query_one(waits, &[]).await.expect("activity").get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        api.bench.db.disconnect("forms_app").await.expect("cut");
    };
    let (died, ()) = tokio::join!(keyed(&api, "k1", &body), cut);
    assert_eq!(died.refused(), (503, "database_away"));
    tx.rollback().await.expect("released");
    assert_eq!(api.chain(all[1].id).await, ["open", "dismiss"]);
    assert_eq!(api.chain(all[2].id).await, ["open"]);
    let other = keyed(&api, "k1", &dismiss(&all)).await;
    assert_eq!(other.refused(), (422, "idempotency_mismatch"), "the key is taken from the first moment");
    let done = keyed(&api, "k1", &body).await;
    assert_eq!(counts(&done), (200, 4, 4, 0), "{done:?}");
    for seen in &all {
        assert_eq!(api.chain(seen.id).await, ["open", "dismiss"]);
    }
    assert_eq!(keyed(&api, "k1", &body).await.body, done.body);
}
