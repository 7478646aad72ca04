//! Receives from one subscription over StreamingPull.
//!
//! The client reads its stream only while it is polled, and a poll that is given up throws an opening stream away.
//! So each stream has a task of its own that never stops reading: messages wait in our buffer, where their leases
//! are extended, and not unseen in a socket, where they would expire and spend delivery attempts. Pub/Sub sends at
//! most `max_outstanding` unanswered messages a stream, and the buffer holds as many.
//!
//! If we die in the middle, everything unanswered comes again after the ack deadline. Never acks by itself; never
//! looks into a message.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use google_cloud_pubsub::client::Subscriber;
use google_cloud_pubsub::model::Message;
use google_cloud_pubsub::subscriber::handler::Handler;
use google_cloud_pubsub::subscriber::{MessageStream, ShutdownBehavior, ShutdownToken};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::PubsubSettings;
use super::error::PubsubError;
use crate::ports::{EventSource, Incoming, Settle, SourceError, Verdict};

/// Messages of one subscription. Dropping it gives back everything unanswered, in the background; [`EventSource::stop`]
/// waits for that.
#[derive(Debug)]
pub struct PubsubSource {
    subscription: String,
    incoming: mpsc::Receiver<Result<Incoming, SourceError>>,
    streams: Vec<Stream>,
    halt: CancellationToken,
}

#[derive(Debug)]
struct Stream {
    reader: JoinHandle<()>,
    /// Resolves when the client has handed in its last answers.
    settled: ShutdownToken,
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
        let streams = (0..settings.streams)
            .map(|_| {
                let stream = subscribe(&client, settings, subscription);
                let settled = stream.shutdown_token();
                let reader = read(stream, subscription.to_owned(), messages.clone(), halt.clone());
                Stream { reader: tokio::spawn(reader), settled }
            })
            .collect();
        Ok(Self { subscription: subscription.to_owned(), incoming, streams, halt })
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

    fn stop(self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool> {
        let Self { incoming, streams, halt, .. } = *self;
        async move {
            let quiet = async {
                halt.cancel();
                // The streams first, the answers after: a message nacked while its stream is open comes straight
                // back to it, unread, and is stuck there until its deadline.
                let (readers, tokens): (Vec<_>, Vec<_>) =
                    streams.into_iter().map(|stream| (stream.reader, stream.settled)).unzip();
                let all_readers_ended = join_all(readers).await.into_iter().all(|joined| joined.is_ok());
                drop(incoming);
                join_all(tokens.iter().map(ShutdownToken::shutdown)).await;
                all_readers_ended
            };
            tokio::time::timeout(timeout, quiet).await.unwrap_or(false)
        }
        .boxed()
    }
}

fn subscribe(client: &Subscriber, settings: &PubsubSettings, subscription: &str) -> MessageStream {
    client
        .subscribe(subscription)
        .set_max_outstanding_messages(settings.max_outstanding)
        .set_max_lease(settings.max_lease)
        .set_max_lease_extension(settings.ack_deadline)
        .set_shutdown_behavior(ShutdownBehavior::NackImmediately)
        .build()
}

/// Reads one stream until it ends, the source is dropped, or it is told to halt. Dropping `stream` at the end closes
/// it and lets the client hand in what is still unanswered.
async fn read(
    mut stream: MessageStream,
    subscription: String,
    messages: mpsc::Sender<Result<Incoming, SourceError>>,
    halt: CancellationToken,
) {
    loop {
        let received = tokio::select! {
            biased;
            () = halt.cancelled() => return,
            () = messages.closed() => return,
            received = stream.next() => received,
        };
        let message = match received {
            Some(Ok((message, handler))) => Ok(incoming(message, handler)),
            Some(Err(error)) => Err(PubsubError::of(&error, &subscription).into()),
            None => Err(SourceError::Ended { subscription: subscription.clone() }),
        };
        let last = message.is_err();
        let passed_on = tokio::select! {
            biased;
            () = halt.cancelled() => return,
            sent = messages.send(message) => sent.is_ok(),
        };
        if last || !passed_on {
            return;
        }
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
            Verdict::Ack => handler.ack(),
            Verdict::Nack => handler.nack(),
        }),
    }
}
