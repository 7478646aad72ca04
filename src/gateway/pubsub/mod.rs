//! Google Pub/Sub: the source and the destination of events.
//!
//! [`source`] receives, [`probe`] asks whether the server answers at all, [`publisher`] publishes, [`admin`] creates topics
//! and subscriptions, [`inspect`] compares them with what routing relies on, [`error`] is the one classifier. If we die in
//! the middle, every event that was not acked comes again. Nothing here looks into a payload.

pub mod admin;
pub mod error;
pub mod facts;
pub mod inspect;
pub mod probe;
pub mod publisher;
pub mod source;

use std::future::Future;
use std::sync::Once;
use std::time::Duration;

use google_cloud_auth::credentials::{Credentials, anonymous};
use google_cloud_gax::client_builder::Error as BuildError;
use google_cloud_gax::retry_policy::RetryPolicyExt;
use google_cloud_pubsub::client::{Publisher, Subscriber, SubscriptionAdmin, TopicAdmin};
use google_cloud_pubsub::retry_policy::RetryableErrors;

use self::facts::SubscriptionFacts;
use crate::config;
use crate::ports::SourceError;
use error::PubsubError;

/// Delivery attempts after which Pub/Sub sets an event aside: the design's number, neither more nor less.
pub const MAX_DELIVERY_ATTEMPTS: i32 = 5;
/// Shortest redelivery back-off of a subscription made by `provision`.
pub const RETRY_MIN: Duration = Duration::from_secs(10);
/// Retention of unacked messages in a subscription made by `provision`.
pub const RETENTION: Duration = Duration::from_secs(7 * 86_400);
/// Limit of one call, all its retries included. The client by itself would try for ten minutes or for ever.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// `[pubsub]` as the gateway needs it: full names, an endpoint that can be dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PubsubSettings {
    /// `projects/…/subscriptions/…` that routing events come from.
    pub subscription: String,
    /// `projects/…/topics/…` that routing events go to, where configured.
    pub topic: Option<String>,
    /// `projects/…/topics/…` that Pub/Sub sets poison and exhausted events aside on, where configured.
    pub dead_letter_topic: Option<String>,
    /// `projects/…/subscriptions/…` on that topic, where configured.
    pub dead_letter_subscription: Option<String>,
    /// Endpoint override. `http://` means an emulator: no credentials are sent.
    pub endpoint: Option<String>,
    /// Messages leased at once, per stream.
    pub max_outstanding: u32,
    /// StreamingPull streams; at least 1.
    pub streams: u32,
    /// Longest time a message is kept leased.
    pub max_lease: Duration,
    /// Ack deadline of the subscription, and the step in which leases are extended.
    pub ack_deadline: Duration,
    /// Shortest redelivery back-off of the subscription.
    pub retry_min: Duration,
    /// Longest redelivery back-off of the subscription.
    pub retry_max: Duration,
    /// Limit of one call ([`CALL_TIMEOUT`]).
    pub call_timeout: Duration,
}

/// Gaps in `[pubsub]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A name that is needed is not set.
    #[error("[pubsub] {0} is not set: name it in the configuration file or as MAPLE_ROUTER__PUBSUB__{upper}", upper = .0.to_uppercase())]
    Missing(&'static str),
    /// A name is neither short nor full.
    #[error(
        "[pubsub] {key} = {value:?} is not a name: write the short name, or projects/PROJECT/{collection}/NAME"
    )]
    Malformed {
        /// Key of the configuration.
        key: &'static str,
        /// Value of the key.
        value: String,
        /// `topics` or `subscriptions`.
        collection: &'static str,
    },
}

impl PubsubSettings {
    /// Reads `[pubsub]`; `PUBSUB_EMULATOR_HOST` must have been layered into `endpoint` already.
    ///
    /// # Errors
    /// A name is missing or cannot be one.
    pub fn from_config(config: &config::Pubsub) -> Result<Self, SettingsError> {
        let settings = Self::named(config)?;
        if settings.subscription.is_empty() {
            Err(SettingsError::Missing("subscription"))
        } else {
            Ok(settings)
        }
    }

    /// The settings of somebody who only publishes, to another topic than routing events go to.
    ///
    /// # Errors
    /// The name cannot be one.
    pub fn publishing_to(config: &config::Pubsub, topic: &str) -> Result<Self, SettingsError> {
        let config::Pubsub { project, endpoint, .. } = config.clone();
        Self::named(&config::Pubsub {
            project,
            endpoint,
            topic: topic.to_owned(),
            ..config::Pubsub::default()
        })
    }

