//! A database with failures in it, a Slack, and alerters between them.

use std::sync::Arc;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{Cluster, TestDatabase, Variant};
use devkit::slack::SlackFake;
use devkit::submission::Row;
use maple_router::config::Config;
use maple_router::config::secret::Secret;
use maple_router::db::readiness::Readiness;
use maple_router::db::{Pool, PoolOptions};
use maple_router::gateway::slack::Slack;
use maple_router::ops::alerting::{AlertIntervals, AlertSender, Alerter, AlerterParts, Alerts, Letterhead};
use maple_router::ops::incident::Incidents;
use maple_router::ops::rng::Rng;
use maple_router::ops::set_aside::SetAside;
use maple_router::ports::{Clock, Failures};
use maple_router::routing::store::alerts::AlertStore;
use maple_router::routing::store::view::View;
use maple_router::routing::upkeep::alerts::FailureAlerts;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock::MockClock;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// Intervals as shipped.
pub(crate) const INTERVALS: AlertIntervals =
    AlertIntervals { group_wait: Duration::from_secs(30), repeat_interval: Duration::from_secs(4 * 3600) };

pub(crate) struct Bench {
    pub(crate) slack: SlackFake,
    pub(crate) clock: Arc<MockClock>,
    pub(crate) config: Config,
    pub(crate) backend: Client,
    pub(crate) eyes: Client,
    pub(crate) db: TestDatabase,
    started: std::sync::atomic::AtomicU64,
}

/// A running alerter.
pub(crate) struct Running {
    pub(crate) alerts: Alerts,
    pub(crate) incidents: Incidents,
    pub(crate) task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("ended well");
    }
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let db = Cluster::shared()
            .await
            .expect("a cluster")
            .database(Variant::default())
            .await
            .expect("a database");
        let forms = [Form::new("contact").mail_to("a@x.test"), Form::new("press").mail_to("p@x.test")];
        devkit::forms::load_into(&db, &forms).await.expect("forms");
        let mut config = Config::default();
        config.database.url = db.url_as("forms_app");
        config.database.max_connections = 4;
        config.slack.timeout = Duration::from_secs(10);
        Self {
            slack: SlackFake::start().await.expect("a Slack"),
            clock: MockClock::new(),
            config,
            backend: db.client_as("forms_app").await.expect("forms_app"),
            eyes: db.superuser().await.expect("superuser"),
            db,
            started: 0.into(),
        }
    }

    pub(crate) fn pool(&self) -> Pool {
        Pool::new(&self.config.database, PoolOptions::new(self.clock.clone())).expect("a pool")
    }

    pub(crate) fn store(&self) -> AlertStore {
        AlertStore::new(self.pool(), &Readiness::default(), &self.config)
    }

    pub(crate) fn view(&self) -> View {
        View::new(self.pool(), &Readiness::default(), &self.config)
    }

    pub(crate) fn rng(&self) -> Arc<Rng> {
        Arc::new(Rng::seeded(self.started.fetch_add(1, std::sync::atomic::Ordering::Relaxed)))
    }

    pub(crate) fn failures(&self) -> Arc<dyn Failures> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let set_aside = SetAside::new(self.clock.clone(), None);
        Arc::new(FailureAlerts { store: self.store(), clock, rng: self.rng(), set_aside })
    }

    pub(crate) fn sender(&self, failures: Arc<dyn Failures>) -> AlertSender {
        let (url, channel) = (Secret::new(self.slack.webhook_url()), "#us-soc-alerts");
        let slack = Slack::new(&url, channel, self.config.slack.timeout).expect("a client");
        let head =
            Letterhead { host: "maple-1".to_owned(), channel: channel.to_owned(), ..Letterhead::default() };
        AlertSender { webhook: Arc::new(slack), failures: vec![failures], head }
    }

    /// Starts an alerter.
    pub(crate) fn start(&self) -> Running {
        self.start_on(self.failures())
    }

    pub(crate) fn start_on(&self, failures: Arc<dyn Failures>) -> Running {
        self.start_at(self.sender(failures))
    }

    pub(crate) fn start_at(&self, sender: AlertSender) -> Running {
        let (incidents, seen) = Incidents::new();
        let parts = AlerterParts {
            sender: Arc::new(sender),
            intervals: INTERVALS,
            incidents: seen,
            clock: self.clock.clone(),
            rng: self.rng(),
            is_measured: true,
        };
        let (alerter, alerts) = Alerter::new(parts);
        let stop = CancellationToken::new();
        let task = tokio::spawn(alerter.run(stop.clone()));
        Running { alerts, incidents, task, stop }
    }

    /// Lets time pass for one alerter.
    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.advance(time, 1).await;
    }

    pub(crate) async fn failed(&self, ledger: Value) -> Uuid {
        let seed = SubmissionSeed::of("contact").status("failed").ledger(ledger);
        seed.insert(&self.backend).await.expect("a row").id
    }

    /// Makes so many failures at once.
    pub(crate) async fn crowd(&self, count: i32, ledger: Value) {
        let sql = "INSERT INTO submissions (form_id, status, routing_result)
                   SELECT 'contact', 'failed', $2 FROM generate_series(1, $1)";
        self.backend.execute(sql, &[&count, &ledger]).await.expect("rows");
    }

    pub(crate) async fn row(&self, id: Uuid) -> Row {
        Row::read(&self.eyes, id).await.expect("the row")
    }

    /// Changes rows behind everybody's back.
    pub(crate) async fn tamper(&self, sql: &str) -> u64 {
        self.eyes.execute(&format!("UPDATE submissions SET {sql}"), &[]).await.expect("changed")
    }

    /// Failures without a confirmed alert, as `status` counts them.
    pub(crate) async fn unalerted(&self) -> i64 {
        self.view().overview().await.expect("an overview").unalerted
    }

    /// The texts Slack confirmed.
    pub(crate) fn posted(&self) -> Vec<String> {
        self.slack.messages().iter().map(devkit::slack::SlackMessage::visible_text).collect()
    }

    /// Returns how many failures each message reported.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let count = |text: String| {
            let digits: String =
                text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
            digits.parse().expect("a count")
        };
        self.posted().into_iter().map(count).collect()
    }
}

/// A ledger that ended badly: one delivery, refused with this code.
pub(crate) fn refused(code: u16) -> Value {
    refused_with(code, "no such user")
}

pub(crate) fn refused_with(code: u16, reply: &str) -> Value {
    let error =
        json!({"class": "refused", "stage": "RCPT", "code": code, "enhanced": "5.1.1", "reply": reply});
    ended("refused", &json!({"1|bob@x.test": {"state": "failed", "error": error}}))
}

/// A ledger that ended badly.
pub(crate) fn ended(reason: &str, deliveries: &Value) -> Value {
    json!({"v": 1, "attempts": 1, "theirs": [1], "deliveries": deliveries,
           "finished": {"token": "f", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": reason}})
}
