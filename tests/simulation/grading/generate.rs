//! Composition of sequences by proptest: single operations, and fragments that only together reach a rare state.

use proptest::prelude::*;
use proptest::sample::select;

use super::ops::{Content, Op, PROCESSES, Point, SUBMISSIONS, Says, Story, TWO, Tx};

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        6 => Just(Content::Sure), 4 => Just(Content::Unsure), 1 => Just(Content::Begging), 1 => Just(Content::Free),
        1 => Just(Content::Sends), 2 => Just(Content::Listening), 1 => Just(Content::Keyless),
    ]
}

fn bad() -> impl Strategy<Value = Says> {
    select(vec![
        Says::MissingCriterion,
        Says::TwiceCriterion,
        Says::ForeignCriterion,
        Says::FalseQuote,
        Says::Above,
        Says::Odd,
        Says::UnknownKey,
        Says::WrongNonce,
        Says::Cut,
    ])
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        6 => Just(Says::Good),
        1 => (0..21_u8).prop_map(Says::Score),
        1 => Just(Says::Injected),
        5 => bad(),
        1 => Just(Says::Slow),
        4 => select(vec![Says::HalfBody, Says::Disconnect, Says::Busy, Says::Refuses, Says::Page]),
    ]
}

fn point() -> impl Strategy<Value = Point> {
    select(Point::ALL.to_vec())
}

/// Points of a side that an attempt comes by whose answer is good.
fn of_side(side: usize) -> impl Strategy<Value = Point> {
    let comes_by = |at: &Point| at.side() == side && !matches!(at.tx(), Tx::TimeOut | Tx::Extend);
    select(Point::ALL.into_iter().filter(comes_by).collect::<Vec<_>>())
}

fn single() -> impl Strategy<Value = Op> {
    let (sub, of_side, who) = (0..SUBMISSIONS, 0..TWO, 0..PROCESSES);
    prop_oneof![
        10 => (sub.clone(), content()).prop_map(|(sub, content)| Op::Submit(sub, content)),
        2 => sub.clone().prop_map(Op::Change),
        5 => says().prop_map(Op::Grader),
        4 => (says(), 1..5_usize).prop_map(|(says, times)| Op::Next(says, times)),
        2 => any::<bool>().prop_map(Op::Away),
        6 => (sub.clone(), any::<bool>()).prop_map(|(sub, twice)| Op::Review(sub, twice)),
        2 => sub.clone().prop_map(Op::ReviewLate),
        4 => sub.clone().prop_map(Op::Regrade),
        2 => sub.clone().prop_map(Op::Release),
        1 => sub.clone().prop_map(Op::Purge),
        5 => sub.clone().prop_map(Op::Claim),
        4 => sub.clone().prop_map(Op::Redeliver),
        3 => sub.clone().prop_map(Op::AskAgain),
        1 => sub.prop_map(Op::Garble),
        2 => any::<bool>().prop_map(Op::Reorder),
        6 => (of_side.clone(), point()).prop_map(|(who, at)| Op::CrashAt(who, at)),
        3 => (of_side.clone(), point()).prop_map(|(who, at)| Op::CutAt(who, at)),
        3 => (of_side, point()).prop_map(|(who, at)| Op::StallAt(who, at)),
        3 => who.clone().prop_map(Op::Resume),
        1 => who.clone().prop_map(Op::Crash),
        1 => who.clone().prop_map(Op::Stop),
        2 => (who, any::<bool>()).prop_map(|(who, down)| Op::Outage(who, down)),
        10 => prop_oneof![4 => 1..12_u64, 2 => 12..60_u64, 1 => 60..200_u64].prop_map(Op::Advance),
        1 => (60..400_u64).prop_map(Op::Jump),
        2 => Just(Op::Mend),
        4 => Just(Op::Rush),
    ]
}

