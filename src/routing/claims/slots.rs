//! Submissions that may be in work at once: all slots, one on trial and which, none while the gate is shut, and few at first
//! when it opens again (protocol, "Outages": jittered drain). Work whose record the database refuses again and again goes on
//! without a slot, or as many rows as there are slots would stop all the others.
//!
//! Invariant: nothing here does I/O.

use tokio::sync::mpsc;
use tokio::task::Id;
use uuid::Uuid;

use crate::ops::gate::GateState;

/// Slots right after the gate was shut.
const FIRST: usize = 2;

/// Slots in use at most; for a while after the gate was shut, fewer than configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots(usize);

/// The slot of one piece of work.
#[derive(Debug, Clone)]
pub struct Slot(mpsc::Sender<Id>);

impl Slot {
    /// A slot for work spawned with it; the channel's other end receives the task that gives it back.
    #[must_use]
    pub fn of(given_back: mpsc::Sender<Id>) -> Self {
        Self(given_back)
    }

    /// Frees this task's slot. A full channel drops the request: the task keeps its slot and asks again.
    pub fn give_back(&self) {
        if let Some(task) = tokio::task::try_id() {
            self.0.try_send(task).ok();
        }
    }
}

impl Default for Slots {
    /// All slots.
    fn default() -> Self {
        Self(usize::MAX)
    }
}

impl Slots {
    /// The gate was shut: work starts again with few slots.
    pub fn shut(&mut self) {
        self.0 = FIRST;
    }

    /// A piece of work has ended. Each end adds one slot, up to `max`, so that the slots double with every round.
    pub fn ended(&mut self, max: usize) {
        self.0 = self.0.saturating_add(1).min(max);
    }

    /// Slots that may be in use, of `max`, in this state of the gate.
    #[must_use]
    pub fn under(self, state: GateState, max: usize) -> usize {
        match state {
            GateState::Shut => 0,
            GateState::HalfOpen => 1.min(max),
            GateState::Open => self.0.min(max),
        }
    }
}

/// Number of the `waiting` submissions that are claimed now, of `slots` with `working` in use: what fits, `batch` at most.
/// While more wait than fit, none until half of the slots are free, or as many as a batch takes, because the database pays
/// per commit; but the claims never fall short of `busy`, the mails that the relay can be given at once. Nor does the claim
/// wait where no work has ended for a while (`stalled`): the work may be unable to end.
#[must_use]
pub fn worth_claiming(
    waiting: usize,
    slots: usize,
    working: usize,
    busy: usize,
    batch: usize,
    stalled: bool,
) -> usize {
    let free = slots.saturating_sub(working);
    let enough = slots.saturating_sub(busy).min(slots.div_ceil(2)).min(batch);
    if waiting > free && free < enough && !stalled { 0 } else { waiting.min(free).min(batch) }
}

/// Which of the `waiting` submissions goes on trial, by index: the first that was not `denied` in this outage. Denied ones
/// follow one after the other, once others had `time` to come: six that are denied for themselves would else be tried one by
/// one, ever more rarely, while all the others wait.
pub fn on_trial<'a>(
    mut waiting: impl Iterator<Item = &'a Uuid>,
    denied: impl Fn(Uuid) -> bool,
    time: bool,
) -> Option<usize> {
    waiting.position(|id| !denied(*id)).or(time.then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_outage_the_slots_double_with_every_round() {
        let mut slots = Slots::default();
        assert_eq!(slots.under(GateState::Open, 64), 64);
        slots.shut();
        let mut rounds = Vec::new();
        while rounds.len() < 7 {
            let round = slots.under(GateState::Open, 64);
            rounds.push(round);
            (0..round).for_each(|_| slots.ended(64));
        }
        assert_eq!(rounds, [2, 4, 8, 16, 32, 64, 64]);
    }

    /// Waiting, slots, in use, mails that keep the relay busy, a batch: how many are claimed.
    #[test]
    fn under_a_backlog_claims_gather_until_half_of_the_slots_are_free_or_a_batch() {
        for (waiting, slots, working, busy, batch, claimed) in [
            (0, 64, 0, 16, 64, 0),
            (1, 64, 0, 16, 64, 1),
            (1, 64, 63, 16, 64, 1),
            (1, 64, 64, 16, 64, 0),
            (2, 64, 63, 16, 64, 0),
            (1000, 64, 0, 16, 64, 64),
            (1000, 64, 33, 16, 64, 0),
            (1000, 64, 32, 16, 64, 32),
            (31, 64, 33, 16, 64, 31),
            (1000, 20, 17, 16, 64, 0),
            (1000, 20, 16, 16, 64, 4),
            (1000, 8, 7, 16, 64, 1),
            (1000, 0, 0, 16, 64, 0),
            (1000, 256, 193, 64, 64, 0),
            (1000, 256, 192, 64, 64, 64),
            (1000, 256, 0, 64, 64, 64),
            (1000, 64, 63, 16, 1, 1),
        ] {
            let found =
                [false, true].map(|stalled| worth_claiming(waiting, slots, working, busy, batch, stalled));
            let fits = waiting.min(slots - working).min(batch);
            assert_eq!(
                found,
                [claimed, fits],
                "{waiting} wait, {working} of {slots} in use, {busy} busy, {batch} at once"
            );
        }
    }

    #[test]
    fn on_trial_goes_who_was_not_denied_yet_and_else_whose_turn_it_is() {
        let waiting: Vec<Uuid> = [1, 2, 3].map(Uuid::from_u128).to_vec();
        let denied_until = |n| move |id: Uuid| id <= Uuid::from_u128(n);
        for (denied, time, expected) in [
            (0, false, Some(0)),
            (0, true, Some(0)),
            (2, false, Some(2)),
            (2, true, Some(2)),
            (3, false, None),
            (3, true, Some(0)),
        ] {
            let found = on_trial(waiting.iter(), denied_until(denied), time);
            assert_eq!(found, expected, "{denied} were denied, others had time: {time}");
        }
    }

    #[test]
    fn shut_is_none_and_a_trial_is_one() {
        let mut slots = Slots::default();
        assert_eq!((slots.under(GateState::Shut, 64), slots.under(GateState::HalfOpen, 64)), (0, 1));
        slots.shut();
        assert_eq!(slots.under(GateState::Open, 1), 1);
    }
}
