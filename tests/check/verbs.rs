//! `migrate`, `provision` and `publish`: what they do, what they say, and the codes they end in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use devkit::forms::SubmissionSeed;
use devkit::postgres::{Cluster, ClusterOptions, TestDatabase, Variant};
use devkit::stage::{DEAD_SUBSCRIPTION, DEAD_TOPIC, SUBSCRIPTION, Stage, TOPIC};
use serde_json::{Value, json};

use crate::harness::{bare, check, config, healthy, verb};

async fn database(variant: Variant) -> TestDatabase {
    Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database")
}

/// A database with roles and no tables.
async fn empty() -> TestDatabase {
    let db = database(Variant::default()).await;
    db.alter("DROP OWNED BY CURRENT_USER CASCADE").await.expect("nothing left");
    db
}

#[tokio::test]
async fn migrate_needs_no_configuration_where_the_owner_is_named() {
    let db = empty().await;
    let url = db.owner_url();
    let answer = bare(&["migrate", "--audit-readable", "--owner-url", &url], &[]).await;
    assert_eq!(answer.code, 0, "{answer:?}");
    for file in ["001_init: applied", "002_rls: applied", "011_routing_audit_actions: applied"] {
        assert!(answer.out.contains(file), "{answer:?}");
    }
    let again = bare(&["migrate"], &[("MAPLE_ROUTER_OWNER_URL", &url)]).await;
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.contains("nothing to do"), "{again:?}");
    let app = db.client_as("forms_app").await.expect("forms_app");
    app.query("SELECT FROM audit_log", &[]).await.expect("readable");
}

#[tokio::test]
async fn migrate_takes_the_database_of_the_configuration_where_no_owner_is_named() {
    let db = empty().await;
    let answer = bare(&["migrate"], &[("DATABASE_URL", &db.owner_url())]).await;
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.out.contains("001_init: applied"), "{answer:?}");
    let none = bare(&["migrate", "--config", "/nowhere/config.toml"], &[]).await;
    assert_eq!(none.code, 78, "{none:?}");
}

#[tokio::test]
async fn migrate_applies_011_alone_to_a_database_that_is_not_ours() {
    let db = database(Variant { with_011: false, ..Variant::default() }).await;
    let url = db.owner_url();
    let all = bare(&["migrate", "--owner-url", &url], &[]).await;
    assert_eq!(all.code, 78, "{all:?}");
    assert!(all.err.contains("belongs to somebody else") && all.err.contains("--only 011"), "{all:?}");
    let only = bare(&["migrate", "--only", "011", "--owner-url", &url], &[]).await;
    assert_eq!(only.code, 0, "{only:?}");
    assert_eq!(only.out, "011_routing_audit_actions: applied\n");
    let again = bare(&["migrate", "--only", "11", "--owner-url", &url], &[]).await;
    assert!(again.code == 0 && again.out.contains("nothing to do"), "{again:?}");
}

#[tokio::test]
async fn what_migrate_may_not_do_is_said() {
    let db = database(Variant { with_011: false, ..Variant::default() }).await;
    let app = db.url_as("forms_app");
    let answer = bare(&["migrate", "--only", "011", "--owner-url", &app], &[]).await;
    assert_eq!(answer.code, 78, "{answer:?}");
    assert!(answer.err.contains("owner"), "{answer:?}");
    let wrong = bare(&["migrate", "--only", "002", "--owner-url", &db.owner_url()], &[]).await;
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let router = bare(&["migrate", "--router", "--owner-url", &app], &[]).await;
    assert!(router.code == 78 && router.err.contains("owner"), "{router:?}");
    let both = bare(&["migrate", "--router", "--only", "011", "--owner-url", &db.owner_url()], &[]).await;
    assert_eq!(both.code, 2, "one of them: {both:?}");
    let router = bare(&["migrate", "--router", "--owner-url", &db.owner_url()], &[]).await;
    assert!(router.code == 0 && router.out.contains("001_records: applied"), "{router:?}");
}

