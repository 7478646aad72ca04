//! Limits of a stop: work it does not wait for, and work it does not start.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::google::Mishap;
use devkit::smtp::{Rule, Stage as At};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use devkit::stage::{Source, StageOptions};

use crate::harness::{Scene, stage_of};

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

/// Every connection is free and every mail is ready at the moment at which they are asked for: the stop still comes first.
async fn a_stop_that_comes_before_a_begin_comes_first_even_where_a_connection_is_free(source: Source) {
    let mut scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    // A signed submission is ready to be sent when the stop has started, and not before.
    scene.stage.google.iam_script().always(Mishap::Delay(Duration::from_secs(4)));
    let mut ids = Vec::<Uuid>::new();
    for _ in 0..6 {
        ids.push(scene.submit(&SubmissionSeed::of("f").attachment("a.pdf", "clean")).await.id);
    }
    for id in &ids {
        scene.await_row(*id, "claim", |row| row.status == "processing").await;
    }
    scene.router.signal("TERM").await.expect("sent");
    scene.await_line("stop", |line| line["event"] == "stopping").await;
    assert_eq!(scene.router.ended().await.expect("ends").code(), Some(0), "{}", scene.router.log());
    for id in ids {
        let row = scene.row(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "refunded: {row:?}");
        assert_eq!(row.entry("1|a@x.test"), &json!({"state": "open"}), "{row:?}");
    }
    assert_eq!(scene.stage.relay.counters().transactions, 0);
}

/// Beside a relay that was fast, mails have their intents recorded with their claims and wait for their connection. When the
/// daemon stops meanwhile, mails in dialogue are finished; nothing of the others was sent: intents and attempts go back.
async fn what_waits_for_its_connection_when_the_daemon_stops_is_given_back_without_a_doubt(source: Source) {
    // A relay on a crowded machine is not always fast.
    for _ in 0..5 {
        if is_given_back(source).await {
            return;
        }
    }
    panic!("not every mail had its intent: the relay was never taken for fast");
}

/// Whether the relay was taken for fast, and the rest was seen then.
async fn is_given_back(source: Source) -> bool {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let mut scene = Scene::on(stage, "[smtp]\nlanes = 1\n").await;
    for _ in 0..4 {
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        scene.ended(id).await;
    }
    let held = scene.stage.relay.trap(Rule::at(At::AfterDot));
    let mut ids = Vec::<Uuid>::new();
    for _ in 0..6 {
        ids.push(scene.submit(&SubmissionSeed::of("f")).await.id);
    }
    let all_begun = async || {
        let rows = futures::future::join_all(ids.iter().map(|id| scene.row(*id))).await;
        rows.iter().all(|row| row.entry("1|a@x.test").get("begun").is_some())
    };
    if !devkit::waiting::until(Duration::from_secs(10), Duration::from_millis(50), all_begun).await {
        held.release();
        for id in &ids {
            scene.ended(*id).await;
        }
        scene.stop().await;
        return false;
    }
    scene.router.signal("TERM").await.expect("sent");
    scene.await_line("stop", |line| line["event"] == "stopping").await;
    held.release();
    assert_eq!(scene.router.ended().await.expect("ends").code(), Some(0), "{}", scene.router.log());
    let mut sent = 0;
    for id in ids {
        let row = scene.row(id).await;
        let entry = row.entry("1|a@x.test");
        assert!(entry.get("begun").is_none() && entry.get("doubt").is_none(), "{row:?}");
        match row.status.as_str() {
            "routed" => sent += 1,
            status => assert_eq!((status, row.attempts()), ("received", 0), "refunded: {row:?}"),
        }
    }
    assert_eq!((sent, scene.stage.relay.mails().len()), (1, 5));
    true
}

devkit::with_either_source!(
    http_connections_that_say_nothing_do_not_hold_up_a_stop,
    a_stop_that_comes_before_a_begin_comes_first_even_where_a_connection_is_free,
    what_waits_for_its_connection_when_the_daemon_stops_is_given_back_without_a_doubt,
);
