//! A slow worker: SIGSTOP at a point, others take the submission over and end it, SIGCONT. It wakes with a claim that is not
//! its own any more: it may still record what the relay accepted, and nothing else; it sends nothing (P1, P4).

use std::time::Duration;

use devkit::postgres::Trap;
use devkit::smtp::Stage as At;
use devkit::stage::Source;
use devkit::submission::Row;
use devkit::trap::Fate;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::Scene;
use crate::points::{Place, Point, TooLate, in_time, mails_are_as_expected, play};

/// Long enough for a router that has woken to do whatever it would do: its timers are seconds.
const AWAKE: Duration = Duration::from_secs(4);

const FROZEN: &[Point] = &[
    // The awaited answer has come meanwhile, and waits in the worker's socket when it wakes.
    Point { place: Place::Wire(Trap::CommitAnswered("claim"), 1), name: "claim committed", ..ONCE },
    Point { place: Place::Wire(Trap::CommitAnswered("begin"), 1), name: "begun", ..DOUBTED },
    Point { place: Place::Relay(At::Banner, 0), name: "connected", ..DOUBTED },
    Point { place: Place::Relay(At::Rcpt, 0), name: "RCPT", ..DOUBTED },
    // The fence: nothing but the final dot is missing, and it is not written.
    Point { place: Place::Relay(At::Data, 0), name: "DATA", ..DOUBTED },
    Point { place: Place::Relay(At::AfterDot, 0), name: "stored", ..TWICE },
    Point { place: Place::Wire(Trap::CommitAnswered("record"), 2), name: "finish committed", ..ONCE },
];

/// Frozen, or its host gone without a word, in the middle of a transaction: the server holds the row's lock for nobody.
const LOCKED: &[Point] = &[
    Point { place: Place::Wire(Trap::CommitSent("claim"), 1), name: "in an open claim", ..ONCE },
    Point { place: Place::Wire(Trap::CommitSent("begin"), 1), name: "in an open begin", ..ONCE },
    Point { place: Place::Wire(Trap::CommitSent("record"), 1), name: "in an open record", ..TWICE },
];

const ONCE: Point = Point {
    name: "",
    place: Place::Ack,
    fate: Fate::Release,
    copies: (1, 1),
    doubted: (false, false),
    attempts: 1,
};
const DOUBTED: Point = Point { doubted: (true, false), attempts: 2, ..ONCE };
const TWICE: Point = Point { copies: (2, 1), ..DOUBTED };

async fn with_a_second_router(source: Source) {
    play(FROZEN.iter().copied(), 6, |point| frozen_at(source, point, 2, false)).await;
}

async fn with_two_others(source: Source) {
    play(FROZEN.iter().copied(), 6, |point| frozen_at(source, point, 3, false)).await;
}

async fn with_the_row_locked(source: Source) {
    play(LOCKED.iter().copied(), 6, |point| frozen_at(source, point, 2, true)).await;
}

devkit::with_either_source!(with_a_second_router, with_the_row_locked; at_night: with_two_others);

/// The event's row is locked as well, and its lease is a dead man's: the submission goes without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_event_locked() {
    let place = Place::Wire(Trap::TakenSent("outbox_claim"), 1);
    let point = Point { place, name: "in an open claim of the event", ..ONCE };
    play([point].into_iter(), 1, |point| frozen_at(Source::Postgres, point, 2, true)).await;
}

/// With `silent`, the worker's last words arrive only when it wakes.
async fn frozen_at(source: Source, point: Point, routers: usize, silent: bool) -> Result<(), TooLate> {
    let scene = Scene::start(source, routers).await;
    let caught = point.catch(&scene).await;
    let slow = &scene.daemons[caught.who];
    slow.router.freeze().await.expect("frozen");
    in_time(&caught.trapped)?;
    let on_its_way = if silent {
        Some(caught.trapped)
    } else {
        caught.trapped.release();
        None
    };
    let ended = scene.ended(caught.id).await;
    assert_eq!(ended.status, "routed", "{}: {ended:?}", point.name);

    drop(on_its_way);
    slow.router.signal("CONT").await.expect("sent");
    tokio::time::sleep(AWAKE).await;
    let row = scene.row(caught.id).await;
    let context = || format!("{}: {row:?}\n{}", point.name, scene.logs());
    assert_eq!(row.status, ended.status, "{}", context());
    assert_eq!(row.updated_at, ended.updated_at, "a stale fact is no sign of life: {}", context());
    assert_eq!(row.ledger["finished"], ended.ledger["finished"], "{}", context());
    mails_are_as_expected(&scene, caught.id, &point).await;
    late_facts_are_logged(&scene, caught.id, &row, &point).await;
    scene.ended(caught.id).await;
    scene.settled().await;
    scene.stop().await;
    Ok(())
}

/// The outcome of the slow worker's mail stands beside the first fact, in the ledger and in the trail.
async fn late_facts_are_logged(scene: &Scene, id: Uuid, row: &Row, point: &Point) {
    let late = usize::from(point.copies.0 > 1);
    for key in ["1|a@x.test", "1|b@x.test"] {
        let dups = row.entry(key)["dups"].as_array().map_or(0, Vec::len);
        assert_eq!(dups, late, "{}: {key}: {row:?}\n{}", point.name, scene.logs());
    }
    let trail = scene.audit(id).await;
    let copies = trail.iter().filter(|line| {
        line.action == "email_sent"
            && ["duplicate", "stale", "late"].iter().all(|flag| line.detail[flag] == Value::Bool(true))
    });
    assert_eq!(copies.count(), 2 * late, "{}: {trail:?}", point.name);
}
