//! systemd receives "alive" while there is progress, and nothing while there is none: of a real process, whose threads, and
//! whose database, are made to stand still from outside.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use devkit::postgres::{Cluster, ClusterOptions};
use devkit::stage::{Router, Stage, StageOptions};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Systemd, binary, logged, stage};

/// Short, so that the test is; long enough for a busy machine to make its rounds in half of it.
const LIMIT: Duration = Duration::from_secs(6);

async fn started(stage: &Stage, systemd: &Systemd, limit: Duration) -> Router {
    let mut router =
        stage.router_under(binary(), "one", "", &systemd.variables(Some(limit))).await.expect("a process");
    router.ready().await.expect("ready");
    router
}

/// Waits until `more` further watchdog messages have come.
async fn alive_again(systemd: &Systemd, more: usize, router: &Router) {
    let before = systemd.alive();
    for _ in 0..1200 {
        if systemd.alive() >= before + more {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{more} times alive was not received: {:#?}\n{}", systemd.messages(), router.log());
}

/// Threads of a process by name.
fn threads(pid: u32, name: &str) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let mut found = Vec::new();
    for task in tasks {
        let path = task.expect("a thread").path();
        let comm = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        if comm.trim() == name {
            let tid =
                path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok()).expect("a number");
            found.push(Pid::from_raw(tid));
        }
    }
    found
}

/// proc(5): the field after the name.
fn state(path: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(path.join("stat")).ok()?;
    stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next())
}

/// Some threads of a process, stopped as a debugger would; they go on when this is dropped.
struct Stopped {
    release: Option<mpsc::Sender<()>>,
    holder: Option<std::thread::JoinHandle<()>>,
}

impl Stopped {
    /// Only the thread that seizes may release: a thread of its own does both.
    fn stop(pid: u32, tids: Vec<Pid>) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (stopped, stops) = mpsc::channel();
        let holder = std::thread::spawn(move || {
            for tid in &tids {
                ptrace::seize(*tid, ptrace::Options::empty()).expect("seized");
                ptrace::interrupt(*tid).expect("interrupted");
                let path = format!("/proc/{pid}/task/{tid}");
                while state(Path::new(&path)) != Some('t') {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            stopped.send(()).expect("somebody waits");
            // Ends when the sender is dropped.
            assert!(released.recv().is_err(), "nothing is ever sent");
            for tid in tids {
                // The process may have ended meanwhile.
                ptrace::detach(tid, None).unwrap_or_default();
            }
        });
        stops.recv().expect("stopped");
        Self { release: Some(release), holder: Some(holder) }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(holder) = self.holder.take() {
            drop(holder.join());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_loop_that_stands_still_is_silent() {
    let stage = stage().await;
    let systemd = Systemd::on(&stage);
    let router = started(&stage, &systemd, LIMIT).await;
    alive_again(&systemd, 2, &router).await;
    let pid = router.pid().expect("it runs");
    let workers = threads(pid, "tokio-rt-worker");
    assert!(workers.len() >= 2, "{workers:?}");
    let stopped = Stopped::stop(pid, workers);
    // Once more it may be said; then a proof is older than half of the limit.
    tokio::time::sleep(LIMIT).await;
    let silent = systemd.alive();
    tokio::time::sleep(LIMIT).await;
    assert_eq!(systemd.alive(), silent, "systemd would have killed it:\n{}", router.log());
    logged(&router, "no progress: the event loop runs no tasks").await;
    drop(stopped);
    alive_again(&systemd, 2, &router).await;
    logged(&router, "progress is made again").await;
}

/// Processes of a server: the parent of a backend, and all its children.
async fn server_processes(stage: &Stage) -> Vec<Pid> {
    let client = stage.database.superuser().await.expect("superuser");
    let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
    let parent = |pid: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let server = parent(backend).expect("its parent");
    let mut found = vec![Pid::from_raw(server)];
    for entry in std::fs::read_dir("/proc").expect("proc") {
        let name = entry.expect("an entry").file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if parent(pid) == Some(server) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
}

async fn with_a_server_of_its_own() -> (Cluster, Stage) {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a cluster");
    let options = StageOptions::default();
    let database = cluster.database(options.variant).await.expect("a database");
    let stage = Stage::on(database, options).await.expect("a stage");
    (cluster, stage)
}

/// The limit is so short that the hang is noticed before the breaker can know that it is an outage.
#[tokio::test]
async fn a_database_that_hangs_is_silence_until_it_is_known_to_be_out() {
    let (_cluster, stage) = with_a_server_of_its_own().await;
    let systemd = Systemd::on(&stage);
    let router = started(&stage, &systemd, LIMIT).await;
    alive_again(&systemd, 2, &router).await;
    let server = server_processes(&stage).await;
    for pid in &server {
        kill(*pid, Signal::SIGSTOP).expect("stopped");
    }
    logged(&router, "no progress: the database neither answers nor is it known to be out").await;
    let silent = systemd.alive();
    assert!(!router.log().contains("breaker_open"), "the breaker does not know yet:\n{}", router.log());
    tokio::time::sleep(LIMIT / 2).await;
    assert_eq!(systemd.alive(), silent, "{}", router.log());
    logged(&router, "breaker_open").await;
    alive_again(&systemd, 2, &router).await;
    for pid in &server {
        kill(*pid, Signal::SIGCONT).expect("continued");
    }
}

#[tokio::test]
async fn an_outage_or_a_pause_is_no_standstill() {
    let (cluster, stage) = with_a_server_of_its_own().await;
    let systemd = Systemd::on(&stage);
    let mut router = started(&stage, &systemd, LIMIT).await;
    let config = router.config().to_owned();
    let answer = stage.ask(binary(), &config, &["pause", "--reason", "a test"]).await.expect("a verb");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    systemd.receives(0, "STATUS=paused: all", &router).await;
    alive_again(&systemd, 5, &router).await;
    cluster.stop().await;
    logged(&router, "breaker_open").await;
    alive_again(&systemd, 5, &router).await;
    cluster.start_again().await.expect("back");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}
