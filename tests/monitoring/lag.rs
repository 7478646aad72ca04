//! Routing lag is measured from the readiness that the database knows, and by routed submissions alone.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};

use crate::{routing, until};

#[tokio::test]
async fn waiting_counts_from_readiness_and_canaries_do_not_wait() {
    let (stage, mut router) =
        routing(&[Form::new("f").mail_to("a@x.test")], "[canary]\ninterval = \"1s\"").await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let lag = async |le: &str| {
        let series = format!("maple_router_routing_lag_seconds_bucket{{le=\"{le}\"}}");
        router.metric(&series).await.expect("metrics").expect("a bucket")
    };

    // Ready for two minutes when its event came at last: two minutes late.
    let late =
        SubmissionSeed::of("f").age(Duration::from_secs(120)).insert(&backend).await.expect("a row").id;
    stage.publish(late, "finalized").expect("published");
    until(&router, "routing_lag_seconds_count", |count| count == 1.0).await;
    assert_eq!((lag("60").await, lag("300").await), (0.0, 1.0));

    // The scan took ten minutes, which is nobody's routing: the event of its end says when the submission was ready.
    stage.google.put_object("maple-attachments", "a.pdf", "application/pdf", "a file");
    let scanned = SubmissionSeed::of("f").attachment("a.pdf", "clean").age(Duration::from_secs(600));
    let scanned = scanned.insert(&backend).await.expect("a row").id;
    stage.publish(scanned, "scan_clean").expect("published");
    until(&router, "routing_lag_seconds_count", |count| count == 2.0).await;
    assert_eq!((lag("60").await, lag("+Inf").await), (1.0, 2.0), "{}", router.log());
    assert_eq!(until(&router, "signed_url_seconds_count", |count| count > 0.0).await, 1.0, "its link");

    until(&router, "canaries_total{result=\"returned\"}", |count| count >= 2.0).await;
    assert_eq!(
        until(&router, "canaries_total{result=\"published\"}", |count| count >= 2.0).await.fract(),
        0.0
    );
    assert_eq!(lag("+Inf").await, 2.0, "canaries are no submissions");
    assert_eq!(until(&router, "canary_interval_seconds", |_| true).await, 1.0);
    assert_eq!(until(&router, "ready", |_| true).await, 1.0);
    let started = until(&router, "start_timestamp_seconds", |_| true).await;
    let now: f64 =
        backend.query_one("SELECT extract(epoch FROM now())::float8", &[]).await.expect("a time").get(0);
    assert!((now - 600.0..=now + 1.0).contains(&started), "{started} {now}");
    until(&router, "sweeps_total{result=\"completed\"}", |passes| passes >= 1.0).await;
    router.stop().await.expect("stopped");
}

/// No event ever came: it is found by the sweep, and all the time it lay there counts.
#[tokio::test]
async fn orphans_are_part_of_the_lag_and_failures_that_nobody_claimed_too() {
    let (stage, mut router) =
        routing(&[Form::new("f").mail_to("a@x.test")], "[routing]\nsweep_interval = \"1s\"").await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let eyes = stage.database.superuser().await.expect("superuser");
    let old = Duration::from_secs(2000);
    let orphan = SubmissionSeed::of("f").age(old).insert(&backend).await.expect("a row").id;
    // The last attempt died with its worker: the sweep fails it.
    let spent = serde_json::json!({
        "v": 1, "attempts": 5, "resets": 0, "generations": {"1": 0},
        "plan": [{"action_order": 1, "action_type": "email_raw", "template_id": null, "template": null,
            "destination": "a@x.test", "subject_template": null, "happyfox_category": null}],
        "deliveries": {"1|a@x.test": {"state": "open", "begun": {"token": "gone", "at": "2026-01-01T00:00:00Z"}}},
        "claim": {"token": "gone", "worker": "x/1", "at": "2026-01-01T00:00:00Z", "deadline": "2026-01-01T00:20:00Z"},
    });
    let dead = SubmissionSeed::of("f").status("processing").ledger(spent).age(old).insert(&backend).await;
    let dead = dead.expect("a row").id;
    let untouched = "UPDATE submissions SET updated_at = now() - interval '2000 s' WHERE id = ANY($1)";
    eyes.execute(untouched, &[&vec![orphan, dead]]).await.expect("aged");
    until(&router, "routing_lag_seconds_count", |count| count >= 1.0).await;
    until(&router, "submissions_total{outcome=\"failed\"}", |count| count == 1.0).await;
    let ended = "SELECT count(*) FROM submissions WHERE id = ANY($1) AND status IN ('routed', 'failed')";
    for _ in 0..600 {
        let done: i64 = eyes.query_one(ended, &[&vec![orphan, dead]]).await.expect("counted").get(0);
        if done == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let count = until(&router, "routing_lag_seconds_count", |count| count >= 2.0).await;
    let fast = until(&router, "routing_lag_seconds_bucket{le=\"1800\"}", |_| true).await;
    assert_eq!((count, fast), (2.0, 0.0), "{}", router.log());
    router.stop().await.expect("stopped");
}
