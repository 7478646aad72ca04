//! The lifecycle of a screening run: the ten states and thirteen ways of the mission's first document, with the ones it leaves open. Pure.
//!
//! A run is its own job: what is to be done is what its state says. Its lease leads back to its state, and leaves no record.

use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `screening.submissions.state`, as the document spells it.
    State {
        /// The run was opened.
        Received = "RECEIVED",
        /// The origin was proven, and is trusted.
        VendorApproved = "VENDOR_APPROVED",
        /// The rules are being applied.
        Tier1Scanning = "TIER1_SCANNING",
        /// A rule blocks.
        Tier1Failed = "TIER1_FAILED",
        /// The judge is being asked.
        Tier2Scanning = "TIER2_SCANNING",
        /// A valid verdict of 80 and more, and no bar.
        AutoApproved = "AUTO_APPROVED",
        /// A person decides whether a person reviews it.
        NeedsReview = "NEEDS_REVIEW",
        /// A person reviews it.
        Tier3Review = "TIER3_REVIEW",
        /// It may be routed, or stands in the registry.
        Published = "PUBLISHED",
        /// The judge or a person said no.
        Rejected = "REJECTED",
    }
}

impl State {
    /// Whether the run has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Tier1Failed | Self::Published | Self::Rejected => true,
            Self::Received
            | Self::VendorApproved
            | Self::Tier1Scanning
            | Self::Tier2Scanning
            | Self::AutoApproved
            | Self::NeedsReview
            | Self::Tier3Review => false,
        }
    }

    /// The job that this state asks for, by the document's name.
    #[must_use]
    pub const fn job(self) -> Option<JobType> {
        match self {
            Self::Received | Self::Tier1Scanning => Some(JobType::Tier1Scan),
            Self::Tier2Scanning => Some(JobType::Tier2Scan),
            Self::AutoApproved | Self::VendorApproved => Some(JobType::Publish),
            Self::NeedsReview | Self::Tier3Review | Self::Tier1Failed | Self::Published | Self::Rejected => {
                None
            }
        }
    }
}

words! {
    /// The document's types of jobs.
    JobType {
        /// Origin, then rules.
        Tier1Scan = "tier1-scan",
        /// The judge.
        Tier2Scan = "tier2-scan",
        /// The last step of what was approved.
        Publish = "publish",
    }
}

words! {
    /// The commands to a run; those that change its state are the document's triggers.
    Command {
        /// A submission is finalized, or a person asks for another run.
        ApiSubmission = "api-submission",
        /// The origin is proven, and trusted.
        VendorAutoVerify = "vendor-auto-verify",
        /// It is not.
        NonVendorSubmission = "non-vendor-submission",
        /// No rule blocks.
        Tier1Pass = "tier1-pass",
        /// A rule blocks.
        Tier1Fail = "tier1-fail",
        /// Approved by the judge.
        Tier2Pass = "tier2-pass",
        /// The judge has concerns, or something bars it from approving.
        Tier2Concerns = "tier2-concerns",
        /// No verdict is to be had.
        Tier2Unavailable = "tier2-unavailable",
        /// Rejected by the judge.
        Tier2Fail = "tier2-fail",
        /// A person wants it reviewed.
        AdminEscalate = "admin-escalate",
        /// A person rejects it without a review.
        AdminReject = "admin-reject",
        /// A reviewer approves.
        ReviewerApprove = "reviewer-approve",
        /// A reviewer rejects.
        ReviewerReject = "reviewer-reject",
        /// It is published.
        PublishComplete = "publish-complete",
        /// A worker takes the run's job.
        Claim = "claim",
        /// A worker gives it back.
        Retry = "retry",
        /// The worker is gone.
        Expire = "expire",
        /// The job is given up on: a person has it.
        GiveUp = "give-up",
    }
}

/// A person who decides: at the desk, or at the command line.
pub const ADMIN: Who = Who::named("admin");

/// The lifecycle of a run; its log is `screening.submission_state_events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screening;

impl Lifecycle for Screening {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "screening";
    const ABOUT: &'static str =
        "a run of screening: rules, a judge, people, until what was submitted may be routed or published";
    const TABLE: &'static [Edge<State, Command>] = TABLE;
}

