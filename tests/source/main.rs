//! One suite for every source of events: the receiver's assumptions (`ports::EventSource`), checked on Pub/Sub and on
//! PostgreSQL alike. A case says what it asks once; a rig says how its source is set up, and where its promise differs.
//!
//! `SOURCE_CASE` chooses one case by its name.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait in real time, need names of their own, and fail by panicking"
)]

mod leaving;
mod outages;
mod postgres;
mod pubsub;
mod receiving;
mod rig;
mod sharing;
mod supervised;

use std::sync::Mutex;

use futures::future::LocalBoxFuture;

use crate::postgres::Outbox;
use crate::pubsub::Pubsub;
use crate::rig::Rig;
use crate::supervised::Supervised;

/// Cases that run side by side: most of the time they wait.
const SIDE_BY_SIDE: usize = 5;

/// A case's name, and how it is played.
type Case = (&'static str, fn() -> LocalBoxFuture<'static, ()>);

macro_rules! cases {
    ($rig:ident: $($room:ident: $($case:ident),+;)+) => {
        vec![$($((stringify!($case), || Box::pin(crate::$room::$case::<$rig>()))),+),+]
    };
}

fn cases<R: Rig + 'static>() -> Vec<Case> {
    cases!(R:
        sharing: brings_nothing_while_paused, gives_nobody_what_another_holds, holds_no_more_than_its_share,
            loses_nothing_when_waits_are_given_up, shares_the_work;
        leaving: gives_back_when_quiet_what_it_had_not_handed_out, leaves_to_others_what_it_had_leased_when_it_died,
            stops_waiting_for_answers_in_time, waits_for_answers_when_it_stops;
        outages: goes_on_when_its_server_is_back, keeps_what_is_announced_while_its_server_is_away;
        receiving: brings_many_once_each, comes_again_after_a_nack, comes_again_when_the_answer_is_dropped, comes_once,
            does_not_repeat_what_is_exhausted, gives_the_good_ones_beside_the_poisonous, keeps_what_is_rejected;
    )
}

/// Plays every case in a runtime of its own, and names all that failed.
fn conforms<R: Rig + 'static>() {
    let only = std::env::var("SOURCE_CASE").ok();
    let wanted =
        cases::<R>().into_iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name));
    let left = Mutex::new(wanted);
    let failed = Mutex::new(Vec::new());
    let next = || left.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some((name, case)) = next() {
                    let played = std::thread::spawn(move || {
                        let mut runtime = tokio::runtime::Builder::new_multi_thread();
                        runtime.worker_threads(2).enable_all().build().unwrap().block_on(case());
                    });
                    if played.join().is_err() {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} failed at: {failed:?}; why is printed above", R::NAME);
}

#[test]
fn pubsub_alone() {
    conforms::<Pubsub>();
}

#[test]
fn pubsub_supervised() {
    conforms::<Supervised<Pubsub>>();
}

#[test]
fn outbox_alone() {
    conforms::<Outbox>();
}

#[test]
fn outbox_supervised() {
    conforms::<Supervised<Outbox>>();
}
