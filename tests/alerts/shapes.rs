//! Failures pending notification, whatever a document looks like; and what of them is written.

use devkit::forms::SubmissionSeed;
use maple_router::ports::Unalerted;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::*;

fn finished(token: &Value) -> Value {
    json!({"token": token, "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": "refused"})
}

#[tokio::test]
async fn what_waits_for_its_alert_is_what_status_counts() {
    let mut bench = Bench::new().await;
    bench.config.routing.not_before = Some("2026-11-02T00:00:00Z".parse().expect("a time"));
    let with = |alert: Value| json!({"v": 1, "finished": finished(&json!("f")), "alert": alert});
    let confirmed = |token: Value| json!({"for": token, "confirmed_at": "2026-11-01T10:00:00Z"});
    let (before, after) = ("2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z");
    // Name, status, ledger, attachment, created, whether it waits.
    type Shape = (&'static str, &'static str, Value, Option<&'static str>, &'static str, bool);
    let cases: Vec<Shape> = vec![
        ("never notified", "failed", with(json!(null)), None, after, true),
        ("ended before not_before, but by us", "failed", with(json!(null)), None, before, true),
        ("notified", "failed", with(confirmed(json!("f"))), None, after, false),
        ("notified, before a replay", "failed", with(confirmed(json!("older"))), None, after, true),
        ("confirmed for nobody", "failed", with(json!({"confirmed_at": "x"})), None, after, true),
        ("leased only", "failed", with(json!({"for": "f"})), None, after, true),
        ("an end without a token", "failed", json!({"finished": {}}), None, after, true),
        (
            "an end without a token, notified",
            "failed",
            json!({"finished": {}, "alert": confirmed(json!(null))}),
            None,
            after,
            false,
        ),
        ("an end of another shape", "failed", json!({"finished": "yes"}), None, after, true),
        ("an end that is null", "failed", json!({"finished": null}), None, after, true),
        ("by somebody else", "failed", json!({}), None, after, false),
        ("by somebody else, clean", "failed", json!({}), Some("clean"), after, false),
        ("by the scan worker", "failed", json!({}), Some("infected"), after, true),
        ("by the scan worker, history", "failed", json!({}), Some("infected"), before, false),
        (
            "by the scan worker, notified",
            "failed",
            json!({"alert": confirmed(json!(null))}),
            Some("infected"),
            after,
            false,
        ),
        ("by the scan worker, damaged", "failed", json!([1]), Some("infected"), after, true),
        ("an array that names it", "failed", json!(["finished"]), None, after, false),
        ("a string", "failed", json!("finished"), None, after, false),
        ("received", "received", with(json!(null)), Some("infected"), after, false),
        ("processing", "processing", with(json!(null)), None, after, false),
        ("routed", "routed", with(json!(null)), None, after, false),
        ("purged", "purged", with(json!(null)), None, after, false),
    ];
    let mut ids = Vec::new();
    for (name, status, ledger, attachment, created, waits) in &cases {
        let mut seed = SubmissionSeed::of("contact").status(status).ledger(ledger.clone());
        seed = seed.created_at(created.parse().expect("a time"));
        if let Some(scan) = attachment {
            seed = seed.attachment("a", scan);
        }
        ids.push((name, seed.insert(&bench.backend).await.expect("a row").id, *waits));
    }
    let expected = i64::try_from(ids.iter().filter(|(.., waits)| *waits).count()).expect("few");
    assert_eq!(bench.unalerted().await, expected);
    let store = bench.store();
    let mut leased = Vec::new();
    for Unalerted { cause, .. } in store.unalerted().await.expect("causes") {
        let token = Uuid::from_u128(u128::try_from(leased.len()).expect("few") + 1);
        let rows = store.lease(&cause, token, &[]).await.expect("leased").rows;
        leased.extend(rows.iter().copied());
        assert_eq!(store.confirm(token, &rows).await.expect("confirmed").recorded, rows.len(), "{cause}");
    }
    for (name, id, waits) in ids {
        assert_eq!(leased.contains(&id), waits, "{name}");
    }
    assert_eq!(bench.unalerted().await, 0, "a confirmation counts, whatever it was written into");
}

