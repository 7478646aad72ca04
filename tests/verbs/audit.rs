//! `audit rekey`: which rows of the audit log name recipients without a key, or with another one.

use devkit::forms::Form;
use serde_json::{Value, json};

use crate::harness::{run, run_with, stage, stage_with};

fn forms() -> [Form; 1] {
    [Form::new("contact").mail_to("a@example.org")]
}

#[tokio::test]
async fn rows_without_a_key_are_counted_and_found_wanting() {
    let stage = stage(&forms()).await;
    let app = stage.database.client_as("forms_app").await.expect("forms_app");
    let rows = async |recipient: &Value, times: i32| {
        let sql = "INSERT INTO audit_log (actor, action, detail)
            SELECT 'maple-router@elsewhere', 'email_sent', jsonb_build_object('v', 1, 'recipient', $1::jsonb) FROM generate_series(1, $2)";
        app.execute(sql, &[recipient, &times]).await.expect("rows");
    };
    let nothing = run(&stage, &["audit", "rekey"]).await;
    assert!(nothing.code == Some(0) && nothing.out.contains("no row names a recipient"), "{nothing:?}");
    rows(&json!({"domain": "example.org", "hmac": "00", "key": "0a0a0a0a"}), 2).await;
    let keyed = run(&stage, &["audit", "rekey"]).await;
    assert!(keyed.code == Some(0) && keyed.out.contains("2 rows with another key, 0a0a0a0a"), "{keyed:?}");
    rows(&json!({"domain": "example.org", "sha256": "00"}), 3).await;
    let answer = run(&stage, &["audit", "rekey"]).await;
    assert!(answer.code == Some(1) && answer.out.contains("3 rows WITHOUT A KEY"), "{answer:?}");
    assert!(answer.out.contains("detail->'recipient' ? 'sha256'"), "which they are: {answer:?}");
    let found: Value = run(&stage, &["audit", "rekey", "--json"]).await.json().expect("JSON");
    let counted: Vec<(&Value, &Value, &Value)> = found["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (&row["key"], &row["unkeyed"], &row["rows"]))
        .collect();
    let expected = [(json!("0a0a0a0a"), json!(false), json!(2)), (Value::Null, json!(true), json!(3))];
    assert_eq!(counted, expected.each_ref().map(|(key, unkeyed, rows)| (key, unkeyed, rows)), "{found:#}");
}

#[tokio::test]
async fn the_key_is_the_configured_one_and_check_says_where_it_is_from() {
    let stage = stage(&forms()).await;
    let key = stage.dir().join("shared-audit-key");
    std::fs::write(&key, "0123456789abcdef0123456789abcdef\n").expect("written");
    let extra = format!("[audit]\nkey_file = \"{}\"", key.display());
    let answer = run_with(&stage, &extra, &["audit", "rekey"]).await;
    assert!(answer.out.contains("this host's key is "), "{answer:?}");
    let checked = run_with(&stage, &extra, &["check", "--config-only"]).await;
    assert!(checked.out.contains(&format!("audit-key read from {}", key.display())), "{checked:?}");
    std::fs::write(&key, "short\n").expect("written");
    let answer = run_with(&stage, &extra, &["audit", "rekey"]).await;
    assert!(answer.code == Some(78) && answer.err.contains("fewer than 16 characters"), "{answer:?}");
}

#[tokio::test]
async fn a_log_that_may_not_be_read_is_no_empty_one() {
    let stage = stage_with(&forms(), false).await;
    let answer = run(&stage, &["audit", "rekey"]).await;
    assert!(answer.code == Some(1) && answer.err.contains("not readable with this role"), "{answer:?}");
}
