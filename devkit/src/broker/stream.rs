//! One StreamingPull: hands out messages as its window allows, takes acks and deadline changes, ends when it is
//! ordered to. When it ends, for whatever reason, what it handed out stays leased until its deadline. Never polls:
//! it sleeps until something arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::catalog::EndOrder;
use super::engine::{self, Engine};
use super::error::BrokerError;
use super::proto::streaming_pull_response::SubscriptionProperties;
use super::proto::{StreamingPullRequest, StreamingPullResponse};
use super::queue::{StreamId, Taker};
use super::spec;

/// The client's stream of responses.
pub(super) type Responses = ReceiverStream<Result<StreamingPullResponse, Status>>;

/// Opens a stream with its first request and leaves it running.
pub(super) async fn open(
    engine: Arc<Engine>,
    mut requests: Streaming<StreamingPullRequest>,
) -> Result<Responses, Status> {
    let Some(first) = requests.message().await? else {
        return Err(BrokerError::Invalid("A StreamingPull needs an initial request.".to_owned()).into());
    };
    let pull = StreamingPull::open(engine, &first)?;
    pull.obey(&first)?;
    // One pending response at most: a client that does not read keeps nothing leased but what is on its way.
    let (responses, receiver) = mpsc::channel(1);
    tokio::spawn(pull.run(requests, responses));
    Ok(ReceiverStream::new(receiver))
}

/// One open stream; dropping it closes its window.
#[derive(Debug)]
struct StreamingPull {
    engine: Arc<Engine>,
    subscription: String,
    /// Which subscription of that name: it may be deleted and made anew under us.
    key: u64,
    id: StreamId,
    /// Lease of what is handed out, in seconds; later requests may change it.
    lease: AtomicU64,
    arrivals: Arc<Notify>,
    orders: watch::Receiver<EndOrder>,
}

impl StreamingPull {
    fn open(engine: Arc<Engine>, first: &StreamingPullRequest) -> Result<Self, BrokerError> {
        let lease = spec::stream_ack_deadline(first.stream_ack_deadline_seconds)?;
        let opened = engine.with_subscription(&first.subscription, |subscription| {
            if let Some(code) = subscription.refuse {
                return Err(BrokerError::Injected(code));
            }
            let id =
                subscription.queue.open_window(first.max_outstanding_messages, first.max_outstanding_bytes);
            Ok((subscription.key, id, Arc::clone(&subscription.arrivals), subscription.orders.subscribe()))
        });
        let (key, id, arrivals, orders) = opened?;
        let subscription = first.subscription.clone();
        Ok(Self { engine, subscription, key, id, lease: AtomicU64::new(lease.as_secs()), arrivals, orders })
    }

    /// Runs until an end comes from either side, and tells the client of ours.
    async fn run(
        self,
        requests: Streaming<StreamingPullRequest>,
        responses: mpsc::Sender<Result<StreamingPullResponse, Status>>,
    ) {
        let mut orders = self.orders.clone();
        let ended = tokio::select! {
            ended = self.deliver(&responses) => ended,
            ended = self.listen(requests) => ended,
            ordered = orders.changed() => match ordered {
                Ok(()) => self.obituary(orders.borrow_and_update().0),
                Err(_) => self.obituary(Code::NotFound),
            },
            () = self.engine.closing.cancelled() => {
                Err(BrokerError::Unavailable("the broker is stopping").into())
            }
            () = responses.closed() => Ok(()),
        };
        drop(self);
        if let Err(status) = ended
            && responses.send(Err(status)).await.is_err()
        {
            tracing::trace!("the client left before it could be sent why its stream ended");
        }
    }

