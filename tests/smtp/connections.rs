//! Connections: kept, replaced, bounded and rate-limited; and the probe behind `check`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use devkit::smtp::{Act, Keep, Rule, SmtpOptions, SmtpServer, Stage as At};
use maple_router::gateway::smtp::{Connections, SmtpSettings, Throttle, greet, inspect};
use maple_router::ports::{CheckLevel, Clock, Stage};

use crate::harness::{TestClock, connections, hasty, relay, send, send_on, settings, shorts, text};

#[tokio::test]
async fn a_connection_the_relay_closed_while_idle_is_replaced_unnoticed() {
    let server = relay().await;
    let connections = connections(settings(&server));
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    server.restart().await.unwrap();
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    // A relay that says why before it closes.
    server
        .rule(Rule::at(At::Mail).times(1).act(Act::ReplyThenClose("421 4.4.2 timeout exceeded".to_owned())));
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
    assert_eq!(server.counters().connections, 3);
    // Once is enough: a fresh connection that is closed at MAIL is an outcome.
    server.rule(Rule::at(At::Mail).disconnect());
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["deferred mail us"]);
    assert_eq!(server.counters().connections, 4);
}

#[tokio::test]
async fn a_relay_that_is_down_defers_and_one_that_is_up_again_is_used() {
    let server = relay().await;
    let connections = connections(settings(&server));
    server.stop().await;
    let outcomes = send(&connections, &["b@y.test", "c@y.test"]).await;
    assert_eq!(shorts(&outcomes), ["deferred connect us", "deferred connect us"]);
    assert!(text(&outcomes[0]).starts_with("connection refused at 127.0.0.1:"), "{outcomes:?}");
    server.restart().await.unwrap();
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
}

#[tokio::test]
async fn localhost_is_tried_at_all_its_addresses() {
    let server = relay().await;
    let connections = connections(SmtpSettings { host: "localhost".to_owned(), ..settings(&server) });
    assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
}

#[tokio::test]
async fn connections_bound_what_is_sent_at_once() {
    let server = relay().await;
    let connections = connections(SmtpSettings { connections: 2, ..settings(&server) });
    assert_eq!(connections.free(), 2);
    let one = connections.acquire().await;
    let two = connections.try_acquire().unwrap();
    assert_eq!(connections.free(), 0);
    assert!(connections.try_acquire().is_none());
    assert!(tokio::time::timeout(Duration::from_millis(50), connections.acquire()).await.is_err());
    drop(one);
    drop(two);
    assert_eq!(connections.free(), 2);

    server.rule(Rule::at(At::Dot).delay(Duration::from_millis(20)));
    let sends = (0..10).map(|_| send(&connections, &["b@y.test"]));
    for outcomes in futures::future::join_all(sends).await {
        assert_eq!(shorts(&outcomes), ["accepted"]);
    }
    assert_eq!(server.counters().connections, 2);
}

#[tokio::test]
async fn a_connection_idle_for_long_is_not_used_again() {
    let server = relay().await;
    let clock = TestClock::new();
    let connections = Connections::new(settings(&server), Arc::clone(&clock) as Arc<dyn Clock>);
    for (pause, opened) in [(0, 1), (90, 1), (101, 2)] {
        clock.advance(Duration::from_secs(pause));
        assert_eq!(shorts(&send(&connections, &["b@y.test"]).await), ["accepted"]);
        assert_eq!(server.counters().connections, opened, "after {pause} s");
    }
}

