//! SIGKILL at every point, with a successor, and with one other running, and with two at night: everything ends `routed`, every
//! recipient has the mail, and one has it twice only where the protocol allows (P1, P2, P3, P8).

use devkit::stage::Source;

use crate::harness::Scene;
use crate::points::{Point, TooLate, in_time, mails_are_as_expected, meet, play, points};

/// Scenes that run side by side: most of the time they wait for a claim to be stuck.
const SIDE_BY_SIDE: usize = 7;

async fn one_router_and_its_successor(source: Source) {
    every_point(source, 1).await;
}

async fn two_routers(source: Source) {
    every_point(source, 2).await;
}

async fn three_routers(source: Source) {
    every_point(source, 3).await;
}

devkit::with_either_source!(; at_night: two_routers; only_at_night: three_routers; by_day_from_the_outbox: one_router_and_its_successor);

async fn every_point(source: Source, routers: usize) {
    play(points(source).into_iter(), SIDE_BY_SIDE, |point| killed_at(source, point, routers)).await;
}

async fn killed_at(source: Source, point: Point, routers: usize) -> Result<(), TooLate> {
    let mut scene = Scene::start(source, routers).await;
    let caught = point.catch(&scene).await;
    scene.kill(caught.who).await;
    in_time(&caught.trapped)?;
    point.is_met(&scene.row(caught.id).await, &caught.trapped)?;
    meet(caught.trapped, point.fate);
    point.has_arrived(&scene, caught.id).await?;
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
    Ok(())
}
