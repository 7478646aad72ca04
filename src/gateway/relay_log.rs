//! The relay's log and queue (Postfix): the fate of mails that it has accepted.
//!
//! [`open`] follows the log where the configuration says it is: in the journal (`journal`), or in a file (`file`). Both
//! give every line to one reader (`line`), which believes nothing that a stranger could have written. [`RelayQueue`] asks
//! for the mails in the queue. Which mails are ours is not known here. If we die, reading resumes at the position answered
//! last: lines may repeat, none is left out without a word (`LogBatch::gap`). Never writes anything.

pub mod file;
mod inspect;
pub mod journal;
pub mod line;
pub mod queue;
mod trouble;

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

pub use inspect::inspect;
pub use queue::{RelayQueue, RelayQueueError};

use crate::config;
use crate::ports::{LogBatch, RelayLog, RelayLogError};

/// The relay's log from `position`, as a batch gave it; from its present end where that is empty. Opens nothing
/// yet: the first reading reports trouble.
#[must_use]
pub fn open(config: &config::RelayLog, position: &str) -> Box<dyn RelayLog> {
    match (&config.file, &config.unit) {
        (Some(path), _) => Box::new(file::FileLog::new(path, &config.syslog_name, position)),
        (None, Some(unit)) => {
            let journals = config.journal_directory.as_deref();
            Box::new(journal::JournalLog::new(unit, &config.syslog_name, journals, position))
        }
        (None, None) => Box::new(Nowhere),
    }
}

/// A log that is not configured; the configuration's own rules do not let that happen where it is enabled.
struct Nowhere;

impl RelayLog for Nowhere {
    fn read(&mut self, _patience: Duration) -> BoxFuture<'_, Result<LogBatch, RelayLogError>> {
        let error = RelayLogError("neither relay_log.unit nor relay_log.file is set".to_owned());
        futures::future::ready(Err(error)).boxed()
    }
}
