//! Resolves doubt before anything is sent again (protocol, "Crash, doubt, stop, replay"): found, or proof of the contrary, from
//! what the delivery's mark, the relay's log and its queue say. What neither settles is left to the policy.
//!
//! Only asks and waits; what follows is recorded by the worker, under its claim. The absence of a line proves nothing here:
//! the contrary is proved by the log of the very session that brought the mail, and by a queue that does not have it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;

use super::follower::Following;
use super::status::{self, Acceptance};
use super::tracker::Evidence;
use crate::ops::metrics::Resolution;
use crate::ports::{Clock, QueueListing, RelayLogError};
use crate::routing::claims::Claim;
use crate::routing::ledger::{DeliveryState, Ledger};
use crate::routing::message_id::Origin;
use crate::routing::outcome::Entries;

/// What the relay did before it was asked is in its log by then.
const SETTLES: Duration = Duration::from_secs(1);
/// The log is read up to now within.
const CAUGHT_UP: Duration = Duration::from_secs(10);
/// What is unclear is looked at so often.
const LOOKS: usize = 5;

/// Asks the relay's queue for some queue ids.
pub type AskQueue =
    Arc<dyn Fn(Vec<String>) -> BoxFuture<'static, Result<QueueListing, RelayLogError>> + Send + Sync>;

/// Who is asked. Cheap to clone.
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

/// What was resolved of one action's deliveries.
#[derive(Debug, Default)]
pub struct Resolved {
    /// To be recorded under the claim.
    pub entries: Entries,
    /// Key and how, of each.
    pub how: Vec<(String, Resolution)>,
}

impl Doubts {
    /// Nobody follows the relay: only what returned mails have told resolves anything.
    #[must_use]
    pub fn unfollowed(clock: Arc<dyn Clock>) -> Self {
        Self { following: None, clock }
    }

    /// Asks the log and the queue.
    #[must_use]
    pub fn new(following: Following, queue: AskQueue, clock: Arc<dyn Clock>) -> Self {
        Self { following: Some((following, queue)), clock }
    }

    /// To be kept with what is begun now.
    #[must_use]
    pub fn mark(&self) -> Option<String> {
        self.following.as_ref().map(|(following, _)| following.mark())
    }

    /// Resolves what can be resolved of the deliveries of one action that are in doubt.
    pub async fn resolve(&self, claim: &Claim, ledger: &Ledger, order: i32) -> Resolved {
        let generation = ledger.generation(order);
        let mut resolved = Resolved::default();
        let mut left = Vec::new();
        for (key, delivery) in ledger.deliveries_of(order) {
            if !delivery.in_doubt(&claim.token) {
                continue;
            }
            match delivery.relay.as_ref().filter(|mark| mark.generation == generation && !mark.claimed) {
                Some(mark) => resolved.found(ledger, key, &mark.into()),
                None => left.push((key, delivery.log_mark.as_deref())),
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
            left.retain(|(key, begun)| {
                let address = key.split_once('|').map_or("", |(_, address)| address);
                match following.evidence(origin, address, *begun, listing.as_ref()) {
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

    /// The log up to now, the queue after it, and the log up to then; absent where the log cannot be read. What a queue that
    /// cannot be looked into would show is not known.
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
