//! An embedded Pub/Sub broker: the real google.pubsub.v1, over gRPC and HTTP/JSON on one port, for tests and the demo.
//! Official clients talk to it unchanged. All state is in memory and ends with the broker, as is right for a test.
//!
//! Reading order: `names`, `rules` and `queue` are the semantics, `catalog` joins them, `engine` has the lock and the timer,
//! `stream` is StreamingPull, `grpc` and `rest` are the two protocols, `server` the port.
//!
//! Not here, and refused rather than ignored: message ordering, exactly-once, filters, push, snapshots, schemas, IAM.

mod catalog;
mod clock;
mod engine;
mod error;
mod grpc;
mod json;
mod names;
mod proto;
mod queue;
mod rest;
mod rules;
mod server;
mod spec;
mod stream;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
pub use tonic::Code;

pub use self::error::BrokerError;
pub use self::queue::Stats;
pub use self::rules::{Backoff, DeadLetter};
pub use self::spec::SubscriptionSpec;

use self::catalog::EndOrder;
use self::engine::{Engine, Refusal};
use self::proto::{PublishRequest, PubsubMessage, Topic};
use crate::trap::Trapped;

/// A running broker. Dropping it cuts every connection at once; [`Broker::shutdown`] ends streams with `UNAVAILABLE`.
#[derive(Debug)]
pub struct Broker {
    engine: Arc<Engine>,
    address: SocketAddr,
    hang: watch::Sender<server::Hang>,
    /// `None` while it is down, and once [`Broker::shutdown`] waits for it.
    server: Mutex<Option<JoinHandle<()>>>,
    timer: JoinHandle<()>,
}

impl Broker {
    /// Starts a broker on `listen`; port 0 takes a free one.
    ///
    /// # Errors
    /// [`BrokerError::Listen`] where the port cannot be had.
    pub async fn start(listen: SocketAddr) -> Result<Self, BrokerError> {
        let failed = |source| BrokerError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let engine = Arc::new(Engine::new());
        let (hang, _) = watch::channel(server::Hang::default());
        let timed = Arc::clone(&engine);
        let timer = tokio::spawn(async move { timed.run_timer().await });
        let broker = Self { engine, address, hang, server: Mutex::default(), timer };
        broker.serve(listener);
        Ok(broker)
    }

    fn serve(&self, listener: TcpListener) {
        let (router, closing) = (server::router(&self.engine), self.engine.closing.clone());
        let server = tokio::spawn(server::serve(listener, router, closing, self.hang.subscribe()));
        *self.server() = Some(server);
    }

