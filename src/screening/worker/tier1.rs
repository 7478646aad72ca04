//! TIER1_SCANNING: the rules. A block fails the run, unless it is waived; what else they find may bar a machine from approving.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;

use super::repository;
use super::{MOST_TRIES, Tools, array, database, dead, given_up, millis, poisoned};
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::screening::journal;
use crate::screening::run::{Bar, Profile};
use crate::screening::store::Submitted;
use crate::screening::store::results::{KeptFinding, ScanResult, ScanVerdict};
use crate::screening::store::setup::{KeptWaiver, WaiverReason};
use crate::screening::table::{Command, JobType, Screening, State};
use crate::screening::tier1::{
    self, Content, Fields, Finding, Reason, Report, Ruleset, Severity, Verdict, Waiver,
};

/// The rule of what the rules could not read.
const UNREADABLE: &str = "unreadable-file";
/// The field under which names of files are looked at.
pub(super) const FILE_NAMES: &str = "file names";

/// The work of a run that the rules look at.
#[derive(Debug, Clone)]
pub struct Tier1 {
    /// What it needs.
    pub tools: Tools,
}

impl Work for Tier1 {
    type Of = Screening;

    fn run<'a>(&'a self, row: &'a Row<Screening>) -> BoxFuture<'a, Ending<Screening>> {
        async move {
            if let Some(poisoned) = poisoned(row) {
                return poisoned;
            }
            match self.tools.ruled(row).await {
                Ok(result) => ending(row, &self.tools, &result),
                Err(ending) => ending,
            }
        }
        .boxed()
    }
}

fn ending(row: &Row<Screening>, tools: &Tools, result: &ScanResult) -> Ending<Screening> {
    let number = |name: &str| result.detail.get(name).cloned().unwrap_or_default();
    let metadata = json!({"findings": number("findings"), "duration_ms": number("took_ms")});
    let mut columns = json!({"content": result.content, "ruleset": result.ruleset, "metadata": metadata});
    if result.verdict == ScanVerdict::Fail {
        return Ending::Done {
            command: Command::Tier1Fail,
            to: Some(State::Tier1Failed),
            columns: Some(columns),
        };
    }
    let mut bars = result.bars();
    if row.columns.force_review {
        bars.push(Bar::ForceReview.label().to_owned());
    }
    columns["bars"] = json!(array(&bars));
    columns["patience"] = json!(format!("{} seconds", tools.patience.as_secs()));
    Ending::Done { command: Command::Tier1Pass, to: Some(State::Tier2Scanning), columns: Some(columns) }
}

impl Tools {
    /// What the rules find, or found before; `Err` says how the job ends without that.
    pub(super) async fn ruled(&self, row: &Row<Screening>) -> Result<ScanResult, Ending<Screening>> {
        let most = self.form(&row.columns.form_id).same_per_hour.saturating_add(1);
        let submitted = self.submitted_beside(row, most).await?;
        if may_be_known(row) {
            let known = self.store.first_result(row.id, JobType::Tier1Scan).await;
            if let Some(known) = known.map_err(|error| database(row, &error))? {
                return Ok(known);
            }
        }
        let rules = self.rulesets.of(&row.columns.form_id, row.columns.profile);
        let slot = self.scans.acquire().await.map_err(|_| Ending::AtOnce)?;
        let (content, missing) = self.content(row, &submitted).await?;
        // What is entered beside a repository is mailed as well.
        let beside = (row.columns.profile == Profile::Git)
            .then(|| (entered(&submitted), self.rulesets.of(&row.columns.form_id, Profile::Fields)));
        let began = self.clock.monotonic();
        let seen = submitted.seen.saturating_add(1);
        let mut report = self.scanned(row, content, &rules, seen).await?;
        if let Some((entered, rules)) = beside {
            report.absorb(self.scanned(row, entered, &rules, seen).await?);
        }
        drop(slot);
        let took = self.clock.monotonic().saturating_duration_since(began);
        if missing > 0 {
            report.unreadable += missing;
            report.findings.push(Finding {
                rule: UNREADABLE.into(),
                severity: Severity::Review,
                place: "the tree".to_owned(),
                count: missing,
                waived: None,
            });
        }
        let waivers = self.store.waivers(Some(&row.columns.form_id)).await;
        let waivers: Vec<Waiver> =
            waivers.map_err(|error| database(row, &error))?.into_iter().map(waiver).collect();
        report.apply(&waivers);
        let content = row.columns.content.clone().unwrap_or_else(|| submitted.digest.clone());
        let result = result(&content, &rules, &report, millis(took));
        let findings: Vec<KeptFinding> = report.findings.iter().map(kept).collect();
        let job = (JobType::Tier1Scan, row.columns.attempt);
        self.store.record(row.id, job, &result, &findings).await.map_err(|error| database(row, &error))
    }

