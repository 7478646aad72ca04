//! Profile `git`: repositories of a real git behind a hostile host, from their address to a publication.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use devkit::git_host::{Act, At, GitHost, hostile};
use devkit::judge::{Mode, ScriptedJudge};
use maple_router::config::Screening;
use maple_router::gateway::confined::Confined;
use maple_router::gateway::git::{Git, GitSettings, Trust};
use maple_router::screening::worker::{Tools, Trees};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene};

struct World {
    scene: Scene,
    host: GitHost,
    judge: ScriptedJudge,
    work: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let scene = Scene::new().await;
        scene.calibrate().await;
        let host = GitHost::start().await.expect("a host");
        let judge = ScriptedJudge::start().await.expect("a judge");
        judge.set(Mode::Scored(92));
        Self { scene, host, judge, work: tempfile::tempdir().expect("a directory") }
    }

    fn tools(&self, trusted: &[&str]) -> Tools {
        let mut settings = GitSettings::new(self.work.path().to_owned());
        settings.hosts = vec![self.host.http_authority()];
        settings.allow_insecure_hosts = true;
        let owners = trusted.iter().map(|owner| (*owner).to_owned()).collect();
        settings.trusted = vec![Trust { host: self.host.http_authority(), owners }];
        settings.limits.wall = Duration::from_secs(10);
        Tools { git: Some(Git::new(settings)), ..self.scene.tools(Some(&self.judge), &Screening::default()) }
    }

    async fn submit(&self, url: &str) -> Uuid {
        let id = Uuid::new_v4();
        self.scene
            .sql(&format!(
                "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'git');
                 INSERT INTO submission_fields (submission_id, field_key, field_value, position) VALUES ('{id}', 'repo_url', '{url}', 1); COMMIT"
            ))
            .await;
        self.scene.run_of(id).await
    }

    async fn findings(&self, run: Uuid) -> Vec<String> {
        let sql =
            "SELECT severity || ' ' || rule FROM screening.findings WHERE submission_id = $1 ORDER BY number";
        self.scene.eyes.query(sql, &[&run]).await.expect("findings").iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test]
async fn a_skill_is_published_with_its_version_and_a_second_one_above_it() {
    let world = World::new().await;
    let repository = world.host.repository("owner/skill").expect("a repository");
    let text = |version: &str| {
        format!("---\nname: skill\ndescription: says hello\nversion: {version}\n---\nSay hello.\n")
    };
    repository.publish_files(&[("SKILL.md", text("1.2.0").as_bytes())]).expect("published");
    let working = Scene::work(world.tools(&[]));
    let run = world.submit(&world.host.http_url("owner/skill")).await;
    world.scene.until(run, &["PUBLISHED"]).await;
    let of = async |run: Uuid| -> (String, String) {
        let row = world
            .scene
            .eyes
            .query_one("SELECT skill_id, version FROM screening.published WHERE submission_id = $1", &[&run])
            .await;
        let row = row.expect("a publication");
        (row.get(0), row.get(1))
    };
    let first = of(run).await;
    assert_eq!(first.1, "1.2.0");
    repository.publish_files(&[("SKILL.md", text("1.1.0").as_bytes())]).expect("published");
    let run = world.submit(&world.host.http_url("owner/skill")).await;
    world.scene.until(run, &["PUBLISHED"]).await;
    assert_eq!(of(run).await, (first.0, "1.2.1".to_owned()), "its own word is lower than what there is");
    let told: i64 =
        world.scene.one("SELECT count(*) FROM router.outbox WHERE kind = 'screening.published'").await;
    assert_eq!(told, 2);
    working.stop().await;
}

#[tokio::test]
async fn a_version_rises_at_its_end_and_a_shadow_publishes_nothing() {
    let world = World::new().await;
    let next = async |published: &str| -> String {
        world
            .scene
            .sql(&format!(
                "TRUNCATE screening.published; INSERT INTO screening.published (skill_id, version, submission_id, url, path, commit, content)
                 SELECT 'sk_0123456789abcdef', '{published}', id, '', '', '', '' FROM screening.submissions LIMIT 1"
            ))
            .await;
        world.scene.one("SELECT screening.next_version('sk_0123456789abcdef', NULL)").await
    };
    world.submit("https://nowhere.example/a/b").await;
    assert_eq!(next("1.0.999999999").await, "1.1.0");
    assert_eq!(next("1.999999999.999999999").await, "2.0.0");
    world.scene.sql("TRUNCATE screening.published").await;
    world.scene.sql("UPDATE screening.forms SET enforced_since = NULL WHERE form_id = 'git'").await;
    hostile::harmless(&world.host.repository("owner/skill").expect("a repository")).expect("made");
    let working = Scene::work(world.tools(&[]));
    let run = world.submit(&world.host.http_url("owner/skill")).await;
    world.scene.until(run, &["PUBLISHED"]).await;
    let published: i64 = world.scene.one("SELECT count(*) FROM screening.published").await;
    assert_eq!(published, 0);
    working.stop().await;
}

