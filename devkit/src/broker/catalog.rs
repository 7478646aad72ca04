//! Topics and subscriptions by name, and what moves between them: publishing fans out, a message given up goes to the
//! dead-letter topic. Changed under the broker's lock with the time as an argument; kept in memory only. Never waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tonic::Code;

use super::error::BrokerError;
use super::names::{self, DELETED_TOPIC};
use super::proto::{PubsubMessage, Subscription as Description, Topic as TopicDescription};
use super::queue::{Delivery, Exhausted, Queue};
use super::rules::Rules;

/// Messages in one publish request at most (Pub/Sub's quota page).
const PUBLISH_MESSAGES: usize = 1000;
/// Bytes of one message at most (Pub/Sub's quota page).
const MESSAGE_BYTES: usize = 10_000_000;

/// The order to all streams of a subscription: end, with this code. `Ok` is a clean end.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndOrder(pub(super) Code);

/// One topic.
#[derive(Debug)]
pub(super) struct Topic {
    /// Topic as the client described it.
    pub(super) description: TopicDescription,
    /// Full names of its subscriptions.
    pub(super) subscriptions: BTreeSet<String>,
}

/// One subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Distinguishes this subscription's ack ids from those of an earlier one of the same name.
    pub(super) key: u64,
    /// Subscription as the client described it, defaults filled in.
    pub(super) description: Description,
    /// Rules that follow from the description.
    pub(super) rules: Rules,
    /// Messages of the subscription.
    pub(super) queue: Queue,
    /// Wakes takers: something is ready, or a window has room again.
    pub(super) arrivals: Arc<Notify>,
    /// Ends the open streams.
    pub(super) orders: watch::Sender<EndOrder>,
    /// Injected fault: new streams are refused with this code.
    pub(super) refuse: Option<Code>,
}

impl Subscription {
    /// The ack id of a delivery. Clients must not look into it.
    pub(super) fn ack_id(&self, delivery: Delivery) -> String {
        format!("{:x}-{:x}-{:x}", self.key, delivery.seq, delivery.attempt)
    }

    /// The delivery that an ack id of this subscription names.
    pub(super) fn delivery(&self, ack_id: &str) -> Option<Delivery> {
        let mut parts = ack_id.split('-');
        let key = u64::from_str_radix(parts.next()?, 16).ok()?;
        let seq = u64::from_str_radix(parts.next()?, 16).ok()?;
        let attempt = u32::from_str_radix(parts.next()?, 16).ok()?;
        (key == self.key && parts.next().is_none()).then_some(Delivery { seq, attempt })
    }
}

/// Topics and subscriptions; see the module.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) topics: BTreeMap<String, Topic>,
    pub(super) subscriptions: BTreeMap<String, Subscription>,
    next_key: u64,
    next_message_id: u64,
}

impl Catalog {
    /// An empty catalog whose message ids count up from `first_message_id`.
    pub(super) fn new(first_message_id: u64) -> Self {
        Self { next_message_id: first_message_id, ..Self::default() }
    }

    /// Adds a topic.
    pub(super) fn add_topic(&mut self, description: TopicDescription) -> Result<(), BrokerError> {
        names::check_topic(&description.name)?;
        if self.topics.contains_key(&description.name) {
            return Err(BrokerError::AlreadyExists(description.name));
        }
        let name = description.name.clone();
        self.topics.insert(name, Topic { description, subscriptions: BTreeSet::new() });
        Ok(())
    }

    /// Adds a subscription; messages published before are not for it.
    pub(super) fn add_subscription(
        &mut self,
        description: Description,
        rules: Rules,
    ) -> Result<(), BrokerError> {
        names::check_subscription(&description.name)?;
        names::check_topic(&description.topic)?;
        if self.subscriptions.contains_key(&description.name) {
            return Err(BrokerError::AlreadyExists(description.name));
        }
        self.check_dead_letter_topic(&rules)?;
        self.topic_mut(&description.topic)?.subscriptions.insert(description.name.clone());
        self.next_key += 1;
        let name = description.name.clone();
        let (orders, _) = watch::channel(EndOrder(Code::Ok));
        let subscription = Subscription {
            key: self.next_key,
            description,
            rules,
            queue: Queue::default(),
            arrivals: Arc::default(),
            orders,
            refuse: None,
        };
        self.subscriptions.insert(name, subscription);
        Ok(())
    }

