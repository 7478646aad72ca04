//! A worker that dies at each commit of a remedy's course, with one of three fates of the commit: it is lost, it arrives
//! after the death, or its answer is lost. Another worker, whose tokens are its own, goes on from what stands in the row.
//!
//! The dead worker is a task with connections of its own, dropped where it stands: what a SIGKILL leaves behind is a
//! connection that ends and a lease that runs out, and that is all the other one can see of it.

use std::sync::Arc;
use std::time::Duration;

use devkit::postgres::{CuttingProxy, Trap};
use devkit::trap::Fate;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::db::DbError;
use maple_router::db::pool::{Pool, Transaction};
use maple_router::grey_queue::automation::Attempt;
use maple_router::grey_queue::commands::Subjects;
use maple_router::grey_queue::store::GreyQueueStore;
use maple_router::grey_queue::table::{GreyQueue, State};
use maple_router::kernel::jobs::works::Work as _;
use maple_router::kernel::rows::{Kinds, Row};
use maple_router::kernel::subject::{Evidence, Looked, OnAccount, Remedied, Remedy, Subject};
use maple_router::ops::rng::Rng;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::course::{LEASE, RETRIES, begun};
use crate::harness::{Bench, PATIENCE, Room, failing, pool_at};

/// A room whose first remedy does not help, and whose second does: two attempts for each entry. What it says stands in the
/// database, so that it outlives its worker.
#[derive(Debug)]
struct Stubborn {
    room: Arc<Room>,
    pool: Pool,
}

impl Subject for Stubborn {
    fn kind(&self) -> &'static str {
        self.room.kind()
    }

    fn remedies(&self) -> &'static [Remedy] {
        self.room.remedies()
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        async move {
            let sql = "SELECT count(*) FROM router.remedies WHERE subject = $1";
            let row = self.pool.transaction("look", async |tx| tx.query_one(sql, &[&id]).await).await?;
            Ok(if row.try_get::<_, i64>(0)? < 2 { failing() } else { Looked::Sufficient(Evidence::Routed) })
        }
        .boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        self.room.lock(tx, id)
    }

    fn remedy<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        remedy: Remedy,
        account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        self.room.remedy(tx, id, remedy, account)
    }
}

/// Brings every due time here, and ends every lease: one worker at a time, so that what is leased is a dead one's.
const TIME_PASSES: &str = "UPDATE router.grey_queue
SET available_at = now(), leased_until = leased_until - interval '1 day' WHERE state IN ('Processing', 'Retrying')";

/// A worker over the database at `url`.
async fn work(url: String, room: Arc<Room>, time: Client) {
    let pool = pool_at(&url);
    let store = GreyQueueStore::new(pool.clone(), "maple-router@test");
    let attempt = Attempt {
        store: store.clone(),
        subjects: Subjects::new([Arc::new(Stubborn { room, pool }) as Arc<dyn Subject>]),
        actor: "maple-router@test".into(),
        evidence_timeout: Duration::from_secs(6 * 3600),
    };
    loop {
        time.batch_execute(TIME_PASSES).await.expect("time passes");
        store.wake(10).await.expect("woken");
        let kinds = Kinds::AllBut(Vec::new());
        let rows = store.claim(State::Processing, &kinds, 1, LEASE, Uuid::new_v4()).await.expect("claimed");
        for row in rows {
            once(&store, &attempt, &row).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn once(store: &GreyQueueStore, attempt: &Attempt, row: &Row<GreyQueue>) {
    let ending = attempt.run(row).await;
    let write = Rng::seeded(1).with(|rng| RETRIES.settle(row, ending, rng)).expect("an edge");
    store.settle(&[write]).await.expect("settled");
}

/// The commits of two attempts, with how often each comes: both are claimed to be carried out and to be looked at.
const COMMITS: [(&str, u64); 4] =
    [("grey_queue_claim", 4), ("grey_queue_remedy", 2), ("grey_queue_now", 2), ("grey_queue_settle", 4)];

#[tokio::test]
async fn whoever_dies_at_a_commit_leaves_one_remedy_for_each_attempt_and_an_unbroken_chain() {
    let bench = Bench::new().await;
    for (name, times) in COMMITS {
        for nth in 1..=times {
            for (trap, fate) in [
                (Trap::TakenSent(name), Fate::Cut),
                (Trap::TakenSent(name), Fate::Release),
                (Trap::TakenAnswered(name), Fate::Cut),
            ] {
                let point = format!("{trap:?}, {nth}, {fate:?}");
                let entry = begun(&bench).await;
                let wire = CuttingProxy::start(&bench.db).await.expect("a wire");
                let trapped = wire.trap(trap, nth);
                let time = async || bench.db.superuser().await.expect("superuser");
                let url = wire.url_as("forms_app");
                let dying = tokio::spawn(work(url, Arc::clone(&bench.room), time().await));
                if let Err(nobody) = trapped.hit(PATIENCE).await {
                    panic!("{point}: {nobody}");
                }
                dying.abort();
                assert!(dying.await.is_err_and(|end| end.is_cancelled()), "{point}: it was alive until then");
                match fate {
                    Fate::Release => trapped.release(),
                    Fate::Cut => trapped.cut(),
                }
                let url = bench.db.url_as("forms_app");
                let other = tokio::spawn(work(url, Arc::clone(&bench.room), time().await));
                let resolved = async {
                    while bench.entry(entry.id).await.state != State::Resolved {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                tokio::time::timeout(PATIENCE, resolved)
                    .await
                    .unwrap_or_else(|_| panic!("{point}: not resolved"));
                other.abort();
                assert!(other.await.is_err_and(|end| end.is_cancelled()), "{point}: the other was well");
                consistent(&bench, &entry, &point).await;
            }
        }
    }
}

/// One entry, one remedy for each of two attempts, and every line of the history follows the one before.
async fn consistent(bench: &Bench, entry: &maple_router::grey_queue::entry::Entry, point: &str) {
    assert_eq!(bench.about(entry.subject.id).await.len(), 1, "{point}");
    let mut reviews: Vec<String> =
        bench.remedies(entry.subject.id).await.into_iter().map(|(_, review, _)| review).collect();
    reviews.sort();
    assert_eq!(reviews, [format!("{}:2", entry.id), format!("{}:4", entry.id)], "{point}");
    let chain = bench.chain(entry.id).await;
    let expected = [
        "open Pending",
        "start Processing",
        "retry_later Retrying",
        "try_again Processing",
        "succeed Resolved",
    ];
    assert_eq!(chain, expected, "{point}");
    let versions: Vec<i64> =
        bench.store.history(entry.id).await.expect("asked").iter().map(|line| line.version).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5], "{point}");
}
