//! The model of grading (contract, "Must hold", G1 to G10), cut into two worlds, each with every order of its own steps and faults:
//! [`passage`]: a submission's attempts, the two queues, time, people, the gate, and a grader whose every step is one; [`jobs`]: that
//! grader's own: one job, two workers and their leases, paid calls, retries, outages.
//!
//! The decisions are the product's: the tables of attempt and job, what follows from a callback and from the time, and how many retries
//! there are. The writes of the store are retold, one transaction a step; where a rule joins two of them, the model without it has them
//! apart. Bounds are the contract's in small: 2 samples for 3, 3 claims for 8, and in [`passage`] one retry, as though the others had been.
//! Time is ticks there, an attempt's own: two before its deadline has passed, and one pass of the scheduler in each tick after that; a
//! lease runs out whenever it is worst.
//!
//! Rules that the contract does not spell out, and that its laws need: `WaitsUnderLock`, `Bury`, `GraderDeadline` (a `cancel` that comes
//! before its request finds nothing to stop), `ReleaseKept` over a regrade, `ReadBack`. A queue outside the database is one whose messages
//! the scheduler sees as well: what has come and was not taken in. What is still on its way it cannot see, and no law speaks of that.
//!
//! Not modelled: purge, what results say, more than one submission, the relay to a topic, steps that another job has paid for, pauses, and
//! claims that end in other states than the one in which a call is made.

mod jobs;
mod passage;
#[path = "screening/search.rs"]
#[expect(clippy::duplicate_mod, reason = "screening's own, which keeps it to itself")]
mod search;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries};

use search::{Protocol, own_steps, shortest};

const G1: &str = "G1: a terminal status never changes";
const G1_BACK: &str = "G1: what is known of a job never grows older";
const G2: &str = "G2: one final result an attempt";
const G2_ONCE: &str = "G2: a callback is taken in once";
const G2_JOB: &str = "G2: one job a request";
const G3: &str = "G3: no timeout in review, none while intake lags";
const G3_LOST: &str = "G3: no callback comes too early";
const G4: &str = "G4: AI phases end by the deadline and one pass";
const G4_ENDS: &str = "G4: every attempt ends, or a person has it";
const G4_RESTS: &str = "G4: the sides' own steps come to an end";
const G5: &str = "G5: a stale token ends nothing";
const G5_END: &str = "G5: a job's end is told once, and with it";
const G6: &str = "G6: COMPLETED has a valid final result";
const G6_REVIEW: &str = "G6: REVIEW_PENDING has an AI result, an open entry";
const G6_TOLD: &str = "G6: of a FAILED attempt a person is told";
const G6_WHOLE: &str = "G6: a result is made of every sample on record";
const G7: &str = "G7: late counts nowhere";
const G7_MARKED: &str = "G7: what came after the end is marked";
const G8: &str = "G8: retries are 3 at most";
const G8_FREE: &str = "G8: an outage spends none of them";
const G8_PAID: &str = "G8: only what a fault took is paid for twice";
const G8_CANCEL: &str = "G8: no call begins after its cancel";
const G9: &str = "G9: gated mail after COMPLETED or release";
const G9_GOES: &str = "G9: what may go is mailed";
const G10: &str = "G10: each side writes its own";

/// Every world within the bounds keeps every law, and comes to what it must come to.
#[expect(clippy::print_stdout, reason = "how much was searched is part of the result")]
fn all_is_right<M>(name: &str, model: M, least: usize)
where
    M: Protocol + Copy + Send + Sync + 'static,
    M::State: Debug + Clone + Eq + Hash + Send + Sync + 'static,
    M::Action: Debug + Clone + PartialEq,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut found = checker.discoveries();
    for property in checker.model().properties() {
        let path = found.remove(property.name).map(stateright::Path::into_actions);
        let broken = property.expectation.discovery_is_failure() == path.is_some();
        assert!(!broken, "{name}: {}: {path:?}", property.name);
    }
    let own = own_steps(&model);
    let depth = checker.max_depth();
    println!("grading, {name}: {} worlds, {} own steps, {depth} deep", own.worlds, own.steps);
    assert_eq!(own.worlds, checker.unique_state_count(), "two searches of the same");
    assert_eq!(own.circling, 0, "{G4_RESTS}");
    assert!(own.worlds >= least, "{name}: {} worlds are not enough to believe in", own.worlds);
}

/// A rule that is left out breaks the law it stands for: one line of the table.
#[expect(clippy::print_stdout, reason = "the table is the result")]
fn breaks<M: Protocol>(name: &str, rule: impl Debug, law: &'static str, model: &M)
where
    M::State: Clone + Eq + Hash,
    M::Action: Debug + Clone + PartialEq,
{
    let (worlds, way) = if law == G4_RESTS {
        let own = own_steps(model);
        (own.worlds, (own.circling > 0).then(|| format!("{} worlds in circles or behind them", own.circling)))
    } else {
        let (worlds, way) = shortest(model, law);
        (worlds, way.map(|way| format!("{way:?}")))
    };
    let rule = format!("{rule:?}");
    let Some(way) = way else { panic!("{name}: without {rule} {law:?} still holds over {worlds} worlds") };
    println!("{name:<7} | {rule:<15} | {law:<51} | {worlds:>7} worlds | {way}");
}

#[test]
fn every_order_of_callbacks_time_and_people_is_right() {
    all_is_right("passage, one database", passage::POSTGRES, 300_000);
    all_is_right("passage, a topic", passage::TOPIC, 400_000);
    all_is_right("passage, other forms", passage::FORMS, 50_000);
}

#[test]
fn every_order_of_a_graders_leases_calls_and_outages_is_right() {
    all_is_right("jobs", jobs::BASE, 30_000);
    all_is_right("jobs, every retry", jobs::TRIES, 100_000);
}

/// Without any one of the rules there is a world that breaks the law it stands for.
#[test]
fn no_rule_of_grading_can_be_spared() {
    passage::each_rule(|rule, law, model| breaks("passage", rule, law, &model));
    jobs::each_rule(|rule, law, model| breaks("jobs", rule, law, &model));
}
