//! A database with schema screening, and the room over it, as the screener and as the daemon.

use std::sync::Arc;
use std::time::Duration;

use devkit::judge::ScriptedJudge;
use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::config::secret::Secret;
use maple_router::config::{Config, Screening, ScreeningJudge};
use maple_router::db::{Pool, PoolOptions};
use maple_router::gateway::confined::Confined;
use maple_router::gateway::judge::{Judge, JudgeSettings, base_url};
use maple_router::kernel::jobs::listener::Listener;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::screening::judge::prompt::version;
use maple_router::screening::run::Profile;
use maple_router::screening::store::ScreeningStore;
use maple_router::screening::store::setup::Trial;
use maple_router::screening::worker::{Judging, Rulesets, Tools, Trees};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres::types::FromSql;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) db: TestDatabase,
    pub(crate) eyes: Client,
    /// As the screener's role.
    pub(crate) store: ScreeningStore,
    /// As the daemon's role.
    pub(crate) daemon: ScreeningStore,
    /// As the desk's role.
    pub(crate) desk: ScreeningStore,
    /// As the publisher's role.
    pub(crate) publisher: ScreeningStore,
}

impl Scene {
    /// Forms `open` (not screened), `shadow`, `on` (enforced) and `git` (enforced).
    pub(crate) async fn new() -> Self {
        let variant = Variant { router: true, content: true, screening: true, ..Variant::default() };
        let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
        db.alter(
            "INSERT INTO forms (id, name) VALUES ('open', 'Open'), ('shadow', 'Shadow'), ('on', 'On'), ('git', 'Git');
             INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by) VALUES
               ('shadow', 'fields', now() - interval '1 day', NULL, 'test'),
               ('on', 'fields', now() - interval '1 day', now() - interval '1 day', 'test'),
               ('git', 'git', now() - interval '1 day', now() - interval '1 day', 'test')",
        )
        .await
        .expect("forms");
        let eyes = db.superuser().await.expect("eyes");
        let store = ScreeningStore::new(pool(&db, "maple_screener"), "screener@test");
        let daemon = ScreeningStore::new(pool(&db, "forms_app"), "maple-router@test");
        let publisher = ScreeningStore::new(pool(&db, "forms_loader"), "publisher@test");
        let desk = ScreeningStore::new(pool(&db, "maple_desk"), "desk@test");
        Self { db, eyes, store, daemon, desk, publisher }
    }

    pub(crate) async fn sql(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect(sql);
    }

    pub(crate) async fn one<T: for<'a> FromSql<'a>>(&self, sql: &str) -> T {
        self.eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// What a role is answered: its error's SQLSTATE and message, or nothing.
    pub(crate) async fn as_role(&self, role: &str, sql: &str) -> Option<String> {
        let client = self.db.client_as(role).await.expect("a connection");
        let error = client.batch_execute(sql).await.err()?;
        let server = error.as_db_error().expect("the server's own words");
        Some(format!("{} {}", server.code().code(), server.message()))
    }

    /// A finalized submission of a form, in one transaction as a backend does.
    pub(crate) async fn submit(&self, form: &str, message: &str) -> Uuid {
        let id = Uuid::new_v4();
        self.sql(&format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', '{form}');
             INSERT INTO submission_fields (submission_id, field_key, field_value, position)
             VALUES ('{id}', 'email', 'zoe@example.org', 1), ('{id}', 'message', '{message}', 2); COMMIT"
        ))
        .await;
        id
    }

    /// The current run of a submission.
    pub(crate) async fn run_of(&self, submission: Uuid) -> Uuid {
        self.one(&format!("SELECT id FROM screening.submissions WHERE subject = '{submission}' AND current"))
            .await
    }

    pub(crate) async fn state(&self, run: Uuid) -> String {
        self.one(&format!("SELECT state FROM screening.submissions WHERE id = '{run}'")).await
    }

    /// Puts a run into a state as if the ways there had been taken: no trigger looks.
    pub(crate) async fn put(&self, run: Uuid, state: &str) {
        let ended = matches!(state, "PUBLISHED" | "REJECTED" | "TIER1_FAILED");
        self.sql(&format!(
            "SET session_replication_role = replica;
             UPDATE screening.submissions r SET state = '{state}', digest = screening.digest_of(r.subject),
               content = screening.digest_of(r.subject), score = CASE WHEN '{state}' = 'AUTO_APPROVED' THEN 90 END,
               origin = CASE WHEN '{state}' = 'VENDOR_APPROVED' THEN 'x' END, state_since = clock_timestamp(),
               ended_at = CASE WHEN {ended} THEN clock_timestamp() END WHERE id = '{run}';
             SET session_replication_role = origin"
        ))
        .await;
    }

    /// What the gate says of a submission.
    pub(crate) async fn gate(&self, submission: Uuid) -> String {
        self.one(&format!(
            "SELECT screening.gate(s.id, s.form_id, s.created_at) FROM submissions s WHERE s.id = '{submission}'"
        ))
        .await
    }

    /// The reasons of the events that a submission has.
    pub(crate) async fn events(&self, submission: Uuid) -> Vec<String> {
        let sql = "SELECT payload->>'reason' FROM router.outbox WHERE entity_id = $1 ORDER BY id";
        self.eyes.query(sql, &[&submission]).await.expect("events").iter().map(|row| row.get(0)).collect()
    }

    /// Triggers of a run's events, in order.
    pub(crate) async fn triggers(&self, run: Uuid) -> Vec<String> {
        let sql = "SELECT trigger FROM screening.submission_state_events WHERE submission_id = $1 ORDER BY created_at, id";
        self.eyes.query(sql, &[&run]).await.expect("events").iter().map(|row| row.get(0)).collect()
    }

    /// Cause, reason and state of the entries about a run.
    pub(crate) async fn entries(&self, run: Uuid) -> Vec<String> {
        let sql = "SELECT cause || ' ' || reason || ' ' || state FROM router.grey_queue WHERE subject_id = $1 ORDER BY opened_at";
        self.eyes.query(sql, &[&run]).await.expect("entries").iter().map(|row| row.get(0)).collect()
    }
}

