//! Sample forms, the loader and submissions, against a real database and as the roles that do it in production.

use std::collections::BTreeSet;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed, load, load_samples, samples, scan};
use devkit::postgres::{Cluster, TestDatabase, Variant};

async fn database() -> TestDatabase {
    let db =
        Cluster::shared().await.expect("a cluster").database(Variant::default()).await.expect("a database");
    load_samples(&db).await.expect("the samples");
    db
}

async fn action_ids(db: &TestDatabase) -> BTreeSet<i64> {
    let app = db.client_as("forms_app").await.expect("forms_app");
    app.query("SELECT id FROM actions", &[]).await.expect("actions").iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_reload_keeps_forms_and_changes_action_ids() {
    let db = database().await;
    let before = action_ids(&db).await;
    let expected: usize = samples().expect("samples").iter().map(|form| form.actions.len()).sum();
    assert_eq!(before.len(), expected);
    load_samples(&db).await.expect("again");
    let after = action_ids(&db).await;
    assert_eq!(after.len(), expected);
    assert!(before.is_disjoint(&after), "{before:?} {after:?}");
}

#[tokio::test]
async fn the_samples_cover_what_routing_meets() {
    type Shape = (usize, BTreeSet<String>);
    let shapes: Vec<Shape> = samples()
        .expect("samples")
        .iter()
        .map(|form| (form.actions.len(), form.actions.iter().map(|action| action.kind.clone()).collect()))
        .collect();
    let has = |wanted: &dyn Fn(&Shape) -> bool| shapes.iter().any(wanted);
    let only = |kind: &str| BTreeSet::from([kind.to_owned()]);
    assert_eq!(shapes.len(), 8);
    assert!(has(&|(actions, _)| *actions == 0));
    assert!(has(&|(actions, _)| *actions > 2));
    assert!(has(&|(_, kinds)| *kinds == only("happyfox_template")));
    assert!(has(&|(_, kinds)| *kinds == only("email_raw")));
    assert!(has(&|(_, kinds)| kinds.contains("happyfox_template") && kinds.contains("email_template")));
}

#[tokio::test]
async fn a_bad_form_leaves_nothing_behind() {
    let db = database().await;
    let before = action_ids(&db).await;
    let mut loader = db.client_as("forms_loader").await.expect("forms_loader");
    let mut bad = Form::new("contact").mail_to("a@example.org");
    bad.actions[0].template = Some("no-such-template".to_owned());
    load(&mut loader, &[bad]).await.expect_err("it names a template that is not there");
    assert_eq!(action_ids(&db).await, before);
    assert!(Form::from_yaml("id: x\nname: X\nactoins: []").is_err(), "a misspelt key");
}

#[tokio::test]
async fn a_submission_is_seeded_as_finalize_commits_it_and_scanned() {
    let db = database().await;
    let app = db.client_as("forms_app").await.expect("forms_app");
    let seeded = SubmissionSeed::of("upload")
        .field("name", "Ada")
        .field("email", "ada@example.org")
        .attachment("cv.pdf", "pending")
        .attachment("photo.jpg", "clean")
        .age(Duration::from_secs(3600))
        .insert(&app)
        .await
        .expect("seeded");
    let sql = "SELECT s.status::text, s.routing_result::text, now() - s.updated_at > '59 minutes',
                      (SELECT string_agg(field_key || '=' || field_value, ',' ORDER BY position)
                       FROM submission_fields WHERE submission_id = s.id),
                      (SELECT string_agg(gcs_bucket || '/' || gcs_object || ' ' || clamav_status, ',' ORDER BY file_name)
                       FROM attachments WHERE submission_id = s.id)
               FROM submissions s WHERE id = $1";
    let row = app.query_one(sql, &[&seeded.id]).await.expect("the row");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1), row.get(2)), ("received", "{}", true));
    assert_eq!(row.get::<_, &str>(3), "name=Ada,email=ada@example.org");
    let id = seeded.id;
    let files = format!(
        "maple-uploads/submissions/{id}/1-cv.pdf pending,maple-uploads/submissions/{id}/2-photo.jpg clean"
    );
    assert_eq!(row.get::<_, &str>(4), files);

    let scanner = db.client_as("forms_scanner").await.expect("forms_scanner");
    scan(&scanner, seeded.attachments[0], "infected").await.expect("marked");
    let sql = "SELECT clamav_status::text FROM attachments WHERE id = $1";
    let status: String = app.query_one(sql, &[&seeded.attachments[0]]).await.expect("status").get(0);
    assert_eq!(status, "infected");
    scan(&scanner, id, "clean").await.expect_err("not an attachment");
}
