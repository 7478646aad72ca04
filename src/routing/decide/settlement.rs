//! The final answer to an event's source (protocol §7, "Dead letters").
//!
//! Invariant: pure. The source never gets more than this answer: the row has the rest.

use super::NackReason;
use super::draft::Conclusion;
use crate::ports::Settle;
use crate::routing::submission::ledger::FailReason;

/// Answer to the event's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// Done, or not ours.
    Ack,
    /// Deliver again: nothing is wrong with the event.
    Nack,
    /// The event itself is at fault.
    Reject,
    /// The submission ended for want of attempts.
    Exhaust,
    /// No answer yet: the event stays pending until the gate opens, so that an outage costs no deliveries.
    Keep,
}

impl Settlement {
    /// Answer after a claim that ended: a released submission is redelivered, or kept while the gate is shut.
    #[must_use]
    pub fn of_end(conclusion: &Conclusion, gate_is_open: bool) -> Self {
        match conclusion {
            Conclusion::Routed { .. } => Self::Ack,
            Conclusion::Failed { reason, .. } => Self::of_failure(*reason),
            Conclusion::Released { .. } if gate_is_open => Self::Nack,
            Conclusion::Released { .. } => Self::Keep,
        }
    }

    /// Answer to a submission that failed for good. Attempts are spent on open deliveries, or on a form without actions.
    #[must_use]
    pub fn of_failure(reason: FailReason) -> Self {
        match reason {
            FailReason::Exhausted | FailReason::NoActions => Self::Exhaust,
            FailReason::Refused
            | FailReason::Infected
            | FailReason::ScreenedOut
            | FailReason::LedgerDamaged
            | FailReason::InDoubt => Self::Ack,
        }
    }

    /// Answer after a refused claim whose reason is no end. A limit of only this version or this moment is not the
    /// event's fault.
    #[must_use]
    pub fn of_unclaimed(why: NackReason) -> Self {
        match why {
            NackReason::UnknownSubmission => Self::Reject,
            NackReason::NotDue
            | NackReason::NewerLedger
            | NackReason::UnknownActionType
            | NackReason::UnreadableRow
            | NackReason::FactsInSpool
            | NackReason::SetAside => Self::Nack,
        }
    }

    /// Sends the answer. An event that should have been kept, and is not, comes again.
    pub fn tell(self, event: Settle) {
        match self {
            Self::Ack => event.ack(),
            Self::Nack | Self::Keep => event.nack(),
            Self::Reject => event.reject(),
            Self::Exhaust => event.exhaust(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use jiff::Timestamp;

    use super::*;
    use crate::ports::Acknowledgement;

    #[test]
    fn what_the_source_is_told_after_a_claim() {
        use FailReason as F;
        use Settlement as S;
        let at = Timestamp::UNIX_EPOCH;
        let failed = |reason| Conclusion::Failed { at, reason };
        // Columns: the end, the answer while the gate is open, the answer while it is shut.
        let table = [
            (Conclusion::Routed { at, only_not_implemented: false }, S::Ack, S::Ack),
            (Conclusion::Routed { at, only_not_implemented: true }, S::Ack, S::Ack),
            (Conclusion::Released { due: at }, S::Nack, S::Keep),
            (failed(F::Refused), S::Ack, S::Ack),
            (failed(F::Exhausted), S::Exhaust, S::Exhaust),
            (failed(F::Infected), S::Ack, S::Ack),
            (failed(F::NoActions), S::Exhaust, S::Exhaust),
            (failed(F::LedgerDamaged), S::Ack, S::Ack),
            (failed(F::InDoubt), S::Ack, S::Ack),
        ];
        for (conclusion, open, shut) in table {
            assert_eq!(Settlement::of_end(&conclusion, true), open, "{conclusion:?}");
            assert_eq!(Settlement::of_end(&conclusion, false), shut, "{conclusion:?}");
        }
    }

    #[test]
    fn only_an_event_that_names_no_submission_is_at_fault() {
        use NackReason as N;
        let table = [
            (N::UnknownSubmission, Settlement::Reject),
            (N::NotDue, Settlement::Nack),
            (N::NewerLedger, Settlement::Nack),
            (N::UnknownActionType, Settlement::Nack),
            (N::UnreadableRow, Settlement::Nack),
            (N::FactsInSpool, Settlement::Nack),
        ];
        for (why, settlement) in table {
            assert_eq!(Settlement::of_unclaimed(why), settlement, "{why:?}");
        }
    }

    #[test]
    fn the_source_hears_the_word_that_was_meant() {
        let table = [
            (Settlement::Ack, Acknowledgement::Ack),
            (Settlement::Nack, Acknowledgement::Nack),
            (Settlement::Reject, Acknowledgement::Reject),
            (Settlement::Exhaust, Acknowledgement::Exhaust),
            (Settlement::Keep, Acknowledgement::Nack),
        ];
        for (settlement, acknowledgement) in table {
            let (answers, received) = channel();
            settlement.tell(Settle::new(move |acknowledgement| answers.send(acknowledgement).unwrap()));
            assert_eq!(received.iter().collect::<Vec<_>>(), [acknowledgement], "{settlement:?}");
        }
    }
}
