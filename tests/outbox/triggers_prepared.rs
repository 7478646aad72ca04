//! Two-phase commit: the transaction that makes a submission ready may be prepared. Its event is visible when it is
//! committed, and not at all when it is rolled back.

use uuid::Uuid;

use super::Bench;
use super::Role::{Backend, Scanner};

const CLEAN: &str = "UPDATE attachments SET clamav_status = 'clean' WHERE id = ";

#[tokio::test]
async fn what_is_prepared_is_announced_when_it_is_committed() {
    let bench = Bench::new().await;
    for (end, is_announced) in [("COMMIT", true), ("ROLLBACK", false)] {
        let (id, attachment) = (Uuid::new_v4(), Uuid::new_v4());
        let finalizes = format!(
            "INSERT INTO submissions (id, form_id) VALUES ('{id}', 'f');
             INSERT INTO attachments (id, submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
             VALUES ('{attachment}', '{id}', 'a', 'b', 'o', 'clean')"
        );
        let scanned = bench.submitted("clean", "pending").await;
        let infected = bench.submitted("clean", "pending").await;
        let cases = [
            (Backend, finalizes, id, "finalized"),
            (Scanner, format!("{CLEAN}'{}'", scanned.b), scanned.id, "scan_clean"),
            (
                Scanner,
                format!("UPDATE attachments SET clamav_status = 'infected' WHERE id = '{}'", infected.b),
                infected.id,
                "scan_infected",
            ),
        ];
        for (role, sql, id, reason) in cases {
            let gid = format!("prepared-{id}");
            let client = bench.client(role).await;
            let prepared = client.batch_execute(&format!("BEGIN; {sql}; PREPARE TRANSACTION '{gid}'")).await;
            prepared.unwrap_or_else(|error| panic!("{reason}, {end}: {error:?}"));
            assert!(bench.reasons(id).await.is_empty(), "{reason}: not before it is committed");
            client.batch_execute(&format!("{end} PREPARED '{gid}'")).await.expect("ended");
            let expected: &[&str] = if is_announced { &[reason] } else { &[] };
            assert_eq!(bench.reasons(id).await, expected, "{end}");
        }
    }
}
