//! SIGKILL at every point around the request and around each commit: every ticket exactly once, where the search works.

use std::time::Duration;

use devkit::help_desk::{Call, Rule, Stage};
use devkit::postgres::Trap;
use devkit::trap::Fate;
use futures::StreamExt as _;

use crate::scene::Scene;

#[tokio::test]
async fn a_router_that_dies_around_the_request_leaves_one_ticket() {
    let points = [
        (Stage::Head, Fate::Cut),
        (Stage::Body, Fate::Cut),
        (Stage::Body, Fate::Release),
        (Stage::Answer, Fate::Cut),
        (Stage::Answer, Fate::Release),
    ];
    // They mostly wait: for a claim to be stuck, and for the help desk's index.
    let played = futures::stream::iter(points).for_each_concurrent(None, async |(stage, fate)| {
        let point = format!("{stage:?}, {fate:?}");
        let mut scene = Scene::start("").await;
        let trapped = scene.desk.trap(Rule::at(stage).call(Call::Create));
        let id = scene.submit().await;
        if let Err(nobody) = trapped.hit(Duration::from_secs(60)).await {
            panic!("{point}: {nobody}\n{}", scene.log());
        }
        scene.kill().await;
        match fate {
            Fate::Release => trapped.release(),
            Fate::Cut => trapped.cut(),
        }
        scene.one_more().await;
        let row = scene.ended(id).await;
        assert_eq!(row.status, "routed", "{point}: {row:?}");
        assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1, "{point}: {row:?}");
        assert_eq!(scene.mails(id), 1, "{point}: {row:?}");
        scene.stop().await;
    });
    played.await;
}

/// A point on the wire to the database: a transaction's n-th begin or commit, whether the step under way arrives after the end,
/// and the mails that follow.
type Point = (&'static str, Trap, u64, Fate, u64);

/// Action 1 is the ticket, action 2 the mail. A mail goes twice where its own fact is lost (P1), and nowhere else; a ticket
/// nowhere at all.
const AROUND_COMMITS: &[Point] = {
    use Fate::{Cut, Release};
    use Trap::{BeginSent, CommitAnswered, CommitSent};
    &[
        ("claim not committed", CommitSent("claim"), 1, Cut, 1),
        ("claim committed after the end", CommitSent("claim"), 1, Release, 1),
        ("claim committed", CommitAnswered("claim"), 1, Cut, 1),
        ("about to begin", BeginSent("begin"), 1, Cut, 1),
        ("intent not committed", CommitSent("begin"), 1, Cut, 1),
        ("intent committed after the end", CommitSent("begin"), 1, Release, 1),
        ("intent committed", CommitAnswered("begin"), 1, Cut, 1),
        ("ticket made", BeginSent("record"), 1, Cut, 1),
        ("fact not committed", CommitSent("record"), 1, Cut, 1),
        ("fact committed after the end", CommitSent("record"), 1, Release, 1),
        ("fact committed", CommitAnswered("record"), 1, Cut, 1),
        ("mail's intent committed", CommitAnswered("begin"), 2, Cut, 1),
        ("finish not committed", CommitSent("record"), 2, Cut, 2),
        ("finish committed after the end", CommitSent("record"), 2, Release, 1),
        ("finish committed", CommitAnswered("record"), 2, Cut, 1),
    ]
};
/// Shorter than any of the router's timers: one that stood still for longer may have gone on by itself, to another point.
const AT_THE_POINT: Duration = Duration::from_millis(1400);
/// Most tries of a point before the machine is too slow for it.
const TRIES: usize = 10;
/// Scenes that run side by side: most of the time they wait for a claim to be stuck.
const SIDE_BY_SIDE: usize = 5;

#[tokio::test]
async fn a_router_that_dies_around_a_commit_leaves_one_ticket() {
    let played = futures::stream::iter(AROUND_COMMITS).for_each_concurrent(SIDE_BY_SIDE, async |point| {
        for _ in 0..TRIES {
            if dies_at(*point).await {
                return;
            }
        }
        panic!("{}: met too late, again and again", point.0);
    });
    played.await;
}

/// Whether the point was met in time.
async fn dies_at((name, trap, nth, fate, mails): Point) -> bool {
    let (mut scene, wire) = Scene::wired().await;
    let trapped = wire.trap(trap, nth);
    let id = scene.submit().await;
    if let Err(nobody) = trapped.hit(Duration::from_secs(60)).await {
        panic!("{name}: {nobody}\n{}", scene.log());
    }
    scene.kill().await;
    if trapped.caught_for() >= AT_THE_POINT {
        return false;
    }
    // Where the database is slow to answer, the second record is the first one, again.
    let committed = trap == Trap::CommitAnswered("record");
    if nth == 2 && (committed || trap == Trap::CommitSent("record")) {
        let row = scene.row(id).await;
        let is_known = row.entry("1|happyfox")["state"] == "accepted";
        if !is_known || committed && row.status != "routed" {
            return false;
        }
    }
    match fate {
        Fate::Release => trapped.release(),
        Fate::Cut => trapped.cut(),
    }
    scene.one_more().await;
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{name}: {row:?}");
    let made = scene.desk.tagged(&Scene::tag(id));
    assert_eq!((made.len(), scene.desk.tickets().len()), (1, 1), "{name}: {row:?}");
    assert_eq!(row.entry("1|happyfox")["ticket"]["id"], made[0].id, "{name}: {row:?}");
    assert_eq!(scene.mails(id), mails, "{name}: {row:?}");
    scene.stop().await;
    true
}
