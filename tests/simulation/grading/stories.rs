//! Stories that must be told every time, and what must have happened in them.

use super::ops::{Content, Op, Point, Reached, Says, Story, TWO, Tx};
use super::{hold, holds};

fn story(steps: Vec<Op>) -> Story {
    Story { calibrated: true, sla: 180, submissions: Vec::new(), steps }
}

fn down(first: usize, down: bool) -> [Op; 2] {
    [Op::Outage(first, down), Op::Outage(first + 1, down)]
}

fn went(reached: &Reached, ways: &[(&str, u64)]) {
    for (way, times) in ways {
        assert_eq!(reached.times(way), *times, "{way}: {}", reached.report().0);
    }
}

#[test]
fn the_ways_of_the_document_are_gone() {
    let reached = holds(&story(vec![
        Op::Submit(0, Content::Sure),
        Op::Submit(1, Content::Listening),
        Op::Submit(2, Content::Keyless),
        Op::Advance(12),
        Op::Claim(0),
        Op::Claim(1),
        Op::Claim(2),
        Op::Submit(0, Content::Unsure),
        Op::Submit(1, Content::Begging),
        Op::Advance(12),
        Op::Claim(0),
        Op::Review(0, true),
        Op::ReviewLate(0),
        Op::Claim(0),
        Op::Claim(1),
    ]));
    let ways = [
        ("PENDING > COMPLETED", 1),
        ("failed: no_answer_key", 1),
        ("PROCESSING > COMPLETED", 1),
        ("PROCESSING > REVIEW_PENDING", 2),
        ("REVIEW_PENDING > COMPLETED", 1),
        ("reviewed: stale", 2),
        ("claimed", 3),
    ];
    went(&reached, &ways);
}

/// What is late is kept, counts nowhere, and is the answer of the next attempt, which costs nothing.
#[test]
fn a_late_result_is_the_answer_of_the_next_attempt() {
    let mut steps = vec![Op::CutAt(0, Point::After(Tx::Last)), Op::CutAt(1, Point::After(Tx::Last))];
    steps.extend([Op::Submit(0, Content::Sure), Op::Advance(7)]);
    steps.extend(down(TWO, true));
    steps.extend([Op::Advance(230), Op::Claim(0)]);
    steps.extend(down(TWO, false));
    steps.extend([
        Op::Advance(80),
        Op::Claim(0),
        Op::Regrade(0),
        Op::Advance(5),
        Op::Advance(5),
        Op::Claim(0),
    ]);
    let ways = [
        ("failed: timeout", 1),
        ("late result", 1),
        ("regraded: done", 1),
        ("step copied", 3),
        ("PROCESSING > COMPLETED", 1),
        ("claimed", 1),
    ];
    went(&holds(&story(steps)), &ways);
}

/// The main side is away over a deadline, and what the grader said in time waits: nothing is timed out.
#[test]
fn what_was_said_in_time_is_not_lost_because_nobody_heard_it() {
    let mut steps = Vec::from(down(TWO, true));
    steps.extend([Op::Submit(0, Content::Sure), Op::Advance(4)]);
    steps.extend(down(0, true));
    steps.extend(down(TWO, false));
    steps.extend([Op::Advance(40), Op::Jump(300)]);
    steps.extend(down(0, false));
    steps.push(Op::Advance(60));
    went(&holds(&story(steps)), &[("failed: timeout", 0), ("PROCESSING > COMPLETED", 1)]);
}

/// Ten minutes of 429, of a cut wire, of nobody: no try is spent, and all is graded afterwards.
#[test]
fn an_outage_spends_no_try() {
    let outages = [Op::Grader(Says::Busy), Op::Grader(Says::Disconnect), Op::Away(true)];
    let stories = outages.map(|outage| Story {
        sla: 1800,
        ..story(
            [outage, Op::Submit(0, Content::Sure), Op::Submit(1, Content::Free), Op::Advance(5)]
                .into_iter()
                .chain([Op::Jump(60); 10])
                .chain([Op::Mend, Op::Advance(60)])
                .collect(),
        )
    });
    for reached in hold(&stories) {
        went(&reached, &[("PROCESSING > ERROR", 0), ("ERROR > RETRYING", 0), ("PROCESSING > COMPLETED", 2)]);
    }
}