    /// Removes a topic; its subscriptions stay, with what they hold.
    pub(super) fn remove_topic(&mut self, name: &str) -> Result<(), BrokerError> {
        names::check_topic(name)?;
        let topic = self.topics.remove(name).ok_or_else(|| BrokerError::NotFound(name.to_owned()))?;
        for subscription in &topic.subscriptions {
            if let Some(subscription) = self.subscriptions.get_mut(subscription) {
                subscription.description.topic = DELETED_TOPIC.to_owned();
            }
        }
        Ok(())
    }

    /// Removes a subscription with all it holds, and ends its streams.
    pub(super) fn remove_subscription(&mut self, name: &str) -> Result<(), BrokerError> {
        names::check_subscription(name)?;
        let removed =
            self.subscriptions.remove(name).ok_or_else(|| BrokerError::NotFound(name.to_owned()))?;
        if let Some(topic) = self.topics.get_mut(&removed.description.topic) {
            topic.subscriptions.remove(name);
        }
        // Streams see their orders' sender go, waiting pulls look again and find nothing.
        removed.arrivals.notify_waiters();
        Ok(())
    }

    /// The topic of that name.
    pub(super) fn topic_mut(&mut self, name: &str) -> Result<&mut Topic, BrokerError> {
        names::check_topic(name)?;
        self.topics.get_mut(name).ok_or_else(|| BrokerError::NotFound(name.to_owned()))
    }

    /// The subscription of that name.
    pub(super) fn subscription_mut(&mut self, name: &str) -> Result<&mut Subscription, BrokerError> {
        names::check_subscription(name)?;
        self.subscriptions.get_mut(name).ok_or_else(|| BrokerError::NotFound(name.to_owned()))
    }

    /// A dead-letter policy needs its topic.
    pub(super) fn check_dead_letter_topic(&self, rules: &Rules) -> Result<(), BrokerError> {
        let Some(policy) = &rules.dead_letter else { return Ok(()) };
        names::check_topic(&policy.topic)?;
        if self.topics.contains_key(&policy.topic) {
            Ok(())
        } else {
            Err(BrokerError::NotFound(policy.topic.clone()))
        }
    }

    /// Publishes all of `messages` or none, and returns their ids in the same order.
    pub(super) fn publish(
        &mut self,
        topic: &str,
        messages: Vec<PubsubMessage>,
        wall: SystemTime,
    ) -> Result<Vec<String>, BrokerError> {
        check_messages(&messages)?;
        self.fan_out(topic, messages, wall)
    }

    /// Hands checked messages to every subscription of the topic.
    fn fan_out(
        &mut self,
        topic: &str,
        messages: Vec<PubsubMessage>,
        wall: SystemTime,
    ) -> Result<Vec<String>, BrokerError> {
        let subscribers: Vec<String> = self.topic_mut(topic)?.subscriptions.iter().cloned().collect();
        let publish_time = Some(prost_types::Timestamp::from(wall));
        let mut ids = Vec::with_capacity(messages.len());
        for mut message in messages {
            self.next_message_id += 1;
            message.message_id = self.next_message_id.to_string();
            message.publish_time = publish_time;
            ids.push(message.message_id.clone());
            let message = Arc::new(message);
            for name in &subscribers {
                if let Some(subscription) = self.subscriptions.get_mut(name) {
                    subscription.queue.enqueue(Arc::clone(&message));
                }
            }
        }
        for subscription in subscribers.iter().filter_map(|name| self.subscriptions.get(name)) {
            subscription.arrivals.notify_waiters();
        }
        Ok(ids)
    }

