//! Receiving: which events come, how often, and what each answer does.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::rig::{
    PATIENCE, QUIET, Rig, all_named, finish, is_done_with, named, next, next_if_any, soon, take,
};

/// A tight loop comes by far more often in [`QUIET`].
const OFTEN: usize = 30;

pub(crate) async fn comes_once<R: Rig>() {
    let rig = R::set_up().await;
    let mut source = rig.open().await;
    let announced = rig.announce(3).await;
    let events = take::<R>(&mut *source, 3).await;
    assert_eq!(all_named::<R>(&events), announced, "{}", R::NAME);
    let again = next_if_any(&mut *source).await;
    assert!(again.is_none(), "{}: came again although it is leased: {again:?}", R::NAME);
    finish(events);
    is_done_with(&rig, source).await;
}

pub(crate) async fn comes_again_after_a_nack<R: Rig>() {
    let rig = R::set_up().await;
    let announced = rig.announce(1).await;
    let mut source = rig.open().await;
    let first = next::<R>(&mut *source).await;
    let id = first.message_id.clone();
    first.settle.nack();
    let mut times = 0;
    let started = Instant::now();
    let last = loop {
        let event = next::<R>(&mut *source).await;
        assert_eq!(all_named::<R>(std::slice::from_ref(&event)), announced, "{}", R::NAME);
        assert_eq!(event.message_id, id, "{}: the same event", R::NAME);
        times += 1;
        // Four deliveries are enough to see that it waits; Pub/Sub sets the fifth aside.
        if times == 3 || started.elapsed() > QUIET {
            break event;
        }
        event.settle.nack();
    };
    let took = started.elapsed();
    assert!(took > QUIET / 25 * times, "{}: {times} times within {took:?}", R::NAME);
    finish(vec![last]);
    is_done_with(&rig, source).await;
}

pub(crate) async fn comes_again_when_the_answer_is_dropped<R: Rig>() {
    let rig = R::set_up().await;
    let announced = rig.announce(1).await;
    let mut source = rig.open().await;
    drop(next::<R>(&mut *source).await.settle);
    let again = next::<R>(&mut *source).await;
    assert_eq!(all_named::<R>(std::slice::from_ref(&again)), announced, "{}", R::NAME);
    finish(vec![again]);
    is_done_with(&rig, source).await;
}

/// Comes again some times, then is set aside with its evidence.
pub(crate) async fn keeps_what_is_rejected<R: Rig>() {
    let rig = R::set_up().await;
    if !rig.announce_garbage().await {
        return;
    }
    let mut source = rig.open().await;
    let started = Instant::now();
    let mut times = 0;
    while rig.set_aside().await == 0 {
        assert!(started.elapsed() < 3 * PATIENCE, "{}: rejected {times} times, and still there", R::NAME);
        if let Some(event) = next_if_any(&mut *source).await {
            assert_eq!(named(&event), None, "{}", R::NAME);
            times += 1;
            event.settle.reject();
        }
    }
    assert!((2..OFTEN).contains(&times), "{}: given up after {times}", R::NAME);
    assert_eq!(rig.set_aside().await, 1, "{}", R::NAME);
    let announced = rig.announce(1).await;
    let event = next::<R>(&mut *source).await;
    assert_eq!(all_named::<R>(std::slice::from_ref(&event)), announced, "{}", R::NAME);
    finish(vec![event]);
    is_done_with(&rig, source).await;
}

/// Pub/Sub repeats it until it keeps a copy; everybody else is done with it, because its row alone alerts.
pub(crate) async fn does_not_repeat_what_is_exhausted<R: Rig>() {
    let rig = R::set_up().await;
    rig.announce(1).await;
    let mut source = rig.open().await;
    let mut times = 1;
    let event = next::<R>(&mut *source).await;
    event.settle.exhaust();
    while let Some(again) = next_if_any(&mut *source).await {
        times += 1;
        again.settle.exhaust();
    }
    assert_eq!(times, if R::REPEATS_EXHAUSTED { 5 } else { 1 }, "{}", R::NAME);
    assert_eq!(rig.set_aside().await, usize::from(R::REPEATS_EXHAUSTED), "{}", R::NAME);
    is_done_with(&rig, source).await;
}

pub(crate) async fn gives_the_good_ones_beside_the_poisonous<R: Rig>() {
    let rig = R::set_up().await;
    let mut source = rig.open().await;
    let mut announced = BTreeSet::new();
    for _ in 0..5 {
        if !rig.announce_garbage().await {
            return;
        }
        announced.extend(rig.announce(1).await);
    }
    let (mut good, mut answered) = (Vec::new(), 0);
    while good.len() < announced.len() {
        let event = next::<R>(&mut *source).await;
        match named(&event) {
            Some(_) => good.push(event),
            None => event.settle.reject(),
        }
        answered += 1;
        assert!(answered < 10 * OFTEN, "{}: only poison comes", R::NAME);
    }
    assert_eq!(all_named::<R>(&good), announced, "{}", R::NAME);
    finish(good);
    soon::<R, _>("the stop", source.stop(PATIENCE)).await;
}

pub(crate) async fn brings_many_once_each<R: Rig>() {
    const MANY: usize = 2_000;
    const PATIENT: Duration = Duration::from_secs(150);
    let rig = R::set_up().await;
    let mut source = rig.open().await;
    let announced = rig.announce(MANY).await;
    let mut seen = BTreeSet::new();
    let all = async {
        while seen.len() < MANY {
            // Waiting events are answered together, as the receiver's batches are.
            let mut events = vec![next::<R>(&mut *source).await];
            while let Some(Ok(more)) = futures::FutureExt::now_or_never(source.next()) {
                events.push(more);
            }
            for id in all_named::<R>(&events) {
                assert!(seen.insert(id), "{}: {id} twice", R::NAME);
            }
            finish(events);
        }
    };
    tokio::time::timeout(PATIENT, all).await.unwrap_or_else(|_| panic!("{}: too slow", R::NAME));
    assert_eq!(seen, announced, "{}", R::NAME);
    is_done_with(&rig, source).await;
}
