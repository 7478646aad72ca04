//! The open rows as events: which rows are found, and that the source hands each out once, whoever gives up waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::Cluster;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use maple_router::ops::chance::Chance;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::gate::Gate;
use maple_router::ops::incident::Incidents;
use maple_router::ports::{Clock, EventSource, Incoming, SourceError};
use maple_router::routing::event::{self, Parsed};
use maple_router::routing::open_rows::{OpenRows, OpenRowsSettings};
use maple_router::routing::outages::Outages;
use maple_router::routing::pause::{Pause, Pauses, Scope};
use maple_router::routing::pauses::PauseBoard;
use maple_router::routing::store::open_rows::OpenQuestion;
use serde_json::json;
use uuid::Uuid;

use crate::{Bench, store};

/// Real time, and what is skipped.
#[derive(Debug, Clone, Default)]
struct Hasty(Arc<AtomicU64>);

impl Hasty {
    fn skip(&self, pause: Duration) {
        self.0.fetch_add(u64::try_from(pause.as_millis()).expect("short"), Ordering::SeqCst);
    }
}

impl Clock for Hasty {
    fn monotonic(&self) -> Instant {
        SystemClock.monotonic() + Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        let (clock, until) = (self.clone(), self.monotonic() + pause);
        async move {
            while clock.monotonic() < until {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        .boxed()
    }
}

/// A look's answer in moments, or nothing.
const MOMENT: Duration = Duration::from_millis(400);

fn settings(most: usize) -> OpenRowsSettings {
    OpenRowsSettings { most, poll: Duration::from_millis(20), not_before: None, canary: None }
}

fn rows(bench: &Bench, clock: &Hasty, settings: OpenRowsSettings) -> OpenRows {
    let (clock, chance) = (Arc::new(clock.clone()) as Arc<dyn Clock>, Arc::new(Chance::seeded(1)));
    let (incidents, _seen) = Incidents::new();
    let (outages, _probers) = Outages::new(Gate::new(), &incidents, Arc::clone(&clock), &chance);
    OpenRows::new(bench.store.clone(), outages, (clock, chance), settings)
}

async fn next(source: &mut dyn EventSource) -> Option<Result<Incoming, SourceError>> {
    tokio::time::timeout(MOMENT, source.next()).await.ok()
}

fn id(incoming: &Incoming) -> Uuid {
    match event::parse(&incoming.attributes, &incoming.data) {
        Parsed::Event(event) => event.submission_id,
        other @ (Parsed::Canary | Parsed::Poison { .. }) => panic!("{other:?}"),
    }
}

async fn some(source: &mut dyn EventSource) -> Incoming {
    next(source).await.expect("in time").expect("an event")
}

#[tokio::test]
async fn only_what_could_be_claimed_is_found() {
    let bench = Bench::of(&[Form::new("f").mail_to("a@x.test"), Form::new("g").mail_to("a@x.test")]).await;
    let due = |at: &str| SubmissionSeed::of("f").ledger(json!({"v": 1, "next_attempt_at": at}));
    let soon: Timestamp =
        bench.eyes.query_one("SELECT now() + interval '1 minute'", &[]).await.expect("a time").get(0);
    let before: Timestamp = "2025-01-01T00:00:00Z".parse().expect("a time");
    let table = [
        ("ready", SubmissionSeed::of("f"), true),
        ("clean", SubmissionSeed::of("f").attachment("a", "clean").attachment("b", "clean"), true),
        ("being scanned", SubmissionSeed::of("f").attachment("a", "clean").attachment("b", "pending"), false),
        ("infected", SubmissionSeed::of("f").attachment("a", "pending").attachment("b", "infected"), true),
        ("due", due("2026-01-01T00:00:00Z"), true),
        ("not due", due(&soon.to_string()), false),
        ("due beyond any back-off, just written", due("2999-01-01T00:00:00Z"), false),
        ("no time, for the claim to judge", due("2026-02-30T00:00:00Z"), true),
        ("no time at all", SubmissionSeed::of("f").ledger(json!({"next_attempt_at": [7]})), true),
        ("not an object", SubmissionSeed::of("f").ledger(json!("x")), true),
        ("history", SubmissionSeed::of("f").created_at(before), false),
        ("paused", SubmissionSeed::of("g"), false),
        ("paused and infected", SubmissionSeed::of("g").attachment("a", "infected"), true),
        ("claimed", SubmissionSeed::of("f").status("processing"), false),
        ("routed", SubmissionSeed::of("f").status("routed"), false),
        ("failed", SubmissionSeed::of("f").status("failed").attachment("a", "infected"), false),
        ("purged", SubmissionSeed::of("f").status("purged"), false),
    ];
    let mut ids = Vec::new();
    for (_, seed, _) in &table {
        ids.push(bench.insert(seed).await);
    }
    let pause = Pause {
        scope: Scope::Form("g".to_owned()),
        since: Timestamp::UNIX_EPOCH,
        until: None,
        reason: "x".to_owned(),
        actor: "x".to_owned(),
    };
    let pauses = PauseBoard::of(Pauses::in_force(vec![pause], Timestamp::UNIX_EPOCH));
    let store = bench.store.clone().with_pauses(pauses);
    let all = OpenQuestion { most: 100, ..OpenQuestion::default() };
    let not_before = "2026-01-01T00:00:00Z".parse().ok();
    let answer = store.open_rows(&all, not_before).await.expect("an answer");
    for ((what, _, wanted), id) in table.iter().zip(&ids) {
        assert_eq!(answer.rows.iter().any(|row| row.id == *id), *wanted, "{what}");
    }
    let order: Vec<_> = answer.rows.iter().map(|row| (row.touched, row.id)).collect();
    assert!(order.is_sorted(), "longest untouched first: {order:?}");
    // The rest of the question: what is not wanted, from where on, how many, and how others stand.
    let (first, second) = (&answer.rows[0], &answer.rows[1]);
    let question = OpenQuestion {
        answered: vec![ids[0], ids[13], ids[14], Uuid::nil()],
        but: vec![second.id],
        after: first.place(),
        most: 2,
    };
    let part = store.open_rows(&question, not_before).await.expect("an answer");
    assert_eq!(part.rows, answer.rows[2..4]);
    assert_eq!(part.open.into_keys().collect::<Vec<_>>(), [ids[0]]);
    // A clock that was ahead is not waited for: counted from the last change, or at once where it has written that, too.
    let beyond = ids[6];
    for changed in ["now() - interval '301 s'", "now() + interval '1 hour'", "'infinity'"] {
        bench.tamper(beyond, &format!("updated_at = {changed}")).await;
        let answer = store.open_rows(&all, not_before).await.expect("an answer");
        assert!(answer.rows.iter().any(|row| row.id == beyond), "changed {changed}");
    }
    bench.tamper(beyond, "updated_at = now()").await;
    // Found in spite of times that are none to us.
    bench.tamper(ids[0], "updated_at = 'infinity'").await;
    let answer = store.open_rows(&all, not_before).await.expect("an answer");
    assert_eq!(answer.rows.last().map(|row| (row.id, row.touched)), Some((ids[0], None)));
}

#[tokio::test]
async fn a_row_in_hand_is_handed_out_once_also_by_the_source_that_follows() {
    let (bench, clock) = (Bench::new().await, Hasty::default());
    let mut wanted = Vec::new();
    for _ in 0..5 {
        wanted.push(bench.ready().await);
    }
    let rows = rows(&bench, &clock, settings(3));
    let mut first = rows.source(false);
    let mut held = Vec::new();
    for place in 0..3 {
        held.push(some(&mut first).await);
        assert_eq!(id(&held[place]), wanted[place], "oldest first");
    }
    assert!(next(&mut first).await.is_none(), "three are in hand");
    let mut second = rows.source(false);
    assert!(next(&mut second).await.is_none(), "whoever holds them");
    let gone = Box::new(first).stop(Duration::from_millis(50)).now_or_never();
    assert!(gone.is_none(), "it waits for its answers");
    let done = held.remove(1);
    bench.tamper(id(&done), "status = 'routed'").await;
    done.settle.ack();
    let fourth = some(&mut second).await;
    assert_eq!(id(&fourth), wanted[3], "one answer makes room for one");
    assert!(next(&mut second).await.is_none());
    // Found, and not asked for: given back.
    drop(held);
    let fifth = some(&mut second).await;
    assert_eq!(id(&fifth), wanted[4]);
    let stopping = Box::new(second).stop(Duration::from_millis(100));
    assert!(!stopping.await, "two are not answered yet");
    fourth.settle.nack();
    fifth.settle.nack();
    let mut third = rows.source(false);
    clock.skip(Duration::from_secs(1));
    let again = some(&mut third).await;
    assert!(wanted.contains(&id(&again)), "what was given back and is open comes again");
    again.settle.nack();
    third.quiet().await;
    assert!(next(&mut third).await.is_none(), "quiet is quiet");
    assert!(Box::new(third).stop(Duration::from_secs(1)).await);
}

#[tokio::test]
async fn whoever_gives_up_waiting_does_not_begin_the_look_anew() {
    let (bench, clock) = (Bench::new().await, Hasty::default());
    let wanted = bench.ready().await;
    let mut source = rows(&bench, &clock, settings(8)).source(false);
    bench.eyes.batch_execute("BEGIN; LOCK TABLE submissions IN ACCESS EXCLUSIVE MODE").await.expect("locked");
    for _ in 0..200 {
        assert!(tokio::time::timeout(Duration::from_millis(1), source.next()).await.is_err());
    }
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
        AND query LIKE '-- open_rows%'";
    let looking: i64 = bench.eyes.query_one(sql, &[]).await.expect("counted").get(0);
    assert_eq!(looking, 1, "one look, however often it was waited for");
    bench.eyes.batch_execute("ROLLBACK").await.expect("unlocked");
    let found = loop {
        if let Ok(found) = tokio::time::timeout(Duration::from_millis(1), source.next()).await {
            break found.expect("an event");
        }
    };
    assert_eq!(id(&found), wanted);
}

#[tokio::test]
async fn it_ends_when_the_database_has_learnt_to_announce_and_only_then() {
    let (bench, clock) = (Bench::new().await, Hasty::default());
    let rows = rows(&bench, &clock, settings(8));
    assert_eq!(rows.outbox_is_there().await, Ok(false));
    let (mut watching, mut other) = (rows.source(true), rows.source(false));
    clock.skip(Duration::from_secs(61));
    assert!(next(&mut watching).await.is_none(), "there is none yet");
    let table = "CREATE SCHEMA router; CREATE TABLE router.outbox ()";
    bench.eyes.batch_execute(table).await.expect("an outbox");
    clock.skip(Duration::from_secs(61));
    assert_eq!(rows.outbox_is_there().await, Ok(false), "this role may not use it");
    assert!(next(&mut watching).await.is_none());
    bench
        .eyes
        .batch_execute("GRANT USAGE ON SCHEMA router TO forms_app; GRANT ALL ON router.outbox TO forms_app")
        .await
        .expect("granted");
    assert_eq!(rows.outbox_is_there().await, Ok(true));
    assert!(next(&mut watching).await.is_none(), "asked now and then, not all the time");
    clock.skip(Duration::from_secs(61));
    let ended = next(&mut watching).await.expect("in time");
    assert!(matches!(ended, Err(SourceError::Ended { .. })), "{ended:?}");
    assert!(next(&mut other).await.is_none(), "who does not ask does not end");
}

#[tokio::test]
async fn a_database_that_does_not_answer_ends_it_with_what_was_said() {
    let cluster = Cluster::start(devkit::postgres::ClusterOptions::default()).await.expect("a server");
    let db = cluster.database(devkit::postgres::Variant::default()).await.expect("a database");
    let (backend, eyes) = (db.client_as("forms_app").await, db.superuser().await);
    let store = store(&db, 2);
    let bench = Bench { store, backend: backend.expect("forms_app"), eyes: eyes.expect("superuser"), db };
    let mut source = rows(&bench, &Hasty::default(), settings(8)).source(false);
    assert!(next(&mut source).await.is_none());
    bench.eyes.batch_execute("REVOKE SELECT ON submissions FROM forms_app").await.expect("revoked");
    let refused = next(&mut source).await.expect("in time");
    assert!(matches!(&refused, Err(error) if error.needs_a_human()), "{refused:?}");
    cluster.stop().await;
    let gone = tokio::time::timeout(Duration::from_secs(20), source.next()).await.expect("in time");
    assert!(
        matches!(&gone, Err(error @ SourceError::Transient { .. }) if !error.needs_a_human()),
        "{gone:?}"
    );
}
