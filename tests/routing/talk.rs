//! Amount of logging while something the daemon needs is away and a thousand submissions wait: a handful of lines a
//! minute, whatever is away, and not one of a submission's story is left out.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{Cluster, ClusterOptions};
use devkit::stage::{Stage, StageOptions};
use uuid::Uuid;

use crate::harness::{Scene, lines, load};

const WAITING: usize = 1000;
/// Longest time from the start of an outage to its report.
const FIRST: Duration = Duration::from_secs(20);
const MINUTE: Duration = Duration::from_secs(60);
/// Lines within a minute of an outage that goes on.
const MOST: usize = 10;

async fn rows(scene: &Scene, form: &str) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for _ in 0..WAITING {
        ids.push(SubmissionSeed::of(form).insert(&scene.backend).await.expect("a row").id);
    }
    ids
}

/// The outage is logged, and then hardly mentioned.
async fn few_lines(scene: &Scene, what: &str) {
    tokio::time::sleep(FIRST).await;
    let before = lines(&scene.router).len();
    tokio::time::sleep(MINUTE).await;
    let all = lines(&scene.router);
    let new = &all[before..];
    let shown: Vec<String> = new.iter().take(30).map(ToString::to_string).collect();
    assert!(new.len() <= MOST, "{what}: {} lines in a minute\n{}", new.len(), shown.join("\n"));
}

fn forms() -> [Form; 2] {
    [Form::new("f").mail_to("a@x.test"), Form::new("bad").mail_to("no address")]
}

/// At the same time, because each is mostly waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_logged_in_a_few_lines_whatever_is_away() {
    tokio::join!(without_the_relay(), without_the_database(), without_pubsub(), without_slack());
}

async fn without_the_relay() {
    let scene = Scene::start(&forms()).await;
    let ids = rows(&scene, "f").await;
    scene.stage.relay.stop().await;
    ids.iter().for_each(|id| scene.publish(*id));
    scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    few_lines(&scene, "relay").await;
}

async fn without_the_database() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a server of our own");
    let database = cluster.database(StageOptions::default().variant).await.expect("a database");
    let options = StageOptions { sample_forms: false, ..StageOptions::default() };
    let stage = Stage::on(database, options).await.expect("a stage");
    load(&stage, &forms()).await;
    let scene = Scene::on(stage, "[routing]\nsweep_interval = \"5s\"").await;
    let ids = rows(&scene, "f").await;
    // Some submissions are in work when the database goes.
    ids[..100].iter().for_each(|id| scene.publish(*id));
    cluster.stop().await;
    ids[100..].iter().for_each(|id| scene.publish(*id));
    scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    few_lines(&scene, "database").await;
}

async fn without_pubsub() {
    let scene = Scene::start(&forms()).await;
    let ids = rows(&scene, "f").await;
    ids.iter().for_each(|id| scene.publish(*id));
    scene.stage.broker.down().await;
    few_lines(&scene, "pubsub").await;
}

async fn without_slack() {
    let scene = Scene::with(StageOptions::default(), &forms(), "[slack]\ngroup_wait = \"1s\"").await;
    scene.stage.slack.script().always(devkit::slack::Mishap::Status(503));
    let ids = rows(&scene, "bad").await;
    ids.iter().for_each(|id| scene.publish(*id));
    for id in &ids {
        scene.await_row(*id, "end", |row| row.status == "failed").await;
    }
    scene.await_line("deferred alert", |line| line["event"] == "alert_deferred").await;
    few_lines(&scene, "slack").await;
    // Every story is whole.
    let failed = lines(&scene.router).iter().filter(|line| line["event"] == "failed").count();
    assert_eq!(failed, WAITING);
}
