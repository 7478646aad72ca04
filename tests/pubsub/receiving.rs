//! Events on the wire, and the effect of an answer there. Every source's promises are tested in `tests/source/`.

use maple_router::gateway::pubsub::publisher::PubsubPublisher;
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::ports::EventSource;
use maple_router::routing::event::{self, Parsed, Reason, RoutingEvent};
use uuid::Uuid;

use crate::harness::{PATIENCE, next, next_if_any, provisioned, text};

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
