//! SIGKILL at every point, with a successor, and with one and two others running: everything ends `routed`, every
//! recipient has the mail, and one has it twice only where the protocol allows (P1, P2, P3, P8).

use crate::harness::Scene;
use crate::points::{KILL, Point, mails_are_as_expected, meet, play};

/// Scenes that run side by side: most of the time they wait for a claim to be stuck.
const SIDE_BY_SIDE: usize = 7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_router_and_its_successor() {
    every_point(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_routers() {
    every_point(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_routers() {
    every_point(3).await;
}

async fn every_point(routers: usize) {
    play(KILL.iter().copied(), SIDE_BY_SIDE, |point| killed_at(point, routers)).await;
}

async fn killed_at(point: Point, routers: usize) {
    let mut scene = Scene::start(routers).await;
    let caught = point.catch(&scene).await;
    scene.kill(caught.who).await;
    meet(caught.trapped, point.fate);
    if routers == 1 {
        scene.one_more().await;
    }
    let row = scene.ended(caught.id).await;
    assert_eq!(row.status, "routed", "{}: {row:?}", point.name);
    mails_are_as_expected(&scene, caught.id, &point).await;
    scene.settled().await;
    assert_eq!(scene.row(caught.id).await, row, "{}: an end is an end", point.name);
    scene.daemons.remove(caught.who);
    scene.stop().await;
}
