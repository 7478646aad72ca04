//! A database with schema `router`, the grey queue as `forms_app`, a room that owns subjects and does as a test says, and
//! eyes that see everything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devkit::postgres::{Cluster, TestDatabase, Variant};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::config::Config;
use maple_router::db::pool::{Pool, Transaction};
use maple_router::db::{DbError, PoolOptions};
use maple_router::grey_queue::commands::{Answer, Commands, People, Subjects};
use maple_router::grey_queue::decide::{Ask, Person};
use maple_router::grey_queue::entry::Entry;
use maple_router::grey_queue::store::GreyQueueStore;
use maple_router::grey_queue::table::{ADMIN, REVIEWER, SECURITY, State};
use maple_router::kernel::Who;
use maple_router::kernel::subject::{Looked, OnAccount, Remedied, Remedy, Subject};
use maple_router::ops::clock::SystemClock;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// Longest time anything that does happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A room that owns submissions; looks and remedies are as a test says.
#[derive(Debug, Default)]
pub(crate) struct Room {
    looked: Mutex<BTreeMap<Uuid, Looked>>,
    pub(crate) refuses: Mutex<Option<String>>,
}

/// Nothing is known of the subject that would suffice.
pub(crate) fn missing() -> Looked {
    Looked::Missing {
        what: vec!["1 of 1 deliveries is not reported as delivered".to_owned()],
        failure: None,
        mendable: true,
    }
}

/// The subject stands failed.
pub(crate) fn failing() -> Looked {
    Looked::Missing {
        what: vec!["the submission is failed: refused".to_owned()],
        failure: Some("t".to_owned()),
        mendable: true,
    }
}

impl Room {
    pub(crate) fn says(&self, subject: Uuid, looked: Looked) {
        self.looked.lock().expect("unpoisoned").insert(subject, looked);
    }
}

impl Subject for Room {
    fn kind(&self) -> &'static str {
        "submission"
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[Remedy::Check, Remedy::Replay, Remedy::Replan, Remedy::ForceDelivery, Remedy::Release]
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        let looked = self.looked.lock().expect("unpoisoned").get(&id).cloned().unwrap_or_else(missing);
        async { Ok(looked) }.boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        async move {
            tx.query("SELECT s.id FROM submissions s WHERE s.id = $1 FOR NO KEY UPDATE", &[&id])
                .await
                .map(drop)
        }
        .boxed()
    }

    /// A remedy leaves its mark in the submission, so that one done twice is seen.
    fn remedy<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        remedy: Remedy,
        account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        let refused = self.refuses.lock().expect("unpoisoned").clone();
        async move {
            if let Some(why) = refused {
                return Ok(Remedied::Refused(why));
            }
            let sql = "INSERT INTO router.remedies (subject, remedy, review, actor) VALUES ($1, $2, $3, $4)";
            tx.execute(sql, &[&id, &remedy.label(), &account.review, &account.actor]).await?;
            Ok(Remedied::Done)
        }
        .boxed()
    }
}

/// The users of the desk.
#[derive(Debug)]
pub(crate) struct Team;

/// A user of each role, and a second reviewer.
pub(crate) const TEAM: [(&str, Who); 5] = [
    ("vera", Who::named("viewer")),
    ("anna", REVIEWER),
    ("ben", REVIEWER),
    ("sam", SECURITY),
    ("ada", ADMIN),
];

impl People for Team {
    fn role_of(&self, name: &str) -> Option<Who> {
        TEAM.iter().find(|(known, _)| *known == name).map(|(_, role)| *role)
    }
}

pub(crate) fn person(name: &str) -> Person {
    let role = Team.role_of(name).unwrap_or(REVIEWER);
    Person { name: name.to_owned(), role, label: format!("{role}:{name}") }
}

