//! The sender: one message at a time, and its record once Slack has confirmed it.
//!
//! Failures are leased before they are posted and confirmed after. If we die in between, the lease ends and they are posted
//! again: at least once. No transaction is open during a call of Slack.

use std::sync::Arc;

use super::message::{Headline, Letterhead, text};
use crate::journal;
use crate::kernel::metric::Counter;
use crate::kernel::words;
use crate::ops::telemetry::EventName;
use crate::ports::{AlertLease, Failures, LedgerTrouble, Posted, Story, Webhook};

words! {
    /// The result of an alert.
    AlertResult {
        /// Confirmed by Slack.
        Sent = "sent",
        /// Not taken, to be tried again.
        Retried = "retried",
        /// Folded into a group, or repeated too soon.
        Suppressed = "suppressed",
    }
}

/// Alerts by result, one for each failure.
pub static ALERTS: Counter<AlertResult> =
    Counter::new("maple_router_alerts_total", "Alerts, by what became of them").by(&["result"]);

/// The result for the failures of one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notified {
    /// Slack confirmed the message; the lease is still to be confirmed in the rows.
    Sent(AlertLease),
    /// No failure was left to report.
    Nothing,
    /// Slack did not take the message; the rows are free again.
    Not(Posted),
}

/// Why a pass ended early; the remaining failures wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// Slack did not take a message.
    #[error("{sent} alerts were sent, the next was not taken: {why}; what is left stays pending")]
    NotTaken {
        /// Messages that Slack confirmed before.
        sent: usize,
        /// Slack's reply.
        why: String,
    },
    /// The rows could not be read or marked.
    #[error("{sent} alerts were sent; the rest cannot be sent or recorded now: {trouble}")]
    Ledger {
        /// Messages that Slack confirmed before.
        sent: usize,
        /// The database's error.
        trouble: LedgerTrouble,
    },
}

/// Makes messages and posts them.
#[derive(Debug, Clone)]
pub struct AlertSender {
    /// The target of the messages.
    pub webhook: Arc<dyn Webhook>,
    /// Pending failures, by source. A source that cannot be read delays no other.
    pub failures: Vec<Arc<dyn Failures>>,
    /// The fixed parts of each message.
    pub head: Letterhead,
}

impl AlertSender {
    /// Posts everything pending, now, without waiting for more of the same (`sweep --once`). Returns how many messages Slack
    /// confirmed.
    ///
    /// # Errors
    /// [`PassError`].
    pub async fn pass(&self) -> Result<usize, PassError> {
        let mut sent = 0;
        let mut refused = None;
        for failures in &self.failures {
            let causes = failures.unalerted().await;
            for cause in causes.map_err(|trouble| PassError::Ledger { sent, trouble })? {
                let notified = self.tell_failures(failures.as_ref(), &cause.cause).await;
                match notified.map_err(|trouble| PassError::Ledger { sent, trouble })? {
                    Notified::Sent(lease) => {
                        sent += 1;
                        let confirmed = failures.confirm(&lease).await;
                        confirmed.map_err(|trouble| PassError::Ledger { sent, trouble })?;
                    }
                    Notified::Nothing => {}
                    // A later text may get through.
                    Notified::Not(Posted::Rejected { said, only_this: true }) => refused = Some(said),
                    Notified::Not(posted) => return Err(PassError::NotTaken { sent, why: why(&posted) }),
                }
            }
        }
        refused.map_or(Ok(sent), |why| Err(PassError::NotTaken { sent, why }))
    }

    /// Posts the failures of one cause. The caller confirms their lease.
    ///
    /// # Errors
    /// [`LedgerTrouble`]: nothing was posted.
    pub async fn tell_failures(
        &self,
        failures: &dyn Failures,
        cause: &str,
    ) -> Result<Notified, LedgerTrouble> {
        let Some(lease) = failures.lease(cause).await? else { return Ok(Notified::Nothing) };
        let headline = Headline::Pile { count: lease.rows.len(), more: lease.more };
        let posted = self.tell(cause, headline, &lease.story).await;
        if posted == Posted::Sent {
            return Ok(Notified::Sent(lease));
        }
        if let Err(trouble) = failures.give_back(&lease).await {
            tracing::warn!(
                "failures without an alert are not given back, their lease ends by itself: {trouble}"
            );
        }
        Ok(Notified::Not(posted))
    }

    /// Posts one message and records the result.
    pub async fn tell(&self, cause: &str, headline: Headline, story: &Story) -> Posted {
        let posted = self.webhook.post(&text(&self.head, headline, story)).await;
        match &posted {
            Posted::Sent => {
                let count = match headline {
                    Headline::Pile { count, .. } => count,
                    Headline::Incident { .. } => 1,
                };
                ALERTS.add(AlertResult::Sent, 1);
                ALERTS
                    .add(AlertResult::Suppressed, u64::try_from(count.saturating_sub(1)).unwrap_or(u64::MAX));
                journal!(info, EventName::AlertSent, reason = cause, "Slack confirmed an alert for {count}");
            }
            Posted::RetryAfter(_) | Posted::Retry(_) | Posted::Rejected { .. } => {
                ALERTS.add(AlertResult::Retried, 1);
            }
        }
        posted
    }
}

/// Returns why a message was not taken.
pub(super) fn why(posted: &Posted) -> String {
    match posted {
        Posted::Sent => String::new(),
        Posted::RetryAfter(pause) => format!("Slack asks for a pause of {} s", pause.as_secs()),
        Posted::Retry(said) | Posted::Rejected { said, .. } => said.clone(),
    }
}
