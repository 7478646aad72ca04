//! What holds whoever writes: each guard of form versions is tried by the role that would break it.

use devkit::postgres::{Cluster, Variant};
use maple_router::db::migrations::CONTENT;
use maple_router::db::migrations::online::{self, FinalizedColumn, Patience};
use tokio_postgres::Client;

use crate::harness::{Scene, WITH_CONTENT, form, zoe};

fn said(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| format!("{} {}", error.code().code(), error.message()))
}

async fn refused(client: &Client, sql: &str, why: &str) {
    let error = client.batch_execute(sql).await.expect_err(sql);
    // What a transaction began is given up.
    drop(client.batch_execute("ROLLBACK").await);
    let said = said(&error);
    assert!(said.contains(why), "{sql}\n{said}");
}

#[tokio::test]
async fn the_daemon_may_read_versions_and_write_none() {
    let scene = Scene::new().await;
    let draft = scene.draft(&form("f", "one")).await;
    let app = scene.db.client_as("forms_app").await.expect("forms_app");
    let id = draft.id;
    for sql in [
        "INSERT INTO content.versions (id, form_id, number, digest, source, author)
           VALUES (gen_random_uuid(), 'f', 9, sha256('x'), 'yaml', 'a')",
        "UPDATE content.versions SET state = 'tombstoned'",
        "DELETE FROM content.versions",
        "UPDATE content.entries SET content = '{}'",
        "DELETE FROM content.entries",
        "INSERT INTO content.decisions (version_id, command, digest, policy, allowed, actor)
           SELECT id, 'publish', digest, digest, true, 'a' FROM content.versions",
        "INSERT INTO content.current (form_id, version_id, moved_by) SELECT form_id, id, 'a' FROM content.versions",
        "SELECT content.is_allowed(NULL, NULL, NULL)",
    ] {
        refused(&app, sql, "42501").await;
    }
    let sql = format!("SELECT content.promote('{id}', NULL, sha256('p'), 'a', 'admin', NULL)");
    refused(&app, &sql, "it is not published").await;
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.decisions").await, 0, "nothing is left of it");
}

#[tokio::test]
async fn the_publisher_may_publish_nothing_that_was_not_allowed_in_that_transaction() {
    let scene = Scene::new().await;
    let id = scene.draft(&form("f", "one")).await.id;
    let loader = scene.db.client_as("forms_loader").await.expect("forms_loader");
    let publish = format!("UPDATE content.versions SET state = 'published' WHERE id = '{id}'");
    refused(&loader, &publish, "nobody has allowed it in this transaction").await;
    let decide = |digest: &str, command: &str, allowed: bool| {
        let reasons = if allowed { "[]" } else { "[\"r\"]" };
        format!(
            "INSERT INTO content.decisions (version_id, command, digest, policy, allowed, reasons, actor)
             SELECT id, '{command}', {digest}, sha256('p'), {allowed}, '{reasons}', 'a' FROM content.versions WHERE id = '{id}'"
        )
    };
    // Yesterday's decision, one about other content, about another command, and a refusal.
    loader.batch_execute(&decide("digest", "publish", true)).await.expect("a decision by itself");
    refused(&loader, &publish, "nobody has allowed it").await;
    for decision in [
        decide("sha256('other')", "publish", true),
        decide("digest", "promote", true),
        decide("digest", "publish", false),
    ] {
        refused(&loader, &format!("BEGIN; {decision}; {publish}; COMMIT"), "nobody has allowed it").await;
    }
    refused(&loader, "UPDATE content.decisions SET allowed = true", "42501").await;
    refused(&loader, "DELETE FROM content.decisions", "42501").await;
    let sound = format!("BEGIN; {}; {publish}; COMMIT", decide("digest", "publish", true));
    loader.batch_execute(&sound).await.expect("published");
}

