//! One message at a time: what is told, and what is recorded once Slack has confirmed it.
//!
//! Failures are leased before they are told of and confirmed after. If we die in between, the lease ends and they are told
//! of again: at least once. No transaction is open while Slack is spoken to.

use std::sync::Arc;

use super::message::{Headline, Letterhead, text};
use crate::journal;
use crate::ops::metrics::{self, AlertResult};
use crate::ops::telemetry::EventName;
use crate::ports::{AlertLease, Failures, LedgerTrouble, Posted, Story, Webhook};

/// What became of the failures of one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Slack confirmed the message; the lease is still to be confirmed in the rows.
    Sent(AlertLease),
    /// There was nothing to tell any more.
    Nothing,
    /// It could not be told; the rows are free again.
    Not(Posted),
}

/// Why a pass ended early; what it did not tell waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// Slack did not take a message.
    #[error("{sent} alerts were sent, the next was not taken: {why}; what is left stays pending")]
    NotTaken {
        /// Messages that Slack confirmed before.
        sent: usize,
        /// What Slack said.
        why: String,
    },
    /// The rows could not be read or marked.
    #[error("{sent} alerts were sent; the rest cannot be told of or recorded now: {trouble}")]
    Ledger {
        /// Messages that Slack confirmed before.
        sent: usize,
        /// What the database said.
        trouble: LedgerTrouble,
    },
}

/// Where messages are made and handed over.
#[derive(Debug, Clone)]
pub struct Desk {
    /// Where they go.
    pub webhook: Arc<dyn Webhook>,
    /// Failures that wait to be told of, by where they are kept. A place that cannot be read holds up no other.
    pub failures: Vec<Arc<dyn Failures>>,
    /// What stands on each.
    pub head: Letterhead,
}

impl Desk {
    /// Tells of everything that waits, now, without waiting for more of the same (`sweep --once`). Answers how many
    /// messages Slack confirmed.
    ///
    /// # Errors
    /// [`PassError`].
    pub async fn pass(&self) -> Result<usize, PassError> {
        let mut sent = 0;
        let mut refused = None;
        for failures in &self.failures {
            let causes = failures.unalerted().await;
            for cause in causes.map_err(|trouble| PassError::Ledger { sent, trouble })? {
                let told = self.tell_failures(failures.as_ref(), &cause.cause).await;
                match told.map_err(|trouble| PassError::Ledger { sent, trouble })? {
                    Told::Sent(lease) => {
                        sent += 1;
                        let confirmed = failures.confirm(&lease).await;
                        confirmed.map_err(|trouble| PassError::Ledger { sent, trouble })?;
                    }
                    Told::Nothing => {}
                    // Another text may get through.
                    Told::Not(Posted::Rejected { said, only_this: true }) => refused = Some(said),
                    Told::Not(posted) => return Err(PassError::NotTaken { sent, why: why(&posted) }),
                }
            }
        }
        refused.map_or(Ok(sent), |why| Err(PassError::NotTaken { sent, why }))
    }

    /// Tells of the failures of one cause. Their confirmation where they are kept is the caller's.
    ///
    /// # Errors
    /// [`LedgerTrouble`]: nothing was told.
    pub async fn tell_failures(&self, failures: &dyn Failures, cause: &str) -> Result<Told, LedgerTrouble> {
        let Some(lease) = failures.lease(cause).await? else { return Ok(Told::Nothing) };
        let headline = Headline::Pile { count: lease.rows.len(), more: lease.more };
        let posted = self.tell(cause, headline, &lease.story).await;
        if posted == Posted::Sent {
            return Ok(Told::Sent(lease));
        }
        if let Err(trouble) = failures.give_back(&lease).await {
            tracing::warn!(
                "failures that were not told of are not given back, their lease ends by itself: {trouble}"
            );
        }
        Ok(Told::Not(posted))
    }

    /// Posts one message and writes down what became of it.
    pub async fn tell(&self, cause: &str, headline: Headline, story: &Story) -> Posted {
        let posted = self.webhook.post(&text(&self.head, headline, story)).await;
        match &posted {
            Posted::Sent => {
                let count = match headline {
                    Headline::Pile { count, .. } => count,
                    Headline::Incident { .. } => 1,
                };
                metrics::alerts(AlertResult::Sent, 1);
                metrics::alerts(AlertResult::Suppressed, count.saturating_sub(1));
                journal!(info, EventName::AlertSent, reason = cause, "Slack confirmed an alert for {count}");
            }
            Posted::RetryAfter(_) | Posted::Retry(_) | Posted::Rejected { .. } => {
                metrics::alerts(AlertResult::Retried, 1);
            }
        }
        posted
    }
}

/// Why it was not taken.
pub(super) fn why(posted: &Posted) -> String {
    match posted {
        Posted::Sent => String::new(),
        Posted::RetryAfter(pause) => format!("Slack asks for a pause of {} s", pause.as_secs()),
        Posted::Retry(said) | Posted::Rejected { said, .. } => said.clone(),
    }
}
