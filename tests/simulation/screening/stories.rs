//! Stories that must be told every time, and what must have happened in them.

use super::holds;
use super::ops::{Content, Op, Point, Says, Story, Tx, Verb};

fn story(steps: Vec<Op>) -> Story {
    Story { calibrated: true, submissions: Vec::new(), steps }
}

#[test]
fn the_ways_of_the_document_are_gone() {
    let reached = holds(&story(vec![
        Op::Submit(0, Content::Plain),
        Op::Submit(1, Content::Blocked),
        Op::Submit(2, Content::Vouched),
        Op::Advance(10),
        Op::Claim(0),
        Op::Judge(Says::Score(70)),
        Op::Submit(0, Content::Boasting),
        Op::Advance(10),
        Op::Claim(0),
        Op::Decide(0, Verb::Escalate, true),
        Op::Decide(0, Verb::Approve, true),
        Op::Claim(0),
    ]));
    for (way, times) in [
        ("TIER1_SCANNING > TIER1_FAILED", 1),
        ("RECEIVED > VENDOR_APPROVED", 1),
        ("TIER2_SCANNING > AUTO_APPROVED", 1),
        ("TIER2_SCANNING > NEEDS_REVIEW", 1),
        ("TIER3_REVIEW > PUBLISHED", 1),
        ("decided: stale", 2),
        ("claimed", 2),
    ] {
        assert_eq!(reached.times(way), times, "{way}: {}", reached.report().0);
    }
}

/// A worker that sleeps with what the judge has said wakes when the run is another's, and what was submitted is something else.
#[test]
fn who_wakes_late_changes_nothing() {
    let reached = holds(&story(vec![
        Op::StallAt(0, Point::Before(Tx::Settle)),
        Op::StallAt(1, Point::Before(Tx::Settle)),
        Op::Submit(0, Content::Plain),
        Op::Jump(70),
        Op::Change(0, Content::Talking),
        Op::Advance(5),
        Op::Resume(0),
        Op::Resume(1),
        Op::Advance(200),
    ]));
    assert_eq!(reached.times("TIER2_SCANNING > AUTO_APPROVED"), 0);
}

/// Silence and nonsense approve nothing, whoever asks for it.
#[test]
fn a_judge_that_says_nothing_approves_nothing() {
    for says in [Says::EchoObject, Says::NoScore, Says::Above, Says::WrongNonce, Says::Cut, Says::Disconnect]
    {
        let reached = holds(&story(vec![
            Op::Judge(says),
            Op::Submit(0, Content::Talking),
            Op::Submit(1, Content::Plain),
            Op::Advance(700),
        ]));
        assert_eq!(reached.times("TIER2_SCANNING > AUTO_APPROVED"), 0, "{says:?}");
        assert_eq!(reached.times("TIER2_SCANNING > NEEDS_REVIEW"), 2, "{says:?}");
    }
}

/// Each point is one that somebody comes by: a screener dies there, and another ends what it began.
#[test]
fn whoever_dies_at_a_point_is_followed() {
    for point in Point::ALL {
        let mut steps = Vec::new();
        let of_extend = matches!(point, Point::Before(Tx::Extend) | Point::After(Tx::Extend));
        if of_extend {
            steps.extend([0, 1].map(|screener| Op::StallAt(screener, Point::After(Tx::Record))));
        }
        steps.extend([0, 1].map(|screener| Op::CrashAt(screener, point)));
        steps.push(Op::Submit(0, Content::Plain));
        if of_extend {
            // A worker whose connection stands still gives up in real time, however fast this machine is: its lease is due at once.
            steps.extend([Op::Advance(2), Op::Jump(25)]);
        }
        steps.extend([Op::Advance(45), Op::Advance(45), Op::Mend, Op::Claim(0)]);
        let reached = holds(&story(steps));
        assert!(reached.crashes(point) > 0, "{point:?}: {}", reached.report().0);
        assert_eq!(reached.times("AUTO_APPROVED > PUBLISHED"), 1, "{point:?}");
    }
}

/// What was published and changed is claimed by nobody, until it is screened again as it stands.
#[test]
fn what_changes_after_its_publication_is_not_claimed() {
    let changed = vec![
        Op::Submit(0, Content::Plain),
        Op::Advance(10),
        Op::Change(0, Content::Talking),
        Op::Claim(0),
        Op::Advance(10),
        Op::Claim(0),
    ];
    assert_eq!(holds(&story(changed.clone())).times("claimed"), 0);
    let again = [
        Op::Rescreen(0),
        Op::Advance(10),
        Op::Decide(0, Verb::Escalate, false),
        Op::Decide(0, Verb::Approve, false),
        Op::Claim(0),
    ];
    let reached = holds(&story([changed, again.to_vec()].concat()));
    assert_eq!(reached.times("claimed"), 1, "{}", reached.report().0);
}
