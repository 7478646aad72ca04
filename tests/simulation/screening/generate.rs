//! Composition of sequences by proptest: single operations, and fragments that only together reach a rare state.

use proptest::prelude::*;
use proptest::sample::select;

use super::ops::{Content, Op, Point, SCREENERS, SUBMISSIONS, Says, Story, Tx, Verb};

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        6 => Just(Content::Plain), 2 => Just(Content::Blocked), 2 => Just(Content::Talking), 2 => Just(Content::Vouched),
        1 => Just(Content::Boasting),
    ]
}

fn says() -> impl Strategy<Value = Says> {
    let score = select(vec![100, 92, 85, 84, 80, 79, 70, 60, 59, 40]);
    prop_oneof![
        8 => score.clone().prop_map(Says::Score),
        1 => score.clone().prop_map(Says::Injected),
        1 => score.prop_map(Says::Contradicting),
        1 => Just(Says::Flips(82, 55)),
        1 => Just(Says::Flips(84, 76)),
        6 => select(vec![
            Says::Obeys, Says::EchoObject, Says::NoScore, Says::Above, Says::Prose, Says::WrongNonce, Says::Cut, Says::HalfBody,
        ]),
        3 => select(vec![Says::Disconnect, Says::Busy, Says::Refuses]),
    ]
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        4 => Just(Verb::Escalate), 1 => Just(Verb::Reject), 3 => Just(Verb::Approve), 1 => Just(Verb::Decline),
    ]
}

fn point() -> impl Strategy<Value = Point> {
    select(Point::ALL.to_vec())
}

fn single() -> impl Strategy<Value = Op> {
    let (sub, screener) = (0..SUBMISSIONS, 0..SCREENERS);
    prop_oneof![
        10 => (sub.clone(), content()).prop_map(|(sub, content)| Op::Submit(sub, content)),
        4 => (sub.clone(), content()).prop_map(|(sub, content)| Op::Change(sub, content)),
        6 => says().prop_map(Op::Judge),
        4 => (says(), 1..4_usize).prop_map(|(says, times)| Op::Next(says, times)),
        3 => any::<bool>().prop_map(Op::Away),
        2 => any::<bool>().prop_map(Op::Force),
        8 => (sub.clone(), verb(), any::<bool>()).prop_map(|(sub, verb, twice)| Op::Decide(sub, verb, twice)),
        3 => (sub.clone(), verb()).prop_map(|(sub, verb)| Op::DecideLate(sub, verb)),
        4 => sub.clone().prop_map(Op::Rescreen),
        2 => sub.clone().prop_map(Op::Redrive),
        1 => sub.clone().prop_map(Op::Purge),
        6 => sub.prop_map(Op::Claim),
        6 => (screener.clone(), point()).prop_map(|(screener, at)| Op::CrashAt(screener, at)),
        3 => (screener.clone(), point()).prop_map(|(screener, at)| Op::CutAt(screener, at)),
        3 => (screener.clone(), point()).prop_map(|(screener, at)| Op::StallAt(screener, at)),
        3 => screener.clone().prop_map(Op::Resume),
        1 => screener.clone().prop_map(Op::Crash),
        1 => screener.clone().prop_map(Op::Stop),
        2 => (screener, any::<bool>()).prop_map(|(screener, down)| Op::Outage(screener, down)),
        10 => prop_oneof![3 => 1..20_u64, 3 => 20..90_u64, 1 => 100..700_u64].prop_map(Op::Advance),
        1 => (100..1300_u64).prop_map(Op::Jump),
        2 => Just(Op::Mend),
        4 => Just(Op::Rush),
    ]
}

