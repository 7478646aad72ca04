//! P6: nothing is begun, and nothing claimed, for a submission with an attachment that is not clean at that moment,
//! also when that moment lies between a snapshot and a lock.

use devkit::forms::scan;
use maple_router::routing::store::{BeginAnswer, Claimed};

use super::claims::waiting;
use super::*;

async fn attachment(bench: &Bench, id: Uuid) -> Uuid {
    let sql = "SELECT id FROM attachments WHERE submission_id = $1";
    bench.eyes.query_one(sql, &[&id]).await.expect("an attachment").get(0)
}

#[tokio::test]
async fn begin_asks_again() {
    let bench = Bench::new().await;
    for (status, expected) in [
        ("infected", BeginAnswer::Infected),
        ("pending", BeginAnswer::NotClean),
        ("clean", BeginAnswer::Stands),
    ] {
        let id =
            bench.insert(&SubmissionSeed::of("f").attachment("a", "clean").attachment("b", "clean")).await;
        bench.claim(id, "t").await;
        scan(&bench.backend, one_of(&bench, id).await, status).await.expect("scanned");
        let before = bench.row(id).await;
        assert_eq!(bench.store.begin(id, "t", &keys(&[A, B])).await.expect("answered"), expected, "{status}");
        assert_eq!(
            bench.row(id).await == before,
            expected != BeginAnswer::Stands,
            "{status}: marked or untouched"
        );
    }
}

async fn one_of(bench: &Bench, id: Uuid) -> Uuid {
    let sql = "SELECT id FROM attachments WHERE submission_id = $1 LIMIT 1";
    bench.eyes.query_one(sql, &[&id]).await.expect("an attachment").get(0)
}

/// The scan worker locks the row while it sets the status: a `begin` that waited for the row must see the status.
#[tokio::test]
async fn an_attachment_that_becomes_pending_while_the_intent_waits_for_the_row_is_seen() {
    for (status, expected) in [("infected", BeginAnswer::Infected), ("pending", BeginAnswer::NotClean)] {
        let bench = Bench::new().await;
        let id = bench.insert(&SubmissionSeed::of("f").attachment("a", "clean")).await;
        bench.claim(id, "t").await;
        let attachment = attachment(&bench, id).await;
        let mut scanner = bench.db.client_as("forms_scanner").await.expect("the scanner");
        let marking = scanner.transaction().await.expect("a transaction");
        let lock = "UPDATE submissions SET updated_at = now() WHERE id = $1";
        marking.execute(lock, &[&id]).await.expect("the row is locked");
        let store = bench.store.clone();
        let begin = tokio::spawn(async move { store.begin(id, "t", &keys(&[A, B])).await });
        waiting(&bench.eyes, 1).await;
        let update = "UPDATE attachments SET clamav_status = $2::text::clamav_status WHERE id = $1";
        marking.execute(update, &[&attachment, &status]).await.expect("marked");
        marking.commit().await.expect("committed");
        assert_eq!(begin.await.expect("no panic").expect("answered"), expected, "{status}");
        assert!(bench.row(id).await.entry(A).get("begun").is_none());
    }
}

#[tokio::test]
async fn nothing_is_decided_about_a_row_while_its_attachment_is_being_marked() {
    for (status, expected) in [("infected", "infected"), ("pending", "not_clean")] {
        let bench = Bench::new().await;
        let id = bench.insert(&SubmissionSeed::of("f").attachment("a", "clean")).await;
        let attachment = attachment(&bench, id).await;
        let mut scanner = bench.db.client_as("forms_scanner").await.expect("the scanner");
        let marking = scanner.transaction().await.expect("a transaction");
        let lock = "UPDATE submissions SET updated_at = now() WHERE id = $1";
        marking.execute(lock, &[&id]).await.expect("the row is locked");
        let update = "UPDATE attachments SET clamav_status = $2::text::clamav_status WHERE id = $1";
        marking.execute(update, &[&attachment, &status]).await.expect("marked");
        assert!(matches!(bench.claim(id, "t").await, Claimed::Busy), "neither taken nor dropped");
        marking.commit().await.expect("committed");
        let claimed = bench.claim(id, "t").await;
        assert_eq!(labels(&HashMap::from([(id, claimed)]))[&id], expected);
    }
}

#[tokio::test]
async fn an_attachment_without_a_verdict_is_not_clean() {
    let bench = Bench::new().await;
    bench.db.alter("ALTER TABLE attachments ALTER clamav_status DROP NOT NULL").await.expect("altered");
    let id = bench.insert(&SubmissionSeed::of("f").attachment("a", "clean")).await;
    let unknown = "UPDATE attachments SET clamav_status = NULL WHERE submission_id = $1";
    bench.backend.execute(unknown, &[&id]).await.expect("changed");
    assert!(matches!(bench.claim(id, "t").await, Claimed::Dropped(_)));
}
