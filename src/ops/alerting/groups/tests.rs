//! Stories: events by the second, and the reports by the end.

use super::*;

/// An event of one cause.
#[derive(Debug, Clone, Copy)]
enum Op {
    /// The pile has something to report.
    Waits,
    /// The pile has nothing left to report.
    Gone,
    Raise,
    Resolve,
    /// Slack takes nothing from now on.
    Down,
    /// Slack takes everything.
    Up,
    /// The next message reports only a part.
    Part,
}
use Op::{Down, Gone, Part, Raise, Resolve, Up, Waits};

const WAIT: u64 = 30;
const REPEAT: u64 = 3600;

#[expect(clippy::disallowed_methods, reason = "any instant will do")]
fn start() -> Instant {
    Instant::now()
}

/// Plays second by second until `end`; returns the reports, and their times.
fn play(ops: &[(u64, Op)], end: u64) -> Vec<(u64, Say)> {
    let zero = start();
    let intervals = AlertIntervals {
        group_wait: Duration::from_secs(WAIT),
        repeat_interval: Duration::from_secs(REPEAT),
    };
    let mut groups = Groups::new(intervals);
    let (mut notified, mut up, mut part) = (Vec::new(), true, false);
    let mut ops = ops.iter().peekable();
    for second in 0..=end {
        let now = zero + Duration::from_secs(second);
        while let Some((_, op)) = ops.next_if(|(at, _)| *at == second) {
            match op {
                Waits => groups.waiting(&"cause", now),
                Gone => groups.nothing(&"cause"),
                Raise => groups.raised(&"cause", now),
                Resolve => groups.resolved(&"cause", now),
                Down => up = false,
                Up => up = true,
                Part => part = true,
            }
        }
        for (cause, say) in groups.due(now) {
            assert!(groups.next().is_some_and(|next| next <= now), "what is due is next");
            if up {
                groups.sent(&cause, std::mem::take(&mut part), now);
                notified.push((second, say));
            }
        }
        groups.tidy(now);
    }
    notified
}

/// A pile with a new event every second.
fn flood(from: u64, to: u64) -> Vec<(u64, Op)> {
    (from..=to).map(|second| (second, Waits)).collect()
}

