//! The receiver: puts what comes into the queue of this side, and acknowledges it then. If we die before that, it comes once more.
//!
//! While the database is away, what has come is held: Pub/Sub extends its lease, and an outage gives nothing up. What no queue can hold is buried
//! at once: nobody could make anything of it later either.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::relay::{ID, WRITTEN};
use super::{DRAIN, Link, RESTS};
use crate::backoff::backoff;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::probe::{ProbeEvent, probe};
use crate::gateway::pubsub::source::PubsubSource;
use crate::grading::journal;
use crate::grading::queue::{Buried, is_the_messages};
use crate::kernel::tasks::Tasks;
use crate::ops::supervised::{Rebuild, Report, Supervised};
use crate::ports::{EventSource, Incoming, SourceError};
use crate::scrub::scrub;

/// Messages held at once.
const AT_ONCE: u32 = 256;

/// Receives until `stop`.
pub(super) async fn run(link: &Link, stop: &CancellationToken) {
    let settings = PubsubSettings { max_outstanding: AT_ONCE, ..link.receiving.clone() };
    let mut source = supervised(link, settings.clone());
    let mut beside = Tasks::new();
    beside.spawn("probe of grading's subscription", {
        let (link, rebuild) = (link.clone(), source.rebuild());
        move |_| async move { watched(&link, &settings, &rebuild).await }
    });
    while let Some(Ok(message)) = stop.run_until_cancelled(source.next()).await {
        if !taken(link, message, stop).await {
            break;
        }
    }
    beside.stop(Duration::ZERO).await;
    Box::new(source).stop(DRAIN).await;
}

/// The subscription, over a stream that is built again whenever it ends.
fn supervised(link: &Link, settings: PubsubSettings) -> Supervised {
    let open = Box::new(move || -> BoxFuture<'static, Result<Box<dyn EventSource>, SourceError>> {
        let settings = settings.clone();
        async move { Ok(Box::new(PubsubSource::open(&settings).await?) as Box<dyn EventSource>) }.boxed()
    });
    let (arrivals, clock) = (link.arrivals.clone(), std::sync::Arc::clone(&link.clock));
    let (queue, seed) = (link.ends.receives(), link.rng.uuid().as_u64_pair().0);
    let mut is_lost = false;
    Supervised::new(open, seed, move |report| match report {
        Report::Lost { error, .. } => {
            arrivals.lost(clock.monotonic());
            if !std::mem::replace(&mut is_lost, true) {
                journal::link_lost(queue, &scrub(&error.to_string()));
            }
        }
        Report::Discarded => {}
        Report::Opened => arrivals.reached(clock.monotonic()),
        Report::Flowing => {
            if std::mem::take(&mut is_lost) {
                journal::link_found(queue);
            }
        }
    })
}

/// Asks whether the subscription is within reach: a stream that has lost its server says nothing.
async fn watched(link: &Link, settings: &PubsubSettings, rebuild: &Rebuild) {
    let queue = link.ends.receives();
    let watching = probe(settings, rebuild, |event| match event {
        ProbeEvent::Lost(error) => {
            link.arrivals.lost(link.clock.monotonic());
            journal::link_lost(queue, &scrub(&error.to_string()));
        }
        ProbeEvent::Found => {
            link.arrivals.reached(link.clock.monotonic());
            journal::link_found(queue);
        }
    });
    if let Err(error) = watching.await {
        journal::link_lost(queue, &scrub(&error.to_string()));
    }
}

/// A message that has come, without the right to answer it.
struct Held {
    id: Uuid,
    /// The message's id in Pub/Sub.
    name: String,
    data: Bytes,
    /// Time at which it was written; at the latest, that of its publication.
    written: Option<Timestamp>,
}

impl Held {
    fn of(message: &mut Incoming) -> Self {
        let named = |name: &str| message.attributes.get(name);
        // A message that was published by hand names neither.
        let id = named(ID).and_then(|id| id.parse().ok());
        let written = named(WRITTEN).and_then(|at| at.parse().ok()).or(message.published_at);
        Self {
            id: id.unwrap_or_else(|| Uuid::new_v5(&Uuid::NAMESPACE_OID, message.message_id.as_bytes())),
            name: std::mem::take(&mut message.message_id),
            data: std::mem::take(&mut message.data),
            written,
        }
    }
}

/// Puts a message into its queue, however often that has to be tried. Returns whether it was: at a stop it goes back.
async fn taken(link: &Link, mut message: Incoming, stop: &CancellationToken) -> bool {
    let held = Held::of(&mut message);
    let mut failures = 0;
    while let Err(error) = put(link, &held).await {
        failures += 1;
        tracing::debug!(message = %held.id, "it is put into its queue again: {error}");
        let rest = link.rng.with(|rng| backoff(failures, RESTS.0, RESTS.1, rng));
        if stop.run_until_cancelled(link.clock.sleep(rest)).await.is_none() {
            return false;
        }
    }
    message.settle.ack();
    true
}

/// Puts a message into its queue, or buries it. An error is the database's.
async fn put(link: &Link, held: &Held) -> Result<(), String> {
    let detail = match std::str::from_utf8(&held.data) {
        Ok(payload) => {
            let written = held.written.unwrap_or(Timestamp::UNIX_EPOCH);
            match link.ends.arrived(held.id, payload, written).await {
                Ok(age) => {
                    if held.written.is_some() {
                        link.arrivals.came(age, link.clock.monotonic());
                    }
                    return Ok(());
                }
                Err(error) if is_the_messages(&error) => "it is no JSON that can be kept",
                Err(error) => return Err(scrub(&error.to_string())),
            }
        }
        Err(_) => "it is no text",
    };
    let queue = link.ends.receives();
    let buried = link.ends.bury(held.id, held.data.len(), &held.name, detail).await;
    buried.map_err(|error| scrub(&error.to_string()))?;
    journal::buried(queue, held.id, Buried::Unreadable, detail);
    Ok(())
}
