//! README's own examples, run as they stand there, reach a real router over real gRPC. Where a process dies before
//! it has published, the sweep finds what it left.

use std::path::Path;

use devkit::broker::SubscriptionSpec;
use devkit::forms::{Form, Seeded, SubmissionSeed};
use devkit::postgres::Variant;
use devkit::stage::{PROJECT, Router, SUBSCRIPTION, Stage, StageOptions, TOPIC};
use devkit::waiting;
use maple_router::config::Pubsub;
use maple_router::gateway::pubsub::PubsubSettings;
use maple_router::gateway::pubsub::source::PubsubSource;
use maple_router::ports::EventSource;
use maple_router::routing::event::{self, Parsed, RoutingEvent};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::harness::{PATIENCE, Python, STEP};

/// Sees every event, beside the router's own subscription.
const EYES: &str = "projects/demo/subscriptions/eyes";
/// No sweep comes in before a test is over.
const NO_SWEEP: &str = "[routing]\nsweep_interval = \"60s\"";
/// Orphans are found soon after they became some.
const SOON: &str = "[pubsub]\nretry_max = \"1s\"\nack_deadline = \"10s\"
[routing]\nsweep_interval = \"1s\"\ndue_grace = \"2s\"\norphan_after = \"13s\"\nbackoff_max = \"12s\"";

struct Scene {
    // First: the router goes before what it works with.
    router: Router,
    stage: Stage,
    eyes: Client,
}

impl Scene {
    async fn start(extra: &str) -> Self {
        // The durations of SOON: the router reads them from the subscription.
        let seconds = std::time::Duration::from_secs;
        let (ack_deadline, retry) = (seconds(10), (std::time::Duration::from_millis(200), seconds(1)));
        let options = StageOptions { sample_forms: false, ack_deadline, retry, ..StageOptions::default() };
        Self::on(Stage::start(options).await.expect("a stage"), extra).await
    }

    async fn on(stage: Stage, extra: &str) -> Self {
        devkit::forms::load_into(&stage.database, &[Form::new("f").mail_to("a@x.test")])
            .await
            .expect("forms");
        stage.broker.create_subscription(SubscriptionSpec::new(EYES, TOPIC)).expect("eyes");
        let binary = Path::new(env!("CARGO_BIN_EXE_maple-router"));
        let mut router = stage.router(binary, "router", extra).await.expect("a router");
        router.ready().await.expect("ready");
        let eyes = stage.database.superuser().await.expect("superuser");
        Self { router, stage, eyes }
    }

    /// A client as `role` that publishes to the scene's broker.
    async fn python(&self, role: &str) -> Python {
        Python::connect(&self.stage.database, role, Some(self.stage.broker.host_port())).await
    }

    /// A submission with this many attachments still to be scanned, inserted by hand.
    async fn pending(&self, attachments: usize) -> Seeded {
        let backend = self.stage.database.client_as("forms_app").await.expect("forms_app");
        let seed = (0..attachments).fold(SubmissionSeed::of("f"), |seed, _| seed.attachment("a", "pending"));
        seed.insert(&backend).await.expect("a row")
    }

    async fn look(&self, id: Uuid) -> (String, Value) {
        let sql = "SELECT status::text, routing_result FROM submissions WHERE id = $1";
        let row = self.eyes.query_one(sql, &[&id]).await.expect("the row");
        (row.get(0), row.get(1))
    }

    /// Waits until a router has ended it; returns its status and ledger.
    async fn ended(&self, id: Uuid) -> (String, Value) {
        let look = async || Some(self.look(id).await).filter(|(_, ledger)| !ledger["finished"].is_null());
        match waiting::find(PATIENCE, STEP, look).await {
            Some(ended) => ended,
            None => panic!("{id} has not ended: {:?}\n{}", self.look(id).await, self.router.log()),
        }
    }

    /// Routed, by one mail and one audit row for its end.
    async fn routed_once(&self, id: Uuid) {
        assert_eq!(self.ended(id).await.0, "routed");
        let of_this = |mail: &&std::sync::Arc<devkit::smtp::Mail>| mail.submission_id == Some(id.to_string());
        assert_eq!(self.stage.relay.mails().iter().filter(of_this).count(), 1);
        let sql = "SELECT count(*) FROM audit_log WHERE submission_id = $1 AND action = 'submission_routed'";
        let ends: i64 = self.eyes.query_one(sql, &[&id]).await.expect("the trail").get(0);
        assert_eq!(ends, 1);
    }

