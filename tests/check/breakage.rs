//! One fault at a time: the right line changes its level, and no other does.

use devkit::google::Mishap;
use devkit::postgres::Variant;
use devkit::stage::{DEAD_TOPIC, SUBSCRIPTION, Stage, TOPIC};
use serde_json::{Value, json};

use crate::harness::{NAMES, Report, bare, check, config, healthy, options, set_up, verb};

#[tokio::test]
async fn a_healthy_set_up_is_well_in_every_line() {
    let stage = healthy().await;
    let report = check(&stage, &config(&stage)).await;
    assert_eq!(report.names(), NAMES);
    assert!(report.lines.iter().all(|line| line["level"] == "ok"), "{report:#?}");
    assert!(report.ok && report.code == 0, "{report:#?}");

    let text = verb(&stage, &config(&stage), &["check"]).await;
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.out.contains("✓ rls_attachments") && text.out.contains("35 ok, 0 to look at, 0 failed"));
    for secret in [stage.slack.webhook_url().rsplit('/').next().expect("a secret"), "X-Goog-Signature"] {
        assert!(!text.all().contains(secret), "a secret is shown: {text:?}");
    }
    assert_eq!(stage.relay.counters().mails, 0, "without --send nothing is sent");
    assert_eq!(stage.slack.attempts(), 0, "without --send nothing is posted");
}

#[tokio::test]
async fn warnings_that_a_sound_set_up_may_live_with_end_in_0() {
    let stage = Stage::start(devkit::stage::StageOptions { sample_forms: true, ..options() }).await;
    let stage = set_up(stage.expect("a stage")).await;
    // The product's defaults: links of seven days by keys that Google manages, and no `not_before`.
    let report = check(&stage, &stage.config("check", 9464, "")).await;
    let unwell: Vec<_> = report.lines.iter().filter(|line| line["level"] != "ok").collect();
    let unwell: Vec<_> = unwell.iter().map(|line| (line["name"].as_str(), line["level"].as_str())).collect();
    let warned = |name| (Some(name), Some("warn"));
    assert_eq!(unwell, [warned("config"), warned("signing"), warned("forms")], "{report:#?}");
    assert_eq!((report.ok, report.code), (true, 0));
}

/// Findings of another run after `sql`, against a run before it.
async fn after(sql: &str) -> (Report, Report) {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    stage.database.alter(sql).await.expect(sql);
    let broken = check(&stage, &config(&stage)).await;
    (before, broken)
}

/// Each statement fails one line of a healthy database.
#[tokio::test]
async fn a_database_broken_in_one_way_fails_in_one_line() {
    let table = [
        ("ALTER TABLE submissions DROP COLUMN happyfox_status", "schema", "submissions.happyfox_status"),
        ("REVOKE UPDATE ON submissions FROM forms_app", "grants", "UPDATE on submissions"),
        ("REVOKE SELECT ON templates FROM forms_app", "grants", "SELECT on templates"),
        ("DROP POLICY attachments_app ON attachments", "rls_attachments", "sees no attachment"),
        (
            "ALTER POLICY attachments_app ON attachments USING (clamav_status = 'clean')",
            "rls_attachments",
            "only where",
        ),
    ];
    for (sql, line, words) in table {
        let (before, broken) = after(sql).await;
        assert_eq!(broken.changes(&before), [(line, "fail")], "{sql}: {broken:#?}");
        assert!(broken.detail(line).contains(words), "{sql}: {broken:#?}");
        assert_eq!((broken.ok, broken.code), (false, 1), "{sql}");
    }
}

#[tokio::test]
async fn without_011_its_line_fails() {
    let before = healthy().await;
    let before = check(&before, &config(&before)).await;
    let options = options();
    let variant = Variant { with_011: false, ..options.variant };
    let stage = Stage::start(devkit::stage::StageOptions { variant, ..options }).await.expect("a stage");
    // The loader writes an audit value that the backend has had for long.
    let stage = set_up(stage).await;
    let broken = check(&stage, &config(&stage)).await;
    assert_eq!(broken.changes(&before), [("audit_values", "fail")], "{broken:#?}");
    assert!(broken.remedy("audit_values").contains("migrate --only 011"), "{broken:#?}");
    assert_eq!(broken.code, 1);
}

