//! Lifecycles: those that there are, and the largest that is to come.

use super::*;

/// The lifecycles that there are, and the largest that is to come.
pub(crate) fn lifecycles() -> Vec<Described> {
    vec![describe::<Submission>(), describe::<Outbox>(), grey_queue()]
}

/// Ten states, twenty-one transitions and a birth: the table of the review desk's contract.
pub(crate) fn grey_queue() -> Described {
    const EDGES: [(&str, &str, &str, &str, &str, &str); 22] = [
        (
            "[*]",
            "open",
            "Pending",
            "system",
            "an event of a cause, seen for the first time",
            "occurrence recorded",
        ),
        (
            "Pending",
            "start",
            "Processing",
            "policy reviewer",
            "a remedy that fits the subject",
            "due at once",
        ),
        ("Pending", "assign", "UnderReview", "reviewer", "an active assignee", "they are notified"),
        ("Pending", "expire", "Expired", "system", "expires_at passed; warned 24 h before", "closed"),
        ("Pending", "dismiss", "Dismissed", "reviewer", "a reason", "closed"),
        ("Processing", "retry_later", "Retrying", "worker", "token", "due by exponential back-off"),
        ("Processing", "succeed", "Resolved", "worker", "token; evidence", "closed"),
        ("Processing", "give_up", "Failed", "worker", "token; attempts at the maximum", "closed"),
        (
            "Processing",
            "hand_over",
            "UnderReview",
            "worker reviewer",
            "token, or a person takes it",
            "token void",
        ),
        ("Retrying", "try_again", "Processing", "worker", "due", "attempts + 1"),
        ("Retrying", "give_up", "Failed", "worker", "attempts at the maximum", "closed"),
        ("Retrying", "expire", "Expired", "system", "expires_at passed; warned 24 h before", "closed"),
        (
            "UnderReview",
            "escalate",
            "Escalated",
            "reviewer",
            "escalation_reason",
            "escalated_at, security alerted",
        ),
        ("UnderReview", "resolve", "Resolved", "reviewer", "evidence, a remedy or a word", "closed"),
        ("UnderReview", "reject", "Rejected", "reviewer", "a reason", "reason and name kept, closed"),
        ("UnderReview", "unassign", "Pending", "reviewer", "its assignee", "assignee cleared"),
        ("Escalated", "resolve", "Resolved", "security", "evidence, a remedy or a word", "closed"),
        ("Escalated", "reject", "Rejected", "security", "a reason", "reason and name kept, closed"),
        ("Escalated", "de_escalate", "UnderReview", "security", "an active assignee", "nothing"),
        ("Rejected", "reopen", "Pending", "reviewer", "a reason; no open twin", "closed_at cleared"),
        ("Dismissed", "reopen", "Pending", "reviewer", "a reason; no open twin", "closed_at cleared"),
        ("Failed", "reset", "Pending", "reviewer", "a reason; no open twin", "attempts 0"),
    ];
    let states = [
        "Pending",
        "Processing",
        "Retrying",
        "UnderReview",
        "Escalated",
        "Resolved",
        "Rejected",
        "Failed",
        "Expired",
        "Dismissed",
    ];
    Described {
        name: "grey_queue",
        about: "a problem that waits for a decision, from the event that opened it to its end",
        states: states.map(str::to_owned).to_vec(),
        finals: ["Resolved", "Expired"].map(str::to_owned).to_vec(),
        transitions: EDGES
            .map(|(from, command, to, who, guard, with)| Transition {
                from: from.to_owned(),
                command: command.to_owned(),
                to: to.to_owned(),
                who: who.split(' ').collect(),
                guard,
                with,
            })
            .to_vec(),
    }
}
