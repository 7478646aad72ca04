//! Growth of the database by a routed submission: `runbooks/cost.md` reckons with it.

use devkit::forms::{Form, SubmissionSeed};

use crate::harness::Scene;

/// Bytes a submission, as the runbook has it.
const RECKONED: i64 = 4_000;

#[tokio::test]
async fn a_submission_leaves_less_than_the_runbook_reckons_with() {
    let scene =
        Scene::start(&[Form::new("f").mail_to("first.recipient@x.test, second.recipient@y.test")]).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    let rows = "SELECT pg_column_size(s.routing_result)::bigint \
                + (SELECT sum(pg_column_size(a.*)) FROM audit_log a WHERE a.submission_id = s.id)::bigint \
                FROM submissions s WHERE s.id = $1";
    let bytes: i64 = scene.eyes.query_one(rows, &[&id]).await.expect("measured").get(0);
    println!("{bytes} bytes for two mails");
    assert!((500..RECKONED).contains(&bytes), "{bytes} bytes: correct runbooks/cost.md");
    scene.stop().await;
}
