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

/// A ticket that waits for its turn has no intent, so that a death while many wait leaves none of them in doubt.
#[tokio::test]
async fn a_router_that_dies_while_tickets_wait_leaves_none_in_doubt() {
    let mut scene = Scene::start("[happyfox]\nmax_per_minute = 3\n").await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(scene.submit().await);
    }
    let made = |scene: &Scene| scene.desk.tickets().len();
    scene.until("the first ticket", async || made(&scene) == 1).await;
    scene.until("its end", async || scene.log().contains("\"routed\"")).await;
    let mut waiting = 0;
    for id in &ids {
        let row = scene.row(*id).await;
        let entry = row.entry("1|happyfox");
        if entry["state"] == "open" {
            waiting += 1;
            assert_eq!((row.status.as_str(), entry.get("begun")), ("processing", None), "{row:?}");
        }
    }
    assert_eq!(waiting, 3);
    scene.kill().await;
    scene.set("[happyfox]\nmax_per_minute = 300\n");
    scene.one_more().await;
    for id in ids {
        let row = scene.ended(id).await;
        assert_eq!(row.status, "routed", "{row:?}");
        assert!(row.entry("1|happyfox").get("doubted").is_none(), "{row:?}");
        assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1, "{row:?}");
    }
    scene.stop().await;
}

/// Whoever waits for a turn goes on with its mails as soon as there are no turns any more.
#[tokio::test]
async fn mails_do_not_wait_for_the_turn_of_a_ticket_when_the_help_desk_goes_out() {
    let scene = Scene::start("[happyfox]\nmax_per_minute = 3\n").await;
    let ids = [scene.submit().await, scene.submit().await, scene.submit().await];
    scene.until("the first ticket", async || scene.desk.tickets().len() == 1).await;
    scene.desk.set_credentials("another", "pair");
    scene.until("the breaker", async || scene.log().contains("\"breaker_open\"")).await;
    // By the pace the third ticket's turn comes twenty seconds after the second one's.
    let all = async || ids.iter().all(|id| scene.mails(*id) == 1);
    let soon = devkit::waiting::until(Duration::from_secs(12), Duration::from_millis(25), all).await;
    assert!(soon, "{}", scene.log());
    scene.stop().await;
}