    /// Hands out what arrives, for ever.
    async fn deliver(
        &self,
        responses: &mpsc::Sender<Result<StreamingPullResponse, Status>>,
    ) -> Result<(), Status> {
        loop {
            // Room first, then a lease: nothing is leased that could not be sent on.
            let Ok(room) = responses.reserve().await else { return Ok(()) };
            let received_messages = self.next_batch().await?;
            let subscription_properties = Some(SubscriptionProperties::default());
            room.send(Ok(StreamingPullResponse { received_messages, subscription_properties }));
            // Lets the other streams of this subscription have their share.
            tokio::task::yield_now().await;
        }
    }

    async fn next_batch(&self) -> Result<Vec<super::proto::ReceivedMessage>, BrokerError> {
        loop {
            // Registered before looking, so that an arrival in between is not missed.
            let arrived = self.arrivals.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            let lease = Duration::from_secs(self.lease.load(Ordering::Relaxed));
            let batch = self.engine.with_subscription(&self.subscription, |subscription| {
                if subscription.key != self.key {
                    return Err(BrokerError::NotFound(self.subscription.clone()));
                }
                Ok(engine::take(subscription, Taker::Stream(self.id), lease))
            })?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            arrived.await;
        }
    }

    /// Carries out the client's requests until it closes its half.
    async fn listen(&self, mut requests: Streaming<StreamingPullRequest>) -> Result<(), Status> {
        loop {
            match requests.message().await {
                Ok(Some(request)) if request.subscription.is_empty() => self.obey(&request)?,
                Ok(Some(_)) => {
                    let why = "Only the initial request of a StreamingPull may name the subscription.";
                    return Err(BrokerError::Invalid(why.to_owned()).into());
                }
                // A reset by the client is its way of closing.
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    /// Acks, deadline changes and the lease of what follows; ack ids that are not ours are passed over.
    fn obey(&self, request: &StreamingPullRequest) -> Result<(), BrokerError> {
        if request.stream_ack_deadline_seconds != 0 {
            let lease = spec::stream_ack_deadline(request.stream_ack_deadline_seconds)?;
            self.lease.store(lease.as_secs(), Ordering::Relaxed);
        }
        if request.modify_deadline_ack_ids.len() != request.modify_deadline_seconds.len() {
            let why = "modify_deadline_seconds and modify_deadline_ack_ids must have the same length.";
            return Err(BrokerError::Invalid(why.to_owned()));
        }
        let leases = request.modify_deadline_seconds.iter().map(|seconds| spec::modified_deadline(*seconds));
        let leases = leases.collect::<Result<Vec<_>, _>>()?;
        if request.ack_ids.is_empty() && leases.is_empty() {
            return Ok(());
        }
        self.engine.with(|catalog| {
            let Ok(subscription) = catalog.subscription_mut(&self.subscription) else { return };
            let acks: Vec<_> = request.ack_ids.iter().filter_map(|id| subscription.delivery(id)).collect();
            engine::ack_all(subscription, &acks);
            let changes = request.modify_deadline_ack_ids.iter().zip(leases);
            let changes: Vec<_> =
                changes.filter_map(|(id, lease)| Some((subscription.delivery(id)?, lease))).collect();
            engine::modify_all(catalog, &self.subscription, changes.into_iter());
        });
        Ok(())
    }

    /// The status for the client when the stream is ended from here; nothing but a clean end for `Ok`.
    fn obituary(&self, code: Code) -> Result<(), Status> {
        let text = match code {
            Code::Ok => return Ok(()),
            Code::NotFound => return Err(BrokerError::NotFound(self.subscription.clone()).into()),
            Code::Unavailable => "The service was unable to fulfill your request. Please try again.",
            Code::Cancelled
            | Code::Unknown
            | Code::InvalidArgument
            | Code::DeadlineExceeded
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated => "fault injected by a test",
        };
        Err(Status::new(code, text))
    }
}

impl Drop for StreamingPull {
    fn drop(&mut self) {
        self.engine.with(|catalog| {
            if let Ok(subscription) = catalog.subscription_mut(&self.subscription)
                && subscription.key == self.key
            {
                subscription.queue.close_window(self.id);
            }
        });
    }
}