    /// Waits until the router has settled every event.
    async fn settled(&self) {
        let look = async || {
            let stats = self.stage.broker.stats(SUBSCRIPTION).expect("stats");
            Some(stats).filter(|stats| (stats.outstanding, stats.backlog) == (0, 0))
        };
        match waiting::find(PATIENCE, STEP, look).await {
            Some(stats) => assert_eq!(stats.forwarded, 0, "no dead letter"),
            None => panic!("events are left: {:?}", self.stage.broker.stats(SUBSCRIPTION)),
        }
    }

    /// Number of events published so far and not taken by [`Self::events`].
    fn published(&self) -> usize {
        self.stage.broker.stats(EYES).expect("stats").backlog
    }

    /// Takes the `n` events that were published.
    async fn events(&self, n: usize) -> Vec<RoutingEvent> {
        let config = Pubsub {
            project: PROJECT.to_owned(),
            subscription: "eyes".to_owned(),
            endpoint: Some(self.stage.broker.endpoint()),
            ..Pubsub::default()
        };
        let settings = PubsubSettings::from_config(&config).expect("settings");
        let mut source = PubsubSource::open(&settings).await.expect("a source");
        let mut found = Vec::new();
        while found.len() < n {
            let incoming =
                timeout(PATIENCE, source.next()).await.expect("an event in time").expect("an event");
            match event::parse(&incoming.attributes, &incoming.data) {
                Parsed::Event(event) => found.push(event),
                Parsed::Canary | Parsed::Poison { .. } => panic!("no routing event"),
            }
            incoming.settle.ack();
        }
        found
    }
}

fn finalize() -> Value {
    json!({"do": "example", "under": "The forms backend", "form_id": "f"})
}

fn scanned(attachment: Uuid, verdict: &str) -> Value {
    json!({"do": "example", "under": "The scan worker", "attachment_id": attachment, "verdict": verdict})
}

#[tokio::test]
async fn what_is_finalized_without_attachments_is_routed() {
    let scene = Scene::start(NO_SWEEP).await;
    let reply = scene.python("forms_app").await.ask(finalize()).await;
    assert_eq!((&reply["state"], &reply["wire"]), (&json!("ready"), &json!("received")));
    let id: Uuid = reply["submission_id"].as_str().expect("an id").parse().expect("an id");
    scene.routed_once(id).await;
    let events = scene.events(1).await;
    assert_eq!((events[0].submission_id, events[0].form_id.as_deref()), (id, Some("f")));
    assert_eq!(events[0].reason, event::Reason::Finalized);
    assert_eq!(scene.published(), 0, "one event");
}

#[tokio::test]
async fn two_attachments_scanned_at_the_same_time_are_routed_once() {
    let scene = Scene::start(NO_SWEEP).await;
    let (mut one, mut other) = (scene.python("forms_scanner").await, scene.python("forms_scanner").await);
    for round in 0..12 {
        let seeded = scene.pending(2).await;
        one.tell(scanned(seeded.attachments[0], "clean")).await;
        other.tell(scanned(seeded.attachments[1], "clean")).await;
        let states =
            [one.answer().await, other.answer().await].map(|reply| reply.expect("scanned")["state"].take());
        let published = states.iter().filter(|state| **state != "waiting").count();
        assert!(published >= 1, "round {round}: {states:?}");
        scene.routed_once(seeded.id).await;
        let ready = states.iter().filter(|state| **state == "ready").count();
        for event in scene.events(ready).await {
            assert_eq!((event.submission_id, event.reason), (seeded.id, event::Reason::ScanClean));
        }
        assert_eq!(scene.published(), 0, "round {round}: {states:?}");
    }
}

#[tokio::test]
async fn an_infected_attachment_is_announced_and_fails_its_submission() {
    let scene = Scene::start(NO_SWEEP).await;
    let mut scanner = scene.python("forms_scanner").await;
    let seeded = scene.pending(2).await;
    let reply = scanner.ask(scanned(seeded.attachments[0], "infected")).await;
    assert_eq!(reply["state"], "infected");
    let (status, ledger) = scene.ended(seeded.id).await;
    assert_eq!((status.as_str(), &ledger["finished"]["reason"]), ("failed", &json!("infected")));
    let reply = scanner.ask(scanned(seeded.attachments[1], "clean")).await;
    assert_eq!(reply["state"], "closed");
    assert_eq!(scene.published(), 1, "only while somebody could do something");
    assert_eq!(scene.stage.relay.mails().len(), 0);
}

#[tokio::test]
async fn nothing_is_published_while_something_is_to_be_scanned() {
    let scene = Scene::start(NO_SWEEP).await;
    let mut scanner = scene.python("forms_scanner").await;
    let seeded = scene.pending(3).await;
    for attachment in &seeded.attachments[..2] {
        assert_eq!(scanner.ask(scanned(*attachment, "clean")).await["state"], "waiting");
    }
    assert_eq!((scene.published(), scene.look(seeded.id).await.0.as_str()), (0, "received"));
    assert_eq!(scanner.ask(scanned(seeded.attachments[2], "clean")).await["state"], "ready");
    scene.routed_once(seeded.id).await;
}

