//! A part that is down fails its own line, and `check` answers in time whatever is down.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use devkit::google::Mishap;
use devkit::postgres::Cluster;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::Stage;

use crate::harness::{check, config, healthy, options, set_up};

/// `check` must have answered by then: "about 20 s", and a machine that is busy with other tests.
const IN_TIME: Duration = Duration::from_secs(24);

#[allow(clippy::disallowed_methods, reason = "real time is what is measured")]
fn started() -> Instant {
    Instant::now()
}

#[tokio::test]
async fn a_relay_that_is_down_fails_its_line() {
    let stage = healthy().await;
    let before = check(&stage, &config(&stage)).await;
    stage.relay.stop().await;
    let broken = check(&stage, &config(&stage)).await;
    assert_eq!(broken.changes(&before), [("relay", "fail")], "{broken:#?}");
    assert_eq!((broken.ok, broken.code), (false, 1));

    stage.relay.restart().await.expect("back");
    stage.relay.rule(Rule::at(At::Banner).reply("554 5.7.1 go away"));
    let broken = check(&stage, &config(&stage)).await;
    assert_eq!(broken.changes(&before), [("relay", "fail")], "{broken:#?}");
    assert!(broken.detail("relay").contains("554"), "{broken:#?}");
}

#[tokio::test]
async fn a_database_that_is_down_fails_its_line() {
    let cluster = Cluster::start(devkit::postgres::ClusterOptions::default()).await.expect("a cluster");
    let database = cluster.database(options().variant).await.expect("a database");
    let stage = set_up(Stage::on(database, options()).await.expect("a stage")).await;
    let before = check(&stage, &config(&stage)).await;
    cluster.stop().await;
    let broken = check(&stage, &config(&stage)).await;
    let changes = broken.changes(&before);
    assert_eq!(changes[0], ("database", "fail"), "{broken:#?}");
    // Lines that only the database can judge are not called well, and fail nothing.
    let of_it = ["schema", "audit_values", "grants", "rls_attachments", "updated_at_trigger"];
    let untried = of_it
        .iter()
        .chain(&[
            "router_schema",
            "grey_queue",
            "uploads",
            "versions",
            "retention",
            "history",
            "screening",
            "grading",
            "forms",
        ])
        .map(|name| (*name, "warn"));
    assert_eq!(changes[1..], untried.collect::<Vec<_>>(), "{broken:#?}");
    assert_eq!(broken.code, 1);
}

#[tokio::test]
async fn everything_down_is_reported_in_time() {
    let mut stage = healthy().await;
    let healthy = config(&stage);
    let refused = healthy
        .replace(&stage.broker.endpoint(), "http://127.0.0.1:1")
        .replace(&stage.database.url_as("forms_app"), "postgres://forms_app@127.0.0.1:1/forms");
    stage.relay.stop().await;
    stage.google.stop_iam().await;
    stage.slack.down().await;
    let began = started();
    let broken = check(&stage, &refused).await;
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    assert_failed(&broken.lines, &["database", "subscription", "relay", "signing"]);
}

/// Worse than refused: connections are taken and nothing is ever said.
#[tokio::test]
async fn everything_silent_is_reported_in_time() {
    let stage = healthy().await;
    // The kernel accepts into the backlog; nobody reads.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let database = format!("postgres://forms_app@{}/forms", silent.local_addr().expect("an address"));
    let config = config(&stage).replace(&stage.database.url_as("forms_app"), &database);
    stage.broker.hang(true);
    stage.relay.rule(Rule::at(At::Banner).silence());
    stage.google.metadata_script().always(Mishap::Hang);
    stage.google.iam_script().always(Mishap::Hang);
    let began = started();
    let broken = check(&stage, &config).await;
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    assert_failed(&broken.lines, &["database", "subscription", "relay", "signing"]);
}

fn assert_failed(lines: &[serde_json::Value], expected: &[&str]) {
    let failed: Vec<_> = lines.iter().filter(|line| line["level"] == "fail").collect();
    let names: Vec<_> = failed.iter().filter_map(|line| line["name"].as_str()).collect();
    assert_eq!(names, expected, "{lines:#?}");
}
