//! Events when a stream ends or is built anew: nothing in work is disturbed, nothing else is kept back. Every
//! source's promises at its leaving are tested in `tests/source/`.

use std::time::{Duration, Instant};

use devkit::broker::Code;
use maple_router::gateway::pubsub::admin::provision;
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::ops::supervised::Report;
use maple_router::ports::{EventSource, Incoming};

use crate::harness::{Fixture, PATIENCE, QUIET, next, next_if_any, provisioned, server, soon, supervised};

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
    let started = Instant::now();
    while !so(fixture) {
        assert!(started.elapsed() < AT_ONCE, "{:?}", fixture.stats());
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

/// One response of the server has many messages; a source made quiet in the middle of one must not keep the others
/// leased, where nobody sees them, until what is in work is answered.
#[tokio::test]
async fn what_the_client_has_read_and_not_passed_on_is_given_back_too() {
    let fixture = provisioned().await;
    fixture.publish(1).await;
    let mut source = fixture.source().await;
    let leased = next(&mut *source).await;
    // All of them before the server or the client runs: one response then has them all.
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
    leased.settle.ack();
    assert!(soon(source.stop(PATIENCE)).await);
}

#[tokio::test]
async fn a_dropped_source_gives_back_what_waited_and_leaves_what_is_in_work() {
    let fixture = provisioned().await;
    fixture.publish(4).await;
    let mut source: Box<PubsubSource> = fixture.source().await;
    let leased = next(&mut *source).await;
    drop(source);
    until_so(&fixture, |f| f.stats().outstanding == 1 && f.stats().streams == 0).await;
    leased.settle.ack();
    until_so(&fixture, |f| f.stats().acked == 1).await;
    assert_eq!(fixture.stats().backlog, 3);
}

#[tokio::test]
async fn a_rebuild_costs_no_delivery_attempts() {
    let fixture = short_leases().await;
    let (mut source, reports) = supervised(&fixture.settings);
    fixture.publish(6).await;
    let mut leased = take(&mut *source, 2).await;
    until_so(&fixture, |f| f.stats().outstanding == 6).await;
    tokio::time::sleep(QUIET).await;

    source.rebuild().ask();
    for message in take(&mut *source, 4).await {
        assert_eq!(message.delivery_attempt, Some(1));
        leased.push(message);
    }
    assert!(next_if_any(&mut *source).await.is_none());
    assert!(reports.lock().unwrap().contains(&Report::Discarded));
    until_so(&fixture, |f| f.stats().streams == 1).await;
    fixture.publish(1).await;
    leased.push(next(&mut *source).await);
    assert!(tokio::time::timeout(ACK_DEADLINE * 3 / 2, source.next()).await.is_err(), "something came again");

    for message in leased {
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
    let leased = take(&mut *source, 2).await;
    fixture.broker.fail_streams(&name, Code::PermissionDenied).unwrap();
    assert!(next_if_any(&mut *source).await.is_none());
    assert!(matches!(&reports.lock().unwrap()[1], Report::Lost { .. }));
    for message in leased {
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
    let leased = next(&mut *source).await;
    soon(source.quiet()).await;
    source.rebuild().ask();
    fixture.publish(3).await;
    assert!(next_if_any(&mut *source).await.is_none());
    assert_eq!(reports.lock().unwrap().as_slice(), [Report::Opened]);
    leased.settle.ack();
    assert!(soon(source.stop(PATIENCE)).await);
    let stats = fixture.stats();
    assert_eq!((stats.acked, stats.delivered, stats.backlog), (1, 1, 3), "{stats:?}");
}
