//! One predicate: the database's evaluation and the question of the routing room's statements are the same.

use maple_router::db::migrations::ROUTER;
use maple_router::db::readiness::Readiness;
use uuid::Uuid;

use super::Bench;

/// Statuses of the attachments, finalized, status; then state without and with the column, and how many are left.
type Case = (&'static [Option<&'static str>], bool, &'static str, &'static str, &'static str, i32);

const CASES: [Case; 15] = [
    (&[], true, "received", "ready", "ready", 0),
    (&[], false, "received", "ready", "waiting", 0),
    (&[Some("clean")], true, "received", "ready", "ready", 0),
    (&[Some("clean"), Some("clean")], false, "received", "ready", "waiting", 0),
    (&[Some("clean"), Some("pending")], true, "received", "waiting", "waiting", 1),
    (&[Some("pending"), Some("pending")], false, "received", "waiting", "waiting", 2),
    (&[Some("infected")], true, "received", "infected", "infected", 0),
    (&[Some("infected")], false, "received", "infected", "infected", 0),
    (&[Some("clean"), Some("infected"), Some("pending")], true, "received", "infected", "infected", 1),
    (&[None], true, "received", "waiting", "waiting", 1),
    (&[Some("clean"), Some("error")], true, "received", "waiting", "waiting", 1),
    (&[Some("clean")], true, "processing", "closed", "closed", 0),
    (&[Some("infected"), Some("pending")], true, "failed", "closed", "closed", 1),
    (&[], true, "routed", "closed", "closed", 0),
    (&[], true, "purged", "closed", "closed", 0),
];

#[tokio::test]
async fn the_function_and_the_fragment_agree_on_every_row() {
    let bench = Bench::new().await;
    // A status unknown to the contract, and none at all: neither may pass for clean.
    bench
        .db
        .alter(
            "ALTER TABLE submissions ADD COLUMN finalized_at timestamptz;
             ALTER TABLE attachments ALTER COLUMN clamav_status DROP NOT NULL;
             ALTER TYPE clamav_status ADD VALUE 'error';",
        )
        .await
        .expect("a wider backend");
    let mut rows = Vec::new();
    for case in &CASES {
        let sql = "INSERT INTO submissions (form_id, finalized_at, status)
                   VALUES ('f', CASE WHEN $1 THEN now() END, $2::text::submission_status) RETURNING id";
        let id: Uuid = bench.backend.query_one(sql, &[&case.1, &case.2]).await.expect("a submission").get(0);
        for status in case.0 {
            let sql =
                "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
                       VALUES ($1, 'n', 'b', 'o', $2::text::clamav_status)";
            bench.backend.execute(sql, &[&id, status]).await.expect("an attachment");
        }
        rows.push((id, case));
    }
    for column in [None, Some("finalized_at")] {
        let owner = bench.db.owner().await.expect("owner");
        owner.execute("SELECT router.set_finalized_column($1::text::name)", &[&column]).await.expect("set");
        let fragment = Readiness::new(column).expect("a column");
        let sql = format!(
            "SELECT r.state, r.pending, CASE WHEN s.status <> 'received' THEN 'closed' WHEN {} THEN 'infected'
               WHEN {} THEN 'ready' ELSE 'waiting' END, {}::int
             FROM submissions s, router.evaluate_routing_readiness(s.id) r WHERE s.id = $1",
            fragment.any_infected("s"),
            fragment.is_ready("s"),
            fragment.pending_count("s"),
        );
        for (id, case) in &rows {
            let row = bench.backend.query_one(&sql, &[id]).await.expect("evaluated");
            let found: (String, i32, String, i32) = (row.get(0), row.get(1), row.get(2), row.get(3));
            let state = if column.is_some() { case.4 } else { case.3 };
            assert_eq!((found.0.as_str(), found.1), (state, case.5), "{column:?} {case:?}");
            assert_eq!((found.2.as_str(), found.3), (state, case.5), "the fragment: {column:?} {case:?}");
        }
    }
    let nobody = "SELECT state FROM router.evaluate_routing_readiness(gen_random_uuid())";
    assert!(bench.backend.query(nobody, &[]).await.expect("asked").is_empty(), "no such submission, no row");
}

#[test]
fn the_file_has_the_fragments_word_for_word() {
    let (_, sql) = ROUTER.files.iter().find(|(stem, _)| *stem == "002_outbox").expect("the file");
    let (_, function) = sql.split_once("CREATE FUNCTION router.evaluate_routing_readiness").expect("it");
    let (function, _) = function.split_once("\n$$;").expect("its end");
    // A function with rights of its own names its tables in full, and asks of one submission: nothing needs to keep it from
    // beginning with every attachment there is, as `OFFSET 0` does. Otherwise it is the same text.
    let function = function.replace("public.attachments", "attachments");
    let fragment = Readiness::default();
    for text in [fragment.any_infected("s"), fragment.all_clean("s"), fragment.pending_count("s")] {
        let text = text.replace(" OFFSET 0", "");
        assert!(function.contains(&text), "{text}");
    }
    assert!(sql.contains("AS 'SELECT true'"), "{}", fragment.is_finalized("s"));
    let column = Readiness::new(Some("c")).expect("a column").is_finalized("s");
    assert_eq!(column, "(s.\"c\" IS NOT NULL)");
    assert!(sql.contains("format('SELECT s.%I IS NOT NULL', wanted)"));
}
