//! Starts and stops the task that tells people. It runs beside the routing, and ends with it.
//!
//! If we die, what waits to be told still stands in its rows.

use std::sync::Arc;

use tokio::sync::watch;

use super::LAST_WORDS;
use crate::kernel::tasks::Task;
use crate::ops::alerting::{Alerter, AlerterParts, Alerts, Desk, Pace};
use crate::ops::chance::Chance;
use crate::ops::incident::Open;
use crate::ports::Clock;

/// The alerter, where there is one.
pub(super) struct Alerting {
    task: Option<Task>,
    alerts: Option<Alerts>,
}

impl Alerting {
    /// Starts it, or says once that nobody is alerted.
    pub(super) fn start(
        desk: Option<Desk>,
        pace: Pace,
        incidents: watch::Receiver<Open>,
        clock: &Arc<dyn Clock>,
        chance: &Arc<Chance>,
    ) -> Self {
        let Some(desk) = desk else {
            tracing::warn!(
                "slack.webhook_file is not configured: nobody is alerted; failures stay in `maple-router status` as unalerted"
            );
            return Self { task: None, alerts: None };
        };
        let (clock, chance) = (Arc::clone(clock), Arc::clone(chance));
        let (alerter, alerts) =
            Alerter::new(AlerterParts { desk: Arc::new(desk), pace, incidents, clock, chance });
        Self { task: Some(Task::spawn("alerts", |stop| alerter.run(stop))), alerts: Some(alerts) }
    }

    /// For those who must know that people were told; `None` where nobody is.
    pub(super) fn alerts(&self) -> Option<Alerts> {
        self.alerts.clone()
    }

    /// Lets the message that is on its way end. What waits stays in its rows, for the next start or another daemon.
    pub(super) async fn stop(self) {
        if let Some(task) = self.task {
            task.stop(LAST_WORDS).await;
        }
    }
}