#[tokio::test]
async fn what_is_published_does_not_change_whoever_writes() {
    let scene = Scene::new().await;
    let draft = scene.draft(&form("f", "one")).await;
    let loader = scene.db.client_as("forms_loader").await.expect("forms_loader");
    let more = "INSERT INTO content.entries (version_id, kind, key, content) SELECT id, 'template', 'x', '{}' FROM content.versions";
    // Not even while it is a draft: the digest that is reviewed is the content's.
    refused(&loader, more, "its content does not change").await;
    scene.publisher.publish(draft.id, &draft.digest, &zoe()).await.expect("published");
    for sql in ["UPDATE content.entries SET content = '{}'", "DELETE FROM content.entries", more] {
        refused(&scene.eyes, sql, "its content does not change").await;
    }
    for column in [
        "digest = sha256('x')",
        "number = 7",
        "author = 'x'",
        "form_id = 'g'",
        "published_at = now() - interval '1 day'",
    ] {
        refused(
            &scene.eyes,
            &format!("UPDATE content.versions SET {column}"),
            "what was loaded does not change",
        )
        .await;
    }
    refused(&scene.eyes, "UPDATE content.versions SET state = 'draft'", "no way from published to draft")
        .await;
    refused(
        &scene.eyes,
        "INSERT INTO content.versions (id, form_id, number, digest, source, author, state, published_at)
           VALUES (gen_random_uuid(), 'f', 9, sha256('x'), 'yaml', 'a', 'published', now())",
        "it is born a draft",
    )
    .await;
}

#[tokio::test]
async fn a_loader_that_writes_the_same_passes_and_one_that_changes_a_managed_form_fails_at_commit() {
    let scene = Scene::new().await;
    let one = form("f", "one");
    scene.followed(&one).await;
    scene.loader(&one).await.expect("the nightly load of the same content passes");
    let before = scene.rows("f").await;
    let refusal = scene.loader(&form("f", "two")).await.expect_err("another text");
    assert!(
        refusal.contains("form f is managed: its rows would differ from its current version 1"),
        "{refusal}"
    );
    let loader = scene.db.client_as("forms_loader").await.expect("forms_loader");
    for sql in [
        "DELETE FROM actions WHERE form_id = 'f'",
        "UPDATE actions SET destination = 'x@example.org' WHERE form_id = 'f'",
        "UPDATE templates SET subject = 'x' WHERE id = 'f-mail'",
        "INSERT INTO actions (form_id, action_order, action_type, destination) VALUES ('f', 2, 'email_raw', 'x@example.org')",
        "DELETE FROM forms WHERE id = 'f'",
    ] {
        refused(&loader, sql, "MV005").await;
    }
    assert_eq!(scene.rows("f").await, before);
    scene.loader(&form("g", "one")).await.expect("a form that is not managed is its loader's");
    scene.loader(&form("g", "two")).await.expect("and may change");
}

#[tokio::test]
async fn managed_forms_that_share_a_template_have_to_agree() {
    let scene = Scene::new().await;
    scene.followed(&form("f", "one")).await;
    let mut other = form("g", "one");
    let template = other.templates.remove("g-mail").expect("there");
    other.templates.insert("f-mail".to_owned(), template);
    other.actions[0].template = Some("f-mail".to_owned());
    scene.followed(&other).await;
    let two = scene.published(&form("f", "two")).await;
    let current = scene.current("f").await;
    let error = scene.publisher.promote(two.id, current, None, &zoe()).await.expect_err("g disagrees");
    assert!(error.to_string().contains("also another managed form's"), "{error}");
    assert_eq!(scene.current("f").await, current, "nothing moved");
    assert!(scene.rows("f").await.contains("one"));
}

#[tokio::test]
async fn the_way_back_leaves_forms_as_they_are_and_the_way_forth_works_again() {
    let cluster = Cluster::shared().await.expect("a cluster");
    let db = cluster
        .database(Variant { router: false, content: false, ..WITH_CONTENT })
        .await
        .expect("a database");
    let mut owner = db.owner().await.expect("the owner");
    let (patience, silent) = (Patience::default(), |_: &str| {});
    online::migrate(&mut owner, &FinalizedColumn::Is(None), patience, &silent).await.expect("schema router");
    online::migrate_upper(&mut owner, &CONTENT, patience, &silent).await.expect("schema content");
    let scene = Scene::on(db).await;
    scene.followed(&form("f", "one")).await;
    let rows = scene.rows("f").await;
    online::back_upper(&mut owner, &CONTENT, "002", patience, &silent).await.expect("back");
    let left: i64 = scene.one("SELECT count(*) FROM actions WHERE form_id = 'f'").await;
    assert_eq!(left, 1);
    scene.loader(&form("f", "two")).await.expect("the loader's again");
    assert_eq!(
        scene.one::<i64>("SELECT count(*) FROM router.transitions WHERE lifecycle = 'version'").await,
        0
    );
    online::migrate_upper(&mut owner, &CONTENT, patience, &silent).await.expect("forth");
    let again = scene.rows("f").await;
    assert!(rows.contains("one") && again.contains("two"), "{again}");
}
