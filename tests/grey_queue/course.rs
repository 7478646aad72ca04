//! A remedy's course: carried out once for each attempt, and ended by evidence, a new failure or the end of the time.

use std::sync::Arc;
use std::time::Duration;

use maple_router::grey_queue::automation::Attempt;
use maple_router::grey_queue::commands::Subjects;
use maple_router::grey_queue::decide::{Ask, Verb};
use maple_router::grey_queue::entry::Resolution;
use maple_router::grey_queue::table::{GreyQueue, State};
use maple_router::kernel::jobs::listener::Listener;
use maple_router::kernel::jobs::retries::Retries;
use maple_router::kernel::jobs::works::{self, Bounds, Work as _};
use maple_router::kernel::jobs::{Consumer, ConsumerParts, IDLE, Settings};
use maple_router::kernel::rows::{Kinds, Row};
use maple_router::kernel::subject::{Evidence, Looked, Remedy, Subject};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::gate::{Gate, Shut};
use maple_router::ops::rng::Rng;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::{Bench, PATIENCE, failing, missing, person};

pub(crate) const RETRIES: Retries =
    Retries { max_attempts: 3, min: Duration::from_millis(1), max: Duration::from_millis(2), doublings: 2 };
pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) fn attempt(bench: &Bench) -> Attempt {
    Attempt {
        store: bench.store.clone(),
        subjects: Subjects::new([Arc::clone(&bench.room) as Arc<dyn Subject>]),
        actor: "maple-router@test".into(),
        evidence_timeout: Duration::from_secs(6 * 3600),
    }
}

