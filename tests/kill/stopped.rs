//! SIGTERM at every point: what is being sent ends and is recorded, the rest goes back without an attempt spent. No
//! recipient has a mail twice, and nothing is ever in doubt.

use std::time::Duration;

use devkit::stage::Source;
use devkit::trap::Fate;

use crate::harness::Scene;
use crate::points::{Point, TooLate, in_time, mails_are_as_expected, play, points};

/// Time for the stop to start; shorter than anything that a router waits for.
const MOMENT: Duration = Duration::from_millis(300);

async fn a_stop_at_any_point_costs_nothing(source: Source) {
    let all = points(source);
    let at_places = all.iter().filter(|point| point.fate == Fate::Release || !has_twin(&all, point));
    play(at_places.copied(), 6, |point| stopped_at(source, point)).await;
}

devkit::with_either_source!(a_stop_at_any_point_costs_nothing);

/// For a stop, where nothing is lost on the way, the same `place` is the same point.
fn has_twin(all: &[Point], point: &Point) -> bool {
    let place = format!("{:?}", point.place);
    all.iter().any(|other| other.fate == Fate::Release && format!("{:?}", other.place) == place)
}

async fn stopped_at(source: Source, point: Point) -> Result<(), TooLate> {
    let mut scene = Scene::start(source, 1).await;
    let caught = point.catch(&scene).await;
    scene.daemons[0].router.signal("TERM").await.expect("sent");
    tokio::time::sleep(MOMENT).await;
    in_time(&caught.trapped)?;
    caught.trapped.release();
    let ended = scene.daemons[0].router.ended().await.expect("ends");
    assert_eq!(ended.code(), Some(0), "{}:\n{}", point.name, scene.logs());
    let row = scene.row(caught.id).await;
    let left = (row.status.as_str(), row.attempts());
    assert!(left == ("routed", 1) || left == ("received", 0), "{}: {row:?}", point.name);
    scene.one_more().await;
    let row = scene.ended(caught.id).await;
    assert_eq!(row.status, "routed", "{}: {row:?}", point.name);
    let expected = Point { copies: (1, 1), doubted: (false, false), attempts: 1, ..point };
    mails_are_as_expected(&scene, caught.id, &expected).await;
    scene.settled().await;
    scene.stop().await;
    Ok(())
}
