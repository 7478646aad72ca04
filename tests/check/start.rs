//! The start of `run`: what is wrong is refused at once and named; what is down is waited for.

use std::time::Duration;

use devkit::postgres::{Cluster, ClusterOptions, Variant};
use devkit::stage::{Router, Stage, StageOptions};

use crate::harness::{binary, healthy, options, set_up};

/// The log of a daemon that refuses to start.
async fn refused(stage: &Stage) -> String {
    refused_with(stage, "").await
}

async fn refused_with(stage: &Stage, extra: &str) -> String {
    let mut router = stage.router(binary(), "one", extra).await.expect("a process");
    let status = router.ended().await.expect("it ends by itself");
    assert_eq!(status.code(), Some(78), "{}", router.log());
    assert_eq!(stage.relay.counters().mails, 0);
    router.log()
}

#[tokio::test]
async fn a_database_that_does_not_meet_the_contract_is_refused() {
    let table = [
        ("ALTER TABLE submissions DROP COLUMN happyfox_status", "submissions.happyfox_status"),
        ("DROP POLICY attachments_app ON attachments", "sees no attachment"),
        ("REVOKE UPDATE ON submissions FROM forms_app", "UPDATE on submissions"),
    ];
    for (sql, words) in table {
        let stage = healthy().await;
        stage.database.alter(sql).await.expect(sql);
        let log = refused(&stage).await;
        assert!(log.contains(words), "{sql}: {log}");
    }
    let variant = Variant { with_011: false, ..options().variant };
    let stage = Stage::start(StageOptions { variant, ..options() }).await.expect("a stage");
    let log = refused(&stage).await;
    assert!(log.contains("submission_routed") && log.contains("migrate --only 011"), "{log}");
}

#[tokio::test]
async fn an_unknown_subscription_is_refused_and_named() {
    let stage = healthy().await;
    stage.broker.delete_subscription(devkit::stage::SUBSCRIPTION).expect("deleted");
    let log = refused(&stage).await;
    assert!(log.contains(devkit::stage::SUBSCRIPTION) && log.contains("does not exist"), "{log}");
    assert!(log.contains("maple-router provision"), "{log}");
}

/// The configuration says that the subscription is in a hurry, and keeps every inequality; the subscription is not.
#[tokio::test]
async fn a_subscription_that_breaks_an_inequality_is_refused_with_both_values() {
    let retry = (Duration::from_secs(10), Duration::from_secs(600));
    let stage = set_up(Stage::start(StageOptions { retry, ..options() }).await.expect("a stage")).await;
    let hurry = |orphan_after: u32| {
        format!(
            "[pubsub]\nretry_max = \"1s\"\nack_deadline = \"10s\"\n[routing]\norphan_after = \"{orphan_after}s\""
        )
    };
    // 1.1·600 + 60 + 60 = 780
    // Whether or not the line is JSON.
    let log = refused_with(&stage, &hurry(780)).await.replace("\\\"", "'").replace('"', "'");
    for words in [
        "pubsub.retry_max = '10m' (so says the subscription; configured: '1s')",
        "pubsub.ack_deadline = '1m' (so says the subscription; configured: '10s')",
        "routing.orphan_after = '13m'",
        "maple-router provision",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let mut router = stage.router(binary(), "one", &hurry(781)).await.expect("a process");
    router.ready().await.expect("it goes by the subscription");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

/// Waits until the log says so.
async fn logged(router: &Router, words: &str) {
    for _ in 0..300 {
        if router.log().contains(words) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{words:?} is not in the log:\n{}", router.log());
}

/// Waits until the router logs that it waits for this dependency.
async fn waits_for(router: &Router, dependency: &str) {
    logged(router, &format!("waiting for {dependency}")).await;
    let (code, body) = router.get("/-/ready").await.expect("it listens");
    assert_eq!(code, 503, "{body}");
    assert!(body.contains(dependency), "{body}");
    let (code, _) = router.get("/-/healthy").await.expect("it listens");
    assert_eq!(code, 200, "waiting is not being ill");
}

#[tokio::test]
async fn a_relay_that_is_down_is_waited_for() {
    let stage = healthy().await;
    stage.relay.stop().await;
    let mut router = stage.router(binary(), "one", "").await.expect("a process");
    waits_for(&router, "relay").await;
    assert!(router.log().contains("systemctl status postfix"), "what to do: {}", router.log());
    stage.relay.restart().await.expect("back");
    router.ready().await.expect("ready by itself");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

#[tokio::test]
async fn a_database_that_is_down_is_waited_for() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a cluster");
    let database = cluster.database(options().variant).await.expect("a database");
    let stage = Stage::on(database, options()).await.expect("a stage");
    cluster.stop().await;
    let mut router = stage.router(binary(), "one", "").await.expect("a process");
    waits_for(&router, "postgres").await;
    cluster.start_again().await.expect("back");
    router.ready().await.expect("ready by itself");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

#[tokio::test]
async fn a_pubsub_that_does_not_answer_is_waited_for() {
    let stage = healthy().await;
    stage.broker.hang(true);
    let mut router = stage.router(binary(), "one", "").await.expect("a process");
    waits_for(&router, "pubsub").await;
    stage.broker.hang(false);
    router.ready().await.expect("ready by itself");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

#[tokio::test]
async fn a_stop_while_waiting_ends_cleanly() {
    let stage = healthy().await;
    stage.relay.stop().await;
    let mut router = stage.router(binary(), "one", "").await.expect("a process");
    waits_for(&router, "relay").await;
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

/// READY within a second of the start, in a debug build on a busy machine too; generous by a factor for the latter.
#[tokio::test]
async fn the_daemon_is_ready_soon() {
    let stage = healthy().await;
    #[allow(clippy::disallowed_methods, reason = "real time is what is measured")]
    let began = std::time::Instant::now();
    let mut router = stage.router(binary(), "one", "").await.expect("a process");
    router.ready().await.expect("ready");
    let took = began.elapsed();
    println!("ready after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}
