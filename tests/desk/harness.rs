//! A desk with a few routes, its people, a browser, and two clocks that tests move: the database's and the process's.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use devkit::postgres::{Cluster, TestDatabase, Variant};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::config::{Config, DeskUser, Role};
use maple_router::db::{Pool, PoolOptions};
use maple_router::desk::access::Visitor;
use maple_router::desk::access::credential::{Credential, DeskKey, Kind};
use maple_router::desk::access::presented::COOKIE;
use maple_router::desk::input::{Command, Json as Input};
use maple_router::desk::limits::Bounds;
use maple_router::desk::problem::Problem;
use maple_router::desk::server::{Desk, DeskParts, Routes, database};
use maple_router::desk::store::credentials::{Credentials, NewCredential};
use maple_router::desk::stream::Permit;
use maple_router::desk::templates::Templates;
use maple_router::ops::incident::{Incidents, Open};
use maple_router::ops::rng::Rng;
use maple_router::ports::Clock;
use reqwest::header::{HeaderMap, LOCATION, SET_COOKIE};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The name under which browsers know the desk.
pub(crate) const HOST: &str = "desk.localhost:9465";
pub(crate) const ORIGIN: &str = "http://desk.localhost:9465";
pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A clock that stands until it is moved.
#[derive(Debug)]
pub(crate) struct Standing {
    start: Instant,
    ahead: watch::Sender<Duration>,
}

impl Standing {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), ahead: watch::channel(Duration::ZERO).0 })
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.ahead.send_modify(|ahead| *ahead += by);
    }
}

