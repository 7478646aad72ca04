//! Contents that are never shown: recipients, field values, signed URLs, secrets, payloads. Not in the journal, however talkative
//! it is set, not in the metrics, not in Slack, not in the audit log; and the journal keeps to its fields.

use devkit::forms::{Action, Form, SubmissionSeed, Template};
use devkit::google::Mishap;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{StageOptions, TOPIC};
use serde_json::{Value, json};

use crate::harness::{Scene, binary, lines};

/// Words that occur only in what is private.
const PRIVATE: [&str; 9] = [
    "xqrecipient",
    "xqvalue",
    "xqkeyname",
    "xqfilename",
    "xqpayload",
    "X-Goog-Signature",
    "ya29.",
    "xqtemplate",
    "xqhost.test",
];

fn forms() -> Vec<Form> {
    let to = "xqrecipient1@xqhost.test, xqrecipient2@xqhost.test, \"xqrecipient, quoted\" <xqrecipient3@xqhost.test>";
    let mut broken = Form::new("broken");
    broken.templates.push(Template {
        id: "t".to_owned(),
        subject: "s".to_owned(),
        body_text: "xqtemplate {{ fields.xqkeyname }} {{ fields.xqkeyname.nothing.there }}".to_owned(),
        body_html: String::new(),
    });
    broken.actions.push(Action {
        kind: "email_template".to_owned(),
        template: Some("t".to_owned()),
        destination: to.to_owned(),
        subject: None,
        category: None,
    });
    vec![
        Form::new("plain").mail_to(to).mail_to(&format!("{to}, xqrecipient without a sign")),
        Form::new("bad").mail_to("xqrecipient4@@xqhost.test, xqrecipient5@evil.xqhost.test"),
        Form::new("lost").mail_to("xqrecipient7@xqhost.test"),
        Form::new("content").mail_to("xqrecipient8@xqhost.test"),
        broken,
    ]
}

fn seed(form: &str) -> SubmissionSeed {
    SubmissionSeed::of(form)
        .field("xqkeyname", "xqvalue with xqrecipient9@xqhost.test")
        .attachment("xqfilename.pdf", "clean")
}

/// Fields of the journal (interfaces, "Log fields"), and what this program adds to them.
const FIELDS: [&str; 44] = [
    "event",
    "submission_id",
    "form_id",
    "action_order",
    "action_type",
    "delivery",
    "attempt",
    "pubsub_message_id",
    "delivery_attempt",
    "outcome",
    "reason",
    "smtp_code",
    "enhanced_code",
    "postfix_queue_id",
    "rfc_message_id",
    "duration_ms",
    "next_attempt_at",
    // Added.
    "time",
    "level",
    "target",
    "message",
    "actor",
    "verb",
    "scope",
    "value",
    "until",
    "dependency",
    "open_seconds",
    "payload_sha256",
    "payload_len",
    "facts",
    "version",
    "changed",
    "needs_restart",
    "alert",
    "failures",
    "dead_letter",
    "links",
    "left_out",
    "force_action",
    "replan",
    "kind",
    "count",
    "round_trip_ms",
];

/// Fields an event cannot do without.
const NEEDED: [(&str, &[&str]); 14] = [
    ("received", &["submission_id", "pubsub_message_id"]),
    ("claimed", &["submission_id", "form_id", "attempt"]),
    ("dropped", &["submission_id", "reason"]),
    ("begun", &["submission_id", "form_id", "attempt", "action_order", "action_type", "rfc_message_id"]),
    ("action_accepted", &DELIVERED),
    ("action_refused", &SENT),
    ("action_deferred", &SENT),
    ("action_unknown", &SENT),
    ("routed", &["submission_id", "form_id", "attempt"]),
    ("failed", &["submission_id", "form_id", "reason"]),
    ("released", &["submission_id", "form_id", "attempt", "next_attempt_at"]),
    ("poison", &["pubsub_message_id", "reason", "payload_sha256", "payload_len"]),
    ("dead_letter", &["pubsub_message_id", "outcome", "payload_sha256"]),
    ("paused", &["scope", "actor", "reason"]),
];
const SENT: [&str; 9] = [
    "submission_id",
    "form_id",
    "attempt",
    "action_order",
    "action_type",
    "delivery",
    "outcome",
    "rfc_message_id",
    "duration_ms",
];
const DELIVERED: [&str; 11] = [
    "submission_id",
    "form_id",
    "attempt",
    "action_order",
    "action_type",
    "delivery",
    "outcome",
    "rfc_message_id",
    "duration_ms",
    "smtp_code",
    "postfix_queue_id",
];

