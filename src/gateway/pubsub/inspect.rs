//! Inspection of subscription and dead-letter policy that changes nothing: for `check`, and for the start of `run`.
//!
//! Every call is bounded (the client by itself would wait for ever on a closed endpoint). Never opens a stream:
//! that would take events from the daemon and spend their delivery attempts.

use google_cloud_pubsub::client::SubscriptionAdmin;

use super::PubsubSettings;
use super::error::{Fault, PubsubError};
use super::facts::{Difference, Gravity, SubscriptionFacts, dead_letter_difference, differences};
use crate::ports::{CheckLevel, CheckLine, SourceError};

const SUBSCRIPTION: &str = "subscription";
const DEAD_LETTER: &str = "dead_letter";
const VIEWER: &str = "grant this identity roles/pubsub.viewer on it, so that its settings can be verified";
const PROVISION: &str = "run `maple-router provision`, or correct [pubsub] if that is what is wrong";
const RECREATE: &str = "delete it and run `maple-router provision`, or name another one in [pubsub]";
const NO_NAME: &str =
    "set [pubsub] dead_letter_topic and dead_letter_subscription, then run `maple-router provision`";

/// State of the subscription at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    /// The subscription exists; its facts.
    Readable(SubscriptionFacts),
    /// This role may not read the subscription; it may still be allowed to receive. The stream's first error shows which.
    Unreadable {
        /// The server's words.
        said: String,
    },
}

/// Says whether the subscription can be received from, asked once and within the call timeout.
///
/// # Errors
/// No such subscription, no credentials, unreachable, or it can never give an event (detached, push).
pub async fn verify(settings: &PubsubSettings) -> Result<Verified, SourceError> {
    let admin = settings.subscription_admin().await?;
    let facts = match read(settings, &admin, &settings.subscription).await {
        Ok(facts) => facts,
        Err(error) if error.fault == Fault::PermissionDenied => {
            return Ok(Verified::Unreadable { said: error.said });
        }
        Err(error) => return Err(error.into()),
    };
    let hopeless = differences(&facts, settings, None)
        .into_iter()
        .find(|difference| matches!(difference.field, "detached" | "push_config"));
    match hopeless {
        Some(Difference { text, .. }) => {
            Err(SourceError::Refused { subscription: settings.subscription.clone(), said: text })
        }
        None => Ok(Verified::Readable(facts)),
    }
}

/// The lines `subscription` and `dead_letter` of `check`, in this order. Returns within about the call timeout.
pub async fn inspect(settings: &PubsubSettings) -> Vec<CheckLine> {
    let admin = match settings.subscription_admin().await {
        Ok(admin) => admin,
        Err(error) => {
            let found = Err(error);
            return vec![subscription_line(&found, settings), dead_letter_line(&found, None, settings)];
        }
    };
    let dead_letters = async {
        match &settings.dead_letter_subscription {
            Some(name) => Some(read(settings, &admin, name).await),
            None => None,
        }
    };
    let (found, dead_letters) =
        futures::future::join(read(settings, &admin, &settings.subscription), dead_letters).await;
    vec![subscription_line(&found, settings), dead_letter_line(&found, dead_letters.as_ref(), settings)]
}

/// A line of `check` on a subscription beside the routing's. Returns within about the call timeout.
pub async fn inspect_beside(name: &'static str, settings: &PubsubSettings) -> CheckLine {
    let found = match settings.subscription_admin().await {
        Ok(admin) => read(settings, &admin, &settings.subscription).await,
        Err(error) => Err(error),
    };
    CheckLine { name, ..subscription_line(&found, settings) }
}

async fn read(
    settings: &PubsubSettings,
    admin: &SubscriptionAdmin,
    name: &str,
) -> Result<SubscriptionFacts, PubsubError> {
    let found = admin.get_subscription().set_subscription(name).send();
    settings.call(name, found).await.map(SubscriptionFacts::from)
}

/// A subscription's facts, or why they were not given.
type FactsRead = Result<SubscriptionFacts, PubsubError>;

fn subscription_line(found: &FactsRead, settings: &PubsubSettings) -> CheckLine {
    let facts = match found {
        Ok(facts) => facts,
        Err(error) if error.fault == Fault::PermissionDenied => {
            return CheckLine::warn(SUBSCRIPTION, error.what(), VIEWER);
        }
        Err(error) => return CheckLine::fail(SUBSCRIPTION, error.what(), error.remedy()),
    };
    let differences = differences(facts, settings, settings.topic.as_deref());
    let Some(worst) = differences.iter().map(|difference| level(difference.gravity)).max() else {
        return CheckLine::ok(
            SUBSCRIPTION,
            format!("{}: retry policy and ack deadline as configured", facts.name),
        );
    };
    let texts: Vec<&str> = differences.iter().map(|difference| difference.text.as_str()).collect();
    let detail = format!("{}: {}", facts.name, texts.join("; "));
    let remedy = if differences.iter().all(|difference| difference.gravity.can_be_mended()) {
        PROVISION
    } else {
        RECREATE
    };
    CheckLine { name: SUBSCRIPTION, level: worst, detail, remedy: Some(remedy.to_owned()) }
}

fn level(gravity: Gravity) -> CheckLevel {
    match gravity {
        Gravity::Surprise | Gravity::Drift => CheckLevel::Warn,
        Gravity::Wrong | Gravity::Hopeless => CheckLevel::Fail,
    }
}