/// The data contract asks for a warning: the trigger does no harm to correctness, it makes stuck rows look alive.
#[tokio::test]
async fn a_trigger_on_updated_at_is_warned_of() {
    let (before, broken) = after(
        "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$;
         CREATE TRIGGER touch BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION touch()",
    )
    .await;
    assert_eq!(broken.changes(&before), [("updated_at_trigger", "warn")], "{broken:#?}");
    assert!(broken.detail("updated_at_trigger").contains("trigger touch"), "{broken:#?}");
    assert_eq!((broken.ok, broken.code), (true, 0));
}

#[tokio::test]
async fn forms_that_mail_nobody_are_warned_of() {
    let (before, broken) = after("INSERT INTO forms (id, name) VALUES ('idle', 'Idle')").await;
    assert_eq!(broken.changes(&before), [("forms", "warn")], "{broken:#?}");
    assert!(broken.detail("forms").contains("no_actions: idle"), "{broken:#?}");
}

/// Changes one field of the routing subscription, as an administrator would.
async fn update(stage: &Stage, field: &str, value: Value) {
    let subscription = json!({"name": SUBSCRIPTION, field: value});
    let answer = reqwest::Client::new()
        .patch(format!("{}/v1/{SUBSCRIPTION}", stage.broker.endpoint()))
        .json(&json!({"subscription": subscription, "updateMask": field}))
        .send()
        .await
        .expect("an answer");
    assert!(answer.status().is_success(), "{answer:?}");
}

#[tokio::test]
async fn the_dead_letter_policy_is_exactly_the_designs() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    let policy = |topic, attempts| json!({"deadLetterTopic": topic, "maxDeliveryAttempts": attempts});
    let table = [
        (Value::Null, "dead-letter policy"),
        (policy(DEAD_TOPIC, 6), "after 6"),
        (policy(TOPIC, 5), "topics/routing"),
    ];
    for (value, words) in table {
        update(&stage, "deadLetterPolicy", value).await;
        let broken = check(&stage, &config(&stage)).await;
        assert_eq!(broken.changes(&before), [("dead_letter", "fail")], "{words}: {broken:#?}");
        assert!(broken.detail("dead_letter").contains(words), "{words}: {broken:#?}");
        assert!(broken.remedy("dead_letter").contains("provision"), "{broken:#?}");
        assert_eq!(broken.code, 1);
    }
}

#[tokio::test]
async fn a_subscription_without_retry_policy_fails_its_line() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    update(&stage, "retryPolicy", Value::Null).await;
    let broken = check(&stage, &config(&stage)).await;
    assert_eq!(broken.changes(&before), [("subscription", "fail")], "{broken:#?}");
}

#[tokio::test]
async fn an_unknown_subscription_is_named() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    let config = config(&stage).replace("subscription = \"routing-worker\"", "subscription = \"rooting\"");
    let broken = check(&stage, &config).await;
    // The dead-letter policy cannot be read; that is no failure of its own.
    assert_eq!(broken.changes(&before), [("subscription", "fail"), ("dead_letter", "warn")], "{broken:#?}");
    assert!(broken.detail("subscription").contains("projects/demo/subscriptions/rooting does not exist"));
    assert!(broken.detail("dead_letter").contains("not tried"), "{broken:#?}");
}

