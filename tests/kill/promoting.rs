//! Form versions: whoever types `forms publish`, `forms promote` or `forms rollback` is killed at each point of the one transaction
//! that each is. The form has one version's rows, and the same command again ends as if nobody had been killed.

use std::path::Path;

use devkit::forms::Form;
use devkit::postgres::{CuttingProxy, Trap, Variant};
use devkit::stage::{Answer, Source, Stage, StageOptions};
use devkit::trap::Fate;
use tokio::process::{Child, Command};
use tokio_postgres::Client;

use crate::harness::{PATIENCE, options};
use crate::points::meet;

const POLICY: &str = include_str!("../../contrib/policy/publish.rego");

/// A point of a transaction: where its client dies, what becomes of its last step, and whether it is done then.
type Point = (fn(&'static str) -> Trap, Fate, bool);
const POINTS: [Point; 4] = [
    (Trap::BeginSent, Fate::Cut, false),
    (Trap::CommitSent, Fate::Cut, false),
    (Trap::CommitSent, Fate::Release, true),
    (Trap::CommitAnswered, Fate::Cut, true),
];

/// A stage with a managed form, whose publisher is on a wire of his own.
struct Scene {
    stage: Stage,
    wire: CuttingProxy,
    eyes: Client,
    config: std::path::PathBuf,
    wired: std::path::PathBuf,
}

impl Scene {
    /// `f@1` is followed, `f@2` is published.
    async fn new() -> Self {
        let variant = Variant { router: true, content: true, ..Variant::default() };
        let stage =
            Stage::start(StageOptions { variant, ..options(Source::Postgres) }).await.expect("a stage");
        devkit::forms::load_into(&stage.database, &[Form::new("f").mail_to("v1@example.org")])
            .await
            .expect("a form");
        let policy = stage.dir().join("policy");
        std::fs::create_dir_all(&policy).expect("a directory");
        std::fs::write(policy.join("publish.rego"), POLICY).expect("a policy");
        let wire = CuttingProxy::start(&stage.database).await.expect("a wire");
        let write = |name: &str, url: &str| {
            let extra = format!(
                "[mail]\nallowed_destination_domains = [\"example.org\"]\n[forms]\npolicy_dir = \"{}\"\npublisher_url = \"{url}\"\n",
                policy.display()
            );
            stage.write_config(name, &stage.config(name, 0, &extra)).expect("written")
        };
        let config = write("plain", &stage.database.url_as("forms_loader"));
        let wired = write("wired", &wire.url_as("forms_loader"));
        let eyes = stage.database.superuser().await.expect("superuser");
        let scene = Self { stage, wire, eyes, config, wired };
        scene.done(&["forms", "adopt", "f"]).await;
        scene.load(2).await;
        scene.done(&["forms", "publish", "f@2", "--expect", &scene.digest(2).await]).await;
        scene
    }

    async fn ask(&self, words: &[&str]) -> Answer {
        let binary = Path::new(env!("CARGO_BIN_EXE_maple-router"));
        self.stage.ask(binary, &self.config, words).await.expect("it runs")
    }

    async fn done(&self, words: &[&str]) {
        let answer = self.ask(words).await;
        assert_eq!(answer.code, Some(0), "{words:?}: {answer:?}");
    }

    /// Makes a draft.
    async fn load(&self, number: u32) {
        let file = self.stage.dir().join("form.yaml");
        let yaml = format!(
            "id: f\nname: F\nactions:\n  - {{type: email_raw, destination: v{number}@example.org}}\nsamples:\n  - {{name: usual}}\n"
        );
        std::fs::write(&file, yaml).expect("written");
        self.done(&["forms", "load", &file.display().to_string()]).await;
    }

    async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    async fn digest(&self, number: u32) -> String {
        self.one(&format!("SELECT encode(digest, 'hex') FROM content.versions WHERE number = {number}")).await
    }

    /// Version, state of the newest, and what the form does.
    async fn stands(&self) -> (i32, String, String) {
        let current = "SELECT v.number FROM content.current c JOIN content.versions v ON v.id = c.version_id";
        let newest = "SELECT state FROM content.versions ORDER BY number DESC LIMIT 1";
        let rows = "SELECT string_agg(destination, ',') FROM actions WHERE form_id = 'f'";
        (self.one(current).await, self.one(newest).await, self.one(rows).await)
    }

    /// Starts a command on the wire.
    fn start(&self, words: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_maple-router"))
            .args(words)
            .env("MAPLE_ROUTER_CONFIG", &self.wired)
            .kill_on_drop(true)
            .spawn()
            .expect("it starts")
    }
}

/// A command that dies at each point. `before` and `after` are what [`Scene::stands`] says; again, the command ends with `again`
/// where it was done, and well where it was not.
struct Course<'a> {
    transaction: &'static str,
    words: &'a [&'a str],
    before: (i32, &'a str, &'a str),
    after: (i32, &'a str, &'a str),
    again: i32,
}

async fn dies(course: &Course<'_>, (trap, fate, is_done): Point, draft: bool) {
    let scene = Scene::new().await;
    let mut words: Vec<String> = course.words.iter().map(|word| (*word).to_owned()).collect();
    if draft {
        scene.load(3).await;
        words.extend(["--expect".to_owned(), scene.digest(3).await]);
    } else {
        scene.done(&["forms", "promote", "f@2", "--expect", "1"]).await;
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let what = format!("{} {:?} {fate:?}", course.transaction, trap(course.transaction));
    let owned = |(number, state, rows): (i32, &str, &str)| (number, state.to_owned(), rows.to_owned());
    let trapped = scene.wire.trap(trap(course.transaction), 1);
    let mut process = scene.start(&words);
    trapped.hit(PATIENCE).await.unwrap_or_else(|nobody| panic!("{what}: {nobody}"));
    process.kill().await.expect("killed");
    meet(trapped, fate);
    let expected = owned(if is_done { course.after } else { course.before });
    let came =
        devkit::waiting::until(PATIENCE, crate::harness::STEP, async || scene.stands().await == expected)
            .await;
    assert!(came, "{what}: {:?}", scene.stands().await);
    let again = scene.ask(&words).await;
    assert_eq!(again.code, Some(if is_done { course.again } else { 0 }), "{what}: {again:?}");
    assert_eq!(scene.stands().await, owned(course.after), "{what}");
    let records =
        "SELECT count(*) FROM router.transitions t JOIN content.versions v ON t.entity_id = v.id::text
        WHERE t.lifecycle = 'version' AND t.command IN ('publish', 'promote')";
    let decided = "SELECT count(*) FROM content.decisions WHERE allowed";
    assert_eq!(
        scene.one::<i64>(records).await,
        scene.one::<i64>(decided).await,
        "{what}: a record for each decision"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_publication_is_whole_or_was_never() {
    let course = Course {
        transaction: "version_publish",
        words: &["forms", "publish", "f@3"],
        before: (1, "draft", "v1@example.org"),
        after: (1, "published", "v1@example.org"),
        again: 1,
    };
    for point in POINTS {
        dies(&course, point, true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_promotion_moves_the_pointer_with_the_rows_or_neither() {
    // As it was typed: whoever promotes the first again is told that another is current, where the kill came after the commit.
    let course = Course {
        transaction: "version_promote",
        words: &["forms", "promote", "f@1", "--expect", "2"],
        before: (2, "published", "v2@example.org"),
        after: (1, "published", "v1@example.org"),
        again: 1,
    };
    for point in POINTS {
        dies(&course, point, false).await;
    }
}
