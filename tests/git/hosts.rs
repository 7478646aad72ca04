//! Hosts that mean harm, or are away, one row each.

use std::time::Duration;

use devkit::git_host::hostile::harmless;
use devkit::git_host::{Act, At};
use futures::{StreamExt as _, stream};
use maple_router::gateway::git::{Git, GitSettings, Limits, Source};

use crate::world::{World, assert_table, label};

fn rows(elsewhere: &str) -> Vec<(&'static str, At, Act, &'static str)> {
    let no_space = || Act::Error("sorry\nfatal: No space left on device\nremote error: x".to_owned());
    let away = || Act::Redirect(elsewhere.to_owned());
    vec![
        ("redirect", At::Refs, away(), "source-redirect"),
        ("redirect-list", At::List, away(), "source-redirect"),
        ("redirect-pack", At::Pack, away(), "source-redirect"),
        ("401", At::Refs, Act::Status(401), "source-missing"),
        ("403", At::Refs, Act::Status(403), "source-missing"),
        ("404", At::Refs, Act::Status(404), "source-missing"),
        ("410", At::Refs, Act::Status(410), "source-missing"),
        ("429", At::Refs, Act::Status(429), "network-unavailable"),
        ("500", At::Refs, Act::Status(500), "network-unavailable"),
        ("503-list", At::List, Act::Status(503), "network-unavailable"),
        ("500-pack", At::Pack, Act::Status(500), "network-unavailable"),
        ("404-pack", At::Pack, Act::Status(404), "source-missing"),
        ("hangs", At::Refs, Act::Hang, "network-silent"),
        ("hangs-in-refs", At::Refs, Act::HangAfter(40), "network-silent"),
        ("hangs-before-pack", At::Pack, Act::Hang, "network-silent"),
        ("hangs-in-pack", At::Pack, Act::HangAfter(200), "network-silent"),
        ("drips-refs", At::Refs, Act::Drip, "network-silent"),
        ("drips-pack", At::Pack, Act::Drip, "network-silent"),
        ("cut-refs", At::Refs, Act::CutAfter(40), "network-broken"),
        ("cut-list", At::List, Act::CutAfter(40), "network-broken"),
        ("cut-pack", At::Pack, Act::CutAfter(200), "network-broken"),
        ("short-pack", At::Pack, Act::EndAfter(200), "network-broken"),
        ("garbage", At::Refs, Act::Garbage, "source-malformed"),
        ("garbage-list", At::List, Act::Garbage, "source-malformed"),
        ("garbage-answer", At::Pack, Act::Garbage, "source-malformed"),
        ("garbage-pack", At::Pack, Act::GarbagePack, "source-malformed"),
        ("error-refs", At::Refs, no_space(), "network-unavailable"),
        ("error-list", At::List, no_space(), "network-unavailable"),
        ("error-pack", At::Pack, no_space(), "network-unavailable"),
        ("endless-refs", At::Refs, Act::EndlessRefs, "source-too-large"),
    ]
}

/// Host and fetchers have threads of their own: one that names references without end leaves the others their time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_host_comes_out_under_its_code() {
    let (world, other) = (World::new().await, World::new().await);
    harmless(&other.host.repository("octo/skill").unwrap()).unwrap();
    let rows = rows(&other.host.http_url("octo/skill"));
    for (name, at, act, _) in &rows {
        let name = format!("evil/{name}");
        harmless(&world.host.repository(&name).unwrap()).unwrap();
        world.host.act(&name, *at, act.clone());
    }
    // A few side by side: what hangs does so for all of its time.
    let fetches = rows.iter().map(async |(name, _, _, expected)| {
        let mut settings = world.settings();
        if *expected == "network-silent" {
            settings.limits.wall = Duration::from_secs(4);
        }
        settings.limits.address_space = 192 << 20;
        let fetched = Git::new(settings).fetch(&world.source(&format!("evil/{name}"))).await;
        (String::from(*name), String::from(*expected), label(&fetched).to_owned())
    });
    let table: Vec<_> = stream::iter(fetches).buffered(6).collect().await;
    world.assert_clean().await;
    assert_table(&table);
    assert_eq!(other.host.visits(), [], "a redirect was followed");
}

#[tokio::test]
async fn nobody_there_no_name_and_no_trust_in_a_certificate_are_the_networks() {
    let world = World::new().await;
    harmless(&world.host.repository("octo/skill").unwrap()).unwrap();
    let with = |edit: &dyn Fn(&mut GitSettings)| {
        let mut settings = world.settings();
        edit(&mut settings);
        Git::new(settings)
    };
    let at = |url: &str| Source::parse(url, None, None).unwrap();
    let https = at(&world.host.https_url("octo/skill"));
    let cases = [
        (with(&|s| s.hosts.push("127.0.0.1:1".into())), at("http://127.0.0.1:1/octo/skill")),
        (with(&|s| s.hosts.push("nobody.invalid".into())), at("https://nobody.invalid/octo/skill")),
        (with(&|s| s.ca_file = None), https.clone()),
    ];
    for (git, source) in cases {
        let fetched = world.fetch_with(&git, &source).await;
        assert_eq!(label(&fetched), "network-no-connection");
    }
    let missing = with(&|s| s.ca_file = Some("/nonexistent/ca.pem".into()));
    assert_eq!(label(&world.fetch_with(&missing, &https).await), "ca-file");
}

#[tokio::test]
async fn a_reference_that_moved_is_looked_at_again() {
    let world = World::new().await;
    let repository = world.host.repository("octo/moving").unwrap();
    let old = harmless(&repository).unwrap();
    let new = repository.publish_files(&[("SKILL.md", b"new")]).unwrap();
    world.host.moves("octo/moving", vec![old.clone(), new.clone()]);
    assert_eq!(world.fetch("octo/moving").await.unwrap().commit, new);
    let restless = [&old, &new].into_iter().cycle().take(20).cloned().collect();
    world.host.moves("octo/moving", restless);
    assert_eq!(label(&world.fetch("octo/moving").await), "network-moved");
}

#[tokio::test]
async fn references_are_counted() {
    let world = World::new().await;
    let repository = world.host.repository("evil/refs").unwrap();
    let commit = harmless(&repository).unwrap();
    let lines: String = (0..300).map(|number| format!("create refs/heads/b{number} {commit}\n")).collect();
    repository.git(&["update-ref", "--stdin"], lines.as_bytes()).unwrap();
    assert_eq!(label(&world.fetch("evil/refs").await), "ok");
    let limits = Limits { refs: 200, ..world.settings().limits };
    let git = Git::new(GitSettings { limits, ..world.settings() });
    assert_eq!(label(&world.fetch_with(&git, &world.source("evil/refs")).await), "source-too-large");
}
