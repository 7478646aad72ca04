//! The messages of one subscription: which wait, which are leased to whom and until when, which pause before their next
//! delivery. A plain value, changed under the broker's lock with the time as an argument; it dies with the process, as
//! nothing here is on disk. Never reads a clock, never waits, never talks to anybody.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::proto::PubsubMessage;
use super::rules::Rules;

/// Deliveries in one response at most.
const BATCH_MESSAGES: usize = 1000;
/// Bytes in one response at most, unless a single message is larger.
const BATCH_BYTES: usize = 2 << 20;

/// Names one open StreamingPull of this subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StreamId(pub(super) u64);

/// One delivery of one message, as carried by its ack id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    /// The message, within this subscription.
    pub(super) seq: u64,
    /// Which delivery of it; 1 is the first.
    pub(super) attempt: u32,
}

/// A message that was just leased.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    /// The delivery that the ack id names.
    pub(super) delivery: Delivery,
    /// The message itself.
    pub(super) message: Arc<PubsubMessage>,
}

/// A message whose deliveries are used up, taken out of the queue: the caller puts it back or drops it.
#[derive(Debug)]
pub(super) struct Exhausted {
    seq: u64,
    /// Failed deliveries.
    pub(super) failures: u32,
    /// The message itself.
    pub(super) message: Arc<PubsubMessage>,
}

/// The taker, and how much it may take.
#[derive(Debug, Clone, Copy)]
pub(super) enum Taker {
    /// A unary pull of at most so many messages.
    Pull(usize),
    /// A stream, bounded by its window.
    Stream(StreamId),
}

/// Counts since the subscription was made, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages leased now.
    pub outstanding: usize,
    /// Messages waiting now, those that pause before a redelivery included.
    pub backlog: usize,
    /// Deliveries handed out, redeliveries included.
    pub delivered: u64,
    /// Messages acknowledged.
    pub acked: u64,
    /// Deliveries given back (ack deadline set to 0).
    pub nacked: u64,
    /// Deliveries whose lease ran out.
    pub expired: u64,
    /// Messages given up, a copy of which went to the dead-letter topic.
    pub forwarded: u64,
    /// StreamingPull streams open now.
    pub streams: usize,
}

/// State of a message.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Waiting for a taker; the key into `ready`.
    Ready(u64),
    /// Pausing until then.
    Paused(Instant),
    /// Leased until then.
    Leased { until: Instant, stream: Option<StreamId> },
}

#[derive(Debug)]
struct Entry {
    message: Arc<PubsubMessage>,
    failures: u32,
    place: Place,
}

/// A stream's limits, and its leased messages.
#[derive(Debug)]
struct Window {
    max_messages: usize,
    max_bytes: usize,
    messages: usize,
    bytes: usize,
}

impl Window {
    /// A message larger than the whole window still passes when nothing else is out: it would never arrive otherwise.
    fn admits(&self, bytes: usize) -> bool {
        self.messages == 0
            || (self.messages < self.max_messages && self.bytes.saturating_add(bytes) <= self.max_bytes)
    }
}

/// Messages of one subscription; see the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: HashMap<u64, Entry>,
    /// Waiting messages in the order in which they became ready, so that one that fails over and over starves none.
    ready: BTreeMap<u64, u64>,
    /// When a lease or a pause ends.
    due: BTreeSet<(Instant, u64)>,
    windows: HashMap<StreamId, Window>,
    leased: usize,
    next_seq: u64,
    next_order: u64,
    next_stream: u64,
    counts: Stats,
}

impl Queue {
    /// Adds a new message.
    pub(super) fn enqueue(&mut self, message: Arc<PubsubMessage>) {
        let seq = self.next_seq;
        self.next_seq += 1;
        let order = self.line_up(seq);
        self.entries.insert(seq, Entry { message, failures: 0, place: Place::Ready(order) });
    }

    /// Registers a stream; a limit of zero or less means none.
    pub(super) fn open_window(&mut self, max_messages: i64, max_bytes: i64) -> StreamId {
        let limit = |n: i64| usize::try_from(n).ok().filter(|n| *n > 0).unwrap_or(usize::MAX);
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        let (max_messages, max_bytes) = (limit(max_messages), limit(max_bytes));
        self.windows.insert(id, Window { max_messages, max_bytes, messages: 0, bytes: 0 });
        id
    }

    /// Forgets a stream. Its messages stay leased until their deadline, as nobody said otherwise.
    pub(super) fn close_window(&mut self, stream: StreamId) {
        self.windows.remove(&stream);
    }

    /// Leases waiting messages to `taker` until `until`.
    pub(super) fn take(&mut self, taker: Taker, until: Instant) -> Vec<Taken> {
        let (most, stream) = match taker {
            Taker::Pull(most) => (most.min(BATCH_MESSAGES), None),
            // A fair share, so that the first of several streams to wake does not take everything.
            Taker::Stream(id) => {
                (self.ready.len().div_ceil(self.windows.len().max(1)).min(BATCH_MESSAGES), Some(id))
            }
        };
        let mut taken = Vec::new();
        let mut batch_bytes = 0_usize;
        while taken.len() < most {
            let Some((&order, &seq)) = self.ready.first_key_value() else { break };
            let Some(entry) = self.entries.get_mut(&seq) else {
                self.ready.remove(&order);
                continue;
            };
            let bytes = size(&entry.message);
            if !taken.is_empty() && batch_bytes.saturating_add(bytes) > BATCH_BYTES {
                break;
            }
            if let Some(id) = stream {
                let Some(window) = self.windows.get_mut(&id).filter(|window| window.admits(bytes)) else {
                    break;
                };
                window.messages += 1;
                window.bytes += bytes;
            }
            batch_bytes += bytes;
            self.ready.remove(&order);
            entry.place = Place::Leased { until, stream };
            self.due.insert((until, seq));
            self.leased += 1;
            self.counts.delivered += 1;
            let delivery = Delivery { seq, attempt: entry.failures + 1 };
            taken.push(Taken { delivery, message: Arc::clone(&entry.message) });
        }
        taken
    }

