//! A run: what has ended is emptied, what nothing refers to goes, each with its receipt, and everything else stays.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use devkit::google::{Act, Call, Rule, Stage};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::ports::Clock;
use maple_router::retention::collector::{Collector, Ended, RunError};
use maple_router::retention::counts::Counts;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::{CONTENT, Scene, triples};

#[tokio::test]
async fn what_has_ended_is_emptied_and_its_objects_go_and_nothing_else() {
    let scene = Scene::new().await;
    let (old, young) = (scene.routed().await, scene.routed().await);
    scene.sql(&format!("UPDATE submissions SET created_at = now() WHERE id = '{young}'")).await;
    let (gone, shared) = (scene.attach(old, "a").await, scene.attach(old, "shared").await);
    scene.name(young, "shared").await;
    let counts = scene.run().await;
    assert_eq!((counts.purged, counts.deleted), (1, 1), "{counts:?}");
    assert_eq!(
        (scene.status(old).await, scene.status(young).await),
        ("purged".to_owned(), "routed".to_owned())
    );
    assert!(!scene.is_there("a") && scene.is_there("shared"));
    assert_eq!(
        (scene.state(gone).await, scene.state(shared).await),
        ("deleted".to_owned(), "live".to_owned())
    );
    assert_eq!(scene.receipts(old).await, ["purged"]);
    assert_eq!(scene.receipts(gone).await, ["object_deleted"]);
    assert_eq!(
        scene.history(gone).await,
        triples(&[
            ("tombstoned", "delete_request", "system"),
            ("eligible_for_gc", "retention_elapsed", "collector"),
            ("deleted", "gc_sweep", "collector"),
        ])
    );
    let left: i64 =
        scene.one(&format!("SELECT count(*) FROM submission_fields WHERE submission_id = '{old}'")).await;
    assert_eq!(left, 0);
    let ledger: String =
        scene.one(&format!("SELECT routing_result::text FROM submissions WHERE id = '{old}'")).await;
    assert!(!ledger.contains("example.org") && ledger.contains("finished"), "{ledger}");
    // The other one's time comes: now its file goes as well.
    scene
        .sql(&format!("UPDATE submissions SET created_at = now() - interval '2 years' WHERE id = '{young}'"))
        .await;
    scene.run().await;
    assert!(!scene.is_there("shared"));
    let counts = scene.run().await;
    assert_eq!(counts, Counts::default(), "nothing is left to do");
}

/// A clock by which a second passes between two looks, and that notes its pauses instead of waiting.
#[derive(Debug)]
struct Noted {
    began: Instant,
    looks: AtomicU32,
    pauses: Mutex<Vec<Duration>>,
}

impl Clock for Noted {
    fn monotonic(&self) -> Instant {
        self.began + Duration::from_secs(1) * self.looks.fetch_add(1, Ordering::SeqCst)
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        self.pauses.lock().expect("a clock").push(pause);
        std::future::ready(()).boxed()
    }
}

#[tokio::test]
async fn after_a_page_the_database_is_the_routings_for_some_time() {
    let scene = Scene::new().await;
    for _ in 0..101 {
        scene.routed().await;
    }
    let clock =
        Arc::new(Noted { began: Instant::now(), looks: AtomicU32::default(), pauses: Mutex::default() });
    let collector = Collector { rest: 3, clock: clock.clone(), ..scene.collector() };
    let ended = collector.run(&CancellationToken::new()).await.expect("a run");
    let Ended::Done(_, counts) = ended else { panic!("not done: {ended:?}") };
    assert_eq!(counts.purged, 101);
    // A hundred took a second; behind the last page there is nothing to leave room beside.
    assert_eq!(*clock.pauses.lock().expect("a clock"), [Duration::from_secs(3)]);
}