impl Clock for Standing {
    fn monotonic(&self) -> Instant {
        self.start + *self.ahead.borrow()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        let mut ahead = self.ahead.subscribe();
        let due = *ahead.borrow() + pause;
        async move {
            if ahead.wait_for(|ahead| *ahead >= due).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}

/// A database whose `now()` tests move, a configuration, and what the desk is made of.
pub(crate) struct Bench {
    pub(crate) db: TestDatabase,
    pub(crate) eyes: Client,
    pub(crate) config: Config,
    pub(crate) file: watch::Sender<Arc<Config>>,
    pub(crate) clock: Arc<Standing>,
    pub(crate) pool: Pool,
    pub(crate) incidents: watch::Receiver<Open>,
    pub(crate) bounds: Bounds,
    pub(crate) templates: Templates,
    raise: Incidents,
    dir: tempfile::TempDir,
}

/// `now()` of `forms_app` is ahead of the server's by an interval that a test sets.
const SHIFTED: &str = "CREATE SCHEMA shifted; GRANT USAGE ON SCHEMA shifted TO PUBLIC;
    CREATE TABLE shifted.clock (ahead interval NOT NULL); INSERT INTO shifted.clock VALUES ('0');
    GRANT SELECT ON shifted.clock TO PUBLIC;
    CREATE FUNCTION shifted.now() RETURNS timestamptz LANGUAGE sql STABLE AS
      $$SELECT pg_catalog.now() + (SELECT ahead FROM shifted.clock)$$;
    DO $$BEGIN EXECUTE format('ALTER ROLE forms_app IN DATABASE %I SET search_path = shifted, pg_catalog, public',
      current_database()); END$$";

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Variant { router: true, ..Variant::default() }).await
    }

    pub(crate) async fn with(variant: Variant) -> Self {
        let cluster = Cluster::shared().await.expect("a cluster");
        let db = cluster.database(variant).await.expect("a database");
        let eyes = db.superuser().await.expect("superuser");
        eyes.batch_execute(SHIFTED).await.expect("a clock");
        let dir = tempfile::tempdir().expect("a directory");
        let secret = dir.path().join("desk-secret");
        std::fs::write(&secret, format!("{SECRET}\n")).expect("a secret");
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("closed");
        let mut config = Config::default();
        config.database.url = db.url_as("forms_app");
        config.desk.listen = Some("127.0.0.1:0".to_owned());
        config.desk.secret_file = Some(secret);
        for (name, role) in
            [("vera", Role::Viewer), ("rita", Role::Reviewer), ("sam", Role::Security), ("ada", Role::Admin)]
        {
            config
                .desk
                .users
                .insert(name.to_owned(), DeskUser { email: format!("{name}@example.org"), role });
        }
        let clock = Standing::new();
        let pool = pool(&config, &clock);
        let (raise, incidents) = Incidents::new();
        let file = watch::channel(Arc::new(config.clone())).0;
        Self {
            db,
            eyes,
            config,
            file,
            clock,
            pool,
            incidents,
            bounds: Bounds::default(),
            templates: Templates::default(),
            raise,
            dir,
        }
    }

    /// From now on the database is reached at `url`.
    pub(crate) fn reach(&mut self, url: String) {
        self.config.database.url = url;
        self.pool = pool(&self.config, &self.clock);
    }

    pub(crate) fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// The parts of a desk with the configuration as it is now.
    pub(crate) fn parts(&self) -> DeskParts {
        self.file.send_replace(Arc::new(self.config.clone()));
        DeskParts {
            config: self.file.subscribe(),
            pool: self.pool.clone(),
            clock: self.clock.clone(),
            rng: Arc::new(Rng::from_system()),
            incidents: self.raise.clone(),
            templates: self.templates,
            bounds: self.bounds,
        }
    }

    /// Opens a desk.
    pub(crate) async fn open(&self) -> Opened {
        self.open_with(routes(&self.pool)).await
    }

    pub(crate) async fn open_with(&self, routes: Routes) -> Opened {
        let stop = CancellationToken::new();
        let mut desk = Desk::start(self.parts(), routes, &stop).expect("a desk");
        let address =
            tokio::time::timeout(PATIENCE, desk.listening()).await.expect("in time").expect("it listens");
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .expect("a client");
        Opened { desk, stop, base: format!("http://{address}"), client }
    }

    /// The file as it is read again.
    pub(crate) fn reload(&mut self, change: impl FnOnce(&mut BTreeMap<String, DeskUser>)) {
        change(&mut self.config.desk.users);
        self.file.send_replace(Arc::new(self.config.clone()));
    }

    /// Moves the database's clock.
    pub(crate) async fn later(&self, by: &str) {
        let sql = format!("UPDATE shifted.clock SET ahead = ahead + interval '{by}'");
        self.eyes.batch_execute(&sql).await.expect("moved");
    }

    /// Makes a credential as the command line does, and answers its text.
    pub(crate) async fn credential(
        &self,
        kind: Kind,
        user: &str,
        cap: Option<Role>,
        life: Duration,
    ) -> String {
        let credential = Credential::new(kind, &Rng::from_system());
        let digest = key().digest(&credential);
        let new = NewCredential { digest: &digest, kind, user, role_cap: cap, label: "a test", life };
        Credentials::new(self.pool.clone()).make(new).await.expect("kept");
        credential.expose().to_owned()
    }

    /// A fresh login link's path.
    pub(crate) async fn link(&self, user: &str) -> String {
        let token = self.credential(Kind::Link, user, None, Duration::from_secs(600)).await;
        format!("/login/{token}")
    }

    /// A bearer token.
    pub(crate) async fn token(&self, user: &str, cap: Role) -> String {
        self.credential(Kind::Token, user, Some(cap), Duration::from_secs(86_400)).await
    }

    pub(crate) async fn count(&self, of: &str) -> i64 {
        self.eyes.query_one(&format!("SELECT count(*) FROM {of}"), &[]).await.expect("counted").get(0)
    }
}

fn pool(config: &Config, clock: &Arc<Standing>) -> Pool {
    let clock: Arc<dyn Clock> = clock.clone();
    Pool::new(&database(config), PoolOptions::new(clock)).expect("a pool")
}

pub(crate) fn key() -> DeskKey {
    DeskKey::new(SECRET).expect("a key")
}

/// An open desk, and whoever speaks to it.
pub(crate) struct Opened {
    pub(crate) desk: Desk,
    pub(crate) stop: CancellationToken,
    pub(crate) base: String,
    client: reqwest::Client,
}