    /// Acknowledges a message. An ack that comes after its lease ran out still counts while the message is here: the
    /// service promises no more than at-least-once, and accepts such acks as well.
    pub(super) fn ack(&mut self, delivery: Delivery) -> bool {
        let Some(entry) = self.entries.remove(&delivery.seq) else { return false };
        self.leave(delivery.seq, entry.place, size(&entry.message));
        self.counts.acked += 1;
        true
    }

    /// Moves the end of a lease. A delivery that is no longer current is left as it is.
    pub(super) fn extend(&mut self, delivery: Delivery, new_until: Instant) -> bool {
        let Some(entry) = self.current(delivery) else { return false };
        let Place::Leased { until, .. } = &mut entry.place else { return false };
        let old = std::mem::replace(until, new_until);
        self.due.remove(&(old, delivery.seq));
        self.due.insert((new_until, delivery.seq));
        true
    }

    /// Gives a delivery back at once. Returns the message where that was its last.
    pub(super) fn nack(&mut self, delivery: Delivery, now: Instant, rules: &Rules) -> Option<Exhausted> {
        self.current(delivery)?;
        self.counts.nacked += 1;
        self.fail(delivery.seq, now, rules)
    }

    /// Ends the leases and pauses that are due. Returns the messages whose last delivery failed by that.
    pub(super) fn advance(&mut self, now: Instant, rules: &Rules) -> Vec<Exhausted> {
        let mut exhausted = Vec::new();
        while let Some(&(at, seq)) = self.due.first() {
            if at > now {
                break;
            }
            match self.entries.get(&seq).map(|entry| entry.place) {
                Some(Place::Leased { .. }) => {
                    self.counts.expired += 1;
                    // The pause counts from the end of the lease, not from when we came round to see it.
                    exhausted.extend(self.fail(seq, at, rules));
                }
                Some(Place::Paused(_)) => {
                    self.due.pop_first();
                    self.make_ready(seq);
                }
                Some(Place::Ready(_)) | None => {
                    self.due.pop_first();
                }
            }
        }
        exhausted
    }

    /// Takes back a message that could not be forwarded, to be delivered once more.
    pub(super) fn put_back(&mut self, exhausted: Exhausted, now: Instant, rules: &Rules) {
        let Exhausted { seq, failures, message } = exhausted;
        self.entries.insert(seq, Entry { message, failures, place: Place::Paused(now) });
        self.pause(seq, now, rules);
    }

    /// Counts a message as forwarded to the dead-letter topic.
    pub(super) fn count_forwarded(&mut self) {
        self.counts.forwarded += 1;
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether a message waits for a taker.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Counts for [`Stats`].
    pub(super) fn stats(&self) -> Stats {
        let backlog = self.entries.len() - self.leased;
        Stats { outstanding: self.leased, backlog, streams: self.windows.len(), ..self.counts }
    }

    /// The message of `delivery`, if that delivery is its current lease.
    fn current(&mut self, delivery: Delivery) -> Option<&mut Entry> {
        self.entries.get_mut(&delivery.seq).filter(|entry| {
            matches!(entry.place, Place::Leased { .. }) && entry.failures + 1 == delivery.attempt
        })
    }

    /// Records that one delivery of a leased message failed.
    fn fail(&mut self, seq: u64, now: Instant, rules: &Rules) -> Option<Exhausted> {
        let entry = self.entries.get_mut(&seq)?;
        entry.failures += 1;
        let (place, bytes, failures) = (entry.place, size(&entry.message), entry.failures);
        self.leave(seq, place, bytes);
        if rules.exhausted(failures) {
            let message = self.entries.remove(&seq)?.message;
            return Some(Exhausted { seq, failures, message });
        }
        self.pause(seq, now, rules);
        None
    }

    /// Puts a failed message where its next delivery is found.
    fn pause(&mut self, seq: u64, now: Instant, rules: &Rules) {
        let Some(entry) = self.entries.get_mut(&seq) else { return };
        let delay = rules.delay(entry.failures);
        if delay == Duration::ZERO {
            self.make_ready(seq);
        } else {
            entry.place = Place::Paused(now + delay);
            self.due.insert((now + delay, seq));
        }
    }

    fn make_ready(&mut self, seq: u64) {
        let order = self.line_up(seq);
        if let Some(entry) = self.entries.get_mut(&seq) {
            entry.place = Place::Ready(order);
        }
    }

    fn line_up(&mut self, seq: u64) -> u64 {
        let order = self.next_order;
        self.next_order += 1;
        self.ready.insert(order, seq);
        order
    }

    /// Undoes the effect of being in `place` on the indexes and the stream's window.
    fn leave(&mut self, seq: u64, place: Place, bytes: usize) {
        match place {
            Place::Ready(order) => {
                self.ready.remove(&order);
            }
            Place::Paused(at) => {
                self.due.remove(&(at, seq));
            }
            Place::Leased { until, stream } => {
                self.due.remove(&(until, seq));
                self.leased -= 1;
                if let Some(window) = stream.and_then(|id| self.windows.get_mut(&id)) {
                    window.messages -= 1;
                    window.bytes -= bytes;
                }
            }
        }
    }
}

/// A message's bytes against a window: data and attributes.
fn size(message: &PubsubMessage) -> usize {
    let data: &Bytes = &message.data;
    data.len() + message.attributes.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
