//! From a subscription's description to its rules: Pub/Sub's defaults and limits, what an update may change, and the
//! short form that tests and the demo use. Pure; a refused description has changed nothing.

use std::time::Duration;

use super::error::BrokerError;
use super::proto::{
    DeadLetterPolicy, ExpirationPolicy, RetryPolicy, Subscription as Description, Topic, subscription, topic,
};
use super::rules::{Backoff, DeadLetter, Rules};

/// Lease where the description names none, in seconds.
const DEFAULT_ACK_DEADLINE: i32 = 10;
const ONE_DAY: i64 = 86_400;

/// A subscription as tests and the demo make it, without gRPC and without the service's lower limits (10 s, five
/// attempts), so that a test need not wait for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionSpec {
    /// Full name, `projects/P/subscriptions/S`.
    pub name: String,
    /// Full name of its topic.
    pub topic: String,
    /// Lease of a message taken by a pull that names none. A StreamingPull names its own.
    pub ack_deadline: Duration,
    /// When a failed message comes again; at once when absent.
    pub retry: Option<Backoff>,
    /// When a failed message is given up; never when absent.
    pub dead_letter: Option<DeadLetter>,
    /// Deleted after a month without use, as the service does where nobody says otherwise.
    pub expires: bool,
}

impl SubscriptionSpec {
    /// A subscription with the service's defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, topic: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            topic: topic.into(),
            ack_deadline: Duration::from_secs(10),
            retry: None,
            dead_letter: None,
            expires: true,
        }
    }

    /// Kept also where nobody uses it, as `maple-router provision` makes it.
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.expires = false;
        self
    }

    /// Sets this lease.
    #[must_use]
    pub fn ack_deadline(mut self, ack_deadline: Duration) -> Self {
        self.ack_deadline = ack_deadline;
        self
    }

    /// Sets this retry policy.
    #[must_use]
    pub fn retry(mut self, min: Duration, max: Duration) -> Self {
        self.retry = Some(Backoff { min, max });
        self
    }

    /// Sets this dead-letter policy.
    #[must_use]
    pub fn dead_letter(mut self, topic: impl Into<String>, max_delivery_attempts: u32) -> Self {
        self.dead_letter = Some(DeadLetter { topic: topic.into(), max_delivery_attempts });
        self
    }

    /// Returns the description for clients, and the rules.
    pub(super) fn resolve(self) -> (Description, Rules) {
        let seconds = self.ack_deadline.as_secs().max(1);
        let description = Description {
            name: self.name,
            topic: self.topic,
            ack_deadline_seconds: i32::try_from(seconds).unwrap_or(i32::MAX),
            message_retention_duration: Some(seconds_of(7 * ONE_DAY)),
            expiration_policy: Some(ExpirationPolicy { ttl: self.expires.then(|| seconds_of(31 * ONE_DAY)) }),
            retry_policy: self.retry.map(|retry| RetryPolicy {
                minimum_backoff: prost_types::Duration::try_from(retry.min).ok(),
                maximum_backoff: prost_types::Duration::try_from(retry.max).ok(),
            }),
            dead_letter_policy: self.dead_letter.as_ref().map(|policy| DeadLetterPolicy {
                dead_letter_topic: policy.topic.clone(),
                max_delivery_attempts: i32::try_from(policy.max_delivery_attempts).unwrap_or(i32::MAX),
            }),
            state: subscription::State::Active.into(),
            ..Description::default()
        };
        let rules =
            Rules { ack_deadline: self.ack_deadline, retry: self.retry, dead_letter: self.dead_letter };
        (description, rules)
    }
}

/// Fills in the defaults of a description that came over the wire, and derives its rules.
pub(super) fn resolve(mut description: Description) -> Result<(Description, Rules), BrokerError> {
    refuse_unsupported(&description)?;
    if description.ack_deadline_seconds == 0 {
        description.ack_deadline_seconds = DEFAULT_ACK_DEADLINE;
    }
    let ack_deadline = within("ack deadline", description.ack_deadline_seconds, 10..=600, "seconds")?;
    let retry = description.retry_policy.as_mut().map(resolve_retry).transpose()?;
    let dead_letter = description.dead_letter_policy.as_mut().map(resolve_dead_letter).transpose()?;
    description.message_retention_duration.get_or_insert(seconds_of(7 * ONE_DAY));
    description.expiration_policy.get_or_insert(ExpirationPolicy { ttl: Some(seconds_of(31 * ONE_DAY)) });
    description.state = subscription::State::Active.into();
    let rules = Rules { ack_deadline: Duration::from_secs(ack_deadline.into()), retry, dead_letter };
    Ok((description, rules))
}

