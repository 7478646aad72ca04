//! Named transactions: what is committed, what is repeated, what becomes of a connection that went wrong.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use devkit::postgres::{Cluster, ClusterOptions, TestDatabase, Variant};
use google_cloud_auth::credentials::{AccessToken, AccessTokenCredentials, AccessTokenCredentialsProvider};
use maple_router::config::{Database, DatabaseAuth};
use maple_router::db::{DbError, DbErrorKind, Listener, Pool, PoolOptions};

use super::{database, options, pool, settings};

async fn with_form() -> TestDatabase {
    let db = database(Variant::default()).await;
    db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("a form");
    db
}

async fn count(db: &TestDatabase) -> i64 {
    let superuser = db.superuser().await.expect("superuser");
    superuser.query_one("SELECT count(*) FROM submissions", &[]).await.expect("count").get(0)
}

const INSERT: &str = "INSERT INTO submissions (form_id) VALUES ('f')";

#[tokio::test]
async fn a_transaction_has_a_name_limits_and_an_isolation_level() {
    let db = with_form().await;
    let pool = pool(&db);
    // As behind a proxy that pools transactions: the session's settings are somebody else's.
    let foreign = "SET statement_timeout = 7; SET jit = on; SET max_parallel_workers_per_gather = 2";
    pool.get().await.expect("the only connection").batch_execute(foreign).await.expect("set");
    let shown = pool
        .transaction("probe", async |tx| {
            let sql = "SELECT current_setting('application_name'), current_setting('transaction_isolation'),
                       current_setting('statement_timeout'), current_setting('lock_timeout'), current_user::text,
                       current_setting('idle_in_transaction_session_timeout'), current_setting('jit'),
                       current_setting('max_parallel_workers_per_gather')";
            let row = tx.query_one(&tx.prepare_cached(sql).await?, &[]).await?;
            Ok((0..8).map(|at| row.get::<_, String>(at)).collect::<Vec<_>>())
        })
        .await
        .expect("a transaction");
    assert_eq!(
        shown,
        ["maple-router:probe", "read committed", "1500ms", "300ms", "forms_app", "3s", "off", "0"]
    );
}

#[tokio::test]
async fn ok_commits_and_err_rolls_back_and_both_give_the_connection_back() {
    let db = with_form().await;
    let pool = Pool::new(&Database { max_connections: 1, ..settings(&db) }, options()).expect("a pool");
    let backend = async || -> i32 {
        pool.get()
            .await
            .expect("a client")
            .query_one("SELECT pg_backend_pid()", &[])
            .await
            .expect("pid")
            .get(0)
    };
    let first = backend().await;
    pool.transaction("keep", async |tx| Ok(tx.execute(INSERT, &[]).await?)).await.expect("committed");
    assert_eq!(count(&db).await, 1);
    let refused = pool
        .transaction("drop", async |tx| {
            tx.execute(INSERT, &[]).await?;
            Err::<(), _>(DbError::Shape("changed my mind".to_owned()))
        })
        .await;
    assert!(matches!(refused, Err(DbError::Shape(_))), "{refused:?}");
    assert_eq!(count(&db).await, 1);
    assert_eq!(backend().await, first, "the connection is used again");
}

#[tokio::test]
async fn transactions_run_on_tasks() {
    let db = with_form().await;
    let pool = pool(&db);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                pool.transaction("task", async |tx| Ok(tx.execute(INSERT, &[]).await?))
                    .await
                    .expect("committed")
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(count(&db).await, 8);
}

