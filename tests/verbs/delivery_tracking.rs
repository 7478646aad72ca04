//! Delivery tracking, as `explain`, `list`, `status` and `replay` show it.

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::Stage;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{
    action, binary, fits_a_screen, json_of, ledger, run, run_with, seed, shown, stage, status,
};

const FOLLOWED: &str = "[relay_log]\nenabled = true\nfile = \"/var/log/mail.log\"\n";

fn forms() -> [Form; 2] {
    [Form::new("contact").mail_to("a@example.org, b@example.org, c@example.org"), Form::new("press")]
}

/// A time so many seconds ago, as the database writes it.
async fn ago(stage: &Stage, seconds: i32) -> Value {
    let client = stage.database.superuser().await.expect("superuser");
    let sql = "SELECT to_jsonb(clock_timestamp() - make_interval(secs => $1::int4))";
    client.query_one(sql, &[&seconds]).await.expect("a time").get(0)
}

fn accepted(at: &Value, relay: Value) -> Value {
    let mut entry = json!({"state": "accepted", "at": at, "nonce": "n", "queue_id": "4XYZ", "message_id": "<m@x>",
        "smtp": {"code": 250, "enhanced": "2.0.0", "reply": "Ok: queued as 4XYZ"}});
    if !relay.is_null() {
        entry["relay"] = relay;
    }
    entry
}

fn relay_entry(status: &str, at: &Value, dsn: &str, text: &str) -> Value {
    json!({"status": status, "at": at, "generation": 0, "queue_id": "4XYZ", "dsn": dsn, "by": "maple-1",
           "relay": "mx.example.org[192.0.2.1]:25", "text": text})
}

fn routed(deliveries: &Value) -> Value {
    json!({"v": 1, "attempts": 1, "deliveries": deliveries,
           "plan": [action(1, "a@example.org, b@example.org, c@example.org")]})
}

async fn seeded(stage: &Stage, status: &str, ledger: Value) -> Uuid {
    seed(stage, SubmissionSeed::of("contact").status(status).ledger(ledger)).await.id
}

/// Writes the state that the follower of this host keeps.
fn follows_since(stage: &Stage, since: &Value) {
    let config = stage.config("special", 0, FOLLOWED);
    let dir = config.lines().find_map(|line| line.strip_prefix("dir = \"")).expect("a state directory");
    let dir = std::path::Path::new(dir.trim_end_matches('"'));
    std::fs::create_dir_all(dir).expect("a directory");
    let kept = json!({"v": 1, "since": since, "position": "opaque"});
    std::fs::write(dir.join("relay_log.json"), kept.to_string()).expect("written");
}

#[tokio::test]
async fn explain_shows_what_the_relay_did_and_how_to_send_again() {
    let stage = stage(&forms()).await;
    // Ages of a width that a busy machine does not change.
    let (now, hour) = (ago(&stage, 900).await, ago(&stage, 3660).await);
    let mut deferred = relay_entry(
        "deferred",
        &now,
        "4.4.1",
        "connect to mx.example.org[192.0.2.1]:25: Connection timed out",
    );
    deferred["since"] = hour.clone();
    let refusal = "host mx.example.org[192.0.2.1] said: 550 5.1.1 <b@example.org>:\u{1b}[31m unknown user";
    let id = seeded(
        &stage,
        "routed",
        routed(&json!({
            "1|a@example.org": accepted(&hour, relay_entry("delivered", &now, "2.0.0", "250 2.0.0 Ok")),
            "1|b@example.org": accepted(&hour, relay_entry("bounced", &now, "5.1.1", refusal)),
            "1|c@example.org": accepted(&hour, deferred),
        })),
    )
    .await;
    let explanation = json_of(&stage, &["explain", &id.to_string(), "--json"]).await;
    let relay = |n: usize, key: &str| explanation["deliveries"][n]["relay"][key].clone();
    assert_eq!(
        [relay(0, "status"), relay(1, "status"), relay(2, "status")],
        ["delivered", "bounced", "deferred"]
    );
    assert_eq!((relay(1, "dsn"), relay(1, "queue_id")), (json!("5.1.1"), json!("4XYZ")));
    assert_eq!(relay(0, "host"), "mx.example.org[192.0.2.1]:25");
    assert!(relay(2, "since").is_string() && relay(1, "since").is_null(), "{explanation:#}");
    let text = relay(1, "text");
    assert!(
        text.as_str()
            .is_some_and(|text| text.contains("<address>: unknown user") || text.contains("unknown user"))
    );
    assert!(!text.as_str().unwrap_or_default().contains('@'), "scrubbed: {text}");
    let why = explanation["why"].as_str().expect("why");
    for part in
        ["1 mail lost, refused further on: 5.1.1", "1 mail in the relay's queue since", "1 mail delivered"]
    {
        assert!(why.contains(part), "{part} in {why}");
    }
    assert!(
        explanation["next"]["what"]
            .as_str()
            .expect("what")
            .contains("the alert of the lost mail is sent until")
    );
    let page = run(&stage, &["explain", &id.to_string()]).await.out;
    fits_a_screen(&page);
    assert!(!page.contains('\u{1b}'), "{page:?}");
    shown("delivery_tracking", &page);
    // The command runs as pasted.
    let command = page.lines().find(|line| line.contains("--force-delivery")).expect("a command").trim();
    let config = stage.write_config("pasted", &stage.config("pasted", 0, "")).expect("written");
    let answer = stage.shell(binary(), &config, &[], command).await.expect("the shell ends");
    assert_eq!(answer.code, Some(0), "{command}: {answer:?}");
    let stored = ledger(&stage, id).await;
    let entry = &stored["deliveries"]["1|b@example.org"];
    assert_eq!((&entry["state"], entry.get("relay")), (&json!("open"), None), "{entry:#}");
    assert_eq!(entry["history"][0]["relay"]["status"], "bounced", "what was is history: {entry:#}");
    for other in ["1|a@example.org", "1|c@example.org"] {
        assert!(
            stored["deliveries"][other]["relay"].is_object(),
            "another recipient has its mail: {stored:#}"
        );
    }
    let explanation = json_of(&stage, &["explain", &id.to_string(), "--json"]).await;
    assert_eq!(explanation["deliveries"][1]["relay"], json!(null));
}

