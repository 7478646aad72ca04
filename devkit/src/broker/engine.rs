//! The broker's one lock, and the calls behind both protocols: each takes a request of google.pubsub.v1 and gives
//! its answer. Also the timer that ends leases and pauses; it sleeps until something is due, so an idle broker
//! costs nothing. State is in memory only. The lock is never kept across an await.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::catalog::{Catalog, Subscription};
use super::error::BrokerError;
use super::proto::{
    AcknowledgeRequest, ListSubscriptionsRequest, ListSubscriptionsResponse, ListTopicSubscriptionsRequest,
    ListTopicSubscriptionsResponse, ListTopicsRequest, ListTopicsResponse, ModifyAckDeadlineRequest,
    PublishRequest, PublishResponse, PubsubMessage, PullRequest, PullResponse, ReceivedMessage,
    Subscription as Description, Topic, UpdateSubscriptionRequest, UpdateTopicRequest,
};
use super::queue::{Delivery, Taken, Taker};
use super::rules::Rules;
use super::{clock, names, spec};
use crate::trap::{Snare, Snares, Trapped};

/// Longest wait of a unary pull for a first message. The service says "a bounded amount of time" and keeps it to itself.
const PULL_WAIT: Duration = Duration::from_secs(20);

/// State and timer of the broker; see the module.
#[derive(Debug)]
pub(super) struct Engine {
    catalog: Mutex<Locked>,
    earlier: Notify,
    /// Acknowledge calls that are to stand still, by subscription.
    ack_snares: Mutex<Snares<String>>,
    /// A refused request ends all publishing.
    ends_with_refusal: Mutex<Refusal>,
    /// Cancelled when the broker stops: streams and pulls end.
    pub(super) closing: CancellationToken,
}

/// Fault: see [`Broker::refuse_then_fail`](super::Broker::refuse_then_fail).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Refusal {
    #[default]
    Harmless,
    /// The next one is followed by failures.
    Awaited,
    /// The refusal has happened; so many publishes have failed since.
    Failing(usize),
}

/// The state under the lock.
#[derive(Debug)]
struct Locked {
    catalog: Catalog,
    /// Time until which the timer sleeps.
    armed: Option<Instant>,
}

