//! The end of an instance: quiet, stopped, or dead.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::rig::{
    MOMENT, PATIENCE, QUIET, Rig, all_named, finish, is_done_with, next_if_any, soon, take, until,
};

/// Far less than a lease that nobody gives back: what comes within it did not wait for one.
const AT_ONCE: Duration = Duration::from_secs(6);

pub(crate) async fn gives_back_when_quiet_what_it_had_not_handed_out<R: Rig>() {
    let rig = R::set_up().await;
    let mut announced = rig.announce(12).await;
    let mut source = rig.open().await;
    let mut leased = take::<R>(&mut *source, 4).await;
    tokio::time::sleep(MOMENT).await;
    soon::<R, _>("quiet", source.quiet()).await;
    soon::<R, _>("quiet again", source.quiet()).await;
    tokio::time::sleep(MOMENT).await;
    announced.extend(rig.announce(3).await);
    let late = tokio::time::timeout(QUIET, source.next()).await;
    assert!(!matches!(late, Ok(Ok(_))), "{}: a quiet source brought {late:?}", R::NAME);

    // Events given back now go to others, too.
    let given_back = leased.pop().unwrap();
    let mut mine = all_named::<R>(&leased);
    given_back.settle.nack();
    let started = Instant::now();
    let mut another = rig.open().await;
    let theirs = take::<R>(&mut *another, 12).await;
    assert!(started.elapsed() < AT_ONCE, "{}: they waited for a lease: {:?}", R::NAME, started.elapsed());
    let other_ids = all_named::<R>(&theirs);
    assert!(mine.is_disjoint(&other_ids), "{}: given to two", R::NAME);
    mine.extend(other_ids);
    assert_eq!(mine, announced, "{}", R::NAME);
    finish(leased);
    finish(theirs);
    assert!(soon::<R, _>("the stop", source.stop(PATIENCE)).await, "{}: the stop", R::NAME);
    is_done_with(&rig, another).await;
}

/// Half of them are answered before, half while it stops; what it had not handed out goes to others.
pub(crate) async fn waits_for_answers_when_it_stops<R: Rig>() {
    let rig = R::set_up().await;
    let announced = rig.announce(20).await;
    let mut source = rig.open().await;
    let mut leased = take::<R>(&mut *source, 10).await;
    let before = leased.split_off(5);
    let mut finished = all_named::<R>(&before);
    finish(before);
    tokio::time::sleep(MOMENT).await;
    let stopping = tokio::spawn(source.stop(PATIENCE));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!stopping.is_finished(), "{}: five are not answered", R::NAME);
    finished.extend(all_named::<R>(&leased));
    finish(leased);
    assert!(soon::<R, _>("the stop", stopping).await.unwrap(), "{}: the stop", R::NAME);
    assert_eq!(rig.left().await, 10, "{}: an answer did not count", R::NAME);
    let started = Instant::now();
    let mut another = rig.open().await;
    let rest = take::<R>(&mut *another, 10).await;
    assert!(started.elapsed() < AT_ONCE, "{}: they waited for a lease: {:?}", R::NAME, started.elapsed());
    finished.extend(all_named::<R>(&rest));
    assert_eq!(finished, announced, "{}", R::NAME);
    finish(rest);
    is_done_with(&rig, another).await;
}

pub(crate) async fn stops_waiting_for_answers_in_time<R: Rig>() {
    let rig = R::set_up().await;
    let announced = rig.announce(1).await;
    let mut source = rig.open().await;
    let leased = take::<R>(&mut *source, 1).await;
    let started = Instant::now();
    assert!(!source.stop(QUIET).await, "{}: nothing was answered", R::NAME);
    let took = started.elapsed();
    assert!(took >= QUIET && took < QUIET + AT_ONCE, "{}: {took:?}", R::NAME);
    // Too late: it may count, or come again; it is not lost.
    drop(leased);
    let mut another = rig.open().await;
    let again = take::<R>(&mut *another, 1).await;
    assert_eq!(all_named::<R>(&again), announced, "{}", R::NAME);
    finish(again);
    is_done_with(&rig, another).await;
}

/// The process dies: no answer, no word, its connections broken.
pub(crate) async fn leaves_to_others_what_it_had_leased_when_it_died<R: Rig>() {
    let rig = R::set_up().await;
    let announced = rig.announce(6).await;
    let leased = tokio::task::block_in_place(|| die_with(&rig, 3));
    assert!(leased.is_subset(&announced), "{}", R::NAME);
    let started = Instant::now();
    let mut another = rig.open().await;
    let mut seen = BTreeSet::new();
    until_deadline::<R>(&rig, &mut *another, &mut seen, announced.len()).await;
    assert_eq!(seen, announced, "{}", R::NAME);
    assert!(started.elapsed() < R::LEASE + PATIENCE, "{}: {:?}", R::NAME, started.elapsed());
    is_done_with(&rig, another).await;
}

async fn until_deadline<R: Rig>(
    rig: &R,
    source: &mut dyn maple_router::ports::EventSource,
    seen: &mut BTreeSet<Uuid>,
    count: usize,
) {
    let started = Instant::now();
    while seen.len() < count {
        let waited = started.elapsed();
        assert!(waited < R::LEASE + PATIENCE, "{}: {} of {count} after {waited:?}", R::NAME, seen.len());
        if let Some(event) = next_if_any(source).await {
            let id = crate::rig::named(&event).unwrap();
            assert!(seen.insert(id), "{}: {id} twice", R::NAME);
            finish(vec![event]);
        }
    }
    until::<R>("nothing leased", async || rig.leased().await == 0).await;
}

/// An instance in a runtime of its own takes some and ends with it: nothing of it runs on, nothing is said.
fn die_with<R: Rig>(rig: &R, count: usize) -> BTreeSet<Uuid> {
    std::thread::scope(|scope| {
        let dying = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.unwrap();
            let leased = runtime.block_on(async {
                let mut source = rig.open().await;
                let events = take::<R>(&mut *source, count).await;
                let leased = all_named::<R>(&events);
                std::mem::forget((source, events));
                leased
            });
            runtime.shutdown_background();
            leased
        });
        dying.join().unwrap()
    })
}
