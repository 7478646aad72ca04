//! Consequences of a callback, or of the time: the ways that an attempt goes. Pure.
//!
//! Callbacks come at least once and in any order. Progress that is not newer than what is known says nothing; an end implies the steps that
//! nobody heard of; and what comes after an end changes nothing any more: a result is kept as late, or as the twin of one that was first.

use super::table::{Command, Grading, State};
use crate::kernel::{NotPossible, Transition, Who, words};

/// An attempt, as far as a callback is judged by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Known {
    /// Its state.
    pub state: State,
    /// The newest progress: the job's try, and the number of its callback.
    pub heard: (u32, u32),
}

words! {
    /// The job's progress, by a callback.
    Progress {
        /// It is worked on.
        Processing = "PROCESSING",
        /// A try has failed.
        Error = "ERROR",
        /// It waits for another try.
        Retrying = "RETRYING",
    }
}

/// A callback, as far as it moves an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heard {
    /// The job goes on.
    Progress(Progress),
    /// The job is done, with a valid result; a person has to look at it, or not.
    Result {
        /// Whether a person has to look.
        review: bool,
    },
    /// The job was given up on; of an invalid one the grader could make nothing.
    Error {
        /// Whether it was no job at all.
        invalid: bool,
    },
}

/// The fate of a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The attempt goes these ways, the last of which the callback tells; the others were not heard of.
    Moves(Vec<Transition<Grading>>),
    /// It is newer, and the state is the same.
    Noted,
    /// It is older than what is known.
    Old,
    /// It came after the end: a result is kept as late, and counts nowhere.
    Late,
    /// There is a result already: another one of the same try is kept as its twin.
    Second,
}

/// The consequence of a callback of `(try, number)`.
///
/// # Errors
/// [`NotPossible`]: the table has no way there. An attempt that was never queued has no job.
pub fn take(known: Known, at: (u32, u32), heard: Heard) -> Result<Taken, NotPossible> {
    if known.state == State::Failed {
        return Ok(match heard {
            Heard::Result { .. } => Taken::Late,
            Heard::Progress(_) | Heard::Error { .. } => Taken::Old,
        });
    }
    if matches!(known.state, State::Completed | State::ReviewPending) {
        return Ok(match heard {
            Heard::Result { .. } => Taken::Second,
            Heard::Progress(_) | Heard::Error { .. } => Taken::Old,
        });
    }
    match heard {
        Heard::Progress(_) if at <= known.heard => Ok(Taken::Old),
        Heard::Progress(progress) => {
            let to = match progress {
                Progress::Processing => State::Processing,
                Progress::Error => State::Error,
                Progress::Retrying => State::Retrying,
            };
            if to == known.state {
                return Ok(Taken::Noted);
            }
            Ok(Taken::Moves(way(known.state, to)?))
        }
        Heard::Result { review } => {
            let mut ways = way(known.state, State::Processing)?;
            let command = if review { Command::ReviewRequired } else { Command::Completed };
            ways.push(Transition::of(State::Processing, command, Who::SYSTEM)?);
            Ok(Taken::Moves(ways))
        }
        Heard::Error { invalid: true } if known.state == State::Queued => {
            Ok(Taken::Moves(vec![Transition::of(known.state, Command::InvalidJob, Who::SYSTEM)?]))
        }
        Heard::Error { .. } => {
            let mut ways = match known.state {
                State::Error | State::Retrying => Vec::new(),
                State::Pending
                | State::Queued
                | State::Processing
                | State::ReviewPending
                | State::Completed
                | State::Failed => way(known.state, State::Error)?,
            };
            let from = ways.last().map_or(known.state, |last| last.to());
            ways.push(Transition::of(from, Command::GaveUp, Who::SYSTEM)?);
            Ok(Taken::Moves(ways))
        }
    }
}

/// The deadline has passed.
///
/// # Errors
/// [`NotPossible`]: no deadline runs in this state.
pub fn time_out(state: State) -> Result<Transition<Grading>, NotPossible> {
    Transition::of(state, Command::Timeout, Who::SYSTEM)
}

