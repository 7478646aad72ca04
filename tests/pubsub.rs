//! The Pub/Sub gateway against a real StreamingPull server: nothing is faked on our side of the wire.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait in real time, need names of their own, and fail by panicking"
)]

use std::collections::BTreeSet;
use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use devkit::broker::{Broker, Code, Stats};
use futures::FutureExt;
use google_cloud_auth::credentials::anonymous;
use google_cloud_pubsub::client::SubscriptionAdmin;
use google_cloud_pubsub::model::{DeadLetterPolicy, RetryPolicy, Subscription};
use google_cloud_wkt::FieldMask;
use maple_router::config;
use maple_router::gateway::pubsub::PubsubSettings;
use maple_router::gateway::pubsub::admin::{StepState, provision};
use maple_router::gateway::pubsub::inspect::{Verified, inspect, verify};
use maple_router::gateway::pubsub::publisher::PubsubPublisher;
use maple_router::gateway::pubsub::pulse::{Pulse, feel};
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::gateway::pubsub::supervised::{Report, Supervised};
use maple_router::ports::{Attributes, CheckLevel, EventSource, Incoming, SourceError};
use maple_router::routing::event::{self, Parsed, Reason, RoutingEvent};
use uuid::Uuid;

/// Longest time anything that does happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough to believe that nothing comes.
const QUIET: Duration = Duration::from_millis(700);

/// A Pub/Sub server, and settings for a project of this test's own on it.
struct Fixture {
    settings: PubsubSettings,
    broker: Broker,
}

async fn server() -> Fixture {
    let broker = Broker::start((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    Fixture { settings: settings_at(&broker.endpoint()), broker }
}

fn settings_at(endpoint: &str) -> PubsubSettings {
    let config = config::Pubsub {
        project: format!("p{}", &Uuid::new_v4().simple().to_string()[..12]),
        subscription: "routing".to_owned(),
        topic: "events".to_owned(),
        dead_letter_topic: "dead".to_owned(),
        dead_letter_subscription: "dead-sub".to_owned(),
        endpoint: Some(endpoint.to_owned()),
        ..config::Pubsub::default()
    };
    let mut settings = PubsubSettings::from_config(&config).unwrap();
    // Redelivery at once, so that a test of nacks takes no minute; `provision` and `inspect` compare with this.
    settings.retry_min = Duration::ZERO;
    settings.retry_max = Duration::from_secs(1);
    settings
}

async fn provisioned() -> Fixture {
    let fixture = server().await;
    provision(&fixture.settings, false).await.unwrap();
    fixture
}

impl Fixture {
    async fn source(&self) -> Box<PubsubSource> {
        Box::new(PubsubSource::open(&self.settings).await.unwrap())
    }

    async fn publish(&self, count: usize) {
        let publisher = PubsubPublisher::open(&self.settings).await.unwrap();
        let all = (0..count).map(|n| publisher.publish(Attributes::new(), Bytes::from(n.to_string())));
        futures::future::try_join_all(all).await.unwrap();
    }

    fn stats(&self) -> Stats {
        self.broker.stats(&self.settings.subscription).unwrap()
    }

    async fn admin(&self) -> SubscriptionAdmin {
        SubscriptionAdmin::builder()
            .with_endpoint(self.settings.endpoint.as_deref().unwrap())
            .with_credentials(anonymous::Builder::new().build())
            .build()
            .await
            .unwrap()
    }

    /// Alters the routing subscription behind the daemon's back.
    async fn alter(&self, field: &str, change: impl FnOnce(Subscription) -> Subscription) {
        let altered = change(Subscription::new().set_name(&self.settings.subscription));
        self.admin()
            .await
            .update_subscription()
            .set_subscription(altered)
            .set_update_mask(FieldMask::default().set_paths([field]))
            .send()
            .await
            .unwrap();
    }

    async fn levels(&self) -> Vec<(&'static str, CheckLevel)> {
        let lines = soon(inspect(&self.settings)).await;
        lines.iter().map(|line| (line.name, line.level)).collect()
    }
}

/// As the daemon builds it, with what it reports.
fn supervised(settings: &PubsubSettings) -> (Box<Supervised>, Arc<Mutex<Vec<Report>>>) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let (settings, seen) = (settings.clone(), Arc::clone(&reports));
    let open = Box::new(move || {
        let settings = settings.clone();
        async move {
            let source = PubsubSource::open(&settings).await?;
            Ok(Box::new(source) as Box<dyn EventSource>)
        }
        .boxed()
    });
    let source = Supervised::new(open, 1, move |report| seen.lock().unwrap().push(report));
    (Box::new(source), reports)
}

/// Fails the test instead of hanging.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing happened in time")
}