impl Engine {
    /// An empty broker. Message ids start at the time in microseconds, so that they differ from those of an earlier run.
    pub(super) fn new() -> Self {
        let since_epoch = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let catalog = Catalog::new(u64::try_from(since_epoch.as_micros()).unwrap_or_default());
        Self {
            catalog: Mutex::new(Locked { catalog, armed: None }),
            earlier: Notify::new(),
            ack_snares: Mutex::default(),
            ends_with_refusal: Mutex::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Serves [`super::Broker::trap_ack`].
    pub(super) fn trap_ack(&self, subscription: &str, nth: u64) -> Trapped {
        self.ack_snares.lock().unwrap_or_else(PoisonError::into_inner).set(subscription.to_owned(), nth)
    }

    /// Serves [`super::Broker::refuse_then_fail`].
    pub(super) fn refuse_then_fail(&self, refusal: Refusal) {
        *self.ends_with_refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    /// Serves [`super::Broker::failed_publishes`].
    pub(super) fn failed_publishes(&self) -> usize {
        match *self.ends_with_refusal.lock().unwrap_or_else(PoisonError::into_inner) {
            Refusal::Failing(failed) => failed,
            Refusal::Harmless | Refusal::Awaited => 0,
        }
    }

    /// Returns the snare for an Acknowledge call that came just now, if it is to stand still.
    pub(super) fn ack_snare(&self, subscription: &str) -> Option<Snare> {
        let mut snares = self.ack_snares.lock().unwrap_or_else(PoisonError::into_inner);
        snares.pass(|wanted| wanted == subscription)
    }

    /// Runs `change` under the lock, and moves the timer forward where something became due earlier than it knows.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Catalog) -> T) -> T {
        let mut locked = self.lock();
        let result = change(&mut locked.catalog);
        let next = locked.catalog.next_due();
        if next.is_some_and(|next| locked.armed.is_none_or(|armed| next < armed)) {
            locked.armed = next;
            self.earlier.notify_one();
        }
        result
    }

    /// Ends leases and pauses as they fall due, until dropped.
    pub(super) async fn run_timer(&self) {
        loop {
            let next = {
                let mut locked = self.lock();
                locked.catalog.advance(clock::monotonic(), clock::wall());
                locked.armed = locked.catalog.next_due();
                locked.armed
            };
            match next {
                Some(at) => {
                    tokio::select! {
                        () = sleep_until(at) => {}
                        () = self.earlier.notified() => {}
                    }
                }
                None => self.earlier.notified().await,
            }
        }
    }

    /// Publisher.CreateTopic
    pub(super) fn create_topic(&self, topic: Topic) -> Result<Topic, BrokerError> {
        let topic = spec::resolve_topic(topic);
        self.with(|catalog| catalog.add_topic(topic.clone()))?;
        Ok(topic)
    }

    /// Publisher.GetTopic
    pub(super) fn topic(&self, name: &str) -> Result<Topic, BrokerError> {
        self.with(|catalog| catalog.topic_mut(name).map(|topic| topic.description.clone()))
    }

    /// Publisher.UpdateTopic
    pub(super) fn update_topic(&self, request: UpdateTopicRequest) -> Result<Topic, BrokerError> {
        let change = request.topic.unwrap_or_default();
        let mask = request.update_mask.unwrap_or_default().paths;
        self.with(|catalog| {
            let topic = catalog.topic_mut(&change.name)?;
            topic.description = spec::update_topic(&topic.description, &change, &mask)?;
            Ok(topic.description.clone())
        })
    }

    /// Publisher.DeleteTopic
    pub(super) fn delete_topic(&self, name: &str) -> Result<(), BrokerError> {
        self.with(|catalog| catalog.remove_topic(name))
    }

    /// Publisher.ListTopics
    pub(super) fn list_topics(&self, request: &ListTopicsRequest) -> Result<ListTopicsResponse, BrokerError> {
        let within = project_prefix(&request.project, "topics")?;
        self.with(|catalog| {
            let all = catalog.topics.iter().filter(|(name, _)| name.starts_with(&within));
            let all = all.map(|(name, topic)| (name.as_str(), &topic.description));
            let (page, next_page_token) = page(all, request.page_size, &request.page_token);
            Ok(ListTopicsResponse { topics: page.into_iter().cloned().collect(), next_page_token })
        })
    }

    /// Publisher.ListTopicSubscriptions
    pub(super) fn list_topic_subscriptions(
        &self,
        request: &ListTopicSubscriptionsRequest,
    ) -> Result<ListTopicSubscriptionsResponse, BrokerError> {
        self.with(|catalog| {
            let topic = catalog.topic_mut(&request.topic)?;
            let all = topic.subscriptions.iter().map(|name| (name.as_str(), name));
            let (page, next_page_token) = page(all, request.page_size, &request.page_token);
            Ok(ListTopicSubscriptionsResponse {
                subscriptions: page.into_iter().cloned().collect(),
                next_page_token,
            })
        })
    }

    /// Publisher.Publish
    pub(super) fn publish(&self, request: PublishRequest) -> Result<PublishResponse, BrokerError> {
        let mut refusal = self.ends_with_refusal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Refusal::Failing(failed) = &mut *refusal {
            *failed += 1;
            return Err(BrokerError::Injected(Code::Unavailable));
        }
        let published = self.with(|catalog| catalog.publish(&request.topic, request.messages, clock::wall()));
        if published.is_err() && *refusal == Refusal::Awaited {
            *refusal = Refusal::Failing(0);
        }
        Ok(PublishResponse { message_ids: published? })
    }

    /// Subscriber.CreateSubscription
    pub(super) fn create_subscription(&self, description: Description) -> Result<Description, BrokerError> {
        let (description, rules) = spec::resolve(description)?;
        self.add_subscription(description.clone(), rules)?;
        Ok(description)
    }

    /// Adds a subscription whose rules are settled.
    pub(super) fn add_subscription(&self, description: Description, rules: Rules) -> Result<(), BrokerError> {
        self.with(|catalog| catalog.add_subscription(description, rules))
    }

    /// Subscriber.GetSubscription
    pub(super) fn subscription(&self, name: &str) -> Result<Description, BrokerError> {
        self.with_subscription(name, |subscription| Ok(subscription.description.clone()))
    }

    /// Subscriber.UpdateSubscription
    pub(super) fn update_subscription(
        &self,
        request: UpdateSubscriptionRequest,
    ) -> Result<Description, BrokerError> {
        let change = request.subscription.unwrap_or_default();
        let mask = request.update_mask.unwrap_or_default().paths;
        self.with(|catalog| {
            let name = change.name.as_str();
            let updated = spec::update(&catalog.subscription_mut(name)?.description, &change, &mask)?;
            let (description, rules) = spec::resolve(updated)?;
            catalog.check_dead_letter_topic(&rules)?;
            let subscription = catalog.subscription_mut(name)?;
            subscription.description = description.clone();
            subscription.rules = rules;
            Ok(description)
        })
    }

    /// Subscriber.DeleteSubscription
    pub(super) fn delete_subscription(&self, name: &str) -> Result<(), BrokerError> {
        self.with(|catalog| catalog.remove_subscription(name))
    }

    /// Subscriber.ListSubscriptions
    pub(super) fn list_subscriptions(
        &self,
        request: &ListSubscriptionsRequest,
    ) -> Result<ListSubscriptionsResponse, BrokerError> {
        let within = project_prefix(&request.project, "subscriptions")?;
        self.with(|catalog| {
            let all = catalog.subscriptions.iter().filter(|(name, _)| name.starts_with(&within));
            let all = all.map(|(name, subscription)| (name.as_str(), &subscription.description));
            let (page, next_page_token) = page(all, request.page_size, &request.page_token);
            Ok(ListSubscriptionsResponse {
                subscriptions: page.into_iter().cloned().collect(),
                next_page_token,
            })
        })
    }

    /// Subscriber.Acknowledge
    pub(super) fn acknowledge(&self, request: &AcknowledgeRequest) -> Result<(), BrokerError> {
        self.with_subscription(&request.subscription, |subscription| {
            let deliveries = deliveries(subscription, &request.ack_ids)?;
            ack_all(subscription, &deliveries);
            Ok(())
        })
    }

    /// Subscriber.ModifyAckDeadline
    pub(super) fn modify_ack_deadline(&self, request: &ModifyAckDeadlineRequest) -> Result<(), BrokerError> {
        let lease = spec::modified_deadline(request.ack_deadline_seconds)?;
        self.with(|catalog| {
            let subscription = catalog.subscription_mut(&request.subscription)?;
            let deliveries = deliveries(subscription, &request.ack_ids)?;
            modify_all(
                catalog,
                &request.subscription,
                deliveries.into_iter().map(|delivery| (delivery, lease)),
            );
            Ok(())
        })
    }

    /// Subscriber.Pull: waits a while for a first message, then takes what is there.
    pub(super) async fn pull(&self, request: &PullRequest) -> Result<PullResponse, BrokerError> {
        let most = usize::try_from(request.max_messages).unwrap_or_default();
        if most == 0 {
            return Err(BrokerError::Invalid("max_messages must be a positive number.".to_owned()));
        }
        let name = request.subscription.as_str();
        let arrivals = self.with_subscription(name, |subscription| Ok(subscription.arrivals.clone()))?;
        let waiting = async {
            loop {
                let arrived = arrivals.notified();
                tokio::pin!(arrived);
                arrived.as_mut().enable();
                let taken = self.with_subscription(name, |subscription| {
                    Ok(take(subscription, Taker::Pull(most), subscription.rules.ack_deadline))
                })?;
                if !taken.is_empty() || request.return_immediately {
                    return Ok(taken);
                }
                arrived.await;
            }
        };
        let received_messages = tokio::select! {
            taken = timeout(PULL_WAIT, waiting) => taken.unwrap_or_else(|_| Ok(Vec::new()))?,
            () = self.closing.cancelled() => return Err(BrokerError::Unavailable("the broker is stopping")),
        };
        Ok(PullResponse { received_messages })
    }

    /// Runs `change` on one subscription under the lock.
    pub(super) fn with_subscription<T>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Subscription) -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        self.with(|catalog| change(catalog.subscription_mut(name)?))
    }

