//! The lifecycle of a blob: needed, without a reference, to be collected, gone. Pure.
//!
//! A blob is born by schema content itself: with the upload that proved it, or with the attachment that names its object. What the
//! schema's triggers do is recorded by them.

use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `content.blobs.state`.
    State {
        /// Something refers to it, or an operator keeps it.
        Live = "live",
        /// The last reference is gone; until its deadline it can be taken back.
        Tombstoned = "tombstoned",
        /// A run of the collector has marked it.
        Eligible = "eligible_for_gc",
        /// Its object is to be deleted, or is gone.
        Deleted = "deleted",
    }
}

words! {
    /// The commands to a blob.
    Command {
        /// The last reference went.
        DeleteRequest = "delete_request",
        /// It is taken back.
        Undelete = "undelete",
        /// Its deadline has passed.
        RetentionElapsed = "retention_elapsed",
        /// A run looks at it again.
        Mark = "gc_mark",
        /// The run that marked it deletes it.
        Sweep = "gc_sweep",
    }
}

/// The collector, as its own role of the database and its own service account.
pub const COLLECTOR: Who = Who::named("collector");

/// The lifecycle of a blob; its log is `router.transitions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blob;

impl Lifecycle for Blob {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "blob";
    const ABOUT: &'static str = "an object of the store, from its first reference until it is deleted";
    const TABLE: &'static [Edge<State, Command>] = TABLE;
}

/// Every transition.
const TABLE: &[Edge<State, Command>] = edges! { State, Command:
    Live DeleteRequest -> Tombstoned [Who::SYSTEM]:
        "the last reference is gone", "deadline: now and retention.grace; at once where it is erased";
    Tombstoned Undelete -> Live [Who::SYSTEM, Who::OPERATOR]:
        "a new reference, or a reason", "deadline cleared; an operator's is kept for a time";
    Tombstoned RetentionElapsed -> Eligible [COLLECTOR]:
        "the deadline has passed; no reference, no hold, no recall", "the run";
    Eligible Undelete -> Live [Who::SYSTEM, Who::OPERATOR]:
        "a new reference, or a reason", "deadline and run cleared; an operator's is kept for a time";
    Eligible Mark -> Live [COLLECTOR]:
        "something refers to it", "deadline and run cleared";
    Eligible Mark -> Eligible [COLLECTOR]:
        "an earlier run marked it, and did not sweep it", "this run";
    Eligible Sweep -> Deleted [COLLECTOR]:
        "marked in this run, whose mark is complete and whose lease lives; no reference, no hold, no recall", "then the object, then a receipt";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::transition::checks::{every_triple, lines};

    #[test]
    fn every_triple_is_either_in_the_table_once_or_refused_with_the_legal_commands() {
        every_triple::<Blob>();
    }

    #[test]
    fn the_edges_are_those_of_the_page_and_the_two_that_it_left_out() {
        assert_eq!(
            lines::<Blob>(),
            [
                "live delete_request tombstoned",
                "tombstoned undelete live",
                "tombstoned retention_elapsed eligible_for_gc",
                // Until it is deleted an operator can take it back, and a new reference does.
                "eligible_for_gc undelete live",
                "eligible_for_gc gc_mark live",
                // A run that ended between mark and sweep leaves it to the next, which has to mark it anew.
                "eligible_for_gc gc_mark eligible_for_gc",
                "eligible_for_gc gc_sweep deleted",
            ]
        );
    }
}
