//! Behind a real PgBouncer that pools transactions: it is found out, and nothing is left on sessions that are anybody's.

use devkit::postgres::{Bouncer, PoolMode, TestDatabase, Variant};
use maple_router::config::{Database, Pooling};
use maple_router::db::Pool;
use maple_router::db::contract;
use maple_router::ports::CheckLevel;

use super::{database, options, settings};

fn through(bouncer: &Bouncer, db: &TestDatabase, pooling: Option<Pooling>) -> Pool {
    let settings = Database { url: bouncer.url(), pooling, max_connections: 4, ..settings(db) };
    Pool::new(&settings, options()).expect("a pool")
}

#[tokio::test]
async fn a_pooling_proxy_is_found_out_and_another_is_not() {
    let db = database(Variant::default()).await;
    // The proxy between, the configured pooling, and what follows: how statements are sent, and the line of `check`.
    let table = [
        (
            Some(PoolMode::Transaction),
            None,
            Pooling::Transaction,
            CheckLevel::Warn,
            "pooling = \"transaction\"",
        ),
        (Some(PoolMode::Transaction), Some(Pooling::Transaction), Pooling::Transaction, CheckLevel::Ok, ""),
        (
            Some(PoolMode::Transaction),
            Some(Pooling::Session),
            Pooling::Transaction,
            CheckLevel::Fail,
            "says pooling",
        ),
        (Some(PoolMode::Session), None, Pooling::Session, CheckLevel::Ok, ""),
        (None, None, Pooling::Session, CheckLevel::Ok, ""),
        (None, Some(Pooling::Transaction), Pooling::Transaction, CheckLevel::Ok, ""),
    ];
    for (mode, said, found, level, word) in table {
        let case = format!("{mode:?} {said:?}");
        let bouncer = match mode {
            Some(mode) => Some(Bouncer::start(&db, mode, 3).await.expect("a proxy")),
            None => None,
        };
        let pool = match &bouncer {
            Some(bouncer) => through(bouncer, &db, said),
            None => Pool::new(&Database { pooling: said, ..settings(&db) }, options()).expect("a pool"),
        };
        let lines = contract::inspect(&pool, &crate::contract_options()).await;
        let line = lines.iter().find(|line| line.name == "database").expect("the line");
        assert_eq!(line.level, level, "{case}: {line:?}");
        let text = format!("{} {}", line.detail, line.remedy.as_deref().unwrap_or_default());
        assert!(text.contains(word), "{case}: {text}");
        assert_eq!(pool.pooling(), found, "{case}");
        assert_eq!(contract::refuses_start(&lines), level == CheckLevel::Fail, "{case}: {lines:?}");
    }
}

#[tokio::test]
async fn nothing_is_left_on_a_session_that_is_anybodys() {
    let db = database(Variant::default()).await;
    db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F')").await.expect("a form");
    let bouncer = Bouncer::start(&db, PoolMode::Transaction, 3).await.expect("a proxy");
    let pool = through(&bouncer, &db, Some(Pooling::Transaction));
    let id = pool
        .keyed_transaction("mixed", async |tx| {
            let insert =
                tx.prepare_cached("INSERT INTO submissions (form_id) VALUES ($1) RETURNING id").await?;
            let ids = tx.query(&insert, &[&"f"]).await?;
            let id: uuid::Uuid = ids[0].get(0);
            let read = tx.prepare_cached("SELECT id FROM submissions WHERE id = ANY($1)").await?;
            let write = tx.prepare_cached("UPDATE submissions SET form_id = $2 WHERE id = $1").await?;
            // On the wire together, each whole.
            let ids = vec![id];
            let (read, written) =
                futures::future::try_join(tx.query(&read, &[&ids]), tx.execute(&write, &[&id, &"f"])).await?;
            assert_eq!((read.len(), written), (1, 1));
            Ok(id)
        })
        .await
        .expect("committed");
    let client = pool.get().await.expect("a client");
    let there = client.query_opt("SELECT 1 FROM submissions WHERE id = $1", &[&id]).await.expect("asked");
    assert!(there.is_some());
    drop(client);
    let sql = "SELECT (SELECT count(*) FROM pg_prepared_statements), current_setting('statement_timeout'),
                      current_setting('lock_timeout'), current_setting('jit')";
    let as_made = ["0", "0", "0", "off"].map(|value| Some(value.to_owned()));
    assert_eq!(bouncer.each_answers(3, sql).await.expect("three sessions"), vec![as_made; 3]);
}
