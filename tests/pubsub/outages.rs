//! Streams that end, are refused or lose their server, and how each is reported and mended.

use std::time::{Duration, Instant};

use bytes::Bytes;
use devkit::broker::{Broker, Code};
use maple_router::gateway::pubsub::admin::provision;
use maple_router::gateway::pubsub::inspect::verify;
use maple_router::gateway::pubsub::probe::{ProbeEvent, probe};
use maple_router::gateway::pubsub::publisher::PubsubPublisher;
use maple_router::ops::supervised::Report;
use maple_router::ports::{Attributes, CheckLevel, EventSource, SourceError};

use crate::harness::{
    Fixture, PATIENCE, QUIET, next, next_if_any, provisioned, server, settings_at, soon, supervised,
};

#[tokio::test]
async fn an_unknown_subscription_is_named_at_start() {
    let fixture = server().await;
    let error = soon(verify(&fixture.settings)).await.unwrap_err();
    assert_eq!(error, SourceError::NotFound { subscription: fixture.settings.subscription.clone() });
    assert!(error.to_string().contains("maple-router provision"), "{error}");

    let mut source = fixture.source().await;
    let started = Instant::now();
    let error = soon(source.next()).await.unwrap_err();
    assert_eq!(error, SourceError::NotFound { subscription: fixture.settings.subscription.clone() });
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(
        matches!(soon(source.next()).await, Err(SourceError::Ended { .. })),
        "an ended source stays ended"
    );
}

#[tokio::test]
async fn a_supervised_source_begins_to_flow_when_its_subscription_is_made() {
    let fixture = server().await;
    let (mut source, reports) = supervised(&fixture.settings);
    let repair = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        provision(&fixture.settings, false).await.unwrap();
        fixture.publish(1).await;
    };
    let (message, ()) = futures::future::join(next(&mut *source), repair).await;
    message.settle.ack();
    let reports = reports.lock().unwrap();
    assert!(matches!(&reports[1], Report::Lost { error: SourceError::NotFound { .. }, .. }), "{reports:?}");
    assert_eq!(reports.last(), Some(&Report::Flowing));
}

#[tokio::test]
async fn a_closed_and_a_silent_endpoint_are_reported_within_the_call_timeout() {
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    for endpoint in [closed, silent.local_addr().unwrap()] {
        let mut fixture = server().await;
        fixture.settings = settings_at(&endpoint.to_string());
        fixture.settings.call_timeout = Duration::from_secs(2);
        let started = Instant::now();
        assert_eq!(
            fixture.levels().await,
            [("subscription", CheckLevel::Fail), ("dead_letter", CheckLevel::Warn)]
        );
        let error = soon(verify(&fixture.settings)).await.unwrap_err();
        assert!(matches!(error, SourceError::Transient { .. }), "{error}");
        assert!(soon(provision(&fixture.settings, true)).await.is_err());
        let publisher = PubsubPublisher::open(&fixture.settings).await.unwrap();
        let error = soon(publisher.publish(Attributes::new(), Bytes::new())).await.unwrap_err();
        assert!(error.to_string().contains("cannot be reached"), "{error}");
        let took = started.elapsed();
        assert!(took < 4 * fixture.settings.call_timeout + Duration::from_secs(3), "{endpoint}: {took:?}");
    }
}

#[tokio::test]
async fn a_stream_that_the_server_ends_is_opened_again() {
    let fixture = provisioned().await;
    let mut source = fixture.source().await;
    for round in 0..3 {
        fixture.publish(1).await;
        let message = next(&mut *source).await;
        message.settle.ack();
        if round < 2 {
            fixture.broker.break_streams(&fixture.settings.subscription).unwrap();
        }
    }
    assert!(source.stop(PATIENCE).await);
    assert_eq!(fixture.stats().acked, 3);
}

#[tokio::test]
async fn a_refused_stream_says_why_and_flows_again_when_mended() {
    let fixture = provisioned().await;
    let name = fixture.settings.subscription.clone();
    let (mut source, reports) = supervised(&fixture.settings);
    fixture.publish(1).await;
    next(&mut *source).await.settle.ack();
    fixture.broker.fail_streams(&name, Code::PermissionDenied).unwrap();
    assert!(next_if_any(&mut *source).await.is_none());
    {
        let reports = reports.lock().unwrap();
        let Report::Lost { error, .. } = &reports[1] else { panic!("{reports:?}") };
        assert!(matches!(error, SourceError::PermissionDenied { .. }), "{error}");
        assert!(error.needs_a_human());
        assert!(error.to_string().contains("roles/pubsub.subscriber"), "{error}");
    }
    fixture.broker.mend_streams(&name).unwrap();
    fixture.publish(1).await;
    next(&mut *source).await.settle.ack();
    assert_eq!(reports.lock().unwrap().last(), Some(&Report::Flowing));
    assert!(soon(source.stop(PATIENCE)).await);
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again() {
    let Fixture { settings, broker } = provisioned().await;
    let address = broker.host_port().parse().unwrap();
    // Supervised, because the new server does not know the subscription at first.
    let (mut source, _) = supervised(&settings);
    assert!(next_if_any(&mut *source).await.is_none());
    drop(broker);
    tokio::time::sleep(QUIET).await;
    let broker = Broker::start(address).await.unwrap();
    let fixture = Fixture { settings, broker };
    provision(&fixture.settings, false).await.unwrap();
    fixture.publish(1).await;
    next(&mut *source).await.settle.ack();
}

#[tokio::test]
async fn an_outage_is_felt_and_its_end_builds_the_stream_anew() {
    let Fixture { settings, broker } = provisioned().await;
    let address = broker.host_port().parse().unwrap();
    let (mut source, reports) = supervised(&settings);
    let rebuild = source.rebuild();
    let (changes, mut changed) = tokio::sync::mpsc::unbounded_channel();
    let watched = settings.clone();
    let watch =
        tokio::spawn(async move { probe(&watched, &rebuild, |probe| changes.send(probe).unwrap()).await });
    assert!(next_if_any(&mut *source).await.is_none());
    drop(broker);
    let reader = tokio::spawn(async move { soon(next(&mut *source)).await });
    let Some(ProbeEvent::Lost(error)) = soon(changed.recv()).await else { panic!("not lost") };
    assert!(error.to_string().contains("refused"), "{error}");
    // The client is in its long steps by now; without a probe the return would be noticed much later.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(changed.is_empty(), "reported twice");

    let broker = Broker::start(address).await.unwrap();
    let started = Instant::now();
    let fixture = Fixture { settings, broker };
    provision(&fixture.settings, false).await.unwrap();
    fixture.publish(1).await;
    assert_eq!(soon(changed.recv()).await, Some(ProbeEvent::Found));
    reader.await.unwrap().settle.ack();
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    assert!(reports.lock().unwrap().contains(&Report::Discarded));
    watch.abort();
}
