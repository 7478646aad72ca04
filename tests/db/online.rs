//! Schema router comes to a database in use and goes again: others are at work meanwhile, and none of them fails.

use std::sync::Mutex;
use std::time::Duration;

use devkit::postgres::{TestDatabase, Variant};
use maple_router::db::contract::inspect;
use maple_router::db::migrations::online::{
    self, FinalizedColumn, INDEXES, Patience, Remains, all_indexes, build, remains,
};
use maple_router::db::migrations::{self, MigrateError, MigrationSet, ROUTER};
use maple_router::ports::CheckLevel;
use tokio_postgres::Client;

use super::{database, pool};

const NONE: FinalizedColumn = FinalizedColumn::Is(None);
const SHORT: Patience = Patience {
    lock: Duration::from_millis(100),
    index: Duration::from_secs(60),
    tries: 40,
    drain: Duration::ZERO,
};

fn silent(_: &str) {}

async fn there(db: &TestDatabase) -> online::Routed {
    let mut owner = db.owner().await.expect("owner");
    online::migrate(&mut owner, &NONE, SHORT, &silent).await.expect("migrated")
}

async fn back(db: &TestDatabase, stem: &str, force: bool) -> Result<i64, MigrateError> {
    let mut owner = db.owner().await.expect("owner");
    online::back(&mut owner, stem, force, SHORT, &silent).await
}

async fn submit(db: &TestDatabase) {
    let app = db.client_as("forms_app").await.expect("forms_app");
    let sql = "INSERT INTO forms (id, name) VALUES ('f', 'F') ON CONFLICT DO NOTHING";
    db.alter(sql).await.expect("a form");
    app.batch_execute("INSERT INTO submissions (form_id) VALUES ('f')").await.expect("submitted");
}

/// Waits until somebody stands in the queue of a lock.
async fn queueing(eyes: &Client) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for _ in 0..3000 {
        if eyes.query_one(sql, &[]).await.expect("sessions").get::<_, i64>(0) > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("nobody waits");
}

#[tokio::test]
async fn there_and_back_and_there_again() {
    let db = database(Variant::default()).await;
    let first = there(&db).await;
    assert_eq!(first.built.len(), all_indexes().count());
    assert_eq!(first.applied.len(), ROUTER.files.len());
    let again = there(&db).await;
    assert!(again.built.is_empty() && again.applied.is_empty() && !again.column_changed, "{again:?}");
    submit(&db).await;
    let owner = db.owner().await.expect("owner");
    let holds = remains(&owner).await.expect("asked");
    assert_eq!(holds, Some(Remains { undelivered: 1, ..Remains::default() }));
    assert_eq!(back(&db, "002", true).await.expect("taken back"), 1);
    assert_eq!(remains(&owner).await.expect("asked"), None);
    submit(&db).await;
    let refused = back(&db, "002", true).await.expect_err("it is not there");
    assert!(matches!(refused, MigrateError::NoWayBack { .. }), "{refused}");
    assert_eq!(there(&db).await.applied.len(), ROUTER.files.len() - 1, "002 and what came after it");
    submit(&db).await;
    assert_eq!(remains(&owner).await.expect("asked").expect("an outbox").undelivered, 1);
    assert_eq!(back(&db, "003", false).await.expect("taken back"), 0);
    assert_eq!(
        remains(&owner).await.expect("asked").expect("an outbox").undelivered,
        1,
        "no event goes with 003"
    );
    assert!(back(&db, "003", false).await.is_err(), "it is not there any more");
    assert_eq!(there(&db).await.applied.len(), ROUTER.files.len() - 2, "003, and what came after it");
}