async fn next(source: &mut impl EventSource) -> Incoming {
    soon(source.next()).await.unwrap()
}

/// The next message, or none within a quiet moment.
async fn next_if_any(source: &mut impl EventSource) -> Option<Incoming> {
    tokio::time::timeout(QUIET, source.next()).await.ok().map(Result::unwrap)
}

fn text(message: &Incoming) -> String {
    String::from_utf8(message.data.to_vec()).unwrap()
}

#[tokio::test]
async fn an_event_arrives_as_it_was_sent_and_an_ack_ends_it() {
    let fixture = provisioned().await;
    let event = RoutingEvent {
        submission_id: Uuid::new_v4(),
        form_id: Some("f1".to_owned()),
        reason: Reason::Operator,
    };
    let publisher = PubsubPublisher::open(&fixture.settings).await.unwrap();
    let (attributes, data) = event::encode(&event);
    let id = publisher.publish(attributes, data).await.unwrap();

    let mut source = fixture.source().await;
    let message = next(&mut *source).await;
    assert_eq!(message.message_id, id);
    assert_eq!(event::parse(&message.attributes, &message.data), Parsed::Event(event));
    assert_eq!(message.delivery_attempt, Some(1));
    let age = jiff::Timestamp::now().duration_since(message.published_at.unwrap());
    assert!(age.as_secs().abs() < 60, "{age:?}");
    message.settle.ack();
    assert!(source.stop(PATIENCE).await);
    let stats = fixture.stats();
    assert_eq!((stats.delivered, stats.acked, stats.nacked), (1, 1, 0));

    let mut source = fixture.source().await;
    assert!(next_if_any(&mut *source).await.is_none(), "an acked message came again");
}

#[tokio::test]
async fn nacked_and_dropped_messages_come_again_with_a_higher_attempt() {
    let fixture = provisioned().await;
    fixture.publish(1).await;
    let mut source = fixture.source().await;
    let first = next(&mut *source).await;
    first.settle.nack();
    let second = next(&mut *source).await;
    drop(second.settle);
    let third = next(&mut *source).await;
    assert_eq!(first.message_id, third.message_id);
    assert_eq!(
        [first.delivery_attempt, second.delivery_attempt, third.delivery_attempt],
        [Some(1), Some(2), Some(3)]
    );
    third.settle.ack();
}

