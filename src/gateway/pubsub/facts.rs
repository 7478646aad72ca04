//! Facts of a subscription, and where it differs from what routing relies on. Pure.
//!
//! Invariant: nothing here does I/O; the caller decides whether a difference is repaired.

use std::time::Duration;

use google_cloud_pubsub::model::{DeadLetterPolicy, RetryPolicy, Subscription};
use humantime::format_duration;
use serde::Serialize;

use super::{MAX_DELIVERY_ATTEMPTS, PubsubSettings};

/// Pub/Sub's own value for a retry policy that names no minimum.
const DEFAULT_RETRY_MIN: Duration = Duration::from_secs(10);
/// Pub/Sub's own value for a retry policy that names no maximum.
const DEFAULT_RETRY_MAX: Duration = Duration::from_secs(600);

/// A subscription as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubscriptionFacts {
    /// Full name.
    pub name: String,
    /// Full name of its topic; `_deleted-topic_` when that is gone.
    pub topic: String,
    /// Ack deadline.
    pub ack_deadline: Duration,
    /// Redelivery back-off, shortest and longest; absent: redelivery at once.
    pub retry: Option<(Duration, Duration)>,
    /// Dead-letter topic and delivery attempts.
    pub dead_letter: Option<(String, i32)>,
    /// The subscription is cut off from its topic.
    pub detached: bool,
    /// Kind of delivery when not by pull: `push`, `bigquery`, `cloud storage`, `bigtable`.
    pub delivered_by: Option<&'static str>,
    /// Filter, where it has one.
    pub filter: Option<String>,
    /// Exactly-once delivery.
    pub exactly_once: bool,
    /// Ordered delivery.
    pub ordering: bool,
    /// Deleted by Pub/Sub after this long without use; absent: never, as far as the server says.
    pub expires_after: Option<Duration>,
}

impl From<Subscription> for SubscriptionFacts {
    fn from(found: Subscription) -> Self {
        let delivered_by = if found.push_config.is_some_and(|push| !push.push_endpoint.is_empty()) {
            Some("push")
        } else if found.bigquery_config.is_some() {
            Some("bigquery")
        } else if found.cloud_storage_config.is_some() {
            Some("cloud storage")
        } else {
            found.bigtable_config.map(|_| "bigtable")
        };
        Self {
            name: found.name,
            topic: found.topic,
            ack_deadline: Duration::from_secs(u64::try_from(found.ack_deadline_seconds).unwrap_or(0)),
            retry: found.retry_policy.map(|policy| {
                (
                    policy.minimum_backoff.map_or(DEFAULT_RETRY_MIN, whole),
                    policy.maximum_backoff.map_or(DEFAULT_RETRY_MAX, whole),
                )
            }),
            dead_letter: found
                .dead_letter_policy
                .filter(|policy| !policy.dead_letter_topic.is_empty())
                .map(|policy| (policy.dead_letter_topic, policy.max_delivery_attempts)),
            detached: found.detached,
            delivered_by,
            filter: Some(found.filter).filter(|filter| !filter.is_empty()),
            exactly_once: found.enable_exactly_once_delivery,
            ordering: found.enable_message_ordering,
            expires_after: found.expiration_policy.and_then(|policy| policy.ttl).map(whole),
        }
    }
}

fn whole(duration: google_cloud_wkt::Duration) -> Duration {
    Duration::try_from(duration).unwrap_or_default()
}

/// One difference from what routing relies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Severity, and whether `provision` can mend it.
    pub gravity: Gravity,
    /// Field of the subscription that would have to change, as update masks name it.
    pub field: &'static str,
    /// The value found, and the one wanted.
    pub text: String,
}

/// Severity of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gravity {
    /// Routing works, an operator should know; cannot be changed, or is theirs to decide.
    Surprise,
    /// Routing works; `provision` mends it.
    Drift,
    /// Events are lost, stuck, or set aside too early or too late; `provision` mends it.
    Wrong,
    /// Routing cannot work, and the subscription cannot be changed into what it should be.
    Hopeless,
}

impl Gravity {
    /// Whether `provision` mends it.
    #[must_use]
    pub fn can_be_mended(self) -> bool {
        match self {
            Self::Drift | Self::Wrong => true,
            Self::Surprise | Self::Hopeless => false,
        }
    }
}

