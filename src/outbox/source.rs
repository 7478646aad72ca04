//! Events straight from the outbox, without any broker: what `source.kind = "postgres"` is where schema `router` is there.
//!
//! A row is held on a lease until the routing has settled it, and settled in batches. If we die, leases run out and the
//! rows come again; so does what was answered and not written. The row's own attempts count only what cannot be read,
//! or names no submission: the ledger counts the routing's.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::JoinSet;

use super::bell::Bell;
use super::feed::{Feed, FeedParts, Flow, Leased};
use super::row::{Ending, Row};
use crate::ops::metrics::{self, CanaryResult};
use crate::ports::{EventSource, Incoming, Settle, SourceError, Verdict};

/// What this source is called in errors.
pub const NAME: &str = "the outbox (router.outbox)";

/// Events of the outbox. Dropping it takes no more; what was handed out can still be answered.
#[derive(Debug)]
pub struct OutboxSource {
    feed: Feed,
    /// Writes canaries.
    _canaries: JoinSet<()>,
}

impl OutboxSource {
    /// Begins to take rows, and writes a canary every `canary`. Must be called inside a tokio runtime.
    #[must_use]
    pub fn open(parts: FeedParts, bell: Bell, canary: Option<Duration>) -> Self {
        let mut canaries = JoinSet::new();
        if let Some(every) = canary {
            canaries.spawn(sing(parts.clone(), every));
        }
        Self { feed: Feed::start(parts, bell), _canaries: canaries }
    }
}

/// A row that goes the whole way and means nothing: whoever hears of it knows that the way is open.
async fn sing(parts: FeedParts, every: Duration) {
    loop {
        parts.clock.sleep(every).await;
        // That the database does not answer tells its breaker, and silence is the point of a canary.
        let well = parts.store.canary().await.is_ok();
        metrics::canary(if well { CanaryResult::Published } else { CanaryResult::Unpublished });
    }
}

impl EventSource for OutboxSource {
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
        async {
            match self.feed.next().await {
                Some(leased) => Ok(incoming(leased)),
                None => Err(SourceError::Ended { subscription: NAME.to_owned() }),
            }
        }
        .boxed()
    }

    fn pause(&mut self) -> BoxFuture<'_, ()> {
        self.feed.set_flow(Flow::Shut);
        std::future::ready(()).boxed()
    }

    fn resume(&mut self) {
        self.feed.set_flow(Flow::Full);
    }

    fn quiet(&mut self) -> BoxFuture<'_, ()> {
        self.feed.quiet();
        std::future::ready(()).boxed()
    }

    fn stop(self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool> {
        self.feed.stop(timeout).boxed()
    }
}

fn incoming(leased: Leased) -> Incoming {
    let row = &leased.row;
    Incoming {
        message_id: row.message_id(),
        published_at: Some(row.created_at),
        delivery_attempt: i32::try_from(row.claims).ok(),
        attributes: row.attributes(),
        data: row.payload.clone(),
        settle: Settle::new(move |verdict| {
            let ending = ending(verdict, &leased.row);
            leased.settle(ending);
        }),
    }
}

/// What an answer means for the row: whoever answers knows the event, the row knows what it names.
fn ending(verdict: Verdict, row: &Row) -> Ending {
    match verdict {
        Verdict::Ack | Verdict::Exhaust => Ending::Delivered(None),
        Verdict::Nack => Ending::Again,
        Verdict::Reject if row.submission().is_some() => {
            Ending::Failed { why: "it names a submission that does not exist".to_owned(), unreadable: false }
        }
        Verdict::Reject => Ending::Failed { why: "it cannot be read".to_owned(), unreadable: true },
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn row(kind: &str, payload: &str) -> Row {
        Row {
            id: 7,
            kind: kind.to_owned(),
            payload: Bytes::from(payload.to_owned()),
            attempts: 1,
            claims: 1,
            created_at: Timestamp::UNIX_EPOCH,
            token: Uuid::nil(),
        }
    }

    #[test]
    fn only_a_rejected_event_is_the_rows_fault() {
        let good = format!(r#"{{"submission_id":"{}"}}"#, Uuid::nil());
        let failed = |unreadable| Some(unreadable);
        let cases = [
            (Verdict::Ack, "routing.ready", good.as_str(), None),
            (Verdict::Exhaust, "routing.ready", good.as_str(), None),
            (Verdict::Nack, "routing.ready", good.as_str(), None),
            (Verdict::Reject, "routing.ready", good.as_str(), failed(false)),
            (Verdict::Reject, "routing.seen", good.as_str(), failed(true)),
            (Verdict::Reject, "routing.ready", "[]", failed(true)),
            (Verdict::Reject, "routing.ready", r#"{"submission_id":7}"#, failed(true)),
        ];
        for (verdict, kind, payload, expected) in cases {
            let seen = match ending(verdict, &row(kind, payload)) {
                Ending::Failed { unreadable, .. } => Some(unreadable),
                Ending::Delivered(_) => {
                    assert_ne!(verdict, Verdict::Nack);
                    None
                }
                Ending::Again | Ending::AtOnce => {
                    assert_eq!(verdict, Verdict::Nack);
                    None
                }
            };
            assert_eq!(seen, expected, "{verdict:?} {kind} {payload}");
        }
    }
}