#[tokio::test]
async fn sends_keep_to_the_rate_limit_across_connections() {
    let server = relay().await;
    let connections =
        connections(SmtpSettings { connections: 4, max_per_minute: Some(600), ..settings(&server) });
    let started = Instant::now();
    futures::future::join_all((0..6).map(|_| send(&connections, &["b@y.test"]))).await;
    assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
    assert_eq!(server.counters().mails, 6);
    // A sender that waited before `begin` does not wait again in the send.
    let mut connection = connections.acquire().await;
    connection.wait_for_rate_limit().await;
    let mut other = connections.acquire().await;
    other.wait_for_rate_limit().await;
    let started = Instant::now();
    assert_eq!(shorts(&send_on(&mut connection, &["b@y.test"]).await), ["accepted"]);
    assert!(started.elapsed() < Duration::from_millis(95), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_throttle_slows_all_connections_together_beside_the_rate_limit() {
    let server = relay().await;
    let connections =
        connections(SmtpSettings { connections: 4, max_per_minute: Some(6_000), ..settings(&server) });
    connections.set_throttle(Throttle::Slow);
    let started = Instant::now();
    futures::future::join_all((0..3).map(|_| send(&connections, &["b@y.test"]))).await;
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    // A reload changes the rate limit, not the throttle.
    connections.set_rate_limit(None);
    let started = Instant::now();
    futures::future::join_all((0..3).map(|_| send(&connections, &["b@y.test"]))).await;
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    connections.set_throttle(Throttle::Off);
    futures::future::join_all((0..60).map(|_| send(&connections, &["b@y.test"]))).await;
    assert_eq!(server.counters().mails, 66);
    assert!(started.elapsed() < Duration::from_secs(30), "nothing waits a second each any more");
}

#[tokio::test]
async fn the_probe_names_what_is_wrong_and_what_to_do() {
    let server = relay().await;
    assert_eq!(greet(&settings(&server)).await.unwrap(), "relay.test ESMTP Postfix");
    let line = inspect(&settings(&server)).await;
    assert_eq!((line.name, line.level), ("relay", CheckLevel::Ok));
    assert!(line.detail.contains("SIZE, 8BITMIME, SMTPUTF8"), "{}", line.detail);
    assert_eq!((server.counters().quits, server.counters().transactions), (2, 0));

    for (rule, detail, remedy) in [
        (Rule::at(At::Banner).reply("554 5.7.1 go away, x@y.test"), "554 go away, <address>", "mynetworks"),
        (Rule::at(At::Banner).silence(), "no greeting within 400ms", "plain SMTP port"),
        (Rule::at(At::Ehlo).reply("550 5.7.1 bad name"), "EHLO maple.test: 550 bad name", "hello_name"),
    ] {
        server.clear_rules();
        server.rule(rule);
        let line = inspect(&hasty(&server)).await;
        assert_eq!(line.level, CheckLevel::Fail);
        assert!(line.detail.contains(detail), "{}", line.detail);
        assert!(line.remedy.as_deref().is_some_and(|text| text.contains(remedy)), "{:?}", line.remedy);
    }

    server.stop().await;
    let line = inspect(&settings(&server)).await;
    assert_eq!(line.level, CheckLevel::Fail);
    assert!(line.detail.starts_with("connection refused at 127.0.0.1:"), "{}", line.detail);
    assert_eq!(line.remedy.as_deref(), Some("is Postfix running? `systemctl status postfix`"));
    assert_eq!(greet(&settings(&server)).await.unwrap_err().stage, Stage::Connect);

    let nowhere = SmtpSettings { host: "no-such-host.invalid".to_owned(), ..settings(&server) };
    let line = inspect(&nowhere).await;
    assert!(line.remedy.as_deref().is_some_and(|text| text.contains("getent hosts")), "{line:?}");
}

/// Nagle's algorithm would slow one connection to about 22 messages a second; the figure is printed, the bound is loose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_is_not_slowed_down_by_nagle() {
    let server =
        SmtpServer::start(SmtpOptions { keep: Keep::Digests, ..SmtpOptions::default() }).await.unwrap();
    let connections = connections(settings(&server));
    let mut connection = connections.acquire().await;
    let started = Instant::now();
    const N: u64 = 300;
    for _ in 0..N {
        assert_eq!(shorts(&send_on(&mut connection, &["b@y.test"]).await), ["accepted"]);
    }
    let rate = f64::from(u32::try_from(N).unwrap()) / started.elapsed().as_secs_f64();
    println!("{rate:.0} messages a second on one connection");
    assert!(rate > 50.0, "{rate:.0} messages a second: is TCP_NODELAY off?");
    assert_eq!(server.digests().values().sum::<u64>(), N);
    assert!(server.mails().is_empty());
}
