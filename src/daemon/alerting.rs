//! Starts and stops the alerter. It runs beside the routing, and ends with it.
//!
//! If we die, pending alerts still stand in their rows.

use std::sync::Arc;

use tokio::sync::watch;

use super::LAST_WORDS;
use crate::kernel::tasks::Tasks;
use crate::ops::alerting::{AlertIntervals, AlertSender, Alerter, AlerterParts, Alerts};
use crate::ops::incident::Open;
use crate::ops::rng::Rng;
use crate::ports::Clock;

/// The alerter, where there is one, and that of the security team: a channel that is in trouble keeps no other waiting.
pub(super) struct Alerting {
    tasks: Tasks,
    alerts: Option<Alerts>,
}

/// The senders of messages, by channel.
pub(super) struct Senders {
    pub(super) all: Option<AlertSender>,
    /// Of what the review escalates; absent where that goes to the others' channel.
    pub(super) security: Option<AlertSender>,
}

impl Alerting {
    /// Starts the alerter, or logs once that nobody is alerted.
    pub(super) fn start(
        senders: Senders,
        intervals: AlertIntervals,
        incidents: watch::Receiver<Open>,
        clock: &Arc<dyn Clock>,
        rng: &Arc<Rng>,
    ) -> Self {
        let mut tasks = Tasks::new();
        let parts = |sender, incidents, is_measured| {
            let (clock, rng) = (Arc::clone(clock), Arc::clone(rng));
            AlerterParts { sender: Arc::new(sender), intervals, incidents, clock, rng, is_measured }
        };
        if let Some(security) = senders.security {
            let (alerter, _) = Alerter::new(parts(security, watch::channel(Open::new()).1, false));
            tasks.spawn("security's alerts", |stop| alerter.run(stop));
        }
        let Some(sender) = senders.all else {
            tracing::warn!(
                "slack.webhook_file is not configured: nobody is alerted; failures stay in `maple-router status` as unalerted"
            );
            return Self { tasks, alerts: None };
        };
        let (alerter, alerts) = Alerter::new(parts(sender, incidents, true));
        tasks.spawn("alerts", |stop| alerter.run(stop));
        Self { tasks, alerts: Some(alerts) }
    }

    /// Alerts for tasks that must know that people were notified; `None` where nobody is.
    pub(super) fn alerts(&self) -> Option<Alerts> {
        self.alerts.clone()
    }

    /// Lets the message that is on its way end. Pending alerts stay in their rows, for the next start or another daemon.
    pub(super) async fn stop(self) {
        self.tasks.stop(LAST_WORDS).await;
    }
}
