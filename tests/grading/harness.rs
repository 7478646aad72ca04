//! A database with the schemas of grading, and the room over it, as each of its roles.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use devkit::broker::Broker;
use devkit::google::GoogleFake;
use devkit::grader::{MODELS, ScriptedGrader, TRANSCRIBER};
use devkit::postgres::{Cluster, TestDatabase, Variant};
use maple_router::config::{Config, Database, GradingTransport, Send, SignedUrl, SignerKind};
use maple_router::db::{Pool, PoolOptions};
use maple_router::gateway::pubsub::admin::provision_beside;
use maple_router::gateway::signed_url::UrlSigner;
use maple_router::grading::core::assess::{Rules, Sample, Work, assess};
use maple_router::grading::core::band::Bands;
use maple_router::grading::core::message::{Callback, ErrorType, Failure, Request, Said, Status};
use maple_router::grading::core::result::GradingResult;
use maple_router::grading::core::review::Thresholds;
use maple_router::grading::core::score::Score;
use maple_router::grading::core::skill::Skill;
use maple_router::grading::grader::texts::version;
use maple_router::grading::job::store::{Calibration, JobStore};
use maple_router::grading::link::{self, Arrivals, Link, topics};
use maple_router::grading::main_side::{self, MainTools, Notified};
use maple_router::grading::queue::{Queue, QueueName};
use maple_router::grading::store::GradingStore;
use maple_router::grading::store::callbacks::TakenIn;
use maple_router::grading::worker::{self, GraderTools};
use maple_router::kernel::jobs::listener::Listener;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::parts;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres::types::FromSql;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// What nobody but both sides may know.
pub(crate) const PLANTED: &str = "asthma";

/// A text of the shape and length of an essay, nobody else's, on which every stand-in agrees with itself.
const ESSAY: &str = "\
Many people say that cities should have more parks. I grew up in a small town where children could play outside every afternoon, and I \
still remember how green the hills were. When my family moved to the capital, we missed the trees and the quiet evenings. In my opinion, a \
mayor who plants a garden does more for his neighbours than one who builds another road. There are three reasons for this view, and I will \
explain each of them with examples from my own life.

First of all, clean air is a matter of health. My younger sister had asthma for years, and her doctor told us that she should walk among \
trees as often as possible. After a new park was opened near our flat, she slept better and missed fewer lessons. Secondly, a green place \
brings strangers together. On Sundays you can see old men who play chess, students who read, and parents who watch their babies. Nobody has \
to pay, and nobody asks where you are from. Finally, shade is cheaper than machines. During the last hot summer our street was five degrees \
cooler than the market square, because big leaves hold the sun away from walls and windows.

Of course, some owners of shops complain that customers need parking more than flowers. They are not wrong when they say that trade pays for \
schools and buses. However, visitors stay longer where they feel well, and a person who rests on a bench will often buy a drink or a \
newspaper afterwards. For all these reasons I believe that our council should spend a larger part of its budget on gardens, and that it \
should begin with the poorest districts.";

/// An essay with these words at its end: markers for the stand-in, and what makes it another work.
pub(crate) fn essay(end: &str) -> String {
    format!("{ESSAY}\n\n{end}")
}

pub(crate) struct Scene {
    pub(crate) db: TestDatabase,
    pub(crate) eyes: Client,
    /// As the daemon's role.
    pub(crate) store: GradingStore,
    /// As the desk's role.
    pub(crate) desk: GradingStore,
    /// As the grader's role.
    pub(crate) jobs: JobStore,
    /// The callbacks, as the daemon's role.
    pub(crate) callbacks: Queue,
    /// Whoever puts messages into the queues: requests, and callbacks.
    pub(crate) producers: [Client; 2],
    /// The topics between the sides, where these tests have some.
    pub(crate) topics: Option<Topics>,
    /// The grader's database, where it has one of its own.
    pub(crate) apart: Option<(TestDatabase, Client)>,
}