#[tokio::test]
async fn schema_router_comes_and_goes() {
    let db = database(Variant::default()).await;
    let url = db.owner_url();
    let owner = ["--owner-url", url.as_str()];
    let run = async |arguments: &[&str]| bare(&[arguments, &owner[..]].concat(), &[]).await;
    let came = run(&["migrate", "--router"]).await;
    assert!(came.code == 0 && came.out.contains("002_outbox: applied"), "{came:?}");
    assert!(came.out.contains("index attachments_router_unclean: built"), "{came:?}");
    assert!(came.out.contains("finalized column: left as it is"), "no configuration: {came:?}");
    let again = run(&["migrate", "--router"]).await;
    assert!(again.code == 0 && again.out.contains("nothing to do"), "{again:?}");
    db.alter(
        "INSERT INTO forms (id, name) VALUES ('f', 'F'); INSERT INTO submissions (form_id) VALUES ('f')",
    )
    .await
    .expect("an event");
    for wrong in [&["migrate", "--router", "--back", "001"][..], &["migrate", "--back", "002"]] {
        let answer = run(wrong).await;
        assert_eq!(answer.code, 2, "{answer:?}");
    }
    let gone = run(&["migrate", "--router", "--back", "002", "--force"]).await;
    assert!(gone.code == 0 && gone.out.contains("1 events went with it"), "{gone:?}");
    assert!(gone.err.contains("holds 1 undelivered events"), "said before: {gone:?}");
    let dry = bare(&["migrate", "--router", "--back", "002", "--dry-run"], &[]).await;
    assert!(dry.code == 0 && dry.out.contains("DROP TRIGGER IF EXISTS router_finalized "), "{dry:?}");
    let dry = bare(&["migrate", "--router", "--dry-run"], &[]).await;
    assert!(
        dry.out.contains("CREATE INDEX CONCURRENTLY IF NOT EXISTS submissions_router_received"),
        "{dry:?}"
    );
}

#[tokio::test]
async fn the_finalized_column_of_the_configuration_is_passed_on() {
    let db = database(Variant::default()).await;
    db.alter("ALTER TABLE submissions ADD finalized_at timestamptz").await.expect("a column");
    let url = db.owner_url();
    let column = ("MAPLE_ROUTER__READINESS__FINALIZED_COLUMN", "finalized_at");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[routing]\nmax_attempts = 5\n").expect("a configuration");
    let path = file.path().to_str().expect("utf-8");
    let arguments = ["--config", path, "migrate", "--router", "--owner-url", &url];
    let answer = bare(&arguments, &[column]).await;
    assert!(
        answer.code == 0 && answer.out.contains("finalized column: from now on finalized_at"),
        "{answer:?}"
    );
    let answer = bare(&arguments, &[column]).await;
    assert!(answer.code == 0 && !answer.out.contains("finalized column"), "{answer:?}");
    let answer = bare(&arguments, &[]).await;
    assert!(answer.code == 0 && answer.out.contains("finalized column: from now on none"), "{answer:?}");
}

#[tokio::test]
async fn migrate_ends_in_69_where_the_server_or_the_login_is_not_to_be_had() {
    let stranger = database(Variant::default()).await.url_as("nobody_of_that_name");
    let secret = "postgres://owner:secret-word@127.0.0.1:1/forms";
    for url in [secret, &stranger] {
        let answer = bare(&["migrate", "--owner-url", url], &[]).await;
        assert_eq!(answer.code, 69, "{answer:?}");
        assert!(answer.err.contains("remedy"), "{answer:?}");
        assert!(!answer.all().contains("secret-word"), "{answer:?}");
    }
}

/// The owner's password is the owner's: from its url or `PGPASSWORD`, never the one the daemon has.
#[tokio::test]
async fn the_owners_password_is_not_the_daemons() {
    let hba = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    let options =
        ClusterOptions { tcp_port: Some(0), hba: Some(hba.to_owned()), ..ClusterOptions::default() };
    let cluster = Cluster::start(options).await.expect("a cluster");
    let db = cluster.database(Variant { with_011: false, ..Variant::default() }).await.expect("a database");
    let superuser = db.superuser().await.expect("superuser");
    superuser.batch_execute("ALTER ROLE forms_owner PASSWORD 'owners-word'").await.expect("a password");
    let dir = tempfile::tempdir().expect("a directory");
    let (file, daemons) = (dir.path().join("config.toml"), dir.path().join("password"));
    std::fs::write(&daemons, "daemons-word").expect("written");
    let text = format!("[database]\npassword_file = \"{}\"\n", daemons.display());
    std::fs::write(&file, text).expect("written");
    let config = file.to_str().expect("utf-8");
    let url = db.tcp_url_as("forms_owner").expect("TCP");
    let only = ["migrate", "--only", "011", "--config", config, "--owner-url"];
    let migrated = |url: String, word: &'static str| async move {
        let arguments = [&only[..], &[url.as_str()]].concat();
        bare(&arguments, &[("PGPASSWORD", word)]).await
    };
    let wrong = migrated(url.clone(), "daemons-word").await;
    assert_eq!(wrong.code, 69, "{wrong:?}");
    assert!(wrong.err.contains("password authentication failed"), "{wrong:?}");
    let done = migrated(url.clone(), "owners-word").await;
    assert!(done.code == 0 && done.out.contains("applied"), "{done:?}");
    let in_url = url.replace("forms_owner@", "forms_owner:owners-word@");
    let done = migrated(in_url, "daemons-word").await;
    assert!(done.code == 0 && done.out.contains("nothing to do"), "{done:?}");
}