/// Takes the only entry that is due.
pub(crate) async fn take(bench: &Bench) -> Row<GreyQueue> {
    let due = "UPDATE router.grey_queue SET available_at = now() WHERE state = 'Processing'";
    bench.eyes.batch_execute(due).await.expect("due");
    let kinds = Kinds::AllBut(Vec::new());
    let mut rows =
        bench.store.claim(State::Processing, &kinds, 10, LEASE, Uuid::new_v4()).await.expect("claimed");
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// One look of a worker at the only entry that is due, settled as the kernel settles it; whether it was still the worker's.
pub(crate) async fn look(bench: &Bench) -> bool {
    let row = take(bench).await;
    let ending = attempt(bench).run(&row).await;
    settle(bench, &row, ending).await
}

pub(crate) async fn settle(
    bench: &Bench,
    row: &Row<GreyQueue>,
    ending: maple_router::kernel::jobs::retries::Ending<GreyQueue>,
) -> bool {
    let rng = Rng::seeded(1);
    let write = rng.with(|rng| RETRIES.settle(row, ending, rng)).expect("an edge");
    bench.store.settle(&[write]).await.expect("settled").contains(&row.id)
}

/// An entry whose remedy the policy has begun.
pub(crate) async fn begun(bench: &Bench) -> maple_router::grey_queue::entry::Entry {
    let entry = bench.pending().await;
    let sql = format!(
        "UPDATE router.grey_queue SET state = 'Processing', remedy = 'replay', version = 2 WHERE id = '{}';
         INSERT INTO router.grey_queue_state_transitions (entry_id, from_state, to_state, transitioned_by, command, version)
         VALUES ('{}', 'Pending', 'Processing', 'policy', 'start', 2)",
        entry.id, entry.id
    );
    bench.eyes.batch_execute(&sql).await.expect("begun");
    bench.entry(entry.id).await
}

#[tokio::test]
async fn a_remedy_is_carried_out_once_and_looks_are_no_attempts() {
    let bench = Bench::new().await;
    let entry = begun(&bench).await;
    for _ in 0..5 {
        assert!(look(&bench).await);
    }
    assert_eq!(bench.remedies(entry.subject.id).await.len(), 1, "one remedy, five looks");
    let now = bench.entry(entry.id).await;
    assert_eq!((now.state, now.version), (State::Processing, 2), "a look leaves no record");
    assert_eq!(now.job.expect("a job").attempts, 0, "and spends no attempt");
    bench.room.says(entry.subject.id, Looked::Sufficient(Evidence::Delivered));
    assert!(look(&bench).await);
    let now = bench.entry(entry.id).await;
    assert_eq!(now.state, State::Resolved);
    let resolution = now.resolution.expect("resolved");
    assert_eq!(
        (resolution.how, resolution.by.as_deref()),
        (Resolution::Delivered, Some("maple-router@test"))
    );
    assert_eq!(bench.chain(entry.id).await, ["open Pending", "start Processing", "succeed Resolved"]);
}

#[tokio::test]
async fn three_failures_are_the_end_and_each_attempt_has_its_remedy() {
    let bench = Bench::new().await;
    let entry = begun(&bench).await;
    for attempt in 1..=3 {
        bench.room.says(entry.subject.id, missing());
        look(&bench).await;
        assert_eq!(bench.remedies(entry.subject.id).await.len(), attempt);
        bench.room.says(entry.subject.id, failing());
        look(&bench).await;
        if attempt < 3 {
            assert_eq!(bench.entry(entry.id).await.state, State::Retrying);
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(bench.store.wake(10).await.expect("woken").due, 1);
        }
    }
    let now = bench.entry(entry.id).await;
    assert_eq!((now.state, now.job.expect("a job").attempts), (State::Failed, 3));
    let history = bench.store.history(entry.id).await.expect("asked");
    let last = history.last().expect("recorded");
    assert_eq!(
        (last.command.as_str(), last.reason.as_deref()),
        ("give_up", Some("the submission is failed: refused"))
    );
    bench.chain(entry.id).await;
}

#[tokio::test]
async fn what_a_person_asked_for_comes_back_to_that_person() {
    let bench = Bench::new().await;
    let entry = bench.pending().await;
    let ask = Ask { remedy: Some(Remedy::Replay), ..Ask::because(Verb::Start, "mended") };
    let entry = bench.done(&entry, &ask, "anna").await;
    assert_eq!(entry.state, State::Processing);
    let remedies = bench.remedies(entry.subject.id).await;
    assert_eq!(remedies.len(), 1, "carried out with the command: {remedies:?}");
    assert_eq!(remedies[0].2, "reviewer:anna");
    look(&bench).await;
    assert_eq!(bench.remedies(entry.subject.id).await.len(), 1, "and not again by the worker");
    bench.room.says(entry.subject.id, failing());
    look(&bench).await;
    let now = bench.entry(entry.id).await;
    assert_eq!((now.state, now.assignee.as_deref()), (State::UnderReview, Some("anna")));
    let history = bench.store.history(entry.id).await.expect("asked");
    let last = history.last().expect("recorded");
    assert_eq!(
        (last.command.as_str(), last.reason.as_deref()),
        ("hand_over", Some("the submission is failed: refused"))
    );
    assert_eq!(last.metadata["assignee"], "anna");
}

#[tokio::test]
async fn without_evidence_the_time_ends_but_for_the_time_in_which_nobody_could_look() {
    let bench = Bench::new().await;
    let entry = begun(&bench).await;
    look(&bench).await;
    let old = format!(
        "UPDATE router.grey_queue SET remedied_at = now() - interval '7 hours', available_at = now() - interval '2 hours'
         WHERE id = '{}'",
        entry.id
    );
    bench.eyes.batch_execute(&old).await.expect("seven hours ago");
    // Claimed as it is: two hours late, because the gate was shut.
    let kinds = Kinds::AllBut(Vec::new());
    let row = bench
        .store
        .claim(State::Processing, &kinds, 1, LEASE, Uuid::new_v4())
        .await
        .expect("claimed")
        .remove(0);
    let ending = attempt(&bench).run(&row).await;
    settle(&bench, &row, ending).await;
    assert_eq!(bench.entry(entry.id).await.state, State::Processing, "five of seven hours count");
    let later = format!(
        "UPDATE router.grey_queue SET remedied_at = now() - interval '7 hours' WHERE id = '{}'",
        entry.id
    );
    bench.eyes.batch_execute(&later).await.expect("seven hours that count");
    look(&bench).await;
    assert_eq!(bench.entry(entry.id).await.state, State::Retrying);
    let history = bench.store.history(entry.id).await.expect("asked");
    assert!(
        history
            .last()
            .expect("recorded")
            .reason
            .as_deref()
            .is_some_and(|why| why.contains("no evidence within 6h"))
    );
}

/// A person takes the entry out of a worker's hands: the worker settles nothing, and mends nothing any more.
#[tokio::test]
async fn whoever_takes_it_from_a_worker_voids_its_lease() {
    let bench = Bench::new().await;
    let entry = begun(&bench).await;
    let row = take(&bench).await;
    let taken = bench.done(&bench.entry(entry.id).await, &Ask::plain(Verb::Assign), "ben").await;
    assert_eq!((taken.state, taken.assignee.as_deref()), (State::UnderReview, Some("ben")));
    let before = bench.trace(entry.id).await;
    let ending = attempt(&bench).run(&row).await;
    assert!(bench.remedies(entry.subject.id).await.is_empty(), "the mark on the entry is the worker's right");
    assert!(!settle(&bench, &row, ending).await);
    assert_eq!(bench.trace(entry.id).await, before);
}

/// A worker that stood still wakes up after another has done its work.
#[tokio::test]
async fn two_workers_of_one_attempt_mend_once() {
    let bench = Bench::new().await;
    let entry = begun(&bench).await;
    let frozen = take(&bench).await;
    let gone = "UPDATE router.grey_queue SET leased_until = now() - interval '1 second'";
    bench.eyes.batch_execute(gone).await.expect("its lease is over");
    assert_eq!(bench.store.wake(10).await.expect("woken").expired, 1);
    assert!(look(&bench).await);
    let ending = attempt(&bench).run(&frozen).await;
    assert!(!settle(&bench, &frozen, ending).await);
    assert_eq!(bench.remedies(entry.subject.id).await.len(), 1);
}

#[tokio::test]
async fn a_refused_remedy_is_an_attempt_and_leaves_nothing() {
    let bench = Bench::new().await;
    let entry = begun(&bench).await;
    *bench.room.refuses.lock().expect("unpoisoned") = Some("it is processing".to_owned());
    look(&bench).await;
    assert_eq!(bench.entry(entry.id).await.state, State::Retrying);
    assert!(bench.remedies(entry.subject.id).await.is_empty());
    let ask = Ask { remedy: Some(Remedy::Replay), ..Ask::because(Verb::Start, "mended") };
    let other = bench.pending().await;
    let before = bench.trace(other.id).await;
    let refused = format!("{:?}", bench.ask(&other, &ask, "anna").await);
    assert!(refused.contains("it is processing"), "{refused}");
    assert_eq!(bench.trace(other.id).await, before, "a person is told at once, and nothing is begun");
}

/// The relay is away, or routing is paused: nothing is looked at, nothing is spent, and everything goes on afterwards.
#[tokio::test]
async fn while_the_gate_is_shut_nothing_is_begun() {
    let bench = Bench::new().await;
    let entry = begun(&bench).await;
    let gate = Gate::new();
    gate.close(Shut::Paused);
    let consumer = Consumer::start(
        ConsumerParts {
            rows: (*bench.store).clone(),
            from: State::Processing,
            kinds: Kinds::AllBut(Vec::new()),
            settings: Settings {
                most: 4,
                lease: LEASE,
                poll: Duration::from_millis(20),
                retries: RETRIES,
                idle: IDLE,
            },
            clock: Arc::new(SystemClock),
            rng: Arc::new(Rng::seeded(3)),
            observer: Arc::new(maple_router::grey_queue::journal::JournalObserver),
        },
        Listener::silent(),
    );
    let bounds = Bounds { poison: 1_000, drain: Duration::from_secs(5), gate: gate.clone() };
    let stop = CancellationToken::new();
    let working = tokio::spawn(works::run(consumer, Arc::new(attempt(&bench)), bounds, stop.clone()));
    // An entry that is claimed all the same would be carried out within a poll: ten of them pass.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(bench.remedies(entry.subject.id).await.is_empty());
    bench.room.says(entry.subject.id, Looked::Sufficient(Evidence::Routed));
    gate.open(Shut::Paused);
    let resolved = async {
        while bench.entry(entry.id).await.state != State::Resolved {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, resolved).await.expect("resolved");
    assert_eq!(bench.remedies(entry.subject.id).await.len(), 1);
    stop.cancel();
    assert!(working.await.expect("ended"));
    assert_eq!(person("anna").label, "reviewer:anna");
}
