//! Slack away, slow, or refusing: nothing is lost, and nothing waits for it but alerts.

use std::time::Duration;

use devkit::slack::Mishap;
use maple_router::ops::alerting::PassError;
use maple_router::ops::incident::{Incident, IncidentKey};

use crate::harness::*;

#[tokio::test]
async fn an_hour_without_slack_loses_nothing_and_costs_a_few_tries() {
    let mut bench = Bench::new().await;
    bench.slack.down().await;
    let alerter = bench.start();
    for _ in 0..12 {
        bench.crowd(50, refused(550)).await;
        bench.crowd(1, refused(554)).await;
        bench.pass(300 * SECOND).await;
    }
    assert_eq!(bench.unalerted().await, 612);
    let leased = "SELECT count(*) FROM submissions WHERE routing_result->'alert' ? 'lease'";
    let leased: i64 = bench.eyes.query_one(leased, &[]).await.expect("a count").get(0);
    assert_eq!(leased, 0, "what could not be reported is free for others");
    bench.slack.up().await.expect("back");
    bench.pass(330 * SECOND).await;
    let mut counts = bench.counts();
    counts.sort_unstable();
    assert_eq!(counts, [12, 600], "one message a cause, whatever was tried");
    assert_eq!(bench.unalerted().await, 0);
    alerter.stop().await;
}

#[tokio::test]
async fn tries_are_few_while_slack_is_in_trouble() {
    let bench = Bench::new().await;
    bench.slack.script().always(Mishap::Status(500));
    bench.crowd(5, refused(550)).await;
    bench.crowd(5, refused(554)).await;
    let alerter = bench.start();
    bench.pass(HOUR).await;
    let tries = bench.slack.attempts();
    // Full jitter up to five minutes: two and a half on average, some at the beginning.
    assert!((8..80).contains(&tries), "{tries}");
    bench.slack.script().clear();
    bench.pass(330 * SECOND).await;
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![5, 5], 0));
    alerter.stop().await;
}

#[tokio::test]
async fn slacks_own_pause_is_kept() {
    let bench = Bench::new().await;
    bench.slack.script().next(1, Mishap::RetryAfter(600));
    bench.crowd(5, refused(550)).await;
    bench.crowd(5, refused(554)).await;
    let alerter = bench.start();
    bench.pass(31 * SECOND).await;
    assert_eq!((bench.slack.attempts(), bench.counts().len()), (1, 0), "the other cause waits as well");
    bench.pass(560 * SECOND).await;
    assert_eq!(bench.slack.attempts(), 1);
    bench.pass(60 * SECOND).await;
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![5, 5], 0));
    alerter.stop().await;
}

#[tokio::test]
async fn one_message_refused_does_not_hold_up_the_others_and_is_not_given_up() {
    let bench = Bench::new().await;
    bench.slack.script().next(1, Mishap::Status(400));
    bench.crowd(3, refused(550)).await;
    bench.crowd(4, refused(554)).await;
    let alerter = bench.start();
    bench.pass(31 * SECOND).await;
    assert_eq!((bench.counts().len(), bench.slack.attempts()), (1, 2));
    bench.pass(1000 * SECOND).await;
    let mut counts = bench.counts();
    counts.sort_unstable();
    assert_eq!((counts, bench.unalerted().await), (vec![3, 4], 0));
    alerter.stop().await;
}

#[tokio::test]
async fn a_webhook_that_is_gone_is_tried_rarely_and_nothing_is_lost() {
    let bench = Bench::new().await;
    bench.slack.script().always(Mishap::Status(404));
    bench.crowd(3, refused(550)).await;
    let alerter = bench.start();
    bench.pass(HOUR).await;
    let tries = bench.slack.attempts();
    assert!((4..=12).contains(&tries), "every 5 to 15 minutes: {tries}");
    let refused = bench.sender(bench.failures()).pass().await;
    assert!(
        matches!(&refused, Err(PassError::NotTaken { sent: 0, why }) if why.contains("no_service")),
        "{refused:?}"
    );
    bench.slack.script().clear();
    bench.pass(1000 * SECOND).await;
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![3], 0));
    alerter.stop().await;
}

#[tokio::test]
async fn a_slack_that_never_answers_is_left_after_the_timeout() {
    let mut bench = Bench::new().await;
    bench.config.slack.timeout = Duration::from_millis(300);
    bench.slack.script().next(1, Mishap::Hang);
    bench.crowd(3, refused(550)).await;
    let alerter = bench.start();
    bench.pass(60 * SECOND).await;
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![3], 0));
    alerter.stop().await;
}

#[tokio::test]
async fn an_outage_of_the_database_is_reported_without_the_database() {
    let mut bench = Bench::new().await;
    bench.config.database.url = "postgres://nobody@127.0.0.1:1/nothing".to_owned();
    bench.config.database.statement_timeout = SECOND;
    let alerter = bench.start();
    alerter.incidents.raise(Incident::new(
        IncidentKey::new("spool"),
        "facts lie in the state directory",
        &["ls"],
    ));
    bench.pass(31 * SECOND).await;
    assert!(bench.posted()[0].contains("facts lie in the state directory"), "{:?}", bench.posted());
    alerter.stop().await;
}