    fn lock(&self) -> MutexGuard<'_, Locked> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leases waiting messages for `lease` from now.
pub(super) fn take(subscription: &mut Subscription, taker: Taker, lease: Duration) -> Vec<ReceivedMessage> {
    let taken = subscription.queue.take(taker, clock::monotonic() + lease);
    let counts_attempts = subscription.rules.dead_letter.is_some();
    let received = taken.into_iter().map(|Taken { delivery, message }| ReceivedMessage {
        ack_id: subscription.ack_id(delivery),
        message: Some(PubsubMessage::clone(&message)),
        // Without a dead-letter policy the service does not count.
        delivery_attempt: if counts_attempts {
            i32::try_from(delivery.attempt).unwrap_or(i32::MAX)
        } else {
            0
        },
    });
    received.collect()
}

/// Acknowledges, and wakes streams whose window has room again.
pub(super) fn ack_all(subscription: &mut Subscription, deliveries: &[Delivery]) {
    for delivery in deliveries {
        subscription.queue.ack(*delivery);
    }
    if subscription.queue.has_ready() {
        subscription.arrivals.notify_waiters();
    }
}

/// Sets deadlines anew; a lease of zero gives the message back, and where that was its last delivery, gives it up.
pub(super) fn modify_all(
    catalog: &mut Catalog,
    name: &str,
    changes: impl Iterator<Item = (Delivery, Duration)>,
) {
    let now = clock::monotonic();
    let Ok(subscription) = catalog.subscription_mut(name) else { return };
    let mut exhausted = Vec::new();
    for (delivery, lease) in changes {
        if lease == Duration::ZERO {
            exhausted.extend(subscription.queue.nack(delivery, now, &subscription.rules));
        } else {
            subscription.queue.extend(delivery, now + lease);
        }
    }
    if subscription.queue.has_ready() {
        subscription.arrivals.notify_waiters();
    }
    catalog.forward(name, exhausted, now, clock::wall());
}

/// The deliveries that ack ids name; an id of another subscription spoils the request, as with the service.
fn deliveries(subscription: &Subscription, ack_ids: &[String]) -> Result<Vec<Delivery>, BrokerError> {
    let invalid = || BrokerError::Invalid("Some acknowledgement ids in the request were invalid.".to_owned());
    ack_ids.iter().map(|ack_id| subscription.delivery(ack_id).ok_or_else(invalid)).collect()
}

/// `projects/P/{collection}/`
fn project_prefix(project: &str, collection: &str) -> Result<String, BrokerError> {
    names::check_project(project)?;
    Ok(format!("{project}/{collection}/"))
}

/// One page of a list in name order, and the token of the next; a token is the last name of its page.
fn page<'a, T>(all: impl Iterator<Item = (&'a str, T)>, size: i32, token: &str) -> (Vec<T>, String) {
    let size = usize::try_from(size).ok().filter(|size| *size > 0).unwrap_or(100).min(1000);
    let mut rest = all.skip_while(|(name, _)| !token.is_empty() && *name <= token).peekable();
    let mut page = Vec::new();
    let mut last = "";
    while let Some((name, item)) = rest.next_if(|_| page.len() < size) {
        last = name;
        page.push(item);
    }
    let next = if rest.peek().is_some() { last.to_owned() } else { String::new() };
    (page, next)
}
