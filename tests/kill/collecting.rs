//! Retention: a run of the collector is killed at each point of each of its transactions, and before and after each effect at the store.
//! The next run ends as if nobody had been killed: what has ended is emptied once, each object goes once, with one receipt, what is
//! needed stays, and no object is unknown.

use std::path::Path;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::google::{Bucket, Call, Right, Rule, Stage as At};
use devkit::postgres::{CuttingProxy, Trap, Variant};
use devkit::stage::{Answer, Source, Stage, StageOptions};
use devkit::trap::Fate;
use futures::StreamExt as _;
use tokio::process::{Child, Command};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::harness::{PATIENCE, options};
use crate::points::meet;

/// The bucket of the files, with nothing else in it.
const BUCKET: &str = "files";
/// What a connection that is cut leaves behind ends within this time.
const GONE: Duration = Duration::from_millis(300);
/// A point of a transaction: where its client dies, and what becomes of its last step.
type Point = (fn(&'static str) -> Trap, Fate);
const POINTS: [Point; 3] =
    [(Trap::CommitSent, Fate::Cut), (Trap::CommitSent, Fate::Release), (Trap::CommitAnswered, Fate::Cut)];
/// Transactions that change something, and those beside them, which are tried where nobody hears of their commit.
const WHOLE: [&str; 4] = ["gc_purge", "gc_mark", "gc_sweep", "gc_gone"];
const BESIDE: [&str; 3] = ["gc_begin", "gc_ask", "gc_end"];
/// Scenes at once.
const AT_ONCE: usize = 3;
const EFFECTS: [(Call, At); 3] =
    [(Call::Metadata, At::Before), (Call::Delete, At::Before), (Call::Delete, At::After)];

struct Scene {
    stage: Stage,
    wire: CuttingProxy,
    eyes: Client,
    config: std::path::PathBuf,
    wired: std::path::PathBuf,
    old: Uuid,
    young: Uuid,
}

impl Scene {
    /// A submission whose time has come, with two files, one of which another needs as well.
    async fn new() -> Self {
        let variant = Variant { router: true, content: true, ..Variant::default() };
        let stage =
            Stage::start(StageOptions { variant, ..options(Source::Postgres) }).await.expect("a stage");
        devkit::forms::load_into(&stage.database, &[Form::new("f").mail_to("a@example.org")])
            .await
            .expect("a form");
        stage.google.declare_bucket(BUCKET, Bucket::default());
        stage.google.grant(stage.google.service_account_email(), BUCKET, &Right::ALL);
        let wire = CuttingProxy::start(&stage.database).await.expect("a wire");
        let write = |name: &str, url: &str| {
            let extra = format!("[retention]\ncollector_url = \"{url}\"\ngrace = \"0s\"\n");
            stage.write_config(name, &stage.config(name, 0, &extra)).expect("written")
        };
        let config = write("plain", &stage.database.url_as("maple_gc"));
        let wired = write("wired", &wire.url_as("maple_gc"));
        let eyes = stage.database.superuser().await.expect("superuser");
        let mut ids = Vec::new();
        for files in [2, 1] {
            let mut seed = SubmissionSeed::of("f").bucket(BUCKET);
            for n in 0..files {
                seed = seed.attachment(&format!("{n}.pdf"), "clean");
            }
            ids.push(seed.insert(&eyes).await.expect("a submission").id);
        }
        let scene = Self { stage, wire, eyes, config, wired, old: ids[0], young: ids[1] };
        scene
            .sql(&format!(
                r#"UPDATE submissions SET status = 'routed', routing_result = '{{"v": 1, "finished": {{"token": "t", "at": "2026-01-01T00:00:00Z", "status": "routed"}}}}';
                UPDATE submissions SET retention_expires_at = now() - interval '1 day' WHERE id = '{}';
                UPDATE attachments SET gcs_object = 'shared' WHERE submission_id = '{}' OR (submission_id = '{}' AND file_name = '1.pdf');
                UPDATE attachments SET gcs_object = 'own' WHERE gcs_object <> 'shared';
                DELETE FROM content.blobs b WHERE NOT EXISTS (SELECT FROM content.blob_refs r WHERE r.blob_id = b.id);
                DELETE FROM router.transitions WHERE lifecycle = 'blob';
                DELETE FROM router.outbox"#,
                scene.old, scene.young, scene.old
            ))
            .await;
        for name in ["shared", "own"] {
            scene.stage.google.put_object(BUCKET, name, "application/pdf", "x");
        }
        scene
    }

    async fn sql(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect(sql);
    }

    async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    async fn ask(&self, words: &[&str]) -> Answer {
        let binary = Path::new(env!("CARGO_BIN_EXE_maple-router"));
        self.stage.ask(binary, &self.config, words).await.expect("it runs")
    }

    /// Starts a run on the wire.
    fn start(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_maple-router"))
            .args(["gc", "run"])
            .env("MAPLE_ROUTER_CONFIG", &self.wired)
            .env("GCE_METADATA_HOST", self.stage.google.metadata_host())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts")
    }

    /// The next run, and everything is as if nobody had been killed.
    async fn ends_well(&self, what: &str) {
        // What nobody extends any more runs out.
        tokio::time::sleep(GONE).await;
        self.sql("UPDATE content.gc_runs SET leased_until = now() - interval '1 s' WHERE ended_at IS NULL")
            .await;
        let again = self.ask(&["gc", "run"]).await;
        assert_eq!(again.code, Some(0), "{what}: {again:?}");
        let status = format!(
            "SELECT string_agg(status::text, ' ' ORDER BY id = '{}' DESC) FROM submissions",
            self.old
        );
        assert_eq!(self.one::<String>(&status).await, "purged routed", "{what}");
        let names: Vec<String> =
            self.stage.google.objects(BUCKET).into_iter().map(|object| object.name).collect();
        assert_eq!(names, ["shared"], "{what}");
        let receipts = "SELECT string_agg((body::jsonb) ->> 'kind', ' ' ORDER BY id) FROM content.receipts";
        assert_eq!(self.one::<String>(receipts).await, "purged object_deleted", "{what}");
        let history =
            "SELECT string_agg(command, ' ' ORDER BY id) FROM router.transitions WHERE lifecycle = 'blob'";
        assert_eq!(self.one::<String>(history).await, "delete_request retention_elapsed gc_sweep", "{what}");
        let compared = self.ask(&["gc", "reconcile"]).await;
        assert_eq!(compared.code, Some(0), "{what}: {compared:?}");
        let verified = self.ask(&["receipts", "verify"]).await;
        assert_eq!(verified.code, Some(0), "{what}: {verified:?}");
    }
}

/// Kills a run at a point of a transaction.
async fn dies(transaction: &'static str, (trap, fate): Point) {
    let scene = Scene::new().await;
    let what = format!("{:?} {fate:?}", trap(transaction));
    let trapped = scene.wire.trap(trap(transaction), 1);
    let mut process = scene.start();
    trapped.hit(PATIENCE).await.unwrap_or_else(|nobody| panic!("{what}: {nobody}"));
    process.kill().await.expect("killed");
    meet(trapped, fate);
    scene.ends_well(&what).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_in_a_transaction_is_gone_on_with() {
    let whole = WHOLE.into_iter().flat_map(|transaction| POINTS.map(|point| (transaction, point)));
    let beside = BESIDE.into_iter().map(|transaction| (transaction, POINTS[2]));
    let all = whole.chain(beside).map(|(transaction, point)| dies(transaction, point));
    futures::stream::iter(all).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_beside_an_effect_is_gone_on_with() {
    for (call, at) in EFFECTS {
        let scene = Scene::new().await;
        let what = format!("{call:?} {at:?}");
        let trapped = scene.stage.google.trap(Rule::at(at).call(call).bucket(BUCKET));
        let mut process = scene.start();
        trapped.hit(PATIENCE).await.unwrap_or_else(|nobody| panic!("{what}: {nobody}"));
        process.kill().await.expect("killed");
        // A deletion that comes late hits nothing that lives: it goes on, while the next run is at work.
        trapped.release();
        scene.ends_well(&what).await;
    }
}
