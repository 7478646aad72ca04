//! What a run of the collector does with a blob, by what is known under its lock. Pure.

use super::table::{COLLECTOR, Command, State};
use crate::kernel::{NotPossible, Transition};
use crate::retention::table::Blob;

/// What is known of a blob under its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its state.
    pub state: State,
    /// Something refers to it, or an attachment names its object.
    pub is_referenced: bool,
    /// A hold names it, its form, or everything.
    pub is_held: bool,
    /// Its links are being recalled.
    pub is_recalled: bool,
    /// Its deadline has passed.
    pub is_due: bool,
    /// The run that marked it last.
    pub marked: Option<i64>,
}

impl Known {
    fn stays(self) -> bool {
        self.is_referenced || self.is_held || self.is_recalled
    }
}

/// The mark of `run`; nothing: the blob stays as it is.
///
/// # Errors
/// [`NotPossible`]: the table does not have what is decided here.
pub fn mark(known: Known, run: i64) -> Result<Option<Transition<Blob>>, NotPossible> {
    let to = |command, to| Transition::leading(known.state, command, to, COLLECTOR).map(Some);
    match known.state {
        State::Tombstoned if known.is_due && !known.stays() => to(Command::RetentionElapsed, State::Eligible),
        State::Eligible if known.is_referenced => to(Command::Mark, State::Live),
        State::Eligible if !known.stays() && known.marked != Some(run) => to(Command::Mark, State::Eligible),
        State::Live | State::Tombstoned | State::Eligible | State::Deleted => Ok(None),
    }
}

/// The sweep of `run`; nothing: the blob stays as it is.
///
/// # Errors
/// [`NotPossible`]: the table does not have what is decided here.
pub fn sweep(known: Known, run: i64) -> Result<Option<Transition<Blob>>, NotPossible> {
    if known.state != State::Eligible || known.stays() || known.marked != Some(run) {
        return Ok(None);
    }
    Transition::of(known.state, Command::Sweep, COLLECTOR).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Known = Known {
        state: State::Tombstoned,
        is_referenced: false,
        is_held: false,
        is_recalled: false,
        is_due: true,
        marked: None,
    };

    fn marked(known: Known) -> Option<State> {
        mark(known, 7).expect("an edge").map(Transition::to)
    }

    fn swept(known: Known) -> Option<State> {
        sweep(known, 7).expect("an edge").map(Transition::to)
    }

    #[test]
    fn only_what_nothing_keeps_is_marked() {
        assert_eq!(marked(FREE), Some(State::Eligible));
        for kept in [
            Known { is_referenced: true, ..FREE },
            Known { is_held: true, ..FREE },
            Known { is_recalled: true, ..FREE },
            Known { is_due: false, ..FREE },
            Known { state: State::Live, ..FREE },
            Known { state: State::Deleted, ..FREE },
        ] {
            assert_eq!(marked(kept), None, "{kept:?}");
        }
    }

    #[test]
    fn what_an_earlier_run_left_is_marked_anew_or_lives_again() {
        let left = Known { state: State::Eligible, marked: Some(6), ..FREE };
        assert_eq!(marked(left), Some(State::Eligible));
        assert_eq!(marked(Known { marked: Some(7), ..left }), None, "it is marked already");
        assert_eq!(marked(Known { is_referenced: true, ..left }), Some(State::Live));
        assert_eq!(marked(Known { is_held: true, ..left }), None, "a hold leaves it where it is");
    }

    #[test]
    fn only_what_this_run_marked_is_swept_and_only_while_nothing_keeps_it() {
        let ours = Known { state: State::Eligible, marked: Some(7), ..FREE };
        assert_eq!(swept(ours), Some(State::Deleted));
        for kept in [
            Known { marked: Some(6), ..ours },
            Known { marked: None, ..ours },
            Known { is_referenced: true, ..ours },
            Known { is_held: true, ..ours },
            Known { is_recalled: true, ..ours },
            FREE,
        ] {
            assert_eq!(swept(kept), None, "{kept:?}");
        }
    }
}