pub(crate) fn pool(db: &TestDatabase, role: &str) -> Pool {
    let mut config = Config::default();
    config.database.url = db.url_as(role);
    config.database.max_connections = 8;
    Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool")
}

/// The screener at work; dropping it ends it.
pub(crate) struct Working(CancellationToken, Option<JoinHandle<()>>);

impl Working {
    pub(crate) async fn stop(mut self) {
        self.0.cancel();
        if let Some(task) = self.1.take() {
            task.await.expect("it ends");
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The name by which the stand-in's answers go.
pub(crate) const MODEL: &str = "devkit-scripted-1";

impl Scene {
    /// What workers need, with a judge or without one.
    pub(crate) fn tools(&self, judge: Option<&ScriptedJudge>, screening: &Screening) -> Tools {
        let clock = Arc::new(SystemClock);
        let judging = judge.map(|judge| {
            let settings = JudgeSettings {
                section: "screening.judge",
                base_url: base_url(&judge.base_url()).expect("an address"),
                model: MODEL.to_owned(),
                timeout: Duration::from_secs(5),
            };
            let key = judge.key().map(Secret::new);
            let client = Judge::new(&settings, key, clock.clone()).expect("a client");
            let config =
                ScreeningJudge { model: MODEL.to_owned(), allow_scripted: true, ..screening.judge.clone() };
            Arc::new(Judging::new(client, &config))
        });
        Tools {
            store: ScreeningStore::new(pool(&self.db, "maple_screener"), "screener@test"),
            rulesets: Arc::new(Rulesets::new(screening, "").expect("rules that compile")),
            trees: Trees::by(Confined {
                program: env!("CARGO_BIN_EXE_maple-router").into(),
                wall: Duration::from_secs(40),
            }),
            git: None,
            judge: judging,
            patience: screening.patience,
            scans: Arc::new(Semaphore::new(2)),
            fetches: Arc::new(Semaphore::new(2)),
            clock,
            rng: Arc::new(Rng::from_system()),
        }
    }

    /// Starts the workers.
    pub(crate) fn work(tools: Tools) -> Working {
        let stop = CancellationToken::new();
        let ending = stop.clone();
        let task = tokio::spawn(async move {
            let in_order = maple_router::screening::worker::run(tools, Listener::silent, ending).await;
            assert!(in_order, "a worker ended by itself");
        });
        Working(stop, Some(task))
    }

    /// Lets the stand-in approve, as a trial would.
    pub(crate) async fn calibrate(&self) {
        for profile in [Profile::Fields, Profile::Git] {
            let trial = Trial {
                profile,
                model: MODEL.to_owned(),
                prompt: version(profile),
                items: 120,
                harmless: 60,
                answered: 120,
                false_approvals: 0,
                approves: true,
            };
            self.publisher.record_trial(&trial, "test").await.expect("kept");
        }
    }

    /// Waits until a run is in one of these states.
    pub(crate) async fn until(&self, run: Uuid, states: &[&str]) -> String {
        let began = std::time::Instant::now();
        loop {
            let state = self.state(run).await;
            if states.contains(&state.as_str()) {
                return state;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{run} is {state}, and not {states:?}: {:?}",
                self.triggers(run).await
            );
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}
