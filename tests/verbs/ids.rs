//! The start of an id, wherever an id is taken; where several ids start so, none is guessed.

use devkit::forms::{Form, SubmissionSeed};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{explained, run, seed, stage};

fn id(text: &str) -> Uuid {
    text.parse().expect("an id")
}

#[tokio::test]
async fn the_beginning_of_an_id_is_enough_where_it_names_one_thing() {
    let stage = stage(&[Form::new("contact").mail_to("a@example.org")]).await;
    let ended = json!({"v": 1, "attempts": 5, "finished": {"token": "f", "at": "2026-11-01T10:00:00Z", "status": "failed",
                       "reason": "exhausted"}});
    for (id_text, status, ledger) in [
        ("6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11", "failed", ended.clone()),
        ("6f3e0f5c-1f0c-4f0e-9a63-0a3b2a9f8c11", "received", json!({})),
        ("6f3f0000-1f0b-4f0e-9a63-0a3b2a9f8c11", "failed", ended),
    ] {
        let row = SubmissionSeed::of("contact").id(id(id_text)).status(status).ledger(ledger);
        seed(&stage, row.attachment("a.pdf", if status == "received" { "pending" } else { "clean" })).await;
    }
    for line in [
        "explain 6f3e0f5c-1f0b",
        "explain 6F3E0F5C1F0B4",
        "render 6f3e0f5c-1f0b",
        "links 6f3e0f5c-1f0b",
        "replay 6f3e0f5c-1f0b --reason why --dry-run",
        "publish 6f3e0f5c-1f0b --dry-run",
        "dlq show 6f3e0f5c-1f0b",
        "dlq discard 6f3e0f5c-1f0b --reason why --dry-run",
    ] {
        let answer = run(&stage, &line.split(' ').collect::<Vec<_>>()).await;
        let expected =
            if line.starts_with("links") { "a.pdf" } else { "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11" };
        let seen = answer.out.contains(expected) || line.starts_with("render");
        assert!(answer.code == Some(0) && seen, "{line}: {answer:?}");
        let both = line.replace("6f3e0f5c-1f0b", "6f3e0f5c").replace("6F3E0F5C1F0B4", "6f3e0f5c");
        if both.starts_with("dlq") {
            continue;
        }
        let answer = run(&stage, &both.split(' ').collect::<Vec<_>>()).await;
        assert_eq!(answer.code, Some(2), "{both}: {answer:?}");
        for candidate in [
            "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11  failed contact",
            "6f3e0f5c-1f0c-4f0e-9a63-0a3b2a9f8c11  received contact",
        ] {
            assert!(answer.err.contains(candidate), "{both}: {answer:?}");
        }
        assert!(!answer.err.contains("6f3f0000"), "{both}: {answer:?}");
    }
    let answer = run(&stage, &["dlq", "show", "6f3"]).await;
    assert_eq!(answer.code, Some(2), "too short: {answer:?}");
    let answer = run(&stage, &["dlq", "show", "6f3e"]).await;
    assert_eq!(answer.code, Some(0), "one of the two is no dead letter: {answer:?}");
    let none = run(&stage, &["explain", "abcd"]).await;
    assert!(none.code == Some(1) && none.err.contains("no submission whose id begins with abcd"), "{none:?}");

    let waiting = explained(&stage, id("6f3e0f5c-1f0c-4f0e-9a63-0a3b2a9f8c11")).await;
    let attachment = waiting["readiness"]["attachments"][0]["id"].as_str().expect("an id").to_owned();
    let answer = run(&stage, &["mark-attachment", &attachment[..18], "--clean"]).await;
    assert!(
        answer.code == Some(0) && answer.out.contains(&format!("attachment {attachment} is marked clean")),
        "{answer:?}"
    );
}
