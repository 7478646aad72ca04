//! What a scan says: closed codes, places and counts. Matched text is in none of them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::screening::run::Bar;

/// Findings that a report keeps; the rest is counted.
pub const KEPT: usize = 100;

/// Weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run fails, unless the finding is waived.
    Block,
    /// A bar: nothing passes without a person.
    Review,
    /// Information for the judge and for reviewers.
    Note,
}

impl Severity {
    /// Every severity, the heaviest first.
    pub const ALL: [Self; 3] = [Self::Block, Self::Review, Self::Note];

    /// Label of the severity, for rows and pages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Review => "review",
            Self::Note => "note",
        }
    }
}

/// A rule that matched at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Id of the rule.
    pub rule: Cow<'static, str>,
    /// Weight of it.
    pub severity: Severity,
    /// `field message:3`, `skills/x/SKILL.md:14`, or `file 17:3` for a path that is not shown.
    pub place: String,
    /// Matches at this place.
    pub count: u32,
    /// Reason of the waiver that covers it.
    pub waived: Option<Reason>,
}

/// Why a finding does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The rule is wrong here.
    FalsePositive,
    /// The secret is one of a test.
    UsedInTests,
    /// It is known and will be fixed.
    WillFix,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::FalsePositive, Self::UsedInTests, Self::WillFix];

    /// Label of the reason, for rows and pages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::FalsePositive => "false_positive",
            Self::UsedInTests => "used_in_tests",
            Self::WillFix => "will_fix",
        }
    }
}

/// A person's word that a finding does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiver {
    /// Id of the rule.
    pub rule: String,
    /// The place as the report says it; `None` for every place.
    pub place: Option<String>,
    /// Why.
    pub reason: Reason,
}

impl Waiver {
    /// Whether the waiver is about this finding.
    fn covers(&self, finding: &Finding) -> bool {
        self.rule == finding.rule && self.place.as_ref().is_none_or(|place| *place == finding.place)
    }
}

/// Result of tier 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No block finding that counts.
    Pass,
    /// At least one.
    Fail,
}

impl Verdict {
    /// Label of the verdict, for rows and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
        }
    }
}

/// Findings that were not kept, by severity. No waiver covers them: nobody saw them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Matches of block rules.
    pub block: u32,
    /// Matches of review rules.
    pub review: u32,
    /// Matches of note rules.
    pub note: u32,
}

/// Amount of work of a scan, counted the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Bytes handed to searches: of each search, the whole text.
    pub bytes: u64,
    /// Matches looked at.
    pub matches: u64,
}

/// What tier 1 found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// At most [`KEPT`], the heaviest first, then by place and rule.
    pub findings: Vec<Finding>,
    /// What was not kept.
    pub dropped: Dropped,
    /// Whether the skill has high privilege.
    pub privileged: bool,
    /// Whether a text addresses the judge or an agent.
    pub injection: bool,
    /// Files that could not be read: binary, in another encoding, or too large.
    pub unreadable: u32,
    /// Work done.
    pub work: Work,
}

impl Report {
    /// Marks what the waivers cover.
    pub fn apply(&mut self, waivers: &[Waiver]) {
        for finding in &mut self.findings {
            finding.waived = waivers.iter().find(|waiver| waiver.covers(finding)).map(|waiver| waiver.reason);
        }
    }

    /// Adds what was found in something else that belongs to it.
    pub fn absorb(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.dropped.block += other.dropped.block;
        self.dropped.review += other.dropped.review;
        self.dropped.note += other.dropped.note;
        self.privileged |= other.privileged;
        self.injection |= other.injection;
        self.unreadable += other.unreadable;
        self.work.bytes += other.work.bytes;
        self.work.matches += other.work.matches;
    }

    /// Fails exactly where a block finding is not waived.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let counts = |f: &Finding| f.severity == Severity::Block && f.waived.is_none();
        if self.dropped.block > 0 || self.findings.iter().any(counts) { Verdict::Fail } else { Verdict::Pass }
    }

    /// Bars of the report, in order.
    #[must_use]
    pub fn bars(&self) -> Vec<Bar> {
        let any = |severity, waived| {
            self.findings.iter().any(|f| f.severity == severity && f.waived.is_some() == waived)
        };
        let holds = |bar: &Bar| match bar {
            Bar::HighPrivilege => self.privileged,
            Bar::ReviewFinding => any(Severity::Review, false) || self.dropped.review > 0,
            Bar::WaivedBlock => any(Severity::Block, true) || any(Severity::Review, true),
            Bar::InjectionMarker => self.injection,
            Bar::UncalibratedJudge | Bar::ForceReview | Bar::Contradiction => false,
        };
        Bar::ALL.iter().copied().filter(holds).collect()
    }
}

/// Bars of a report, in order.
#[must_use]
pub fn bars(report: &Report) -> Vec<Bar> {
    report.bars()
}
