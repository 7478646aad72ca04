//! The statements of the review queue and of its desk: lists with every filter, decisions, a remedy's course, what time brings,
//! and the desk's credentials and kept answers. Part of a round where schema `router` is there.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use maple_router::config::Role;
use maple_router::db::DbError;
use maple_router::db::pool::{Pool, Transaction};
use maple_router::desk::access::credential::{DeskKey, Kind};
use maple_router::desk::store::access_log::{self, What};
use maple_router::desk::store::credentials::{Credentials, NewCredential};
use maple_router::desk::store::idempotency;
use maple_router::grey_queue::automation::Attempt;
use maple_router::grey_queue::commands::{Answer, Commands, People, Subjects};
use maple_router::grey_queue::decide::{Ask, Person, Verb};
use maple_router::grey_queue::entry::Entry;
use maple_router::grey_queue::store::{Filter, GreyQueueStore, Notice, Whose};
use maple_router::grey_queue::table::{ADMIN, State};
use maple_router::grey_queue::upkeep::{Bounds, Upkeep};
use maple_router::kernel::Who;
use maple_router::kernel::jobs::retries::Ending;
use maple_router::kernel::jobs::works::Work as _;
use maple_router::kernel::rows::Kinds;
use maple_router::kernel::subject::{Looked, OnAccount, Remedied, Remedy, Subject};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::incident::Incidents;
use maple_router::ops::rng::Rng;
use maple_router::web::idempotency::{Kept, Key, Once};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Owns the subjects: what their rooms' statements cost is asked elsewhere.
#[derive(Debug)]
struct Nothing;

impl Subject for Nothing {
    fn kind(&self) -> &'static str {
        "submission"
    }

    fn remedies(&self) -> &'static [Remedy] {
        Remedy::ALL
    }

    fn look(&self, _: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        let what = vec!["it has not ended".to_owned()];
        async { Ok(Looked::Missing { what, failure: None, mendable: false }) }.boxed()
    }

    fn lock<'a>(&'a self, _: &'a Transaction, _: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        async { Ok(()) }.boxed()
    }

    fn remedy<'a>(
        &'a self,
        _: &'a Transaction,
        _: Uuid,
        _: Remedy,
        _: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async { Ok(Remedied::Done) }.boxed()
    }
}

#[derive(Debug)]
struct Everybody;

impl People for Everybody {
    fn role_of(&self, _: &str) -> Option<Who> {
        Some(ADMIN)
    }
}

/// The review of one database.
pub(crate) struct Review {
    pool: Pool,
    store: GreyQueueStore,
    commands: Commands,
    rng: Rng,
}

impl Review {
    pub(crate) fn on(pool: Pool) -> Self {
        let store = GreyQueueStore::new(pool.clone(), "maple-router@test");
        let commands = Commands {
            store: store.clone(),
            subjects: Subjects::new([Arc::new(Nothing) as Arc<dyn Subject>]),
            people: Arc::new(Everybody),
            takeover_after: HOUR,
            clock: Arc::new(SystemClock),
        };
        Self { pool, store, commands, rng: Rng::from_system() }
    }

    /// Says everything once, about entries of its own.
    pub(crate) async fn round(&self, eyes: &Client) {
        let entry = self.opened(eyes).await;
        self.read(&entry).await;
        self.decide(eyes, &entry).await;
        self.remedy(eyes).await;
        self.time(eyes).await;
        self.desk(entry.subject.id).await;
        // What a round leaves open must not affect the next one.
        let over = "UPDATE router.grey_queue SET state = 'Dismissed', lease_token = NULL, leased_until = NULL WHERE closed_at IS NULL AND opened_at > now() - interval '1 hour'";
        eyes.batch_execute(over).await.expect("closed");
    }

