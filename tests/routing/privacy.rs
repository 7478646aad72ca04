//! What must never be told: recipients, field values, signed URLs, secrets, payloads. Not in the journal, however
//! talkative it is set, and not in the metrics.

use devkit::forms::{Action, Form, SubmissionSeed, Template};
use devkit::google::Mishap;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{StageOptions, TOPIC};
use serde_json::{Value, json};

use crate::harness::{Scene, lines};

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

#[tokio::test]
async fn a_journal_at_its_most_talkative_and_the_metrics_hold_nothing_private() {
    let extra = "[log]\nlevel = \"debug\"\n[mail]\nbody = \"template\"\nallowed_destination_domains = [\"xqhost.test\"]";
    let scene = Scene::with(StageOptions::default(), &forms(), extra).await;
    let relay = &scene.stage.relay;
    // A relay that repeats what it was told, in every tone.
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
    // The test tests something: the relay has the private words, and every kind of line was written.
    let told = lines(&scene.router);
    let events = [
        "action_accepted",
        "action_refused",
        "action_deferred",
        "action_unknown",
        "poison",
        "failed",
        "routed",
    ];
    for event in events {
        assert!(
            told.iter().any(|line| line["event"] == event),
            "{event} did not happen\n{}",
            scene.router.log()
        );
    }
    assert!(told.iter().any(|line| line.to_string().contains("<address>")), "scrubbed, not left out");
    assert!(scene.stage.relay.mails().iter().any(|mail| {
        String::from_utf8_lossy(&mail.raw).contains("X-Goog-Signature") && !mail.recipients.is_empty()
    }));
    let (_, metrics) = scene.router.get("/metrics").await.expect("metrics");
    let (_, ready) = scene.router.get("/-/ready").await.expect("ready");
    let Scene { mut router, stage, .. } = scene;
    assert!(router.stop().await.expect("stops").success());
    let webhook = stage.slack.webhook_url();
    let secret = webhook.rsplit('/').next().expect("a path");
    for (what, text) in [("journal", router.log()), ("metrics", metrics), ("readiness", ready)] {
        for word in PRIVATE.into_iter().chain([secret]) {
            let line = text.lines().find(|line| line.contains(word));
            assert!(line.is_none(), "{word} in the {what}: {line:?}");
        }
        for line in text.lines() {
            assert!(!without_our_own(line).contains('@'), "an address in the {what}: {line}");
        }
    }
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
