//! The relay: publishes what this side has put into its queue. A message is taken out after the topic's server has named it; if we die between
//! the two, it is published once more.
//!
//! A message that is not published is left alone for a while, and stops none of the others. Where none is, the relay pauses.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::ends::Outgoing;
use super::{Link, POLL, RESTS};
use crate::backoff::backoff;
use crate::gateway::pubsub::publisher::PubsubPublisher;
use crate::grading::journal;
use crate::kernel::jobs::listener::Listener;
use crate::ports::Attributes;
use crate::scrub::scrub;

/// Messages published at once; the client groups them into requests.
const PAGE: usize = 256;
/// Time for which no other relay gets them: longer than a publication takes.
const LEASE: Duration = Duration::from_secs(15);

/// Attribute: the message's id.
pub(super) const ID: &str = "messageId";
/// Attribute: time at which it was written.
pub(super) const WRITTEN: &str = "writtenAt";

/// Publishes until `stop`.
pub(super) async fn run(link: &Link, outgoing: &Listener, stop: &CancellationToken) {
    let (mut publisher, mut failures) = (None, 0_u32);
    while !stop.is_cancelled() {
        match pass(link, &mut publisher).await {
            Ok(0) => {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = outgoing.notifications() => {}
                    () = link.clock.sleep(POLL) => {}
                }
            }
            Ok(_) => {
                if std::mem::take(&mut failures) > 0 {
                    journal::link_found(link.ends.sends());
                }
            }
            Err(why) => {
                failures = failures.saturating_add(1);
                if failures == 1 {
                    journal::link_lost(link.ends.sends(), &why);
                }
                // The connection may be at fault.
                publisher = None;
                let rest = link.rng.with(|rng| backoff(failures, RESTS.0, RESTS.1, rng));
                stop.run_until_cancelled(link.clock.sleep(rest)).await;
            }
        }
    }
}

/// Publishes a page. Returns how many messages the topic has now, or why it has none.
async fn pass(link: &Link, publisher: &mut Option<PubsubPublisher>) -> Result<usize, String> {
    let said = |error: &dyn std::fmt::Display| scrub(&error.to_string());
    let page = link.ends.to_send(PAGE, LEASE).await.map_err(|error| said(&error))?;
    if page.is_empty() {
        return Ok(0);
    }
    if publisher.is_none() {
        *publisher = Some(PubsubPublisher::open(&link.publishing).await.map_err(|error| said(&error))?);
    }
    let (mut sent, mut why) = (Vec::with_capacity(page.len()), None);
    if let Some(publisher) = publisher {
        let mut publishing: FuturesUnordered<_> =
            page.into_iter().map(|message| published(publisher, message)).collect();
        while let Some(answer) = publishing.next().await {
            match answer {
                Ok(id) => sent.push(id),
                Err(error) => why = Some(error),
            }
        }
    }
    if !sent.is_empty() {
        // A message that stays is published once more, which changes nothing.
        link.ends.sent(&sent).await.map_err(|error| said(&error))?;
    }
    match why {
        Some(why) if sent.is_empty() => Err(why),
        Some(_) | None => Ok(sent.len()),
    }
}

async fn published(publisher: &PubsubPublisher, message: Outgoing) -> Result<Uuid, String> {
    let attributes: Attributes = [(ID, message.id.to_string()), (WRITTEN, message.written.to_string())]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    match publisher.publish(attributes, Bytes::from(message.payload)).await {
        Ok(_) => Ok(message.id),
        Err(error) => Err(scrub(&error.to_string())),
    }
}