#[tokio::test]
async fn no_report_yet_is_said_where_the_log_is_followed_and_was_then() {
    let stage = stage(&forms()).await;
    let (old, now) = (ago(&stage, 7200).await, ago(&stage, 10).await);
    let old_one =
        seeded(&stage, "routed", routed(&json!({"1|a@example.org": accepted(&old, json!(null))}))).await;
    let new_one =
        seeded(&stage, "routed", routed(&json!({"1|a@example.org": accepted(&now, json!(null))}))).await;
    let relay =
        |answer: devkit::stage::Answer| answer.json().expect("JSON")["deliveries"][0]["relay"].clone();
    let explain = async |extra: &str, id: Uuid| {
        relay(run_with(&stage, extra, &["explain", &id.to_string(), "--json"]).await)
    };
    assert_eq!(explain("", new_one).await, json!(null), "nobody listens");
    assert_eq!(explain(FOLLOWED, new_one).await, json!(null), "nobody has listened yet");
    follows_since(&stage, &ago(&stage, 3600).await);
    assert_eq!(explain(FOLLOWED, new_one).await["status"], "unheard");
    assert_eq!(explain(FOLLOWED, old_one).await, json!(null), "before its time");
    let page = run_with(&stage, FOLLOWED, &["explain", &new_one.to_string()]).await.out;
    assert!(page.contains("nothing reported of it after the relay yet"), "{page}");
}