/// A few operations that reach what single random ones hardly would.
fn fragment() -> impl Strategy<Value = Vec<Op>> {
    let drawn = (0..SUBMISSIONS, 0..SCREENERS, content(), content(), verb());
    (drawn, point(), says()).prop_flat_map(|((sub, screener, content, other, verb), at, says)| {
        let submit = Op::Submit(sub, content);
        let each = |op: fn(usize, Point) -> Op, point| [op(0, point), op(1, point)];
        let half = [Point::Before(Tx::Record), Point::After(Tx::Record), Point::After(Tx::Claim)];
        let stall = |point| each(Op::StallAt, point);
        let go_on = [Op::Resume(0), Op::Resume(1)];
        let extend = if screener == 0 { Point::Before(Tx::Extend) } else { Point::After(Tx::Extend) };
        let plain = Op::Submit(sub, Content::Plain);
        let all = vec![
            // Whoever takes it dies at a certain point.
            [&[Op::Mend][..], &each(Op::CrashAt, at), &[submit, Op::Advance(90)]].concat(),
            // A worker sleeps until its run has gone to another, and wakes; what was submitted has changed meanwhile.
            [
                &[Op::Mend][..],
                &stall(half[screener]),
                &[submit, Op::Change(sub, other), Op::Jump(70), Op::Advance(5)],
                &go_on,
            ]
            .concat(),
            // Another run takes its place while somebody works on it.
            [&[Op::Mend][..], &stall(half[screener]), &[submit, Op::Purge(sub)], &go_on].concat(),
            [
                &[Op::Mend][..],
                &stall(Point::After(Tx::Claim)),
                &[submit, Op::Change(sub, other), Op::Rescreen(sub)],
                &go_on,
            ]
            .concat(),
            // The judge has answered, and what it said reached nobody.
            [&[Op::Mend, Op::Judge(says)][..], &each(Op::CrashAt, half[screener]), &[plain, Op::Advance(90)]]
                .concat(),
            // The judge is away for longer than anybody waits.
            vec![Op::Mend, Op::Away(true), plain, Op::Advance(30), Op::Advance(650)],
            // Somebody dies who makes its leases longer: one of its runs stands still, and locks nothing.
            [
                &[Op::Mend][..],
                &stall(Point::After(Tx::Record)),
                &[plain],
                &each(Op::CrashAt, extend),
                &[Op::Advance(45), Op::Advance(45)],
            ]
            .concat(),
            // People, from the desk to the relay, late, and by what has changed.
            vec![
                Op::Mend,
                Op::Judge(Says::Score(70)),
                plain,
                Op::Advance(5),
                Op::Decide(sub, Verb::Escalate, true),
                Op::DecideLate(sub, Verb::Escalate),
                Op::Decide(sub, verb, false),
                Op::Claim(sub),
            ],
            vec![
                Op::Mend,
                Op::Judge(Says::Score(70)),
                plain,
                Op::Advance(5),
                Op::Decide(sub, Verb::Escalate, false),
                Op::Change(sub, other),
                Op::Decide(sub, Verb::Approve, false),
                Op::Rescreen(sub),
            ],
            // What was published has changed before it was claimed.
            vec![
                Op::Mend,
                Op::Judge(Says::Score(92)),
                plain,
                Op::Advance(5),
                Op::Change(sub, other),
                Op::Claim(sub),
            ],
            vec![Op::Mend, Op::Judge(Says::Score(92)), plain, Op::Advance(5), Op::Claim(sub)],
        ];
        select(all)
    })
}

/// Sequences of at least `length` operations.
pub(super) fn story(length: usize) -> impl Strategy<Value = Story> {
    let chunk = prop_oneof![8 => single().prop_map(|op| vec![op]), 2 => fragment()];
    let chunks = proptest::collection::vec(chunk, length);
    let switches = proptest::collection::vec(proptest::bool::weighted(1.0), length * 9);
    let submissions = proptest::collection::vec(content(), SUBMISSIONS);
    let calibrated = proptest::bool::weighted(0.85);
    // The switches come first: what is not needed goes before what is needed becomes simpler.
    (switches, chunks, calibrated, submissions).prop_map(|(switches, chunks, calibrated, submissions)| {
        let steps = chunks.into_iter().flatten().zip(switches).filter_map(|(op, on)| on.then_some(op));
        Story { calibrated, submissions, steps: steps.collect() }
    })
}
