//! The kernel's kill matrix: a process is killed, or stands still for longer than its lease, at every commit and inside every job;
//! another takes over, and each parcel is shipped all the same. The worker is this very program, started again.

use std::process::{Child, Command as Process, Stdio};
use std::time::Duration;

use devkit::postgres::{CuttingProxy, Trap};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use maple_router::ops::gate::Gate;

use crate::harness::{Bench, LEASE, PATIENCE, Working, rows};
use crate::parcels::State;
use crate::shop::Shop;

/// A worker's environment: its name, its database, the one its entries go to, the point where it stands still.
const WORKER: [&str; 4] = ["PARCELS_WORKER", "PARCELS_URL", "PARCELS_MARKS", "PARCELS_STANDS"];

/// A worker in a process of its own; killed when dropped.
struct Worker(Child);

impl Worker {
    fn start(name: &str, url: &str, marks: &str, stands: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut process = Process::new(program);
        process.args(["--exact", "killed::a_process_that_dies_at_any_point_loses_no_parcel", "--nocapture"]);
        process.envs(WORKER.into_iter().zip([name, url, marks, stands]));
        process.stdout(Stdio::null()).stderr(Stdio::null());
        Self(process.spawn().expect("started"))
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = Process::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill(1)");
        assert!(sent.success(), "{name}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The started program's work instead of the test.
async fn work([name, url, marks, stands]: [String; 4]) -> ! {
    let stands = Some(stands).filter(|place| !place.is_empty());
    let shop = Shop::open(&marks, &name, stands).await;
    let working = Working::start(&rows(&url), shop, Gate::new());
    for job in working.jobs {
        job.await.expect("runs for ever");
    }
    std::process::exit(1)
}

/// Every parcel was shipped once, its log leads from its birth to its state without a gap, and no job was done more often than there
/// were lives to do it in.
async fn every_law_holds(bench: &Bench, lives: usize, what: &str) {
    let sql = "SELECT id FROM router.parcels ORDER BY id";
    for row in bench.eyes.query(sql, &[]).await.expect("parcels") {
        let id = row.get(0);
        let log = bench.log(id).await;
        let mut at = "ordered".to_owned();
        for [from, to, ..] in &log {
            assert_eq!(*from, at, "{what}: {log:?}");
            at.clone_from(to);
        }
        assert_eq!(State::parse(&at), Some(State::Shipped), "{what}: {log:?}");
        let times = |command: &str| log.iter().filter(|[_, _, by, _]| by == command).count();
        assert_eq!((times("pack"), times("ship")), (1, 1), "{what}: {log:?}");
        let row = bench.look(id).await;
        assert_eq!(row["version"], 1 + log.len(), "{what}: each transition raises the version once");
        assert_eq!(row["carrier"], format!("carrier of {id}"), "{what}");
        let marks = "SELECT count(*) FILTER (WHERE job = 'pack'), count(*) FILTER (WHERE job = 'ship')
            FROM router.parcel_marks WHERE parcel = $1";
        let marks = bench.eyes.query_one(marks, &[&id]).await.expect("marks");
        for job in 0..2 {
            let done = usize::try_from(marks.get::<_, i64>(job)).expect("few");
            assert!((1..=lives).contains(&done), "{what}: {done} times in {lives} lives");
        }
    }
}

/// Points played at once: most of the time leases are waited for.
const SIDE_BY_SIDE: usize = 4;

const SHIPPED: &str = "SELECT NOT EXISTS (SELECT FROM router.parcels WHERE state <> 'shipped')";

/// The end of a worker at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    /// Stands still for longer than its lease, and then goes on.
    Frozen,
}

async fn play_commit(trap: Trap, nth: u64, end: End) {
    let what = format!("{trap:?} {nth} {end:?}");
    let bench = Bench::new().await;
    let wire = CuttingProxy::start(&bench.db).await.expect("a proxy");
    let marks = bench.db.url_as("forms_app");
    let trapped = wire.trap(trap, nth);
    let first = Worker::start("first", &wire.url_as("forms_app"), &marks, "");
    for address in ["a", "b", "c"] {
        bench.order(address).await;
    }
    trapped.hit(PATIENCE).await.expect(&what);
    let second = over(&bench, &first, end).await;
    trapped.release();
    finish(&bench, first, second, end, &what).await;
}

async fn play_job(place: &str, end: End) {
    let what = format!("{place} {end:?}");
    let bench = Bench::new().await;
    let url = bench.db.url_as("forms_app");
    let first = Worker::start("first", &url, &url, place);
    for address in ["a", "b", "c"] {
        bench.order(address).await;
    }
    bench.until(&what, "SELECT EXISTS (SELECT FROM router.parcel_stands)").await;
    let second = over(&bench, &first, end).await;
    finish(&bench, first, second, end, &what).await;
}

/// Ends the first life, and starts the second.
async fn over(bench: &Bench, first: &Worker, end: End) -> Worker {
    first.signal(if end == End::Killed { "KILL" } else { "STOP" });
    let url = bench.db.url_as("forms_app");
    Worker::start("second", &url, &url, "")
}

async fn finish(bench: &Bench, first: Worker, second: Worker, end: End, what: &str) {
    if end == End::Frozen {
        tokio::time::sleep(LEASE + Duration::from_millis(500)).await;
        bench.until(what, SHIPPED).await;
        first.signal("CONT");
        // Long enough for a late settlement to meet its fence.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    bench.until(what, SHIPPED).await;
    drop((first, second));
    every_law_holds(bench, 2, what).await;
}

#[tokio::test]
async fn a_process_that_dies_at_any_point_loses_no_parcel() {
    let variables: Vec<String> = WORKER.iter().filter_map(|name| std::env::var(name).ok()).collect();
    if let Ok(variables) = <[String; 4]>::try_from(variables) {
        work(variables).await;
    }
    let commits = ["parcel_claim", "parcel_settle", "parcel_wake"];
    let points = commits
        .iter()
        .flat_map(|name| [Trap::BeginSent(name), Trap::CommitSent(name), Trap::CommitAnswered(name)]);
    let mut plays: Vec<LocalBoxFuture<'_, ()>> = Vec::new();
    for trap in points {
        for (nth, end) in [(1, End::Killed), (2, End::Killed), (1, End::Frozen)] {
            plays.push(play_commit(trap, nth, end).boxed_local());
        }
    }
    for place in ["pack before", "pack after", "ship before", "ship after"] {
        for end in [End::Killed, End::Frozen] {
            plays.push(play_job(place, end).boxed_local());
        }
    }
    let points = plays.len();
    let played = futures::stream::iter(plays).buffer_unordered(SIDE_BY_SIDE).count().await;
    assert_eq!((points, played), (35, 35));
}

#[tokio::test]
async fn many_are_shipped_once_each_while_workers_are_killed_all_the_time() {
    let bench = Bench::new().await;
    let url = bench.db.url_as("forms_app");
    bench.alter("INSERT INTO router.parcels (address) SELECT 'a' FROM generate_series(1, 300)").await;
    let start = |n: usize| Worker::start(&format!("worker {n}"), &url, &url, "");
    let mut workers: Vec<Worker> = (0..3).map(start).collect();
    let mut kills = 0;
    while !bench.eyes.query_one(SHIPPED, &[]).await.expect("a look").get::<_, bool>(0) && kills < 12 {
        tokio::time::sleep(Duration::from_millis(250 + 37 * kills)).await;
        let at = usize::try_from(kills).expect("few");
        workers[at % 3].signal("KILL");
        workers[at % 3] = start(at + 3);
        kills += 1;
    }
    bench.until("shipped", SHIPPED).await;
    drop(workers);
    every_law_holds(&bench, 13, "a crowd").await;
}
