//! Pub/Sub's promises to a subscriber, through the official client only, so that the same lines run against the
//! embedded broker and Google's emulator. Each scenario has a project of its own and may run beside the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use google_cloud_pubsub::model::Message;
use google_cloud_wkt::FieldMask;
use tokio::time::timeout;

use crate::clients::{World, code, dead_letter, next, retry, silence, text};

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("message {n}")).collect()
}

macro_rules! ensure_eq {
    ($left:expr, $right:expr) => {{
        let (left, right) = (&$left, &$right);
        ensure!(left == right, "{} is {left:?}, not {right:?}", stringify!($left));
    }};
}

pub(crate) async fn admin_calls_and_their_refusals(world: World) -> Result<()> {
    let (topics, subscriptions) = (world.topics().await?, world.subscriptions().await?);
    let (topic, subscription) = (world.topic("things"), world.subscription("look"));

    ensure_eq!(topics.create_topic().set_name(&topic).send().await?.name, topic);
    ensure_eq!(code(topics.create_topic().set_name(&topic).send().await), "ALREADY_EXISTS");
    ensure_eq!(code(topics.create_topic().set_name(world.topic("1st")).send().await), "INVALID_ARGUMENT");
    ensure_eq!(topics.get_topic().set_topic(&topic).send().await?.name, topic);
    ensure_eq!(code(topics.get_topic().set_topic(world.topic("none")).send().await), "NOT_FOUND");
    world.make_topic("dead").await?;
    let listed = topics.list_topics().set_project(world.project()).send().await?.topics;
    let listed: BTreeSet<_> = listed.into_iter().map(|topic| topic.name).collect();
    ensure_eq!(listed, BTreeSet::from([topic.clone(), world.topic("dead")]));

    let policies = |subscription: google_cloud_pubsub::model::Subscription| {
        let with_retry = subscription.set_retry_policy(retry(10, 600)).set_ack_deadline_seconds(60);
        with_retry.set_dead_letter_policy(dead_letter(world.topic("dead")))
    };
    let made = world.make_subscription("look", "things", policies).await?;
    let found = subscriptions.get_subscription().set_subscription(&subscription).send().await?;
    for described in [made, found] {
        ensure_eq!(described.topic, topic);
        ensure_eq!(described.ack_deadline_seconds, 60);
        ensure_eq!(described.retry_policy, Some(retry(10, 600)));
        ensure_eq!(described.dead_letter_policy, Some(dead_letter(world.topic("dead"))));
    }
    let again = subscriptions.create_subscription().set_name(&subscription).set_topic(&topic).send().await;
    ensure_eq!(code(again), "ALREADY_EXISTS");
    let without = subscriptions.create_subscription().set_name(world.subscription("lost"));
    ensure_eq!(code(without.set_topic(world.topic("none")).send().await), "NOT_FOUND");
    let default = world.make_subscription("plain", "things", |plain| plain).await?;
    ensure_eq!(default.ack_deadline_seconds, 10);

    let of_topic = topics.list_topic_subscriptions().set_topic(&topic).send().await?.subscriptions;
    let both = BTreeSet::from([subscription.clone(), world.subscription("plain")]);
    ensure_eq!(of_topic.into_iter().collect::<BTreeSet<_>>(), both);
    let listed = subscriptions.list_subscriptions().set_project(world.project()).send().await?.subscriptions;
    ensure_eq!(listed.into_iter().map(|found| found.name).collect::<BTreeSet<_>>(), both);

    let change = google_cloud_pubsub::model::Subscription::new().set_name(&subscription);
    let update = subscriptions.update_subscription().set_subscription(change.set_ack_deadline_seconds(30));
    let updated =
        update.set_update_mask(FieldMask::default().set_paths(["ack_deadline_seconds"])).send().await?;
    ensure_eq!(updated.ack_deadline_seconds, 30);
    ensure_eq!(updated.retry_policy, Some(retry(10, 600)));

    subscriptions.delete_subscription().set_subscription(&subscription).send().await?;
    let found = subscriptions.get_subscription().set_subscription(&subscription).send().await;
    ensure_eq!(code(found), "NOT_FOUND");
    topics.delete_topic().set_topic(&topic).send().await?;
    ensure_eq!(code(topics.delete_topic().set_topic(&topic).send().await), "NOT_FOUND");
    let orphan =
        subscriptions.get_subscription().set_subscription(world.subscription("plain")).send().await?;
    ensure_eq!(orphan.topic, "_deleted-topic_");
    Ok(())
}

