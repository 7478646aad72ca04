//! The consequence of a job's end: the command, the pause, and whether the attempt counts. Pure.

use std::time::Duration;

use rand::Rng;
use serde_json::Value;

use crate::backoff::backoff;
use crate::kernel::rows::{Attempts, Fence, Row, Stored, Write};
use crate::kernel::{Lifecycle, NotPossible, Transition, Who};

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending<L: Lifecycle> {
    /// The work is done.
    Done {
        /// The command that records it.
        command: L::Command,
        /// The state after it, where a guard decides between two edges.
        to: Option<L::State>,
        /// The room's columns to write.
        columns: Option<Value>,
    },
    /// The row is fine: again, after a pause that grows with its claims.
    Again,
    /// The row is fine, and no work was done on it: again, by the next worker.
    AtOnce,
    /// The row is fine: again, after this pause.
    After(Duration),
    /// The row itself is at fault; another attempt may follow.
    Failed {
        /// The cause in words, for operators: no text of the row.
        why: String,
        /// The room's columns to write.
        columns: Option<Value>,
    },
    /// The row itself is at fault, and no attempt would change it.
    GivenUp {
        /// The cause in words, for operators: no text of the row.
        why: String,
        /// The room's columns to write.
        columns: Option<Value>,
    },
}

impl<L: Lifecycle> Ending<L> {
    /// [`Self::Done`] without columns of the room.
    #[must_use]
    pub fn done(command: L::Command) -> Self {
        Self::Done { command, to: None, columns: None }
    }
}

/// Pauses and number of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Failures of the row itself after which it is given up on.
    pub max_attempts: u32,
    /// Shortest pause.
    pub min: Duration,
    /// Longest pause.
    pub max: Duration,
    /// How often the longest pause doubles from one attempt to the next: 1 for a factor of 2, 2 for a factor of 4.
    pub doublings: u32,
}

impl Retries {
    /// Returns the write that follows from `ending`. Only a failure counts the claim that it ends.
    ///
    /// # Errors
    /// [`NotPossible`]: the table has no such edge for a row that is worked on.
    pub fn settle<L: Stored>(
        self,
        row: &Row<L>,
        ending: Ending<L>,
        rng: &mut impl Rng,
    ) -> Result<Write<L>, NotPossible> {
        let work = const {
            match L::WORK {
                Some(work) => work,
                None => panic!("rows without jobs are not worked on"),
            }
        };
        let fence = row.token.map_or(Fence::Locked, Fence::Lease);
        let asked = |command| Transition::of(row.state, command, Who::WORKER);
        let plain = |transition| Write::plain(row.id, fence, transition);
        let released = |pause| -> Result<_, NotPossible> {
            let transition = asked(work.release)?;
            Ok(Write { attempts: Attempts::Refund, pause: Some(pause), ..plain(transition) })
        };
        match ending {
            Ending::Done { command, to, columns } => {
                let transition = match to {
                    Some(to) => Transition::leading(row.state, command, to, Who::WORKER)?,
                    None => asked(command)?,
                };
                Ok(Write { columns, ..plain(transition) })
            }
            Ending::Again => released(backoff(row.claims, self.min, self.max, rng)),
            Ending::AtOnce => released(Duration::ZERO),
            Ending::After(pause) => released(pause),
            Ending::Failed { why, columns } if row.attempts < self.max_attempts => {
                let step = row.attempts.saturating_sub(1).saturating_mul(self.doublings).saturating_add(1);
                let pause = Some(backoff(step, self.min, self.max, rng));
                Ok(Write { pause, reason: Some(why), columns, ..plain(asked(work.fail)?) })
            }
            Ending::Failed { why, columns } | Ending::GivenUp { why, columns } => {
                Ok(Write { reason: Some(why), columns, ..plain(asked(work.give_up)?) })
            }
        }
    }
}
