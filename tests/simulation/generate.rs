//! Composition of sequences by proptest.
//!
//! Besides single operations there are fragments, a few operations that only together reach a rare state (an
//! infection between claim and intent, a worker that wakes after its claim was given to another). Each step has a
//! switch that shrinks to "off", so that a failing fragment loses what it does not need.

use devkit::stage::Source;
use proptest::prelude::*;
use proptest::sample::select;

use crate::ops::{
    Again, At, DAEMONS, Files, FormKind, How, Op, Point, Refused, SUBMISSIONS, Step, Story, Sub, Trouble, Tx,
};

fn files() -> impl Strategy<Value = Files> {
    prop_oneof![4 => Just(Files::None), 2 => Just(Files::Clean), 3 => Just(Files::Pending), 1 => Just(Files::Infected)]
}

fn form() -> impl Strategy<Value = FormKind> {
    select(vec![FormKind::One, FormKind::Many, FormKind::Two, FormKind::Mixed])
}

fn stage() -> impl Strategy<Value = At> {
    select(At::ALL.to_vec())
}

fn database_point() -> impl Strategy<Value = Point> {
    let likely = [Tx::Claim, Tx::Begin, Tx::Record, Tx::Release];
    select(likely.into_iter().flat_map(|tx| [Point::Before(tx), Point::After(tx)]).collect::<Vec<_>>())
}

fn point(source: Source) -> impl Strategy<Value = Point> {
    prop_oneof![
        4 => database_point(),
        4 => stage().prop_map(Point::Smtp),
        1 => step().prop_map(Point::Ticket),
        1 => select(Point::of_events(source)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    select(Step::ALL.to_vec())
}

/// A request that stands still before its ticket is made and goes on after its sender has given it up would make a ticket
/// that nobody can know of: no protocol survives that, so a ticket stands still only once it is made.
fn stall_point() -> impl Strategy<Value = Point> {
    let ticket = Just(Point::Ticket(Step::Made));
    prop_oneof![6 => database_point(), 6 => stage().prop_map(Point::Smtp), 1 => ticket]
}

fn cut_point() -> impl Strategy<Value = Point> {
    prop_oneof![6 => database_point(), 1 => step().prop_map(Point::Ticket)]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        4 => Just(Trouble::AnswerLost), 4 => Just(Trouble::Busy), 3 => Just(Trouble::SearchAway),
        1 => Just(Trouble::SearchSilent),
    ]
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        6 => Just(How::Later), 3 => Just(How::Never), 2 => Just(How::NotUs), 4 => Just(How::Drop),
        1 => Just(How::Silence), 1 => Just(How::Garbage),
    ]
}

fn again() -> impl Strategy<Value = Again> {
    prop_oneof![3 => Just(Again::Plain), 1 => (1..3_i32).prop_map(Again::Force), 1 => Just(Again::Replan)]
}

fn refused() -> impl Strategy<Value = Refused> {
    select(vec![Refused::Nothing, Refused::Facts, Refused::Everything])
}

fn fault(daemon: usize) -> impl Strategy<Value = Op> {
    let to = prop_oneof![Just(None), (0..3_usize).prop_map(Some)];
    // Once the 250 is written nothing is left to spoil.
    let at = select(At::ALL[..7].to_vec());
    (at, how(), to, 1..4_u64).prop_map(move |(at, how, to, times)| Op::Fault(daemon, at, how, to, times))
}