#[tokio::test]
async fn a_dry_run_of_migrate_prints_sql_and_connects_to_nothing() {
    let url = "postgres://owner@127.0.0.1:1/forms";
    let answer = bare(&["migrate", "--dry-run", "--only", "011", "--owner-url", url], &[]).await;
    assert_eq!(answer.code, 0, "{answer:?}");
    // The printed SQL is what it would have done.
    let db = database(Variant { with_011: false, ..Variant::default() }).await;
    db.alter(&answer.out).await.expect("the printed SQL");
    let after = bare(&["migrate", "--only", "011", "--owner-url", &db.owner_url()], &[]).await;
    assert!(after.out.contains("nothing to do"), "{after:?}");
}

#[tokio::test]
async fn provision_makes_what_is_missing_and_mends_what_differs() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    let renamed =
        config(&stage).replace("routing-", "other-").replace("topic = \"routing\"", "topic = \"other\"");

    let dry = verb(&stage, &renamed, &["provision", "--dry-run", "--json"]).await;
    assert_eq!(dry.code, 0, "{dry:?}");
    let steps = dry.json()["steps"].as_array().expect("steps").clone();
    assert_eq!(steps.len(), 4, "{dry:?}");
    assert!(steps.iter().all(|step| step["state"] == "would_create"), "{dry:?}");
    let missing = check(&stage, &renamed).await;
    assert!(
        missing.detail("subscription").contains("does not exist"),
        "a dry run makes nothing: {missing:#?}"
    );

    let done = verb(&stage, &renamed, &["provision"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.out.lines().filter(|line| line.contains(": created")).count(), 4, "{done:?}");
    let well = check(&stage, &renamed).await;
    assert_eq!(well.changes(&before), [], "{well:#?}");

    let again = verb(&stage, &renamed, &["provision"]).await;
    assert_eq!(again.out.lines().filter(|line| line.contains(": exists")).count(), 4, "{again:?}");

    stage.broker.delete_subscription(SUBSCRIPTION).expect("deleted");
    let spec = devkit::broker::SubscriptionSpec::new(SUBSCRIPTION, TOPIC).dead_letter(DEAD_TOPIC, 6);
    stage.broker.create_subscription(spec).expect("created");
    let mended = verb(&stage, &config(&stage), &["provision"]).await;
    assert!(mended.code == 0 && mended.out.contains("routing-worker: changed"), "{mended:?}");
    assert_eq!(check(&stage, &config(&stage)).await.changes(&before), []);
}

#[tokio::test]
async fn provision_tells_what_it_cannot_change() {
    let stage = healthy().await;
    stage.broker.delete_subscription(DEAD_SUBSCRIPTION).expect("deleted");
    let spec = devkit::broker::SubscriptionSpec::new(DEAD_SUBSCRIPTION, TOPIC);
    stage.broker.create_subscription(spec).expect("created");
    let answer = verb(&stage, &config(&stage), &["provision", "--json"]).await;
    assert_eq!(answer.code, 1, "{answer:?}");
    let json = answer.json();
    assert_eq!(json["ok"], false);
    let differs = json["steps"].as_array().expect("steps").iter().any(|step| step["state"] == "differs");
    assert!(differs, "{answer:?}");
}

#[tokio::test]
async fn provision_and_publish_end_in_69_where_pubsub_is_not_to_be_had() {
    let stage = healthy().await;
    let down = config(&stage).replace(&stage.broker.endpoint(), "http://127.0.0.1:1");
    let id = "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11";
    for arguments in [["provision", "--json"].as_slice(), ["publish", "--force", id].as_slice()] {
        let answer = verb(&stage, &down, arguments).await;
        assert_eq!(answer.code, 69, "{answer:?}");
        assert!(answer.err.contains("cannot be reached"), "{answer:?}");
    }
}