#[tokio::test]
async fn only_conflicts_are_repeated() {
    let db = with_form().await;
    let pool = pool(&db);
    for (code, failures, runs, ends_well) in
        [("40001", 2, 3, true), ("40P01", 1, 2, true), ("40001", 100, 7, false), ("23505", 1, 1, false)]
    {
        let ran = AtomicU32::new(0);
        let result = pool
            .transaction("conflict", async |tx| {
                tx.execute(INSERT, &[]).await?;
                if ran.fetch_add(1, Ordering::SeqCst) < failures {
                    tx.batch_execute(&format!(
                        "DO $$ BEGIN RAISE 'made up' USING ERRCODE = '{code}'; END $$"
                    ))
                    .await?;
                }
                Ok(())
            })
            .await;
        assert_eq!(result.is_ok(), ends_well, "{code}: {result:?}");
        assert_eq!(ran.load(Ordering::SeqCst), runs, "{code}");
    }
    assert_eq!(count(&db).await, 2, "one row for each that ended well");
}

#[tokio::test]
async fn a_swallowed_error_does_not_pass_for_a_commit() {
    let db = with_form().await;
    let result = pool(&db)
        .transaction("careless", async |tx| {
            tx.execute(INSERT, &[]).await?;
            drop(tx.batch_execute("SELECT 1/0").await);
            Ok(())
        })
        .await;
    assert_eq!(result.expect_err("it is rolled back").kind(), DbErrorKind::Bug);
    assert_eq!(count(&db).await, 0);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_leaves_nothing_open() {
    let db = with_form().await;
    let pool = Pool::new(&Database { max_connections: 1, ..settings(&db) }, options()).expect("a pool");
    let impatient = tokio::time::timeout(
        Duration::from_millis(100),
        pool.transaction("slow", async |tx| {
            tx.execute(INSERT, &[]).await?;
            tx.batch_execute("SELECT pg_sleep(1)").await
        }),
    );
    assert!(impatient.await.is_err());
    let row = pool
        .get()
        .await
        .expect("the only slot is free")
        .query_one("SELECT txid_current_if_assigned()", &[])
        .await;
    assert_eq!(row.expect("a row").get::<_, Option<i64>>(0), None, "a new session, not the old transaction");
    assert_eq!(count(&db).await, 0);
}

#[tokio::test]
async fn locks_statements_and_the_pool_have_their_limits() {
    let db = with_form().await;
    let pool = pool(&db);
    let mut other = db.client_as("forms_app").await.expect("another session");
    let holding = other.transaction().await.expect("begin");
    holding.batch_execute("SELECT pg_advisory_xact_lock(7)").await.expect("the lock");
    let locked =
        pool.transaction("lock", async |tx| Ok(tx.batch_execute("SELECT pg_advisory_xact_lock(7)").await?));
    let error = locked.await.expect_err("it is locked");
    assert_eq!((error.sqlstate(), error.kind()), (Some("55P03"), DbErrorKind::Busy));

    let slow = pool.transaction("slow", async |tx| Ok(tx.batch_execute("SELECT pg_sleep(10)").await?));
    let error = slow.await.expect_err("too slow");
    assert_eq!((error.sqlstate(), error.kind()), (Some("57014"), DbErrorKind::Busy));

    let (_one, _two) = (pool.get().await.expect("one"), pool.get().await.expect("two"));
    let error = pool.get().await.expect_err("there is no third");
    assert!(matches!(error, DbError::PoolExhausted { size: 2, .. }), "{error:?}");
    assert_eq!(error.kind(), DbErrorKind::Busy);
}

#[tokio::test]
async fn silence_is_cut_off_and_its_connection_not_used_again() {
    let db = with_form().await;
    let short =
        Database { statement_timeout: Duration::from_millis(200), max_connections: 1, ..settings(&db) };
    let pool = Pool::new(&short, options()).expect("a pool");
    let error = pool
        .transaction("silent", async |tx| {
            tx.batch_execute("SET LOCAL statement_timeout = 0").await?;
            tx.batch_execute("SELECT pg_sleep(5)").await
        })
        .await
        .expect_err("no answer");
    assert!(matches!(error, DbError::NoAnswer { what: "silent", .. }), "{error:?}");
    pool.transaction("next", async |tx| Ok(tx.batch_execute("SELECT 1").await?))
        .await
        .expect("a fresh connection");
}

#[tokio::test]
async fn a_lost_connection_is_replaced() {
    let db = with_form().await;
    let pool = pool(&db);
    let error = pool
        .transaction("cut", async |tx| {
            db.disconnect("forms_app").await.expect("cut");
            tx.execute(INSERT, &[]).await
        })
        .await
        .expect_err("it was cut");
    assert_eq!(error.kind(), DbErrorKind::Unreachable, "{error}");
    pool.transaction("again", async |tx| Ok(tx.execute(INSERT, &[]).await?)).await.expect("a new connection");
    assert_eq!(db.disconnect("forms_app").await.expect("cut while idle"), 1);
    tokio::time::sleep(Duration::from_millis(100)).await;
    pool.transaction("idle", async |tx| Ok(tx.execute(INSERT, &[]).await?))
        .await
        .expect("no dead one is handed out");
    assert_eq!(count(&db).await, 2);
}

#[tokio::test]
async fn a_connection_lost_in_commit_is_an_unknown_commit() {
    let db = with_form().await;
    db.alter(
        "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON submissions DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION dawdle();",
    )
    .await
    .expect("a slow commit");
    let pool = pool(&db);
    let committing = pool.transaction("commit", async |tx| Ok(tx.execute(INSERT, &[]).await?));
    let cutting = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        db.disconnect("forms_app").await.expect("cut")
    };
    let (result, cut) = tokio::join!(committing, cutting);
    assert!(cut > 0);
    let error = result.expect_err("cut in the middle of COMMIT");
    assert!(matches!(error, DbError::CommitUnknown { name: "commit", .. }), "{error:?}");
}

