//! G1 to G10 (contract, "Must hold"), asked of what the database has seen. Of the product only the rules of a result are believed.

use std::collections::{BTreeMap, BTreeSet};

use maple_router::grading::core::band::Bands;
use maple_router::grading::core::result::GradingResult;
use maple_router::grading::core::skill::Skill;
use uuid::Uuid;

use super::history::{Came, Claim, JobVersion, Logged, Sent, Stood, Version, moved};

/// All that is known after a sequence.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) versions: Vec<Version>,
    pub(super) stood: Vec<Stood>,
    pub(super) results: Vec<Came>,
    pub(super) jobs: Vec<JobVersion>,
    pub(super) sent: Vec<Sent>,
    pub(super) claims: Vec<Claim>,
    pub(super) log: Vec<Logged>,
    /// Times, in seconds of the clock, in which nothing was done to the daemons and to what they wait for.
    pub(super) calm: Vec<(f64, f64)>,
    /// An answer that is none was given; the grader was away, throttled or refused.
    pub(super) was_bad: bool,
    pub(super) was_away: bool,
    /// Attempts in the learner's progress, and their states.
    pub(super) progress: Vec<(Uuid, String)>,
    /// Attempts that wait for a person, or failed, and nobody was told of: attempt and state.
    pub(super) forgotten: Vec<(Uuid, String)>,
    /// Submissions of graded forms that have no attempt.
    pub(super) unborn: Vec<Uuid>,
    /// Steps that were taken over from another job.
    pub(super) copied: i64,
}

/// States in which the deadline runs.
const TIMED: [&str; 5] = ["PENDING", "QUEUED", "PROCESSING", "ERROR", "RETRYING"];
/// The process of people, and the role of graders.
pub(super) const DESK: &str = "desk";
const GRADER: &str = "maple_grader";
/// Seconds behind the deadline after which nothing is on its way any more.
const BEHIND: f64 = 30.0;
/// Seconds of the longest step of the clock.
pub(super) const STEP: f64 = 14.0;

impl Evidence {
    /// Edges and other ways, once for each time.
    pub(super) fn ways(&self) -> Vec<String> {
        let mut ways = Vec::new();
        for version in &self.versions {
            if let Some((from, to)) = moved(version.from.as_ref(), &version.to) {
                ways.push(format!("{from} > {to}"));
                ways.extend(version.failed_reason.as_ref().map(|why| format!("failed: {why}")));
            }
            if version.is_closed && !version.was_closed {
                ways.push("closed".to_owned());
            }
        }
        ways.extend(self.log.iter().filter(|line| line.skipped).map(|_| "skipped".to_owned()));
        ways.extend(self.results.iter().filter(|came| came.late).map(|_| "late result".to_owned()));
        ways.extend((0..self.copied).map(|_| "step copied".to_owned()));
        ways.extend(self.claims.iter().map(|_| "claimed".to_owned()));
        ways.extend(self.in_calm().iter().map(|_| "in time".to_owned()));
        ways
    }

    /// Attempts whose deadline passed in a calm time, and the first version of each in which it runs no more.
    fn in_calm(&self) -> Vec<(&Version, Option<&Version>)> {
        let mut born: BTreeMap<Uuid, &Version> = BTreeMap::new();
        let mut left: BTreeMap<Uuid, &Version> = BTreeMap::new();
        for version in &self.versions {
            born.entry(version.attempt).or_insert(version);
            if version.is_closed || !TIMED.contains(&version.to.as_str()) {
                left.entry(version.attempt).or_insert(version);
            }
        }
        let is_calm = |version: &&&Version| {
            let (deadline, end) = (version.deadline, self.end_of(version));
            self.calm.iter().any(|(from, until)| *from <= deadline && end <= *until)
        };
        born.values().filter(is_calm).map(|version| (*version, left.get(&version.attempt).copied())).collect()
    }

    /// When an attempt must have ended in a calm time. What its job says about it is heard first; here that takes a step of the clock each time,
    /// and behind its deadline a job says at most that a try failed, that it is worked on, and that it was given up.
    fn end_of(&self, version: &Version) -> f64 {
        let request = version.attempt.to_string();
        let deadline = version.deadline;
        let speaks = |sent: &&Sent| sent.queue == "callback" && sent.request == request;
        let about = |at: f64| deadline - STEP <= at && at <= deadline + BEHIND;
        let spoke = self.sent.iter().filter(speaks).any(|sent| about(sent.at));
        deadline + BEHIND + if spoke { 3.0 * STEP } else { 0.0 }
    }
}

