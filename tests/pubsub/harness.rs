//! A Pub/Sub server per test, a project of its own on it, and waits that fail instead of hanging.

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use devkit::broker::{Broker, Stats};
use futures::FutureExt;
use google_cloud_auth::credentials::anonymous;
use google_cloud_pubsub::client::SubscriptionAdmin;
use google_cloud_pubsub::model::Subscription;
use google_cloud_wkt::FieldMask;
use maple_router::config;
use maple_router::gateway::pubsub::PubsubSettings;
use maple_router::gateway::pubsub::admin::provision;
use maple_router::gateway::pubsub::inspect::inspect;
use maple_router::gateway::pubsub::publisher::PubsubPublisher;
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::ops::supervised::{Report, Supervised};
use maple_router::ports::{Attributes, CheckLevel, EventSource, Incoming};
use uuid::Uuid;

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough to believe that nothing comes.
pub(crate) const QUIET: Duration = Duration::from_millis(700);

/// A Pub/Sub server, and settings for a project of this test's own on it.
pub(crate) struct Fixture {
    pub(crate) settings: PubsubSettings,
    pub(crate) broker: Broker,
}

pub(crate) async fn server() -> Fixture {
    let broker = Broker::start((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    Fixture { settings: settings_at(&broker.endpoint()), broker }
}

pub(crate) fn settings_at(endpoint: &str) -> PubsubSettings {
    let config = config::Pubsub {
        project: format!("p{}", &Uuid::new_v4().simple().to_string()[..12]),
        subscription: "routing".to_owned(),
        topic: "events".to_owned(),
        dead_letter_topic: "dead".to_owned(),
        dead_letter_subscription: "dead-sub".to_owned(),
        endpoint: Some(endpoint.to_owned()),
        ..config::Pubsub::default()
    };
    let mut settings = PubsubSettings::from_config(&config).unwrap();
    // Redelivery at once, so that a test of nacks takes no minute; `provision` and `inspect` compare with this.
    settings.retry_min = Duration::ZERO;
    settings.retry_max = Duration::from_secs(1);
    settings
}

pub(crate) async fn provisioned() -> Fixture {
    let fixture = server().await;
    provision(&fixture.settings, false).await.unwrap();
    fixture
}

impl Fixture {
    pub(crate) async fn source(&self) -> Box<PubsubSource> {
        Box::new(PubsubSource::open(&self.settings).await.unwrap())
    }

    pub(crate) async fn publish(&self, count: usize) {
        let publisher = PubsubPublisher::open(&self.settings).await.unwrap();
        let all = (0..count).map(|n| publisher.publish(Attributes::new(), Bytes::from(n.to_string())));
        futures::future::try_join_all(all).await.unwrap();
    }

    pub(crate) fn stats(&self) -> Stats {
        self.broker.stats(&self.settings.subscription).unwrap()
    }

    pub(crate) async fn admin(&self) -> SubscriptionAdmin {
        SubscriptionAdmin::builder()
            .with_endpoint(self.settings.endpoint.as_deref().unwrap())
            .with_credentials(anonymous::Builder::new().build())
            .build()
            .await
            .unwrap()
    }

    /// Alters the routing subscription behind the daemon's back.
    pub(crate) async fn alter(&self, field: &str, change: impl FnOnce(Subscription) -> Subscription) {
        let altered = change(Subscription::new().set_name(&self.settings.subscription));
        self.admin()
            .await
            .update_subscription()
            .set_subscription(altered)
            .set_update_mask(FieldMask::default().set_paths([field]))
            .send()
            .await
            .unwrap();
    }

    pub(crate) async fn levels(&self) -> Vec<(&'static str, CheckLevel)> {
        let lines = soon(inspect(&self.settings)).await;
        lines.iter().map(|line| (line.name, line.level)).collect()
    }
}

/// A source as the daemon builds it, with what it reports.
pub(crate) fn supervised(settings: &PubsubSettings) -> (Box<Supervised>, Arc<Mutex<Vec<Report>>>) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let (settings, seen) = (settings.clone(), Arc::clone(&reports));
    let open = Box::new(move || {
        let settings = settings.clone();
        async move {
            let source = PubsubSource::open(&settings).await?;
            Ok(Box::new(source) as Box<dyn EventSource>)
        }
        .boxed()
    });
    let source = Supervised::new(open, 1, move |report| seen.lock().unwrap().push(report));
    (Box::new(source), reports)
}

/// Fails the test instead of hanging.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing happened in time")
}

pub(crate) async fn next(source: &mut impl EventSource) -> Incoming {
    soon(source.next()).await.unwrap()
}

/// The next message, or none within a quiet moment.
pub(crate) async fn next_if_any(source: &mut impl EventSource) -> Option<Incoming> {
    tokio::time::timeout(QUIET, source.next()).await.ok().map(Result::unwrap)
}

pub(crate) fn text(message: &Incoming) -> String {
    String::from_utf8(message.data.to_vec()).unwrap()
}
