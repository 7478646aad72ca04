//! Bounds: in force for every process, and what a repository may cost.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use devkit::git_host::hostile as make;
use maple_router::gateway::git::{Content, Git, GitSettings, Limits};

use crate::world::{World, label, processes};

/// Highest address space and memory of one process, in KiB; all bounds of address space and files that were seen.
#[derive(Debug, Default)]
struct Peaks {
    space: u64,
    memory: u64,
    bounds: BTreeSet<String>,
    names: BTreeSet<String>,
}

fn watch(work: PathBuf, stop: Arc<AtomicBool>) -> thread::JoinHandle<Peaks> {
    thread::spawn(move || {
        let mut peaks = Peaks::default();
        while !stop.load(Ordering::Relaxed) {
            for (pid, name) in processes(&work) {
                let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
                let status = read("status");
                let field = |name: &str| {
                    let line = status.lines().find(|line| line.starts_with(name));
                    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
                };
                // Before prlimit has become git, nothing is bounded yet.
                if name == "prlimit" || name.starts_with("tokio") {
                    continue;
                }
                peaks.space = peaks.space.max(field("VmPeak:"));
                peaks.memory = peaks.memory.max(field("VmHWM:"));
                peaks.names.insert(name);
                let limits = read("limits");
                let wanted = ["Max address space", "Max file size", "Max open files", "Max core file size"];
                let lines = limits.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
                peaks.bounds.extend(lines.map(|line| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    words[..words.len() - 1].join(" ")
                }));
            }
            thread::sleep(Duration::from_millis(2));
        }
        peaks
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bomb_costs_no_memory_and_no_disk() {
    let world = World::new().await;
    make::one_large_blob(&world.host.repository("evil/bomb").unwrap(), 256 << 20).unwrap();
    make::many_blobs(&world.host.repository("evil/bombs").unwrap(), 16, 16 << 20).unwrap();
    make::git_bomb(&world.host.repository("evil/trees").unwrap(), 12).unwrap();
    let space = 192 << 20;
    let limits = Limits { address_space: space, ..world.settings().limits };
    let git = Git::new(GitSettings { limits, ..world.settings() });
    let stop = Arc::new(AtomicBool::new(false));
    let watching = watch(world.work.path().to_owned(), Arc::clone(&stop));
    for name in ["evil/bomb", "evil/bombs", "evil/trees"] {
        let fetched = world.fetch_with(&git, &world.source(name)).await;
        assert!(label(&fetched).starts_with("source-too-"), "{name}: {}", label(&fetched));
    }
    stop.store(true, Ordering::Relaxed);
    let peaks = watching.join().unwrap();
    println!("peaks: {peaks:?}");
    assert!(peaks.space > 0 && peaks.space <= space >> 10, "{peaks:?}");
    assert!(peaks.memory <= 64 << 10, "{peaks:?}");
    let expected = [
        "Max address space 201326592 201326592".to_owned(),
        "Max core file size 0 0".to_owned(),
        "Max file size 4194304 4194304".to_owned(),
        "Max open files 64 64".to_owned(),
    ];
    assert_eq!(peaks.bounds, BTreeSet::from(expected));
}

#[tokio::test]
async fn a_file_that_is_too_large_is_listed_with_its_head() {
    let world = World::new().await;
    let repository = world.host.repository("octo/large").unwrap();
    let large = vec![b'x'; (64 << 10) + 1];
    repository.publish_files(&[("SKILL.md", b"small"), ("large.txt", &large)]).unwrap();
    let snapshot = world.fetch("octo/large").await.unwrap();
    assert_eq!(snapshot.total, 5 + large.len() as u64);
    let Content::TooLarge { head, size, .. } = &snapshot.files[1].content else {
        panic!("kept whole");
    };
    assert_eq!((head.len(), *size), (4 << 10, large.len() as u64));
    assert_eq!(snapshot.files[1].bytes(), None);
    repository.publish_files(&[("SKILL.md", b"small"), ("large.txt", &[&large[..], b"y"].concat())]).unwrap();
    assert_ne!(world.fetch("octo/large").await.unwrap().digest, snapshot.digest);
}

#[tokio::test]
async fn processor_time_ends_what_works_before_the_wall_does() {
    let world = World::new().await;
    let spinning = world.program("spinning", "while :; do :; done");
    let limits = Limits { cpu: 1, ..world.settings().limits };
    let git = Git::new(GitSettings { limits, git: spinning, ..world.settings() });
    assert_eq!(label(&world.fetch_with(&git, &world.source("evil/any")).await), "source-too-large");
}
