//! The model of screening (contract, "Must hold", S1 to S9), cut into four worlds, each with every order of its own steps and faults:
//! [`jobs`]: one run's three jobs, two workers and their leases; [`judge`]: tier 2, the judge's answers, its bars and its outage;
//! [`people`]: two runs of a submission, its form, births, admins, readiness and routing; [`trust`]: origin, content that changes, mail.
//!
//! A step is one transaction, or one look at the outside; where a rule joins two writes, the model without it has them apart. The
//! contract's table and writes are retold here: nothing of the product runs. Bounds are the contract's in small: 2 tries for 4, 3 claims
//! for 8, 2 refused claims for the patience. Time is no number: a lease runs out whenever it is worst.
//!
//! Rules that the contract does not spell out, and that its laws need: `AttemptKept` over a redrive, `FreshKey`, `ClosedIsClosed`,
//! `CurrentFence`, `Since`, `SinceFinalize`, `SubjectLock` of rescreen and refusal, `DigestAtMail`, `ReadOnce`, `ScanResumes`.
//! Not modelled: the share of slots that a form has, the order of claims, a second submission, token budgets, and what happens to a mail
//! between its beginning and its end.
//!
//! S6 is judged over the whole graph: the protocol's own steps make no circle, whatever is answered, so that without more faults every
//! order of them comes to rest; and where there is none left, the run has ended, or a person was told.

mod jobs;
mod judge;
mod people;
mod search;
mod table;
mod trust;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries};

use search::{Protocol, own_steps, shortest};

const S1: &str = "S1: PUBLISHED only by an approval edge";
const S2: &str = "S2: no decision of the judge without a valid verdict";
const S3: &str = "S3: no bar passes without a person";
const S4: &str = "S4: exactly one event a transition";
const S5: &str = "S5: who is stale changes nothing";
const S5_PURGED: &str = "S5: what was purged stays empty";
const S6: &str = "S6: every run ends or a person is told";
const S6_RESTS: &str = "S6: the protocol's own steps come to an end";
const S6_TRIED: &str = "S6: what is given up was tried";
const S7: &str = "S7: mailed is what was screened";
const S7_PUBLISHED: &str = "S7: published is what was screened";
const S8: &str = "S8: no trust without proof";
const S9: &str = "S9: not PUBLISHED and clean, not ready";
const S9_CURRENT: &str = "S9: only a current run is published";

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
    println!("screening, {name}: {} worlds, {} own steps, {depth} deep", own.worlds, own.steps);
    assert_eq!(own.worlds, checker.unique_state_count(), "two searches of the same");
    assert_eq!(own.circling, 0, "{S6_RESTS}");
    assert!(own.worlds >= least, "{name}: {} worlds are not enough to believe in", own.worlds);
}

/// A rule that is left out breaks the law it stands for: one line of the table.
#[expect(clippy::print_stdout, reason = "the table is the result")]
fn breaks<M: Protocol>(name: &str, rule: impl Debug, law: &'static str, model: &M)
where
    M::State: Clone + Eq + Hash,
    M::Action: Debug + Clone + PartialEq,
{
    let (worlds, way) = if law == S6_RESTS {
        let own = own_steps(model);
        (own.worlds, (own.circling > 0).then(|| format!("{} worlds in circles or behind them", own.circling)))
    } else {
        let (worlds, way) = shortest(model, law);
        (worlds, way.map(|way| format!("{way:?}")))
    };
    let rule = format!("{rule:?}");
    let Some(way) = way else { panic!("{name}: without {rule} {law:?} still holds over {worlds} worlds") };
    println!("{name:<6} | {rule:<16} | {law:<52} | {worlds:>7} worlds | {way}");
}

#[test]
fn every_order_of_jobs_and_leases_is_right() {
    all_is_right("jobs", jobs::BASE, 150_000);
}

#[test]
fn every_order_of_answers_and_outages_is_right() {
    all_is_right("judge", judge::BASE, 500_000);
}

#[test]
fn every_order_of_people_and_runs_is_right() {
    all_is_right("people", people::BASE, 400_000);
}

#[test]
fn every_order_of_trust_and_content_is_right() {
    all_is_right("trust", trust::BASE, 5_000);
}

/// Without any one of the rules there is a world that breaks the law it stands for.
#[test]
fn no_rule_of_screening_can_be_spared() {
    jobs::each_rule(|rule, law, model| breaks("jobs", rule, law, &model));
    judge::each_rule(|rule, law, model| breaks("judge", rule, law, &model));
    people::each_rule(|rule, law, model| breaks("people", rule, law, &model));
    trust::each_rule(|rule, law, model| breaks("trust", rule, law, &model));
}
