//! Probe whether Pub/Sub answers at all, beside the stream, which cannot tell an outage from an hour without events.
//!
//! While the server is away the client retries without a word, in steps that grow to a minute; so the return is noticed
//! here, and the stream is rebuilt at once. Any answer counts, a refused one too: the probe needs no role. If we die in the
//! middle, nothing is lost. The probe never opens a stream and never receives an event. A connection of the stream that is
//! half open while the server is well stays unseen; only an overdue canary shows it.

use std::time::Duration;

use google_cloud_gax::options::RequestOptionsBuilder;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_pubsub::client::SubscriptionAdmin;

use super::PubsubSettings;
use super::error::{Fault, PubsubError};
use crate::ops::supervised::Rebuild;

/// Interval between two questions while the server answers. Shorter outages end within the client's own first retries.
const WELL: Duration = Duration::from_secs(5);
/// Interval between two questions while the server does not answer.
const AWAY: Duration = Duration::from_secs(1);

/// Questions in a row without an answer that make an outage. A blip must not: a message on its way to the old
/// stream when a new one is built waits out its ack deadline, which costs it a delivery attempt.
pub const LOST_AFTER: u32 = 3;

/// A change of state, reported once each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeEvent {
    /// Several questions in a row had no answer; the error of the last.
    Lost(PubsubError),
    /// The first answer after that; the stream is being rebuilt.
    Found,
}

/// Asks until it is dropped. `report` receives every change and must not block.
///
/// # Errors
/// No client is possible: no credentials, or an endpoint that is none. Otherwise the probe never returns.
pub async fn probe(
    settings: &PubsubSettings,
    rebuild: &Rebuild,
    mut report: impl FnMut(ProbeEvent) + Send,
) -> Result<(), PubsubError> {
    let mut admin = settings.subscription_admin().await?;
    let mut unanswered = 0_u32;
    loop {
        tokio::time::sleep(if unanswered == 0 { WELL } else { AWAY }).await;
        match ask(settings, &admin).await {
            Some(error) => {
                unanswered = unanswered.saturating_add(1);
                if unanswered == LOST_AFTER {
                    report(ProbeEvent::Lost(error));
                }
                // The connection may be half open: the next question goes over a new one.
                if let Ok(fresh) = settings.subscription_admin().await {
                    admin = fresh;
                }
            }
            None => {
                if unanswered >= LOST_AFTER {
                    rebuild.ask();
                    report(ProbeEvent::Found);
                }
                unanswered = 0;
            }
        }
    }
}

/// Why there was no answer; `None` for any answer, whatever its content.
async fn ask(settings: &PubsubSettings, admin: &SubscriptionAdmin) -> Option<PubsubError> {
    let question = admin
        .get_subscription()
        .set_subscription(&settings.subscription)
        // A retry that succeeds would hide that the stream has lost its server meanwhile.
        .with_retry_policy(NeverRetry)
        .send();
    settings
        .call(&settings.subscription, question)
        .await
        .err()
        .filter(|error| error.fault == Fault::Transient)
}
