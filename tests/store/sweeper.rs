//! A whole pass: as much as there is room for, nothing while the gate is closed, page after page.

use maple_router::ops::rng::Rng;
use maple_router::ops::set_aside::SetAside;
use maple_router::routing::upkeep::sweep::{Outlet, SweepReport, Sweeper};
use serde_json::json;
use tokio::sync::mpsc;

use super::stuck::bounds;
use super::*;

fn aside() -> SetAside {
    SetAside::new(Arc::new(SystemClock), None)
}

impl Bench {
    /// A sweeper with pages of three rows, and the other end of its queue.
    fn sweeper(&self, room: usize) -> (Sweeper, mpsc::Receiver<Uuid>) {
        let (queue, found) = mpsc::channel(room);
        let outlet = Outlet { queue: Some(queue), events: None };
        let rng = Arc::new(Rng::seeded(1));
        (Sweeper::new(self.store.clone(), bounds(), outlet, rng, aside()).with_page(3), found)
    }

    async fn orphan(&self) -> Uuid {
        let id = self.ready().await;
        self.untouched(id, 1000).await;
        id
    }

    async fn stuck(&self) -> Uuid {
        let id = self.claimed("t").await;
        self.untouched(id, 1000).await;
        id
    }
}

fn drained(found: &mut mpsc::Receiver<Uuid>) -> BTreeSet<Uuid> {
    std::iter::from_fn(|| found.try_recv().ok()).collect()
}

#[tokio::test]
async fn a_pass_takes_page_after_page_as_long_as_there_is_room() {
    let bench = Bench::new().await;
    let (sweeper, mut found) = bench.sweeper(10);
    let mut orphans = BTreeSet::new();
    for _ in 0..14 {
        orphans.insert(bench.orphan().await);
    }
    let report = sweeper.pass(|| true).await.expect("swept");
    assert_eq!(report, SweepReport { orphans: 10, ..SweepReport::default() });
    let first = drained(&mut found);
    assert_eq!(first.len(), 10);
    let count = bench.store.sweep_count(&bounds()).await.expect("counted");
    assert_eq!(count.orphans, 4, "what has no room is not touched");
    let second = sweeper.pass(|| true).await.expect("swept");
    assert_eq!(second.orphans, 4, "and found the next time");
    let rest = drained(&mut found);
    assert_eq!(first.union(&rest).copied().collect::<BTreeSet<_>>(), orphans, "each once");
    assert_eq!(sweeper.pass(|| true).await.expect("swept"), SweepReport::default());
}

#[tokio::test]
async fn a_full_queue_is_left_alone_and_stuck_claims_are_taken_back_all_the_same() {
    let bench = Bench::new().await;
    let (sweeper, mut found) = bench.sweeper(2);
    for _ in 0..7 {
        bench.stuck().await;
    }
    let orphan = bench.orphan().await;
    let before = bench.row(orphan).await;
    let report = sweeper.pass(|| true).await.expect("swept");
    assert_eq!(report, SweepReport { stuck: 7, ..SweepReport::default() });
    assert_eq!(drained(&mut found).len(), 2, "as many as there is room for; the others are due");
    assert_eq!(bench.row(orphan).await, before);
    drop(found);
    assert_eq!(sweeper.pass(|| true).await.expect("swept").orphans, 0, "nobody listens any more");
}

#[tokio::test]
async fn behind_a_closed_gate_nothing_is_handed_on_and_no_orphan_is_touched() {
    let bench = Bench::new().await;
    let (sweeper, mut found) = bench.sweeper(10);
    let (orphan, stuck) = (bench.orphan().await, bench.stuck().await);
    let infected = bench.insert(&SubmissionSeed::of("f").attachment("a", "infected")).await;
    let before = bench.row(orphan).await;
    let report = sweeper.pass(|| false).await.expect("swept");
    assert_eq!(report, SweepReport { stuck: 1, infected: 1, ..SweepReport::default() });
    assert_eq!(drained(&mut found), BTreeSet::new());
    assert_eq!(bench.row(orphan).await, before);
    assert_eq!(bench.row(stuck).await.status, "received");
    assert_eq!(bench.row(infected).await.status, "failed");
    assert_eq!(sweeper.pass(|| true).await.expect("swept").orphans, 1);
    assert_eq!(drained(&mut found), BTreeSet::from([orphan]));
}

/// A failing part does not keep the others from their work.
#[tokio::test]
async fn a_part_that_cannot_be_done_is_named_and_the_others_are_done() {
    let bench = Bench::new().await;
    let (sweeper, mut found) = bench.sweeper(10);
    let damaged = bench.insert(&SubmissionSeed::of("f").status("processing").ledger(json!([]))).await;
    bench.untouched(damaged, 1000).await;
    let orphan = bench.orphan().await;
    bench.db.alter("REVOKE INSERT ON audit_log FROM forms_app").await.expect("revoked");
    assert!(sweeper.pass(|| true).await.is_err());
    assert_eq!(bench.row(damaged).await.status, "processing", "no end without its audit row");
    assert_eq!(drained(&mut found), BTreeSet::from([orphan]));
}