    async fn opened(&self, eyes: &Client) -> Entry {
        let sql =
            "SELECT router.open_entry('failed', 'refused', 'submission', gen_random_uuid(), 'f', 'k', '{}')";
        let id: Uuid = eyes.query_one(sql, &[]).await.expect("opened").get(0);
        self.store.get(id).await.expect("asked").expect("an entry")
    }

    async fn read(&self, entry: &Entry) {
        assert!(self.store.is_there().await.expect("asked"));
        let none = Filter::default;
        let text = |text: &str| Some(text.to_owned());
        for filter in [
            none(),
            Filter { all_states: true, ..none() },
            Filter { states: vec![State::Pending], ..none() },
            Filter { states: vec![State::UnderReview, State::Escalated], ..none() },
            Filter { states: vec![State::Dismissed], ..none() },
            Filter { cause: text("failed"), reason: text("refused"), ..none() },
            Filter { form: text("f"), ..none() },
            Filter { queue: text("security"), ..none() },
            Filter { queue: text("grading"), ..none() },
            Filter { whose: Some(Whose::Of("anna".to_owned())), ..none() },
            Filter { whose: Some(Whose::Nobodys), older_than: Some(HOUR), ..none() },
            Filter::of_subject(entry.subject.id),
        ] {
            self.store.list(&filter, 50, None).await.expect("a list");
        }
        self.store.counts(&none()).await.expect("counts");
        self.store.summary().await.expect("a summary");
        self.store.some(&[entry.id]).await.expect("some");
        self.store.about(entry.subject.id).await.expect("about it");
        self.store.open_about(&[entry.subject.id]).await.expect("open about it");
        self.store.beginning(entry.id, entry.id).await.expect("by its beginning");
        self.store.history(entry.id).await.expect("a history");
        let since = self.store.time().await.expect("a time") - SignedDuration::from_secs(5);
        self.store.changed_since(Some(since), 200).await.expect("changes");
    }

    async fn ask(&self, entry: &Entry, ask: Ask) -> Answer {
        let person = Person { name: "ada".to_owned(), role: ADMIN, label: "admin:ada".to_owned() };
        self.pool
            .transaction("grey_queue_ask", async |tx| {
                self.commands.ask_in(&tx, (entry.id, entry.version), &ask, &person, None).await
            })
            .await
            .expect("asked")
    }

    async fn done(&self, entry: &Entry, ask: Ask) -> Entry {
        match self.ask(entry, ask).await {
            Answer::Done { entry, .. } => *entry,
            other @ (Answer::Conflict(_) | Answer::Refused { .. } | Answer::Unknown) => panic!("{other:?}"),
        }
    }

    async fn decide(&self, eyes: &Client, entry: &Entry) {
        let stale = Entry { version: entry.version - 1, ..entry.clone() };
        assert!(matches!(self.ask(&stale, Ask::plain(Verb::Assign)).await, Answer::Conflict(_)));
        let entry =
            self.done(entry, Ask { assignee: Some("anna".to_owned()), ..Ask::plain(Verb::Assign) }).await;
        let entry = self.done(&entry, Ask::because(Verb::Reject, "a test")).await;
        let entry = self.done(&entry, Ask::because(Verb::Reopen, "a test")).await;
        let start = Ask { remedy: Some(Remedy::Replay), ..Ask::because(Verb::Start, "a test") };
        self.done(&entry, start).await;
        let told = "UPDATE router.outbox SET state = 'delivered', delivered_at = now() WHERE kind = 'review.assigned' AND state = 'pending'";
        eyes.batch_execute(told).await.expect("told");
    }

