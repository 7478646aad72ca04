//! Consequences of a reload: each part takes the new values while it runs; no connection is made anew, no work
//! disturbed.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::gateway::happyfox::HelpDeskClient;
use crate::gateway::smtp::Connections;
use crate::ops::live::Live;
use crate::routing::receive::ReceiveBounds;
use crate::routing::worker::prepare::ChangingRules;
use crate::scrub::scrub;

/// A running daemon's input from its signals, and its answer.
#[derive(Debug, Clone)]
pub struct Reloads {
    /// The configuration in force; only live keys differ from the one at the start.
    pub config: watch::Receiver<Arc<Config>>,
    /// Cancelled when the daemon is ready: before, there is nothing to reload.
    pub ready: CancellationToken,
}

/// The parts that take new values by themselves.
pub(super) struct Following {
    pub(super) rules: Live<ChangingRules>,
    pub(super) bounds: Live<ReceiveBounds>,
    pub(super) connections: Connections,
    pub(super) help_desk: Option<Arc<HelpDeskClient>>,
}

impl Following {
    /// Hands every new configuration on, for ever.
    pub(super) async fn follow(self, mut config: watch::Receiver<Arc<Config>>) {
        while config.changed().await.is_ok() {
            let config = Arc::clone(&config.borrow_and_update());
            match ChangingRules::new(&config) {
                Ok(rules) => self.rules.set(rules),
                Err(why) => tracing::error!("the rules for mails stay as they are: {}", scrub(&why)),
            }
            let bounds = ReceiveBounds { max_in_flight: config.routing.max_in_flight, ..*self.bounds.get() };
            self.bounds.set(bounds);
            self.connections.set_rate_limit(config.smtp.max_per_minute);
            if let Some(help_desk) = &self.help_desk {
                help_desk.set_max_per_minute(config.happyfox.max_per_minute);
            }
        }
    }
}

/// Resolves at the next configuration; never where none can come any more.
pub(super) async fn changed(config: &mut watch::Receiver<Arc<Config>>) {
    if config.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
