//! What a stop does not wait for, and what it does not begin.

use std::time::Duration;

use devkit::forms::Form;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use devkit::stage::Source;

use crate::harness::Scene;

/// Far below what systemd allows, far above what closing takes.
const SOON: Duration = Duration::from_secs(12);

async fn http_connections_that_say_nothing_do_not_hold_up_a_stop(source: Source) {
    let mut scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    let connect = async || TcpStream::connect(scene.router.address()).await.expect("connected");
    let silent = connect().await;
    let mut half = connect().await;
    half.write_all(b"GET /metr").await.expect("half a request");
    let mut kept = connect().await;
    kept.write_all(b"GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a request");
    let mut answer = [0; 12];
    kept.read_exact(&mut answer).await.expect("answered");
    assert_eq!(&answer, b"HTTP/1.1 200");
    scene.router.signal("TERM").await.expect("sent");
    let ended = tokio::time::timeout(SOON, scene.router.ended()).await;
    assert_eq!(ended.expect("soon").expect("ends").code(), Some(0), "{}", scene.router.log());
    drop((silent, half, kept));
}

/// Every lane is free and every mail is ready at the moment at which they are asked for: the stop still comes first.
async fn a_stop_that_comes_before_a_begin_comes_first_even_where_a_lane_is_free(source: Source) {
    let mut scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    let mut other = scene.stage.database.owner().await.expect("the owner");
    // Nobody can read what a mail is made of, until the stop has begun.
    let lock = other.transaction().await.expect("a transaction");
    lock.batch_execute("LOCK TABLE submission_fields IN ACCESS EXCLUSIVE MODE").await.expect("locked");
    let mut ids = Vec::<Uuid>::new();
    for _ in 0..6 {
        // Not a seed, which would wait for the lock as well.
        let sql = "INSERT INTO submissions (form_id) VALUES ('f') RETURNING id";
        let id = scene.backend.query_one(sql, &[]).await.expect("a row").get(0);
        scene.publish(id);
        ids.push(id);
    }
    for id in &ids {
        scene.await_row(*id, "claim", |row| row.status == "processing").await;
    }
    scene.router.signal("TERM").await.expect("sent");
    scene.await_line("stop", |line| line["event"] == "stopping").await;
    lock.rollback().await.expect("unlocked");
    assert_eq!(scene.router.ended().await.expect("ends").code(), Some(0), "{}", scene.router.log());
    for id in ids {
        let row = scene.row(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "refunded: {row:?}");
        assert_eq!(row.entry("1|a@x.test"), &json!({"state": "open"}), "{row:?}");
    }
    assert_eq!(scene.stage.relay.counters().transactions, 0);
}

devkit::with_either_source!(
    http_connections_that_say_nothing_do_not_hold_up_a_stop,
    a_stop_that_comes_before_a_begin_comes_first_even_where_a_lane_is_free,
);
