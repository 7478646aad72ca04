//! Resolves doubt before a mail is sent again (protocol, "Crash, doubt, stop, replay"), by the delivery's relay entry, the
//! relay's log and its queue: accepted, or proved not to be. A doubt that none of them resolves is left to the policy.
//!
//! Only asks and waits; the worker records the result, under its claim. The absence of a line proves nothing here: the
//! contrary is proved by the log of the very session that brought the mail, and by a queue that does not have it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;

use super::follower::Following;
use crate::ports::{Clock, QueueListing, RelayLogError};
use crate::routing::claims::Claim;
use crate::routing::delivery::status;
use crate::routing::delivery::status::Acceptance;
use crate::routing::delivery::tracker::Evidence;
use crate::routing::metrics::Resolution;
use crate::routing::submission::ledger::{DeliveryState, Ledger};
use crate::routing::submission::message_id::Origin;
use crate::routing::submission::outcome::Entries;

/// Delay after which the relay's earlier actions are in its log.
const SETTLES: Duration = Duration::from_secs(1);
/// Longest wait for the log to be read up to the present.
const CAUGHT_UP: Duration = Duration::from_secs(10);
/// Number of looks at an unclear doubt.
const LOOKS: usize = 5;

/// Reads the relay's queue for some queue ids.
pub type AskQueue =
    Arc<dyn Fn(Vec<String>) -> BoxFuture<'static, Result<QueueListing, RelayLogError>> + Send + Sync>;

/// Resolver of doubts, by the log and the queue. Cheap to clone.
#[derive(Clone)]
pub struct Doubts {
    following: Option<(Following, AskQueue)>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Doubts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doubts").field("followed", &self.following.is_some()).finish_non_exhaustive()
    }
}

/// Resolved deliveries of one action.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Outcomes to be recorded under the claim.
    pub entries: Entries,
    /// Key and resolution of each.
    pub how: Vec<(String, Resolution)>,
}

impl Doubts {
    /// A resolver without a follower of the relay: only reports of returned mails resolve doubts.
    #[must_use]
    pub fn unfollowed(clock: Arc<dyn Clock>) -> Self {
        Self { following: None, clock }
    }

    /// A resolver by the log and the queue.
    #[must_use]
    pub fn new(following: Following, queue: AskQueue, clock: Arc<dyn Clock>) -> Self {
        Self { following: Some((following, queue)), clock }
    }

    /// Position in the log, to be stored with an intent recorded now.
    #[must_use]
    pub fn log_position(&self) -> Option<String> {
        self.following.as_ref().map(|(following, _)| following.log_position())
    }

    /// Resolves the deliveries of one action that are in doubt, as far as possible.
    pub async fn resolve(&self, claim: &Claim, ledger: &Ledger, order: i32) -> Resolved {
        let generation = ledger.generation(order);
        let mut resolved = Resolved::default();
        let mut left = Vec::new();
        for (key, delivery) in ledger.deliveries_of(order) {
            if !delivery.in_doubt(&claim.token) {
                continue;
            }
            match delivery
                .relay
                .as_ref()
                .filter(|log_position| log_position.generation == generation && !log_position.claimed)
            {
                Some(log_position) => resolved.found(ledger, key, &log_position.into()),
                None => left.push((key, delivery.log_position.as_deref())),
            }
        }
        let Some((following, queue)) = self.following.as_ref().filter(|_| !left.is_empty()) else {
            return resolved;
        };
        let origin = Origin { submission: claim.id, action_order: order, generation };
        self.clock.sleep(SETTLES).await;
        for look in 0..LOOKS {
            if look > 0 {
                self.clock.sleep(SETTLES).await;
            }
            let Some(listing) = self.look(following, queue, origin).await else { break };
            left.retain(|(key, intent)| {
                let address = key.split_once('|').map_or("", |(_, address)| address);
                match following.evidence(origin, address, *intent, listing.as_ref()) {
                    Evidence::Found { queue_id, message_id } => {
                        let (queue_id, message_id) = (Some(queue_id), Some(message_id));
                        resolved.found(ledger, key, &Acceptance { generation, queue_id, message_id });
                        false
                    }
                    Evidence::Disproved { queue_ids } => {
                        resolved.disproved(key, &queue_ids);
                        false
                    }
                    Evidence::Nothing => false,
                    Evidence::Unclear => true,
                }
            });
            if left.is_empty() {
                break;
            }
        }
        resolved
    }

    /// Reads the log up to now, the queue after it, and the log up to then; `None` where the log cannot be read, an
    /// inner `None` where the queue cannot be, whose content is then unknown.
    async fn look(
        &self,
        following: &Following,
        queue: &AskQueue,
        origin: Origin,
    ) -> Option<Option<QueueListing>> {
        following.caught_up(&*self.clock, CAUGHT_UP).await.then_some(())?;
        let ids = following.ids_of(origin);
        if ids.is_empty() {
            return Some(None);
        }
        let listing = match queue(ids).await {
            Ok(listing) => Some(listing),
            Err(error) => {
                tracing::warn!("the relay's queue cannot be looked into, doubt may stay: {error}");
                None
            }
        };
        following.caught_up(&*self.clock, CAUGHT_UP).await.then_some(listing)
    }
}

impl Resolved {
    fn found(&mut self, ledger: &Ledger, key: &str, acceptance: &Acceptance) {
        self.entries.facts.extend(status::fact(ledger, key, acceptance));
        self.how.push((key.to_owned(), Resolution::Found));
    }

    fn disproved(&mut self, key: &str, queue_ids: &[String]) {
        let entry = json!({"state": DeliveryState::Open.label(), "doubt": false, "disproved": queue_ids});
        self.entries.others.insert(key.to_owned(), json!({"entry": entry, "audit": null}));
        self.how.push((key.to_owned(), Resolution::Disproved));
    }
}
