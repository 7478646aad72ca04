//! What becomes of events when a source takes no more, or is built anew: nothing in work is disturbed, nothing else
//! is held back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use devkit::broker::Code;
use maple_router::gateway::pubsub::admin::provision;
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::ops::supervised::Report;
use maple_router::ports::{EventSource, Incoming, SourceError};

use crate::harness::{
    Fixture, PATIENCE, QUIET, next, next_if_any, provisioned, server, soon, supervised, text,
};

/// The shortest ack deadline there is; the tests that outlive it take as long.
const ACK_DEADLINE: Duration = Duration::from_secs(10);
/// Far less than any ack deadline: what comes within it did not wait for one.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A server whose leases run out while a test can wait for it.
async fn short_leases() -> Fixture {
    let mut fixture = server().await;
    fixture.settings.ack_deadline = ACK_DEADLINE;
    provision(&fixture.settings, false).await.unwrap();
    fixture
}

/// Waits until the server's counts are so; the counts when they never are.
async fn until_so(fixture: &Fixture, so: impl Fn(&Fixture) -> bool) {
    let begun = Instant::now();
    while !so(fixture) {
        assert!(begun.elapsed() < AT_ONCE, "{:?}", fixture.stats());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn take(source: &mut impl EventSource, count: usize) -> Vec<Incoming> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(next(source).await);
    }
    taken
}

/// What another source gets at once, and nothing twice.
async fn taken_elsewhere(fixture: &Fixture, count: usize) -> BTreeSet<String> {
    let begun = Instant::now();
    let mut source = fixture.source().await;
    let mut seen = BTreeSet::new();
    for message in take(&mut *source, count).await {
        assert!(seen.insert(text(&message)), "came twice");
        message.settle.ack();
    }
    assert!(begun.elapsed() < AT_ONCE, "they waited for a deadline: {:?}", begun.elapsed());
    assert!(next_if_any(&mut *source).await.is_none());
    assert!(source.stop(PATIENCE).await);
    seen
}

#[tokio::test]
async fn a_stop_hands_in_the_acks_and_gives_back_the_rest_at_once() {
    let fixture = provisioned().await;
    fixture.publish(30).await;
    let mut source = fixture.source().await;
    let mut held = Vec::new();
    let mut expected: BTreeSet<String> = (0..30).map(|n: u8| n.to_string()).collect();
    for n in 0..20 {
        let message = next(&mut *source).await;
        if n % 2 == 0 {
            expected.remove(&text(&message));
            message.settle.ack();
        } else {
            held.push(message);
        }
    }
    let begun = Instant::now();
    let stopping = tokio::spawn(source.stop(PATIENCE));
    until_so(&fixture, |f| f.stats().outstanding == held.len()).await;
    drop(held);
    assert!(soon(stopping).await.unwrap());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    let stats = fixture.stats();
    assert_eq!((stats.acked, stats.outstanding), (10, 0), "the stop did not wait for the answers: {stats:?}");
    assert_eq!(taken_elsewhere(&fixture, expected.len()).await, expected);
}