#[test]
fn piles_are_told_of_ever_more_rarely() {
    use Say::News;
    type Story = (&'static str, Vec<(u64, Op)>, u64, Vec<(u64, Say)>);
    let stories: Vec<Story> = vec![
        ("one", vec![(0, Waits)], 9000, vec![(30, News)]),
        ("more of the same in time", vec![(0, Waits), (29, Waits)], 9000, vec![(30, News)]),
        ("mended before it was sent", vec![(0, Waits), (29, Gone)], 9000, vec![]),
        ("and come again", vec![(0, Waits), (29, Gone), (40, Waits)], 9000, vec![(70, News)]),
        // 30, then 60, 120, … after the one before, never longer than the interval.
        (
            "a flood",
            flood(0, 12_000),
            12_000,
            [30, 90, 210, 450, 930, 1890, 3810, 7410, 11_010].map(|at| (at, News)).to_vec(),
        ),
        ("a second one soon", vec![(0, Waits), (31, Waits)], 9000, vec![(30, News), (90, News)]),
        (
            "a second one later gathers too",
            vec![(0, Waits), (500, Waits)],
            9000,
            vec![(30, News), (530, News)],
        ),
        // The third waits 120 s after the second, unless the group has ended in between.
        (
            "the group lives",
            vec![(0, Waits), (500, Waits), (531, Waits)],
            9000,
            vec![(30, News), (530, News), (650, News)],
        ),
        (
            "a quiet interval ends it",
            vec![(0, Waits), (500, Waits), (4131, Waits), (4162, Waits)],
            9000,
            vec![(30, News), (530, News), (4161, News), (4221, News)],
        ),
        ("Slack down", vec![(0, Waits), (10, Down), (5000, Up)], 9000, vec![(5000, News)]),
        ("down, and mended meanwhile", vec![(0, Waits), (10, Down), (60, Gone), (5000, Up)], 9000, vec![]),
        (
            "more than one message holds",
            vec![(0, Waits), (0, Part), (31, Waits)],
            9000,
            vec![(30, News), (60, News)],
        ),
    ];
    for (name, ops, end, expected) in stories {
        assert_eq!(play(&ops, end), expected, "{name}");
    }
}

#[test]
fn incidents_are_told_once_repeated_and_recovered_once() {
    use Say::{News, Over, Still};
    type Story = (&'static str, Vec<(u64, Op)>, Vec<(u64, Say)>);
    let stories: Vec<Story> = vec![
        ("lasts", vec![(0, Raise)], vec![(30, News), (3630, Still), (7230, Still)]),
        (
            "raised over and over",
            vec![(0, Raise), (1, Raise), (40, Raise), (50, Raise)],
            vec![(30, News), (3630, Still), (7230, Still)],
        ),
        ("over", vec![(0, Raise), (100, Resolve)], vec![(30, News), (100, Over)]),
        ("over twice", vec![(0, Raise), (100, Resolve), (101, Resolve)], vec![(30, News), (100, Over)]),
        ("over before it was sent", vec![(0, Raise), (29, Resolve)], vec![]),
        ("never there", vec![(0, Resolve)], vec![]),
        (
            "over while Slack was down",
            vec![(0, Raise), (100, Down), (200, Resolve), (5000, Up)],
            vec![(30, News), (5000, Over)],
        ),
        (
            "came and went while Slack was down",
            vec![(0, Down), (0, Raise), (2000, Resolve), (5000, Up)],
            vec![],
        ),
        ("came and lasts", vec![(0, Down), (0, Raise), (5000, Up)], vec![(5000, News), (8600, Still)]),
        (
            "back before its end was sent",
            vec![(0, Raise), (100, Down), (200, Resolve), (300, Raise), (400, Up)],
            vec![(30, News), (3630, Still), (7230, Still)],
        ),
        // The end is reported at once, the next start waits as in any living group.
        (
            "flapping",
            vec![(0, Raise), (40, Resolve), (41, Raise), (101, Resolve), (102, Raise)],
            vec![(30, News), (40, Over), (100, News), (101, Over), (221, News), (3821, Still), (7421, Still)],
        ),
        (
            "too short to be sent the second time",
            vec![(0, Raise), (40, Resolve), (41, Raise), (60, Resolve)],
            vec![(30, News), (40, Over)],
        ),
    ];
    for (name, ops, expected) in stories {
        assert_eq!(play(&ops, 9000), expected, "{name}");
    }
}

#[test]
fn what_cannot_be_told_waits_and_others_do_not() {
    let zero = start();
    let at = |second| zero + Duration::from_secs(second);
    let intervals = AlertIntervals {
        group_wait: Duration::from_secs(WAIT),
        repeat_interval: Duration::from_secs(REPEAT),
    };
    let mut groups = Groups::new(intervals);
    groups.waiting(&"b", at(0));
    groups.waiting(&"a", at(1));
    assert_eq!(groups.due(at(31)), [("b", Say::News), ("a", Say::News)], "the longest due first");
    groups.postponed(&"b", at(100));
    assert_eq!(groups.due(at(99)), [("a", Say::News)]);
    groups.sent(&"a", false, at(99));
    assert_eq!(groups.next(), Some(at(100)));
    assert_eq!(groups.due(at(100)), [("b", Say::News)]);
}

#[test]
fn causes_without_end_are_not_kept_without_end() {
    let zero = start();
    let intervals = AlertIntervals {
        group_wait: Duration::from_secs(WAIT),
        repeat_interval: Duration::from_secs(REPEAT),
    };
    let mut groups = Groups::new(intervals);
    groups.raised(&u64::MAX, zero);
    for n in 0..2_000 {
        let now = zero + Duration::from_millis(n);
        groups.waiting(&n, now);
        groups.tidy(now);
    }
    assert_eq!(groups.causes().count(), MOST);
    assert!(groups.causes().any(|cause| *cause == u64::MAX), "an incident is never dropped");
}
