//! Repositories that mean harm, one row each.

use anyhow::Result;
use devkit::git_host::Repository;
use devkit::git_host::hostile as make;
use maple_router::gateway::git::{Content, Mode};

use crate::world::{World, assert_table, label};

type Make = Box<dyn Fn(&Repository) -> Result<String>>;

fn rows() -> Vec<(String, Make, &'static str)> {
    fn row(
        name: &str,
        make: impl Fn(&Repository) -> Result<String> + 'static,
        expected: &'static str,
    ) -> (String, Make, &'static str) {
        (name.to_owned(), Box::new(make), expected)
    }
    let mut rows = vec![
        row("harmless", make::harmless, "ok"),
        row("leaked-credential", make::leaked_credential, "ok"),
        row("one-large-blob", |at| make::one_large_blob(at, 256 << 20), "source-too-large"),
        row("many-blobs", |at| make::many_blobs(at, 50, 4 << 20), "source-too-large"),
        row("incompressible", |at| make::incompressible(at, 8 << 20), "source-too-large"),
        row("100000-files", |at| make::many_files(at, 100_000), "source-too-many-files"),
        row("1000000-files-git-bomb", |at| make::git_bomb(at, 6), "source-too-many-files"),
        row("10^12-files-git-bomb", |at| make::git_bomb(at, 12), "source-too-many-files"),
        row("deep", |at| make::deep(at, 1_500), "source-too-large"),
        row("long-name", |at| make::long_name(at, 2_000), "source-too-large"),
        row("symlinks-out", make::symlinks_out, "ok"),
        row("submodule", |at| make::submodule(at, "https://127.0.0.1:1/evil/module"), "ok"),
        row("lfs", |at| make::lfs(at, "https://127.0.0.1:1/evil/lfs"), "ok"),
    ];
    for name in make::VIOLATIONS {
        rows.push(row(name, |at| make::violation(at, name), "source-malformed"));
    }
    rows
}

#[tokio::test]
async fn every_repository_comes_out_under_its_code() {
    let world = World::new().await;
    let mut table = Vec::new();
    for (name, make, expected) in rows() {
        let repository = format!("evil/{}", name.replace('^', "-"));
        make(&world.host.repository(&repository).unwrap()).unwrap();
        let fetched = world.fetch(&repository).await;
        table.push((name, expected.to_owned(), label(&fetched).to_owned()));
    }
    assert_table(&table);
}

#[tokio::test]
async fn links_and_submodules_are_told_and_not_followed() {
    let world = World::new().await;
    make::symlinks_out(&world.host.repository("evil/links").unwrap()).unwrap();
    let links = world.fetch("evil/links").await.unwrap();
    let seen: Vec<_> = links.files.iter().map(|entry| (entry.path.as_str(), entry.leads_out())).collect();
    assert_eq!(seen, [("SKILL.md", false), ("passwd", true), ("up", true)]);
    assert_eq!(links.files[1].bytes().unwrap().as_ref(), b"/etc/passwd");

    make::harmless(&world.host.repository("evil/module").unwrap()).unwrap();
    let url = world.host.http_url("evil/module");
    make::submodule(&world.host.repository("evil/parent").unwrap(), &url).unwrap();
    let parent = world.fetch("evil/parent").await.unwrap();
    let module = &parent.files[2];
    assert!(module.mode == Mode::Submodule && matches!(module.content, Content::Submodule { .. }));
    assert!(world.host.visits().iter().all(|visit| visit.repository != "evil/module"), "it was fetched");
}

#[tokio::test]
async fn lfs_pointers_stay_pointers_and_nothing_of_a_repository_is_obeyed() {
    let world = World::new().await;
    let url = world.host.http_url("evil/lfs-store");
    make::lfs(&world.host.repository("evil/lfs").unwrap(), &url).unwrap();
    let lfs = world.fetch("evil/lfs").await.unwrap();
    assert!(lfs.files[2].bytes().unwrap().starts_with(b"version https://git-lfs"));
    assert!(world.host.visits().iter().all(|visit| visit.repository == "evil/lfs"));

    let markers = tempfile::tempdir().unwrap();
    let marker = markers.path().join("obeyed");
    make::commands(&world.host.repository("evil/commands").unwrap(), marker.to_str().unwrap()).unwrap();
    let commands = world.fetch("evil/commands").await.unwrap();
    let skill = commands.files.iter().find(|entry| entry.path == "SKILL.md").unwrap();
    assert_eq!(skill.bytes().unwrap().as_ref(), b"$Id$\nline\n", "no attribute changes a byte");
    assert!(!marker.exists());
}
