//! Each row of the table of refusals, asked for over HTTP; whatever is refused leaves nothing.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::bench::{Answered, Api, Seen};
use crate::harness::{HOST, ORIGIN};

/// The commands, each with a content that its state would not refuse for what is said.
fn every_command() -> Vec<(&'static str, Value)> {
    let why = || json!({"reason": "so"});
    vec![
        ("assign", json!({})),
        ("unassign", json!({})),
        ("escalate", json!({"escalation_reason": "odd"})),
        ("de-escalate", json!({})),
        ("resolve", json!({"vouch": true, "reason": "so"})),
        ("reject", why()),
        ("dismiss", why()),
        ("reopen", why()),
        ("reset", why()),
        ("start", json!({"remedy": "replay", "reason": "so"})),
    ]
}

#[tokio::test]
async fn a_viewer_reads_and_decides_nothing() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let before = api.trace(seen.id).await;
    for (command, body) in every_command() {
        let refused = api.give("vera", seen, command, body).await;
        assert_eq!(refused.refused(), (403, "role"), "{command}");
        assert_eq!(refused.body["needed"], "reviewer");
    }
    let bulk = json!({"command": "dismiss", "reason": "so", "items": [{"id": seen.id, "version": 1}]});
    assert_eq!(api.post("vera", "/api/grey-queue/bulk", bulk).await.refused(), (403, "role"));
    assert_eq!(api.trace(seen.id).await, before);
    for path in ["", "/summary", "/openapi.json"] {
        let base = if path == "/openapi.json" { "/api" } else { "/api/grey-queue" };
        assert_eq!(api.get("vera", &format!("{base}{path}")).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn stale_versions_write_nothing_whoever_names_them() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let (now, _) = api.done("rita", seen, "assign", json!({})).await;
    let before = api.trace(seen.id).await;
    for (command, mut body) in every_command() {
        for version in [seen.version, now.version + 1, 0, -1, i64::MAX, i64::MIN] {
            body["version"] = json!(version);
            let stale = api.post("ada", &seen.path(&format!("/{command}")), body.clone()).await;
            assert_eq!(stale.refused(), (409, "version_conflict"), "{command} {version}");
            assert_eq!((&stale.body["state"], &stale.body["version"]), (&json!("UnderReview"), &json!(2)));
            assert_eq!(stale.body["by"], "reviewer:rita");
        }
        if let Some(members) = body.as_object_mut() {
            members.remove("version");
        }
        for tag in ["\"1\"", "\"3\"", "W/\"2\"", "\"x\"", "\"02\""] {
            let request = api.ask("ada", Method::POST, &seen.path(&format!("/{command}")));
            let stale = Answered::of(request.header("if-match", tag).json(&body)).await;
            assert_eq!(stale.refused(), (412, "precondition_failed"), "{command} {tag}");
            assert_eq!(stale.body["version"], 2);
        }
        let unsaid = api.post("ada", &seen.path(&format!("/{command}")), body).await;
        assert_eq!(unsaid.refused(), (428, "precondition_required"), "{command}");
    }
    assert_eq!(api.trace(seen.id).await, before);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_by_name() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let before = api.trace(seen.id).await;
    let assign = || api.ask("rita", Method::POST, &seen.path("/assign"));
    let json = |text: &str| assign().header("content-type", "application/json").body(text.to_owned());
    for (request, status, named) in [
        (json("{"), 400, "EOF"),
        (json("[null, null, null, 1]"), 400, "object"),
        (json("\"text\""), 400, "object"),
        (json("{\"version\": 1, \"colour\": 1}"), 400, "colour"),
        (json("{\"version\": 1, \"remedy\": \"replay\"}"), 400, "remedy"),
        (json("{\"version\": 1, \"version\": 1}"), 400, "version"),
        (json("{\"version\": \"1\"}"), 400, "version"),
        (json("{\"version\": 1.5}"), 400, "version"),
        (json("{\"version\": 1e400}"), 400, "version"),
        (json("{\"version\": 1, \"reason\": \"\\ud800\"}"), 400, "reason"),
        (json("{\"version\": 2}").header("if-match", "\"1\""), 400, "differ"),
        (json("{\"version\": 1}").header("if-match", "*"), 400, "If-Match"),
        (json("{\"version\": 1}").header("if-match", "1"), 400, "if-match"),
        (json("{\"version\": 1}").header("idempotency-key", "a b"), 400, "Idempotency-Key"),
        (assign().form(&[("version", "1")]), 415, "application/json"),
        (assign().header("content-type", "text/plain").body("{\"version\": 1}"), 415, ""),
        (
            json(&format!("{{\"reason\": \"{}\"}}", "x".repeat(70_000))).header("connection", "close"),
            413,
            "64 KiB",
        ),
    ] {
        let refused = Answered::of(request).await;
        assert_eq!(refused.status, status, "{named}: {refused:?}");
        assert!(refused.body.to_string().contains(named), "{named}: {refused:?}");
    }
    for path in ["?colour=red", "?state=Pending&limit=0", "/summary?state=Pending", "/bulk?x=1"] {
        let method = if path.starts_with("/bulk") { Method::POST } else { Method::GET };
        let refused = Answered::of(api.ask("rita", method, &format!("/api/grey-queue{path}"))).await;
        assert_eq!(refused.refused(), (400, "bad_request"), "{path}");
    }
    assert_eq!(api.trace(seen.id).await, before);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let api = Api::new().await;
    let nobody = Seen { id: Uuid::nil(), version: 1 };
    for (command, body) in every_command() {
        assert_eq!(api.give("ada", nobody, command, body).await.refused(), (404, "not_found"), "{command}");
    }
    for id in
        ["00000000-0000-0000-0000-000000000000", "x", "%FF", "%00", "1%27%20OR%201=1", "..%2f..", "\u{e4}"]
    {
        for rest in ["", "/history", "/transitions"] {
            let unknown = api.get("vera", &format!("/api/grey-queue/{id}{rest}")).await;
            assert_eq!(unknown.refused(), (404, "not_found"), "{id}{rest}");
        }
    }
    assert_eq!(api.get("vera", "/api/grey-queue/a/b/c").await.refused(), (404, "not_found"));
    let put = Answered::of(api.ask("ada", Method::PUT, "/api/grey-queue")).await;
    assert_eq!(
        (put.refused(), put.headers["allow"].to_str().ok()),
        ((405, "method_not_allowed"), Some("GET,HEAD"))
    );
    assert_eq!(api.get("vera", "/api/grey-queue/bulk").await.refused(), (405, "method_not_allowed"));
}

#[tokio::test]
async fn each_state_refuses_what_it_does_not_have_and_tells_what_it_has() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let before = api.trace(seen.id).await;
    for command in ["unassign", "escalate", "de-escalate", "reject", "reopen", "reset"] {
        let body = json!({"reason": "so"});
        let body = if command == "escalate" { json!({"escalation_reason": "so"}) } else { body };
        let refused = api.give("ada", seen, command, body).await;
        assert_eq!(refused.refused(), (409, "not_possible"), "{command}");
        assert_eq!(refused.body["legal"], json!(["assign", "resolve", "start", "dismiss"]));
    }
    for (command, body, field) in [
        ("dismiss", json!({}), "reason"),
        ("dismiss", json!({"reason": " \n "}), "reason"),
        ("dismiss", json!({"reason": "x".repeat(2001)}), "reason"),
        ("start", json!({"reason": "so"}), "remedy"),
        ("start", json!({"reason": "so", "remedy": "redrive"}), "remedy"),
        ("start", json!({"reason": "so", "remedy": "prayer"}), "remedy"),
        ("start", json!({"reason": "so", "remedy": "force_delivery"}), "delivery"),
        ("start", json!({"reason": "so", "remedy": "force_delivery", "delivery": "a\u{0}"}), "delivery"),
        ("resolve", json!({"reason": "so", "remedy": "replay", "vouch": true}), "vouch"),
        ("assign", json!({"assignee": "nobody"}), "assignee"),
        ("assign", json!({"assignee": "vera"}), "assignee"),
        ("assign", json!({"assignee": "rita\u{0}"}), "assignee"),
    ] {
        let refused = api.give("ada", seen, command, body.clone()).await;
        assert_eq!(
            (refused.refused(), &refused.body["field"]),
            ((422, "guard"), &json!(field)),
            "{command} {body}"
        );
    }
    let others = api.give("rita", seen, "assign", json!({"assignee": "ben"})).await;
    assert_eq!(others.refused(), (403, "role"), "others are assigned by an admin");
    assert_eq!(api.trace(seen.id).await, before);

    let reviewed = api.reviewed("rita").await;
    let not_yours = api.give("ben", reviewed, "reject", json!({"reason": "so"})).await;
    assert_eq!(not_yours.refused(), (403, "role"));
    assert!(not_yours.body["detail"].as_str().expect("text").contains("rita"));
    let early = api.give("ben", reviewed, "assign", json!({"take_over": true})).await;
    assert_eq!(early.refused(), (403, "role"), "it is not long enough ago");
}

