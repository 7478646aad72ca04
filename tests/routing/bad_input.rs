//! Bad input: each has one clear error that names the thing and the remedy, nothing else suffers, nothing is lost.

use devkit::forms::{Action, Form, SubmissionSeed, Template};
use devkit::stage::{StageOptions, TOPIC};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::harness::{Scene, lines, stage_of};

fn form() -> Form {
    Form::new("f").mail_to("a@x.test")
}

#[tokio::test]
async fn an_event_nobody_can_read_is_kept_as_it_came_and_logged_by_digest_only() {
    let scene = Scene::start(&[form()]).await;
    let big = format!("{{\"submission_id\":\"{}\",\"x\":\"{}\"}}", Uuid::nil(), "MARKER".repeat(12_000));
    let known = json!({"submission_id": Uuid::nil(), "x": "MARKER"}).to_string();
    let table: [(&str, &str, &str, &str); 8] = [
        ("MARKER, not JSON", "routing.ready", "1", "not_an_object"),
        ("[\"MARKER\"]", "routing.ready", "1", "not_an_object"),
        ("{\"x\":\"MARKER\"}", "routing.ready", "1", "no_submission_id"),
        ("{\"submission_id\":\"MARKER\"}", "routing.ready", "1", "no_submission_id"),
        ("{\"submission_id\":17,\"x\":\"MARKER\"}", "routing.ready", "1", "no_submission_id"),
        (&known, "routing.ready", "2", "unknown_version"),
        (&known, "routing.MARKER", "1", "unknown_type"),
        (&big, "routing.ready", "1", "too_large"),
    ];
    for (data, kind, version, _) in table {
        let attributes = [("type", kind), ("v", version)];
        scene.stage.broker.publish(TOPIC, data.as_bytes().to_vec(), attributes).expect("published");
    }
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed", "a healthy event among them");
    let mut letters = scene.dead_letters(table.len()).await;
    let mut payloads: Vec<Vec<u8>> = table.iter().map(|row| row.0.as_bytes().to_vec()).collect();
    letters.sort();
    payloads.sort();
    assert_eq!(letters, payloads, "byte by byte");
    for (data, kind, version, reason) in table {
        let sha256 = hex::encode(Sha256::digest(data.as_bytes()));
        let all = lines(&scene.router);
        let of_it = |line: &&Value| line["payload_sha256"] == sha256 && line["reason"] == reason;
        let poison: Vec<&Value> = all.iter().filter(of_it).filter(|line| line["event"] == "poison").collect();
        assert_eq!(poison.len(), 5, "{kind} {version} {reason}: once per delivery\n{}", scene.router.log());
        assert_eq!(poison[0]["payload_len"], data.len(), "{:?}", poison[0]);
        assert_eq!((&poison[0]["event"], &poison[0]["level"]), (&json!("poison"), &json!("warn")));
    }
    assert!(!scene.router.log().contains("MARKER"), "no word of a payload in the journal");
    scene.stop().await;
}

#[tokio::test]
async fn an_event_for_no_submission_becomes_a_dead_letter() {
    let scene = Scene::start(&[form()]).await;
    let unknown = Uuid::from_u128(0xdead);
    scene.publish(unknown);
    let letters = scene.dead_letters(1).await;
    assert!(String::from_utf8_lossy(&letters[0]).contains(&unknown.to_string()));
    let journal = scene.journal(unknown);
    let nacks: Vec<&Value> = journal.iter().filter(|line| line["event"] == "nacked").collect();
    assert_eq!(nacks.len(), 5, "{nacks:?}");
    assert_eq!(nacks[0]["reason"], "unknown_submission");
    assert!(nacks[0]["message"].to_string().contains("no such submission"), "{:?}", nacks[0]);
    scene.stop().await;
}

/// A form whose mail action uses `body` of a template `id`.
fn templated(id: &str, subject: &str, body: &str) -> Form {
    let mut form = Form::new(id);
    form.templates.push(Template {
        id: format!("t-{id}"),
        subject: subject.to_owned(),
        body_text: body.to_owned(),
        body_html: String::new(),
    });
    form.actions.push(Action {
        kind: "email_template".to_owned(),
        template: Some(format!("t-{id}")),
        destination: format!("a@{id}.test, b@{id}.test"),
        subject: None,
        category: None,
    });
    form.mail_to(&format!("after@{id}.test"))
}

