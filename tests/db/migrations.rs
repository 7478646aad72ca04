//! Migrating: from empty, twice, by itself, and where it must not.

use devkit::postgres::{TestDatabase, Variant};
use maple_router::db::DbErrorKind;
use maple_router::db::migrations::{self, MigrateError, MigrateOptions, ROUTER, migrate};

use super::database;

/// A database of the cluster without any table, owned by the owner.
async fn empty() -> TestDatabase {
    let db = database(Variant::default()).await;
    db.alter("DROP OWNED BY CURRENT_USER CASCADE").await.expect("nothing left");
    db
}

fn only(name: &str) -> MigrateOptions {
    MigrateOptions { only: Some(name.to_owned()), audit_readable: false }
}

async fn names(db: &TestDatabase, options: &MigrateOptions) -> Vec<(String, bool)> {
    let mut owner = db.owner().await.expect("owner");
    let applied = migrate(&mut owner, options).await.expect("migrated");
    applied.into_iter().map(|file| (file.name, file.changed)).collect()
}

async fn readable(db: &TestDatabase) -> bool {
    let app = db.client_as("forms_app").await.expect("forms_app");
    app.batch_execute("INSERT INTO audit_log (actor, action) VALUES ('t', 'email_sent')")
        .await
        .expect("insert");
    app.query_one("SELECT count(*) > 0 FROM audit_log", &[]).await.expect("count").get(0)
}

#[tokio::test]
async fn from_empty_and_then_nothing_more() {
    let db = empty().await;
    let all = ["001_init", "002_rls", "011_routing_audit_actions"].map(|name| (name.to_owned(), true));
    assert_eq!(names(&db, &MigrateOptions::default()).await, all);
    assert!(!readable(&db).await);
    assert_eq!(names(&db, &MigrateOptions::default()).await, []);
    assert_eq!(names(&db, &only("011")).await, [("011_routing_audit_actions".to_owned(), false)]);
}

#[tokio::test]
async fn the_readable_variant_is_chosen_by_an_option() {
    let db = empty().await;
    names(&db, &MigrateOptions { only: None, audit_readable: true }).await;
    assert!(readable(&db).await);
}

#[tokio::test]
async fn two_at_once_wait_for_each_other() {
    let db = empty().await;
    let options = MigrateOptions::default();
    let (one, two) = tokio::join!(names(&db, &options), names(&db, &options));
    assert_eq!(one.len() + two.len(), 3, "{one:?} {two:?}");
}

#[tokio::test]
async fn a_database_that_is_not_ours_gets_011_and_nothing_else() {
    let db = database(Variant { with_011: false, ..Variant::default() }).await;
    let mut owner = db.owner().await.expect("owner");
    let refused = migrate(&mut owner, &MigrateOptions::default()).await.expect_err("not ours");
    assert!(matches!(refused, MigrateError::NotOurs { witness: "submissions" }), "{refused:?}");
    for wrong in ["001", "1", "110", "002_rls"] {
        let refused = migrate(&mut owner, &only(wrong)).await.expect_err(wrong);
        assert!(matches!(refused, MigrateError::NotAlone(_)), "{refused:?}");
    }
    assert_eq!(names(&db, &only("011")).await, [("011_routing_audit_actions".to_owned(), true)]);
    assert_eq!(names(&db, &only("11")).await, [("011_routing_audit_actions".to_owned(), false)]);
    let history: bool = owner
        .query_one("SELECT to_regclass('maple_router_forms_history') IS NULL", &[])
        .await
        .expect("a look")
        .get(0);
    assert!(history, "no history table in somebody else's database");
}

#[tokio::test]
async fn whoever_is_not_the_owner_is_refused_by_name() {
    let db = database(Variant { with_011: false, ..Variant::default() }).await;
    let mut app = db.client_as("forms_app").await.expect("forms_app");
    let refused = migrate(&mut app, &only("011")).await.expect_err("not the owner");
    assert_eq!(refused.kind(), DbErrorKind::Contract);
    assert!(refused.to_string().contains("--owner-url"), "{refused}");
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let db = empty().await;
    names(&db, &MigrateOptions::default()).await;
    db.alter("UPDATE maple_router_forms_history SET checksum = '1' WHERE version = 2")
        .await
        .expect("tampered");
    let mut owner = db.owner().await.expect("owner");
    let refused = migrate(&mut owner, &MigrateOptions::default()).await.expect_err("diverged");
    assert!(matches!(refused, MigrateError::Diverged { .. }), "{refused:?}");
}

#[tokio::test]
async fn schema_router_has_a_history_of_its_own_and_what_the_daemon_may_do_there() {
    let db = empty().await;
    names(&db, &MigrateOptions::default()).await;
    let mut owner = db.owner().await.expect("owner");
    let applied = migrations::run(&mut owner, &ROUTER).await.expect("migrated");
    assert_eq!(applied.len(), ROUTER.files.len());
    assert!(migrations::run(&mut owner, &ROUTER).await.expect("again").is_empty(), "once is enough");
    assert_eq!(names(&db, &MigrateOptions::default()).await, [], "the forms' history is another one");
    let app = db.client_as("forms_app").await.expect("forms_app");
    let letter = "INSERT INTO router.dead_letters (id, kind, at, reason, message_id, payload, payload_sha256)
        VALUES (gen_random_uuid(), $1, now(), 'r', $2, '', repeat('0', 64))";
    app.execute(letter, &[&"unreadable", &"m1"]).await.expect("one");
    for (kind, message) in [("unreadable", "m1"), ("exhausted", "m2")] {
        assert!(app.execute(letter, &[&kind, &message]).await.is_err(), "{kind} {message}");
    }
    let close = "UPDATE router.dead_letters SET discarded_at = now()";
    assert!(app.batch_execute(close).await.is_err(), "nothing is closed by nobody, for no reason");
    let closed = format!("{close}, actor = 'a', reason_closed = 'r'");
    app.batch_execute(&closed).await.expect("closed");
    assert!(app.batch_execute("DELETE FROM router.dead_letters").await.is_err(), "records are kept");
    let pause = "INSERT INTO router.pauses (scope, reason, actor) VALUES ('all', 'r', 'a')";
    app.batch_execute(pause).await.expect("paused");
    assert!(app.batch_execute(pause).await.is_err(), "one pause of a kind");
    app.batch_execute("DELETE FROM router.pauses").await.expect("resumed");
}