    /// What rules find in a content.
    async fn scanned(
        &self,
        row: &Row<Screening>,
        content: Content,
        rules: &Arc<Ruleset>,
        seen: u32,
    ) -> Result<Report, Ending<Screening>> {
        let failed = |why: String| Ending::Failed { why, columns: None };
        if let Content::Tree(tree) = &content {
            let report = self.trees.scan(tree, rules, self.rulesets.extra()).await;
            // What ends whoever scans it again and again is a person's.
            return report.map_err(|error| {
                if row.attempts >= MOST_TRIES {
                    return given_up(dead::POISON);
                }
                journal::waits(row, &error.to_string());
                failed(error.to_string())
            });
        }
        let rules = Arc::clone(rules);
        // Many fields take longer than others may wait for; a thread that panics is this job's panic.
        let report = tokio::task::spawn_blocking(move || tier1::scan(&content, &rules, seen)).await;
        match report {
            Ok(report) => report.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed("the rules panicked".to_owned())),
        }
    }

    /// What is looked at, and how many files of it are not kept.
    pub(super) async fn content(
        &self,
        row: &Row<Screening>,
        submitted: &Submitted,
    ) -> Result<(Content, u32), Ending<Screening>> {
        match row.columns.profile {
            Profile::Fields => Ok((entered(submitted), 0)),
            Profile::Git => {
                let snapshot = self.store.snapshot(row.id).await.map_err(|error| database(row, &error))?;
                let Some(snapshot) = snapshot else { return Err(given_up(dead::CHANGED)) };
                let Ok((tree, missing)) = repository::tree(&snapshot) else {
                    return Err(given_up(dead::CHANGED));
                };
                Ok((Content::Tree(tree), missing))
            }
        }
    }
}

/// Whether somebody may have recorded a result before: whoever had the run, or of a repository whoever fetched it.
fn may_be_known(row: &Row<Screening>) -> bool {
    row.columns.profile == Profile::Git || row.columns.attempt > 1
}

/// What somebody entered, and the names of files.
fn entered(submitted: &Submitted) -> Content {
    let mut values = submitted.fields.clone();
    values.extend(submitted.files.iter().map(|name| (FILE_NAMES.to_owned(), name.clone())));
    Content::Fields(Fields { values })
}

fn result(content: &str, rules: &Ruleset, report: &Report, took_ms: u64) -> ScanResult {
    let bars: Vec<&str> = report.bars().iter().map(|bar| bar.label()).collect();
    let dropped = report.dropped.block + report.dropped.review + report.dropped.note;
    ScanResult {
        content: content.to_owned(),
        ruleset: rules.version().to_owned(),
        verdict: match report.verdict() {
            Verdict::Pass => ScanVerdict::Pass,
            Verdict::Fail => ScanVerdict::Fail,
        },
        score: None,
        detail: json!({
            "bars": bars, "findings": report.findings.len(), "dropped": dropped, "unreadable": report.unreadable, "took_ms": took_ms,
        }),
    }
}

fn kept(finding: &Finding) -> KeptFinding {
    KeptFinding {
        rule: finding.rule.to_string(),
        severity: finding.severity.label().to_owned(),
        place: finding.place.chars().take(300).collect(),
        times: finding.count.max(1),
        waived: finding.waived.map(|reason| reason.label().to_owned()),
    }
}

fn waiver(kept: KeptWaiver) -> Waiver {
    let reason = match kept.reason {
        WaiverReason::FalsePositive => Reason::FalsePositive,
        WaiverReason::UsedInTests => Reason::UsedInTests,
        WaiverReason::WillFix => Reason::WillFix,
    };
    Waiver { rule: kept.rule, place: kept.place, reason }
}
