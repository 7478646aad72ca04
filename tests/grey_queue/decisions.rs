//! State × command × role × queue × whose, each on the real statements: what is permitted happens and is recorded, all else
//! leaves no trace.

use std::collections::BTreeMap;

use maple_router::grey_queue::commands::Answer;
use maple_router::grey_queue::decide::{Ask, Refusal, Verb};
use maple_router::grey_queue::table::State;
use maple_router::kernel::subject::Remedy;

use crate::harness::Bench;

/// Who asks: a viewer, its reviewer, another reviewer, security, an admin.
const ASKERS: [&str; 5] = ["vera", "anna", "ben", "sam", "ada"];

/// The state a command leads to, by the page and not by the program: state, command, and the least asker of operations.
/// "own": its reviewer, security or admin; "any": every reviewer.
const PAGE: &[(State, Verb, &str, State)] = &[
    (State::Pending, Verb::Assign, "any", State::UnderReview),
    (State::Pending, Verb::Start, "any", State::Processing),
    (State::Pending, Verb::Resolve, "any", State::Resolved),
    (State::Pending, Verb::Dismiss, "any", State::Dismissed),
    (State::Processing, Verb::Assign, "any", State::UnderReview),
    (State::UnderReview, Verb::Unassign, "own", State::Pending),
    (State::UnderReview, Verb::Escalate, "own", State::Escalated),
    (State::UnderReview, Verb::Resolve, "own", State::Resolved),
    (State::UnderReview, Verb::Reject, "own", State::Rejected),
    // Taken over at once by an admin alone; its own reviewer has it already.
    (State::UnderReview, Verb::Assign, "admin", State::UnderReview),
    (State::Escalated, Verb::DeEscalate, "security", State::UnderReview),
    (State::Escalated, Verb::Resolve, "security", State::Resolved),
    (State::Escalated, Verb::Reject, "security", State::Rejected),
    (State::Rejected, Verb::Reopen, "any", State::Pending),
    (State::Dismissed, Verb::Reopen, "any", State::Pending),
    (State::Failed, Verb::Reopen, "any", State::Pending),
    (State::Failed, Verb::Reset, "any", State::Pending),
];

fn permits(least: &str, asker: &str, queue: &str) -> bool {
    let rank = |name: &str| match name {
        "vera" => 0,
        "anna" | "ben" => 1,
        "sam" => 2,
        _ => 3,
    };
    if queue == "security" && rank(asker) < 2 {
        return false;
    }
    match least {
        "any" => rank(asker) >= 1,
        "own" => asker == "anna" || rank(asker) >= 2,
        "security" => rank(asker) >= 2,
        _ => rank(asker) >= 3,
    }
}

#[tokio::test]
async fn every_state_command_role_and_queue_on_the_real_statements() {
    let bench = Bench::new().await;
    let mut seen: BTreeMap<bool, usize> = BTreeMap::new();
    for queue in ["operations", "security"] {
        for state in State::ALL {
            for verb in Verb::ALL {
                for asker in ASKERS {
                    let entry = bench.in_state(*state, queue, "anna").await;
                    let before = bench.trace(entry.id).await;
                    let ask = Ask {
                        take_over: true,
                        escalation_reason: Some("odd".to_owned()),
                        remedy: (*verb == Verb::Start).then_some(Remedy::Replay),
                        vouch: *verb == Verb::Resolve,
                        ..Ask::because(*verb, "tested")
                    };
                    let line = PAGE.iter().find(|(from, command, ..)| from == state && command == verb);
                    let expected =
                        line.filter(|(_, _, least, _)| permits(least, asker, queue)).map(|line| line.3);
                    let answer = bench.ask(&entry, &ask, asker).await;
                    let case = format!("{verb} by {asker} in {state}, queue {queue}: {answer:?}");
                    *seen.entry(expected.is_some()).or_default() += 1;
                    match (expected, answer) {
                        (Some(to), Answer::Done { entry: after, .. }) => {
                            assert_eq!(after.state, to, "{case}");
                            assert!(after.version > entry.version, "{case}");
                            let history = bench.store.history(entry.id).await.expect("asked");
                            let last = history.last().expect("recorded");
                            assert_eq!(
                                (last.to.as_str(), last.version),
                                (to.label(), after.version),
                                "{case}"
                            );
                            assert!(last.by.ends_with(asker), "{case}: {last:?}");
                        }
                        (None, Answer::Refused { refusal, .. }) => {
                            assert_eq!(bench.trace(entry.id).await, before, "{case}");
                            let not_here = matches!(refusal, Refusal::NotPossible { .. });
                            assert_eq!(not_here, line.is_none(), "{case}");
                        }
                        (expected, _) => panic!("expected {expected:?}; {case}"),
                    }
                    // One open entry for each: the next case has a submission of its own.
                    assert!(bench.remedies(entry.subject.id).await.len() <= 1);
                }
            }
        }
    }
    assert_eq!(seen[&true] + seen[&false], 2 * 10 * 10 * 5);
    assert!(seen[&true] > 60, "{seen:?}");
}

/// Whoever comes with what was true a moment ago changes nothing, and is told what is true now.
#[tokio::test]
async fn a_stale_version_changes_nothing() {
    let bench = Bench::new().await;
    for state in [State::Pending, State::UnderReview, State::Escalated, State::Processing, State::Failed] {
        let entry = bench.in_state(state, "operations", "anna").await;
        let stale = maple_router::grey_queue::entry::Entry { version: entry.version - 1, ..entry.clone() };
        let before = bench.trace(entry.id).await;
        for verb in Verb::ALL {
            let ask = Ask { remedy: Some(Remedy::Replay), ..Ask::because(*verb, "tested") };
            match bench.ask(&stale, &ask, "ada").await {
                Answer::Conflict(now) => assert_eq!(*now, entry),
                other @ (Answer::Done { .. } | Answer::Refused { .. } | Answer::Unknown) => {
                    panic!("{verb}: {other:?}")
                }
            }
        }
        assert_eq!(bench.trace(entry.id).await, before);
        assert!(bench.remedies(entry.subject.id).await.is_empty(), "not even a remedy");
    }
}
