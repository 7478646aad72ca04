//! The one generic test of every lifecycle: each state × command × author against the real statements. Permitted
//! commands happen and are recorded; all others leave no trace, whatever the row carries; a fence that is not the
//! row's changes nothing.

use std::future::Future;

use maple_router::kernel::{Lifecycle, Transition, Who, Word};

/// Fence with which a command is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The row's own.
    Own,
    /// A fence that was the row's, or never was.
    Stale,
}

/// A lifecycle's real statements, and eyes that see what they did.
pub(crate) trait Real<L: Lifecycle> {
    /// Name of a row.
    type Id: Copy;

    /// A row in `state` of which everything but the state allows `command`.
    fn row(&self, state: L::State, command: L::Command, by: Who) -> impl Future<Output = Self::Id>;

    /// Gives the command in every way there is; `false` where `by` has no statement for it, or it takes no fence and that was
    /// asked for.
    fn give(&self, id: Self::Id, command: L::Command, by: Who, fence: Fence) -> impl Future<Output = bool>;

    /// Returns the row's state.
    fn state(&self, id: Self::Id) -> impl Future<Output = L::State>;

    /// The whole row and all that is recorded of it, to be compared.
    fn trace(&self, id: Self::Id) -> impl Future<Output = String>;

    /// Fails unless the record of what happened to a fresh row is exactly this transition.
    fn recorded(&self, id: Self::Id, done: Transition<L>) -> impl Future<Output = ()>;

    /// Whether a command leaves more than its state behind where the table refuses it: facts stand whoever brings them.
    fn leaves_facts(&self, _command: L::Command) -> bool {
        false
    }
}

/// Runs the test of the header. Returns how many triples had a statement, and how many of those the table allows.
pub(crate) async fn lifecycle_holds<L: Lifecycle>(real: &impl Real<L>, who: &[Who]) -> (usize, usize) {
    let (mut tried, mut allowed) = (0, 0);
    for (from, command, by) in triples::<L>(who) {
        let what = format!("{}: {command} by {by} from {from}", L::NAME);
        let id = real.row(from, command, by).await;
        let before = real.trace(id).await;
        if real.give(id, command, by, Fence::Stale).await {
            assert_eq!(real.state(id).await, from, "{what}, with a stale fence");
            if !real.leaves_facts(command) {
                assert_eq!(real.trace(id).await, before, "{what}, with a stale fence");
            }
        }
        let id = real.row(from, command, by).await;
        let before = real.trace(id).await;
        if !real.give(id, command, by, Fence::Own).await {
            continue;
        }
        tried += 1;
        match Transition::<L>::of(from, command, by) {
            Ok(done) => {
                allowed += 1;
                assert_eq!(real.state(id).await, done.to(), "{what}: {}", real.trace(id).await);
                real.recorded(id, done).await;
            }
            Err(refusal) => {
                assert_eq!(real.state(id).await, from, "{what}: {refusal}");
                if !real.leaves_facts(command) {
                    assert_eq!(real.trace(id).await, before, "{what} leaves no trace: {refusal}");
                }
            }
        }
    }
    (tried, allowed)
}

fn triples<L: Lifecycle>(who: &[Who]) -> Vec<(L::State, L::Command, Who)> {
    let commands =
        L::State::ALL.iter().flat_map(|from| L::Command::ALL.iter().map(move |command| (*from, *command)));
    commands.flat_map(|(from, command)| who.iter().map(move |by| (from, command, *by))).collect()
}
