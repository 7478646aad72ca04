//! The throwaway PostgreSQL itself: variants, isolation, cleaning up, outages.

use devkit::postgres::{Cluster, ClusterOptions, CuttingProxy, Variant};
use tokio_postgres::error::SqlState;

async fn shared() -> std::sync::Arc<Cluster> {
    Cluster::shared().await.expect("a shared cluster")
}

#[tokio::test]
async fn the_default_variant_knows_the_four_words_and_keeps_the_trail_unreadable() {
    let db = shared().await.database(Variant::default()).await.expect("a database");
    let app = db.client_as("forms_app").await.expect("forms_app");
    let labels: i64 = app
        .query_one("SELECT count(*) FROM unnest(enum_range(NULL::audit_action))", &[])
        .await
        .expect("labels")
        .get(0);
    assert_eq!(labels, 30);
    app.batch_execute("INSERT INTO audit_log (actor, action) VALUES ('t', 'email_sent')")
        .await
        .expect("insert");
    let seen: i64 = app.query_one("SELECT count(*) FROM audit_log", &[]).await.expect("select").get(0);
    assert_eq!(seen, 0, "insert-only");
    let refused =
        app.query("INSERT INTO audit_log (actor, action) VALUES ('t', 'email_sent') RETURNING id", &[]).await;
    assert!(refused.is_err(), "RETURNING needs a SELECT policy");
}

#[tokio::test]
async fn variants_differ_in_what_they_say() {
    let cluster = shared().await;
    let readable =
        cluster.database(Variant { audit_readable: true, ..Variant::default() }).await.expect("readable");
    let app = readable.client_as("forms_app").await.expect("forms_app");
    app.batch_execute("INSERT INTO audit_log (actor, action) VALUES ('t', 'email_sent')")
        .await
        .expect("insert");
    let seen: i64 = app.query_one("SELECT count(*) FROM audit_log", &[]).await.expect("select").get(0);
    assert_eq!(seen, 1);

    let before =
        cluster.database(Variant { with_011: false, ..Variant::default() }).await.expect("before 011");
    let app = before.client_as("forms_app").await.expect("forms_app");
    let labels: i64 = app
        .query_one("SELECT count(*) FROM unnest(enum_range(NULL::audit_action))", &[])
        .await
        .expect("labels")
        .get(0);
    assert_eq!(labels, 26);
}

#[tokio::test]
async fn what_the_contract_forbids_is_refused() {
    let db = shared().await.database(Variant::default()).await.expect("a database");
    let app = db.client_as("forms_app").await.expect("forms_app");
    let owner = db.owner().await.expect("owner");
    for table in
        ["forms", "templates", "actions", "submissions", "submission_fields", "attachments", "audit_log"]
    {
        let refused = app.batch_execute(&format!("DELETE FROM {table}")).await.expect_err(table);
        assert_eq!(refused.code().map(SqlState::code), Some("42501"), "DELETE on {table}");
    }
    for (who, client) in [("forms_app", &app), ("the owner", &owner)] {
        for verb in ["UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log"] {
            let refused = client.batch_execute(verb).await.expect_err(verb);
            assert_eq!(refused.code().map(SqlState::code), Some("42501"), "{verb} as {who}");
        }
    }
    let refused = app.batch_execute("UPDATE actions SET destination = 'x'").await.expect_err("read only");
    assert_eq!(refused.code().map(SqlState::code), Some("42501"));
}