/// Nonsense grades nobody: four tries, and a person is told.
#[test]
fn a_grader_that_says_nothing_grades_nothing() {
    let said = [Says::Above, Says::FalseQuote, Says::WrongNonce];
    let stories = said.map(|says| {
        let mut steps = vec![Op::Grader(says), Op::Submit(0, Content::Sure)];
        // A second at a time: each step of a try waits for the next look.
        steps.extend([Op::Advance(5); 6]);
        steps.push(Op::Claim(0));
        story(steps)
    });
    for (says, reached) in said.iter().zip(hold(&stories)) {
        assert_eq!(reached.times("PROCESSING > COMPLETED"), 0, "{says:?}");
        went(&reached, &[("ERROR > RETRYING", 3), ("failed: gave_up", 1), ("claimed", 0)]);
    }
}

/// A worker that sleeps wakes when its attempt, or its job, is another's.
#[test]
fn who_wakes_late_changes_nothing() {
    let points = [Point::Before(Tx::Settle), Point::Before(Tx::JobSettle), Point::Before(Tx::Record)];
    let stories = points.map(|point| {
        story(vec![
            Op::StallAt(0, point),
            Op::Submit(0, Content::Sure),
            Op::Advance(3),
            Op::Jump(62),
            Op::Advance(12),
            Op::Resume(point.side()),
            Op::Advance(20),
        ])
    });
    for reached in hold(&stories) {
        went(&reached, &[("PROCESSING > COMPLETED", 1), ("failed: timeout", 0)]);
    }
}

/// Each point is one that somebody comes by: processes of both sides die there, and others end what they began.
#[test]
fn whoever_dies_at_a_point_is_followed() {
    let of =
        |side: usize| Point::ALL.into_iter().filter(move |at| at.side() == side && at.tx() != Tx::TimeOut);
    let pairs: Vec<[Point; 2]> = of(TWO).zip(of(0).cycle()).map(|(grader, main)| [grader, main]).collect();
    let dies = |points: &[Point]| -> Vec<Op> {
        points.iter().flat_map(|point| [0, 1].map(|who| Op::CrashAt(who, *point))).collect()
    };
    let mut stories: Vec<Story> = Vec::new();
    for points in &pairs {
        let mut steps = Vec::new();
        let extends = points[0].tx() == Tx::Extend;
        if extends {
            steps.extend([0, 1].map(|who| Op::StallAt(who, Point::After(Tx::Record))));
        }
        steps.extend(dies(points));
        steps.extend([Op::Submit(0, Content::Sure), Op::Advance(5)]);
        // A lease of a daemon's, and of what follows.
        steps.extend([Op::Jump(62), Op::Advance(5)]);
        if extends {
            // A worker whose connection stands still gives up in real time, however fast this machine is: its lease is due at once.
            steps.extend([Op::Jump(25), Op::Advance(2)]);
        }
        steps.extend([Op::Jump(62), Op::Advance(3), Op::Mend]);
        stories.push(Story { sla: 300, ..story(steps) });
    }
    for reached in hold(&stories).iter().zip(&pairs) {
        let (reached, points) = reached;
        for point in points {
            assert!(reached.crashes(*point) > 0, "{point:?}: {}", reached.report().0);
        }
        went(reached, &[("PROCESSING > COMPLETED", 1)]);
    }
}

/// The same of a deadline that has passed.
#[test]
fn whoever_dies_at_a_deadline_is_followed() {
    let points = [Point::Before(Tx::TimeOut), Point::After(Tx::TimeOut)];
    let stories = points.map(|point| {
        let mut steps = vec![Op::CrashAt(0, point), Op::CrashAt(1, point), Op::Submit(0, Content::Sure)];
        steps.extend(down(TWO, true));
        steps.extend([Op::Advance(4), Op::Jump(180), Op::Advance(20), Op::Mend]);
        story(steps)
    });
    for (point, reached) in points.iter().zip(hold(&stories)) {
        assert!(reached.crashes(*point) > 0, "{point:?}: {}", reached.report().0);
        went(&reached, &[("failed: timeout", 1), ("PROCESSING > COMPLETED", 0)]);
    }
}
