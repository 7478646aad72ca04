//! A start while something is down: READY comes as soon as that is known, the line says what is waited for, and
//! people are notified as of any outage.

use std::time::Duration;

use devkit::postgres::{Cluster, ClusterOptions};
use devkit::slack::SlackMessage;
use devkit::stage::{Stage, StageOptions};

use crate::harness::{PATIENCE, Systemd, binary, stage};

const SOON: &str = "[slack]\ngroup_wait = \"1s\"\n";

/// Waits until a message in Slack says so.
async fn posted(stage: &Stage, words: &str) {
    for _ in 0..PATIENCE.as_millis() / 100 {
        if stage.slack.messages().iter().map(SlackMessage::visible_text).any(|text| text.contains(words)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody was notified of {words:?}: {:?}", stage.slack.messages());
}

#[tokio::test]
async fn with_the_relay_down_it_is_ready_and_holds_everything() {
    let stage = stage().await;
    stage.relay.stop().await;
    let systemd = Systemd::on(&stage);
    let mut router =
        stage.router_under(binary(), "one", SOON, &systemd.variables(None)).await.expect("a process");
    let ready = systemd.receives(0, "READY=1", &router).await;
    systemd.receives(0, "STATUS=breaker open: relay for", &router).await;
    assert_eq!(
        router.metric("maple_router_breaker_open{dependency=\"relay\"}").await.expect("metrics"),
        Some(1.0)
    );
    let (code, body) = router.get("/-/ready").await.expect("it listens");
    assert_eq!(code, 503, "it takes nothing: {body}");
    posted(&stage, "the mail relay does not take mail").await;
    stage.relay.restart().await.expect("back");
    systemd.receives(ready, "STATUS=routing: ", &router).await;
    router.ready().await.expect("it takes work");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

#[tokio::test]
async fn with_the_database_down_it_is_ready_for_systemd_and_routes_once_the_contract_is_met() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a cluster");
    let options = StageOptions::default();
    let database = cluster.database(options.variant).await.expect("a database");
    let stage = Stage::on(database, options).await.expect("a stage");
    cluster.stop().await;
    let systemd = Systemd::on(&stage);
    let mut router =
        stage.router_under(binary(), "one", SOON, &systemd.variables(None)).await.expect("a process");
    let ready = systemd.receives(0, "READY=1", &router).await;
    let (code, body) = router.get("/-/ready").await.expect("it listens");
    assert_eq!(code, 503, "nothing is routed: {body}");
    systemd.receives(0, "STATUS=breaker open, waiting for postgres for", &router).await;
    posted(&stage, "PostgreSQL cannot be reached").await;
    cluster.start_again().await.expect("back");
    systemd.receives(ready, "STATUS=routing: ", &router).await;
    router.ready().await.expect("it takes work");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

#[tokio::test]
async fn a_database_that_comes_back_without_the_contract_is_refused_then() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a cluster");
    let options = StageOptions::default();
    let database = cluster.database(options.variant).await.expect("a database");
    let stage = Stage::on(database, options).await.expect("a stage");
    stage.database.alter("REVOKE UPDATE ON submissions FROM forms_app").await.expect("revoked");
    cluster.stop().await;
    let systemd = Systemd::on(&stage);
    let mut router =
        stage.router_under(binary(), "one", SOON, &systemd.variables(None)).await.expect("a process");
    systemd.receives(0, "READY=1", &router).await;
    cluster.start_again().await.expect("back");
    assert_eq!(router.ended().await.expect("it ends").code(), Some(78), "{}", router.log());
}

#[tokio::test]
async fn without_pubsub_it_is_ready_and_the_sweep_goes_on() {
    let stage = stage().await;
    let systemd = Systemd::on(&stage);
    // A port that nobody has.
    let nobody = "[pubsub]\nendpoint = \"http://127.0.0.1:1\"\n";
    let mut router =
        stage.router_under(binary(), "one", nobody, &systemd.variables(None)).await.expect("a process");
    systemd.receives(0, "STATUS=waiting for pubsub for", &router).await;
    systemd.receives(0, "READY=1", &router).await;
    router.ready().await.expect("it takes what the sweep finds");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}
