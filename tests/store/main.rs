//! The mission's statements against a real PostgreSQL, as `forms_app`: what the protocol promises must hold of the
//! statements themselves, whatever the daemon around them does.

mod attempts;
mod backfill;
mod claims;
mod delivery;
mod ends;
mod facts;
mod hidden;
#[path = "../kernel/holds.rs"]
mod holds;
mod lifecycle;
mod races;
mod ready;
mod replay;
mod set_aside;
mod stuck;
mod subject;
#[path = "../kernel/subjects.rs"]
mod subjects;
mod sweeper;
mod together;
mod versions;
mod waiting;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{Cluster, TestDatabase, Variant};
use devkit::submission::{Audited, Row};
use maple_router::config::Config;
use maple_router::db::readiness::Readiness;
use maple_router::db::{Pool, PoolOptions};
use maple_router::ops::clock::SystemClock;
use maple_router::ports::{Fault, Outcome, Reply, Stage};
use maple_router::routing::store::overrides::Override;
use maple_router::routing::store::{ClaimRequest, Claimed, RecordScope, Store};
use maple_router::routing::submission::outcome::{Entries, SendContext};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// A database, a store on it, and eyes.
struct Bench {
    store: Store,
    backend: Client,
    eyes: Client,
    db: TestDatabase,
}

/// The override's author in these tests.
const OPERATOR: Override<'static> =
    Override { actor: "operator:test", verb: "replay", reason: Some("a test"), more: &Value::Null };

const A: &str = "1|a@x.test";
const B: &str = "1|b@x.test";
const C: &str = "2|c@x.test";

/// Two actions: the first to `a` and `b`, the second to `c`.
fn form() -> Form {
    Form::new("f").mail_to("a@x.test, b@x.test").mail_to("c@x.test")
}

fn config(db: &TestDatabase, connections: usize) -> Config {
    let mut config = Config::default();
    config.database.url = db.url_as("forms_app");
    config.database.max_connections = connections;
    config
}

fn store(db: &TestDatabase, connections: usize) -> Store {
    let config = config(db, connections);
    let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
    let readiness = Readiness::new(None).expect("no column");
    Store::new(pool, &readiness, &config, "host", "host/1")
}

impl Bench {
    async fn new() -> Self {
        Self::of(&[form()]).await
    }

    async fn of(forms: &[Form]) -> Self {
        // Insert-only audit, as the live database was seen.
        Self::on(Variant::default(), forms).await
    }

    async fn on(variant: Variant, forms: &[Form]) -> Self {
        let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
        devkit::forms::load_into(&db, forms).await.expect("forms");
        let backend = db.client_as("forms_app").await.expect("forms_app");
        let eyes = db.superuser().await.expect("superuser");
        Self { store: store(&db, 4), backend, eyes, db }
    }

    async fn insert(&self, seed: &SubmissionSeed) -> Uuid {
        seed.insert(&self.backend).await.expect("a row").id
    }

    /// A ready submission.
    async fn ready(&self) -> Uuid {
        self.insert(&SubmissionSeed::of("f")).await
    }

    /// Returns a submission claimed under `token`.
    async fn claimed(&self, token: &str) -> Uuid {
        let id = self.ready().await;
        assert!(matches!(self.claim(id, token).await, Claimed::Taken(_)));
        id
    }

    async fn claim(&self, id: Uuid, token: &str) -> Claimed {
        claim(&self.store, id, token).await
    }

    async fn row(&self, id: Uuid) -> Row {
        Row::read(&self.eyes, id).await.expect("the row")
    }

    /// The trail: action and detail.
    async fn audit(&self, id: Uuid) -> Vec<(String, Value)> {
        let trail = Audited::trail(&self.eyes, id).await.expect("audit");
        trail.into_iter().map(|row| (row.action, row.detail)).collect()
    }

    async fn audited(&self, id: Uuid) -> Vec<String> {
        self.audit(id).await.into_iter().map(|(action, _)| action).collect()
    }

