//! AUTO_APPROVED and VENDOR_APPROVED: the last step. What is published is what was screened; the schema's trigger does the rest in the
//! same transaction: the submission's event, and of a repository its publication.
//!
//! What a trusted origin brings is looked at all the same: a block keeps nothing back, and opens an entry.

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Tools, poisoned};
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::screening::table::{Command, Screening, State};

/// The work of a run that was approved.
#[derive(Debug, Clone)]
pub struct Publish {
    /// What it needs.
    pub tools: Tools,
}

impl Work for Publish {
    type Of = Screening;

    fn run<'a>(&'a self, row: &'a Row<Screening>) -> BoxFuture<'a, Ending<Screening>> {
        async move {
            if let Some(poisoned) = poisoned(row) {
                return poisoned;
            }
            let looked = if row.state == State::VendorApproved {
                self.tools.ruled(row).await.map(drop)
            } else {
                self.tools.submitted(row).await.map(drop)
            };
            match looked {
                Ok(()) => Ending::done(Command::PublishComplete),
                Err(ending) => ending,
            }
        }
        .boxed()
    }
}