#[tokio::test]
async fn the_grace_is_a_time_to_take_it_back() {
    let scene = Scene::new().await;
    let old = scene.routed().await;
    let blob = scene.attach(old, "a").await;
    let mut collector = scene.collector();
    collector.grace = Duration::from_secs(3600);
    collector.run(&CancellationToken::new()).await.expect("a run");
    assert_eq!(scene.state(blob).await, "tombstoned");
    collector.run(&CancellationToken::new()).await.expect("a run");
    assert!(scene.is_there("a"), "the grace has not passed");
    // A new reference takes it back, whoever makes it.
    let other = scene.received().await;
    scene.name(other, "a").await;
    assert_eq!(scene.state(blob).await, "live");
    scene.sql(&format!("DELETE FROM attachments WHERE submission_id = '{other}'")).await;
    scene.sql("UPDATE content.blobs SET deadline = now() - interval '1 s' WHERE state = 'tombstoned'").await;
    scene.run().await;
    assert!(!scene.is_there("a"));
}

#[tokio::test]
async fn a_run_that_dies_after_the_sweep_is_paid_for_by_the_next() {
    let scene = Scene::new().await;
    let old = scene.routed().await;
    let blob = scene.attach(old, "a").await;
    // The store does it, and nobody hears of it.
    scene.google.rule(Rule::at(Stage::After).call(Call::Delete).times(1).act(Act::Disconnect));
    let failed = scene.collector().run(&CancellationToken::new()).await;
    assert!(matches!(failed, Err(RunError::Store(_))), "{failed:?}");
    assert_eq!(scene.state(blob).await, "deleted");
    assert!(scene.receipts(blob).await.is_empty(), "no answer, no receipt");
    let trouble: String = scene.one("SELECT trouble FROM content.gc_runs WHERE state = 'failed'").await;
    assert!(trouble.contains("the connection broke"), "{trouble}");
    let counts = scene.run().await;
    assert_eq!((counts.deleted, counts.missing), (1, 0), "an object that is gone is what was wanted");
    assert_eq!(scene.receipts(blob).await, ["object_deleted"]);
    assert_eq!(scene.run().await, Counts::default());
}

#[tokio::test]
async fn one_object_that_cannot_be_deleted_stops_nobody() {
    let scene = Scene::new().await;
    for n in 0..5 {
        let old = scene.routed().await;
        scene.attach(old, &format!("a{n}")).await;
    }
    scene.google.rule(Rule::at(Stage::Before).call(Call::Delete).object("a3").times(1).act(Act::Status(503)));
    let counts = scene.run().await;
    assert_eq!((counts.deleted, counts.failed), (4, 1));
    assert!(scene.is_there("a3"));
    assert_eq!(scene.run().await.deleted, 1, "the next run");
}

