//! `render`: the very mail that is sent afterwards, and nothing written or sent by looking at it.

use std::time::Duration;

use devkit::forms::{Action, Form, SubmissionSeed};
use devkit::stage::BUCKET;
use serde_json::{Value, json};

use crate::harness::{action, binary, json_of, ledger, run, run_config, run_with, seed, stage};

/// The lines of a mail that do not depend on the instant at which it was made.
fn lasting(eml: &str) -> Vec<String> {
    // A link that is too long for one line is put together again.
    let whole = eml.replace("=\r\n", "");
    whole
        .lines()
        .filter(|line| {
            !["Date:", "Content-Type: multipart", " boundary=", "--=_"].iter().any(|p| line.starts_with(p))
        })
        .filter(|line| !line.contains("X-Goog-") && !line.contains("The link works until"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn what_is_rendered_is_what_is_sent() {
    let stage =
        stage(&[Form::new("contact").mail_to("Zoë <a@example.org>, b@example.org").mail_to("c@example.org")])
            .await;
    let row =
        SubmissionSeed::of("contact").bucket(BUCKET).field("subject", "hello").attachment("a.pdf", "clean");
    let id = seed(&stage, row).await.id;
    let before = ledger(&stage, id).await;
    let answer = run(&stage, &["render", &id.to_string(), "--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let rendered = answer.json().expect("JSON");
    assert!(answer.err.contains("override") && answer.err.contains("working links"), "{answer:?}");
    assert_eq!(
        (ledger(&stage, id).await, stage.relay.mails().len()),
        (before, 0),
        "nothing written, nothing sent"
    );
    assert_eq!(rendered[0]["recipients"], json!(["a@example.org", "b@example.org"]));

    let one = json_of(&stage, &["render", &id.to_string(), "--action", "2", "--json"]).await;
    assert_eq!((one.as_array().map(Vec::len), &one[0]["action_order"]), (Some(1), &json!(2)), "{one:#}");
    let missing = run(&stage, &["render", &id.to_string(), "--action", "7"]).await;
    assert!(missing.code == Some(1) && missing.err.contains("no action 7; it has 1, 2"), "{missing:?}");

    let mut router = stage.router(binary(), "one", "").await.expect("a router");
    router.ready().await.expect("ready");
    stage.publish(id, "finalized").expect("published");
    let mut mails = stage.relay.await_mails(2, Duration::from_secs(20)).await.expect("both mails");
    mails.sort_by_key(|mail| mail.recipients.clone());
    for (mail, rendered) in mails.iter().zip(rendered.as_array().expect("mails")) {
        let sent = String::from_utf8(mail.raw.clone()).expect("ASCII");
        let eml = rendered["eml"].as_str().expect("eml");
        assert_eq!(lasting(&sent), lasting(eml));
        assert!(eml.contains("\r\n") && eml.contains("X-Goog-Signature"), "{eml}");
        let message_id = rendered["message_id"].as_str().map(|id| id.trim_matches(['<', '>']));
        assert_eq!(message_id, mail.message_id.as_deref());
    }
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
    let after = run(&stage, &["render", &id.to_string()]).await;
    assert!(after.code == Some(0) && after.err.contains("nothing of it is open"), "{after:?}");
    assert!(after.out.contains("==== action 2 to c@example.org"), "{after:?}");
}

#[tokio::test]
async fn only_what_is_open_is_addressed_and_a_pinned_plan_wins() {
    let stage = stage(&[Form::new("contact").mail_to("new@example.org")]).await;
    let pinned = json!({"v": 1, "attempts": 1, "plan": [action(1, "a@example.org, b@example.org, nonsense")],
        "deliveries": {"1|a@example.org": {"state": "accepted"}, "1|b@example.org": {"state": "open"},
                       "1|!1": {"state": "failed"}}});
    let id = seed(&stage, SubmissionSeed::of("contact").ledger(pinned).attachment("x", "pending")).await.id;
    let answer = run(&stage, &["render", &id.to_string(), "--json"]).await;
    let report = answer.json().expect("JSON");
    assert_eq!(report[0]["recipients"], json!(["b@example.org"]), "{report:#}");
    assert!(answer.err.contains("1 of 1 attachments not clean"), "{answer:?}");
    assert!(!report[0]["eml"].as_str().expect("eml").contains("X-Goog"), "no link to what is not clean");
    let narrow = stage
        .config("special", 0, "")
        .replace("[mail]", "[mail]\nallowed_destination_domains = [\"example.net\"]");
    let answer = run_config(&stage, &narrow, &["render", &id.to_string(), "--json"]).await;
    assert_eq!(answer.json().expect("JSON")[0]["recipients"], json!([]), "{answer:?}");
}

#[tokio::test]
async fn what_cannot_be_rendered_names_action_and_template() {
    let mut broken = Form::new("broken");
    broken.templates = vec![devkit::forms::Template {
        id: "welcome".to_owned(),
        subject: "Hi {{ fields.name | nofilter }}".to_owned(),
        body_text: "x".to_owned(),
        body_html: String::new(),
    }];
    broken.actions = vec![Action {
        kind: "email_template".to_owned(),
        template: Some("welcome".to_owned()),
        destination: "a@example.org".to_owned(),
        subject: None,
        category: None,
    }];
    let mut ticket = Form::new("ticket");
    ticket.actions = vec![Action {
        kind: "happyfox_template".to_owned(),
        template: None,
        destination: String::new(),
        subject: None,
        category: Some("IT".to_owned()),
    }];
    let stage = stage(&[broken, ticket]).await;
    let id = seed(&stage, SubmissionSeed::of("broken").field("name", "secret-value")).await.id.to_string();
    let body = stage.config("special", 0, "").replace("[mail]", "[mail]\nbody = \"template\"");
    let answer = run_config(&stage, &body, &["render", &id]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.err.contains("action 1") && answer.err.contains("welcome"), "{answer:?}");
    assert!(!answer.err.contains("secret-value"), "{answer:?}");

    let id = seed(&stage, SubmissionSeed::of("ticket")).await.id.to_string();
    let answer = run(&stage, &["render", &id, "--json"]).await;
    assert_eq!((answer.code, answer.json().expect("JSON")), (Some(0), json!([])));
    assert!(answer.err.contains("no action that is carried out by mail"), "{answer:?}");
    let asked = run(&stage, &["render", &id, "--action", "1"]).await;
    assert!(asked.code == Some(1) && asked.err.contains("not carried out by mail"), "{asked:?}");

    for (status, ledger) in [("received", json!([])), ("received", json!({"v": 9})), ("purged", json!({}))] {
        let id = seed(&stage, SubmissionSeed::of("ticket").status(status).ledger(ledger)).await.id;
        let answer = run(&stage, &["render", &id.to_string()]).await;
        assert_eq!((answer.code, answer.out.as_str()), (Some(1), ""), "{answer:?}");
    }
    let nobody = run_with(&stage, "", &["render", "0190f5b0-7a4c-7c3e-9a51-2f6d1f0a9b11"]).await;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
}

/// A submission is a sample of its form: a template that asks it for more than it has is refused, by name, and shown.
#[tokio::test]
async fn a_gap_refuses_the_render_and_is_shown_in_it() {
    let mut form = Form::new("contact");
    form.templates = vec![devkit::forms::Template {
        id: "t".to_owned(),
        subject: "From {{ fields.name }}".to_owned(),
        body_text: "Telephone: {{ fields.phone }}\nTown: {{ fields.town | default('none') }}\n".to_owned(),
        body_html: String::new(),
    }];
    form.actions = vec![Action {
        kind: "email_template".to_owned(),
        template: Some("t".to_owned()),
        destination: "a@example.org".to_owned(),
        subject: None,
        category: None,
    }];
    let stage = stage(&[form]).await;
    let config = stage.config("special", 0, "").replace("[mail]", "[mail]\nbody = \"template\"");
    let short = seed(&stage, SubmissionSeed::of("contact").field("name", "Ann")).await.id.to_string();
    let answer = run_config(&stage, &config, &["render", &short, "--json"]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let shown = answer.json().expect("JSON");
    assert_eq!(shown[0]["missing"], json!(["phone"]), "{shown:#}");
    let eml = shown[0]["eml"].as_str().expect("eml");
    assert!(eml.contains("\r\nTelephone: [missing: phone]\r\nTown: none\r\n"), "{eml}");
    assert!(answer.err.contains("action 1: its templates ask for what this submission does not have: phone"));
    let whole = SubmissionSeed::of("contact").field("name", "Ann").field("phone", "");
    let whole = seed(&stage, whole).await.id.to_string();
    let answer = run_config(&stage, &config, &["render", &whole]).await;
    assert!(answer.code == Some(0) && answer.out.contains("\nTelephone:"), "{answer:?}");
}

#[tokio::test]
async fn a_signer_that_is_down_is_a_dependency_that_is_down() {
    let mut stage = stage(&[Form::new("contact").mail_to("a@example.org")]).await;
    let id = seed(&stage, SubmissionSeed::of("contact").attachment("a", "clean")).await.id;
    stage.google.stop_iam().await;
    let answer = run(&stage, &["render", &id.to_string(), "--json"]).await;
    assert_eq!(answer.code, Some(69), "{answer:?}");
    assert!(answer.out.is_empty() && answer.err.contains("remedy:"), "{answer:?}");
    assert_eq!(ledger(&stage, id).await, Value::Object(serde_json::Map::new()));
}
