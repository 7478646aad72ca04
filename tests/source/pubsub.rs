//! Pub/Sub as it is used: StreamingPull from a server that speaks google.pubsub.v1, alone and under its supervisor.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use devkit::broker::{Broker, SubscriptionSpec};
use futures::FutureExt as _;
use maple_router::config;
use maple_router::gateway::pubsub::PubsubSettings;
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::ops::supervised::Open;
use maple_router::ports::EventSource;
use maple_router::routing::event::{self, Reason, RoutingEvent};
use uuid::Uuid;

use crate::rig::Rig;
use crate::supervised::Rebuilt;

const TOPIC: &str = "projects/p/topics/events";
const SUBSCRIPTION: &str = "projects/p/subscriptions/routing";
const DEAD_TOPIC: &str = "projects/p/topics/dead";
const DEAD_SUBSCRIPTION: &str = "projects/p/subscriptions/dead-sub";

/// The shortest there is.
const ACK_DEADLINE: Duration = Duration::from_secs(10);
/// Limit of each of two streams.
const OUTSTANDING: u32 = 25;

/// A stream by itself: it ends when something is wrong with it for good.
pub(crate) struct Pubsub {
    settings: PubsubSettings,
    broker: Broker,
}

impl Pubsub {
    fn stats(&self) -> devkit::broker::Stats {
        self.broker.stats(SUBSCRIPTION).unwrap()
    }
}

impl Rig for Pubsub {
    const NAME: &'static str = "Pub/Sub";
    const SHARE: usize = 2 * OUTSTANDING as usize;
    const LEASE: Duration = ACK_DEADLINE;
    const REPEATS_EXHAUSTED: bool = true;
    const PAUSES: bool = false;

    async fn set_up() -> Self {
        let broker = Broker::start((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        broker.create_topic(TOPIC).unwrap();
        broker.create_topic(DEAD_TOPIC).unwrap();
        broker.create_subscription(SubscriptionSpec::new(DEAD_SUBSCRIPTION, DEAD_TOPIC)).unwrap();
        let routing = SubscriptionSpec::new(SUBSCRIPTION, TOPIC)
            .ack_deadline(ACK_DEADLINE)
            .retry(Duration::from_millis(200), Duration::from_secs(1))
            .dead_letter(DEAD_TOPIC, 5);
        broker.create_subscription(routing).unwrap();
        let config = config::Pubsub {
            project: "p".to_owned(),
            subscription: "routing".to_owned(),
            topic: "events".to_owned(),
            max_outstanding: OUTSTANDING,
            streams: 2,
            endpoint: Some(broker.endpoint()),
            ..config::Pubsub::default()
        };
        let mut settings = PubsubSettings::from_config(&config).unwrap();
        settings.ack_deadline = ACK_DEADLINE;
        Self { settings, broker }
    }

    async fn open(&self) -> Box<dyn EventSource> {
        Box::new(PubsubSource::open(&self.settings).await.unwrap())
    }

    async fn announce(&self, count: usize) -> BTreeSet<Uuid> {
        let ids: BTreeSet<Uuid> = (0..count).map(|_| Uuid::new_v4()).collect();
        for submission_id in ids.iter().copied() {
            let event = RoutingEvent { submission_id, form_id: None, reason: Reason::Finalized };
            let (attributes, data) = event::encode(&event);
            self.broker.publish(TOPIC, data, attributes).unwrap();
        }
        ids
    }

    async fn announce_garbage(&self) -> bool {
        self.broker.publish(TOPIC, "no event", [("type", "routing.ready"), ("v", "1")]).unwrap();
        true
    }

    async fn leased(&self) -> usize {
        self.stats().outstanding
    }

    async fn left(&self) -> usize {
        let stats = self.stats();
        stats.outstanding + stats.backlog
    }

    async fn set_aside(&self) -> usize {
        self.broker.stats(DEAD_SUBSCRIPTION).unwrap().backlog
    }

    async fn away(&mut self) {
        self.broker.down().await;
    }

    async fn back(&mut self) {
        self.broker.up().await.unwrap();
    }
}

impl Rebuilt for Pubsub {
    const SUPERVISED: &'static str = "Pub/Sub, supervised";

    fn opener(&self) -> Open {
        let settings = self.settings.clone();
        Box::new(move || {
            let settings = settings.clone();
            async move {
                let source = PubsubSource::open(&settings).await?;
                Ok(Box::new(source) as Box<dyn EventSource>)
            }
            .boxed()
        })
    }
}
