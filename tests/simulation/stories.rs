//! Stories: sequences that say something by themselves, and every shrunk sequence that ever failed.

use devkit::help_desk::Call;

use crate::ops::{Again, At, Files, FormKind, Op, Point, Refused, Step, Story, Sub, Trouble, Tx};
use crate::run::{holds, holds_and};
use crate::tickets;
use crate::world::World;

/// Submissions without attachments, and what happens to them.
fn story(steps: &[Op]) -> Story {
    let submissions = [FormKind::One, FormKind::Two, FormKind::Many, FormKind::Mixed];
    let submissions = submissions.map(|form| Sub(form, Files::None)).to_vec();
    Story { hold: false, submissions, steps: steps.to_vec() }
}

/// The same for both daemons: nobody knows which one takes the event.
fn each(op: fn(usize, Point) -> Op, point: Point) -> [Op; 2] {
    [op(0, point), op(1, point)]
}

#[test]
fn nothing_goes_wrong() {
    holds(&story(&[Op::Deliver(0), Op::Deliver(1), Op::Deliver(2), Op::Deliver(3)]));
}

#[test]
fn no_event_ever_comes() {
    holds(&story(&[]));
}

/// The claim stands, its answer is lost, and before it is repeated under its token the sweep has taken it back.
#[test]
fn a_claim_is_repeated_after_it_was_taken_back() {
    let lost = each(Op::CutAt, Point::After(Tx::Claim));
    holds(&story(&[&lost[..], &[Op::Deliver(0), Op::Jump(900), Op::Advance(70)]].concat()));
}

/// A delivery on hold was recorded without a send; the process died before it could end the claim.
#[test]
fn a_delivery_on_hold_is_recorded_and_its_process_dies() {
    let steps = [
        &each(Op::CrashAt, Point::Smtp(At::Stored))[..],
        &[Op::Submit(0, FormKind::Mixed, Files::None), Op::Advance(700), Op::Advance(100)],
        &each(Op::CrashAt, Point::After(Tx::Record)),
        &[Op::Deliver(0), Op::Advance(700)],
    ];
    holds(&Story { hold: true, ..story(&steps.concat()) });
}

#[test]
fn an_attachment_turns_infected_between_claim_and_begin() {
    let steps = [
        &each(Op::StallAt, Point::After(Tx::Claim))[..],
        &[Op::Submit(0, FormKind::Two, Files::Clean), Op::Flip(0, Files::Infected)],
        &[Op::Resume(0), Op::Resume(1)],
    ];
    holds(&story(&steps.concat()));
}

/// A worker sleeps with its mail stored and its 250 unread until its claim has gone to another, and wakes.
#[test]
fn a_worker_wakes_too_late() {
    let steps = [
        &each(Op::StallAt, Point::Smtp(At::Stored))[..],
        &[Op::Deliver(1), Op::Jump(900), Op::Advance(70), Op::Redeliver(1), Op::Resume(0), Op::Resume(1)],
    ];
    holds(&story(&steps.concat()));
}

/// The fact is spooled, its process dies, and so does the next one while it records it.
#[test]
fn a_fact_outlives_the_database_and_two_processes() {
    let reborn = |daemon| {
        let at = Point::Before(Tx::MergeFacts);
        [Op::Crash(daemon), Op::Rush, Op::CrashAt(daemon, at), Op::Rush]
    };
    let steps = [
        &each(Op::StallAt, Point::Smtp(At::Stored))[..],
        &[Op::Deliver(0), Op::Outage(0, true), Op::Outage(1, true), Op::Resume(0), Op::Resume(1)],
        &reborn(0),
        &reborn(1),
        &[Op::Advance(5)],
    ];
    holds(&story(&steps.concat()));
}

/// A row takes no write at all, before its claim, under it and when it is taken back: the others go on, and it ends when it
/// takes them again.
#[test]
fn a_row_that_takes_no_write_keeps_nothing_from_the_others() {
    let refuse = |sub| Op::Refuse(sub, Refused::Everything);
    let stand = Op::StallAt(0, Point::Smtp(At::Stored));
    let steps = [
        &[Op::Outage(1, true), refuse(0), Op::Rush, Op::Deliver(0), stand][..],
        &[Op::Rush, Op::Deliver(1), refuse(1), Op::Resume(0), Op::Deliver(2), Op::Deliver(3)],
        &[Op::Advance(700), Op::Advance(700), Op::Sweep(0)],
    ];
    holds(&story(&steps.concat()));
}

/// A row takes no fact for longer than its claim lasts, and is taken back: its daemon knows what was sent, sends
/// nothing of it again, routes others meanwhile, and records it in the end.
#[test]
fn what_is_refused_lies_in_the_spool_and_is_not_sent_again() {
    let long = [Op::Advance(700); 4];
    let others = [Op::Deliver(1), Op::Deliver(2), Op::Deliver(3)];
    let steps = [
        &[Op::Outage(1, true), Op::Refuse(0, Refused::Facts), Op::Deliver(0)][..],
        &long,
        &others,
        &[Op::Deliver(0), Op::Advance(300), Op::Refuse(0, Refused::Nothing), Op::Advance(90), Op::Deliver(0)],
    ];
    holds_and(&story(&steps.concat()), |world| {
        let of_it = world.submissions[0].id.simple().to_string();
        let mails = world.mails();
        let sent = mails.iter().filter(|mail| mail.message_id.as_ref().is_some_and(|id| id.contains(&of_it)));
        let sent = sent.count();
        (sent != 1).then(|| format!("it was sent {sent} times")).into_iter().collect()
    });
}