/// What is wrong, each with the law that is broken.
pub(super) fn violations(evidence: &Evidence) -> Vec<String> {
    let mut wrong = of_attempts(evidence);
    wrong.extend(of_results(evidence));
    wrong.extend(of_jobs(evidence));
    wrong.extend(of_log(evidence));
    for (born, left) in evidence.in_calm() {
        if left.is_none_or(|left| left.at > evidence.end_of(born)) {
            wrong.push(format!("G4: attempt {} was not ended at its deadline: {left:?}", born.attempt));
        }
    }
    for Stood { attempt, state, finals, entries } in &evidence.stood {
        let has = |cause: &str| entries.iter().any(|entry| entry == cause);
        if state == "COMPLETED" && *finals != 1 {
            wrong.push(format!("G2: attempt {attempt} is {state}, with {finals} final results"));
        }
        if state == "REVIEW_PENDING" && !has("grading") {
            wrong.push(format!("G6: attempt {attempt} waits for a person, and no entry tells of it"));
        }
        if state == "FAILED" && !has("grading_failed") {
            wrong.push(format!("G6: attempt {attempt} failed, and no entry tells of it"));
        }
    }
    let told = evidence.forgotten.iter();
    wrong.extend(
        told.map(|(attempt, state)| format!("G6: attempt {attempt} is {state}, and nobody was told")),
    );
    wrong.extend(evidence.unborn.iter().map(|id| format!("G4: {id} waits for an attempt that nobody made")));
    for claim in &evidence.claims {
        let state = claim.state.as_deref();
        let passes = state == Some("COMPLETED") || claim.released || (state == Some("FAILED") && claim.sends);
        if claim.gated && !passes {
            wrong.push(format!("G9: {} is mailed without its grade: {claim:?}", claim.subject));
        }
    }
    for sent in &evidence.sent {
        // The superuser is the queue, which doubles.
        let is_own = match sent.role.as_str() {
            GRADER => sent.queue == "callback",
            "forms_app" | "maple_desk" => sent.queue == "request",
            _ => sent.process.is_empty(),
        };
        if !is_own {
            wrong.push(format!("G10: a message of the other side's: {sent:?}"));
        }
    }
    wrong
}

fn of_attempts(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    for (place, version) in evidence.versions.iter().enumerate() {
        if version.role == GRADER {
            wrong.push(format!("G10: a grader has written an attempt: {version:?}"));
        }
        let Some((from, to)) = moved(version.from.as_ref(), &version.to) else { continue };
        let mut say = |law: &str| {
            wrong.push(format!(
                "{law}: attempt {}: {from} > {to} by {}: {version:?}",
                version.attempt, version.process
            ));
        };
        if matches!(from, "COMPLETED" | "FAILED") {
            say("G1: an end has changed");
        }
        if version.was_closed {
            say("G1: an attempt that is closed has changed");
        }
        let is_timeout = version.failed_reason.as_deref() == Some("timeout");
        if to == "FAILED" && from == "REVIEW_PENDING" {
            say("G3: failed while a person had it");
        }
        if is_timeout && version.waits {
            say("G3: failed while its callback waited");
        }
        if is_timeout && version.at < version.deadline {
            say("G3: failed before its deadline");
        }
        if from == "REVIEW_PENDING" && version.process != DESK {
            say("G6: a person's review that no person made");
        }
        if from == "PENDING" && !is_timeout && !owns(&evidence.versions[..place], version) {
            say("G5: moved without its lease");
        }
    }
    wrong
}

/// Whether the lease under which an attempt moved was taken by the process that moved it.
fn owns(earlier: &[Version], version: &Version) -> bool {
    let Some(token) = version.token_before else { return false };
    let taken =
        earlier.iter().find(|other| other.attempt == version.attempt && other.token_after == Some(token));
    taken.is_some_and(|taken| taken.process == version.process)
}