    fn server(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fault: the broker is gone: every connection is cut at once, new ones are refused. Messages are kept, as the
    /// service keeps them, leases included; [`Broker::publish`] in this process still works.
    pub async fn down(&self) {
        let server = self.server().take();
        if let Some(server) = server {
            server.abort();
            // The port is free, and nobody is served, once this is over.
            drop(server.await);
        }
    }

    /// Ends the fault of [`Broker::down`], on the same port.
    ///
    /// # Errors
    /// The port has been taken meanwhile.
    pub async fn up(&self) -> Result<(), BrokerError> {
        self.down().await;
        let failed = |source| BrokerError::Listen { address: self.address, source };
        self.serve(TcpListener::bind(self.address).await.map_err(failed)?);
        Ok(())
    }

    /// Endpoint for `with_endpoint`: `http://HOST:PORT`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Address for `PUBSUB_EMULATOR_HOST`: `HOST:PORT`.
    #[must_use]
    pub fn host_port(&self) -> String {
        self.address.to_string()
    }

    /// Ends all streams with `UNAVAILABLE`, lets connections close (for 2 s at most) and stops.
    pub async fn shutdown(self) {
        self.engine.closing.cancel();
        let server = self.server().take();
        if let Some(server) = server
            && let Err(error) = server.await
        {
            tracing::debug!(%error, "the broker's server did not end by itself");
        }
    }

    /// Creates a topic by its full name, `projects/P/topics/T`.
    ///
    /// # Errors
    /// The name is bad or taken.
    pub fn create_topic(&self, name: &str) -> Result<(), BrokerError> {
        self.engine.create_topic(Topic { name: name.to_owned(), ..Topic::default() }).map(|_| ())
    }

    /// Creates a subscription; only what is published afterwards is for it.
    ///
    /// # Errors
    /// A name is bad, the subscription exists, or a topic does not.
    pub fn create_subscription(&self, spec: SubscriptionSpec) -> Result<(), BrokerError> {
        let (description, rules) = spec.resolve();
        self.engine.add_subscription(description, rules)
    }

    /// Deletes a subscription with all it holds; its streams end with `NOT_FOUND`.
    ///
    /// # Errors
    /// No subscription has that name.
    pub fn delete_subscription(&self, name: &str) -> Result<(), BrokerError> {
        self.engine.delete_subscription(name)
    }

    /// Publishes one message and returns its id.
    ///
    /// # Errors
    /// No such topic, or the message is empty or too large.
    pub fn publish<K: Into<String>, V: Into<String>>(
        &self,
        topic: &str,
        data: impl Into<Bytes>,
        attributes: impl IntoIterator<Item = (K, V)>,
    ) -> Result<String, BrokerError> {
        let attributes = attributes.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let message = PubsubMessage { data: data.into(), attributes, ..PubsubMessage::default() };
        let published =
            self.engine.publish(PublishRequest { topic: topic.to_owned(), messages: vec![message] })?;
        Ok(published.message_ids.into_iter().next().unwrap_or_default())
    }

    /// Counts of a subscription's messages and deliveries.
    ///
    /// # Errors
    /// No subscription has that name.
    pub fn stats(&self, subscription: &str) -> Result<Stats, BrokerError> {
        self.engine.with_subscription(subscription, |subscription| Ok(subscription.queue.stats()))
    }

    /// Fault: ends all open StreamingPulls with `UNAVAILABLE`, as the service does now and then. New ones are welcome.
    ///
    /// # Errors
    /// The subscription does not exist.
    pub fn break_streams(&self, subscription: &str) -> Result<(), BrokerError> {
        self.end_streams(subscription, Code::Unavailable, None)
    }

    /// Fault: ends all open StreamingPulls with `code` and refuses new ones with it until [`Broker::mend_streams`].
    /// `Code::Ok` ends the open ones cleanly and refuses none.
    ///
    /// # Errors
    /// The subscription does not exist.
    pub fn fail_streams(&self, subscription: &str, code: Code) -> Result<(), BrokerError> {
        self.end_streams(subscription, code, Some(code).filter(|code| *code != Code::Ok))
    }

    /// Ends the fault of [`Broker::fail_streams`].
    ///
    /// # Errors
    /// The subscription does not exist.
    pub fn mend_streams(&self, subscription: &str) -> Result<(), BrokerError> {
        self.engine.with_subscription(subscription, |subscription| {
            subscription.refuse = None;
            Ok(())
        })
    }

    /// The `nth` (1: the next) Acknowledge call for this subscription stands still before it counts. Cut, it is answered
    /// and forgotten: the service promises no more of an ack.
    pub fn trap_ack(&self, subscription: &str, nth: u64) -> Trapped {
        self.engine.trap_ack(subscription, nth)
    }

    /// Fault: after the next request to publish that is refused, or never again (`false`), every other one fails: a topic
    /// that goes away while somebody looks for the message at fault.
    pub fn refuse_then_fail(&self, fails: bool) {
        self.engine.refuse_then_fail(if fails { Refusal::Awaited } else { Refusal::Harmless });
    }

    /// Requests to publish that failed since, by [`Self::refuse_then_fail`].
    #[must_use]
    pub fn failed_publishes(&self) -> usize {
        self.engine.failed_publishes()
    }

    /// Fault: while true, every connection, open or new, is accepted by the system and then neither read nor written:
    /// half-open. Afterwards they go on where they stood.
    pub fn hang(&self, hanging: bool) {
        self.hang.send_modify(|hang| hang.all = hanging);
    }

    /// Fault: every connection that is open now becomes half-open for good; new ones work. As when a firewall between
    /// forgets what it knew: only the end that waits does not notice.
    pub fn forget_connections(&self) {
        self.hang.send_modify(|hang| hang.generation += 1);
    }

    fn end_streams(&self, name: &str, code: Code, refuse: Option<Code>) -> Result<(), BrokerError> {
        self.engine.with_subscription(name, |subscription| {
            subscription.refuse = refuse;
            subscription.orders.send_replace(EndOrder(code));
            Ok(())
        })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.engine.closing.cancel();
        self.timer.abort();
        if let Some(server) = self.server().take() {
            server.abort();
        }
    }
}
