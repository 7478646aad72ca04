//! `max_per_minute` is for all daemons of the database: each takes its share, knows who lives, and takes a new limit by a reload.

use std::time::Duration;

use devkit::help_desk::Limits;

use crate::scene::Scene;

/// Longer than any minute, and two of its shares.
const A_MINUTE_AND_MORE: Duration = Duration::from_secs(75);

/// The help desk itself would throttle the first ticket too many, for longer than the test lasts.
fn exactly(posts: usize) -> Limits {
    Limits { posts, ..Limits::default() }
}

#[tokio::test]
async fn two_daemons_together_stay_below_the_limit() {
    let mut scene = Scene::start("[happyfox]\nmax_per_minute = 40\n").await;
    scene.desk.set_limits(exactly(40));
    scene.one_more().await;
    for router in 0..2 {
        scene
            .until("two that share", async || scene.metric(router, "help_desk_daemons").await == Some(2.0))
            .await;
    }
    for _ in 0..80 {
        scene.submit().await;
    }
    tokio::time::sleep(A_MINUTE_AND_MORE).await;
    let (counters, peaks) = (scene.desk.counters(), scene.desk.peaks());
    assert_eq!(counters.throttled, 0, "{counters:?}");
    assert!(peaks.posts <= 40, "{peaks:?}");
    assert!(counters.made >= 36, "both together use what is allowed: {counters:?}");
    let accepted = "action_attempts_total{type=\"happyfox_template\",outcome=\"accepted\"}";
    for router in 0..2 {
        assert!(scene.metric(router, accepted).await.is_some_and(|made| made >= 15.0), "both make tickets");
    }
    // One leaves: the other has all of it.
    scene.end().await;
    scene.until("one alone", async || scene.metric(0, "help_desk_daemons").await == Some(1.0)).await;
    let counted = scene.metric(0, "help_desk_wait_seconds_count").await;
    assert!(counted.is_some_and(|count| count > 0.0), "{counted:?}");
    scene.stop().await;
}

#[tokio::test]
async fn a_reload_changes_the_limit_at_once() {
    let scene = Scene::start("[happyfox]\nmax_per_minute = 3\n").await;
    let (first, second) = (scene.submit().await, scene.submit().await);
    scene.until("the first ticket", async || scene.desk.tickets().len() == 1).await;
    scene.reload("max_per_minute = 3\n", "max_per_minute = 300\n").await;
    // By the old limit the second comes twenty seconds after the first.
    let soon = async || scene.desk.tickets().len() == 2;
    assert!(
        devkit::waiting::until(Duration::from_secs(12), Duration::from_millis(25), soon).await,
        "{}",
        scene.log()
    );
    for id in [first, second] {
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    scene.stop().await;
}