fn dead_letter_line(
    found: &FactsRead,
    dead_letters: Option<&FactsRead>,
    settings: &PubsubSettings,
) -> CheckLine {
    let facts = match found {
        Ok(facts) => facts,
        Err(error) if error.fault == Fault::PermissionDenied => {
            return CheckLine::warn(
                DEAD_LETTER,
                format!("the policy of {} cannot be read with this role", settings.subscription),
                VIEWER,
            );
        }
        Err(_) => {
            return CheckLine::warn(
                DEAD_LETTER,
                "not tried, since the subscription could not be read",
                "mend line `subscription` first",
            );
        }
    };
    if let Some(difference) = dead_letter_difference(facts, settings.dead_letter_topic.as_deref()) {
        let remedy = if settings.dead_letter_topic.is_some() { PROVISION } else { NO_NAME };
        return CheckLine::fail(DEAD_LETTER, format!("{}: {}", facts.name, difference.text), remedy);
    }
    let topic = facts.dead_letter.as_ref().map(|(topic, _)| topic.as_str()).unwrap_or_default();
    match dead_letters {
        None => CheckLine::warn(
            DEAD_LETTER,
            format!(
                "dead letters go to {topic}, but no subscription on it is configured, so that nobody reads them"
            ),
            NO_NAME,
        ),
        Some(Err(error)) if error.fault == Fault::PermissionDenied => {
            CheckLine::warn(DEAD_LETTER, error.what(), VIEWER)
        }
        Some(Err(error)) => CheckLine::fail(DEAD_LETTER, error.what(), error.remedy()),
        Some(Ok(set_aside)) if set_aside.topic != topic => CheckLine::fail(
            DEAD_LETTER,
            format!("{} is on {}, while dead letters go to {topic}", set_aside.name, set_aside.topic),
            RECREATE,
        ),
        Some(Ok(set_aside)) if set_aside.detached => CheckLine::fail(
            DEAD_LETTER,
            format!("{} is detached from its topic and keeps nothing", set_aside.name),
            RECREATE,
        ),
        Some(Ok(set_aside)) => CheckLine::ok(
            DEAD_LETTER,
            format!(
                "after {} delivery attempts to {topic}, kept by {}",
                super::MAX_DELIVERY_ATTEMPTS,
                set_aside.name
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::tests::{healthy, settings};
    use super::*;

    fn dead_letters() -> SubscriptionFacts {
        SubscriptionFacts {
            name: "projects/acme/subscriptions/dead-sub".to_owned(),
            topic: "projects/acme/topics/dead".to_owned(),
            dead_letter: None,
            ..healthy()
        }
    }

    fn fault(fault: Fault) -> FactsRead {
        Err(PubsubError {
            fault,
            resource: "projects/acme/subscriptions/x".to_owned(),
            said: "so".to_owned(),
        })
    }

    fn altered(change: fn(&mut SubscriptionFacts)) -> FactsRead {
        let mut facts = healthy();
        change(&mut facts);
        Ok(facts)
    }

    #[test]
    fn only_the_right_line_fails() {
        use CheckLevel::{Fail, Ok as Well, Warn};
        let kept = || Some(Ok(dead_letters()));
        let elsewhere = || {
            let mut facts = dead_letters();
            facts.topic = "projects/acme/topics/events".to_owned();
            Some(Ok(facts))
        };
        let cut_off = || {
            let mut facts = dead_letters();
            facts.detached = true;
            Some(Ok(facts))
        };
        let cases: [(&str, FactsRead, Option<FactsRead>, CheckLevel, CheckLevel); 16] = [
            ("healthy", Ok(healthy()), kept(), Well, Well),
            ("no policy", altered(|f| f.dead_letter = None), kept(), Well, Fail),
            ("six", altered(|f| f.dead_letter.as_mut().unwrap().1 = 6), kept(), Well, Fail),
            ("no retry policy", altered(|f| f.retry = None), kept(), Fail, Well),
            ("detached", altered(|f| f.detached = true), kept(), Fail, Well),
            ("push", altered(|f| f.delivered_by = Some("push")), kept(), Fail, Well),
            ("ordering", altered(|f| f.ordering = true), kept(), Warn, Well),
            ("deadline", altered(|f| f.ack_deadline *= 2), kept(), Warn, Well),
            ("unknown", fault(Fault::NotFound), kept(), Fail, Warn),
            ("closed", fault(Fault::Transient), Some(fault(Fault::Transient)), Fail, Warn),
            ("not a viewer", fault(Fault::PermissionDenied), kept(), Warn, Warn),
            ("dead letters unknown", Ok(healthy()), Some(fault(Fault::NotFound)), Well, Fail),
            ("dead letters hidden", Ok(healthy()), Some(fault(Fault::PermissionDenied)), Well, Warn),
            ("dead letters elsewhere", Ok(healthy()), elsewhere(), Well, Fail),
            ("dead letters detached", Ok(healthy()), cut_off(), Well, Fail),
            ("nobody reads", Ok(healthy()), None, Well, Warn),
        ];
        for (name, found, dead_letters, subscription, dead_letter) in cases {
            let settings = settings();
            let lines = [
                subscription_line(&found, &settings),
                dead_letter_line(&found, dead_letters.as_ref(), &settings),
            ];
            assert_eq!(
                lines.each_ref().map(|line| line.level),
                [subscription, dead_letter],
                "{name}: {lines:#?}"
            );
            for line in lines {
                assert_eq!(line.remedy.is_none(), line.level == Well, "{name}: {line:?}");
            }
        }
    }
}