#[tokio::test]
async fn a_template_that_cannot_be_rendered_fails_its_deliveries_and_names_itself() {
    let mut missing = templated("missing", "s", "b");
    missing.actions[0].template = None;
    let forms = [
        templated("broken-body", "s", "dear {{ name"),
        templated("broken-subject", "{% if %}", "b"),
        templated("endless", "s", "{% for x in range(100000000) %}x{% endfor %}"),
        templated("empty", "s", "  "),
        missing,
        templated("sound", "hello {{ fields.name }}", "dear {{ fields.name }}"),
    ];
    let scene = Scene::with(StageOptions::default(), &forms, "[mail]\nbody = \"template\"").await;
    for form in &forms {
        let id = scene.submit(&SubmissionSeed::of(&form.id).field("name", "VALUE")).await.id;
        let row = scene.ended(id).await;
        let context = format!("{}: {row:?}\n{:#?}", form.id, scene.journal(id));
        assert_eq!(row.entry(&format!("2|after@{}.test", form.id))["state"], "accepted", "{context}");
        if form.id == "sound" {
            assert_eq!(row.status, "routed", "{context}");
            continue;
        }
        assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("refused")), "{context}");
        for local in ["a", "b"] {
            let entry = row.entry(&format!("1|{local}@{}.test", form.id));
            assert_eq!(
                (&entry["state"], &entry["error"]["stage"]),
                (&json!("failed"), &json!("template")),
                "{context}"
            );
            let why = entry["error"]["reply"].as_str().unwrap_or_default();
            let named = if form.id == "missing" { "template" } else { &format!("t-{}", form.id) };
            assert!(why.contains(named), "names the template: {why}");
            assert!(!why.contains("VALUE"), "and no value: {why}");
        }
    }
    scene.stop().await;
}

#[tokio::test]
async fn damaged_ledgers_fail_alone_with_the_original_kept_and_a_newer_one_is_left_untouched() {
    let stage = stage_of(StageOptions::default(), &[form()]).await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let damaged: Vec<Value> = vec![
        json!([]),
        json!("text"),
        json!(null),
        json!(17),
        json!({"attempts": "many"}),
        json!({"attempts": -1}),
        json!({"attempts": 99_999_999_999_u64}),
        json!({"v": "one"}),
        json!({"v": 0}),
        json!({"v": 1.5}),
        json!({"v": 1, "next_attempt_at": "yesterday"}),
        json!({"v": 1, "deliveries": []}),
        json!({"v": 1, "deliveries": {"without an order": {}}}),
        json!({"v": 1, "deliveries": {"1|a@x.test": {"state": "lost"}}}),
        json!({"v": 1, "plan": [{"action_order": 1}]}),
        json!({"v": 1, "generations": {"one": 1}}),
    ];
    // JSON that PostgreSQL can store and a parser of ours may not read.
    let deep = format!("{{\"deep\": {}{}}}", "[".repeat(200), "]".repeat(200));
    let odd = ["{\"number\": 1e400}".to_owned(), deep];
    let first = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
    let mut bad = Vec::new();
    for ledger in &damaged {
        bad.push(SubmissionSeed::of("f").ledger(ledger.clone()).insert(&backend).await.expect("a row").id);
    }
    let mut strange = Vec::new();
    for text in &odd {
        let id = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
        let sql = "UPDATE submissions SET routing_result = $2::text::jsonb WHERE id = $1";
        backend.execute(sql, &[&id, text]).await.expect("an odd ledger");
        strange.push(id);
    }
    let newer = SubmissionSeed::of("f").ledger(json!({"v": 7, "all": "new"}));
    let newer = newer.insert(&backend).await.expect("a row").id;
    let last = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
    let before = crate::harness::row(&backend, newer).await;
    // All of them wait before the router is there: one batch.
    for id in [&[first], &bad[..], &strange[..], &[newer, last]].concat() {
        stage.publish(id, "finalized").expect("published");
    }
    let scene = Scene::on(stage, "").await;
    for id in [first, last] {
        assert_eq!(scene.ended(id).await.status, "routed", "a healthy row beside them");
    }
    for (id, original) in bad.iter().zip(&damaged) {
        let row = scene.ended(*id).await;
        assert_eq!(
            (row.status.as_str(), row.reason()),
            ("failed", Some("ledger_damaged")),
            "{original}: {row:?}"
        );
        let trail = scene.audit(*id).await;
        assert_eq!(trail[0].detail["original"], *original);
        let journal = scene.journal(*id);
        assert!(
            journal.iter().any(|l| l["event"] == "failed" && l["message"].to_string().contains("explain")),
            "{journal:?}"
        );
    }
    for (id, original) in strange.iter().zip(&odd) {
        let row = scene.ended(*id).await;
        assert_eq!(
            (row.status.as_str(), row.reason()),
            ("failed", Some("ledger_damaged")),
            "{original}: {row:?}"
        );
        let kept = &scene.audit(*id).await[0].detail["original"];
        assert!(kept.as_str().is_some_and(|kept| kept.len() >= original.len()), "kept as text: {kept}");
    }
    let letters = scene.dead_letters(1).await;
    assert!(String::from_utf8_lossy(&letters[0]).contains(&newer.to_string()), "its event is given back");
    assert_eq!(scene.row(newer).await, before, "byte by byte, updated_at included");
    let journal = scene.journal(newer);
    assert!(
        journal.iter().any(|l| l["reason"] == "newer_ledger" && l["message"].to_string().contains("upgrade")),
        "{journal:?}"
    );
    scene.stop().await;
}

