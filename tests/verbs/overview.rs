//! `status` and `list`: the whole at a glance, and one line for each submission.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use serde_json::{Value, json};

use crate::harness::{action, json_of, run, run_beside, run_with, seed, stage, status};

const HOUR: Duration = Duration::from_secs(3600);

fn forms() -> [Form; 2] {
    [Form::new("contact").mail_to("a@example.org"), Form::new("press").mail_to("p@example.org")]
}

fn failed(reason: &str, alert: &Value) -> Value {
    json!({"v": 1, "attempts": 1, "alert": alert,
           "finished": {"token": "f", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": reason}})
}

#[tokio::test]
async fn status_names_every_status_even_of_an_empty_database() {
    let stage = stage(&forms()).await;
    let report = status(&stage).await;
    let none = json!({"received": 0, "processing": 0, "routed": 0, "failed": 0, "purged": 0});
    assert_eq!((&report["counts"], &report["oldest_seconds"]), (&none, &none), "{report:#}");
    assert_eq!(
        report,
        json!({"counts": none, "oldest_seconds": none, "attempts": {}, "in_doubt": 0, "unalerted": 0,
               "not_implemented_only": 0, "paused": [], "breaker": [], "daemon_reachable": true, "daemon": {"state": "working"},
               "dead_letters": {"unreadable": 0, "unknown_submission": 0, "notification": 0, "exhausted": 0},
               "relay": {"accepted_undelivered": null, "oldest_seconds": null}, "outbox": null})
    );
    let text = run_beside(&stage, &["status"]).await.out;
    assert!(text.contains("nothing in doubt") && !text.contains("dead letter"), "{text}");
}

#[tokio::test]
async fn status_of_a_host_without_a_daemon_is_found_wanting_and_counts_all_the_same() {
    let stage = stage(&forms()).await;
    seed(&stage, SubmissionSeed::of("contact")).await;
    let answer = run(&stage, &["status", "--json"]).await;
    let report = answer.json().expect("JSON");
    assert_eq!((answer.code, &report["daemon"]["state"]), (Some(1), &json!("silent")), "{answer:?}");
    assert_eq!((&report["daemon_reachable"], &report["counts"]["received"]), (&json!(false), &json!(1)));
    let text = run(&stage, &["status"]).await;
    assert!(text.code == Some(1) && text.out.contains("✗ no daemon answers on this host"), "{text:?}");
}

/// With Pub/Sub as the source, and without schema `router`: a record is seen in either store.
#[tokio::test]
async fn status_counts_open_dead_letters_whatever_the_source_is() {
    let stage = stage(&forms()).await;
    let exhausted = failed("exhausted", &json!(null));
    let spent = seed(&stage, SubmissionSeed::of("contact").status("failed").ledger(exhausted)).await.id;
    let record = json!({"record": {"id": "0190f5b0-7a4c-7c3e-9a51-2f6d1f0a9b11", "kind": "unreadable", "at": "2026-11-01T10:00:00Z",
        "submission_id": null, "reason": "not_json", "payload_sha256": "", "message_id": "m1", "attributes": {}}});
    let state = stage.dir().join("special");
    std::fs::create_dir_all(&state).expect("a state directory");
    std::fs::write(state.join("dead_letters.jsonl"), format!("{record}\n")).expect("a record");
    let report = status(&stage).await;
    assert_eq!(
        report["dead_letters"],
        json!({"unreadable": 1, "unknown_submission": 0, "notification": 0, "exhausted": 1}),
        "{report:#}"
    );
    let text = run_beside(&stage, &["status"]).await.out;
    assert!(
        text.contains("! 2 open dead letters: 1 exhausted, 1 unreadable (maple-router dlq list)"),
        "{text}"
    );

    let owner = stage.database.owner_url();
    let migrated = run(&stage, &["migrate", "--router", "--owner-url", &owner]).await;
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    let sql = "INSERT INTO router.dead_letters (id, kind, at, reason, message_id, payload, payload_sha256)
        VALUES (gen_random_uuid(), 'unknown_submission', now(), 'gone', 'm-2', '\\x7b', encode(sha256('\\x7b'), 'hex'))";
    stage.database.superuser().await.expect("superuser").execute(sql, &[]).await.expect("a record");
    let closed = run(&stage, &["dlq", "discard", &spent.to_string(), "--reason", "why"]).await;
    assert_eq!(closed.code, Some(0), "{closed:?}");
    let report = status(&stage).await;
    assert_eq!(
        report["dead_letters"],
        json!({"unreadable": 1, "unknown_submission": 1, "notification": 0, "exhausted": 0}),
        "{report:#}"
    );
}

/// PostgreSQL before 17 subtracts nothing from them.
#[tokio::test]
async fn status_counts_what_has_no_instant() {
    let stage = stage(&forms()).await;
    let client = stage.database.superuser().await.expect("superuser");
    for time in ["infinity", "-infinity"] {
        for status in ["received", "failed"] {
            let id = seed(&stage, SubmissionSeed::of("contact").status(status)).await.id;
            let sql =
                format!("UPDATE submissions SET created_at = '{time}', updated_at = '{time}' WHERE id = $1");
            client.execute(&sql, &[&id]).await.expect("changed");
        }
    }
    let report = status(&stage).await;
    for status in ["received", "failed"] {
        assert_eq!(
            (&report["counts"][status], &report["oldest_seconds"][status]),
            (&json!(2), &json!(0)),
            "{report:#}"
        );
    }
}

#[tokio::test]
async fn status_counts_what_is_wrong_and_no_ledger_stops_it() {
    let stage = stage(&forms()).await;
    let intent =
        |token: &str| json!({"state": "open", "begun": {"token": token, "at": "2026-11-01T10:00:00Z"}});
    let open =
        |attempts: Value, deliveries: Value| json!({"v": 1, "attempts": attempts, "deliveries": deliveries});
    let claim = json!({"token": "t", "worker": "w", "at": "2026-11-01T10:00:00Z", "deadline": "2026-11-01T10:20:00Z"});
    let mut live = open(
        json!(1),
        json!({"1|a@x": intent("t"), "1|b@x": intent("old"), "1|c@x": {"state": "accepted", "doubt": true}}),
    );
    live["claim"] = claim;
    let mut left_behind = open(json!(2), json!({"1|a@x": intent("gone")}));
    left_behind["claim"] = json!({"token": "gone", "worker": "w", "at": "2026-11-01T10:00:00Z", "deadline": "2026-11-01T10:20:00Z"});
    let not_implemented = json!({"v": 1, "plan": [], "deliveries": {"1|": {"state": "not_implemented"}}});
    let mixed =
        json!({"v": 1, "deliveries": {"1|": {"state": "not_implemented"}, "2|a@x": {"state": "accepted"}}});
    let confirmed = |finish: &str| json!({"for": finish, "confirmed_at": "2026-11-01T10:00:00Z"});
    let rows = [
        ("received", json!({}), 0),
        ("received", open(json!(2), json!({"1|a@x": {"state": "open", "doubt": true}})), 0),
        ("received", left_behind, 0),
        ("processing", live, 0),
        ("failed", failed("refused", &json!(null)), 0),
        ("failed", failed("refused", &confirmed("f")), 0),
        ("failed", failed("refused", &confirmed("before the replay")), 0),
        ("failed", json!({}), 0),
        ("routed", not_implemented, 1),
        ("routed", mixed, 1),
        ("routed", json!({"deliveries": 3}), 1),
    ];
    let damaged = [
        json!([]),
        json!("x"),
        json!(null),
        json!(7),
        json!({"attempts": "many", "deliveries": []}),
        json!({"attempts": [1], "deliveries": {"1|a@x": 3, "1|b@x": {"state": 4, "begun": 5}}, "claim": "mine"}),
        json!({"attempts": 1e30, "deliveries": {"1|a@x": {"state": "open", "begun": "yes"}}}),
    ];
    for (status, ledger, deferred) in rows {
        let id = seed(&stage, SubmissionSeed::of("contact").status(status).ledger(ledger)).await.id;
        if deferred == 1 {
            let sql = "UPDATE submissions SET happyfox_status = 'deferred' WHERE id = $1";
            stage.database.superuser().await.expect("superuser").execute(sql, &[&id]).await.expect("set");
        }
    }
    for ledger in damaged {
        for status in ["received", "processing", "routed", "failed"] {
            seed(&stage, SubmissionSeed::of("press").status(status).age(2 * HOUR).ledger(ledger.clone()))
                .await;
        }
    }
    seed(&stage, SubmissionSeed::of("contact").status("failed").attachment("x", "infected")).await;
    let report = status(&stage).await;
    assert_eq!(
        report["counts"],
        json!({"received": 10, "processing": 8, "routed": 10, "failed": 12, "purged": 0}),
        "{report:#}"
    );
    assert_eq!(
        report["in_doubt"], 3,
        "recorded, begun by a claim that is gone, begun by an older one: {report:#}"
    );
    assert_eq!(
        report["unalerted"], 3,
        "none at all, one for an earlier end, one by the scan worker: {report:#}"
    );
    assert_eq!(report["not_implemented_only"], 1, "{report:#}");
    assert_eq!(
        report["attempts"],
        json!({"0": 1, "1": 1, "2": 2}),
        "what cannot be read is not counted: {report:#}"
    );
    let oldest = report["oldest_seconds"]["received"].as_i64().expect("seconds");
    assert!((7200..7300).contains(&oldest), "{report:#}");
    let text = run_beside(&stage, &["status"]).await.out;
    assert!(text.contains("! 3 deliveries in doubt") && text.contains("received"), "{text}");
    let before = "[routing]\nnot_before = 2999-01-01T00:00:00Z\n";
    let report = run_with(&stage, before, &["status", "--json"]).await.json().expect("JSON");
    assert_eq!(
        report["unalerted"], 2,
        "what the scan worker failed before not_before is history: {report:#}"
    );
}

fn ids(listed: &Value) -> Vec<String> {
    let listed = listed.as_array().expect("an array");
    listed.iter().map(|line| line["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn list_shows_what_is_asked_for_oldest_first() {
    let stage = stage(&forms()).await;
    let plan = json!([action(1, "a@example.org")]);
    let routed = json!({"v": 1, "attempts": 1, "plan": plan,
        "deliveries": {"1|a@example.org": {"state": "accepted"}, "1|b@example.org": {"state": "accepted"}, "2|": {"state": "not_implemented"}}});
    let mut seeded = Vec::new();
    for (form, status, age, ledger) in [
        ("contact", "received", 1, json!({})),
        ("contact", "failed", 5, failed("refused", &json!(null))),
        ("press", "failed", 3, failed("exhausted", &json!(null))),
        ("press", "routed", 4, routed),
        ("press", "received", 2, json!({"v": 1, "attempts": "many"})),
    ] {
        let row = SubmissionSeed::of(form).status(status).age(age * HOUR).ledger(ledger);
        seeded.push(seed(&stage, row).await.id.to_string());
    }
    let infected = SubmissionSeed::of("contact").status("failed").attachment("x", "infected");
    seeded.push(seed(&stage, infected).await.id.to_string());
    let [fresh, refused, exhausted, routed, damaged, infected] =
        [0, 1, 2, 3, 4, 5].map(|n| seeded[n].clone());
    let cases: Vec<(Vec<&str>, Vec<&String>)> = vec![
        (vec![], vec![&refused, &routed, &exhausted, &damaged, &fresh, &infected]),
        (vec!["--status", "failed"], vec![&refused, &exhausted, &infected]),
        (vec!["--status", "failed,routed", "--form", "press"], vec![&routed, &exhausted]),
        (vec!["--reason-code", "refused"], vec![&refused]),
        (vec!["--reason-code", "infected"], vec![&infected]),
        (vec!["--older-than", "150m"], vec![&refused, &routed, &exhausted]),
        (vec!["--since", "150m"], vec![&damaged, &fresh, &infected]),
        (vec!["--since", "2999-01-01T00:00:00Z"], vec![]),
        (vec!["--limit", "2"], vec![&refused, &routed]),
        (vec!["--form", "nobody"], vec![]),
    ];
    for (filters, expected) in cases {
        let listed = json_of(&stage, &[&["list", "--json"], filters.as_slice()].concat()).await;
        assert_eq!(ids(&listed).iter().collect::<Vec<_>>(), expected, "{filters:?}");
    }
    let listed = json_of(&stage, &["list", "--json"]).await;
    let line = |id: &String| {
        listed.as_array().expect("lines").iter().find(|line| line["id"] == **id).expect("listed").clone()
    };
    assert_eq!(line(&routed)["deliveries"], json!({"accepted": 2, "not_implemented": 1}));
    assert_eq!((line(&routed)["attempts"].clone(), line(&routed)["reason"].clone()), (json!(1), json!(null)));
    assert_eq!(line(&damaged)["reason"], "ledger unreadable");
    assert_eq!(line(&infected)["reason"], "infected", "failed by the scan worker");
    let keys: Vec<&String> = line(&fresh)
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect::<Vec<_>>()
        .leak()
        .iter()
        .collect();
    assert_eq!(keys, ["attempts", "deliveries", "form_id", "id", "reason", "relay", "status", "updated_at"]);

    let cut = run(&stage, &["list", "--limit", "2"]).await;
    assert!(cut.err.contains("only the first 2 are shown"), "{cut:?}");
    assert!(!run(&stage, &["list", "--limit", "6"]).await.err.contains("only the first"));
    let text = run(&stage, &["list"]).await.out;
    assert!(text.lines().count() == 7 && text.contains("ledger unreadable"), "{text}");
    assert!(text.starts_with("id   "), "a header: {text}");

    let newest = json_of(&stage, &["list", "--json", "--newest", "--limit", "2"]).await;
    assert_eq!(ids(&newest).iter().collect::<Vec<_>>(), [&infected, &fresh]);
    for (recipient, expected) in
        [("A@example.ORG", vec![&routed]), ("a@example.com", vec![]), ("example.org@x", vec![])]
    {
        let answer = run(&stage, &["list", "--json", "--recipient", recipient]).await;
        assert_eq!(ids(&answer.json().expect("JSON")).iter().collect::<Vec<_>>(), expected, "{recipient}");
        assert!(!format!("{answer:?}").to_lowercase().contains("a@example"), "never shown: {answer:?}");
    }
    let message_id = format!("<maple.{}.1.0@greenpeace.org>", routed.replace('-', ""));
    let listed = json_of(&stage, &["list", "--json", "--message-id", &message_id]).await;
    assert_eq!(ids(&listed), [routed.as_str()]);
    assert_eq!(run(&stage, &["list", "--message-id", "<x@y>"]).await.code, Some(2));
    assert!(run(&stage, &["list", "--since", "2999-01-01"]).await.out.contains("no submission matches"));
    assert_eq!(ids(&json_of(&stage, &["list", "--json", "--since", "2020-01-01"]).await).len(), 6);

    let counts = json_of(&stage, &["list", "--json", "--group-by", "form"]).await;
    assert_eq!(counts, json!([{"form": "contact", "count": 3}, {"form": "press", "count": 3}]));
    let counts = json_of(&stage, &["list", "--json", "--group-by", "reason", "--status", "failed"]).await;
    let one = |reason: &str| json!({"reason": reason, "count": 1});
    assert_eq!(counts, json!([one("exhausted"), one("infected"), one("refused")]));
    let days = json_of(&stage, &["list", "--json", "--group-by", "day"]).await;
    let all: i64 = days.as_array().expect("days").iter().filter_map(|day| day["count"].as_i64()).sum();
    assert!(all == 6 && days[0]["day"].as_str().is_some_and(|day| day.len() == 10), "{days}");
    let text = run(&stage, &["list", "--group-by", "status"]).await.out;
    assert!(text.starts_with("status    count\nfailed        3\nreceived      2\n"), "{text}");
    assert_eq!(run(&stage, &["list", "--group-by", "day", "--limit", "2"]).await.code, Some(2));

    let csv = run(&stage, &["list", "--csv", "--status", "routed"]).await.out;
    let [head, line] = csv.lines().collect::<Vec<_>>()[..] else { panic!("{csv}") };
    assert!(head.starts_with("id,form_id,status,attempts,reason,updated_at,accepted,open,"), "{csv}");
    assert!(
        line.starts_with(&format!("{routed},press,routed,1,,")) && line.ends_with(",2,0,0,1,0,0,0,0"),
        "{csv}"
    );
    assert_eq!(run(&stage, &["list", "--reason-code", "refussed"]).await.code, Some(2));
}