/// Fills in the defaults of a topic's description.
pub(super) fn resolve_topic(mut description: Topic) -> Topic {
    description.state = topic::State::Active.into();
    description
}

/// `current` with the fields of `change` that `mask` names.
pub(super) fn update(
    current: &Description,
    change: &Description,
    mask: &[String],
) -> Result<Description, BrokerError> {
    let mut updated = current.clone();
    require_mask(mask)?;
    for path in mask {
        match path.as_str() {
            "ack_deadline_seconds" => updated.ack_deadline_seconds = change.ack_deadline_seconds,
            "retain_acked_messages" => updated.retain_acked_messages = change.retain_acked_messages,
            "message_retention_duration" => {
                updated.message_retention_duration = change.message_retention_duration;
            }
            "labels" => updated.labels.clone_from(&change.labels),
            "expiration_policy" => updated.expiration_policy.clone_from(&change.expiration_policy),
            "dead_letter_policy" => updated.dead_letter_policy.clone_from(&change.dead_letter_policy),
            "retry_policy" => updated.retry_policy = change.retry_policy,
            "push_config" => updated.push_config.clone_from(&change.push_config),
            "enable_exactly_once_delivery" => {
                updated.enable_exactly_once_delivery = change.enable_exactly_once_delivery;
            }
            other => return Err(not_updatable(other)),
        }
    }
    Ok(updated)
}

/// `current` with the fields of `change` that `mask` names.
pub(super) fn update_topic(current: &Topic, change: &Topic, mask: &[String]) -> Result<Topic, BrokerError> {
    let mut updated = current.clone();
    require_mask(mask)?;
    for path in mask {
        match path.as_str() {
            "labels" => updated.labels.clone_from(&change.labels),
            "message_retention_duration" => {
                updated.message_retention_duration = change.message_retention_duration;
            }
            other => return Err(not_updatable(other)),
        }
    }
    Ok(updated)
}

/// The lease that a StreamingPull asks for.
pub(super) fn stream_ack_deadline(seconds: i32) -> Result<Duration, BrokerError> {
    within("stream ack deadline", seconds, 10..=600, "seconds").map(|s| Duration::from_secs(s.into()))
}

/// The new deadline of a ModifyAckDeadline; zero gives the message back.
pub(super) fn modified_deadline(seconds: i32) -> Result<Duration, BrokerError> {
    within("ack deadline", seconds, 0..=600, "seconds").map(|s| Duration::from_secs(s.into()))
}

/// Refuses what would change the semantics if it were ignored.
fn refuse_unsupported(description: &Description) -> Result<(), BrokerError> {
    let asked = [
        (description.enable_message_ordering, "message ordering"),
        (description.enable_exactly_once_delivery, "exactly-once delivery"),
        (!description.filter.is_empty(), "filters"),
        (
            description.push_config.as_ref().is_some_and(|push| !push.push_endpoint.is_empty()),
            "push delivery",
        ),
    ];
    match asked.iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(BrokerError::Unsupported((*what).to_owned())),
        None => Ok(()),
    }
}

fn resolve_retry(policy: &mut RetryPolicy) -> Result<Backoff, BrokerError> {
    let min = duration("minimum back-off", *policy.minimum_backoff.get_or_insert(seconds_of(10)))?;
    let max = duration("maximum back-off", *policy.maximum_backoff.get_or_insert(seconds_of(600)))?;
    if max > Duration::from_secs(600) || min > max {
        return Err(BrokerError::Invalid(format!(
            "The retry policy is invalid: need minimum <= maximum <= 600s, got {min:?} and {max:?}."
        )));
    }
    Ok(Backoff { min, max })
}

fn resolve_dead_letter(policy: &mut DeadLetterPolicy) -> Result<DeadLetter, BrokerError> {
    if policy.max_delivery_attempts == 0 {
        policy.max_delivery_attempts = 5;
    }
    let max_delivery_attempts =
        within("max_delivery_attempts", policy.max_delivery_attempts, 5..=100, "attempts")?;
    Ok(DeadLetter { topic: policy.dead_letter_topic.clone(), max_delivery_attempts })
}