#[tokio::test]
async fn a_signer_that_may_not_sign_differs_from_one_that_may_not_read() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    stage.google.iam_script().always(Mishap::Status(403));
    let broken = check(&stage, &config(&stage)).await;
    assert_eq!(broken.changes(&before), [("signing", "fail"), ("link", "warn")], "{broken:#?}");
    assert!(broken.remedy("signing").contains("roles/iam.serviceAccountTokenCreator"), "{broken:#?}");
    assert!(broken.detail("link").contains("not tried"), "{broken:#?}");
    stage.google.iam_script().clear();

    stage.google.set_may_read(false);
    let broken = check(&stage, &config(&stage)).await;
    assert_eq!(broken.changes(&before), [("link", "fail")], "{broken:#?}");
    assert!(broken.remedy("link").contains("storage.objects.get"), "{broken:#?}");
    stage.google.set_may_read(true);

    let unset: String = config(&stage).lines().filter(|line| !line.starts_with("probe_object")).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    );
    let broken = check(&stage, &unset).await;
    assert_eq!(broken.changes(&before), [("link", "warn")], "an untried link is never well: {broken:#?}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_fails_the_line_of_secrets() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    let file = format!("webhook_file = \"{}\"", stage.webhook_file().display());
    let directory = stage.dir().display().to_string();
    for path in ["/nowhere/webhook", directory.as_str()] {
        let config = config(&stage).replace(&file, &format!("webhook_file = \"{path}\""));
        let broken = check(&stage, &config).await;
        assert_eq!(broken.changes(&before), [("secrets", "fail"), ("slack", "warn")], "{broken:#?}");
        assert!(broken.detail("secrets").contains(path), "{broken:#?}");
        assert_eq!(broken.code, 1);
    }

    let password = "[database]\npassword_file = \"/nowhere/password\"";
    let broken = check(&stage, &config(&stage).replace("[database]", password)).await;
    let failed: Vec<_> = broken.changes(&before).into_iter().filter(|(_, level)| *level == "fail").collect();
    assert_eq!(failed, [("secrets", "fail")], "{broken:#?}");
    assert!(broken.detail("database").contains("not tried"), "{broken:#?}");

    let key = "signer = \"key-file\"\nkey_file = \"/nowhere/key.json\"";
    let broken = check(&stage, &config(&stage).replace("signer = \"metadata\"", key)).await;
    let failed: Vec<_> = broken.changes(&before).into_iter().filter(|(_, level)| *level == "fail").collect();
    assert_eq!(failed, [("secrets", "fail")], "{broken:#?}");
    assert!(broken.detail("signing").contains("not tried"), "{broken:#?}");
}

#[tokio::test]
async fn a_key_file_that_holds_no_key_fails_signing() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    let good = stage.dir().join("key.json");
    stage.google.write_key_file(&good).expect("a key");
    let with = |path: &std::path::Path| {
        let key = format!("signer = \"key-file\"\nkey_file = \"{}\"", path.display());
        config(&stage).replace("signer = \"metadata\"", &key)
    };
    let well = check(&stage, &with(&good)).await;
    let changes = well.changes(&before);
    assert!(changes.iter().all(|(_, level)| *level != "fail"), "{well:#?}");
    assert!(well.detail("secrets").contains("key.json"), "{well:#?}");

    let bad = stage.dir().join("no-key.json");
    std::fs::write(&bad, "{\"type\": \"nonsense\"}").expect("written");
    let broken = check(&stage, &with(&bad)).await;
    let failed: Vec<_> = broken.changes(&before).into_iter().filter(|(_, level)| *level == "fail").collect();
    assert_eq!(failed, [("signing", "fail")], "{broken:#?}");
}

#[tokio::test]
async fn timeouts_that_contradict_each_other_fail_the_configuration_and_nothing_else() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    let slow = config(&stage).replace("[routing]", "[routing]\nclaim_deadline = \"31m\"");
    let broken = check(&stage, &slow).await;
    assert_eq!(broken.changes(&before), [("config", "fail")], "{broken:#?}");
    for key in ["routing.claim_deadline", "pubsub.max_lease"] {
        assert!(broken.detail("config").contains(key), "{broken:#?}");
    }
    assert_eq!((broken.ok, broken.code), (false, 78));
}

#[tokio::test]
async fn a_configuration_that_cannot_be_read_ends_in_78() {
    let stage = healthy().await;
    let cases = [
        ("[smtp\n", "not valid TOML"),
        ("[smtp]\nhots = \"localhost\"\n", "host"),
        ("[smtp]\nport = \"many\"\n", "smtp.port"),
    ];
    for (text, words) in cases {
        let said = verb(&stage, text, &["check", "--json"]).await;
        let broken = crate::harness::report(&said);
        assert_eq!((broken.ok, broken.code), (false, 78), "{text}");
        assert_eq!(broken.names(), ["config"], "{broken:#?}");
        assert!(broken.detail("config").contains(words), "{broken:#?}");
    }
    for arguments in
        [["check", "--config", "/nowhere/config.toml"], ["run", "--config", "/nowhere/config.toml"]]
    {
        let said = bare(&arguments, &[]).await;
        assert_eq!(said.code, 78, "{said:?}");
        assert!(said.all().contains("/nowhere/config.toml"), "{said:?}");
    }
}
