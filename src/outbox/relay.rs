//! The relay: publishes outbox rows to the routing topic. Start at [`Relay::run`].
//!
//! A row becomes `delivered` only after the topic's server has given its id. If we die between the two, the event is
//! published again: an event too many changes nothing. A row that the server refuses is published once more, alone, before
//! the fault is called its own, since a request carries many; so one poisonous row never blocks the next. An outage is no
//! row's fault: the relay pauses, then tries with a single row, and nothing is counted meanwhile.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::journal::EventName;
use super::parts::OutboxParts;
use super::row::{delivered, failed};
use super::table::Outbox;
use crate::backoff::backoff;
use crate::gateway::pubsub::error::Fault;
use crate::gateway::pubsub::publisher::{PublishError, PubsubPublisher};
use crate::journal;
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::{Consumer, Flow, Leased};
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::ports::RecordKind;
use crate::scrub::scrub;

/// Rows published at once; the client groups them into requests.
const AT_ONCE: usize = 512;
/// Shortest and longest pause after a failure.
const RESTS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Publishes the rows of the outbox; one per process, in any number of processes.
#[derive(Debug)]
pub struct Relay {
    consumer: Consumer<Outbox>,
    publisher: PubsubPublisher,
    clock: Arc<dyn Clock>,
    rng: Arc<Rng>,
    /// Consecutive failures, none of them a row's.
    failures: u32,
    /// Why nothing can be published; absent while events can.
    health: watch::Sender<Option<String>>,
}

/// The result of publishing one row.
enum Published {
    /// The server has the event, under this id.
    As(String),
    /// The server refused the request that carried the event.
    Refused(String),
    /// Publishing does not work now.
    Unavailable(String),
}

impl Relay {
    /// A relay for the rows of `parts`. Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(parts: &OutboxParts, listener: Listener, publisher: PubsubPublisher) -> Self {
        let (clock, rng) = (Arc::clone(&parts.clock), Arc::clone(&parts.rng));
        let consumer = Consumer::start(parts.jobs(), listener);
        Self { consumer, publisher, clock, rng, failures: 0, health: watch::Sender::new(None) }
    }

    /// Reports the relay's health to `health`, for listeners that outlive this relay.
    #[must_use]
    pub fn reporting_to(mut self, health: watch::Sender<Option<String>>) -> Self {
        self.health = health;
        self
    }

    /// Publishes until `stop`, or until the outbox is gone; then waits up to `last_words` until published rows are settled.
    pub async fn run(mut self, stop: &CancellationToken, last_words: Duration) {
        loop {
            let rows = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                rows = self.consumer.next_many(AT_ONCE) => rows,
            };
            if rows.is_empty() {
                // The outbox is gone, and its incident with it.
                self.health.send_replace(None);
                break;
            }
            let suspects = self.publish(rows).await;
            for suspect in suspects {
                // In an outage, and after a stop, another attempt would say nothing about them.
                if self.failures > 0 || stop.is_cancelled() {
                    suspect.settle(Ending::AtOnce);
                } else {
                    self.publish_alone(suspect).await;
                }
            }
            let rest = self.rest();
            if rest.is_zero() {
                continue;
            }
            self.consumer.set_flow(Flow::Shut);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.clock.sleep(rest) => self.consumer.set_flow(Flow::Trickle),
            }
        }
        if !self.consumer.stop(last_words).await {
            tracing::warn!("the last events published may not be marked so: they are published again");
        }
    }

    /// Publishes rows together. Returns those in refused requests.
    async fn publish(&mut self, rows: Vec<Leased<Outbox>>) -> Vec<Leased<Outbox>> {
        let publishing = |leased: Leased<Outbox>| async { (publish(&self.publisher, &leased).await, leased) };
        let mut publishing: FuturesUnordered<_> = rows.into_iter().map(publishing).collect();
        let (mut published, mut unavailable, mut suspects) = (false, None, Vec::new());
        while let Some((answer, leased)) = publishing.next().await {
            match answer {
                Published::As(id) => {
                    published = true;
                    leased.settle(delivered(Some(id)));
                }
                Published::Refused(_) => suspects.push(leased),
                Published::Unavailable(why) => {
                    unavailable = Some(why);
                    leased.settle(Ending::AtOnce);
                }
            }
        }
        drop(publishing);
        match unavailable {
            Some(why) => self.is_down(why),
            None if published => self.is_up(),
            None => {}
        }
        suspects
    }

    /// Publishes a row in a request of its own: a refusal is then the row's fault.
    async fn publish_alone(&mut self, leased: Leased<Outbox>) {
        match publish(&self.publisher, &leased).await {
            Published::As(id) => {
                leased.settle(delivered(Some(id)));
                self.is_up();
            }
            Published::Refused(why) => {
                let why = format!("the topic does not take it: {why}");
                leased.settle(failed(RecordKind::Unreadable, &why));
            }
            Published::Unavailable(why) => {
                leased.settle(Ending::AtOnce);
                self.is_down(why);
            }
        }
    }

    fn is_up(&mut self) {
        self.failures = 0;
        self.consumer.set_flow(Flow::Full);
        if self.health.send_replace(None).is_some() {
            journal!(info, EventName::OutboxFlowing, "events of the outbox are published again");
        }
    }

    fn is_down(&mut self, why: String) {
        self.failures = self.failures.saturating_add(1);
        self.health.send_if_modified(|health| {
            let changes = health.as_ref() != Some(&why);
            if changes {
                journal!(
                    warn,
                    EventName::OutboxStalled,
                    reason = why,
                    "events of the outbox cannot be published, they wait there"
                );
                *health = Some(why);
            }
            changes
        });
    }

    /// The pause before the next attempt.
    fn rest(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => self.rng.with(|rng| backoff(failures, RESTS.0, RESTS.1, rng)),
        }
    }
}

async fn publish(publisher: &PubsubPublisher, leased: &Leased<Outbox>) -> Published {
    let message = &leased.row.columns;
    match publisher.publish(message.attributes(), message.payload.clone()).await {
        Ok(id) => Published::As(id),
        Err(error) => {
            let said = scrub(&error.to_string());
            match &error {
                PublishError::Pubsub(error) if error.fault == Fault::Refused => Published::Refused(said),
                PublishError::Pubsub(_) | PublishError::Settings(_) => Published::Unavailable(said),
            }
        }
    }
}
