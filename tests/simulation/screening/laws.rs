//! S1 to S9 (contract, "Must hold"), asked of what the database has seen. Of the product only the digest is believed.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::history::{Claim, Logged, Version};
use super::ops::Content;

/// All that is known after a sequence.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) versions: Vec<Version>,
    pub(super) claims: Vec<Claim>,
    pub(super) log: Vec<Logged>,
    /// What was submitted, by its digest.
    pub(super) contents: BTreeMap<String, BTreeSet<Content>>,
    /// Submissions whose caller the backend has authenticated.
    pub(super) vouched: BTreeSet<Uuid>,
    /// Scores that a valid answer of the judge could have.
    pub(super) offered: BTreeSet<u8>,
    /// The judge may approve.
    pub(super) calibrated: bool,
    /// Runs that have not come to an end, and nobody was told of: run and state.
    pub(super) forgotten: Vec<(Uuid, String)>,
    /// Submissions that wait for a run that nobody made.
    pub(super) unborn: Vec<Uuid>,
}

/// States that a worker's job leads out of.
const JOBS: [&str; 5] = ["RECEIVED", "TIER1_SCANNING", "TIER2_SCANNING", "AUTO_APPROVED", "VENDOR_APPROVED"];
/// States from which a person decides.
const PEOPLE: [&str; 2] = ["NEEDS_REVIEW", "TIER3_REVIEW"];
/// The process of people.
pub(super) const DESK: &str = "desk";

impl Evidence {
    /// Edges and other ways, once for each time.
    pub(super) fn ways(&self) -> Vec<String> {
        let mut ways = Vec::new();
        for version in &self.versions {
            ways.extend(version.moved().map(|(from, to)| format!("{from} > {to}")));
            if version.died {
                ways.extend(version.dead_reason.as_ref().map(|why| format!("given up: {why}")));
            }
            if !version.was_over {
                ways.extend(version.closed_why.as_ref().map(|why| format!("closed: {why}")));
            }
            if self.is_expiry(version) {
                ways.push("patience is over".to_owned());
            }
        }
        ways.extend(self.claims.iter().map(|_| "claimed".to_owned()));
        ways
    }

    /// Nobody had the run, and its time was over.
    fn is_expiry(&self, version: &Version) -> bool {
        version.moved() == Some(("TIER2_SCANNING", "NEEDS_REVIEW")) && version.token_before.is_none()
    }

    fn is_only(&self, digest: Option<&String>, content: Content) -> bool {
        let known = digest.and_then(|digest| self.contents.get(digest));
        known.is_some_and(|contents| contents.len() == 1 && contents.contains(&content))
    }
}

/// What is wrong, each with the law that is broken.
pub(super) fn violations(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    for (place, version) in evidence.versions.iter().enumerate() {
        let Some((from, to)) = version.moved() else { continue };
        let mut say = |law: &str| {
            wrong.push(format!(
                "{law}: run {}: {from} > {to} by {}: {version:?}",
                version.run, version.process
            ));
        };
        if to == "PUBLISHED" && !matches!(from, "AUTO_APPROVED" | "VENDOR_APPROVED" | "TIER3_REVIEW") {
            say("S1: published past every approval");
        }
        if PEOPLE.contains(&from) && version.process != DESK {
            say("S1: a person's decision that no person made");
        }
        let offered = version.score.and_then(|score| u8::try_from(score).ok());
        let offered = offered.is_some_and(|score| evidence.offered.contains(&score));
        if from == "TIER2_SCANNING" && (to != "NEEDS_REVIEW" || version.score.is_some()) && !offered {
            say("S2: a score that the judge never gave");
        }
        if to == "AUTO_APPROVED" && version.score.is_none_or(|score| score < 80) {
            say("S2: approved by less than 80");
        }
        if (from, to) == ("TIER2_SCANNING", "REJECTED") && version.score.is_none_or(|score| score >= 60) {
            say("S2: rejected by 60 or more");
        }
        if to == "AUTO_APPROVED"
            && (!version.bars.is_empty()
                || version.forced
                || !evidence.calibrated
                || evidence.is_only(version.digest.as_ref(), Content::Talking))
        {
            say("S3: a bar has passed alone");
        }
        if to == "TIER2_SCANNING" && evidence.is_only(version.digest.as_ref(), Content::Blocked) {
            say("S3: what is blocked goes on");
        }
        if to == "VENDOR_APPROVED" && version.forced {
            say("S3: what wants a person goes on without one");
        }
        if version.was_over {
            say("S5: a run that is over has changed");
        }
        if JOBS.contains(&from) && !evidence.is_expiry(version) && !owns(&evidence.versions[..place], version)
        {
            say("S5: changed without its lease");
        }
        if to == "PUBLISHED" && version.digest.as_deref() != Some(version.live.as_str()) {
            say("S7: published is not what was screened");
        }
        if to == "VENDOR_APPROVED" && !evidence.vouched.contains(&version.subject) {
            say("S8: trusted without a proof");
        }
    }
    wrong.extend(log_of(evidence));
    let forgotten = evidence.forgotten.iter();
    wrong.extend(forgotten.map(|(run, state)| format!("S6: run {run} is {state}, and nobody was told")));
    wrong.extend(evidence.unborn.iter().map(|id| format!("S6: {id} waits for a run that nobody made")));
    for claim in &evidence.claims {
        if claim.state.as_deref() != Some("PUBLISHED") {
            wrong.push(format!("S9: {} is claimed, and not published: {claim:?}", claim.subject));
        }
        if claim.digest.as_deref() != Some(claim.live.as_str()) {
            wrong.push(format!("S7: what is mailed of {} was not screened: {claim:?}", claim.subject));
        }
    }
    wrong
}

/// Whether the lease under which a run moved was taken by the process that moved it.
fn owns(earlier: &[Version], version: &Version) -> bool {
    let Some(token) = version.token_before else { return false };
    let taken = earlier.iter().find(|other| other.run == version.run && other.token_after == Some(token));
    taken.is_some_and(|taken| taken.process == version.process)
}

/// S4: the document's log has each transition once, and nothing else.
fn log_of(evidence: &Evidence) -> Vec<String> {
    type Ways = BTreeMap<Uuid, Vec<(Option<String>, String)>>;
    let mut seen = Ways::new();
    for version in evidence.versions.iter().filter(|version| version.born || version.moved().is_some()) {
        let from = version.from.clone().filter(|_| !version.born);
        seen.entry(version.run).or_default().push((from, version.to.clone()));
    }
    let mut logged = Ways::new();
    let mut wrong = Vec::new();
    for line in &evidence.log {
        logged.entry(line.run).or_default().push((line.from.clone(), line.to.clone()));
        if line.from.is_none() != (line.trigger == "api-submission") {
            wrong.push(format!("S4: {line:?}"));
        }
    }
    let runs: BTreeSet<&Uuid> = seen.keys().chain(logged.keys()).collect();
    for run in runs {
        // The clock of a sequence stands still between its steps: events of one moment have no order of their own.
        let sorted = |ways: &Ways| {
            let mut of = ways.get(run).cloned().unwrap_or_default();
            of.sort();
            of
        };
        let (seen, logged) = (sorted(&seen), sorted(&logged));
        if seen != logged {
            wrong.push(format!("S4: run {run} went {seen:?}, and its log says {logged:?}"));
        }
    }
    wrong
}