#[tokio::test]
async fn what_somebody_else_removed_or_replaced_is_told_and_left_alone() {
    let scene = Scene::new().await;
    let old = scene.routed().await;
    let (missing, replaced) = (scene.attach(old, "missing").await, scene.attach(old, "replaced").await);
    scene
        .sql(&format!("UPDATE content.blobs SET generation = 1 WHERE id IN ('{missing}', '{replaced}')"))
        .await;
    scene.google.delete_object(CONTENT, "missing");
    let counts = scene.run().await;
    assert_eq!((counts.deleted, counts.missing, counts.replaced), (0, 1, 1), "{counts:?}");
    assert!(scene.is_there("replaced"), "it is not the one that was to be deleted");
    assert_eq!(scene.receipts(missing).await, ["object_missing"]);
    assert_eq!(scene.receipts(replaced).await, ["object_replaced"]);
    assert_eq!(scene.run().await, Counts::default(), "each is told once");
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_not_marked_and_stops_nobody() {
    let scene = Scene::new().await;
    for n in 0..3 {
        let old = scene.routed().await;
        scene.attach(old, &format!("a{n}")).await;
    }
    scene
        .google
        .rule(Rule::at(Stage::Before).call(Call::Metadata).object("a1").times(1).act(Act::Status(503)));
    let counts = scene.run().await;
    assert_eq!((counts.unreadable, counts.deleted), (1, 2), "{counts:?}");
    assert!(scene.is_there("a1"));
    assert_eq!(scene.run().await.deleted, 1);
    // A store that says nothing at all ends the run, before anything is swept.
    let old = scene.routed().await;
    let blob = scene.attach(old, "b").await;
    scene.google.rule(Rule::at(Stage::Before).call(Call::Metadata).times(1).act(Act::Status(503)));
    let failed = scene.collector().run(&CancellationToken::new()).await;
    assert!(matches!(failed, Err(RunError::Store(_))), "{failed:?}");
    assert_eq!(scene.state(blob).await, "tombstoned");
}

#[tokio::test]
async fn two_collectors_do_not_work_at_once_and_a_dead_ones_place_is_taken() {
    let scene = Scene::new().await;
    let old = scene.routed().await;
    let blob = scene.attach(old, "a").await;
    let trapped = scene.google.trap(Rule::at(Stage::Before).call(Call::Delete));
    let (first, stop) = (scene.collector(), CancellationToken::new());
    let running = tokio::spawn(async move { first.run(&stop).await });
    trapped.hit(crate::harness::PATIENCE).await.expect("the run deletes");
    let busy = scene.collector().run(&CancellationToken::new()).await.expect("answered");
    let Ended::Busy(run) = busy else { panic!("{busy:?}") };
    assert_eq!((run.actor.as_str(), run.state.as_str()), ("gc@test", "sweeping"));
    // It stands still for so long that its lease runs out: another takes its place, and pays.
    scene
        .sql("UPDATE content.gc_runs SET leased_until = now() - interval '1 s' WHERE ended_at IS NULL")
        .await;
    let counts = scene.run().await;
    assert_eq!(counts.deleted, 1);
    trapped.release();
    let late = running.await.expect("no panic");
    assert!(matches!(late, Err(RunError::Lost)), "{late:?}");
    assert_eq!(scene.receipts(blob).await, ["object_deleted"], "one receipt, however many asked");
    let states: Vec<String> = scene.one("SELECT array_agg(state ORDER BY id) FROM content.gc_runs").await;
    assert_eq!(states, ["failed", "done"]);
}

#[tokio::test]
async fn a_run_can_be_stopped_and_the_next_goes_on() {
    let scene = Scene::new().await;
    for n in 0..3 {
        let old = scene.routed().await;
        scene.attach(old, &format!("a{n}")).await;
    }
    let (mut collector, stop, turns) =
        (scene.collector(), CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
    let (token, seen) = (stop.clone(), Arc::clone(&turns));
    collector.progress = Arc::new(move |counts: &Counts| {
        seen.lock().expect("whole").push(counts.clone());
        if counts.purged > 0 {
            token.cancel();
        }
    });
    let ended = collector.run(&stop).await.expect("a run");
    assert!(matches!(ended, Ended::Stopped(..)), "{ended:?}");
    let recorded: (String, Option<String>) = (
        scene.one("SELECT state FROM content.gc_runs").await,
        scene.one("SELECT trouble FROM content.gc_runs").await,
    );
    assert_eq!(recorded, ("stopped".to_owned(), None), "nobody is told of a failure");
    assert!((0..3).all(|n| scene.is_there(&format!("a{n}"))));
    assert!(!turns.lock().expect("whole").is_empty());
    assert_eq!(scene.run().await.deleted, 3);
}

/// A row that its own trigger keeps from being emptied.
#[tokio::test]
async fn one_row_that_cannot_be_emptied_stops_nobody() {
    let scene = Scene::new().await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(scene.routed().await);
    }
    let bad = ids[3];
    scene
        .sql(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON submissions FOR EACH ROW WHEN (NEW.status = 'purged' AND NEW.id = '{bad}') EXECUTE FUNCTION refuse()"
        ))
        .await;
    let counts = scene.run().await;
    assert_eq!((counts.purged, counts.refused), (6, 1), "{counts:?}");
    assert_eq!(scene.status(bad).await, "routed");
    let fields: i64 =
        scene.one(&format!("SELECT count(*) FROM submission_fields WHERE submission_id = '{bad}'")).await;
    assert_eq!(fields, 2, "nothing of it went");
}

