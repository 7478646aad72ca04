//! The official Rust clients, pointed at an endpoint, and the few steps that every scenario takes with them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use google_cloud_auth::credentials::Credentials;
use google_cloud_auth::credentials::anonymous::Builder as Anonymous;
use google_cloud_pubsub::client::{Publisher, Subscriber, SubscriptionAdmin, TopicAdmin};
use google_cloud_pubsub::model::{DeadLetterPolicy, Message, RetryPolicy, Subscription};
use google_cloud_pubsub::subscriber::{MessageStream, ShutdownBehavior, handler::Handler};
use google_cloud_wkt::Duration as ProtoDuration;
use tokio::time::timeout;

/// Long for a message that shall come.
const SOON: Duration = Duration::from_secs(20);

/// An endpoint, and names of its own in it.
#[derive(Clone)]
pub(crate) struct World {
    endpoint: String,
    project: String,
}

impl World {
    /// `scenario` gives the project its name; underscores are not allowed in one.
    pub(crate) fn new(endpoint: String, scenario: &str) -> Self {
        Self { endpoint, project: scenario.replace('_', "-") }
    }

    pub(crate) fn project(&self) -> String {
        format!("projects/{}", self.project)
    }

    pub(crate) fn topic(&self, id: &str) -> String {
        format!("projects/{}/topics/{id}", self.project)
    }

    pub(crate) fn subscription(&self, id: &str) -> String {
        format!("projects/{}/subscriptions/{id}", self.project)
    }

    pub(crate) async fn topics(&self) -> Result<TopicAdmin> {
        Ok(TopicAdmin::builder().with_endpoint(&self.endpoint).with_credentials(nobody()).build().await?)
    }

    pub(crate) async fn subscriptions(&self) -> Result<SubscriptionAdmin> {
        Ok(SubscriptionAdmin::builder()
            .with_endpoint(&self.endpoint)
            .with_credentials(nobody())
            .build()
            .await?)
    }

    pub(crate) async fn publisher(&self, topic: &str) -> Result<Publisher> {
        let builder = Publisher::builder(self.topic(topic)).with_endpoint(&self.endpoint);
        Ok(builder.with_credentials(nobody()).build().await?)
    }

    pub(crate) async fn subscriber(&self) -> Result<Subscriber> {
        Ok(Subscriber::builder().with_endpoint(&self.endpoint).with_credentials(nobody()).build().await?)
    }

    /// Creates a topic.
    pub(crate) async fn make_topic(&self, id: &str) -> Result<()> {
        self.topics().await?.create_topic().set_name(self.topic(id)).send().await?;
        Ok(())
    }

    /// Creates a subscription, as `shape` wants it.
    pub(crate) async fn make_subscription(
        &self,
        id: &str,
        topic: &str,
        shape: impl FnOnce(Subscription) -> Subscription,
    ) -> Result<Subscription> {
        let plain = Subscription::new().set_name(self.subscription(id)).set_topic(self.topic(topic));
        let request = self.subscriptions().await?.create_subscription().with_request(shape(plain));
        Ok(request.send().await?)
    }

    /// Creates a topic `things` and a subscription `look` on it.
    pub(crate) async fn make_pair(&self, shape: impl FnOnce(Subscription) -> Subscription) -> Result<()> {
        self.make_topic("things").await?;
        self.make_subscription("look", "things", shape).await?;
        Ok(())
    }

    /// Publishes texts and returns their message ids.
    pub(crate) async fn publish(&self, topic: &str, texts: &[String]) -> Result<Vec<String>> {
        let publisher = self.publisher(topic).await?;
        let under_way: Vec<_> =
            texts.iter().map(|text| publisher.publish(Message::new().set_data(text.clone()))).collect();
        publisher.flush().await;
        let mut ids = Vec::new();
        for published in under_way {
            ids.push(published.await?);
        }
        Ok(ids)
    }

    /// Opens a stream that gives back what it holds when it is stopped.
    pub(crate) async fn stream(&self, subscription: &str) -> Result<MessageStream> {
        let subscribe = self.subscriber().await?.subscribe(self.subscription(subscription));
        Ok(subscribe.set_shutdown_behavior(ShutdownBehavior::NackImmediately).build())
    }
}

/// A dead-letter policy of five attempts.
pub(crate) fn dead_letter(topic: String) -> DeadLetterPolicy {
    DeadLetterPolicy::new().set_dead_letter_topic(topic).set_max_delivery_attempts(5)
}

/// A retry policy, in seconds.
pub(crate) fn retry(min: i64, max: i64) -> RetryPolicy {
    RetryPolicy::new()
        .set_minimum_backoff(ProtoDuration::clamp(min, 0))
        .set_maximum_backoff(ProtoDuration::clamp(max, 0))
}

/// The next message, which must come soon.
pub(crate) async fn next(stream: &mut MessageStream) -> Result<(Message, Handler)> {
    let next = timeout(SOON, stream.next()).await.with_context(|| format!("no message within {SOON:?}"))?;
    Ok(next.context("the stream ended")??)
}

/// Checks that the stream stays silent for this long.
pub(crate) async fn silence(stream: &mut MessageStream, for_this_long: Duration) -> Result<()> {
    let came = timeout(for_this_long, stream.next()).await;
    ensure!(
        came.is_err(),
        "there should be silence, but {:?} came",
        came.map(|next| next.map(|r| r.map(|(m, _)| m)))
    );
    Ok(())
}

/// The text of a message.
pub(crate) fn text(message: &Message) -> String {
    String::from_utf8_lossy(&message.data).into_owned()
}

/// The canonical code of a refusal; `OK` where it was not one.
pub(crate) fn code<T>(result: Result<T, google_cloud_pubsub::Error>) -> String {
    match result {
        Ok(_) => "OK".to_owned(),
        Err(error) => {
            error.status().map_or_else(|| format!("{error:?}"), |status| status.code.name().to_owned())
        }
    }
}

fn nobody() -> Credentials {
    Anonymous::new().build()
}
