//! An explicit-state model of claim, begin, record, finish, release, sweep and replay (protocol, "It was checked with an
//! explicit-state model"): every order of the steps of two workers, a sweeper and a bounded store of faults is tried, with
//! the product's own decisions.
//!
//! The model retells the writes of the store, one transaction a step; `tests/store` checks that the real ones do the same.
//! Time is not a number here but an inequality of the protocol: a row is taken back only when its worker is gone or has not
//! touched it for `stuck_after`, and a worker in front of the final dot is then frozen, not slow.

mod collection;
mod grading;
mod laws;
mod liveness;
mod product;
mod protocol;
mod screening;
mod statements;
mod steps;
mod uploads;
mod versions;
mod world;

use std::collections::BTreeSet;
use std::sync::Mutex;

use stateright::{Checker, HasDiscoveries, Model};

use liveness::Graph;
use product::Shape;
use protocol::{Protocol, Rule};
use steps::Routing;
use world::{Form, Left};

/// Faults in one run, of any kinds: `MODEL_FAULTS=3` takes hours, and more memory than a laptop has.
fn faults() -> u8 {
    std::env::var("MODEL_FAULTS").map_or(2, |faults| faults.parse().expect("MODEL_FAULTS is a small number"))
}

fn routing(protocol: Protocol, faults: u8) -> Routing {
    let left = Left {
        in_all: faults,
        crashes: faults,
        slownesses: faults,
        stops: faults,
        events: faults,
        reloads: faults,
        rescans: faults,
        answers: faults,
        outages: faults,
        hidings: faults,
        refusals: faults,
        // A second one would need a third generation.
        replays: 1,
    };
    let starts = vec![Form::First, Form::WithoutActions];
    Routing { protocol, starts, left, graph: Mutex::new(Graph::default()) }
}

fn protocol(shape: Shape) -> Protocol {
    Protocol { shape, hold: false, max_attempts: 2, refunded_resets: 1, without: None }
}

/// Every world there is within the bounds.
#[expect(clippy::print_stdout, reason = "how much was searched is part of the result")]
fn all_is_right(protocol: Protocol) {
    let model = routing(protocol, faults());
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut found = checker.discoveries();
    for property in checker.model().properties() {
        let path = found.remove(property.name).map(stateright::Path::into_actions);
        let broken = property.expectation.discovery_is_failure() == path.is_some();
        assert!(!broken, "{}: {path:#?}", property.name);
    }
    let graph = std::mem::take(&mut *checker.model().graph.lock().expect("no panic"));
    let (worlds, steps, depth) = (checker.unique_state_count(), graph.len(), checker.max_depth());
    println!("{protocol:?}: {worlds} worlds, {steps} steps of the protocol, {depth} deep");
    assert_eq!(graph.circling(), 0, "P2: worlds that are come back to");
    assert!(worlds >= 1_000_000, "{worlds} worlds are not enough to believe in");
}

#[test]
fn every_order_is_right() {
    all_is_right(protocol(Shape::OneAction));
}

#[test]
fn every_order_is_right_over_two_actions() {
    all_is_right(protocol(Shape::TwoActions));
}

#[test]
fn every_order_is_right_where_doubt_is_on_hold() {
    all_is_right(Protocol { hold: true, ..protocol(Shape::OneAction) });
}

#[test]
fn every_order_is_right_with_tickets() {
    all_is_right(protocol(Shape::Tickets));
}

/// Without any one of the rules there is a world that breaks the law it stands for.
#[test]
fn no_rule_can_be_spared() {
    let table = [
        (Rule::Pin, laws::P5),
        (Rule::TokenFence, laws::P4),
        (Rule::DotFence, laws::P1_UNNOTIFIED),
        (Rule::Budget, laws::P8),
        (Rule::Refund, laws::P8_REFUND),
        (Rule::Spent, laws::P8_SENT),
        (Rule::Doubt, laws::P1_DOUBT),
        (Rule::VerdictFromLedger, laws::P5_FAILED),
        (Rule::ReadyAtBegin, laws::P6),
        (Rule::Contract, laws::P6),
        (Rule::Contract, laws::P10),
        (Rule::OpenAtBegin, laws::P1_FACT),
        (Rule::Spooled, laws::P1_SPOOL),
        (Rule::AuditWithEnd, laws::P3),
        (Rule::Orphans, laws::P2),
        (Rule::Stuck, laws::P2),
    ];
    let of_mails = table.map(|(rule, law)| (Shape::OneAction, rule, law));
    for (shape, rule, law) in of_mails.into_iter().chain([(Shape::Tickets, Rule::Search, laws::P1_TICKET)]) {
        let model = routing(Protocol { without: Some(rule), ..protocol(shape) }, 2);
        let until = HasDiscoveries::AnyOf(BTreeSet::from([law]));
        let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
        let Some(path) = checker.discoveries().remove(law) else {
            panic!("without {rule:?} {law} still holds")
        };
        println!("{rule:?}: {law}: {:?}", path.into_actions());
    }
}