#[tokio::test]
async fn publish_sends_an_event_for_each_submission() {
    let stage = healthy().await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let one = SubmissionSeed::of("contact").insert(&backend).await.expect("a row").id.to_string();
    let unknown = "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11";
    let waiting = || stage.broker.stats(SUBSCRIPTION).expect("stats").backlog;

    let refused = verb(&stage, &config(&stage), &["publish", &one[..13], unknown]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    let line = format!("{unknown}: not published: the database has no such submission");
    assert!(
        refused.out.contains(&line) && refused.out.contains("2 matched, 1 changed, 1 skipped"),
        "{refused:?}"
    );
    assert_eq!(waiting(), 1, "by its beginning, and not the unknown one");
    pull(&stage, 1).await;

    let dry =
        verb(&stage, &config(&stage), &["publish", "--force", "--dry-run", "--json", &one, unknown]).await;
    assert_eq!(dry.code, 0, "{dry:?}");
    let json = dry.json();
    assert_eq!(json["matched"], 2);
    assert!(json["changed"][0]["message_id"].is_null(), "{json}");
    assert!(
        json["changed"][1]["warning"].as_str().is_some_and(|w| w.contains("no such submission")),
        "{json}"
    );
    assert_eq!(waiting(), 0, "a dry run publishes nothing");

    let done = verb(&stage, &config(&stage), &["publish", "--force", &one, unknown, &one]).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains(&format!("{one}: published as message ")), "{done:?}");
    assert!(done.out.contains("2 matched, 2 changed, 0 skipped"), "each once: {done:?}");
    assert!(done.err.contains(unknown) && !done.err.contains(&one), "{done:?}");
    assert_eq!(waiting(), 2);

    let events = pull(&stage, 2).await;
    let known =
        events.iter().find(|event| event["submission_id"] == one).expect("the event of the known one");
    assert_eq!(*known, json!({"submission_id": one, "form_id": "contact", "reason": "operator"}));
    let other = events.iter().find(|event| event["submission_id"] == unknown).expect("the other one");
    assert_eq!(*other, json!({"submission_id": unknown, "reason": "operator"}));
}

/// Takes events from the routing subscription; their payloads.
async fn pull(stage: &Stage, most: u32) -> Vec<Value> {
    let url = format!("{}/v1/{SUBSCRIPTION}:pull", stage.broker.endpoint());
    let answer = reqwest::Client::new().post(url).json(&json!({"maxMessages": most})).send().await;
    let answer: Value = answer.expect("an answer").json().await.expect("JSON");
    let messages = answer["receivedMessages"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    let payload = |received: &Value| {
        let message = &received["message"];
        assert_eq!(message["attributes"], json!({"type": "routing.ready", "v": "1"}));
        let data = STANDARD.decode(message["data"].as_str().expect("data")).expect("base64");
        serde_json::from_slice(&data).expect("JSON")
    };
    messages.iter().map(payload).collect()
}

#[tokio::test]
async fn publish_does_without_the_database() {
    let stage = healthy().await;
    let config =
        config(&stage).replace(&stage.database.url_as("forms_app"), "postgres://forms_app@127.0.0.1:1/forms");
    let id = "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11";
    let done = verb(&stage, &config, &["publish", "--json", id]).await;
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    assert!(json["changed"][0]["message_id"].is_string(), "{json}");
    assert!(json["changed"][0]["warning"].is_null(), "what is not known is not claimed: {json}");
    assert!(json["warnings"][0].as_str().is_some_and(|w| w.contains("not known")), "{json}");
}

#[tokio::test]
async fn an_event_that_a_topic_does_not_take_is_skipped_and_named() {
    let stage = healthy().await;
    let config = config(&stage).replace("topic = \"routing\"", "topic = \"nowhere\"");
    let id = "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11";
    let answer = verb(&stage, &config, &["publish", "--force", "--json", id]).await;
    assert_eq!(answer.code, 78, "{answer:?}");
    let json = answer.json();
    assert_eq!(json["skipped"][0]["id"], id);
    assert!(json["skipped"][0]["why"].as_str().is_some_and(|why| why.contains("topics/nowhere")), "{json}");
}
