//! Tickets that the help desk has more than once, until people know of them: only a person can close what is too much.
//!
//! Submissions are kept in the state directory until Slack has confirmed their notice. If we die in between, the next start
//! notifies again: at least once, never not at all. The ledger names the tickets; a notice names the submission alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::ops::alerting::{Alerts, Notice};
use crate::ops::state_dir::StateDir;
use crate::ports::{Clock, Runbook};
use crate::scrub::scrub;

/// What to do about such tickets.
pub const RUNBOOK: Runbook = Runbook { file: "rb-009-routing-failure.md", section: "tickets_twice" };

/// Directory of the submissions without a confirmed notice, in the state directory.
const DIR: &str = "extra_tickets";
/// Pause before a notice that was dropped is raised again.
const AGAIN: Duration = Duration::from_secs(5);
/// Notices that wait for Slack at once.
const TELLING: usize = 64;

/// The submissions with further tickets that nobody has been notified of. Cheap to clone: all clones share their state.
#[derive(Debug, Clone)]
pub struct ExtraTickets {
    dir: StateDir,
    pending: Arc<Mutex<BTreeSet<Uuid>>>,
    news: Arc<Notify>,
}

impl ExtraTickets {
    /// Those that a former process has left in this state directory are read by [`Self::tell`].
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self { dir: StateDir::new(state_dir).below(DIR), pending: Arc::default(), news: Arc::default() }
    }

    /// Adds a submission; idempotent. A directory that does not take it costs only what a death in between would cost.
    pub async fn add(&self, submission: Uuid) {
        if let Err(error) = self.dir.write(&submission.to_string(), Vec::new()).await {
            let error = scrub(&error.to_string());
            tracing::warn!(submission_id = %submission, "that it has further tickets is kept in memory only: {error}");
        }
        self.pending().insert(submission);
        self.news.notify_one();
    }

    /// Has people notified, until it is aborted.
    pub async fn tell(&self, alerts: &Alerts, clock: &dyn Clock) {
        self.restore().await;
        let (mut telling, mut notifying) = (BTreeSet::new(), FuturesUnordered::new());
        loop {
            let waiting: Vec<Uuid> = self.pending().difference(&telling).copied().collect();
            for id in waiting.into_iter().take(TELLING.saturating_sub(telling.len())) {
                telling.insert(id);
                let notified = alerts.notice(notice(id));
                notifying.push(async move { (id, notified.await.is_ok()) });
            }
            tokio::select! {
                Some((id, notified)) = notifying.next(), if !notifying.is_empty() => {
                    if notified {
                        self.forget(id).await;
                    } else {
                        clock.sleep(AGAIN).await;
                    }
                    telling.remove(&id);
                }
                () = self.news.notified() => {}
            }
        }
    }

    async fn restore(&self) {
        let entries = self.dir.entries().await.unwrap_or_default();
        let ids = entries.into_iter().filter_map(|entry| entry.name.to_str()?.parse::<Uuid>().ok());
        self.pending().extend(ids);
    }

    async fn forget(&self, submission: Uuid) {
        self.pending().remove(&submission);
        if let Err(error) = self.dir.remove(&submission.to_string()).await {
            let error = scrub(&error.to_string());
            tracing::warn!(submission_id = %submission, "people are notified of its further tickets again: {error}");
        }
    }

    fn pending(&self) -> MutexGuard<'_, BTreeSet<Uuid>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn notice(submission: Uuid) -> Notice {
    Notice {
        cause: "the help desk has more than one ticket for the same action: close what is too much",
        sample: format!("submission {submission}"),
        command: format!("maple-router explain {submission}"),
        runbook: RUNBOOK,
    }
}
