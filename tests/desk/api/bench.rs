//! A desk that serves the API, a room that owns subjects and does as a test says, and people with a token each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devkit::postgres::Variant;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::config::{DeskUser, Role};
use maple_router::db::DbError;
use maple_router::db::pool::{Pool, Transaction};
use maple_router::desk::access::Users;
use maple_router::desk::api::{ApiState, routes};
use maple_router::desk::live::Live;
use maple_router::desk::server::Routes;
use maple_router::grading::store::GradingStore;
use maple_router::grading::subject::AttemptSubject;
use maple_router::grey_queue::commands::{Commands, Subjects};
use maple_router::grey_queue::store::GreyQueueStore;
use maple_router::kernel::subject::{Evidence, Looked, OnAccount, Remedied, Remedy, Subject};
use maple_router::ops::rng::Rng;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Bench, HOST, Opened};
use crate::works;

/// A room that owns submissions.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) sufficient: Mutex<Vec<Uuid>>,
    pub(crate) refuses: Mutex<Option<String>>,
}

impl Subject for Room {
    fn kind(&self) -> &'static str {
        "submission"
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[Remedy::Check, Remedy::Replay, Remedy::Replan, Remedy::ForceDelivery, Remedy::Release]
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        let sufficient = self.sufficient.lock().expect("unpoisoned").contains(&id);
        let missing = Looked::Missing {
            what: vec!["1 of 1 deliveries is not reported as delivered".to_owned()],
            failure: None,
            mendable: true,
        };
        async move { Ok(if sufficient { Looked::Sufficient(Evidence::Delivered) } else { missing }) }.boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        let sql = "SELECT s.id FROM submissions s WHERE s.id = $1 FOR NO KEY UPDATE";
        async move { tx.query(sql, &[&id]).await.map(drop) }.boxed()
    }

    /// A remedy leaves its mark before it is refused, so that one that is not taken back is seen.
    fn remedy<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        remedy: Remedy,
        account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        let refused = self.refuses.lock().expect("unpoisoned").clone();
        async move {
            let sql = "INSERT INTO router.remedies (subject, remedy, review, actor, reason) VALUES ($1, $2, $3, $4, $5)";
            let said: [&dyn maple_router::db::Parameter; 5] =
                [&id, &remedy.label(), &account.review, &account.actor, &account.reason];
            tx.execute(sql, &said).await?;
            Ok(refused.map_or(Remedied::Done, Remedied::Refused))
        }
        .boxed()
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answered {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let answer = request.send().await.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await.expect("a body");
        let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect(&text) };
        if status >= 400 {
            assert_eq!(headers["content-type"], "application/problem+json", "{text}");
            assert_eq!(body["status"], status, "{text}");
            for member in ["title", "detail", "remedy"] {
                assert!(body[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {text}");
            }
        }
        Self { status, headers, body }
    }

    /// The kind of a problem.
    pub(crate) fn kind(&self) -> &str {
        self.body["type"].as_str().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default()
    }

    pub(crate) fn refused(&self) -> (u16, &str) {
        (self.status, self.kind())
    }

    pub(crate) fn etag(&self) -> &str {
        self.headers.get("etag").map_or("", |tag| tag.to_str().expect("text"))
    }

    pub(crate) fn version(&self) -> i64 {
        self.body["version"].as_i64().expect("a version")
    }
}

/// An entry as somebody saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) id: Uuid,
    pub(crate) version: i64,
}

impl Seen {
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/api/grey-queue/{}{rest}", self.id)
    }
}

pub(crate) struct Api {
    pub(crate) bench: Bench,
    pub(crate) desk: Opened,
    pub(crate) room: Arc<Room>,
    pub(crate) live: Live,
    tokens: BTreeMap<&'static str, String>,
}

