//! The version of a submission's plan beside the version that its form follows.
//!
//! Invariant: pure.

use super::at;
use crate::routing::submission::version::{CurrentVersion, PlanVersion};
use crate::routing::table::Status;

/// The way to another plan, for people.
const REPLAN: &str = "replay --replan takes today's";

/// What people should know where the form of a pinned plan follows another version than the plan's; `None` where nothing is to
/// be said.
#[must_use]
pub fn beside(status: Status, pinned: &PlanVersion, current: Option<&CurrentVersion>) -> Option<String> {
    let who = match status {
        Status::Received | Status::Processing => "what is on its way",
        Status::Routed | Status::Failed => "this submission",
        Status::Purged => return None,
    };
    let follows = |current: &CurrentVersion| {
        format!("the form follows version {} since {}", current.version.number, at(current.since))
    };
    match (pinned, current) {
        (PlanVersion::Known(pinned), Some(current)) if pinned.id != current.version.id => {
            Some(format!("{}: {who} keeps version {}; {REPLAN}", follows(current), pinned.number))
        }
        (PlanVersion::None, Some(current)) => {
            Some(format!("{}: {who} keeps its plan, which is of none; {REPLAN}", follows(current)))
        }
        (PlanVersion::Unreadable, _) => {
            Some(format!("the ledger's version cannot be read, and keeps nothing from being sent; {REPLAN}"))
        }
        (PlanVersion::Known(_), Some(_)) | (PlanVersion::Known(_) | PlanVersion::None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::submission::version::FormVersion;
    use uuid::Uuid;

    fn version(number: u32) -> FormVersion {
        FormVersion { id: Uuid::from_u128(number.into()), number, digest: "1a".repeat(32) }
    }

    #[test]
    fn only_another_version_is_worth_a_sentence() {
        let follows = |number| CurrentVersion {
            version: version(number),
            since: "2026-11-01T10:00:00Z".parse().expect("a time"),
        };
        let say = |status, pinned: Option<u32>, current: Option<u32>| {
            beside(status, &pinned.map(version).into(), current.map(follows).as_ref())
        };
        let other = |who| {
            let text = format!(
                "the form follows version 4 since 2026-11-01 10:00:00Z: {who} keeps version 3; replay --replan takes today's"
            );
            Some(text)
        };
        assert_eq!(say(Status::Received, Some(3), Some(4)), other("what is on its way"));
        assert_eq!(say(Status::Processing, Some(3), Some(4)), other("what is on its way"));
        assert_eq!(say(Status::Failed, Some(3), Some(4)), other("this submission"));
        assert_eq!(say(Status::Routed, Some(3), Some(4)), other("this submission"));
        assert_eq!(say(Status::Purged, Some(3), Some(4)), None);
        assert_eq!(say(Status::Failed, Some(4), Some(4)), None, "the same");
        assert_eq!(say(Status::Failed, Some(4), None), None, "nobody manages it, or that is not known");
        assert_eq!(say(Status::Failed, None, None), None);
        let none = say(Status::Failed, None, Some(4)).expect("words");
        assert!(none.contains("keeps its plan, which is of none"), "{none}");
        let unreadable = beside(Status::Failed, &PlanVersion::Unreadable, None).expect("words");
        assert!(unreadable.contains("cannot be read"), "{unreadable}");
    }
}