pub(crate) async fn what_is_published_arrives_and_an_ack_is_final(world: World) -> Result<()> {
    world.make_topic("things").await?;
    world.publish("things", &["too early".to_owned()]).await?;
    world.make_subscription("look", "things", |plain| plain).await?;
    let mut stream = world.stream("look").await?;

    let publisher = world.publisher("things").await?;
    let sent = Message::new().set_data("with attributes").set_attributes([("k", "v"), ("version", "1")]);
    let id = publisher.publish(sent).await?;
    let (message, handler) = next(&mut stream).await?;
    ensure_eq!(text(&message), "with attributes");
    ensure_eq!(message.message_id, id);
    ensure_eq!(message.attributes.get("k").map(String::as_str), Some("v"));
    ensure_eq!(message.attributes.len(), 2);
    ensure!(message.publish_time.is_some_and(|at| at.seconds() > 1_700_000_000), "a real publish time");
    ensure_eq!(handler.delivery_attempt(), None);
    handler.ack();

    let ids = world.publish("things", &texts(200)).await?;
    let mut seen = BTreeMap::new();
    while seen.len() < 200 {
        let (message, handler) = next(&mut stream).await?;
        ensure!(seen.insert(message.message_id.clone(), text(&message)).is_none(), "{message:?} came twice");
        handler.ack();
    }
    ensure_eq!(seen.keys().cloned().collect::<BTreeSet<_>>(), ids.into_iter().collect::<BTreeSet<_>>());
    ensure_eq!(seen.into_values().collect::<BTreeSet<_>>(), texts(200).into_iter().collect::<BTreeSet<_>>());
    // Longer than the subscription's lease of 10 s.
    silence(&mut stream, Duration::from_secs(12)).await
}

pub(crate) async fn a_nack_brings_it_again_at_once(world: World) -> Result<()> {
    world.make_pair(|plain| plain).await?;
    let mut stream = world.stream("look").await?;
    let ids = world.publish("things", &texts(1)).await?;
    for _ in 0..7 {
        let (message, handler) = timeout(Duration::from_secs(5), next(&mut stream)).await??;
        ensure_eq!(message.message_id, ids[0]);
        ensure_eq!(handler.delivery_attempt(), None);
        handler.nack();
    }
    next(&mut stream).await?.1.ack();
    silence(&mut stream, Duration::from_secs(2)).await
}

pub(crate) async fn attempts_are_counted_and_the_fifth_is_the_last(world: World) -> Result<()> {
    world.make_topic("dead").await?;
    world.make_subscription("morgue", "dead", |plain| plain).await?;
    world.make_pair(|plain| plain.set_dead_letter_policy(dead_letter(world.topic("dead")))).await?;
    let (mut stream, mut morgue) = (world.stream("look").await?, world.stream("morgue").await?);
    let publisher = world.publisher("things").await?;
    let id = publisher.publish(Message::new().set_data("poison").set_attributes([("k", "v")])).await?;

    for attempt in 1..=5 {
        let (message, handler) = next(&mut stream).await?;
        ensure_eq!(message.message_id, id);
        ensure_eq!(handler.delivery_attempt(), Some(attempt));
        handler.nack();
    }
    let (message, handler) = next(&mut morgue).await?;
    ensure_eq!(text(&message), "poison");
    ensure_eq!(handler.delivery_attempt(), None);
    let attribute = |name: &str| message.attributes.get(name).map_or("", String::as_str);
    ensure_eq!(attribute("k"), "v");
    ensure_eq!(attribute("CloudPubSubDeadLetterSourceDeliveryCount"), "5");
    ensure_eq!(attribute("CloudPubSubDeadLetterSourceSubscription"), "look");
    ensure_eq!(
        format!("projects/{}", attribute("CloudPubSubDeadLetterSourceSubscriptionProject")),
        world.project()
    );
    let published = attribute("CloudPubSubDeadLetterSourceTopicPublishTime");
    ensure!(published.parse::<jiff::Timestamp>().is_ok(), "{published:?} is a time");
    handler.ack();
    silence(&mut stream, Duration::from_secs(2)).await?;
    silence(&mut morgue, Duration::from_secs(1)).await
}

