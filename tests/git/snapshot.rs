//! What is fetched of repositories that are as they should be.

use bytes::Bytes;
use devkit::git_host::hostile::{SKILL, harmless, imposter};
use maple_router::gateway::git::{GitError, Mode, Source};

use crate::world::World;

#[tokio::test]
async fn a_snapshot_is_what_the_repository_has_over_http_and_over_tls() {
    let world = World::new().await;
    let commit = harmless(&world.host.repository("octo/skill").unwrap()).unwrap();
    let over_http = world.fetch("octo/skill").await.unwrap();
    assert_eq!(
        (over_http.commit.as_str(), over_http.reference.as_str()),
        (commit.as_str(), "refs/heads/main")
    );
    let seen: Vec<_> = over_http.files.iter().map(|entry| (entry.path.as_str(), entry.mode)).collect();
    let expected = [
        ("README.md", Mode::File),
        ("skills/sample/SKILL.md", Mode::File),
        ("skills/sample/scripts/hello.sh", Mode::Executable),
    ];
    assert_eq!(seen, expected);
    assert_eq!(over_http.files[1].bytes(), Some(&Bytes::from_static(SKILL.as_bytes())));
    let over_tls = Source::parse(&world.host.https_url("octo/skill"), None, None).unwrap();
    let over_tls = world.fetch_with(&world.git(), &over_tls).await.unwrap();
    assert!(over_tls == over_http);
}

#[tokio::test]
async fn references_and_paths_are_followed() {
    let world = World::new().await;
    let repository = world.host.repository("octo/skill").unwrap();
    let old = harmless(&repository).unwrap();
    repository.set("refs/heads/release/1.x", &old).unwrap();
    repository.set("refs/tags/plain", &old).unwrap();
    repository.git(&["tag", "-a", "-m", "words", "v1", &old], b"").unwrap();
    let new = repository.publish_files(&[("SKILL.md", b"new")]).unwrap();
    let cases = [
        (None, "", &new, "refs/heads/main", 1),
        (Some("main"), "", &new, "refs/heads/main", 1),
        (Some("release/1.x"), "", &old, "refs/heads/release/1.x", 3),
        (Some("refs/heads/release/1.x"), "", &old, "refs/heads/release/1.x", 3),
        (Some("plain"), "", &old, "refs/tags/plain", 3),
        (Some("v1"), "", &old, "refs/tags/v1", 3),
        (Some("refs/tags/v1"), "skills/sample/", &old, "refs/tags/v1", 2),
        (Some("v1"), "README.md", &old, "refs/tags/v1", 1),
    ];
    for (reference, path, commit, name, files) in cases {
        let path = Some(path).filter(|path| !path.is_empty()).map(str::to_owned);
        let source = Source { reference: reference.map(str::to_owned), path, ..world.source("octo/skill") };
        let snapshot = world.fetch_with(&world.git(), &source).await.unwrap();
        let seen = (&snapshot.commit, snapshot.reference.as_str(), snapshot.files.len());
        assert_eq!(seen, (commit, name, files), "{reference:?}");
    }
}

#[tokio::test]
async fn what_the_host_does_not_name_is_refused() {
    let world = World::new().await;
    let repository = world.host.repository("octo/skill").unwrap();
    let imposter = imposter(&repository).unwrap();
    repository.set("refs/heads/both", &imposter.honest).unwrap();
    repository.set("refs/tags/both", &imposter.pull).unwrap();
    let short = &imposter.pull[..10];
    for (reference, label) in [
        ("missing", "source-reference"),
        ("both", "source-reference"),
        ("refs/tags/both", "source-reference"),
        ("refs/pull/1/head", "source-reference"),
        ("pull/1/head", "source-reference"),
        (short, "source-reference"),
        ("--upload-pack=touch", "source-reference"),
    ] {
        let source = Source { reference: Some(reference.to_owned()), ..world.source("octo/skill") };
        let fetched = world.fetch_with(&world.git(), &source).await;
        assert_eq!(fetched.map_err(GitError::label).err(), Some(label), "{reference}");
    }
    for (path, label) in
        [("nothing", "source-missing"), ("skills/../README.md", "source-url"), ("-r", "source-url")]
    {
        let source = Source { path: Some(path.to_owned()), ..world.source("octo/skill") };
        let fetched = world.fetch_with(&world.git(), &source).await;
        assert_eq!(fetched.map_err(GitError::label).err(), Some(label), "{path}");
    }
}

#[tokio::test]
async fn an_empty_repository_is_missing_and_a_head_without_a_branch_is_read() {
    let world = World::new().await;
    world.host.repository("octo/empty").unwrap();
    assert_eq!(world.fetch("octo/empty").await.unwrap_err().label(), "source-missing");
    let repository = world.host.repository("octo/detached").unwrap();
    let commit = harmless(&repository).unwrap();
    repository.publish_files(&[("SKILL.md", b"new")]).unwrap();
    repository.git(&["update-ref", "--no-deref", "HEAD", &commit], b"").unwrap();
    let snapshot = world.fetch("octo/detached").await.unwrap();
    assert_eq!((snapshot.commit, snapshot.reference.as_str()), (commit, "HEAD"));
}