#[tokio::test]
async fn whoever_asks_is_known_and_asks_from_the_desk_itself() {
    let api = Api::new().await;
    let seen = api.pending().await;
    let before = api.trace(seen.id).await;
    let bare = |host: &str| api.desk.bare(Method::POST, &seen.path("/assign")).header("host", host);
    let content = json!({"version": 1});
    let nobody = Answered::of(bare(HOST).header("sec-fetch-site", "same-origin").json(&content)).await;
    assert_eq!(nobody.refused(), (401, "unauthenticated"));
    let stranger = Answered::of(bare(HOST).bearer_auth("mrt_nothing").json(&content)).await;
    assert_eq!(stranger.status / 100, 4, "{stranger:?}");
    let other = Answered::of(bare("evil.example").bearer_auth(api.token("rita")).json(&content)).await;
    assert_eq!(other.refused(), (421, "host"));
    let cookie = api.desk.log_in(&api.bench, "rita").await;
    let cross = bare(HOST).header("cookie", &cookie).header("origin", "http://evil.example");
    assert_eq!(Answered::of(cross.json(&content)).await.refused(), (403, "csrf"));
    assert_eq!(api.trace(seen.id).await, before);
    let own = bare(HOST).header("cookie", &cookie).header("origin", ORIGIN);
    assert_eq!(Answered::of(own.json(&content)).await.status, 200, "a page's script may");
}