#[tokio::test]
async fn list_finds_lost_mails_and_replay_takes_the_same_filter() {
    let stage = stage(&forms()).await;
    let now = ago(&stage, 1).await;
    let lost = |status: &str| {
        routed(&json!({"1|a@example.org": accepted(&now, relay_entry(status, &now, "5.1.1", "no")),
                      "1|b@example.org": accepted(&now, relay_entry("delivered", &now, "2.0.0", "Ok"))}))
    };
    let bounced = seeded(&stage, "routed", lost("bounced")).await.to_string();
    let expired = seeded(&stage, "failed", lost("expired")).await.to_string();
    let mut former = lost("bounced");
    former["generations"] = json!({"1": 1});
    for key in ["1|a@example.org", "1|b@example.org"] {
        former["deliveries"][key]["generation"] = json!(1);
    }
    for other in [
        lost("deferred"),
        lost("delivered"),
        former,
        json!([]),
        json!({"deliveries": 3}),
        json!({"deliveries": {"1|a@x": {"state": "accepted", "relay": 7}}, "generations": "x"}),
    ] {
        seeded(&stage, "routed", other).await;
    }
    let ids = |listed: &Value| -> Vec<String> {
        listed
            .as_array()
            .expect("lines")
            .iter()
            .map(|line| line["id"].as_str().expect("id").to_owned())
            .collect()
    };
    let listed = json_of(&stage, &["list", "--bounced", "--json"]).await;
    assert_eq!(ids(&listed), [bounced.clone(), expired.clone()]);
    assert_eq!(listed[0]["relay"], json!({"bounced": 1, "delivered": 1}));
    let listed =
        json_of(&stage, &["list", "--bounced", "--status", "routed", "--form", "contact", "--json"]).await;
    assert_eq!(ids(&listed), std::slice::from_ref(&bounced));
    assert_eq!(json_of(&stage, &["list", "--bounced", "--form", "press", "--json"]).await, json!([]));
    let text = run(&stage, &["list", "--bounced"]).await.out;
    assert!(text.contains("2 accepted (1 bounced)") && text.contains("(1 expired)"), "{text}");
    // Without saying what, a routed one stays as it is, and says what to say.
    let refused =
        run(&stage, &["replay", "--bounced", "--status", "routed", "--reason", "mended", "--yes"]).await;
    assert!(refused.code == Some(1) && refused.out.contains("--force-action N"), "{refused:?}");
    let replay = ["replay", "--bounced", "--force-action", "1", "--reason", "mended", "--yes", "--json"];
    let done = run(&stage, &replay).await.json().expect("JSON");
    assert_eq!(
        (&done["matched"], done["changed"].as_array().map(Vec::len)),
        (&json!(2), Some(2)),
        "{done:#}"
    );
    assert_eq!(
        json_of(&stage, &["list", "--bounced", "--json"]).await,
        json!([]),
        "another mail is on its way"
    );
}

#[tokio::test]
async fn status_counts_what_was_accepted_and_not_delivered() {
    let stage = stage(&forms()).await;
    let (day, hour, now) = (ago(&stage, 86_400).await, ago(&stage, 3600).await, ago(&stage, 1).await);
    let (minute, ancient) = (ago(&stage, 60).await, ago(&stage, 8 * 86_400).await);
    let delivered = relay_entry("delivered", &now, "2.0.0", "Ok");
    let mut former = relay_entry("bounced", &now, "5.1.1", "no");
    former["generation"] = json!(1);
    seeded(
        &stage,
        "routed",
        routed(&json!({
            "1|a@example.org": accepted(&minute, json!(null)),
            "1|b@example.org": accepted(&hour, relay_entry("deferred", &now, "4.4.1", "later")),
            "1|c@example.org": accepted(&hour, delivered.clone()),
            "2|a@example.org": accepted(&hour, relay_entry("bounced", &now, "5.1.1", "no")),
            "2|b@example.org": accepted(&minute, former),
            "2|c@example.org": accepted(&json!("yesterday"), json!(null)),
            "3|": {"state": "not_implemented"}, "4|a@example.org": {"state": "open", "at": minute},
        })),
    )
    .await;
    seeded(&stage, "received", routed(&json!({"1|a@example.org": accepted(&day, json!(null))}))).await;
    seeded(&stage, "routed", routed(&json!({"1|a@example.org": accepted(&ancient, json!(null))}))).await;
    for damaged in [json!([]), json!({"deliveries": 3}), json!({"deliveries": {"1|a@x": 3}})] {
        seeded(&stage, "routed", damaged).await;
    }
    let null = json!({"accepted_undelivered": null, "oldest_seconds": null});
    assert_eq!(status(&stage).await["relay"], null);
    let status = async |arguments: &[&str]| run_with(&stage, FOLLOWED, arguments).await;
    let report = status(&["status", "--json"]).await.json().expect("JSON");
    assert_eq!(report["relay"]["accepted_undelivered"], json!(null));
    assert!(status(&["status"]).await.out.contains("not known: no daemon of this host has followed it yet"));
    follows_since(&stage, &ago(&stage, 7200).await);
    let report = status(&["status", "--json"]).await.json().expect("JSON")["relay"].clone();
    assert_eq!(
        report["accepted_undelivered"], 3,
        "no report, deferred, a report of its former mail only: {report:#}"
    );
    let oldest = report["oldest_seconds"].as_i64().expect("seconds");
    assert!((3600..3700).contains(&oldest), "{report:#}");
    let text = status(&["status"]).await.out;
    assert!(text.contains("undelivered    3 (accepted 60m ago)"), "{text}");
    follows_since(&stage, &ancient);
    let report = status(&["status", "--json"]).await.json().expect("JSON")["relay"].clone();
    assert_eq!(report["accepted_undelivered"], 4, "a week at most: {report:#}");
}