/// A broker with the topics of the room.
pub(crate) struct Topics {
    pub(crate) broker: Broker,
    pub(crate) config: Config,
    /// Time within which what was kept back comes.
    pub(crate) settles: Duration,
}

impl Topics {
    async fn new() -> Self {
        let broker = Broker::start("127.0.0.1:0".parse().expect("an address")).await.expect("a broker");
        let mut config = Config::default();
        config.grading.transport = GradingTransport::Pubsub;
        "acme".clone_into(&mut config.pubsub.project);
        config.pubsub.endpoint = Some(broker.endpoint());
        let named = topics::topics(&config).expect("names").expect("topics");
        for queue in QueueName::ALL {
            provision_beside(named.of(*queue), false, "messages").await.expect("made");
        }
        Self { broker, config, settles: Duration::from_millis(500) }
    }

    /// The sections of a configuration file that name the same.
    pub(crate) fn toml(&self) -> String {
        format!("[pubsub]\nproject = \"acme\"\nendpoint = \"{}\"\n", self.broker.endpoint())
    }

    /// The link of a side.
    fn link(&self, pool: &Pool, sends: QueueName) -> Link {
        let shared = (Arc::new(SystemClock) as Arc<_>, Arc::new(Rng::from_system()));
        let link = parts::grading_link(&self.config, pool.clone(), sends, shared).expect("names");
        Link { arrivals: Arrivals::settling(self.settles), ..link.expect("topics") }
    }
}

impl Scene {
    /// Forms `open` (not graded), `essay` (gated), `free` (its mail goes at once), `send` (its mail goes without a grade where there is none),
    /// `listen` and `speak` (gated).
    pub(crate) async fn new() -> Self {
        Self::with(Variant { router: true, grading: true, ..Variant::default() }).await
    }

