//! P9: one row that refuses every write delays no other row by more than one try (protocol, "Rows set aside").

use std::sync::Mutex;
use std::time::Instant;

use devkit::postgres::Refusing;
use futures::future::BoxFuture;
use maple_router::ops::incident::Incidents;
use maple_router::ops::rng::Rng;
use maple_router::ops::set_aside::{SET_ASIDE, SetAside, Writing};
use maple_router::ports::Clock;
use maple_router::routing::store::Ahead;
use maple_router::routing::upkeep::sweep::{Outlet, SweepReport, Sweeper};
use serde_json::json;
use tokio::sync::mpsc;

use super::stuck::bounds;
use super::*;

/// The system's clock, moved on by hand.
#[derive(Debug, Default)]
struct Moved(Mutex<Duration>);

impl Moved {
    fn on(&self, by: Duration) {
        *self.0.lock().expect("a lock") += by;
    }
}

impl Clock for Moved {
    fn monotonic(&self) -> Instant {
        SystemClock.monotonic() + *self.0.lock().expect("a lock")
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(pause)
    }
}

struct Pass {
    sweeper: Sweeper,
    found: mpsc::Receiver<Uuid>,
    aside: SetAside,
    clock: Arc<Moved>,
    incidents: Incidents,
}

impl Bench {
    /// A sweeper with pages of three rows, and a queue that has room for all.
    fn pass(&self) -> Pass {
        let (queue, found) = mpsc::channel(100);
        let outlet = Outlet { queue: Some(queue), events: None };
        let (incidents, clock) = (Incidents::new().0, Arc::new(Moved::default()));
        let aside = SetAside::new(clock.clone(), Some(incidents.clone()));
        let rng = Arc::new(Rng::seeded(1));
        let sweeper = Sweeper::new(self.store.clone(), bounds(), outlet, rng, aside.clone()).with_page(3);
        Pass { sweeper, found, aside, clock, incidents }
    }

    async fn all_of(&self, seed: &SubmissionSeed, count: usize) -> Vec<Uuid> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.insert(seed).await);
        }
        ids
    }

    async fn are(&self, ids: &[Uuid], status: &str) -> bool {
        for id in ids {
            if self.row(*id).await.status != status {
                return false;
            }
        }
        true
    }
}

/// More bad rows than a page has, of each part of a pass and refused in every way: the others are done in the same
/// pass, people are notified once and without the row's contents, and a row that takes its write after all ends it.
#[tokio::test]
async fn rows_that_refuse_their_write_keep_nothing_from_the_others() {
    for how in [Refusing::Trigger, Refusing::Silence, Refusing::Check] {
        let bench = Bench::new().await;
        let mut pass = bench.pass();
        let mut stuck = Vec::new();
        for _ in 0..8 {
            stuck.push(bench.claimed("t").await);
        }
        let orphans = bench.all_of(&SubmissionSeed::of("f"), 9).await;
        let infected = bench.all_of(&SubmissionSeed::of("f").attachment("a", "infected"), 7).await;
        for id in stuck.iter().chain(&orphans) {
            bench.untouched(*id, 1000).await;
        }
        let (mut by_id, mut failing) = (stuck.clone(), infected.clone());
        by_id.sort();
        failing.sort();
        // The first of each: nobody must wait behind them.
        let bad = [&by_id[..4], &orphans[..4], &failing[..4]].concat();
        let others = |of: &[Uuid]| of.iter().copied().filter(|id| !bad.contains(id)).collect::<Vec<_>>();
        bench.db.refuse(how, &bad).await.expect("refused");
        let report = pass.sweeper.pass(|| true).await.expect("the pass is completed");
        assert_eq!(
            report,
            SweepReport { stuck: 4, orphans: 5, infected: 3, ..SweepReport::default() },
            "{how:?}"
        );
        assert!(
            bench.are(&others(&stuck), "received").await && bench.are(&others(&infected), "failed").await
        );
        let handed_on: BTreeSet<Uuid> = std::iter::from_fn(|| pass.found.try_recv().ok()).collect();
        assert!(others(&orphans).iter().all(|id| handed_on.contains(id)), "{how:?}");
        assert_eq!(pass.aside.resting(Writing::TakeBack), by_id[..4], "{how:?}");
        assert_eq!(pass.aside.resting(Writing::Refusal), failing[..4], "{how:?}");
        assert_eq!(pass.aside.resting(Writing::HandOn).len(), 4, "{how:?}");
        assert_eq!(pass.incidents.keys(), [SET_ASIDE], "{how:?}");
        let again = pass.sweeper.pass(|| true).await.expect("completed");
        assert_eq!(again, SweepReport::default(), "{how:?}: they rest");
        bench.db.refuse(how, &[]).await.expect("mended");
        pass.clock.on(Duration::from_secs(5));
        let after = pass.sweeper.pass(|| true).await.expect("completed");
        assert_eq!(
            after,
            SweepReport { stuck: 4, orphans: 4, infected: 4, ..SweepReport::default() },
            "{how:?}"
        );
        assert_eq!(pass.incidents.keys(), [], "{how:?}: over");
    }
}

/// A fault that is nobody's own sets nothing aside, and ends the pass as it did.
#[tokio::test]
async fn what_is_no_rows_fault_sets_nothing_aside() {
    let bench = Bench::new().await;
    let pass = bench.pass();
    let id = bench.claimed("t").await;
    bench.untouched(id, 1000).await;
    bench.db.alter("REVOKE UPDATE ON submissions FROM forms_app").await.expect("revoked");
    let error = pass.sweeper.pass(|| true).await.expect_err("refused");
    assert_eq!(error.sqlstate(), Some("42501"), "{error}");
    assert!(pass.aside.resting(Writing::TakeBack).is_empty() && pass.incidents.keys().is_empty());
}

