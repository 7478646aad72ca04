//! Routing's card.

use std::time::Duration;

use super::table::{Status, Submission};
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::metrics;

/// The room's card.
pub const CARD: Card = Card {
    name: "routing",
    lifecycles: &[describe::<Submission>],
    kinds: &[],
    transactions: &[
        "claim",
        "dossier",
        "begin",
        "record",
        "merge_facts",
        "dead_letter",
        "dead_letter_lease",
        "dead_letter_alerted",
        "fail",
        "release",
        "heartbeat",
        "sweep_stuck",
        "sweep_orphans",
        "sweep_infected",
        "sweep_unready",
        "sweep_open",
        "sweep_count",
        "sweep_ended",
        "alert_look",
        "alert_lease",
        "alert_confirm",
        "alert_release",
        "record_seen",
    ],
    metrics: || Status::ALL.iter().for_each(|status| metrics::queue(*status, 0, Duration::ZERO)),
};
