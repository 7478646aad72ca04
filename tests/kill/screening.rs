//! Screening: the screener is killed at each of its commits, before it, after it, and where nobody hears of it. The next one ends each
//! run as if nobody had been killed: each transition once, each result once, one event, and the judge is asked again only where nobody
//! knows what it said.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::judge::{Mode, ScriptedJudge};
use devkit::postgres::{CuttingProxy, Trap, Variant};
use devkit::stage::{Source, Stage, StageOptions};
use devkit::trap::Fate;
use devkit::waiting;
use futures::StreamExt as _;
use maple_router::config::Config;
use maple_router::db::{Pool, PoolOptions};
use maple_router::ops::clock::SystemClock;
use maple_router::screening::judge::prompt::version;
use maple_router::screening::run::Profile;
use maple_router::screening::store::ScreeningStore;
use maple_router::screening::store::setup::Trial;
use tokio::process::{Child, Command};
use tokio_postgres::Client;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use crate::harness::{PATIENCE, STEP, options};
use crate::points::meet;

/// The stand-in's name as a model.
const MODEL: &str = "devkit-scripted-1";
/// What a connection that is cut leaves behind ends within this time.
const GONE: Duration = Duration::from_millis(300);
/// A point of a transaction: where its client dies, and what becomes of its last step.
type Point = (fn(&'static str) -> Trap, Fate);
const POINTS: [Point; 3] =
    [(Trap::CommitSent, Fate::Cut), (Trap::CommitSent, Fate::Release), (Trap::CommitAnswered, Fate::Cut)];
/// Transactions of a run that is approved, and how many there are of each: claims that find nothing among them, findings and verdict
/// and the judge's result, and the end of each of four jobs.
const TRANSACTIONS: [(&str, u64); 3] =
    [("screening_claim", 5), ("screening_record", 3), ("screening_settle", 4)];
/// Scenes at once.
const AT_ONCE: usize = 6;

struct Scene {
    stage: Stage,
    wire: CuttingProxy,
    judge: ScriptedJudge,
    eyes: Client,
    plain: PathBuf,
    wired: PathBuf,
    submission: Uuid,
}

impl Scene {
    /// A submission that waits for its screening, of a form that a calibrated judge may approve for.
    async fn new() -> Self {
        let variant = Variant { router: true, content: true, screening: true, ..Variant::default() };
        let stage =
            Stage::start(StageOptions { variant, ..options(Source::Postgres) }).await.expect("a stage");
        devkit::forms::load_into(&stage.database, &[Form::new("f").mail_to("a@example.org")])
            .await
            .expect("a form");
        let judge = ScriptedJudge::start().await.expect("a judge");
        judge.set(Mode::Scored(92));
        let key = stage.dir().join("judge-key");
        fs::write(&key, judge.key().expect("it wants one")).expect("a key");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("ours alone");
        let wire = CuttingProxy::start(&stage.database).await.expect("a wire");
        let write = |name: &str, url: &str| {
            let extra = format!(
                "[screening]\nmode = \"on\"\nscreener_url = \"{url}\"\n[screening.judge]\nbase_url = \"{}\"\n\
                 model = \"{MODEL}\"\nkey_file = \"{}\"\nallow_scripted = true\n",
                judge.base_url(),
                key.display(),
            );
            stage.write_config(name, &stage.config(name, 0, &extra)).expect("written")
        };
        let plain = write("plain", &stage.database.url_as("maple_screener"));
        let wired = write("wired", &wire.url_as("maple_screener"));
        let eyes = stage.database.superuser().await.expect("superuser");
        eyes.batch_execute(
            "INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by)
             VALUES ('f', 'fields', now() - interval '1 day', now() - interval '1 day', 'test')",
        )
        .await
        .expect("a screened form");
        calibrated(&stage).await;
        let submission = SubmissionSeed::of("f").insert(&eyes).await.expect("a submission").id;
        Self { stage, wire, judge, eyes, plain, wired, submission }
    }

    async fn one<T: for<'a> FromSql<'a>>(&self, sql: &str) -> T {
        self.eyes.query_one(sql, &[&self.submission]).await.expect(sql).get(0)
    }

    fn screener(&self, config: &Path) -> Child {
        Command::new(env!("CARGO_BIN_EXE_maple-router"))
            .arg("screen")
            .env("MAPLE_ROUTER_CONFIG", config)
            .env("GCE_METADATA_HOST", self.stage.google.metadata_host())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts")
    }

    /// The next screener, and everything is as if nobody had been killed.
    async fn ends_well(&self, what: &str) {
        // What nobody extends any more runs out.
        tokio::time::sleep(GONE).await;
        let over = "UPDATE screening.submissions SET leased_until = now() - interval '1 s' WHERE leased_until IS NOT NULL";
        self.eyes.batch_execute(over).await.expect("the leases run out");
        let mut next = self.screener(&self.plain);
        let state = "SELECT state FROM screening.submissions WHERE subject = $1";
        let published = async || (self.one::<String>(state).await == "PUBLISHED").then_some(());
        let ended = waiting::find(PATIENCE, STEP, published).await;
        assert!(ended.is_some(), "{what}: it is {}", self.one::<String>(state).await);
        next.kill().await.expect("killed");
        let triggers = "SELECT string_agg(e.trigger, ' ' ORDER BY e.created_at, e.id) FROM screening.submission_state_events e
            JOIN screening.submissions r ON r.id = e.submission_id WHERE r.subject = $1";
        assert_eq!(
            self.one::<String>(triggers).await,
            "api-submission non-vendor-submission tier1-pass tier2-pass publish-complete",
            "{what}"
        );
        let results =
            "SELECT string_agg(DISTINCT x.job_type || ' ' || x.verdict, ', ') FROM screening.scan_results x
            JOIN screening.submissions r ON r.id = x.submission_id WHERE r.subject = $1";
        assert_eq!(self.one::<String>(results).await, "tier1-scan pass, tier2-scan pass", "{what}");
        let events =
            "SELECT string_agg(o.payload->>'reason', ' ') FROM router.outbox o WHERE o.entity_id = $1";
        assert_eq!(self.one::<String>(events).await, "screened", "{what}: announced once");
        let verdicts =
            "SELECT count(*) FROM screening.verdicts v JOIN screening.submissions r ON r.id = v.submission_id
            WHERE r.subject = $1";
        let (known, asked) = (self.one::<i64>(verdicts).await, self.judge.asked().len());
        // An attempt that finds an answer to the same question keeps it as its own.
        assert!(
            (1..=2).contains(&known) && (1..=2).contains(&asked),
            "{what}: {known} verdicts, {asked} questions"
        );
        let entries: i64 =
            self.one("SELECT count(*) FROM router.grey_queue WHERE $1::uuid IS NOT NULL").await;
        assert_eq!(entries, 0, "{what}: nobody has to look");
    }
}

/// The stand-in may approve with today's prompt.
async fn calibrated(stage: &Stage) {
    let mut config = Config::default();
    config.database.url = stage.database.url_as("forms_loader");
    let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
    let trial = Trial {
        profile: Profile::Fields,
        model: MODEL.to_owned(),
        prompt: version(Profile::Fields),
        items: 120,
        harmless: 60,
        answered: 120,
        false_approvals: 0,
        approves: true,
    };
    ScreeningStore::new(pool, "publisher@test").record_trial(&trial, "test").await.expect("kept");
}

/// Kills a screener at a point of the n-th transaction of a name.
async fn dies((transaction, nth): (&'static str, u64), (trap, fate): Point) {
    let scene = Scene::new().await;
    let what = format!("{:?} {nth} {fate:?}", trap(transaction));
    let trapped = scene.wire.trap(trap(transaction), nth);
    let mut process = scene.screener(&scene.wired);
    trapped.hit(PATIENCE).await.unwrap_or_else(|nobody| panic!("{what}: {nobody}"));
    process.kill().await.expect("killed");
    meet(trapped, fate);
    scene.ends_well(&what).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_screener_that_is_killed_at_any_commit_is_gone_on_with() {
    let transactions =
        TRANSACTIONS.into_iter().flat_map(|(name, count)| (1..=count).map(move |nth| (name, nth)));
    let all = transactions.flat_map(|transaction| POINTS.map(|point| dies(transaction, point)));
    futures::stream::iter(all).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}