#[tokio::test]
async fn the_fifth_nack_sets_a_message_aside() {
    let fixture = provisioned().await;
    fixture.publish(1).await;
    let mut source = fixture.source().await;
    for attempt in 1..=5 {
        let message = next(&mut *source).await;
        assert_eq!(message.delivery_attempt, Some(attempt));
        message.settle.nack();
    }
    let name = fixture.settings.dead_letter_subscription.clone().unwrap();
    let mut dead = PubsubSource::open_on(&fixture.settings, &name).await.unwrap();
    let message = next(&mut dead).await;
    assert_eq!(text(&message), "0");
    assert_eq!(
        message.attributes.get("CloudPubSubDeadLetterSourceSubscription").map(String::as_str),
        Some("routing")
    );
    message.settle.ack();
    assert!(next_if_any(&mut *source).await.is_none());
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
    assert!(soon(source.stop(PATIENCE)).await);
    let stats = fixture.stats();
    assert_eq!((stats.acked, stats.outstanding), (10, 0), "the stop did not wait for the answers: {stats:?}");

    let begun = Instant::now();
    let mut source = fixture.source().await;
    let mut seen = BTreeSet::new();
    while seen.len() < expected.len() {
        let message = next(&mut *source).await;
        assert!(seen.insert(text(&message)), "came twice");
        message.settle.ack();
    }
    assert_eq!(seen, expected);
    assert!(begun.elapsed() < Duration::from_secs(10), "they waited for a deadline: {:?}", begun.elapsed());
    assert!(next_if_any(&mut *source).await.is_none());
    drop(held);
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_nothing() {
    let fixture = provisioned().await;
    let mut source = fixture.source().await;
    let reader = async {
        let mut seen = Vec::new();
        while seen.len() < 50 {
            if let Ok(message) = tokio::time::timeout(Duration::from_millis(2), source.next()).await {
                let message = message.unwrap();
                assert_eq!(message.delivery_attempt, Some(1));
                seen.push(text(&message));
                message.settle.ack();
            }
        }
        seen
    };
    let writer = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            fixture.publish(10).await;
        }
    };
    let (seen, ()) = soon(futures::future::join(reader, writer)).await;
    assert_eq!(seen.len(), 50);
}

#[tokio::test]
async fn an_unknown_subscription_is_named_at_start() {
    let fixture = server().await;
    let error = soon(verify(&fixture.settings)).await.unwrap_err();
    assert_eq!(error, SourceError::NotFound { subscription: fixture.settings.subscription.clone() });
    assert!(error.to_string().contains("maple-router provision"), "{error}");

    let mut source = fixture.source().await;
    let begun = Instant::now();
    let error = soon(source.next()).await.unwrap_err();
    assert_eq!(error, SourceError::NotFound { subscription: fixture.settings.subscription.clone() });
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(
        matches!(soon(source.next()).await, Err(SourceError::Ended { .. })),
        "an ended source stays ended"
    );
}

#[tokio::test]
async fn what_exists_is_verified_at_start() {
    let fixture = provisioned().await;
    let Verified::Readable(facts) = soon(verify(&fixture.settings)).await.unwrap() else {
        panic!("a server without roles lets everyone read");
    };
    assert_eq!(facts.dead_letter, Some((fixture.settings.dead_letter_topic.clone().unwrap(), 5)));
    assert_eq!(facts.ack_deadline, Duration::from_secs(60));
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
async fn provision_creates_once_and_a_dry_run_creates_nothing() {
    let fixture = server().await;
    let states = async |dry_run| -> Vec<StepState> {
        let steps = soon(provision(&fixture.settings, dry_run)).await.unwrap();
        steps.iter().map(|step| step.state).collect()
    };
    assert_eq!(states(true).await, [StepState::WouldCreate; 4]);
    assert_eq!(states(true).await, [StepState::WouldCreate; 4], "a dry run made something");
    assert_eq!(states(false).await, [StepState::Created; 4]);
    assert_eq!(states(false).await, [StepState::Exists; 4]);
    assert_eq!(states(true).await, [StepState::Exists; 4]);
    assert_eq!(fixture.levels().await, [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Ok)]);
}

#[tokio::test]
async fn provision_mends_what_drifted_and_says_what_it_cannot() {
    let mut fixture = provisioned().await;
    let dead_letter_topic = fixture.settings.dead_letter_topic.clone().unwrap();
    let six = DeadLetterPolicy::new().set_dead_letter_topic(dead_letter_topic).set_max_delivery_attempts(6);
    fixture.alter("dead_letter_policy", |found| found.set_dead_letter_policy(six)).await;
    let slow = RetryPolicy::new().set_maximum_backoff(google_cloud_wkt::Duration::clamp(300, 0));
    fixture.alter("retry_policy", |found| found.set_retry_policy(slow)).await;

    let dry = soon(provision(&fixture.settings, true)).await.unwrap();
    assert_eq!(dry.last().unwrap().state, StepState::WouldChange);
    let both = [("subscription", CheckLevel::Fail), ("dead_letter", CheckLevel::Fail)];
    assert_eq!(fixture.levels().await, both, "a dry run changed something");

    let steps = soon(provision(&fixture.settings, false)).await.unwrap();
    let last = steps.last().unwrap();
    assert_eq!(last.state, StepState::Changed);
    assert!(last.detail.contains("after 6 delivery attempts"), "{last:?}");
    assert!(last.detail.contains("retry policy"), "{last:?}");
    let neither = [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Ok)];
    assert_eq!(fixture.levels().await, neither);

    fixture.settings.topic = fixture.settings.topic.map(|name| name + "-new");
    let steps = soon(provision(&fixture.settings, false)).await.unwrap();
    assert_eq!(steps.last().unwrap().state, StepState::Differs, "{steps:#?}");
}

