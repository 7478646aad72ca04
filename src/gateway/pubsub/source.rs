//! Receives from one subscription over StreamingPull.
//!
//! The client reads its stream only while it is polled, and a poll that is given up throws an opening stream away.
//! So each stream has a task of its own that never stops reading: messages wait in our buffer, where their leases
//! are extended, and not unseen in a socket, where they would expire and spend delivery attempts. Pub/Sub sends at
//! most `max_outstanding` unanswered messages a stream, and the buffer has room for as many.
//!
//! A closed stream leaves the messages it handed out in work: the client goes on extending those leases, and hands
//! in the answers, until the last one is given (`WaitForProcessing`). If we die in the middle, everything
//! unanswered comes again after the ack deadline. The source never acks by itself and never looks into a message.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use google_cloud_pubsub::client::Subscriber;
use google_cloud_pubsub::model::Message;
use google_cloud_pubsub::subscriber::handler::Handler;
use google_cloud_pubsub::subscriber::{MessageStream, ShutdownBehavior, ShutdownToken};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::PubsubSettings;
use super::error::PubsubError;
use crate::ports::{Acknowledgement, EventSource, Incoming, Settle, SourceError};

/// Messages of one subscription. Dropping it closes its streams and gives back the messages not handed out, in the
/// background; those handed out can still be answered. [`EventSource::stop`] waits for all of that.
#[derive(Debug)]
pub struct PubsubSource {
    subscription: String,
    incoming: mpsc::Receiver<Result<Incoming, SourceError>>,
    readers: JoinSet<()>,
    /// One per stream: resolves when everything it handed out is answered and the client has handed in the answers.
    settled: Vec<ShutdownToken>,
    halt: CancellationToken,
}

impl PubsubSource {
    /// Receives routing events. Must be called inside a tokio runtime; connects in the background, so a server that
    /// cannot be reached, or an unknown subscription, shows at [`EventSource::next`].
    ///
    /// # Errors
    /// No credentials, or an endpoint that is none.
    pub async fn open(settings: &PubsubSettings) -> Result<Self, PubsubError> {
        Self::open_on(settings, &settings.subscription).await
    }

    /// The same for another subscription (full name), e.g. the dead-letter one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_on(settings: &PubsubSettings, subscription: &str) -> Result<Self, PubsubError> {
        let client = settings.subscriber().await?;
        let room = u64::from(settings.max_outstanding) * u64::from(settings.streams);
        let (messages, incoming) = mpsc::channel(usize::try_from(room).unwrap_or(usize::MAX).max(1));
        let halt = CancellationToken::new();
        let (mut readers, mut settled) = (JoinSet::new(), Vec::new());
        for _ in 0..settings.streams {
            let stream = subscribe(&client, settings, subscription);
            settled.push(stream.shutdown_token());
            let reader = Reader {
                subscription: subscription.to_owned(),
                messages: messages.clone(),
                halt: halt.clone(),
                most: usize::try_from(settings.max_outstanding).unwrap_or(usize::MAX),
            };
            readers.spawn(reader.read(stream));
        }
        Ok(Self { subscription: subscription.to_owned(), incoming, readers, settled, halt })
    }

    /// Messages received and not yet asked for.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.incoming.len()
    }
}

impl EventSource for PubsubSource {
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
        async {
            let ended = || Err(SourceError::Ended { subscription: self.subscription.clone() });
            self.incoming.recv().await.unwrap_or_else(ended)
        }
        .boxed()
    }

    fn quiet(&mut self) -> BoxFuture<'_, ()> {
        async {
            self.halt.cancel();
            // The streams first, then the buffered messages: a message nacked while its stream is open comes
            // straight back to it.
            while let Some(ended) = self.readers.join_next().await {
                if let Err(error) = ended {
                    tracing::error!("a reader of {} ended abnormally: {error}", self.subscription);
                }
            }
            self.incoming.close();
            while let Ok(given_back) = self.incoming.try_recv() {
                drop(given_back);
            }
        }
        .boxed()
    }

    fn stop(mut self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool> {
        async move {
            let settled = async {
                self.quiet().await;
                join_all(self.settled.iter().map(ShutdownToken::shutdown)).await;
            };
            tokio::time::timeout(timeout, settled).await.is_ok()
        }
        .boxed()
    }
}

impl Drop for PubsubSource {
    fn drop(&mut self) {
        // The readers see to their streams themselves; cut off, they would leave unread messages leased.
        self.halt.cancel();
        self.readers.detach_all();
    }
}

fn subscribe(client: &Subscriber, settings: &PubsubSettings, subscription: &str) -> MessageStream {
    client
        .subscribe(subscription)
        .set_max_outstanding_messages(settings.max_outstanding)
        .set_max_lease(settings.max_lease)
        .set_max_lease_extension(settings.ack_deadline)
        // A stream is also closed to be rebuilt: messages in work then must not cost a delivery attempt.
        .set_shutdown_behavior(ShutdownBehavior::WaitForProcessing)
        .build()
}

/// Moves messages from one stream into the buffer.
struct Reader {
    subscription: String,
    messages: mpsc::Sender<Result<Incoming, SourceError>>,
    halt: CancellationToken,
    /// Unanswered messages the server sends at most.
    most: usize,
}

impl Reader {
    /// Reads until the stream ends or the source halts; then closes the stream and gives back late messages.
    async fn read(self, mut stream: MessageStream) {
        let Self { subscription, messages, halt, most } = self;
        let mut too_late = Vec::new();
        // An endless supply must not keep a halted reader going; a server that keeps to its window never gets there.
        while too_late.len() < most {
            let received = tokio::select! {
                // Messages that have arrived come before the halt: left inside the client, they would stay leased,
                // and unseen by everyone, until the last message in work is answered. And a `next` that is given up
                // here and asked anew would open a second stream.
                biased;
                received = stream.next() => received,
                () = halt.cancelled() => break,
            };
            let message = match received {
                Some(Ok((message, handler))) => Ok(incoming(message, handler)),
                Some(Err(error)) => Err(PubsubError::of(&error, &subscription).into()),
                None => Err(SourceError::Ended { subscription: subscription.clone() }),
            };
            let last = message.is_err();
            tokio::select! {
                biased;
                () = halt.cancelled() => too_late.push(message),
                room = messages.reserve() => match room {
                    Ok(room) => room.send(message),
                    Err(_) => too_late.push(message),
                },
            }
            if last {
                break;
            }
        }
        // In this order, as in `quiet`.
        drop(stream);
        drop(too_late);
    }
}

fn incoming(message: Message, handler: Handler) -> Incoming {
    Incoming {
        message_id: message.message_id,
        published_at: message.publish_time.and_then(|at| Timestamp::new(at.seconds(), at.nanos()).ok()),
        delivery_attempt: handler.delivery_attempt(),
        attributes: message.attributes.into_iter().collect(),
        data: message.data,
        settle: Settle::new(move |verdict| match verdict {
            Acknowledgement::Ack => handler.ack(),
            // Pub/Sub counts deliveries and dead-letters by itself: each of these is one more.
            Acknowledgement::Nack | Acknowledgement::Reject | Acknowledgement::Exhaust => handler.nack(),
        }),
    }
}
