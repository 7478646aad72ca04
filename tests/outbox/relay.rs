//! The relay against devkit's broker over real gRPC: statuses follow the server's id, poison is alone, an outage is
//! nobody's fault, and several share the work.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use devkit::broker::{Broker, SubscriptionSpec};
use maple_router::config;
use maple_router::gateway::pubsub::PubsubSettings;
use maple_router::gateway::pubsub::publisher::PubsubPublisher;
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::kernel::jobs::listener::Listener;
use maple_router::outbox::relay::Relay;
use maple_router::outbox::table::State;
use maple_router::ports::EventSource;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{Bench, PATIENCE};

const TOPIC: &str = "projects/p/topics/routing";
const SUBSCRIPTION: &str = "projects/p/subscriptions/routing";

async fn broker() -> (Broker, PubsubSettings) {
    let broker = Broker::start((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a broker");
    broker.create_topic(TOPIC).expect("a topic");
    broker.create_subscription(SubscriptionSpec::new(SUBSCRIPTION, TOPIC)).expect("a subscription");
    let config = config::Pubsub {
        project: "p".to_owned(),
        subscription: "routing".to_owned(),
        topic: "routing".to_owned(),
        endpoint: Some(broker.endpoint()),
        ..config::Pubsub::default()
    };
    let mut settings = PubsubSettings::from_config(&config).expect("settings");
    settings.call_timeout = Duration::from_secs(2);
    (broker, settings)
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(bench: &Bench, settings: &PubsubSettings) -> Self {
        let publisher = PubsubPublisher::open(settings).await.expect("a publisher");
        let relay = Relay::new(&bench.parts(), Listener::silent(), publisher);
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { relay.run(&stop, PATIENCE).await }
        });
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("in time").expect("well");
    }
}

/// Payloads received, each with how often, until `expected` different ones were.
async fn received(settings: &PubsubSettings, expected: usize) -> BTreeMap<Vec<u8>, usize> {
    let mut source = PubsubSource::open(settings).await.expect("a source");
    let mut seen = BTreeMap::new();
    while seen.len() < expected {
        let incoming =
            tokio::time::timeout(PATIENCE, source.next()).await.expect("in time").expect("a message");
        assert_eq!(incoming.attributes.get("v").map(String::as_str), Some("1"));
        *seen.entry(incoming.data.to_vec()).or_insert(0) += 1;
        incoming.settle.ack();
    }
    while let Ok(Ok(incoming)) = tokio::time::timeout(Duration::from_millis(300), source.next()).await {
        *seen.entry(incoming.data.to_vec()).or_insert(0) += 1;
        incoming.settle.ack();
    }
    assert!(Box::new(source).stop(PATIENCE).await);
    seen
}

const ALL_DELIVERED: &str = "SELECT count(*) FILTER (WHERE state <> 'delivered') = 0 FROM router.outbox";

