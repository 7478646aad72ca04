//! The end of a soak: text for people, JSON for programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::Options;
use super::load::LOST_EVENTS;
use super::memory::{Growth, Life};
use super::verdict::{Check, Tally, judge};
use super::witness::Evidence;
use super::world::{DEFERRED, DROPPED, REFUSED, World};

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    binary: String,
    seed: u64,
    seconds: u64,
    relay: String,
    tally: Tally,
    checks: Vec<Check>,
    disturbances: BTreeMap<&'static str, u64>,
    status_changes: BTreeMap<String, u64>,
    daemons_started: usize,
    drained_after_seconds: Option<f64>,
    memory: Vec<Growth>,
}

impl Report {
    /// Judges the evidence.
    pub(super) fn of(options: &Options, world: &World, evidence: Evidence) -> Self {
        let notes = world.notes();
        let memory: Vec<Growth> = notes.lives.iter().filter_map(Life::growth).collect();
        let (checks, tally) = judge(&evidence, &memory, &notes.broken);
        Self {
            binary: options.binary.display().to_string(),
            seed: options.seed,
            seconds: options.seconds,
            relay: format!(
                "{} % of RCPTs deferred, {} % refused, {} % of stored mails dropped; 1 of {LOST_EVENTS} events lost",
                DEFERRED / 100,
                REFUSED / 100,
                DROPPED / 100
            ),
            tally,
            checks,
            disturbances: notes.disturbances.clone(),
            status_changes: evidence.changes,
            daemons_started: notes.lives.len(),
            drained_after_seconds: evidence.drained.map(|took| took.as_secs_f64()),
            memory,
        }
    }

    pub(super) fn is_good(&self) -> bool {
        self.drained_after_seconds.is_some() && self.checks.iter().all(|check| check.good)
    }

    /// The report for people.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![String::new()];
        for check in &self.checks {
            lines.push(format!("  {}  {}", if check.good { "ok  " } else { "FAIL" }, check.name));
            if !check.found.is_empty() {
                lines.push(format!("          {}", check.found));
            }
        }
        let drained = match self.drained_after_seconds {
            Some(took) => format!("everything had ended {took:.1} s after the load"),
            None => "NOT everything had ended in time".to_owned(),
        };
        let tally = &self.tally;
        let failed: u64 = tally.failed.values().sum();
        lines.push(String::new());
        lines.push(format!(
            "  {} submitted: {} routed, {failed} failed {:?}, {} open; {drained}",
            tally.submitted, tally.routed, tally.failed, tally.open
        ));
        lines.push(format!(
            "  {} mails, {} of them duplicates ({} in doubt by the ledger); {} deliveries were in doubt, {} facts came late",
            tally.mails, tally.duplicates, tally.duplicates_in_doubt, tally.in_doubt, tally.late_facts
        ));
        lines.push(format!(
            "  {} submissions taken back by a sweep; attempts {:?}",
            tally.reset, tally.attempts
        ));
        lines.push(format!("  relay: {}", self.relay));
        lines.push(format!(
            "  {} daemons started; disturbances: {:?}",
            self.daemons_started, self.disturbances
        ));
        lines.push(format!("  {}", if self.is_good() { "as it must be" } else { "NOT as it must be" }));
        lines.join("\n")
    }

    /// Writes both forms.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        fs::write(dir.join("soak-report.json"), serde_json::to_vec_pretty(self)?)?;
        Ok(fs::write(dir.join("soak-report.txt"), self.text())?)
    }
}