pub(crate) async fn a_lease_that_runs_out_brings_it_again(world: World) -> Result<()> {
    world.make_pair(|plain| plain).await?;
    world.publish("things", &texts(1)).await?;
    let subscribe = world.subscriber().await?.subscribe(world.subscription("look"));
    let short =
        subscribe.set_max_lease(Duration::from_secs(1)).set_max_lease_extension(Duration::from_secs(10));
    let mut stream = short.build();
    let (message, forgotten) = next(&mut stream).await?;
    silence(&mut stream, Duration::from_secs(8)).await?;
    let (again, handler) = next(&mut stream).await?;
    ensure_eq!(again.message_id, message.message_id);
    handler.ack();
    silence(&mut stream, Duration::from_secs(2)).await?;
    drop(forgotten);
    Ok(())
}

pub(crate) async fn two_subscribers_share_one_subscription(world: World) -> Result<()> {
    world.make_pair(|plain| plain).await?;
    let (mut one, mut two) = (world.stream("look").await?, world.stream("look").await?);
    // The first `next` of each opens its stream.
    silence(&mut one, Duration::from_millis(300)).await?;
    silence(&mut two, Duration::from_millis(300)).await?;
    world.publish("things", &texts(100)).await?;
    let mut seen = BTreeSet::new();
    while seen.len() < 100 {
        let (message, handler) = tokio::select! {
            got = next(&mut one) => got?,
            got = next(&mut two) => got?,
        };
        ensure!(seen.insert(message.message_id.clone()), "{message:?} came twice");
        handler.ack();
    }
    silence(&mut one, Duration::from_secs(1)).await?;
    silence(&mut two, Duration::from_secs(1)).await
}

pub(crate) async fn two_subscriptions_each_get_everything(world: World) -> Result<()> {
    world.make_pair(|plain| plain).await?;
    world.make_subscription("other", "things", |plain| plain).await?;
    let ids: BTreeSet<_> = world.publish("things", &texts(20)).await?.into_iter().collect();
    for subscription in ["look", "other"] {
        let mut stream = world.stream(subscription).await?;
        let mut seen = BTreeSet::new();
        while seen.len() < 20 {
            let (message, handler) = next(&mut stream).await?;
            seen.insert(message.message_id);
            handler.ack();
        }
        ensure_eq!(seen, ids);
    }
    Ok(())
}

pub(crate) async fn a_stopped_subscriber_gives_back_what_it_had_leased(world: World) -> Result<()> {
    world.make_pair(|plain| plain).await?;
    let mut stream = world.stream("look").await?;
    world.publish("things", &texts(10)).await?;
    let mut leased = Vec::new();
    for _ in 0..10 {
        leased.push(next(&mut stream).await?);
    }
    leased.pop().expect("ten are leased").1.ack();
    let stopping = stream.shutdown_token();
    drop(stream);
    // The whole point: prompt, and the nacks reach the broker, not the dead stream.
    timeout(Duration::from_secs(3), stopping.shutdown()).await?;
    drop(leased);
    let mut successor = world.stream("look").await?;
    for _ in 0..9 {
        let (_, handler) = timeout(Duration::from_secs(5), next(&mut successor)).await??;
        handler.ack();
    }
    silence(&mut successor, Duration::from_secs(1)).await
}

pub(crate) async fn a_stream_on_nothing_ends_with_not_found(world: World) -> Result<()> {
    world.make_topic("things").await?;
    let mut stream = world.stream("none").await?;
    let first = timeout(Duration::from_secs(10), stream.next()).await?;
    ensure_eq!(first.map(code), Some("NOT_FOUND".to_owned()));
    ensure!(stream.next().await.is_none(), "the stream is over");
    Ok(())
}
