//! Remaining life of links that were sent, needed where their object turns out to be infected.
//!
//! Invariant: pure. A link lives from its signing, a little before the acceptance of its mail; so the result errs by
//! seconds, towards a longer life.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ledger::{DeliveryState, Ledger};

/// Time at which the last mail of a submission was accepted.
#[must_use]
pub fn last_accepted(ledger: &Ledger) -> Option<Timestamp> {
    let accepted = ledger.deliveries.values().filter(|delivery| delivery.state == DeliveryState::Accepted);
    accepted.filter_map(|delivery| delivery.at).max()
}

/// Longest time for which links of a mail accepted at `sent` still work: links live for `ttl`, and not longer than the
/// submission's retention. A mail without a time of acceptance counts as sent just now.
#[must_use]
pub fn links_live(
    sent: Option<Timestamp>,
    ttl: Duration,
    retention: Option<Timestamp>,
    now: Timestamp,
) -> Duration {
    let ttl = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
    let end = sent.unwrap_or(now).checked_add(ttl).unwrap_or(Timestamp::MAX);
    let end = retention.map_or(end, |retention| end.min(retention));
    Duration::try_from(end.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_live_from_the_acceptance_and_not_beyond_retention() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let (now, ttl) = (at(1_000), Duration::from_secs(600));
        for (sent, retention, left) in [
            (Some(at(900)), None, 500),
            (Some(at(900)), Some(at(1_100)), 100),
            (Some(at(900)), Some(at(9_000)), 500),
            (Some(at(300)), None, 0),
            (None, None, 600),
        ] {
            assert_eq!(
                links_live(sent, ttl, retention, now),
                Duration::from_secs(left),
                "{sent:?} {retention:?}"
            );
        }
    }
}
