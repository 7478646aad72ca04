//! Starts and stops the alerter. It runs beside the routing, and ends with it.
//!
//! If we die, pending alerts still stand in their rows.

use std::sync::Arc;

use tokio::sync::watch;

use super::LAST_WORDS;
use crate::kernel::tasks::Task;
use crate::ops::alerting::{AlertIntervals, AlertSender, Alerter, AlerterParts, Alerts};
use crate::ops::incident::Open;
use crate::ops::rng::Rng;
use crate::ports::Clock;

/// The alerter, where there is one.
pub(super) struct Alerting {
    task: Option<Task>,
    alerts: Option<Alerts>,
}

impl Alerting {
    /// Starts the alerter, or logs once that nobody is alerted.
    pub(super) fn start(
        sender: Option<AlertSender>,
        intervals: AlertIntervals,
        incidents: watch::Receiver<Open>,
        clock: &Arc<dyn Clock>,
        rng: &Arc<Rng>,
    ) -> Self {
        let Some(sender) = sender else {
            tracing::warn!(
                "slack.webhook_file is not configured: nobody is alerted; failures stay in `maple-router status` as unalerted"
            );
            return Self { task: None, alerts: None };
        };
        let (clock, rng) = (Arc::clone(clock), Arc::clone(rng));
        let (alerter, alerts) =
            Alerter::new(AlerterParts { sender: Arc::new(sender), intervals, incidents, clock, rng });
        Self { task: Some(Task::spawn("alerts", |stop| alerter.run(stop))), alerts: Some(alerts) }
    }

    /// Alerts for tasks that must know that people were notified; `None` where nobody is.
    pub(super) fn alerts(&self) -> Option<Alerts> {
        self.alerts.clone()
    }

    /// Lets the message that is on its way end. Pending alerts stay in their rows, for the next start or another daemon.
    pub(super) async fn stop(self) {
        if let Some(task) = self.task {
            task.stop(LAST_WORDS).await;
        }
    }
}