fn within(
    what: &str,
    given: i32,
    range: std::ops::RangeInclusive<i32>,
    unit: &str,
) -> Result<u32, BrokerError> {
    match u32::try_from(given) {
        Ok(value) if range.contains(&given) => Ok(value),
        Ok(_) | Err(_) => Err(BrokerError::Invalid(format!(
            "Invalid {what} given: {given}; it must be {} to {} {unit}.",
            range.start(),
            range.end()
        ))),
    }
}

fn duration(what: &str, given: prost_types::Duration) -> Result<Duration, BrokerError> {
    Duration::try_from(given).map_err(|_| BrokerError::Invalid(format!("The {what} must not be negative.")))
}

fn seconds_of(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

fn require_mask(mask: &[String]) -> Result<(), BrokerError> {
    if mask.is_empty() {
        return Err(BrokerError::Invalid(
            "The update_mask must be specified, and must not be empty.".to_owned(),
        ));
    }
    Ok(())
}

fn not_updatable(path: &str) -> BrokerError {
    BrokerError::Invalid(format!("Invalid update_mask provided in the request: {path} cannot be updated."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Description {
        Description {
            name: "projects/p/subscriptions/sub".to_owned(),
            topic: "projects/p/topics/top".to_owned(),
            ..Description::default()
        }
    }

    #[test]
    fn defaults_are_the_services() {
        let (description, rules) = resolve(described()).expect("defaults are fine");
        assert_eq!(description.ack_deadline_seconds, 10);
        assert_eq!(rules, Rules { ack_deadline: Duration::from_secs(10), retry: None, dead_letter: None });

        let policies = Description {
            retry_policy: Some(RetryPolicy::default()),
            dead_letter_policy: Some(DeadLetterPolicy {
                dead_letter_topic: "t".to_owned(),
                ..Default::default()
            }),
            ..described()
        };
        let (_, rules) = resolve(policies).expect("empty policies have defaults");
        assert_eq!(
            rules.retry,
            Some(Backoff { min: Duration::from_secs(10), max: Duration::from_secs(600) })
        );
        assert_eq!(rules.dead_letter.map(|policy| policy.max_delivery_attempts), Some(5));
    }

    #[test]
    fn limits_and_gaps_are_refused() {
        let retry = |min, max| {
            Some(RetryPolicy {
                minimum_backoff: Some(seconds_of(min)),
                maximum_backoff: Some(seconds_of(max)),
            })
        };
        let dead_letter =
            |n| Some(DeadLetterPolicy { dead_letter_topic: "t".to_owned(), max_delivery_attempts: n });
        let table = [
            ("short lease", Description { ack_deadline_seconds: 9, ..described() }),
            ("long lease", Description { ack_deadline_seconds: 601, ..described() }),
            ("negative back-off", Description { retry_policy: retry(-1, 10), ..described() }),
            ("back-off the wrong way round", Description { retry_policy: retry(11, 10), ..described() }),
            ("long back-off", Description { retry_policy: retry(10, 601), ..described() }),
            ("few attempts", Description { dead_letter_policy: dead_letter(4), ..described() }),
            ("many attempts", Description { dead_letter_policy: dead_letter(101), ..described() }),
            ("ordering", Description { enable_message_ordering: true, ..described() }),
            ("exactly once", Description { enable_exactly_once_delivery: true, ..described() }),
            ("filter", Description { filter: "attributes:a".to_owned(), ..described() }),
        ];
        for (why, description) in table {
            assert!(resolve(description).is_err(), "{why} must be refused");
        }
    }

    #[test]
    fn an_update_changes_what_its_mask_names() {
        let mask = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let change = Description { ack_deadline_seconds: 60, filter: "ignored".to_owned(), ..described() };
        let updated =
            update(&described(), &change, &mask(&["ack_deadline_seconds"])).expect("may be updated");
        assert_eq!((updated.ack_deadline_seconds, updated.filter.as_str()), (60, ""));

        let policy = RetryPolicy { minimum_backoff: Some(seconds_of(1)), maximum_backoff: None };
        let with_policy = Description { retry_policy: Some(policy), ..described() };
        let updated = update(&described(), &with_policy, &mask(&["retry_policy"])).expect("may be updated");
        assert_eq!(updated.retry_policy, Some(policy));
        let updated = update(&with_policy, &described(), &mask(&["retry_policy"])).expect("may be cleared");
        assert_eq!(updated.retry_policy, None);

        for bad in [&["filter"][..], &["topic"], &["ack_deadline_seconds", "name"], &[]] {
            assert!(update(&described(), &change, &mask(bad)).is_err(), "{bad:?} must be refused");
        }
    }
}
