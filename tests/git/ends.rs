//! Ends: a fetch that is dropped, a missing program, a directory that is no good.

use std::path::PathBuf;
use std::time::Duration;

use devkit::git_host::hostile::harmless;
use devkit::git_host::{Act, At};
use maple_router::gateway::git::{Git, GitSettings};
use tokio::time::timeout;

use crate::world::{World, label, processes};

#[tokio::test]
async fn a_dropped_fetch_leaves_nothing_wherever_it_was() {
    let world = World::new().await;
    for (name, at, act) in [
        ("octo/refs", At::Refs, Act::Hang),
        ("octo/pack", At::Pack, Act::Hang),
        ("octo/half", At::Pack, Act::HangAfter(200)),
        ("octo/drip", At::Refs, Act::Drip),
    ] {
        harmless(&world.host.repository(name).unwrap()).unwrap();
        world.host.act(name, at, act);
        let (git, source) = (world.git(), world.source(name));
        let fetch = tokio::spawn(async move { git.fetch(&source).await.is_ok() });
        let asked = async {
            while !world.host.visits().iter().any(|visit| visit.repository == name && visit.at == at) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), asked).await.expect("it was asked");
        let running = processes(world.work.path());
        assert!(running.len() > 1, "git and its part for https: {running:?}");
        fetch.abort();
        assert!(fetch.await.unwrap_err().is_cancelled());
        world.assert_clean().await;
    }
}

#[tokio::test]
async fn a_fetch_dropped_at_any_moment_leaves_nothing() {
    let world = World::new().await;
    harmless(&world.host.repository("octo/skill").unwrap()).unwrap();
    for moment in (0..40).map(|step| Duration::from_millis(step * 7)) {
        let (git, source) = (world.git(), world.source("octo/skill"));
        drop(timeout(moment, git.fetch(&source)).await);
        world.assert_clean().await;
    }
}

#[tokio::test]
async fn what_is_missing_here_is_our_fault() {
    let world = World::new().await;
    harmless(&world.host.repository("octo/skill").unwrap()).unwrap();
    let missing = || PathBuf::from("/nonexistent/program");
    let cases = [
        (GitSettings { prlimit: missing(), ..world.settings() }, "no-prlimit"),
        (GitSettings { git: missing(), ..world.settings() }, "no-git"),
        (GitSettings { work_dir: missing(), ..world.settings() }, "directory"),
        (GitSettings { git: world.program("killed", "kill -9 $$"), ..world.settings() }, "killed"),
        (
            GitSettings {
                git: world
                    .program("full", "echo 'fatal: write error: No space left on device' >&2; exit 128"),
                ..world.settings()
            },
            "disk-full",
        ),
    ];
    for (settings, expected) in cases {
        let fetched = world.fetch_with(&Git::new(settings), &world.source("octo/skill")).await;
        assert_eq!(label(&fetched), expected);
    }
    assert_eq!(world.host.visits(), []);
}

#[tokio::test]
async fn what_a_killed_router_left_is_cleared() {
    let world = World::new().await;
    std::fs::create_dir_all(world.work.path().join("git-fetch-x/repository")).unwrap();
    assert_eq!(world.git().clear().unwrap(), 1);
    world.assert_clean().await;
}