pub(crate) struct Bench {
    pub(crate) db: TestDatabase,
    pub(crate) store: GreyQueueStore,
    pub(crate) room: Arc<Room>,
    pub(crate) commands: Commands,
    pub(crate) app: Client,
    pub(crate) eyes: Client,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let variant = Variant { router: true, audit_readable: true, ..Variant::default() };
        let db = Cluster::shared().await.expect("a cluster").database(variant).await.expect("a database");
        db.alter(
            "INSERT INTO forms (id, name) VALUES ('f', 'F');
             CREATE TABLE router.remedies (subject uuid, remedy text, review text, actor text);
             GRANT SELECT, INSERT ON router.remedies TO forms_app",
        )
        .await
        .expect("a form");
        let pool = pool(&db);
        let store = GreyQueueStore::new(pool, "maple-router@test");
        let room = Arc::new(Room::default());
        let commands = Commands {
            store: store.clone(),
            subjects: Subjects::new([Arc::clone(&room) as Arc<dyn Subject>]),
            people: Arc::new(Team),
            takeover_after: Duration::from_secs(4 * 3600),
            clock: Arc::new(SystemClock),
        };
        let app = db.client_as("forms_app").await.expect("forms_app");
        let eyes = db.superuser().await.expect("superuser");
        Self { db, store, room, commands, app, eyes }
    }

    /// A submission that has failed for `reason`, in one statement, as a backend writes it.
    pub(crate) async fn failed(&self, reason: &str) -> Uuid {
        let id = Uuid::new_v4();
        let sql = format!(
            "INSERT INTO submissions (id, form_id, status, routing_result) VALUES ('{id}', 'f', 'failed',
             '{{\"finished\": {{\"reason\": \"{reason}\", \"token\": \"{id}-1\"}}}}')"
        );
        self.eyes.batch_execute(&sql).await.expect("failed");
        id
    }

    /// The open entry of a new failed submission.
    pub(crate) async fn pending(&self) -> Entry {
        let id = self.failed("refused").await;
        self.only(id).await
    }

    /// A fresh entry brought to `state` by hand, reviewed by `assignee`.
    pub(crate) async fn in_state(&self, state: State, queue: &str, assignee: &str) -> Entry {
        let entry = self.pending().await;
        let set = match state {
            State::Pending => String::new(),
            State::Processing => ", remedy = 'replay', remedied_at = now()".to_owned(),
            State::Retrying => ", remedy = 'replay', available_at = now() + interval '1 hour'".to_owned(),
            State::UnderReview => format!(", assignee = '{assignee}'"),
            State::Escalated => {
                format!(
                    ", assignee = '{assignee}', escalated_at = now(), escalation_reason = 'odd', escalated_by = '{assignee}'"
                )
            }
            State::Resolved => ", resolution = 'vouched'".to_owned(),
            State::Rejected => ", rejected_by = 'anna', reject_reason = 'spam'".to_owned(),
            State::Failed => ", remedy = 'replay', attempts = 3".to_owned(),
            State::Expired | State::Dismissed => String::new(),
        };
        let sql = format!(
            "UPDATE router.grey_queue SET state = '{state}', queue = '{queue}'{set} WHERE id = '{}'",
            entry.id
        );
        self.eyes.batch_execute(&sql).await.expect("the state");
        self.entry(entry.id).await
    }

    pub(crate) async fn entry(&self, id: Uuid) -> Entry {
        self.store.get(id).await.expect("asked").expect("an entry")
    }

    /// The entries about a subject.
    pub(crate) async fn about(&self, subject: Uuid) -> Vec<Entry> {
        self.store.about(subject).await.expect("asked")
    }

    pub(crate) async fn only(&self, subject: Uuid) -> Entry {
        let mut entries = self.about(subject).await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    /// A command in a transaction of its own, as the desk gives it.
    pub(crate) async fn ask(&self, entry: &Entry, ask: &Ask, who: &str) -> Answer {
        let looked = self.commands.look(entry).await.expect("looked");
        let person = person(who);
        self.store
            .pool()
            .transaction("grey_queue_ask", async |tx| {
                self.commands.ask_in(&tx, (entry.id, entry.version), ask, &person, looked.as_ref()).await
            })
            .await
            .expect("asked")
    }

    /// The entry after a command that is done.
    pub(crate) async fn done(&self, entry: &Entry, ask: &Ask, who: &str) -> Entry {
        match self.ask(entry, ask, who).await {
            Answer::Done { entry, .. } => *entry,
            other @ (Answer::Conflict(_) | Answer::Refused { .. } | Answer::Unknown) => {
                panic!("{ask:?} by {who}: {other:?}")
            }
        }
    }

    /// The whole row with all that is recorded of it.
    pub(crate) async fn trace(&self, id: Uuid) -> Value {
        let sql = "SELECT jsonb_build_object('row', to_jsonb(g), 'log', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.id)
            FROM router.grey_queue_state_transitions t WHERE t.entry_id = g.id)) FROM router.grey_queue g WHERE g.id = $1";
        self.eyes.query_one(sql, &[&id]).await.expect("the row").get(0)
    }

    /// The history as `from>to by command`, and that its chain is unbroken.
    pub(crate) async fn chain(&self, id: Uuid) -> Vec<String> {
        let history = self.store.history(id).await.expect("asked");
        let mut before: Option<String> = None;
        for line in &history {
            assert_eq!(line.from, before, "the chain is unbroken: {history:?}");
            before = Some(line.to.clone());
        }
        let state = self.entry(id).await.state;
        assert_eq!(before.as_deref(), Some(state.label()), "the last line leads to the state");
        history.iter().map(|line| format!("{} {}", line.command, line.to)).collect()
    }

    /// The remedies that were carried out for a subject.
    pub(crate) async fn remedies(&self, subject: Uuid) -> Vec<(String, String, String)> {
        let sql = "SELECT remedy, review, actor FROM router.remedies WHERE subject = $1";
        let rows = self.eyes.query(sql, &[&subject]).await.expect("remedies");
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }
}

pub(crate) fn pool(db: &TestDatabase) -> Pool {
    pool_at(&db.url_as("forms_app"))
}

/// Connections to the database at `url`.
pub(crate) fn pool_at(url: &str) -> Pool {
    let mut config = Config::default();
    url.clone_into(&mut config.database.url);
    config.database.max_connections = 16;
    Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool")
}
