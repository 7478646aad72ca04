//! Messages as people read them: the right runbook, a command that works, nobody's address.

use devkit::forms::SubmissionSeed;

use crate::harness::*;

#[tokio::test]
async fn an_infected_attachment_names_rb_008_also_when_the_scan_worker_failed_the_row() {
    let bench = Bench::new().await;
    let id = SubmissionSeed::of("contact")
        .attachment("a", "pending")
        .insert(&bench.backend)
        .await
        .expect("a row")
        .id;
    let scanner = bench.db.client_as("forms_scanner").await.expect("the scan worker");
    scanner
        .batch_execute(&format!(
            "BEGIN; UPDATE attachments SET clamav_status = 'infected' WHERE submission_id = '{id}';
             UPDATE submissions SET status = 'failed', updated_at = now() WHERE id = '{id}'; COMMIT"
        ))
        .await
        .expect("failed by the scan worker");
    let alerter = bench.start();
    bench.pass(31 * SECOND).await;
    let text = bench.posted().join("\n");
    assert!(text.contains("rb-008-infected-attachment.md") && text.contains("*1 × "), "{text}");
    assert!(text.contains(&format!("maple-router explain {id}")), "{text}");
    assert!(text.contains("maple-router list --status failed --reason-code infected"), "{text}");
    assert_eq!(bench.unalerted().await, 0);
    bench.pass(HOUR).await;
    assert_eq!(bench.posted().len(), 1);
    alerter.stop().await;
}

#[tokio::test]
async fn what_fails_again_after_a_replay_is_reported_again() {
    let bench = Bench::new().await;
    bench.failed(refused(550)).await;
    let alerter = bench.start();
    bench.pass(31 * SECOND).await;
    bench.tamper("status = 'received', routing_result = routing_result - '{alert,finished}'::text[]").await;
    bench.pass(600 * SECOND).await;
    assert_eq!(bench.counts(), [1]);
    let finish = serde_json::json!({"finished": {"token": "g", "status": "failed", "reason": "refused"}});
    bench.tamper(&format!("status = 'failed', routing_result = routing_result || '{finish}'")).await;
    bench.pass(60 * SECOND).await;
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![1, 1], 0));
    alerter.stop().await;
}

#[tokio::test]
async fn no_address_reaches_slack() {
    let bench = Bench::new().await;
    let replies = [
        "<bob@x.test>: Recipient address rejected: User unknown",
        "bob@x.test and alice@y.test are unknown; ask postmaster@x.test",
        "no such user bob at x.test",
        "\"bob smith\"@x.test <!channel> <https://evil.test|click> & more\r\nsecond line",
    ];
    for (code, reply) in (550..).zip(replies) {
        bench.failed(refused_with(code, reply)).await;
    }
    let alerter = bench.start();
    bench.pass(31 * SECOND).await;
    assert_eq!(bench.counts(), [1; 4]);
    for message in bench.slack.messages() {
        let raw = message.payload.to_string();
        for secret in ["@", "bob", "alice", "x.test", "y.test", "<!", "<http"] {
            assert!(!raw.contains(secret), "{secret} in {raw}");
        }
        assert_eq!(message.payload["channel"], "#us-soc-alerts");
    }
    assert!(bench.posted().join("\n").contains("User unknown"), "what was said is still of use");
    alerter.stop().await;
}
