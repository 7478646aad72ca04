//! The columns that a backend has besides: which of them says that a submission is finalized, which its own triggers set, and
//! what they are called.

use super::Bench;
use super::Role::{Owner, Scanner};

/// A list of columns in the trigger would not see it: the statement names another column.
#[tokio::test]
async fn what_a_trigger_of_the_backend_sets_counts() {
    let bench = Bench::new().await;
    bench
        .db
        .alter(
            "ALTER TABLE attachments ADD scan_verdict text;
             CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN NEW.clamav_status := NEW.scan_verdict; RETURN NEW; END $$;
             CREATE TRIGGER judge BEFORE UPDATE OF scan_verdict ON attachments FOR EACH ROW EXECUTE FUNCTION judge();
             CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN NEW.status := 'received'; RETURN NEW; END $$;
             CREATE TRIGGER again BEFORE UPDATE OF happyfox_status ON submissions FOR EACH ROW EXECUTE FUNCTION again();",
        )
        .await
        .expect("a backend with triggers");
    let subject = bench.submitted("clean", "pending").await;
    let id = subject.id;
    let sql = format!("UPDATE attachments SET scan_verdict = 'clean' WHERE id = '{}'", subject.b);
    bench.client(Scanner).await.batch_execute(&sql).await.expect("judged");
    assert_eq!(bench.reasons(id).await, ["scan_clean"]);
    let sql = format!(
        "UPDATE submissions SET status = 'failed' WHERE id = '{id}';
         UPDATE submissions SET happyfox_status = 'x' WHERE id = '{id}'"
    );
    for statement in sql.split(';') {
        bench.backend.batch_execute(statement).await.expect("replayed");
    }
    assert_eq!(bench.reasons(id).await, ["scan_clean", "replayed"]);
}

/// A backend that inserts before finalize: no event is written before its column is set, by whomever.
#[tokio::test]
async fn a_finalized_column_decides_once_it_is_named() {
    let bench = Bench::new().await;
    bench
        .db
        .alter(
            "ALTER TABLE submissions ADD \"done At\" timestamptz, ADD phase text;
             CREATE FUNCTION phase() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN NEW.\"done At\" := now(); RETURN NEW; END $$;
             CREATE TRIGGER phase BEFORE UPDATE OF phase ON submissions FOR EACH ROW EXECUTE FUNCTION phase();
             SELECT router.set_finalized_column('done At')",
        )
        .await
        .expect("a column");
    let scanner = bench.client(Scanner).await;
    let finalize = "UPDATE submissions SET \"done At\" = now() WHERE id = $1";
    let clean = "UPDATE attachments SET clamav_status = 'clean' WHERE submission_id = $1";
    let early = bench.submitted("clean", "clean").await.id;
    assert!(bench.reasons(early).await.is_empty(), "it is only there");
    bench.backend.execute(finalize, &[&early]).await.expect("finalized");
    bench.backend.execute(finalize, &[&early]).await.expect("finalized again");
    assert_eq!(bench.reasons(early).await, ["finalized"]);
    let late = bench.submitted("pending", "pending").await.id;
    scanner.execute(clean, &[&late]).await.expect("clean");
    assert!(bench.reasons(late).await.is_empty(), "clean and not finalized");
    bench
        .backend
        .execute("UPDATE submissions SET phase = 'over' WHERE id = $1", &[&late])
        .await
        .expect("by a trigger");
    assert_eq!(bench.reasons(late).await, ["finalized"]);
    let last = bench.submitted("pending", "pending").await.id;
    bench.backend.execute(finalize, &[&last]).await.expect("finalized");
    assert!(bench.reasons(last).await.is_empty(), "finalized and not clean");
    scanner.execute(clean, &[&last]).await.expect("clean");
    assert_eq!(bench.reasons(last).await, ["scan_clean"]);
    let at_once = "INSERT INTO submissions (form_id, \"done At\") VALUES ('f', now()) RETURNING id";
    let at_once = bench.backend.query_one(at_once, &[]).await.expect("at once").get(0);
    assert_eq!(bench.reasons(at_once).await, ["finalized"]);
    // and back
    bench.db.alter("SELECT router.set_finalized_column(NULL)").await.expect("no column");
    let id = bench.submitted("clean", "clean").await.id;
    assert_eq!(bench.reasons(id).await, ["finalized"]);
}

#[tokio::test]
async fn naming_the_column_again_changes_nothing() {
    let bench = Bench::new().await;
    bench.db.alter("ALTER TABLE submissions ADD finalized_at timestamptz").await.expect("a column");
    let owner = bench.client(Owner).await;
    let set = "SELECT router.set_finalized_column($1::text::name)";
    let table = [
        (None, false),
        (Some("finalized_at"), true),
        (Some("finalized_at"), false),
        (Some("created_at"), true),
        (None, true),
        (None, false),
    ];
    for (column, changes) in table {
        let changed: bool = owner.query_one(set, &[&column]).await.expect("set").get(0);
        assert_eq!(changed, changes, "{column:?}");
    }
    owner.query_one(set, &[&Some("nowhere")]).await.expect_err("no such column");
    let id = bench.submitted("clean", "clean").await.id;
    assert_eq!(bench.reasons(id).await, ["finalized"], "a refusal changes nothing");
}

/// The backend's names for its own columns are its own affair.
#[tokio::test]
async fn columns_of_any_name_disturb_nothing() {
    let bench = Bench::new().await;
    bench
        .db
        .alter(
            "ALTER TABLE submissions ADD submission uuid, ADD why text, ADD told text, ADD pending int, ADD newborn bool;
             ALTER TABLE attachments ADD submission uuid, ADD state text, ADD s uuid, ADD why text",
        )
        .await
        .expect("columns");
    let subject = bench.submitted("pending", "pending").await;
    let scanner = bench.client(Scanner).await;
    scanner
        .execute("UPDATE attachments SET clamav_status = 'clean' WHERE submission_id = $1", &[&subject.id])
        .await
        .expect("clean");
    assert_eq!(bench.reasons(subject.id).await, ["scan_clean"]);
}