    /// A remedy that the policy began: carried out, looked at late, given up on.
    async fn remedy(&self, eyes: &Client) {
        let entry = self.opened(eyes).await;
        let begin = "UPDATE router.grey_queue SET state = 'Processing', remedy = 'replay', available_at = now() - interval '1 s' WHERE id = $1";
        eyes.execute(begin, &[&entry.id]).await.expect("begun");
        let work = Attempt {
            store: self.store.clone(),
            subjects: self.commands.subjects.clone(),
            actor: "maple-router@test".into(),
            evidence_timeout: HOUR,
        };
        let kinds = Kinds::AllBut(Vec::new());
        assert!(self.store.waits(State::Processing, &kinds).await.expect("asked"));
        for late in ["1 second", "2 hours"] {
            let due = format!(
                "UPDATE router.grey_queue SET available_at = now() - interval '{late}', lease_token = NULL, leased_until = NULL WHERE id = $1"
            );
            eyes.execute(&due, &[&entry.id]).await.expect("due");
            let rows =
                self.store.claim(State::Processing, &kinds, 8, HOUR, self.rng.uuid()).await.expect("claimed");
            let leased: Vec<_> = rows.iter().filter_map(|row| Some((row.id, row.token?))).collect();
            self.store.extend(&leased, HOUR).await.expect("extended");
            for row in rows.iter().filter(|row| row.id == entry.id) {
                assert!(matches!(work.run(row).await, Ending::After(_)), "it waits for evidence");
            }
        }
        self.store.wake(8).await.expect("woken");
    }

    async fn time(&self, eyes: &Client) {
        let entry = self.opened(eyes).await;
        let upkeep = Upkeep {
            store: self.store.clone(),
            subjects: self.commands.subjects.clone(),
            bounds: Bounds { ttl: 30 * DAY, auto: [].into(), max_attempts: 3, keep: 400 * DAY, every: HOUR },
            clock: Arc::new(SystemClock),
            incidents: Incidents::new().0,
            actor: "maple-router@test".into(),
        };
        upkeep.once().await.expect("a pass");
        let since = self.store.time().await.expect("a time") - SignedDuration::from_hours(24);
        self.store.reconcile(since, false, 100).await.expect("reconciled");
        for notice in Notice::ALL {
            self.store.unnotified(*notice, DAY, 10).await.expect("asked");
            self.store.lease_notice(*notice, DAY, 10, HOUR).await.expect("leased");
            self.store.give_notice_back(&[entry.id]).await.expect("given back");
            self.store.notified(*notice, &[entry.id]).await.expect("confirmed");
        }
    }

    async fn desk(&self, subject: Uuid) {
        let key = DeskKey::new(&"ab".repeat(32)).expect("a key");
        let digest = |what: &str| key.signed(what, self.rng.uuid().as_bytes());
        let credentials = Credentials::new(self.pool.clone());
        let (link, old, session) = (digest("link"), digest("old"), digest("session"));
        for (digest, kind) in [(&link, Kind::Link), (&old, Kind::Session)] {
            let new = NewCredential {
                digest,
                kind,
                user: "ada",
                role_cap: Some(Role::Admin),
                label: "",
                life: HOUR,
            };
            credentials.make(new).await.expect("made");
        }
        let user = credentials.log_in(&link, Some(&old), |_| Some((session, HOUR))).await.expect("spent");
        assert_eq!(user.as_deref(), Some("ada"));
        credentials.find(Kind::Session, &session, |_| true).await.expect("found");
        credentials.list().await.expect("listed");
        credentials.end(&session).await.expect("ended");
        credentials.prune(100).await.expect("pruned");
        let (name, request) = (Key::new(&self.rng.uuid().to_string()).expect("a key"), digest("request"));
        let kept = Kept { status: 200, response: json!({}) };
        self.pool
            .transaction("desk_decide", async |tx| {
                assert!(matches!(idempotency::once(&tx, "ada", &name, &request).await?, Once::Fresh));
                idempotency::keep(&tx, "ada", &name, &request, &kept).await?;
                idempotency::keep_instead(&tx, "ada", &name, &request, &kept).await?;
                access_log::append(&tx, "ada", subject, What::Mail).await
            })
            .await
            .expect("kept");
        idempotency::prune(&self.pool, 100).await.expect("pruned");
    }
}
