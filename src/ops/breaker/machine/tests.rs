use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "any instant will do")]
fn start() -> Instant {
    Instant::now()
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns the state's name, to compare.
fn name(machine: &Machine) -> &'static str {
    match machine.state() {
        State::Closed => "closed",
        State::Suspect { .. } => "suspect",
        State::Open { cause: Cause::Unreachable, .. } => "open",
        State::Open { cause: Cause::Denied, .. } => "denied",
        State::Trial { .. } => "trial",
    }
}

fn deny<'a>(n: u128, recipients: &'a [String]) -> Event<'a> {
    Event::Denied { submission: id(n), recipients, what: "relay access denied" }
}

#[test]
fn the_table_of_a_connection() {
    use Event::{Fault, Passed, ProbeFailed, ProbeWorked};
    let all = names(&["a@x"]);
    let passed = Passed { accepted: &all };
    let table: &[(&str, &[Event<'_>], &str)] = &[
        ("one fault", &[Fault("f")], "suspect"),
        ("a good probe ends the suspicion", &[Fault("f"), ProbeWorked], "closed"),
        ("two bad probes confirm a fault", &[Fault("f"), ProbeFailed("p"), ProbeFailed("p")], "open"),
        ("one bad probe does not", &[Fault("f"), ProbeFailed("p")], "suspect"),
        ("faults and a bad probe do", &[Fault("f"), Fault("f"), ProbeFailed("p")], "open"),
        ("many faults alone do not", &[Fault("f"); 20], "suspect"),
        ("a good probe starts the count anew", &[Fault("f"), Fault("f"), ProbeWorked, Fault("f")], "suspect"),
        ("a success of an older connection ends no suspicion", &[Fault("f"), passed], "suspect"),
        ("a success ends no outage", &[Fault("f"), ProbeFailed("p"), ProbeFailed("p"), passed], "open"),
        (
            "a fault adds nothing to an outage",
            &[Fault("f"), ProbeFailed("p"), ProbeFailed("p"), Fault("f")],
            "open",
        ),
        (
            "a good probe ends an outage",
            &[Fault("f"), ProbeFailed("p"), ProbeFailed("p"), ProbeFailed("p"), ProbeWorked],
            "closed",
        ),
        ("nothing is due", &[Event::TrialDue, ProbeWorked, passed], "closed"),
    ];
    for (what, events, expected) in table {
        let (mut machine, now) = (Machine::default(), start());
        for event in *events {
            machine.on(*event, now, 0.5);
        }
        assert_eq!(name(&machine), *expected, "{what}");
    }
}

#[test]
fn it_tells_once_that_it_opened_why_and_how_long_it_was() {
    let (mut machine, t0) = (Machine::default(), start());
    assert_eq!(machine.on(Event::Fault("refused"), t0, 0.0), None);
    assert_eq!(machine.task(), Task::Probe(t0), "at once");
    assert_eq!(machine.on(Event::ProbeFailed("p"), t0, 0.0), None);
    assert_eq!(machine.task(), Task::Probe(t0 + SECOND));
    let opened = machine.on(Event::ProbeFailed("p"), t0 + SECOND, 0.0);
    assert_eq!(opened, Some(Change::Opened(Cause::Unreachable, "refused".to_owned())));
    assert!(machine.is_open());
    for n in 0..1_000 {
        assert_eq!(machine.on(Event::ProbeFailed("p"), t0 + n * SECOND, 0.0), None);
    }
    assert_eq!(machine.on(Event::ProbeWorked, t0 + 3601 * SECOND, 0.0), Some(Change::Closed(3600 * SECOND)));
    assert_eq!(machine.on(Event::ProbeWorked, t0 + 3602 * SECOND, 0.0), None);
}

#[test]
fn probes_grow_apart_to_half_a_minute_with_full_jitter() {
    let (mut machine, t0) = (Machine::default(), start());
    for event in [Event::Fault("f"), Event::ProbeFailed("p"), Event::ProbeFailed("p")] {
        machine.on(event, t0, 1.0);
    }
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let Task::Probe(at) = machine.task() else { panic!("{machine:?}") };
        pauses.push((at - t0).as_secs());
        machine.on(Event::ProbeFailed("p"), t0, 1.0);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!((pause(9, 0.0), pause(9, 0.5)), (SECOND, SECOND + 29 * SECOND / 2));
}

#[test]
fn five_distinct_submissions_denied_in_a_row_open_it_and_an_acceptance_starts_anew() {
    let (mut machine, now) = (Machine::default(), start());
    let (a, b) = (names(&["a@x"]), names(&["b@x"]));
    for n in 0..4 {
        assert_eq!(machine.on(deny(n, &a), now, 0.0), None);
        assert_eq!(machine.on(deny(n, &a), now, 0.0), None, "the same submission counts once");
    }
    machine.on(Event::Passed { accepted: &b }, now, 0.0);
    for n in 0..4 {
        assert_eq!(machine.on(deny(n, &a), now, 0.0), None, "{n}");
    }
    machine.on(Event::Passed { accepted: &[] }, now, 0.0);
    let opened = machine.on(deny(4, &a), now, 0.0);
    assert_eq!(opened, Some(Change::Opened(Cause::Denied, "relay access denied".to_owned())));
    machine.on(Event::ProbeWorked, now, 0.0);
    assert_eq!(name(&machine), "denied", "that it answers is not the question");
}

fn denied(recipients: &[String], now: Instant) -> Machine {
    let mut machine = Machine::default();
    for n in 0..5 {
        machine.on(deny(n, recipients), now, 0.0);
    }
    assert_eq!(name(&machine), "denied");
    machine
}

#[test]
fn a_trial_decides_over_a_denial() {
    let (a, now) = (names(&["a@x"]), start());
    let table: [(&str, Event<'_>, &str, Option<Change>); 5] = [
        ("denied again", deny(9, &a), "denied", Some(Change::ShutAgain)),
        ("no answer", Event::Fault("f"), "denied", Some(Change::ShutAgain)),
        ("accepted", Event::Passed { accepted: &a }, "closed", Some(Change::Closed(Duration::ZERO))),
        (
            "refused for itself",
            Event::Passed { accepted: &[] },
            "closed",
            Some(Change::Closed(Duration::ZERO)),
        ),
        ("a probe says nothing", Event::ProbeWorked, "trial", None),
    ];
    for (what, event, expected, change) in table {
        let mut machine = denied(&a, now);
        assert_eq!(machine.task(), Task::Trial(now + SECOND), "{what}");
        assert_eq!(machine.on(Event::TrialDue, now, 0.0), Some(Change::HalfOpen), "{what}");
        assert_eq!(machine.on(event, now, 0.0), change, "{what}");
        assert_eq!(name(&machine), expected, "{what}");
    }
}

#[test]
fn trials_grow_apart_too() {
    let (a, now) = (names(&["a@x"]), start());
    let mut machine = denied(&a, now);
    for expected in [1, 2, 4] {
        machine.on(Event::TrialDue, now, 1.0);
        machine.on(deny(9, &a), now, 1.0);
        assert_eq!(machine.task(), Task::Trial(now + 2 * expected * SECOND));
    }
}

/// Everything for one recipient is denied, others are accepted: the breaker opens once and never again.
#[test]
fn a_recipient_that_others_prove_to_be_denied_for_itself_opens_nothing_any_more() {
    let (poison, good, now) = (names(&["poison@x"]), names(&["good@x"]), start());
    let mut machine = denied(&poison, now);
    machine.on(Event::TrialDue, now, 0.0);
    machine.on(Event::Passed { accepted: &good }, now, 0.0);
    for n in 10..100 {
        assert_eq!(machine.on(deny(n, &poison), now, 0.0), None);
    }
    // Accepted once, the recipient counts again.
    machine.on(Event::Passed { accepted: &poison }, now, 0.0);
    for n in 100..105 {
        machine.on(deny(n, &poison), now, 0.0);
    }
    assert_eq!(name(&machine), "denied");
}

#[test]
fn what_was_denied_in_an_outage_is_known_until_it_ends_and_stays_bounded() {
    let (poison, good, now) = (names(&["poison@x"]), names(&["good@x"]), start());
    let mut machine = Machine::default();
    machine.on(deny(0, &poison), now, 0.0);
    assert!(!machine.was_denied(id(0)), "there is no outage");
    let mut machine = denied(&poison, now);
    machine.on(deny(5, &poison), now, 0.0);
    machine.on(Event::TrialDue, now, 0.0);
    assert!(!machine.was_denied(id(6)));
    machine.on(deny(6, &poison), now, 0.0);
    assert!((0..=6).all(|n| machine.was_denied(id(n))), "before, since, and on trial");
    for n in 7..1000 {
        machine.on(deny(n, &poison), now, 0.0);
    }
    assert!(machine.was_denied(id(999)) && !machine.was_denied(id(100)) && machine.tried.len() == TRIED);
    machine.on(Event::TrialDue, now, 0.0);
    machine.on(Event::Passed { accepted: &good }, now, 0.0);
    assert!((0..1000).all(|n| !machine.was_denied(id(n))) && machine.tried.is_empty());
}

#[test]
fn what_is_excused_stays_bounded() {
    let now = start();
    let mut machine = Machine::default();
    for n in 0..500_u128 {
        let recipients = names(&[&format!("{n}@x")]);
        for m in 0..5 {
            machine.on(deny(n * 5 + m, &recipients), now, 0.0);
        }
        machine.on(Event::TrialDue, now, 0.0);
        machine.on(Event::Passed { accepted: &names(&["good@x"]) }, now, 0.0);
        assert!(machine.excused.len() <= 2 * EXCUSED);
    }
}
