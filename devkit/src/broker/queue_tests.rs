//! Tables for [`super::Queue`]: leases, windows, pauses and the end of patience, with a clock that only the test moves.

use std::collections::HashMap;

use super::super::rules::{Backoff, DeadLetter};
use super::*;

const LEASE: Duration = Duration::from_secs(10);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn message(bytes: usize) -> Arc<PubsubMessage> {
    Arc::new(PubsubMessage { data: vec![b'x'; bytes].into(), ..PubsubMessage::default() })
}

fn queue(messages: usize) -> Queue {
    let mut queue = Queue::default();
    for _ in 0..messages {
        queue.enqueue(message(10));
    }
    queue
}

fn rules() -> Rules {
    Rules { ack_deadline: LEASE, retry: None, dead_letter: None }
}

fn with_retry() -> Rules {
    Rules { retry: Some(Backoff { min: seconds(1), max: seconds(4) }), ..rules() }
}

fn patient(max_delivery_attempts: u32) -> Rules {
    Rules { dead_letter: Some(DeadLetter { topic: "t".to_owned(), max_delivery_attempts }), ..rules() }
}

#[expect(clippy::disallowed_methods, reason = "any instant will do, it is only added to")]
fn start() -> Instant {
    Instant::now()
}

fn pull(queue: &mut Queue, now: Instant) -> Vec<Delivery> {
    queue.take(Taker::Pull(100), now + LEASE).into_iter().map(|taken| taken.delivery).collect()
}

#[test]
fn what_is_leased_is_not_handed_out_again_and_what_is_acked_is_gone() {
    let (mut queue, now) = (queue(3), start());
    let first = pull(&mut queue, now);
    assert_eq!(first.len(), 3);
    assert!(pull(&mut queue, now).is_empty());
    assert!(queue.ack(first[0]));
    assert!(!queue.ack(first[0]), "a second ack finds nothing");
    let stats = queue.stats();
    assert_eq!((stats.outstanding, stats.backlog, stats.acked, stats.delivered), (2, 0, 1, 3));
    queue.advance(now + seconds(60), &rules());
    let stats = queue.stats();
    assert_eq!((stats.outstanding, stats.backlog, stats.expired), (0, 2, 2));
}

#[test]
fn a_lease_ends_at_its_deadline_and_not_before() {
    let (mut queue, now) = (queue(1), start());
    let first = pull(&mut queue, now)[0];
    queue.advance(now + LEASE - Duration::from_millis(1), &rules());
    assert!(pull(&mut queue, now).is_empty());
    assert!(queue.extend(first, now + seconds(30)));
    queue.advance(now + LEASE, &rules());
    assert!(pull(&mut queue, now).is_empty(), "the lease was extended");
    assert_eq!(queue.next_due(), Some(now + seconds(30)));
    queue.advance(now + seconds(30), &rules());
    let second = pull(&mut queue, now)[0];
    assert_eq!((second.seq, second.attempt), (first.seq, 2));
}

#[test]
fn only_the_current_delivery_may_be_extended_or_given_back() {
    let (mut queue, now) = (queue(1), start());
    let first = pull(&mut queue, now)[0];
    assert!(queue.nack(first, now, &rules()).is_none());
    let second = pull(&mut queue, now)[0];
    assert!(!queue.extend(first, now + seconds(500)));
    queue.nack(first, now, &rules());
    assert_eq!(queue.stats().outstanding, 1, "an old nack does not end the new lease");
    assert_eq!(queue.stats().nacked, 1);
    assert_eq!(queue.next_due(), Some(now + LEASE));
    assert_eq!(second.attempt, 2);
}

#[test]
fn a_late_ack_still_counts() {
    let (mut queue, now) = (queue(1), start());
    let first = pull(&mut queue, now)[0];
    queue.advance(now + LEASE, &rules());
    assert!(queue.ack(first), "waiting again, acked by the old id");
    assert!(pull(&mut queue, now).is_empty());
    assert_eq!(queue.next_due(), None);
}

