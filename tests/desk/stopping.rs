//! A stop: open requests are answered, streams end, and it takes no longer than two seconds.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use maple_router::desk::server::Routes;
use reqwest::StatusCode;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{Bench, PATIENCE, routes};

#[expect(clippy::disallowed_methods, reason = "a real wait is measured")]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test]
async fn a_stop_ends_open_streams_within_two_seconds() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let session = desk.log_in(&bench, "rita").await;
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = desk.get("/stream", &session).await;
        assert!(stream.chunk().await.expect("read").is_some());
        open.push(stream);
    }
    // A connection that says nothing, and one in the middle of a head.
    let address = desk.base.strip_prefix("http://").expect("an address").to_owned();
    let silent = TcpStream::connect(&address).await.expect("connected");
    let mut half = TcpStream::connect(&address).await.expect("connected");
    half.write_all(b"GET / HTTP/1.1\r\nhos").await.expect("written");
    let began = now();
    desk.desk.stop().await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    for mut stream in open {
        // Ended, and not cut off: an error here would be one in the browser's console.
        assert!(stream.chunk().await.expect("it ends well").is_none());
    }
    assert!(TcpStream::connect(&address).await.is_err(), "nobody listens any more");
    drop((silent, half));
}

#[tokio::test]
async fn a_request_that_is_being_answered_is_answered() {
    let bench = Bench::new().await;
    let (arrive, mut arrived) = tokio::sync::watch::channel(false);
    let slow = move || {
        let arrive = arrive.clone();
        async move {
            arrive.send_replace(true);
            tokio::time::sleep(Duration::from_millis(300)).await;
            "done"
        }
    };
    let routes = routes(&bench.pool);
    let desk = bench
        .open_with(Routes { closed: routes.closed.merge(Router::new().route("/slow", get(slow))), ..routes })
        .await;
    let session = desk.log_in(&bench, "rita").await;
    let request = desk.ask(reqwest::Method::GET, "/slow").header("cookie", &session).send();
    let stopping = async {
        arrived.wait_for(|arrived| *arrived).await.expect("it is there");
        desk.desk.stop().await;
    };
    let (answer, ()) = futures::join!(request, stopping);
    let answer = answer.expect("an answer");
    assert_eq!((answer.status(), answer.text().await.expect("a body").as_str()), (StatusCode::OK, "done"));
}

#[tokio::test]
async fn a_handler_that_never_answers_does_not_hold_the_stop() {
    let bench = Bench::new().await;
    let stuck = Router::new().route("/stuck", get(std::future::pending::<&str>));
    let routes = routes(&bench.pool);
    let desk = bench.open_with(Routes { closed: routes.closed.merge(stuck), ..routes }).await;
    let session = desk.log_in(&bench, "rita").await;
    let request = tokio::spawn(desk.ask(reqwest::Method::GET, "/stuck").header("cookie", &session).send());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = now();
    desk.desk.stop().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(tokio::time::timeout(PATIENCE, request).await.expect("in time").expect("no panic").is_err());
}

#[tokio::test]
async fn the_daemons_stop_is_the_desks() {
    let bench = Bench::new().await;
    let desk = bench.open().await;
    let address = desk.base.strip_prefix("http://").expect("an address").to_owned();
    desk.stop.cancel();
    for _ in 0..500 {
        if TcpStream::connect(&address).await.is_err() {
            desk.desk.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it listens on");
}