fn single(source: Source) -> impl Strategy<Value = Op> {
    let (sub, daemon) = (0..SUBMISSIONS, 0..DAEMONS);
    prop_oneof![
        6 => (sub.clone(), form(), files()).prop_map(|(sub, form, files)| Op::Submit(sub, form, files)),
        9 => sub.clone().prop_map(Op::Deliver),
        5 => sub.clone().prop_map(Op::Redeliver),
        2 => sub.clone().prop_map(Op::Lose),
        2 => Just(Op::Reorder),
        1 => Just(Op::ForgetAck),
        4 => (sub.clone(), files()).prop_map(|(sub, to)| Op::Flip(sub, to)),
        2 => (form(), 0..4_usize).prop_map(|(form, other)| Op::Reload(form, other)),
        8 => daemon.clone().prop_flat_map(fault),
        3 => (daemon.clone(), cut_point()).prop_map(|(daemon, at)| Op::CutAt(daemon, at)),
        2 => (daemon.clone(), any::<bool>()).prop_map(|(daemon, down)| Op::Outage(daemon, down)),
        2 => any::<bool>().prop_map(Op::Hide),
        2 => (daemon.clone(), any::<bool>()).prop_map(|(daemon, down)| Op::RelayDown(daemon, down)),
        3 => (daemon.clone(), trouble(), 1..4_u64).prop_map(|(daemon, what, times)| Op::Desk(daemon, what, times)),
        1 => (daemon.clone(), any::<bool>()).prop_map(|(daemon, down)| Op::DeskDown(daemon, down)),
        8 => (daemon.clone(), point(source)).prop_map(|(daemon, at)| Op::CrashAt(daemon, at)),
        1 => daemon.clone().prop_map(Op::Crash),
        4 => (daemon.clone(), stall_point()).prop_map(|(daemon, at)| Op::StallAt(daemon, at)),
        3 => daemon.clone().prop_map(Op::Resume),
        12 => prop_oneof![3 => 1..20_u64, 3 => 20..90_u64, 1 => 100..700_u64].prop_map(Op::Advance),
        1 => (100..1300_u64).prop_map(Op::Jump),
        3 => daemon.clone().prop_map(Op::Stop),
        4 => daemon.prop_map(Op::Sweep),
        3 => (sub.clone(), refused()).prop_map(|(sub, refused)| Op::Refuse(sub, refused)),
        3 => (sub, again()).prop_map(|(sub, again)| Op::Replay(sub, again)),
        2 => (1..4_u64, any::<bool>()).prop_map(|(times, limited)| Op::SlackFault(times, limited)),
        1 => Just(Op::Mend),
        4 => Just(Op::Rush),
    ]
}

/// A few operations that reach what single random ones hardly would.
fn fragment() -> impl Strategy<Value = Vec<Op>> {
    let drawn = (0..SUBMISSIONS, 0..DAEMONS, form(), stall_point(), any::<bool>());
    let sweeps = select(vec![Tx::SweepStuck, Tx::SweepOrphans, Tx::SweepInfected]);
    let alerts = select(vec![Tx::AlertLease, Tx::AlertConfirm]);
    (drawn, sweeps, alerts).prop_flat_map(|((sub, daemon, form, at, before), sweep, alert)| {
        let other = (daemon + 1) % DAEMONS;
        let half = move |tx| if before { Point::Before(tx) } else { Point::After(tx) };
        let both = |op: fn(usize, At, How, Option<usize>, u64) -> Op, how, times| {
            [op(0, At::Rcpt, how, None, times), op(1, At::Rcpt, how, None, times)]
        };
        let later = |times| both(Op::Fault, How::Later, times);
        let [never_0, never_1] = both(Op::Fault, How::Never, 1);
        let (submit, scanned) = (Op::Submit(sub, form, Files::None), Op::Submit(sub, form, Files::Clean));
        // Whichever of them takes it.
        let each = |op: fn(usize, Point) -> Op, point| [op(0, point), op(1, point)];
        let stall = |point| each(Op::StallAt, point);
        let crash = |point| each(Op::CrashAt, point);
        let go_on = [Op::Resume(0), Op::Resume(1)];
        let dark = [Op::Outage(0, true), Op::Outage(1, true)];
        let reborn =
            |daemon| [Op::Crash(daemon), Op::Rush, Op::CrashAt(daemon, half(Tx::MergeFacts)), Op::Rush];
        let between = |to, then: [Op; 2]| {
            let stand = stall(Point::After(Tx::Claim));
            [&[Op::Mend], &stand[..], &[scanned, Op::Flip(sub, to)], &then, &go_on].concat()
        };
        let sent = stall(Point::Smtp(At::Stored));
        let all = vec![
            // A fact outlives the database, and the process that knows it; the next one dies while it records it.
            [&[Op::Mend], &sent[..], &[submit], &dark, &go_on, &reborn(0), &reborn(1), &[Op::Advance(5)]]
                .concat(),
            // A process dies while it touches its claims.
            [&[Op::Mend], &sent[..], &[submit], &crash(half(Tx::Heartbeat)), &[Op::Advance(130)]].concat(),
            // A process dies while it sweeps, with something to sweep.
            vec![
                Op::Mend,
                Op::Submit(sub, form, Files::Infected),
                Op::Lose(sub),
                Op::CrashAt(0, half(sweep)),
                Op::CrashAt(1, half(sweep)),
                Op::Sweep(daemon),
            ],
            // A process dies while it tells people.
            vec![
                Op::Mend,
                Op::Submit(sub, form, Files::Infected),
                Op::CrashAt(0, half(alert)),
                Op::CrashAt(1, half(alert)),
                Op::Advance(90),
                Op::Advance(60),
            ],
            // Infected between claim and intent.
            between(Files::Infected, crash(half(Tx::Fail))),
            between(Files::Infected, each(Op::CutAt, half(Tx::Fail))),
            // Not clean any more between claim and intent: given back.
            between(Files::Pending, crash(half(Tx::Release))),
            // Infected, and hidden, between claim and intent.
            [&between(Files::Infected, [Op::Hide(true), Op::Rush])[..], &[Op::Advance(5), Op::Hide(false)]]
                .concat(),
            // A worker sleeps until its claim has gone to another, and wakes.
            vec![
                Op::StallAt(daemon, at),
                submit,
                Op::Jump(900),
                Op::Advance(70),
                Op::Redeliver(sub),
                Op::Resume(daemon),
            ],
            // Attempts run out.
            [&later(6)[..], &[submit], &[15, 45, 60, 85].map(Op::Advance)].concat(),
            // Ended, and opened again.
            vec![Op::Mend, submit, Op::Replay(sub, Again::Force(1)), Op::Redeliver(sub)],
            vec![Op::Mend, never_0, never_1, submit, Op::Replay(sub, Again::Plain), Op::Redeliver(sub)],
            vec![Op::Mend, submit, Op::Reload(form, 1), Op::Replay(sub, Again::Replan), Op::Redeliver(sub)],
            // Events that wait, in another order.
            vec![Op::Outage(0, true), Op::Outage(1, true), submit, Op::Deliver(other), Op::Reorder],
            // A stop in the middle of a send.
            vec![Op::StallAt(daemon, at), submit, Op::Rush, Op::Stop(daemon)],
        ];
        // The first ones lead to where nothing else does, so they come more often; the very first is the longest way.
        select([&all[..1], &all[..3], &all[..7], &all[..7], &all[..]].concat())
    })
}

