//! The documented statement answers as the router's own predicate does, to every role that may ask.

use devkit::forms::SubmissionSeed;
use devkit::postgres::{TestDatabase, Variant};
use maple_router::db::readiness::Readiness;
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::harness::{Python, database, readiness, root, statement, submission};

/// Status of the submission, statuses of its attachments; then state and pending.
type Case = (&'static str, &'static [Option<&'static str>], &'static str, i32);

const CASES: [Case; 17] = [
    ("received", &[], "ready", 0),
    ("received", &[Some("clean")], "ready", 0),
    ("received", &[Some("clean"), Some("clean")], "ready", 0),
    ("received", &[Some("pending")], "waiting", 1),
    ("received", &[Some("clean"), Some("pending"), Some("pending")], "waiting", 2),
    ("received", &[None], "waiting", 1),
    ("received", &[Some("clean"), None], "waiting", 1),
    ("received", &[Some("error")], "waiting", 1),
    ("received", &[None, Some("error"), Some("pending")], "waiting", 3),
    ("received", &[Some("infected")], "infected", 0),
    ("received", &[Some("clean"), Some("infected"), Some("pending"), None], "infected", 2),
    ("processing", &[], "closed", 0),
    ("processing", &[Some("clean"), Some("pending")], "closed", 1),
    ("routed", &[Some("clean")], "closed", 0),
    ("failed", &[Some("infected")], "closed", 0),
    ("failed", &[Some("infected"), Some("pending")], "closed", 1),
    ("purged", &[], "closed", 0),
];

/// Statuses unknown to the contract, and none at all: neither may pass for clean.
async fn wider(variant: Variant) -> TestDatabase {
    let db = database(variant).await;
    db.alter(
        "ALTER TABLE submissions ADD COLUMN finalized_at timestamptz;
         ALTER TABLE attachments ALTER COLUMN clamav_status DROP NOT NULL;
         ALTER TYPE clamav_status ADD VALUE 'error';",
    )
    .await
    .expect("a wider backend");
    db
}

async fn insert(app: &Client, status: &str, statuses: &[Option<&str>]) -> Uuid {
    let id = SubmissionSeed::of("f").status(status).insert(app).await.expect("a row").id;
    for status in statuses {
        let sql = "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
                   VALUES ($1, 'n', 'b', 'o', $2::text::clamav_status)";
        app.execute(sql, &[&id, status]).await.expect("an attachment");
    }
    id
}

/// State and pending by the one fragment that claim and `begin` use.
async fn by_the_router(app: &Client, id: Uuid, readiness: &Readiness) -> (String, i32) {
    let sql = format!(
        "SELECT s.status::text, {}, {}, {} FROM submissions s WHERE s.id = $1",
        readiness.any_infected("s"),
        readiness.is_ready("s"),
        readiness.pending_count("s"),
    );
    let row = app.query_one(&sql, &[&id]).await.expect("the fragment");
    let (status, infected, ready, pending): (String, bool, bool, i64) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    let state = match (status.as_str(), infected, ready) {
        ("received", true, _) => "infected",
        ("received", false, true) => "ready",
        ("received", false, false) => "waiting",
        _ => "closed",
    };
    (state.to_owned(), i32::try_from(pending).expect("few"))
}

#[tokio::test]
async fn every_case_is_answered_as_the_router_sees_it_whoever_asks() {
    let db = wider(Variant::default()).await;
    let app = db.client_as("forms_app").await.expect("forms_app");
    let scanner = db.client_as("forms_scanner").await.expect("forms_scanner");
    let mut backend = Python::connect(&db, "forms_app", None).await;
    let mut worker = Python::connect(&db, "forms_scanner", None).await;
    for (status, statuses, state, pending) in CASES {
        let id = insert(&app, status, statuses).await;
        let expected = (state.to_owned(), pending);
        let case = format!("{status} {statuses:?}");
        assert_eq!(by_the_router(&app, id, &Readiness::default()).await, expected, "{case}");
        for client in [&app, &scanner] {
            assert_eq!(readiness(client, id).await, Some(expected.clone()), "{case}");
        }
        for python in [&mut backend, &mut worker] {
            let reply = python.ask(json!({"do": "evaluate", "submission": id})).await;
            assert_eq!(reply, json!([state, pending]), "{case}");
        }
    }
}

#[tokio::test]
async fn who_is_unknown_or_deleted_has_no_row() {
    let db = database(Variant::default()).await;
    let (eyes, app) =
        (db.superuser().await.expect("superuser"), db.client_as("forms_app").await.expect("app"));
    let mut python = Python::connect(&db, "forms_app", None).await;
    assert_eq!(readiness(&app, Uuid::nil()).await, None);
    let seeded = submission(&db, &["clean", "pending"]).await;
    let others = submission(&db, &["infected"]).await;
    eyes.execute("DELETE FROM attachments WHERE id = $1", &[&seeded.attachments[1]]).await.expect("deleted");
    assert_eq!(readiness(&app, seeded.id).await, Some(("ready".to_owned(), 0)), "what is left is clean");
    eyes.execute("DELETE FROM submissions WHERE id = $1", &[&seeded.id]).await.expect("deleted");
    assert_eq!(readiness(&app, seeded.id).await, None);
    assert_eq!(readiness(&app, others.id).await, Some(("infected".to_owned(), 0)));
    for order in [
        json!({"do": "evaluate", "submission": seeded.id}),
        json!({"do": "mark", "attachment": seeded.attachments[0], "status": "clean"}),
    ] {
        let error = python.refused(order).await;
        assert!(error.starts_with("LookupError: no "), "{error}");
    }
}

/// The client runs exactly the statements documented for other languages.
#[tokio::test]
async fn the_client_runs_the_documented_statements() {
    let db = database(Variant::default()).await;
    let mut python = Python::connect(&db, "forms_app", None).await;
    let run: Vec<String> =
        serde_json::from_value(python.ask(json!({"do": "statements"})).await).expect("texts");
    let readme = std::fs::read_to_string(root().join("contrib/README.md")).expect("README");
    let blocks = readme.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let documented: Vec<String> =
        blocks.map(str::to_owned).chain([statement()]).map(|sql| bare(&sql)).collect();
    assert_eq!(run.iter().map(|sql| bare(sql)).collect::<Vec<_>>(), documented);
}

/// A statement without comments, indentation, and the driver's way to write a parameter.
fn bare(sql: &str) -> String {
    let lines = sql.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    let sql = lines.collect::<Vec<_>>().join("\n");
    ["%s", "$1", "$2"].iter().fold(sql, |sql, parameter| sql.replace(parameter, "?"))
}

/// The line that stands there as a comment, put in.
fn with_finalized_column() -> String {
    let commented = "-- WHEN s.finalized_at IS NULL";
    let sql = statement();
    assert_eq!(sql.matches(commented).count(), 1);
    sql.replace(commented, commented.trim_start_matches("-- "))
}

/// Every case, finalized and not; `ask` answers as somebody else does.
async fn cases_with_finalized_column(db: &TestDatabase, ask: impl AsyncFn(&Client, Uuid) -> (String, i32)) {
    let app = db.client_as("forms_app").await.expect("forms_app");
    let sql = with_finalized_column();
    for (status, statuses, ..) in CASES {
        for finalized in [false, true] {
            let id = insert(&app, status, statuses).await;
            let set = "UPDATE submissions SET finalized_at = CASE WHEN $2 THEN now() END WHERE id = $1";
            app.execute(set, &[&id, &finalized]).await.expect("finalized");
            let row = app.query_one(&sql, &[&id]).await.expect("an answer");
            let found: (String, i32) = (row.get(0), row.get(1));
            assert_eq!(found, ask(&app, id).await, "{status} {statuses:?} {finalized}");
        }
    }
}

#[tokio::test]
async fn a_backend_that_inserts_before_finalize_uncomments_one_line() {
    let db = wider(Variant::default()).await;
    let readiness = Readiness::new(Some("finalized_at")).expect("a column");
    cases_with_finalized_column(&db, async |app, id| by_the_router(app, id, &readiness).await).await;
}

/// State and pending by the function of schema `router`.
async fn by_the_schema(app: &Client, id: Uuid) -> Option<(String, i32)> {
    let sql = "SELECT state, pending FROM router.evaluate_routing_readiness($1)";
    app.query_opt(sql, &[&id]).await.expect("the function").map(|row| (row.get(0), row.get(1)))
}

#[tokio::test]
async fn the_function_of_schema_router_answers_the_same() {
    let db = wider(Variant { router: true, ..Variant::default() }).await;
    let app = db.client_as("forms_app").await.expect("forms_app");
    for (status, statuses, state, pending) in CASES {
        let id = insert(&app, status, statuses).await;
        let found = [by_the_schema(&app, id).await, readiness(&app, id).await];
        assert_eq!(found, [(); 2].map(|()| Some((state.to_owned(), pending))), "{status} {statuses:?}");
    }
    assert_eq!(by_the_schema(&app, Uuid::nil()).await, None);
    db.alter("SELECT router.set_finalized_column('finalized_at')").await.expect("named");
    let by_the_schema = async |app: &Client, id| by_the_schema(app, id).await.expect("a row");
    cases_with_finalized_column(&db, by_the_schema).await;
}

/// The words of the wire are the words of the database.
#[tokio::test]
async fn the_wire_speaks_the_real_enum() {
    let db = database(Variant::default()).await;
    let mut python = Python::connect(&db, "forms_app", None).await;
    let sql = "SELECT unnest(enum_range(NULL::submission_status))::text";
    let words: Vec<String> = db
        .client_as("forms_app")
        .await
        .expect("app")
        .query(sql, &[])
        .await
        .expect("words")
        .iter()
        .map(|row| row.get(0))
        .collect();
    let (visible, gone): (Vec<_>, Vec<_>) = words.iter().partition(|word| *word != "purged");
    assert_eq!(visible, ["received", "processing", "routed", "failed"]);
    for word in visible {
        assert_eq!(python.ask(json!({"do": "wire", "status": word})).await, json!(word));
    }
    for word in gone.into_iter().map(String::as_str).chain(["submitted", "deferred", ""]) {
        let error = python.refused(json!({"do": "wire", "status": word})).await;
        assert!(error.starts_with("ValueError: "), "{error}");
    }
}