#[tokio::test]
async fn a_cause_is_made_of_closed_words_only() {
    let bench = Bench::new().await;
    let with =
        |reason: &str, error: Value| ended(reason, &json!({"1|a@x": {"state": "failed", "error": error}}));
    let error = |stage: Value, code: Value, enhanced: Value| json!({"class": "refused", "stage": stage, "code": code, "enhanced": enhanced, "reply": "bob@x.test"});
    let said = |stage: &str, code: i64, enhanced: &str| error(json!(stage), json!(code), json!(enhanced));
    let cases = [
        (with("refused", said("RCPT", 550, "5.1.1")), "refused|RCPT|550|5.1.1"),
        (with("exhausted", said("connect", 421, "4.4.2")), "exhausted|connect|421|4.4.2"),
        (with("in_doubt", error(json!("dot"), json!(null), json!(null))), "in_doubt|dot||"),
        (with("no_actions", said("RCPT", 550, "5.1.1")), "no_actions"),
        (with("ledger_damaged", json!({})), "ledger_damaged"),
        (with("bob@x.test", json!({})), "unknown"),
        (
            with("refused", error(json!("bob@x.test"), json!("550 bob@x.test"), json!("5.1.1 bob@x.test"))),
            "refused|||",
        ),
        (with("refused", error(json!({"a": 1}), json!([1]), json!(5))), "refused|||"),
        (with("refused", error(json!("DATA"), json!(1e300), json!("9.1.1"))), "refused|DATA||"),
        (with("refused", json!("no object")), "refused"),
        (ended("refused", &json!([{"state": "failed", "error": {}}])), "refused"),
        (ended("refused", &json!({"1|a@x": 7, "1|b@x": {"state": [], "error": {}}})), "refused"),
        // Failed deliveries come before open ones, then the first.
        (
            ended(
                "exhausted",
                &json!({"1|a@x": {"state": "open", "error": said("RCPT", 451, "4.1.1")},
                        "1|b@x": {"state": "accepted", "error": said("RCPT", 452, "4.1.1")},
                        "1|c@x": {"state": "failed", "error": said("RCPT", 453, "4.1.1")},
                        "1|d@x": {"state": "failed", "error": said("RCPT", 454, "4.1.1")}}),
            ),
            "exhausted|RCPT|453|4.1.1",
        ),
    ];
    for (ledger, expected) in cases {
        bench.failed(ledger.clone()).await;
        let causes = bench.store().unalerted().await.expect("causes");
        assert_eq!(causes, [Unalerted { cause: expected.to_owned(), count: 1 }], "{ledger}");
        let sender = bench.sender(bench.failures());
        assert_eq!(sender.pass().await, Ok(1), "{ledger}");
    }
    let text = bench.posted().join("\n");
    assert!(!text.contains('@') && !text.contains("bob"), "{text}");
}

/// PostgreSQL before 17 subtracts nothing from them.
#[tokio::test]
async fn a_failure_that_was_changed_at_no_instant_is_reported() {
    for time in ["infinity", "-infinity"] {
        let bench = Bench::new().await;
        bench.failed(refused(550)).await;
        bench.tamper(&format!("updated_at = '{time}'")).await;
        assert_eq!(bench.sender(bench.failures()).pass().await, Ok(1), "{time}");
        assert_eq!((bench.counts(), bench.unalerted().await), (vec![1], 0), "{time}");
    }
}

#[tokio::test]
async fn a_damaged_document_is_reported_once_and_kept_whole() {
    let bench = Bench::new().await;
    let damaged = [
        json!([1, 2]),
        json!("x"),
        json!(null),
        json!(7),
        json!(true),
        json!([]),
        json!({"alert": 3, "deliveries": 4}),
        json!({"alert": ["confirmed_at"], "theirs": {"a": null}}),
        json!({"alert": {"leased_until": "zzzz", "confirmed_at": null, "note": 1}}),
        json!({"alert": {"leased_until": 99_999, "for": {"a": 1}}}),
        json!({"alert": {"leased_until": "9999-01-01T00:00:00.000000Z"}}),
        json!({"finished": {"token": {"a": 1}, "reason": ["refused"]}, "alert": {"for": "x"}}),
        json!({"finished": [], "v": 99, "deliveries": {"1|a": 1e99}}),
        json!({"v": 1, "finished": {"token": "f", "reason": null}, "plan": "gone"}),
    ];
    let mut rows = Vec::new();
    for document in damaged {
        let seed = SubmissionSeed::of("contact").status("failed").ledger(document.clone());
        let id = seed.attachment("a", "infected").insert(&bench.backend).await.expect("a row").id;
        rows.push((id, document, bench.row(id).await));
    }
    let waiting = i64::try_from(rows.len()).expect("few");
    assert_eq!(bench.unalerted().await, waiting);
    let sender = bench.sender(bench.failures());
    assert!(sender.pass().await.expect("sent") >= 2);
    assert_eq!(bench.unalerted().await, 0);
    assert_eq!(sender.pass().await, Ok(0), "notified once");
    for (id, document, before) in rows {
        let row = bench.row(id).await;
        assert_eq!((&row.status, &row.updated_at), (&before.status, &before.updated_at), "{document}");
        let kept = match document.as_object() {
            Some(map) => map
                .iter()
                .filter(|(key, _)| *key != "alert")
                .all(|(key, value)| row.ledger.get(key) == Some(value)),
            None => row.ledger.get("damaged") == Some(&document),
        };
        assert!(kept, "{document} became {}", row.ledger);
        if document["alert"]["note"] == 1 {
            assert_eq!(row.ledger["alert"]["note"], 1, "a key of somebody else survives");
        }
    }
}