#[tokio::test]
async fn keys_of_somebody_else_survive_a_whole_routing() {
    let scene = Scene::start(&[form().mail_to("b@x.test")]).await;
    scene
        .stage
        .relay
        .rule(devkit::smtp::Rule::at(devkit::smtp::Stage::Rcpt).to("a@x.test").reply("451 4 no").times(1));
    let theirs = json!({"list": [1, null, {"deep": true}], "text": "ü", "nothing": null});
    let ledger = json!({
        "theirs": theirs,
        "v": 1,
        "plan": [
            {"action_order": 1, "action_type": "email_raw", "destination": "a@x.test", "theirs": theirs},
            {"action_order": 2, "action_type": "email_raw", "destination": "b@x.test"},
        ],
        "deliveries": {"1|a@x.test": {"state": "open", "theirs": theirs}},
    });
    let id = scene.submit(&SubmissionSeed::of("f").ledger(ledger)).await.id;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{row:?}");
    assert_eq!(row.ledger["theirs"], theirs);
    assert_eq!(row.entry("1|a@x.test")["theirs"], theirs);
    assert_eq!(row.ledger["plan"][0]["theirs"], theirs);
    scene.stop().await;
}

/// Values a backend may well write: they are no reason to give up.
#[tokio::test]
async fn a_retention_without_an_end_is_no_obstacle() {
    let scene = Scene::start(&[form()]).await;
    for until in ["infinity", "20000-01-01", "-infinity"] {
        let id = SubmissionSeed::of("f").insert(&scene.backend).await.expect("a row").id;
        let sql = "UPDATE submissions SET retention_expires_at = $2::text::timestamptz WHERE id = $1";
        scene.backend.execute(sql, &[&id, &until]).await.expect("kept for ever");
        scene.publish(id);
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{until}: {row:?}");
    }
    scene.stop().await;
}

/// A row unreadable today is unreadable tomorrow: it ends, and says why, instead of going round for ever.
#[tokio::test]
async fn a_submission_that_cannot_be_read_ends_failed() {
    let scene = Scene::start(&[form()]).await;
    let id = SubmissionSeed::of("f").insert(&scene.backend).await.expect("a row").id;
    let sql = "UPDATE submissions SET created_at = 'infinity' WHERE id = $1";
    scene.backend.execute(sql, &[&id]).await.expect("nonsense");
    scene.publish(id);
    let row = scene.ended(id).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("exhausted"), 5),
        "{row:?}"
    );
    let why = row.entry("1|a@x.test")["error"]["reply"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("cannot be read"), "{why}");
    scene.stop().await;
}
