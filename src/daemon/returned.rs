//! Reads returned mails beside the routing, with `[bounces]` on.
//!
//! If we die, mails stay in their Maildir, and the next start reads on.

use std::sync::Arc;

use tokio::sync::watch;

use super::LAST_WORDS;
use crate::config::Config;
use crate::gateway::bounces::Maildir;
use crate::kernel::tasks::Task;
use crate::ops::incident::Incidents;
use crate::parts;
use crate::routing::follow::returned::{Returns, ReturnsParts};
use crate::routing::store::delivery::Unnotified;
use crate::routing::worker::Worker;

/// The reader of returned mails.
pub(super) struct Returning(Task);

impl Returning {
    /// `None` where `[bounces]` is off. `lost` receives lost mails.
    pub(super) fn start(
        worker: &Arc<Worker>,
        config: watch::Receiver<Arc<Config>>,
        incidents: &Incidents,
        lost: Box<dyn Fn(Unnotified) + Send + Sync>,
    ) -> Option<Self> {
        let address = worker.preparer.rules.returns.clone()?;
        let maildir = Maildir::new(&config.borrow().bounces.maildir);
        let returns = Returns::new(ReturnsParts {
            maildir,
            address,
            store: worker.store.clone(),
            by: format!("returned@{}", parts::host()),
            outages: worker.outages.clone(),
            incidents: incidents.clone(),
            clock: Arc::clone(&worker.clock),
            config,
            lost,
        });
        Some(Self(Task::spawn("returned mails", |stop| async move { returns.run(&stop).await })))
    }

    /// Stops: a record under way is finished; the next start reads the other mails.
    pub(super) async fn stop(self) {
        self.0.stop(LAST_WORDS).await;
    }
}