    /// The settings of a topic and its subscription beside the routing's, which keep what is dead themselves.
    ///
    /// # Errors
    /// A name cannot be one.
    pub fn beside(config: &config::Pubsub, topic: &str, subscription: &str) -> Result<Self, SettingsError> {
        Self::named(&config::Pubsub {
            topic: topic.to_owned(),
            subscription: subscription.to_owned(),
            dead_letter_topic: String::new(),
            dead_letter_subscription: String::new(),
            streams: 1,
            ..config.clone()
        })
    }

    fn named(config: &config::Pubsub) -> Result<Self, SettingsError> {
        let full = |key, name, collection| full_name(&config.project, key, name, collection);
        Ok(Self {
            subscription: full("subscription", &config.subscription, "subscriptions")?.unwrap_or_default(),
            topic: full("topic", &config.topic, "topics")?,
            dead_letter_topic: full("dead_letter_topic", &config.dead_letter_topic, "topics")?,
            dead_letter_subscription: full(
                "dead_letter_subscription",
                &config.dead_letter_subscription,
                "subscriptions",
            )?,
            endpoint: config.endpoint.as_deref().filter(|given| !given.is_empty()).map(dialable),
            max_outstanding: config.max_outstanding.max(1),
            streams: config.streams.max(1),
            max_lease: config.max_lease,
            ack_deadline: config.ack_deadline,
            retry_min: RETRY_MIN.min(config.retry_max),
            retry_max: config.retry_max,
            call_timeout: CALL_TIMEOUT,
        })
    }

    /// The same settings, with the subscription's own values where keys only describe it. Without a retry policy it
    /// redelivers at once.
    #[must_use]
    pub fn with_found(self, found: &SubscriptionFacts) -> Self {
        let (retry_min, retry_max) = found.retry.unwrap_or_default();
        Self { ack_deadline: found.ack_deadline, retry_min, retry_max, ..self }
    }

    /// The topic events go to.
    ///
    /// # Errors
    /// `[pubsub] topic` is not set.
    pub fn require_topic(&self) -> Result<&str, SettingsError> {
        self.topic.as_deref().ok_or(SettingsError::Missing("topic"))
    }

    /// Whether the endpoint is an emulator, which checks no credentials and no roles.
    #[must_use]
    pub fn is_emulator(&self) -> bool {
        self.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"))
    }

    fn anonymous(&self) -> Option<Credentials> {
        self.is_emulator().then(|| anonymous::Builder::new().build())
    }

    async fn subscriber(&self) -> Result<Subscriber, PubsubError> {
        ensure_tls_provider();
        let channels = usize::try_from(self.streams).unwrap_or(1);
        let mut builder = Subscriber::builder().with_grpc_subchannel_count(channels);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(credentials) = self.anonymous() {
            builder = builder.with_credentials(credentials);
        }
        built(&self.subscription, builder.build().await)
    }

    async fn publisher(&self, topic: &str) -> Result<Publisher, PubsubError> {
        ensure_tls_provider();
        let mut builder = Publisher::builder(topic)
            .with_retry_policy(RetryableErrors.with_time_limit(self.call_timeout.mul_f32(0.8)));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(credentials) = self.anonymous() {
            builder = builder.with_credentials(credentials);
        }
        built(topic, builder.build().await)
    }

    /// Says whether there is an identity to speak with, as far as files can show: reads the key that Google's
    /// libraries find, and asks no server.
    ///
    /// # Errors
    /// The key cannot be used.
    pub async fn identity(&self) -> Result<(), SourceError> {
        self.subscription_admin().await.map(drop).map_err(SourceError::from)
    }

    async fn subscription_admin(&self) -> Result<SubscriptionAdmin, PubsubError> {
        ensure_tls_provider();
        let mut builder = SubscriptionAdmin::builder()
            .with_retry_policy(RetryableErrors.with_time_limit(self.call_timeout / 2));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(credentials) = self.anonymous() {
            builder = builder.with_credentials(credentials);
        }
        built(&self.subscription, builder.build().await)
    }

    async fn topic_admin(&self) -> Result<TopicAdmin, PubsubError> {
        ensure_tls_provider();
        let mut builder =
            TopicAdmin::builder().with_retry_policy(RetryableErrors.with_time_limit(self.call_timeout / 2));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(credentials) = self.anonymous() {
            builder = builder.with_credentials(credentials);
        }
        built(self.topic.as_deref().unwrap_or_default(), builder.build().await)
    }