#[tokio::test]
async fn nothing_undelivered_is_lost_unasked() {
    let db = database(Variant::default()).await;
    there(&db).await;
    let app = db.client_as("forms_app").await.expect("forms_app");
    submit(&db).await;
    for state in
        ["'pending'", "'retry_wait'", "'delivering', lease_token = gen_random_uuid(), leased_until = now()"]
    {
        app.batch_execute(&format!("UPDATE router.outbox SET state = {state}")).await.expect(state);
        let refused = back(&db, "2", false).await.expect_err(state);
        assert!(matches!(refused, MigrateError::Undelivered { left: 1 }), "{refused}");
    }
    // Writers are gone, so that the end can be waited for. An event that is delivered, given up on (its record
    // stays) or only a canary delays nothing.
    submit(&db).await;
    app.batch_execute(
        "INSERT INTO router.outbox (kind, payload) VALUES ('canary', '{}');
         INSERT INTO router.outbox (kind, payload, state) VALUES ('routing.ready', '{}', 'dead_letter');
         UPDATE router.outbox SET state = 'delivered', delivered_at = now(), lease_token = NULL, leased_until = NULL
         WHERE id = 1",
    )
    .await
    .expect("settled");
    assert_eq!(back(&db, "002_outbox", false).await.expect("taken back"), 0);
}

/// Events written before the triggers went are delivered first; the outbox goes after that.
#[tokio::test]
async fn the_way_back_waits_for_what_is_being_delivered() {
    let db = database(Variant::default()).await;
    there(&db).await;
    submit(&db).await;
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let mut owner = db.owner().await.expect("owner");
    let patient = Patience { drain: Duration::from_secs(60), ..SHORT };
    let taking = tokio::spawn(async move {
        let report = |line: &str| drop(sender.send(line.to_owned()));
        online::back(&mut owner, "002", false, patient, &report).await
    });
    let line = lines.recv().await.expect("it waits");
    assert!(line.contains("1 are to be delivered"), "{line}");
    let app = db.client_as("forms_app").await.expect("forms_app");
    app.batch_execute("UPDATE router.outbox SET state = 'delivered', delivered_at = now()")
        .await
        .expect("delivered");
    assert_eq!(taking.await.expect("no panic").expect("taken back"), 0);
}

/// An event that comes after a check found nothing to deliver is not lost: whoever redrives, or had started before
/// the triggers went, locks the outbox until his commit.
#[tokio::test]
async fn what_comes_at_the_last_moment_is_not_lost_either() {
    let db = database(Variant::default()).await;
    there(&db).await;
    let (eyes, writer) =
        (db.superuser().await.expect("superuser"), db.client_as("forms_app").await.expect("forms_app"));
    let late = "BEGIN; INSERT INTO router.outbox (kind, payload) VALUES ('routing.ready', '{}')";
    writer.batch_execute(late).await.expect("begun");
    let mut owner = db.owner().await.expect("owner");
    let patient = Patience { lock: Duration::from_secs(10), ..SHORT };
    let taking = tokio::spawn(async move { online::back(&mut owner, "002", false, patient, &silent).await });
    queueing(&eyes).await;
    writer.batch_execute("COMMIT").await.expect("committed");
    let refused = taking.await.expect("no panic").expect_err("one is left");
    assert!(matches!(refused, MigrateError::Undelivered { left: 1 }), "{refused}");
    assert_eq!(back(&db, "002", true).await.expect("taken back"), 1, "it was still there");
}

/// A scanner has attachments and comes for submissions at its commit: it never meets us holding these and waiting for
/// those.
#[tokio::test]
async fn a_scanner_at_its_commit_is_not_in_the_way() {
    let db = database(Variant::default()).await;
    there(&db).await;
    submit(&db).await;
    let eyes = db.superuser().await.expect("superuser");
    db.alter(
        "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) SELECT id, 'n', 'b', 'o' FROM submissions",
    )
    .await
    .expect("an attachment");
    let scanner = db.client_as("forms_scanner").await.expect("forms_scanner");
    scanner.batch_execute("BEGIN; UPDATE attachments SET clamav_status = 'clean'").await.expect("scanning");
    let mut owner = db.owner().await.expect("owner");
    let once = Patience { lock: Duration::from_secs(60), tries: 1, ..SHORT };
    let taking = tokio::spawn(async move { online::back(&mut owner, "002", true, once, &silent).await });
    queueing(&eyes).await;
    scanner.batch_execute("COMMIT").await.expect("committed");
    assert_eq!(taking.await.expect("no panic").expect("at the first try"), 2);
}

