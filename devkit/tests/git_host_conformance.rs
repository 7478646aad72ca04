//! The git host, judged from outside: Debian's git, unchanged and with its own defaults, lists, clones and fetches what is
//! harmless, over HTTP and TLS and by every protocol it has; and meets the faults that the host is asked for.

use std::path::Path;
use std::process::Output;

use devkit::git_host::{Act, At, GIT, GitHost, hostile};
use tokio::process::Command;

async fn git(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(GIT);
    command.args(args).current_dir(dir).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", dir);
    command.env("LC_ALL", "C").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    let authority = dir.ancestors().map(|dir| dir.join("ca.pem")).find(|file| file.exists());
    command.env("GIT_SSL_CAINFO", authority.expect("a certificate")).kill_on_drop(true);
    command.output().await.expect("git")
}

async fn fine(dir: &Path, args: &[&str]) -> String {
    let output = git(dir, args).await;
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

async fn refused(dir: &Path, args: &[&str]) -> String {
    let output = git(dir, args).await;
    assert!(!output.status.success(), "git {args:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn scene() -> (GitHost, tempfile::TempDir) {
    let (host, dir) = (GitHost::start().await.expect("a host"), tempfile::tempdir().expect("a directory"));
    std::fs::copy(host.ca_file(), dir.path().join("ca.pem")).expect("the certificate");
    (host, dir)
}

#[tokio::test]
async fn git_lists_clones_and_fetches_by_every_protocol() {
    let (host, dir) = scene().await;
    let repository = host.repository("octo/skill").unwrap();
    let commit = hostile::harmless(&repository).unwrap();
    let at = dir.path();
    for (number, url) in [host.http_url("octo/skill"), host.https_url("octo/skill.git")].iter().enumerate() {
        for version in ["0", "1", "2"] {
            let protocol = format!("protocol.version={version}");
            let listed = fine(at, &["-c", &protocol, "ls-remote", "--symref", url]).await;
            let expected = format!("ref: refs/heads/main\tHEAD\n{commit}\tHEAD\n{commit}\trefs/heads/main");
            assert_eq!(listed, expected);
            let to = format!("clone-{number}-{version}");
            fine(at, &["-c", &protocol, "clone", "-q", "--depth=1", url, &to]).await;
            let clone = at.join(&to);
            assert_eq!(fine(&clone, &["rev-parse", "HEAD"]).await, commit);
            let skill = std::fs::read_to_string(clone.join("skills/sample/SKILL.md")).unwrap();
            assert_eq!(skill, hostile::SKILL);
            fine(&clone, &["fsck", "--strict"]).await;
        }
    }
    let next = repository.publish_files(&[("SKILL.md", b"next")]).unwrap();
    let clone = at.join("clone-1-2");
    fine(&clone, &["fetch", "-q"]).await;
    assert_eq!(fine(&clone, &["rev-parse", "origin/main"]).await, next);
    let wants = host.wanted("octo/skill");
    assert_eq!(wants.into_iter().collect::<std::collections::BTreeSet<_>>(), [commit, next].into());
}

#[tokio::test]
async fn git_does_not_trust_another_authority_and_finds_no_other_repository() {
    let (host, dir) = scene().await;
    let (stranger, _) = scene().await;
    hostile::harmless(&stranger.repository("octo/skill").unwrap()).unwrap();
    let said = refused(dir.path(), &["ls-remote", &stranger.https_url("octo/skill")]).await;
    assert!(said.contains("certificate"), "{said}");
    let said = refused(dir.path(), &["ls-remote", &host.http_url("octo/missing")]).await;
    assert!(said.contains("not found"), "{said}");
    let said = refused(dir.path(), &["push", "-q", &host.http_url("octo/skill"), "HEAD"]).await;
    assert!(!said.is_empty());
}

/// What the fetcher's refusals are for: git itself falls into each of these.
#[tokio::test]
async fn git_with_its_own_defaults_gets_a_forks_commit_and_follows_a_redirect() {
    let (host, dir) = scene().await;
    let at = dir.path();
    let commits = hostile::imposter(&host.repository("anthropics/skills").unwrap()).unwrap();
    let url = host.http_url("anthropics/skills");
    let listed = fine(at, &["ls-remote", &url]).await;
    assert!(listed.contains(&commits.pull) && !listed.contains(&commits.hidden), "{listed}");
    fine(at, &["init", "-q", "naive"]).await;
    let naive = at.join("naive");
    fine(&naive, &["fetch", "-q", "--depth=1", &url, &commits.hidden]).await;
    assert_eq!(fine(&naive, &["rev-parse", "FETCH_HEAD"]).await, commits.hidden);
    assert!(host.wanted("anthropics/skills").contains(&commits.hidden));

    host.act("octo/moved", At::Refs, Act::Redirect(url));
    fine(at, &["ls-remote", &host.http_url("octo/moved")]).await;
}

#[tokio::test]
async fn git_meets_every_fault() {
    let (host, dir) = scene().await;
    let url = |name: &str| host.http_url(&format!("evil/{name}"));
    let cases = [
        ("500", At::Refs, Act::Status(500), "returned error: 500"),
        ("401", At::Refs, Act::Status(401), "could not read Username"),
        ("garbage", At::Refs, Act::Garbage, "protocol error"),
        ("error", At::Refs, Act::Error("sorry".into()), "remote error: sorry"),
        ("cut", At::Pack, Act::CutAfter(100), "transfer closed"),
        ("short", At::Pack, Act::EndAfter(100), "disconnect"),
        ("pack", At::Pack, Act::GarbagePack, "pack"),
    ];
    for (name, at, act, words) in cases {
        hostile::harmless(&host.repository(&format!("evil/{name}")).unwrap()).unwrap();
        host.act(&format!("evil/{name}"), at, act);
        let said = refused(dir.path(), &["clone", "-q", "--bare", &url(name), name]).await;
        assert!(said.contains(words), "{name}: {said}");
    }
    for (name, at, act) in [
        ("hangs", At::Refs, Act::Hang),
        ("half", At::Pack, Act::HangAfter(100)),
        ("drips", At::Refs, Act::Drip),
        ("endless", At::Refs, Act::EndlessRefs),
    ] {
        hostile::harmless(&host.repository(&format!("evil/{name}")).unwrap()).unwrap();
        host.act(&format!("evil/{name}"), at, act);
        let (to, url) = (format!("to-{name}"), url(name));
        let args = ["clone", "-q", "--bare", &url, &to];
        let cloned = tokio::time::timeout(std::time::Duration::from_secs(2), git(dir.path(), &args)).await;
        assert!(cloned.is_err(), "{name} ended");
    }
}

#[tokio::test]
async fn git_refuses_every_violation_when_it_is_told_to_check() {
    let (host, dir) = scene().await;
    for name in hostile::VIOLATIONS {
        let repository = host.repository(&format!("evil/{name}")).unwrap();
        hostile::violation(&repository, name).unwrap();
        let url = host.http_url(&format!("evil/{name}"));
        let args = ["-c", "transfer.fsckObjects=true", "clone", "-q", "--bare", &url, name];
        let said = refused(dir.path(), &args).await;
        assert!(said.contains("fsck") || said.contains("error: object"), "{name}: {said}");
    }
}
