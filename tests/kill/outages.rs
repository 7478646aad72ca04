//! The database and the broker go away under load and come back, or seem to be there and are not: nothing is lost,
//! nothing is sent twice, and the processes go on.

use std::time::Duration;

use devkit::postgres::{Cluster, ClusterOptions};
use devkit::stage::{Source, Stage};
use uuid::Uuid;

use crate::harness::{Scene, options};

/// Longer than any timer of the routers.
const OUTAGE: Duration = Duration::from_secs(6);

/// Every submission has ended `routed`, each mail is at the relay once or in doubt, and no daemon died.
async fn all_is_well(scene: &mut Scene, ids: &[Uuid]) {
    for id in ids {
        let row = scene.ended(*id).await;
        assert_eq!(row.status, "routed", "{row:?}");
        for (recipient, copies) in scene.copies(*id) {
            let order = if recipient == "c@x.test" { 2 } else { 1 };
            let entry = row.entry(&format!("{order}|{recipient}"));
            assert!(copies == 1 || entry["doubted"] == true, "{copies} for {recipient}: {row:?}");
        }
        assert_eq!(scene.copies(*id).len(), 3, "{row:?}");
    }
    for daemon in &mut scene.daemons {
        let ended = daemon.router.end().expect("asked");
        assert!(ended.is_none(), "{ended:?}:\n{}", daemon.router.log());
    }
}

devkit::with_either_source!(postgres_is_restarted_under_load);

async fn postgres_is_restarted_under_load(source: Source) {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a cluster");
    let database = cluster.database(options(source).variant).await.expect("a database");
    let mut scene = Scene::on(Stage::on(database, options(source)).await.expect("a stage"), 2).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        for _ in 0..15 {
            ids.push(scene.submit().await);
        }
        // As a crash: work in the middle of anything stays in the middle of it.
        cluster.stop().await;
        tokio::time::sleep(OUTAGE).await;
        cluster.start_again().await.expect("it starts again");
        scene.reconnect().await;
    }
    all_is_well(&mut scene, &ids).await;
    scene.stop().await;
}

/// Pub/Sub alone: without a broker there is none to restart, and none to hang (below).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_broker_is_restarted_under_load() {
    let mut scene = Scene::start(Source::Pubsub, 2).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        for _ in 0..15 {
            ids.push(scene.submit().await);
        }
        scene.stage.broker.down().await;
        // The row is there, its event never was.
        ids.push(scene.submit_quietly().await);
        tokio::time::sleep(OUTAGE / 3).await;
        scene.stage.broker.up().await.expect("the port is free");
    }
    ids.push(scene.submit().await);
    all_is_well(&mut scene, &ids).await;
    scene.settled().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_hangs_and_goes_on_costs_nothing() {
    let mut scene = Scene::start(Source::Pubsub, 1).await;
    let mut ids = vec![scene.submit().await];
    scene.ended(ids[0]).await;
    scene.stage.broker.hang(true);
    ids.push(scene.submit().await);
    tokio::time::sleep(OUTAGE).await;
    scene.stage.broker.hang(false);
    ids.push(scene.submit().await);
    all_is_well(&mut scene, &ids).await;
    scene.settled().await;
    scene.stop().await;
}
