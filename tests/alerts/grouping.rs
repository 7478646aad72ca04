//! Incidents and notices: sent once, and the callers that wait for a notice learn that it was.

use maple_router::ops::alerting::Notice;
use maple_router::ops::dependency::Dependency;
use maple_router::ops::incident::Incident;
use maple_router::ports::Runbook;

use crate::harness::*;

fn relay() -> Incident {
    let key = Dependency::RELAY.incident();
    Incident::new(key, "the relay localhost:25 does not take mail", &["systemctl status postfix"])
}

#[tokio::test]
async fn an_incident_is_reported_once_and_its_end_once() {
    let bench = Bench::new().await;
    let alerter = bench.start();
    alerter.incidents.raise(relay());
    bench.pass(31 * SECOND).await;
    bench.pass(HOUR).await;
    assert_eq!(bench.posted().len(), 1);
    assert!(
        bench.posted()[0].contains("does not take mail")
            && bench.posted()[0].contains("systemctl status postfix")
    );
    bench.pass(3 * HOUR).await;
    assert!(bench.posted()[1].contains("still, for 4 h"), "{:?}", bench.posted());
    alerter.incidents.resolve(relay().key);
    bench.pass(SECOND).await;
    assert!(bench.posted()[2].contains("over, after 4 h"), "{:?}", bench.posted());
    bench.pass(5 * HOUR).await;
    assert_eq!(bench.posted().len(), 3, "{:?}", bench.posted());
    // An incident over before anybody was notified is nobody's trouble.
    alerter.incidents.raise(relay());
    bench.pass(20 * SECOND).await;
    alerter.incidents.resolve(relay().key);
    bench.pass(HOUR).await;
    assert_eq!(bench.posted().len(), 3, "{:?}", bench.posted());
    alerter.stop().await;
}

#[tokio::test]
async fn the_end_of_an_incident_survives_an_outage_of_slack() {
    let mut bench = Bench::new().await;
    let alerter = bench.start();
    alerter.incidents.raise(relay());
    bench.pass(31 * SECOND).await;
    bench.slack.down().await;
    alerter.incidents.resolve(relay().key);
    bench.pass(HOUR).await;
    bench.slack.up().await.expect("back");
    bench.pass(330 * SECOND).await;
    assert_eq!(bench.posted().len(), 2, "{:?}", bench.posted());
    assert!(bench.posted()[1].contains("over, after 31 s: "), "{:?}", bench.posted());
    alerter.stop().await;
}

fn notice(sample: &str) -> Notice {
    Notice {
        cause: "a dead letter that nobody can read",
        sample: sample.to_owned(),
        command: "maple-router dlq list".to_owned(),
        runbook: Runbook { file: "rb-009-routing-failure.md", section: "unreadable" },
    }
}

#[tokio::test]
async fn who_asks_for_a_notice_learns_that_slack_confirmed_it() {
    let bench = Bench::new().await;
    bench.slack.script().next(1, devkit::slack::Mishap::Status(503));
    let alerter = bench.start();
    let mut first = alerter.alerts.notice(notice("message 1"));
    let second = alerter.alerts.notice(notice("message 2"));
    drop(alerter.alerts.notice(notice("message 3")));
    bench.pass(29 * SECOND).await;
    assert!(first.try_recv().is_err(), "not yet");
    bench.pass(2 * SECOND).await;
    bench.pass(10 * SECOND).await;
    assert_eq!(bench.counts(), [2], "who does not wait any more is not counted");
    assert!(bench.posted()[0].contains("message 1") && bench.posted()[0].contains("dlq list"));
    first.await.expect("sent");
    second.await.expect("sent");

    // A caller also learns that nobody will be notified.
    let waits = alerter.alerts.notice(notice("message 4"));
    let alerts = alerter.alerts.clone();
    alerter.stop().await;
    assert!(waits.await.is_err());
    assert!(alerts.notice(notice("message 5")).await.is_err());
}

#[tokio::test]
async fn notices_without_end_are_refused_rather_than_kept() {
    let bench = Bench::new().await;
    let alerter = bench.start();
    bench.clock.settled(1).await;
    // The task does not get to run in between.
    let mut asked: Vec<_> = (0..1_000).map(|n| alerter.alerts.notice(notice(&n.to_string()))).collect();
    let refused = asked.iter_mut().filter_map(|answer| answer.try_recv().err());
    let refused = refused.filter(|e| matches!(e, tokio::sync::oneshot::error::TryRecvError::Closed)).count();
    assert_eq!(refused, 1_000 - 256);
    bench.pass(31 * SECOND).await;
    assert_eq!(bench.counts(), [256]);
    alerter.stop().await;
}
