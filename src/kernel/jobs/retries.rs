//! The consequence of a job's end: which command, which pause, whether the attempt counts. Pure.

use std::time::Duration;

use rand::Rng;
use serde_json::Value;

use crate::backoff::backoff;
use crate::kernel::rows::{Attempts, Fence, Row, Stored, Write};
use crate::kernel::{Lifecycle, NotPossible, Transition, Who};

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending<L: Lifecycle> {
    /// It is done.
    Done {
        /// Its name in the lifecycle.
        command: L::Command,
        /// The state it leads to, where a guard decides between two ways.
        to: Option<L::State>,
        /// The room's columns that are written with it.
        columns: Option<Value>,
    },
    /// Nothing is wrong with the row: again, after a pause that grows with how often it was taken.
    Again,
    /// Nothing is wrong with the row, and nobody has looked at it: again, by whoever comes first.
    AtOnce,
    /// Nothing is wrong with the row: again, after this pause.
    After(Duration),
    /// The row itself is at fault; another try may follow.
    Failed {
        /// In words, for operators: no text of the row's.
        why: String,
        /// The room's columns that are written with it.
        columns: Option<Value>,
    },
    /// The row itself is at fault, and no try would change it.
    GivenUp {
        /// In words, for operators: no text of the row's.
        why: String,
        /// The room's columns that are written with it.
        columns: Option<Value>,
    },
}

impl<L: Lifecycle> Ending<L> {
    /// Done, and nothing of the room's is written with it.
    #[must_use]
    pub fn done(command: L::Command) -> Self {
        Self::Done { command, to: None, columns: None }
    }
}

/// When a row is tried again, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Failures of its own after which it is given up on.
    pub max_attempts: u32,
    /// Shortest pause.
    pub min: Duration,
    /// Longest pause.
    pub max: Duration,
}

impl Retries {
    /// The write that follows from `ending`. A failure counts the claim it ends; nothing else does.
    ///
    /// # Errors
    /// [`NotPossible`]: the table has no such end for a row that is worked on.
    pub fn settle<L: Stored>(
        self,
        row: &Row<L>,
        ending: Ending<L>,
        rng: &mut impl Rng,
    ) -> Result<Write<L>, NotPossible> {
        let fence = row.token.map_or(Fence::Locked, Fence::Lease);
        let asked = |command| Transition::of(row.state, command, Who::WORKER);
        let plain = |transition| Write::plain(row.id, fence, transition);
        let released = |pause| -> Result<_, NotPossible> {
            let transition = asked(L::WORK.release)?;
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
                let pause = Some(backoff(row.attempts, self.min, self.max, rng));
                Ok(Write { pause, reason: Some(why), columns, ..plain(asked(L::WORK.fail)?) })
            }
            Ending::Failed { why, columns } | Ending::GivenUp { why, columns } => {
                Ok(Write { reason: Some(why), columns, ..plain(asked(L::WORK.give_up)?) })
            }
        }
    }
}