#[tokio::test]
async fn faults_carry_no_row_and_say_what_is_missing() {
    let db = with_form().await;
    let pool = pool(&db);
    // As owner: where row-level security binds the role, the server itself keeps the row out of DETAIL.
    let as_owner = Pool::new(&Database { url: db.owner_url(), ..settings(&db) }, options()).expect("a pool");
    let secret = "someone@example.org";
    let sql = format!("INSERT INTO forms (id, name) VALUES ('{secret}', NULL)");
    let error = as_owner
        .transaction("leak", async |tx| Ok(tx.batch_execute(&sql).await?))
        .await
        .expect_err("not null");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(secret) && shown.contains("column name"), "{shown}");
    for (sql, kind) in [
        ("SELECT * FROM no_such_table", DbErrorKind::Contract),
        ("SELECT no_such_column FROM submissions", DbErrorKind::Contract),
        ("DELETE FROM submissions", DbErrorKind::Contract),
        ("INSERT INTO audit_log (actor, action) VALUES ('a', 'no_such_value')", DbErrorKind::Contract),
        ("SELEKT", DbErrorKind::Bug),
    ] {
        let error =
            pool.transaction("fault", async |tx| Ok(tx.batch_execute(sql).await?)).await.expect_err(sql);
        assert_eq!(error.kind(), kind, "{sql}: {error}");
    }
    let typed =
        pool.transaction("type", async |tx| Ok(tx.execute("SELECT $1::uuid", &[&"text"]).await?)).await;
    assert_eq!(typed.expect_err("not a uuid").kind(), DbErrorKind::Contract);
}

#[tokio::test]
async fn a_listener_receives_and_knows_when_it_is_disconnected() {
    let db = with_form().await;
    let elsewhere = Database {
        url: "postgres://forms_app@127.0.0.1:1/pooled".to_owned(),
        listen_url: Some(db.url_as("forms_app")),
        ..settings(&db)
    };
    let mut listener = Listener::connect(&elsewhere, &options(), "ready").await.expect("listening");
    pool(&db)
        .transaction("tell", async |tx| tx.batch_execute("NOTIFY other, 'x'; NOTIFY ready, 'look'").await)
        .await
        .expect("notified");
    assert_eq!(listener.next().await.as_deref(), Some("look"));
    db.disconnect("forms_app").await.expect("cut");
    assert_eq!(listener.next().await, None);
}

