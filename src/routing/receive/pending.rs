//! Pending submissions: those that wait for their claim or are in work, with the events that name them.
//!
//! All events of a submission are settled together (protocol §2, §7), each once. If we die, the unsettled ones come again.
//! Settling events is the only I/O here, and no event is acked before its row was asked.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use crate::ops::rng::Rng;
use crate::ports::Settle;
use crate::routing::claims::slots;
use crate::routing::decide::settlement::Settlement;
use crate::routing::store::ClaimRequest;
use crate::routing::submission::lag::Waiting;

/// Pending submissions and their unsettled events.
#[derive(Debug)]
pub(super) struct Pending {
    rng: Arc<Rng>,
    /// Every submission that waits for its claim or is in work.
    known: HashMap<Uuid, Known>,
    /// Submissions to be claimed next, in the order they came.
    queue: VecDeque<Uuid>,
    /// Deferred submissions, by the time they are due.
    deferred: BTreeSet<(Instant, Uuid)>,
    /// Unsettled events in all of `known`.
    events: usize,
}

/// A pending submission. One that the sweep found may have no event.
#[derive(Debug)]
struct Known {
    events: Vec<Settle>,
    /// Events that were here when the row was last asked for: only to these its answer applies.
    seen: usize,
    /// Token of the claim; kept when the claim is repeated, so that a lost answer is recognised.
    token: String,
    /// The last claim had no answer: it may stand.
    unanswered: bool,
    published_at: Option<Timestamp>,
    /// Start of the wait for it, as the row has it.
    waiting: Waiting,
}

impl Pending {
    /// An empty set. `rng` makes the claims' tokens.
    pub(super) fn new(rng: Arc<Rng>) -> Self {
        Self { rng, known: HashMap::new(), queue: VecDeque::new(), deferred: BTreeSet::new(), events: 0 }
    }

    /// Pending submissions, those in work included.
    pub(super) fn submissions(&self) -> usize {
        self.known.len()
    }

    /// Unsettled events.
    pub(super) fn events(&self) -> usize {
        self.events
    }

    /// Submissions that can be claimed now.
    pub(super) fn claimable(&self) -> usize {
        self.queue.len()
    }

    /// Takes in a submission that the sweep found; a pending one is not taken twice.
    pub(super) fn find(&mut self, id: Uuid) {
        if !self.known.contains_key(&id) {
            self.enter(id, Vec::new(), None);
        }
    }

    /// Takes in an event. A second one for a submission in work is settled with the first (protocol §2).
    pub(super) fn remember(&mut self, id: Uuid, published_at: Option<Timestamp>, settle: Settle) {
        self.events += 1;
        if let Some(known) = self.known.get_mut(&id) {
            known.events.push(settle);
            return;
        }
        self.enter(id, vec![settle], published_at);
    }

    fn enter(&mut self, id: Uuid, events: Vec<Settle>, published_at: Option<Timestamp>) {
        let (token, waiting) = (self.token(), Waiting::default());
        self.known.insert(id, Known { events, seen: 0, token, unanswered: false, published_at, waiting });
        self.queue.push_back(id);
    }

    fn token(&self) -> String {
        self.rng.uuid().to_string()
    }

    /// Puts the submission that goes on trial first, chosen by [`slots::on_trial`]; returns whether there is one.
    pub(super) fn choose_trial(&mut self, denied: impl Fn(Uuid) -> bool, others_came: bool) -> bool {
        let index = slots::on_trial(self.queue.iter(), denied, others_came);
        index.and_then(|index| self.queue.remove(index)).map(|id| self.queue.push_front(id)).is_some()
    }

    /// Takes up to `count` submissions to be claimed; their rows are about to be asked for.
    pub(super) fn take_for_claim(&mut self, count: usize) -> Vec<ClaimRequest> {
        let ids = self.queue.drain(..count.min(self.queue.len()));
        let request = |id| {
            let known = self.known.get_mut(&id)?;
            known.seen = known.events.len();
            known.unanswered = false;
            Some(ClaimRequest { id, token: known.token.clone() })
        };
        ids.filter_map(request).collect()
    }

    /// Queues unanswered claims again, last and with the same tokens: a commit whose answer was lost is recognised.
    pub(super) fn claim_again(&mut self, unanswered: Vec<ClaimRequest>) {
        for ClaimRequest { id, .. } in unanswered {
            if let Some(known) = self.known.get_mut(&id) {
                known.unanswered = true;
                self.queue.push_back(id);
            }
        }
    }