#[tokio::test]
async fn whoever_asks_too_often_is_told_when_to_come_again() {
    let few = std::num::NonZeroU32::new(3).expect("three");
    let api = Api::with(|bench| bench.bounds.per_user = (few, std::time::Duration::from_secs(60))).await;
    for _ in 0..3 {
        assert_eq!(api.get("vera", "/api/grey-queue").await.status, 200);
    }
    let limited = api.get("vera", "/api/grey-queue").await;
    assert_eq!(limited.refused(), (429, "rate_limited"));
    assert!(limited.headers["retry-after"].to_str().expect("text").parse::<u64>().expect("seconds") > 0);
    assert_eq!(api.get("rita", "/api/grey-queue").await.status, 200, "others are not");
}

/// Whatever is said comes back as a document, and never as a fault of the desk.
#[tokio::test]
async fn hostile_texts_are_texts() {
    let api = Api::new().await;
    let long = "\u{1f98a}".repeat(1_000);
    let hostile = [
        "<script>alert(1)</script>",
        "'; DROP TABLE router.grey_queue; --",
        "\u{0}\u{1}\u{7f}\u{202e}\u{feff}",
        "{{7*7}} ${7*7} %s %n",
        "\r\nSet-Cookie: a=b",
        "bob@example.org",
        &long,
        "\"\\",
        "../../etc/passwd",
        "-1e999",
    ];
    for text in hostile {
        for (command, mut body) in every_command() {
            let seen = api.reviewed("ada").await;
            for member in ["reason", "escalation_reason", "assignee", "remedy", "delivery"] {
                let own = body.get(member).is_some()
                    || matches!((command, member), ("assign" | "de-escalate", "assignee" | "reason"))
                    || matches!((command, member), ("resolve" | "start", "remedy" | "delivery"));
                if own {
                    body[member] = json!(text);
                }
            }
            let answer = api.give("ada", seen, command, body).await;
            assert!(answer.status < 500, "{command} {text:?}: {answer:?}");
            assert!(answer.headers.get("set-cookie").is_none());
        }
        // A head of many kilobytes is refused before anything reads it.
        let text: String = text.chars().take(100).collect();
        let encoded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        for name in [
            "state",
            "cause",
            "reason",
            "form",
            "queue",
            "assignee",
            "subject",
            "older_than",
            "order",
            "cursor",
            "limit",
            &text,
        ] {
            let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
            let answer = api.get("rita", &format!("/api/grey-queue?{name}={encoded}")).await;
            assert!(answer.status < 500, "{name} {text:?}: {answer:?}");
        }
        let key = api.ask("ada", Method::POST, "/api/grey-queue/bulk").header("idempotency-key", "k").json(
            &json!({"command": "assign", "assignee": text, "reason": text, "items": [{"id": Uuid::nil(), "version": 1}]}),
        );
        assert!(Answered::of(key).await.status < 500, "{text:?}");
    }
}