#[test]
fn a_failed_message_pauses_longer_every_time() {
    let (mut queue, mut now, rules) = (queue(1), start(), with_retry());
    for pause in [1, 2, 4, 4] {
        let delivery = pull(&mut queue, now)[0];
        queue.nack(delivery, now, &rules);
        assert!(pull(&mut queue, now).is_empty());
        assert_eq!(queue.next_due(), Some(now + seconds(pause)));
        assert_eq!(queue.stats().backlog, 1, "a pausing message is backlog");
        now += seconds(pause);
        queue.advance(now, &rules);
    }
    pull(&mut queue, now);
    queue.advance(now + LEASE, &rules);
    assert_eq!(
        queue.next_due(),
        Some(now + LEASE + seconds(4)),
        "a lease that runs out is a failure as well"
    );
}

#[test]
fn a_message_is_given_up_after_exactly_so_many_deliveries() {
    for attempts in [1, 5] {
        let (mut queue, now, rules) = (queue(1), start(), patient(attempts));
        for attempt in 1..attempts {
            let delivery = pull(&mut queue, now)[0];
            assert_eq!(delivery.attempt, attempt);
            assert!(queue.nack(delivery, now, &rules).is_none());
        }
        let last = pull(&mut queue, now)[0];
        assert_eq!(last.attempt, attempts);
        let exhausted =
            queue.advance(now + LEASE, &rules).pop().expect("its lease ran out, and that was its last");
        assert_eq!(exhausted.failures, attempts);
        assert!(!queue.ack(last), "it is out of the queue");
        queue.put_back(exhausted, now, &rules);
        assert_eq!(pull(&mut queue, now)[0].attempt, attempts + 1, "put back, it is delivered again");
    }
}