/// Every transition.
const TABLE: &[Edge<State, Command>] = edges! { State, Command:
    _ ApiSubmission -> Received [Who::SYSTEM, Who::OPERATOR]:
        "the form has a profile; no run of this submission is open", "event; job tier1-scan";
    Received VendorAutoVerify -> VendorApproved [Who::WORKER]:
        "lease; origin proven, and trusted", "origin kept; job publish";
    Received NonVendorSubmission -> Tier1Scanning [Who::WORKER]:
        "lease", "digest of what will be looked at";
    Received Claim -> Received [Who::WORKER]:
        "due, nobody has it", "claim number, lease";
    Received Retry -> Received [Who::WORKER]:
        "lease", "next look planned";
    Received Expire -> Received [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    Received GiveUp -> Received [Who::WORKER]:
        "lease; claimed too often, or the source cannot be had", "dead letter, entry `screening_job`";
    Tier1Scanning Tier1Pass -> Tier2Scanning [Who::WORKER]:
        "lease; no finding blocks", "bars and rules kept; job tier2-scan";
    Tier1Scanning Tier1Fail -> Tier1Failed [Who::WORKER]:
        "lease; a finding blocks", "the submission is failed as screened out";
    Tier1Scanning Claim -> Tier1Scanning [Who::WORKER]:
        "due, nobody has it", "claim number, lease";
    Tier1Scanning Retry -> Tier1Scanning [Who::WORKER]:
        "lease", "next look planned";
    Tier1Scanning Expire -> Tier1Scanning [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    Tier1Scanning GiveUp -> Tier1Scanning [Who::WORKER]:
        "lease; claimed too often, or the content changed", "dead letter, entry `screening_job`";
    Tier2Scanning Tier2Pass -> AutoApproved [Who::WORKER]:
        "lease; a valid verdict of 80 or more, no bar", "score kept; job publish";
    Tier2Scanning Tier2Concerns -> NeedsReview [Who::WORKER]:
        "lease; a valid verdict of 60 to 79, or of 80 and more with a bar", "entry `screening`";
    Tier2Scanning Tier2Unavailable -> NeedsReview [Who::WORKER, Who::SYSTEM] on Expiry:
        "no judge, no budget, or no verdict for as long as it is waited for", "entry `screening`";
    Tier2Scanning Tier2Fail -> Rejected [Who::WORKER]:
        "lease; a valid verdict below 60", "the submission is failed as screened out";
    Tier2Scanning Claim -> Tier2Scanning [Who::WORKER]:
        "due, nobody has it, the judge answers", "claim number, lease";
    Tier2Scanning Retry -> Tier2Scanning [Who::WORKER]:
        "lease; the judge is away", "no attempt spent";
    Tier2Scanning Expire -> Tier2Scanning [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    Tier2Scanning GiveUp -> Tier2Scanning [Who::WORKER]:
        "lease; claimed too often", "dead letter, entry `screening_job`";
    NeedsReview AdminEscalate -> Tier3Review [ADMIN]:
        "version, reason", "its entry is escalated";
    NeedsReview AdminReject -> Rejected [ADMIN]:
        "version, reason", "its entry is rejected; the submission is failed as screened out";
    Tier3Review ReviewerApprove -> Published [ADMIN]:
        "version, reason, digest unchanged", "its entry is resolved; the submission's event";
    Tier3Review ReviewerReject -> Rejected [ADMIN]:
        "version, reason", "its entry is rejected; the submission is failed as screened out";
    AutoApproved PublishComplete -> Published [Who::WORKER]:
        "lease, digest unchanged", "version and publication (git); the submission's event";
    AutoApproved Claim -> AutoApproved [Who::WORKER]:
        "due, nobody has it", "claim number, lease";
    AutoApproved Retry -> AutoApproved [Who::WORKER]:
        "lease", "next look planned";
    AutoApproved Expire -> AutoApproved [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    AutoApproved GiveUp -> AutoApproved [Who::WORKER]:
        "lease; claimed too often, or the content changed", "dead letter, entry `screening_job`";
    VendorApproved PublishComplete -> Published [Who::WORKER]:
        "lease, digest unchanged", "version and publication (git); the submission's event";
    VendorApproved Claim -> VendorApproved [Who::WORKER]:
        "due, nobody has it", "claim number, lease";
    VendorApproved Retry -> VendorApproved [Who::WORKER]:
        "lease", "next look planned";
    VendorApproved Expire -> VendorApproved [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    VendorApproved GiveUp -> VendorApproved [Who::WORKER]:
        "lease; claimed too often, or the content changed", "dead letter, entry `screening_job`";
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kernel::transition::checks::every_triple;

    #[test]
    fn every_triple_is_either_in_the_table_or_refused_with_the_legal_commands() {
        every_triple::<Screening>();
    }

    /// The document's `VALID_TRANSITIONS`, state by state.
    #[test]
    fn the_ways_are_those_of_the_document() {
        let document = [
            ("RECEIVED", "VENDOR_APPROVED TIER1_SCANNING"),
            ("TIER1_SCANNING", "TIER2_SCANNING TIER1_FAILED"),
            ("TIER1_FAILED", ""),
            ("TIER2_SCANNING", "AUTO_APPROVED NEEDS_REVIEW REJECTED"),
            ("AUTO_APPROVED", "PUBLISHED"),
            ("NEEDS_REVIEW", "TIER3_REVIEW REJECTED"),
            ("TIER3_REVIEW", "PUBLISHED REJECTED"),
            ("PUBLISHED", ""),
            ("REJECTED", ""),
            ("VENDOR_APPROVED", "PUBLISHED"),
        ];
        let found = |from: &str| -> BTreeSet<&str> {
            let leads = |edge: &&Edge<State, Command>| {
                edge.from.is_some_and(|state| state.label() == from) && edge.from != Some(edge.to)
            };
            TABLE.iter().filter(leads).map(|edge| edge.to.label()).collect()
        };
        assert_eq!(document.len(), State::ALL.len());
        for (from, to) in document {
            assert_eq!(found(from), to.split_whitespace().collect(), "{from}");
        }
    }

    #[test]
    fn a_state_has_a_job_exactly_where_it_can_be_claimed() {
        for state in State::ALL {
            let claimed =
                TABLE.iter().any(|edge| edge.from == Some(*state) && edge.command == Command::Claim);
            assert_eq!(state.job().is_some(), claimed, "{state}");
            let leads_out = TABLE.iter().any(|edge| edge.from == Some(*state));
            assert_eq!(state.is_final(), !leads_out, "{state}");
        }
    }
}