#[tokio::test]
async fn an_absent_server_is_unreachable_at_once() {
    let nowhere =
        Database { url: "postgres://forms_app@127.0.0.1:1/forms".to_owned(), ..Database::default() };
    let error = Pool::connect(&nowhere, options()).await.expect_err("nobody there");
    assert_eq!(error.kind(), DbErrorKind::Unreachable, "{error:?}");
}

#[test]
fn transactions_are_measured_by_name() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let db = with_form().await;
            pool(&db).transaction("measured", async |_| Ok(())).await.expect("committed");
        });
    });
    let shown = recorder.handle().render();
    assert!(shown.contains("maple_router_db_transaction_seconds_count{name=\"measured\"} 1"), "{shown}");
}

/// A cluster that asks `forms_app` for a password.
async fn strict_cluster() -> (Cluster, TestDatabase) {
    let hba = "local all forms_app scram-sha-256\nlocal all all trust\n".to_owned();
    let cluster = Cluster::start(ClusterOptions { hba: Some(hba), ..ClusterOptions::default() })
        .await
        .expect("a cluster");
    let db = cluster.database(Variant::default()).await.expect("a database");
    set_password(&db, "first").await;
    (cluster, db)
}

async fn set_password(db: &TestDatabase, password: &str) {
    let superuser = db.superuser().await.expect("superuser");
    superuser
        .batch_execute(&format!("ALTER ROLE forms_app PASSWORD '{password}'"))
        .await
        .expect("a password");
}

#[tokio::test]
async fn a_rotated_password_works_without_a_restart() {
    let (_cluster, db) = strict_cluster().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    let pool = Pool::new(&Database { password_file: Some(file.clone()), ..settings(&db) }, options())
        .expect("a pool");
    let missing = pool.get().await.expect_err("no file yet");
    assert!(missing.to_string().contains("password_file"), "{missing}");
    std::fs::write(&file, "wrong\n").expect("write");
    assert_eq!(pool.get().await.expect_err("wrong").kind(), DbErrorKind::Unreachable);
    std::fs::write(&file, "first\n").expect("write");
    drop(pool.get().await.expect("the right one"));
    set_password(&db, "second").await;
    std::fs::write(&file, "second").expect("write");
    db.disconnect("forms_app").await.expect("cut");
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(pool.get().await.expect("the rotated one"));
}

/// Hands out the tokens that are passwords here, a new one each time.
#[derive(Debug)]
struct Tokens(AtomicU32);

impl google_cloud_auth::credentials::CredentialsProvider for Tokens {
    async fn headers(
        &self,
        _: http::Extensions,
    ) -> Result<
        google_cloud_auth::credentials::CacheableResource<http::HeaderMap>,
        google_cloud_auth::errors::CredentialsError,
    > {
        Err(google_cloud_auth::errors::CredentialsError::from_msg(false, "only tokens here"))
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}

impl AccessTokenCredentialsProvider for Tokens {
    async fn access_token(&self) -> Result<AccessToken, google_cloud_auth::errors::CredentialsError> {
        let token = ["stale", "first"][self.0.fetch_add(1, Ordering::SeqCst).min(1) as usize];
        Ok(AccessToken { token: token.to_owned() })
    }
}

#[tokio::test]
async fn iam_asks_for_a_token_for_each_connection() {
    let (_cluster, db) = strict_cluster().await;
    let iam = Database { auth: DatabaseAuth::Iam, ..settings(&db) };
    let tokens = AccessTokenCredentials::from(Tokens(AtomicU32::new(0)));
    let pool = Pool::new(&iam, PoolOptions { tokens: Some(tokens), ..options() }).expect("a pool");
    assert!(pool.get().await.is_err(), "the stale one");
    drop(pool.get().await.expect("the fresh one"));

    let naked = Database { url: "postgres://u@db.example.org/d?sslmode=disable".to_owned(), ..iam };
    let error = Pool::new(&naked, options()).expect_err("a token in the clear");
    assert!(error.to_string().contains("sslmode"), "{error}");
}