    /// Takes claims without an answer that are not repeated now: a claim that may stand is to be given back.
    pub(super) fn take_unanswered(&mut self) -> Vec<ClaimRequest> {
        let mut taken = Vec::new();
        self.queue.retain(|id| match self.known.get(id) {
            Some(Known { unanswered: true, token, .. }) => {
                taken.push(ClaimRequest { id: *id, token: token.clone() });
                false
            }
            Some(_) | None => true,
        });
        taken
    }

    /// Defers the submission until `due`.
    pub(super) fn defer(&mut self, id: Uuid, due: Instant) {
        self.deferred.insert((due, id));
    }

    /// Number of deferred submissions.
    pub(super) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Time when the next deferred submission is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.deferred.first().map(|(due, _)| *due)
    }

    /// Queues the deferred submissions that are due by `now`.
    pub(super) fn wake_due(&mut self, now: Instant) {
        while let Some((due, id)) = self.deferred.first().copied().filter(|(due, _)| *due <= now) {
            self.deferred.remove(&(due, id));
            self.queue.push_back(id);
        }
    }

    /// Notes since when people wait for the submission, from its row.
    pub(super) fn waits(&mut self, id: Uuid, waiting: Waiting) {
        if let Some(known) = self.known.get_mut(&id) {
            known.waiting = waiting;
        }
    }

    /// Time for which people have waited for the submission at `now`.
    pub(super) fn waited(&self, id: Uuid, now: Timestamp) -> Option<Duration> {
        let known = self.known.get(&id)?;
        known.waiting.until(now, known.published_at)
    }

    /// Keeps a released submission, with its events, until it can be claimed again.
    pub(super) fn keep(&mut self, id: Uuid) {
        let token = self.token();
        let Some(known) = self.known.get_mut(&id) else { return };
        known.token = token;
        known.unanswered = false;
        self.queue.push_back(id);
    }

    /// Acks the events that were here when the row was read. A later event may report a change that the read did not see
    /// (the scan's commit, a replay): the row is asked again for it.
    pub(super) fn ack_seen(&mut self, id: Uuid) {
        let token = self.token();
        let Some(known) = self.known.get_mut(&id) else { return };
        let later = known.events.split_off(known.seen.min(known.events.len()));
        let seen = std::mem::replace(&mut known.events, later);
        self.events -= seen.len();
        seen.into_iter().for_each(Settle::ack);
        if known.events.is_empty() {
            self.known.remove(&id);
        } else {
            known.token = token;
            self.queue.push_back(id);
        }
    }

    /// Settles every event that names the submission (protocol §7).
    pub(super) fn settle(&mut self, id: Uuid, settlement: Settlement) {
        let Some(known) = self.known.remove(&id) else { return };
        self.events -= known.events.len();
        known.events.into_iter().for_each(|event| settlement.tell(event));
    }

    /// Gives unclaimed submissions back to the source, which costs no attempt.
    pub(super) fn give_back(&mut self) {
        let waiting: Vec<Uuid> =
            self.queue.drain(..).chain(self.deferred.iter().map(|(_, id)| *id)).collect();
        self.deferred.clear();
        for id in waiting {
            self.settle(id, Settlement::Nack);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::ops::clock::SystemClock;
    use crate::ports::{Acknowledgement, Clock as _};

    /// Answers to events, in order.
    #[derive(Debug, Default, Clone)]
    struct Answers(Arc<Mutex<Vec<(u32, Acknowledgement)>>>);

    impl Answers {
        fn event(&self, number: u32) -> Settle {
            let answers = Arc::clone(&self.0);
            Settle::new(move |verdict| answers.lock().unwrap().push((number, verdict)))
        }

        fn take(&self) -> Vec<(u32, Acknowledgement)> {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn pending() -> (Pending, Answers) {
        (Pending::new(Arc::new(Rng::seeded(7))), Answers::default())
    }

    fn ids(requests: &[ClaimRequest]) -> Vec<Uuid> {
        requests.iter().map(|request| request.id).collect()
    }

    #[test]
    fn all_events_of_a_submission_are_settled_together_and_counted() {
        let (mut pending, answers) = pending();
        pending.remember(id(1), None, answers.event(1));
        pending.remember(id(2), None, answers.event(2));
        pending.remember(id(1), None, answers.event(3));
        pending.find(id(1));
        pending.find(id(3));
        assert_eq!((pending.submissions(), pending.events(), pending.claimable()), (3, 3, 3));
        assert_eq!(ids(&pending.take_for_claim(2)), [id(1), id(2)]);
        pending.settle(id(1), Settlement::Ack);
        assert_eq!(answers.take(), [(1, Acknowledgement::Ack), (3, Acknowledgement::Ack)]);
        assert_eq!((pending.submissions(), pending.events(), pending.claimable()), (2, 1, 1));
        pending.settle(id(1), Settlement::Nack);
        pending.settle(id(3), Settlement::Ack);
        assert_eq!(answers.take(), [], "nothing twice, and nothing where there was none");
    }

    #[test]
    fn only_what_was_here_when_the_row_was_asked_is_acked_and_for_the_rest_it_is_asked_anew() {
        let (mut pending, answers) = pending();
        pending.remember(id(1), None, answers.event(1));
        let first = pending.take_for_claim(9);
        pending.remember(id(1), None, answers.event(2));
        pending.ack_seen(id(1));
        assert_eq!(answers.take(), [(1, Acknowledgement::Ack)]);
        let second = pending.take_for_claim(9);
        assert_eq!(ids(&second), [id(1)]);
        assert_ne!(second, first, "with a token of its own");
        pending.ack_seen(id(1));
        assert_eq!(answers.take(), [(2, Acknowledgement::Ack)]);
        assert_eq!((pending.submissions(), pending.events()), (0, 0));
    }

    #[test]
    fn a_claim_without_an_answer_is_repeated_with_its_token_and_a_released_one_has_another() {
        let (mut pending, answers) = pending();
        pending.remember(id(1), None, answers.event(1));
        let first = pending.take_for_claim(1);
        pending.claim_again(first.clone());
        assert_eq!(pending.take_for_claim(1), first);
        pending.keep(id(1));
        assert_ne!(pending.take_for_claim(1), first);
        assert_eq!(answers.take(), []);
    }

    #[test]
    fn what_got_no_answer_can_be_taken_apart_to_be_given_back() {
        let (mut pending, answers) = pending();
        for n in 1..=3_u32 {
            pending.remember(id(n.into()), None, answers.event(n));
        }
        let mut asked = pending.take_for_claim(2);
        pending.claim_again(asked.clone());
        assert_eq!(pending.take_unanswered(), asked);
        assert_eq!(
            (pending.take_unanswered(), pending.claimable()),
            (Vec::new(), 1),
            "the third was never asked for"
        );
        pending.claim_again(vec![asked.remove(0)]);
        pending.keep(id(2));
        assert_eq!(ids(&pending.take_unanswered()), [id(1)], "the second is known to be given back");
        pending.give_back();
        assert_eq!(answers.take(), [(3, Acknowledgement::Nack), (2, Acknowledgement::Nack)]);
    }

    #[test]
    fn what_is_held_is_claimed_when_it_is_due_and_given_back_when_nothing_is() {
        let (mut pending, answers) = pending();
        let now = SystemClock.monotonic();
        let second = Duration::from_secs(1);
        for n in 1..=3_u32 {
            pending.remember(id(n.into()), None, answers.event(n));
        }
        pending.take_for_claim(2);
        pending.defer(id(1), now + 2 * second);
        pending.defer(id(2), now + second);
        assert_eq!((pending.next_due(), pending.claimable()), (Some(now + second), 1));
        pending.wake_due(now + second);
        assert_eq!(ids(&pending.take_for_claim(9)), [id(3), id(2)]);
        assert_eq!(pending.next_due(), Some(now + 2 * second));
        pending.give_back();
        assert_eq!(answers.take(), [(1, Acknowledgement::Nack)], "not what is in work");
        assert_eq!((pending.submissions(), pending.events(), pending.next_due()), (2, 2, None));
    }

    #[test]
    fn a_trial_is_put_first() {
        let (mut pending, answers) = pending();
        for n in 1..=3_u32 {
            pending.remember(id(n.into()), None, answers.event(n));
        }
        assert!(pending.choose_trial(|known| known != id(2), false));
        assert_eq!(ids(&pending.take_for_claim(9)), [id(2), id(1), id(3)]);
        assert!(!pending.choose_trial(|_| false, true), "there is nobody");
    }
}