fn fields_are_as_agreed(journal: &[Value]) {
    for line in journal {
        let fields = line.as_object().expect("an object");
        assert!(
            !line["message"].as_str().is_some_and(|text| text.contains(['\n', '\r'])),
            "two lines: {line}"
        );
        let Some(event) = line["event"].as_str() else { continue };
        for name in fields.keys() {
            assert!(FIELDS.contains(&name.as_str()), "{name} is no agreed field: {line}");
        }
        for (_, needed) in NEEDED.iter().filter(|(name, _)| *name == event) {
            for name in *needed {
                assert!(fields.get(*name).is_some_and(|value| !value.is_null()), "no {name}: {line}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_private_is_shown_anywhere() {
    let extra = "[log]\nlevel = \"trace\"\n[mail]\nbody = \"template\"\nallowed_destination_domains = [\"xqhost.test\"]\n\
                 [slack]\ngroup_wait = \"1s\"";
    let scene = Scene::with(StageOptions::default(), &forms(), extra).await;
    let relay = &scene.stage.relay;
    // A relay that repeats its input, in every tone.
    let at = |stage, who: &str, reply: &str| Rule::at(stage).to(who).reply(reply);
    relay.rule(
        at(At::Rcpt, "xqrecipient1@xqhost.test", "550 5.1.1 <xqrecipient1@xqhost.test>: unknown").times(2),
    );
    relay.rule(
        at(At::Rcpt, "xqrecipient2@xqhost.test", "451 4.2.0 xqrecipient2@xqhost.test is busy").times(1),
    );
    let content = "554 5.6.0 <\"xqrecipient8\"@xqhost.test>: not from xqrecipient9@xqhost.test";
    relay.rule(at(At::Dot, "xqrecipient8@xqhost.test", content));
    relay.rule(Rule::at(At::AfterDot).to("xqrecipient7@xqhost.test").disconnect().times(1));
    scene.stage.google.iam_script().next(3, Mishap::Status(403));
    let mut ids = Vec::new();
    for form in ["plain", "bad", "broken", "plain", "lost", "content"] {
        ids.push(scene.submit(&seed(form)).await.id);
    }
    let damaged = json!({"attempts": "xqvalue", "deliveries": {"1|xqrecipient1@xqhost.test": {"state": 7}}});
    ids.push(scene.submit(&seed("plain").ledger(damaged)).await.id);
    ids.push(scene.submit(&SubmissionSeed::of("plain").attachment("xqfilename.exe", "infected")).await.id);
    let attributes = [("type", "routing.ready"), ("v", "1")];
    scene
        .stage
        .broker
        .publish(TOPIC, b"{\"submission_id\": \"xqpayload\"}".to_vec(), attributes)
        .expect("published");
    let hinted =
        json!({"submission_id": uuid::Uuid::from_u128(7), "form_id": "xqpayload", "reason": "xqpayload"});
    scene.stage.broker.publish(TOPIC, hinted.to_string().into_bytes(), attributes).expect("published");
    for id in &ids {
        scene.ended(*id).await;
    }
    scene.dead_letters(2).await;
    let verbs = what_operators_do(&scene, &ids).await;
    // The test tests something: the relay has the private words, and every kind of line was written.
    for event in EXPECTED {
        scene.await_line(event, |line| line["event"] == event).await;
    }
    let journal = lines(&scene.router);
    assert!(journal.iter().any(|line| line.to_string().contains("<address>")), "scrubbed, not left out");
    assert!(scene.stage.relay.mails().iter().any(|mail| {
        String::from_utf8_lossy(&mail.raw).contains("X-Goog-Signature") && !mail.recipients.is_empty()
    }));
    fields_are_as_agreed(&journal);
    let loud: Vec<&Value> = journal
        .iter()
        .filter(|line| !line["target"].as_str().is_some_and(|target| target.starts_with("maple_router")))
        .collect();
    assert!(loud.iter().all(|line| line["level"] == "warn" || line["level"] == "error"), "{loud:?}");
    let (_, metrics) = scene.router.get("/metrics").await.expect("metrics");
    let (_, ready) = scene.router.get("/-/ready").await.expect("ready");
    // The original of a damaged ledger is kept whole (protocol §2).
    let sql = "SELECT coalesce(string_agg((to_jsonb(a) #- '{detail,original}')::text, E'\\n'), '') FROM audit_log a";
    let audit: String = scene.eyes.query_one(sql, &[]).await.expect("audit").get(0);
    assert!(audit.contains("email_failed") && audit.contains("submission_routed"), "{audit}");
    let Scene { mut router, stage, .. } = scene;
    assert!(router.stop().await.expect("stops").success());
    let slack: Vec<String> =
        stage.slack.messages().iter().map(|message| message.payload.to_string()).collect();
    assert!(slack.len() > 2, "{slack:?}");
    let webhook = stage.slack.webhook_url();
    let secret = webhook.rsplit('/').next().expect("a path");
    let places = [
        ("journal", router.log()),
        ("metrics", metrics),
        ("readiness", ready),
        ("audit log", audit),
        ("Slack", slack.join("\n")),
        ("a verb's journal", verbs),
    ];
    for (what, text) in &places {
        // The audit log has the domain and a digest.
        let words = PRIVATE.into_iter().filter(|word| *what != "audit log" || *word != "xqhost.test");
        for word in words.chain([secret]) {
            let line = text.lines().find(|line| line.contains(word));
            assert!(line.is_none(), "{word} in the {what}: {line:?}");
        }
        for line in text.lines().filter(|_| !["audit log", "Slack"].contains(what)) {
            assert!(!without_our_own(line).contains('@'), "an address in the {what}: {line}");
        }
    }
}

const EXPECTED: [&str; 18] = [
    "started",
    "ready",
    "received",
    "claimed",
    "begun",
    "action_accepted",
    "action_refused",
    "action_deferred",
    "action_unknown",
    "in_doubt",
    "released",
    "routed",
    "failed",
    "poison",
    "dead_letter",
    "alert_sent",
    "paused",
    "resumed",
];

/// Every override there is, as an operator types it; returns what the verbs wrote beside their results.
async fn what_operators_do(scene: &Scene, ids: &[uuid::Uuid]) -> String {
    let mut said = String::new();
    let ask = async |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = scene.stage.ask(binary(), scene.router.config(), &words).await.expect("the verb runs");
        assert!(answer.code.is_some_and(|code| code <= 1), "{line}: {answer:?}");
        answer
    };
    // Recorded by the daemon, and notified.
    let records = async || ask("dlq list --json").await.json().expect("JSON");
    scene.until("records", async || records().await.as_array().is_some_and(|all| all.len() > 1)).await;
    let letter = records().await[0]["id"].as_str().expect("an id").to_owned();
    let infected = ids[ids.len() - 1];
    let attachment: uuid::Uuid = scene
        .eyes
        .query_one("SELECT id FROM attachments WHERE submission_id = $1", &[&infected])
        .await
        .expect("an attachment")
        .get(0);
    let claimed = json!({"v": 1, "attempts": 1, "claim": {"token": "t", "worker": "w", "at": "2026-11-01T10:00:00Z",
        "deadline": "2026-11-01T10:20:00Z"}});
    let stuck = seed("plain").status("processing").ledger(claimed);
    let stuck = stuck.insert(&scene.backend).await.expect("a row").id;
    for line in [
        "pause --form other --force --reason why".to_owned(),
        "resume --form other --reason why".to_owned(),
        format!("replay {} --reason why", ids[0]),
        format!("replay {} --force-action 1 --reason why", ids[3]),
        format!("replay {} --force-delivery 1|xqrecipient7@xqhost.test --reason why", ids[4]),
        format!("mark-attachment {attachment} --clean --reason why"),
        format!("links {}", ids[0]),
        format!("release {stuck} --reason why"),
        format!("dlq discard {letter} --reason why"),
        format!("explain {}", ids[1]),
        "status".to_owned(),
        "sweep --once".to_owned(),
    ] {
        said.push_str(&ask(&line).await.err);
        if line.starts_with("pause") {
            scene.await_line("pause", |line| line["event"] == "paused").await;
        }
    }
    said
}

/// A journal line without the one field that has an @ of right: the Message-ID, whose domain is ours.
fn without_our_own(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("rfc_message_id");
            Value::Object(fields).to_string()
        }
        Ok(_) | Err(_) => line.to_owned(),
    }
}
