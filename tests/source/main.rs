//! One suite for every source of events: what the receiver relies on (`ports::EventSource`), asked of Pub/Sub and of
//! PostgreSQL alike. A case says what it asks once; a rig says how its source is furnished, and where its promise differs.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait in real time, need names of their own, and fail by panicking"
)]

mod leaving;
mod outages;
mod pubsub;
mod receiving;
mod rig;
mod sharing;

/// Every case for one rig, under the rig's name.
macro_rules! conforms {
    ($name:ident: $rig:ty) => {
        conforms!(@ $name: $rig:
            receiving: comes_once, comes_again_after_a_nack, comes_again_when_the_answer_is_dropped, keeps_what_is_rejected,
                does_not_repeat_what_is_exhausted, gives_the_good_ones_beside_the_poisonous, brings_many_once_each;
            sharing: shares_the_work, gives_nobody_what_another_holds, holds_no_more_than_its_share,
                loses_nothing_when_waits_are_given_up, brings_nothing_while_paused;
            leaving: gives_back_when_quiet_what_it_had_not_handed_out, waits_for_answers_when_it_stops,
                stops_waiting_for_answers_in_time, leaves_to_others_what_it_held_when_it_died;
            outages: goes_on_when_its_server_is_back, keeps_what_is_announced_while_its_server_is_away;
        );
    };
    (@ $name:ident: $rig:ty: $($room:ident: $($case:ident),+;)+) => {
        mod $name {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::$room::$case::<$rig>().await;
                }
            )+)+
        }
    };
}

conforms!(pubsub_alone: crate::pubsub::Pubsub);
conforms!(pubsub_supervised: crate::pubsub::Supervised);