/// A few operations that reach what single random ones hardly would.
fn fragment() -> impl Strategy<Value = Vec<Op>> {
    let drawn = (0..SUBMISSIONS, 0..TWO, content(), any::<bool>());
    let points = (point(), of_side(0), of_side(TWO));
    (drawn, points, bad(), says()).prop_flat_map(
        |((sub, who, content, twice), (at, main, grader), bad, says)| {
            let both = |op: fn(usize, Point) -> Op, point| [op(0, point), op(1, point)];
            let down = |first: usize, down| [Op::Outage(first, down), Op::Outage(first + 1, down)];
            let submit = Op::Submit(sub, content);
            let sure = Op::Submit(sub, Content::Sure);
            let mend = [Op::Mend];
            let last = [Point::Before(Tx::Last), Point::After(Tx::Last)][who];
            let extend = [Point::Before(Tx::Extend), Point::After(Tx::Extend)][who];
            let time_out = [Point::Before(Tx::TimeOut), Point::After(Tx::TimeOut)][who];
            let dies = [
                &mend[..],
                &both(Op::CrashAt, main),
                &both(Op::CrashAt, grader),
                &[sure, Op::Advance(5), Op::Jump(62), Op::Advance(8)],
            ]
            .concat();
            let all = vec![
                // Whoever takes it dies at a certain point.
                dies.clone(),
                dies.clone(),
                dies,
                [&mend[..], &both(Op::CrashAt, time_out), &down(TWO, true), &[sure, Op::Advance(200)]]
                    .concat(),
                // A worker sleeps until its attempt or job has gone to another, and wakes.
                [
                    &mend[..],
                    &both(Op::StallAt, at),
                    &[submit, Op::Jump(65), Op::Advance(5)],
                    &(0..PROCESSES).map(Op::Resume).collect::<Vec<_>>(),
                ]
                .concat(),
                // Everything is paid for, and what comes of it is late.
                [
                    &mend[..],
                    &both(Op::CutAt, last),
                    &[sure, Op::Advance(6)],
                    &down(TWO, true),
                    &[Op::Advance(220)],
                    &down(TWO, false),
                    &[Op::Advance(70), Op::Regrade(sub), Op::Advance(8), Op::Claim(sub)],
                ]
                .concat(),
                // The main side is away over a deadline, and what the grader said in time waits.
                [
                    &mend[..],
                    &down(TWO, true),
                    &[sure, Op::Advance(4)],
                    &down(0, true),
                    &down(TWO, false),
                    &[Op::Advance(30), Op::Jump(200)],
                    &down(0, false),
                    &[Op::Advance(40)],
                ]
                .concat(),
                // Answers that are none, once and for all.
                vec![Op::Mend, Op::Grader(bad), Op::Submit(sub, content), Op::Advance(60)],
                vec![
                    Op::Mend,
                    Op::Next(bad, 2),
                    Op::Reorder(true),
                    sure,
                    Op::Advance(60),
                    Op::Redeliver(sub),
                ],
                vec![
                    Op::Mend,
                    Op::Grader(says),
                    Op::Submit(sub, content),
                    Op::Advance(90),
                    Op::Mend,
                    Op::Advance(60),
                ],
                // The grader is away for longer than anybody waits, and a person lets the mail go, or has it graded anew.
                vec![Op::Mend, Op::Away(true), sure, Op::Advance(230), Op::Release(sub), Op::Claim(sub)],
                vec![
                    Op::Mend,
                    Op::Away(true),
                    sure,
                    Op::Advance(230),
                    Op::Mend,
                    Op::Regrade(sub),
                    Op::Advance(40),
                ],
                // While it waits for its next try.
                [&mend[..], &[Op::Grader(bad), sure, Op::Advance(4)], &down(TWO, true), &[Op::Advance(220)]]
                    .concat(),
                // A request that nobody can read.
                [
                    &mend[..],
                    &down(TWO, true),
                    &[sure, Op::Advance(3), Op::Garble(sub)],
                    &down(TWO, false),
                    &[Op::Advance(9)],
                ]
                .concat(),
                // Somebody dies who makes its leases longer: one of its jobs stands still, and locks nothing.
                [
                    &mend[..],
                    &both(Op::StallAt, Point::After(Tx::Record)),
                    &[sure, Op::Advance(5)],
                    &both(Op::CrashAt, extend),
                    &[Op::Advance(45), Op::Advance(45)],
                ]
                .concat(),
                // People, from the desk to the relay, and late.
                vec![
                    Op::Mend,
                    Op::Submit(sub, Content::Unsure),
                    Op::Advance(8),
                    Op::Review(sub, twice),
                    Op::ReviewLate(sub),
                    Op::Claim(sub),
                ],
                vec![Op::Mend, sure, Op::Advance(8), Op::AskAgain(sub), Op::Redeliver(sub), Op::Claim(sub)],
                vec![Op::Mend, sure, Op::Advance(3), Op::Purge(sub), Op::Advance(8), Op::Redeliver(sub)],
            ];
            select(all)
        },
    )
}

/// Sequences of at least `length` operations.
pub(super) fn story(length: usize) -> impl Strategy<Value = Story> {
    let chunk = prop_oneof![8 => single().prop_map(|op| vec![op]), 2 => fragment()];
    let chunks = proptest::collection::vec(chunk, length);
    let switches = proptest::collection::vec(proptest::bool::weighted(1.0), length * 14);
    let submissions = proptest::collection::vec(content(), SUBMISSIONS);
    let (calibrated, sla) = (proptest::bool::weighted(0.8), select(vec![90, 180]));
    // The switches come first: what is not needed goes before what is needed becomes simpler.
    (switches, chunks, calibrated, sla, submissions).prop_map(
        |(switches, chunks, calibrated, sla, submissions)| {
            let steps = chunks.into_iter().flatten().zip(switches).filter_map(|(op, on)| on.then_some(op));
            Story { calibrated, sla, submissions, steps: steps.collect() }
        },
    )
}