/// A row that somebody has locked is left to the next run, and not waited for.
#[tokio::test]
async fn a_locked_row_is_left_and_not_waited_for() {
    let scene = Scene::new().await;
    let (locked, free) = (scene.routed().await, scene.routed().await);
    let mut other = scene.db.superuser().await.expect("another");
    let tx = other.transaction().await.expect("begun");
    tx.query("SELECT FROM submissions WHERE id = $1 FOR NO KEY UPDATE", &[&locked]).await.expect("locked");
    let counts = scene.run().await;
    assert_eq!((counts.purged, counts.kept.get("busy")), (1, Some(&1)), "{counts:?}");
    assert_eq!(scene.status(free).await, "purged");
    tx.rollback().await.expect("let go");
    assert_eq!(scene.run().await.purged, 1);
}

/// Each is found by its own end, or by its form's.
#[tokio::test]
async fn an_end_of_its_own_counts_before_its_forms() {
    let scene = Scene::new().await;
    let ids: Vec<Uuid> =
        [scene.routed().await, scene.routed().await, scene.routed().await, scene.routed().await].into();
    let change = |n: usize, what: &str| format!("UPDATE submissions SET {what} WHERE id = '{}'", ids[n]);
    scene.sql(&change(0, "retention_expires_at = now() + interval '1 day'")).await;
    scene.sql(&change(1, "retention_expires_at = now() - interval '1 s', created_at = now()")).await;
    scene.sql(&change(2, "retention_expires_at = 'infinity'")).await;
    scene.sql(&change(3, "form_id = 'g'")).await;
    scene.sql("INSERT INTO content.retention (form_id, keep_routed, keep_failed, set_by) VALUES ('g', '9 years', '9 years', 'test')").await;
    assert_eq!(scene.run().await.purged, 1);
    let mut left = Vec::new();
    for id in &ids {
        left.push(scene.status(*id).await);
    }
    assert_eq!(left, ["routed", "purged", "routed", "routed"]);
    scene.sql("DELETE FROM content.retention").await;
    scene.routed().await;
    assert_eq!(scene.run().await, Counts::default(), "nobody says how long: nothing ends");
}

#[tokio::test]
async fn versions_that_can_no_longer_be_restored_lose_their_content_and_keep_their_digest() {
    let scene = Scene::new().await;
    let (old, young) = (Uuid::new_v4(), Uuid::new_v4());
    for (id, number, deadline) in [(old, 1, "now() - interval '1 s'"), (young, 2, "now() + interval '1 day'")]
    {
        scene
            .sql(&format!(
                "BEGIN;
                 INSERT INTO content.versions (id, form_id, number, digest, source, author) VALUES ('{id}', 'f', {number}, sha256('{number}'), 'yaml', 'z');
                 INSERT INTO content.entries (version_id, kind, key, content) VALUES ('{id}', 'settings', 'form', '{{}}');
                 UPDATE content.versions SET state = 'tombstoned', deadline = {deadline} WHERE id = '{id}';
                 COMMIT"
            ))
            .await;
    }
    let early = scene.eyes.execute("DELETE FROM content.entries WHERE version_id = $1", &[&young]).await;
    assert!(early.is_err(), "it can still be restored");
    assert_eq!(scene.run().await.forgotten, 1);
    let entries: Vec<Uuid> = scene.one("SELECT array_agg(version_id) FROM content.entries").await;
    assert_eq!(entries, [young]);
    let digests: i64 = scene.one("SELECT count(digest) FROM content.versions").await;
    assert_eq!(digests, 2);
    assert_eq!(scene.run().await, Counts::default());
}