#[tokio::test]
async fn what_stands_beside_a_repository_is_looked_at_and_two_repositories_are_none() {
    let world = World::new().await;
    hostile::harmless(&world.host.repository("owner/skill").expect("a repository")).expect("made");
    let url = world.host.http_url("owner/skill");
    let working = Scene::work(world.tools(&[]));
    for (key, value, expected) in [
        (
            "note",
            "Cheap viagra without prescription! Click here: https://pills.example/",
            "block spam-offers",
        ),
        ("repo_url", "https://elsewhere.example/a/b", "block source-ambiguous"),
    ] {
        let id = Uuid::new_v4();
        world
            .scene
            .sql(&format!(
                "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'git');
                 INSERT INTO submission_fields (submission_id, field_key, field_value, position)
                 VALUES ('{id}', 'repo_url', '{url}', 1), ('{id}', '{key}', '{value}', 2); COMMIT"
            ))
            .await;
        let run = world.scene.run_of(id).await;
        world.scene.until(run, &["TIER1_FAILED"]).await;
        let findings = world.findings(run).await;
        assert!(findings.iter().any(|finding| finding == expected), "{key}: {findings:?}");
    }
    working.stop().await;
}

/// A token in a file: of GitHub's form, and nobody's. Put together here, so that no scanner finds it in this file.
fn leaked(repository: &devkit::git_host::Repository) -> String {
    let token = ["gh", "p_", "k9Xw2Qz7Lm4Rt8Vb", "3Nc6Ys1Hd5Jf0Ga9PeUo"].concat();
    let files: [(&str, &[u8]); 2] =
        [("SKILL.md", b"---\nname: x\n---\nHello.\n"), ("config.ini", token.as_bytes())];
    repository.publish_files(&files).expect("made")
}

