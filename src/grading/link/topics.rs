//! The topics between the sides, as the configuration names them, and line `grading_topics` of `check`, which looks at their subscriptions.

use futures::FutureExt as _;

use crate::config::{Config, GradingTransport};
use crate::db::contract::{Check, Look};
use crate::gateway::pubsub::inspect::inspect_beside;
use crate::gateway::pubsub::{PubsubSettings, SettingsError};
use crate::grading::queue::QueueName;
use crate::ports::{CheckLevel, CheckLine};

const NAME: &str = "grading_topics";
/// Line `grading_topics`.
pub const CHECK: Check = Check { line: NAME, order: 161, look: Look::Outside(|config| line(config).boxed()) };

/// A topic and its subscription, each way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topics {
    requests: PubsubSettings,
    callbacks: PubsubSettings,
}

impl Topics {
    /// The topic and the subscription that carry this queue.
    #[must_use]
    pub const fn of(&self, queue: QueueName) -> &PubsubSettings {
        match queue {
            QueueName::Request => &self.requests,
            QueueName::Callback => &self.callbacks,
        }
    }
}

/// The topics of a configuration; `None` where the queues of the database are enough.
///
/// # Errors
/// A name of `[grading.pubsub]` or `[pubsub]` is missing, or cannot be one.
pub fn topics(config: &Config) -> Result<Option<Topics>, SettingsError> {
    if config.grading.transport == GradingTransport::Postgres {
        return Ok(None);
    }
    let names = &config.grading.pubsub;
    let of = |topic: &str, subscription: &str| PubsubSettings::beside(&config.pubsub, topic, subscription);
    Ok(Some(Topics {
        requests: of(&names.request_topic, &names.request_subscription)?,
        callbacks: of(&names.callback_topic, &names.callback_subscription)?,
    }))
}

async fn line(config: &Config) -> CheckLine {
    let topics = match topics(config) {
        Ok(Some(topics)) => topics,
        Ok(None) => return CheckLine::ok(NAME, "not used with grading.transport = \"postgres\""),
        Err(error) => return CheckLine::fail(NAME, error.to_string(), "correct it in the configuration"),
    };
    let (requests, callbacks) = futures::join!(
        inspect_beside(NAME, topics.of(QueueName::Request)),
        inspect_beside(NAME, topics.of(QueueName::Callback)),
    );
    // The worse of the two; where both are well, both are named.
    if requests.level == CheckLevel::Ok && callbacks.level == CheckLevel::Ok {
        return CheckLine::ok(NAME, format!("{}; {}", requests.detail, callbacks.detail));
    }
    if requests.level >= callbacks.level { requests } else { callbacks }
}
