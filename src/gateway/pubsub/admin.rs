//! Creates topics and subscriptions, or verifies and mends existing ones (`provision`).
//!
//! Every step can be repeated: if we die in the middle, the next run finds what exists and goes on. Never deletes
//! anything, and never changes fields it has no opinion about (labels, retention, filters).

use google_cloud_gax::options::RequestOptionsBuilder;
use google_cloud_pubsub::client::{SubscriptionAdmin, TopicAdmin};
use google_cloud_pubsub::model::{ExpirationPolicy, Subscription};
use google_cloud_wkt::FieldMask;
use serde::Serialize;

use super::error::{Fault, PubsubError};
use super::facts::{
    Difference, SubscriptionFacts, dead_letter_difference, differences, wanted_dead_letter_policy,
    wanted_retry_policy, written,
};
use super::{MAX_DELIVERY_ATTEMPTS, PubsubSettings, RETENTION, SettingsError};

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// The resource is there, as wanted.
    Exists,
    /// The resource was made.
    Created,
    /// The resource would be made, were this not a dry run.
    WouldCreate,
    /// The resource was there and has been changed to what is wanted.
    Changed,
    /// The resource would be changed, were this not a dry run.
    WouldChange,
    /// The resource is there, is not as wanted, and cannot be changed: a human decides.
    Differs,
}

/// One topic or subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProvisionStep {
    /// `topic projects/…` or `subscription projects/…`.
    pub what: String,
    /// Result of the step.
    pub state: StepState,
    /// Values found or set; for people.
    pub detail: String,
}

/// Why provisioning stopped. Finished steps stay done; running it again goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionError {
    /// A name is not configured.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Pub/Sub, or the way to it.
    #[error(transparent)]
    Pubsub(#[from] PubsubError),
}

/// Makes or mends both topics and both subscriptions; `dry_run` only reports the steps.
///
/// # Errors
/// A name is not configured, or a call failed. Needs `roles/pubsub.editor` on the project.
pub async fn provision(
    settings: &PubsubSettings,
    dry_run: bool,
) -> Result<Vec<ProvisionStep>, ProvisionError> {
    let topic = settings.require_topic()?;
    let dead_letter_topic =
        settings.dead_letter_topic.as_deref().ok_or(SettingsError::Missing("dead_letter_topic"))?;
    let dead_letter_subscription = settings
        .dead_letter_subscription
        .as_deref()
        .ok_or(SettingsError::Missing("dead_letter_subscription"))?;
    let work = Provisioning::new(settings, dry_run, "keeps dead letters").await?;

    let mut steps = Vec::new();
    // Dead letters first: a subscription without a keeper of its dead letters would lose them.
    steps.push(work.topic(dead_letter_topic).await?);
    steps.extend(work.subscription(dead_letter_subscription, dead_letter_topic, None).await?);
    steps.push(work.topic(topic).await?);
    steps.extend(work.subscription(&settings.subscription, topic, Some(dead_letter_topic)).await?);
    Ok(steps)
}

/// Makes or mends a topic and its subscription, without dead letters; `dry_run` only reports the steps. `keeps`: its purpose, in words.
///
/// # Errors
/// As [`provision`].
pub async fn provision_beside(
    settings: &PubsubSettings,
    dry_run: bool,
    keeps: &'static str,
) -> Result<Vec<ProvisionStep>, ProvisionError> {
    let topic = settings.require_topic()?;
    let work = Provisioning::new(settings, dry_run, keeps).await?;
    let mut steps = vec![work.topic(topic).await?];
    steps.extend(work.subscription(&settings.subscription, topic, None).await?);
    Ok(steps)
}

struct Provisioning<'a> {
    settings: &'a PubsubSettings,
    topics: TopicAdmin,
    subscriptions: SubscriptionAdmin,
    dry_run: bool,
    /// The purpose of a subscription without dead letters.
    keeps: &'static str,
}

impl<'a> Provisioning<'a> {
    async fn new(
        settings: &'a PubsubSettings,
        dry_run: bool,
        keeps: &'static str,
    ) -> Result<Self, PubsubError> {
        let (topics, subscriptions) = (settings.topic_admin().await?, settings.subscription_admin().await?);
        Ok(Self { settings, topics, subscriptions, dry_run, keeps })
    }

    async fn topic(&self, name: &str) -> Result<ProvisionStep, PubsubError> {
        let step = |state, detail: &str| ProvisionStep {
            what: format!("topic {name}"),
            state,
            detail: detail.to_owned(),
        };
        let found = self.settings.call(name, self.topics.get_topic().set_topic(name).send()).await;
        match found {
            Ok(_) => return Ok(step(StepState::Exists, "as wanted")),
            Err(error) if error.fault == Fault::NotFound => {}
            Err(error) => return Err(error),
        }
        if self.dry_run {
            return Ok(step(StepState::WouldCreate, "does not exist yet"));
        }
        let creation = self.topics.create_topic().set_name(name).with_idempotency(true).send();
        match self.settings.call(name, creation).await {
            Ok(_) => Ok(step(StepState::Created, "made")),
            // Another run was faster, or our first try arrived although its answer did not.
            Err(error) if error.fault == Fault::AlreadyExists => Ok(step(StepState::Exists, "as wanted")),
            Err(error) => Err(error),
        }
    }