fn of_results(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut finals: BTreeMap<Uuid, u32> = BTreeMap::new();
    for came in &evidence.results {
        let mut say = |law: &str| wrong.push(format!("{law}: attempt {}: {came:?}", came.request));
        let valid = serde_json::from_value::<GradingResult>(came.result.clone()).ok();
        let skill = Skill::parse(&came.skill);
        let is_valid =
            valid.zip(skill).is_some_and(|(result, skill)| result.check(skill, &Bands::default()).is_ok());
        if !is_valid {
            say("G6: a result that is none");
        }
        if came.late != (came.state == "FAILED") {
            say("G7: late is what came after its attempt had failed, and nothing else");
        }
        if came.late && came.kind != "ai" {
            say("G7: a late result counts");
        }
        if came.role == GRADER {
            say("G10: a grader has written a result");
        }
        if came.kind != "final" {
            continue;
        }
        let count = finals.entry(came.request).or_default();
        *count += 1;
        if *count > 1 {
            say("G2: another final result");
        }
        let is_of = |kind: &str| {
            let of = |other: &Came| {
                other.request == came.request && other.kind == kind && !other.late && !other.dup
            };
            evidence.results.iter().any(|other| of(other) && (kind == "human" || other.digest == came.digest))
        };
        let is_keyed = matches!(came.skill.as_str(), "listening" | "reading");
        if !is_keyed && !is_of("ai") && !is_of("human") {
            say("G2: a final result that neither grader nor person gave");
        }
    }
    for (attempt, state) in &evidence.progress {
        if state != "COMPLETED" {
            wrong.push(format!("G7: attempt {attempt} is {state}, and counts"));
        }
    }
    wrong
}

fn of_jobs(evidence: &Evidence) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut failed: BTreeMap<Uuid, u32> = BTreeMap::new();
    for (place, version) in evidence.jobs.iter().enumerate() {
        let mut say = |law: &str| wrong.push(format!("{law}: job {}: {version:?}", version.job));
        if version.role != GRADER {
            say("G10: somebody else has written a job");
        }
        let way = moved(version.from.as_ref(), &version.to);
        if (version.retries != version.retries_before) != (way == Some(("ERROR", "RETRYING"))) {
            say("G8: a retry that is none");
        }
        if version.retries > 3 {
            say("G8: more than three retries");
        }
        let Some((from, to)) = way else { continue };
        if matches!(from, "COMPLETED" | "FAILED") {
            say("G1: a job's end has changed");
        }
        let taken = version.token_before.and_then(|token| {
            let of = |other: &&JobVersion| other.job == version.job && other.token_after == Some(token);
            evidence.jobs[..place].iter().find(of)
        });
        if taken.is_none_or(|taken| taken.process != version.process) {
            say("G5: moved without its lease");
        }
        if to == "ERROR" {
            let tries = failed.entry(version.job).or_default();
            *tries += 1;
            if *tries > 4 {
                say("G8: more than four tries");
            }
            let is_explained = match (version.kind.as_deref(), version.code.as_deref()) {
                (Some("model"), Some("no_answer")) => evidence.was_away,
                (Some("model"), _) => evidence.was_bad,
                _ => true,
            };
            if !is_explained {
                say("G8: a try was spent on nothing");
            }
        }
    }
    wrong
}

/// The log has each transition once, and nothing else.
fn of_log(evidence: &Evidence) -> Vec<String> {
    type Ways = BTreeMap<Uuid, Vec<(Option<String>, String)>>;
    let mut seen = Ways::new();
    for version in &evidence.versions {
        if version.from.as_ref() != Some(&version.to) {
            seen.entry(version.attempt).or_default().push((version.from.clone(), version.to.clone()));
        }
    }
    let mut logged = Ways::new();
    for line in evidence.log.iter().filter(|line| line.from.as_ref() != Some(&line.to)) {
        logged.entry(line.attempt).or_default().push((line.from.clone(), line.to.clone()));
    }
    let attempts: BTreeSet<&Uuid> = seen.keys().chain(logged.keys()).collect();
    let differs = |attempt: &&&Uuid| seen.get(attempt) != logged.get(attempt);
    let said = |attempt: &Uuid| {
        let (seen, logged) = (seen.get(attempt), logged.get(attempt));
        format!("G1: attempt {attempt} went {seen:?}, and its log says {logged:?}")
    };
    attempts.iter().filter(differs).map(|attempt| said(attempt)).collect()
}