/// A build that was killed leaves an index that no statement uses and every write pays for.
#[tokio::test]
async fn what_a_killed_build_left_is_built_anew() {
    let db = database(Variant::default()).await;
    let (name, on) = INDEXES[4];
    db.alter(&build(name, on)).await.expect("built");
    let eyes = db.superuser().await.expect("superuser");
    let spoil =
        format!("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'public.{name}'::regclass");
    eyes.batch_execute(&spoil).await.expect("as a killed build leaves it");
    let reported = Mutex::new(Vec::new());
    let mut owner = db.owner().await.expect("owner");
    let report = |line: &str| reported.lock().expect("a lock").push(line.to_owned());
    let routed = online::migrate(&mut owner, &NONE, SHORT, &report).await.expect("migrated");
    assert!(routed.built.contains(&name), "{routed:?}");
    assert!(reported.lock().expect("a lock").iter().any(|line| line.contains(name)));
    let valid = format!("SELECT indisvalid FROM pg_index WHERE indexrelid = 'public.{name}'::regclass");
    assert!(eyes.query_one(&valid, &[]).await.expect("the index").get::<_, bool>(0));
}

/// A writer that takes a while: we give up, let everybody who came meanwhile pass, and try again.
#[tokio::test]
async fn a_long_writer_is_waited_for_in_short_tries() {
    for direction in ["there", "back"] {
        let db = database(Variant::default()).await;
        if direction == "back" {
            there(&db).await;
        } else {
            // Building an index waits for every older transaction, and stops nobody: it is not what is asked here.
            for (name, on) in all_indexes() {
                db.alter(&build(name, on)).await.expect("built");
            }
        }
        db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("a form");
        for table in ["submissions", "attachments"] {
            let writer = db.client_as("forms_app").await.expect("forms_app");
            writer
                .batch_execute(&format!("BEGIN; LOCK TABLE {table} IN ROW EXCLUSIVE MODE"))
                .await
                .expect("in use");
            let (sender, mut tries) = tokio::sync::mpsc::unbounded_channel();
            let mut owner = db.owner().await.expect("owner");
            let working = tokio::spawn(async move {
                let report = |line: &str| drop(sender.send(line.to_owned()));
                if direction == "back" {
                    online::back(&mut owner, "002", true, SHORT, &report).await.map(|_| ())
                } else {
                    online::migrate(&mut owner, &NONE, SHORT, &report).await.map(|_| ())
                }
            });
            for _ in 0..2 {
                let line =
                    tokio::time::timeout(Duration::from_secs(60), tries.recv()).await.expect("a try in vain");
                assert!(line.as_deref().is_some_and(|line| line.contains("in use")), "{line:?}");
            }
            submit(&db).await;
            writer.batch_execute("COMMIT").await.expect("done");
            working.await.expect("no panic").unwrap_or_else(|error| panic!("{direction} {table}: {error}"));
            if direction == "back" {
                there(&db).await;
            } else {
                back(&db, "002", true).await.expect("back for the other table");
                for (name, on) in all_indexes() {
                    db.alter(&build(name, on)).await.expect("built");
                }
            }
        }
    }
}

/// One has written attachments and comes for submissions while we lock those and wait for these: we are the one
/// that gives up, whichever deadlock detector looks first.
#[tokio::test]
async fn a_writer_in_the_other_order_does_not_fail() {
    let db = database(Variant::default()).await;
    for (name, on) in all_indexes() {
        db.alter(&build(name, on)).await.expect("built");
    }
    db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("a form");
    let eyes = db.superuser().await.expect("superuser");
    let writer = db.client_as("forms_app").await.expect("forms_app");
    writer.batch_execute("BEGIN; LOCK TABLE attachments IN ROW EXCLUSIVE MODE").await.expect("scanning");
    let mut owner = db.owner().await.expect("owner");
    let patient = Patience { lock: Duration::from_secs(3), ..SHORT };
    let working = tokio::spawn(async move { online::migrate(&mut owner, &NONE, patient, &silent).await });
    queueing(&eyes).await;
    writer
        .batch_execute("INSERT INTO submissions (form_id) VALUES ('f')")
        .await
        .expect("it waits, and goes on");
    writer.batch_execute("COMMIT").await.expect("committed");
    working.await.expect("no panic").expect("migrated at a later try");
}