#[tokio::test]
async fn every_row_is_published_once_and_marked_with_the_servers_id_by_however_many_relays() {
    let bench = Bench::new().await;
    let (_broker, settings) = broker().await;
    let rows = "INSERT INTO router.outbox (kind, payload)
        SELECT 'routing.ready', jsonb_build_object('n', n) FROM generate_series(1, 3000) n";
    bench.alter(rows).await;
    let (one, two) = (Running::start(&bench, &settings).await, Running::start(&bench, &settings).await);
    bench.until("delivered", ALL_DELIVERED).await;
    let seen = received(&settings, 3000).await;
    assert!(seen.values().all(|times| *times == 1), "each once");
    let ids = "SELECT count(DISTINCT message_id) = 3000 AND bool_and(claims = 1 AND attempts = 1) FROM router.outbox";
    bench.until("marked with ids of their own", ids).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn one_poisonous_row_is_given_up_on_and_the_others_do_not_notice() {
    let bench = Bench::new().await;
    let (_broker, settings) = broker().await;
    // An attribute's value has at most 1024 bytes: the server refuses the whole request that it is in.
    let rows = "INSERT INTO router.outbox (kind, payload)
        SELECT CASE WHEN n = 20 THEN repeat('x', 2000) ELSE 'routing.ready' END, jsonb_build_object('n', n)
        FROM generate_series(1, 40) n";
    bench.alter(rows).await;
    let relay = Running::start(&bench, &settings).await;
    let done = "SELECT count(*) FILTER (WHERE state = 'delivered') = 39 AND count(*) FILTER (WHERE state = 'dead_letter') = 1
        FROM router.outbox";
    bench.until("39 delivered and one given up on", done).await;
    relay.stop().await;
    let sql = "SELECT id FROM router.outbox WHERE state = 'dead_letter'";
    let poison: i64 = bench.eyes.query_one(sql, &[]).await.expect("one").get(0);
    let commands = bench.commands(poison).await;
    assert_eq!(commands.iter().filter(|command| *command == "fail").count(), 2, "{commands:?}");
    assert_eq!(commands.last().map(String::as_str), Some("give_up"));
    let innocent = "SELECT count(*) FROM router.outbox WHERE state = 'delivered' AND (attempts > 1 OR error IS NOT NULL)";
    assert_eq!(bench.eyes.query_one(innocent, &[]).await.expect("a count").get::<_, i64>(0), 0);
    let record = "SELECT kind, reason FROM router.dead_letters";
    let record = bench.eyes.query_one(record, &[]).await.expect("a record");
    assert_eq!(record.get::<_, String>("kind"), "unreadable");
    assert!(record.get::<_, String>("reason").contains("the topic does not take it"), "{record:?}");
}

/// The topic goes away just when a request was refused, so that the rows of that request would be tried one by one.
#[tokio::test]
async fn suspects_wait_as_everybody_does_while_nothing_can_be_published() {
    let bench = Bench::new().await;
    let (broker, settings) = broker().await;
    let rows = "INSERT INTO router.outbox (kind, payload)
        SELECT CASE WHEN n = 20 THEN repeat('x', 2000) ELSE 'routing.ready' END, jsonb_build_object('n', n)
        FROM generate_series(1, 40) n";
    bench.alter(rows).await;
    broker.refuse_then_fail(true);
    let relay = Running::start(&bench, &settings).await;
    bench.until("tried again", "SELECT bool_or(claims > 2) FROM router.outbox").await;
    // Single rows with rests between them, each asked for several times by the client, and not each of the forty.
    let failed = broker.failed_publishes();
    assert!((1..=30).contains(&failed), "{failed} requests met a topic that is away");
    let spent =
        "SELECT count(*) FROM router.outbox WHERE state = 'dead_letter' OR attempts > 1 OR error IS NOT NULL";
    assert_eq!(bench.eyes.query_one(spent, &[]).await.expect("a count").get::<_, i64>(0), 0);
    broker.refuse_then_fail(false);
    let done = "SELECT count(*) FILTER (WHERE state = 'delivered') = 39 AND count(*) FILTER (WHERE state = 'dead_letter') = 1
        FROM router.outbox";
    bench.until("39 delivered and one given up on", done).await;
    relay.stop().await;
}

#[tokio::test]
async fn an_outage_of_the_broker_costs_no_row_an_attempt() {
    let bench = Bench::new().await;
    let (broker, settings) = broker().await;
    let rows = "INSERT INTO router.outbox (kind, payload)
        SELECT 'routing.ready', jsonb_build_object('n', n) FROM generate_series(1, 100) n";
    broker.down().await;
    bench.alter(rows).await;
    let relay = Running::start(&bench, &settings).await;
    bench.until("tried again", "SELECT bool_or(claims > 1) FROM router.outbox").await;
    assert_eq!(bench.store.depths().await.expect("depths")[3].count, 0);
    broker.up().await.expect("up again");
    bench.until("delivered", ALL_DELIVERED).await;
    let spent = "SELECT count(*) FROM router.outbox WHERE attempts > 1";
    assert_eq!(bench.eyes.query_one(spent, &[]).await.expect("a count").get::<_, i64>(0), 0);
    relay.stop().await;
    let id: i64 = bench.eyes.query_one("SELECT min(id) FROM router.outbox", &[]).await.expect("one").get(0);
    assert_eq!(bench.state(id).await, State::Delivered);
    received(&settings, 100).await;
}