/// The taker of an event dies at a certain point: so that every point is reached often.
fn death(source: Source) -> impl Strategy<Value = Vec<Op>> {
    let events = select(Point::of_events(source));
    let point = prop_oneof![4 => database_point(), 4 => stage().prop_map(Point::Smtp), 1 => events];
    (0..SUBMISSIONS, form(), point, any::<bool>()).prop_map(|(sub, form, point, later)| {
        let mut ops = vec![Op::Mend, Op::CrashAt(0, point), Op::CrashAt(1, point)];
        if later {
            ops.extend([0, 1].map(|daemon| Op::Fault(daemon, At::Rcpt, How::Later, None, 1)));
        }
        ops.push(Op::Submit(sub, form, Files::None));
        ops
    })
}

/// A ticket, what goes wrong with it, and the time in which it is looked for.
fn ticket() -> impl Strategy<Value = Vec<Op>> {
    let search = prop_oneof![3 => Just(None), 2 => Just(Some(Trouble::SearchAway)), 1 => Just(Some(Trouble::SearchSilent))];
    let drawn = (0..SUBMISSIONS, step(), any::<bool>(), search, 1..3_u64);
    (drawn, 0..4_u32).prop_map(|((sub, step, lost, search, times), which)| {
        let both = |op: &dyn Fn(usize) -> Op| [op(0), op(1)];
        let trouble = |what| both(&|daemon| Op::Desk(daemon, what, times));
        let mut ops = vec![Op::Mend];
        ops.extend(match which {
            0 | 1 => both(&|daemon| Op::CrashAt(daemon, Point::Ticket(step))),
            _ if lost => trouble(Trouble::AnswerLost),
            _ => trouble(Trouble::Busy),
        });
        ops.extend(search.into_iter().flat_map(trouble));
        ops.extend([Op::Submit(sub, FormKind::Mixed, Files::None), Op::Advance(30), Op::Advance(90)]);
        ops
    })
}

/// Sequences of at least `length` operations.
pub(crate) fn story(source: Source, length: usize) -> impl Strategy<Value = Story> {
    let chunk = prop_oneof![24 => single(source).prop_map(|op| vec![op]), 4 => fragment(), 2 => death(source), 1 => ticket()];
    let chunks = proptest::collection::vec(chunk, length);
    // The longest fragment has seventeen, most have fewer than nine.
    let switches = proptest::collection::vec(proptest::bool::weighted(1.0), length * 9);
    let submission = (form(), files()).prop_map(|(form, files)| Sub(form, files));
    let submissions = proptest::collection::vec(submission, SUBMISSIONS);
    let hold = proptest::bool::weighted(0.25);
    // The switches come first: what is not needed goes before what is needed becomes simpler.
    (switches, chunks, hold, submissions).prop_map(|(switches, chunks, hold, submissions)| {
        let steps = chunks.into_iter().flatten().zip(switches).filter_map(|(op, on)| on.then_some(op));
        Story { hold, submissions, steps: steps.collect() }
    })
}