#[tokio::test]
async fn readonly_does_not_see_purged_rows() {
    let db = shared().await.database(Variant::default()).await.expect("a database");
    db.alter(
        "INSERT INTO forms (id, name) VALUES ('f', 'F');
         INSERT INTO submissions (id, form_id, status) VALUES
           ('00000000-0000-0000-0000-000000000001', 'f', 'routed'), ('00000000-0000-0000-0000-000000000002', 'f', 'purged');
         INSERT INTO submission_fields (submission_id, field_key) SELECT id, 'k' FROM submissions;
         INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) SELECT id, 'a', 'b', 'o' FROM submissions;",
    )
    .await
    .expect("rows");
    for (role, expected) in [("forms_app", 2_i64), ("forms_readonly", 1)] {
        let client = db.client_as(role).await.expect(role);
        for table in ["submissions", "submission_fields", "attachments"] {
            let seen: i64 =
                client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.expect(table).get(0);
            assert_eq!(seen, expected, "{table} as {role}");
        }
    }
}

#[tokio::test]
async fn databases_are_separate_and_go_with_their_value() {
    let cluster = shared().await;
    let one = cluster.database(Variant::default()).await.expect("one");
    let two = cluster.database(Variant::default()).await.expect("two");
    one.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("insert");
    let seen: i64 = two
        .owner()
        .await
        .expect("owner")
        .query_one("SELECT count(*) FROM forms", &[])
        .await
        .expect("count")
        .get(0);
    assert_eq!(seen, 0);
    let name = one.name().to_owned();
    drop(one);
    let left: bool = two
        .superuser()
        .await
        .expect("superuser")
        .query_one("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", &[&name])
        .await
        .expect("listing")
        .get(0);
    assert!(!left, "{name} outlived its value");
}

#[tokio::test]
async fn a_cluster_of_ones_own_can_be_stopped_and_started_again() {
    let cluster = Cluster::start(ClusterOptions { tcp_port: Some(0), ..ClusterOptions::default() })
        .await
        .expect("a cluster");
    let db = cluster.database(Variant::default()).await.expect("a database");
    db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("insert");
    cluster.stop().await;
    assert!(db.client_as("forms_app").await.is_err(), "it is down");
    cluster.start_again().await.expect("up again");
    let url = db.tcp_url_as("forms_app").expect("a TCP port");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("over TCP");
    tokio::spawn(connection);
    let seen: i64 = client.query_one("SELECT count(*) FROM forms", &[]).await.expect("count").get(0);
    assert_eq!(seen, 1);
}

async fn through(proxy: &CuttingProxy) -> tokio_postgres::Client {
    let url = proxy.url_as("forms_loader");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_cutting_proxy_lets_the_commit_through_and_its_answer_not() {
    let db = shared().await.database(Variant::default()).await.expect("a database");
    let proxy = CuttingProxy::start(&db).await.expect("a proxy");
    let client = through(&proxy).await;
    let insert = async |name: &str, end: &str| {
        let begin = format!("BEGIN; SET LOCAL application_name = 'maple-router:{name}'");
        client.batch_execute(&begin).await.expect("begun");
        client.execute("INSERT INTO forms (id, name) VALUES ($1, 'F')", &[&name]).await.expect("inserted");
        client.batch_execute(end).await
    };
    proxy.arm("record");
    insert("begin", "COMMIT").await.expect("another name is answered");
    insert("record", "SELECT 1; ROLLBACK").await.expect("so is the end of what is not committed");
    insert("record", "SELECT 1/0; COMMIT").await.expect_err("nor is this");
    client.batch_execute("COMMIT").await.expect("a quiet ROLLBACK");
    assert_eq!(proxy.cuts(), Vec::<String>::new());
    insert("record", "SELECT 1; COMMIT").await.expect_err("the answer is lost");
    assert_eq!(proxy.cuts(), ["record"]);
    let count = "SELECT count(*) FROM forms WHERE id IN ('begin', 'record')";
    let again = through(&proxy).await;
    let seen: i64 = again.query_one(count, &[]).await.expect("a new connection works").get(0);
    assert_eq!(seen, 2, "both stand");
    again
        .batch_execute("BEGIN; SET LOCAL application_name = 'maple-router:record'; SELECT 1")
        .await
        .expect("begun");
    again.batch_execute("COMMIT").await.expect("once for each call");
}
