//! Two hundred reviewers and the workers on fifty entries: each answer of success is one change, and nobody's is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use maple_router::grey_queue::automation::Attempt;
use maple_router::grey_queue::commands::{Answer, Subjects};
use maple_router::grey_queue::decide::{Ask, Verb};
use maple_router::grey_queue::table::State;
use maple_router::kernel::jobs::listener::Listener;
use maple_router::kernel::jobs::retries::Retries;
use maple_router::kernel::jobs::works::{self, Bounds};
use maple_router::kernel::jobs::{Consumer, ConsumerParts, IDLE, Settings};
use maple_router::kernel::rows::Kinds;
use maple_router::kernel::subject::{Remedy, Subject};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::gate::Gate;
use maple_router::ops::rng::Rng;
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::{Bench, failing};

const ENTRIES: usize = 50;
const REVIEWERS: usize = 200;
const LASTS: Duration = Duration::from_secs(6);
/// On a machine that is busy with other things they go on until they have done as much as this, and met as often.
const DONE: u64 = 200;
const CONFLICTS: u64 = 20;
const AT_MOST: Duration = Duration::from_secs(50);

#[derive(Default)]
struct Counts {
    done: AtomicU64,
    steps: AtomicU64,
    conflicts: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    fn are_enough(&self) -> bool {
        self.done.load(Ordering::Relaxed) > DONE && self.conflicts.load(Ordering::Relaxed) > CONFLICTS
    }
}

async fn review(bench: &Bench, entries: &[Uuid], n: usize, counts: &Counts) {
    let rng = Rng::seeded(n as u64);
    let name = ["anna", "ben", "sam", "ada"][n % 4];
    let began = Instant::now();
    while began.elapsed() < LASTS || (!counts.are_enough() && began.elapsed() < AT_MOST) {
        let id = entries[rng.with(|rng| rng.random_range(0..entries.len()))];
        let seen = bench.entry(id).await;
        let verb = Verb::ALL[rng.with(|rng| rng.random_range(0..Verb::ALL.len()))];
        let ask = Ask {
            take_over: rng.with(|rng| rng.random_bool(0.3)),
            escalation_reason: Some("odd".to_owned()),
            remedy: rng.with(|rng| rng.random_bool(0.5)).then_some(Remedy::Replay),
            vouch: rng.with(|rng| rng.random_bool(0.02)),
            ..Ask::because(verb, "one of a crowd")
        };
        match bench.ask(&seen, &ask, name).await {
            Answer::Done { entry, .. } => {
                counts.done.fetch_add(1, Ordering::Relaxed);
                counts.steps.fetch_add((entry.version - seen.version).unsigned_abs(), Ordering::Relaxed);
            }
            Answer::Conflict(now) => {
                assert_ne!(now.version, seen.version);
                counts.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            Answer::Refused { .. } => drop(counts.refused.fetch_add(1, Ordering::Relaxed)),
            Answer::Unknown => panic!("entries do not go away"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_success_is_one_change_and_no_chain_is_broken() {
    let bench = Arc::new(Bench::new().await);
    let mut entries = Vec::new();
    for n in 0..ENTRIES {
        let entry = bench.pending().await;
        if n % 2 == 0 {
            bench.room.says(entry.subject.id, failing());
        }
        entries.push(entry.id);
    }
    let stop = CancellationToken::new();
    let retries = Retries {
        max_attempts: 2,
        min: Duration::from_millis(1),
        max: Duration::from_millis(50),
        doublings: 2,
    };
    let working: Vec<_> = (0..2)
        .map(|n| {
            let consumer = Consumer::start(
                ConsumerParts {
                    rows: (*bench.store).clone(),
                    from: State::Processing,
                    kinds: Kinds::AllBut(Vec::new()),
                    settings: Settings {
                        most: 8,
                        lease: Duration::from_secs(5),
                        poll: Duration::from_millis(50),
                        retries,
                        idle: IDLE,
                    },
                    clock: Arc::new(SystemClock),
                    rng: Arc::new(Rng::seeded(1_000 + n)),
                    observer: Arc::new(maple_router::grey_queue::journal::JournalObserver),
                },
                Listener::silent(),
            );
            let work = Attempt {
                store: bench.store.clone(),
                subjects: Subjects::new([Arc::clone(&bench.room) as Arc<dyn Subject>]),
                actor: "maple-router@test".into(),
                evidence_timeout: Duration::from_millis(300),
            };
            let bounds = Bounds { poison: 100_000, drain: Duration::from_secs(5), gate: Gate::new() };
            tokio::spawn(works::run(consumer, Arc::new(work), bounds, stop.clone()))
        })
        .collect();
    let (counts, entries) = (Arc::new(Counts::default()), Arc::new(entries));
    let crowd: Vec<_> = (0..REVIEWERS)
        .map(|n| {
            let (bench, entries, counts) = (Arc::clone(&bench), Arc::clone(&entries), Arc::clone(&counts));
            tokio::spawn(async move { review(&bench, &entries, n, &counts).await })
        })
        .collect();
    for reviewer in crowd {
        reviewer.await.expect("no reviewer meets an error");
    }
    stop.cancel();
    for worker in working {
        assert!(worker.await.expect("ended"), "everything was settled in time");
    }
    let by_people: i64 = bench
        .eyes
        .query_one(
            "SELECT count(*) FROM router.grey_queue_state_transitions WHERE transitioned_by ~ '^(reviewer|security|admin):'",
            &[],
        )
        .await
        .expect("counted")
        .get(0);
    assert_eq!(
        by_people.unsigned_abs(),
        counts.steps.load(Ordering::Relaxed),
        "each success is what it says"
    );
    for id in entries.iter() {
        let chain = bench.chain(*id).await;
        let entry = bench.entry(*id).await;
        assert_eq!(entry.version, i64::try_from(chain.len()).expect("short"), "no version without its line");
    }
    let twice = "SELECT review, count(*) FROM router.remedies GROUP BY review HAVING count(*) > 1";
    assert!(bench.eyes.query(twice, &[]).await.expect("asked").is_empty(), "one remedy for each attempt");
    let Counts { done, conflicts, refused, .. } = counts.as_ref();
    assert!(counts.are_enough(), "{done:?} done, {conflicts:?} conflicts, refused {refused:?}");
}
