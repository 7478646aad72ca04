//! The ticket of an action: the delivery it is, and the tag by which doubt is resolved and people find it.
//!
//! Invariant: pure. The tag is a function of submission, action and generation, so that the next attempt looks for the same one.

use super::expand::HELP_DESK;
use super::message_id::Origin;

/// The tag of an action's ticket.
#[must_use]
pub fn tag(origin: Origin) -> String {
    format!("maple-{}-{}-{}", origin.submission.simple(), origin.action_order, origin.generation)
}

/// Whether a delivery is a ticket of the help desk.
#[must_use]
pub fn is_ticket(key: &str) -> bool {
    key.split_once('|').is_some_and(|(_, recipient)| recipient == HELP_DESK)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_tag_names_submission_action_and_generation() {
        let origin = Origin { submission: Uuid::from_u128(7), action_order: 2, generation: 3 };
        assert_eq!(tag(origin), "maple-00000000000000000000000000000007-2-3");
        for (key, expected) in
            [("1|happyfox", true), ("1|", false), ("1|happyfox@x.test", false), ("happyfox", false)]
        {
            assert_eq!(is_ticket(key), expected, "{key}");
        }
    }
}
