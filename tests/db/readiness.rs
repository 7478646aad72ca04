//! The readiness predicates on real rows.

use devkit::postgres::Variant;
use maple_router::db::contract;
use maple_router::db::readiness::Readiness;
use maple_router::ports::CheckLevel;

use super::database;

/// Statuses of the attachments, finalized; then the expected answer: ready, ready without the column, infected, pending.
type Case = (&'static [Option<&'static str>], bool, bool, bool, bool, i64);

#[tokio::test]
async fn every_mix_of_attachments_has_its_answer() {
    let db = database(Variant::default()).await;
    // A status unknown to the contract, and none at all: neither may pass for clean.
    db.alter(
        "INSERT INTO forms (id, name) VALUES ('f', 'F');
         ALTER TABLE submissions ADD COLUMN finalized_at timestamptz;
         ALTER TABLE attachments ALTER COLUMN clamav_status DROP NOT NULL;
         ALTER TYPE clamav_status ADD VALUE 'error';",
    )
    .await
    .expect("a wider backend");
    let app = db.client_as("forms_app").await.expect("forms_app");
    let table: [Case; 11] = [
        (&[], true, true, true, false, 0),
        (&[], false, false, true, false, 0),
        (&[Some("clean")], true, true, true, false, 0),
        (&[Some("clean"), Some("clean")], false, false, true, false, 0),
        (&[Some("clean"), Some("pending")], true, false, false, false, 1),
        (&[Some("pending"), Some("pending")], true, false, false, false, 2),
        (&[Some("infected")], true, false, false, true, 0),
        (&[Some("clean"), Some("infected"), Some("pending")], true, false, false, true, 1),
        (&[Some("infected")], false, false, false, true, 0),
        (&[None], true, false, false, false, 1),
        (&[Some("clean"), Some("error")], true, false, false, false, 1),
    ];
    for (statuses, finalized, ready, ready_without_column, infected, pending) in table {
        let sql = "INSERT INTO submissions (form_id, finalized_at) VALUES ('f', CASE WHEN $1 THEN now() END) RETURNING id";
        let id: uuid::Uuid = app.query_one(sql, &[&finalized]).await.expect("a submission").get(0);
        for status in statuses {
            let sql =
                "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
                       VALUES ($1, 'n', 'b', 'o', $2::text::clamav_status)";
            app.execute(sql, &[&id, status]).await.expect("an attachment");
        }
        let with = Readiness::new(Some("finalized_at")).expect("a column");
        let without = Readiness::default();
        let sql = format!(
            "SELECT {}, {}, {}, {}, {} FROM submissions s WHERE s.id = $1",
            with.is_ready("s"),
            without.is_ready("s"),
            with.any_infected("s"),
            with.pending_count("s"),
            with.is_finalized("s")
        );
        let row = app.query_one(&sql, &[&id]).await.expect("readiness");
        let found: (bool, bool, bool, i64, bool) =
            (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4));
        assert_eq!(
            found,
            (ready, ready_without_column, infected, pending, finalized),
            "{statuses:?} {finalized}"
        );
    }
}

/// The predicate of claim and `begin` says what line `rls_attachments` says, whatever is done to the table, and nobody is
/// ready while it says no: neither a policy of another role, nor one for another command, makes a row visible or hides it.
#[tokio::test]
async fn attachments_are_visible_exactly_where_the_contract_says_so() {
    let db = database(Variant::default()).await;
    db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("a form");
    let app = db.client_as("forms_app").await.expect("forms_app");
    let id: uuid::Uuid = app
        .query_one("INSERT INTO submissions (form_id) VALUES ('f') RETURNING id", &[])
        .await
        .expect("a submission")
        .get(0);
    let restrictive = |what: &str| format!("CREATE POLICY narrow ON attachments AS RESTRICTIVE FOR {what}");
    let narrow_gone = "DROP POLICY narrow ON attachments";
    let replaced =
        "ALTER TABLE attachments RENAME TO hidden; CREATE VIEW attachments AS SELECT * FROM hidden;
                    GRANT SELECT ON attachments TO forms_app";
    let table = [
        ("SELECT".to_owned(), true, "SELECT"),
        (restrictive("SELECT TO forms_app USING (size_bytes > 0)"), false, narrow_gone),
        (restrictive("ALL TO PUBLIC USING (clamav_status = 'clean')"), false, narrow_gone),
        (restrictive("SELECT TO forms_app USING (true)"), true, narrow_gone),
        (restrictive("SELECT TO forms_scanner USING (false)"), true, narrow_gone),
        (restrictive("UPDATE TO forms_app USING (false)"), true, narrow_gone),
        (
            "ALTER POLICY attachments_app ON attachments USING (clamav_status = 'clean')".to_owned(),
            false,
            "CREATE POLICY everybody ON attachments FOR SELECT TO PUBLIC USING (true)",
        ),
        (
            "DROP POLICY attachments_app ON attachments".to_owned(),
            true,
            "DROP POLICY everybody ON attachments",
        ),
        ("SELECT".to_owned(), false, "ALTER TABLE attachments DISABLE ROW LEVEL SECURITY"),
        ("SELECT".to_owned(), true, "SELECT"),
        (replaced.to_owned(), false, "DROP VIEW attachments; ALTER TABLE hidden RENAME TO attachments"),
    ];
    let readiness = Readiness::default();
    // Prepared once, as the daemon's statements are: what is cached must follow as well.
    let sql = format!(
        "SELECT {}, {} FROM submissions s WHERE s.id = $1",
        readiness.is_visible(),
        readiness.is_ready("s")
    );
    let asked = app.prepare(&sql).await.expect("prepared");
    let pool = crate::pool(&db);
    for (done, visible, then) in table {
        db.alter(&done).await.expect(&done);
        let row = app.query_one(&asked, &[&id]).await.expect("asked");
        assert_eq!((row.get(0), row.get(1)), (visible, visible), "{done}");
        let lines = contract::inspect_essentials(&pool, &crate::contract_options()).await;
        let line = lines.iter().find(|line| line.name == "rls_attachments").expect("the line");
        assert_eq!(line.level == CheckLevel::Ok, visible, "{done}: {line:?}");
        assert_eq!(contract::broken(&lines).is_none(), visible, "{done}: {lines:?}");
        db.alter(then).await.expect(then);
    }
}
