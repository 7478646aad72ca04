//! Bound of the mails whose intent is recorded and whose outcome is not yet: the mails that a crash leaves in doubt. However
//! slow the database is or however many records share a commit, the connections bound their number. A mail whose record the
//! database refuses (its row is locked, or cannot be written) frees its permit, or a few such rows would stop all sending:
//! its facts are in the spool by then.
//!
//! Two mails per connection suffice: one being sent, one being recorded. But an intent that waits for a connection shares
//! its commit with few others, and the database pays per commit; so a connection that takes its next mail within
//! milliseconds has up to eight intents, which wait for it as long as a slow database would let them wait for their record.
//!
//! Invariant: nothing here does I/O.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ports::Outcome;

/// Mails per connection while the relay is fast.
const PER_CONNECTION: u32 = 8;
/// Parts of a connection, of which a mail takes as many as leave room for the others: divided by each number of mails up to
/// [`PER_CONNECTION`] without a rest.
const PARTS: u32 = 840;
/// Mails per connection otherwise: one being sent, and one being recorded.
const PER_SLOW_CONNECTION: u32 = 2;
/// Longest wait, about, of a mail with an intent for its connection.
const AHEAD: Duration = Duration::from_millis(200);
/// Weight of the average send time: a new send counts for one part in so many.
const WEIGHT: u32 = 8;

/// Permits of mails in doubt after a crash. Cheap to clone.
#[derive(Debug, Clone)]
pub struct InDoubtPermits {
    permits: Arc<Semaphore>,
    connections: usize,
    /// Average duration of a send; `None`: not known yet.
    send: Arc<Mutex<Option<Duration>>>,
}

/// In-doubt permit of one mail; dropping it frees it for the next.
#[derive(Debug)]
pub struct InDoubtPermit {
    /// Whether the mail's intent is recorded before the mail has its connection.
    pub ahead: bool,
    _permits: OwnedSemaphorePermit,
}

impl InDoubtPermits {
    /// Permits for this number of connections.
    #[must_use]
    pub fn beside(connections: usize) -> Self {
        let connections = connections.max(1);
        let permits = Arc::new(Semaphore::new(connections * PARTS as usize));
        Self { permits, connections, send: Arc::default() }
    }

    /// Mails that keep every connection busy, one being sent and one being recorded.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.connections * PER_SLOW_CONNECTION as usize
    }

    /// Waits for a permit, first come first served; `after_its_connection`: of a mail that has its connection first.
    pub async fn permit(&self, after_its_connection: bool) -> InDoubtPermit {
        let per_connection =
            if after_its_connection { PER_SLOW_CONNECTION } else { per_connection(*self.send()) };
        match Arc::clone(&self.permits).acquire_many_owned(PARTS / per_connection).await {
            Ok(permits) => InDoubtPermit { ahead: per_connection > PER_SLOW_CONNECTION, _permits: permits },
            // The semaphore is never closed; if it were, there would be no permit for ever.
            Err(_) => std::future::pending().await,
        }
    }

    /// A permit for a mail whose intent is recorded before it has its connection, if one is free and the relay is fast.
    pub fn try_ahead(&self) -> Option<InDoubtPermit> {
        let permits = Arc::clone(&self.permits).try_acquire_many_owned(self.parts_ahead()?).ok()?;
        Some(InDoubtPermit { ahead: true, _permits: permits })
    }

    /// The number of mails that [`Self::try_ahead`] has permits for at this moment; `None`: the relay is slow, or not known.
    #[must_use]
    pub fn free_ahead(&self) -> Option<usize> {
        Some(self.permits.available_permits() / self.parts_ahead()? as usize)
    }

    /// Parts of a connection that a mail takes whose intent is recorded before it has one; `None` where that is not done.
    fn parts_ahead(&self) -> Option<u32> {
        let per_connection = per_connection(*self.send());
        (per_connection > PER_SLOW_CONNECTION).then(|| PARTS / per_connection)
    }

    /// Notes the duration of a send with these outcomes. Only accepted mail shows how fast the relay is: a refusal may come
    /// within a millisecond, and so may the failure of a relay that is not there.
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

/// Mails with an intent per connection, where a send takes this long.
fn per_connection(send: Option<Duration>) -> u32 {
    let Some(send) = send else { return PER_SLOW_CONNECTION };
    let fit = AHEAD.as_micros() / send.as_micros().max(1);
    u32::try_from(fit).unwrap_or(PER_CONNECTION).clamp(PER_SLOW_CONNECTION, PER_CONNECTION)
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
    fn a_mail_with_an_intent_waits_for_its_connection_no_longer_than_a_fifth_of_a_second() {
        assert_eq!(per_connection(None), 2, "nothing is known yet");
        for (send, mails) in [(0, 8), (1, 8), (25, 8), (26, 7), (50, 4), (66, 3), (100, 2), (30_000, 2)] {
            assert_eq!(per_connection(Some(send * MS)), mails, "{send} ms");
        }
    }

    fn permits(in_doubt_permits: &InDoubtPermits, after_its_connection: bool) -> Vec<InDoubtPermit> {
        std::iter::from_fn(|| in_doubt_permits.permit(after_its_connection).now_or_never()).collect()
    }

    #[test]
    fn eight_of_each_connection_while_the_relay_is_fast_and_two_otherwise() {
        let in_doubt_permits = InDoubtPermits::beside(3);
        assert_eq!(permits(&in_doubt_permits, false).len(), 6, "nothing is known yet");
        in_doubt_permits.sent(&refused(), MS);
        assert_eq!(permits(&in_doubt_permits, false).len(), 6, "a refusal says nothing of it");
        in_doubt_permits.sent(&taken(), 5 * MS);
        let ahead = permits(&in_doubt_permits, false);
        assert_eq!(ahead.len(), 24);
        assert!(ahead.iter().all(|permit| permit.ahead));
        drop(ahead);
        let after_its_connection = permits(&in_doubt_permits, true);
        assert_eq!(after_its_connection.len(), 6, "who must have a connection first");
        assert!(after_its_connection.iter().all(|permit| !permit.ahead));
        drop(after_its_connection);
        (0..60).for_each(|_| in_doubt_permits.sent(&taken(), 35 * MS));
        assert_eq!(in_doubt_permits.free_ahead(), Some(15), "five of each");
        assert_eq!(permits(&in_doubt_permits, false).len(), 15);
        let ahead: Vec<_> = std::iter::from_fn(|| in_doubt_permits.try_ahead()).take(4).collect();
        assert_eq!(in_doubt_permits.free_ahead(), Some(11));
        drop(ahead);
        (0..30).for_each(|_| in_doubt_permits.sent(&taken(), 500 * MS));
        assert_eq!(permits(&in_doubt_permits, false).len(), 6, "it has become slow");
        assert_eq!(in_doubt_permits.free_ahead(), None);
    }

    #[test]
    fn who_comes_last_waits_for_a_place_that_was_given_back() {
        let in_doubt_permits = InDoubtPermits::beside(1);
        let mut taken = permits(&in_doubt_permits, true);
        assert!(in_doubt_permits.permit(false).now_or_never().is_none());
        drop(taken.pop());
        assert!(in_doubt_permits.permit(false).now_or_never().is_some());
    }
}