    /// One step for mended differences, and another one for those that cannot be mended.
    async fn subscription(
        &self,
        name: &str,
        topic: &str,
        dead_letter_topic: Option<&str>,
    ) -> Result<Vec<ProvisionStep>, PubsubError> {
        let step =
            |state, detail: String| ProvisionStep { what: format!("subscription {name}"), state, detail };
        let found = match self.read(name).await {
            Ok(found) => found,
            Err(error) if error.fault == Fault::NotFound => {
                let detail = self.description(name, dead_letter_topic);
                if self.dry_run {
                    return Ok(vec![step(StepState::WouldCreate, detail)]);
                }
                match self.create(name, topic, dead_letter_topic).await {
                    Ok(()) => return Ok(vec![step(StepState::Created, detail)]),
                    Err(error) if error.fault == Fault::AlreadyExists => self.read(name).await?,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };

        let mut all = differences(&found, self.settings, Some(topic));
        if let Some(dead_letter_topic) = dead_letter_topic {
            all.extend(dead_letter_difference(&found, Some(dead_letter_topic)));
        }
        let (mendable, fixed): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|difference| difference.gravity.can_be_mended());
        let mut steps = Vec::new();
        if !mendable.is_empty() {
            let state = if self.dry_run { StepState::WouldChange } else { StepState::Changed };
            if !self.dry_run {
                self.mend(name, &mendable, dead_letter_topic).await?;
            }
            steps.push(step(state, texts(&mendable)));
        }
        if !fixed.is_empty() {
            steps.push(step(StepState::Differs, texts(&fixed)));
        }
        if steps.is_empty() {
            steps.push(step(StepState::Exists, self.description(name, dead_letter_topic)));
        }
        Ok(steps)
    }

    async fn read(&self, name: &str) -> Result<SubscriptionFacts, PubsubError> {
        let found = self.subscriptions.get_subscription().set_subscription(name).send();
        self.settings.call(name, found).await.map(SubscriptionFacts::from)
    }

    async fn create(
        &self,
        name: &str,
        topic: &str,
        dead_letter_topic: Option<&str>,
    ) -> Result<(), PubsubError> {
        let creation = self
            .subscriptions
            .create_subscription()
            .set_name(name)
            .set_topic(topic)
            .set_ack_deadline_seconds(self.ack_deadline_seconds())
            .set_message_retention_duration(written(RETENTION))
            // No expiration: a subscription unused for a month is kept all the same.
            .set_expiration_policy(ExpirationPolicy::new())
            .set_retry_policy(wanted_retry_policy(self.settings))
            .set_or_clear_dead_letter_policy(dead_letter_topic.map(wanted_dead_letter_policy))
            .with_idempotency(true)
            .send();
        self.settings.call(name, creation).await.map(drop)
    }

    async fn mend(
        &self,
        name: &str,
        mendable: &[Difference],
        dead_letter_topic: Option<&str>,
    ) -> Result<(), PubsubError> {
        // The server writes only what the mask names, and does not look at the other fields.
        let wanted = Subscription::new()
            .set_name(name)
            .set_ack_deadline_seconds(self.ack_deadline_seconds())
            .set_expiration_policy(ExpirationPolicy::new())
            .set_retry_policy(wanted_retry_policy(self.settings))
            .set_or_clear_dead_letter_policy(dead_letter_topic.map(wanted_dead_letter_policy));
        let mask = FieldMask::default().set_paths(mendable.iter().map(|difference| difference.field));
        let update = self
            .subscriptions
            .update_subscription()
            .set_subscription(wanted)
            .set_update_mask(mask)
            .with_idempotency(true)
            .send();
        self.settings.call(name, update).await.map(drop)
    }

    fn ack_deadline_seconds(&self) -> i32 {
        i32::try_from(self.settings.ack_deadline.as_secs()).unwrap_or(i32::MAX)
    }

    fn description(&self, name: &str, dead_letter_topic: Option<&str>) -> String {
        let Some(dead_letter_topic) = dead_letter_topic else {
            return format!("{}, never expires", self.keeps);
        };
        let mut text = format!("dead letters after {MAX_DELIVERY_ATTEMPTS} attempts to {dead_letter_topic}");
        if !self.settings.is_emulator() {
            // Without these roles Pub/Sub says nothing and sets nothing aside.
            text.push_str(&format!(
                "; Pub/Sub's service agent (service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com) needs \
                 roles/pubsub.publisher on {dead_letter_topic} and roles/pubsub.subscriber on {name} for that"
            ));
        }
        text
    }
}

fn texts(differences: &[Difference]) -> String {
    differences.iter().map(|difference| difference.text.as_str()).collect::<Vec<_>>().join("; ")
}
