//! When a router is killed. Pure: the randomness is an argument.

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;

use crate::postgres::{CuttingProxy, Trap};
use crate::smtp::{RelayWire, WireTrap};
use crate::trap::{Fate, Trapped};

/// A moment of a router's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// So long after the start, whatever the router does then.
    Anytime(Duration),
    /// Between the final dot and the committed fact.
    Caught(Place),
}

/// Point of the catch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: &'static str,
    at: At,
    /// The how manyeth to come by.
    nth: u64,
    /// Fate of the step under way, once the router is dead.
    pub(super) fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Relay(WireTrap),
    Database(Trap),
}

/// The moments, and what each of them is for. In all but the first the relay has the mail for good.
const PLACES: [(&str, At, Fate); 5] = [
    // Everything but the dot has arrived: there is a Message-ID in the log, and no mail.
    ("dot lost", At::Relay(WireTrap::DotSent), Fate::Cut),
    // The mail is committed to the queue when its sender is dead already.
    ("dot arrives later", At::Relay(WireTrap::DotSent), Fate::Release),
    ("250 unread", At::Relay(WireTrap::DotAnswered), Fate::Cut),
    ("fact not written", At::Database(Trap::BeginSent("record")), Fate::Cut),
    ("fact not committed", At::Database(Trap::CommitSent("record")), Fate::Cut),
];

/// Kills of a hundred that are between dot and fact.
const CAUGHT: u32 = 45;
/// The longest life at whose end the rng alone decides; resolving a doubt takes a second or more of it.
const LIFE: Duration = Duration::from_secs(5);

impl Moment {
    pub(super) fn draw(rng: &mut StdRng) -> Self {
        if rng.random_range(0..100) >= CAUGHT {
            // Squared, so that the first half second, in which most is done, has its share.
            let part: f64 = rng.random();
            return Self::Anytime(LIFE.mul_f64(part * part));
        }
        let (name, at, fate) = PLACES[rng.random_range(0..PLACES.len())];
        Self::Caught(Place { name, at, nth: rng.random_range(1..=3), fate })
    }
}

impl Place {
    /// Sets the trap.
    pub(super) fn watch(self, database: &CuttingProxy, relay: &RelayWire) -> Trapped {
        match self.at {
            At::Relay(trap) => relay.trap(trap, self.nth),
            At::Database(trap) => database.trap(trap, self.nth),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_fifth_of_the_kills_and_more_are_between_dot_and_fact_with_the_mail_at_the_relay() {
        let mut rng = StdRng::seed_from_u64(1);
        let drawn = (0..1_000).map(|_| Moment::draw(&mut rng));
        let caught = drawn.filter(|m| matches!(m, Moment::Caught(place) if place.name != PLACES[0].0));
        assert!(caught.count() > 300);
    }
}