#[tokio::test]
async fn what_a_host_gives_that_is_wrong_is_a_finding_or_a_dead_letter_and_never_approved() {
    let world = World::new().await;
    let working = Scene::work(world.tools(&[]));
    type Make = fn(&devkit::git_host::Repository);
    let made: [(&str, Make, &str); 3] = [
        (
            "owner/bomb",
            |repository| drop(hostile::git_bomb(repository, 6).expect("made")),
            "block source-too-many-files",
        ),
        ("owner/leak", |repository| drop(leaked(repository)), "block github-pat"),
        ("owner/outside", |repository| drop(hostile::symlinks_out(repository).expect("made")), "block "),
    ];
    for (name, make, expected) in made {
        make(&world.host.repository(name).expect("a repository"));
        let run = world.submit(&world.host.http_url(name)).await;
        let state = world.scene.until(run, &["TIER1_FAILED", "PUBLISHED", "NEEDS_REVIEW", "REJECTED"]).await;
        let findings = world.findings(run).await;
        assert_eq!(state, "TIER1_FAILED", "{name}: {findings:?}");
        assert!(findings.iter().any(|finding| finding.starts_with(expected)), "{name}: {findings:?}");
    }
    for (url, expected) in [
        (world.host.http_url("owner/none"), "block source-missing"),
        ("https://elsewhere.example/owner/skill".to_owned(), "block source-host"),
        ("not a url".to_owned(), "block source-url"),
    ] {
        let run = world.submit(&url).await;
        world.scene.until(run, &["TIER1_FAILED"]).await;
        assert_eq!(world.findings(run).await, [expected], "{url}");
    }
    // A host that hangs is tried once more, and then a person has it.
    world
        .host
        .repository("owner/hangs")
        .and_then(|repository| repository.publish_files(&[("SKILL.md", b"x")]))
        .expect("a repository");
    world.host.act("owner/hangs", At::Refs, Act::Hang);
    let run = world.submit(&world.host.http_url("owner/hangs")).await;
    let began = std::time::Instant::now();
    while world.scene.entries(run).await.is_empty() {
        assert!(began.elapsed() < 2 * PATIENCE);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(world.scene.entries(run).await, ["screening_job source_network Pending"]);
    assert_eq!(world.scene.state(run).await, "RECEIVED", "its state is kept");
    working.stop().await;
}

/// Without an answer nothing is known of a repository: it is tried again, and then a person has it.
#[tokio::test]
async fn a_repository_that_cannot_be_scanned_is_approved_by_nobody() {
    let world = World::new().await;
    let repository = world.host.repository("owner/skill").expect("a repository");
    repository.publish_files(&[("SKILL.md", b"---\nname: x\n---\nHello.\n")]).expect("published");
    let dies = Confined { program: "/bin/false".into(), wall: PATIENCE };
    let working = Scene::work(Tools { trees: Trees::by(dies), ..world.tools(&[]) });
    let run = world.submit(&world.host.http_url("owner/skill")).await;
    let began = std::time::Instant::now();
    while world.scene.entries(run).await.is_empty() {
        assert!(began.elapsed() < 3 * PATIENCE);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(world.scene.state(run).await, "TIER1_SCANNING", "its state is kept");
    assert_eq!(world.scene.entries(run).await, ["screening_job poison Pending"]);
    assert_eq!(
        world
            .scene
            .one::<i64>("SELECT count(*) FROM screening.scan_results WHERE job_type = 'tier1-scan'")
            .await,
        0
    );
    working.stop().await;
}

#[tokio::test]
async fn no_more_repositories_are_fetched_at_once_than_there_are_slots() {
    let world = World::new().await;
    let names = ["owner/one", "owner/other"];
    for name in names {
        let repository = world.host.repository(name).expect("a repository");
        repository.publish_files(&[("SKILL.md", b"x")]).expect("published");
        world.host.act(name, At::Refs, Act::Hang);
    }
    let tools = Tools { fetches: Arc::new(Semaphore::new(1)), ..world.tools(&[]) };
    let working = Scene::work(tools);
    for name in names {
        world.submit(&world.host.http_url(name)).await;
    }
    let visited = || -> BTreeSet<String> {
        world
            .host
            .visits()
            .into_iter()
            .map(|visit| visit.repository)
            .filter(|name| names.contains(&&**name))
            .collect()
    };
    let began = std::time::Instant::now();
    let leased = "SELECT count(*) FROM screening.submissions WHERE lease_token IS NOT NULL";
    while visited().is_empty() || world.scene.one::<i64>(leased).await < 2 {
        assert!(began.elapsed() < PATIENCE, "{:?}", world.host.visits());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Both are in hand, and the first is waited for: whoever is next asks nobody meanwhile.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(visited().len(), 1, "{:?}", world.host.visits());
    while visited().len() < 2 {
        assert!(began.elapsed() < PATIENCE, "the other has its turn: {:?}", world.host.visits());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    working.stop().await;
}

#[tokio::test]
async fn no_more_repositories_are_scanned_at_once_than_there_are_slots() {
    let world = World::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let (program, log) = (dir.path().join("scans"), dir.path().join("scans.log"));
    fs::write(&program, "#!/bin/sh\necho begins >>$0.log\nsleep 2\necho ends >>$0.log\nexit 1\n")
        .expect("written");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("executable");
    let trees = Trees::by(Confined { program, wall: PATIENCE });
    let working = Scene::work(Tools { trees, scans: Arc::new(Semaphore::new(1)), ..world.tools(&[]) });
    for name in ["owner/one", "owner/other"] {
        let repository = world.host.repository(name).expect("a repository");
        repository.publish_files(&[("SKILL.md", b"x")]).expect("published");
        world.submit(&world.host.http_url(name)).await;
    }
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let began = std::time::Instant::now();
    while said().lines().count() < 4 {
        assert!(began.elapsed() < PATIENCE, "{}", said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let first: Vec<String> = said().lines().take(4).map(str::to_owned).collect();
    assert_eq!(first, ["begins", "ends", "begins", "ends"]);
    working.stop().await;
}

#[tokio::test]
async fn trust_is_where_the_code_lies_and_an_imposter_proves_nothing() {
    let world = World::new().await;
    let working = Scene::work(world.tools(&["Anthropics"]));
    let trusted = world.host.repository("anthropics/skill").expect("a repository");
    hostile::harmless(&trusted).expect("made");
    let run = world.submit(&world.host.http_url("anthropics/skill")).await;
    world.scene.until(run, &["PUBLISHED"]).await;
    let triggers = world.scene.triggers(run).await;
    assert_eq!(triggers[1], "vendor-auto-verify", "{triggers:?}");
    let origin: Option<String> =
        world.scene.one(&format!("SELECT origin FROM screening.submissions WHERE id = '{run}'")).await;
    assert_eq!(origin.as_deref(), Some("anthropics"));
    let parent = world.host.repository("anthropics/parent").expect("a repository");
    let imposter = hostile::imposter(&parent).expect("made");
    for name in ["anthropics.evil/skill", "anthropicss/skill"] {
        hostile::harmless(&world.host.repository(name).expect("a repository")).expect("made");
        let run = world.submit(&world.host.http_url(name)).await;
        world.scene.until(run, &["PUBLISHED", "NEEDS_REVIEW", "TIER1_FAILED", "REJECTED"]).await;
        let triggers = world.scene.triggers(run).await;
        assert_eq!(triggers[1], "non-vendor-submission", "{name}");
    }
    // A commit of a fork that answers under the parent's name is never asked for.
    let id = Uuid::new_v4();
    let url = world.host.http_url("anthropics/parent");
    world
        .scene
        .sql(&format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'git');
             INSERT INTO submission_fields (submission_id, field_key, field_value, position) VALUES ('{id}', 'repo_url', '{url}', 1),
               ('{id}', 'reference', '{}', 2); COMMIT",
            imposter.hidden
        ))
        .await;
    let run = world.scene.run_of(id).await;
    world.scene.until(run, &["TIER1_FAILED"]).await;
    assert_eq!(world.findings(run).await, ["block source-reference"]);
    working.stop().await;
}
