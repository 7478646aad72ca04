//! Several instances, several waits, and how much one of them leases.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt as _;
use maple_router::ports::{EventSource, Incoming};

use crate::rig::{
    MOMENT, PATIENCE, QUIET, Rig, all_named, finish, is_done_with, named, next, next_if_any, soon, take,
};

/// Takes and finishes until nothing comes any more.
async fn work_off(source: &mut dyn EventSource) -> Vec<uuid::Uuid> {
    let mut seen = Vec::new();
    while let Some(event) = next_if_any(source).await {
        seen.extend(named(&event));
        finish(vec![event]);
    }
    seen
}

/// Two instances route everything between them.
pub(crate) async fn shares_the_work<R: Rig>() {
    let rig = R::set_up().await;
    let (mut one, mut two) = (rig.open().await, rig.open().await);
    let announced = rig.announce(4 * R::SHARE).await;
    // Neither answers before both have one: the quicker, which holds no more than a share until then, could have all of it else.
    let (first, second) = futures::future::join(take::<R>(&mut *one, 1), take::<R>(&mut *two, 1)).await;
    let mut seen: Vec<_> = first.iter().chain(&second).filter_map(named).collect();
    finish(first);
    finish(second);
    let (first, second) = futures::future::join(work_off(&mut *one), work_off(&mut *two)).await;
    seen.extend(first.into_iter().chain(second));
    let all: BTreeSet<_> = seen.iter().copied().collect();
    assert_eq!(all, announced, "{}", R::NAME);
    assert_eq!(seen.len(), announced.len(), "{}: some came to both", R::NAME);
    soon::<R, _>("the stop", two.stop(PATIENCE)).await;
    is_done_with(&rig, one).await;
}

/// A leased event stays so for longer than a lease as long as its instance lives, quiet or not, and can be answered then.
pub(crate) async fn gives_nobody_what_another_holds<R: Rig>() {
    let rig = R::set_up().await;
    let mut one = rig.open().await;
    rig.announce(2).await;
    let mut leased = take::<R>(&mut *one, 2).await;
    soon::<R, _>("quiet", one.quiet()).await;
    let mut another = rig.open().await;
    rig.announce(2).await;
    leased.extend(take::<R>(&mut *another, 2).await);
    let mut third = rig.open().await;
    let taken = tokio::time::timeout(R::LEASE * 3 / 2, third.next()).await;
    assert!(taken.is_err(), "{}: a third was given what is leased: {taken:?}", R::NAME);
    assert_eq!(all_named::<R>(&leased).len(), 4, "{}", R::NAME);
    finish(leased);
    for source in [one, another] {
        assert!(soon::<R, _>("the stop", source.stop(PATIENCE)).await, "{}: the stop", R::NAME);
    }
    is_done_with(&rig, third).await;
}

/// An instance that does not answer is given no more than a share, whatever waits.
pub(crate) async fn holds_no_more_than_its_share<R: Rig>() {
    let rig = R::set_up().await;
    let announced = rig.announce(3 * R::SHARE).await;
    let mut source = rig.open().await;
    let mut leased = Vec::new();
    while let Some(event) = next_if_any(&mut *source).await {
        leased.push(event);
        assert!(leased.len() <= R::SHARE, "{}: {} leased at once", R::NAME, leased.len());
    }
    assert!(!leased.is_empty(), "{}", R::NAME);
    assert!(rig.leased().await <= R::SHARE, "{}: {} leased", R::NAME, rig.leased().await);
    let mut seen = all_named::<R>(&leased);
    finish(leased);
    seen.extend(work_off(&mut *source).await);
    assert_eq!(seen, announced, "{}: the rest came when there was room", R::NAME);
    is_done_with(&rig, source).await;
}

/// The receiver gives up a wait whenever anything else happens.
pub(crate) async fn loses_nothing_when_waits_are_given_up<R: Rig>() {
    const BURSTS: usize = 20;
    const BURST: usize = 10;
    const GIVEN_UP: usize = 5_000;
    let rig = R::set_up().await;
    let mut source = rig.open().await;
    let reader = async {
        let (mut seen, mut given_up) = (BTreeSet::new(), 0_usize);
        while seen.len() < BURSTS * BURST || given_up < GIVEN_UP {
            let event: Incoming = match given_up % 8 {
                // Polled once, and given up a moment, or some, later.
                0 => match tokio::time::timeout(Duration::from_millis(2), source.next()).await {
                    Ok(event) => event.unwrap(),
                    Err(_) => {
                        given_up += 1;
                        continue;
                    }
                },
                _ => {
                    if let Some(event) = source.next().now_or_never() {
                        event.unwrap()
                    } else {
                        given_up += 1;
                        tokio::task::yield_now().await;
                        continue;
                    }
                }
            };
            let id = named(&event).unwrap();
            assert!(seen.insert(id), "{}: {id} twice", R::NAME);
            finish(vec![event]);
        }
        seen
    };
    let writer = async {
        let mut announced = BTreeSet::new();
        for _ in 0..BURSTS {
            tokio::time::sleep(Duration::from_millis(50)).await;
            announced.extend(rig.announce(BURST).await);
        }
        announced
    };
    let both = futures::future::join(reader, writer);
    let (seen, announced) = soon::<R, _>("all of them", both).await;
    assert_eq!(seen, announced, "{}", R::NAME);
    is_done_with(&rig, source).await;
}

/// A shut gate: nothing is brought, what was handed out can be answered, and afterwards everything comes.
pub(crate) async fn brings_nothing_while_paused<R: Rig>() {
    let rig = R::set_up().await;
    let mut source = rig.open().await;
    let mut announced = rig.announce(2).await;
    let mut leased = take::<R>(&mut *source, 2).await;
    soon::<R, _>("the pause", source.pause()).await;
    soon::<R, _>("a second pause", source.pause()).await;
    tokio::time::sleep(MOMENT).await;
    announced.extend(rig.announce(3).await);
    if R::PAUSES {
        let early = tokio::time::timeout(QUIET, source.next()).await;
        assert!(early.is_err(), "{}: brought while paused: {early:?}", R::NAME);
        assert_eq!(rig.leased().await, 2, "{}: taken while paused", R::NAME);
    } else {
        tokio::time::sleep(QUIET).await;
    }
    let mut seen = all_named::<R>(&leased);
    let last = leased.pop().unwrap();
    finish(leased);
    last.settle.nack();
    source.resume();
    source.resume();
    let (again, mut fresh) = (seen.len(), Vec::new());
    for _ in 0..4 {
        fresh.push(next::<R>(&mut *source).await);
    }
    seen.extend(all_named::<R>(&fresh));
    assert_eq!(again, 2, "{}", R::NAME);
    assert_eq!(seen, announced, "{}", R::NAME);
    finish(fresh);
    is_done_with(&rig, source).await;
}
