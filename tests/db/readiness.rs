//! The readiness predicates on real rows.

use devkit::postgres::Variant;
use maple_router::db::readiness::Readiness;

use super::database;

/// Statuses of the attachments, finalized; then what is told: ready, ready without the column, infected, pending.
type Case = (&'static [Option<&'static str>], bool, bool, bool, bool, i64);

#[tokio::test]
async fn every_mix_of_attachments_has_its_answer() {
    let db = database(Variant::default()).await;
    // A status nobody has told us of, and none at all: neither may pass for clean.
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
        let told: (bool, bool, bool, i64, bool) =
            (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4));
        assert_eq!(
            told,
            (ready, ready_without_column, infected, pending, finalized),
            "{statuses:?} {finalized}"
        );
    }
}