/// Objects of uploads that came to nothing behind the daemon's back: it may delete nothing in their bucket.
#[tokio::test]
async fn final_objects_that_became_no_blob_go_once_their_sessions_object_is_gone() {
    let scene = Scene::new().await;
    let (done, half) = (Uuid::new_v4(), Uuid::new_v4());
    for upload in [done, half] {
        scene.google.put_object(CONTENT, &format!("blobs/f/{upload}"), "text/plain", "x");
        scene
            .sql(&format!(
                "INSERT INTO content.staging (bucket, object, upload_id, role, due_at) VALUES ('{CONTENT}', 'blobs/f/{upload}', '{upload}', 'blob', now() - interval '1 s')"
            ))
            .await;
    }
    scene
        .sql(&format!(
            "INSERT INTO content.staging (bucket, object, upload_id, role, due_at) VALUES ('staging', 'staging/{half}', '{half}', 'session', now())"
        ))
        .await;
    assert_eq!(scene.run().await.left_over, 1);
    assert!(!scene.is_there(&format!("blobs/f/{done}")));
    assert!(
        scene.is_there(&format!("blobs/f/{half}")),
        "somebody may make it again until its session's object is gone"
    );
    scene.sql("DELETE FROM content.staging WHERE role = 'session'").await;
    assert_eq!(scene.run().await.left_over, 1);
    let left: i64 = scene.one("SELECT count(*) FROM content.staging").await;
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_blob_that_was_taken_back_is_kept_for_its_time() {
    let scene = Scene::new().await;
    let old = scene.routed().await;
    let blob = scene.attach(old, "a").await;
    let mut collector = scene.collector();
    collector.grace = Duration::from_secs(3600);
    collector.run(&CancellationToken::new()).await.expect("a run");
    let hour = Duration::from_secs(3600);
    scene.store.undelete(blob, "zoe", "a mistake", hour).await.expect("answered").expect("until then");
    assert_eq!(scene.state(blob).await, "live");
    scene.run().await;
    assert!(scene.is_there("a"));
    let refused = scene.store.undelete(blob, "zoe", "again", hour).await;
    assert!(refused.is_err(), "it lives");
    scene.sql("UPDATE content.blob_refs SET until = now() - interval '1 s'").await;
    let counts = scene.run().await;
    assert_eq!((counts.released, counts.deleted), (1, 1));
    let refused = scene.store.undelete(blob, "zoe", "too late", hour).await;
    assert!(refused.is_err(), "deleted is final");
}

/// An object that the store refuses to delete, and that is the only one owed: purge, mark and sweep go on all the same.
#[tokio::test]
async fn an_object_that_is_always_refused_does_not_stop_later_runs() {
    let scene = Scene::new().await;
    let old = scene.routed().await;
    scene.attach(old, "kept-by-the-store").await;
    scene.google.rule(Rule::at(Stage::Before).call(Call::Delete).object("kept-by").act(Act::Status(400)));
    assert_eq!(scene.run().await.failed, 1);
    let other = scene.routed().await;
    scene.attach(other, "b").await;
    let counts = scene.run().await;
    assert_eq!((counts.purged, counts.deleted, counts.failed), (1, 1, 1), "{counts:?}");
}

/// What an upload left behind and cannot be deleted is said, and does not end the run.
#[tokio::test]
async fn a_left_over_object_that_is_refused_stays_with_its_row() {
    let scene = Scene::new().await;
    for name in ["a", "b"] {
        scene.google.put_object(CONTENT, name, "text/plain", "x");
        let row = format!(
            "INSERT INTO content.staging (bucket, object, upload_id, role, due_at) VALUES ('{CONTENT}', '{name}', gen_random_uuid(), 'blob', now())"
        );
        scene.sql(&row).await;
    }
    scene.google.rule(Rule::at(Stage::Before).call(Call::Delete).object("a").times(1).act(Act::Status(400)));
    let counts = scene.run().await;
    assert_eq!((counts.left_over, counts.failed), (1, 1), "{counts:?}");
    let left: String = scene.one("SELECT string_agg(object, ',') FROM content.staging").await;
    assert_eq!(left, "a");
    assert_eq!(scene.run().await.left_over, 1);
}