#[test]
fn a_message_that_keeps_failing_does_not_starve_the_others() {
    let (mut queue, now) = (queue(3), start());
    let mut seen = Vec::new();
    for _ in 0..3 {
        let taken = queue.take(Taker::Pull(1), now + LEASE)[0].delivery;
        seen.push(taken.seq);
        queue.nack(taken, now, &rules());
    }
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn a_stream_holds_no_more_than_its_window() {
    let table = [
        ("messages", 2, 0, 2),
        ("bytes", 0, 35, 3),
        ("bytes, exactly", 0, 30, 3),
        ("the tighter of both", 2, 35, 2),
        ("no limit", 0, -1, 5),
        ("a message larger than the window comes alone", 0, 5, 1),
    ];
    for (why, messages, bytes, expected) in table {
        let (mut queue, now) = (queue(5), start());
        let stream = queue.open_window(messages, bytes);
        let taken = queue.take(Taker::Stream(stream), now + LEASE);
        assert_eq!(taken.len(), expected, "{why}");
        assert!(expected == 5 || queue.take(Taker::Stream(stream), now + LEASE).is_empty(), "{why}");
    }
}

#[test]
fn ack_nack_and_expiry_make_room_again() {
    let (mut queue, now) = (queue(9), start());
    let stream = queue.open_window(2, 20);
    let take = |queue: &mut Queue| queue.take(Taker::Stream(stream), now + LEASE);
    let first = take(&mut queue);
    assert_eq!(first.len(), 2);
    queue.ack(first[0].delivery);
    assert_eq!(take(&mut queue).len(), 1);
    queue.nack(first[1].delivery, now, &rules());
    assert_eq!(take(&mut queue).len(), 1);
    assert!(take(&mut queue).is_empty());
    queue.advance(now + LEASE, &rules());
    assert_eq!(take(&mut queue).len(), 2);
}

#[test]
fn streams_share_and_what_a_closed_one_had_stays_leased() {
    let (mut queue, now) = (queue(10), start());
    let (one, two) = (queue.open_window(0, 0), queue.open_window(0, 0));
    assert_eq!(queue.take(Taker::Stream(one), now + LEASE).len(), 5, "half, as there are two");
    queue.close_window(one);
    assert_eq!(queue.stats().outstanding, 5);
    assert!(queue.take(Taker::Stream(one), now + LEASE).is_empty(), "a closed stream takes nothing");
    assert_eq!(queue.take(Taker::Stream(two), now + LEASE).len(), 5);
    queue.advance(now + LEASE, &rules());
    assert_eq!(queue.stats().backlog, 10);
}

#[test]
fn a_response_is_bounded_in_bytes_but_never_empty() {
    let now = start();
    let mut queue = Queue::default();
    for bytes in [BATCH_BYTES + 1, BATCH_BYTES - 5, 5, 1] {
        queue.enqueue(message(bytes));
    }
    let mut sizes = Vec::new();
    while queue.has_ready() {
        sizes.push(queue.take(Taker::Pull(100), now + LEASE).len());
    }
    assert_eq!(sizes, [1, 2, 1]);
}

/// Against a model that keeps only what must be true: whatever happens, every message is in one state, and the
/// counters of windows and leases agree with it.
#[test]
fn the_indexes_agree_whatever_happens() {
    let (mut queue, mut now, rules) =
        (Queue::default(), start(), Rules { retry: with_retry().retry, ..patient(3) });
    let streams = [queue.open_window(3, 0), queue.open_window(0, 45)];
    let mut out: Vec<Delivery> = Vec::new();
    let mut dice = 0x9E37_79B9_7F4A_7C15_u64;
    let (mut added, mut gone) = (0_usize, 0_usize);
    for _ in 0..20_000 {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let pick = usize::try_from(dice >> 8).unwrap_or_default();
        match dice % 6 {
            0 if added - gone < 40 => {
                queue.enqueue(message(pick % 20));
                added += 1;
            }
            1 | 2 => {
                let taken = queue.take(Taker::Stream(streams[pick % 2]), now + seconds(dice % 5));
                out.extend(taken.iter().map(|taken| taken.delivery));
            }
            3 if !out.is_empty() => gone += usize::from(queue.ack(out.swap_remove(pick % out.len()))),
            4 if !out.is_empty() => {
                let delivery = out[pick % out.len()];
                gone += usize::from(queue.nack(delivery, now, &rules).is_some());
            }
            _ => {
                now += Duration::from_millis(dice % 900);
                gone += queue.advance(now, &rules).len();
            }
        }
        check_indexes(&queue, added - gone);
    }
    assert!(gone > 1000, "the walk must see messages come and go, saw {gone}");
}

fn check_indexes(queue: &Queue, expected: usize) {
    assert_eq!(queue.entries.len(), expected);
    let mut leased_by: HashMap<StreamId, (usize, usize)> = HashMap::new();
    let (mut ready, mut due) = (0, 0);
    for (seq, entry) in &queue.entries {
        match entry.place {
            Place::Ready(order) => {
                ready += 1;
                assert_eq!(queue.ready.get(&order), Some(seq));
            }
            Place::Paused(at) => {
                due += 1;
                assert!(queue.due.contains(&(at, *seq)));
            }
            Place::Leased { until, stream } => {
                due += 1;
                assert!(queue.due.contains(&(until, *seq)));
                let sum = leased_by.entry(stream.expect("only streams take here")).or_default();
                sum.0 += 1;
                sum.1 += size(&entry.message);
            }
        }
    }
    assert_eq!((queue.ready.len(), queue.due.len()), (ready, due));
    assert_eq!(queue.leased, leased_by.values().map(|(messages, _)| messages).sum::<usize>());
    for (id, window) in &queue.windows {
        assert_eq!(leased_by.get(id).copied().unwrap_or_default(), (window.messages, window.bytes));
        assert!(window.messages <= window.max_messages);
        assert!(window.bytes <= window.max_bytes || window.messages == 1);
    }
}