/// The other daemon's relay gives the mail that an operator asked for the queue id which the first one gave the mail
/// before: it is a fact all the same.
#[test]
fn two_relays_give_two_mails_one_queue_id() {
    let (first, other) = ([Op::Outage(1, true), Op::Deliver(0)], [Op::Outage(0, true), Op::Outage(1, false)]);
    let in_time = [Op::Advance(700), Op::Advance(700)];
    let again = [Op::Replay(0, Again::Force(1))];
    holds(&story(&[&first[..], &in_time, &other, &again, &in_time].concat()));
}

/// Both doors of the help desk misbehave so many times.
fn trouble(what: Trouble, times: u64) -> [Op; 2] {
    [0, 1].map(|daemon| Op::Desk(daemon, what, times))
}

/// A submission that wants a ticket; what was there before it wants mails alone, and meets no fault that is meant for it.
const WANTED: Op = Op::Submit(3, FormKind::Mixed, Files::None);

fn tickets_story(steps: &[Op]) -> Story {
    Story { submissions: vec![Sub(FormKind::One, Files::None); 4], ..story(steps) }
}

/// The time in which a ticket in doubt is looked for, comes again and is looked for again.
const LOOKED_FOR: [Op; 6] = [Op::Advance(90); 6];

/// What is wrong unless the ticket is there once, after so many creations, and found by a search or not.
fn came_about(world: &World, creations: usize, found: bool) -> Vec<String> {
    let tag = tickets::tag(world.submissions[3].id, "2", 0);
    let calls = world.desk.calls();
    let of_it = || calls.iter().filter(|call| call.tags.contains(&tag));
    let asked = of_it().filter(|call| call.call == Call::Create).count();
    let seen = of_it().any(|call| call.call == Call::Search && call.answered && call.tickets == Some(1));
    let there = world.desk.tagged(&tag).len();
    let right = (asked, seen, there) == (creations, found, 1);
    let wrong = || format!("{there} tickets after {asked} creations, found: {seen}: {calls:?}");
    (!right).then(wrong).into_iter().collect()
}

#[test]
fn a_ticket_is_made_at_once() {
    holds_and(&tickets_story(&[WANTED, Op::Advance(5)]), |world| came_about(world, 1, false));
}

/// The ticket is made, and its answer lost: it is found by its tag and not made again, whatever the policy for doubt is.
#[test]
fn a_ticket_whose_answer_was_lost_is_found_by_its_tag() {
    for hold in [false, true] {
        let steps = [&trouble(Trouble::AnswerLost, 1)[..], &[WANTED], &LOOKED_FOR].concat();
        holds_and(&Story { hold, ..tickets_story(&steps) }, |world| came_about(world, 1, true));
    }
}

/// A 503 says nothing of what was done: the ticket is looked for over the doubt window, and made when it is not there.
#[test]
fn a_ticket_that_was_answered_503_is_looked_for_and_made() {
    let steps = [&trouble(Trouble::Busy, 1)[..], &[WANTED], &LOOKED_FOR];
    // Whichever daemons take it meet their own 503.
    holds_and(&tickets_story(&steps.concat()), |world| {
        let (once, twice) = (came_about(world, 2, false), came_about(world, 3, false));
        if once.is_empty() || twice.is_empty() { Vec::new() } else { once }
    });
}

/// A search that is silent or away says nothing: the ticket waits, and what becomes of it is decided by the first answers.
#[test]
fn a_ticket_waits_for_a_search_that_answers() {
    let when = |first, search| {
        let away = [&trouble(first, 1)[..], &trouble(search, 3), &[Op::Outage(1, true), WANTED]];
        tickets_story(&[&away.concat()[..], &LOOKED_FOR, &[Op::Outage(1, false)], &LOOKED_FOR].concat())
    };
    for search in [Trouble::SearchSilent, Trouble::SearchAway] {
        holds_and(&when(Trouble::AnswerLost, search), |world| came_about(world, 1, true));
        holds_and(&when(Trouble::Busy, search), |world| came_about(world, 2, false));
    }
}

/// A process dies with its ticket on the way: before anything of it was read, before it was made, and after that. Whoever
/// comes next looks for it.
#[test]
fn a_process_dies_while_its_ticket_is_made() {
    for (step, creations) in [(Step::Asked, 1), (Step::Read, 2), (Step::Made, 1)] {
        let die = Op::CrashAt(0, Point::Ticket(step));
        let alone = [Op::Outage(1, true), die, WANTED, Op::Advance(5), Op::Outage(1, false), Op::Mend];
        let steps = [&alone[..], &[Op::Advance(700), Op::Advance(700)], &LOOKED_FOR].concat();
        holds_and(&tickets_story(&steps), |world| came_about(world, creations, step == Step::Made));
    }
}

/// The ticket is made, and its process dies before and after the fact is committed.
#[test]
fn a_process_dies_between_its_ticket_and_the_fact() {
    for half in [Point::Before(Tx::Record), Point::After(Tx::Record)] {
        let made = [Op::StallAt(0, Point::Ticket(Step::Made)), Op::Outage(1, true), WANTED, Op::Advance(5)];
        let dies = [Op::CrashAt(0, half), Op::Resume(0), Op::Outage(1, false), Op::Advance(700)];
        let steps = [&made[..], &dies, &[Op::Advance(700)], &LOOKED_FOR].concat();
        let found = half == Point::Before(Tx::Record);
        holds_and(&tickets_story(&steps), |world| came_about(world, 1, found));
    }
}