/// Differences that are not about dead letters, for any pull subscription of ours on `topic`.
#[must_use]
pub fn differences(
    found: &SubscriptionFacts,
    settings: &PubsubSettings,
    topic: Option<&str>,
) -> Vec<Difference> {
    use Gravity::{Drift, Hopeless, Surprise, Wrong};
    let mut all = Vec::new();
    let mut note = |gravity, field, text: String| all.push(Difference { gravity, field, text });

    if found.detached {
        note(Hopeless, "detached", "it is detached from its topic and receives nothing".to_owned());
    }
    match topic {
        Some(topic) if found.topic != topic => {
            note(Hopeless, "topic", format!("its topic is {}, not {topic}", found.topic));
        }
        Some(_) | None => {}
    }
    if let Some(way) = found.delivered_by {
        note(Hopeless, "push_config", format!("it delivers by {way}, so that nothing can be pulled"));
    }
    if let Some(filter) = &found.filter {
        note(Hopeless, "filter", format!("its filter `{filter}` withholds events"));
    }
    match found.retry {
        None => note(
            Wrong,
            "retry_policy",
            format!(
                "it has no retry policy, so that {MAX_DELIVERY_ATTEMPTS} attempts are spent within a second; {} is wanted",
                back_off(settings.retry_min, settings.retry_max)
            ),
        ),
        // The pause before an event comes again is the operator's choice: nothing that must hold between the timings rests on
        // it. At once is one only where that is asked for.
        Some((min, max)) if min.is_zero() && !settings.retry_min.is_zero() || max != settings.retry_max => {
            note(
                Wrong,
                "retry_policy",
                format!(
                    "its retry policy is {}, {} is configured",
                    back_off(min, max),
                    back_off(settings.retry_min, settings.retry_max)
                ),
            );
        }
        Some(_) => {}
    }
    if found.ack_deadline != settings.ack_deadline {
        note(
            Drift,
            "ack_deadline_seconds",
            format!(
                "its ack deadline is {}, {} is configured",
                format_duration(found.ack_deadline),
                format_duration(settings.ack_deadline)
            ),
        );
    }
    if let Some(after) = found.expires_after {
        note(
            Drift,
            "expiration_policy",
            format!("it is deleted after {} without use, never is wanted", format_duration(after)),
        );
    }
    if found.exactly_once {
        note(
            Surprise,
            "enable_exactly_once_delivery",
            "exactly-once delivery is on: slower, and not needed".to_owned(),
        );
    }
    if found.ordering {
        note(
            Surprise,
            "enable_message_ordering",
            "message ordering is on: slower, and not needed".to_owned(),
        );
    }
    all
}

/// The differences of the dead-letter policy from the design's.
#[must_use]
pub fn dead_letter_difference(found: &SubscriptionFacts, topic: Option<&str>) -> Option<Difference> {
    let text = match (&found.dead_letter, topic) {
        (None, _) => "it has no dead-letter policy, so that poison comes again for ever".to_owned(),
        (Some((found_topic, _)), Some(topic)) if found_topic != topic => {
            format!("its dead letters go to {found_topic}, {topic} is configured")
        }
        (Some((_, attempts)), _) if *attempts != MAX_DELIVERY_ATTEMPTS => {
            format!(
                "it sets events aside after {attempts} delivery attempts, not after exactly {MAX_DELIVERY_ATTEMPTS}"
            )
        }
        (Some(_), _) => return None,
    };
    Some(Difference { gravity: Gravity::Wrong, field: "dead_letter_policy", text })
}

/// The retry policy that routing wants.
#[must_use]
pub fn wanted_retry_policy(settings: &PubsubSettings) -> RetryPolicy {
    RetryPolicy::new()
        .set_minimum_backoff(written(settings.retry_min))
        .set_maximum_backoff(written(settings.retry_max))
}

/// The dead-letter policy that routing wants.
#[must_use]
pub fn wanted_dead_letter_policy(topic: &str) -> DeadLetterPolicy {
    DeadLetterPolicy::new().set_dead_letter_topic(topic).set_max_delivery_attempts(MAX_DELIVERY_ATTEMPTS)
}

/// A duration as the wire writes it; one that is too long becomes the wire's longest.
#[must_use]
pub fn written(duration: Duration) -> google_cloud_wkt::Duration {
    google_cloud_wkt::Duration::clamp(
        i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    )
}