    /// One call about `resource`, bounded: the client's own limit is too long for people who wait.
    async fn call<T>(
        &self,
        resource: &str,
        call: impl Future<Output = google_cloud_pubsub::Result<T>>,
    ) -> Result<T, PubsubError> {
        match tokio::time::timeout(self.call_timeout, call).await {
            Ok(answer) => answer.map_err(|error| PubsubError::of(&error, resource)),
            Err(_elapsed) => Err(PubsubError::timed_out(resource, self.call_timeout)),
        }
    }
}

fn built<T>(resource: &str, client: Result<T, BuildError>) -> Result<T, PubsubError> {
    client.map_err(|error| PubsubError::of_build(&error, resource))
}

/// rustls takes one cryptography provider per process; a second attempt to set it must not fail.
fn ensure_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let already = rustls::crypto::aws_lc_rs::default_provider().install_default().is_err();
        tracing::debug!(already, "TLS provider");
    });
}

fn dialable(endpoint: &str) -> String {
    if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") }
}

fn full_name(
    project: &str,
    key: &'static str,
    name: &str,
    collection: &'static str,
) -> Result<Option<String>, SettingsError> {
    if name.is_empty() {
        return Ok(None);
    }
    let segments: Vec<&str> = name.split('/').collect();
    match segments.as_slice() {
        [short] if !project.is_empty() => Ok(Some(format!("projects/{project}/{collection}/{short}"))),
        [_] => Err(SettingsError::Missing("project")),
        ["projects", owner, found, short]
            if *found == collection && !owner.is_empty() && !short.is_empty() =>
        {
            Ok(Some(name.to_owned()))
        }
        _ => Err(SettingsError::Malformed { key, value: name.to_owned(), collection }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(change: impl FnOnce(&mut config::Pubsub)) -> Result<PubsubSettings, SettingsError> {
        let mut config = config::Pubsub {
            project: "acme".to_owned(),
            subscription: "routing".to_owned(),
            topic: "events".to_owned(),
            ..config::Pubsub::default()
        };
        change(&mut config);
        PubsubSettings::from_config(&config)
    }

    #[test]
    fn names_are_short_or_full() {
        let settings = configured(|c| c.dead_letter_topic = "projects/other/topics/dead".to_owned()).unwrap();
        assert_eq!(settings.subscription, "projects/acme/subscriptions/routing");
        assert_eq!(settings.topic.as_deref(), Some("projects/acme/topics/events"));
        assert_eq!(settings.dead_letter_topic.as_deref(), Some("projects/other/topics/dead"));
        assert_eq!(settings.dead_letter_subscription, None);
    }

    #[test]
    fn what_is_missing_or_malformed_is_named() {
        type Case = (fn(&mut config::Pubsub), &'static str);
        let cases: [Case; 5] = [
            (|c| c.subscription.clear(), "[pubsub] subscription is not set"),
            (|c| c.project.clear(), "[pubsub] project is not set"),
            (|c| c.subscription = "projects/a/topics/b".to_owned(), "projects/PROJECT/subscriptions/NAME"),
            (|c| c.topic = "projects//topics/b".to_owned(), "[pubsub] topic = \"projects//topics/b\""),
            (|c| c.topic = "a/b".to_owned(), "is not a name"),
        ];
        for (change, words) in cases {
            let said = configured(change).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn a_full_name_needs_no_project() {
        let settings = configured(|c| {
            c.project.clear();
            c.topic.clear();
            c.subscription = "projects/a/subscriptions/b".to_owned();
        });
        assert_eq!(settings.unwrap().subscription, "projects/a/subscriptions/b");
    }

    #[test]
    fn endpoints_of_emulators_need_no_scheme_and_get_no_credentials() {
        let cases = [
            (None, None, false),
            (Some(""), None, false),
            (Some("127.0.0.1:8085"), Some("http://127.0.0.1:8085"), true),
            (Some("http://127.0.0.1:8085"), Some("http://127.0.0.1:8085"), true),
            (Some("https://private.googleapis.com"), Some("https://private.googleapis.com"), false),
        ];
        for (given, endpoint, emulator) in cases {
            let settings = configured(|c| c.endpoint = given.map(str::to_owned)).unwrap();
            assert_eq!(settings.endpoint.as_deref(), endpoint);
            assert_eq!(settings.is_emulator(), emulator);
        }
    }

    #[tokio::test]
    async fn a_call_without_an_end_is_given_up() {
        let mut settings = configured(|_| {}).unwrap();
        settings.call_timeout = Duration::from_millis(10);
        let call = settings.call::<()>("projects/acme/topics/events", std::future::pending());
        let error = tokio::time::timeout(Duration::from_secs(5), call).await.unwrap().unwrap_err();
        assert_eq!(error.fault, error::Fault::Transient);
        assert!(error.to_string().contains("no answer within 10ms"), "{error}");
    }
}
