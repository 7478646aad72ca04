//! READY, STATUS, RELOADING, STOPPING: when, in which order, and what the line says.

use devkit::forms::SubmissionSeed;

use crate::harness::{Systemd, binary, has, stage};

#[tokio::test]
async fn a_life_is_reported_from_ready_to_stopping() {
    let stage = stage().await;
    let systemd = Systemd::on(&stage);
    let mut router =
        stage.router_under(binary(), "one", "", &systemd.variables(None)).await.expect("a process");
    let ready = systemd.receives(0, "READY=1", &router).await;
    router.ready().await.expect("READY means ready");
    systemd
        .receives(0, "STATUS=routing: 0 in flight, 0 waiting; 0 routed, 0 failed since start", &router)
        .await;

    // A routed submission shows in the numbers, within the time between two lines.
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let id = SubmissionSeed::of("contact").insert(&backend).await.expect("a row").id;
    stage.publish(id, "finalized").expect("published");
    systemd
        .receives(ready, "STATUS=routing: 0 in flight, 0 waiting; 1 routed, 0 failed since start", &router)
        .await;
    assert_eq!(router.metric("maple_router_waiting").await.expect("metrics"), Some(0.0));

    // A reload: announced with its time, and over with a READY of its own.
    let before = systemd.count();
    router.signal("HUP").await.expect("a signal");
    let reloading = systemd.receives(before, "RELOADING=1", &router).await;
    let said = systemd.messages()[reloading].clone();
    assert!(said.lines().any(|line| line.starts_with("MONOTONIC_USEC=")), "{said:?}");
    systemd.receives(reloading + 1, "READY=1", &router).await;

    let before = systemd.count();
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
    systemd.receives(before, "STOPPING=1", &router).await;
    systemd.receives(before, "STATUS=stopping", &router).await;

    let all = systemd.messages();
    assert!(all.iter().all(|said| !said.contains('@')), "an address in {all:?}");
    assert!(!all.iter().any(|said| has(said, "WATCHDOG=1")), "nobody asked for it: {all:?}");
}

#[tokio::test]
async fn a_stop_during_the_start_is_reported_too() {
    let stage = stage().await;
    stage.broker.hang(true);
    let systemd = Systemd::on(&stage);
    let mut router =
        stage.router_under(binary(), "one", "", &systemd.variables(None)).await.expect("a process");
    systemd.receives(0, "STATUS=waiting for pubsub", &router).await;
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
    systemd.receives(0, "STOPPING=1", &router).await;
    assert!(!systemd.messages().iter().any(|said| has(said, "READY=1")), "{:?}", systemd.messages());
}

#[tokio::test]
async fn a_pause_stands_in_the_line() {
    let stage = stage().await;
    let systemd = Systemd::on(&stage);
    let mut router =
        stage.router_under(binary(), "one", "", &systemd.variables(None)).await.expect("a process");
    router.ready().await.expect("ready");
    let config = router.config().to_owned();
    let ask = async |arguments: &[&str]| {
        let answer = stage.ask(binary(), &config, arguments).await.expect("a verb");
        assert_eq!(answer.code, Some(0), "{answer:?}");
    };
    ask(&["pause", "--reason", "a test"]).await;
    let place = systemd.receives(0, "STATUS=paused: all until resumed", &router).await;
    ask(&["resume", "--reason", "a test"]).await;
    systemd.receives(place, "STATUS=routing: ", &router).await;
    ask(&["pause", "--form", "contact", "--reason", "a test"]).await;
    systemd.receives(place, "STATUS=routing; paused: 1 forms, 0 destinations: ", &router).await;
}
