//! Coverage: how often each operation happened and each point caught a process. A simulation that does not come by
//! a point proves nothing about it, so it fails when one was reached too rarely.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use devkit::stage::Source;

use crate::ops::{Op, Point};
use crate::process::Doom;
use crate::tickets::Ways;

/// At least so often, over the whole run.
const ENOUGH: u64 = 20;

/// The counts of one run.
#[derive(Debug, Default)]
pub(crate) struct Coverage(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sequences: u64,
    operations: u64,
    rests: u64,
    restless: u64,
    happened: BTreeMap<&'static str, u64>,
    crashed: BTreeMap<Point, u64>,
    cut: BTreeMap<Point, u64>,
    stalled: BTreeMap<Point, u64>,
    tickets: Ways,
}

impl Coverage {
    pub(crate) fn sequence(&self, operations: usize) {
        let mut counts = self.lock();
        counts.sequences += 1;
        counts.operations += operations as u64;
    }

    /// The world was waited for, until it was quiet or for too long.
    pub(crate) fn rested(&self, quiet: bool) {
        let mut counts = self.lock();
        counts.rests += 1;
        counts.restless += u64::from(!quiet);
    }

    pub(crate) fn happened(&self, what: &'static str) {
        *self.lock().happened.entry(what).or_default() += 1;
    }

    pub(crate) fn tickets(&self, ways: Ways) {
        let tickets = &mut self.lock().tickets;
        tickets.at_once += ways.at_once;
        tickets.found += ways.found;
        tickets.again += ways.again;
    }

    pub(crate) fn caught(&self, doom: Doom, point: Point) {
        let mut counts = self.lock();
        let table = match doom {
            Doom::Crash => &mut counts.crashed,
            Doom::Cut => &mut counts.cut,
            Doom::Stall => &mut counts.stalled,
        };
        *table.entry(point).or_default() += 1;
    }

    /// The table, and what was reached too rarely.
    pub(crate) fn report(&self, source: Source) -> (String, Vec<String>) {
        let counts = self.lock();
        let mut rare = Vec::new();
        let per = counts.operations / counts.sequences.max(1);
        let mut table = format!("{} sequences, {per} operations each on average\n", counts.sequences);
        let Counts { rests, restless, .. } = *counts;
        writeln!(table, "{rests} times it was waited for quiet, {restless} times in vain").expect("text");
        for label in Op::LABELS {
            let times = counts.happened.get(label).copied().unwrap_or_default();
            writeln!(table, "  {label:<24}{times:>8}").expect("text");
            // The outbox forgets no answer: what is lost is lost on the wire, where the points are.
            if times < ENOUGH && !(source == Source::Postgres && label == "forget ack") {
                rare.push(format!("{label}: {times}"));
            }
        }
        let Ways { at_once, found, again } = counts.tickets;
        for (way, times) in [
            ("ticket made at once", at_once),
            ("ticket found by its tag", found),
            ("ticket made again", again),
        ] {
            writeln!(table, "  {way:<24}{times:>8}").expect("text");
            if times < ENOUGH {
                rare.push(format!("{way}: {times}"));
            }
        }
        writeln!(table, "  {:<24}{:>8}{:>8}{:>8}", "caught at", "crash", "cut", "stall").expect("text");
        for point in Point::all(source) {
            let of = |table: &BTreeMap<Point, u64>| table.get(&point).copied().unwrap_or_default();
            let (crashed, cut, stalled) = (of(&counts.crashed), of(&counts.cut), of(&counts.stalled));
            writeln!(table, "  {:<24}{crashed:>8}{cut:>8}{stalled:>8}", point.to_string()).expect("text");
            if crashed < ENOUGH {
                rare.push(format!("crash at {point}: {crashed}"));
            }
        }
        (table, rare)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
