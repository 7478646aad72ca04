//! Connections that no longer fit the database are closed, and nobody sees more of it than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use devkit::postgres::{TestDatabase, Variant};
use maple_router::db::{DbError, DbErrorKind, Pool};
use tokio::sync::Barrier;

use super::{database, pool};

const NAMES: &str = "SELECT name FROM forms ORDER BY id";
const INSERT: &str = "INSERT INTO submissions (form_id) VALUES ('f')";

async fn with_form() -> TestDatabase {
    let db = database(Variant::default()).await;
    db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("a form");
    db
}

async fn names(pool: &Pool) -> Result<Vec<String>, DbError> {
    pool.transaction("names", async |tx| {
        let rows = tx.query(&tx.prepare_cached(NAMES).await?, &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    })
    .await
}

/// Opens both connections of the pool and prepares the statement.
async fn warm(pool: &Pool) {
    let both = Arc::new(Barrier::new(2));
    let one = || {
        let both = Arc::clone(&both);
        pool.transaction("warm", move |tx| {
            let both = Arc::clone(&both);
            async move {
                tx.query(&tx.prepare_cached(NAMES).await?, &[]).await?;
                both.wait().await;
                Ok(())
            }
        })
    };
    tokio::try_join!(one(), one()).expect("both");
}

/// Process numbers of the router's sessions.
async fn sessions(db: &TestDatabase) -> Vec<i32> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND usename = 'forms_app'";
    let rows = db.superuser().await.expect("superuser").query(sql, &[&db.name()]).await.expect("sessions");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_table_altered_under_prepared_statements_is_met_by_nobody() {
    let db = with_form().await;
    let pool = pool(&db);
    warm(&pool).await;
    let before = sessions(&db).await;
    assert_eq!(before.len(), 2);
    db.alter("ALTER TABLE forms ALTER name TYPE varchar(200)").await.expect("altered");
    // The first meets it, and takes its sibling along.
    assert_eq!(names(&pool).await.expect("repeated"), ["F"]);
    let row = pool.get().await.expect("a connection").query_one(NAMES, &[]).await.expect("a row");
    assert_eq!(row.get::<_, String>(0), "F");
    // The server notices in its own time that they are closed.
    for _ in 0..500 {
        if sessions(&db).await.iter().all(|pid| !before.contains(pid)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?} and {before:?}: one is left", sessions(&db).await);
}

#[tokio::test]
async fn a_statement_alone_meets_it_once() {
    let db = with_form().await;
    let pool = pool(&db);
    let alone = async || {
        let client = pool.get().await?;
        client.query(&client.prepare_cached(NAMES).await?, &[]).await
    };
    alone().await.expect("prepared");
    db.alter("ALTER TABLE forms ALTER name TYPE varchar(200)").await.expect("altered");
    let error = alone().await.expect_err("the plan is out of date");
    assert_eq!(error.sqlstate(), Some("0A000"), "{error}");
    alone().await.expect("another connection");
}

#[tokio::test]
async fn what_a_new_connection_may_mend_is_done_once_more_on_one() {
    let db = with_form().await;
    let pool = pool(&db);
    for code in ["0A000", "08P01", "25006", "26000", "42P05", "XX000"] {
        for (failures, runs, ends_well) in [(1, 2, true), (100, 2, false)] {
            let (ran, on) = (AtomicU32::new(0), std::sync::Mutex::new(Vec::new()));
            let result = pool
                .transaction("misfit", async |tx| {
                    let pid: i32 = tx.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
                    on.lock().expect("unpoisoned").push(pid);
                    tx.execute(INSERT, &[]).await?;
                    if ran.fetch_add(1, Ordering::SeqCst) < failures {
                        let raise = format!("DO $$ BEGIN RAISE 'made up' USING ERRCODE = '{code}'; END $$");
                        tx.batch_execute(&raise).await?;
                    }
                    Ok(())
                })
                .await;
            assert_eq!(result.is_ok(), ends_well, "{code}: {result:?}");
            assert_eq!(ran.load(Ordering::SeqCst), runs, "{code}");
            let on = on.into_inner().expect("unpoisoned");
            assert_ne!(on[0], on[1], "{code}: on the same connection");
        }
    }
    let superuser = db.superuser().await.expect("superuser");
    let rows: i64 = superuser.query_one("SELECT count(*) FROM submissions", &[]).await.expect("count").get(0);
    assert_eq!(rows, 6, "one for each that ended well");
}

#[tokio::test]
async fn a_read_only_spell_is_an_outage_and_ends_with_itself() {
    let db = with_form().await;
    let pool = pool(&db);
    let insert = async || pool.transaction("insert", async |tx| tx.execute(INSERT, &[]).await).await;
    let superuser = db.superuser().await.expect("superuser");
    let name = db.name();
    for (on, off) in [
        (
            format!("ALTER DATABASE {name} SET default_transaction_read_only = on"),
            format!("ALTER DATABASE {name} RESET default_transaction_read_only"),
        ),
        (
            format!("ALTER ROLE forms_app IN DATABASE {name} SET default_transaction_read_only = on"),
            format!("ALTER ROLE forms_app IN DATABASE {name} RESET default_transaction_read_only"),
        ),
    ] {
        warm(&pool).await;
        pool.ask().await.expect("it writes");
        superuser.batch_execute(&on).await.expect("read-only");
        // Sessions end as in a failover.
        db.disconnect("forms_app").await.expect("cut");
        let error = loop {
            match insert().await {
                Err(error) if error.sqlstate() == Some("25006") => break error,
                Err(error) => assert_eq!(error.kind(), DbErrorKind::Unreachable, "{error}"),
                Ok(_) => panic!("it is read-only"),
            }
        };
        assert_eq!(error.kind(), DbErrorKind::Unreachable);
        warm(&pool).await;
        let error = pool.ask().await.expect_err("a database that does not write is away");
        assert_eq!((error.kind(), error.sqlstate()), (DbErrorKind::Unreachable, Some("25006")), "{error}");
        warm(&pool).await;
        superuser.batch_execute(&off).await.expect("writable");
        // Sessions of the pool that were born read-only are not met again.
        pool.ask().await.expect("it writes again");
        insert().await.expect("at once");
    }
}
