//! Events straight from the outbox, without a broker: `source.kind = "postgres"`, where schema `router` exists.
//!
//! A row is leased until the routing has answered, and settled in batches. If we die, leases run out and the rows come
//! again; so does an answer that was not written. The row's own attempts count only unreadable rows and rows that name no
//! submission: the ledger counts the routing's.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::JoinSet;

use super::parts::OutboxParts;
use super::row::{delivered, failed, message_id};
use super::store::OutboxStore;
use super::table::Outbox;
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::{Consumer, ConsumerParts, Flow, Leased, Settings};
use crate::kernel::rows::Row;
use crate::ops::metrics::{CANARIES, CanaryResult};
use crate::ports::RecordKind;
use crate::ports::{Acknowledgement, Clock, EventSource, Incoming, Settle, SourceError};

/// The longest pause between two looks: a submission that comes after an idle hour waits no longer than that, and so do those that
/// come meanwhile. Twenty looks a second take the database a thousandth of a processor.
const IDLE: Duration = Duration::from_millis(50);

/// The source's name in errors.
pub const NAME: &str = "the outbox (router.outbox)";

/// Events of the outbox. Dropping it stops claiming; events already handed out can still be answered.
#[derive(Debug)]
pub struct OutboxSource {
    consumer: Consumer<Outbox>,
    /// Writes canaries.
    _canaries: JoinSet<()>,
}

impl OutboxSource {
    /// Starts claiming rows, and writes a canary every `canary`. Must be called inside a tokio runtime.
    #[must_use]
    pub fn open(parts: &OutboxParts, listener: Listener, canary: Option<Duration>) -> Self {
        let mut canaries = JoinSet::new();
        if let Some(every) = canary {
            canaries.spawn(sing(parts.store.clone(), Arc::clone(&parts.clock), every));
        }
        // An event that comes again finds a submission that is claimed, or has ended; and its claim is committed after that of
        // the event.
        let jobs = parts.jobs();
        let settings = Settings { idle: IDLE, ..jobs.settings };
        let jobs = ConsumerParts { rows: jobs.rows.unawaited(), settings, ..jobs };
        Self { consumer: Consumer::start(jobs, listener), _canaries: canaries }
    }
}

/// Writes a canary every `every`: a row without meaning, whose arrival proves that the path is open.
async fn sing(store: OutboxStore, clock: Arc<dyn Clock>, every: Duration) {
    loop {
        clock.sleep(every).await;
        // The breaker reports a silent database, and silence is the point of a canary.
        let well = store.canary().await.is_ok();
        CANARIES.add(if well { CanaryResult::Published } else { CanaryResult::Unpublished }, 1);
    }
}

impl EventSource for OutboxSource {
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
        async {
            match self.consumer.next().await {
                Some(leased) => Ok(incoming(leased)),
                None => Err(SourceError::Ended { subscription: NAME.to_owned() }),
            }
        }
        .boxed()
    }

    fn pause(&mut self) -> BoxFuture<'_, ()> {
        self.consumer.set_flow(Flow::Shut);
        std::future::ready(()).boxed()
    }

    fn resume(&mut self) {
        self.consumer.set_flow(Flow::Full);
    }

    fn quiet(&mut self) -> BoxFuture<'_, ()> {
        self.consumer.quiet();
        std::future::ready(()).boxed()
    }

    fn stop(self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool> {
        self.consumer.stop(timeout).boxed()
    }
}

fn incoming(leased: Leased<Outbox>) -> Incoming {
    let row = &leased.row;
    Incoming {
        message_id: message_id(row),
        published_at: Some(row.columns.created_at),
        delivery_attempt: i32::try_from(row.claims).ok(),
        attributes: row.columns.attributes(),
        data: row.columns.payload.clone(),
        settle: Settle::new(move |verdict| {
            let ending = ending(verdict, &leased.row);
            leased.settle(ending);
        }),
    }
}

/// Returns the ending for an answer: the answer judges the event, the row knows the submission it names.
fn ending(verdict: Acknowledgement, row: &Row<Outbox>) -> Ending<Outbox> {
    match verdict {
        Acknowledgement::Ack | Acknowledgement::Exhaust => delivered(None),
        Acknowledgement::Nack => Ending::Again,
        Acknowledgement::Reject if row.columns.submission().is_some() => {
            failed(RecordKind::UnknownSubmission, "it names a submission that does not exist")
        }
        Acknowledgement::Reject => failed(RecordKind::Unreadable, "it cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::outbox::row::Message;
    use crate::outbox::table::State;

    fn row(kind: &str, payload: &str) -> Row<Outbox> {
        let payload = Bytes::from(payload.to_owned());
        let columns = Message { kind: kind.to_owned(), payload, created_at: Timestamp::UNIX_EPOCH };
        let token = Some(Uuid::nil());
        Row { id: 7, state: State::Delivering, attempts: 1, claims: 1, token, version: None, columns }
    }

    #[test]
    fn only_a_rejected_event_is_the_rows_fault() {
        let good = format!(r#"{{"submission_id":"{}"}}"#, Uuid::nil());
        let failed = |unreadable: bool| Some(if unreadable { "unreadable" } else { "unknown_submission" });
        let cases = [
            (Acknowledgement::Ack, "routing.ready", good.as_str(), None),
            (Acknowledgement::Exhaust, "routing.ready", good.as_str(), None),
            (Acknowledgement::Nack, "routing.ready", good.as_str(), None),
            (Acknowledgement::Reject, "routing.ready", good.as_str(), failed(false)),
            (Acknowledgement::Reject, "routing.seen", good.as_str(), failed(true)),
            (Acknowledgement::Reject, "routing.ready", "[]", failed(true)),
            (Acknowledgement::Reject, "routing.ready", r#"{"submission_id":7}"#, failed(true)),
        ];
        for (verdict, kind, payload, expected) in cases {
            let seen = match ending(verdict, &row(kind, payload)) {
                Ending::Failed { columns, .. } => columns.map(|columns| columns["dead_letter"].clone()),
                Ending::Done { .. } => {
                    assert_ne!(verdict, Acknowledgement::Nack);
                    None
                }
                Ending::Again | Ending::AtOnce | Ending::After(_) => {
                    assert_eq!(verdict, Acknowledgement::Nack);
                    None
                }
                given_up @ Ending::GivenUp { .. } => panic!("{given_up:?}"),
            };
            assert_eq!(
                seen.as_ref().and_then(|seen| seen.as_str()),
                expected,
                "{verdict:?} {kind} {payload}"
            );
        }
    }
}