    /// Ends what is due in every subscription.
    pub(super) fn advance(&mut self, now: Instant, wall: SystemTime) {
        let mut given_up = Vec::new();
        for (name, subscription) in &mut self.subscriptions {
            if subscription.queue.next_due().is_none_or(|at| at > now) {
                continue;
            }
            let exhausted = subscription.queue.advance(now, &subscription.rules);
            if !exhausted.is_empty() {
                given_up.push((name.clone(), exhausted));
            }
            subscription.arrivals.notify_waiters();
        }
        for (name, exhausted) in given_up {
            self.forward(&name, exhausted, now, wall);
        }
    }

    /// Puts copies of messages that `name` gave up on its dead-letter topic. Where that is gone they stay, to be
    /// delivered again: the service loses none for want of a topic either.
    pub(super) fn forward(&mut self, name: &str, given_up: Vec<Exhausted>, now: Instant, wall: SystemTime) {
        for exhausted in given_up {
            let Some(policy) = self.subscriptions.get(name).and_then(|s| s.rules.dead_letter.clone()) else {
                return;
            };
            let copy = dead_letter_copy(&exhausted, name);
            let published = self.fan_out(&policy.topic, vec![copy], wall);
            let Some(subscription) = self.subscriptions.get_mut(name) else { return };
            match published {
                Ok(_) => subscription.queue.count_forwarded(),
                Err(error) => {
                    tracing::warn!(subscription = name, %error, "a message could not be dead-lettered and stays");
                    subscription.queue.put_back(exhausted, now, &subscription.rules);
                    subscription.arrivals.notify_waiters();
                }
            }
        }
    }

    /// When something is due next, in any subscription.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.subscriptions.values().filter_map(|subscription| subscription.queue.next_due()).min()
    }
}

/// The copy that goes to a dead-letter topic, with where it came from in its attributes (Pub/Sub, "Dead-letter topics").
fn dead_letter_copy(exhausted: &Exhausted, subscription: &str) -> PubsubMessage {
    let (project, id) = names::subscription_parts(subscription);
    let mut copy = PubsubMessage::clone(&exhausted.message);
    let published = copy.publish_time.take().unwrap_or_default();
    let published = Timestamp::new(published.seconds, published.nanos).unwrap_or_default();
    let published = published.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00").to_string();
    copy.message_id.clear();
    copy.attributes.extend([
        ("CloudPubSubDeadLetterSourceDeliveryCount".to_owned(), exhausted.failures.to_string()),
        ("CloudPubSubDeadLetterSourceSubscription".to_owned(), id.to_owned()),
        ("CloudPubSubDeadLetterSourceSubscriptionProject".to_owned(), project.to_owned()),
        ("CloudPubSubDeadLetterSourceTopicPublishTime".to_owned(), published),
    ]);
    copy
}

/// Pub/Sub's limits on what may be published.
fn check_messages(messages: &[PubsubMessage]) -> Result<(), BrokerError> {
    let invalid = |why: String| Err(BrokerError::Invalid(format!("The publish request is invalid: {why}.")));
    if messages.is_empty() || messages.len() > PUBLISH_MESSAGES {
        return invalid(format!(
            "it must hold 1 to {PUBLISH_MESSAGES} messages and holds {}",
            messages.len()
        ));
    }
    for message in messages {
        if message.data.is_empty() && message.attributes.is_empty() {
            return invalid("a message needs data or at least one attribute".to_owned());
        }
        if message.data.len() > MESSAGE_BYTES {
            return invalid(format!("a message has {} bytes, more than {MESSAGE_BYTES}", message.data.len()));
        }
        check_attributes(&message.attributes).or_else(|why| invalid(why.to_owned()))?;
    }
    Ok(())
}

fn check_attributes(attributes: &HashMap<String, String>) -> Result<(), &'static str> {
    if attributes.len() > 100 {
        return Err("a message has more than 100 attributes");
    }
    if attributes.keys().any(|key| key.is_empty() || key.len() > 256) {
        return Err("an attribute's key must have 1 to 256 bytes");
    }
    if attributes.values().any(|value| value.len() > 1024) {
        return Err("an attribute's value must have at most 1024 bytes");
    }
    Ok(())
}