#[tokio::test]
async fn a_quiet_source_takes_no_more_and_what_waited_in_it_goes_elsewhere_at_once() {
    let fixture = provisioned().await;
    fixture.publish(10).await;
    let mut source = fixture.source().await;
    let mut held = take(&mut *source, 3).await;
    until_so(&fixture, |_| source.buffered() == 7).await;

    soon(source.quiet()).await;
    until_so(&fixture, |f| f.stats().nacked == 7).await;
    held.remove(0).settle.nack();
    fixture.publish(5).await;
    tokio::time::sleep(QUIET).await;
    let stats = fixture.stats();
    assert_eq!((stats.streams, stats.delivered), (0, 10), "it went on pulling: {stats:?}");
    assert_eq!((stats.outstanding, stats.backlog), (2, 13), "{stats:?}");
    assert_eq!(source.buffered(), 0);
    assert!(matches!(soon(source.next()).await, Err(SourceError::Ended { .. })));
    soon(source.quiet()).await;

    let begun = Instant::now();
    let mut elsewhere = fixture.source().await;
    for message in take(&mut *elsewhere, 13).await {
        message.settle.ack();
    }
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn what_was_handed_out_before_is_still_leased_and_can_be_acked_long_after() {
    let fixture = short_leases().await;
    fixture.publish(2).await;
    let mut source = fixture.source().await;
    let held = take(&mut *source, 2).await;
    soon(source.quiet()).await;
    tokio::time::sleep(ACK_DEADLINE * 3 / 2).await;
    let stats = fixture.stats();
    assert_eq!((stats.outstanding, stats.expired, stats.delivered), (2, 0, 2), "a lease ran out: {stats:?}");

    for message in held {
        message.settle.ack();
    }
    let begun = Instant::now();
    assert!(soon(source.stop(PATIENCE)).await);
    assert!(begun.elapsed() < Duration::from_secs(1), "everything was answered: {:?}", begun.elapsed());
    let stats = fixture.stats();
    assert_eq!((stats.acked, stats.outstanding, stats.delivered), (2, 0, 2), "{stats:?}");
}

#[tokio::test]
async fn a_stop_waits_for_answers_no_longer_than_it_may() {
    let fixture = provisioned().await;
    fixture.publish(1).await;
    let mut source = fixture.source().await;
    let held = next(&mut *source).await;
    let begun = Instant::now();
    assert!(!source.stop(QUIET).await, "nothing was answered");
    assert!(begun.elapsed() >= QUIET && begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    held.settle.ack();
}

/// One response of the server holds many messages; a source told to be quiet in the middle of one must not keep
/// the others leased, where nobody sees them, until what is in work is answered.
#[tokio::test]
async fn what_the_client_has_read_and_not_passed_on_is_given_back_too() {
    let fixture = provisioned().await;
    fixture.publish(1).await;
    let mut source = fixture.source().await;
    let held = next(&mut *source).await;
    // All of them before the server or the client has a turn: one response then holds them.
    let topic = fixture.settings.topic.clone().unwrap();
    for n in 0..900 {
        fixture.broker.publish(&topic, n.to_string(), [("a", "b")]).unwrap();
    }
    while source.buffered() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(source.buffered() < 900, "the client had passed on all of them");
    soon(source.quiet()).await;
    until_so(&fixture, |f| f.stats().outstanding == 1 && f.stats().backlog == 900).await;
    held.settle.ack();
    assert!(soon(source.stop(PATIENCE)).await);
}

#[tokio::test]
async fn a_dropped_source_gives_back_what_waited_and_leaves_what_is_in_work() {
    let fixture = provisioned().await;
    fixture.publish(4).await;
    let mut source: Box<PubsubSource> = fixture.source().await;
    let held = next(&mut *source).await;
    drop(source);
    until_so(&fixture, |f| f.stats().outstanding == 1 && f.stats().streams == 0).await;
    held.settle.ack();
    until_so(&fixture, |f| f.stats().acked == 1).await;
    assert_eq!(fixture.stats().backlog, 3);
}

#[tokio::test]
async fn a_rebuild_costs_no_delivery_attempts() {
    let fixture = short_leases().await;
    let (mut source, reports) = supervised(&fixture.settings);
    fixture.publish(6).await;
    let mut held = take(&mut *source, 2).await;
    until_so(&fixture, |f| f.stats().outstanding == 6).await;
    tokio::time::sleep(QUIET).await;

    source.rebuild().ask();
    for message in take(&mut *source, 4).await {
        assert_eq!(message.delivery_attempt, Some(1));
        held.push(message);
    }
    assert!(next_if_any(&mut *source).await.is_none());
    assert!(reports.lock().unwrap().contains(&Report::Discarded));
    until_so(&fixture, |f| f.stats().streams == 1).await;
    fixture.publish(1).await;
    held.push(next(&mut *source).await);
    assert!(tokio::time::timeout(ACK_DEADLINE * 3 / 2, source.next()).await.is_err(), "something came again");

    for message in held {
        message.settle.ack();
    }
    assert!(soon(source.stop(PATIENCE)).await, "the stop waits for the answers of both sources");
    let stats = fixture.stats();
    assert_eq!((stats.delivered, stats.acked), (7, 7), "{stats:?}");
    assert_eq!((stats.nacked, stats.expired), (0, 0), "{stats:?}");
}

#[tokio::test]
async fn a_stream_that_was_refused_leaves_what_is_in_work_in_work() {
    let fixture = provisioned().await;
    let name = fixture.settings.subscription.clone();
    let (mut source, reports) = supervised(&fixture.settings);
    fixture.publish(2).await;
    let held = take(&mut *source, 2).await;
    fixture.broker.fail_streams(&name, Code::PermissionDenied).unwrap();
    assert!(next_if_any(&mut *source).await.is_none());
    assert!(matches!(&reports.lock().unwrap()[1], Report::Lost { .. }));
    for message in held {
        message.settle.ack();
    }
    until_so(&fixture, |f| f.stats().acked == 2).await;
    assert_eq!(fixture.stats().delivered, 2);
}

#[tokio::test]
async fn a_quiet_supervised_source_builds_nothing_anew() {
    let fixture = provisioned().await;
    let (mut source, reports) = supervised(&fixture.settings);
    fixture.publish(1).await;
    let held = next(&mut *source).await;
    soon(source.quiet()).await;
    source.rebuild().ask();
    fixture.publish(3).await;
    assert!(next_if_any(&mut *source).await.is_none());
    assert_eq!(reports.lock().unwrap().as_slice(), [Report::Opened]);
    held.settle.ack();
    assert!(soon(source.stop(PATIENCE)).await);
    let stats = fixture.stats();
    assert_eq!((stats.acked, stats.delivered, stats.backlog), (1, 1, 3), "{stats:?}");
}
