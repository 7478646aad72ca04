//! Migrating: from empty, twice, by itself, and where it must not.

use devkit::postgres::{TestDatabase, Variant};
use maple_router::db::DbErrorKind;
use maple_router::db::migrations::{MigrateError, MigrateOptions, migrate};

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
async fn whoever_is_not_the_owner_is_told_so() {
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