impl Api {
    pub(crate) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Bench)) -> Self {
        let variant = Variant { router: true, audit_readable: true, ..Variant::default() };
        Self::on(Bench::with(variant).await, change).await
    }

    /// With schema screening.
    pub(crate) async fn screened() -> Self {
        let variant = Variant { router: true, screening: true, audit_readable: true, ..Variant::default() };
        let api = Self::on(Bench::with(variant).await, |_| ()).await;
        api.screen().await;
        api
    }

    /// Has form `f` screened.
    async fn screen(&self) {
        let form = "INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by)
                    VALUES ('f', 'fields', now() - interval '1 day', now() - interval '1 day', 'test')";
        self.bench.eyes.batch_execute(form).await.expect("a screened form");
    }

    /// With the schemas of grading, and as the desk's own role, which may review. `ines` is an instructor.
    pub(crate) async fn graded(change: impl FnOnce(&mut Bench)) -> Self {
        let variant = Variant {
            router: true,
            screening: true,
            grading: true,
            audit_readable: true,
            ..Variant::default()
        };
        let mut bench = Bench::with(variant).await;
        works::prepare(&mut bench).await;
        let api = Self::on(bench, change).await;
        api.screen().await;
        api
    }

    /// A finalized submission of the screened form, and its run.
    pub(crate) async fn screened_submission(&self, text: &str) -> (Uuid, Uuid) {
        let id = Rng::from_system().uuid();
        let sql = format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'f');
             INSERT INTO submission_fields (submission_id, field_key, field_value, position) VALUES ('{id}', 'message', '{text}', 1); COMMIT"
        );
        self.bench.eyes.batch_execute(&sql).await.expect("finalized");
        let sql = "SELECT id FROM screening.submissions WHERE subject = $1";
        (id, self.bench.eyes.query_one(sql, &[&id]).await.expect("its run").get(0))
    }

    /// An API on a database that has schema router already.
    pub(crate) async fn on(mut bench: Bench, change: impl FnOnce(&mut Bench)) -> Self {
        let ben = DeskUser { email: "ben@example.org".to_owned(), role: Role::Reviewer };
        bench.config.desk.users.insert("ben".to_owned(), ben);
        bench.bounds.per_user = (std::num::NonZeroU32::MAX, Duration::from_secs(1));
        change(&mut bench);
        bench
            .eyes
            .batch_execute(
                "INSERT INTO forms (id, name) VALUES ('f', 'F'), ('g', 'G');
                 CREATE TABLE router.remedies (subject uuid, remedy text, review text, actor text, reason text);
                 GRANT SELECT, INSERT ON router.remedies TO forms_app",
            )
            .await
            .expect("forms");
        let room = Arc::new(Room::default());
        let commands = commands(&bench, bench.pool.clone(), Arc::clone(&room));
        let state = ApiState::new(commands, bench.file.subscribe(), Arc::new(Rng::from_system()));
        let live = state.live.clone();
        let desk = bench.open_with(Routes { open: axum::Router::new(), closed: routes(state) }).await;
        let mut tokens = BTreeMap::new();
        for (name, role) in [
            ("vera", Role::Viewer),
            ("rita", Role::Reviewer),
            ("ben", Role::Reviewer),
            ("sam", Role::Security),
            ("ada", Role::Admin),
        ] {
            tokens.insert(name, bench.token(name, role).await);
        }
        if bench.config.desk.users.contains_key("ines") {
            tokens.insert("ines", bench.token("ines", Role::Reviewer).await);
        }
        Self { bench, desk, room, live, tokens }
    }

    pub(crate) fn token(&self, who: &str) -> &str {
        &self.tokens[who]
    }

    /// Has this user's program use another token.
    pub(crate) async fn renew(&mut self, who: &'static str, role: Role) {
        let token = self.bench.token(who, role).await;
        self.tokens.insert(who, token);
    }

    /// A request of this user's program.
    pub(crate) fn ask(&self, who: &str, method: Method, path: &str) -> RequestBuilder {
        self.desk.bare(method, path).header("host", HOST).bearer_auth(self.token(who))
    }

    pub(crate) async fn get(&self, who: &str, path: &str) -> Answered {
        Answered::of(self.ask(who, Method::GET, path)).await
    }

    pub(crate) async fn post(&self, who: &str, path: &str, body: Value) -> Answered {
        Answered::of(self.ask(who, Method::POST, path).json(&body)).await
    }

    /// A command on an entry as it was seen.
    pub(crate) async fn give(&self, who: &str, seen: Seen, command: &str, mut body: Value) -> Answered {
        body["version"] = json!(seen.version);
        self.post(who, &seen.path(&format!("/{command}")), body).await
    }

    /// A command that is done, and the entry as it is seen after it.
    pub(crate) async fn done(&self, who: &str, seen: Seen, command: &str, body: Value) -> (Seen, Answered) {
        let answer = self.give(who, seen, command, body).await;
        assert!([200, 202].contains(&answer.status), "{command}: {answer:?}");
        (Seen { id: seen.id, version: answer.version() }, answer)
    }

    /// Fails a new submission of form `f`, as a backend does.
    pub(crate) async fn failed(&self, reason: &str) -> Uuid {
        let id = Rng::from_system().uuid();
        let sql = format!(
            "INSERT INTO submissions (id, form_id, status, routing_result) VALUES ('{id}', 'f', 'failed',
             '{{\"finished\": {{\"reason\": \"{reason}\", \"token\": \"{id}-1\"}}}}')"
        );
        self.bench.eyes.batch_execute(&sql).await.expect("failed");
        id
    }

    /// A new entry that waits.
    pub(crate) async fn pending(&self) -> Seen {
        let subject = self.failed("refused").await;
        let row = self
            .bench
            .eyes
            .query_one("SELECT id, version FROM router.grey_queue WHERE subject_id = $1", &[&subject])
            .await
            .expect("an entry");
        Seen { id: row.get(0), version: row.get(1) }
    }

    /// An entry that this user reviews.
    pub(crate) async fn reviewed(&self, who: &str) -> Seen {
        let seen = self.pending().await;
        self.done(who, seen, "assign", json!({})).await.0
    }

    /// Many entries that wait, in one statement; each opened a millisecond after the other.
    pub(crate) async fn many(&self, count: usize) -> Vec<Seen> {
        let sql = format!(
            "WITH made AS (INSERT INTO router.grey_queue (cause, reason, subject_kind, subject_id, form_id, queue, opened_at)
               SELECT 'failed', 'refused', 'submission', gen_random_uuid(), 'f', 'operations',
                 now() - interval '1 hour' + n * interval '1 millisecond' FROM generate_series(1, {count}) AS n
               RETURNING id, opened_at),
             born AS (INSERT INTO router.grey_queue_state_transitions (entry_id, to_state, transitioned_by, command, version)
               SELECT id, 'Pending', 'system', 'open', 1 FROM made)
             SELECT id FROM made ORDER BY opened_at"
        );
        let rows = self.bench.eyes.query(&sql, &[]).await.expect("entries");
        rows.iter().map(|row| Seen { id: row.get(0), version: 1 }).collect()
    }

    /// The whole row with all that is recorded of it, and what is kept beside.
    pub(crate) async fn trace(&self, id: Uuid) -> Value {
        let sql = "SELECT jsonb_build_object('row', to_jsonb(g),
              'log', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.id) FROM router.grey_queue_state_transitions t WHERE t.entry_id = g.id),
              'kept', (SELECT count(*) FROM router.desk_idempotency),
              'remedies', (SELECT count(*) FROM router.remedies),
              'outbox', (SELECT count(*) FROM router.outbox WHERE kind = 'review.assigned'))
            FROM router.grey_queue g WHERE g.id = $1";
        self.bench.eyes.query_one(sql, &[&id]).await.expect("the row").get(0)
    }

    /// Commands of the history, in order, and that its chain is unbroken.
    pub(crate) async fn chain(&self, id: Uuid) -> Vec<String> {
        let history = self.get("vera", &format!("/api/grey-queue/{id}/history")).await;
        let lines = history.body["items"].as_array().expect("lines");
        let mut before = Value::Null;
        for line in lines {
            assert_eq!(line["from"], before, "the chain is unbroken: {history:?}");
            before = line["to"].clone();
        }
        lines.iter().map(|line| line["command"].as_str().expect("a command").to_owned()).collect()
    }
}

pub(crate) fn commands(bench: &Bench, pool: Pool, room: Arc<Room>) -> Commands {
    let attempts: Arc<dyn Subject> =
        Arc::new(AttemptSubject { store: GradingStore::new(pool.clone(), "test") });
    Commands {
        store: GreyQueueStore::new(pool, "maple-router@test"),
        subjects: Subjects::new([room as Arc<dyn Subject>, attempts]),
        people: Arc::new(Users::new(bench.file.subscribe())),
        takeover_after: Duration::from_secs(4 * 3600),
        clock: bench.clock.clone(),
    }
}
