//! How many mails may be begun whose outcome is not recorded yet: what a crash leaves in doubt. However slow the database is
//! or however many records share a commit, that is bounded by the lanes. One that the database refuses (its row is locked, or
//! cannot be written) gives its place back, or a few such rows would keep everybody from sending: its facts are in the spool
//! by then.
//!
//! Two of each lane are enough to send one while another one is being recorded. But a begin that waits for a lane shares its
//! commit with few others, and the database pays per commit; so where a lane takes its next mail within milliseconds, up to
//! eight of each are begun, and wait for their lane as long as a slow database would let them wait for their record.
//!
//! Invariant: nothing here does I/O.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ports::Outcome;

/// Mails of one lane while the relay is fast.
const OF_A_LANE: u32 = 8;
/// Mails of one lane otherwise: the one being sent, and one being recorded.
const OF_A_SLOW_LANE: u32 = 2;
/// What is begun waits no longer than about this for its lane.
const AHEAD: Duration = Duration::from_millis(200);
/// A send counts for so many parts of what is expected of the next one.
const WEIGHT: u32 = 8;

/// See the module's header. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Unrecorded {
    places: Arc<Semaphore>,
    lanes: usize,
    /// How long a send takes; none: not known yet.
    send: Arc<Mutex<Option<Duration>>>,
}

/// One mail's place; dropping it gives it to the next.
#[derive(Debug)]
pub struct Place {
    /// Whether the mail is begun before it has its lane.
    pub ahead: bool,
    _permits: OwnedSemaphorePermit,
}

impl Unrecorded {
    /// For so many lanes.
    #[must_use]
    pub fn beside(lanes: usize) -> Self {
        let lanes = lanes.max(1);
        let places = Arc::new(Semaphore::new(lanes * OF_A_LANE as usize));
        Self { places, lanes, send: Arc::default() }
    }

    /// Mails that keep every lane busy, one being sent and one being recorded.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.lanes * OF_A_SLOW_LANE as usize
    }

    /// Waits for a place, first come first served; with `in_turn` for one of a mail that has its lane before it is begun.
    pub async fn place(&self, in_turn: bool) -> Place {
        let of_a_lane = if in_turn { OF_A_SLOW_LANE } else { of_a_lane(*self.send()) };
        // Who may be one of few takes the room of several.
        let room = OF_A_LANE.div_ceil(of_a_lane);
        match Arc::clone(&self.places).acquire_many_owned(room).await {
            Ok(permits) => Place { ahead: of_a_lane > OF_A_SLOW_LANE, _permits: permits },
            // Never closed; were it, waiting for ever is what "no place" means.
            Err(_) => std::future::pending().await,
        }
    }

    /// A place for a mail that is begun before it has its lane, if there is one now and the relay is fast.
    pub fn try_ahead(&self) -> Option<Place> {
        let of_a_lane = of_a_lane(*self.send());
        if of_a_lane <= OF_A_SLOW_LANE {
            return None;
        }
        let permits = Arc::clone(&self.places).try_acquire_many_owned(OF_A_LANE.div_ceil(of_a_lane)).ok()?;
        Some(Place { ahead: true, _permits: permits })
    }

    /// A lane has sent a mail, with these outcomes. Only what the relay took tells how fast it is: it may refuse within a
    /// millisecond, or not be there.
    pub fn sent(&self, outcomes: &[Outcome], took: Duration) {
        if !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Accepted { .. })) {
            return;
        }
        let mut send = self.send();
        *send = Some(send.map_or(took, |before| (before * (WEIGHT - 1) + took) / WEIGHT));
    }

    fn send(&self) -> std::sync::MutexGuard<'_, Option<Duration>> {
        self.send.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mails that are begun of one lane, where a send takes so long.
fn of_a_lane(send: Option<Duration>) -> u32 {
    let Some(send) = send else { return OF_A_SLOW_LANE };
    let fit = AHEAD.as_micros() / send.as_micros().max(1);
    u32::try_from(fit).unwrap_or(OF_A_LANE).clamp(OF_A_SLOW_LANE, OF_A_LANE)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::ports::{Fault, Reply, Stage};

    const MS: Duration = Duration::from_millis(1);

    fn taken() -> [Outcome; 2] {
        let reply = Reply { code: Some(250), enhanced: None, reply: "Ok".to_owned() };
        let [refused] = refused();
        [refused, Outcome::Accepted { reply, queue_id: None }]
    }

    fn refused() -> [Outcome; 1] {
        let reply = Reply { code: Some(550), enhanced: None, reply: "no".to_owned() };
        [Outcome::Refused(Fault { stage: Stage::Rcpt, reply, about_us: false })]
    }

    #[test]
    fn what_is_begun_waits_for_its_lane_no_longer_than_a_fifth_of_a_second() {
        assert_eq!(of_a_lane(None), 2, "nothing is known yet");
        for (send, mails) in [(0, 8), (1, 8), (25, 8), (26, 7), (50, 4), (66, 3), (100, 2), (30_000, 2)] {
            assert_eq!(of_a_lane(Some(send * MS)), mails, "{send} ms");
        }
    }

    fn places(unrecorded: &Unrecorded, in_turn: bool) -> Vec<Place> {
        std::iter::from_fn(|| unrecorded.place(in_turn).now_or_never()).collect()
    }

    #[test]
    fn eight_of_each_lane_while_the_relay_is_fast_and_two_otherwise() {
        let unrecorded = Unrecorded::beside(3);
        assert_eq!(places(&unrecorded, false).len(), 6, "nothing is known yet");
        unrecorded.sent(&refused(), MS);
        assert_eq!(places(&unrecorded, false).len(), 6, "a refusal says nothing of it");
        unrecorded.sent(&taken(), 5 * MS);
        let ahead = places(&unrecorded, false);
        assert_eq!(ahead.len(), 24);
        assert!(ahead.iter().all(|place| place.ahead));
        drop(ahead);
        let in_turn = places(&unrecorded, true);
        assert_eq!(in_turn.len(), 6, "who must have a lane first");
        assert!(in_turn.iter().all(|place| !place.ahead));
        drop(in_turn);
        (0..30).for_each(|_| unrecorded.sent(&taken(), 500 * MS));
        assert_eq!(places(&unrecorded, false).len(), 6, "it has become slow");
    }

    #[test]
    fn who_comes_last_waits_for_a_place_that_was_given_back() {
        let unrecorded = Unrecorded::beside(1);
        let mut taken = places(&unrecorded, true);
        assert!(unrecorded.place(false).now_or_never().is_none());
        drop(taken.pop());
        assert!(unrecorded.place(false).now_or_never().is_some());
    }
}
