//! Whose code it is: no look-alike, redirect or fork's commit is taken for a trusted owner's, and nobody off the list is asked.

use devkit::git_host::hostile::{harmless, imposter};
use devkit::git_host::{Act, At};
use maple_router::gateway::git::{Git, GitSettings, Source, UrlFault};
use url::Url;

use crate::world::{World, label};

#[tokio::test]
async fn a_forks_commit_is_never_asked_for() {
    let world = World::new().await;
    let commits = imposter(&world.host.repository("anthropics/skills").unwrap()).unwrap();
    for id in [&commits.pull, &commits.hidden, &commits.honest] {
        let source = Source { reference: Some(id.clone()), ..world.source("anthropics/skills") };
        assert_eq!(label(&world.fetch_with(&world.git(), &source).await), "source-reference");
    }
    assert_eq!(world.host.visits(), [], "nothing was asked of the host");
    let snapshot = world.fetch("anthropics/skills").await.unwrap();
    assert_eq!(snapshot.commit, commits.honest);
    let wanted = world.host.wanted("anthropics/skills");
    assert!(wanted.contains(&commits.honest), "{wanted:?}");
    assert!(!wanted.contains(&commits.pull) && !wanted.contains(&commits.hidden), "{wanted:?}");
}

#[tokio::test]
async fn a_redirect_proves_nothing() {
    let world = World::new().await;
    harmless(&world.host.repository("evil/skills").unwrap()).unwrap();
    let to = Act::Redirect(world.host.http_url("evil/skills"));
    world.host.act("anthropics/skills", At::Refs, to);
    let source = world.source("anthropics/skills");
    assert!(world.git().trusts(&source.url), "the address alone is a trusted owner's");
    assert_eq!(label(&world.fetch("anthropics/skills").await), "source-redirect");
    assert!(world.host.visits().iter().all(|visit| visit.repository == "anthropics/skills"));
}

#[tokio::test]
async fn trust_needs_a_listed_host_and_the_very_owner() {
    let world = World::new().await;
    let git = world.git();
    let trusts = |text: &str| Url::parse(text).is_ok_and(|url| git.trusts(&url));
    let (http, https) = (world.host.http_authority(), world.host.https_authority());
    for url in [format!("http://{http}/anthropics/skills"), format!("https://{https}/ANTHROPICS/skills.git")]
    {
        assert!(trusts(&url), "{url}");
    }
    for url in [
        format!("https://{https}/anthrop\u{456}cs/skills"),
        format!("https://{https}/evil/anthropics"),
        format!("https://anthropics@{https}/evil/skills"),
        format!("https://{https}/anthropics/skills/more"),
        "https://github.com/anthropics/skills".to_owned(),
    ] {
        assert!(!trusts(&url), "{url}");
    }
    let github = Git::new(GitSettings::new(world.work.path().to_owned()));
    let at_github = |text: &str| Url::parse(text).is_ok_and(|url| github.trusts(&url));
    assert!(at_github("https://github.com/Google-Gemini/skills"));
    for url in [
        "http://github.com/anthropics/skills",
        "https://github.com:8443/anthropics/skills",
        "https://github.com@evil.example/anthropics/skills",
        "https://github.com.evil/anthropics/skills",
        "https://anthropics.evil.example/anthropics/skills",
        "https://g\u{456}thub.com/anthropics/skills",
        "http://127.0.0.1/anthropics/skills",
    ] {
        assert!(!at_github(url), "{url}");
    }
}

#[tokio::test]
async fn nobody_off_the_list_is_asked() {
    let world = World::new().await;
    harmless(&world.host.repository("octo/skill").unwrap()).unwrap();
    let settings = GitSettings { hosts: vec!["github.com".to_owned()], ..world.settings() };
    let fetched = world.fetch_with(&Git::new(settings), &world.source("octo/skill")).await;
    assert_eq!(label(&fetched), "source-host");
    let strict = GitSettings { allow_insecure_hosts: false, ..world.settings() };
    for url in [world.host.http_url("octo/skill"), world.host.https_url("octo/skill")] {
        let source = Source::parse(&url, None, None).unwrap();
        let fetched = world.fetch_with(&Git::new(strict.clone()), &source).await;
        assert_eq!(label(&fetched), "source-url");
    }
    assert_eq!(world.host.visits(), []);
    assert_eq!(Source::parse("https://github.com@evil.example/a/b", None, None), Err(UrlFault::Userinfo));
}
