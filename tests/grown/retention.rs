//! The statements of retention: a run of the collector over a file that lost its last reference, a submission that is erased, a recall,
//! and what the daemon and people read. Part of a round where the schemas are there.
//!
//! The store is not asked here: what it would say is written down as it would be.

use std::sync::Arc;
use std::time::Duration;

use devkit::postgres::TestDatabase;
use maple_router::config::Database;
use maple_router::db::{Pool, PoolOptions};
use maple_router::kernel::Transition;
use maple_router::kernel::rows::{Fence, Write};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::retention::store::holds::Scope;
use maple_router::retention::store::runs::{Begun, RunState};
use maple_router::retention::store::submissions::Authority;
use maple_router::retention::store::swept::Gone;
use maple_router::retention::store::{Place, RetentionStore};
use maple_router::retention::table::Blob;
use maple_router::retention::{decide, table::State};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

const DAY: Duration = Duration::from_secs(86_400);
const MOST: usize = 500;

/// Retention in one database: the collector's hands, the publisher's, and the daemon's eyes.
pub(crate) struct Retention {
    collector: RetentionStore,
    publisher: RetentionStore,
    daemon: RetentionStore,
}

impl Retention {
    pub(crate) fn on(db: &TestDatabase, daemon: Pool) -> Self {
        let pool = |role: &str| {
            // One connection, like the daemon's.
            let database = Database {
                url: db.url_as(role),
                max_connections: 1,
                statement_timeout: Duration::from_secs(120),
                ..Database::default()
            };
            Pool::new(&database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool")
        };
        Self {
            collector: RetentionStore::new(pool("maple_gc"), "gc"),
            publisher: RetentionStore::new(pool("forms_loader"), "operator:zoe"),
            daemon: RetentionStore::new(daemon, "maple-router@test"),
        }
    }

    /// Says every statement once. `submission` has ended, and its attachment is an object of its own.
    pub(crate) async fn round(&self, eyes: &Client, submission: Uuid) {
        let rng = Rng::from_system();
        assert!(
            self.daemon.is_there().await.expect("asked") && self.collector.is_there().await.expect("asked")
        );
        eyes.batch_execute(&format!(
            "UPDATE attachments SET gcs_object = id::text WHERE submission_id = '{submission}'"
        ))
        .await
        .expect("an object of its own");
        self.publisher.set_rule("", DAY * 3650, DAY * 3650, "operator:zoe").await.expect("set");
        self.publisher.set_rule("g", DAY, DAY, "operator:zoe").await.expect("set");
        assert!(self.publisher.remove_rule("g").await.expect("removed"));
        self.recall(submission).await;
        let token = rng.uuid();
        let Begun::Ours(run, _) =
            self.collector.begin("gc", token, DAY, Duration::ZERO).await.expect("begun")
        else {
            panic!("another run is open");
        };
        assert!(self.collector.owed(Uuid::nil(), MOST).await.expect("read").is_empty());
        self.left_over(eyes, rng.uuid()).await;
        for own in [true, false] {
            self.collector.due(own, &Place::start(), MOST).await.expect("read");
        }
        let blob = self.erase(eyes, submission).await;
        self.collector.forget_versions(10, "gc").await.expect("forgotten");
        self.collector.release_kept(10).await.expect("released");
        self.mark(run.id, blob).await;
        assert!(self.collector.extend_run(run, DAY, RunState::Sweeping, &json!({})).await.expect("ours"));
        let marked = self.collector.eligible(run.id, true, Uuid::nil(), MOST).await.expect("read");
        self.write(run.id, &marked, |known| decide::sweep(known, run.id).expect("an edge")).await;
        let owed = self.collector.ask(&marked).await.expect("asked");
        let gone: Vec<(Uuid, Gone, Duration)> =
            owed.iter().map(|object| (object.blob, Gone::Deleted, DAY)).collect();
        assert_eq!(self.collector.record_gone(&gone, run.id).await.expect("recorded").len(), gone.len());
        assert!(self.collector.end_run(run, RunState::Done, &json!({}), None).await.expect("ours"));
        self.look(submission, blob).await;
        self.reconcile(blob).await;
    }

    async fn write(
        &self,
        run: i64,
        ids: &[Uuid],
        decide: impl Fn(decide::Known) -> Option<Transition<Blob>> + Sync,
    ) -> usize {
        let written = self.collector.pool().keyed_transaction("gc_mark", async |tx| {
            let known = self.collector.known(&tx, ids).await?;
            let writes: Vec<Write<Blob>> = known
                .into_iter()
                .filter_map(|(row, known)| {
                    let transition = decide(known)?;
                    let columns = (transition.to() == State::Eligible).then(|| json!({"marked_run": run}));
                    Some(Write { columns, ..Write::plain(row.id, Fence::Locked, transition) })
                })
                .collect();
            Ok(self.collector.write(&tx, "gc", &writes).await?.len())
        });
        written.await.expect("written")
    }

    async fn mark(&self, run: i64, blob: Uuid) {
        let left = self.collector.eligible(run, false, Uuid::nil(), MOST).await.expect("read");
        assert!(left.is_empty());
        let page = self.collector.tombstoned(&Place::start(), MOST).await.expect("read");
        assert!(page.ids.contains(&blob));
        self.collector.unread(&page.ids).await.expect("read");
        assert!(self.write(run, &page.ids, |known| decide::mark(known, run).expect("an edge")).await > 0);
    }

    /// A hold, an erasure, and a blob that is taken back meanwhile. The blob of the submission's file.
    async fn erase(&self, eyes: &Client, submission: Uuid) -> Uuid {
        let purge =
            |authority| self.collector.purge(std::slice::from_ref(&submission), authority, "gc", None);
        let hold = self
            .daemon
            .place_hold(Scope::Submission, &submission.to_string(), "a case", "zoe")
            .await
            .expect("placed");
        assert_eq!(
            self.daemon.kept(submission).await.expect("read").expect("ended").why.as_deref(),
            Some("held")
        );
        assert!(!self.daemon.holds(false, MOST).await.expect("read").is_empty());
        assert_eq!(purge(Authority::Retention).await.expect("answered")[0].why.as_deref(), Some("held"));
        assert!(self.daemon.release_hold(hold, "zoe", "over").await.expect("lifted"));
        let erasable =
            self.collector.erasable(submission, Authority::Erasure).await.expect("read").expect("there");
        assert_eq!(erasable.why, None);
        let found = self.collector.with_field("subject", "q", Uuid::nil(), 3).await.expect("read");
        assert!(!found.is_empty());
        let blob = eyes
            .query_one(
                "SELECT r.blob_id FROM content.blob_refs r JOIN attachments a ON a.id::text = r.holder AND r.kind = 'attachment' WHERE a.submission_id = $1",
                &[&submission],
            )
            .await
            .expect("its blob")
            .get(0);
        assert_eq!(purge(Authority::Erasure).await.expect("answered")[0].why, None);
        self.collector.undelete(blob, "zoe", "a mistake", DAY).await.expect("answered").expect("taken back");
        eyes.execute("UPDATE content.blob_refs SET until = now() - interval '1 s' WHERE kind = 'kept'", &[])
            .await
            .expect("its time is over");
        blob
    }

    async fn recall(&self, submission: Uuid) {
        let planned = self.collector.plan_recalls(submission, "infected", "zoe").await.expect("planned");
        assert_eq!(self.collector.open_recalls(MOST).await.expect("read").len(), planned.len());
        for recall in planned {
            assert_eq!(self.collector.recall_seen(recall.id, 1).await.expect("written"), Some(1));
            assert_eq!(self.collector.recall_moved(recall.id, 2).await.expect("moved"), Some(1));
            self.collector.recall_done(&recall).await.expect("done");
            self.collector.recall_void(recall.id).await.expect("it is over already");
        }
    }

    async fn left_over(&self, eyes: &Client, upload: Uuid) {
        let sql = "INSERT INTO content.staging (bucket, object, upload_id, role, due_at) VALUES ('c', $1::text, $2, 'blob', now() - interval '1 s')";
        eyes.execute(sql, &[&format!("left/{upload}"), &upload]).await.expect("left over");
        let left = self.collector.left_over("left/", MOST).await.expect("read");
        self.collector.left_over_gone(&left).await.expect("gone");
    }

    async fn look(&self, submission: Uuid, blob: Uuid) {
        assert!(self.collector.blob(blob).await.expect("read").is_some());
        assert!(!self.collector.history(blob).await.expect("read").is_empty());
        assert!(!self.daemon.rules().await.expect("read").is_empty());
        assert!(!self.daemon.runs(5).await.expect("read").is_empty());
        let standing = self.daemon.standing().await.expect("read");
        assert!(
            !self.daemon.ended_runs(standing.ended.unwrap_or_default() - 1).await.expect("read").is_empty()
        );
        assert!(!self.daemon.receipts(0, MOST).await.expect("read").is_empty());
        assert!(!self.daemon.receipts_of(submission).await.expect("read").is_empty());
    }

    async fn reconcile(&self, blob: Uuid) {
        let buckets = self.collector.buckets().await.expect("read");
        assert!(buckets.contains(&"c".to_owned()), "{buckets:?}");
        assert!(!self.collector.objects("c", "", MOST).await.expect("read").is_empty());
        self.collector.named("c", &["left/x".to_owned()]).await.expect("read");
        assert!(!self.collector.still_has(blob, "left/x").await.expect("read"));
    }
}