/// The gap that only schema `router` closes: between commit and publish.
#[tokio::test]
async fn what_a_killed_client_has_not_announced_is_found_by_the_sweep() {
    let scene = Scene::start(SOON).await;
    let seeded = scene.pending(1).await;
    let mut dying = scanned(seeded.attachments[0], "clean");
    dying["stuck"] = json!(true);
    let mut scanner = scene.python("forms_scanner").await;
    assert_eq!(scanner.ask(dying).await, "publishing");
    scanner.kill().await;
    let sql = "SELECT clamav_status::text FROM attachments WHERE id = $1";
    let status: String = scene.eyes.query_one(sql, &[&seeded.attachments[0]]).await.expect("it").get(0);
    assert_eq!((status.as_str(), scene.published()), ("clean", 0), "committed, and announced to nobody");
    scene.routed_once(seeded.id).await;
    let orphans = scene.router.metric("maple_router_orphans_total").await.expect("metrics");
    assert_eq!(orphans, Some(1.0));
}

/// The scan worker's own queue repeats: the verdict comes again, to another process. No row changes, an event is published.
#[tokio::test]
async fn a_verdict_that_comes_again_is_announced_again() {
    let scene = Scene::start(NO_SWEEP).await;
    let seeded = scene.pending(1).await;
    let mut dying = scanned(seeded.attachments[0], "clean");
    dying["stuck"] = json!(true);
    let mut scanner = scene.python("forms_scanner").await;
    assert_eq!(scanner.ask(dying).await, "publishing");
    scanner.kill().await;
    assert_eq!((scene.published(), scene.look(seeded.id).await.0.as_str()), (0, "received"));
    let reply = scene.python("forms_scanner").await.ask(scanned(seeded.attachments[0], "clean")).await;
    assert_eq!(reply["state"], "ready");
    scene.routed_once(seeded.id).await;
}

/// A caller that settles the scan's message after it may rely on it.
#[tokio::test]
async fn an_event_that_nobody_takes_is_an_error() {
    let scene = Scene::start(NO_SWEEP).await;
    let seeded = scene.pending(0).await;
    let mut scanner = scene.python("forms_scanner").await;
    scene.stage.broker.down().await;
    let error = scanner.refused(json!({"do": "publish", "submission": seeded.id, "seconds": 1})).await;
    assert!(error.starts_with("TimeoutError"), "{error}");
    scene.stage.broker.up().await.expect("the same port");
    let id = scanner.ask(json!({"do": "publish", "submission": seeded.id, "seconds": 30})).await;
    assert!(id.as_str().is_some_and(|id| !id.is_empty() && !id.contains("Future")), "{id}");
    assert!(scene.published() >= 1, "the server has it");
}

/// Publishing beside the triggers does no harm: no submission waits for ever, and each is routed once.
#[tokio::test]
async fn with_schema_router_it_is_announced_twice_and_routed_once() {
    let variant = Variant { audit_readable: true, router: true, ..Variant::default() };
    let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
    let scene = Scene::on(Stage::start(options).await.expect("a stage"), NO_SWEEP).await;
    let reply = scene.python("forms_app").await.ask(finalize()).await;
    let mut ids = vec![reply["submission_id"].as_str().expect("an id").parse().expect("an id")];
    let (mut one, mut other) = (scene.python("forms_scanner").await, scene.python("forms_scanner").await);
    for _ in 0..4 {
        let seeded = scene.pending(2).await;
        one.tell(scanned(seeded.attachments[0], "clean")).await;
        other.tell(scanned(seeded.attachments[1], "clean")).await;
        for python in [&mut one, &mut other] {
            python.answer().await.expect("scanned");
        }
        ids.push(seeded.id);
    }
    for id in ids {
        scene.routed_once(id).await;
        // The triggers', too: one row, which the relay brings to the topic beside the readiness point's own event.
        let sql =
            "SELECT array_agg(state) FROM router.outbox WHERE entity_id = $1 AND kind = 'routing.ready'";
        for waited in 0.. {
            let states: Vec<String> = scene.eyes.query_one(sql, &[&id]).await.expect("the outbox").get(0);
            if states == ["delivered"] {
                break;
            }
            assert!(waited < PATIENCE.as_millis() / STEP.as_millis(), "{id}: {states:?}");
            sleep(STEP).await;
        }
    }
    scene.settled().await;
}