    pub(crate) async fn with(variant: Variant) -> Self {
        let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
        db.alter(
            r#"INSERT INTO forms (id, name) SELECT f, f FROM unnest(ARRAY['open', 'essay', 'free', 'send', 'listen', 'speak']) AS f;
               INSERT INTO assessment.questions (id, skill, prompt, answer_key, set_by) VALUES
                 ('parks', 'writing', 'Should a town have more museums? Discuss.', NULL, 'test'),
                 ('travel', 'speaking', 'Talk about a journey.', NULL, 'test'),
                 ('track-1', 'listening', '', '{"q1": "nine", "q2": ["Café  au lait", "coffee"], "q3": "Paris"}', 'test');
               INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, part, gate, on_failed, sla, since, set_by) VALUES
                 ('essay', 'writing', 'parks', 'answer', 'essay', NULL, true, 'hold', '20 minutes', now() - interval '1 day', 'test'),
                 ('free', 'writing', 'parks', 'answer', 'essay', NULL, false, 'hold', '20 minutes', now() - interval '1 day', 'test'),
                 ('send', 'writing', 'parks', 'answer', 'essay', NULL, true, 'send', '20 minutes', now() - interval '1 day', 'test'),
                 ('listen', 'listening', 'track-1', NULL, NULL, NULL, true, 'hold', '1 minute', now() - interval '1 day', 'test'),
                 ('speak', 'speaking', 'travel', NULL, NULL, 1, true, 'hold', '1 hour', now() - interval '1 day', 'test')"#,
        )
        .await
        .expect("forms");
        let eyes = db.superuser().await.expect("eyes");
        let store = GradingStore::new(pool(&db, "forms_app"), "maple-router@test");
        let desk = GradingStore::new(pool(&db, "maple_desk"), "desk@test");
        let jobs = JobStore::new(pool(&db, "maple_grader"), "grader@test");
        let callbacks = Queue::new(store.pool().clone(), QueueName::Callback);
        let producer = async |role: &str| db.client_as(role).await.expect("a connection");
        let producers = [producer("forms_app").await, producer("maple_grader").await];
        let topics = if crate::LINKED { Some(Topics::new().await) } else { None };
        Self { db, eyes, store, desk, jobs, callbacks, producers, topics, apart: None }
    }

    fn graders_db(&self) -> &TestDatabase {
        self.apart.as_ref().map_or(&self.db, |(db, _)| db)
    }

    pub(crate) async fn sql(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect(sql);
    }

    /// The same where no trigger looks.
    pub(crate) async fn quietly(&self, sql: &str) {
        self.sql(&format!(
            "SET session_replication_role = replica; {sql}; SET session_replication_role = origin"
        ))
        .await;
    }

    pub(crate) async fn one<T: for<'a> FromSql<'a>>(&self, sql: &str) -> T {
        self.eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    pub(crate) async fn count(&self, what: &str) -> i64 {
        self.one(&format!("SELECT count(*) FROM {what}")).await
    }

    async fn texts(&self, sql: &str, id: Uuid) -> Vec<String> {
        self.eyes.query(sql, &[&id]).await.expect(sql).iter().map(|row| row.get(0)).collect()
    }

    /// What a role is answered: its error's SQLSTATE and message, or nothing.
    pub(crate) async fn as_role(&self, role: &str, sql: &str) -> Option<String> {
        let client = self.db.client_as(role).await.expect("a connection");
        let error = client.batch_execute(sql).await.err()?;
        let server = error.as_db_error().expect("the server's own words");
        Some(format!("{} {}", server.code().code(), server.message()))
    }

    /// A finalized submission of a form, in one transaction as a backend does.
    pub(crate) async fn submit(&self, form: &str, fields: &[(&str, &str)]) -> Uuid {
        let id = Uuid::new_v4();
        self.eyes.batch_execute("BEGIN").await.expect("begun");
        let row = format!("INSERT INTO submissions (id, form_id) VALUES ('{id}', '{form}')");
        self.sql(&row).await;
        let sql = "INSERT INTO submission_fields (submission_id, field_key, field_value, position) VALUES ($1, $2, $3, $4)";
        for (at, (key, value)) in (1..).zip(fields) {
            self.eyes.execute(sql, &[&id, key, value, &at]).await.expect("a field");
        }
        self.sql("COMMIT").await;
        id
    }

    /// A submission with a text, and its attempt.
    pub(crate) async fn written(&self, form: &str, text: &str) -> (Uuid, Uuid) {
        let id = self.submit(form, &[("answer", text)]).await;
        (id, self.attempt_of(id).await)
    }

    /// A submission of `speak` with a recording of the stand-in's bucket, and its attempt, if it has one.
    pub(crate) async fn spoken(&self, name: &str, scan: &str) -> (Uuid, Option<Uuid>) {
        let id = Uuid::new_v4();
        self.sql(&format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'speak');
             INSERT INTO attachments (submission_id, file_name, content_type, gcs_bucket, gcs_object, clamav_status)
             VALUES ('{id}', 'talk.mp3', 'audio/mpeg', 'recordings', '{name}', '{scan}'); COMMIT"
        ))
        .await;
        let attempt: Option<Uuid> =
            self.one(&format!("SELECT (SELECT id FROM assessment.submissions WHERE subject = '{id}')")).await;
        (id, attempt)
    }

    /// The request of an attempt, as its consumer reads it.
    pub(crate) async fn request_of(&self, attempt: Uuid) -> Request {
        let sql = format!("SELECT payload FROM mq.grading_request WHERE payload->>'requestId' = '{attempt}'");
        let payload: Value = self.one(&sql).await;
        Request::parse(payload.to_string().as_bytes()).expect("a request")
    }

    /// The current attempt at a submission.
    pub(crate) async fn attempt_of(&self, submission: Uuid) -> Uuid {
        self.one(&format!("SELECT id FROM assessment.submissions WHERE subject = '{submission}' AND current"))
            .await
    }

    pub(crate) async fn state(&self, attempt: Uuid) -> String {
        self.one(&format!("SELECT state FROM assessment.submissions WHERE id = '{attempt}'")).await
    }

    pub(crate) async fn why(&self, attempt: Uuid) -> Option<String> {
        self.one(&format!("SELECT failed_reason FROM assessment.submissions WHERE id = '{attempt}'")).await
    }

    /// Puts an attempt into a state as if the ways there had been taken: no trigger looks. What must stand beside it does.
    pub(crate) async fn put(&self, attempt: Uuid, state: &str) {
        let ended = matches!(state, "COMPLETED" | "FAILED");
        self.quietly(&format!(
            "UPDATE assessment.submissions SET state = '{state}', state_since = clock_timestamp(),
               failed_reason = CASE WHEN '{state}' = 'FAILED' THEN 'gave_up' END,
               priority = CASE WHEN '{state}' = 'REVIEW_PENDING' THEN 'High' END,
               ended_at = CASE WHEN {ended} THEN clock_timestamp() END WHERE id = '{attempt}'"
        ))
        .await;
        if matches!(state, "REVIEW_PENDING" | "COMPLETED") {
            self.keep(attempt, "ai").await;
        }
        if state == "COMPLETED" {
            self.keep(attempt, "final").await;
        }
    }

    /// A result of an attempt, as if it had come; once.
    pub(crate) async fn keep(&self, attempt: Uuid, kind: &str) {
        let result = graded(7.5, 60);
        let document = serde_json::to_value(&result).expect("a document");
        self.eyes
            .execute(
                "INSERT INTO assessment.results (request_id, kind, try, result, digest, score, band, actor)
                 VALUES ($1, $2, 1, $3, $4, 7.5, 'B2', 'test') ON CONFLICT DO NOTHING",
                &[&attempt, &kind, &document, &result.digest()],
            )
            .await
            .expect("kept");
    }

    /// The deadline of an attempt has passed.
    pub(crate) async fn late(&self, attempt: Uuid) {
        self.quietly(&format!(
            "UPDATE assessment.submissions SET deadline = now() - interval '1 second' WHERE id = '{attempt}'"
        ))
        .await;
    }

    /// Attempts that are due, the longest ago first.
    pub(crate) async fn due(&self) -> Vec<Uuid> {
        let due = self.store.due((jiff::Timestamp::UNIX_EPOCH, Uuid::nil()), 10).await.expect("looked");
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// What the gate says of a submission.
    pub(crate) async fn gate(&self, submission: Uuid) -> String {
        self.one(&format!(
            "SELECT assessment.gate(s.id, s.form_id, s.created_at) FROM submissions s WHERE s.id = '{submission}'"
        ))
        .await
    }

    /// The reasons of the events that a submission has.
    pub(crate) async fn events(&self, submission: Uuid) -> Vec<String> {
        self.texts(
            "SELECT payload->>'reason' FROM router.outbox WHERE entity_id = $1 ORDER BY id",
            submission,
        )
        .await
    }

    /// Triggers of an attempt's events, in order.
    pub(crate) async fn triggers(&self, attempt: Uuid) -> Vec<String> {
        self.texts("SELECT trigger FROM assessment.events WHERE submission_id = $1 ORDER BY number", attempt)
            .await
    }

    /// Cause, reason and state of the entries about an attempt, or a dead message.
    pub(crate) async fn entries(&self, of: Uuid) -> Vec<String> {
        let sql = "SELECT cause || ' ' || reason || ' ' || state FROM router.grey_queue WHERE subject_id = $1 ORDER BY opened_at";
        self.texts(sql, of).await
    }

    /// Kind, score and what is said of the results of an attempt, in order.
    pub(crate) async fn results(&self, attempt: Uuid) -> Vec<String> {
        let sql = "SELECT concat_ws(' ', kind, score, band, CASE WHEN is_late THEN 'late' END, CASE WHEN dup THEN 'twin' END)
           FROM assessment.results WHERE request_id = $1 ORDER BY id";
        self.texts(sql, attempt).await
    }

    /// A result of an attempt, as its document.
    pub(crate) async fn result(&self, attempt: Uuid, kind: &str) -> Value {
        self.one(&format!(
            "SELECT result FROM assessment.results WHERE request_id = '{attempt}' AND kind = '{kind}'"
        ))
        .await
    }

    /// Queue and reason of the dead messages.
    pub(crate) async fn dead(&self) -> Vec<String> {
        let sql = "SELECT queue || ' ' || reason FROM mq.grading_dlq WHERE $1::uuid IS NOT NULL ORDER BY at";
        self.texts(sql, Uuid::nil()).await
    }

    /// Waits until an attempt is in one of these states.
    pub(crate) async fn until(&self, attempt: Uuid, states: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let state = self.state(attempt).await;
            if states.contains(&state.as_str()) {
                return state;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{attempt} is {state}, and not {states:?}: {:?}",
                self.triggers(attempt).await
            );
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Waits until a question of SQL is answered with yes.
    pub(crate) async fn until_so(&self, sql: &str) {
        let began = Instant::now();
        while !self.one::<bool>(&format!("SELECT {sql}")).await {
            assert!(began.elapsed() < PATIENCE, "not so: {sql}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Puts a message into a queue, as its producer's role.
    pub(crate) async fn send(&self, queue: &str, id: Uuid, payload: &Value) {
        let producer = &self.producers[usize::from(queue == "callback")];
        let sql = format!("INSERT INTO mq.grading_{queue} (message_id, payload) VALUES ($1, $2)");
        producer.execute(&sql, &[&id, payload]).await.expect("sent");
    }

    /// A callback comes, and is taken in at once.
    pub(crate) async fn take(&self, callback: &Callback) -> TakenIn {
        self.take_of(&document(callback)).await
    }

    /// The same of a message as it is.
    pub(crate) async fn take_of(&self, payload: &Value) -> TakenIn {
        let id = Uuid::new_v4();
        self.send("callback", id, payload).await;
        let taken = self.store.take_callback(&self.callbacks, id, &Bands::default()).await;
        taken.expect("taken in").expect("it was there")
    }

    /// Lets the stand-ins grade alone, as a trial would.
    pub(crate) async fn calibrate(&self) {
        for skill in [Skill::Writing, Skill::Speaking] {
            let tried = Calibration {
                skill,
                models: MODELS.join(","),
                prompt: version(skill),
                rubric: "1".to_owned(),
                items: (30, 30),
                qwk: 0.9,
                mae: 0.2,
                ece: 0.1,
                suffices: true,
            };
            self.jobs.record_calibration(&tried, "test").await.expect("kept");
        }
    }

    /// Starts the main side's workers.
    pub(crate) fn main_side(&self) -> Working {
        self.main_side_signing(None)
    }

    /// The same with whoever signs links to recordings.
    pub(crate) fn main_side_signing(&self, signer: Option<UrlSigner>) -> Working {
        let tools = MainTools { signer: signer.map(Arc::new), ..self.main_tools() };
        let listener = |channel| Self::listener(&self.db, "forms_app", channel);
        let notified = Notified {
            callbacks: listener(QueueName::Callback.channel()),
            attempts: listener(main_side::CHANNEL),
            requests: listener(QueueName::Request.channel()),
        };
        Working::on(|stop| async move { main_side::run(tools, notified, stop).await })
    }

    pub(crate) fn main_tools(&self) -> MainTools {
        MainTools {
            store: self.store.clone(),
            callbacks: self.callbacks.clone().linked(self.topics.is_some()),
            link: self.link(self.store.pool(), QueueName::Request),
            signer: None,
            bands: Bands::default(),
            clock: Arc::new(SystemClock),
            rng: Arc::new(Rng::from_system()),
        }
    }

    /// Starts a grader.
    pub(crate) fn grader(&self, models: &Models) -> Working {
        let tools = GraderTools {
            store: self.jobs.clone(),
            requests: Queue::new(self.jobs.pool().clone(), QueueName::Request).linked(self.topics.is_some()),
            grading: Arc::new(parts::graders(&models.config, Arc::new(SystemClock)).expect("clients")),
            keep: models.config.grading.keep,
            clock: Arc::new(SystemClock),
            rng: Arc::new(Rng::from_system()),
        };
        let listener = |queue: QueueName| Self::listener(self.graders_db(), "maple_grader", queue.channel());
        let (jobs, requests) =
            (Self::database(self.graders_db(), "maple_grader"), listener(QueueName::Request));
        let link = self.link(self.jobs.pool(), QueueName::Callback);
        let link = link.map(|link| (link, listener(QueueName::Callback)));
        let jobs =
            move || Listener::start(worker::CHANNEL, jobs.clone(), PoolOptions::new(Arc::new(SystemClock)));
        Working::on(|stop| async move {
            assert!(worker::run(tools, jobs, requests, link, stop).await, "a worker ended by itself");
        })
    }

    /// The grader's link alone, where there is one: what it has sent goes.
    pub(crate) fn graders_link(&self) -> Working {
        let link = self.link(self.jobs.pool(), QueueName::Callback);
        let listener = Self::listener(self.graders_db(), "maple_grader", QueueName::Callback.channel());
        Working::on(|stop| async move {
            match link {
                Some(link) => link::run(link, listener, stop).await,
                None => stop.cancelled().await,
            }
        })
    }

    pub(crate) fn link(&self, pool: &Pool, sends: QueueName) -> Option<Link> {
        self.topics.as_ref().map(|topics| topics.link(pool, sends))
    }

    fn database(db: &TestDatabase, role: &str) -> Database {
        Database { url: db.url_as(role), max_connections: 8, ..Database::default() }
    }

    pub(crate) fn listener(db: &TestDatabase, role: &str, channel: &'static str) -> Listener {
        Listener::start(channel, Self::database(db, role), PoolOptions::new(Arc::new(SystemClock)))
    }
}

pub(crate) fn pool(db: &TestDatabase, role: &str) -> Pool {
    let config = Database { url: db.url_as(role), max_connections: 8, ..Database::default() };
    Pool::new(&config, PoolOptions::new(Arc::new(SystemClock))).expect("a pool")
}

/// Workers at work; dropping it ends them.
pub(crate) struct Working(CancellationToken, Option<JoinHandle<()>>);

impl Working {
    fn on<F: Future<Output = ()> + std::marker::Send + 'static>(
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(work(stop.clone()));
        Self(stop, Some(task))
    }

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

/// A scripted grader, and the configuration of whoever asks it.
pub(crate) struct Models {
    pub(crate) scripted: ScriptedGrader,
    pub(crate) config: Config,
    dir: TempDir,
}

impl Models {
    /// Three models of the stand-in, which may grade alone where they were tried; one that is away is asked again at once.
    pub(crate) async fn new() -> Self {
        let scripted = ScriptedGrader::start().await.expect("a grader");
        let dir = tempfile::tempdir().expect("a directory");
        let key = dir.path().join("key");
        std::fs::write(&key, scripted.key().expect("it wants one")).expect("written");
        let mut config = Config::default();
        let room = &mut config.grading;
        room.spot_check = 0;
        room.judge.base_url = Some(scripted.base_url());
        room.judge.models = MODELS.map(str::to_owned).to_vec();
        room.judge.key_file = Some(key.clone());
        room.judge.timeout = Duration::from_secs(10);
        room.judge.pause = Duration::from_millis(300);
        room.judge.send = Send::Full;
        room.judge.allow_scripted = true;
        room.stt.base_url = Some(scripted.base_url());
        TRANSCRIBER.clone_into(&mut room.stt.model);
        room.stt.key_file = Some(key);
        room.stt.audio_hosts = vec![scripted.authority()];
        Self { scripted, config, dir }
    }

    /// The sections of a configuration file that name the same.
    pub(crate) fn toml(&self, room: &str) -> String {
        let key = self.dir.path().join("key");
        format!(
            "[grading]\nspot_check = 0\n{room}\n[grading.judge]\nbase_url = \"{}\"\nmodels = {MODELS:?}\nkey_file = \"{}\"\npause = \"1s\"\n\
             send = \"full\"\nallow_scripted = true\nslots = 1\n",
            self.scripted.base_url(),
            key.display(),
        )
    }

    /// Whoever signs links to the stand-in's own bucket.
    pub(crate) async fn signer(&self) -> UrlSigner {
        let google = GoogleFake::start().await.expect("accounts");
        let key: PathBuf = self.dir.path().join("account.json");
        google.write_key_file(&key).expect("a key");
        let config = SignedUrl {
            signer: SignerKind::KeyFile,
            key_file: Some(key),
            storage_endpoint: format!("http://{}", self.scripted.authority()),
            ..SignedUrl::default()
        };
        UrlSigner::new(&config, None).expect("a signer")
    }
}

/// A result with this score, of a work of so many hundredths of sureness: one that has to be reviewed where that is little.
pub(crate) fn graded(score: f64, confidence: u8) -> GradingResult {
    let of = Score::of_half(score).expect("a half");
    let sample = |score: Score| Sample {
        criteria: Skill::Writing
            .criteria()
            .iter()
            .map(|criterion| (*criterion, score, "As it is.".to_owned(), Vec::new()))
            .collect(),
        strengths: vec!["It is there.".to_owned()],
        weaknesses: Vec::new(),
        suggestions: Vec::new(),
        injection: false,
        model: MODELS[0].to_owned(),
    };
    let work = Work {
        text: "Parks are good.".to_owned(),
        // Neither shape nor length is looked at: what is left is sure.
        task: None,
        prompt: String::new(),
        known: Vec::new(),
        word_count: 3,
        no_speech: false,
        injection: false,
        pronunciation: None,
    };
    let rules = Rules {
        bands: Bands::default(),
        thresholds: Thresholds::default(),
        spot_check: 0,
        calibrated: confidence >= 90,
        prompt_version: version(Skill::Writing),
        rubric_version: "1".to_owned(),
        digest: [0; 32],
    };
    let result = assess(Skill::Writing, &work, &[sample(of), sample(of), sample(of)], &rules)
        .expect("a result")
        .result;
    GradingResult { confidence, ..result }
}

/// What a job says of a request: callbacks as the grader makes them.
#[derive(Clone, Copy)]
pub(crate) struct Telling {
    pub(crate) request: Uuid,
    pub(crate) submission: Uuid,
    pub(crate) job: Uuid,
}

impl Telling {
    pub(crate) fn of((submission, request): (Uuid, Uuid)) -> Self {
        Self { request, submission, job: Uuid::new_v4() }
    }

    pub(crate) fn says(self, (r#try, seq): (u32, u32), said: Said) -> Callback {
        Callback {
            request_id: self.request,
            submission_id: self.submission,
            job_id: self.job,
            r#try,
            seq,
            event_at: "2026-01-01T00:00:00Z".parse().expect("a time"),
            said,
        }
    }

    pub(crate) fn progress(self, at: (u32, u32), status: Status) -> Callback {
        let error = (status != Status::Processing).then(|| failure(ErrorType::Model));
        self.says(at, Said::Progress { status, error })
    }

    pub(crate) fn completed(self, at: (u32, u32), result: GradingResult) -> Callback {
        self.says(at, Said::Completed { result: Box::new(result), transcript: None })
    }

    pub(crate) fn error(self, at: (u32, u32), kind: ErrorType) -> Callback {
        self.says(at, Said::Error(failure(kind)))
    }
}

pub(crate) fn failure(kind: ErrorType) -> Failure {
    Failure { kind, code: "odd".to_owned(), retryable: false }
}

pub(crate) fn document(callback: &Callback) -> Value {
    serde_json::from_slice(&callback.to_bytes().expect("a callback")).expect("JSON")
}