impl Opened {
    /// A request by a browser that is at one of the desk's own pages.
    pub(crate) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).header("host", HOST).header("sec-fetch-site", "same-origin")
    }

    /// A request with no more headers than the client adds.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub(crate) async fn get(&self, path: &str, cookie: &str) -> Response {
        self.ask(Method::GET, path).header("cookie", cookie).send().await.expect("an answer")
    }

    pub(crate) async fn post(&self, path: &str, cookie: &str) -> Response {
        self.ask(Method::POST, path).header("cookie", cookie).send().await.expect("an answer")
    }

    /// Presses the button of a login page, and answers what came back.
    pub(crate) async fn press(&self, link: &str, cookie: Option<&str>) -> Response {
        let mut request = self.ask(Method::POST, link).form(&[("to", "/")]);
        if let Some(cookie) = cookie {
            request = request.header("cookie", cookie);
        }
        request.send().await.expect("an answer")
    }

    /// Logs in, and answers the cookie.
    pub(crate) async fn log_in(&self, bench: &Bench, user: &str) -> String {
        let answer = self.press(&bench.link(user).await, None).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        cookie(answer.headers()).expect("a cookie")
    }
}

/// The cookie of an answer, as a browser sends it back.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<String> {
    let set = headers.get(SET_COOKIE)?.to_str().expect("text");
    let pair = set.split(';').next().expect("a pair");
    assert!(pair.starts_with(&format!("{COOKIE}=")), "{pair}");
    Some(pair.to_owned())
}

pub(crate) fn location(answer: &Response) -> &str {
    answer.headers().get(LOCATION).map_or("", |to| to.to_str().expect("text"))
}

/// Status and kind of a refusal.
pub(crate) async fn refusal(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let kind = answer.headers().get("content-type").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let text = answer.text().await.expect("a body");
    assert_eq!(kind.as_deref(), Some("application/problem+json"), "{status} {text}");
    let problem: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(problem["status"], status);
    for member in ["title", "detail", "remedy"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem}");
    }
    let kind = problem["type"].as_str().expect("a type").rsplit(':').next().expect("a kind").to_owned();
    (status, kind)
}

/// What stands for pages and API.
pub(crate) fn routes(pool: &Pool) -> Routes {
    let open = Router::new().route("/assets/style.css", get(|| async { "body {}" }));
    let closed = Router::new()
        .route("/", get(whoami))
        .route("/echo", post(echo))
        .route("/document", post(|Input(document): Input<Value>| async move { Json(document) }))
        .route("/forgetful", get(|| async { "nobody asked who you are" }))
        .route("/hurt", get(hurt))
        .route("/stream", get(stream))
        .route("/api/whoami", get(whoami))
        .route("/api/admin", get(admin))
        .route("/api/echo", post(echo))
        .route("/api/busy", get(sleep))
        .with_state(pool.clone());
    Routes { open, closed }
}

async fn whoami(visitor: Visitor) -> Json<Value> {
    Json(json!({"user": visitor.user, "role": visitor.role, "by": visitor.by}))
}

async fn admin(visitor: Visitor) -> Result<Json<Value>, Problem> {
    visitor.must(Role::Admin)?;
    Ok(Json(json!({})))
}

async fn echo(visitor: Visitor, command: Command<Value>) -> Json<Value> {
    let key = command.key.map(|key| key.as_str().to_owned());
    Json(json!({"user": visitor.user, "body": command.body, "key": key, "form": command.is_form}))
}

async fn hurt() -> String {
    panic!("a bug that quotes bob@example.org")
}

/// Asks the database to sleep for longer than any statement may.
async fn sleep(State(pool): State<Pool>) -> Result<Json<Value>, Problem> {
    pool.transaction("sleep", async |tx| tx.batch_execute("SELECT pg_sleep(60)").await).await?;
    Ok(Json(json!({})))
}

/// A stream that says hello, and then nothing until it ends.
async fn stream(permit: Permit) -> Sse<impl futures::Stream<Item = Result<Event, std::convert::Infallible>>> {
    use futures::StreamExt as _;
    let hello = futures::stream::once(async { Ok(Event::default().data("hello")) });
    Sse::new(permit.over(hello.chain(futures::stream::pending())))
}