#[tokio::test]
async fn tries_come_to_an_end() {
    let db = database(Variant::default()).await;
    there(&db).await;
    let writer = db.client_as("forms_app").await.expect("forms_app");
    writer.batch_execute("BEGIN; LOCK TABLE submissions IN ROW EXCLUSIVE MODE").await.expect("in use");
    let mut owner = db.owner().await.expect("owner");
    let hasty = Patience { lock: Duration::from_millis(20), tries: 2, ..SHORT };
    let gave_up = online::back(&mut owner, "002", true, hasty, &silent).await.expect_err("in vain");
    assert!(gave_up.to_string().contains("lock timeout"), "{gave_up}");
    writer.batch_execute("COMMIT").await.expect("done");
    submit(&db).await;
    assert_eq!(remains(&owner).await.expect("asked").expect("still there").undelivered, 1);
}

/// The one builds an index, which waits for every statement under way: the other's waiting must not be one.
#[tokio::test]
async fn two_at_once_do_not_wait_in_a_circle() {
    let db = database(Variant::default()).await;
    let (one, two) = tokio::join!(there(&db), there(&db));
    assert_eq!(one.applied.len() + two.applied.len(), ROUTER.files.len(), "{one:?} {two:?}");
    assert_eq!(one.built.len() + two.built.len(), all_indexes().count());
}

/// A database that has had 001 since the last release.
#[tokio::test]
async fn an_older_schema_is_brought_up_to_date() {
    let db = database(Variant::default()).await;
    let older = MigrationSet { files: &ROUTER.files[..1], ..ROUTER };
    let mut owner = db.owner().await.expect("owner");
    migrations::run(&mut owner, &older).await.expect("as of the last release");
    let detail = |lines: Vec<maple_router::ports::CheckLine>| {
        lines.into_iter().find(|line| line.name == "router_schema").expect("the line")
    };
    let line = detail(inspect(&pool(&db), &crate::contract_options()).await);
    assert_eq!(line.level, CheckLevel::Warn);
    assert!(line.detail.contains("without the outbox"), "{line:?}");
    let older = MigrationSet { files: &ROUTER.files[..2], ..ROUTER };
    migrations::run(&mut owner, &older).await.expect("as of the next release");
    let line = detail(inspect(&pool(&db), &crate::contract_options()).await);
    assert_eq!(line.level, CheckLevel::Warn);
    assert!(line.detail.contains("cannot be prepared"), "{line:?}");
    assert_eq!(there(&db).await.applied.len(), ROUTER.files.len() - 2);
    let line = detail(inspect(&pool(&db), &crate::contract_options()).await);
    assert_eq!(line.level, CheckLevel::Ok, "{line:?}");
}

#[tokio::test]
async fn the_configured_column_is_passed_on_and_only_if_there_is_a_configuration() {
    let db = database(Variant::default()).await;
    db.alter("ALTER TABLE submissions ADD finalized_at timestamptz").await.expect("a column");
    let mut owner = db.owner().await.expect("owner");
    let named = FinalizedColumn::Is(Some("finalized_at".to_owned()));
    for (column, changes) in [
        (&named, true),
        (&named, false),
        (&FinalizedColumn::AsItIs, false),
        (&named, false),
        (&NONE, true),
        (&NONE, false),
    ] {
        let routed = online::migrate(&mut owner, column, SHORT, &silent).await.expect("migrated");
        assert_eq!(routed.column_changed, changes, "{column:?}");
    }
    let nowhere = FinalizedColumn::Is(Some("nowhere".to_owned()));
    online::migrate(&mut owner, &nowhere, SHORT, &silent).await.expect_err("no such column");
}
