//! Many failures, few messages; several daemons, no failure reported by two of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::ports::{AlertLease, Failures, LedgerTrouble, Unalerted};

use crate::harness::*;

#[tokio::test]
async fn five_hundred_failures_with_one_cause_make_one_message() {
    let bench = Bench::new().await;
    bench.crowd(500, refused(550)).await;
    assert_eq!(bench.unalerted().await, 500);
    let alerter = bench.start();
    bench.pass(29 * SECOND).await;
    assert_eq!(bench.slack.attempts(), 0, "more of the same is waited for");
    bench.pass(2 * SECOND).await;
    assert_eq!(bench.counts(), [500]);
    assert_eq!(bench.unalerted().await, 0);
    bench.pass(HOUR).await;
    assert_eq!(bench.counts(), [500], "reported once");
    alerter.stop().await;
    let left = "SELECT count(*) FROM submissions WHERE routing_result->'alert' ?| '{lease,leased_until}'";
    let left: i64 = bench.eyes.query_one(left, &[]).await.expect("a count").get(0);
    assert_eq!(left, 0, "a confirmed row is leased by nobody");
}

#[tokio::test]
async fn each_cause_has_a_message_of_its_own() {
    let bench = Bench::new().await;
    bench.crowd(3, refused(550)).await;
    bench.crowd(4, refused(554)).await;
    let alerter = bench.start();
    bench.pass(31 * SECOND).await;
    let mut counts = bench.counts();
    counts.sort_unstable();
    assert_eq!(counts, [3, 4]);
    assert_eq!(bench.unalerted().await, 0);
    // Failures after the first message wait twice as long, and are reported together.
    bench.crowd(5, refused(550)).await;
    bench.pass(40 * SECOND).await;
    bench.crowd(6, refused(550)).await;
    assert_eq!(bench.counts().len(), 2);
    bench.pass(60 * SECOND).await;
    assert_eq!(bench.counts()[2..], [11]);
    alerter.stop().await;
}

#[tokio::test]
async fn two_daemons_share_the_failures_between_them() {
    let bench = Bench::new().await;
    bench.crowd(700, refused(550)).await;
    bench.crowd(700, refused(554)).await;
    let alerters = [bench.start(), bench.start()];
    for _ in 0..60 {
        bench.clock.advance(10 * SECOND, 2).await;
        bench.crowd(20, refused(550)).await;
    }
    bench.clock.advance(HOUR, 2).await;
    assert_eq!(bench.counts().iter().sum::<u64>(), 1400 + 60 * 20, "each once: {:?}", bench.counts());
    assert_eq!(bench.unalerted().await, 0);
    for alerter in alerters {
        alerter.stop().await;
    }
}

/// The rows' failures, but we die before the confirmation is written.
#[derive(Debug)]
struct Dying(Arc<dyn Failures>, AtomicBool);

impl Failures for Dying {
    fn unalerted(&self) -> BoxFuture<'_, Result<Vec<Unalerted>, LedgerTrouble>> {
        self.0.unalerted()
    }
    fn lease<'a>(&'a self, cause: &'a str) -> BoxFuture<'a, Result<Option<AlertLease>, LedgerTrouble>> {
        self.0.lease(cause)
    }
    fn confirm<'a>(&'a self, _: &'a AlertLease) -> BoxFuture<'a, Result<usize, LedgerTrouble>> {
        self.1.store(true, Ordering::SeqCst);
        std::future::pending().boxed()
    }
    fn give_back<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<(), LedgerTrouble>> {
        self.0.give_back(lease)
    }
}

#[tokio::test]
async fn dying_between_ok_and_confirmation_repeats_the_message_and_loses_none() {
    let bench = Bench::new().await;
    bench.crowd(7, refused(550)).await;
    let dying = Arc::new(Dying(bench.failures(), AtomicBool::new(false)));
    let failures: Arc<dyn Failures> = dying.clone();
    let sender = bench.sender(failures);
    let passing = tokio::spawn(async move { sender.pass().await });
    while !dying.1.load(Ordering::SeqCst) {
        tokio::time::sleep(SECOND / 100).await;
    }
    passing.abort();
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![7], 7));

    let sender = bench.sender(bench.failures());
    assert_eq!(sender.pass().await, Ok(0), "the dead one's lease still stands");
    // The lease's 120 s pass.
    bench.tamper("routing_result = jsonb_set(routing_result, '{alert,leased_until}', '\"2026-01-01T00:00:00.000000Z\"')").await;
    assert_eq!(sender.pass().await, Ok(1));
    assert_eq!((bench.counts(), bench.unalerted().await), (vec![7, 7], 0));
    assert_eq!(sender.pass().await, Ok(0));
}