#[tokio::test]
async fn without_a_dead_letter_policy_only_that_line_fails() {
    let fixture = provisioned().await;
    fixture.alter("dead_letter_policy", |found| found).await;
    assert_eq!(fixture.levels().await, [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Fail)]);
}

#[tokio::test]
async fn with_six_attempts_only_the_dead_letter_line_fails() {
    let fixture = provisioned().await;
    let topic = fixture.settings.dead_letter_topic.clone().unwrap();
    let six = DeadLetterPolicy::new().set_dead_letter_topic(topic).set_max_delivery_attempts(6);
    fixture.alter("dead_letter_policy", |found| found.set_dead_letter_policy(six)).await;
    assert_eq!(fixture.levels().await, [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Fail)]);
}

#[tokio::test]
async fn an_unknown_subscription_fails_its_own_line() {
    let mut fixture = provisioned().await;
    fixture.settings.subscription.push_str("-unknown");
    assert_eq!(
        fixture.levels().await,
        [("subscription", CheckLevel::Fail), ("dead_letter", CheckLevel::Warn)]
    );
    let mut fixture = provisioned().await;
    fixture.settings.dead_letter_subscription = Some("projects/ppp/subscriptions/unknown".to_owned());
    assert_eq!(fixture.levels().await, [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Fail)]);
}

#[tokio::test]
async fn a_closed_and_a_silent_endpoint_are_told_within_the_call_timeout() {
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    for endpoint in [closed, silent.local_addr().unwrap()] {
        let mut fixture = server().await;
        fixture.settings = settings_at(&endpoint.to_string());
        fixture.settings.call_timeout = Duration::from_secs(2);
        let begun = Instant::now();
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
        let took = begun.elapsed();
        assert!(took < 4 * fixture.settings.call_timeout + Duration::from_secs(3), "{endpoint}: {took:?}");
    }
}

#[tokio::test]
async fn a_consumer_that_stops_asking_holds_no_more_than_its_share() {
    let mut fixture = provisioned().await;
    fixture.settings.max_outstanding = 10;
    fixture.settings.streams = 2;
    fixture.publish(50).await;
    let mut source = fixture.source().await;
    next(&mut *source).await.settle.ack();
    tokio::time::sleep(QUIET).await;
    assert_eq!(fixture.stats().outstanding, 20);
    assert_eq!(source.buffered(), 20, "what is leased is not read");
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
        tokio::spawn(async move { feel(&watched, &rebuild, |pulse| changes.send(pulse).unwrap()).await });
    assert!(next_if_any(&mut *source).await.is_none());
    drop(broker);
    let reader = tokio::spawn(async move { soon(next(&mut *source)).await });
    let Some(Pulse::Lost(error)) = soon(changed.recv()).await else { panic!("not lost") };
    assert!(error.to_string().contains("refused"), "{error}");
    // The client is in its long steps by now; without a pulse the return would be noticed much later.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(changed.is_empty(), "told twice");

    let broker = Broker::start(address).await.unwrap();
    let begun = Instant::now();
    let fixture = Fixture { settings, broker };
    provision(&fixture.settings, false).await.unwrap();
    fixture.publish(1).await;
    assert_eq!(soon(changed.recv()).await, Some(Pulse::Found));
    reader.await.unwrap().settle.ack();
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert!(reports.lock().unwrap().contains(&Report::Discarded));
    watch.abort();
}
