//! Publishes events. The client batches events published within about ten milliseconds.
//!
//! If we die in the middle, an unconfirmed event may or may not have been published; either is harmless, since the sweep
//! finds submissions that no event announced and a repeated event finds nothing to do. Never retries beyond the timeout.

use std::time::Duration;

use bytes::Bytes;
use google_cloud_pubsub::client::Publisher;
use google_cloud_pubsub::error::PublishError as ClientError;
use google_cloud_pubsub::model::Message;

use super::error::{Fault, PubsubError};
use super::{PubsubSettings, SettingsError};
use crate::ports::Attributes;

/// Publishes to the routing topic. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PubsubPublisher {
    client: Publisher,
    topic: String,
    timeout: Duration,
}

/// Why an event was not published, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// `[pubsub] topic` is not set.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Pub/Sub, or the way to it.
    #[error(transparent)]
    Pubsub(#[from] PubsubError),
}

impl PubsubPublisher {
    /// A publisher for the configured topic. Must be called inside a tokio runtime; connects at the first event.
    ///
    /// # Errors
    /// No topic configured, no credentials, or an endpoint that is none.
    pub async fn open(settings: &PubsubSettings) -> Result<Self, PublishError> {
        let topic = settings.require_topic()?.to_owned();
        let client = settings.publisher(&topic).await?;
        Ok(Self { client, topic, timeout: settings.call_timeout })
    }

    /// Publishes one message and returns its id. Concurrent calls share a request.
    ///
    /// # Errors
    /// Refused, or not confirmed within the call timeout; in the latter case the message may still have been published.
    pub async fn publish(&self, attributes: Attributes, data: Bytes) -> Result<String, PublishError> {
        let message = Message::new().set_attributes(attributes).set_data(data);
        match tokio::time::timeout(self.timeout, self.client.publish(message)).await {
            Ok(Ok(id)) => Ok(id),
            Ok(Err(ClientError::Rpc(error))) => Err(PubsubError::of(&error, &self.topic).into()),
            Ok(Err(other)) => Err(PublishError::Pubsub(PubsubError {
                fault: Fault::Refused,
                resource: self.topic.clone(),
                said: other.to_string(),
            })),
            Err(_elapsed) => Err(PubsubError::timed_out(&self.topic, self.timeout).into()),
        }
    }

    /// Waits until everything published so far is confirmed or has failed; says whether that happened in time. For
    /// the stop: without it, events whose future was dropped may die with the process.
    pub async fn flush(&self, timeout: Duration) -> bool {
        tokio::time::timeout(timeout, self.client.flush()).await.is_ok()
    }
}