/// The job's own way from one state to another, step by step; none where they are the same.
fn way(from: State, to: State) -> Result<Vec<Transition<Grading>>, NotPossible> {
    let mut ways = Vec::new();
    let mut state = from;
    while state != to {
        let command = match state {
            State::Error => Command::Retry,
            State::Retrying => Command::RetryDue,
            State::Processing => Command::TryFailed,
            // Before its queue, and after its end, an attempt has no such way: the table says so.
            State::Queued | State::Pending | State::ReviewPending | State::Completed | State::Failed => {
                Command::PickedUp
            }
        };
        let next = Transition::of(state, command, Who::SYSTEM)?;
        ways.push(next);
        state = next.to();
    }
    Ok(ways)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: (u32, u32) = (1, 1);

    fn commands(taken: &Taken) -> Vec<&'static str> {
        match taken {
            Taken::Moves(ways) => ways.iter().map(|way| way.command().label()).collect(),
            Taken::Noted | Taken::Old | Taken::Late | Taken::Second => Vec::new(),
        }
    }

    fn taken(state: State, heard: Heard) -> Result<Taken, NotPossible> {
        take(Known { state, heard: (0, 0) }, FIRST, heard)
    }

    #[test]
    fn an_end_implies_what_nobody_heard_of() {
        let result = |review| Heard::Result { review };
        let error = |invalid| Heard::Error { invalid };
        for (state, heard, expected) in [
            (State::Queued, result(false), "picked-up completed"),
            (State::Queued, result(true), "picked-up review-required"),
            (State::Processing, result(false), "completed"),
            (State::Error, result(false), "retry retry-due completed"),
            (State::Retrying, result(true), "retry-due review-required"),
            (State::Queued, error(false), "picked-up try-failed gave-up"),
            (State::Queued, error(true), "invalid-job"),
            (State::Processing, error(false), "try-failed gave-up"),
            (State::Processing, error(true), "try-failed gave-up"),
            (State::Error, error(false), "gave-up"),
            (State::Retrying, error(false), "gave-up"),
            (State::Queued, Heard::Progress(Progress::Processing), "picked-up"),
            (State::Queued, Heard::Progress(Progress::Retrying), "picked-up try-failed retry"),
            (State::Retrying, Heard::Progress(Progress::Error), "retry-due try-failed"),
            (State::Error, Heard::Progress(Progress::Processing), "retry retry-due"),
        ] {
            let found = taken(state, heard).expect("a way");
            assert_eq!(commands(&found).join(" "), expected, "{state} {heard:?}");
        }
        assert!(taken(State::Pending, result(false)).is_err(), "it was never queued");
    }

    #[test]
    fn progress_that_is_not_newer_says_nothing() {
        let known = Known { state: State::Retrying, heard: (2, 5) };
        for at in [(1, 9), (2, 4), (2, 5)] {
            assert_eq!(take(known, at, Heard::Progress(Progress::Processing)), Ok(Taken::Old), "{at:?}");
        }
        assert_eq!(take(known, (2, 6), Heard::Progress(Progress::Retrying)), Ok(Taken::Noted));
        let found = take(known, (3, 6), Heard::Progress(Progress::Processing)).expect("a way");
        assert_eq!(commands(&found), ["retry-due"]);
        // An end needs no number: it is the last that a job says.
        let found = take(known, (1, 1), Heard::Result { review: false }).expect("a way");
        assert_eq!(commands(&found), ["retry-due", "completed"]);
    }

    #[test]
    fn nothing_changes_an_end() {
        let every = [
            Heard::Progress(Progress::Processing),
            Heard::Progress(Progress::Error),
            Heard::Progress(Progress::Retrying),
            Heard::Result { review: true },
            Heard::Result { review: false },
            Heard::Error { invalid: true },
            Heard::Error { invalid: false },
        ];
        for heard in every {
            for (state, kept) in [
                (State::Failed, Taken::Late),
                (State::Completed, Taken::Second),
                (State::ReviewPending, Taken::Second),
            ] {
                let expected = if matches!(heard, Heard::Result { .. }) { kept } else { Taken::Old };
                assert_eq!(taken(state, heard), Ok(expected), "{state} {heard:?}");
            }
        }
    }

    #[test]
    fn time_fails_whatever_no_person_has() {
        for state in State::ALL {
            assert_eq!(time_out(*state).is_ok(), state.is_timed(), "{state}");
        }
    }
}