    /// Changes a row behind the store's back.
    async fn tamper(&self, id: Uuid, set: &str) {
        let sql = format!("UPDATE submissions SET {set} WHERE id = $1");
        assert_eq!(self.eyes.execute(&sql, &[&id]).await.expect("changed"), 1);
    }

    /// From now on `now()` of every new connection of `forms_app` is this instant; what is written keeps its own time.
    async fn freeze(&self, now: &str) {
        let sql = format!(
            "CREATE SCHEMA frozen; GRANT USAGE ON SCHEMA frozen TO PUBLIC;
             CREATE FUNCTION frozen.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$SELECT '{now}'::timestamptz$$;
             DO $$BEGIN EXECUTE format('ALTER ROLE forms_app IN DATABASE %I SET search_path = frozen, pg_catalog, public',
               current_database()); END$$"
        );
        self.eyes.batch_execute(&sql).await.expect("frozen");
    }

    /// The sweep's work on a stuck claim: an intent becomes doubt, the claim goes.
    async fn reset(&self, id: Uuid) {
        self.tamper(
            id,
            "status = 'received', routing_result = (routing_result - 'claim') || jsonb_build_object('deliveries',
             (SELECT jsonb_object_agg(k, CASE WHEN v ? 'begun' THEN (v - 'begun') || '{\"doubt\": true}' ELSE v END)
              FROM jsonb_each(routing_result->'deliveries') AS e(k, v)))",
        )
        .await;
    }
}

async fn claim(store: &Store, id: Uuid, token: &str) -> Claimed {
    let request = ClaimRequest { id, token: token.to_owned() };
    store.claim(&[request]).await.expect("an answer").remove(&id).expect("an answer for it")
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

/// Both actions tried: a record ends the claim.
fn all_tried() -> BTreeSet<i32> {
    BTreeSet::from([1, 2])
}

fn scope<'a>(id: Uuid, token: &'a str, tried: &'a BTreeSet<i32>) -> RecordScope<'a> {
    RecordScope { id, token, tried, pause: Duration::ZERO, refund: false }
}

fn accepted(queue_id: &str) -> Outcome {
    let reply = Reply { code: Some(250), enhanced: Some("2.0.0".to_owned()), reply: "Ok".to_owned() };
    Outcome::Accepted { reply, queue_id: Some(queue_id.to_owned()) }
}

fn fault(code: u16) -> Fault {
    let reply = Reply { code: Some(code), enhanced: None, reply: "no".to_owned() };
    Fault { stage: Stage::Rcpt, reply, about_us: false }
}

/// The entries of one send under `token`, identified by `nonce`.
fn entries(token: &str, nonce: &str, outcomes: &[(&str, Outcome)]) -> Entries {
    entries_of(0, token, nonce, outcomes)
}

/// The same, sent under a generation.
fn entries_of(generation: u32, token: &str, nonce: &str, outcomes: &[(&str, Outcome)]) -> Entries {
    let mut entries = Entries::default();
    for (key, outcome) in outcomes {
        let order = key.split_once('|').and_then(|(order, _)| order.parse().ok()).expect("an order");
        let context = SendContext {
            token,
            nonce,
            attempt: 1,
            action_order: order,
            action_type: maple_router::routing::submission::plan::ActionType::EmailRaw,
            generation,
            destination: "",
            message_id: Some("<m@x.test>"),
        };
        entries.add(&context, key, outcome);
    }
    entries
}

/// Entries that are all accepted.
fn all_accepted(token: &str, nonce: &str) -> Entries {
    entries(token, nonce, &[(A, accepted("QA")), (B, accepted("QB")), (C, accepted("QC"))])
}

/// Answers by id, for readable assertions.
fn labels(answers: &HashMap<Uuid, Claimed>) -> HashMap<Uuid, &'static str> {
    let label = |claimed: &Claimed| match claimed {
        Claimed::Taken(_) => "taken",
        Claimed::Dropped(why) => why.label(),
        Claimed::NotDue { .. } => "held",
        Claimed::Busy => "busy",
        Claimed::Nacked(why) => why.label(),
        Claimed::Failed { reason, .. } => reason.label(),
    };
    answers.iter().map(|(id, claimed)| (*id, label(claimed))).collect()
}