/// Of returned mails and the relay's log: the statuses of other submissions are recorded in the same call.
#[tokio::test]
async fn a_row_that_refuses_its_relay_entry_keeps_no_other_from_theirs() {
    use maple_router::ports::RelayStatus;
    use maple_router::routing::delivery::Seen;
    use maple_router::routing::submission::message_id::Origin;

    let bench = Bench::new().await;
    let ledger =
        json!({"v": 1, "attempts": 1, "plan": [], "deliveries": {A: {"state": "accepted", "queue_id": "Q"}}});
    let ids = bench.all_of(&SubmissionSeed::of("f").status("routed").ledger(ledger), 6).await;
    let seen: Vec<Seen> = ids
        .iter()
        .map(|id| Seen {
            origin: Origin { submission: *id, action_order: 1, generation: 0 },
            recipient: "a@x.test".to_owned(),
            status: RelayStatus::Bounced,
            at: None,
            queue_id: Some("Q".to_owned()),
            proved: true,
            message_id: None,
            dsn: Some("5.1.1".to_owned()),
            relay: None,
            text: String::new(),
        })
        .collect();
    for how in [Refusing::Trigger, Refusing::Silence, Refusing::Check] {
        bench.db.refuse(how, &ids[..1]).await.expect("refused");
        let recorded = bench.store.record_seen(&seen, "me").await.expect("recorded");
        let refused: Vec<Uuid> = recorded.refused.iter().map(|refused| refused.id).collect();
        assert_eq!((refused, recorded.fault.is_some()), (ids[..1].to_vec(), false), "{how:?}");
        let named = recorded.refused[0].error.named();
        assert!(!named.contains("deliveries"), "nothing of the row: {named}");
        match how {
            Refusing::Trigger => assert_eq!(named, "SQLSTATE P0001, function refuse_write"),
            Refusing::Check => {
                assert_eq!(named, "SQLSTATE 23514, table submissions, constraint submissions_refused");
            }
            Refusing::Silence => assert!(named.contains("took no write"), "{named}"),
        }
        for id in &ids[1..] {
            assert_eq!(bench.row(*id).await.entry(A)["relay"]["status"], "bounced", "{how:?}");
        }
    }
    bench.db.refuse(Refusing::Check, &[]).await.expect("mended");
    let recorded = bench.store.record_seen(&seen, "me").await.expect("recorded");
    assert_eq!(recorded.changed.iter().map(|changed| changed.id).collect::<Vec<_>>(), ids[..1]);
}

/// The fence falls for a row that is not touched in time: for the one that refuses, and for no other.
#[tokio::test]
async fn a_row_that_refuses_to_be_touched_keeps_no_other_claim_from_its_heartbeat() {
    let bench = Bench::new().await;
    let mut claims = Vec::new();
    for _ in 0..7 {
        claims.push((bench.claimed("t").await, "t".to_owned()));
    }
    claims.push((bench.claimed("another").await, "t".to_owned()));
    let (odd, stale) = (claims[3].0, claims[7].0);
    for how in [Refusing::Trigger, Refusing::Check] {
        bench.db.refuse(how, &[odd]).await.expect("refused");
        let beat = bench.store.heartbeat(&claims).await.expect("a heartbeat");
        let others: BTreeSet<Uuid> =
            claims.iter().map(|(id, _)| *id).filter(|id| ![odd, stale].contains(id)).collect();
        assert_eq!((beat.confirmed, beat.lost), (others, BTreeSet::from([stale])), "{how:?}");
        assert_eq!(beat.refused.iter().map(|refused| refused.id).collect::<Vec<_>>(), [odd], "{how:?}");
    }
    bench.db.alter("REVOKE UPDATE ON submissions FROM forms_app").await.expect("revoked");
    let error = bench.store.heartbeat(&claims).await.expect_err("nobody's own fault");
    assert_eq!(error.sqlstate(), Some("42501"), "{error}");
}

/// A claim's batch is written but for the rows that refuse it, whatever they refuse it with.
#[tokio::test]
async fn a_row_that_refuses_its_claim_keeps_no_other_of_its_batch() {
    for how in [Refusing::Trigger, Refusing::Silence, Refusing::Check] {
        let bench = Bench::new().await;
        let ids = bench.all_of(&SubmissionSeed::of("f"), 9).await;
        bench.db.refuse(how, &ids[4..5]).await.expect("refused");
        let requests: Vec<ClaimRequest> =
            ids.iter().map(|id| ClaimRequest { id: *id, token: "t".to_owned() }).collect();
        let batch = bench.store.claim_each(&requests, &Ahead::default()).await;
        assert_eq!(batch.refused.iter().map(|refused| refused.id).collect::<Vec<_>>(), [4], "{how:?}");
        assert!(batch.fault.is_none(), "{how:?}");
        let taken: BTreeSet<Uuid> = batch.done.into_iter().flatten().map(|(id, _)| id).collect();
        assert_eq!(taken.len(), 8, "{how:?}");
        assert!(!taken.contains(&ids[4]) && bench.row(ids[4]).await.status == "received", "{how:?}");
        assert!(bench.are(&taken.into_iter().collect::<Vec<_>>(), "processing").await, "{how:?}");
    }
}