fn back_off(min: Duration, max: Duration) -> String {
    format!("{} to {}", format_duration(min), format_duration(max))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config;

    pub(crate) fn settings() -> PubsubSettings {
        PubsubSettings::from_config(&config::Pubsub {
            project: "acme".to_owned(),
            subscription: "routing".to_owned(),
            topic: "events".to_owned(),
            dead_letter_topic: "dead".to_owned(),
            dead_letter_subscription: "dead-sub".to_owned(),
            ..config::Pubsub::default()
        })
        .unwrap()
    }

    /// A subscription as `provision` makes it.
    pub(crate) fn healthy() -> SubscriptionFacts {
        SubscriptionFacts {
            name: "projects/acme/subscriptions/routing".to_owned(),
            topic: "projects/acme/topics/events".to_owned(),
            ack_deadline: Duration::from_secs(60),
            retry: Some((Duration::from_secs(10), Duration::from_secs(600))),
            dead_letter: Some(("projects/acme/topics/dead".to_owned(), 5)),
            detached: false,
            delivered_by: None,
            filter: None,
            exactly_once: false,
            ordering: false,
            expires_after: None,
        }
    }

    #[test]
    fn every_difference_is_found_and_weighed() {
        type Case = (fn(&mut SubscriptionFacts), Option<(&'static str, Gravity)>);
        let cases: [Case; 14] = [
            (|_| {}, None),
            // Any minimum that leaves time between two attempts.
            (|f| f.retry = Some((Duration::from_millis(200), Duration::from_secs(600))), None),
            (|f| f.retry = Some((Duration::from_secs(600), Duration::from_secs(600))), None),
            (|f| f.detached = true, Some(("detached", Gravity::Hopeless))),
            (|f| f.topic = "_deleted-topic_".to_owned(), Some(("topic", Gravity::Hopeless))),
            (|f| f.delivered_by = Some("push"), Some(("push_config", Gravity::Hopeless))),
            (|f| f.filter = Some("hasPrefix".to_owned()), Some(("filter", Gravity::Hopeless))),
            (|f| f.retry = None, Some(("retry_policy", Gravity::Wrong))),
            (
                |f| f.retry = Some((Duration::ZERO, Duration::from_secs(600))),
                Some(("retry_policy", Gravity::Wrong)),
            ),
            (
                |f| f.retry = Some((Duration::from_secs(10), Duration::from_secs(599))),
                Some(("retry_policy", Gravity::Wrong)),
            ),
            (|f| f.ack_deadline = Duration::from_secs(10), Some(("ack_deadline_seconds", Gravity::Drift))),
            (
                |f| f.expires_after = Some(Duration::from_secs(2_678_400)),
                Some(("expiration_policy", Gravity::Drift)),
            ),
            (|f| f.exactly_once = true, Some(("enable_exactly_once_delivery", Gravity::Surprise))),
            (|f| f.ordering = true, Some(("enable_message_ordering", Gravity::Surprise))),
        ];
        for (change, expected) in cases {
            let mut facts = healthy();
            change(&mut facts);
            let found: Vec<_> = differences(&facts, &settings(), settings().topic.as_deref())
                .into_iter()
                .map(|difference| (difference.field, difference.gravity))
                .collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{facts:?}");
            assert_eq!(dead_letter_difference(&facts, settings().dead_letter_topic.as_deref()), None);
        }
    }

    #[test]
    fn the_dead_letter_policy_is_five_attempts_to_the_configured_topic() {
        let topic = "projects/acme/topics/dead";
        let cases = [
            (Some((topic, 5)), Some(topic), None),
            (Some((topic, 5)), None, None),
            (Some((topic, 6)), Some(topic), Some("after 6 delivery attempts, not after exactly 5")),
            (Some((topic, 4)), None, Some("after 4 delivery attempts")),
            (Some(("_deleted-topic_", 5)), Some(topic), Some("go to _deleted-topic_")),
            (None, Some(topic), Some("no dead-letter policy")),
        ];
        for (policy, configured, expected) in cases {
            let mut facts = healthy();
            facts.dead_letter = policy.map(|(to, attempts)| (to.to_owned(), attempts));
            let found = dead_letter_difference(&facts, configured);
            match (found, expected) {
                (None, None) => {}
                (Some(found), Some(words)) => assert!(found.text.contains(words), "{}", found.text),
                (found, expected) => panic!("{found:?} where {expected:?} was expected"),
            }
            assert_eq!(differences(&facts, &settings(), None), []);
        }
    }

    #[test]
    fn what_provision_writes_reads_back_as_wanted() {
        let settings = settings();
        let made = Subscription::new()
            .set_name(&settings.subscription)
            .set_topic(settings.topic.clone().unwrap())
            .set_ack_deadline_seconds(60)
            .set_retry_policy(wanted_retry_policy(&settings))
            .set_dead_letter_policy(wanted_dead_letter_policy("projects/acme/topics/dead"));
        assert_eq!(SubscriptionFacts::from(made), healthy());
    }
}
